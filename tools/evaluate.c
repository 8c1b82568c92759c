/* qkv evaluate: scores a run on parallel text. */
#include "config.h"
#include "open_run.h"
#include "run_processes.h"
#include "score_options.h"
#include "search_options.h"
#include "text_notes.h"
#include "train/training.h"

#include "report/json_text.h"
#include "run/training_log.h"

struct evaluation {
    struct qkv_run run;
    struct ensemble ensemble;
    struct qkv_corpus corpus;
    struct qkv_workers *workers;
    struct qkv_processes *processes;
    struct qkv_evaluator *evaluator;
    struct qkv_scorer scorer;
    struct qkv_alignment_score alignment; /* empty without --links */
    struct qkv_scorer
        *classes; /* [class_count]: sources of i * step + 1 to (i + 1) * step tokens, for --by-length */
    int64_t class_count;
    const char *test;         /* path of the parallel text */
    double tokens_per_second; /* of training; 0: not known */
    int64_t beam_size;
};

/* The options as they are given. */
static struct score_options score_options = SCORE_OPTIONS_DEFAULT;
static struct links_options links_options;
static struct qkv_text_options text_options;
static const char *checkpoint, *log_probs;
static int64_t threads, step; /* step of --by-length; 0: no table by length */
static struct search_options search_options = SEARCH_OPTIONS_DEFAULT;
static bool json, no_translation;

/* ---- scores by the length of the source (--by-length) ---- */

/* Makes the classes of lengths. */
static enum qkv_status make_classes(struct evaluation *e, struct qkv_error *error)
{
    int64_t count = (e->corpus.source.longest + step - 1) / step;
    e->classes = calloc((size_t)count, sizeof *e->classes);
    if (!e->classes) return qkv_no_memory(error);
    e->class_count = count;
    for (int64_t i = 0; i < count; i++) e->classes[i].options = text_options;
    return QKV_OK;
}

static enum qkv_status add_to_class(struct evaluation *e, const struct qkv_sentence_score *score,
                                    const char *translation, const char *reference, struct qkv_error *error)
{
    struct qkv_scorer *class = &e->classes[(score->source_tokens - 1) / step];
    class->counts.sentences++;
    class->counts.translated++;
    class->counts.tokens += score->tokens;
    class->counts.negative_log_likelihood += score->negative_log_likelihood;
    class->counts.correct += score->correct;
    class->counts.exact_matches += score->is_exact_match;
    return qkv_scorer_add(class, translation, &reference, 1, error);
}

static bool has_column(const struct evaluation *e, int m)
{
    const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
    return info->columns & QKV_COLUMN_BY_LENGTH &&
           (!info->of_texts || qkv_scorer_computes(&e->classes[0], (enum qkv_metric)m));
}

/* Prints the table. Leaves out classes without sentences. */
static void print_classes(const struct evaluation *e)
{
    enum { NARROWEST = 7 };
    int widths[QKV_METRIC_COUNT];
    printf("%-18s %9s", "source tokens", "sentences");
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        char name[METRIC_NAME_SIZE];
        if (!has_column(e, m)) continue;
        int width = (int)strlen(metric_column_name((enum qkv_metric)m, name)) + 1;
        widths[m] = width > NARROWEST ? width : NARROWEST;
        printf(" %*s", widths[m], name);
    }
    putchar('\n');
    for (int64_t i = 0; i < e->class_count; i++) {
        const struct qkv_scores scores = qkv_scorer_scores(&e->classes[i]);
        char range[48];
        if (!scores.counts.sentences) continue;
        snprintf(range, sizeof range, step == 1 ? "%lld" : "%lld to %lld", (long long)(i * step + 1),
                 (long long)((i + 1) * step));
        printf("%-18s %9lld", range, (long long)scores.counts.sentences);
        for (int m = 0; m < QKV_METRIC_COUNT; m++)
            if (has_column(e, m))
                printf(" %*.2f", widths[m], metric_shown((enum qkv_metric)m, scores.value[m]));
        putchar('\n');
    }
}

