/* qkv score: computes BLEU, chrF and TER of translations by any program, with the same results as sacreBLEU. */
#include "score_options.h"
#include "text_notes.h"

#include "data/lines.h"

#include <ctype.h>

/* ---- reading ---- */

/* MAX_COMPARED: columns of references that are compared; MAX_WORDS: words of a translation that are; MAX_SYSTEMS: the operand
 * TRANSLATIONS, and --against up to 64 times. */
enum { MAX_COMPARED = 16, MAX_WORDS = 100, MAX_SYSTEMS = 65 };

/* The texts. A line of the references may have several references, separated by tabs. */
struct texts {
    struct qkv_lines outputs[MAX_SYSTEMS], references;
    int systems;
    const char *translations[MAX_SYSTEMS]; /* of the present line */
    const char **list;                     /* [count]: the references of the present line */
    int64_t count, capacity;
    struct text_notes notes;
    int64_t tabbed[MAX_SYSTEMS];          /* translations with a tab */
    int64_t fewest_columns, most_columns; /* in a line of the references; 0 at first */
    int64_t shared[MAX_COMPARED]; /* for each column: the words that it shares with the translations */
    bool filled[MAX_COMPARED];    /* for each column: a line has text there */
};

/* The size of the word at *text, which then points behind it; 0 at the end. Words are separated by spaces. */
static size_t next_word(const char **text, const char **word)
{
    *word = *text + strspn(*text, " ");
    size_t size = strcspn(*word, " ");
    *text = *word + size;
    return size;
}

static bool has_word(const char *text, const char *word, size_t size)
{
    const char *other;
    for (size_t length; (length = next_word(&text, &other));)
        if (length == size && !memcmp(other, word, size)) return true;
    return false;
}

/* Counts the words of the translation that a column of its references has, too. Punctuation alone is no word. */
static void count_shared(struct texts *texts, int64_t column, const char *reference)
{
    const char *text = texts->translations[0], *word;
    if (column >= MAX_COMPARED || !*reference) return;
    texts->filled[column] = true;
    size_t size;
    for (int i = 0; i < MAX_WORDS && (size = next_word(&text, &word)); i++)
        texts->shared[column] += !ispunct((unsigned char)*word) && has_word(reference, word, size);
}

/* Prints a note if all lines have as many columns, and one of them shares hardly any words with the translations: it may be the
 * source of a file of sentence pairs. */
static void note_columns(const struct texts *texts)
{
    int64_t columns = texts->most_columns < MAX_COMPARED ? texts->most_columns : MAX_COMPARED, most = 0;
    for (int64_t c = 0; c < columns; c++)
        if (texts->shared[c] > most) most = texts->shared[c];
    for (int64_t c = 0; c < columns && texts->fewest_columns == texts->most_columns; c++)
        if (texts->filled[c] && texts->shared[c] * 4 < most) {
            print_error("note: column %lld of %s shares hardly any words with the translations, but each of "
                        "the %lld columns counts as a reference: is it the source (cut -f2 takes one column)",
                        (long long)c + 1, texts->references.path, (long long)texts->most_columns);
            return;
        }
}

/* Prints a note if most translations of a system have a tab: they may be a file of sentence pairs. */
static void note_tabs(const struct texts *texts)
{
    for (int i = 0; i < texts->systems; i++)
        if (2 * texts->tabbed[i] > texts->references.number)
            print_error("note: %lld of %lld lines of %s have a tab, which counts as white space: are they "
                        "sentence pairs (cut -f2 takes one column)",
                        (long long)texts->tabbed[i], (long long)texts->references.number,
                        texts->outputs[i].path);
}

/* Splits a line at its tabs, in place. An empty column is a reference that the sentence does not have, as for sacreBLEU,
 * unless all its columns are empty. */
