/* Private to report: the interface of the writers of formats. */
#pragma once

#include "draw/chart.h"
#include "report/steps.h"
#include "report/words.h"

/* Attention maps or explanations to write. The options are checked and complete. */
struct format_job {
    const struct qkv_attention_report *report; /* has at least one map; NULL: explanations are written */
    const struct qkv_explanation *explanations;
    int count;
    struct qkv_format_options options;
    struct qkv_arena *arena;   /* freed after the writer returns */
    const struct chart *chart; /* drawn on the right of the maps; NULL: none */
};

/* Draws the maps of a struct format_job. */
draw_function qkv_draw_maps;

/* Writers append to `out`. They return QKV_INVALID with a message if the format cannot hold the content.
 * If memory runs out they set out->failed and return QKV_OK. A writer of maps names the value of the cells
 * (qkv_report_value_name). Texts may hold any bytes: a writer appends them by the functions of draw/text.h, which escape what
 * has a meaning in the format and replace what steers a terminal. */
typedef enum qkv_status format_function(const struct format_job *job, struct bytes *out,
                                        struct qkv_error *error);

/* One format. A writer that is NULL is replaced by the other one on converted content: maps become the
 * steps of an explanation, and the weights of explanations become maps. At least one is not NULL. */
struct qkv_format_writer {
    struct qkv_format format; /* the public row */
    format_function *write_maps, *write_explanations;
};

#define FORMAT(name) extern const struct qkv_format_writer qkv_writer_##name;
#include "report/formats.def"
#undef FORMAT

/* Fails when the kind, layer, head or shape of a map is invalid, or when maps of one kind differ in shape. */
enum qkv_status qkv_report_check(const struct qkv_attention_report *report, struct qkv_error *error);

/* Like qkv_report_check, but also fails when the numbers of rows or columns of a map do not fit the tokens. */
enum qkv_status qkv_report_check_tokens(const struct qkv_attention_report *report, struct qkv_error *error);

/* The name of a map for people, in the arena: "cross attention, layer 2, mean of heads", or "layer 2, mean
 * of heads" without the kind; map->label if there is one; after map->label_prefix and a colon if there is one. */
const char *qkv_report_map_title(struct qkv_arena *arena, const struct qkv_attention_map *map,
                                 bool with_kind);

/* The name of the values in the cells of a map: report->value_name, or "attention weight". */
const char *qkv_report_value_name(const struct qkv_attention_report *report);

/* Returns the weight that gets the last colour: options.maximum, or the largest weight of the report, rounded up to
 * a tick of the colour bar. Sets *tick to the distance between ticks. */
double qkv_report_color_maximum(const struct format_job *job, double *tick);
