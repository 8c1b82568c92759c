/* Calls that a program should not make: each is refused, or does what its header says, and none reaches memory that it must
 * not. */
#include "data/corpus.h"
#include "framework/engine/core/text.h"
#include "framework/translator/data/batch.h"
#include "framework/translator/data/bpe.h"
#include "report/alignment_score.h"
#include "train/training.h"

#include "encoded.h"

#define TEXT LIST(.lang = "en", .max_length = 100, .voc_min_freq = 1)
static const struct qkv_data_config DATA = {.src = TEXT, .trg = TEXT};
static const struct qkv_corpus_options NONE;

Test(misuse, of_batches)
{
    static const int32_t ids[] = {5, 6};
    static const struct qkv_ids good = {2, ids}, bad[] = {{-1, ids}, {INT64_MAX, ids}, {2, NULL}};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_batch_view view;
    qkv_batch_shard(&batch, 0, 1, &view);
    cr_expect_eq(view.count, 0);
    for (int i = 0; i < 3; i++) {
        expect_refusal(qkv_batch_make(&batch, 1, &bad[i], NULL, &error),
                       "sentence 0 has no ids, or a length that is negative or above 2^31");
        cr_expect_eq(qkv_batch_make(&batch, 1, &good, &bad[i], &error), QKV_INVALID);
    }
    cr_expect_eq(qkv_batch_make(&batch, -1, &good, NULL, &error), QKV_INVALID);
    cr_expect_eq(qkv_batch_make(&batch, 1, &good, NULL, &error), QKV_OK);
    static const int64_t shards[][2] = {
        {0, 0}, {1, 1}, {3, 2}, {-1, 2}, {0, -1}, {0, INT64_MAX}, {INT64_MIN, INT64_MIN}};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        qkv_batch_shard(&batch, shards[i][0], shards[i][1], &view);
        cr_expect_eq(view.count, 0);
    }
    qkv_batch_shard(&batch, QKV_SHARDS_MAX / 2, QKV_SHARDS_MAX, &view);
    qkv_batch_shard(&batch, 0, 1, &view);
    cr_expect_eq(view.count, 1);
    qkv_batch_release(&batch);
}

Test(misuse, of_the_batches_of_a_corpus)
{
    static const struct {
        struct qkv_batches_options options;
        const char *message;
    } rows[] = {
        {{QKV_BATCH_SENTENCE, 0}, ""},
        {{QKV_BATCH_TOKEN, -1}, ""},
        {{QKV_BATCH_TOKEN, INT64_MIN}, ""},
        {{(enum qkv_batch_type)9, 1}, "there is no type of batches 9"},
        {{(enum qkv_batch_type) - 1, 1}, "there is no type of batches -1"},
        {{QKV_BATCH_TOKEN, 1, (enum qkv_batch_order)9}, "there is no order of batches 9"},
        {{QKV_BATCH_TOKEN, 1, (enum qkv_batch_order) - 1}, "there is no order of batches -1"},
        {{QKV_BATCH_SENTENCE, INT64_MAX, QKV_BATCH_ORDER_SHUFFLED, 1}, NULL},
        {{QKV_BATCH_TOKEN, INT64_MAX, QKV_BATCH_ORDER_SHUFFLED, 1}, NULL},
        {{QKV_BATCH_TOKEN, 1, QKV_BATCH_ORDER_SHUFFLED, 1}, NULL},
    };
    struct qkv_corpus none RELEASED(qkv_corpus_release) = {0};
    struct encoded three RELEASED(release_encoded);
    struct qkv_batches batches = {0};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    read_encoded(&three, write_text(scratch("corpus"), "x.tsv", "a\tb\nc\td\ne\tf\n"), &DATA, NONE);
    qkv_batches_epoch(&batches, 3);
    cr_expect_eq(qkv_batches_init(&batches, &none, rows[9].options, &error), QKV_INVALID, "not encoded");
    cr_expect_eq(qkv_corpus_encode(&none, &three.source, &three.target, &error), QKV_OK);
    for (int is_planned = 0; is_planned < 2; is_planned++) { /* for a corpus of no sentences */
        if (is_planned) expect_done(qkv_batches_init(&batches, &none, rows[9].options, &error));
        cr_expect_eq(qkv_batches_get(&batches, 0, &batch, &error), QKV_INVALID);
        cr_expect_eq(qkv_batches_largest(&batches, 1, &batch, &error), QKV_INVALID);
    }
    qkv_batches_release(&batches);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum qkv_status status = qkv_batches_init(&batches, &three.corpus, rows[i].options, &error);
        if (rows[i].message) {
            expect_refusal_with(status, rows[i].message);
            qkv_batches_release(&batches);
            continue;
        }
        expect_done(status);
        qkv_batches_epoch(&batches, INT64_MIN);
        qkv_batches_epoch(&batches, INT64_MAX);
        cr_expect_eq(qkv_batches_get(&batches, batches.count, &batch, &error), QKV_INVALID);
        cr_expect_eq(qkv_batches_get(&batches, -1, &batch, &error), QKV_INVALID);
        cr_expect_eq(qkv_batches_get(&batches, 0, &batch, &error), QKV_OK);
        cr_expect_eq(qkv_batches_largest(&batches, 0, &batch, &error), QKV_INVALID);
        cr_expect_eq(qkv_batches_largest(&batches, INT64_MAX, &batch, &error), QKV_OK);
        qkv_batches_release(&batches);
    }
}

