/* Calls that a program should not make: each is refused, or does what its header says, and none reaches memory that it must
 * not. */
#include "qkv/alignment_score.h"
#include "qkv/batch.h"
#include "qkv/evaluate.h"
#include "qkv/file.h"

#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct qkv_text_config TEXT = {.lang = "en", .max_length = 100, .voc_min_freq = 1};

static struct qkv_corpus corpus_of(const char *text, struct qkv_vocabulary *vocabulary)
{
    const struct qkv_data_config data = {.src = TEXT, .trg = TEXT, .joint_vocabulary = true};
    struct qkv_corpus corpus;
    struct qkv_vocabulary target;
    cr_assert_eq(qkv_corpus_read(&corpus, write_text(scratch("corpus"), "x.tsv", text), &data,
                                 (struct qkv_corpus_options){0}, NULL),
                 QKV_OK);
    cr_assert_eq(qkv_corpus_vocabularies(&corpus, &data, vocabulary, &target, NULL), QKV_OK);
    qkv_vocabulary_release(&target);
    return corpus;
}

Test(misuse, of_batches)
{
    static const int32_t ids[] = {5, 6};
    const struct qkv_ids good = {2, ids}, negative = {-1, ids}, huge = {INT64_MAX, ids}, none = {2, NULL};
    const struct qkv_ids *const bad[] = {&negative, &huge, &none};
    struct qkv_batch batch = {0};
    struct qkv_batch_view view;
    struct qkv_error error;
    qkv_batch_shard(&batch, 0, 1, &view);
    cr_expect_eq(view.count, 0);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(qkv_batch_make(&batch, 1, bad[i], NULL, &error), QKV_INVALID);
        cr_expect_str_eq(error.message, "sentence 0 has no ids, or a length that is negative or above 2^31");
        cr_expect_eq(qkv_batch_make(&batch, 1, &good, bad[i], &error), QKV_INVALID);
    }
    cr_expect_eq(qkv_batch_make(&batch, -1, &good, NULL, &error), QKV_INVALID);
    cr_expect_eq(qkv_batch_make(&batch, 0, NULL, NULL, &error), QKV_OK);
    cr_expect_eq(qkv_batch_make(&batch, 1, &good, NULL, &error), QKV_OK);
    static const int64_t shards[][2] = {{0, 0},  {1, 1},         {-1, 2},
                                        {0, -1}, {0, INT64_MAX}, {INT64_MIN, INT64_MIN}};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        qkv_batch_shard(&batch, shards[i][0], shards[i][1], &view);
        cr_expect_eq(view.count, 0);
    }
    qkv_batch_shard(&batch, QKV_SHARDS_MAX / 2, QKV_SHARDS_MAX, &view);
    qkv_batch_shard(&batch, 0, 1, &view);
    cr_expect_eq(view.count, 1);
    qkv_batch_release(&batch);
    qkv_batch_release(&batch);
}