/* An array of objects with from, to (source tokens), sentences, tokens, and the metrics that have a column. */
static cJSON *classes_json(const struct evaluation *e)
{
    cJSON *array = cJSON_CreateArray();
    for (int64_t i = 0; i < e->class_count; i++) {
        const struct qkv_scores scores = qkv_scorer_scores(&e->classes[i]);
        if (!scores.counts.sentences) continue;
        cJSON *object = cJSON_CreateObject();
        JSON_NUMBERS(object, {"from", (double)(i * step + 1)}, {"to", (double)((i + 1) * step)},
                     {"sentences", (double)scores.counts.sentences},
                     {"tokens", (double)scores.counts.tokens});
        for (int m = 0; m < QKV_METRIC_COUNT; m++)
            if (has_column(e, m))
                cJSON_AddNumberToObject(object, qkv_metric_info((enum qkv_metric)m)->key, scores.value[m]);
        cJSON_AddItemToArray(array, object);
    }
    return array;
}

/* ---- log-probabilities (--log-probs) ---- */

/* Token `t` of the target of sentence i, as the model reads it; </s> after the last one. */
static const char *token(const struct evaluation *e, int64_t i, int64_t t)
{
    const struct qkv_corpus_side *side = &e->corpus.target;
    int64_t at = side->start[i] + t;
    return qkv_vocabulary_token(&e->run.target, at < side->start[i + 1] ? side->ids[at] : QKV_END);
}

/* The line of a sentence; of running text the number of the window. */
static int64_t line_of(const struct evaluation *e, int64_t i)
{
    return e->corpus.line ? e->corpus.line[i] : i + 1;
}

/* Appends a row: line, number of tokens, sum, tokens and log-probabilities, the last two with spaces between. */
static void append_row(const struct evaluation *e, int64_t i, struct bytes *out)
{
    const struct qkv_sentence_score score = qkv_evaluator_sentence(e->evaluator, i);
    const double *numbers = qkv_evaluator_log_probabilities(e->evaluator, i);
    struct bytes tokens = {0};
    for (int64_t t = 0; t < score.tokens; t++)
        qkv_bytes_format(&tokens, "%s%s", t ? " " : "", token(e, i, t));
    if (tokens.failed) required(NULL);
    qkv_bytes_format(out, "%lld\t%lld\t", (long long)line_of(e, i), (long long)score.tokens);
    qkv_bytes_number(out, -score.negative_log_likelihood);
    qkv_bytes_text(out, "\t");
    qkv_text_field(out, tokens.data, '\t');
    for (int64_t t = 0; t < score.tokens; t++) {
        qkv_bytes_text(out, t ? " " : "\t");
        qkv_bytes_number(out, numbers[t]);
    }
    qkv_bytes_text(out, "\n");
    free(tokens.data);
}

static cJSON *sentence_object(const struct evaluation *e, int64_t i)
{
    const struct qkv_sentence_score score = qkv_evaluator_sentence(e->evaluator, i);
    const double *numbers = qkv_evaluator_log_probabilities(e->evaluator, i);
    cJSON *object = cJSON_CreateObject();
    JSON_NUMBERS(object, {"line", (double)line_of(e, i)}, {"log_prob", -score.negative_log_likelihood});
    cJSON *tokens = cJSON_AddArrayToObject(object, "tokens");
    for (int64_t t = 0; t < score.tokens; t++)
        cJSON_AddItemToArray(tokens, cJSON_CreateString(token(e, i, t)));
    cJSON_AddItemToObject(object, "log_probs", cJSON_CreateDoubleArray(numbers, (int)score.tokens));
    return object;
}

/* Appends one object with all sentences. */
static void append_json(const struct evaluation *e, struct bytes *out)
{
    double sum = 0, tokens = 0;
    cJSON *root = cJSON_CreateObject(), *sentences = cJSON_CreateArray();
    for (int64_t i = 0; i < e->corpus.count; i++) {
        const struct qkv_sentence_score score = qkv_evaluator_sentence(e->evaluator, i);
        sum -= score.negative_log_likelihood;
        tokens += (double)score.tokens;
        cJSON_AddItemToArray(sentences, sentence_object(e, i));
    }
    JSON_TEXTS(root, {"run", e->run.config.name}, {"checkpoint", e->run.checkpoint}, {"test", e->test});
    JSON_NUMBERS(root, {"tokens", tokens}, {"log_prob", sum});
    cJSON_AddItemToObject(root, "sentences", sentences);
    qkv_json_append(out, root);
    qkv_bytes_text(out, "\n");
    cJSON_Delete(root);
}