Test(misuse, of_a_corpus)
{
    struct qkv_vocabulary none = {0};
    struct encoded one RELEASED(release_encoded);
    const struct qkv_data_config unset = {0};
    const char *path = write_text(scratch("corpus"), "x.tsv", "a\tb\n");
    cr_expect_eq(qkv_corpus_read(&one.corpus, scratch("unset"), &unset, NONE, &error), QKV_INVALID);
    cr_expect_eq(qkv_corpus_read(&one.corpus, "", &DATA, NONE, &error), QKV_INVALID);
    read_encoded(&one, path, &DATA, NONE);
    cr_expect_eq(qkv_corpus_encode(&one.corpus, &one.source, &one.target, &error), QKV_INVALID, "twice");
    cr_expect_eq(qkv_corpus_vocabularies(&one.corpus, &DATA, &none, &none, &error), QKV_INVALID);
    release_encoded(&one);
    cr_assert_eq(qkv_corpus_read(&one.corpus, path, &DATA, NONE, &error), QKV_OK);
    cr_expect_null(qkv_corpus_source(&one.corpus, 0), "no raw lines");
    cr_expect_eq(qkv_corpus_checksum(&one.corpus), 0, "not encoded");
    cr_expect_eq(qkv_corpus_encode(&one.corpus, &none, &none, &error), QKV_OK);
    cr_expect_eq(one.corpus.source.ids[0], QKV_UNKNOWN);
    release_encoded(&one);
}

/* Such a corpus has no sentences, whatever else its options ask for. */
Test(misuse, of_a_corpus_of_types_only)
{
    const struct qkv_corpus_options options = {.types_only = true, .keep_raw = true, .keep_words = true};
    struct qkv_corpus corpus RELEASED(qkv_corpus_release);
    const char *folder = scratch("types"), *path = write_text(folder, "x.tsv", "a\tb\nc\td e\n");
    cr_assert_eq(qkv_corpus_read(&corpus, path, &DATA, options, &error), QKV_OK);
    cr_expect_null(qkv_corpus_source(&corpus, 0));
    cr_expect_null(qkv_corpus_target(&corpus, 1));
    const struct qkv_model_config model = {.encoder.positions = {QKV_POSITION_LEARNED, .max_length = 2},
                                           .decoder.positions = {QKV_POSITION_LEARNED, .max_length = 2}};
    expect_refusal(qkv_corpus_fits(&corpus, path, &model, &error),
                   format("%s: a corpus of types only has no sentences", path));
    struct qkv_run run = {.config.data = DATA};
    struct qkv_alignment_score score;
    const char *links = write_text(folder, "x.align", "0-0\n0-0\n");
    expect_refusal(qkv_alignment_evaluate(&run, &corpus, links, QKV_LINKS_FROM_0, &score, &error),
                   "alignment scores need a corpus that keeps its raw lines");
}

