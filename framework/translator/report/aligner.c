/* Draws links between the words of texts, on all threads, and chooses the head that aligns words best. */
#include "report/aligner.h"

#include "core/file.h"
#include "core/memory.h"
#include "data/pairs.h"
#include "report/collect.h"
#include "report/words.h"

static const unsigned CROSS = 1u << QKV_ATTENTION_CROSS;

struct qkv_aligner {
    struct qkv_aligner_options options;
    int direction_count; /* 1 or 2 */
    /* One direction of translation, with its run. */
    struct direction {
        const struct qkv_run *run;
        struct qkv_aligner_map map;         /* the map in use; head QKV_ATTENTION_BEST until one is chosen */
        struct qkv_aligner_map *candidates; /* [candidate_count]: the heads to choose from */
        int64_t candidate_count;
    } direction[2];
    struct forced_slots slots;
    struct qkv_arena arena;
};

/* ---- making an aligner ---- */

/* Lists the heads to choose from. Fails when the layer or head in the options does not exist. report: of an empty pair. */
static enum qkv_status find_maps(struct qkv_aligner *aligner, struct direction *direction,
                                 const struct qkv_attention_report *report, struct qkv_error *error)
{
    int layer = direction->map.layer, head = direction->map.head;
    struct qkv_attention_report selected;
    if (layer < QKV_ATTENTION_MEAN || (head < QKV_ATTENTION_MEAN && head != QKV_ATTENTION_BEST))
        return qkv_error_set(
            error, "links are drawn from layer %d, head %d, but these count from 1, or are 0 for a mean",
            layer, head);
    if (head != QKV_ATTENTION_BEST)
        return qkv_attention_select(report, CROSS, layer, head, &aligner->arena, &selected, error);
    if (layer == QKV_ATTENTION_MEAN) layer = QKV_ATTENTION_EACH;
    if (qkv_attention_select(report, CROSS, layer, QKV_ATTENTION_EACH, &aligner->arena, &selected, error))
        return QKV_INVALID;
    int64_t count = selected.map_count;
    direction->candidates = qkv_arena_array(&aligner->arena, count, sizeof *direction->candidates);
    if (!direction->candidates) return qkv_no_memory(error);
    for (int64_t i = 0; i < count; i++)
        direction->candidates[i] = (struct qkv_aligner_map){selected.maps[i].layer, selected.maps[i].head};
    direction->candidate_count = count;
    return QKV_OK;
}

static enum qkv_status open_direction(struct qkv_aligner *aligner, struct direction *direction,
                                      struct qkv_error *error)
{
    static const struct qkv_attention_pair empty = {0};
    struct qkv_attention_report report;
    struct qkv_attention_collector *collector = qkv_attention_collector_new(direction->run->model, error);
    if (!collector) return QKV_INVALID;
    struct qkv_error inner = {""};
    /* A network that does not record values is refused here and not only in the first run. */
    qkv_attention_collector_measure_norms(collector, aligner->options.norms);
    enum qkv_status status = qkv_attention_collect(collector, 1, &empty, CROSS, &report, &inner);
    if (status == QKV_FAILED) status = QKV_OK; /* maps that are not finite will be reported for the pairs */
    if (!status) status = find_maps(aligner, direction, &report, &inner);
    qkv_attention_collector_free(collector);
    return status ? qkv_error_set(error, "%s: %s", direction->run->path, inner.message) : QKV_OK;
}

/* Refuses two runs that do not translate in opposite directions, as far as their configs name languages: "src" and "trg" are
 * what qkv init writes where it knows none. */