/* Writes the file: for each sentence, its line in the text, its tokens, the log-probability of each token, and their sum. */
static enum qkv_status write_log_probs(const struct evaluation *e, struct qkv_error *error)
{
    struct bytes out = {0};
    if (qkv_ends_in(log_probs, ".json")) {
        append_json(e, &out);
    } else {
        qkv_bytes_text(&out, "line\ttoken_count\tlog_prob\ttokens\tlog_probs\n");
        for (int64_t i = 0; i < e->corpus.count; i++) append_row(e, i, &out);
    }
    return write_output(log_probs, &out, error);
}

/* ---- evaluating ---- */

/* Scores the translations as the options ask: all together, and by length. They are joined to text as people write it if the
 * training text was. */
static enum qkv_status score_texts(struct evaluation *e, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    const struct qkv_text_config *trg = &e->run.config.data.trg;
    struct text_notes notes = {0};
    for (int64_t i = 0; !status && i < e->corpus.count; i++) {
        const char *reference = qkv_corpus_target(&e->corpus, i);
        const char *translation = qkv_evaluator_translation(e->evaluator, i);
        struct qkv_sentence_score score = qkv_evaluator_sentence(e->evaluator, i);
        text_notes_add_reference(&notes, reference);
        text_notes_add_translation(&notes, translation);
        status = qkv_scorer_add(&e->scorer, translation, &reference, 1, error);
        if (!status && step) status = add_to_class(e, &score, translation, reference, error);
    }
    note_cut(e->scorer.counts.cut, e->scorer.counts.translated);
    if (!status) text_notes_print(&notes, &e->scorer, trg->split_punctuation && trg->level != QKV_LEVEL_CHAR);
    return status;
}

/* Refuses sentences that are longer than the positions of a model. */
static enum qkv_status fits_all(const struct evaluation *e, struct qkv_error *error)
{
    const char *path = strcmp(e->test, "-") != 0 ? e->test : "<stdin>";
    for (int64_t i = 0; i < e->ensemble.models.count; i++) {
        struct qkv_error inner;
        if (!qkv_corpus_fits(&e->corpus, path, &e->ensemble.model[i]->config, &inner)) continue;
        if (!i) return qkv_error_set(error, "%s", inner.message);
        return qkv_error_set(error, "%s: %s", e->ensemble.others[i - 1].path, inner.message);
    }
    return QKV_OK;
}

/* Reads the text, and makes the evaluator. */
static enum qkv_status prepare(struct evaluation *e, struct qkv_testing_config *testing,
                               struct qkv_error *error)
{
    const char *path = e->test;
    const struct qkv_data_config *data = &e->run.config.data;
    const struct qkv_corpus_options options = {
        .keep_raw = true, .third_column = links_options.path, .key = path == data->test ? "data.test" : NULL};
    if (qkv_corpus_read(&e->corpus, path, data, options, error)) return QKV_INVALID;
    if (fits_all(e, error)) return QKV_INVALID;
    if (qkv_corpus_encode(&e->corpus, &e->run.source, &e->run.target, error)) return QKV_INVALID;
    enum qkv_status status = QKV_OK;
    bool leads = qkv_processes_rank(e->processes) == 0;
    const char *links = links_options.path;
    if (leads && e->run.sides.has_source) warn_of_swapped_corpus(path, &e->corpus, &e->run);
    if (leads && links)
        status = qkv_alignment_evaluate(&e->run, &e->corpus, links, links_from(&links_options), &e->alignment,
                                        error);
    if (status) return status;
    links_options_note(&links_options, e->alignment.missing, e->corpus.count, e->alignment.spaces);
    if (!score_options.tokenizer)
        text_options.tokenizer = qkv_bleu_tokenizer_for(testing->bleu_tokenizer, &e->corpus);
    e->scorer.options = text_options;
    if (step && make_classes(e, error)) return QKV_INVALID;
    e->workers = qkv_workers_new(threads_of(e->processes, threads), error);
    if (!e->workers) return QKV_INVALID;
    e->evaluator = qkv_evaluator_new_ensemble(e->ensemble.models, &e->corpus, &data->trg, &e->run.target,
                                              e->workers, testing, error);
    if (!e->evaluator) return QKV_INVALID;
    qkv_evaluator_divide(e->evaluator, e->processes);
    return QKV_OK;
}

