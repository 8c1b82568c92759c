/* Chooses the head that aligns words best. */
#include "report/aligner.h"
#include "report/map_rows.h"

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

struct choice {
    struct qkv_aligner *aligner;
    int direction;
    enum qkv_head_rule rule;
    const struct qkv_aligned_pair *pairs;
    struct head_sums *sums; /* [groups, candidates] */
};

/* ---- the rules, for the word maps of all candidates of a pair ---- */

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

static enum qkv_status add_agreements(struct aligner_slot *slot, const struct qkv_word_map *maps,
                                      int64_t count, struct head_sums *sums)
{
    int64_t cells = maps->targets * maps->sources;
    double *mean = qkv_arena_zeroed(&slot->scratch, (size_t)cells * sizeof *mean);
    if (!mean) return qkv_error_set(&slot->error, "out of memory for word alignment");
    for (int64_t m = 0; m < count; m++)
        for (int64_t i = 0; i < cells; i++) mean[i] += maps[m].weights[i] / (double)count;
    for (int64_t m = 0; m < count; m++) {
        for (int64_t i = 0; i < cells; i++) sums[m].value += maps[m].weights[i] * mean[i];
        sums[m].rows += maps->targets;
    }
    return QKV_OK;
}

/* Draws links from the map of a single run. For the reverse run, draws one per source word of the pair. */
static enum qkv_status draw(const struct choice *choice, struct aligner_slot *slot,
                            const struct qkv_word_map *map, struct qkv_alignment *drawn)
{
    const struct qkv_aligner_options *options = &choice->aligner->options;
    struct qkv_word_map none = {.targets = map->sources, .sources = map->targets};
    enum qkv_alignment_drawing drawing =
        choice->aligner->direction_count == 1 ? options->drawing : QKV_DRAWING_TARGET;
    if (!choice->direction)
        return qkv_alignment_draw(map, NULL, drawing, options->threshold, &slot->scratch, drawn,
                                  &slot->error);
    none.weights =
        qkv_arena_zeroed(&slot->scratch, (size_t)(none.targets * none.sources) * sizeof *none.weights);
    if (!none.weights) return qkv_error_set(&slot->error, "out of memory for word alignment");
    return qkv_alignment_draw(&none, map, QKV_DRAWING_SOURCE, options->threshold, &slot->scratch, drawn,
                              &slot->error);
}

static enum qkv_status add_counts(const struct choice *choice, struct aligner_slot *slot,
                                  const struct qkv_word_map *map, int64_t pair, struct head_sums *sums)
{
    struct qkv_alignment drawn;
    if (draw(choice, slot, map, &drawn)) return QKV_INVALID;
    qkv_alignment_count(&sums->counted, &drawn, choice->pairs[pair].gold);
    sums->rows += map->targets;
    return QKV_OK;
}

/* ---- sums over all pairs ---- */

static enum qkv_status add_pair(const struct choice *choice, struct aligner_slot *slot,
                                const struct forced_pair *forced, int64_t pair, struct head_sums *sums)
{
    const struct aligner_direction *direction = &choice->aligner->direction[choice->direction];
    int64_t count = direction->candidate_count;
    struct qkv_word_map *maps;
    qkv_arena_reset(&slot->scratch);
    maps = qkv_arena_allocate(&slot->scratch, (size_t)count * sizeof *maps);
    if (!maps) return qkv_error_set(&slot->error, "out of memory for word alignment");
    for (int64_t i = 0; i < count; i++)
        if (qkv_aligner_word_map(choice->aligner, slot, forced, direction->candidates[i], &maps[i]))
            return QKV_INVALID;
    if (choice->rule == QKV_HEAD_RULE_AGREEMENT) return add_agreements(slot, maps, count, sums);
    for (int64_t i = 0; i < count; i++)
        if (choice->rule == QKV_HEAD_RULE_ENTROPY)
            add_entropy(&maps[i], &sums[i]);
        else if (add_counts(choice, slot, &maps[i], pair, &sums[i]))
            return QKV_INVALID;
    return QKV_OK;
}

static enum qkv_status add_group(void *context, struct aligner_slot *slot, int64_t first, int64_t count)
{
    const struct choice *choice = context;
    int64_t candidates = choice->aligner->direction[choice->direction].candidate_count;
    struct qkv_pair_texts texts[FORCED_MAX] = {{0}};
    struct forced_pair forced[FORCED_MAX];
    for (int64_t i = 0; i < count; i++) texts[i] = choice->pairs[first + i].texts;
    enum qkv_status status = qkv_forced_collect(&slot->passes[choice->direction], count, texts,
                                                choice->direction == 1, forced, &slot->error);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        if (!forced[i].has_report || (choice->rule == QKV_HEAD_RULE_GOLD && !choice->pairs[first + i].gold))
            continue;
        if (add_pair(choice, slot, &forced[i], first + i, choice->sums + first / FORCED_MAX * candidates))
            return QKV_INVALID;
    }
    return QKV_OK;
}

/* ---- the best head ---- */

/* Computes the value of a candidate over all groups; false when no target word has weights. */
static bool value_of(const struct choice *choice, int64_t groups, int64_t candidate, double *value)
{
    int64_t candidates = choice->aligner->direction[choice->direction].candidate_count;
    struct head_sums all = {0};
    for (int64_t g = 0; g < groups; g++) {
        const struct head_sums *sums = &choice->sums[g * candidates + candidate];
        all.value += sums->value;
        all.rows += sums->rows;
        all.counted.links += sums->counted.links;
        all.counted.sure += sums->counted.sure;
        all.counted.found_sure += sums->counted.found_sure;
        all.counted.found_possible += sums->counted.found_possible;
    }
    qkv_alignment_rate(&all.counted);
    *value = choice->rule == QKV_HEAD_RULE_GOLD ? all.counted.error_rate
                                                : all.value / (double)(all.rows ? all.rows : 1);
    return all.rows;
}

static enum qkv_status find_best(const struct choice *choice, int64_t groups, struct qkv_chosen_head *chosen,
                                 struct qkv_error *error)
{
    struct aligner_direction *direction = &choice->aligner->direction[choice->direction];
    bool found = false;
    for (int64_t i = 0; i < direction->candidate_count; i++) {
        double value;
        if (!value_of(choice, groups, i, &value)) continue;
        if (found &&
            !(choice->rule == QKV_HEAD_RULE_AGREEMENT ? value > chosen->value : value < chosen->value))
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
    if (direction < 0 || direction >= aligner->direction_count ||
        !aligner->direction[direction].candidate_count)
        return qkv_error_set(error, "run %d of the aligner has no best head to choose", direction);
    if (!qkv_head_rule_name(rule))
        return qkv_error_set(error, "there is no rule %d to choose a head", (int)rule);
    struct qkv_arena arena = {0};
    int64_t groups = (count + FORCED_MAX - 1) / FORCED_MAX;
    struct choice choice = {aligner, direction, rule, pairs, NULL};
    choice.sums = qkv_arena_zeroed(&arena, (size_t)(groups * aligner->direction[direction].candidate_count) *
                                               sizeof *choice.sums);
    enum qkv_status status = choice.sums ? qkv_aligner_for_groups(aligner, count, add_group, &choice, error)
                                         : qkv_error_set(error, "out of memory for word alignment");
    if (!status) status = find_best(&choice, groups, chosen, error);
    qkv_arena_release(&arena);
    return status;
}
