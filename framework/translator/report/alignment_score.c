/* Scores the cross maps of attention reports, and of a run, against gold links. */
#include "report/alignment_score.h"
#include "core/memory.h"

#include "report/collect.h"
#include "report/writer.h"

/* The drawings that are scored. */
static const enum qkv_alignment_drawing DRAWINGS[] = {QKV_DRAWING_TARGET, QKV_DRAWING_UNION};
enum { SCORED_DRAWINGS = sizeof DRAWINGS / sizeof *DRAWINGS };

/* Lists the cross maps to score: for each layer its heads and, if there are several, their mean; last, the mean of all, if
 * there are several layers or heads. */
static enum qkv_status select_maps(const struct qkv_attention_report *report, struct qkv_arena *arena,
                                   struct qkv_attention_map **maps, int64_t *count, struct qkv_error *error)
{
    const int each = QKV_ATTENTION_EACH, mean = QKV_ATTENTION_MEAN;
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    struct qkv_attention_report heads, layers, all;
    if (qkv_attention_select(report, cross, each, each, arena, &heads, error) ||
        qkv_attention_select(report, cross, each, mean, arena, &layers, error) ||
        qkv_attention_select(report, cross, mean, mean, arena, &all, error))
        return QKV_INVALID;
    *count = 0;
    *maps = qkv_arena_array(arena, heads.map_count + layers.map_count + 1, sizeof **maps);
    if (!*maps) return qkv_no_memory(error);
    for (int64_t l = 0, h = 0; l < layers.map_count; l++) {
        while (h < heads.map_count && heads.maps[h].layer == layers.maps[l].layer)
            (*maps)[(*count)++] = heads.maps[h++];
        if (layers.maps[l].head == QKV_ATTENTION_MEAN) (*maps)[(*count)++] = layers.maps[l];
    }
    if (all.maps[0].layer == QKV_ATTENTION_MEAN) (*maps)[(*count)++] = all.maps[0];
    return QKV_OK;
}

/* Allocates the results, at the first sentence. */
static enum qkv_status begin_score(struct qkv_alignment_score *score, const struct qkv_attention_map *maps,
                                   int64_t count, struct qkv_error *error)
{
    int64_t results = SCORED_DRAWINGS * QKV_READINGS * count;
    score->results = calloc((size_t)results, sizeof *score->results);
    if (!score->results) return qkv_no_memory(error);
    score->count = results;
    for (int64_t i = 0; i < results; i++) {
        score->results[i].drawing = DRAWINGS[i / count / QKV_READINGS];
        score->results[i].reading = (enum qkv_alignment_reading)(i / count % QKV_READINGS);
        score->results[i].layer = maps[i % count].layer;
        score->results[i].head = maps[i % count].head;
    }
    return QKV_OK;
}

static enum qkv_status add_report(struct qkv_alignment_score *score,
                                  const struct qkv_attention_report *report, struct qkv_attention_words words,
                                  const struct qkv_alignment *gold, struct qkv_arena *arena,
                                  struct qkv_error *error)
{
    struct qkv_attention_map *maps;
    int64_t count;
    if (qkv_report_check_tokens(report, error) || select_maps(report, arena, &maps, &count, error) ||
        (!score->results && begin_score(score, maps, count, error)))
        return QKV_INVALID;
    if (score->count != SCORED_DRAWINGS * QKV_READINGS * count)
        return qkv_error_set(error, "the attention reports of one score differ in layers or heads");
    for (int64_t i = 0; i < score->count; i++)
        if (qkv_count_map_links(report, words, &maps[i % count], gold, arena, &score->results[i], error))
            return QKV_INVALID;
    score->sentences++;
    return QKV_OK;
}

enum qkv_status qkv_alignment_score_add(struct qkv_alignment_score *score,
                                        const struct qkv_attention_report *report,
                                        struct qkv_attention_words words, const struct qkv_alignment *gold,
                                        struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    enum qkv_status status = add_report(score, report, words, gold, &arena, error);
    qkv_arena_release(&arena);
    return status;
}

/* ---- the score of a run ---- */

struct scoring {
    const struct qkv_corpus *corpus;
    struct qkv_alignments gold;
    struct qkv_alignment_score *score;
};

static enum qkv_status score_group(void *context, struct forced_slot *slot, int64_t first, int64_t count)
{
    const struct scoring *s = context;
    struct forced_pair pairs[FORCED_MAX];
    enum qkv_status status = qkv_forced_corpus(slot, s->corpus, first, count, pairs);
    for (int64_t i = 0; i < count && !status; i++)
        status = qkv_alignment_score_add(s->score, &pairs[i].report, pairs[i].words,
                                         &s->gold.sentences[s->corpus->line[first + i] - 1], &slot->error);
    return status;
}

enum qkv_status qkv_alignment_evaluate(const struct qkv_run *run, const struct qkv_corpus *corpus,
                                       const char *links, enum qkv_links_from from,
                                       struct qkv_alignment_score *score, struct qkv_error *error)
{
    struct scoring scoring = {.corpus = corpus, .score = score};
    struct forced_slots slots = {0};
    enum qkv_status status = qkv_corpus_links_read(&scoring.gold, links, from, corpus, error);
    if (!status)
        status = qkv_forced_open(&slots, NULL, (const struct qkv_run *const[]){run, NULL}, false, error);
    score->missing = scoring.gold.missing;
    score->spaces = scoring.gold.spaces;
    if (!status) status = qkv_forced_run(&slots, corpus->count, score_group, &scoring, error);
    qkv_alignments_release(&scoring.gold);
    qkv_forced_close(&slots);
    return status;
}

/* ---- results ---- */

struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                     enum qkv_alignment_drawing drawing)
{
    const struct qkv_alignment_result *best = NULL;
    for (int64_t i = 0; i < score->count; i++)
        if (score->results[i].drawing == drawing &&
            (!best || score->results[i].error_rate < best->error_rate))
            best = &score->results[i];
    return best ? *best : (struct qkv_alignment_result){0};
}

void qkv_alignment_score_release(struct qkv_alignment_score *score)
{
    free(score->results);
    *score = (struct qkv_alignment_score){0};
}
