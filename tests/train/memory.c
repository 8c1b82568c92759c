/* Training steps call malloc zero times after the first one; this program counts the calls. */
#include "data/corpus.h"
#include "train/training.h"

#include "encoded.h"
#include "tiny.h"
#include "tools/bench/malloc_counter.h"

/* ---- A corpus whose batches differ much in size from epoch to epoch ---- */

enum { PAIRS = 300, LONGEST = 22 };

static void make_corpus(struct encoded *read, enum qkv_text_form form)
{
    char *text RELEASED(free_memory) = malloc((size_t)PAIRS * 2 * (LONGEST + 1) * 5), *end = text;
    for (unsigned i = 0; i < PAIRS; i++) {
        unsigned mixed = (i * 2654435761u) >> 16, length = 1 + mixed % 5;
        if (i % 23 == 0) length = LONGEST - mixed % 3; /* a few long ones */
        for (unsigned k = 0; k < length; k++) end += sprintf(end, "s%u ", (i + k) % 29);
        *end++ = '\t';
        for (unsigned k = 0; k < 1 + (length * 3 + i) % (length + 2) && k < LONGEST; k++)
            end += sprintf(end, "t%u ", (i * 3 + k) % 31);
        *end++ = '\n';
    }
    *end = '\0';
    const char *path = write_text(scratch("corpus"), "x.tsv", text);
    struct qkv_text_config side = {.max_length = 100, .voc_min_freq = 1};
    struct qkv_data_config data = {.src = side, .trg = side, .text = form, .context = 16};
    read_encoded(read, path, &data, (struct qkv_corpus_options){0});
}

/* Batches of tokens train with R-Drop, batches of sentences with SimCut, a language model on windows with neither. */
static void expect_quiet_steps(const struct qkv_model_config *config, int threads, enum qkv_batch_type type,
                               int64_t size, uint64_t seed)
{
    enum { SHARDS = 3, EPOCHS = 6 };
    struct encoded read RELEASED(release_encoded) = {0};
    const bool is_text = config->decoder.type == QKV_NETWORK_DECODER_ONLY;
    make_corpus(&read, is_text ? QKV_TEXT_RUNNING : QKV_TEXT_PAIRS);
    struct qkv_model *model RELEASED(free_model) =
        tiny_model(config, read.source.size, read.target.size, QKV_FLOAT32, 1);
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(threads, NULL);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_batch_loss of_batch = {
        .model = model,
        .batch = &batch,
        .objective = {.smoothing = 0.1,
                      .r_drop = type == QKV_BATCH_TOKEN && !is_text,
                      .simcut = type == QKV_BATCH_SENTENCE && !is_text,
                      .simcut_rate = 0.1},
    };
    const struct qkv_shard_loss loss = qkv_batch_loss(&of_batch);
    struct qkv_data_parallel *parallel RELEASED(free_data_parallel) =
        qkv_data_parallel_new(&model->parameters, workers, SHARDS,
                              threads % 2 ? QKV_GRADIENTS_PAIRED : QKV_GRADIENTS_SEPARATE, NULL);
    const struct qkv_optimizer_options training = {
        .adam_betas = {0.9, 0.98}, .adam_epsilon = 1e-8, .clip_grad_norm = 1};
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = {0};
    struct qkv_batches batches RELEASED(qkv_batches_release);
    struct qkv_batches_options options = {type, size, QKV_BATCH_ORDER_SHUFFLED, seed};
    cr_assert_eq(qkv_optimizer_init(&optimizer, &training, &model->parameters, NULL), QKV_OK);
    cr_assert_eq(qkv_batches_init(&batches, &read.corpus, options, NULL), QKV_OK);
    cr_assert_eq(qkv_batch_loss_reserve(&of_batch, parallel, &batches, NULL), QKV_OK);

    long before = 0;
    int64_t steps = 0;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        qkv_corpus_resample(&read.corpus, 1, epoch);
        qkv_batches_epoch(&batches, epoch);
        for (int64_t i = 0; i < batches.count; i++, steps++) {
            if (steps == 1) before = malloc_calls();
            const struct qkv_random random = {.seed = 1, .step = (uint32_t)steps};
            struct qkv_shard_sums sums;
            if (qkv_batches_get(&batches, i, &batch, &error) ||
                qkv_data_parallel_step(parallel, &loss, &random, false, &sums, &error))
                cr_assert_fail("%s", error.message);
            int blocks;
            void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
            qkv_optimizer_step(&optimizer, &model->parameters, workers, blocks, gradients,
                               1.0 / (double)sums.items, 1e-3);
        }
    }
    long calls = malloc_calls() - before;
    cr_expect_eq(calls, 0, "%d threads, batches of %lld: %ld allocations in %lld steps", threads,
                 (long long)size, calls, (long long)steps - 1);
}

Test(memory, steps_call_no_malloc)
{
    long before = malloc_calls();
    if (before < 0) cr_skip_test("calls of malloc cannot be counted in this build");
    void *volatile memory = malloc(8); /* volatile: a pair that nothing uses may be left out */
    free(memory);
    if (malloc_calls() == before) cr_skip_test("another malloc stands in front: calls are not counted");
    struct qkv_model_config transformer = tiny_config();
    transformer.encoder.dropout = transformer.decoder.dropout = transformer.decoder.attention.dropout = 0.1;
    struct qkv_model_config recurrent = transformer, only = transformer;
    only.encoder.type = only.decoder.type = QKV_NETWORK_DECODER_ONLY;
    recurrent.encoder.type = recurrent.decoder.type = QKV_NETWORK_RECURRENT;
    recurrent.encoder.bidirectional = recurrent.decoder.input_feeding = true;
    recurrent.decoder.attention.score = QKV_ATTENTION_SCORE_GENERAL;
    for (int threads = 1; threads <= 3; threads++)
        for (int kind = 0; kind < 3; kind++) {
            const struct qkv_model_config *config = kind == 0 ? &transformer : kind == 1 ? &recurrent : &only;
            /* Epochs whose largest batches differ much. */
            expect_quiet_steps(config, threads, QKV_BATCH_SENTENCE, 8, 17);
            expect_quiet_steps(config, threads, QKV_BATCH_TOKEN, 60, 5);
        }
}
