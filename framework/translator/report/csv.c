/* Comma-separated values (RFC 4180): one line per number. */
#include "report/explanation.h"

static void append_field(struct bytes *out, const char *text)
{
    qkv_text_field(out, text, ',');
}

/* Appends the number of a layer or head. */
static void append_number(struct bytes *out, int number)
{
    if (number)
        qkv_bytes_format(out, ",%d", number);
    else
        qkv_bytes_text(out, ",mean");
}

static enum qkv_status write_maps(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    (void)error;
    qkv_bytes_text(out, "kind,layer,head,row,row_token,column,column_token,");
    append_field(out, job->report->value_name ? job->report->value_name : "weight");
    qkv_bytes_text(out, "\n");
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

static void append_step(const struct format_job *job, int index, const struct qkv_step *step,
                        struct bytes *out)
{
    const struct qkv_explanation *explanation = &job->explanations[index];
    int64_t cells = step->rows * step->columns;
    for (int64_t i = 0; i < (step->heads ? step->heads : 1) * cells; i++) {
        int64_t row = i % cells / step->columns, column = i % step->columns;
        append_field(out, explanation->label ? explanation->label : "");
        qkv_bytes_text(out, ",");
        append_field(out, step->name);
        qkv_bytes_text(out, ",");
        if (step->heads) qkv_bytes_format(out, "%lld", (long long)(explanation->first_head + i / cells));
        qkv_bytes_format(out, ",%lld,", (long long)row);
        append_field(out, step->row_names ? step->row_names[row] : "");
        qkv_bytes_format(out, ",%lld,", (long long)column);
        append_field(out, step->column_names ? step->column_names[column] : "");
        qkv_bytes_text(out, ",");
        qkv_bytes_number(out, step->values[i]);
        qkv_bytes_text(out, "\n");
    }
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    (void)error;
    qkv_bytes_text(out, "label,step,head,row,row_name,column,column_name,value\n");
    for (int index = 0; index < job->count; index++)
        for (int64_t i = 0; i < job->explanations[index].step_count; i++)
            append_step(job, index, &job->explanations[index].steps[i], out);
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_csv = {
    .format = {"csv", "csv", "one line per number, for spreadsheets and data frames", QKV_FORMAT_DATA},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
