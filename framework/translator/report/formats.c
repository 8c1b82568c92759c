/* The table of formats, and rendering: defaults, checks, conversion, files. */
#include "qkv/file.h"
#include "report/explanation.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT(name) &qkv_writer_##name,
static const struct qkv_format_writer *const writers[] = {
#include "report/formats.def"
};
#undef FORMAT

enum {
    COUNT = sizeof writers / sizeof *writers,
    DIGITS_MAX = 17, /* a double has no more significant digits */
};

const struct qkv_format *qkv_format(int64_t index)
{
    return index >= 0 && index < COUNT ? &writers[index]->format : NULL;
}

const struct qkv_format *qkv_format_find(const char *name)
{
    for (int i = 0; i < COUNT; i++) {
        const struct qkv_format *format = &writers[i]->format;
        if (!strcmp(format->name, name) || !strcmp(format->extension, name)) return format;
    }
    return NULL;
}

const struct qkv_format *qkv_format_of_path(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? qkv_format_find(dot + 1) : NULL;
}

/* Copies the options and replaces zeros by defaults. */
static enum qkv_status complete_options(struct qkv_format_options *complete,
                                        const struct qkv_format_options *options, struct qkv_error *error)
{
    uint32_t color;
    char known[128] = "";
    if (options) *complete = *options;
    if (complete->width <= 0) complete->width = 80;
    if (!(complete->scale > 0)) complete->scale = 2;
    if (complete->digits <= 0) complete->digits = 4;
    if (complete->digits > DIGITS_MAX) complete->digits = DIGITS_MAX;
    if (qkv_colormap_color(complete->colormap, 0, &color)) return QKV_OK;
    for (int64_t i = 0; qkv_colormap_name(i); i++) {
        size_t used = strlen(known);
        const char *separator = !i ? "" : qkv_colormap_name(i + 1) ? ", " : " or ";
        snprintf(known + used, sizeof known - used, "%s%s", separator, qkv_colormap_name(i));
    }
    return qkv_error_set(error, "no colormap is called %s: choose %s", complete->colormap, known);
}

/* Ends a rendering: frees the arena, and passes the bytes or the error to the caller. */
static enum qkv_status finish(enum qkv_status status, struct qkv_arena *arena, struct bytes *out,
                              const struct qkv_format *format, char **bytes, size_t *size,
                              struct qkv_error *error)
{
    qkv_arena_release(arena);
    if (!status && out->failed) status = qkv_error_set(error, "out of memory while writing %s", format->name);
    if (status) {
        free(out->data);
        return status;
    }
    *bytes = out->data;
    *size = out->size;
    return QKV_OK;
}

enum qkv_status qkv_report_check_tokens(const struct qkv_attention_report *report, struct qkv_error *error)
{
    if (qkv_report_check(report, error)) return QKV_INVALID;
    if (report->source_length < 0 || report->target_length < 0)
        return qkv_error_set(error, "a report has %lld source tokens and %lld target tokens",
                             (long long)report->source_length, (long long)report->target_length);
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        int64_t rows = map->kind == QKV_ATTENTION_ENCODER ? report->source_length : report->target_length;
        int64_t columns = map->kind == QKV_ATTENTION_DECODER ? report->target_length : report->source_length;
        if (map->rows != rows || map->columns != columns)
            return qkv_error_set(error,
                                 "the %s map has shape [%lld, %lld], but there are %lld and %lld tokens",
                                 qkv_attention_kind_name(map->kind), (long long)map->rows,
                                 (long long)map->columns, (long long)rows, (long long)columns);
    }
    return QKV_OK;
}

/* The writer of a format; `format` may be a copy of the row in the table. NULL with a message when there is none. */
static const struct qkv_format_writer *writer_of(const struct qkv_format *format, struct qkv_error *error)
{
    const char *name = format && format->name ? format->name : "";
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(writers[i]->format.name, name)) return writers[i];
    if (format)
        qkv_error_set(
            error, "there is no format '%s': take a row of the table, as qkv_format_find returns it", name);
    else
        qkv_error_set(error, "the format is NULL, as qkv_format_find and qkv_format_of_path return it for an "
                             "unknown name or extension");
    return NULL;
}

