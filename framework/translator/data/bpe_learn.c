/* Learning merges. The counts of pairs are exactly those of subword-nmt 0.3.8, even if they are only approximate: it keeps
 * only the counts of frequent pairs up to date (struct pair), and counts some pairs twice when a new symbol is spelled like an
 * old one of the same word. Both affect which merges are learned. */
#include "core/memory.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/corpus.h"
#include "data/unicode.h"

enum {
    LOWEST_FREQUENCY = 2, /* of a pair that becomes a merge */
    PRUNE_EVERY = 100,    /* rare pairs are set aside after every 100 merges */
};

/* Counts stay within this, so that sums of two of them do not overflow. */
#define MAX_COUNT (INT64_MAX / 4)

/* A pair is either active, with a count that every merge updates, or set aside because it is rare. A pair that is set aside
 * becomes active again, with a count of 0, when a merge changes its count. When it is then set aside again, a negative count
 * is added to pruned_count, but any other count replaces it. */
struct pair {
    int64_t count;        /* while active */
    int64_t pruned_count; /* when it was last set aside */
    bool is_active, was_pruned, is_changed;
    /* [words]: an entry for each time that the pair appeared in a word (word) or disappeared from it (~word) */
    int32_t *word;
    int64_t words, capacity;
};

/* An entry of the heap; outdated when the pair has another count now. */
struct candidate {
    int64_t count;
    int32_t pair;
};

struct learning {
    struct qkv_types symbols;
    struct qkv_symbol_pairs table;
    struct pair *pairs; /* [table.size] */
    int64_t pairs_capacity;
    int64_t words;
    int64_t *start;     /* [words + 1]: word w begins at symbol[start[w]] */
    int32_t *length;    /* [words]: symbols; merges make it smaller */
    int64_t *frequency; /* [words] */
    int32_t *symbol;
    int32_t *occurrences; /* [words]: of the pair that is merged, in each word; zeros between calls */
    int32_t *old;         /* [symbols of the longest word]: the word before a merge */
    int32_t *changed;     /* pairs whose count rose since the heap was updated */
    int64_t changed_count, changed_capacity;
    struct candidate *heap; /* the first is the greatest */
    int64_t heap_size, heap_capacity;
    struct qkv_arena arena; /* of the arrays of words and symbols */
    bool failed;            /* memory runs out */
};

/* ---- the heap of active pairs ---- */

/* True when `a` is a better merge than `b`: more frequent or, if equally frequent, greater in the order of code points, which
 * is also the order of UTF-8 bytes. */
static bool is_better(const struct learning *l, struct candidate a, struct candidate b)
{
    if (a.count != b.count) return a.count > b.count;
    const struct qkv_symbol_pairs *table = &l->table;
    int order = strcmp(qkv_types_token(&l->symbols, table->left[a.pair]),
                       qkv_types_token(&l->symbols, table->left[b.pair]));
    if (!order)
        order = strcmp(qkv_types_token(&l->symbols, table->right[a.pair]),
                       qkv_types_token(&l->symbols, table->right[b.pair]));
    return order > 0;
}

static void sift_down(struct learning *l, int64_t at)
{
    struct candidate moved = l->heap[at];
    for (int64_t child; (child = 2 * at + 1) < l->heap_size; at = child) {
        if (child + 1 < l->heap_size && is_better(l, l->heap[child + 1], l->heap[child])) child++;
        if (!is_better(l, l->heap[child], moved)) break;
        l->heap[at] = l->heap[child];
    }
    l->heap[at] = moved;
}

