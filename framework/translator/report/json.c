/* Writes JSON objects in the layout of cJSON_Print. */
#include "report/json_text.h"

#include "core/text.h"
#include "report/explanation.h"

#include <cjson/cJSON.h>
#include <math.h>

static void append_escaped(struct bytes *out, uint32_t point)
{
    if (point == '"' || point == '\\')
        qkv_bytes_format(out, "\\%c", (char)point);
    else if (point == '\n')
        qkv_bytes_text(out, "\\n");
    else if (point == '\t')
        qkv_bytes_text(out, "\\t");
    else if (point < 0x10000)
        qkv_bytes_format(out, "\\u%04x", point);
    else /* beyond U+FFFF: a surrogate pair */
        qkv_bytes_format(out, "\\u%04x\\u%04x", 0xD800 + ((point - 0x10000) >> 10),
                         0xDC00 + (point - 0x10000) % 0x400);
}

static void append_string(struct bytes *out, const char *text)
{
    qkv_bytes_text(out, "\"");
    while (*text) {
        const char *next = text;
        uint32_t point = qkv_utf8_next(&next);
        if (point == '"' || point == '\\' || !qkv_is_plain(point)) {
            append_escaped(out, point);
            text = next;
        } else {
            qkv_text_next(out, &text);
        }
    }
    qkv_bytes_text(out, "\"");
}

static void append_number(struct bytes *out, double number)
{
    if (isfinite(number))
        qkv_bytes_number(out, number);
    else
        qkv_bytes_text(out, "null");
}

/* Whether nothing follows the opening of an object or array. Strings and names end with a quotation mark. */
static bool is_open(const struct bytes *out, char opening)
{
    return out->size && out->data[out->size - 1] == opening;
}

static void append_line(struct bytes *out, int depth)
{
    qkv_bytes_text(out, "\n");
    for (int i = 0; i < depth; i++) qkv_bytes_text(out, "\t");
}

/* Begins a member of an object, whose members are at this depth. */
static void begin_member(struct bytes *out, int depth, const char *name)
{
    if (!is_open(out, '{')) qkv_bytes_text(out, ",");
    append_line(out, depth);
    append_string(out, name);
    qkv_bytes_text(out, ":\t");
}

static void end_object(struct bytes *out, int depth)
{
    append_line(out, depth - 1);
    qkv_bytes_text(out, "}");
}

/* Begins an item of an array. */
static void begin_item(struct bytes *out)
{
    if (!is_open(out, '[')) qkv_bytes_text(out, ", ");
}

