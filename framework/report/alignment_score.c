/* Scores the cross maps of attention reports against gold links. */
#include "qkv/alignment_score.h"

#include "report/writer.h"

#include <stdlib.h>
#include <string.h>

/* One side of a sentence pair, without </s>. */
struct side {
    const int64_t *word; /* of each token; NULL: each token is a word */
    int64_t tokens, words;
};

struct sides {
    struct side source, target;
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
    for (int64_t i = 0; i < side.tokens; i++) {
        int64_t number = word_of(&side, i); /* check_words refuses what is not below side.tokens */
        if (number >= side.words && number < side.tokens) side.words = number + 1;
    }
    return side;
}

static struct sides sides_of(const struct qkv_attention_report *report, struct qkv_alignment_words words)
{
    return (struct sides){side_of(report->source, report->source_length, words.source),
                          side_of(report->target_output, report->target_length, words.target)};
}

/* A word is a number of an array below, and there are at most as many as tokens. */
static enum qkv_status check_words(const struct side *side, const char *name, struct qkv_error *error)
{
    for (int64_t i = 0; i < side->tokens; i++) {
        int64_t word = word_of(side, i);
        if (word >= -1 && word < side->tokens) continue;
        return qkv_error_set(error,
                             "%s token %lld belongs to word %lld, but words are 0 to %lld, or -1: none", name,
                             (long long)i, (long long)word, (long long)side->tokens - 1);
    }
    return QKV_OK;
}

static enum qkv_status check_range(const struct qkv_alignment *gold, const struct sides *sides,
                                   struct qkv_error *error)
{
    int64_t sources = sides->source.words, targets = sides->target.words;
    for (int64_t i = 0; i < gold->count; i++) {
        const struct qkv_alignment_link *link = &gold->links[i];
        bool source = link->source < 0 || link->source >= sources;
        if (!source && link->target >= 0 && link->target < targets) continue;
        return qkv_error_set(
            error, "%s:%lld:%lld: link %lld%c%lld has no %s word %lld: the sentence has %lld, from 0",
            gold->file ? gold->file : "links", (long long)gold->line, (long long)link->column,
            (long long)link->source, link->sure ? '-' : 'p', (long long)link->target,
            source ? "source" : "target", (long long)(source ? link->source : link->target),
            (long long)(source ? sources : targets));
    }
    return QKV_OK;
}

/* Merges the tokens of each word: sums the columns of a source word, averages the rows of a target word. */
static void merge_tokens(struct qkv_word_map *words, const struct qkv_attention_map *map,
                         const struct sides *sides, enum qkv_alignment_reading reading)
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
            /* A sentence cut before </s>: no step reads its last token. */
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

/* Lists the cross maps to score: for each layer its heads and their mean; last, the mean of all. */
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
    if (!*maps) return qkv_error_set(error, "out of memory for alignment scores");
    for (int64_t l = 0, h = 0; l < layers.map_count; l++) {
        while (h < heads.map_count && heads.maps[h].layer == layers.maps[l].layer)
            (*maps)[(*count)++] = heads.maps[h++];
        (*maps)[(*count)++] = layers.maps[l];
    }
    (*maps)[(*count)++] = all.maps[0];
    return QKV_OK;
}

/* Allocates the results, at the first sentence. */
static enum qkv_status begin(struct qkv_alignment_score *score, const struct qkv_attention_map *maps,
                             int64_t count, struct qkv_error *error)
{
    score->results = calloc((size_t)(QKV_DRAWINGS * QKV_READINGS * count), sizeof *score->results);
    if (!score->results) return qkv_error_set(error, "out of memory for alignment scores");
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
    if (qkv_report_check_tokens(report, error)) return QKV_INVALID;
    struct sides sides = sides_of(report, words);
    if (check_words(&sides.source, "source", error) || check_words(&sides.target, "target", error))
        return QKV_INVALID;
    size_t count_of_weights = (size_t)(sides.source.words * sides.target.words + 1);
    struct qkv_word_map merged = {.weights =
                                      qkv_arena_zeroed(arena, count_of_weights * sizeof *merged.weights)};
    struct qkv_attention_map *maps;
    int64_t count;
    enum qkv_status status = check_range(gold, &sides, error);
    if (status == QKV_OK && !merged.weights)
        status = qkv_error_set(error, "out of memory for alignment scores");
    if (status == QKV_OK) status = select_maps(report, arena, &maps, &count, error);
    if (status == QKV_OK && !score->results) status = begin(score, maps, count, error);
    if (status != QKV_OK) return status;
    if (score->count != QKV_DRAWINGS * QKV_READINGS * count)
        return qkv_error_set(error, "the attention reports of one score differ in layers or heads");
    for (int64_t i = 0; i < score->count; i++) {
        merge_tokens(&merged, &maps[i % count], &sides, score->results[i].reading);
        qkv_alignment_count(&score->results[i], &merged, gold);
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
