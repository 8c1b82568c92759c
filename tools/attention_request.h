/* What `qkv attention` is asked to show, and in what form. */
#ifndef QKV_TOOLS_ATTENTION_REQUEST_H
#define QKV_TOOLS_ATTENTION_REQUEST_H

#include "arguments.h"

#include "qkv/attention_map.h"

/* The options as they are given; all zero at first. */
struct attention_options {
    const char *format, *output, *layer, *head, *colormap;
    struct argument_list kinds;
    bool mean, annotate;
};

/* The rows of an options table for a struct attention_options. */
#define ARGUMENTS_ATTENTION(o)                                                                               \
    {"format",                                                                                               \
     'f',                                                                                                    \
     "FORMAT",                                                                                               \
     ARGUMENT_TEXT,                                                                                          \
     &(o)->format,                                                                                           \
     0,                                                                                                      \
     0,                                                                                                      \
     "text, json, csv, npz, html, svg or png (default: as FILE is named, else text)"},                       \
        {"output",     'o', "FILE", ARGUMENT_TEXT,                                                           \
         &(o)->output, 0,   0,      "where to write; -: standard output (default)"},                         \
        {"kind",      0, "KIND", ARGUMENT_LIST,                                                              \
         &(o)->kinds, 0, 0,      "encoder, decoder, cross or all; may be repeated, or listed with commas"},  \
        {"layer", 0, "L", ARGUMENT_TEXT, &(o)->layer, 0, 0, "a layer from 1, all, or mean"},                 \
        {"head",     0, "H", ARGUMENT_TEXT,                                                                  \
         &(o)->head, 0, 0,   "a head from 1, all, mean, or best: the one that agrees most with the others"}, \
        {"mean", 0, NULL, ARGUMENT_FLAG, &(o)->mean, 0, 0, "the mean of the heads of a layer: --head mean"}, \
        {"colormap",     0, "NAME", ARGUMENT_TEXT,                                                           \
         &(o)->colormap, 0, 0,      "viridis (default), plasma, magma, YlOrRd or gray"},                     \
    {                                                                                                        \
        "annotate", 0, NULL, ARGUMENT_FLAG, &(o)->annotate, 0, 0,                                            \
            "svg, png: write the weight into each cell"                                                      \
    }

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
