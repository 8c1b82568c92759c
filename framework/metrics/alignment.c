#include "qkv/alignment.h"

#include <stdlib.h>
#include <string.h>

const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading)
{
    return reading == QKV_READING_OUTPUT ? "output" : "input";
}

const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing)
{
    return drawing == QKV_LINK_ROWS ? "rows" : "both";
}

/* One side without its end sign. */
struct side {
    const int64_t *word; /* of each token; NULL: itself */
    int64_t tokens, words;
};

struct sides {
    struct side source, target;
};

/* A cross map of words, read in one way. */
struct word_map {
    double *weights; /* [targets, sources] */
    int64_t targets,
        sources; /* target words that are some step's: the last ones of a cut sentence may be none's */
};

static int64_t without_end(const char *const *tokens, int64_t count)
{
    return count > 0 && !strcmp(tokens[count - 1], "</s>") ? count - 1 : count;
}

static int64_t word_of(const struct side *side, int64_t token)
{
    return side->word ? side->word[token] : token;
}

static struct side side_of(const char *const *tokens, int64_t count, const int64_t *word)
{
    struct side side = {word, without_end(tokens, count), 0};
    for (int64_t i = 0; i < side.tokens; i++)
        if (word_of(&side, i) >= side.words) side.words = word_of(&side, i) + 1;
    return side;
}

static struct sides sides_of(const struct qkv_attention_report *report, struct qkv_alignment_words words)
{
    return (struct sides){side_of(report->source, report->source_length, words.source),
                          side_of(report->target_output, report->target_length, words.target)};
}

static enum qkv_status check_range(const struct qkv_alignment *gold, const struct sides *sides,
                                   struct qkv_error *error)
{
    int64_t sources = sides->source.words, targets = sides->target.words;
    for (int64_t i = 0; i < gold->count; i++) {
        const struct qkv_alignment_link *link = &gold->links[i];
        if (link->source < sources && link->target < targets) continue;
        bool source = link->source >= sources;
        return qkv_error_set(
            error, "%s:%lld:%lld: link %lld%c%lld has no %s word %lld: the sentence has %lld, from 0",
            gold->file ? gold->file : "links", (long long)gold->line, (long long)link->column,
            (long long)link->source, link->sure ? '-' : 'p', (long long)link->target,
            source ? "source" : "target", (long long)(source ? link->source : link->target),
            (long long)(source ? sources : targets));
    }
    return QKV_OK;
}

/* The place of the first of the greatest of `count` weights, at least one, that stand `stride` apart. */
static int64_t greatest(const double *weights, int64_t count, int64_t stride)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (weights[i * stride] > weights[best * stride]) best = i;
    return best;
}

static void add_link(struct qkv_alignment_result *result, int64_t source, int64_t target,
                     const struct qkv_alignment *gold)
{
    result->links++;
    for (int64_t i = 0; i < gold->count; i++) {
        const struct qkv_alignment_link *link = &gold->links[i];
        if (link->source != source || link->target != target) continue;
        result->found_possible++;
        result->found_sure += link->sure;
    }
}

/* Joins tokens to words: columns of a source word are added up, rows of a target word give their mean. */
static void join(struct word_map *words, const struct qkv_attention_map *map, const struct sides *sides,
                 enum qkv_alignment_reading reading)
{
    const struct side *source = &sides->source, *target = &sides->target;
    int64_t shift = reading == QKV_READING_INPUT;
    words->sources = source->words;
    words->targets = 0;
    for (int64_t token = 0, end; token < target->tokens; token = end) {
        int64_t word = word_of(target, token), rows = 0;
        double *row = words->weights + (word < 0 ? 0 : word) * words->sources;
        for (int64_t i = 0; word >= 0 && i < words->sources; i++) row[i] = 0;
        for (end = token; end < target->tokens && word_of(target, end) == word; end++) {
            /* The last token of a sentence that was cut before </s> is no step's input. */
            if (word < 0 || end + shift >= map->rows) continue;
            const double *weights = map->weights + (end + shift) * map->columns;
            for (int64_t i = 0; i < source->tokens; i++)
                if (word_of(source, i) >= 0) row[word_of(source, i)] += weights[i];
            rows++;
        }
        for (int64_t i = 0; rows > 1 && i < words->sources; i++) row[i] /= (double)rows;
        if (rows > 0) words->targets = word + 1;
    }
}

/* Adds the links of one map, drawn in one way, to a result. */
static void add_map(struct qkv_alignment_result *result, const struct word_map *map,
                    const struct qkv_alignment *gold)
{
    int64_t sources = map->sources, targets = map->targets;
    const double *weights = map->weights;
    for (int64_t i = 0; i < gold->count; i++) result->sure += gold->links[i].sure;
    if (sources == 0) return;
    for (int64_t target = 0; target < targets; target++)
        add_link(result, greatest(weights + target * sources, sources, 1), target, gold);
    if (result->drawing == QKV_LINK_ROWS || targets == 0) return;
    for (int64_t source = 0; source < sources; source++) {
        int64_t target = greatest(weights + source, targets, sources);
        bool drawn = greatest(weights + target * sources, sources, 1) == source;
        if (!drawn) add_link(result, source, target, gold);
    }
}

