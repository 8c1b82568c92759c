#include "attention_options.h"

int choice_index(const char *given, qkv_name_lister *names, int otherwise)
{
    for (int i = 0; given && names(NULL, i); i++)
        if (!strcmp(names(NULL, i), given)) return i;
    return otherwise;
}

NAME_LISTER(kind_name,
            index < QKV_ATTENTION_KINDS ? qkv_attention_kind_name((enum qkv_attention_kind)index) : NULL);

int read_layer_or_head(const char *option, const char *text, unsigned accepted, int *index)
{
    /* words[accepted], where `accepted` is a set of bits. */
    static const char *const words[] = {"",        " or mean",      " or best",      ", mean or best",
                                        " or all", ", all or mean", ", all or best", ", all, mean or best"};
    char *end;
    if (!text) return QKV_OK;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (accepted & ACCEPT_ALL && !strcmp(text, "all"))
        *index = QKV_ATTENTION_EACH;
    else if (accepted & ACCEPT_MEAN && !strcmp(text, "mean"))
        *index = QKV_ATTENTION_MEAN;
    else if (accepted & ACCEPT_BEST && !strcmp(text, "best"))
        *index = QKV_ATTENTION_BEST;
    else if (end > text && !*end && !errno && number >= 1 && number <= 1000000)
        *index = (int)number;
    else
        return print_error("%s is '%s', but must be a number from 1%s", option, text, words[accepted]);
    return QKV_OK;
}

NAME_LISTER(attention_measure_name, index == 0 ? "weights" : index == 1 ? "norms" : NULL);

bool measures_norms(const char *text)
{
    return choice_index(text, attention_measure_name, 0);
}

enum qkv_status silence_heads(struct qkv_model *model, const struct option_list *without,
                              struct qkv_error *error)
{
    for (int i = 0; i < without->count; i++)
        for (const char *names = without->value[i]; names;
             names = strchr(names, ',') ? strchr(names, ',') + 1 : NULL) {
            char name[128];
            struct qkv_error inner;
            struct qkv_head head;
            snprintf(name, sizeof name, "%.*s", (int)strcspn(names, ","), names);
            if (qkv_head_find(model, name, &head, &inner))
                return qkv_error_set(error, "--without: %s", inner.message);
            qkv_model_ablate(model, head, true);
        }
    return QKV_OK;
}

