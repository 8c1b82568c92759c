#include "parameters.h"

#include "framework/engine/graph/internal.h"

#include "figures/optimizers.h"

/* Parameters with as many numbers as the sizes say, all zero. */
static struct qkv_parameters block(enum qkv_dtype dtype, int count, const int64_t *sizes)
{
    struct qkv_parameters parameters = {0};
    for (int i = 0; i < count; i++) qkv_parameters_add(&parameters, QKV_SHAPE(sizes[i]), ZEROS, "part.%d", i);
    expect_done(qkv_parameters_allocate(&parameters, dtype, &error));
    return parameters;
}

static struct qkv_optimizer optimizer_for(const struct qkv_parameters *parameters,
                                          struct qkv_optimizer_options config)
{
    struct qkv_optimizer optimizer;
    expect_done(qkv_optimizer_init(&optimizer, &config, parameters, &error));
    return optimizer;
}

static size_t bytes_of(const struct qkv_parameters *parameters)
{
    return (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
}

/* A gradient block of zeros. */
static void *gradient_block(const struct qkv_parameters *parameters)
{
    return made(calloc(1, bytes_of(parameters)));
}

static void put(const struct qkv_parameters *parameters, void *memory, int part, int64_t i, double value)
{
    int64_t at = parameters->list[part]->offset + i;
    if (parameters->dtype == QKV_FLOAT32)
        ((float *)memory)[at] = (float)value;
    else
        ((double *)memory)[at] = value;
}

/* ---- PyTorch's figures; start and gradient are those of figures/optimizers.py ---- */

static double figure_gradient(int i, int update)
{
    static const double sizes[4] = {1e-3, 1e-2, 1e-1, 1};
    if (i == 5 && update < 4) return 0;
    return (((i * 7 + update * 5) % 11) - 5) / 4.0 * sizes[i % 4];
}

static void follow_figure(size_t figure, enum qkv_dtype dtype, double bound)
{
    static const int64_t sizes[2] = {4, FIGURE_COUNT - 4};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(dtype, 2, sizes);
    struct qkv_optimizer_options config = {.optimizer = FIGURES[figure].kind,
                                           .adam_betas = {FIGURES[figure].betas[0], FIGURES[figure].betas[1]},
                                           .adam_epsilon = FIGURES[figure].epsilon,
                                           .momentum = FIGURES[figure].momentum,
                                           .weight_decay = FIGURES[figure].weight_decay,
                                           .nesterov = FIGURES[figure].nesterov};
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, config);
    struct qkv_workers *workers RELEASED(free_workers) = made(qkv_workers_new(2, &error));
    void *gradients RELEASED(free_memory) = gradient_block(&parameters);
    for (int i = 0; i < FIGURE_COUNT; i++) put(&parameters, parameters.values, i / 4, i % 4, (i - 3) / 2.0);
    for (int update = 1; update <= FIGURE_UPDATES; update++) {
        for (int i = 0; i < FIGURE_COUNT; i++)
            put(&parameters, gradients, i / 4, i % 4, figure_gradient(i, update));
        qkv_optimizer_step(&optimizer, &parameters, workers, 1, &gradients, 1, FIGURES[figure].learning_rate);
    }
    for (int i = 0; i < FIGURE_COUNT; i++) {
        double right = FIGURES[figure].values[i];
        double found = qkv_parameter_get(&parameters, parameters.list[i / 4], i % 4);
        cr_assert_float_eq(found, right, bound * fmax(1, fabs(right)),
                           "%s, number %d: %.17g, but PyTorch has %.17g", FIGURES[figure].name, i, found,
                           right);
    }
    cr_assert_eq(optimizer.state.updates, FIGURE_UPDATES);
}

/* Instruction sets that this machine lacks stand for its fastest. */
Test(optimizer, follows_pytorch_in_every_instruction_set)
{
    static const char *const variants[] = {"portable", "avx2", "avx512"};
    for (int v = 0; v < 3; v++) {
        setenv("QKV_KERNELS", variants[v], 1);
        for (size_t i = 0; i < sizeof FIGURES / sizeof FIGURES[0]; i++) {
            follow_figure(i, QKV_FLOAT64, 1e-12);
            follow_figure(i, QKV_FLOAT32, 1e-5);
        }
    }
}

/* ---- threads and shards ---- */