static void push(struct learning *l, struct candidate candidate)
{
    if (!QKV_RESERVE(l->heap, l->heap_capacity, l->heap_size + 1)) {
        l->heap_size = 0;
        l->failed = true;
        return;
    }
    int64_t at = l->heap_size++;
    for (; at > 0 && is_better(l, candidate, l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = candidate;
}

/* Rebuilds the heap with one candidate for each active pair. */
static void rebuild_heap(struct learning *l)
{
    l->heap_size = 0;
    for (int64_t p = 0; p < l->table.size && !l->failed; p++)
        if (l->pairs[p].is_active && l->pairs[p].count > 0)
            push(l, (struct candidate){l->pairs[p].count, (int32_t)p});
}

/* The most frequent active pair; -1 when none has a positive count. A count that fell since its candidate was pushed is
 * corrected here; for a count that rose, there is a newer candidate. */
static int32_t best_pair(struct learning *l)
{
    while (l->heap_size > 0) {
        struct candidate *top = l->heap;
        const struct pair *pair = &l->pairs[top->pair];
        bool holds = pair->is_active && pair->count > 0;
        if (holds && pair->count == top->count) return top->pair;
        if (holds && pair->count < top->count)
            top->count = pair->count;
        else
            *top = l->heap[--l->heap_size];
        if (l->heap_size) sift_down(l, 0);
    }
    return -1;
}

/* ---- counts of pairs ---- */

/* The sum; beyond MAX_COUNT, the number that is closest to it. A count that is so far from 0 does not change sign. */
static int64_t sum_counts(int64_t a, int64_t b)
{
    int64_t sum = a + b;
    return sum > MAX_COUNT ? MAX_COUNT : sum < -MAX_COUNT ? -MAX_COUNT : sum;
}

/* Adds `sign` times the frequency of a word to the count of a pair: 1 when the pair appeared in the word, -1 when it
 * disappeared. */
static void count_pair(struct learning *l, int32_t left, int32_t right, int64_t word, int sign)
{
    if (l->failed) return;
    int32_t p = qkv_symbol_pairs_add(&l->table, left, right);
    int64_t before = l->pairs_capacity;
    if (p < 0 || !QKV_RESERVE(l->pairs, l->pairs_capacity, p + 1)) {
        l->failed = true;
        return;
    }
    if (l->pairs_capacity > before)
        memset(l->pairs + before, 0, (size_t)(l->pairs_capacity - before) * sizeof *l->pairs);
    struct pair *pair = &l->pairs[p];
    if (!pair->is_active) pair->count = 0;
    pair->is_active = true;
    pair->count = sum_counts(pair->count, sign * l->frequency[word]);
    bool lists = sign > 0 && !pair->is_changed;
    if (!QKV_RESERVE(pair->word, pair->capacity, pair->words + 1) ||
        (lists && !QKV_RESERVE(l->changed, l->changed_capacity, l->changed_count + 1))) {
        l->failed = true;
        return;
    }
    pair->word[pair->words++] = sign > 0 ? (int32_t)word : ~(int32_t)word;
    if (!lists) return;
    pair->is_changed = true;
    l->changed[l->changed_count++] = p;
}

/* Pushes the pairs whose counts rose onto the heap. */
static void push_changed(struct learning *l)
{
    for (int64_t i = 0; i < l->changed_count && !l->failed; i++) {
        struct pair *pair = &l->pairs[l->changed[i]];
        pair->is_changed = false;
        if (pair->count > 0) push(l, (struct candidate){pair->count, l->changed[i]});
    }
    l->changed_count = 0;
}

/* Sets aside the active pairs with a count below the threshold. */
static void prune(struct learning *l, double threshold)
{
    for (int64_t p = 0; p < l->table.size; p++) {
        struct pair *pair = &l->pairs[p];
        if (!pair->is_active || (double)pair->count >= threshold) continue;
        pair->pruned_count = pair->count < 0 ? sum_counts(pair->pruned_count, pair->count) : pair->count;
        pair->was_pruned = true;
        pair->is_active = false;
    }
}

/* Makes every pair active that was ever set aside, with its pruned_count. All other pairs are active already. */
static void restore(struct learning *l)
{
    for (int64_t p = 0; p < l->table.size; p++) {
        struct pair *pair = &l->pairs[p];
        if (!pair->was_pruned) continue;
        pair->is_active = true;
        pair->count = pair->pruned_count;
    }
}

/* ---- one merge ---- */

/* Replaces each occurrence of a pair in a word by the symbol `joined` and updates the counts of its neighbours. */
static void merge_in_word(struct learning *l, int64_t w, int32_t first, int32_t second, int32_t joined)
{
    int32_t *word = l->symbol + l->start[w], *old = l->old, count = l->length[w], length = 0;
    memcpy(old, word, (size_t)count * sizeof *old);
    for (int32_t i = 0; i < count;) {
        bool found = i + 1 < count && old[i] == first && old[i + 1] == second;
        word[length++] = found ? joined : old[i];
        if (found && i) count_pair(l, old[i - 1], first, w, -1);
        /* In "A B A B", the pair "B A" is counted at the second occurrence. */
        if (found && i + 2 < count && (old[i + 2] != first || i + 3 >= count || old[i + 3] != second))
            count_pair(l, second, old[i + 2], w, -1);
        i += found ? 2 : 1;
    }
    l->length[w] = length;
    for (int32_t i = 0; i < length; i++) {
        if (word[i] != joined) continue;
        if (i) count_pair(l, word[i - 1], joined, w, 1);
        if (i + 1 < length && word[i + 1] != joined) count_pair(l, joined, word[i + 1], w, 1);
    }
}

/* Applies a merge to all words and updates the counts of pairs. */
static void apply(struct learning *l, int32_t p, int32_t joined)
{
    struct pair *pair = &l->pairs[p];
    int32_t *entries = pair->word, first = l->table.left[p], second = l->table.right[p];
    int64_t count = pair->words;
    pair->word = NULL;
    pair->words = pair->capacity = 0;
    pair->count = 0;
    for (int64_t i = 0; i < count; i++)
        l->occurrences[entries[i] < 0 ? ~entries[i] : entries[i]] += entries[i] < 0 ? -1 : 1;
    for (int64_t i = 0; i < count; i++) {
        int32_t word = entries[i] < 0 ? ~entries[i] : entries[i];
        if (l->occurrences[word] > 0) merge_in_word(l, word, first, second, joined);
        l->occurrences[word] = 0;
    }
    free(entries);
    if (l->failed) return;
    l->pairs[p].count = 0; /* even if the pair overlapped itself, as in "a a a" */
    l->pairs[p].is_active = true;
}

/* Adds a pair to the merges and finds the symbol that it makes. False when there is no memory. */
static bool add_merge(struct learning *l, struct qkv_bpe *bpe, int32_t p, int32_t *joined)
{
    int64_t line = bpe->count;
    if (!qkv_bpe_add(bpe, qkv_types_token(&l->symbols, l->table.left[p]),
                     qkv_types_token(&l->symbols, l->table.right[p])))
        return false;
    *joined = qkv_types_add(&l->symbols, qkv_types_token(&bpe->symbols, bpe->joined[bpe->order[line]]), 0);
    return *joined >= 0;
}

/* Learns up to `merges` merges; fewer when no further pair is frequent enough. */
static void learn(struct learning *l, struct qkv_bpe *bpe, int64_t merges)
{
    push_changed(l);
    int32_t best = best_pair(l), joined;
    if (l->failed || best < 0) return;
    for (int64_t p = 0; p < l->table.size; p++) {
        l->pairs[p].pruned_count = l->pairs[p].count;
        l->pairs[p].was_pruned = true;
    }
    /* Zipf's law: few pairs are more frequent than a tenth of the most frequent one. */
    double threshold = (double)l->pairs[best].count / 10;
    for (int64_t i = 0; i < merges; i++) {
        best = best_pair(l);
        if (i && (best < 0 || (double)l->pairs[best].count < threshold)) {
            prune(l, threshold);
            restore(l);
            rebuild_heap(l);
            best = l->failed ? -1 : best_pair(l);
            if (best < 0) return;
            threshold = (double)l->pairs[best].count * (double)i / ((double)i + 10000.0);
            prune(l, threshold);
        }
        if (best < 0 || l->pairs[best].count < LOWEST_FREQUENCY) return;
        if (!add_merge(l, bpe, best, &joined)) l->failed = true;
        if (!l->failed) apply(l, best, joined);
        push_changed(l);
        if (l->failed) return;
        if (i % PRUNE_EVERY == 0) prune(l, threshold);
        if (l->heap_size > 4 * l->table.size + 1024) rebuild_heap(l);
    }
}

/* ---- words ---- */

/* Cuts a word into characters and counts their pairs. */
static bool add_word(struct learning *l, const char *text, int64_t frequency)
{
    int64_t w = l->words, at = l->start[w];
    l->frequency[w] = frequency < 0 ? 0 : frequency > MAX_COUNT ? MAX_COUNT : frequency;
    for (const char *c = text; *c;) {
        char symbol[QKV_BPE_CHARACTER_SIZE];
        int32_t point;
        int size = qkv_point(c, &point);
        qkv_bpe_character_text(symbol, c, size, !c[size]);
        if ((l->symbol[at++] = qkv_types_add(&l->symbols, symbol, 0)) < 0) return false;
        c += size;
    }
    l->length[w] = (int32_t)(at - l->start[w]);
    l->start[++l->words] = at;
    for (int64_t i = l->start[w]; i + 1 < at; i++) count_pair(l, l->symbol[i], l->symbol[i + 1], w, 1);
    return !l->failed;
}

static bool add_words(struct learning *l, const struct qkv_types *types)
{
    size_t bytes = 1, longest = 1, words = (size_t)types->size;
    for (int64_t i = 0; i < types->size; i++) {
        size_t size = strlen(qkv_types_token(types, i));
        bytes += size;
        if (size > longest) longest = size;
    }
    l->start = qkv_arena_zeroed(&l->arena, (words + 1) * sizeof *l->start);
    l->length = qkv_arena_zeroed(&l->arena, (words + 1) * sizeof *l->length);
    l->frequency = qkv_arena_zeroed(&l->arena, (words + 1) * sizeof *l->frequency);
    l->occurrences = qkv_arena_zeroed(&l->arena, (words + 1) * sizeof *l->occurrences);
    l->symbol = qkv_arena_zeroed(&l->arena, bytes * sizeof *l->symbol);
    l->old = qkv_arena_zeroed(&l->arena, longest * sizeof *l->old);
    if (l->arena.failed) return false;
    for (int64_t i = 0; i < types->size; i++)
        if (!add_word(l, qkv_types_token(types, i), types->frequency[i])) return false;
    return true;
}

/* Words with white space would make merges that a codes file cannot hold. */
static enum qkv_status check_words(const struct qkv_types *words, struct qkv_error *error)
{
    for (int64_t i = 0; i < words->size; i++) {
        const char *word = qkv_types_token(words, i);
        size_t size = strlen(word);
        if (qkv_text_valid_size(word, size) < size || qkv_text_has(word, qkv_is_space))
            return qkv_error_set(error, "word %lld contains white space or is not valid UTF-8", (long long)i);
    }
    return QKV_OK;
}

static void release(struct learning *l)
{
    for (int64_t p = 0; l->pairs && p < l->pairs_capacity; p++) free(l->pairs[p].word);
    free(l->pairs);
    qkv_arena_release(&l->arena);
    free(l->changed);
    free(l->heap);
    qkv_types_release(&l->symbols);
    qkv_symbol_pairs_release(&l->table);
}

struct qkv_bpe *qkv_bpe_learn(int64_t count, const struct qkv_types *const *texts, int64_t merges,
                              struct qkv_error *error)
{
    for (int64_t t = 0; t < count; t++)
        if (check_words(texts[t], error)) return NULL;
    if (merges < 1) {
        qkv_error_set(error, "there cannot be %lld merges, but at least 1", (long long)merges);
        return NULL;
    }
    struct learning learning = {0};
    struct qkv_types sum = {0};
    struct qkv_bpe *bpe = calloc(1, sizeof *bpe);
    bool done = bpe != NULL;
    for (int64_t t = 0; t < count && done; t++) done = qkv_types_add_frequent(&sum, texts[t], INT64_MIN);
    done = done && add_words(&learning, &sum);
    if (done) learn(&learning, bpe, merges);
    done = done && !learning.failed;
    enum qkv_status status = QKV_OK;
    if (!done)
        status = qkv_no_memory(error);
    else if (bpe->count < merges)
        status = qkv_error_set(
            error,
            "%lld merges are wanted, but the text has only %lld: no other pair of symbols occurs twice",
            (long long)merges, (long long)bpe->count);
    release(&learning);
    qkv_types_release(&sum);
    if (!status) return bpe;
    qkv_bpe_free(bpe);
    return NULL;
}
