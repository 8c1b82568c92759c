/* Attention maps from a model: the weights of every head of every layer, in a forced pass over
 * sentence pairs. For a translation of the model itself, force that translation: the maps are those
 * of the search, up to rounding, for greedy and for beam search.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     struct qkv_attention_report report;
 *     const int32_t ids[] = {7, 8};
 *     const char *const tokens[] = {"the", "cat"};
 *     const struct qkv_attention_pair pair = {
 *         .source = {2, ids}, .target = {2, ids}, .source_tokens = tokens, .target_tokens = tokens};
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_attention_collector *collector = model ? qkv_attention_collector_new(model, &error) : NULL;
 *     if (collector &&
 *         !qkv_attention_collect(collector, 1, &pair, 1u << QKV_ATTENTION_CROSS, &report, &error))
 *         printf("%d maps\n", (int)report.map_count);
 *     qkv_attention_collector_free(collector);
 *     qkv_model_free(model);
 *     qkv_arena_release(&arena);
 */
#ifndef QKV_ATTENTION_COLLECT_H
#define QKV_ATTENTION_COLLECT_H

#include "qkv/attention_map.h"
#include "qkv/batch.h"
#include "qkv/model.h"

/* A sentence pair. The arrays are the caller's and must outlive the reports. */
struct qkv_attention_pair {
    struct qkv_ids source, target;                           /* without <s> and </s> */
    const char *const *source_tokens, *const *target_tokens; /* their texts, which name rows and columns */
    /* The translation was cut before </s> (qkv_hypothesis.finished is false): the decoder outputs its last token, but does
     * not read it */
    bool unfinished;
    /* [source.length + 1], with </s>: tokens that attention must ignore; NULL: none */
    const bool *source_masked;
};

struct qkv_attention_collector;

/* Makes a collector, which reuses its memory from pass to pass. The model must outlive it; each
 * pass reads the current parameters. NULL with a message when memory runs out. */
QKV_API struct qkv_attention_collector *qkv_attention_collector_new(const struct qkv_model *model,
                                                                    struct qkv_error *error);
QKV_API void qkv_attention_collector_free(struct qkv_attention_collector *collector);

/* Runs `count` pairs through the model in one pass, without dropout and gradients, and fills reports[count] with the maps
 * of the attention kinds in `kinds` (bits 1u << kind; 0: all), ordered by kind, layer, head. The source of a report ends
 * with </s>; its target begins with <s> (target_input) or ends with </s> (target_output); title and model are NULL. Reports
 * are valid until the next pass or the end of the collector. Fails when `count` is below 1, `kinds` has bits but none of a
 * kind, a sentence has more tokens than the model has positions, a program's own network records weights whose shapes do
 * not fit the sentences (network.h), or memory runs out. QKV_FAILED: a map holds infinity or NaN, because parameters of the
 * model are too large. */
QKV_API enum qkv_status qkv_attention_collect(struct qkv_attention_collector *collector, int64_t count,
                                              const struct qkv_attention_pair *pairs, unsigned kinds,
                                              struct qkv_attention_report *reports, struct qkv_error *error);

#endif
