/* The edits of TER (Snover et al. 2006): the fewest insertions, deletions, substitutions and shifts of a block of words
 * that turn a hypothesis into a reference, found greedily: as long as a shift lowers the edit distance, the best shift is
 * made. The limits and the order of preference are those of tercom and sacreBLEU: other limits would give other scores. */
#include "metrics/metric.h"

#include <math.h>
#include <string.h>

enum {
    LONGEST_SHIFT = 10,    /* words of a block */
    FARTHEST_SHIFT = 50,   /* between the positions of a block in the hypothesis and in the reference */
    MAX_CANDIDATES = 1000, /* shifts that are tried for one pair of texts */
    BAND = 25,             /* cells of a row of the distance matrix on each side of the diagonal */
    INFINITE = INT32_MAX / 2
};

/* How a cell of the distance matrix is reached. Among operations of equal cost, earlier ones are preferred. */
enum operation { UNREACHED, PAIR, DROP, INSERT };

/* The distance matrix of the present hypothesis. Row i belongs to its first i words, column j to the first j reference words.
 * Only a band around the diagonal is computed: cells first[i] .. end[i]-1 of row i. */
struct edits {
    const uint32_t *reference;
    uint32_t *hypothesis; /* in the present order */
    int64_t references, hypotheses;
    int64_t *first, *end; /* [hypotheses + 1] */
    int64_t *start;       /* [hypotheses + 1]: where row i begins in the next two arrays, less first[i] */
    int32_t *distance;    /* of all rows, one after the other */
    uint8_t *operation;   /* enum operation, likewise */
    int32_t *rows[2];     /* [references + 1] each: rows of a candidate */
    /* [references]: the word of the hypothesis aligned with each reference word; -1: before all */
    int64_t *aligned;
    int64_t *hypothesis_errors; /* [hypotheses + 1]: number of the first i words that are part of an edit */
    int64_t *reference_errors;  /* [references + 1] */
    int64_t candidates;         /* tried so far */
    int32_t total;              /* the edit distance */
};

/* A shift of a block of the hypothesis. */
struct shift {
    int64_t from, length;
    /* The word before which the block is inserted, in the present order; ranks equal shifts */
    int64_t target;
    int64_t to;   /* where the block begins afterwards */
    int32_t gain; /* decrease of the edit distance */
};

/* ---- the edit distance ---- */

/* Sets the band: its rows follow the line from corner to corner, and the last row reaches the end of the reference. Returns the
 * number of cells. */
static int64_t lay_out_rows(struct edits *e)
{
    double slope = e->hypotheses ? (double)e->references / (double)e->hypotheses : 1;
    int64_t band = slope / 2 > BAND ? (int64_t)ceil(slope / 2 + BAND) : BAND, cells = 0;
    for (int64_t i = 0; i <= e->hypotheses; i++) {
        int64_t diagonal = (int64_t)floor((double)i * slope);
        e->first[i] = i == 0 || diagonal < band ? 0 : diagonal - band;
        e->end[i] = diagonal + band;
        if (i == 0 || i == e->hypotheses || e->end[i] > e->references + 1) e->end[i] = e->references + 1;
        e->start[i] = cells - e->first[i];
        cells += e->end[i] - e->first[i];
    }
    return cells;
}

/* Computes row `i`, i > 0, which belongs to the word `word`, from the row above. Both pointers are to the first cell of their
 * row. `operation` may be NULL. */
static void fill_row(const struct edits *e, int64_t i, uint32_t word, const int32_t *above, int32_t *row,
                     uint8_t *operation)
{
    int64_t first = e->first[i], above_first = e->first[i - 1], above_end = e->end[i - 1];
    for (int64_t j = first; j < e->end[i]; j++) {
        int32_t cost[] = {[UNREACHED] = INFINITE, [PAIR] = INFINITE, [DROP] = INFINITE, [INSERT] = INFINITE};
        enum operation best = UNREACHED;
        if (j > above_first && j <= above_end)
            cost[PAIR] = above[j - 1 - above_first] + (word != e->reference[j - 1]);
        if (j >= above_first && j < above_end) cost[DROP] = above[j - above_first] + 1;
        if (j > first) cost[INSERT] = row[j - 1 - first] + 1;
        for (enum operation o = PAIR; o <= INSERT; o++)
            if (cost[o] < cost[best]) best = o;
        row[j - first] = cost[best];
        if (operation) operation[j - first] = (uint8_t)best;
    }
}

