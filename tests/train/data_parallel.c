/* Data parallelism over a loss of the program's own: a regression, whose shards may be empty. */
#include "parameters.h"

#include "framework/engine/graph/internal.h"
#include "framework/engine/optimize/optimize.h"

enum { FEATURES = 3, EXAMPLES = 29, LAST_PART = QKV_LOSS_PARTS - 1, LAST_SUM = QKV_FURTHER_SUMS - 1 };

/* The sum over examples of (w x - y)^2. */
struct regression {
    struct qkv_parameters parameters;
    const struct qkv_parameter *weight; /* [FEATURES, 1] */
    float x[EXAMPLES * FEATURES], y[EXAMPLES];
    int examples; /* 0 .. EXAMPLES */
    int failing;  /* a shard that cannot be built; -1: none */
    int first[EXAMPLES], count[EXAMPLES];
};

static int64_t begin(void *context, int shard, int shards)
{
    struct regression *r = context;
    r->first[shard] = r->examples * shard / shards;
    r->count[shard] = r->examples * (shard + 1) / shards - r->first[shard];
    return r->count[shard];
}

static struct qkv_tensor *build(void *context, struct qkv_shard *shard)
{
    struct regression *r = context;
    struct qkv_graph *graph = shard->graph;
    int64_t rows = r->count[shard->index], first = r->first[shard->index];
    if (shard->index == r->failing) return qkv_graph_fail(graph, "shard %d is not to be had", shard->index);
    struct qkv_tensor *x = qkv_wrap(graph, QKV_SHAPE(rows, FEATURES), r->x + first * FEATURES);
    struct qkv_tensor *y = qkv_wrap(graph, QKV_SHAPE(rows, 1), r->y + first);
    struct qkv_tensor *weight = qkv_graph_parameter(graph, r->weight);
    struct qkv_tensor *difference = qkv_subtract(graph, qkv_matmul(graph, x, weight, false, false), y);
    struct qkv_tensor *sum = qkv_sum(graph, qkv_multiply(graph, difference, difference), QKV_ALL);
    shard->part[LAST_PART] = sum;
    return sum;
}

/* Reads the loss, from the part that is the loss, and 1 for each shard. */
static void done(void *context, const struct qkv_shard *shard, const struct qkv_tensor *loss, double *further)
{
    (void)context, (void)loss;
    further[0] = shard->part[0] ? NAN : 1;
    further[LAST_SUM] = qkv_tensor_scalar(shard->part[LAST_PART]);
}

static struct regression *regression_new(void)
{
    struct regression *r = calloc(1, sizeof *r);
    cr_assert_not_null(r);
    r->weight = last_parameter(&r->parameters, QKV_FLOAT32, QKV_SHAPE(FEATURES, 1), NORMAL, "weight");
    for (int i = 0; i < EXAMPLES * FEATURES; i++) r->x[i] = (float)((i * 37 + 11) % 23) / 7;
    for (int i = 0; i < EXAMPLES; i++) r->y[i] = (float)((i * 17 + 3) % 13) / 5;
    r->examples = EXAMPLES;
    r->failing = -1;
    return r;
}

static void regression_free(struct regression **r)
{
    qkv_parameters_release(&(*r)->parameters);
    free(*r);
}

static int64_t begin_with_too_many(void *context, int shard, int shards)
{
    int64_t items = begin(context, shard, shards);
    return shard == 2 ? INT64_MAX : items;
}

static int64_t begin_with_less_than_none(void *context, int shard, int shards)
{
    int64_t items = begin(context, shard, shards);
    return shard == 2 ? -items : items;
}

static struct qkv_tensor *build_nothing(void *context, struct qkv_shard *shard)
{
    build(context, shard);
    return NULL;
}

static struct qkv_tensor *build_a_matrix(void *context, struct qkv_shard *shard)
{
    struct regression *r = context;
    struct qkv_graph *graph = shard->graph;
    return qkv_scale(graph,
                     qkv_wrap(graph, QKV_SHAPE(r->count[shard->index], 1), r->y + r->first[shard->index]), 2);
}