static enum qkv_status check_languages(const struct qkv_run *run, const struct qkv_run *reverse,
                                       struct qkv_error *error)
{
    if (!reverse) return QKV_OK;
    const char *from = run->config.data.src.lang, *to = run->config.data.trg.lang,
               *reverse_from = reverse->config.data.src.lang, *reverse_to = reverse->config.data.trg.lang;
    if (!from || !to || !reverse_from || !reverse_to) return QKV_OK;
    bool unknown = !qkv_is_same_file(run->path, reverse->path) &&
                   (!strcmp(from, "src") || !strcmp(to, "trg") || !strcmp(reverse_from, "src") ||
                    !strcmp(reverse_to, "trg"));
    if (unknown || (qkv_is_same_language(from, reverse_to) && qkv_is_same_language(to, reverse_from)))
        return QKV_OK;
    return qkv_error_set(
        error,
        "%s translates from %s to %s and %s from %s to %s, but the second run of an alignment must "
        "translate in the other direction",
        run->path, from, to, reverse->path, reverse_from, reverse_to);
}

struct qkv_aligner *qkv_aligner_new(const struct qkv_run *run, const struct qkv_run *reverse,
                                    const struct qkv_aligner_options *options, struct qkv_workers *workers,
                                    struct qkv_error *error)
{
    if (check_languages(run, reverse, error)) return NULL;
    struct qkv_aligner *aligner = calloc(1, sizeof *aligner);
    if (!aligner) {
        qkv_no_memory(error);
        return NULL;
    }
    const struct qkv_run *const runs[] = {run, reverse};
    enum qkv_status status = QKV_OK;
    aligner->options = *options;
    aligner->direction_count = reverse ? 2 : 1;
    for (int d = 0; !status && d < aligner->direction_count; d++) {
        aligner->direction[d] = (struct direction){.run = runs[d], .map = options->map[d]};
        status = open_direction(aligner, &aligner->direction[d], error);
    }
    if (!status) status = qkv_forced_open(&aligner->slots, workers, runs, options->norms, error);
    if (!status) return aligner;
    qkv_aligner_free(aligner);
    return NULL;
}

void qkv_aligner_free(struct qkv_aligner *aligner)
{
    if (!aligner) return;
    qkv_forced_close(&aligner->slots);
    qkv_arena_release(&aligner->arena);
    free(aligner);
}

/* ---- word maps ---- */

/* What a run over pairs computes: links, or the sums by which a head is chosen. */
struct job {
    struct qkv_aligner *aligner;
    struct qkv_aligned_pair *drawn;       /* the pairs whose links are drawn */
    const struct qkv_aligned_pair *pairs; /* the same, or those to choose a head by */
    int direction;                        /* whose head is chosen, */
    enum qkv_head_rule rule;              /* by this rule, */
    struct head_sums *sums;               /* [groups, candidates] */
};

static enum qkv_status collect(const struct job *job, struct forced_slot *slot, int direction, int64_t first,
                               int64_t count, struct forced_pair *forced)
{
    struct qkv_pair_texts texts[FORCED_MAX] = {{0}};
    for (int64_t i = 0; i < count; i++) texts[i] = job->pairs[first + i].texts;
    return qkv_forced_collect(slot, direction, count, texts, forced);
}

/* The word map of a report for a layer and head, in slot->scratch, and the number of its words. */
static enum qkv_status make_map(const struct qkv_aligner *aligner, struct forced_slot *slot,
                                const struct forced_pair *pair, struct qkv_aligner_map map,
                                struct qkv_word_map *words)
{
    struct qkv_attention_report selected;
    if (qkv_attention_select(&pair->report, CROSS, map.layer, map.head, &slot->scratch, &selected,
                             &slot->error))
        return QKV_INVALID;
    struct qkv_attention_map weights = selected.maps[0];
    if (aligner->options.norms && !qkv_map_normalize(&weights, &slot->scratch))
        return qkv_no_memory(&slot->error);
    return qkv_word_map_make(&pair->report, pair->words, &weights, aligner->options.reading, &slot->scratch,
                             words, &slot->error);
}

/* ---- drawing links ---- */

