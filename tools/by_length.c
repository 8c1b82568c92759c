#include "by_length.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum qkv_status by_length_init(struct by_length *table, int64_t step, int64_t longest,
                               const struct qkv_text_options *options, struct qkv_error *error)
{
    table->step = step;
    table->class = calloc((size_t)((longest + step - 1) / step), sizeof *table->class);
    if (!table->class) return qkv_error_set(error, "out of memory for scores by length");
    table->count = (longest + step - 1) / step;
    for (int64_t i = 0; i < table->count; i++) table->class[i].options = *options;
    return QKV_OK;
}

enum qkv_status by_length_add(struct by_length *table, const struct qkv_sentence_score *score,
                              const char *translation, const char *reference, struct qkv_error *error)
{
    struct qkv_scorer *class = &table->class[(score->source_tokens - 1) / table->step];
    class->counts.sentences++;
    class->counts.translated++;
    class->counts.tokens += score->tokens;
    class->counts.negative_log_likelihood += score->negative_log_likelihood;
    class->counts.correct += score->correct;
    class->counts.exact_matches += score->is_exact_match;
    return qkv_scorer_add(class, translation, &reference, 1, error);
}

static bool has_column(const struct by_length *table, int m)
{
    const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
    if (!(info->columns & QKV_COLUMN_BY_LENGTH)) return false;
    return !info->of_texts || qkv_scorer_computes(&table->class[0], (enum qkv_metric)m);
}

void by_length_print(const struct by_length *table)
{
    enum { NARROWEST = 7 };
    int widths[QKV_METRIC_COUNT];
    printf("%-18s %9s", "source tokens", "sentences");
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        char name[METRIC_NAME_SIZE];
        if (!has_column(table, m)) continue;
        int width = (int)strlen(metric_column_name((enum qkv_metric)m, name)) + 1;
        widths[m] = width > NARROWEST ? width : NARROWEST;
        printf(" %*s", widths[m], name);
    }
    putchar('\n');
    for (int64_t i = 0; i < table->count; i++) {
        const struct qkv_scores scores = qkv_scorer_scores(&table->class[i]);
        char range[48];
        if (!scores.counts.sentences) continue;
        snprintf(range, sizeof range, table->step == 1 ? "%lld" : "%lld to %lld",
                 (long long)(i * table->step + 1), (long long)((i + 1) * table->step));
        printf("%-18s %9lld", range, (long long)scores.counts.sentences);
        for (int m = 0; m < QKV_METRIC_COUNT; m++)
            if (has_column(table, m))
                printf(" %*.2f", widths[m], metric_shown((enum qkv_metric)m, scores.value[m]));
        putchar('\n');
    }
}

cJSON *by_length_json(const struct by_length *table)
{
    cJSON *array = cJSON_CreateArray();
    for (int64_t i = 0; i < table->count; i++) {
        const struct qkv_scores scores = qkv_scorer_scores(&table->class[i]);
        if (!scores.counts.sentences) continue;
        cJSON *object = cJSON_CreateObject();
        cJSON_AddNumberToObject(object, "from", (double)(i * table->step + 1));
        cJSON_AddNumberToObject(object, "to", (double)((i + 1) * table->step));
        cJSON_AddNumberToObject(object, "sentences", (double)scores.counts.sentences);
        cJSON_AddNumberToObject(object, "tokens", (double)scores.counts.tokens);
        for (int m = 0; m < QKV_METRIC_COUNT; m++)
            if (has_column(table, m))
                cJSON_AddNumberToObject(object, qkv_metric_info((enum qkv_metric)m)->key, scores.value[m]);
        cJSON_AddItemToArray(array, object);
    }
    return array;
}

void by_length_release(struct by_length *table)
{
    for (int64_t i = 0; i < table->count; i++) qkv_scorer_release(&table->class[i]);
    free(table->class);
    *table = (struct by_length){0};
}
