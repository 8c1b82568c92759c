#include "report/forced.h"

#include "report/collect.h"
#include "report/user_sentence.h"

static enum qkv_status no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for word alignment");
}

enum qkv_status qkv_forced_init(struct forced_passes *passes, const struct qkv_run *run,
                                const struct value_norms *norms, struct qkv_error *error)
{
    *passes = (struct forced_passes){.run = run, .kinds = 1u << QKV_ATTENTION_CROSS};
    passes->collector = qkv_attention_collector_new(run->model, error);
    if (!passes->collector) return QKV_INVALID;
    qkv_attention_collector_set_norms(passes->collector, norms);
    return QKV_OK;
}

void qkv_forced_release(struct forced_passes *passes)
{
    qkv_attention_collector_free(passes->collector);
    qkv_sentence_release(&passes->sentence);
    qkv_arena_release(&passes->arena);
    *passes = (struct forced_passes){0};
}

/* One side of a pair as the model reads it, in the arena. */
struct encoded_side {
    struct qkv_ids ids;
    const int64_t *word;
    const char *const *texts;
};

static enum qkv_status encode(struct forced_passes *passes, const char *text, size_t size, bool target,
                              struct encoded_side *side, struct qkv_error *error)
{
    const struct qkv_run *run = passes->run;
    struct qkv_sentence *sentence = &passes->sentence;
    if (qkv_sentence_encode(sentence, target ? &run->config.data.trg : &run->config.data.src,
                            target ? &run->target : &run->source, text, size, error))
        return QKV_INVALID;
    int64_t count = sentence->tokens.count;
    int32_t *ids = qkv_arena_allocate(&passes->arena, (size_t)count * sizeof *ids);
    int64_t *word = qkv_arena_allocate(&passes->arena, (size_t)count * sizeof *word);
    const char **texts = qkv_arena_allocate(&passes->arena, (size_t)count * sizeof *texts);
    if (!ids || !word || !texts) return no_memory(error);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = sentence->ids[i];
        word[i] = sentence->tokens.word[i];
        texts[i] = passes->has_texts ? qkv_arena_string(&passes->arena, sentence->tokens.token[i]) : "";
        if (!texts[i]) return no_memory(error);
    }
    *side = (struct encoded_side){{count, ids}, word, texts};
    return QKV_OK;
}

/* Sets pair->reason if a side is longer than the model allows. */
static bool fits(struct forced_passes *passes, const struct qkv_attention_pair *encoded, bool swapped,
                 struct forced_pair *pair)
{
    const struct qkv_model_config *config = &passes->run->config.model;
    int64_t source_max = qkv_stack_max_length(&config->encoder) - 1,
            target_max = qkv_stack_max_length(&config->decoder) - 1; /* </s> or <s> takes a position */
    bool long_source = encoded->source.length > source_max;
    if (!long_source && encoded->target.length <= target_max) return true;
    struct qkv_error reason;
    qkv_too_many_tokens(long_source != swapped ? "the source side" : "the target side",
                        long_source ? encoded->source.length : encoded->target.length,
                        long_source ? source_max : target_max, &reason);
    pair->reason = qkv_arena_string(&passes->arena, reason.message);
    return false;
}

enum qkv_status qkv_forced_collect(struct forced_passes *passes, int64_t count,
                                   const struct qkv_pair_texts *texts, bool swapped,
                                   struct forced_pair *pairs, struct qkv_error *error)
{
    struct qkv_attention_pair encoded[FORCED_MAX];
    struct qkv_attention_report reports[FORCED_MAX];
    int64_t known = 0;
    QKV_BUG(count > FORCED_MAX, "a forced pass of %lld pairs", (long long)count);
    qkv_arena_reset(&passes->arena);
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_pair_texts *text = &texts[i];
        struct encoded_side source, target;
        if (encode(passes, swapped ? text->target : text->source,
                   swapped ? text->target_size : text->source_size, false, &source, error) ||
            encode(passes, swapped ? text->source : text->target,
                   swapped ? text->source_size : text->target_size, true, &target, error))
            return QKV_INVALID;
        encoded[known] =
            (struct qkv_attention_pair){source.ids, target.ids, source.texts, target.texts, false};
        pairs[i] = (struct forced_pair){.words = {source.word, target.word}};
        if (!source.ids.length || !target.ids.length) continue;
        pairs[i].has_report = fits(passes, &encoded[known], swapped, &pairs[i]);
        if (!pairs[i].has_report && !pairs[i].reason) return no_memory(error);
        known += pairs[i].has_report;
    }
    if (!known) return QKV_OK;
    enum qkv_status status =
        qkv_attention_collect(passes->collector, known, encoded, passes->kinds, reports, error);
    if (status) return status;
    for (int64_t i = 0, r = 0; i < count; i++)
        if (pairs[i].has_report) pairs[i].report = reports[r++];
    return QKV_OK;
}
