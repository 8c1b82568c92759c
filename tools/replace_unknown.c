#include "replace_unknown.h"

#include "qkv/attention_map.h"

enum qkv_status unknown_replacer_open(struct unknown_replacer *replacer, const struct qkv_run *run,
                                      struct qkv_error *error)
{
    const struct qkv_attention_layers cross = qkv_model_attention(run->model, QKV_ATTENTION_CROSS, 1);
    if (!cross.multi_head && !cross.single_head)
        return qkv_error_set(
            error, "%s: --replace-unk needs cross attention, which the model of this run does not have",
            run->path);
    replacer->collector = qkv_attention_collector_new(run->model, error);
    return replacer->collector ? QKV_OK : QKV_INVALID;
}

void unknown_replacer_close(struct unknown_replacer *replacer)
{
    qkv_attention_collector_free(replacer->collector);
    qkv_arena_release(&replacer->arena);
}

enum qkv_status replace_unknown(struct unknown_replacer *replacer, const struct input_line *line,
                                const struct qkv_hypothesis *hypothesis, const char **tokens,
                                struct qkv_error *error)
{
    const struct qkv_attention_pair pair = {.source = line->source.ids,
                                            .target = {hypothesis->length, hypothesis->ids},
                                            .source_tokens = line->source.texts,
                                            .target_tokens = tokens,
                                            .unfinished = !hypothesis->finished};
    struct qkv_attention_report report, mean;
    int64_t first = line->prefix.ids.length;
    while (first < hypothesis->length && hypothesis->ids[first] != QKV_UNKNOWN) first++;
    if (first >= hypothesis->length) return QKV_OK;
    qkv_arena_reset(&replacer->arena);
    if (qkv_attention_collect(replacer->collector, 1, &pair, 1u << QKV_ATTENTION_CROSS, &report, error) ||
        qkv_attention_select(&report, 0, QKV_ATTENTION_MEAN, QKV_ATTENTION_MEAN, &replacer->arena, &mean,
                             error))
        return QKV_INVALID;
    const struct qkv_attention_map *map = &mean.maps[0];
    for (int64_t t = first; t < hypothesis->length; t++) {
        const double *weights = map->weights + t * map->columns;
        int64_t best = 0;
        if (hypothesis->ids[t] != QKV_UNKNOWN) continue;
        for (int64_t i = 1; i < line->source.ids.length; i++)
            if (weights[i] > weights[best]) best = i;
        tokens[t] = line->source.texts[best];
    }
    return QKV_OK;
}