Test(misuse, of_the_batches_of_a_corpus)
{
    struct qkv_corpus empty = {0};
    struct qkv_vocabulary vocabulary = {0};
    struct qkv_batches batches = {0};
    struct qkv_batch batch = {0};
    struct qkv_error error;
    struct qkv_batches_options options = {QKV_BATCH_SENTENCE, 2, QKV_BATCH_ORDER_SHUFFLED, 1};
    qkv_batches_epoch(&batches, 3);
    cr_expect_eq(qkv_batches_get(&batches, 0, &batch, &error), QKV_INVALID);
    cr_expect_eq(qkv_batches_largest(&batches, 1, &batch, &error), QKV_INVALID);
    cr_expect_eq(qkv_batches_init(&batches, &empty, options, &error), QKV_INVALID);
    cr_expect_eq(qkv_corpus_encode(&empty, &vocabulary, &vocabulary, &error), QKV_OK);
    cr_expect_eq(qkv_batches_init(&batches, &empty, options, &error), QKV_OK);
    cr_expect_eq(qkv_batches_get(&batches, 0, &batch, &error), QKV_INVALID);
    cr_expect_eq(qkv_batches_largest(&batches, 1, &batch, &error), QKV_INVALID);
    qkv_batches_release(&batches);
    struct qkv_corpus corpus = corpus_of("a\tb\nc\td\ne\tf\n", &vocabulary);
    cr_expect_eq(qkv_batches_init(&batches, &corpus, options, &error), QKV_INVALID);
    cr_expect_eq(qkv_corpus_encode(&corpus, &vocabulary, &vocabulary, &error), QKV_OK);
    static const int64_t sizes[] = {0, -1, INT64_MIN, INT64_MAX, 1};
    for (int i = 0; i < 5; i++)
        for (int type = 0; type < 2; type++) {
            options.size = sizes[i];
            options.type = (enum qkv_batch_type)type;
            cr_expect_eq(qkv_batches_init(&batches, &corpus, options, &error),
                         sizes[i] > 0 ? QKV_OK : QKV_INVALID);
            if (sizes[i] <= 0) continue;
            qkv_batches_epoch(&batches, INT64_MIN);
            qkv_batches_epoch(&batches, INT64_MAX);
            cr_expect_eq(qkv_batches_get(&batches, batches.count, &batch, &error), QKV_INVALID);
            cr_expect_eq(qkv_batches_get(&batches, -1, &batch, &error), QKV_INVALID);
            cr_expect_eq(qkv_batches_get(&batches, 0, &batch, &error), QKV_OK);
            cr_expect_eq(qkv_batches_largest(&batches, 0, &batch, &error), QKV_INVALID);
            cr_expect_eq(qkv_batches_largest(&batches, INT64_MAX, &batch, &error), QKV_OK);
            qkv_batches_release(&batches);
        }
    static const int wrong[][2] = {{9, 0}, {-1, 0}, {0, 9}, {0, -1}};
    for (int i = 0; i < 4; i++) {
        options.type = (enum qkv_batch_type)wrong[i][0];
        options.order = (enum qkv_batch_order)wrong[i][1];
        cr_expect_eq(qkv_batches_init(&batches, &corpus, options, &error), QKV_INVALID);
        cr_expect_str_eq(error.message, format("there is no %s of batches %d", i < 2 ? "type" : "order",
                                               wrong[i][i < 2 ? 0 : 1]));
        qkv_batches_release(&batches);
    }
    qkv_batch_release(&batch);
    qkv_corpus_release(&corpus);
    qkv_corpus_release(&empty);
    qkv_vocabulary_release(&vocabulary);
}

Test(misuse, of_a_corpus)
{
    struct qkv_vocabulary vocabulary = {0}, other = {0};
    struct qkv_error error;
    const struct qkv_data_config unset = {0}, data = {.src = TEXT, .trg = TEXT};
    struct qkv_corpus corpus;
    cr_expect_eq(qkv_corpus_read(&corpus, scratch("unset"), &unset, (struct qkv_corpus_options){0}, &error),
                 QKV_INVALID);
    cr_expect_eq(qkv_corpus_read(&corpus, "", &data, (struct qkv_corpus_options){0}, &error), QKV_INVALID);
    corpus = corpus_of("a\tb\n", &vocabulary);
    cr_expect_null(qkv_corpus_source(&corpus, 0));
    cr_expect_eq(qkv_corpus_checksum(&corpus), 0);
    cr_expect_eq(qkv_corpus_encode(&corpus, &other, &vocabulary, &error), QKV_OK); /* an empty vocabulary */
    cr_expect_eq(corpus.source.ids[0], QKV_UNKNOWN);
    cr_expect_eq(qkv_corpus_encode(&corpus, &vocabulary, &vocabulary, &error), QKV_INVALID);
    cr_expect_eq(qkv_corpus_vocabularies(&corpus, &data, &other, &other, &error), QKV_INVALID);
    qkv_corpus_release(&corpus);
    qkv_corpus_release(&corpus);
    qkv_vocabulary_release(&vocabulary);
}

