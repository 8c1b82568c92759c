/* Silent words in the page: translation, scores and maps are those of the native engine with the same mask. */
#include "browser.h"
#include "support.h"

#include "qkv/attention_collect.h"
#include "qkv/run.h"
#include "qkv/search.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* WebAssembly has no fused multiply-add. */
#define TOLERANCE 1e-5

#define SENTENCE "c a b"
enum { WORDS = 4, BEAM = 2 }; /* with </s> */

/* The run of a folder, natively. */
struct native {
    struct qkv_run run;
    struct qkv_decoding *decoding;
    struct qkv_attention_collector *collector;
    struct qkv_sentence sentence;
    struct qkv_batch batch;
    struct qkv_translations translations;
};

static void open_native(struct native *native)
{
    struct qkv_error error;
    *native = (struct native){0};
    cr_assert_eq(qkv_run_open(&native->run, "run", NULL, QKV_FLOAT32, &error), QKV_OK);
    native->decoding = qkv_decoding_new(native->run.model);
    native->collector = qkv_attention_collector_new(native->run.model, &error);
    cr_assert(native->decoding && native->collector);
    cr_assert_eq(qkv_sentence_encode(&native->sentence, &native->run.config.data.src, &native->run.source,
                                     SENTENCE, strlen(SENTENCE), &error),
                 QKV_OK);
    cr_assert_eq(native->sentence.tokens.count, WORDS - 1);
}

static void close_native(struct native *native)
{
    qkv_attention_collector_free(native->collector);
    qkv_decoding_free(native->decoding);
    qkv_translations_release(&native->translations);
    qkv_batch_release(&native->batch);
    qkv_sentence_release(&native->sentence);
    qkv_run_release(&native->run);
}

/* Compares all weights of the page with those of the report. Cells of silent words have no weight in the page. */
static void compare_maps(const struct qkv_attention_report *report, const bool *masked)
{
    cr_assert_eq((int)number_of("state.view.heads.length"), report->map_count);
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        char *numbers = value_of("[...state.view.heads[%d].weights].join(' ')", (int)i);
        for (int64_t k = 0; k < map->rows * map->columns; k++) {
            bool is_masked = map->kind != QKV_ATTENTION_DECODER && masked[k % map->columns];
            double shown = strtod(numbers, &numbers);
            bool is_later = map->kind == QKV_ATTENTION_DECODER && k % map->columns > k / map->columns;
            if (is_masked || is_later) cr_expect_eq(map->weights[k], 0);
            cr_expect_float_eq(shown, is_masked || is_later ? -1 : map->weights[k], TOLERANCE,
                               "map %d, cell %d", (int)i, (int)k);
        }
    }
}

/* The page shows what the native engine finds with this mask. */
static void expect_masked(struct native *native, const bool masked[static WORDS])
{
    struct qkv_error error = {""};
    struct qkv_batch_view view;
    struct qkv_attention_report report;
    struct qkv_search_options options = qkv_search_options_from_config(&native->run.config.testing);
    const struct qkv_ids source = {native->sentence.tokens.count, native->sentence.ids};
    options.beam_size = options.n_best = BEAM;
    cr_assert_eq(qkv_batch_make(&native->batch, 1, &source, NULL, &error), QKV_OK);
    native->batch.source_masked = masked;
    qkv_batch_shard(&native->batch, 0, 1, &view);
    cr_assert_eq(qkv_search(native->decoding, &view, &options, &native->translations, &error), QKV_OK, "%s",
                 error.message);
    const struct qkv_hypothesis *best = &native->translations.best[0];
    const char *tokens[64], *words = "";
    for (int64_t i = 0; i < best->length; i++) {
        tokens[i] = qkv_vocabulary_token(&native->run.target, best->ids[i]);
        words = format("%s%s%s", words, i ? " " : "", tokens[i]);
    }
    EXPECT_TEXT("target", words);
    cr_expect_float_eq(number_of("state.view.scores[0]"), best->score, TOLERANCE);
    const struct qkv_attention_pair pair = {.source = source,
                                            .target = {best->length, best->ids},
                                            .source_tokens = native->sentence.tokens.token,
                                            .target_tokens = tokens,
                                            .unfinished = !best->finished,
                                            .source_masked = masked};
    cr_assert_eq(qkv_attention_collect(native->collector, 1, &pair, 0, &report, &error), QKV_OK, "%s",
                 error.message);
    compare_maps(&report, masked);
}

static void opened(const char *fragment)
{
    browser_open("run --numbers float32 --sentence '" SENTENCE "'", fragment);
}

