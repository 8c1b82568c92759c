/* Evaluation: what the scores mean, and what they must not depend on. */

#include "tiny.h"

enum { PAIRS = 23 };

static struct qkv_text_config side = {.max_length = 100, .voc_min_freq = 1};
static struct qkv_corpus corpus;
static struct qkv_vocabulary source, target;
static struct qkv_model *model, *partner; /* partner: evaluated together with the model, unless NULL */

static void read_corpus(struct qkv_corpus *output, const char *text)
{
    struct qkv_data_config data = {.src = side, .trg = side};
    struct qkv_corpus_options options = {.keep_raw = true};
    /* Each test has a process, and each of them comes through here. */
    const char *path = write_text(scratch(format("corpus.%ld", (long)getpid())), "x.tsv", text);
    expect_done(qkv_corpus_read(output, path, &data, options, &error));
    if (!source.size) cr_assert_eq(qkv_corpus_vocabularies(output, &data, &source, &target, &error), QKV_OK);
    cr_assert_eq(qkv_corpus_encode(output, &source, &target, &error), QKV_OK);
}

static void setup(void)
{
    static char text[PAIRS * 200];
    char *end = text;
    for (unsigned i = 0; i < PAIRS; i++) {
        for (unsigned k = 0; k < 1 + i * 7 % 9; k++) end += sprintf(end, "s%u ", (i * 5 + k * k) % 13);
        *end++ = '\t';
        for (unsigned k = 0; k < 1 + i * 5 % 8; k++) end += sprintf(end, "t%u ", (i * 3 + k * k) % 5);
        end[-1] = '\n';
    }
    read_corpus(&corpus, text);
    struct qkv_model_config config = tiny_config();
    model = tiny_model(&config, source.size, target.size, QKV_FLOAT64, 6);
}

static void teardown(void)
{
    qkv_model_free(model);
    qkv_model_free(partner);
    qkv_corpus_release(&corpus);
    qkv_vocabulary_release(&source);
    qkv_vocabulary_release(&target);
}

TestSuite(evaluate, .init = setup, .fini = teardown);

/* An evaluator of the model, or of the model and its partner. */
static struct qkv_evaluator *evaluator_of(const struct qkv_corpus *on, struct qkv_workers *workers,
                                          const struct qkv_testing_config *testing, struct qkv_error *refusal)
{
    static const struct qkv_model *models[2];
    models[0] = model;
    models[1] = partner;
    if (!partner) return qkv_evaluator_new(model, on, &side, &target, workers, testing, refusal);
    return qkv_evaluator_new_ensemble((struct qkv_ensemble){2, models}, on, &side, &target, workers, testing,
                                      refusal);
}

/* Evaluates; `texts` (may be NULL) gets the translations, on the heap. */
static struct qkv_scores scores_of(const struct qkv_corpus *on, int threads,
                                   struct qkv_testing_config testing, char *texts[])
{
    struct qkv_scores scores, again;
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(threads, &error);
    struct qkv_evaluator *evaluator RELEASED(free_evaluator) = evaluator_of(on, workers, &testing, &error);
    cr_assert_not_null(evaluator, "%s", error.message);
    expect_done(qkv_evaluator_run(evaluator, &scores, &error));
    expect_done(qkv_evaluator_run(evaluator, &again, &error));
    cr_assert_eq(scores.value[QKV_METRIC_LOSS], again.value[QKV_METRIC_LOSS], "a second run gives the same");
    cr_assert_eq(scores.value[QKV_METRIC_BLEU], again.value[QKV_METRIC_BLEU]);
    for (int64_t i = 0; texts && i < on->count; i++)
        texts[i] = format("%s", qkv_evaluator_translation(evaluator, i));
    return scores;
}

