/* Output formats of attention maps (qkv/attention_map.h) and explanations (`qkv explain`): one
 * table for both.
 *
 * Example:
 *     const struct qkv_format *format = qkv_format_of_path("cross.svg");
 *     if (!format) format = qkv_format_find("text");
 *     printf("%s: %s\n", format->name, format->help);
 *
 * The table has one row per format, in framework/translator/report/formats.def:
 *
 *     text  tables in the terminal: numbers on coloured cells, split or cut where they are too wide
 *     json  one object with the tokens and all numbers, which read back as the same doubles
 *     csv   RFC 4180; one line per number; numbers read back as the same doubles. A token that begins
 *           with = + - or @ and is no number has an apostrophe before it: spreadsheets would compute it
 *     npz   for numpy.load: float64 arrays, and Unicode arrays of the tokens
 *     html  one page without scripts or other files; cells are coloured by their numbers
 *     svg   heat maps; tokens are text, and each cell shows its weight under the pointer
 *     png   the same heat maps as pixels; loads the libraries Pango and Cairo, and fails without them
 *
 * Each format writes both attention maps and explanations. svg and png draw only the attention weights of an explanation.
 * qkv_attention_render describes the contents. Tokens and names may be any text: each format
 * escapes its special characters, pictures and tables show U+FFFD for control characters, and bytes that are not UTF-8
 * become U+FFFD. */
#ifndef QKV_FORMAT_H
#define QKV_FORMAT_H

#include "qkv/base.h"

#include <stdbool.h>
#include <stdint.h>

/* What a format is used for. Programs choose defaults by it: `qkv attention` writes every map as data, but only
 * cross-attention as pictures and tables. */
enum qkv_format_use {
    QKV_FORMAT_DATA,     /* other programs read it */
    QKV_FORMAT_PICTURE,  /* people look at it */
    QKV_FORMAT_TERMINAL, /* people read it in a terminal: options.width and options.colors apply */
};

/* Whether and how several outputs, such as those of several sentences, can be written to one stream. */
enum qkv_format_sequence {
    QKV_FORMAT_SINGLE, /* not at all */
    QKV_FORMAT_LINES,  /* one per line: JSON, which programs must print without its line breaks */
    QKV_FORMAT_BLOCKS, /* with an empty line between outputs */
};

/* One row of the table. Formats are compared by name, so a copy of a row is the same format. */
struct qkv_format {
    const char *name;      /* "json" */
    const char *extension; /* of its files, without the dot: "json"; "txt" for text */
    const char *help;      /* one line for lists of formats */
    enum qkv_format_use use;
    bool binary; /* must not be printed on a terminal */
    enum qkv_format_sequence sequence;
};

/* Returns the row at `index`, counted from 0; NULL after the last. */
QKV_API const struct qkv_format *qkv_format(int64_t index);

/* Finds a format by its name or extension; NULL if there is none. */
QKV_API const struct qkv_format *qkv_format_find(const char *name);

/* Finds the format of a file by the extension of its name; NULL if the name has none or no format
 * uses it. */
QKV_API const struct qkv_format *qkv_format_of_path(const char *path);

/* Which colours a terminal shows. */
enum qkv_terminal_colors {
    QKV_COLORS_NONE, /* no escape sequences */
    QKV_COLORS_256,  /* the palette of xterm-256color */
    QKV_COLORS_TRUE, /* 24 bits */
};

/* Options for writing. All zero, or NULL in place of the options, are good defaults. A format ignores options that do not
 * apply to it. */
struct qkv_format_options {
    const char *colormap; /* of weights: YlOrRd, viridis, plasma, magma or gray; NULL: YlOrRd */
    bool annotate;        /* svg, png: print the weight in each cell */
    double maximum;       /* svg, png, text: weight of the last colour; 0: the largest weight, rounded up */
    double scale;         /* png: pixels per unit of svg, at most 32; 0: 2 */
    int64_t width;        /* text: columns of the terminal; 0: 80 */
    enum qkv_terminal_colors colors; /* text */
    bool full;  /* text and html of explanations: all rows and columns of large matrices */
    int digits; /* text and html of explanations: digits after the decimal point, at most 17; 0: 4 */
};

#endif