Test(misuse, of_vocabularies_and_types)
{
    static const int64_t wrong[] = {-1, 3, INT32_MAX, INT32_MIN};
    struct qkv_types types RELEASED(qkv_types_release) = {0};
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = {0};
    cr_expect_eq(qkv_types_find(&types, "a"), -1);
    cr_expect_eq(qkv_vocabulary_id(&vocabulary, "a"), QKV_UNKNOWN);
    cr_expect_null(qkv_vocabulary_token(&vocabulary, 0));
    cr_expect_eq(qkv_vocabulary_build(&vocabulary, 0, NULL, INT64_MIN, INT64_MIN, &error), QKV_OK);
    cr_expect_eq(vocabulary.size, QKV_SPECIALS);
    for (int i = 0; i < 4; i++) {
        cr_expect_null(qkv_vocabulary_token(&vocabulary, (int32_t)wrong[i]));
        cr_expect_null(qkv_types_token(&vocabulary.types, wrong[i]));
    }
    qkv_vocabulary_release(&vocabulary);
    qkv_vocabulary_release(&vocabulary);
    for (int i = 0; i < 2; i++) cr_expect_eq(qkv_types_add(&types, "a", INT64_MAX), 0);
    cr_expect_eq(types.frequency[0], INT64_MAX);
    cr_expect_eq(qkv_types_add(&types, "b", INT64_MIN), 1);
    cr_expect_eq(qkv_types_add(&types, "b", -1), 1);
    cr_expect_eq(types.frequency[1], INT64_MIN);
    const struct qkv_types *texts[] = {&types, &types};
    cr_expect_eq(qkv_vocabulary_build(&vocabulary, 2, texts, INT64_MAX, INT64_MAX, &error), QKV_OK);
}

/* Adding a part of the text moves the text that it is a part of. */
Test(misuse, a_part_of_the_types_is_added_to_them)
{
    struct qkv_types types RELEASED(qkv_types_release) = {0};
    for (int i = 0; i < 2000; i++) {
        int32_t number = qkv_types_add(&types, format("w%d_x", i), 1);
        int32_t part = qkv_types_add(&types, qkv_types_token(&types, number) + 1, 1);
        cr_assert_str_eq(qkv_types_token(&types, part), format("%d_x", i));
    }
}

Test(misuse, of_tokens_that_no_file_can_hold)
{
    static const char *const tokens[] = {"a\nb", "", "a b", "\u00A0", "\xE2\x82"};
    const char *folder = scratch("tokens");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct qkv_types types RELEASED(qkv_types_release) = {0};
        struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release);
        const struct qkv_types *const texts[] = {&types};
        qkv_types_add(&types, tokens[i], 5);
        cr_assert_eq(qkv_vocabulary_build(&vocabulary, 1, texts, 0, 1, &error), QKV_OK);
        const char *path = format("%s/%zu", folder, i);
        expect_refusal(qkv_vocabulary_save(&vocabulary, path, &error),
                       format("%s: the token of id 3 is empty, contains white space or is not valid UTF-8: a "
                              "file with it could not be read",
                              path));
        cr_expect_null(read_file(path, NULL));
        expect_refusal_with(STATUS_OF(qkv_bpe_learn(1, texts, 1, &error)),
                            i == 1 ? "1 merges are wanted"
                                   : "word 0 contains white space or is not valid UTF-8");
    }
}

Test(misuse, of_frequencies_of_words)
{
    static const int64_t frequencies[] = {INT64_MAX, INT64_MIN, -1, INT64_MAX / 2};
    struct qkv_types types RELEASED(qkv_types_release) = {0};
    const struct qkv_types *const texts[] = {&types, &types};
    for (int i = 0; i < 4; i++) {
        qkv_types_add(&types, format("abab%d", i), frequencies[i]);
        qkv_types_add(&types, format("cdcd%d", i), -1);
    }
    struct qkv_bpe *bpe RELEASED(free_bpe) = made(qkv_bpe_learn(2, texts, 3, &error));
    cr_expect_eq(bpe->count, 3);
}

Test(misuse, of_tokens)
{
    static const char *const odd[] = {"", "\xFF", "\xE2\x82", "'", "$", "\u2019"};
    static const int wrong[] = {-1, 3, 1000000};
    struct qkv_text_config text = {.split_punctuation = true};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    cr_expect_eq(qkv_tokenize(&tokens, &text, NULL, 0, &error), QKV_OK);
    for (int level = 0; level < 3; level++) {
        text.level = (enum qkv_level)level;
        text.lang = level ? NULL : "fr";
        cr_expect_not_null(qkv_detokenize(&text, 6, odd, &arena));
        cr_expect_str_empty(qkv_detokenize(&text, -3, odd, &arena));
        text.level = (enum qkv_level)wrong[level];
        cr_expect_eq(qkv_tokenize(&tokens, &text, "a", 1, &error), QKV_INVALID);
        cr_expect_null(qkv_detokenize(&text, 6, odd, &arena));
    }
    qkv_tokens_release(&tokens);
}
