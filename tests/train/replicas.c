/* Replicas: gradients that no thread can change, that add up to those of the whole batch, and that
 * accumulate. */
#include "qkv/replicas.h"

#include "tiny.h"

#include "qkv/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_SIZE = 11, TARGET_SIZE = 9, SENTENCES = 10 };

static const int64_t SOURCE[SENTENCES] = {3, 1, 6, 0, 2, 9, 4, 4, 1, 7},
                     TARGET[SENTENCES] = {4, 0, 2, 7, 1, 8, 8, 3, 2, 5};

static struct qkv_model *model_of(enum qkv_dtype dtype, double dropout)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++)
        stacks[i]->dropout = stacks[i]->attention.rule.dropout = stacks[i]->embeddings.dropout = dropout;
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, dtype, 4);
}

/* With what attention has beside the usual, in float32 and with dropout. */
static struct qkv_model *varied_model(enum qkv_attention_kernel kernel)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->attention.rule.dropout = 0.3;
        stacks[i]->attention.rule.window = 3;
        stacks[i]->attention.rule.global_tokens = 1;
        stacks[i]->attention.rule.key_value_heads = 1;
        stacks[i]->attention.rule.kernel = kernel;
        stacks[i]->positions.type = i ? QKV_POSITION_RELATIVE : QKV_POSITION_ROTARY;
    }
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
}

/* One model on one team. */
struct bench {
    struct qkv_model *model;
    struct qkv_workers *workers;
    struct qkv_replicas *replicas;
};

static struct bench bench_with(struct qkv_model *model, int threads, int shards, int blocks)
{
    struct qkv_error error = {""};
    struct bench b = {.model = model, .workers = qkv_workers_new(threads, &error)};
    cr_assert_not_null(b.workers, "%s", error.message);
    b.replicas = qkv_replicas_new(b.model, b.workers, shards, blocks, &error);
    cr_assert_not_null(b.replicas, "%s", error.message);
    cr_assert_eq(qkv_replicas_shards(b.replicas), shards);
    return b;
}

static struct bench bench_of(enum qkv_dtype dtype, double dropout, int threads, int shards)
{
    return bench_with(model_of(dtype, dropout), threads, shards, shards);
}

/* All shards add to one block. */
static struct bench chain_of(enum qkv_dtype dtype, double dropout, int threads, int shards)
{
    struct bench b = bench_with(model_of(dtype, dropout), threads, shards, 1);
    cr_assert_eq(qkv_replicas_blocks(b.replicas), 1);
    return b;
}

typedef struct bench bench_maker(enum qkv_dtype dtype, double dropout, int threads, int shards);
static bench_maker *const MAKERS[] = {bench_of, chain_of};

static void release(struct bench *b)
{
    qkv_replicas_free(b->replicas);
    qkv_workers_free(b->workers);
    qkv_model_free(b->model);
}

static struct qkv_step_sums step(struct bench *b, struct qkv_batch *batch, const struct qkv_random *random,
                                 bool accumulate)
{
    struct qkv_error error = {""};
    struct qkv_step_sums sums;
    cr_assert_eq(qkv_replicas_step(b->replicas, batch, 0.1, random, accumulate, &sums, &error), QKV_OK, "%s",
                 error.message);
    return sums;
}

/* The gradients of all blocks, added up in their order; on the heap. */
static double *gradient_of(const struct bench *b)
{
    const struct qkv_parameters *parameters = &b->model->parameters;
    void *const *blocks = qkv_replicas_gradients(b->replicas);
    double *sum = calloc((size_t)parameters->elements, sizeof *sum);
    for (int s = 0; s < qkv_replicas_blocks(b->replicas); s++)
        for (int64_t i = 0; i < parameters->elements; i++)
            sum[i] += parameters->dtype == QKV_FLOAT32 ? (double)((const float *)blocks[s])[i]
                                                       : ((const double *)blocks[s])[i];
    return sum;
}

static void expect_close(const struct bench *b, const double *found, const double *expected, double tolerance)
{
    double largest = 0;
    for (int64_t i = 0; i < b->model->parameters.elements; i++) largest = fmax(largest, fabs(expected[i]));
    cr_assert_gt(largest, 0.1);
    for (int64_t i = 0; i < b->model->parameters.elements; i++)
        cr_assert_float_eq(found[i], expected[i], tolerance * largest, "[%lld]: %.17g, not %.17g",
                           (long long)i, found[i], expected[i]);
}

/* ---- threads and shards ---- */

