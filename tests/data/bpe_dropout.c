/* BPE dropout: the pieces that epochs draw for the same words. */
#include "data/corpus.h"

#include "encoded.h"
#include "tiny.h"

enum { SENTENCES = 2000 };

/* Every word of the tests has another merge first. */
static const char CODES[] = "#version: 0.2\na b</w>\nc c\ncc c</w>\nx y\nxy z</w>\n";

struct text {
    struct qkv_data_config data;
    struct qkv_bpe *bpe[2];
    struct encoded encoded;
    const struct qkv_corpus *corpus; /* that of `encoded` */
};

/* Reads SENTENCES pairs that have `line` on both sides, and cuts the words with a rate for each side. */
static void read_text(struct text *text, const char *line, double source_rate, double target_rate,
                      int64_t longest)
{
    const char *folder = scratch("text");
    char *lines = remember(malloc(SENTENCES * (2 * strlen(line) + 2) + 1)), *end = lines;
    for (int i = 0; i < SENTENCES; i++) end += sprintf(end, "%s\t%s\n", line, line);
    const char *path = write_text(folder, "train.tsv", lines);
    const struct qkv_text_config side = {.lang = "en",
                                         .level = QKV_LEVEL_BPE,
                                         .bpe_codes = write_text(folder, "codes", CODES),
                                         .max_length = longest,
                                         .voc_min_freq = 3};
    *text = (struct text){.data = {.src = side, .trg = side}};
    text->data.src.bpe_dropout = source_rate;
    text->data.trg.bpe_dropout = target_rate;
    const struct qkv_corpus_options options = {.drop_long = true, .bpe_dropout = true};
    expect_done(qkv_corpus_merges(path, &text->data, text->bpe, options, &error));
    read_encoded(&text->encoded, path, &text->data, options);
    text->corpus = &text->encoded.corpus;
}

static void release(struct text *text)
{
    release_encoded(&text->encoded);
    qkv_bpe_free(text->bpe[0]);
    qkv_bpe_free(text->bpe[1]);
}

/* The pieces of a sentence, with a space between. */
static const char *pieces(const struct qkv_corpus_side *side, const struct qkv_vocabulary *vocabulary,
                          int64_t i)
{
    char *line = remember(calloc(1, 1000)), *end = line;
    for (int64_t k = side->start[i]; k < side->start[i + 1]; k++)
        end += sprintf(end, "%s%s", k > side->start[i] ? " " : "",
                       qkv_vocabulary_token(vocabulary, side->ids[k]));
    return line;
}

static const char *source_pieces(const struct text *text, int64_t i)
{
    return pieces(&text->corpus->source, &text->encoded.source, i);
}

/* How many source sentences are cut in this way. */
static int count(const struct text *text, const char *line)
{
    int found = 0;
    for (int64_t i = 0; i < text->corpus->count; i++) found += !strcmp(source_pieces(text, i), line);
    return found;
}

/* Fails unless `found` of SENTENCES is within five standard deviations of a probability. */
static void expect_share(int found, double probability, const char *what)
{
    double deviation = sqrt(probability * (1 - probability) / SENTENCES);
    cr_expect_float_eq((double)found / SENTENCES, probability, 5 * deviation, "%s: %d of %d", what, found,
                       SENTENCES);
}

/* Each step of a word draws anew for each place of a merge (Provilkov et al. 2020, algorithm 1). xyz has two places for "x
 * y", "xy z": the second is reached after the first alone. In c c c c</w>, the merge "c c" fits at the first and the second
 * place, which overlap. After both, "cc c</w>" does not fit beside "c c</w>", which no merge joins; after the second alone,
 * it fits. */
