/* Private: line charts (qkv/chart.h) in a terminal. */
#ifndef QKV_CHART_TEXT_H
#define QKV_CHART_TEXT_H

#include "draw/bytes.h"
#include "qkv/chart.h"

struct chart_text {
    int width, height; /* of the chart, in columns and lines; the labels of the axes need three more lines */
    bool ascii;        /* no Braille patterns, which have eight points per character */
};

/* Appends a chart. Every line except companions has a letter, from a on. The chart must not have numbers that no axis can show
 * (qkv_chart_unshown_number). */
void qkv_chart_text(const struct qkv_chart *chart, const struct chart_text *text, struct bytes *out);

/* Appends the meanings of letters and symbols, one per line. */
void qkv_chart_text_legend(const struct qkv_chart *chart, const struct chart_text *text, struct bytes *out);

#endif