/* Sets pair->links from the reports of the pair, one for each direction. */
static enum qkv_status draw_pair(const struct qkv_aligner *aligner, struct forced_slot *slot,
                                 const struct forced_pair *const *forced, struct qkv_aligned_pair *pair)
{
    struct qkv_word_map map[2];
    struct qkv_alignment drawn;
    const struct qkv_aligner_options *options = &aligner->options;
    bool both = aligner->direction_count > 1;
    qkv_arena_reset(&slot->scratch);
    for (int d = 0; d < aligner->direction_count; d++) {
        if (forced[d]->has_report) continue;
        if (!forced[d]->reason) return QKV_OK;
        pair->reason = qkv_arena_string(&slot->results, forced[d]->reason);
        return pair->reason ? QKV_OK : qkv_no_memory(&slot->error);
    }
    for (int d = 0; d < aligner->direction_count; d++)
        if (make_map(aligner, slot, forced[d], aligner->direction[d].map, &map[d])) return QKV_INVALID;
    if ((both && options->multiply && qkv_word_maps_multiply(&map[0], &map[1], &slot->error)) ||
        qkv_alignment_draw(&map[0], both ? &map[1] : NULL, options->drawing, options->threshold,
                           &slot->scratch, &drawn, &slot->error))
        return QKV_INVALID;
    size_t bytes = (size_t)drawn.count * sizeof *drawn.links;
    struct qkv_alignment_link *links = qkv_arena_allocate(&slot->results, bytes);
    if (!links) return qkv_no_memory(&slot->error);
    memcpy(links, drawn.links, bytes);
    pair->links = (struct qkv_alignment){.links = links, .count = drawn.count};
    return QKV_OK;
}

static enum qkv_status draw_group(void *context, struct forced_slot *slot, int64_t first, int64_t count)
{
    const struct job *job = context;
    struct forced_pair forced[2][FORCED_MAX];
    for (int d = 0; d < job->aligner->direction_count; d++) {
        enum qkv_status status = collect(job, slot, d, first, count, forced[d]);
        if (status) return status;
    }
    for (int64_t i = 0; i < count; i++) {
        const struct forced_pair *const both[2] = {&forced[0][i], &forced[1][i]};
        if (draw_pair(job->aligner, slot, both, &job->drawn[first + i])) return QKV_INVALID;
    }
    return QKV_OK;
}

enum qkv_status qkv_aligner_run(struct qkv_aligner *aligner, int64_t count, struct qkv_aligned_pair *pairs,
                                struct qkv_error *error)
{
    struct job job = {.aligner = aligner, .drawn = pairs, .pairs = pairs};
    for (int i = 0; i < aligner->slots.count; i++) qkv_arena_reset(&aligner->slots.slot[i].results);
    for (int64_t i = 0; i < count; i++) {
        pairs[i].links = (struct qkv_alignment){0};
        pairs[i].reason = NULL;
    }
    return qkv_forced_run(&aligner->slots, count, draw_group, &job, error);
}

/* ---- the best head ---- */

const char *qkv_head_rule_name(enum qkv_head_rule rule)
{
    static const char *const names[] = {[QKV_HEAD_RULE_ENTROPY] = "entropy",
                                        [QKV_HEAD_RULE_AGREEMENT] = "agreement",
                                        [QKV_HEAD_RULE_GOLD] = "gold"};
    return (unsigned)rule < QKV_HEAD_RULES ? names[rule] : NULL;
}

/* Sums for one head over one group of pairs. */
struct head_sums {
    double value;                        /* of entropies or agreements */
    int64_t rows;                        /* target words that have weights */
    struct qkv_alignment_result counted; /* against gold links */
};

static void add_entropy(const struct qkv_word_map *map, struct head_sums *sums)
{
    for (int64_t r = 0; r < map->targets; r++) {
        const double *row = map->weights + r * map->sources;
        double total = qkv_row_total(row, map->sources);
        if (!(total > 0)) continue;
        sums->value += qkv_row_entropy(row, map->sources, total);
        sums->rows++;
    }
}

