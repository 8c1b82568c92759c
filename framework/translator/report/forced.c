/* Attention of pairs that are given as text, from forced passes on all threads. */
#include "core/memory.h"
#include "core/system.h"
#include "report/collect.h"

/* ---- slots ---- */

enum qkv_status qkv_forced_open(struct forced_slots *slots, struct qkv_workers *workers,
                                const struct qkv_run *const runs[2], bool norms, struct qkv_error *error)
{
    *slots = (struct forced_slots){.workers = workers, .count = qkv_workers_count(workers)};
    slots->slot = calloc((size_t)slots->count, sizeof *slots->slot);
    if (!slots->slot) return qkv_no_memory(error);
    for (int i = 0; i < slots->count; i++)
        for (int d = 0; d < 2 && runs[d]; d++) {
            struct forced_passes *passes = &slots->slot[i].passes[d];
            *passes = (struct forced_passes){.run = runs[d], .kinds = 1u << QKV_ATTENTION_CROSS};
            passes->collector = qkv_attention_collector_new(runs[d]->model, error);
            if (!passes->collector) return QKV_INVALID;
            qkv_attention_collector_measure_norms(passes->collector, norms);
        }
    return QKV_OK;
}

void qkv_forced_close(struct forced_slots *slots)
{
    for (int i = 0; slots->slot && i < slots->count; i++) {
        struct forced_slot *slot = &slots->slot[i];
        for (int d = 0; d < 2; d++) {
            qkv_attention_collector_free(slot->passes[d].collector);
            qkv_sentence_release(&slot->passes[d].sentence);
            qkv_arena_release(&slot->passes[d].arena);
        }
        qkv_arena_release(&slot->scratch);
        qkv_arena_release(&slot->results);
    }
    free(slots->slot);
    *slots = (struct forced_slots){0};
}

/* A run over all groups. */
struct groups {
    struct forced_slots *slots;
    int64_t count; /* pairs */
    forced_function *function;
    void *context;
};

static void run_slot(void *context, int index)
{
    const struct groups *groups = context;
    struct forced_slot *slot = &groups->slots->slot[index];
    slot->status = QKV_OK;
    for (int64_t first = (int64_t)index * FORCED_MAX; first < groups->count && !slot->status;
         first += (int64_t)groups->slots->count * FORCED_MAX) {
        int64_t left = groups->count - first;
        slot->status = qkv_check_interrupt(&slot->error);
        if (!slot->status)
            slot->status =
                groups->function(groups->context, slot, first, left < FORCED_MAX ? left : FORCED_MAX);
    }
}

enum qkv_status qkv_forced_run(struct forced_slots *slots, int64_t count, forced_function *function,
                               void *context, struct qkv_error *error)
{
    struct groups groups = {slots, count, function, context};
    qkv_workers_run(slots->workers, slots->count, run_slot, &groups);
    for (int i = 0; i < slots->count; i++)
        if (slots->slot[i].status) {
            qkv_error_set(error, "%s", slots->slot[i].error.message);
            return slots->slot[i].status;
        }
    return QKV_OK;
}

/* ---- one pass ---- */

/* One side of a pair as the model reads it, in the arena. */
struct encoded_side {
    struct qkv_ids ids;
    const int64_t *word;
    const char *const *texts;
};

static enum qkv_status encode(struct forced_passes *passes, const char *text, bool target,
                              struct encoded_side *side, struct qkv_error *error)
{
    const struct qkv_run *run = passes->run;
    struct qkv_sentence *sentence = &passes->sentence;
    if (qkv_sentence_encode(sentence, target ? &run->config.data.trg : &run->config.data.src,
                            target ? &run->target : &run->source, text, strlen(text), error))
        return QKV_INVALID;
    int64_t count = sentence->tokens.count;
    int32_t *ids = qkv_arena_array(&passes->arena, count, sizeof *ids);
    int64_t *word = qkv_arena_array(&passes->arena, count, sizeof *word);
    const char **texts = qkv_arena_array(&passes->arena, count, sizeof *texts);
    if (!ids || !word || !texts) return qkv_no_memory(error);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = sentence->ids[i];
        word[i] = sentence->tokens.word[i];
        texts[i] = passes->has_texts ? qkv_arena_string(&passes->arena, sentence->tokens.token[i]) : "";
        if (!texts[i]) return qkv_no_memory(error);
    }
    *side = (struct encoded_side){{count, ids}, word, texts};
    return QKV_OK;
}

