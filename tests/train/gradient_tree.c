/* The sum of the gradients of shards: a tree over the shards, whatever the threads and the memory. */
#include "tiny_parallel.h"

/* With what attention has beside the usual, in float32 and with dropout. */
static struct qkv_model *varied_model(enum qkv_attention_kernel kernel)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->attention.dropout = 0.3;
        stacks[i]->attention.window = 3;
        stacks[i]->attention.global_tokens = 1;
        stacks[i]->attention.key_value_heads = 1;
        stacks[i]->attention.kernel = kernel;
        stacks[i]->positions.type = i ? QKV_POSITION_RELATIVE : QKV_POSITION_ROTARY;
    }
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
}

static void expect_same_bits(struct qkv_model *make_model(int kind), int kind, int shards, double r_drop)
{
    const struct qkv_objective objective = {.smoothing = 0.1, .r_drop = r_drop};
    static const int THREADS[] = {1, 2, 3, 4, 7};
    const struct qkv_random random = {.seed = 3, .step = 8};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_shard_sums expected = {0};
    float *first RELEASED(free_memory) = NULL;
    for (int t = 0; t < 10; t++) {
        struct bench b RELEASED(release) =
            bench_for(make_model(kind), THREADS[t / 2], shards,
                      t % 2 ? QKV_GRADIENTS_PAIRED : QKV_GRADIENTS_SEPARATE, &objective);
        int64_t elements = b.model->parameters.elements;
        tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
        for (int round = 0; round < 3; round++) {
            struct qkv_shard_sums sums = step(&b, &batch, &random, false);
            float *total = total_of(&b);
            if (!first) {
                first = total;
                expected = sums;
            }
            cr_assert_arr_eq(first, total, (size_t)elements * sizeof *total, "%d threads, %s, %d shards",
                             THREADS[t / 2], t % 2 ? "pairs" : "separate", shards);
            cr_assert_eq(sums.loss, expected.loss);
            cr_assert_eq(sums.items, expected.items);
            for (int i = 0; i < QKV_FURTHER_SUMS; i++) cr_assert_eq(sums.further[i], expected.further[i]);
            if (total != first) free(total);
        }
    }
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

/* With dropout if kind is 1. */
static struct qkv_model *tied_model(int kind)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.dropout = config.decoder.dropout = kind ? 0.3 : 0;
    config.decoder.hidden_size = config.encoder.hidden_size;
    config.tied_embeddings = true;
    return tiny_model(&config, SOURCE_SIZE, SOURCE_SIZE, QKV_FLOAT32, 4);
}

/* kind 0: GRUs with additive attention and input feeding; 1: LSTMs with local attention, without it. */
static struct qkv_model *recurrent_model(int kind)
{
    struct qkv_model_config config = tiny_recurrent_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++) {
        if (kind) stacks[i]->rnn_type = QKV_CELL_LSTM;
        stacks[i]->dropout = stacks[i]->attention.dropout = stacks[i]->hidden_dropout = 0.2;
    }
    config.decoder.input_feeding = !kind;
    config.decoder.attention.score = kind ? QKV_ATTENTION_SCORE_LOCAL_P : QKV_ATTENTION_SCORE_ADDITIVE;
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
}

Test(gradient_tree, the_same_bits_with_any_number_of_threads_and_memory_for_gradients)
{
    for (int shards = 1; shards <= 9; shards += shards < 5 ? 1 : 4) {
        expect_same_bits(usual_model, 0, shards, 0);
        expect_same_bits(model_with_kernel, QKV_KERNEL_EXACT, shards, 0);
        expect_same_bits(model_with_kernel, QKV_KERNEL_FLASH, shards, 0);
        expect_same_bits(tied_model, 0, shards, 0);
        expect_same_bits(usual_model, 0, shards, 5);
        expect_same_bits(tied_model, 1, shards, 5);
        expect_same_bits(recurrent_model, 0, shards, 0);
        expect_same_bits(recurrent_model, 1, shards, 0);
    }
}

/* The gradient of one shard, in one graph. */
static void gradient_of_shard(const struct qkv_model *model, struct qkv_batch *batch, int shard, int shards,
                              float *gradient)
{
    struct qkv_batch_view view;
    qkv_batch_shard(batch, shard, shards, &view);
    if (!view.count) return;
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_bind(graph, &model->parameters, gradient, false);
    struct qkv_tensor *loss =
        qkv_model_loss(model, graph, &view, &(struct qkv_objective){.smoothing = 0.1}, 1, NULL);
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
}

/* The sum of `count` shards from `first` on: the two halves of the smallest complete tree that holds them. */
static void add_as_tree(int first, int count, int64_t elements, float *gradients)
{
    int half = 1;
    if (count < 2) return;
    while (2 * half < count) half *= 2;
    add_as_tree(first, half, elements, gradients);
    add_as_tree(first + half, count - half, elements, gradients);
    float *to = gradients + first * elements, *from = gradients + (first + half) * elements;
    for (int64_t i = 0; i < elements; i++) to[i] += from[i];
}

