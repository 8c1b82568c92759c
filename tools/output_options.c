#include "output_options.h"

#include "complain.h"
#include "terminal.h"

#include "qkv/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *output_format_name(const void *context, int64_t index)
{
    const struct qkv_format *format = qkv_format(index);
    (void)context;
    return format ? format->name : NULL;
}

const char *output_colormap_name(const void *context, int64_t index)
{
    (void)context;
    return qkv_colormap_name(index);
}

int output_read(struct output *output, const struct output_options *options)
{
    char known[128];
    const char *path = options->output && strcmp(options->output, "-") != 0 ? options->output : NULL;
    const struct qkv_format *format = path && !options->format
                                          ? qkv_format_of_path(path)
                                          : qkv_format_find(options->format ? options->format : "text");
    if (!format)
        return complain("%s: the extension is no known format; choose one with --format: %s", path,
                        list_names(known, sizeof known, output_format_name, NULL));
    if (format->binary && !path && isatty(STDOUT_FILENO))
        return complain("%s is binary and standard output is a terminal: name a file with -o", format->name);
    *output = (struct output){
        .format = format,
        .path = path,
        .style = {.colormap = options->colormap, .annotate = options->annotate},
    };
    if (format->use != QKV_FORMAT_TERMINAL || path) return QKV_OK;
    output->style.width = terminal_width(stdout);
    output->style.colors = terminal_colors(stdout);
    return QKV_OK;
}

enum qkv_status output_write(const struct output *output, char *bytes, size_t size, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    if (output->path)
        status = qkv_file_write(output->path, bytes, size, error);
    else
        fwrite(bytes, 1, size, stdout);
    free(bytes);
    return status;
}
