#include "output_options.h"

#include "search_options.h"
#include "text_notes.h"

NAME_LISTER(output_format_name, qkv_format(index) ? qkv_format(index)->name : NULL);

NAME_LISTER(output_colormap_name, qkv_colormap_name(index));

static NAME_LISTER(extension_name, qkv_format(index) ? qkv_format(index)->extension : NULL);

/* Reports that the name of a file does not choose a format. */
static int print_unknown_format(const char *path)
{
    char known[128];
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    if (dot && dot[1])
        return print_error(
            "%s: %s is no known extension (known: %s); choose a format with --format to keep it", path, dot,
            list_names(known, sizeof known, extension_name, NULL));
    return print_error("%s: the name has no extension, which would choose a format; choose one with "
                       "--format: %s",
                       path, list_names(known, sizeof known, output_format_name, NULL));
}

bool is_image(const struct qkv_format *format)
{
    return format->use == QKV_FORMAT_PICTURE && strcmp(format->name, "html") != 0;
}

int output_read(struct output *output, const struct output_options *options)
{
    const char *path = options->output && strcmp(options->output, "-") != 0 ? options->output : NULL;
    const struct qkv_format *format = path && !options->format
                                          ? qkv_format_of_path(path)
                                          : qkv_format_find(options->format ? options->format : "text");
    if (!format) return print_unknown_format(path);
    if (options->annotate && !is_image(format))
        return print_error(
            "--annotate is for svg, png and pdf, but the format is %s: choose one with -o or --format",
            format->name);
    if (options->colormap && format->use == QKV_FORMAT_DATA)
        return print_error("--colormap is for formats with colours, but the format is %s", format->name);
    if (format->binary && !path && isatty(STDOUT_FILENO))
        return print_error("%s is binary and standard output is a terminal: name a file with -o",
                           format->name);
    *output = (struct output){
        .format = format,
        .path = path,
        .style = {.colormap = options->colormap, .annotate = options->annotate, .missing = &output->missing},
    };
    if (format->use != QKV_FORMAT_TERMINAL || path) return QKV_OK;
    output->style.width = terminal_width(stdout);
    output->style.colors = terminal_colors(stdout);
    return QKV_OK;
}

/* Writes a file, and says so on standard error. */
static enum qkv_status write_file(const struct output *output, const char *path, const char *bytes,
                                  size_t size, struct qkv_error *error)
{
    if (qkv_file_write(path, bytes, size, error)) return QKV_INVALID;
    if (!output->quiet) say(stderr, "wrote %s, %s\n", path, output->format->name);
    return QKV_OK;
}

/* Writes the file of one of several sentences: maps.3.svg for maps.svg. */
static enum qkv_status write_numbered(const struct output *output, const char *bytes, size_t size,
                                      struct qkv_error *error)
{
    const char *path = output->path, *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    size_t stem = dot ? (size_t)(dot - path) : strlen(path);
    struct qkv_arena arena = {0};
    const char *numbered =
        TEXT_IN(&arena, "%.*s.%lld%s", (int)stem, path, (long long)output->number, path + stem);
    enum qkv_status status = write_file(output, numbered, bytes, size, error);
    qkv_arena_release(&arena);
    return status;
}

/* The formats in which several results can be written to standard output. */
static const char *sequence_name(const void *context, int64_t index)
{
    (void)context;
    for (int64_t i = 0; qkv_format(i); i++)
        if (qkv_format(i)->sequence != QKV_FORMAT_SINGLE && index-- == 0) return qkv_format(i)->name;
    return NULL;
}

static enum qkv_status print_numbered(struct output *output, char *bytes, struct qkv_error *error)
{
    char known[128];
    bool lines = output->format->sequence == QKV_FORMAT_LINES;
    if (output->format->sequence == QKV_FORMAT_SINGLE)
        return qkv_error_set(error,
                             "standard input has several sentences, but standard output takes only one as "
                             "%s: name a file with -o, or choose one of %s",
                             output->format->name, list_names(known, sizeof known, sequence_name, NULL));
    if (lines) cJSON_Minify(bytes);
    if (!lines && output->written) putchar('\n');
    output->written = true;
    fputs(bytes, stdout);
    if (lines) putchar('\n');
    return QKV_OK;
}

enum qkv_status output_write(struct output *output, char *bytes, size_t size, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    if (output->path)
        status = output->number ? write_numbered(output, bytes, size, error)
                                : write_file(output, output->path, bytes, size, error);
    else if (output->number)
        status = print_numbered(output, bytes, error);
    else if (output->format->binary || output->format->use == QKV_FORMAT_TERMINAL)
        fwrite(bytes, 1, size, stdout);
    else
        print_result(stdout, bytes);
    free(bytes);
    if (!output->quiet)
        output->noted = note_missing_characters(output->path ? output->path : "the picture", &output->missing,
                                                output->noted);
    return status;
}

enum qkv_status output_maps(struct output *output, const struct qkv_attention_report *report,
                            struct qkv_error *error)
{
    char *bytes;
    size_t size;
    enum qkv_status status =
        qkv_attention_render(report, output->format, &output->style, &bytes, &size, error);
    return status ? status : output_write(output, bytes, size, error);
}

enum qkv_status output_explanations(struct output *output, const struct qkv_explanation *explanations,
                                    int count, struct qkv_error *error)
{
    char *bytes;
    size_t size;
    enum qkv_status status =
        qkv_explanation_render(explanations, count, output->format, &output->style, &bytes, &size, error);
    return status ? status : output_write(output, bytes, size, error);
}

/* ---- the maps of one sentence, in the terminal ---- */

const char *attention_title(const struct qkv_model *model, const char *source, const char *target,
                            struct qkv_arena *arena)
{
    char heads[1024];
    bool has_silent = *list_silent_heads(model, heads, sizeof heads);
    const char *precision = narrow_precision(model);
    return TEXT_IN(arena, "%s%s%s%s%s%s%s", source, target ? " → " : "", target ? target : "",
                   has_silent ? ", without " : "", heads, precision ? ", in " : "",
                   precision ? precision : "");
}

/* Prints the maps of the pair that the collector has. */
static enum qkv_status print_maps(struct qkv_attention_collector *collector,
                                  const struct cross_attention *drawn, const char *title,
                                  struct qkv_arena *arena, struct qkv_error *error)
{
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    static const struct output_options as_text = {0};
    struct output output;
    struct qkv_attention_report report, selected;
    if (output_read(&output, &as_text) ||
        qkv_attention_collect(collector, 1, &drawn->pair, cross, &report, error) ||
        qkv_attention_select(&report, cross, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, arena, &selected,
                             error) ||
        qkv_attention_merge_words(&selected, drawn->words, arena, &selected, error))
        return QKV_INVALID;
    selected.title = title;
    return output_maps(&output, &selected, error);
}

enum qkv_status print_cross_attention(const struct qkv_run *run, const struct cross_attention *drawn,
                                      struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    const char *title = attention_title(run->model, drawn->source, drawn->target, &arena);
    if (drawn->names_run) title = TEXT_IN(&arena, "%s, attention of %s", title, run->path);
    struct qkv_attention_collector *collector = qkv_attention_collector_new(run->model, error);
    enum qkv_status status = collector ? print_maps(collector, drawn, title, &arena, error) : QKV_INVALID;
    qkv_attention_collector_free(collector);
    qkv_arena_release(&arena);
    return status;
}