enum { PARTS = 3, MAX_SHARDS = 3 };
static const int64_t PART_SIZES[PARTS] = {2 * 16384 + 5, 33, 16384 - 100};

/* Numbers without a pattern, in [-1, 1). */
static void fill(const struct qkv_parameters *parameters, void *memory, uint64_t seed)
{
    for (int part = 0; part < parameters->count; part++)
        for (int64_t i = 0; i < parameters->list[part]->count; i++) {
            struct qkv_random random = {seed, QKV_STREAM_CHECK, (uint32_t)part};
            put(parameters, memory, part, i, 2 * qkv_random_uniform(random, (uint64_t)i) - 1);
        }
}

struct trained {
    struct qkv_parameters parameters;
    struct qkv_optimizer optimizer;
    double norms[3];
};

static struct trained train(enum qkv_dtype dtype, enum qkv_optimizer_kind kind, int threads, int shards)
{
    struct trained trained = {.parameters = block(dtype, PARTS, PART_SIZES)};
    struct qkv_optimizer_options config = {.optimizer = kind,
                                           .adam_betas = {0.9, 0.999},
                                           .adam_epsilon = 1e-8,
                                           .momentum = 0.9,
                                           .weight_decay = 0.01,
                                           .clip_grad_val = 0.9,
                                           .clip_grad_norm = 5};
    trained.optimizer = optimizer_for(&trained.parameters, config);
    fill(&trained.parameters, trained.parameters.values, 1);
    struct qkv_workers *workers RELEASED(free_workers) = made(qkv_workers_new(threads, &error));
    void *gradients[MAX_SHARDS];
    for (int s = 0; s < shards; s++) gradients[s] = gradient_block(&trained.parameters);
    for (uint64_t step = 0; step < 3; step++) {
        for (int s = 0; s < shards; s++) fill(&trained.parameters, gradients[s], 10 * step + (uint64_t)s);
        trained.norms[step] = qkv_optimizer_step(&trained.optimizer, &trained.parameters, workers, shards,
                                                 gradients, 1.0 / shards, 0.01);
    }
    for (int s = 0; s < shards; s++) free(gradients[s]);
    return trained;
}

static void release_trained(struct trained *trained)
{
    qkv_optimizer_release(&trained->optimizer);
    qkv_parameters_release(&trained->parameters);
}

static void expect_same(const struct trained *a, const struct trained *b)
{
    size_t size = bytes_of(&a->parameters);
    cr_assert_eq(memcmp(a->parameters.values, b->parameters.values, size), 0, "values differ");
    cr_assert_eq(memcmp(a->optimizer.state.moments[0], b->optimizer.state.moments[0], size), 0,
                 "first moments differ");
    if (a->optimizer.state.moments[1])
        cr_assert_eq(memcmp(a->optimizer.state.moments[1], b->optimizer.state.moments[1], size), 0,
                     "second moments differ");
    cr_assert_eq(memcmp(a->norms, b->norms, sizeof a->norms), 0, "norms differ");
}

Test(optimizer, gives_the_same_bits_with_any_number_of_threads)
{
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++)
        for (int kind = QKV_OPTIMIZER_ADAM; kind < QKV_OPTIMIZER_COUNT; kind++)
            for (int shards = 1; shards <= MAX_SHARDS; shards += 2) {
                struct trained one RELEASED(release_trained) =
                    train((enum qkv_dtype)dtype, (enum qkv_optimizer_kind)kind, 1, shards);
                for (int threads = 2; threads <= 4; threads++) {
                    struct trained many RELEASED(release_trained) =
                        train((enum qkv_dtype)dtype, (enum qkv_optimizer_kind)kind, threads, shards);
                    expect_same(&one, &many);
                }
            }
}

Test(optimizer, keeps_the_gaps_between_parameters_zero)
{
    struct trained trained RELEASED(release_trained) = train(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 2, 3);
    const float *values = trained.parameters.values;
    for (int part = 0; part < PARTS; part++) {
        const struct qkv_parameter *parameter = trained.parameters.list[part];
        int64_t end =
            part + 1 < PARTS ? trained.parameters.list[part + 1]->offset : trained.parameters.elements;
        for (int64_t i = parameter->offset + parameter->count; i < end; i++)
            cr_assert_eq(values[i], 0.0f, "gap %lld", (long long)i);
    }
}