/* Scores the text. Process 0 alone has the scores. */
static enum qkv_status evaluate(struct evaluation *e, struct qkv_error *error)
{
    struct qkv_scores scores;
    enum qkv_status status =
        (no_translation ? qkv_evaluator_run_references : qkv_evaluator_run)(e->evaluator, &scores, error);
    if (status || qkv_processes_rank(e->processes) > 0) return status;
    e->scorer.counts = scores.counts;
    if (log_probs && write_log_probs(e, error)) return QKV_INVALID;
    return no_translation ? QKV_OK : score_texts(e, error);
}

static void print_path(const char *title, const char *path)
{
    printf("%-18s ", title);
    print_result(stdout, path);
    putchar('\n');
}

static void print_table(const struct evaluation *e)
{
    char without[1024];
    print_path("checkpoint", e->run.checkpoint);
    for (int64_t i = 1; i < e->ensemble.models.count; i++)
        print_path("with", e->ensemble.others[i - 1].checkpoint);
    print_path("test", e->test);
    if (*list_silent_heads(e->run.model, without, sizeof without)) printf("without            %s\n", without);
    const char *precision = narrow_precision(e->run.model);
    if (precision) printf("precision          %s\n", precision);
    printf("sentences          %lld\n", (long long)e->scorer.counts.sentences);
    printf("target tokens      %lld\n", (long long)e->scorer.counts.tokens);
    scorer_print(&e->scorer);
    const struct qkv_score_counts *counts = &e->scorer.counts;
    if (!e->run.sides.has_source)
        printf("bits per character %.4f\nbits per word      %.4f\n", qkv_bits_per(counts, counts->characters),
               qkv_bits_per(counts, counts->words));
    if (step) {
        putchar('\n');
        print_classes(e);
    }
    if (!e->alignment.count) return;
    putchar('\n');
    print_alignment(&e->alignment, stdout);
}

static void add_silent_heads(cJSON *object, const struct qkv_model *model)
{
    cJSON *names = cJSON_AddArrayToObject(object, "without");
    for (int64_t i = 0; i < qkv_model_head_count(model); i++) {
        char name[64];
        qkv_head_name(qkv_model_head(model, i), name, sizeof name);
        if (qkv_model_is_ablated(model, qkv_model_head(model, i)))
            cJSON_AddItemToArray(names, cJSON_CreateString(name));
    }
}

static void print_json(const struct evaluation *e)
{
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"run", e->run.config.name});
    JSON_NUMBERS(object, {"parameters", (double)qkv_parameters_total(&e->run.model->parameters)});
    if (e->tokens_per_second > 0) JSON_NUMBERS(object, {"training_tokens_per_second", e->tokens_per_second});
    JSON_NUMBERS(object, {"training_max_length", (double)e->run.config.data.src.max_length});
    JSON_TEXTS(object, {"checkpoint", e->run.checkpoint});
    if (e->ensemble.models.count > 1) {
        cJSON *others = cJSON_AddArrayToObject(object, "with");
        for (int64_t i = 1; i < e->ensemble.models.count; i++)
            cJSON_AddItemToArray(others, cJSON_CreateString(e->ensemble.others[i - 1].checkpoint));
    }
    if (!no_translation) cJSON_AddNumberToObject(object, "beam_size", (double)e->beam_size);
    JSON_TEXTS(object, {"test", e->test});
    if (narrow_precision(e->run.model)) JSON_TEXTS(object, {"precision", narrow_precision(e->run.model)});
    if (search_options.without.count) add_silent_heads(object, e->run.model);
    JSON_NUMBERS(object, {"sentences", (double)e->scorer.counts.sentences},
                 {"tokens", (double)e->scorer.counts.tokens});
    scorer_json(&e->scorer, object);
    const struct qkv_score_counts *counts = &e->scorer.counts;
    if (!e->run.sides.has_source)
        JSON_NUMBERS(object, {QKV_BITS_PER_CHARACTER, qkv_bits_per(counts, counts->characters)},
                     {"bits_per_word", qkv_bits_per(counts, counts->words)});
    if (step) cJSON_AddItemToObject(object, "by_length", classes_json(e));
    if (e->alignment.count) cJSON_AddItemToObject(object, "alignment", alignment_json(&e->alignment));
    json_print(object);
}