/* A mask with a value that its convention does not have: the graph fails when it runs. */
static struct qkv_tensor *build_with_a_wrong_mask(void *context, struct qkv_shard *shard)
{
    static const double MASK[FEATURES] = {1, 0.5, 1};
    struct qkv_graph *graph = shard->graph;
    struct qkv_tensor *weight = qkv_graph_parameter(graph, ((struct regression *)context)->weight),
                      *mask = qkv_constant(graph, QKV_SHAPE(FEATURES));
    qkv_tensor_write(mask, MASK);
    return qkv_sum(
        graph, qkv_attention(graph, weight, weight, weight, mask, (struct qkv_attention){.rule.heads = 1}),
        QKV_ALL);
}

/* Reads sums of a loss that is no cross entropy. */
static void read_other_sums(void *context, const struct qkv_shard *shard, const struct qkv_tensor *loss,
                            double *further)
{
    (void)context, (void)shard;
    qkv_cross_entropy_sums(loss, &further[0], &further[1]);
}

/* The sum of all blocks of gradients, in float64. */
static void gradients_of(const struct qkv_data_parallel *parallel, double sum[static FEATURES])
{
    int blocks;
    void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
    memset(sum, 0, FEATURES * sizeof *sum);
    for (int b = 0; b < blocks; b++)
        for (int i = 0; i < FEATURES; i++) sum[i] += (double)((const float *)gradients[b])[i];
}

static struct qkv_shard_loss loss_of(struct regression *r)
{
    return (struct qkv_shard_loss){.context = r, .begin = begin, .build = build, .done = done};
}

Test(data_parallel, sums_the_gradients_of_all_shards)
{
    for (int shards = 1; shards <= EXAMPLES; shards += 4) {
        struct regression *r RELEASED(regression_free) = regression_new();
        const struct qkv_shard_loss loss = loss_of(r);
        struct qkv_data_parallel *parallel RELEASED(free_data_parallel) =
            made(qkv_data_parallel_new(&r->parameters, NULL, shards, QKV_GRADIENTS_BY_SIZE, &error));
        struct qkv_shard_sums sums;
        cr_assert_eq(qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, NULL), QKV_OK);
        double expected[FEATURES] = {0}, total = 0, found[FEATURES];
        for (int i = 0; i < EXAMPLES; i++) {
            double difference = -(double)r->y[i];
            for (int64_t f = 0; f < FEATURES; f++)
                difference +=
                    (double)r->x[i * FEATURES + f] * qkv_parameter_get(&r->parameters, r->weight, f);
            total += difference * difference;
            for (int f = 0; f < FEATURES; f++) expected[f] += 2 * difference * (double)r->x[i * FEATURES + f];
        }
        cr_expect_eq(sums.items, EXAMPLES);
        cr_expect_float_eq(sums.loss, total, 1e-5 * total);
        cr_expect_eq(sums.further[0], shards, "`done` has seen every shard");
        cr_expect_eq(sums.further[LAST_SUM], sums.loss, "the same tree");
        gradients_of(parallel, found);
        for (int f = 0; f < FEATURES; f++)
            cr_expect_float_eq(found[f], expected[f], 1e-5 * fabs(expected[f]), "%d shards: %g, not %g",
                               shards, found[f], expected[f]);
    }
}