static enum qkv_status add_agreements(struct forced_slot *slot, const struct qkv_word_map *maps,
                                      int64_t count, struct head_sums *sums)
{
    int64_t cells = maps->targets * maps->sources;
    double *mean = qkv_arena_zeros(&slot->scratch, cells, sizeof *mean);
    if (!mean) return qkv_no_memory(&slot->error);
    for (int64_t m = 0; m < count; m++)
        for (int64_t i = 0; i < cells; i++) mean[i] += maps[m].weights[i] / (double)count;
    for (int64_t m = 0; m < count; m++) {
        for (int64_t i = 0; i < cells; i++) sums[m].value += maps[m].weights[i] * mean[i];
        sums[m].rows += maps->targets;
    }
    return QKV_OK;
}

/* Draws links from the map of a single run, and counts them. Those of the reverse run are drawn for each source word of the
 * pair, from a map beside which the one of the run is empty. */
static enum qkv_status add_counts(const struct job *job, struct forced_slot *slot,
                                  const struct qkv_word_map *map, const struct qkv_alignment *gold,
                                  struct head_sums *sums)
{
    const struct qkv_aligner_options *options = &job->aligner->options;
    enum qkv_alignment_drawing drawing = job->direction                       ? QKV_DRAWING_SOURCE
                                         : job->aligner->direction_count == 1 ? options->drawing
                                                                              : QKV_DRAWING_TARGET;
    struct qkv_word_map none = {.targets = map->sources, .sources = map->targets};
    struct qkv_alignment drawn;
    none.weights = qkv_arena_zeros(&slot->scratch, none.targets * none.sources, sizeof *none.weights);
    if (!none.weights) return qkv_no_memory(&slot->error);
    if (qkv_alignment_draw(job->direction ? &none : map, job->direction ? map : NULL, drawing,
                           options->threshold, &slot->scratch, &drawn, &slot->error))
        return QKV_INVALID;
    qkv_alignment_count(&sums->counted, &drawn, gold);
    sums->rows += map->targets;
    return QKV_OK;
}

/* Adds a pair to the sums [candidates]. */
static enum qkv_status add_pair(const struct job *job, struct forced_slot *slot,
                                const struct forced_pair *forced, const struct qkv_alignment *gold,
                                struct head_sums *sums)
{
    const struct direction *direction = &job->aligner->direction[job->direction];
    int64_t count = direction->candidate_count;
    qkv_arena_reset(&slot->scratch);
    struct qkv_word_map *maps = qkv_arena_array(&slot->scratch, count, sizeof *maps);
    if (!maps) return qkv_no_memory(&slot->error);
    for (int64_t i = 0; i < count; i++) {
        if (make_map(job->aligner, slot, forced, direction->candidates[i], &maps[i]) ||
            (job->rule == QKV_HEAD_RULE_GOLD && add_counts(job, slot, &maps[i], gold, &sums[i])))
            return QKV_INVALID;
        if (job->rule == QKV_HEAD_RULE_ENTROPY) add_entropy(&maps[i], &sums[i]);
    }
    return job->rule == QKV_HEAD_RULE_AGREEMENT ? add_agreements(slot, maps, count, sums) : QKV_OK;
}

static enum qkv_status add_group(void *context, struct forced_slot *slot, int64_t first, int64_t count)
{
    const struct job *job = context;
    struct head_sums *sums =
        job->sums + first / FORCED_MAX * job->aligner->direction[job->direction].candidate_count;
    struct forced_pair forced[FORCED_MAX];
    enum qkv_status status = collect(job, slot, job->direction, first, count, forced);
    for (int64_t i = 0; i < count && !status; i++) {
        const struct qkv_alignment *gold = job->pairs[first + i].gold;
        if (forced[i].has_report && (gold || job->rule != QKV_HEAD_RULE_GOLD))
            status = add_pair(job, slot, &forced[i], gold, sums);
    }
    return status;
}