static int32_t *distance_row(const struct edits *e, int64_t i)
{
    return e->distance + e->start[i] + e->first[i];
}

/* Traces the operations back, and sets which words are part of an edit, and which word of the hypothesis is aligned with each
 * word of the reference. An inserted word is aligned with the word before it. */
static void trace_back(struct edits *e)
{
    int64_t i = e->hypotheses, j = e->references;
    memset(e->hypothesis_errors, 0, (size_t)(e->hypotheses + 1) * sizeof *e->hypothesis_errors);
    memset(e->reference_errors, 0, (size_t)(e->references + 1) * sizeof *e->reference_errors);
    while (i > 0 || j > 0) {
        enum operation operation = i == 0   ? INSERT
                                   : j == 0 ? DROP
                                            : (enum operation)e->operation[e->start[i] + j];
        bool wrong = operation != PAIR || e->hypothesis[i - 1] != e->reference[j - 1];
        if (operation != DROP) {
            e->aligned[j - 1] = i - 1;
            e->reference_errors[j] = wrong;
            j--;
        }
        if (operation != INSERT) e->hypothesis_errors[i--] = wrong;
    }
    for (i = 0; i < e->hypotheses; i++) e->hypothesis_errors[i + 1] += e->hypothesis_errors[i];
    for (j = 0; j < e->references; j++) e->reference_errors[j + 1] += e->reference_errors[j];
}

static void compute_distance(struct edits *e)
{
    for (int64_t j = 0; j <= e->references; j++) e->distance[j] = (int32_t)j;
    for (int64_t i = 1; i <= e->hypotheses; i++)
        fill_row(e, i, e->hypothesis[i - 1], distance_row(e, i - 1), distance_row(e, i),
                 e->operation + e->start[i] + e->first[i]);
    e->total = e->distance[e->start[e->hypotheses] + e->references];
    trace_back(e);
}

/* ---- shifts ---- */

/* Word `k` after the shift. */
static uint32_t shifted_word(const struct edits *e, const struct shift *shift, int64_t k)
{
    int64_t from = shift->from, to = shift->to, length = shift->length;
    if (k >= to && k < to + length) return e->hypothesis[from + k - to];
    if (to < from && k >= to && k < from + length) return e->hypothesis[k - length];
    if (to > from && k >= from && k < to + length) return e->hypothesis[k + length];
    return e->hypothesis[k];
}

/* True when row `i` of a candidate differs from that of the present hypothesis by the same number in all cells. Then all rows
 * below, which belong to equal words, differ by this number, too. */
static bool differs_by(const struct edits *e, int64_t i, const int32_t *row, int32_t *difference)
{
    const int32_t *present = distance_row(e, i);
    bool found = false;
    for (int64_t k = 0; k < e->end[i] - e->first[i]; k++) {
        if (row[k] == INFINITE && present[k] == INFINITE) continue;
        if (row[k] == INFINITE || present[k] == INFINITE) return false;
        if (found && row[k] - present[k] != *difference) return false;
        *difference = row[k] - present[k];
        found = true;
    }
    return found;
}

/* The edit distance after a shift. Rows above the words that move are the same as for the present hypothesis. */
static int32_t distance_after(const struct edits *e, const struct shift *shift)
{
    int64_t low = shift->from < shift->to ? shift->from : shift->to;
    int64_t high = (shift->from < shift->to ? shift->to : shift->from) + shift->length;
    const int32_t *above = distance_row(e, low);
    for (int64_t i = low + 1; i <= e->hypotheses; i++) {
        int32_t *row = e->rows[i % 2], difference = 0;
        fill_row(e, i, shifted_word(e, shift, i - 1), above, row, NULL);
        if (i >= high && differs_by(e, i, row, &difference)) return e->total + difference;
        above = row;
    }
    return above[e->references - e->first[e->hypotheses]];
}