/* The cross maps of every head of every layer, of the heads of each layer in the mean, and of all in the
 * mean. Finished results of these maps: for each layer its heads, then their mean, and at the end the mean of
 * all. */
static enum qkv_status select_maps(const struct qkv_attention_report *report, struct qkv_arena *arena,
                                   struct qkv_attention_map **maps, int64_t *count, struct qkv_error *error)
{
    struct qkv_attention_report heads, layers, all;
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    enum qkv_status status =
        qkv_attention_select(report, cross, QKV_ATTENTION_EACH, QKV_ATTENTION_EACH, arena, &heads, error);
    if (status == QKV_OK)
        status = qkv_attention_select(report, cross, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, arena, &layers,
                                      error);
    if (status == QKV_OK)
        status =
            qkv_attention_select(report, cross, QKV_ATTENTION_MEAN, QKV_ATTENTION_MEAN, arena, &all, error);
    if (status != QKV_OK) return status;
    *count = 0;
    *maps = qkv_arena_allocate(arena, (size_t)(heads.map_count + layers.map_count + 1) * sizeof **maps);
    if (!*maps) return qkv_error_set(error, "no memory for alignment scores");
    for (int64_t l = 0, h = 0; l < layers.map_count; l++) {
        while (h < heads.map_count && heads.maps[h].layer == layers.maps[l].layer)
            (*maps)[(*count)++] = heads.maps[h++];
        (*maps)[(*count)++] = layers.maps[l];
    }
    (*maps)[(*count)++] = all.maps[0];
    return QKV_OK;
}

/* Makes the results of the first sentence, all zero. */
static enum qkv_status begin(struct qkv_alignment_score *score, const struct qkv_attention_map *maps,
                             int64_t count, struct qkv_error *error)
{
    score->results = calloc((size_t)(QKV_DRAWINGS * QKV_READINGS * count), sizeof *score->results);
    if (!score->results) return qkv_error_set(error, "no memory for alignment scores");
    score->count = QKV_DRAWINGS * QKV_READINGS * count;
    for (int64_t i = 0; i < score->count; i++) {
        score->results[i].drawing = (enum qkv_alignment_drawing)(i / count / QKV_READINGS);
        score->results[i].reading = (enum qkv_alignment_reading)(i / count % QKV_READINGS);
        score->results[i].layer = maps[i % count].layer;
        score->results[i].head = maps[i % count].head;
    }
    return QKV_OK;
}

static enum qkv_status add(struct qkv_alignment_score *score, const struct qkv_attention_report *report,
                           struct qkv_alignment_words words, const struct qkv_alignment *gold,
                           struct qkv_arena *arena, struct qkv_error *error)
{
    struct sides sides = sides_of(report, words);
    size_t room = (size_t)(sides.source.words * sides.target.words + 1);
    struct word_map joined = {.weights = qkv_arena_allocate(arena, room * sizeof *joined.weights)};
    struct qkv_attention_map *maps;
    int64_t count;
    enum qkv_status status = check_range(gold, &sides, error);
    if (status == QKV_OK && !joined.weights) status = qkv_error_set(error, "no memory for alignment scores");
    if (status == QKV_OK) status = select_maps(report, arena, &maps, &count, error);
    if (status == QKV_OK && !score->results) status = begin(score, maps, count, error);
    if (status != QKV_OK) return status;
    QKV_BUG(score->count != QKV_DRAWINGS * QKV_READINGS * count,
            "reports of one score differ in layers or heads");
    for (int64_t i = 0; i < score->count; i++) {
        join(&joined, &maps[i % count], &sides, score->results[i].reading);
        add_map(&score->results[i], &joined, gold);
    }
    score->sentences++;
    return QKV_OK;
}

enum qkv_status qkv_alignment_score_add(struct qkv_alignment_score *score,
                                        const struct qkv_attention_report *report,
                                        struct qkv_alignment_words words, const struct qkv_alignment *gold,
                                        struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    enum qkv_status status = add(score, report, words, gold, &arena, error);
    qkv_arena_release(&arena);
    return status;
}

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

struct qkv_alignment_result qkv_alignment_score_get(const struct qkv_alignment_score *score, int64_t index)
{
    QKV_BUG(index < 0 || index >= score->count, "no alignment result %lld", (long long)index);
    struct qkv_alignment_result result = score->results[index];
    result.precision = ratio(result.found_possible, result.links);
    result.recall = ratio(result.found_sure, result.sure);
    result.error_rate = 1 - ratio(result.found_sure + result.found_possible, result.links + result.sure);
    return result;
}

struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                     enum qkv_alignment_drawing drawing)
{
    int64_t share = score->count / QKV_DRAWINGS, first = drawing * share;
    struct qkv_alignment_result best = qkv_alignment_score_get(score, first);
    for (int64_t i = first + 1; i < first + share; i++) {
        struct qkv_alignment_result result = qkv_alignment_score_get(score, i);
        if (result.error_rate < best.error_rate) best = result;
    }
    return best;
}

void qkv_alignment_score_release(struct qkv_alignment_score *score)
{
    free(score->results);
    *score = (struct qkv_alignment_score){0};
}