Test(data_parallel, refuses_what_cannot_be_done)
{
    static const struct {
        const char *message;
        struct qkv_shard_loss loss; /* its functions; NULL: the right one */
        bool is_empty, is_early;    /* without examples; refused where memory is reserved, too */
        int failing;                /* one more than the shard; 0: none */
    } CASES[] = {
        {"shard 2 is not to be had", .failing = 3},
        {"shard 0 is not to be had", .failing = 1, .is_early = true},
        {"a step in which no shard has items", .is_empty = true},
        {"shard 2 of a step has 9223372036854775807 items, after 14 of earlier shards",
         {.begin = begin_with_too_many}},
        {"shard 2 of a step has -7 items, after 14 of earlier shards", {.begin = begin_with_less_than_none}},
        {"shard 0: build returned NULL, but must return the loss as a scalar", {.build = build_nothing}},
        {"shard 0: build returned [7, 1], but must return the loss as a scalar",
         {.build = build_a_matrix},
         .is_early = true},
        {"attention: element 1 of the mask is 0.5, but must be 0 or 1 (mask_values is binary; masks of 0 and "
         "-infinity are additive)",
         {.build = build_with_a_wrong_mask}},
        {"sum (sum) is no cross entropy", {.done = read_other_sums}},
    };
    struct regression *r RELEASED(regression_free) = regression_new();
    struct qkv_shard_sums sums;
    expect_refusal_with(
        STATUS_OF(qkv_data_parallel_new(&r->parameters, NULL, 0, QKV_GRADIENTS_BY_SIZE, &error)), "0 shards");
    expect_refusal(
        STATUS_OF(qkv_data_parallel_new(&r->parameters, NULL, 4, (enum qkv_gradient_memory)77, &error)),
        "there is no memory for gradients of kind 77");
    struct qkv_data_parallel *parallel RELEASED(free_data_parallel) =
        made(qkv_data_parallel_new(&r->parameters, NULL, 4, QKV_GRADIENTS_BY_SIZE, &error));
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct qkv_shard_loss loss = loss_of(r);
        if (CASES[i].loss.begin) loss.begin = CASES[i].loss.begin;
        if (CASES[i].loss.build) loss.build = CASES[i].loss.build;
        if (CASES[i].loss.done) loss.done = CASES[i].loss.done;
        r->examples = CASES[i].is_empty ? 0 : EXAMPLES;
        r->failing = CASES[i].failing - 1;
        expect_refusal(qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, &error), CASES[i].message);
        if (CASES[i].is_early) cr_expect_eq(qkv_data_parallel_reserve(parallel, &loss, &error), QKV_INVALID);
    }
    const struct qkv_shard_loss good = loss_of(r);
    r->failing = -1;
    r->y[EXAMPLES - 1] = INFINITY;
    cr_expect_eq(qkv_data_parallel_step(parallel, &good, NULL, false, &sums, &error), QKV_FAILED);
    cr_expect(shows(error.message, "not finite"));
    r->y[EXAMPLES - 1] = 0;
    expect_done(qkv_data_parallel_step(parallel, &good, NULL, false, &sums, &error));
}

/* The gradients of a failed step must not be those of the step before, in whichever place it fails. */
Test(data_parallel, a_failed_step_has_no_gradients)
{
    struct regression *r RELEASED(regression_free) = regression_new();
    const struct qkv_shard_loss good = loss_of(r);
    struct qkv_shard_loss negative = good, nothing = good;
    negative.begin = begin_with_less_than_none;
    nothing.build = build_nothing;
    const struct qkv_shard_loss *const failing[] = {&negative, &nothing, &good, &good};
    struct qkv_data_parallel *parallel RELEASED(free_data_parallel) =
        qkv_data_parallel_new(&r->parameters, NULL, 4, QKV_GRADIENTS_BY_SIZE, NULL);
    struct qkv_shard_sums sums;
    double alone[FEATURES], after[FEATURES];
    cr_assert_eq(qkv_data_parallel_step(parallel, &good, NULL, false, &sums, NULL), QKV_OK);
    gradients_of(parallel, alone);
    for (int i = 0; i < 8; i++) {
        int blocks;
        const bool accumulate = i & 1;
        if (i / 2 == 2) r->examples = 0;
        if (i / 2 == 3) r->y[0] = INFINITY;
        cr_expect_neq(qkv_data_parallel_step(parallel, failing[i / 2], NULL, accumulate, &sums, NULL),
                      QKV_OK);
        qkv_data_parallel_gradients(parallel, &blocks);
        cr_expect_eq(blocks, 0, "case %d", i);
        r->examples = EXAMPLES;
        r->y[0] = 3 / 5.0f;
        cr_assert_eq(qkv_data_parallel_step(parallel, &good, NULL, true, &sums, NULL), QKV_OK);
        gradients_of(parallel, after);
        cr_expect_arr_eq(after, alone, sizeof alone, "case %d: a new sum begins", i);
    }
}

/* ---- memory: the gradients of parameters hold values until backward ---- */

enum { WORDS = 300, WIDTH = 16, LAYERS = 3, ROWS = 60 };

/* A classifier of words, whose embedding table has a much larger gradient than all values take. */
struct classifier {
    struct qkv_parameters parameters;
    const struct qkv_parameter *table, *layer[LAYERS], *output;
    int32_t words[ROWS], labels[ROWS];
    bool is_tied;
    size_t peak; /* bytes of the graph */
};

