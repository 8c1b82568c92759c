/* The table of formats; names and colours that they share; conversion between attention maps and explanations, for formats that
 * have a writer for only one of them; and rendering: defaults, checks, files. */
#include "core/file.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "report/explanation.h"

#include <math.h>

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

/* ---- names and colours of maps ---- */

static const char *name_map(struct qkv_arena *arena, const struct qkv_attention_map *map, bool with_kind)
{
    const char *kind = with_kind ? qkv_attention_kind_name(map->kind) : "";
    const char *attention = with_kind ? " attention, " : "";
    if (map->label) return map->label;
    if (map->layer && map->head)
        return qkv_arena_format(arena, "%s%slayer %d, head %d", kind, attention, map->layer, map->head);
    if (map->layer)
        return qkv_arena_format(arena, "%s%slayer %d, mean of heads", kind, attention, map->layer);
    if (map->head) return qkv_arena_format(arena, "%s%shead %d, mean of layers", kind, attention, map->head);
    return qkv_arena_format(arena, "%s%smean of layers and heads", kind, attention);
}

const char *qkv_report_map_title(struct qkv_arena *arena, const struct qkv_attention_map *map, bool with_kind)
{
    const char *name = name_map(arena, map, with_kind);
    if (name && map->label_prefix) name = qkv_arena_format(arena, "%s: %s", map->label_prefix, name);
    return name ? qkv_display_line(arena, name) : NULL;
}

const char *qkv_report_value_name(const struct qkv_attention_report *report)
{
    return report->value_name ? report->value_name : "attention weight";
}

double qkv_report_color_maximum(const struct format_job *job, double *tick)
{
    double largest = 0;
    for (int64_t m = 0; m < job->report->map_count; m++) {
        const struct qkv_attention_map *map = &job->report->maps[m];
        for (int64_t i = 0; i < map->rows * map->columns; i++) largest = fmax(largest, fabs(map->weights[i]));
    }
    double end = job->options.maximum > 0 ? job->options.maximum : largest;
    if (!(end > 0) || !isfinite(end)) end = 1;
    double step = end / 5, power = qkv_scalar_power(10, floor(qkv_scalar_log10(step) + 1e-9)),
           digit = step / power; /* 1 to 10 */
    *tick = power * (digit < 1 + 1e-9 ? 1 : digit < 2 + 1e-9 ? 2 : digit < 5 + 1e-9 ? 5 : 10);
    return job->options.maximum > 0 ? end : *tick * ceil(end / *tick - 1e-9);
}

/* ---- conversion ---- */

/* "cross attention, layer 2"; "self attention" if there is no layer. */
static const char *name_of(const struct format_job *job)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const char *kind =
        first->layer || first->kind == QKV_ATTENTION_CROSS ? qkv_attention_kind_name(first->kind) : "self";
    const char *name = first->layer
                           ? qkv_arena_format(job->arena, "%s attention, layer %d", kind, first->layer)
                           : qkv_arena_format(job->arena, "%s attention", kind);
    return name ? name : "attention";
}

/* The title of a map; a single map is named in the subtitle. */
static const char *label_of(const struct format_job *job, int index, const struct qkv_step *step,
                            int64_t head)
{
    const char *caption = qkv_step_caption(job, index, step, head);
    if (step->heads > 1 || job->count > 1) return caption;
    return *caption ? qkv_arena_format(job->arena, "%s, %s", name_of(job), caption) : name_of(job);
}

/* The names of rows or columns; numbers from 1 where there are none. NULL if memory runs out. */
static const char *const *names_of(struct qkv_arena *arena, const char *const *names, int64_t count)
{
    if (names) return names;
    const char **numbers = qkv_arena_array(arena, count, sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++) {
        numbers[i] = qkv_arena_format(arena, "%lld", (long long)i + 1);
        if (!numbers[i]) return NULL;
    }
    return numbers;
}

/* Converts the weights of explanations into a report of maps, in the arena. Its cross maps have the axis
 * names and labels of the explanations. False if memory runs out. */
