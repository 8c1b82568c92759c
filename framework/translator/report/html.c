/* Writes explanations as one HTML page without scripts or other files. Cells are coloured by their numbers. */
#include "report/explanation.h"

#include <math.h>
#include <string.h>

/* Larger matrices are shortened. */
enum { MAX_ROWS = 26, MAX_COLUMNS = 14 };

static const char STYLE[] =
    "body{font:16px/1.5 system-ui,'DejaVu Sans',sans-serif;color:#222;background:#fdfdfb;margin:2rem auto;"
    "max-width:72rem;padding:0 1.5rem}\n"
    "h1{font-size:1.5rem;line-height:1.25;margin:0 0 .75rem}\n"
    ".about{max-width:44rem;color:#444}\n"
    "section{border-top:1px solid #ddd;margin-top:1.6rem;padding-top:.7rem}\n"
    "h2{font-size:1.05rem;margin:0 0 .3rem;display:flex;flex-wrap:wrap;gap:.75rem;align-items:baseline}\n"
    "h2 .n{color:#888;font-weight:400;min-width:1.4rem}\n"
    "h2 code{font-size:.95rem;background:#f1f0ea;padding:.05rem .4rem;border-radius:.25rem;font-weight:400}\n"
    "h2 .shape{margin-left:auto;color:#888;font-weight:400;font-size:.9rem}\n"
    ".note{margin:.2rem 0 .4rem;color:#8a4b00;max-width:44rem}\n"
    ".same{margin:.2rem 0;color:#444}\n"
    ".side{display:flex;flex-wrap:wrap;gap:1.5rem;align-items:flex-start}\n"
    "figure{margin:.4rem 0 0;overflow-x:auto;max-width:100%}\n"
    "figcaption{font-size:.9rem;color:#555;margin-bottom:.2rem}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.85rem}\n"
    "th{font-weight:400;color:#555;padding:.15rem .5rem;text-align:right;white-space:nowrap}\n"
    "tbody th{text-align:left;color:#222}\n"
    "td{padding:.18rem .5rem;text-align:right;white-space:nowrap;border:1px solid #fff}\n"
    "td.gap{background:none;color:#999;text-align:center}\n";

/* Appends a text between two pieces of HTML. */
static void append_text(struct bytes *out, const char *before, const char *text, const char *after)
{
    qkv_bytes_text(out, before);
    qkv_text_xml(out, text);
    qkv_bytes_text(out, after);
}

/* Returns the colour of a value between -1 and 1: blue to white to orange, light enough for black text. */
static uint32_t diverging_color(double value)
{
    static const int below[] = {0x6B, 0xA3, 0xD6}, above[] = {0xF2, 0x9E, 0x4C};
    const int *end = value < 0 ? below : above;
    uint32_t color = 0;
    double strength = fmin(fabs(value), 1);
    for (int i = 0; i < 3; i++) color = color << 8 | (uint32_t)lround(255 + (end[i] - 255) * strength);
    return color;
}

/* How to colour the cells of a step. */
struct painting {
    struct number_style style;
    double largest; /* absolute value */
    bool tokens;    /* cells stay white */
    bool weights;   /* cells use the colormap, not the diverging colours */
    const char *colormap;
};

static void append_cell(const struct painting *painting, double value, struct bytes *out)
{
    char text[40];
    uint32_t color = painting->tokens ? 0xFFFFFF : 0xEEEEEE;
    double relative = painting->largest > 0 ? value / painting->largest : 0;
    qkv_number_text(text, painting->style, value);
    if (isfinite(value) && painting->weights)
        qkv_colormap_color(painting->colormap, relative, &color);
    else if (isfinite(value) && !painting->tokens)
        color = diverging_color(relative);
    qkv_bytes_format(out, "<td style=\"background:#%06x", (unsigned)color);
    if (qkv_readable_ink(color)) qkv_bytes_text(out, ";color:#fff");
    qkv_bytes_format(out, "\">%s</td>", isinf(value) ? value < 0 ? "−∞" : "∞" : text);
}