static void split(struct texts *texts)
{
    int64_t columns = 1;
    texts->count = 0;
    for (char *next = texts->references.line; next;) {
        if (!QKV_RESERVE(texts->list, texts->capacity, texts->count + 1)) required(NULL);
        char *reference = next;
        next = strchr(next, '\t');
        if (next) {
            columns++;
            *next++ = '\0';
        }
        if (columns > 1) count_shared(texts, columns - (next ? 2 : 1), reference);
        bool is_last = !next && !texts->count;
        if (!*reference && !is_last) continue;
        text_notes_add_reference(&texts->notes, reference);
        texts->list[texts->count++] = reference;
    }
    if (!texts->fewest_columns || columns < texts->fewest_columns) texts->fewest_columns = columns;
    if (columns > texts->most_columns) texts->most_columns = columns;
}

static enum qkv_status open_texts(struct texts *texts, char **operand, const struct option_list *against,
                                  struct qkv_error *error)
{
    enum qkv_status status = qkv_lines_open(&texts->outputs[texts->systems++], operand[0], error);
    for (int i = 0; !status && i < against->count; i++)
        status = qkv_lines_open(&texts->outputs[texts->systems++], against->value[i], error);
    return status ? status : qkv_lines_open(&texts->references, operand[1], error);
}

/* Reads a line of each text; *found becomes false at the end of all. */
static enum qkv_status read_line(struct texts *texts, bool *found, struct qkv_error *error)
{
    struct qkv_lines *references = &texts->references;
    bool output;
    for (int i = 0; i < texts->systems; i++) {
        struct qkv_lines *outputs = &texts->outputs[i];
        if (qkv_lines_next(outputs, &output, error)) return QKV_INVALID;
        if (i == 0 && qkv_lines_next(references, found, error)) return QKV_INVALID;
        if (output != *found)
            return qkv_error_set(error, "%s: has more lines than %s, which ends after line %lld",
                                 output ? outputs->path : references->path,
                                 output ? references->path : outputs->path,
                                 (long long)(output ? references : outputs)->number);
        texts->translations[i] = outputs->line;
        if (!output) continue;
        text_notes_add_translation(&texts->notes, outputs->line);
        texts->tabbed[i] += strchr(outputs->line, '\t') != NULL;
    }
    if (*found) {
        split(texts);
        return QKV_OK;
    }
    note_columns(texts);
    note_tabs(texts);
    return qkv_lines_check_read(&texts->outputs[0], error);
}

static void close_texts(struct texts *texts)
{
    for (int i = 0; i < texts->systems; i++) qkv_lines_close(&texts->outputs[i]);
    qkv_lines_close(&texts->references);
    free(texts->list);
}

/* ---- scoring ---- */

static struct score_options score_options = SCORE_OPTIONS_DEFAULT;
static struct option_list against;
static int64_t samples = -1, seed = -1;
static bool sentence_level, confidence, json;

/* Adds the scores of the last sentence to an array. */
static void add_sentence(cJSON *sentences, const struct qkv_scorer *scorer)
{
    const struct qkv_scores scores = qkv_scorer_last(scorer);
    cJSON *object = cJSON_CreateObject();
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        if (qkv_scorer_computes(scorer, (enum qkv_metric)m))
            cJSON_AddNumberToObject(object, qkv_metric_info((enum qkv_metric)m)->key, scores.value[m]);
    cJSON_AddItemToArray(sentences, object);
}

/* Prints the scores of all sentences as lines of TSV. */
static void print_sentences(const cJSON *sentences)
{
    const cJSON *sentence, *score;
    int64_t line = 0;
    cJSON_ArrayForEach(sentence, sentences)
    {
        if (!line) fputs("line", stdout);
        if (!line) cJSON_ArrayForEach(score, sentence) printf("\t%s", score->string);
        printf("%s%lld", line ? "" : "\n", (long long)line + 1);
        cJSON_ArrayForEach(score, sentence) printf("\t%.4f", score->valuedouble);
        putchar('\n');
        line++;
    }
}

/* ---- comparing several systems ---- */

/* Writes the title of a metric, and its signature with the number of samples and the seed, in the same places as sacreBLEU:
 * nrefs:1|bs:1000|seed:12345|case:mixed|... */
static void print_head(const struct qkv_scorer *scorer, enum qkv_metric metric)
{
    const struct qkv_metric_description shown = qkv_scorer_describe(scorer, metric);
    int first = (int)strcspn(shown.signature, "|");
    printf("%s  (%.*s|bs:%lld|seed:%lld%s)\n%8s %9s +- 95 %%   %6s  system\n", shown.title, first,
           shown.signature, (long long)samples, (long long)seed, shown.signature + first, "score", "mean",
           "p");
}