const char *list_silent_heads(const struct qkv_model *model, char *text, size_t size)
{
    size_t used = 0;
    char name[64];
    *text = '\0';
    for (int64_t i = 0; i < qkv_model_head_count(model) && used < size; i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        if (!qkv_model_is_ablated(model, head)) continue;
        qkv_head_name(head, name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    return text;
}

NAME_LISTER(links_from_name, index == 0 ? "0" : index == 1 ? "1" : NULL);

void print_links(FILE *file, const struct qkv_alignment *links)
{
    for (int64_t i = 0; i < links->count; i++)
        fprintf(file, "%s%lld-%lld", i ? " " : "", (long long)links->links[i].source,
                (long long)links->links[i].target);
}

int links_options_check(const struct links_options *options, const char *pairs)
{
    if (options->from && !options->path) return print_error("--links-from needs --links");
    if (options->path && pairs && !strcmp(options->path, "-") && !strcmp(pairs, "-"))
        return print_error("standard input can hold the pairs or the links, not both");
    return QKV_OK;
}

void links_options_note(const struct links_options *options, int64_t missing, int64_t pairs,
                        struct qkv_word_spaces spaces)
{
    if (spaces.pair)
        print_error("note: sentence pair %lld has U+%04X between words: the links of %s fit words that %s",
                    (long long)spaces.pair, (unsigned)spaces.space, options->path,
                    spaces.by_unicode ? "any white space separates, as for Python"
                                      : "only white space of ASCII separates, as for fast_align and awk");
    if (missing)
        print_error("note: %s has no links of %lld of the %lld pairs: every link that is drawn there counts "
                    "as wrong; score only pairs that it has links of",
                    options->path, (long long)missing, (long long)pairs);
}

enum qkv_links_from links_from(const struct links_options *options)
{
    static const enum qkv_links_from values[] = {QKV_LINKS_FROM_0, QKV_LINKS_FROM_1, QKV_LINKS_FROM_DETECTED};
    return values[choice_index(options->from, links_from_name, 2)];
}

/* ---- alignment scores: a table for people, and JSON for programs ---- */

/* "layer 2, head 1", "layer 2, mean of heads", "mean of layers and heads" */
static const char *name_of(const struct qkv_alignment_result *result, char text[64])
{
    if (result->layer && result->head)
        snprintf(text, 64, "layer %d, head %d", result->layer, result->head);
    else if (result->layer)
        snprintf(text, 64, "layer %d, mean of heads", result->layer);
    else
        snprintf(text, 64, "mean of layers and heads");
    return text;
}

static void print_table(const struct qkv_alignment_score *score, enum qkv_alignment_drawing drawing,
                        FILE *file)
{
    /* The order of the results: by drawing, within it by reading, within it by map. */
    int64_t first = 0, count = 0;
    while (first < score->count && score->results[first].drawing != drawing) first++;
    while (first + count < score->count && score->results[first + count].drawing == drawing) count++;
    int64_t maps = count / QKV_READINGS;
    const struct qkv_alignment_result best = qkv_alignment_score_best(score, drawing);
    char text[64];
    fprintf(file, "%-25s  %-23s  %s\n", "", "predicted", "read");
    fprintf(file, "%-25s  %6s %9s %6s  %6s %9s %6s\n", "", "AER", "precision", "recall", "AER", "precision",
            "recall");
    for (int64_t i = first; i < first + maps; i++) {
        fprintf(file, "%-25s", name_of(&score->results[i], text));
        for (int reading = 0; reading < QKV_READINGS; reading++) {
            const struct qkv_alignment_result result = score->results[i + reading * maps];
            fprintf(file, "  %6.2f %9.2f %6.2f", 100 * result.error_rate, 100 * result.precision,
                    100 * result.recall);
        }
        fputc('\n', file);
    }
    fprintf(file, "best: %s, %s: AER %.2f\n", name_of(&best, text), qkv_alignment_reading_name(best.reading),
            100 * best.error_rate);
}

void print_alignment(const struct qkv_alignment_score *score, FILE *file)
{
    fprintf(file, "Cross attention against gold links, %lld sentence%s, in percent.\n",
            (long long)score->sentences, score->sentences == 1 ? "" : "s");
    fputs("predicted: a row of a map belongs to the word that its step predicts; read: to the word that it "
          "reads.\n",
          file);
    fputs("\nEach target word linked to its strongest source word (target):\n", file);
    print_table(score, QKV_DRAWING_TARGET, file);
    fputs("\nThe same, and each source word linked to its strongest target word (union):\n", file);
    print_table(score, QKV_DRAWING_UNION, file);
}

/* Layers and heads as attention maps have them in JSON. */
static void add_index(cJSON *object, const char *key, int index)
{
    if (index)
        cJSON_AddNumberToObject(object, key, index);
    else
        cJSON_AddStringToObject(object, key, "mean");
}

cJSON *alignment_result_json(const struct qkv_alignment_result *result)
{
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"drawing", qkv_alignment_drawing_name(result->drawing)},
               {"reading", qkv_alignment_reading_name(result->reading)});
    add_index(object, "layer", result->layer);
    add_index(object, "head", result->head);
    JSON_NUMBERS(object, {"aer", result->error_rate}, {"precision", result->precision},
                 {"recall", result->recall}, {"links", (double)result->links}, {"sure", (double)result->sure},
                 {"found_sure", (double)result->found_sure},
                 {"found_possible", (double)result->found_possible});
    return object;
}

cJSON *alignment_json(const struct qkv_alignment_score *score)
{
    cJSON *object = cJSON_CreateObject(), *best = cJSON_AddObjectToObject(object, "best");
    cJSON_AddNumberToObject(object, "sentences", (double)score->sentences);
    cJSON *results = cJSON_AddArrayToObject(object, "results");
    for (int64_t i = 0; i < score->count; i++) {
        struct qkv_alignment_result result = score->results[i];
        const char *drawing = qkv_alignment_drawing_name(result.drawing);
        cJSON_AddItemToArray(results, alignment_result_json(&result));
        if (cJSON_GetObjectItem(best, drawing)) continue;
        result = qkv_alignment_score_best(score, result.drawing);
        cJSON_AddItemToObject(best, drawing, alignment_result_json(&result));
    }
    return object;
}