static void expect_same_bits(struct qkv_model *make_model(int kind), int kind, size_t blocks)
{
    static const int THREADS[] = {1, 2, 3, 4, 7};
    const struct qkv_random random = {.seed = 3, .step = 8};
    struct qkv_batch batch = {0};
    struct qkv_step_sums expected = {0};
    char *first = NULL;
    for (int t = 0; t < 5; t++) {
        struct bench b = bench_with(make_model(kind), THREADS[t], 4, (int)blocks);
        size_t bytes = (size_t)b.model->parameters.elements * sizeof(float);
        tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
        for (int round = 0; round < 3; round++) {
            struct qkv_step_sums sums = step(&b, &batch, &random, false);
            if (!first) {
                first = malloc(blocks * bytes);
                for (size_t s = 0; s < blocks; s++)
                    memcpy(first + s * bytes, qkv_replicas_gradients(b.replicas)[s], bytes);
                expected = sums;
            }
            for (size_t s = 0; s < blocks; s++)
                cr_assert_arr_eq(first + s * bytes, qkv_replicas_gradients(b.replicas)[s], bytes,
                                 "%d threads, block %zu of %zu", THREADS[t], s, blocks);
            cr_assert_eq(sums.loss, expected.loss);
            cr_assert_eq(sums.negative_log_likelihood, expected.negative_log_likelihood);
            cr_assert_eq(sums.correct, expected.correct);
            cr_assert_eq(sums.tokens, expected.tokens);
        }
        release(&b);
    }
    free(first);
    qkv_batch_release(&batch);
}

static struct qkv_model *usual_model(int kind)
{
    (void)kind;
    return model_of(QKV_FLOAT32, 0.3);
}

static struct qkv_model *model_with_kernel(int kernel)
{
    return varied_model((enum qkv_attention_kernel)kernel);
}

Test(replicas, the_same_bits_with_any_number_of_threads)
{
    for (size_t blocks = 1; blocks <= 4; blocks *= 2) {
        expect_same_bits(usual_model, 0, blocks);
        expect_same_bits(model_with_kernel, QKV_KERNEL_EXACT, blocks);
        expect_same_bits(model_with_kernel, QKV_KERNEL_FLASH, blocks);
    }
}

/* Loss and gradient of the whole batch in one graph, without replicas. */
static double whole_batch(const struct qkv_model *model, struct qkv_batch *batch, double *gradient)
{
    struct qkv_batch_view view;
    qkv_batch_shard(batch, 0, 1, &view);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_bind(graph, &model->parameters, gradient, false);
    struct qkv_tensor *loss = qkv_model_loss(model, graph, &view, 0.1, 1, NULL);
    cr_assert_eq(qkv_graph_check(graph, NULL), QKV_OK);
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    double value = qkv_tensor_scalar(loss);
    qkv_graph_free(graph);
    return value;
}

static void expect_sum(bench_maker *make)
{
    struct qkv_batch batch = {0};
    for (int shards = 1; shards <= 13; shards += shards < 5 ? 1 : 4) { /* 13: more shards than sentences */
        struct bench b = make(QKV_FLOAT64, 0, 2, shards);
        tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
        double *expected = calloc((size_t)b.model->parameters.elements, sizeof *expected);
        double loss = whole_batch(b.model, &batch, expected);
        for (int round = 0; round < 2; round++) {
            struct qkv_step_sums sums = step(&b, &batch, NULL, false);
            double *found = gradient_of(&b);
            cr_expect_float_eq(sums.loss, loss, 1e-12 * loss, "%d shards", shards);
            cr_expect_eq(sums.tokens, batch.target_tokens);
            expect_close(&b, found, expected, 1e-12);
            free(found);
        }
        free(expected);
        release(&b);
    }
    qkv_batch_release(&batch);
}

Test(replicas, shards_add_up_to_the_whole_batch)
{
    for (int m = 0; m < 2; m++) expect_sum(MAKERS[m]);
}

Test(replicas, sums_are_those_of_the_forced_pass)
{
    struct qkv_batch batch = {0};
    struct qkv_batch_view view;
    struct bench b = bench_of(QKV_FLOAT64, 0, 2, 3);
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    qkv_batch_shard(&batch, 0, 1, &view);
    double *forced = tiny_log_probabilities(b.model, &view), likelihood = 0, smooth = 0, correct = 0;
    for (int64_t i = 0; i < view.target_tokens; i++) {
        const double *row = forced + i * TARGET_SIZE;
        int32_t best = 0;
        for (int32_t c = 0; c < TARGET_SIZE; c++) {
            smooth -= row[c] / TARGET_SIZE;
            if (row[c] > row[best]) best = c;
        }
        likelihood -= row[view.target_output[i]];
        correct += best == view.target_output[i];
    }
    struct qkv_step_sums sums = step(&b, &batch, NULL, false);
    cr_expect_float_eq(sums.negative_log_likelihood, likelihood, 1e-11);
    cr_expect_float_eq(sums.loss, 0.9 * likelihood + 0.1 * smooth, 1e-11);
    cr_expect_eq(sums.correct, correct);
    cr_expect_eq(sums.tokens, view.target_tokens);
    free(forced);
    qkv_batch_release(&batch);
    release(&b);
}