/* Prints a table for each metric. All systems were compared with the first. */
static void print_systems(const struct texts *texts, const struct qkv_bootstrap *bootstrap)
{
    const struct qkv_scorer *scorer = &bootstrap->scorers[0];
    bool started = false;
    for (int i = 0; i < QKV_METRIC_COUNT; i++) {
        const enum qkv_metric m = (enum qkv_metric)i;
        if (!qkv_scorer_computes(scorer, m)) continue;
        if (started) putchar('\n');
        started = true;
        print_head(scorer, m);
        const double first = qkv_bootstrap_result(bootstrap, 0, m).score;
        for (int s = 0; s < texts->systems; s++) {
            const struct qkv_bootstrap_result result = qkv_bootstrap_result(bootstrap, s, m);
            printf("%8.2f %9.2f +- %-6.2f ", result.score, result.mean, result.interval);
            if (result.score < first || result.score > first)
                printf("%6.4f  ", result.p_value);
            else
                printf("%6s  ", s ? "same" : "");
            print_plain(stdout, texts->outputs[s].path);
            putchar('\n');
        }
    }
}

static cJSON *systems_json(const struct texts *texts, const struct qkv_bootstrap *bootstrap)
{
    cJSON *object = cJSON_CreateObject();
    JSON_NUMBERS(object, {"samples", (double)samples}, {"seed", (double)seed});
    cJSON *list = cJSON_AddArrayToObject(object, "systems");
    for (int s = 0; s < texts->systems; s++) {
        const struct qkv_scorer *scorer = &bootstrap->scorers[s];
        cJSON *system = cJSON_CreateObject();
        cJSON_AddStringToObject(system, "system", texts->outputs[s].path);
        scorer_json(scorer, system);
        for (int i = 0; i < QKV_METRIC_COUNT; i++) {
            const enum qkv_metric m = (enum qkv_metric)i;
            char key[METRIC_NAME_SIZE + sizeof "_bootstrap"];
            if (!qkv_scorer_computes(scorer, m)) continue;
            const struct qkv_bootstrap_result result = qkv_bootstrap_result(bootstrap, s, m);
            snprintf(key, sizeof key, "%s_bootstrap", qkv_metric_info(m)->key);
            cJSON *numbers = cJSON_AddObjectToObject(system, key);
            JSON_NUMBERS(numbers, {"mean", result.mean}, {"interval", result.interval});
            if (s) cJSON_AddNumberToObject(numbers, "p_value", result.p_value);
        }
        cJSON_AddItemToArray(list, system);
    }
    return object;
}

/* ---- the command ---- */

/* Whether samples of the texts are scored, too. */
static bool draws_samples(void)
{
    return against.count || confidence;
}

static void print_scores(const struct texts *texts, const struct qkv_bootstrap *bootstrap, cJSON *sentences)
{
    if (json && draws_samples()) {
        json_print(systems_json(texts, bootstrap));
    } else if (json) {
        cJSON *object = cJSON_CreateObject();
        scorer_json(bootstrap->scorers, object);
        if (sentence_level) cJSON_AddItemReferenceToObject(object, "sentences", sentences);
        json_print(object);
    } else if (draws_samples()) {
        print_systems(texts, bootstrap);
    } else if (sentence_level) {
        print_sentences(sentences);
    } else {
        scorer_print(bootstrap->scorers);
    }
}

