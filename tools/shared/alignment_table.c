#include "alignment_table.h"
#include "print.h"

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
            struct qkv_alignment_result result = qkv_alignment_score_get(score, i + reading * maps);
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
        struct qkv_alignment_result result = qkv_alignment_score_get(score, i);
        const char *drawing = qkv_alignment_drawing_name(result.drawing);
        cJSON_AddItemToArray(results, alignment_result_json(&result));
        if (cJSON_GetObjectItem(best, drawing)) continue;
        result = qkv_alignment_score_best(score, result.drawing);
        cJSON_AddItemToObject(best, drawing, alignment_result_json(&result));
    }
    return object;
}