/* Such a corpus has no sentences, whatever else its options ask for. */
Test(misuse, of_a_corpus_of_types_only)
{
    struct qkv_error error;
    const struct qkv_data_config data = {.src = TEXT, .trg = TEXT};
    const struct qkv_corpus_options options = {.types_only = true, .keep_raw = true, .keep_words = true};
    struct qkv_corpus corpus;
    const char *folder = scratch("types"), *path = write_text(folder, "x.tsv", "a\tb\nc\td e\n");
    cr_assert_eq(qkv_corpus_read(&corpus, path, &data, options, &error), QKV_OK);
    cr_expect_null(qkv_corpus_source(&corpus, 0));
    cr_expect_null(qkv_corpus_target(&corpus, 1));
    const struct qkv_model_config model = {.encoder.positions = {QKV_POSITION_LEARNED, .max_length = 2},
                                           .decoder.positions = {QKV_POSITION_LEARNED, .max_length = 2}};
    cr_expect_eq(qkv_corpus_fits(&corpus, path, &model, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, format("%s: a corpus of types only has no sentences", path));
    struct qkv_run run = {.config.data = data};
    struct qkv_alignment_score score;
    cr_expect_eq(qkv_alignment_evaluate(&run, &corpus, write_text(folder, "x.align", "0-0\n0-0\n"),
                                        QKV_LINKS_FROM_0, &score, &error),
                 QKV_INVALID);
    cr_expect_str_eq(error.message, "alignment scores need a corpus that keeps its raw lines");
    qkv_corpus_release(&corpus);
}

Test(misuse, of_vocabularies_and_types)
{
    struct qkv_types types = {0};
    struct qkv_vocabulary vocabulary = {0};
    struct qkv_error error;
    cr_expect_eq(qkv_types_find(&types, "a"), -1);
    cr_expect_eq(qkv_vocabulary_id(&vocabulary, "a"), QKV_UNKNOWN);
    cr_expect_eq(qkv_vocabulary_build(&vocabulary, 0, NULL, INT64_MIN, INT64_MIN, &error), QKV_OK);
    cr_expect_eq(vocabulary.size, QKV_SPECIALS);
    qkv_vocabulary_release(&vocabulary);
    qkv_vocabulary_release(&vocabulary);
    static const int64_t wrong[] = {-1, 3, INT32_MAX, INT32_MIN};
    cr_expect_eq(qkv_vocabulary_build(&vocabulary, 0, NULL, 0, 0, &error), QKV_OK);
    for (int i = 0; i < 4; i++) {
        cr_expect_null(qkv_vocabulary_token(&vocabulary, (int32_t)wrong[i]));
        cr_expect_null(qkv_types_token(&vocabulary.types, wrong[i]));
    }
    qkv_vocabulary_release(&vocabulary);
    cr_expect_null(qkv_vocabulary_token(&vocabulary, 0));
    for (int i = 0; i < 2; i++) cr_expect_eq(qkv_types_add(&types, "a", INT64_MAX), 0);
    cr_expect_eq(types.frequency[0], INT64_MAX);
    cr_expect_eq(qkv_types_add(&types, "b", INT64_MIN), 1);
    cr_expect_eq(qkv_types_add(&types, "b", -1), 1);
    cr_expect_eq(types.frequency[1], INT64_MIN);
    const struct qkv_types *texts[] = {&types, &types};
    cr_expect_eq(qkv_vocabulary_build(&vocabulary, 2, texts, INT64_MAX, INT64_MAX, &error), QKV_OK);
    qkv_vocabulary_release(&vocabulary);
    qkv_types_release(&types);
}

/* Adding a part of the text moves the text that it is a part of. */
Test(misuse, a_part_of_the_types_is_added_to_them)
{
    struct qkv_types types = {0};
    for (int i = 0; i < 2000; i++) {
        int32_t number = qkv_types_add(&types, format("w%d_x", i), 1);
        int32_t part = qkv_types_add(&types, qkv_types_token(&types, number) + 1, 1);
        cr_assert_str_eq(qkv_types_token(&types, part), format("%d_x", i));
    }
    qkv_types_release(&types);
}

Test(misuse, of_tokens_that_no_file_can_hold)
{
    static const char *const tokens[] = {"a\nb", "", "a b", "\u00A0", "\xE2\x82"};
    const char *folder = scratch("tokens");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        struct qkv_types types = {0};
        struct qkv_vocabulary vocabulary;
        struct qkv_error error;
        const struct qkv_types *const texts[] = {&types};
        qkv_types_add(&types, tokens[i], 5);
        cr_assert_eq(qkv_vocabulary_build(&vocabulary, 1, texts, 0, 1, &error), QKV_OK);
        const char *path = format("%s/%zu", folder, i);
        cr_expect_eq(qkv_vocabulary_save(&vocabulary, path, &error), QKV_INVALID);
        cr_expect_str_eq(
            error.message,
            format("%s: the token of id 3 is empty, contains white space or is not valid UTF-8: a "
                   "file with it could not be read",
                   path));
        cr_expect_null(read_file(path, NULL));
        cr_expect_null(qkv_bpe_learn(1, texts, 1, &error));
        cr_expect_str_eq(
            error.message,
            i == 1 ? "1 merges are wanted, but the text has only 0: no other pair of symbols occurs "
                     "twice"
                   : "word 0 contains white space or is not valid UTF-8");
        qkv_vocabulary_release(&vocabulary);
        qkv_types_release(&types);
    }
}