static enum qkv_status score(struct texts *texts, const struct qkv_text_options *options,
                             struct qkv_error *error)
{
    struct qkv_bootstrap *bootstrap = qkv_bootstrap_new(options, texts->systems, error);
    cJSON *sentences = cJSON_CreateArray();
    enum qkv_status status = bootstrap ? QKV_OK : QKV_INVALID;
    for (bool found = true; !status && !(status = read_line(texts, &found, error)) && found;) {
        status = qkv_bootstrap_add(bootstrap, texts->translations, texts->list, texts->count, error);
        if (!status && sentence_level) add_sentence(sentences, bootstrap->scorers);
    }
    if (samples < 0) samples = 1000;
    if (seed < 0) seed = 12345;
    if (!status && draws_samples()) status = qkv_bootstrap_run(bootstrap, samples, (uint32_t)seed, error);
    if (!status) text_notes_print(&texts->notes, bootstrap->scorers, false);
    if (!status) print_scores(texts, bootstrap, sentences);
    cJSON_Delete(sentences);
    qkv_bootstrap_free(bootstrap);
    return status;
}

/* Checks options that exclude each other. */
static int check_options(char **operand)
{
    int standard_inputs = !strcmp(operand[0], "-") + !strcmp(operand[1], "-");
    for (int i = 0; i < against.count; i++) standard_inputs += !strcmp(against.value[i], "-");
    if (standard_inputs > 1 && against.count)
        return print_error("standard input can hold only one of the texts");
    if (standard_inputs > 1)
        return print_error("standard input can hold the translations or the references, not both");
    if (!draws_samples() && (samples >= 0 || seed >= 0))
        return print_error("%s has no effect without --against or --confidence",
                           samples >= 0 ? "--samples" : "--seed");
    if (draws_samples() && sentence_level)
        return print_error("--sentence-level has the scores of sentences: give it without --against and "
                           "--confidence");
    return QKV_OK;
}

static int run_score(int operands, char **operand)
{
    (void)operands;
    struct texts texts = {.systems = 0};
    struct qkv_text_options options;
    if (check_options(operand) || score_options_read(&score_options, &options)) return QKV_INVALID;
    if (sentence_level) options.effective_order = true;
    struct qkv_error error = {""};
    enum qkv_status status = open_texts(&texts, operand, &against, &error);
    if (!status) status = score(&texts, &options, &error);
    close_texts(&texts);
    return conclude(status, &error);
}

const struct command command_score = {
    .name = "score",
    .summary = "compute BLEU, chrF and TER of any translations",
    .description =
        "Compares translations, from any program, with references: BLEU, chrF and TER as sacreBLEU computes "
        "them.\n\n"
        "With --against, also says for each further system whether its difference from TRANSLATIONS may be "
        "chance: by paired bootstrap resampling, with the mean of the samples, half of their 95 % interval, "
        "and p, the probability of such a difference by chance.\n",
    .examples = "  qkv translate runs/toy_en_es lines.en | qkv score - lines.es\n"
                "  qkv translate runs/a lines.en >a.es\n"
                "  qkv score a.es lines.es --metrics bleu,chrf,ter --chrf-word-order 2\n"
                "  cut -f2 lines.tsv | qkv score a.es -\n"
                "  qkv score a.es lines.es --sentence-level >scores.tsv\n"
                "  qkv translate runs/b lines.en >b.es\n"
                "  qkv score a.es lines.es --against b.es\n",
    .operands =
        OPERANDS({"TRANSLATIONS", VALUE_FILE, "one translation a line, plain or gzip; -: standard input"},
                 {"REFERENCES", VALUE_FILE,
                  "the same lines, each with one reference or several separated by tabs, plain or gzip; -: "
                  "standard input"}),
    .options = OPTIONS(
        COMMAND_OPTIONS_SCORE(&score_options, "13a"),
        {"sentence-level", 0, NULL, OPTION_FLAG, &sentence_level,
         "scores of each sentence, as TSV or, with --json, beside those of all; implies --effective-order"},
        {"against", 0, "FILE", OPTION_LIST, &against,
         "compare with the translations of another system, one a line; may be repeated",
         .completes = VALUE_FILE},
        {"confidence", 0, NULL, OPTION_FLAG, &confidence,
         "also print the mean of bootstrap samples, and half of their 95 % interval"},
        {"samples", 0, "N", OPTION_INTEGER, &samples, "samples of --against and --confidence (default: 1000)",
         1, 1000000},
        {"seed", 0, "N", OPTION_INTEGER, &seed, "seed of the samples (default: 12345)", 0, 4294967295.0},
        COMMAND_OPTION_JSON(&json)),
    .run = run_score,
};