Test(replicas, single_precision_is_close_and_shards_differ_by_rounding_only)
{
    struct qkv_batch batch = {0};
    struct bench exact = bench_of(QKV_FLOAT64, 0, 1, 1);
    tiny_batch(&batch, exact.model, SENTENCES, SOURCE, TARGET, 2);
    step(&exact, &batch, NULL, false);
    double *expected = gradient_of(&exact);
    for (int shards = 1; shards <= 5; shards++) {
        struct bench b = bench_of(QKV_FLOAT32, 0, 2, shards);
        step(&b, &batch, NULL, false);
        double *found = gradient_of(&b);
        expect_close(&b, found, expected, 1e-5);
        free(found);
        release(&b);
    }
    free(expected);
    qkv_batch_release(&batch);
    release(&exact);
}

/* ---- accumulation and empty shards ---- */

static void expect_accumulation(bench_maker *make)
{
    struct qkv_batch batch = {0}, half = {0};
    struct bench b = make(QKV_FLOAT64, 0, 2, 3);
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    double *expected = calloc((size_t)b.model->parameters.elements, sizeof *expected);
    double loss = whole_batch(b.model, &batch, expected), sum = 0;
    /* The first part has fewer sentences than there are shards, so that an empty shard starts, and one
     * continues. */
    const int64_t FROM[] = {0, 2, 8}, TO[] = {2, 8, SENTENCES};
    for (int round = 0; round < 2; round++) {
        sum = 0;
        for (int part = 0; part < 3; part++) {
            struct qkv_ids source[SENTENCES], target[SENTENCES];
            int64_t count = 0;
            for (int64_t i = FROM[part]; i < TO[part]; i++, count++) {
                source[count] =
                    (struct qkv_ids){batch.source_length[i] - 1, batch.source + batch.source_start[i]};
                target[count] =
                    (struct qkv_ids){batch.target_length[i] - 1, batch.target_output + batch.target_start[i]};
            }
            cr_assert_eq(qkv_batch_make(&half, count, source, target, NULL), QKV_OK);
            sum += step(&b, &half, NULL, part > 0).loss;
        }
    }
    double *found = gradient_of(&b);
    cr_expect_float_eq(sum, loss, 1e-12 * loss);
    expect_close(&b, found, expected, 1e-12);
    free(found);
    free(expected);
    qkv_batch_release(&batch);
    qkv_batch_release(&half);
    release(&b);
}

Test(replicas, accumulated_batches_are_one_batch)
{
    for (int m = 0; m < 2; m++) expect_accumulation(MAKERS[m]);
}

Test(replicas, an_empty_shard_has_no_gradient)
{
    struct qkv_batch batch = {0};
    struct bench b = bench_of(QKV_FLOAT64, 0.2, 2, 4);
    const struct qkv_random random = {.seed = 3, .step = 8};
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    step(&b, &batch, &random, false); /* every shard has had one */
    tiny_batch(&batch, b.model, 1, SOURCE, TARGET, 2);
    struct qkv_step_sums sums = step(&b, &batch, &random, false);
    cr_expect_eq(sums.tokens, TARGET[0] + 1);
    int with = 0;
    for (int s = 0; s < 4; s++) {
        const double *gradient = qkv_replicas_gradients(b.replicas)[s];
        bool any = false;
        for (int64_t i = 0; i < b.model->parameters.elements; i++) any = any || gradient[i] != 0;
        with += any;
    }
    cr_expect_eq(with, 1);
    qkv_batch_release(&batch);
    release(&b);
}

/* ---- dropout ---- */

