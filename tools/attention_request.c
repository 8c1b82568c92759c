#include "attention_request.h"

#include "complain.h"
#include "terminal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading ---- */

/* Lists of names; the context is none. */
const char *attention_format_name(const void *context, int64_t index)
{
    const struct qkv_format *format = qkv_format(index);
    (void)context;
    return format ? format->name : NULL;
}

const char *attention_kind_name(const void *context, int64_t index)
{
    (void)context;
    if (index < QKV_ATTENTION_KINDS) return qkv_attention_kind_name((enum qkv_attention_kind)index);
    return index == QKV_ATTENTION_KINDS ? "all" : NULL;
}

const char *attention_colormap_name(const void *context, int64_t index)
{
    (void)context;
    return qkv_colormap_name(index);
}

static int read_format(struct attention_request *request, const struct attention_options *options)
{
    char known[128];
    request->path = options->output && strcmp(options->output, "-") != 0 ? options->output : NULL;
    const char *wanted = options->format ? options->format : "text";
    request->format =
        request->path && !options->format ? qkv_format_of_path(request->path) : qkv_format_find(wanted);
    if (!request->format)
        return complain("%s: the name does not end in a known format: choose one with --format: %s",
                        request->path, list_names(known, sizeof known, attention_format_name, NULL));
    if (request->format->binary && !request->path && isatty(STDOUT_FILENO))
        return complain("%s is binary and standard output is a terminal: name a file with -o",
                        request->format->name);
    return QKV_OK;
}

/* A layer or head: a number from 1, all, or mean; `best` is for heads. */
static int read_index(const char *option, const char *text, bool best, int *index)
{
    char *end;
    if (!text) return QKV_OK;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (!strcmp(text, "all"))
        *index = QKV_ATTENTION_EACH;
    else if (!strcmp(text, "mean"))
        *index = QKV_ATTENTION_MEAN;
    else if (best && !strcmp(text, "best"))
        *index = QKV_ATTENTION_BEST;
    else if (end > text && !*end && !errno && number >= 1 && number <= 1000000)
        *index = (int)number;
    else
        return complain("%s is '%s', but must be a number from 1, all%s", option, text,
                        best ? ", mean or best" : " or mean");
    return QKV_OK;
}

int attention_request_read(struct attention_request *request, const struct attention_options *options)
{
    *request =
        (struct attention_request){.drawing = {.colormap = options->colormap, .annotate = options->annotate}};
    if (read_format(request, options)) return QKV_INVALID;
    bool text = request->format->use == QKV_FORMAT_TERMINAL, data = request->format->use == QKV_FORMAT_DATA;
    for (int i = 0; i < options->kinds.count; i++) { /* "all" is no single kind */
        enum qkv_attention_kind kind;
        bool one = qkv_attention_kind_find(options->kinds.value[i], &kind);
        request->kinds |= one ? 1u << kind : (1u << QKV_ATTENTION_KINDS) - 1;
    }
    if (!request->kinds && !data) request->kinds = 1u << QKV_ATTENTION_CROSS;
    request->layer = QKV_ATTENTION_EACH;
    request->head = text || options->mean ? QKV_ATTENTION_MEAN : QKV_ATTENTION_EACH;
    if (options->mean && options->head) return complain("--mean stands for --head mean; give one --head");
    if (read_index("--layer", options->layer, false, &request->layer) ||
        read_index("--head", options->head, true, &request->head))
        return QKV_INVALID;
    if (text && !request->path) {
        request->drawing.width = terminal_width(stdout);
        request->drawing.colors = terminal_colors(stdout);
    }
    return QKV_OK;
}

/* ---- writing ---- */

static enum qkv_status write_to_stdout(const struct attention_request *request,
                                       const struct qkv_attention_report *report, struct qkv_error *error)
{
    char *bytes;
    size_t size;
    if (qkv_attention_render(report, request->format, &request->drawing, &bytes, &size, error))
        return QKV_INVALID;
    fwrite(bytes, 1, size, stdout); /* a failed write shows when the program ends */
    free(bytes);
    return QKV_OK;
}

enum qkv_status attention_request_select(const struct attention_request *request,
                                         const struct qkv_attention_report *report, struct qkv_arena *arena,
                                         struct qkv_attention_report *selected, struct qkv_error *error)
{
    return qkv_attention_select(report, request->kinds, request->layer, request->head, arena, selected,
                                error);
}

enum qkv_status attention_request_write(const struct attention_request *request,
                                        const struct qkv_attention_report *selected, struct qkv_error *error)
{
    if (!request->path) return write_to_stdout(request, selected, error);
    return qkv_attention_write(selected, request->format, &request->drawing, request->path, error);
}