/* 37 shards: more than there are blocks, so that shards wait for them. */
Test(gradient_tree, the_sum_is_a_tree_over_the_shards)
{
    enum { MANY = 60 };
    static const int SHARDS[] = {1, 2, 3, 4, 6, 7, 11, 16, 37};
    int64_t source[MANY], target[MANY];
    for (int i = 0; i < MANY; i++) {
        source[i] = 1 + i * 7 % 5;
        target[i] = 1 + i * 5 % 7;
    }
    for (size_t n = 0; n < sizeof SHARDS / sizeof *SHARDS; n++)
        for (int kind = 0; kind < 6; kind++) {
            int shards = SHARDS[n];
            struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
            struct bench b RELEASED(release) =
                bench_with(model_of(QKV_FLOAT32, 0), 1 + kind / 2, shards,
                           kind % 2 ? QKV_GRADIENTS_PAIRED : QKV_GRADIENTS_SEPARATE);
            int64_t elements = b.model->parameters.elements;
            tiny_batch(&batch, b.model, MANY, source, target, 3);
            step(&b, &batch, NULL, false); /* every shard has a gradient, which must not stay */
            /* With 60 sentences, or with so few that most shards are empty. */
            tiny_batch(&batch, b.model, n % 2 ? MANY : 5, source, target, 2);
            float *expected RELEASED(free_memory) = calloc((size_t)(shards * elements), sizeof *expected);
            for (int s = 0; s < shards; s++)
                gradient_of_shard(b.model, &batch, s, shards, expected + s * elements);
            add_as_tree(0, shards, elements, expected);
            step(&b, &batch, NULL, false);
            float *found RELEASED(free_memory) = total_of(&b);
            for (int64_t i = 0; i < elements; i++)
                cr_assert_eq(found[i], expected[i],
                             "%d shards, %d threads, %s: number %lld is %.9g, not %.9g", shards, 1 + kind / 2,
                             kind % 2 ? "pairs" : "separate", (long long)i, (double)found[i],
                             (double)expected[i]);
        }
}

/* Accumulating adds the sums over batches, one after the other. */
Test(gradient_tree, accumulating_adds_the_trees_of_the_batches)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    for (int kind = 0; kind < 12; kind++) {
        struct bench b RELEASED(release) =
            bench_with(model_of(QKV_FLOAT32, 0), 1 + kind % 3, kind / 6 ? 11 : 3,
                       kind % 2 ? QKV_GRADIENTS_PAIRED : QKV_GRADIENTS_SEPARATE);
        int64_t elements = b.model->parameters.elements;
        float *expected RELEASED(free_memory) = calloc((size_t)elements, sizeof *expected);
        for (int round = 0; round < 3; round++) {
            tiny_batch(&batch, b.model, SENTENCES - round, SOURCE, TARGET, 2 + (uint64_t)round);
            step(&b, &batch, NULL, false);
            float *one RELEASED(free_memory) = total_of(&b);
            for (int64_t i = 0; i < elements; i++) expected[i] = round ? expected[i] + one[i] : one[i];
        }
        for (int round = 0; round < 3; round++) {
            tiny_batch(&batch, b.model, SENTENCES - round, SOURCE, TARGET, 2 + (uint64_t)round);
            step(&b, &batch, NULL, round > 0);
        }
        float *found RELEASED(free_memory) = total_of(&b);
        for (int64_t i = 0; i < elements; i++)
            cr_assert_eq(found[i], expected[i], "case %d, number %lld: %.9g, not %.9g", kind, (long long)i,
                         (double)found[i], (double)expected[i]);
    }
}

/* ---- blocks ---- */

Test(gradient_tree, blocks_are_few)
{
    static const struct {
        int shards;
        enum qkv_gradient_memory memory;
        int blocks;
    } CASES[] = {
        {1, QKV_GRADIENTS_SEPARATE, 1},  {8, QKV_GRADIENTS_SEPARATE, 8},    {9, QKV_GRADIENTS_SEPARATE, 5},
        {16, QKV_GRADIENTS_SEPARATE, 8}, {1000, QKV_GRADIENTS_SEPARATE, 8}, {1, QKV_GRADIENTS_PAIRED, 1},
        {2, QKV_GRADIENTS_PAIRED, 1},    {3, QKV_GRADIENTS_PAIRED, 2},      {4, QKV_GRADIENTS_PAIRED, 2},
        {1000, QKV_GRADIENTS_PAIRED, 2}, {4, QKV_GRADIENTS_BY_SIZE, 4},
    };
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct bench b RELEASED(release) =
            bench_with(model_of(QKV_FLOAT32, 0), 1, CASES[i].shards, CASES[i].memory);
        cr_expect_eq(blocks_of(&b), 0, "before the first step");
        tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
        step(&b, &batch, NULL, false);
        cr_expect_eq(blocks_of(&b), CASES[i].blocks, "case %zu: %d blocks", i, blocks_of(&b));
    }
    struct qkv_model_config config = tiny_config();
    config.encoder.ff_size = config.decoder.ff_size = 40000; /* more than a million numbers */
    struct bench b RELEASED(release) = bench_with(
        tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4), 1, 9, QKV_GRADIENTS_BY_SIZE);
    cr_expect_gt(b.model->parameters.elements, QKV_PAIRED_FROM);
    tiny_batch(&batch, b.model, SENTENCES, SOURCE, TARGET, 2);
    step(&b, &batch, NULL, false);
    cr_expect_eq(blocks_of(&b), 2);
}