Test(misuse, of_frequencies_of_words)
{
    static const int64_t frequencies[] = {INT64_MAX, INT64_MIN, -1, INT64_MAX / 2};
    struct qkv_types types = {0};
    struct qkv_error error;
    const struct qkv_types *const texts[] = {&types, &types};
    for (int i = 0; i < 4; i++) {
        qkv_types_add(&types, format("abab%d", i), frequencies[i]);
        qkv_types_add(&types, format("cdcd%d", i), -1);
    }
    struct qkv_bpe *bpe = qkv_bpe_learn(2, texts, 3, &error);
    cr_assert_not_null(bpe, "%s", error.message);
    cr_expect_eq(qkv_bpe_count(bpe), 3);
    qkv_bpe_free(bpe);
    qkv_types_release(&types);
}

Test(misuse, of_tokens)
{
    struct qkv_text_config text = TEXT;
    struct qkv_tokens tokens = {0};
    struct qkv_arena arena = {0};
    struct qkv_error error;
    static const char *const odd[] = {"", "\xFF", "\xE2\x82", "'", "$", "\u2019"};
    cr_expect_eq(qkv_tokenize(&tokens, &text, NULL, 0, &error), QKV_OK);
    for (int level = 0; level < 3; level++) {
        text.level = (enum qkv_level)level;
        text.split_punctuation = true;
        text.lang = level ? NULL : "fr";
        cr_expect_not_null(qkv_detokenize(&text, 6, odd, &arena));
        cr_expect_str_empty(qkv_detokenize(&text, -3, odd, &arena));
    }
    static const int levels[] = {-1, 3, 1000000};
    for (int i = 0; i < 3; i++) {
        text.level = (enum qkv_level)levels[i];
        cr_expect_eq(qkv_tokenize(&tokens, &text, "a", 1, &error), QKV_INVALID);
        cr_expect_null(qkv_detokenize(&text, 6, odd, &arena));
    }
    qkv_tokens_release(&tokens);
    qkv_tokens_release(&tokens);
    qkv_arena_release(&arena);
}

Test(misuse, of_files)
{
    struct qkv_file_writer writer = {0};
    struct qkv_error error;
    qkv_file_abandon(&writer);
    cr_expect_eq(qkv_file_commit(&writer, &error), QKV_INVALID);
    cr_expect_eq(qkv_file_begin(&writer, "/none/none/none", &error), QKV_INVALID);
    cr_expect_eq(qkv_folder_make("", &error), QKV_INVALID);
    cr_expect_eq(qkv_file_write(scratch("folder"), "a", 1, &error), QKV_INVALID);
    cr_expect_eq(qkv_file_open("", false, &error), -1);
    cr_expect_eq(qkv_file_check("", &error), QKV_INVALID);
}