/* Computes the value of a candidate over all groups; false when no target word has weights. */
static bool value_of(const struct job *job, int64_t groups, int64_t candidate, double *value)
{
    struct head_sums all = {0};
    for (int64_t g = 0; g < groups; g++) {
        const struct head_sums *sums =
            &job->sums[g * job->aligner->direction[job->direction].candidate_count + candidate];
        all.value += sums->value;
        all.rows += sums->rows;
        qkv_alignment_add(&all.counted, &sums->counted);
    }
    *value = job->rule == QKV_HEAD_RULE_GOLD ? all.counted.error_rate
                                             : all.value / (double)(all.rows ? all.rows : 1);
    return all.rows;
}

static enum qkv_status find_best(const struct job *job, int64_t groups, struct qkv_chosen_head *chosen,
                                 struct qkv_error *error)
{
    struct direction *direction = &job->aligner->direction[job->direction];
    bool found = false;
    for (int64_t i = 0; i < direction->candidate_count; i++) {
        double value;
        if (!value_of(job, groups, i, &value)) continue;
        if (found && !(job->rule == QKV_HEAD_RULE_AGREEMENT ? value > chosen->value : value < chosen->value))
            continue;
        *chosen = (struct qkv_chosen_head){direction->candidates[i], value};
        found = true;
    }
    if (!found)
        return qkv_error_set(error,
                             "%s: its best head cannot be chosen: there is no sentence pair to choose by",
                             direction->run->path);
    direction->map = chosen->map;
    return QKV_OK;
}

enum qkv_status qkv_aligner_choose(struct qkv_aligner *aligner, int direction, enum qkv_head_rule rule,
                                   int64_t count, const struct qkv_aligned_pair *pairs,
                                   struct qkv_chosen_head *chosen, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    int64_t groups = (count + FORCED_MAX - 1) / FORCED_MAX,
            sums = groups * aligner->direction[direction].candidate_count;
    struct job job = {.aligner = aligner, .pairs = pairs, .direction = direction, .rule = rule};
    job.sums = qkv_arena_zeros(&arena, sums, sizeof *job.sums);
    enum qkv_status status =
        job.sums ? qkv_forced_run(&aligner->slots, count, add_group, &job, error) : qkv_no_memory(error);
    if (!status) status = find_best(&job, groups, chosen, error);
    qkv_arena_release(&arena);
    return status;
}

/* ---- links of texts ---- */

/* The links as text in the arena; NULL when memory runs out. */
static const char *text_of(const struct qkv_alignment *alignment, struct qkv_arena *arena)
{
    enum { LONGEST = 42 }; /* two numbers, a hyphen and a space */
    const size_t size = (size_t)alignment->count * LONGEST + 1;
    char *text = qkv_arena_allocate(arena, size);
    size_t used = 0;
    if (text) *text = '\0';
    for (int64_t i = 0; text && i < alignment->count; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%lld-%lld", i ? " " : "",
                             (long long)alignment->links[i].source, (long long)alignment->links[i].target);
    return text;
}

enum qkv_status qkv_links_draw(const struct qkv_run *run, int64_t count, struct qkv_linked_texts *pairs,
                               const struct qkv_links_options *options, struct qkv_arena *arena,
                               struct qkv_error *error)
{
    const struct qkv_aligner_map map = {options->layer, options->head};
    const struct qkv_aligner_options drawing = {
        .map = {map, map},
        .drawing = options->reverse ? QKV_DRAWING_GROW_DIAG : QKV_DRAWING_TARGET,
        .threshold = options->threshold,
    };
    struct qkv_aligned_pair *aligned = qkv_arena_zeros(arena, count, sizeof *aligned);
    if (!aligned) return qkv_no_memory(error);
    for (int64_t i = 0; i < count; i++)
        aligned[i].texts = (struct qkv_pair_texts){pairs[i].source, pairs[i].target};
    struct qkv_aligner *aligner = qkv_aligner_new(run, options->reverse, &drawing, options->workers, error);
    enum qkv_status status = aligner ? qkv_aligner_run(aligner, count, aligned, error) : QKV_INVALID;
    for (int64_t i = 0; i < count && !status; i++)
        if (!(pairs[i].links = text_of(&aligned[i].links, arena))) status = qkv_no_memory(error);
    qkv_aligner_free(aligner);
    return status;
}