static int64_t begin_words(void *context, int shard, int shards)
{
    (void)context, (void)shard, (void)shards;
    return ROWS;
}

/* The square of the cross entropy, whose gradient is therefore not 1, and a value after it that is as large as the output's
 * gradient. The first layer is used again after the last. */
static struct qkv_tensor *build_classifier(void *context, struct qkv_shard *shard)
{
    struct classifier *c = context;
    struct qkv_graph *graph = shard->graph;
    struct qkv_tensor *x = qkv_embedding(graph, qkv_graph_parameter(graph, c->table), c->words, ROWS, 1);
    for (int i = 0; i <= LAYERS; i++)
        x = qkv_relu(graph,
                     qkv_linear(graph, x, qkv_graph_parameter(graph, c->layer[i % LAYERS]), NULL, false));
    const struct qkv_parameter *output = c->is_tied ? c->table : c->output;
    struct qkv_tensor *loss = qkv_linear_cross_entropy(graph, x, qkv_graph_parameter(graph, output), NULL,
                                                       true, c->labels, 0.1, 1.0 / ROWS);
    struct qkv_tensor *zeros = qkv_relu(graph, qkv_constant(graph, QKV_SHAPE(WORDS, WIDTH)));
    return qkv_add(graph, qkv_multiply(graph, loss, loss), qkv_sum(graph, zeros, QKV_ALL));
}

static void note_peak(void *context, const struct qkv_shard *shard, const struct qkv_tensor *loss,
                      double *further)
{
    struct classifier *c = context;
    (void)loss, (void)further;
    c->peak = qkv_graph_peak_bytes(shard->graph);
}

static struct classifier *classifier_new(bool is_tied)
{
    const struct qkv_initial normal = {QKV_INITIALIZER_NORMAL, 0.3};
    struct classifier *c = calloc(1, sizeof *c);
    cr_assert_not_null(c);
    c->is_tied = is_tied;
    c->table = qkv_parameters_add(&c->parameters, QKV_SHAPE(WORDS, WIDTH), normal, "table");
    for (int i = 0; i < LAYERS; i++)
        c->layer[i] = qkv_parameters_add(&c->parameters, QKV_SHAPE(WIDTH, WIDTH), normal, "layer.%d", i);
    c->output = last_parameter(&c->parameters, QKV_FLOAT32, QKV_SHAPE(WORDS, WIDTH), normal, "output");
    for (int i = 0; i < ROWS; i++) {
        c->words[i] = (i * 37 + 11) % WORDS;
        c->labels[i] = (i * 91 + 5) % WORDS;
    }
    return c;
}

/* Computes the gradients in a graph that the test has made. Returns the bytes of the graph. */
static size_t gradients_alone(struct classifier *c, bool share, float *gradients, double *loss)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_share_memory(graph, share);
    qkv_graph_bind(graph, &c->parameters, gradients, false);
    struct qkv_tensor *y = build_classifier(c, &(struct qkv_shard){.graph = graph});
    qkv_graph_plan(graph, y);
    qkv_forward(graph);
    *loss = qkv_tensor_scalar(y);
    qkv_backward(graph, y, NULL);
    cr_assert_eq(qkv_graph_check(graph, NULL), QKV_OK);
    size_t peak = qkv_graph_peak_bytes(graph);
    return peak;
}