/* The log-probabilities of all tokens, one sentence after the other, of a run of references; the caller frees them. */
static double *log_probabilities_of(int threads, struct qkv_testing_config testing, struct qkv_scores *scores)
{
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(threads, &error);
    struct qkv_evaluator *evaluator RELEASED(free_evaluator) =
        evaluator_of(&corpus, workers, &testing, &error);
    cr_assert_null(qkv_evaluator_log_probabilities(evaluator, 0), "before the first run");
    expect_done(qkv_evaluator_run_references(evaluator, scores, &error));
    cr_expect_null(qkv_evaluator_translation(evaluator, 0), "nothing is translated");
    cr_expect(isnan(scores->value[QKV_METRIC_SEQUENCE_ACCURACY]));
    double *list = malloc((size_t)scores->counts.tokens * sizeof *list);
    int64_t at = 0;
    for (int64_t i = 0; i < PAIRS; i++) {
        struct qkv_sentence_score sentence = qkv_evaluator_sentence(evaluator, i);
        double sum = 0;
        for (int64_t t = 0; t < sentence.tokens; t++)
            sum += list[at++] = qkv_evaluator_log_probabilities(evaluator, i)[t];
        cr_expect_eq(-sum, sentence.negative_log_likelihood, "sentence %d", (int)i);
    }
    cr_expect_eq(at, scores->counts.tokens);
    cr_expect_null(qkv_evaluator_log_probabilities(evaluator, PAIRS));
    cr_expect_null(qkv_evaluator_log_probabilities(evaluator, -1));
    return list;
}

static const struct qkv_testing_config GREEDY = {
    .batch_size = 4, .beam_size = 1, .beam_alpha = 0.6, .n_best = 1};
static const struct qkv_testing_config BEAM = {
    .batch_size = 5, .beam_size = 3, .beam_alpha = 1, .n_best = 1, .max_output_length = 6};

Test(evaluate, threads_change_no_bit)
{
    const struct qkv_testing_config testings[] = {GREEDY, BEAM};
    for (int k = 0; k < 2; k++) {
        char *expected[PAIRS], *texts[PAIRS];
        struct qkv_scores first = scores_of(&corpus, 1, testings[k], expected), scores;
        double *expected_list RELEASED(free_memory) = log_probabilities_of(1, testings[k], &scores);
        for (int threads = 2; threads <= 7; threads++) {
            scores = scores_of(&corpus, threads, testings[k], texts);
            cr_expect_arr_eq(scores.value, first.value, sizeof first.value, "%d threads", threads);
            for (int i = 0; i < PAIRS; i++) cr_expect_str_eq(texts[i], expected[i]);
            double *list RELEASED(free_memory) = log_probabilities_of(threads, testings[k], &scores);
            cr_expect_arr_eq(list, expected_list, (size_t)scores.counts.tokens * sizeof *list, "%d threads",
                             threads);
        }
    }
}

Test(evaluate, the_batch_size_changes_no_more_than_rounding)
{
    static const int64_t SIZES[] = {1, 2, 7, PAIRS, 1000};
    char *expected[PAIRS], *texts[PAIRS];
    struct qkv_scores first = scores_of(&corpus, 1, BEAM, expected);
    for (int k = 0; k < 5; k++) {
        struct qkv_testing_config testing = BEAM;
        testing.batch_size = SIZES[k];
        struct qkv_scores scores = scores_of(&corpus, 2, testing, texts);
        cr_expect_eq(scores.counts.sentences, first.counts.sentences);
        cr_expect_eq(scores.counts.tokens, first.counts.tokens);
        cr_expect_float_eq(scores.value[QKV_METRIC_LOSS], first.value[QKV_METRIC_LOSS], 1e-12);
        cr_expect_eq(scores.value[QKV_METRIC_TOKEN_ACCURACY], first.value[QKV_METRIC_TOKEN_ACCURACY]);
        cr_expect_eq(scores.value[QKV_METRIC_SEQUENCE_ACCURACY], first.value[QKV_METRIC_SEQUENCE_ACCURACY]);
        cr_expect_eq(scores.value[QKV_METRIC_BLEU], first.value[QKV_METRIC_BLEU]);
        for (int i = 0; i < PAIRS; i++) cr_expect_str_eq(texts[i], expected[i]);
    }
}

