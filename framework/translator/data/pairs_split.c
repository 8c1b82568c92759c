/* Cleaning and splitting. */
#include "qkv/pairs_set.h"

#include "data/sentence_numbers.h"
#include "data/unicode.h"
#include "qkv/random.h"

#include <stdlib.h>

static enum qkv_status no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for sentence pairs");
}

/* ---- cleaning ---- */

static double character_count(const char *text)
{
    double count = 0;
    int32_t point;
    for (; *text; count++) text += qkv_point(text, &point);
    return count;
}

static bool is_unbalanced(double source, double target, double ratio)
{
    enum { TIMES = 3, SLACK = 10 /* characters: a short sentence may well be three times as long */ };
    double expected = source * ratio;
    return expected > TIMES * target + SLACK || target > TIMES * expected + SLACK;
}

enum qkv_status qkv_pairs_clean(struct qkv_pairs *pairs, struct qkv_pairs_removed *removed,
                                struct qkv_error *error)
{
    struct qkv_sentence_numbers numbers;
    *removed = (struct qkv_pairs_removed){0};
    if (!qkv_sentence_numbers_init(&numbers, pairs)) return no_memory(error);
    double total[2] = {0, 0};
    for (int64_t i = 0; i < pairs->count; i++)
        for (int side = 0; side < 2; side++) total[side] += character_count(qkv_pairs_text(pairs, i, side));
    for (int64_t i = 0; i < pairs->count; i++) {
        bool unbalanced = is_unbalanced(character_count(qkv_pairs_text(pairs, i, 0)),
                                        character_count(qkv_pairs_text(pairs, i, 1)), total[1] / total[0]);
        removed->repeated += !numbers.is_new[i];
        removed->unbalanced += numbers.is_new[i] && unbalanced;
        numbers.is_new[i] = numbers.is_new[i] && !unbalanced;
    }
    qkv_pairs_filter(pairs, numbers.is_new);
    qkv_sentence_numbers_release(&numbers);
    return QKV_OK;
}

/* ---- splitting ---- */

/* Groups of pairs that share sentences: disjoint sets with path halving (Tarjan and van Leeuwen 1984). */
struct groups {
    int64_t *parent; /* [count]: another pair of the group; the root is its own parent */
    int64_t *size;   /* [count]: of the group, at its root */
    int64_t *order;  /* [count]: the pairs in random order */
};

static int64_t root_of(struct groups *groups, int64_t pair)
{
    while (groups->parent[pair] != pair) pair = groups->parent[pair] = groups->parent[groups->parent[pair]];
    return pair;
}

static void join(struct groups *groups, int64_t a, int64_t b)
{
    a = root_of(groups, a);
    b = root_of(groups, b);
    if (a == b) return;
    if (groups->size[a] < groups->size[b]) {
        int64_t larger = b;
        b = a;
        a = larger;
    }
    groups->parent[b] = a;
    groups->size[a] += groups->size[b];
}

static void release(struct groups *groups)
{
    free(groups->parent);
    free(groups->size);
    free(groups->order);
}

static bool make_groups(struct groups *groups, const struct qkv_pairs *pairs)
{
    size_t bytes = ((size_t)pairs->count + 1) * sizeof(int64_t);
    struct qkv_sentence_numbers numbers;
    *groups = (struct groups){malloc(bytes), malloc(bytes), malloc(bytes)};
    /* At first, `order` holds for each sentence of a side the first pair with that sentence; there are at most `count`. */
    if (!groups->parent || !groups->size || !groups->order || !qkv_sentence_numbers_init(&numbers, pairs))
        return false;
    for (int64_t i = 0; i < pairs->count; i++) {
        groups->parent[i] = i;
        groups->size[i] = 1;
    }
    for (int side = 0; side < 2; side++) {
        for (int64_t s = 0; s < numbers.different[side]; s++) groups->order[s] = -1;
        for (int64_t i = 0; i < pairs->count; i++) {
            int64_t *first = &groups->order[numbers.number[side][i]];
            if (*first < 0) *first = i;
            join(groups, *first, i);
        }
    }
    qkv_sentence_numbers_release(&numbers);
    return true;
}

/* Assigns groups of at most `largest` pairs, in random order, to a part until it has `wanted` pairs. */
static void fill_part(struct groups *groups, int64_t count, enum qkv_pairs_part chosen, int64_t wanted,
                      int64_t largest, enum qkv_pairs_part *part)
{
    int64_t has = 0;
    for (int64_t i = 0; i < count; i++)
        has += part[i] == chosen && root_of(groups, i) == i ? groups->size[i] : 0;
    for (int64_t k = 0; k < count && has < wanted; k++) {
        int64_t root = root_of(groups, groups->order[k]), size = groups->size[root];
        if (part[root] != QKV_PAIRS_TRAIN || size > largest || has + size > wanted) continue;
        part[root] = chosen;
        has += size;
    }
}

/* Fails when a part has no pairs. */
static enum qkv_status check_parts(const struct qkv_pairs *pairs, const enum qkv_pairs_part *part,
                                   struct qkv_error *error)
{
    int64_t count[QKV_PAIRS_PARTS] = {0};
    for (int64_t i = 0; i < pairs->count; i++) count[part[i]]++;
    if (count[QKV_PAIRS_TRAIN] && count[QKV_PAIRS_DEV] && count[QKV_PAIRS_TEST]) return QKV_OK;
    return qkv_error_set(
        error,
        "%s: its %lld pairs cannot be split so that no sentence is in two parts, because too many of "
        "them share a sentence; ask for a smaller dev and test set, or add pairs with other sentences",
        pairs->path[0], (long long)pairs->count);
}

enum qkv_status qkv_pairs_split(const struct qkv_pairs *pairs, struct qkv_pairs_parts wanted,
                                enum qkv_pairs_part *part, struct qkv_error *error)
{
    enum { MAX_SHARE = 10 /* a group is at most a tenth of a part, if there are enough such groups */ };
    const int64_t sizes[QKV_PAIRS_PARTS] = {0, wanted.dev, wanted.test};
    struct groups groups;
    int64_t count = pairs->count;
    if (!pairs->path[0]) return qkv_error_set(error, "no sentence pairs were read");
    if (wanted.dev < 1 || wanted.test < 1 || wanted.dev > count - 2 || wanted.test > count - 1 - wanted.dev)
        return qkv_error_set(
            error,
            "%s: has %lld pairs; dev (%lld) and test (%lld) need at least one each and must leave one "
            "for training",
            pairs->path[0], (long long)count, (long long)wanted.dev, (long long)wanted.test);
    if (!make_groups(&groups, pairs)) {
        release(&groups);
        return no_memory(error);
    }
    for (int64_t i = 0; i < count; i++) {
        groups.order[i] = i;
        part[i] = QKV_PAIRS_TRAIN;
    }
    qkv_random_shuffle((struct qkv_random){.seed = wanted.seed, .stream = QKV_STREAM_SPLIT}, count,
                       groups.order);
    for (int p = QKV_PAIRS_DEV; p < QKV_PAIRS_PARTS; p++) {
        int64_t small = sizes[p] < MAX_SHARE ? 1 : sizes[p] / MAX_SHARE;
        fill_part(&groups, count, (enum qkv_pairs_part)p, sizes[p], small, part);
    }
    for (int p = QKV_PAIRS_DEV; p < QKV_PAIRS_PARTS; p++)
        fill_part(&groups, count, (enum qkv_pairs_part)p, sizes[p], sizes[p], part);
    for (int64_t i = 0; i < count; i++) part[i] = part[root_of(&groups, i)];
    release(&groups);
    return check_parts(pairs, part, error);
}
