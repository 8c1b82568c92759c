/* Measures all heads of a run: their maps, their gradients, and the scores of the run when they are silenced. */
#include "qkv/heads.h"
#include "qkv/evaluate.h"
#include "qkv/network.h"
#include "report/collect.h"
#include "report/corpus_links.h"
#include "report/head_sums.h"

#include <math.h>
#include <stdlib.h>

static const struct qkv_head_measure_info MEASURES[] = {
#define HEAD_MEASURE(id, name, title, digits, factor, help) {#name, title, help, digits, factor},
#include "qkv/head_measures.def"
#undef HEAD_MEASURE
};

const struct qkv_head_measure_info *qkv_head_measure_info(enum qkv_head_measure measure)
{
    return (unsigned)measure < QKV_HEAD_MEASURES ? &MEASURES[measure] : NULL;
}

/* Working memory of a thread. Slot j measures the groups j, j + slots, j + 2 slots, ... */
struct slot {
    struct forced_passes passes;
    struct head_gradients gradients;
    struct qkv_arena arena; /* of one pair */
    double *gradient;       /* [heads], of one pair */
    enum qkv_status status;
    struct qkv_error error;
};

struct measuring {
    struct qkv_run *run;
    const struct qkv_corpus *corpus;
    const struct qkv_heads_options *options;
    struct qkv_measured_heads *measured;
    struct qkv_alignments gold; /* empty without links */
    struct value_norms norms;
    int slots;
    struct slot *slot;      /* [slots] */
    struct head_sums *sums; /* [groups, heads]; a group has FORCED_MAX pairs, the last one may have fewer */
    int64_t done;           /* parts of the work, for the progress function */
    struct qkv_arena arena;
};

static enum qkv_status no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for the measures of heads");
}

static void report_progress(struct measuring *m)
{
    m->done++;
    /* The parts: maps and gradients; the scores with all heads; the scores without each head. */
    if (m->options->progress) m->options->progress(m->options->context, m->done, 2 + m->measured->count);
}

/* ---- maps and gradients ---- */

static enum qkv_status add_pair(struct measuring *m, struct slot *slot, int64_t pair,
                                const struct head_maps *maps, struct head_sums *sums)
{
    const struct qkv_corpus_side *source = &m->corpus->source, *target = &m->corpus->target;
    const struct qkv_ids from = {source->start[pair + 1] - source->start[pair],
                                 source->ids + source->start[pair]},
                         to = {target->start[pair + 1] - target->start[pair],
                               target->ids + target->start[pair]};
    qkv_arena_reset(&slot->arena);
    if (qkv_head_sums_add(maps, &slot->arena, sums, &slot->error) ||
        qkv_head_gradients_of(&slot->gradients, from, to, slot->gradient, &slot->error))
        return QKV_INVALID;
    for (int64_t i = 0; i < m->measured->count; i++) sums[i].gradient += fabs(slot->gradient[i]);
    return QKV_OK;
}

/* Fails unless the report has one map for each head, in the same order, because sums are added map by map. */
static enum qkv_status check_maps(const struct measuring *m, const struct qkv_attention_report *report,
                                  struct qkv_error *error)
{
    bool fits = report->map_count == m->measured->count;
    for (int64_t i = 0; fits && i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        const struct qkv_head head = m->measured->heads[i].head;
        fits = map->kind == head.attention && map->layer == head.layer && map->head == head.head;
    }
    if (fits) return QKV_OK;
    return qkv_error_set(
        error,
        "network %s: its function forward must record QKV_PART_WEIGHTS of the %lld heads that "
        "its function attention gives, in their order, but records %lld",
        m->run->model->interface->name, (long long)m->measured->count, (long long)report->map_count);
}