Test(data_parallel, gradients_hold_values_until_backward)
{
    const size_t value = ROWS * WIDTH * sizeof(float), weight = WORDS * WIDTH * sizeof(float);
    for (int is_tied = 0; is_tied < 2; is_tied++) {
        struct classifier *c RELEASED(free_memory) = classifier_new(is_tied);
        int64_t count = c->parameters.elements;
        float *expected RELEASED(free_memory) = calloc((size_t)count, sizeof *expected);
        double alone;
        gradients_alone(c, false, expected, &alone);
        float *unused RELEASED(free_memory) = calloc((size_t)count, sizeof *unused);
        size_t shared = gradients_alone(c, true, unused, &alone);

        const struct qkv_shard_loss loss = {
            .context = c, .begin = begin_words, .build = build_classifier, .done = note_peak};
        struct qkv_data_parallel *parallel RELEASED(free_data_parallel) =
            qkv_data_parallel_new(&c->parameters, NULL, 1, QKV_GRADIENTS_SEPARATE, NULL);
        struct qkv_shard_sums sums;
        for (int round = 0; round < 2; round++) { /* the second finds gradients of the first */
            cr_assert_eq(qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, NULL), QKV_OK);
            int blocks;
            const float *found = qkv_data_parallel_gradients(parallel, &blocks)[0];
            cr_expect_eq(blocks, 1);
            cr_expect_eq(sums.loss, alone);
            for (int64_t p = 0; p < c->parameters.count; p++) {
                const struct qkv_parameter *parameter = c->parameters.list[p];
                cr_expect_arr_eq(found + parameter->offset, expected + parameter->offset,
                                 (size_t)parameter->count * sizeof *found, "%s, tied: %d", parameter->name,
                                 is_tied);
            }
        }
        /* The output's gradient is computed where backward needs it; untied, the table's holds a value for each layer. */
        cr_expect_leq(c->peak, shared - weight - (is_tied ? 0 : (LAYERS + 1) * value), "%zu of %zu bytes",
                      c->peak, shared);
        qkv_parameters_release(&c->parameters);
    }
}

/* Tables so narrow that the list of looked-up rows takes more memory than the table. */
enum { TABLES = 40, TABLE_ROWS = 4 };

struct narrow {
    struct qkv_parameters parameters;
    const struct qkv_parameter *table[TABLES]; /* [TABLE_ROWS, 1] */
};

static int64_t one_example(void *context, int shard, int shards)
{
    (void)context, (void)shard, (void)shards;
    return 1;
}

/* Looks two rows of every table up: first one of each, then the other. */
static struct qkv_tensor *sum_of_squares(void *context, struct qkv_shard *shard)
{
    struct narrow *n = context;
    struct qkv_tensor *sum = NULL;
    struct qkv_graph *graph = shard->graph;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < TABLES; i++) {
            int32_t row = (shard->index + pass + i) % TABLE_ROWS;
            double factor = 1 + 0.37 * i + shard->index + 2 * pass;
            struct qkv_tensor *x =
                qkv_embedding(graph, qkv_graph_parameter(graph, n->table[i]), &row, 1, factor);
            struct qkv_tensor *square = qkv_sum(graph, qkv_multiply(graph, x, x), QKV_ALL);
            sum = sum ? qkv_add(graph, sum, square) : square;
        }
    return sum;
}

static void sum_gradients(struct narrow *n, enum qkv_gradient_memory memory, float *sum)
{
    const struct qkv_shard_loss loss = {.context = n, .begin = one_example, .build = sum_of_squares};
    struct qkv_shard_sums sums;
    struct qkv_data_parallel *parallel RELEASED(free_data_parallel) =
        made(qkv_data_parallel_new(&n->parameters, NULL, 2, memory, &error));
    expect_done(qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, &error));
    int blocks;
    void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
    for (int64_t i = 0; i < n->parameters.elements; i++) {
        sum[i] = 0;
        for (int b = 0; b < blocks; b++) sum[i] += ((const float *)gradients[b])[i];
    }
}

Test(data_parallel, sums_have_the_same_bits_in_pairs_with_narrow_tables)
{
    struct narrow *n RELEASED(free_memory) = calloc(1, sizeof *n);
    cr_assert_not_null(n);
    for (int i = 0; i < TABLES; i++)
        n->table[i] = qkv_parameters_add(&n->parameters, QKV_SHAPE(TABLE_ROWS, 1), NORMAL, "table%d", i);
    make_parameters(&n->parameters, QKV_FLOAT32, 1);
    size_t elements = (size_t)n->parameters.elements;
    float *separate RELEASED(free_memory) = calloc(elements, sizeof *separate),
                    *paired RELEASED(free_memory) = calloc(elements, sizeof *paired);
    cr_assert(separate && paired);
    sum_gradients(n, QKV_GRADIENTS_SEPARATE, separate);
    sum_gradients(n, QKV_GRADIENTS_PAIRED, paired);
    cr_expect_arr_eq(separate, paired, elements * sizeof *separate);
    qkv_parameters_release(&n->parameters);
}