static void close_evaluation(struct evaluation *e)
{
    qkv_scorer_release(&e->scorer);
    for (int64_t i = 0; i < e->class_count; i++) qkv_scorer_release(&e->classes[i]);
    free(e->classes);
    qkv_alignment_score_release(&e->alignment);
    qkv_evaluator_free(e->evaluator);
    qkv_workers_free(e->workers);
    qkv_corpus_release(&e->corpus);
    ensemble_close(&e->ensemble);
    qkv_run_release(&e->run);
}

/* Reads the speed at which the run was trained. */
static enum qkv_status read_speed(struct evaluation *e, struct qkv_error *error)
{
    struct qkv_training_log log = {0};
    enum qkv_status status = qkv_training_log_read(&log, e->run.path, error);
    if (!status) status = qkv_training_log_speed(&log, &e->tokens_per_second, error);
    qkv_training_log_release(&log);
    return status;
}

/* Opens the run and the text as the options say. */
static enum qkv_status open_evaluation(struct evaluation *e, const char *run, const char *text,
                                       struct qkv_testing_config *testing, struct qkv_error *error)
{
    const char *const inputs[] = {text, links_options.path};
    enum qkv_status status = refuse_input_as_output(log_probs, inputs, 2, error);
    if (!status) status = open_run(&e->run, run, checkpoint, QKV_FLOAT32, NULL, error);
    if (status) return status;
    *testing = e->run.config.testing;
    no_translation = no_translation || !e->run.sides.has_source;
    if (!e->run.sides.has_source)
        status = refuse_translation(&command_evaluate, run, links_options.path, error);
    if (status) return status;
    status = search_options_apply(&search_options, testing, error);
    e->beam_size = testing->beam_size;
    if (!status && e->processes && text && !strcmp(text, "-"))
        status = qkv_error_set(error, "TSV is standard input, which only one of several processes can read: "
                                      "name a file");
    if (!status) status = silence_heads(e->run.model, &search_options.without, error);
    e->test = text ? text : e->run.config.data.test;
    if (!status && !*e->test)
        status =
            qkv_error_set(error, "%s/" QKV_RUN_CONFIG ": data.test is empty: set it, or name a text after %s",
                          e->run.path, e->run.path);
    if (!status) status = set_precision(e->run.model, search_options.precision, error);
    if (!status)
        status = ensemble_open(&e->ensemble, &e->run, &search_options.with, search_options.precision, error);
    if (!status) status = read_speed(e, error);
    return status ? status : prepare(e, testing, error);
}

/* Reports options that contradict each other. */
static int check_options(const char *text)
{
    if (links_options_check(&links_options, text)) return QKV_INVALID;
    if (no_translation && print_translation_options_error(&command_evaluate)) return QKV_INVALID;
    if (score_options_read(&score_options, &text_options)) return QKV_INVALID;
    if (log_probs && !qkv_ends_in(log_probs, ".tsv") && !qkv_ends_in(log_probs, ".json"))
        return print_error("--log-probs %s: must be a file whose name ends in .tsv or .json", log_probs);
    return QKV_OK;
}

