/* The loss of a batch in shards. gradient_tree.c has the gradients. */

#include "tiny_parallel.h"

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

Test(batch_loss, sums_are_those_of_the_forced_pass)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_batch_view view;
    struct qkv_model *model RELEASED(free_model) = model_of(QKV_FLOAT64, 0);
    tiny_batch(&batch, model, SENTENCES, SOURCE, TARGET, 2);
    qkv_batch_shard(&batch, 0, 1, &view);
    double *forced RELEASED(free_memory) = tiny_log_probabilities(model, &view), likelihood = 0, smooth = 0,
                   correct = 0;
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
    for (int shards = 1; shards <= 13; shards += 4) /* 13: more shards than sentences */
        for (int m = 0; m < 2; m++) {
            struct bench b RELEASED(release) = MAKERS[m](QKV_FLOAT64, 0, 2, shards);
            struct qkv_shard_sums sums = step(&b, &batch, NULL, false);
            cr_expect_float_eq(sums.further[QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD], likelihood, 1e-11);
            cr_expect_float_eq(sums.loss, 0.9 * likelihood + 0.1 * smooth, 1e-11);
            cr_expect_eq(sums.further[QKV_BATCH_CORRECT], correct);
            cr_expect_eq(sums.further[QKV_BATCH_ALIGNMENT], 0);
            cr_expect_eq(sums.items, view.target_tokens);
        }
}

/* ---- empty shards ---- */

Test(batch_loss, an_empty_shard_has_no_gradient)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct bench b RELEASED(release) = bench_of(QKV_FLOAT64, 0.2, 2, 4);
    const struct qkv_random random = {.seed = 3, .step = 8};
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    step(&b, &batch, &random, false); /* every shard has had one */
    tiny_batch(&batch, b.model, 1, SOURCE, TARGET, 2);
    struct qkv_shard_sums sums = step(&b, &batch, &random, false);
    cr_expect_eq(sums.items, TARGET[0] + 1);
    int with = 0;
    for (int s = 0; s < 4; s++) {
        const double *gradient = gradients_of(&b)[s];
        bool any = false;
        for (int64_t i = 0; i < b.model->parameters.elements; i++) any = any || gradient[i] != 0;
        with += any;
    }
    cr_expect_eq(with, 1);
}

/* ---- dropout ---- */

Test(batch_loss, dropout_follows_seed_and_step_and_differs_between_shards)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct bench b RELEASED(release) = bench_of(QKV_FLOAT64, 0.3, 2, 2);
    /* Two equal halves: only their masks can make a difference. */
    struct qkv_ids words[4];
    static const int32_t IDS[] = {3, 4, 5, 6, 7};
    for (int i = 0; i < 4; i++) words[i] = (struct qkv_ids){5, IDS};
    cr_assert_eq(qkv_batch_make(&batch, 4, words, words, NULL), QKV_OK);
    size_t bytes = (size_t)b.model->parameters.elements * sizeof(double);
    const struct qkv_random random = {.seed = 3, .step = 8}, next = {.seed = 3, .step = 9},
                            seed = {.seed = 4, .step = 8};
    double loss = step(&b, &batch, &random, false).loss;
    cr_expect_neq(memcmp(gradients_of(&b)[0], gradients_of(&b)[1], bytes), 0);
    cr_expect_neq(step(&b, &batch, &next, false).loss, loss);
    cr_expect_neq(step(&b, &batch, &seed, false).loss, loss);
    cr_expect_eq(step(&b, &batch, &random, false).loss, loss);
    step(&b, &batch, NULL, false);
    cr_expect_arr_eq(gradients_of(&b)[0], gradients_of(&b)[1], bytes,
                     "without dropout, equal shards have equal gradients");
}

/* ---- what fails ---- */

static void expect_name(bench_maker *make)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct bench b RELEASED(release) = make(QKV_FLOAT32, 0, 2, 3);
    struct qkv_shard_sums sums;
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    const struct qkv_parameter *weight =
        qkv_parameters_find(&b.model->parameters, "decoder.1.cross.query.weight");
    cr_assert_not_null(weight);
    double kept = qkv_parameter_get(&b.model->parameters, weight, 0);
    qkv_parameter_set(&b.model->parameters, weight, 0, NAN);
    cr_expect_eq(try_step(&b, &batch, NULL, false, &sums, &error), QKV_FAILED);
    cr_expect(shows(error.message, "decoder.1.cross.query.weight (leaf)"));
    qkv_parameter_set(&b.model->parameters, weight, 0, kept);
    cr_expect_eq(try_step(&b, &batch, NULL, false, &sums, &error), QKV_OK, "and goes on after it");
}

Test(batch_loss, divergence_names_the_first_tensor_that_is_not_finite)
{
    for (int m = 0; m < 2; m++) expect_name(MAKERS[m]);
}

static void expect_no_positions(bench_maker *make, int shards, const int64_t source[2])
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct bench b RELEASED(release) = make(QKV_FLOAT32, 0, 2, shards);
    struct qkv_shard_sums sums;
    tiny_batch(&batch, b.model, 2, source, (int64_t[]){22, 22}, 1);
    expect_refusal_with(try_step(&b, &batch, NULL, false, &sums, &error),
                        "25 rows from position 0 on, but the table has 24 positions");
    tiny_batch(&batch, b.model, 2, (int64_t[]){3, 4}, (int64_t[]){2, 2}, 1);
    cr_expect_eq(try_step(&b, &batch, NULL, false, &sums, &error), QKV_OK, "and goes on after it");
}

Test(batch_loss, a_sentence_without_positions_is_refused)
{
    /* The last case: the second shard of a pair must not wait for the first. */
    for (int m = 0; m < 2; m++) {
        expect_no_positions(MAKERS[m], 3, (int64_t[]){3, 24});
        expect_no_positions(MAKERS[m], 2, (int64_t[]){24, 3});
    }
}
