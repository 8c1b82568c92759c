/* Replicas: gradients that no thread can change, that add up to those of the whole batch, and that
 * accumulate. */
#include "qkv/replicas.h"

#include "tiny_replicas.h"

#include "qkv/ops.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct bench bench_of(enum qkv_dtype dtype, double dropout, int threads, int shards)
{
    return bench_with(model_of(dtype, dropout), threads, shards, QKV_GRADIENTS_SEPARATE);
}

/* Two shards share a block. */
static struct bench pairs_of(enum qkv_dtype dtype, double dropout, int threads, int shards)
{
    return bench_with(model_of(dtype, dropout), threads, shards, QKV_GRADIENTS_PAIRED);
}

typedef struct bench bench_maker(enum qkv_dtype dtype, double dropout, int threads, int shards);
static bench_maker *const MAKERS[] = {bench_of, pairs_of};

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

/* ---- shards ---- */

/* Loss and gradient of the whole batch in one graph, without replicas. */
static double whole_batch(const struct qkv_model *model, struct qkv_batch *batch, double *gradient)
{
    struct qkv_batch_view view;
    qkv_batch_shard(batch, 0, 1, &view);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_bind(graph, &model->parameters, gradient, false);
    struct qkv_tensor *loss =
        qkv_model_loss(model, graph, &view, &(struct qkv_objective){.smoothing = 0.1}, 1, NULL);
    cr_assert_eq(qkv_graph_check(graph, NULL), QKV_OK);
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    double value = qkv_tensor_scalar(loss);
    qkv_graph_free(graph);
    return value;
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

/* ---- accumulation and empty shards ---- */

static void expect_accumulation(bench_maker *make)
{
    struct qkv_batch batch = {0}, half = {0};
    struct bench b = make(QKV_FLOAT64, 0, 2, 3);
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    double *expected = calloc((size_t)b.model->parameters.elements, sizeof *expected);
    double loss = whole_batch(b.model, &batch, expected), sum = 0;
    /* The first part has fewer sentences than there are shards, so that an empty shard starts, and one
     * continues; in the second round, it must not keep its old gradient. */
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
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, NULL, false, &sums, &error), QKV_FAILED);
    cr_expect_not_null(strstr(error.message, "decoder.1.cross.query.weight (leaf)"), "%s", error.message);
    qkv_parameter_set(&b.model->parameters, weight, 0, kept);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, NULL, false, &sums, &error), QKV_OK,
                 "and goes on after it");
    qkv_batch_release(&batch);
    release(&b);
}

Test(replicas, divergence_names_the_first_tensor_that_is_not_finite)
{
    for (int m = 0; m < 2; m++) expect_name(MAKERS[m]);
}

static void expect_refusal(bench_maker *make, int shards, const int64_t source[2])
{
    struct qkv_batch batch = {0};
    struct bench b = make(QKV_FLOAT32, 0, 2, shards);
    struct qkv_error error = {""};
    struct qkv_step_sums sums;
    tiny_batch(&batch, b.model, 2, source, (int64_t[]){22, 22}, 1);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, NULL, false, &sums, &error), QKV_INVALID);
    cr_expect_not_null(strstr(error.message, "25 rows from position 0 on, but the table has 24 positions"),
                       "%s", error.message);
    tiny_batch(&batch, b.model, 2, (int64_t[]){3, 4}, (int64_t[]){2, 2}, 1);
    cr_expect_eq(qkv_replicas_step(b.replicas, &batch, NULL, false, &sums, &error), QKV_OK,
                 "and goes on after it");
    qkv_batch_release(&batch);
    release(&b);
}

Test(replicas, a_sentence_without_positions_is_refused)
{
    /* The last case: the second shard of a pair must not wait for the first. */
    for (int m = 0; m < 2; m++) {
        expect_refusal(MAKERS[m], 3, (int64_t[]){3, 24});
        expect_refusal(MAKERS[m], 2, (int64_t[]){24, 3});
    }
}