/* Where a block begins after it is inserted before word `target` of the present order. A target within the block, or at its
 * end, counts as the new start of the block, as far as the text is long enough: words after the block move before it. */
static int64_t place(const struct edits *e, const struct shift *shift)
{
    int64_t last = e->hypotheses - shift->length;
    if (shift->target > shift->from + shift->length) return shift->target - shift->length;
    return shift->target < shift->from || shift->target < last ? shift->target : last;
}

/* Prefers the larger gain, then the longer block, then the block farther left, then the target farther left. */
static bool is_better(const struct shift *a, const struct shift *b)
{
    if (a->gain != b->gain) return a->gain > b->gain;
    if (a->length != b->length) return a->length > b->length;
    if (a->from != b->from) return a->from < b->from;
    return a->target < b->target;
}

/* Tries to move the words from .. from+length-1, which are equal to the reference words from `at` on, to the place of these.
 * Both must be part of an edit, and the block must not be there already. */
static void try_block(struct edits *e, int64_t from, int64_t at, int64_t length, struct shift *best)
{
    int64_t beside = e->aligned[at], tried = -1;
    if (e->hypothesis_errors[from + length] == e->hypothesis_errors[from]) return;
    if (e->reference_errors[at + length] == e->reference_errors[at]) return;
    if (beside >= from && beside < from + length) return;
    for (int64_t word = at - 1; word < at + length; word++) {
        struct shift shift = {from, length, word < 0 ? 0 : e->aligned[word] + 1, 0, 0};
        if (shift.target == tried) continue;
        tried = shift.target;
        shift.to = place(e, &shift);
        shift.gain = e->total - distance_after(e, &shift);
        e->candidates++;
        if (!best->length || is_better(&shift, best)) *best = shift;
    }
}

/* Tries every block that occurs in both texts, up to the limit of candidates, and sets *best to the best shift. */
static void find_shift(struct edits *e, struct shift *best)
{
    for (int64_t from = 0; from < e->hypotheses; from++) {
        int64_t end = from + FARTHEST_SHIFT + 1;
        if (end > e->references) end = e->references;
        for (int64_t at = from < FARTHEST_SHIFT ? 0 : from - FARTHEST_SHIFT; at < end; at++)
            for (int64_t length = 1;
                 length <= LONGEST_SHIFT && from + length <= e->hypotheses && at + length <= e->references &&
                 e->hypothesis[from + length - 1] == e->reference[at + length - 1];
                 length++) {
                try_block(e, from, at, length, best);
                if (e->candidates >= MAX_CANDIDATES) return;
            }
    }
}

/* Reorders the hypothesis; `copy` is scratch memory for its words. */
static void make_shift(struct edits *e, const struct shift *shift, uint32_t *copy)
{
    for (int64_t k = 0; k < e->hypotheses; k++) copy[k] = shifted_word(e, shift, k);
    memcpy(e->hypothesis, copy, (size_t)e->hypotheses * sizeof *copy);
}

static bool allocate(struct edits *e, struct qkv_arena *arena)
{
    size_t rows = (size_t)e->hypotheses + 1, columns = (size_t)e->references + 1;
    e->first = qkv_arena_allocate(arena, rows * sizeof *e->first);
    e->end = qkv_arena_allocate(arena, rows * sizeof *e->end);
    e->start = qkv_arena_allocate(arena, rows * sizeof *e->start);
    e->hypothesis_errors = qkv_arena_allocate(arena, rows * sizeof *e->hypothesis_errors);
    e->reference_errors = qkv_arena_allocate(arena, columns * sizeof *e->reference_errors);
    e->aligned = qkv_arena_allocate(arena, columns * sizeof *e->aligned);
    for (int k = 0; k < 2; k++) e->rows[k] = qkv_arena_allocate(arena, columns * sizeof *e->rows[k]);
    if (arena->failed) return false;
    size_t cells = (size_t)lay_out_rows(e);
    e->distance = qkv_arena_allocate(arena, cells * sizeof *e->distance);
    e->operation = qkv_arena_zeroed(arena, cells);
    return !arena->failed;
}