static bool report_of_explanations(const struct format_job *job, struct qkv_attention_report *report)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const struct qkv_step *shown = qkv_explanation_content(first, QKV_STEP_WEIGHTS);
    int64_t heads = shown->heads ? shown->heads : 1;
    struct qkv_attention_map *maps = qkv_arena_zeros(job->arena, heads * job->count, sizeof *maps);
    const char *const *rows = names_of(job->arena, shown->row_names, shown->rows);
    const char *const *columns = names_of(job->arena, shown->column_names, shown->columns);
    int64_t count = 0;
    if (!maps || !rows || !columns) return false;
    for (int i = 0; i < job->count; i++) {
        const struct qkv_explanation *explanation = &job->explanations[i];
        const struct qkv_step *step = qkv_explanation_content(explanation, QKV_STEP_WEIGHTS);
        for (int64_t h = 0; step && h < heads; h++)
            maps[count++] = (struct qkv_attention_map){
                /* If only some words are followed, a map of self-attention has fewer rows than columns.
                 * Only cross maps may have such a shape. */
                .kind = QKV_ATTENTION_CROSS,
                .layer = explanation->layer ? explanation->layer : 1,
                .head = explanation->first_head + (int)h,
                .rows = step->rows,
                .columns = step->columns,
                .weights = step->values + h * step->rows * step->columns,
                .label = label_of(job, i, step, h),
            };
    }
    bool cross = first->kind == QKV_ATTENTION_CROSS;
    *report = (struct qkv_attention_report){
        .title = first->title,
        .model = first->model,
        .source = columns,
        .source_length = shown->columns,
        .target_input = rows,
        .target_output = rows,
        .target_length = shown->rows,
        .maps = maps,
        .map_count = count,
        .name = name_of(job),
        .row_axis = cross ? NULL : "query",
        .column_axis = cross ? NULL : "key",
    };
    return true;
}

/* Converts each map of a report into a step of an explanation, in the arena. False if memory runs out. */
static bool explanation_of_report(const struct format_job *job, struct qkv_explanation *explanation)
{
    const struct qkv_attention_report *report = job->report;
    struct qkv_step *steps = qkv_arena_zeros(job->arena, report->map_count, sizeof *steps);
    const char *about = report->model;
    if (report->value_name)
        about = qkv_arena_format(job->arena, "%s%scells: %s", about ? about : "", about ? "; " : "",
                                 report->value_name);
    if (!steps || (report->value_name && !about)) return false;
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        char name[64];
        qkv_attention_map_name(map, name, sizeof name);
        steps[i] = (struct qkv_step){
            .name = qkv_arena_format(job->arena, "%s%s%s", map->label_prefix ? map->label_prefix : "",
                                     map->label_prefix ? "." : "", name),
            .title = qkv_report_map_title(job->arena, map, true),
            .formula = qkv_arena_format(job->arena, "rows: %s, columns: %s",
                                        qkv_attention_row_axis(report, map->kind, "queries"),
                                        map->kind == QKV_ATTENTION_CROSS ? "source" : "keys"),
            .content = QKV_STEP_WEIGHTS,
            .rows = map->rows,
            .columns = map->columns,
            .values = map->weights,
            .row_names = qkv_attention_row_labels(report, map->kind),
            .column_names = qkv_attention_column_tokens(report, map->kind),
        };
        if (!steps[i].name || !steps[i].title || !steps[i].formula) return false;
    }
    *explanation = (struct qkv_explanation){.title = report->title,
                                            .about = about,
                                            .model = report->model,
                                            .kind = report->maps[0].kind,
                                            .first_head = 1,
                                            .heads = 1,
                                            .layer_heads = 1,
                                            .step_count = report->map_count,
                                            .steps = steps};
    return true;
}

/* ---- one head of an explanation ---- */

/* Sets `head` to the number of the head whose weights agree best with the mean of all heads. */
static enum qkv_status find_best_head(const struct qkv_explanation *explanation, int *head,
                                      struct qkv_arena *arena, struct qkv_error *error)
{
    const struct format_job job = {.explanations = explanation, .count = 1, .arena = arena};
    struct qkv_attention_report all, best;
    if (!qkv_explanation_content(explanation, QKV_STEP_WEIGHTS))
        return qkv_error_set(error, "the explanation has no attention weights: there is no best head");
    if (!report_of_explanations(&job, &all)) return qkv_no_memory(error);
    if (qkv_attention_select(&all, 0, QKV_ATTENTION_EACH, QKV_ATTENTION_BEST, arena, &best, error))
        return QKV_INVALID;
    *head = best.maps[0].head;
    return QKV_OK;
}