Test(replicas, dropout_follows_seed_and_step_and_differs_between_shards)
{
    struct qkv_batch batch = {0};
    struct bench b = bench_of(QKV_FLOAT64, 0.3, 2, 2);
    /* Two equal halves: only their masks can make a difference. */
    struct qkv_ids words[4];
    static const int32_t IDS[] = {3, 4, 5, 6, 7};
    for (int i = 0; i < 4; i++) words[i] = (struct qkv_ids){5, IDS};
    cr_assert_eq(qkv_batch_make(&batch, 4, words, words, NULL), QKV_OK);
    size_t bytes = (size_t)b.model->parameters.elements * sizeof(double);
    const struct qkv_random random = {.seed = 3, .step = 8}, next = {.seed = 3, .step = 9},
                            seed = {.seed = 4, .step = 8};
    double loss = step(&b, &batch, &random, false).loss;
    cr_expect_neq(memcmp(qkv_replicas_gradients(b.replicas)[0], qkv_replicas_gradients(b.replicas)[1], bytes),
                  0);
    cr_expect_neq(step(&b, &batch, &next, false).loss, loss);
    cr_expect_neq(step(&b, &batch, &seed, false).loss, loss);
    cr_expect_eq(step(&b, &batch, &random, false).loss, loss);
    step(&b, &batch, NULL, false);
    cr_expect_arr_eq(qkv_replicas_gradients(b.replicas)[0], qkv_replicas_gradients(b.replicas)[1], bytes,
                     "without dropout, equal shards have equal gradients");
    qkv_batch_release(&batch);
    release(&b);
}

/* ---- what fails ---- */

static void expect_name(bench_maker *make)
{
    struct qkv_batch batch = {0};
    struct bench b = make(QKV_FLOAT32, 0, 2, 3);
    struct qkv_error error = {""};
    struct qkv_step_sums sums;
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    const struct qkv_parameter *weight =
        qkv_parameters_find(&b.model->parameters, "decoder.1.cross.query.weight");
    cr_assert_not_null(weight);
    double kept = qkv_parameter_get(&b.model->parameters, weight, 0);
    qkv_parameter_set(&b.model->parameters, weight, 0, NAN);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, 0, NULL, false, &sums, &error), QKV_FAILED);
    cr_expect_not_null(strstr(error.message, "decoder.1.cross.query.weight (leaf)"), "%s", error.message);
    qkv_parameter_set(&b.model->parameters, weight, 0, kept);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, 0, NULL, false, &sums, &error), QKV_OK,
                 "and goes on after it");
    qkv_batch_release(&batch);
    release(&b);
}

Test(replicas, divergence_names_the_first_tensor_that_is_not_finite)
{
    for (int m = 0; m < 2; m++) expect_name(MAKERS[m]);
}

static void expect_refusal(bench_maker *make)
{
    struct qkv_batch batch = {0};
    struct bench b = make(QKV_FLOAT32, 0, 2, 3);
    struct qkv_error error = {""};
    struct qkv_step_sums sums;
    tiny_batch(&batch, b.model, 2, (int64_t[]){3, 24}, (int64_t[]){2, 2}, 1);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, 0, NULL, false, &sums, &error), QKV_INVALID);
    cr_expect_not_null(strstr(error.message, "25 rows from position 0 on, but the table has 24 positions"),
                       "%s", error.message);
    tiny_batch(&batch, b.model, 2, (int64_t[]){3, 4}, (int64_t[]){2, 2}, 1);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, 0, NULL, false, &sums, &error), QKV_OK,
                 "and goes on after it");
    qkv_batch_release(&batch);
    release(&b);
}

Test(replicas, a_sentence_without_positions_is_refused)
{
    for (int m = 0; m < 2; m++) expect_refusal(MAKERS[m]);
}

/* ---- blocks ---- */

Test(replicas, blocks_are_as_many_as_asked_for_or_fit_the_model)
{
    static const int CASES[][3] = {
        {4, 0, 4}, {4, 2, 2}, {4, 3, 2}, {5, 2, 2}, {9, 4, 3}}; /* shards, asked, made */
    for (int i = 0; i < 5; i++) {
        struct bench b = bench_with(model_of(QKV_FLOAT32, 0), 1, CASES[i][0], CASES[i][1]);
        cr_expect_eq(qkv_replicas_blocks(b.replicas), CASES[i][2], "%d shards, %d blocks: %d", CASES[i][0],
                     CASES[i][1], qkv_replicas_blocks(b.replicas));
        release(&b);
    }
    struct qkv_model_config config = tiny_config();
    config.encoder.ff_size = config.decoder.ff_size = 40000; /* more than a million numbers */
    struct bench b = bench_with(tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4), 1, 9, 0);
    cr_expect_gt(b.model->parameters.elements, 1 << 20);
    cr_expect_eq(qkv_replicas_blocks(b.replicas), 2);
    release(&b);
}
