#include "report/report.h"

#include <string.h>

/* RFC 4180: quotes around a field with a comma, a quote or a line end; quotes inside are doubled. */
static void append_field(struct bytes *out, const char *text)
{
    if (!text[strcspn(text, ",\"\r\n")]) {
        qkv_bytes_text(out, text);
        return;
    }
    qkv_bytes_text(out, "\"");
    for (const char *c = text; *c; c++) {
        qkv_bytes_append(out, c, 1);
        if (*c == '"') qkv_bytes_text(out, "\"");
    }
    qkv_bytes_text(out, "\"");
}

static void append_number(struct bytes *out, int number)
{
    if (number)
        qkv_bytes_format(out, ",%d", number);
    else
        qkv_bytes_text(out, ",mean");
}

enum qkv_status qkv_report_csv(const struct report_job *job, struct bytes *out, struct qkv_error *error)
{
    (void)error;
    qkv_bytes_text(out, "kind,layer,head,row,row_token,column,column_token,weight\n");
    for (int64_t m = 0; m < job->report->map_count; m++) {
        const struct qkv_attention_map *map = &job->report->maps[m];
        const char *const *rows = qkv_attention_row_tokens(job->report, map->kind);
        const char *const *columns = qkv_attention_column_tokens(job->report, map->kind);
        for (int64_t i = 0; i < map->rows * map->columns; i++) {
            int64_t row = i / map->columns, column = i % map->columns;
            qkv_bytes_text(out, qkv_attention_kind_name(map->kind));
            append_number(out, map->layer);
            append_number(out, map->head);
            qkv_bytes_format(out, ",%lld,", (long long)row);
            append_field(out, rows[row]);
            qkv_bytes_format(out, ",%lld,", (long long)column);
            append_field(out, columns[column]);
            qkv_bytes_text(out, ",");
            qkv_bytes_number(out, map->weights[i]);
            qkv_bytes_text(out, "\n");
        }
    }
    return QKV_OK;
}
