/* Private to the report writers: what a format's function gets, and the buffer that it fills. */
#ifndef QKV_REPORT_H
#define QKV_REPORT_H

#include "qkv/attention_map.h"

/* A growing buffer. Running out of memory sticks: later appends do nothing, and the caller checks once. */
struct bytes {
    char *data;
    size_t size, capacity;
    bool failed;
};

void qkv_bytes_append(struct bytes *bytes, const void *data, size_t size);
void qkv_bytes_text(struct bytes *bytes, const char *text);
void qkv_bytes_format(struct bytes *bytes, const char *format, ...) QKV_PRINTF(2, 3);

/* Appends a text of XML or HTML, with its signs escaped. */
void qkv_bytes_escaped(struct bytes *bytes, const char *text);

/* Appends an unsigned number of `size` bytes, the lowest first. */
void qkv_bytes_little_endian(struct bytes *bytes, uint64_t value, int size);

/* Appends the shortest decimal that reads back as the same double, with a point in every locale. */
void qkv_bytes_number(struct bytes *bytes, double value);

/* What to render. */
struct report_job {
    const struct qkv_attention_report *report;
    struct qkv_attention_options options; /* defaults filled in */
    struct qkv_arena *arena;              /* scratch of this rendering */
};

/* A token as people should see it: spaces as U+2423, since a token of a character model may be nothing else;
 * control characters (which could steer a terminal) and broken UTF-8 as U+FFFD. NULL when there is no memory.
 */
const char *qkv_report_label(struct qkv_arena *arena, const char *token);

/* The same for running text, where spaces stay spaces. */
const char *qkv_report_line(struct qkv_arena *arena, const char *text);

/* The layer and head in words: `cross attention, layer 2, mean of the heads`; without the kind if not asked
 * for. */
const char *qkv_report_map_title(struct qkv_arena *arena, const struct qkv_attention_map *map,
                                 bool with_kind);

/* The largest weight of all maps, in 0..1 unless the weights are broken. */
double qkv_report_largest_weight(const struct qkv_attention_report *report);

/* The weight that gets the last colour: what the options say, or the largest weight rounded up to a tick.
 * Sets the distance of the ticks. */
double qkv_report_color_maximum(const struct report_job *job, double *tick);

/* Black or white (0xRRGGBB), whichever reads better on the colour. */
uint32_t qkv_report_ink(uint32_t background);

/* ---- tables in the terminal (cells.c) ---- */

/* Columns that a text takes. */
int qkv_report_width(const char *text);

void qkv_report_spaces(struct bytes *out, int count);

/* Appends a text in exactly `width` columns; one that is too long is cut and ends in an ellipsis. */
enum align { ALIGN_LEFT, ALIGN_RIGHT };
void qkv_report_padded(struct bytes *out, const char *text, int width, enum align align);

/* Sets the colours of the text that follows: this background, and ink that can be read on it. */
void qkv_report_begin_color(struct bytes *out, enum qkv_terminal_colors colors, uint32_t color);
void qkv_report_end_color(struct bytes *out, enum qkv_terminal_colors colors);

#define FORMAT(name, extension, binary, help)                                                                \
    enum qkv_status qkv_report_##name(const struct report_job *job, struct bytes *out,                       \
                                      struct qkv_error *error);
#include "report/formats.def"
#undef FORMAT

#endif