/* depth: of the members of the item. */
static void append_item(struct bytes *out, const cJSON *item, int depth)
{
    const cJSON *child;
    if (cJSON_IsObject(item)) {
        qkv_bytes_text(out, "{");
        cJSON_ArrayForEach(child, item)
        {
            begin_member(out, depth, child->string);
            append_item(out, child, depth + 1);
        }
        end_object(out, depth);
    } else if (cJSON_IsArray(item)) {
        qkv_bytes_text(out, "[");
        cJSON_ArrayForEach(child, item)
        {
            begin_item(out);
            append_item(out, child, depth + 1);
        }
        qkv_bytes_text(out, "]");
    } else if (cJSON_IsString(item)) {
        append_string(out, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        append_number(out, item->valuedouble);
    } else {
        qkv_bytes_text(out, cJSON_IsTrue(item) ? "true" : cJSON_IsFalse(item) ? "false" : "null");
    }
}

void qkv_json_append(struct bytes *out, const cJSON *item)
{
    append_item(out, item, 1);
}

/* ---- what maps and explanations have in common ---- */

/* Adds a text, unless it is NULL. */
static void add_text(struct bytes *out, int depth, const char *name, const char *text)
{
    if (!text) return;
    begin_member(out, depth, name);
    append_string(out, text);
}

static void add_number(struct bytes *out, int depth, const char *name, double number)
{
    begin_member(out, depth, name);
    append_number(out, number);
}

/* NULL becomes null. */
static void add_texts(struct bytes *out, int depth, const char *name, const char *const *texts, int64_t count)
{
    begin_member(out, depth, name);
    qkv_bytes_text(out, texts ? "[" : "null");
    for (int64_t i = 0; texts && i < count; i++) {
        begin_item(out);
        append_string(out, texts[i]);
    }
    if (texts) qkv_bytes_text(out, "]");
}

static void append_matrix(struct bytes *out, const double *values, int64_t rows, int64_t columns)
{
    qkv_bytes_text(out, "[");
    for (int64_t r = 0; r < rows; r++) {
        begin_item(out);
        qkv_bytes_text(out, "[");
        for (int64_t c = 0; c < columns; c++) {
            begin_item(out);
            append_number(out, values[r * columns + c]);
        }
        qkv_bytes_text(out, "]");
    }
    qkv_bytes_text(out, "]");
}

/* ---- attention maps ---- */

static void add_index(struct bytes *out, const char *name, int index)
{
    if (index)
        add_number(out, 3, name, index);
    else
        add_text(out, 3, name, "mean");
}

static void append_map(const struct qkv_attention_report *report, const struct qkv_attention_map *map,
                       struct bytes *out)
{
    char name[64];
    qkv_attention_map_name(map, name, sizeof name);
    begin_item(out);
    qkv_bytes_text(out, "{");
    add_text(out, 3, "name", name);
    add_text(out, 3, "kind", qkv_attention_kind_name(map->kind));
    add_index(out, "layer", map->layer);
    add_index(out, "head", map->head);
    if (map->kind == QKV_ATTENTION_CROSS) {
        /* A row has two tokens: the one that the decoder step reads, and the one it predicts. */
        begin_member(out, 3, "rows");
        qkv_bytes_text(out, "{");
        add_texts(out, 4, "input", report->target_input, map->rows);
        add_texts(out, 4, "output", report->target_output, map->rows);
        end_object(out, 4);
    } else {
        add_texts(out, 3, "rows", qkv_attention_row_tokens(report, map->kind), map->rows);
    }
    add_texts(out, 3, "columns", qkv_attention_column_tokens(report, map->kind), map->columns);
    begin_member(out, 3, "weights");
    append_matrix(out, map->weights, map->rows, map->columns);
    end_object(out, 3);
}

static enum qkv_status write_maps(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    (void)error;
    qkv_bytes_text(out, "{");
    add_text(out, 1, "format", "qkv attention 1");
    add_text(
        out, 1, "about",
        "weights[row][column] is the number that `value` names, of the row's token (query) for the column's "
        "token (key); each row sums to 1; layers and heads count from 1");
    add_text(out, 1, "title", report->title);
    add_text(out, 1, "model", report->model);
    add_text(out, 1, "precision", report->precision);
    add_text(out, 1, "value", qkv_report_value_name(report));
    if (report->silent_count) add_texts(out, 1, "without", report->silent_heads, report->silent_count);
    add_texts(out, 1, "source", report->source, report->source_length);
    add_texts(out, 1, "target_input", report->target_input, report->target_length);
    add_texts(out, 1, "target_output", report->target_output, report->target_length);
    begin_member(out, 1, "maps");
    qkv_bytes_text(out, "[");
    for (int64_t i = 0; i < report->map_count; i++) append_map(report, &report->maps[i], out);
    qkv_bytes_text(out, "]");
    end_object(out, 1);
    qkv_bytes_text(out, "\n");
    return QKV_OK;
}

/* ---- explanations ---- */

static void append_step(const struct qkv_explanation *explanation, const struct qkv_step *step,
                        struct bytes *out)
{
    char shape[64];
    bool heads = qkv_step_has_heads(explanation, step);
    qkv_step_shape(explanation, step, shape);
    begin_item(out);
    qkv_bytes_text(out, "{");
    add_text(out, 5, "name", step->name);
    add_text(out, 5, "title", step->title);
    add_text(out, 5, "formula", step->formula);
    add_text(out, 5, "note", step->note);
    begin_member(out, 5, "shape");
    qkv_bytes_text(out, shape);
    add_texts(out, 5, "rows", step->row_names, step->rows);
    add_texts(out, 5, "columns", step->column_names, step->columns);
    begin_member(out, 5, "values");
    if (heads) qkv_bytes_text(out, "[");
    for (int64_t h = 0; h < (heads ? step->heads : 1); h++) {
        if (heads) begin_item(out);
        append_matrix(out, step->values + h * step->rows * step->columns, step->rows, step->columns);
    }
    if (heads) qkv_bytes_text(out, "]");
    end_object(out, 5);
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    const struct qkv_explanation *first = &job->explanations[0];
    (void)error;
    qkv_bytes_text(out, "{");
    add_text(out, 1, "format", "qkv explain 1");
    add_text(out, 1, "title", first->title);
    add_text(out, 1, "about", first->about && *first->about ? first->about : NULL);
    begin_member(out, 1, "walks");
    qkv_bytes_text(out, "[");
    for (int i = 0; i < job->count; i++) {
        const struct qkv_explanation *explanation = &job->explanations[i];
        begin_item(out);
        qkv_bytes_text(out, "{");
        add_text(out, 3, "label", explanation->label);
        add_text(out, 3, "model", explanation->model);
        add_text(out, 3, "kind", qkv_attention_kind_name(explanation->kind));
        if (explanation->layer) add_number(out, 3, "layer", explanation->layer);
        add_number(out, 3, "first_head", explanation->first_head);
        add_number(out, 3, "heads", (double)explanation->heads);
        begin_member(out, 3, "steps");
        qkv_bytes_text(out, "[");
        for (int64_t s = 0; s < explanation->step_count; s++)
            append_step(explanation, &explanation->steps[s], out);
        qkv_bytes_text(out, "]");
        end_object(out, 3);
    }
    qkv_bytes_text(out, "]");
    end_object(out, 1);
    qkv_bytes_text(out, "\n");
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_json = {
    .format = {"json", "json", "all tokens and numbers as one JSON object", QKV_FORMAT_DATA,
               .sequence = QKV_FORMAT_LINES},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
