/* Masked tokens: nothing attends to them, in the forced pass and in decoding. */
#include "tiny.h"

#include "models/network.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 7, SENTENCES = 3 };

static const int64_t SOURCE[] = {3, 1, 5}, TARGET[] = {4, 2, 6};

/* Sources of 4, 2 and 6 tokens with </s>: one word, a whole sentence with its </s>, and the first and last of a sentence. */
static const bool MASKED[] = {false, true, false, false, true, true, true, false, false, false, false, true};
enum { TOKENS = sizeof MASKED / sizeof *MASKED };

/* The view of the batch is masked. */
static struct tiny masked_of(const struct qkv_model_config *config)
{
    struct tiny tiny =
        tiny_with(tiny_model(config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 5), SENTENCES, SOURCE, TARGET, 2);
    cr_assert_eq(tiny.batch.source_tokens, TOKENS);
    cr_assert_null(tiny.batch.source_masked);
    tiny.batch.source_masked = MASKED;
    tiny.view = tiny_view(&tiny.batch);
    return tiny;
}

/* The greatest change of a log-probability when one batch is replaced by another. */
static double change(const struct tiny *tiny, const struct qkv_batch_view *one,
                     const struct qkv_batch_view *other)
{
    return tiny_difference(tiny->model, one, tiny->model, other);
}

/* A view with another word in place of token `token`. */
static struct qkv_batch_view with_other_word(const struct qkv_batch_view *view, int64_t token,
                                             int32_t ids[static TOKENS])
{
    struct qkv_batch_view other = *view;
    memcpy(ids, view->source, TOKENS * sizeof *ids);
    ids[token] = (ids[token] + 1) % SOURCE_SIZE;
    other.source = ids;
    return other;
}

static void expect_decoding(struct tiny *tiny, const char *what)
{
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(tiny->model);
    struct qkv_batch_view unmasked = tiny->view;
    unmasked.source_masked = NULL;
    tiny_expect_forced(decoding, tiny->model, what, &tiny->view, 1e-12);
    tiny_expect_forced(decoding, tiny->model, what, &unmasked, 1e-12);
    tiny_expect_forced(decoding, tiny->model, what, &tiny->view, 1e-12);
}

/* In a transformer only attention carries a word to others: it does not matter which word is masked. */
static void expect_transformer(const struct qkv_model_config *config, const char *what)
{
    int32_t ids[TOKENS];
    struct tiny tiny RELEASED(tiny_release) = masked_of(config);
    struct qkv_batch_view unmasked = tiny.view;
    unmasked.source_masked = NULL;
    cr_expect_geq(change(&tiny, &tiny.view, &unmasked), 1e-3, "%s", what);
    for (int64_t token = 0; token < TOKENS; token++) {
        const struct qkv_batch_view other = with_other_word(&tiny.view, token, ids);
        double by = change(&tiny, &tiny.view, &other);
        if (MASKED[token])
            cr_expect_eq(by, 0, "%s: masked token %d changes a log-probability by %g", what, (int)token, by);
        else
            cr_expect_geq(by, 1e-6, "%s: token %d", what, (int)token);
    }
    expect_decoding(&tiny, what);
}

Test(masked_source, is_unseen_by_a_transformer)
{
    static const enum qkv_attention_kernel KERNELS[] = {QKV_KERNEL_EXACT, QKV_KERNEL_FLASH};
    for (int flash = 0; flash < 2; flash++) {
        struct qkv_model_config config = tiny_config();
        config.encoder.attention.kernel = config.decoder.attention.kernel = KERNELS[flash];
        expect_transformer(&config, flash ? "flash" : "exact");
        config.encoder.attention.window = 1;
        config.encoder.num_layers = 1;
        config.encoder.layer_norm = config.decoder.layer_norm = QKV_NORM_POST;
        expect_transformer(&config, flash ? "flash, window" : "window");
        config.decoder.type = config.encoder.type = QKV_NETWORK_DECODER_ONLY;
        expect_transformer(&config, flash ? "prefix, flash" : "prefix");
        config.decoder.prefix = QKV_PREFIX_BIDIRECTIONAL;
        expect_transformer(&config, flash ? "bidirectional prefix, flash" : "bidirectional prefix");
    }
}