enum qkv_status qkv_attention_render(const struct qkv_attention_report *report,
                                     const struct qkv_format *format,
                                     const struct qkv_format_options *options, char **bytes, size_t *size,
                                     struct qkv_error *error)
{
    const struct qkv_format_writer *writer = writer_of(format, error);
    struct qkv_arena arena = {0};
    struct maps_job job = {.report = report, .arena = &arena};
    struct qkv_explanation converted;
    struct bytes out = {0};
    enum qkv_status status = QKV_OK;
    *bytes = NULL;
    *size = 0;
    if (!writer) return QKV_INVALID;
    if (qkv_report_check_tokens(report, error)) return QKV_INVALID;
    if (complete_options(&job.options, options, error)) return QKV_INVALID;
    if (report->map_count == 0) return qkv_error_set(error, "there is no attention map to show");
    if (writer->write_maps)
        status = writer->write_maps(&job, &out, error);
    else if (qkv_explanation_of_report(&job, &converted))
        status = writer->write_explanations(&(struct explanations_job){&converted, 1, job.options, &arena},
                                            &out, error);
    else
        out.failed = true;
    return finish(status, &arena, &out, format, bytes, size, error);
}

enum qkv_status qkv_explanation_render(const struct qkv_explanation *explanations, int count,
                                       const struct qkv_format *format,
                                       const struct qkv_format_options *options, char **bytes, size_t *size,
                                       struct qkv_error *error)
{
    const struct qkv_format_writer *writer = writer_of(format, error);
    struct qkv_arena arena = {0};
    struct explanations_job job = {.explanations = explanations, .count = count, .arena = &arena};
    struct qkv_attention_report converted;
    struct bytes out = {0};
    enum qkv_status status = QKV_OK;
    *bytes = NULL;
    *size = 0;
    if (!writer) return QKV_INVALID;
    if (qkv_explanations_check(explanations, count, error)) return QKV_INVALID;
    if (complete_options(&job.options, options, error)) return QKV_INVALID;
    if (!writer->write_explanations && !qkv_explanation_content(explanations, QKV_STEP_WEIGHTS))
        return qkv_error_set(error, "%s holds attention weights, but the explanation has none", format->name);
    if (writer->write_explanations)
        status = writer->write_explanations(&job, &out, error);
    else if (qkv_report_of_explanations(&job, &converted))
        status = qkv_report_check_tokens(&converted, error)
                     ? QKV_INVALID
                     : writer->write_maps(&(struct maps_job){&converted, job.options, &arena}, &out, error);
    else
        out.failed = true;
    return finish(status, &arena, &out, format, bytes, size, error);
}

/* Writes rendered bytes into a file, and frees them. */
static enum qkv_status save(const char *path, char *bytes, size_t size, struct qkv_error *error)
{
    enum qkv_status status = qkv_file_write(path, bytes, size, error);
    free(bytes);
    return status;
}

enum qkv_status qkv_attention_write(const struct qkv_attention_report *report,
                                    const struct qkv_format *format, const struct qkv_format_options *options,
                                    const char *path, struct qkv_error *error)
{
    char *bytes;
    size_t size;
    if (qkv_attention_render(report, format, options, &bytes, &size, error)) return QKV_INVALID;
    return save(path, bytes, size, error);
}

enum qkv_status qkv_explanation_write(const struct qkv_explanation *explanations, int count,
                                      const struct qkv_format *format,
                                      const struct qkv_format_options *options, const char *path,
                                      struct qkv_error *error)
{
    char *bytes;
    size_t size;
    if (qkv_explanation_render(explanations, count, format, options, &bytes, &size, error))
        return QKV_INVALID;
    return save(path, bytes, size, error);
}
