/* What `qkv attention` is asked to show, and in what form. */
#ifndef QKV_TOOLS_ATTENTION_REQUEST_H
#define QKV_TOOLS_ATTENTION_REQUEST_H

#include "command.h"

#include "qkv/attention_map.h"

/* The options as they are given; all zero at first. */
struct attention_options {
    const char *format, *output, *layer, *head, *colormap;
    struct option_list kinds;
    bool mean, annotate;
};

/* clang-format off */
#define COMMAND_OPTIONS_ATTENTION(o)                                                                         \
    {"format", 'f', "FORMAT", OPTION_CHOICE, &(o)->format,                                                   \
     "{choices} (default: from the extension of FILE, else text)", .choices = attention_format_name},        \
    {"output", 'o', "FILE", OPTION_TEXT, &(o)->output,                                                       \
     "the file to write; -: standard output (default)", .completes = VALUE_FILE},                            \
    {"kind", 0, "KIND", OPTION_LIST, &(o)->kinds,                                                            \
     "{choices}; may be repeated, or a list with commas", .choices = attention_kind_name},                   \
    {"layer", 0, "L", OPTION_TEXT, &(o)->layer, "a layer from 1, all, or mean"},                             \
    {"head", 0, "H", OPTION_TEXT, &(o)->head,                                                                \
     "a head from 1, all, mean, or best: the one that agrees most with the others"},                         \
    {"mean", 0, NULL, OPTION_FLAG, &(o)->mean, "the mean over the heads of a layer: --head mean"},           \
    {"colormap", 0, "NAME", OPTION_CHOICE, &(o)->colormap,                                                   \
     "colours of weights: {choices} (default: viridis)", .choices = attention_colormap_name},                \
    {"annotate", 0, NULL, OPTION_FLAG, &(o)->annotate, "svg, png: write the weight in each cell"}
/* clang-format on */

/* The choices of these options; the context is not used. */
const char *attention_format_name(const void *context, int64_t index);
const char *attention_kind_name(const void *context, int64_t index);
const char *attention_colormap_name(const void *context, int64_t index);

/* What they mean. */
struct attention_request {
    const struct qkv_format *format;
    const char *path; /* NULL: standard output */
    unsigned kinds;   /* as for qkv_attention_select */
    int layer, head;
    struct qkv_format_options drawing;
};

/* Fills in what was not given: text shows the mean heads of each cross layer, pictures show every head of
 * every cross layer, and numbers are all maps. Prints one sentence and gives the exit code 2 when an option
 * makes no sense, else 0. */
int attention_request_read(struct attention_request *request, const struct attention_options *options);

/* Selects the maps that are asked for, as qkv_attention_select does. */
enum qkv_status attention_request_select(const struct attention_request *request,
                                         const struct qkv_attention_report *report, struct qkv_arena *arena,
                                         struct qkv_attention_report *selected, struct qkv_error *error);

/* Writes what was selected. */
enum qkv_status attention_request_write(const struct attention_request *request,
                                        const struct qkv_attention_report *selected, struct qkv_error *error);

#endif
