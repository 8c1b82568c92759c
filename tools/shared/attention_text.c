#include "attention_text.h"
#include "core/memory.h"

#include "attention_options.h"
#include "output_options.h"
#include "search_options.h"

const char *attention_title(const struct qkv_model *model, const char *source, const char *target,
                            struct qkv_arena *arena)
{
    char heads[1024];
    bool has_silent = *list_silent_heads(model, heads, sizeof heads);
    const char *precision = narrow_precision(model);
    return qkv_arena_format(arena, "%s → %s%s%s%s%s", source, target, has_silent ? ", without " : "", heads,
                            precision ? ", in " : "", precision ? precision : "");
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
    char *bytes;
    size_t size;
    if (output_read(&output, &as_text) ||
        qkv_attention_collect(collector, 1, &drawn->pair, cross, &report, error) ||
        qkv_attention_select(&report, cross, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, arena, &selected,
                             error) ||
        qkv_attention_merge_words(&selected, drawn->words, arena, &selected, error))
        return QKV_INVALID;
    selected.title = title;
    if (qkv_attention_render(&selected, output.format, &output.style, &bytes, &size, error))
        return QKV_INVALID;
    return output_write(&output, bytes, size, error);
}

enum qkv_status print_cross_attention(const struct qkv_run *run, const struct cross_attention *drawn,
                                      struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    const char *title = attention_title(run->model, drawn->source, drawn->target, &arena);
    if (title && drawn->names_run) title = qkv_arena_format(&arena, "%s, attention of %s", title, run->path);
    struct qkv_attention_collector *collector = qkv_attention_collector_new(run->model, error);
    enum qkv_status status = collector ? QKV_OK : QKV_INVALID;
    if (!status && !title) status = qkv_error_set(error, "out of memory");
    if (!status) status = print_maps(collector, drawn, title, &arena, error);
    qkv_attention_collector_free(collector);
    qkv_arena_release(&arena);
    return status;
}
