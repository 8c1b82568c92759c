#include "metrics/text.h"

#include "qkv/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest n-gram of any metric, in symbols. Suffixes are compared up to this length. */
#define LONGEST_ORDER QKV_CHRF_LONGEST

/* Compares the first `order` symbols; the end of a text sorts before every symbol. */
static int compare_ngrams(const struct qkv_suffix *a, const struct qkv_suffix *b, int64_t order)
{
    for (int64_t i = 0; i < order; i++) {
        if (i == a->count || i == b->count) return (i < a->count) - (i < b->count);
        if (a->items[i] != b->items[i]) return a->items[i] < b->items[i] ? -1 : 1;
    }
    return 0;
}

static int compare_suffixes(const void *a, const void *b)
{
    return compare_ngrams(a, b, LONGEST_ORDER);
}

/* Suffixes that are sorted by their first LONGEST_ORDER symbols are also sorted by their first n, for every
 * smaller n. So one sort makes the equal n-grams of every order neighbours. */
struct qkv_ngrams *qkv_ngrams_sort(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_ngrams *ngrams = text ? qkv_arena_zeroed(arena, sizeof *ngrams) : NULL;
    if (!ngrams) return NULL;
    ngrams->suffixes = qkv_arena_allocate(arena, (size_t)text->count * sizeof *ngrams->suffixes);
    if (!ngrams->suffixes) return NULL;
    ngrams->count = text->count;
    for (int64_t i = 0; i < text->count; i++) {
        int64_t left = text->count - i;
        ngrams->suffixes[i] =
            (struct qkv_suffix){text->items + i, left < LONGEST_ORDER ? left : LONGEST_ORDER};
    }
    qsort(ngrams->suffixes, (size_t)ngrams->count, sizeof *ngrams->suffixes, compare_suffixes);
    return ngrams;
}

int64_t qkv_ngrams_total(const struct qkv_ngrams *ngrams, int order)
{
    return ngrams->count < order ? 0 : ngrams->count - order + 1;
}

/* Moves the cursor past all suffixes that sort before the n-gram or start with it. Returns the number of suffixes
 * that start with it. */
static int64_t skip_and_count(const struct qkv_ngrams *ngrams, const struct qkv_suffix *ngram, int order,
                              int64_t *cursor)
{
    int64_t equal = 0;
    for (; *cursor < ngrams->count; ++*cursor) {
        int sign = compare_ngrams(&ngrams->suffixes[*cursor], ngram, order);
        if (sign > 0) break;
        equal += sign == 0;
    }
    return equal;
}

int64_t qkv_ngrams_matches(const struct qkv_ngrams *hypothesis, struct qkv_ngrams *const *references,
                           int64_t count, int order, int64_t *cursors)
{
    int64_t matches = 0;
    for (int64_t r = 0; r < count; r++) cursors[r] = 0;
    for (int64_t i = 0; i < hypothesis->count;) {
        const struct qkv_suffix *ngram = &hypothesis->suffixes[i];
        if (ngram->count < order) {
            i++;
            continue;
        }
        int64_t here = skip_and_count(hypothesis, ngram, order, &i);
        int64_t max = 0;
        for (int64_t r = 0; r < count; r++) {
            int64_t there = skip_and_count(references[r], ngram, order, &cursors[r]);
            if (there > max) max = there;
        }
        matches += here < max ? here : max;
    }
    return matches;
}

/* A word, and the place where its number is stored. */
struct numbered {
    struct qkv_word word;
    uint32_t *number; /* in the caller's array; not owned */
};

static int compare_words(const void *a, const void *b)
{
    const struct qkv_word *left = &((const struct numbered *)a)->word,
                          *right = &((const struct numbered *)b)->word;
    int64_t shorter = left->count < right->count ? left->count : right->count;
    int order = memcmp(left->items, right->items, (size_t)shorter * sizeof *left->items);
    return order ? order : (left->count > right->count) - (left->count < right->count);
}

struct qkv_symbols *qkv_text_number_words(struct qkv_arena *arena, struct qkv_words *const *texts,
                                          int64_t count)
{
    int64_t total = 0;
    for (int64_t t = 0; t < count; t++) {
        if (!texts[t]) return NULL;
        total += texts[t]->count;
    }
    struct qkv_symbols *results = qkv_arena_allocate(arena, (size_t)count * sizeof *results);
    struct numbered *words = qkv_arena_allocate(arena, (size_t)total * sizeof *words);
    uint32_t *numbers = qkv_arena_allocate(arena, (size_t)total * sizeof *numbers);
    if (!results || !words || !numbers) return NULL;
    int64_t at = 0;
    for (int64_t t = 0; t < count; t++) {
        results[t] = (struct qkv_symbols){numbers + at, texts[t]->count};
        for (int64_t i = 0; i < texts[t]->count; i++, at++)
            words[at] = (struct numbered){texts[t]->items[i], numbers + at};
    }
    qsort(words, (size_t)total, sizeof *words, compare_words);
    uint32_t number = 0;
    for (int64_t i = 0; i < total; i++) {
        if (i > 0 && compare_words(&words[i - 1], &words[i])) number++;
        *words[i].number = number;
    }
    return results;
}
