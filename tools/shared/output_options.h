/* The options of `qkv attention` and `qkv explain` for the format and the place of their output: --format, --output,
 * --colormap and --annotate; and the maps of one sentence in the terminal, as `qkv attention` prints them without options. */
#pragma once

#include "command.h"
#include "report/steps.h"

/* The options as they are given; all zero at first. */
struct output_options {
    const char *format, *output, *colormap;
    bool annotate;
};

/* clang-format off */
#define COMMAND_OPTIONS_OUTPUT(o)                                                                            \
    {"format", 'f', "FORMAT", OPTION_CHOICE, &(o)->format,                                                   \
     "{choices} (default: from the extension of FILE, else text)", .choices = output_format_name},           \
    {"output", 'o', "FILE", OPTION_TEXT, &(o)->output,                                                       \
     "the file to write; -: standard output (default)", .completes = VALUE_FILE},                            \
    {"colormap", 0, "NAME", OPTION_CHOICE, &(o)->colormap, "colours of weights: {choices} (default: YlOrRd)", \
     .choices = output_colormap_name},                                                                       \
    {"annotate", 0, NULL, OPTION_FLAG, &(o)->annotate, "svg, png, pdf: write the weight in each cell"}
/* clang-format on */

/* The choices of these options; the context is not used. */
const char *output_format_name(const void *context, int64_t index);
const char *output_colormap_name(const void *context, int64_t index);

/* Whether a format is an image of heat maps: svg, png and pdf, but not html. */
bool is_image(const struct qkv_format *format);

/* The options, resolved to a format, a path and a style. */
struct output {
    const struct qkv_format *format;
    const char *path; /* NULL: standard output */
    struct qkv_format_options style;
    int64_t number;                        /* of the sentence that is written, from 1; 0: the only one */
    bool quiet;                            /* does not say which files it writes */
    bool written;                          /* an earlier sentence has been written to standard output */
    struct qkv_missing_characters missing; /* of the pictures so far; the first `noted` are printed */
    int64_t noted;
};

/* Chooses the format from the options or the name of the file. Returns QKV_OK, or the exit code after an error
 * message: a file name without a known extension, or binary data for a terminal. */
int output_read(struct output *output, const struct output_options *options);

/* Writes rendered bytes and frees them. If there are several sentences, each gets its own file (maps.3.svg for maps.svg); on
 * standard output, text is separated by empty lines, each JSON object is one line, and other formats are refused. A failed
 * write to standard output is reported when the program ends. */
enum qkv_status output_write(struct output *output, char *bytes, size_t size, struct qkv_error *error);

/* Renders maps, or `count` explanations side by side, and writes them. */
enum qkv_status output_maps(struct output *output, const struct qkv_attention_report *report,
                            struct qkv_error *error);
enum qkv_status output_explanations(struct output *output, const struct qkv_explanation *explanations,
                                    int count, struct qkv_error *error);

/* ---- the maps of one sentence, in the terminal ---- */

/* "the cat → el gato", the silent heads, and a narrow precision; NULL when memory runs out. */
const char *attention_title(const struct qkv_model *model, const char *source, const char *target,
                            struct qkv_arena *arena);

/* What print_cross_attention draws. */
struct cross_attention {
    struct qkv_attention_pair pair;
    const char *source, *target;      /* the texts of the pair */
    struct qkv_attention_words words; /* merged into words; NULL: a side is drawn by tokens */
    bool names_run;                   /* the title says which run the attention is of */
};

/* Prints the mean over the heads of each layer of cross attention. */
enum qkv_status print_cross_attention(const struct qkv_run *run, const struct cross_attention *drawn,
                                      struct qkv_error *error);