static const bool NONE[WORDS], FIRST[WORDS] = {true}, TWO[WORDS] = {true, false, true},
                               ALL[WORDS] = {true, true, true, true};

Test(page_silence, silences_words_of_a_transformer)
{
    skip_without_browser();
    enter(learned_run("silent_words"));
    struct native native;
    open_native(&native);
    opened("s=c+a+b&beam=2&head=encoder-1-1");
    expect_masked(&native, NONE);
    char *before = value_of("state.view.scores[0]");
    EXPECT_VALUE("count('#map td.hidden-cell')", "0");
    point_at("source-word-0"); /* the cross appears */
    click("silence-word-0");
    wait_until("isSettled() && state.silentWords === '1'");
    expect_masked(&native, FIRST);
    cr_expect_str_neq(value_of("state.view.scores[0]"), before);
    EXPECT_VALUE("count('#map td.hidden-cell')", "4"); /* a column of the encoder's map */
    EXPECT_TEXT("silent-words", "silent: “c”. Nothing attends to a silent word.");
    click("head-cross-1-1");
    point_at("source-word-0");
    EXPECT_TEXT("caption", "“c” is silent: nothing attends to it");

    run_script("at('source-word-2').focus()");
    press("s");
    wait_until("isSettled() && state.silentWords === '1,3'");
    expect_masked(&native, TWO);
    EXPECT_FOCUS("source-word-2");
    cr_expect(shows(value_of("decodeURIComponent(location.hash)"), "silent-words=1,3"));
    run_script("history.back()");
    wait_until("isSettled() && state.silentWords === '1'");
    expect_masked(&native, FIRST);
    click("words-speak");
    wait_until("isSettled() && !state.silentWords");
    expect_masked(&native, NONE);
    EXPECT_VALUE("state.view.scores[0]", before);
    /* An address may name words that do not exist; all words may be silent. */
    opened("s=c+a+b&beam=2&head=cross-1-1&silent-words=4,9,x,3,-1,2,1,0");
    EXPECT_VALUE("state.silentWords", "1,2,3,4");
    expect_masked(&native, ALL);
    point_at("target-word-0");
    cr_expect(shows(text_of("caption"), " attends to nothing"));
    click("source");
    type_text(" a");
    wait_until("isSettled() && state.view.source_tokens.length === 5");
    EXPECT_VALUE("state.silentWords", ""); /* another sentence begins without silent words */
    browser_close();
    close_native(&native);
}

/* The steps of the walk end with the probabilities of the view, and show the mask. */
Test(page_silence, the_steps_have_the_mask)
{
    skip_without_browser();
    enter(learned_run("silent_steps"));
    opened("s=c+a+b&silent-words=2&head=cross-1-1&steps=1");
    wait_until("state.walk && isSettled()");
    EXPECT_VALUE("stepOf('mask').note", "Nothing attends to a silent word.");
    cr_expect_lt(number_of("(step => Math.max(...[...state.view.probabilities].map((probability, row) => "
                           "Math.abs(probability - valueAt(step, row, "
                           "step.columnNames.indexOf(step.rowNames[row]))))))(stepOf('probabilities'))"),
                 TOLERANCE);
    browser_close();
}

/* A recurrent encoder reads the word all the same. With the score local_p no word can be silent. */
Test(page_silence, silences_words_of_a_recurrent_decoder)
{
    skip_without_browser();
    enter(tiny_task("silent_recurrent"));
    static const char *const scores[] = {"general", "local_p"};
    for (int i = 0; i < 2; i++) {
        write_text(
            ".", "recurrent.yaml",
            format("name: tiny\n"
                   "data: {train: train.tsv, dev: dev.tsv, src: {lang: a}, trg: {lang: b}}\n"
                   "model:\n"
                   "  encoder: {type: recurrent, num_layers: 1, hidden_size: 16}\n"
                   "  decoder: {type: recurrent, num_layers: 1, hidden_size: 16, attention: {score: %s}}\n"
                   "training: {model_dir: run, learning_rate: 0.01, batch_size: 16, updates: 150}\n",
                   scores[i]));
        run_ok("qkv train recurrent.yaml -q --overwrite --threads 1");
        opened("s=c+a+b&beam=2&silent-words=1");
        if (i == 0) {
            struct native native;
            open_native(&native);
            expect_masked(&native, FIRST);
            close_native(&native);
            EXPECT_TEXT("silent-words",
                        "silent: “c”. Nothing attends to a silent word, but the encoder reads it.");
        } else {
            EXPECT_VALUE("count('.word-box')", "0");
            EXPECT_VALUE("state.silentWords", "");
        }
    }
    browser_close();
}