static void append_matrix(const struct format_job *job, const struct qkv_step *step, const double *values,
                          const char *caption, const struct painting *painting, struct bytes *out)
{
    struct elision rows = {step->rows, 0}, columns = {step->columns, 0};
    if (!job->options.full) {
        rows = qkv_elide(step->rows, MAX_ROWS, 3);
        if (!step->column_names) columns = qkv_elide(step->columns, MAX_COLUMNS, 2);
    }
    qkv_bytes_text(out, "<figure>");
    if (*caption) append_text(out, "<figcaption>", caption, "</figcaption>");
    qkv_bytes_text(out, "<table><thead><tr><th></th>");
    for (int64_t i = 0; i < qkv_elision_places(columns, step->columns); i++) {
        int64_t c = qkv_elision_at(columns, step->columns, i);
        qkv_bytes_text(out, "<th>");
        if (c < 0)
            qkv_bytes_text(out, "…");
        else
            qkv_text_xml(out, qkv_step_label(job, step->column_names, c));
        qkv_bytes_text(out, "</th>");
    }
    qkv_bytes_text(out, "</tr></thead>\n<tbody>\n");
    for (int64_t i = 0; i < qkv_elision_places(rows, step->rows); i++) {
        int64_t r = qkv_elision_at(rows, step->rows, i);
        qkv_bytes_text(out, "<tr><th>");
        if (r >= 0) qkv_text_xml(out, qkv_step_label(job, step->row_names, r));
        qkv_bytes_text(out, "</th>");
        for (int64_t j = 0; j < qkv_elision_places(columns, step->columns); j++) {
            int64_t c = qkv_elision_at(columns, step->columns, j);
            if (r < 0 || c < 0)
                qkv_bytes_format(out, "<td class=\"gap\">%s</td>", r < 0 ? "⋮" : "…");
            else
                append_cell(painting, values[r * step->columns + c], out);
        }
        qkv_bytes_text(out, "</tr>\n");
    }
    qkv_bytes_text(out, "</tbody></table></figure>\n");
}

static void append_step(const struct format_job *job, int64_t at, struct bytes *out)
{
    const struct qkv_step *first = &job->explanations[0].steps[at];
    const struct painting painting = {
        .style = qkv_step_number_style(job, at),
        .largest = qkv_step_largest(job, at),
        .tokens = first->content == QKV_STEP_TOKENS,
        .weights = first->content == QKV_STEP_WEIGHTS,
        .colormap = job->options.colormap,
    };
    char shape[64];
    qkv_step_shape(&job->explanations[0], first, shape);
    qkv_bytes_text(out, "<section id=\"");
    qkv_text_xml(out, first->name);
    qkv_bytes_format(out, "\"><h2><span class=\"n\">%lld</span>", (long long)at + 1);
    qkv_text_xml(out, first->title);
    if (*first->formula) append_text(out, "<code>", first->formula, "</code>");
    qkv_bytes_format(out, "<span class=\"shape\">%s", shape);
    if (painting.weights) {
        char largest[40];
        qkv_number_text(largest, painting.style, painting.largest);
        qkv_bytes_format(out, "; colours from 0 to %s", largest);
    }
    qkv_bytes_text(out, "</span></h2>\n");
    if (first->note) append_text(out, "<p class=\"note\">", first->note, "</p>\n");
    if (qkv_step_repeated(job, at)) {
        qkv_bytes_text(out, "<p class=\"same\">same numbers as <a href=\"#");
        qkv_text_xml(out, first->same_as);
        qkv_bytes_format(out, "\">step %lld</a></p></section>\n", (long long)qkv_step_repeated(job, at));
        return;
    }
    qkv_bytes_text(out, "<div class=\"side\">\n");
    for (int64_t h = 0; h < (first->heads ? first->heads : 1); h++)
        for (int index = 0; index < job->count; index++) {
            const struct qkv_step *step = qkv_step_counterpart(job, index, at);
            if (step)
                append_matrix(job, step, step->values + h * step->rows * step->columns,
                              qkv_step_caption(job, index, step, h), &painting, out);
        }
    qkv_bytes_text(out, "</div></section>\n");
}

static enum qkv_status write_explanations(const struct format_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const char *title = first->title ? qkv_display_line(job->arena, first->title) : NULL;
    (void)error;
    if (!title || !*title) title = "Attention step by step";
    qkv_bytes_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    qkv_text_xml(out, title);
    qkv_bytes_text(out, "</title>\n<style>\n");
    qkv_bytes_text(out, STYLE);
    append_text(out, "</style>\n</head>\n<body>\n<h1>", title, "</h1>\n");
    if (first->about && *first->about) append_text(out, "<p class=\"about\">", first->about, "</p>\n");
    for (int64_t i = 0; i < first->step_count; i++) append_step(job, i, out);
    qkv_bytes_text(out, "</body>\n</html>\n");
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_html = {
    .format = {"html", "html", "one page with coloured matrices", QKV_FORMAT_PICTURE},
    .write_explanations = write_explanations,
};