/* log((p + q) / 2) of the log-probabilities of two models. */
static void average(int64_t count, double *p, const double *q)
{
    for (int64_t i = 0; i < count; i++) p[i] = log((exp(p[i]) + exp(q[i])) / 2);
}

static void expect_scores_of_the_forced_pass(void)
{
    struct qkv_scores references;
    double likelihood = 0, correct = 0, *list = log_probabilities_of(2, GREEDY, &references);
    int64_t tokens = 0;
    struct qkv_batch batch = {0};
    for (int64_t i = 0; i < PAIRS; i++) {
        const struct qkv_corpus_side *s = &corpus.source, *t = &corpus.target;
        struct qkv_ids from = {s->start[i + 1] - s->start[i], s->ids + s->start[i]};
        struct qkv_ids to = {t->start[i + 1] - t->start[i], t->ids + t->start[i]};
        struct qkv_batch_view view;
        cr_assert_eq(qkv_batch_make(&batch, 1, &from, &to, NULL), QKV_OK);
        qkv_batch_shard(&batch, 0, 1, &view);
        double *forced RELEASED(free_memory) = tiny_log_probabilities(model, &view);
        double *second = partner ? tiny_log_probabilities(partner, &view) : NULL;
        if (second) average(view.target_tokens * target.size, forced, second);
        free(second);
        for (int64_t k = 0; k < view.target_tokens; k++) {
            const double *row = forced + k * target.size;
            int32_t best = 0;
            for (int32_t c = 0; c < target.size; c++)
                if (row[c] > row[best]) best = c;
            likelihood -= row[view.target_output[k]];
            cr_expect_float_eq(list[tokens + k], row[view.target_output[k]], 1e-12, "sentence %d, token %d",
                               (int)i, (int)k);
            correct += best == view.target_output[k];
        }
        tokens += view.target_tokens;
    }
    qkv_batch_release(&batch);
    free(list);
    struct qkv_scores scores = scores_of(&corpus, 2, GREEDY, NULL);
    cr_expect_eq(references.value[QKV_METRIC_LOSS], scores.value[QKV_METRIC_LOSS]);
    cr_expect_eq(references.value[QKV_METRIC_TOKEN_ACCURACY], scores.value[QKV_METRIC_TOKEN_ACCURACY]);
    cr_expect_eq(scores.counts.sentences, PAIRS);
    cr_expect_eq(scores.counts.tokens, tokens);
    cr_expect_float_eq(scores.value[QKV_METRIC_LOSS], likelihood / (double)tokens, 1e-12);
    cr_expect_float_eq(scores.value[QKV_METRIC_PERPLEXITY], exp(scores.value[QKV_METRIC_LOSS]),
                       1e-12 * scores.value[QKV_METRIC_PERPLEXITY]);
    cr_expect_float_eq(scores.value[QKV_METRIC_TOKEN_ACCURACY], correct / (double)tokens, 1e-12);
    for (int metric = 0; metric < QKV_METRIC_COUNT; metric++) cr_expect(isfinite(scores.value[metric]));
    cr_expect(qkv_metric_info(QKV_METRIC_LOSS)->lower_is_better &&
              qkv_metric_info(QKV_METRIC_PERPLEXITY)->lower_is_better);
    cr_expect(!qkv_metric_info(QKV_METRIC_BLEU)->lower_is_better &&
              !qkv_metric_info(QKV_METRIC_SEQUENCE_ACCURACY)->lower_is_better);
}

Test(evaluate, loss_and_token_accuracy_are_those_of_the_forced_pass)
{
    expect_scores_of_the_forced_pass();
    struct qkv_scores alone = scores_of(&corpus, 1, BEAM, NULL);
    partner = model; /* freed once, because it is replaced below */
    expect_scores_of_the_forced_pass();
    struct qkv_scores twice = scores_of(&corpus, 1, BEAM, NULL);
    for (int metric = 0; metric < QKV_METRIC_COUNT; metric++)
        cr_expect_float_eq(alone.value[metric], twice.value[metric], 1e-12 * fabs(alone.value[metric]),
                           "metric %d", metric);
    struct qkv_model_config config = tiny_config();
    partner = tiny_model(&config, source.size, target.size, QKV_FLOAT64, 7);
    expect_scores_of_the_forced_pass();
    struct qkv_scores mixed = scores_of(&corpus, 1, BEAM, NULL);
    cr_expect_eq(scores_of(&corpus, 3, BEAM, NULL).value[QKV_METRIC_LOSS], mixed.value[QKV_METRIC_LOSS]);
    cr_expect_neq(mixed.value[QKV_METRIC_LOSS], alone.value[QKV_METRIC_LOSS]);
}