/* ---- orders of summation ---- */

/* The norm, in the order that is the same for all instruction sets: 16 lanes within a part of 2,048 numbers, the upper half
 * of the lanes added to the lower half until one is left; then parts, then ranges of 16,384 numbers. */
static double ordered_norm(int64_t count, const float *numbers)
{
    double sum = 0, range = 0;
    for (int64_t start = 0; start < count; start += 2048) {
        double lane[16] = {0};
        for (int64_t i = start; i < count && i < start + 2048; i++)
            lane[(i - start) % 16] += (double)numbers[i] * (double)numbers[i];
        for (int half = 8; half > 0; half /= 2)
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        range += lane[0];
        if ((start + 2048) % 16384 && start + 2048 < count) continue;
        sum += range;
        range = 0;
    }
    return sqrt(sum);
}

Test(optimizer, the_norm_has_the_same_bits_with_any_instruction_set)
{
    static const char *const VARIANTS[] = {"avx512", "avx2", "portable"};
    enum { COUNT = 50007 };
    const struct qkv_optimizer_options sgd = {.optimizer = QKV_OPTIMIZER_SGD};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) =
        block(QKV_FLOAT32, 1, (int64_t[]){COUNT});
    float *gradient RELEASED(free_memory) = gradient_block(&parameters);
    void *gradients[] = {gradient};
    /* Squares of 1 are lost in a lane that has reached 2^54. */
    for (int i = 0; i < COUNT; i++) gradient[i] = i % 4099 ? 1 : 0x1p27f;
    double expected = ordered_norm(COUNT, gradient);
    for (int v = 0; v < 3; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, sgd);
        double norm = qkv_optimizer_step(&optimizer, &parameters, NULL, 1, gradients, 1, 0);
        cr_expect_eq(norm, expected, "%s: %.17g, not %.17g", VARIANTS[v], norm, expected);
    }
}

/* Rounding tells the orders apart: 2^24 + 1 is 2^24, but 2^24 + (1 + 1) is not. */
Test(optimizer, sums_blocks_as_a_tree)
{
    static const struct {
        int blocks;
        float gradients[6];
        float sum;
    } CASES[] = {
        {4, {0x1p24f, 0, 1, 1}, 0x1p24f + 2},       /* one after the other: 2^24 */
        {4, {0x1p24f, 1, 1, 0}, 0x1p24f},           /* from the right: 2^24 + 2 */
        {3, {0x1p24f, 1, 1}, 0x1p24f},              /* the last one has no neighbour */
        {6, {0x1p24f, 0, 0, 0, 1, 1}, 0x1p24f + 2}, /* a pair has none */
        {5, {0x1p24f, 0, 1, 0, 1}, 0x1p24f},
    };
    const struct qkv_optimizer_options sgd = {.optimizer = QKV_OPTIMIZER_SGD};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(QKV_FLOAT32, 1, (int64_t[]){1});
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        float numbers[6][16] = {{0}};
        void *gradients[6];
        struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, sgd);
        for (int b = 0; b < CASES[c].blocks; b++) {
            numbers[b][0] = CASES[c].gradients[b];
            gradients[b] = numbers[b];
        }
        qkv_optimizer_step(&optimizer, &parameters, NULL, CASES[c].blocks, gradients, 1, 0);
        cr_expect_eq(numbers[0][0], CASES[c].sum, "case %zu: %.9g", c, (double)numbers[0][0]);
    }
}

/* ---- by hand: SGD without momentum and a learning rate of 1 subtracts what is left of the gradient ---- */

struct by_hand {
    double clip_value, clip_norm, scale;
    double gradients[3][3]; /* of three shards */
    double norm, result[3]; /* what must come out */
};

