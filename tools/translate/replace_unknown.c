#include "replace_unknown.h"

#include "data/bpe.h"
#include "models/network.h"

enum qkv_status unknown_replacer_open(struct unknown_replacer *replacer, const struct qkv_run *run,
                                      struct qkv_error *error)
{
    const struct qkv_attention_layers cross = qkv_model_attention(run->model, QKV_ATTENTION_CROSS, 1);
    if (!cross.multi_head && !cross.single_head)
        return qkv_error_set(
            error, "%s: --replace-unk needs cross attention, which the model of this run does not have",
            run->path);
    replacer->has_subwords = run->config.data.trg.level == QKV_LEVEL_BPE;
    replacer->collector = qkv_attention_collector_new(run->model, error);
    return replacer->collector ? QKV_OK : QKV_INVALID;
}

void unknown_replacer_close(struct unknown_replacer *replacer)
{
    qkv_attention_collector_free(replacer->collector);
    qkv_arena_release(&replacer->arena);
}

/* The source token to which row t of the map attends most. */
static int64_t strongest(const struct input_tokens *source, const struct qkv_attention_map *map, int64_t t)
{
    const double *weights = map->weights + t * map->columns;
    int64_t best = 0;
    for (int64_t i = 1; i < source->ids.length; i++)
        if (weights[i] > weights[best]) best = i;
    return best;
}

enum qkv_status replace_unknown(struct unknown_replacer *replacer, const struct input_line *line,
                                const struct qkv_hypothesis *hypothesis, const char **tokens, int64_t *count,
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
    replacer->has_replaced = true;
    qkv_arena_reset(&replacer->arena);
    if (qkv_attention_collect(replacer->collector, 1, &pair, 1u << QKV_ATTENTION_CROSS, &report, error) ||
        qkv_attention_select(&report, 0, QKV_ATTENTION_MEAN, QKV_ATTENTION_MEAN, &replacer->arena, &mean,
                             error))
        return QKV_INVALID;
    const struct qkv_attention_map *map = &mean.maps[0];
    *count = first;
    for (int64_t t = first, last = -1; t < hypothesis->length; t++) {
        int64_t best = hypothesis->ids[t] == QKV_UNKNOWN ? strongest(&line->source, map, t) : -1;
        /* Another subword of the same word. */
        bool repeats = last >= 0 && best >= 0 && (best != last || replacer->has_subwords) &&
                       line->source.words[best] == line->source.words[last];
        /* The source word replaces the complete word, whose first subwords may be known. */
        while (replacer->has_subwords && best >= 0 && *count &&
               tokens[*count - 1][qkv_length_in_word(tokens[*count - 1])])
            --*count;
        if (!repeats) tokens[(*count)++] = best < 0 ? tokens[t] : line->source.words[best];
        last = best;
    }
    return QKV_OK;
}