static int run_evaluate(int operands, char **operand)
{
    struct evaluation e = {0};
    struct qkv_error error = {""};
    struct qkv_testing_config testing = {0};
    if (join_processes(&command_evaluate, &e.processes)) return QKV_INVALID;
    bool leads = qkv_processes_rank(e.processes) == 0;
    const char *text = operands > 1 ? operand[1] : NULL;
    enum qkv_status status = leads ? (enum qkv_status)check_options(text) : QKV_OK;
    status = qkv_processes_share_status(e.processes, status);
    if (!status && !leads && (status = (enum qkv_status)check_options(text)))
        qkv_processes_abort(e.processes);
    if (!status) {
        status = open_evaluation(&e, operand[0], text, &testing, &error);
        const struct opened_run opened = {
            .run = &e.run,
            .models = e.ensemble.models,
            .search = qkv_search_options_from_config(&testing),
            .batch_size = testing.batch_size,
            .text = &e.corpus,
            .no_translation = no_translation,
        };
        status = agree_on_run(e.processes, &opened, status, &error);
    }
    if (!status) status = evaluate(&e, &error);
    if (!status && leads && json)
        print_json(&e);
    else if (!status && leads)
        print_table(&e);
    close_evaluation(&e);
    conclude(status, &error);
    qkv_processes_leave(e.processes);
    return (int)status;
}

const struct command command_evaluate = {
    .name = "evaluate",
    .summary = "score a run on a test set: loss, accuracies, BLEU, chrF",
    .description =
        "Scores a run on parallel text, or a language model on a text in the form that it was trained on: "
        "loss, perplexity, token accuracy, and bits for each character and word.\n\n"
        "Loss and token accuracy are those of the reference translations; sequence accuracy, BLEU, chrF and "
        "TER compare the translations of the run with the references. To keep the translations: `cut -f1 "
        "test.tsv | qkv translate RUN >out`, then `qkv score out refs`.\n\n"
        "--log-probs writes what the loss is made of: for each sentence its line, its tokens (with </s>), "
        "the natural logarithm of the probability of each one after those before it, and their sum. The sum "
        "of all sentences, divided by the number of tokens, is minus the loss.\n\n"
        "`mpirun -n N qkv evaluate RUN TSV` divides the sentences among N processes, each of which opens RUN "
        "and TSV, and prints the same as one.\n",
    .examples = "  qkv evaluate runs/toy_en_es\n"
                "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv\n"
                "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv --beam 5 --json\n"
                "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv \\\n"
                "      --links datasets/en_es/test.align\n"
                "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv --by-length 3\n"
                "  qkv evaluate runs/toy_en_es datasets/en_es/test.tsv --no-translation \\\n"
                "      --log-probs log_probs.tsv\n",
    .operands = OPERANDS(
        {"RUN", VALUE_RUN, "a run folder"},
        {"TSV", VALUE_FILE,
         "source and target separated by a tab (.tsv, .tsv.gz; -: standard input), or the common prefix "
         "of two files; of a language model, a text file (default: data.test of the run)",
         .optional = true}),
    .options = OPTIONS(
        COMMAND_OPTIONS_SEARCH(&search_options),
        COMMAND_OPTIONS_SCORE(&score_options, "testing.bleu_tokenizer"),
        COMMAND_OPTIONS_LINKS(&links_options, "score the alignment of the cross attention"),
        {"by-length", 'L', "STEP", OPTION_INTEGER, &step,
         "add a table by source length, in steps of STEP tokens", 1, 1000000, .needs_translations = true},
        {"log-probs", 0, "FILE", OPTION_TEXT, &log_probs,
         "write the log-probability of each target token of TSV, and their sum for each sentence (.tsv "
         ".json)",
         .completes = VALUE_FILE},
        {"no-translation", 0, NULL, OPTION_FLAG, &no_translation,
         "only loss, perplexity and token accuracy, which need no translations"},
        COMMAND_OPTION_CHECKPOINT(&checkpoint), COMMAND_OPTION_THREADS(&threads), COMMAND_OPTION_JSON(&json)),
    .run = run_evaluate,
    .is_divided = true,
};