Test(bpe_dropout, leaves_out_each_merge_with_its_probability)
{
    static const struct {
        const char *word, *pieces;
        double probability;
    } rows[] = {
        {"ab", "ab", 0.7},           {"ab", "a@@ b", 0.3},
        {"xyz", "xyz", 0.7 * 0.7},   {"xyz", "xy@@ z", 0.7 * 0.3},
        {"xyz", "x@@ y@@ z", 0.3},   {"cccc", "c@@ ccc", 0.3 * 0.7 * 0.7},
        {"cccc", "cc@@ c@@ c", 0.7}, {"cccc", "c@@ c@@ c@@ c", 0.3 * 0.3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text text RELEASED(release);
        read_text(&text, rows[i].word, 0.3, 0, 100);
        qkv_corpus_resample(&text.encoded.corpus, 1, 0);
        expect_share(count(&text, rows[i].pieces), rows[i].probability, rows[i].pieces);
    }
}

Test(bpe_dropout, depends_on_seed_epoch_sentence_and_side_alone)
{
    struct text text RELEASED(release), same RELEASED(release);
    read_text(&text, "ab xyz cccc", 0.5, 0.5, 100);
    read_text(&same, "ab xyz cccc", 0.5, 0.5, 100);
    uint32_t checksum = qkv_corpus_checksum(text.corpus); /* of the text, whichever pieces it has */
    cr_expect_neq(checksum, 0);
    qkv_corpus_resample(&text.encoded.corpus, 7, 3);
    cr_expect_eq(qkv_corpus_checksum(text.corpus), checksum);
    qkv_corpus_resample(&same.encoded.corpus, 7, 1);
    int equal = 0, sides = 0, neighbours = 0;
    for (int64_t i = 0; i < SENTENCES; i++) {
        equal += !strcmp(source_pieces(&text, i), source_pieces(&same, i));
        sides += !strcmp(source_pieces(&text, i), pieces(&text.corpus->target, &text.encoded.target, i));
        neighbours += i && !strcmp(source_pieces(&text, i), source_pieces(&text, i - 1));
    }
    /* Equal by chance: (0.5^2 + 0.5^2) (0.5^2 + 0.25^2 + 0.25^2) (0.5^2 + ...) is below 0.1. */
    cr_expect_lt(equal, SENTENCES / 5);
    cr_expect_lt(sides, SENTENCES / 5);
    cr_expect_lt(neighbours, SENTENCES / 5);
    qkv_corpus_resample(&same.encoded.corpus, 7, 3);
    for (int64_t i = 0; i < SENTENCES; i++)
        cr_assert_str_eq(source_pieces(&text, i), source_pieces(&same, i), "sentence %lld", (long long)i);
}

/* A rate below 2^-32 leaves out nothing; a side without dropout stays as it was read. */
Test(bpe_dropout, without_dropout_the_pieces_are_those_of_the_tokenizer)
{
    struct text text RELEASED(release);
    read_text(&text, "ab xyz cccc abq ccc", 1e-12, 0, 100);
    const char *before = source_pieces(&text, 5);
    cr_expect_str_eq(before, "ab xyz cc@@ c@@ c a@@ b@@ q ccc");
    uint32_t checksum = qkv_corpus_checksum(text.corpus);
    qkv_corpus_resample(&text.encoded.corpus, 1, 0);
    cr_expect_eq(count(&text, before), SENTENCES);
    cr_expect_str_eq(pieces(&text.corpus->target, &text.encoded.target, 5), before);
    cr_expect_eq(qkv_corpus_checksum(text.corpus), checksum);
}

/* The vocabulary has every piece that dropout can make, also where voc_min_freq is above their frequency. */
Test(bpe_dropout, no_piece_is_unknown)
{
    struct text text RELEASED(release);
    read_text(&text, "ab xyz cccc", 0.9, 0.9, 100);
    cr_expect_eq(text.corpus->source.unknown, 0);
    qkv_corpus_resample(&text.encoded.corpus, 1, 0);
    for (int64_t k = 0; k < text.corpus->source.start[SENTENCES]; k++)
        cr_assert_neq(text.corpus->source.ids[k], QKV_UNKNOWN);
    cr_expect_gt(count(&text, "a@@ b x@@ y@@ z c@@ c@@ c@@ c"), SENTENCES / 2);
}

/* Pieces beyond max_length: the sentence is cut without dropout. `longest` bounds every epoch. */
Test(bpe_dropout, a_sentence_never_exceeds_max_length)
{
    struct text text RELEASED(release);
    read_text(&text, "ab ab xyz", 0.5, 0, 4);
    cr_expect_eq(text.corpus->count, SENTENCES);
    cr_expect_eq(text.corpus->source.longest, 4);
    cr_expect_eq(text.corpus->target.longest, 3);
    qkv_corpus_resample(&text.encoded.corpus, 1, 0);
    for (int64_t i = 0; i < SENTENCES; i++)
        cr_assert_leq(text.corpus->source.start[i + 1] - text.corpus->source.start[i], 4);
    cr_expect_eq(count(&text, "a@@ b a@@ b xyz"), 0);
    expect_share(count(&text, "a@@ b ab xyz"), 0.5 * 0.5 * 0.5 * 0.5, "one more piece");
    release(&text);
    read_text(&text, "ab xyz", 0.5, 0, 100);
    cr_expect_eq(text.corpus->source.longest, 5);
}

/* ---- calls that a program should not make ---- */

/* Batches that were planned for other pieces would exceed the memory that was reserved for them. */
Test(bpe_dropout, batches_are_planned_again_after_the_pieces_change)
{
    struct text text RELEASED(release);
    struct qkv_batches batches RELEASED(qkv_batches_release);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    read_text(&text, "ab xyz cccc", 0.9, 0.9, 100);
    const struct qkv_batches_options options = {QKV_BATCH_TOKEN, 40, QKV_BATCH_ORDER_CORPUS, 1};
    cr_assert_eq(qkv_batches_init(&batches, text.corpus, options, &error), QKV_OK);
    qkv_corpus_resample(&text.encoded.corpus, 1, 1);
    expect_refusal(qkv_batches_get(&batches, 0, &batch, &error),
                   "the corpus was resampled: plan its batches again with qkv_batches_epoch");
    qkv_batches_epoch(&batches, 1);
    for (int64_t i = 0; i < batches.count; i++)
        cr_assert_eq(qkv_batches_get(&batches, i, &batch, &error), QKV_OK);
}

/* The memory for the pieces was reserved for the max_length with which the corpus was read. */
Test(bpe_dropout, a_later_change_of_the_settings_has_no_effect)
{
    struct text text RELEASED(release), same RELEASED(release);
    read_text(&text, "ab ab xyz", 0.5, 0.9, 4);
    read_text(&same, "ab ab xyz", 0.5, 0.9, 4);
    text.data.src.max_length = text.data.trg.max_length = 1000;
    text.data.src.bpe_dropout = text.data.trg.bpe_dropout = 1;
    text.data.src.bpe = text.data.trg.bpe = NULL;
    qkv_corpus_resample(&text.encoded.corpus, 1, 1);
    qkv_corpus_resample(&same.encoded.corpus, 1, 1);
    for (int64_t i = 0; i < SENTENCES; i++)
        cr_assert_str_eq(source_pieces(&text, i), source_pieces(&same, i));
}

/* Links between words become links between tokens, and log-probabilities have their places, only while the pieces stay. */
Test(bpe_dropout, what_needs_the_same_pieces_in_each_epoch_is_refused)
{
    struct text text RELEASED(release);
    struct qkv_corpus corpus RELEASED(qkv_corpus_release);
    read_text(&text, "ab xyz", 0.5, 0, 100);
    struct qkv_corpus_options options = {
        .drop_long = true, .bpe_dropout = true, .keep_words = true, .keep_raw = true};
    const char *path = write_text(scratch("words"), "x.tsv", "ab xyz\tab xyz\n");
    expect_refusal(qkv_corpus_read(&corpus, path, &text.data, options, &error),
                   format("%s: BPE dropout changes which word a token is part of: read the corpus without "
                          "options.bpe_dropout, or without options.keep_words",
                          path));
    options.keep_words = false;
    expect_done(qkv_corpus_read(&corpus, path, &text.data, options, &error));
    cr_assert_eq(qkv_corpus_encode(&corpus, &text.encoded.source, &text.encoded.target, &error), QKV_OK);
    const struct qkv_model_config config = tiny_config();
    struct qkv_model *model RELEASED(free_model) =
        tiny_model(&config, text.encoded.source.size, text.encoded.target.size, QKV_FLOAT32, 1);
    const struct qkv_testing_config testing = {.batch_size = 2, .beam_size = 1};
    expect_refusal(STATUS_OF(qkv_evaluator_new(model, &corpus, &text.data.trg, &text.encoded.target, NULL,
                                               &testing, &error)),
                   "a corpus with BPE dropout, which changes its references, cannot be "
                   "evaluated: read it without options.bpe_dropout");
}