/* A recurrent encoder reads every word; its decoder does not attend to the masked ones. */
Test(masked_source, is_unseen_by_a_recurrent_decoder)
{
    for (int feeding = 0; feeding < 2; feeding++) {
        struct qkv_model_config config = tiny_recurrent_config();
        config.decoder.input_feeding = feeding;
        struct tiny tiny RELEASED(tiny_release) = masked_of(&config);
        struct qkv_batch_view unmasked = tiny.view;
        unmasked.source_masked = NULL;
        cr_expect_geq(change(&tiny, &tiny.view, &unmasked), 1e-3);
        expect_decoding(&tiny, feeding ? "input feeding" : "recurrent");
    }
}

/* A network without a decoding of its own sees the mask in each step. */
Test(masked_source, is_unseen_in_plain_decoding)
{
    struct qkv_model_config config = tiny_config();
    struct tiny tiny RELEASED(tiny_release) = masked_of(&config);
    struct qkv_network_interface plain = *tiny.model->interface;
    plain.decoding = NULL;
    tiny.model->interface = &plain;
    expect_decoding(&tiny, "plain");
}

/* Filling a batch again ends the mask; a shard has its part of it. */
Test(masked_source, belongs_to_one_filling_of_a_batch)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_batch_view shard;
    struct tiny tiny RELEASED(tiny_release) = masked_of(&config);
    qkv_batch_shard(&tiny.batch, 1, 2, &shard);
    cr_assert_gt(shard.first, 0);
    cr_expect_eq(shard.source_masked - MASKED, shard.source - tiny.batch.source);
    tiny_batch(&tiny.batch, tiny.model, SENTENCES, SOURCE, TARGET, 2);
    cr_expect_null(tiny_view(&tiny.batch).source_masked);
}

/* The mask of the target hides tokens from self-attention of the decoder alone, with caches and in plain decoding. */
Test(masked_source, masked_target_is_unseen_when_it_is_decoded)
{
    static const bool TARGET_MASKED[] = {false, true, true, false, false, true, false};
    struct qkv_model_config config = tiny_config();
    struct tiny tiny RELEASED(tiny_release) =
        tiny_with(tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 5), 1, SOURCE, TARGET + 2, 2);
    const struct qkv_batch_view unmasked = tiny.view;
    cr_assert_eq(tiny.batch.target_tokens, sizeof TARGET_MASKED);
    tiny.batch.target_masked = TARGET_MASKED;
    tiny.view = tiny_view(&tiny.batch);
    int32_t ids[sizeof TARGET_MASKED];
    memcpy(ids, tiny.view.target_input, sizeof ids);
    ids[1] = ids[1] == 3 ? 4 : 3;
    struct qkv_batch_view other = tiny.view;
    other.target_input = ids;
    double *before RELEASED(free_memory) = tiny_log_probabilities(tiny.model, &tiny.view),
                   *after RELEASED(free_memory) = tiny_log_probabilities(tiny.model, &other);
    cr_expect_geq(change(&tiny, &tiny.view, &unmasked), 1e-3);
    for (int64_t i = 0; i < other.target_tokens * TARGET_SIZE; i++)
        if (i / TARGET_SIZE != 1) cr_expect_float_eq(before[i], after[i], 1e-15, "number %d", (int)i);
    struct qkv_decoding *cached RELEASED(free_decoding) = qkv_decoding_new(tiny.model),
                                *plain RELEASED(free_decoding) = qkv_decoding_new_plain(tiny.model);
    tiny_expect_forced(cached, tiny.model, "cached", &tiny.view, 1e-12);
    tiny_expect_forced(plain, tiny.model, "plain", &tiny.view, 1e-12);
}
