/* The table of formats, and what is common to them: defaults, checks, files. */
#include "qkv/file.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

typedef enum qkv_status render_function(const struct report_job *, struct bytes *, struct qkv_error *);

#define FORMAT(name, extension, binary, help) {#name, extension, help, binary},
static const struct qkv_attention_format formats[] = {
#include "report/formats.def"
};
#undef FORMAT
#define FORMAT(name, extension, binary, help) qkv_report_##name,
static render_function *const functions[] = {
#include "report/formats.def"
};
#undef FORMAT

enum { COUNT = sizeof formats / sizeof *formats };

const struct qkv_attention_format *qkv_attention_format(int64_t index)
{
    return index >= 0 && index < COUNT ? &formats[index] : NULL;
}

const struct qkv_attention_format *qkv_attention_format_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(formats[i].name, name) || !strcmp(formats[i].extension, name)) return &formats[i];
    return NULL;
}

const struct qkv_attention_format *qkv_attention_format_of_path(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? qkv_attention_format_find(dot + 1) : NULL;
}

/* A map whose shape does not fit the tokens would read behind their arrays. */
static void check_shapes(const struct qkv_attention_report *report)
{
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        int64_t rows = map->kind == QKV_ATTENTION_ENCODER ? report->source_length : report->target_length;
        int64_t columns = map->kind == QKV_ATTENTION_DECODER ? report->target_length : report->source_length;
        QKV_BUG(map->rows != rows || map->columns != columns,
                "a %s map of %lld x %lld for %lld x %lld tokens", qkv_attention_kind_name(map->kind),
                (long long)map->rows, (long long)map->columns, (long long)rows, (long long)columns);
    }
}

enum qkv_status qkv_attention_render(const struct qkv_attention_report *report,
                                     const struct qkv_attention_format *format,
                                     const struct qkv_attention_options *options, char **bytes, size_t *size,
                                     struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct report_job job = {.report = report, .arena = &arena};
    struct bytes out = {0};
    uint32_t color;
    if (options) job.options = *options;
    if (!job.options.colormap) job.options.colormap = qkv_colormap_name(0);
    if (job.options.width <= 0) job.options.width = 80;
    if (!(job.options.scale > 0)) job.options.scale = 2;
    check_shapes(report);
    *bytes = NULL;
    *size = 0;
    if (!qkv_colormap_color(job.options.colormap, 0, &color))
        return qkv_error_set(error, "no colormap is called %s: choose viridis, plasma, magma, YlOrRd or gray",
                             job.options.colormap);
    if (report->map_count == 0) return qkv_error_set(error, "there is no attention map to show");

    enum qkv_status status = functions[format - formats](&job, &out, error);
    qkv_arena_release(&arena);
    if (status == QKV_OK && out.failed)
        status = qkv_error_set(error, "no memory to write attention maps as %s", format->name);
    if (status == QKV_OK) {
        *bytes = out.data;
        *size = out.size;
    } else {
        free(out.data);
    }
    return status;
}

enum qkv_status qkv_attention_write(const struct qkv_attention_report *report,
                                    const struct qkv_attention_format *format,
                                    const struct qkv_attention_options *options, const char *path,
                                    struct qkv_error *error)
{
    char *bytes;
    size_t size;
    enum qkv_status status = qkv_attention_render(report, format, options, &bytes, &size, error);
    if (status != QKV_OK) return status;
    struct qkv_file_writer writer;
    status = qkv_file_begin(&writer, path, error);
    if (status == QKV_OK) {
        fwrite(bytes, 1, size, writer.file);
        status = qkv_file_commit(&writer, error);
    }
    free(bytes);
    return status;
}
