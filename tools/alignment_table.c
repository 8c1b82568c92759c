#include "alignment_table.h"

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

static void print_rates(const struct qkv_alignment_result *result, FILE *file)
{
    fprintf(file, "  %6.2f %9.2f %6.2f", 100 * result->error_rate, 100 * result->precision,
            100 * result->recall);
}

static void print_table(const struct qkv_alignment_score *score, enum qkv_alignment_drawing drawing,
                        FILE *file)
{
    /* The order of the results: by drawing, within it by reading, within it by map. */
    int64_t first = 0, count = 0;
    while (first < score->count && score->results[first].drawing != drawing) first++;
    while (first + count < score->count && score->results[first + count].drawing == drawing) count++;
    int64_t maps = count / QKV_READINGS;
    struct qkv_alignment_result best = qkv_alignment_score_best(score, drawing);
    char text[64];
    fprintf(file, "%-25s  %-23s  %s\n", "", "predicted", "read");
    fprintf(file, "%-25s  %6s %9s %6s  %6s %9s %6s\n", "", "AER", "precision", "recall", "AER", "precision",
            "recall");
    for (int64_t i = first; i < first + maps; i++) {
        struct qkv_alignment_result predicted = qkv_alignment_score_get(score, i);
        struct qkv_alignment_result read = qkv_alignment_score_get(score, maps + i);
        fprintf(file, "%-25s", name_of(&predicted, text));
        print_rates(&predicted, file);
        print_rates(&read, file);
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

static bool add_number(cJSON *object, const char *key, double number)
{
    return cJSON_AddNumberToObject(object, key, number);
}

/* Layers and heads as attention maps have them in JSON. */
static bool add_index(cJSON *object, const char *key, int index)
{
    return index ? add_number(object, key, index) : cJSON_AddStringToObject(object, key, "mean") != NULL;
}

cJSON *alignment_result_json(const struct qkv_alignment_result *result)
{
    cJSON *object = cJSON_CreateObject();
    if (cJSON_AddStringToObject(object, "drawing", qkv_alignment_drawing_name(result->drawing)) &&
        cJSON_AddStringToObject(object, "reading", qkv_alignment_reading_name(result->reading)) &&
        add_index(object, "layer", result->layer) && add_index(object, "head", result->head) &&
        add_number(object, "aer", result->error_rate) && add_number(object, "precision", result->precision) &&
        add_number(object, "recall", result->recall) && add_number(object, "links", (double)result->links) &&
        add_number(object, "sure", (double)result->sure) &&
        add_number(object, "found_sure", (double)result->found_sure) &&
        add_number(object, "found_possible", (double)result->found_possible))
        return object;
    cJSON_Delete(object);
    return NULL;
}

/* Adds `item` to the object. When that fails, or one of them is NULL, frees the item and returns
 * false. */
static bool add_item(cJSON *object, const char *key, cJSON *item)
{
    if (item && cJSON_AddItemToObject(object, key, item)) return true;
    cJSON_Delete(item);
    return false;
}

static bool has_drawing(const struct qkv_alignment_score *score, enum qkv_alignment_drawing drawing)
{
    for (int64_t i = 0; i < score->count; i++)
        if (score->results[i].drawing == drawing) return true;
    return false;
}

cJSON *alignment_json(const struct qkv_alignment_score *score)
{
    cJSON *object = cJSON_CreateObject(), *results = cJSON_CreateArray(),
          *bests = cJSON_AddObjectToObject(object, "best");
    bool complete = bests && add_number(object, "sentences", (double)score->sentences);
    for (enum qkv_alignment_drawing drawing = 0; complete && drawing < QKV_DRAWINGS; drawing++) {
        if (!has_drawing(score, drawing)) continue;
        struct qkv_alignment_result best = qkv_alignment_score_best(score, drawing);
        complete = add_item(bests, qkv_alignment_drawing_name(drawing), alignment_result_json(&best));
    }
    for (int64_t i = 0; complete && i < score->count; i++) {
        struct qkv_alignment_result result = qkv_alignment_score_get(score, i);
        cJSON *item = alignment_result_json(&result);
        complete = item && cJSON_AddItemToArray(results, item);
        if (!complete) cJSON_Delete(item);
    }
    if (complete && add_item(object, "results", results)) return object;
    if (!complete) cJSON_Delete(results);
    cJSON_Delete(object);
    return NULL;
}