enum qkv_status qkv_forced_collect(struct forced_slot *slot, int direction, int64_t count,
                                   const struct qkv_pair_texts *texts, struct forced_pair *pairs)
{
    struct forced_passes *passes = &slot->passes[direction];
    struct qkv_attention_pair encoded[FORCED_MAX];
    struct qkv_attention_report reports[FORCED_MAX];
    int64_t known = 0;
    QKV_BUG(count > FORCED_MAX, "a forced pass of %lld pairs", (long long)count);
    qkv_arena_reset(&passes->arena);
    for (int64_t i = 0; i < count; i++) {
        const char *const text[] = {texts[i].source, texts[i].target};
        struct encoded_side source, target;
        if (encode(passes, text[direction], false, &source, &slot->error) ||
            encode(passes, text[!direction], true, &target, &slot->error))
            return QKV_INVALID;
        encoded[known] =
            (struct qkv_attention_pair){source.ids, target.ids, source.texts, target.texts, false};
        pairs[i] = (struct forced_pair){.pair = encoded[known], .words = {source.word, target.word}};
        if (!source.ids.length || !target.ids.length) continue;
        static const char *const SIDES[] = {"the source side", "the target side"};
        struct qkv_error reason;
        pairs[i].has_report = !qkv_pair_check_length(passes->run->model, &encoded[known], SIDES[direction],
                                                     SIDES[!direction], &reason);
        if (!pairs[i].has_report) pairs[i].reason = qkv_arena_string(&passes->arena, reason.message);
        if (!pairs[i].has_report && !pairs[i].reason) return qkv_no_memory(&slot->error);
        known += pairs[i].has_report;
    }
    if (!known) return QKV_OK;
    enum qkv_status status =
        qkv_attention_collect(passes->collector, known, encoded, passes->kinds, reports, &slot->error);
    if (status) return status;
    for (int64_t i = 0, r = 0; i < count; i++)
        if (pairs[i].has_report) pairs[i].report = reports[r++];
    return QKV_OK;
}

/* Does the same for texts without a source, whose tokens need no words. */
static enum qkv_status collect_texts(struct forced_passes *passes, const struct qkv_corpus *corpus,
                                     int64_t first, int64_t count, struct forced_pair *pairs,
                                     struct qkv_error *error)
{
    struct qkv_attention_pair encoded[FORCED_MAX];
    struct qkv_attention_report reports[FORCED_MAX];
    const bool runs_on = corpus->sides.runs_on;
    qkv_arena_reset(&passes->arena);
    for (int64_t i = 0; i < count; i++) {
        const int64_t *start = corpus->target.start + first + i, length = start[1] - start[0];
        const int32_t *ids = corpus->target.ids + start[0];
        const char **tokens = qkv_vocabulary_tokens(&passes->run->target, length, ids, &passes->arena);
        if (!tokens) return qkv_no_memory(error);
        encoded[i] = (struct qkv_attention_pair){.target = {length, ids},
                                                 .target_tokens = tokens,
                                                 .unfinished = runs_on,
                                                 .before = runs_on ? ids - 1 : NULL};
    }
    enum qkv_status status =
        qkv_attention_collect(passes->collector, count, encoded, passes->kinds, reports, error);
    for (int64_t i = 0; i < count && !status; i++)
        pairs[i] = (struct forced_pair){.has_report = true, .report = reports[i]};
    return status;
}

enum qkv_status qkv_forced_corpus(struct forced_slot *slot, const struct qkv_corpus *corpus, int64_t first,
                                  int64_t count, struct forced_pair *pairs)
{
    struct qkv_pair_texts texts[FORCED_MAX] = {{0}};
    if (!corpus->sides.has_source)
        return collect_texts(&slot->passes[0], corpus, first, count, pairs, &slot->error);
    for (int64_t i = 0; i < count; i++) {
        const char *source = qkv_corpus_source(corpus, first + i),
                   *target = qkv_corpus_target(corpus, first + i);
        if (!source || !target)
            return qkv_error_set(&slot->error, "alignment scores need a corpus that keeps its raw lines");
        texts[i] = (struct qkv_pair_texts){source, target};
    }
    enum qkv_status status = qkv_forced_collect(slot, 0, count, texts, pairs);
    for (int64_t i = 0; i < count && !status; i++)
        if (!pairs[i].has_report)
            status =
                qkv_error_set(&slot->error, "line %lld of the corpus: %s", (long long)corpus->line[first + i],
                              pairs[i].reason ? pairs[i].reason : "a side is empty");
    return status;
}