/* Measures the pairs first .. first + count - 1. */
static enum qkv_status add_group(struct measuring *m, struct slot *slot, int64_t first, int64_t count)
{
    struct qkv_pair_texts texts[FORCED_MAX] = {{0}};
    struct forced_pair pairs[FORCED_MAX];
    struct qkv_attention_report norms[FORCED_MAX];
    struct head_sums *sums = m->sums + first / FORCED_MAX * m->measured->count;
    for (int64_t i = 0; i < count; i++)
        if (qkv_corpus_texts(m->corpus, first + i, &texts[i], &slot->error)) return QKV_INVALID;
    enum qkv_status status = qkv_forced_collect(&slot->passes, count, texts, false, pairs, &slot->error);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        if (!pairs[i].has_report)
            return qkv_error_set(&slot->error, "line %lld of the corpus: %s",
                                 (long long)m->corpus->line[first + i],
                                 pairs[i].reason ? pairs[i].reason : "a side is empty");
        if (check_maps(m, &pairs[i].report, &slot->error)) return QKV_INVALID;
        norms[i] = pairs[i].report;
    }
    if (qkv_value_norms_apply(&m->norms, qkv_attention_collector_trace(slot->passes.collector), count, norms,
                              &slot->passes.arena, &slot->error))
        return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        const struct head_maps maps = {
            .pair = &pairs[i],
            .norms = norms[i],
            .gold = m->options->links ? &m->gold.sentences[m->corpus->line[first + i] - 1] : NULL,
            .measures_norms = m->options->norms,
        };
        if (add_pair(m, slot, first + i, &maps, sums)) return QKV_INVALID;
    }
    return QKV_OK;
}

static void run_slot(void *context, int index)
{
    struct measuring *m = context;
    struct slot *slot = &m->slot[index];
    for (int64_t first = (int64_t)index * FORCED_MAX; first < m->corpus->count && !slot->status;
         first += (int64_t)m->slots * FORCED_MAX) {
        int64_t left = m->corpus->count - first;
        slot->status = add_group(m, slot, first, left < FORCED_MAX ? left : FORCED_MAX);
    }
}

static enum qkv_status open_slots(struct measuring *m, struct qkv_error *error)
{
    m->slots = qkv_workers_count(m->options->workers);
    m->slot = qkv_arena_zeroed(&m->arena, (size_t)m->slots * sizeof *m->slot);
    if (!m->slot) return no_memory(error);
    for (int i = 0; i < m->slots; i++) {
        struct slot *slot = &m->slot[i];
        slot->gradient = qkv_arena_zeroed(&m->arena, (size_t)m->measured->count * sizeof *slot->gradient);
        if (!slot->gradient) return no_memory(error);
        if (qkv_forced_init(&slot->passes, m->run, NULL, error) ||
            qkv_head_gradients_init(&slot->gradients, m->run->model, error))
            return QKV_INVALID;
        slot->passes.kinds = 0; /* all */
        slot->passes.has_texts = true;
    }
    return QKV_OK;
}

static enum qkv_status measure_maps(struct measuring *m, struct qkv_error *error)
{
    int64_t heads = m->measured->count, groups = (m->corpus->count + FORCED_MAX - 1) / FORCED_MAX;
    m->sums = qkv_arena_zeroed(&m->arena, (size_t)(groups * heads) * sizeof *m->sums);
    if (!m->sums) return no_memory(error);
    if (open_slots(m, error)) return QKV_INVALID;
    qkv_workers_run(m->options->workers, m->slots, run_slot, m);
    for (int i = 0; i < m->slots; i++)
        if (m->slot[i].status) {
            qkv_error_set(error, "%s", m->slot[i].error.message);
            return m->slot[i].status;
        }
    for (int64_t g = 1; g < groups; g++)
        for (int64_t i = 0; i < heads; i++) qkv_head_sums_merge(&m->sums[i], &m->sums[g * heads + i]);
    report_progress(m);
    return QKV_OK;
}

/* ---- without a head ---- */

static enum qkv_status evaluate(struct measuring *m, struct qkv_evaluator *evaluator,
                                struct qkv_scores *scores, struct qkv_error *error)
{
    enum qkv_status status = m->options->no_translation
                                 ? qkv_evaluator_run_references(evaluator, scores, error)
                                 : qkv_evaluator_run(evaluator, scores, error);
    if (m->options->no_translation) scores->value[QKV_METRIC_BLEU] = (double)NAN;
    if (!status) report_progress(m);
    return status;
}