static void check_by_hand(const struct by_hand *hand, enum qkv_dtype dtype)
{
    static const int64_t sizes[2] = {1, 2};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(dtype, 2, sizes);
    struct qkv_optimizer_options config = {
        .optimizer = QKV_OPTIMIZER_SGD, .clip_grad_val = hand->clip_value, .clip_grad_norm = hand->clip_norm};
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, config);
    struct qkv_workers *workers RELEASED(free_workers) = made(qkv_workers_new(1, &error));
    void *gradients[3];
    for (int s = 0; s < 3; s++) {
        gradients[s] = gradient_block(&parameters);
        for (int i = 0; i < 3; i++)
            put(&parameters, gradients[s], i > 0, i > 0 ? i - 1 : 0, hand->gradients[s][i]);
    }
    double norm = qkv_optimizer_step(&optimizer, &parameters, workers, 3, gradients, hand->scale, 1);
    double bound = dtype == QKV_FLOAT32 ? 1e-6 : 1e-14;
    cr_assert_float_eq(norm, hand->norm, bound * 10, "norm is %g, not %g", norm, hand->norm);
    for (int i = 0; i < 3; i++) {
        double moved = -qkv_parameter_get(&parameters, parameters.list[i > 0], i > 0 ? i - 1 : 0);
        cr_assert_float_eq(moved, hand->result[i], bound, "number %d is %g, not %g", i, moved,
                           hand->result[i]);
    }
    for (int s = 0; s < 3; s++) free(gradients[s]);
}

Test(optimizer, scales_and_clips_as_computed_by_hand)
{
    const double root26 = sqrt(26), root104 = sqrt(104);
    /* By norm: 5 is scaled to 1; a norm below the limit, or just at it, is left alone. By value and norm: first to (2, 1, -2)
     * of norm 3; the norm that is told is that before both. */
    const struct by_hand cases[] = {
        {.scale = 1, .gradients = {{3, 0, -4}}, .norm = 5, .result = {3, 0, -4}},
        {.scale = 0.5, .gradients = {{3, 0, -4}}, .norm = 2.5, .result = {1.5, 0, -2}},
        {0, 0, 0.25, {{1, 0, -4}, {5, 1, -8}, {6, -1, -4}}, .norm = 5, .result = {3, 0, -4}},
        {.clip_norm = 1, .scale = 1, .gradients = {{3, 0, -4}}, .norm = 5, .result = {0.6, 0, -0.8}},
        {.clip_norm = 5, .scale = 1, .gradients = {{3, 0, -4}}, .norm = 5, .result = {3, 0, -4}},
        {.clip_norm = 9, .scale = 1, .gradients = {{3, 0, -4}}, .norm = 5, .result = {3, 0, -4}},
        {.clip_value = 2, .scale = 1, .gradients = {{3, 1, -4}}, .norm = root26, .result = {2, 1, -2}},
        {.clip_value = 4, .scale = 2, .gradients = {{3, 1, -4}}, .norm = root104, .result = {4, 2, -4}},
        {2, 1.5, .scale = 1, .gradients = {{3, 1, -4}}, .norm = root26, .result = {1, 0.5, -1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_by_hand(&cases[i], QKV_FLOAT32);
        check_by_hand(&cases[i], QKV_FLOAT64);
    }
}

/* ---- what may go wrong ---- */

Test(optimizer, changes_nothing_when_the_gradient_is_not_finite)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY, NAN};
    for (int c = 0; c < 4; c++) {
        static const int64_t sizes[2] = {20, 30};
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(QKV_FLOAT32, 2, sizes);
        struct qkv_optimizer_options config = {.optimizer = QKV_OPTIMIZER_ADAM,
                                               .adam_betas = {0.9, 0.99},
                                               .adam_epsilon = 1e-8,
                                               .clip_grad_val = c / 2};
        struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, config);
        struct qkv_workers *workers RELEASED(free_workers) = made(qkv_workers_new(2, &error));
        void *gradients RELEASED(free_memory) = gradient_block(&parameters),
                        *before RELEASED(free_memory) = malloc(bytes_of(&parameters));
        fill(&parameters, gradients, 3);
        qkv_optimizer_step(&optimizer, &parameters, workers, 1, &gradients, 1, 0.1);
        cr_assert_null(qkv_parameters_find_not_finite(&parameters, gradients));
        memcpy(before, parameters.values, bytes_of(&parameters));
        put(&parameters, gradients, 1, 17, bad[c]);
        double norm = qkv_optimizer_step(&optimizer, &parameters, workers, 1, &gradients, 1, 0.1);
        cr_assert_not(isfinite(norm));
        cr_assert_eq(optimizer.state.updates, 1);
        cr_assert_eq(parameters.changes, 1);
        cr_assert_eq(memcmp(before, parameters.values, bytes_of(&parameters)), 0);
        cr_assert_null(qkv_parameters_find_not_finite(&parameters, optimizer.state.moments[0]));
        cr_assert_null(qkv_parameters_find_not_finite(&parameters, optimizer.state.moments[1]));
        cr_assert_str_eq(qkv_parameters_find_not_finite(&parameters, gradients)->name, "part.1");
    }
}

