#include "heads_table.h"

#include "draw/text.h"
#include "measure_option.h"
#include "qkv/attention_map.h"
#include "report/json_text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_WIDTH = 12, NARROWEST = 6 };

static const struct qkv_measured_head *head_at(const struct heads_table *table, int64_t row)
{
    return &table->measured->heads[table->order[row]];
}

/* Whether some head has the measure. */
static bool has_measure(const struct heads_table *table, int measure)
{
    for (int64_t i = 0; i < table->measured->count; i++)
        if (!isnan(table->measured->heads[i].value[measure])) return true;
    return false;
}

static bool is_change(int measure)
{
    return measure == QKV_HEAD_LOSS || measure == QKV_HEAD_BLEU;
}

/* ---- text ---- */

static const char *number_text(int measure, double value, char text[32])
{
    const struct qkv_head_measure_info *info = qkv_head_measure_info((enum qkv_head_measure)measure);
    snprintf(text, 32, is_change(measure) ? "%+.*f" : "%.*f", info->digits, info->factor * value);
    return isnan(value) ? "-" : text;
}

static int width_of(const struct heads_table *table, int measure)
{
    int widest = (int)strlen(qkv_head_measure_info((enum qkv_head_measure)measure)->title);
    for (int64_t i = 0; i < table->measured->count; i++) {
        char text[32];
        int width = (int)strlen(number_text(measure, table->measured->heads[i].value[measure], text));
        if (width > widest) widest = width;
    }
    return widest > NARROWEST ? widest : NARROWEST;
}

/* The columns of measures first .. end - 1. */
static void append_columns(const struct heads_table *table, int first, int end, struct bytes *out)
{
    qkv_bytes_format(out, "%-*s", NAME_WIDTH, "head");
    for (int m = first; m < end; m++)
        if (has_measure(table, m))
            qkv_bytes_format(out, " %*s", width_of(table, m),
                             qkv_head_measure_info((enum qkv_head_measure)m)->title);
    qkv_bytes_text(out, "\n");
    for (int64_t i = 0; i < table->measured->count; i++) {
        char name[64], text[32];
        qkv_head_name(head_at(table, i)->head, name, sizeof name);
        qkv_bytes_format(out, "%-*s", NAME_WIDTH, name);
        for (int m = first; m < end; m++)
            if (has_measure(table, m))
                qkv_bytes_format(out, " %*s", width_of(table, m),
                                 number_text(m, head_at(table, i)->value[m], text));
        qkv_bytes_text(out, "\n");
    }
}

void heads_table_text(const struct heads_table *table, struct bytes *out)
{
    const struct qkv_measured_heads *measured = table->measured;
    qkv_bytes_format(out, "%lld heads, %lld sentences, %lld target tokens; loss %.4f",
                     (long long)measured->count, (long long)measured->sentences, (long long)measured->tokens,
                     measured->loss);
    if (!isnan(measured->bleu)) qkv_bytes_format(out, ", BLEU %.2f", measured->bleu);
    qkv_bytes_format(out, "\n\nWhat each head attends to, by %s:\n",
                     table->norms ? "norms of weighted values" : "weights");
    append_columns(table, 0, QKV_HEAD_ERROR_PREDICTED, out);
    qkv_bytes_text(out, "\nHow important each head is (loss and BLEU: the change when it is silent):\n");
    append_columns(table, QKV_HEAD_ERROR_PREDICTED, QKV_HEAD_MEASURES, out);
}

/* ---- TSV ---- */

void heads_table_tsv(const struct heads_table *table, struct bytes *out)
{
    qkv_bytes_text(out, "head");
    for (int m = 0; m < QKV_HEAD_MEASURES; m++)
        qkv_bytes_format(out, "\t%s", qkv_head_measure_info((enum qkv_head_measure)m)->name);
    qkv_bytes_text(out, "\n");
    for (int64_t i = 0; i < table->measured->count; i++) {
        char name[64];
        qkv_head_name(head_at(table, i)->head, name, sizeof name);
        qkv_bytes_text(out, name);
        for (int m = 0; m < QKV_HEAD_MEASURES; m++) {
            qkv_bytes_text(out, "\t");
            if (!isnan(head_at(table, i)->value[m])) qkv_bytes_number(out, head_at(table, i)->value[m]);
        }
        qkv_bytes_text(out, "\n");
    }
}

/* ---- JSON ---- */

/* NaN becomes null. */
static void add_number(cJSON *object, const char *key, double value)
{
    if (isnan(value))
        cJSON_AddNullToObject(object, key);
    else
        cJSON_AddNumberToObject(object, key, value);
}

static cJSON *head_object(const struct qkv_measured_head *head)
{
    cJSON *object = cJSON_CreateObject();
    char name[64];
    qkv_head_name(head->head, name, sizeof name);
    cJSON_AddStringToObject(object, "name", name);
    cJSON_AddStringToObject(object, "kind", qkv_attention_kind_name(head->head.attention));
    cJSON_AddNumberToObject(object, "layer", (double)head->head.layer);
    cJSON_AddNumberToObject(object, "head", (double)head->head.head);
    for (int m = 0; m < QKV_HEAD_MEASURES; m++)
        add_number(object, qkv_head_measure_info((enum qkv_head_measure)m)->name, head->value[m]);
    return object;
}

void heads_table_json(const struct heads_table *table, struct bytes *out)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "run", table->run->config.name);
    cJSON_AddStringToObject(object, "checkpoint", table->run->checkpoint);
    cJSON_AddStringToObject(object, "test", table->test);
    cJSON_AddStringToObject(object, "measure", measure_name(NULL, table->norms));
    cJSON_AddNumberToObject(object, "sentences", (double)table->measured->sentences);
    cJSON_AddNumberToObject(object, "tokens", (double)table->measured->tokens);
    add_number(object, "loss", table->measured->loss);
    add_number(object, "bleu", table->measured->bleu);
    cJSON *heads = cJSON_AddArrayToObject(object, "heads");
    for (int64_t i = 0; i < table->measured->count; i++)
        cJSON_AddItemToArray(heads, head_object(head_at(table, i)));
    qkv_json_append(out, object);
    qkv_bytes_text(out, "\n");
    cJSON_Delete(object);
}
