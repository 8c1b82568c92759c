/* Private: line charts (qkv/chart.h) in a terminal. */
#ifndef QKV_CHART_TEXT_H
#define QKV_CHART_TEXT_H

#include "draw/bytes.h"
#include "qkv/chart.h"

struct chart_text {
    int width, height; /* of the chart, in columns and lines; the labels of the axes need three more lines */
    bool ascii;        /* no Braille patterns, which draw eight points a character */
};

/* Appends a chart. Every line has a letter, a for the first, unless it is a companion. Its numbers must be those of a
 * chart that can be written (qkv_chart_unshown_number). */
void qkv_chart_text(const struct qkv_chart *chart, const struct chart_text *text, struct bytes *out);

/* Appends what letters and symbols mean, a line each. */
void qkv_chart_text_legend(const struct qkv_chart *chart, const struct chart_text *text, struct bytes *out);

#endif