/* The number of edits and shifts that turn a hypothesis into a reference; -1 when memory runs out. */
static int64_t count_edits(struct qkv_arena *arena, const struct qkv_symbols *hypothesis,
                           const struct qkv_symbols *reference)
{
    if (reference->count == 0) return hypothesis->count;
    size_t size = (size_t)hypothesis->count * sizeof(uint32_t);
    struct edits e = {
        .reference = reference->items, .references = reference->count, .hypotheses = hypothesis->count};
    uint32_t *copy = qkv_arena_allocate(arena, size);
    e.hypothesis = qkv_arena_allocate(arena, size);
    if (!copy || !e.hypothesis || !allocate(&e, arena)) return -1;
    if (size) memcpy(e.hypothesis, hypothesis->items, size);

    int64_t shifts = 0;
    compute_distance(&e);
    for (;; shifts++) {
        struct shift best = {0};
        find_shift(&e, &best);
        /* If the limit of candidates was reached during this search, its shift is not made. */
        if (e.candidates >= MAX_CANDIDATES || best.gain <= 0) break;
        make_shift(&e, &best, copy);
        compute_distance(&e);
    }
    return shifts + e.total;
}

/* ---- the metric ---- */

/* sacreBLEU normalizes references twice, so that .5 after a full stop becomes two words in a reference, but one in a
 * hypothesis. References are normalized twice here, too, to get the same scores. */
static struct qkv_words *words_of(const struct qkv_segment *segment, int64_t i)
{
    const struct qkv_text_options *options = segment->options;
    int passes = !options->ter_normalized ? 0 : i ? 2 : 1;
    return qkv_text_tercom(segment->arena, passes, options->ter_no_punctuation,
                           qkv_text_decode(segment->arena, segment->texts[i], !options->ter_case_sensitive));
}

/* The statistics of a segment: its edits, and the mean number of words of its references. */
enum { EDITS, REFERENCE_LENGTH, STATISTICS };

static int compare(const struct qkv_segment *segment, double *statistics)
{
    int64_t min = INT64_MAX, length = 0;
    for (int64_t i = 1; i < segment->count; i++) {
        int64_t edits = count_edits(segment->arena, &segment->words[0], &segment->words[i]);
        if (edits < 0) return 0;
        if (edits < min) min = edits;
        length += segment->words[i].count;
    }
    statistics[EDITS] = (double)min;
    statistics[REFERENCE_LENGTH] = (double)length / (double)(segment->count - 1);
    return STATISTICS;
}

/* Edits in percent of the words of the references. If these have no words, 100 if there are edits, otherwise 0. */
static double score(const struct qkv_text_options *options, const double *sums)
{
    (void)options;
    if (sums[REFERENCE_LENGTH] > 0) return 100 * (sums[EDITS] / sums[REFERENCE_LENGTH]);
    return sums[EDITS] > 0 ? 100 : 0;
}

static bool describe(const struct qkv_text_options *options, const double *sums,
                     struct qkv_metric_description *description)
{
    snprintf(description->signature, sizeof description->signature, "tok:tercom|norm:%s|punct:%s|asian:no",
             options->ter_normalized ? "yes" : "no", options->ter_no_punctuation ? "no" : "yes");
    description->detail_count = 2;
    description->details[0] = (struct qkv_metric_detail){"edits", 1, {sums[EDITS]}};
    description->details[1] = (struct qkv_metric_detail){"reference_length", 1, {sums[REFERENCE_LENGTH]}};
    return options->ter_case_sensitive;
}

const struct qkv_text_metric qkv_text_metric_ter = {NULL, words_of, compare, score, describe};
