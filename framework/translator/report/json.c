/* Writes JSON objects in the layout of cJSON_Print. */
#include "report/json_text.h"

#include "report/explanation.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

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

static void append_line(struct bytes *out, int depth)
{
    qkv_bytes_text(out, "\n");
    for (int i = 0; i < depth; i++) qkv_bytes_text(out, "\t");
}

/* depth: of the members of the item. */
static void append_item(struct bytes *out, const cJSON *item, int depth)
{
    const cJSON *child;
    if (cJSON_IsObject(item)) {
        qkv_bytes_text(out, "{");
        cJSON_ArrayForEach(child, item)
        {
            if (child->prev->next) qkv_bytes_text(out, ","); /* the first child's prev is the last one */
            append_line(out, depth);
            append_string(out, child->string);
            qkv_bytes_text(out, ":\t");
            append_item(out, child, depth + 1);
        }
        append_line(out, depth - 1);
        qkv_bytes_text(out, "}");
    } else if (cJSON_IsArray(item)) {
        qkv_bytes_text(out, "[");
        cJSON_ArrayForEach(child, item)
        {
            if (child->prev->next) qkv_bytes_text(out, ", ");
            append_item(out, child, depth + 1);
        }
        qkv_bytes_text(out, "]");
    } else if (cJSON_IsString(item)) {
        append_string(out, item->valuestring);
    } else if (cJSON_IsNumber(item)) {
        append_number(out, item->valuedouble);
    } else if (cJSON_IsRaw(item)) {
        qkv_bytes_text(out, item->valuestring);
    } else {
        qkv_bytes_text(out, cJSON_IsTrue(item) ? "true" : cJSON_IsFalse(item) ? "false" : "null");
    }
}

void qkv_json_append(struct bytes *out, const cJSON *item)
{
    append_item(out, item, 1);
}

/* ---- what maps and explanations have in common ---- */

/* Adds an item to an object or, if `name` is NULL, to an array, and returns it. Where memory is out, fails `out`. */
static cJSON *add(struct bytes *out, cJSON *parent, const char *name, cJSON *item)
{
    if (name ? cJSON_AddItemToObject(parent, name, item) : cJSON_AddItemToArray(parent, item)) return item;
    cJSON_Delete(item);
    out->failed = true;
    return NULL;
}

/* Adds a text, unless it is NULL. */
static void add_text(struct bytes *out, cJSON *object, const char *name, const char *text)
{
    if (text) add(out, object, name, cJSON_CreateString(text));
}

/* NULL becomes null. */
static void add_texts(struct bytes *out, cJSON *object, const char *name, const char *const *texts,
                      int64_t count)
{
    add(out, object, name, texts ? cJSON_CreateStringArray(texts, (int)count) : cJSON_CreateNull());
}

/* Adds a matrix or, unless `heads` is 0, a list of matrices. As text it takes less memory than as items. */
static void add_matrix(struct bytes *out, cJSON *object, const char *name, const double *values,
                       int64_t heads, int64_t rows, int64_t columns)
{
    struct bytes text = {0};
    if (heads) qkv_bytes_text(&text, "[");
    for (int64_t r = 0; r < (heads ? heads : 1) * rows; r++) {
        qkv_bytes_text(&text, r % rows ? ", [" : r ? "], [[" : "[[");
        for (int64_t c = 0; c < columns; c++) {
            if (c) qkv_bytes_text(&text, ", ");
            append_number(&text, values[r * columns + c]);
        }
        qkv_bytes_text(&text, "]");
    }
    qkv_bytes_text(&text, heads ? "]]" : "]");
    add(out, object, name, text.failed ? NULL : cJSON_CreateRaw(text.data));
    free(text.data);
}

/* Appends the object, and deletes it. */
static enum qkv_status finish(struct bytes *out, cJSON *object)
{
    if (!out->failed) qkv_json_append(out, object);
    qkv_bytes_text(out, "\n");
    cJSON_Delete(object);
    return QKV_OK;
}

/* ---- attention maps ---- */

/* The number of a layer or head, or "mean". */
static cJSON *index_item(int index)
{
    return index ? cJSON_CreateNumber(index) : cJSON_CreateString("mean");
}