static enum qkv_status silence_each(struct measuring *m, struct qkv_evaluator *evaluator,
                                    struct qkv_error *error)
{
    struct qkv_scores all, scores;
    enum qkv_status status = evaluate(m, evaluator, &all, error);
    if (status) return status;
    m->measured->sentences = all.counts.sentences;
    m->measured->missing = m->gold.missing;
    m->measured->tokens = all.counts.tokens;
    m->measured->loss = all.value[QKV_METRIC_LOSS];
    m->measured->bleu = all.value[QKV_METRIC_BLEU];
    for (int64_t i = 0; i < m->measured->count; i++) {
        struct qkv_measured_head *head = &m->measured->heads[i];
        bool was_silent = qkv_model_is_ablated(m->run->model, head->head);
        qkv_model_ablate(m->run->model, head->head, true);
        status = evaluate(m, evaluator, &scores, error);
        qkv_model_ablate(m->run->model, head->head, was_silent);
        if (status) break;
        head->value[QKV_HEAD_LOSS] = scores.value[QKV_METRIC_LOSS] - all.value[QKV_METRIC_LOSS];
        head->value[QKV_HEAD_BLEU] = scores.value[QKV_METRIC_BLEU] - all.value[QKV_METRIC_BLEU];
    }
    return status;
}

static enum qkv_status measure_silence(struct measuring *m, struct qkv_error *error)
{
    const struct qkv_run *run = m->run;
    struct qkv_evaluator *evaluator =
        qkv_evaluator_new(run->model, m->corpus, &run->config.data.trg, &run->target, m->options->workers,
                          &m->options->testing, error);
    enum qkv_status status = evaluator ? silence_each(m, evaluator, error) : QKV_INVALID;
    qkv_evaluator_free(evaluator);
    return status;
}

/* ---- all ---- */

static enum qkv_status measure(struct measuring *m, struct qkv_error *error)
{
    struct qkv_measured_heads *measured = m->measured;
    const struct qkv_model *model = m->run->model;
    measured->count = qkv_model_head_count(model);
    if (!measured->count)
        return qkv_error_set(error, "%s: the model has no attention, and so no heads", m->run->path);
    measured->heads = calloc((size_t)measured->count, sizeof *measured->heads);
    if (!measured->heads) return no_memory(error);
    for (int64_t i = 0; i < measured->count; i++) measured->heads[i].head = qkv_model_head(model, i);
    if (m->options->links && qkv_corpus_links(m->corpus, &m->run->config.data, m->options->links,
                                              m->options->links_from, &m->gold, error))
        return QKV_INVALID;
    if (qkv_value_norms_init(&m->norms, model, ~0u, error)) return QKV_INVALID;
    enum qkv_status status = measure_maps(m, error);
    if (!status) status = measure_silence(m, error);
    if (status) return status;
    for (int64_t i = 0; i < measured->count; i++)
        qkv_head_sums_finish(&m->sums[i], measured->tokens, measured->heads[i].value);
    return QKV_OK;
}

enum qkv_status qkv_heads_measure(struct qkv_run *run, const struct qkv_corpus *corpus,
                                  const struct qkv_heads_options *options,
                                  struct qkv_measured_heads *measured, struct qkv_error *error)
{
    struct measuring m = {.run = run, .corpus = corpus, .options = options, .measured = measured};
    *measured = (struct qkv_measured_heads){0};
    enum qkv_status status = measure(&m, error);
    for (int i = 0; m.slot && i < m.slots; i++) {
        qkv_forced_release(&m.slot[i].passes);
        qkv_head_gradients_release(&m.slot[i].gradients);
        qkv_arena_release(&m.slot[i].arena);
    }
    qkv_value_norms_release(&m.norms);
    qkv_alignments_release(&m.gold);
    qkv_arena_release(&m.arena);
    if (status) qkv_measured_heads_release(measured);
    return status;
}

void qkv_measured_heads_release(struct qkv_measured_heads *measured)
{
    free(measured->heads);
    *measured = (struct qkv_measured_heads){0};
}
