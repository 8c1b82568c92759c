/* Comma-separated values (RFC 4180): one line per number. */
#include "report/explanation.h"

static void append_field(struct bytes *out, const char *text)
{
    qkv_text_field(out, text, ',');
}

/* Appends the rest of a line: ",<row>,<its name>,<column>,<its name>,<value>". names NULL: there are none. */
static void append_cell(struct bytes *out, int64_t row, const char *const *row_names, int64_t column,
                        const char *const *column_names, double value)
{
    qkv_bytes_format(out, ",%lld,", (long long)row);
    append_field(out, row_names ? row_names[row] : "");
    qkv_bytes_format(out, ",%lld,", (long long)column);
    append_field(out, column_names ? column_names[column] : "");
    qkv_bytes_text(out, ",");
    qkv_bytes_number(out, value);
    qkv_bytes_text(out, "\n");
}

/* Appends the number of a layer or head; nothing of a map that is not of heads. */
static void append_number(struct bytes *out, const struct qkv_attention_map *map, int number)
{
    if (map->name)
        qkv_bytes_text(out, ",");
    else if (number)
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
        for (int64_t i = 0; i < map->rows * map->columns; i++) {
            qkv_bytes_text(out, qkv_attention_kind_name(map->kind));
            append_number(out, map, map->layer);
            append_number(out, map, map->head);
            append_cell(out, i / map->columns, qkv_attention_row_tokens(job->report, map->kind),
                        i % map->columns, qkv_attention_column_tokens(job->report, map->kind),
                        map->weights[i]);
        }
    }
    return QKV_OK;
}

static void append_step(const struct qkv_explanation *explanation, const struct qkv_step *step,
                        struct bytes *out)
{
    int64_t cells = step->rows * step->columns;
    for (int64_t i = 0; i < (step->heads ? step->heads : 1) * cells; i++) {
        append_field(out, explanation->label ? explanation->label : "");
        qkv_bytes_text(out, ",");
        append_field(out, step->name);
        qkv_bytes_text(out, ",");
        if (step->heads) qkv_bytes_format(out, "%lld", (long long)(explanation->first_head + i / cells));
        append_cell(out, i % cells / step->columns, step->row_names, i % step->columns, step->column_names,
                    step->values[i]);
    }
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    (void)error;
    qkv_bytes_text(out, "label,step,head,row,row_name,column,column_name,value\n");
    for (int index = 0; index < job->count; index++)
        for (int64_t i = 0; i < job->explanations[index].step_count; i++)
            append_step(&job->explanations[index], &job->explanations[index].steps[i], out);
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_csv = {
    .format = {"csv", "csv", "one line per number, for spreadsheets and data frames", QKV_FORMAT_DATA},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