static void add_map(const struct qkv_attention_report *report, const struct qkv_attention_map *map,
                    cJSON *maps, struct bytes *out)
{
    cJSON *object = add(out, maps, NULL, cJSON_CreateObject());
    char name[64];
    qkv_attention_map_name(map, name, sizeof name);
    add_text(out, object, "name", name);
    add_text(out, object, "kind", qkv_attention_kind_name(map->kind));
    add(out, object, "layer", map->name ? cJSON_CreateNull() : index_item(map->layer));
    add(out, object, "head", map->name ? cJSON_CreateNull() : index_item(map->head));
    if (map->kind == QKV_ATTENTION_CROSS) {
        /* A row has two tokens: the one that the decoder step reads, and the one it predicts. */
        cJSON *rows = add(out, object, "rows", cJSON_CreateObject());
        add_texts(out, rows, "input", report->target_input, map->rows);
        add_texts(out, rows, "output", report->target_output, map->rows);
    } else {
        add_texts(out, object, "rows", qkv_attention_row_tokens(report, map->kind), map->rows);
    }
    add_texts(out, object, "columns", qkv_attention_column_tokens(report, map->kind), map->columns);
    add_matrix(out, object, "weights", map->weights, 0, map->rows, map->columns);
}

static enum qkv_status write_maps(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    cJSON *object = cJSON_CreateObject();
    (void)error;
    add_text(out, object, "format", "qkv attention 1");
    add_text(
        out, object, "about",
        "weights[row][column] is the number that `value` names, of the row's token (query) for the column's "
        "token (key); rows of attention weights sum to 1, with a sink to less; layers and heads count from "
        "1");
    add_text(out, object, "title", report->title);
    add_text(out, object, "model", report->model);
    add_text(out, object, "precision", report->precision);
    add_text(out, object, "value", qkv_report_value_name(report));
    if (report->silent_count) add_texts(out, object, "without", report->silent_heads, report->silent_count);
    add_texts(out, object, "source", report->source, report->source_length);
    add_texts(out, object, "target_input", report->target_input, report->target_length);
    add_texts(out, object, "target_output", report->target_output, report->target_length);
    if (report->next_probability)
        add(out, object, "next_probability",
            cJSON_CreateDoubleArray(report->next_probability, (int)report->target_length));
    if (report->baseline)
        add(out, object, "baseline_log_probability",
            cJSON_CreateDoubleArray(report->baseline, (int)report->target_length));
    cJSON *maps = add(out, object, "maps", cJSON_CreateArray());
    for (int64_t i = 0; i < report->map_count; i++) add_map(report, &report->maps[i], maps, out);
    return finish(out, object);
}

/* ---- explanations ---- */

static void add_step(const struct qkv_explanation *explanation, const struct qkv_step *step, cJSON *steps,
                     struct bytes *out)
{
    cJSON *object = add(out, steps, NULL, cJSON_CreateObject());
    char shape[64];
    qkv_step_shape(explanation, step, shape);
    add_text(out, object, "name", step->name);
    add_text(out, object, "title", step->title);
    add_text(out, object, "formula", step->formula);
    add_text(out, object, "note", step->note);
    add(out, object, "shape", cJSON_CreateRaw(shape));
    add_texts(out, object, "rows", step->row_names, step->rows);
    add_texts(out, object, "columns", step->column_names, step->columns);
    add_matrix(out, object, "values", step->values, qkv_step_has_heads(explanation, step) ? step->heads : 0,
               step->rows, step->columns);
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    const struct qkv_explanation *first = &job->explanations[0];
    cJSON *object = cJSON_CreateObject();
    (void)error;
    add_text(out, object, "format", "qkv explain 1");
    add_text(out, object, "title", first->title);
    add_text(out, object, "about", first->about && *first->about ? first->about : NULL);
    cJSON *walks = add(out, object, "walks", cJSON_CreateArray());
    for (int i = 0; i < job->count; i++) {
        const struct qkv_explanation *explanation = &job->explanations[i];
        cJSON *walk = add(out, walks, NULL, cJSON_CreateObject());
        add_text(out, walk, "label", explanation->label);
        add_text(out, walk, "model", explanation->model);
        add_text(out, walk, "kind", qkv_attention_kind_name(explanation->kind));
        if (explanation->layer) add(out, walk, "layer", cJSON_CreateNumber(explanation->layer));
        add(out, walk, "first_head", cJSON_CreateNumber(explanation->first_head));
        add(out, walk, "heads", cJSON_CreateNumber((double)explanation->heads));
        cJSON *steps = add(out, walk, "steps", cJSON_CreateArray());
        for (int64_t s = 0; s < explanation->step_count; s++)
            add_step(explanation, &explanation->steps[s], steps, out);
    }
    return finish(out, object);
}

const struct qkv_format_writer qkv_writer_json = {
    .format = {"json", "json", "all tokens and numbers as one JSON object", QKV_FORMAT_DATA,
               .sequence = QKV_FORMAT_LINES},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