/* Without this, moments of rows that get no gradient any more end in subnormal numbers. */
Test(optimizer, lets_moments_vanish)
{
    static const int64_t sizes[1] = {40};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(QKV_FLOAT32, 1, sizes);
    struct qkv_optimizer_options config = {
        .optimizer = QKV_OPTIMIZER_ADAM, .adam_betas = {0.9, 0.5}, .adam_epsilon = 1e-8};
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, config);
    struct qkv_workers *workers RELEASED(free_workers) = made(qkv_workers_new(1, &error));
    void *gradients RELEASED(free_memory) = gradient_block(&parameters);
    fill(&parameters, gradients, 3);
    for (int step = 0; step < 1000; step++) {
        qkv_optimizer_step(&optimizer, &parameters, workers, 1, &gradients, 1, 0.1);
        memset(gradients, 0, bytes_of(&parameters));
    }
    for (int i = 0; i < 40; i++) {
        cr_assert_eq(((float *)optimizer.state.moments[0])[i], 0.0f);
        cr_assert_eq(((float *)optimizer.state.moments[1])[i], 0.0f);
    }
    cr_assert_null(qkv_parameters_find_not_finite(&parameters, parameters.values));
}

/* With an epsilon of 0 a parameter whose gradient is 0 becomes NaN. */
Test(optimizer, refuses_settings_that_nobody_has_set)
{
    static const struct {
        struct qkv_optimizer_options options;
        const char *message;
    } cases[] = {
        {{0}, "adam_epsilon is 0, but must be greater than 0"},
        {{QKV_OPTIMIZER_ADAMW, {0.9, 0.999}}, "adam_epsilon is 0, but must be greater than 0"},
        {{.adam_epsilon = 1e-8, .adam_betas = {0.9, 1}},
         "adam_betas is 1, but must be at least 0 and less than 1"},
        {{QKV_OPTIMIZER_SGD, .momentum = NAN}, "momentum is not a finite number"},
        {{QKV_OPTIMIZER_SGD, .clip_grad_norm = -1}, "clip_grad_norm is -1, but must be at least 0"},
        {{QKV_OPTIMIZER_SGD, .ema = 1}, "ema is 1, but must be at least 0 and less than 1"},
        {{(enum qkv_optimizer_kind)9}, "there is no optimizer 9"},
    };
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(QKV_FLOAT32, 1, (int64_t[]){3});
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = {0};
        expect_refusal(qkv_optimizer_init(&optimizer, &cases[i].options, &parameters, &error),
                       format("optimizer: %s", cases[i].message));
    }
}

Test(optimizer, refuses_what_it_was_not_made_for)
{
    const struct qkv_optimizer_options sgd = {.optimizer = QKV_OPTIMIZER_SGD};
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = block(QKV_FLOAT32, 1, (int64_t[]){3}),
                                     none = {0};
    struct qkv_parameters other RELEASED(qkv_parameters_release) = block(QKV_FLOAT32, 1, (int64_t[]){40});
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = optimizer_for(&parameters, sgd),
                                   unmade = {0};
    float gradient[16] = {1, 2, 3};
    void *gradients[] = {gradient};
    cr_expect_eq(qkv_optimizer_init(&unmade, &sgd, &none, NULL), QKV_INVALID, "not allocated");
    cr_expect(isnan(qkv_optimizer_step(&optimizer, &other, NULL, 1, gradients, 1, 0.1)));
    cr_expect(isnan(qkv_optimizer_step(&optimizer, &parameters, NULL, 0, gradients, 1, 0.1)));
    cr_expect(isnan(qkv_optimizer_step(&optimizer, &parameters, NULL, 1, gradients, 1, (double)NAN)));
    cr_expect(isnan(qkv_optimizer_step(&unmade, &parameters, NULL, 1, gradients, 1, 0.1)));
    for (int i = 0; i < 3; i++)
        cr_expect_eq(qkv_parameter_get(&parameters, parameters.list[0], i), 0, "nothing has changed");
}