enum qkv_status qkv_explanation_select_head(struct qkv_explanation *explanation, int head,
                                            struct qkv_arena *arena, struct qkv_error *error)
{
    if (head == QKV_ATTENTION_BEST && find_best_head(explanation, &head, arena, error)) return QKV_INVALID;
    if (head < explanation->first_head || head >= explanation->first_head + explanation->heads)
        return qkv_error_set(error, "there is no head %d: heads are %d to %lld", head,
                             explanation->first_head,
                             (long long)(explanation->first_head + explanation->heads - 1));
    struct qkv_step *steps = qkv_arena_array(arena, explanation->step_count, sizeof *steps);
    if (!steps) return qkv_no_memory(error);
    for (int64_t i = 0; i < explanation->step_count; i++) {
        steps[i] = explanation->steps[i];
        if (steps[i].heads <= 1) continue;
        /* In grouped-query attention, several consecutive heads share one head of keys and values. */
        int64_t at = (head - explanation->first_head) * steps[i].heads / explanation->heads;
        steps[i].values += at * steps[i].rows * steps[i].columns;
        steps[i].heads = 1;
    }
    explanation->steps = steps;
    explanation->first_head = head;
    explanation->heads = 1;
    return QKV_OK;
}

/* ---- rendering ---- */

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

/* Renders the job, which has a report or explanations. */
static enum qkv_status render(struct format_job job, const struct qkv_format *format,
                              const struct qkv_format_options *options, char **bytes, size_t *size,
                              struct qkv_error *error)
{
    const struct qkv_format_writer *writer = writer_of(format, error);
    struct qkv_arena arena = {0};
    struct qkv_attention_report report;
    struct qkv_explanation explanation;
    struct bytes out = {0};
    enum qkv_status status = QKV_OK;
    bool of_maps = job.report;
    *bytes = NULL;
    *size = 0;
    if (!writer) return QKV_INVALID;
    if (of_maps ? qkv_report_check_tokens(job.report, error)
                : qkv_explanations_check(job.explanations, job.count, error))
        return QKV_INVALID;
    if (complete_options(&job.options, options, error)) return QKV_INVALID;
    if (of_maps && job.report->map_count == 0)
        return qkv_error_set(error, "there is no attention map to show");
    if (!of_maps && !writer->write_explanations &&
        !qkv_explanation_content(job.explanations, QKV_STEP_WEIGHTS))
        return qkv_error_set(error, "%s holds attention weights, but the explanation has none", format->name);
    job.arena = &arena;
    format_function *write = of_maps ? writer->write_maps : writer->write_explanations;
    if (!write && of_maps) {
        out.failed = !explanation_of_report(&job, &explanation);
        job.explanations = &explanation;
        job.count = 1;
        write = writer->write_explanations;
    } else if (!write) {
        out.failed = !report_of_explanations(&job, &report);
        job.report = &report;
        write = writer->write_maps;
        if (!out.failed) status = qkv_report_check_tokens(&report, error);
    }
    if (!out.failed && !status) status = write(&job, &out, error);
    qkv_arena_release(&arena);
    if (!status && out.failed) status = qkv_no_memory(error);
    if (status) {
        free(out.data);
        return status;
    }
    *bytes = out.data;
    *size = out.size;
    return QKV_OK;
}

enum qkv_status qkv_attention_render(const struct qkv_attention_report *report,
                                     const struct qkv_format *format,
                                     const struct qkv_format_options *options, char **bytes, size_t *size,
                                     struct qkv_error *error)
{
    return render((struct format_job){.report = report}, format, options, bytes, size, error);
}

enum qkv_status qkv_explanation_render(const struct qkv_explanation *explanations, int count,
                                       const struct qkv_format *format,
                                       const struct qkv_format_options *options, char **bytes, size_t *size,
                                       struct qkv_error *error)
{
    return render((struct format_job){.explanations = explanations, .count = count}, format, options, bytes,
                  size, error);
}

enum qkv_status qkv_attention_write(const struct qkv_attention_report *report,
                                    const struct qkv_format *format, const struct qkv_format_options *options,
                                    const char *path, struct qkv_error *error)
{
    char *bytes;
    size_t size;
    if (qkv_attention_render(report, format, options, &bytes, &size, error)) return QKV_INVALID;
    enum qkv_status status = qkv_file_write(path, bytes, size, error);
    free(bytes);
    return status;
}