/* Whether the model's own output for sentence i ends by itself. */
static bool finishes(int64_t i)
{
    const struct qkv_corpus_side *s = &corpus.source;
    struct qkv_ids from = {s->start[i + 1] - s->start[i], s->ids + s->start[i]};
    struct qkv_search_options options = {.beam_size = 1, .beam_alpha = GREEDY.beam_alpha, .n_best = 1};
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    struct qkv_translations translations RELEASED(qkv_translations_release) = {0};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_batch_view view;
    cr_assert_eq(qkv_batch_make(&batch, 1, &from, NULL, NULL), QKV_OK);
    qkv_batch_shard(&batch, 0, 1, &view);
    cr_assert_eq(qkv_search(decoding, &view, &options, &translations, NULL), QKV_OK);
    bool finished = translations.best[0].finished;
    return finished;
}

/* The targets become what the model says itself, except for every `wrong`-th (0: none). Outputs that were cut
 * are wrong even where all their words are right. */
static void expect_own_words(int wrong, char *const texts[])
{
    char *text RELEASED(free_memory) = malloc(PAIRS * 400), *end = text;
    int right = 0;
    for (int i = 0; i < PAIRS; i++) {
        bool is_wrong = !texts[i][0] || (wrong && i % wrong == 0);
        right += !is_wrong && finishes(i);
        end += sprintf(end, "%s\t%s%s\n", qkv_corpus_source(&corpus, i), is_wrong ? "t1 t1 t2 t1 " : "",
                       texts[i]);
    }
    struct qkv_corpus translated RELEASED(qkv_corpus_release);
    read_corpus(&translated, text);
    struct qkv_scores scores = scores_of(&translated, 2, GREEDY, NULL);
    cr_expect_gt(right, 3);
    cr_expect_lt(right, PAIRS);
    cr_expect_eq(scores.value[QKV_METRIC_SEQUENCE_ACCURACY], (double)right / PAIRS);
}

Test(evaluate, sequences_are_right_when_every_word_and_the_end_is)
{
    /* </s> comes often enough for some outputs to end by themselves. */
    tiny_favour(model, QKV_END, 0.5);
    char *texts[PAIRS];
    scores_of(&corpus, 1, GREEDY, texts);
    for (int wrong = 0; wrong < 4; wrong += 3) expect_own_words(wrong, texts);
}

/* The pass over the references asks, and so do the searches. */
Test(evaluate, can_be_interrupted_and_run_again)
{
    bool interrupt = false;
    struct qkv_scores scores, again;
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(3, &error);
    struct qkv_evaluator *evaluator RELEASED(free_evaluator) =
        evaluator_of(&corpus, workers, &GREEDY, &error);
    expect_done(qkv_evaluator_run(evaluator, &scores, &error));
    qkv_set_interrupt(&interrupt);
    interrupt = true;
    expect_refusal(qkv_evaluator_run_references(evaluator, &again, &error), "interrupted");
    expect_refusal(qkv_evaluator_run(evaluator, &again, &error), "interrupted");
    struct qkv_corpus unread RELEASED(qkv_corpus_release) = {0};
    const struct qkv_data_config data = {.src = side, .trg = side};
    expect_refusal(qkv_corpus_read(&unread, write_text(scratch("unread"), "x.tsv", "a\tb\n"), &data,
                                   (struct qkv_corpus_options){0}, &error),
                   "interrupted");
    interrupt = false;
    expect_done(qkv_evaluator_run(evaluator, &again, &error));
    cr_expect_arr_eq(again.value, scores.value, sizeof scores.value);
}
