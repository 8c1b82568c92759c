/* Greedy search, beam search and sampling over the decoding of a model. */

#include "data/batch.h"
#include "models/network.h"

#include "core/memory.h"
#include "core/numbers.h"

#include <float.h>
#include <math.h>

/* ---- options ---- */

struct qkv_search_options qkv_search_options_from_config(const struct qkv_testing_config *testing)
{
    return (struct qkv_search_options){.beam_size = testing->beam_size,
                                       .beam_alpha = testing->beam_alpha,
                                       .n_best = 1,
                                       .max_output_length = testing->max_output_length,
                                       .length_limit = {testing->length_limit[0], testing->length_limit[1]},
                                       .skip_scores = true,
                                       .length_penalty = testing->length_penalty,
                                       .min_output_length = testing->min_output_length,
                                       .no_repeat_ngram = testing->no_repeat_ngram,
                                       .repetition_penalty = testing->repetition_penalty};
}

/* The numbers that an option may have; NaN is never one of them. */
struct range {
    const char *name;
    double value, lowest, highest;
    const char *text; /* NULL: between both */
};

enum qkv_status qkv_search_options_check(const struct qkv_search_options *options, struct qkv_error *error)
{
    enum { OF_SAMPLING = 5 }; /* the first ranges, which count only for samples */
    static const char FROM_0[] = "0 or more";
    const struct qkv_sampling_options *sampling = &options->sampling;
    const double beam_size = (double)options->beam_size, n_best = (double)options->n_best;
    const struct range ranges[] = {
        {"samples have no beam: beam_size", beam_size, 1, 1, "1"},
        {"n_best", n_best, 1, QKV_BEAM_MAX, NULL},
        {"temperature", sampling->temperature, DBL_TRUE_MIN, DBL_MAX, "above 0, and finite"},
        {"top_k", (double)sampling->top_k, 0, HUGE_VAL, FROM_0},
        {"top_p", sampling->top_p, DBL_TRUE_MIN, 1, "above 0, and at most 1"},
        {"beam_size", beam_size, 1, QKV_BEAM_MAX, NULL},
        {"beam_alpha", options->beam_alpha, 0, DBL_MAX, "0 or more, and finite"},
        {"max_output_length", (double)options->max_output_length, 0, HUGE_VAL, FROM_0},
        {"min_output_length", (double)options->min_output_length, 0, HUGE_VAL, FROM_0},
        {"length_limit", options->length_limit[0], 0, HUGE_VAL, FROM_0},
        {"length_limit", options->length_limit[1], 0, HUGE_VAL, FROM_0},
        {"no_repeat_ngram", (double)options->no_repeat_ngram, 0, HUGE_VAL, FROM_0},
        {"repetition_penalty", options->repetition_penalty, 0, QKV_REPETITION_PENALTY_MAX, NULL},
    };
    const struct range *range = ranges + (sampling->enabled ? 0 : OF_SAMPLING);
    for (; range < ranges + sizeof ranges / sizeof *ranges; range++) {
        if (range->value >= range->lowest && range->value <= range->highest) continue;
        if (range->text)
            return qkv_error_set(error, "%s is %.15g, but must be %s", range->name, range->value,
                                 range->text);
        return qkv_error_set(error, "%s is %.15g, but must be between %.15g and %.15g", range->name,
                             range->value, range->lowest, range->highest);
    }
    if (!sampling->enabled && (options->n_best < 1 || options->n_best > options->beam_size))
        return qkv_error_set(error, "n_best is %lld, but must be between 1 and beam_size (%lld)",
                             (long long)options->n_best, (long long)options->beam_size);
    if ((int)options->length_penalty < 0 || options->length_penalty > QKV_LENGTH_PENALTY_NONE)
        return qkv_error_set(error, "there is no length penalty of kind %d", (int)options->length_penalty);
    if (!options->max_output_length || options->min_output_length <= options->max_output_length)
        return QKV_OK;
    return qkv_error_set(error, "min_output_length is %lld, but must not exceed max_output_length (%lld)",
                         (long long)options->min_output_length, (long long)options->max_output_length);
}

/* ---- the state of a search ---- */

/* One token of a hypothesis. The tokens of all hypotheses are a tree: a hypothesis is a node, and
 * its tokens are those on the path to the root. */
struct node {
    int64_t parent; /* index of the previous token; -1: none, the hypothesis begins here */
    int32_t token;
};

/* A hypothesis that is not finished: one row of the decoder. */
struct live {
    int64_t sentence, node;
    double log_probability;
    int64_t sample; /* sampling: its number among the samples of the sentence; otherwise 0 */
};

/* A token that may follow a row. */
struct candidate {
    int64_t row;
    int32_t token;
    double log_probability;
};

/* The state of one sentence. */
struct progress {
    int64_t max_length;    /* of its translations, in tokens with </s> */
    int64_t finished;      /* hypotheses in its list of finished ones */
    struct qkv_ids prefix; /* the tokens that its translations begin with */
};

/* A token that may continue a sample. */
struct choice {
    double logit, weight; /* weight: exp((logit - greatest logit) / temperature) */
    int32_t token;
};

/* Scores of one row that constraints have changed. */
struct constrained_row {
    double *logits;    /* [C]; -infinity: not allowed */
    double *group_max; /* [groups of C] */
    double sum;        /* log sum exp(logits) before tokens were excluded */
    int32_t *history;  /* [max_length]: the tokens of the hypothesis */
    struct qkv_next_scores next;
};

struct search {
    const struct qkv_search_options *options;
    struct qkv_decoding *decoding;
    int64_t width; /* greatest number of rows per sentence: beam_size, or the number of samples */
    int64_t sentences, step;
    bool scored;               /* false: greedy search by logits; log-probabilities stay 0 */
    bool constrained;          /* the scores of each row are copied to `row` and changed there */
    int32_t excluded;          /* a token that is never chosen, besides <s>: <unk>, or <s> again */
    struct progress *progress; /* [sentences] */
    /* [sentences * width]: finished hypotheses of each sentence, best first; samples in the order of their numbers */
    struct qkv_hypothesis *done;
    struct node *nodes;
    int64_t node_count;
    /* Rows of this step and of the next; those of a sentence are consecutive */
    struct live *live, *continued;
    int64_t rows, next_rows;
    int64_t capacity;             /* candidates of a sentence: 1 in greedy search, else 2 * width */
    struct candidate *candidates; /* [capacity], or a row each */
    double *bounds;               /* [capacity], of raise_bounds */
    int32_t *ids;                 /* [rows]: token that each row feeds to qkv_decoding_step */
    int64_t *sentence_of;         /* [rows] */
    int64_t *parents;             /* [next_rows], for qkv_decoding_reorder */
    struct constrained_row row;
    struct choice *choices; /* [C]; only for sampling */
    struct qkv_arena *arena;
};

static bool is_end(const struct search *s, int32_t token)
{
    return token == QKV_END && !s->options->runs_on;
}

/* Writes the last `length` tokens of a hypothesis that ends with `node`. */
static void write_tokens(const struct search *s, int64_t node, int64_t length, int32_t *ids)
{
    for (int64_t i = length - 1; i >= 0; i--, node = s->nodes[node].parent) ids[i] = s->nodes[node].token;
}

/* The divisor of the log-probability of a translation of `length` tokens, </s> counted. */
static double penalty(const struct search *search, int64_t length)
{
    switch (search->options->length_penalty) {
    case QKV_LENGTH_PENALTY_AVERAGE:
        return length > 0 ? (double)length : 1; /* 0: cut before the first token */
    case QKV_LENGTH_PENALTY_NONE:
        return 1;
    case QKV_LENGTH_PENALTY_WU:
        break;
    }
    return qkv_scalar_power((5.0 + (double)length) / 6.0, search->options->beam_alpha);
}

/* ---- constraints: the scores of a row are copied, changed and some of them excluded ---- */

static bool penalizes_repetition(const struct qkv_search_options *options)
{
    return options->repetition_penalty > 0 &&
           (options->repetition_penalty < 1 || options->repetition_penalty > 1);
}

/* Whether the options change or exclude scores of tokens. */
static bool is_constrained(const struct qkv_search_options *options)
{
    return penalizes_repetition(options) || options->no_repeat_ngram > 0 || options->min_output_length > 0;
}

static double log_sum_exp(int64_t count, const double *values)
{
    double greatest = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (values[i] > greatest) greatest = values[i];
    for (int64_t i = 0; i < count; i++) sum += qkv_scalar_exp(values[i] - greatest);
    return greatest + qkv_scalar_log(sum);
}

/* Makes every token of the history less likely (Keskar et al. 2019, section 4.1): its logit x becomes x / penalty if
 * x > 0. A negative logit becomes x * penalty, since x / penalty would make its token more likely. A token that
 * occurs several times is penalized once. */
static void penalize_repetition(struct search *s, const struct qkv_next_scores *next, int64_t row)
{
    double penalty = s->options->repetition_penalty;
    for (int64_t i = 0; i < s->step; i++) {
        int32_t token = s->row.history[i];
        double logit = qkv_dtype_get(next->dtype, next->logits, row * next->classes + token);
        s->row.logits[token] = logit > 0 ? logit / penalty : logit * penalty;
    }
    if (s->scored) s->row.sum = log_sum_exp(next->classes, s->row.logits);
}

/* Excludes each token that would repeat an n-gram of `size` tokens. */
static void exclude_repeated_ngrams(struct search *s, int64_t size)
{
    const int32_t *history = s->row.history;
    if (size > s->step) return;
    const int32_t *last = history + s->step - (size - 1); /* the tokens that the next one would follow */
    for (int64_t begin = 0; begin + size <= s->step; begin++) {
        int64_t same = 0;
        while (same < size - 1 && history[begin + same] == last[same]) same++;
        if (same == size - 1) s->row.logits[history[begin + same]] = -HUGE_VAL;
    }
}

/* Computes the maxima of the groups. If no allowed token is left, allows </s>. */
static void finish_row(struct search *s, double end)
{
    struct constrained_row *row = &s->row;
    bool is_empty = true;
    for (int64_t token = 0; token < row->next.classes && is_empty; token++)
        is_empty = token == QKV_BEGIN || token == s->excluded || row->logits[token] <= -HUGE_VAL;
    if (is_empty) row->logits[QKV_END] = end;
    for (int64_t group = 0; group < qkv_next_groups(&row->next); group++) {
        int64_t begin = group * QKV_GROUP, stop = begin + QKV_GROUP;
        double greatest = row->logits[begin];
        for (int64_t token = begin + 1; token < stop && token < row->next.classes; token++)
            if (row->logits[token] > greatest) greatest = row->logits[token];
        row->group_max[group] = greatest;
    }
}

/* Applies the constraints of the options to a row of `next`: returns a struct with only the changed row, valid until the
 * next call. */
static const struct qkv_next_scores *constrain(struct search *s, const struct qkv_next_scores *next,
                                               int64_t row)
{
    const struct qkv_search_options *options = s->options;
    for (int64_t token = 0; token < next->classes; token++)
        s->row.logits[token] = qkv_dtype_get(next->dtype, next->logits, row * next->classes + token);
    if (s->scored) s->row.sum = qkv_dtype_get(next->dtype, next->log_sum_exp, row);
    write_tokens(s, s->live[row].node, s->step, s->row.history);
    if (penalizes_repetition(options)) penalize_repetition(s, next, row);
    double end = s->row.logits[QKV_END];
    if (s->step < options->min_output_length) s->row.logits[QKV_END] = -HUGE_VAL;
    if (options->no_repeat_ngram > 0) exclude_repeated_ngrams(s, options->no_repeat_ngram);
    finish_row(s, end);
    return &s->row.next;
}

/* ---- greedy and beam search: the best tokens that may follow the hypotheses of a sentence ---- */

static double number_at(const struct qkv_next_scores *next, const void *values, int64_t i)
{
    return qkv_dtype_get(next->dtype, values, i);
}

/* Inserts a candidate into a sorted list of at most `capacity`; the earlier of equal candidates
 * comes first. */
static void insert(struct candidate *list, int64_t *count, int64_t capacity, struct candidate candidate)
{
    if (*count == capacity && !(candidate.log_probability > list[capacity - 1].log_probability)) return;
    int64_t i = *count < capacity ? (*count)++ : capacity - 1;
    for (; i > 0 && candidate.log_probability > list[i - 1].log_probability; i--) list[i] = list[i - 1];
    list[i] = candidate;
}

/* The log-probability of a row of the search, minus log sum exp of its logits; a continuation's log-probability is this plus
 * its logit. `at` is the number of the row in `next`. */
static double log_probability_so_far(const struct search *s, const struct qkv_next_scores *next, int64_t row,
                                     int64_t at)
{
    double so_far = s->live[row].log_probability;
    return s->scored ? so_far - number_at(next, next->log_sum_exp, at) : so_far;
}

/* Raises s->bounds, the greatest log-probabilities that groups of tokens reach, descending, by the groups of one row. Group
 * 0 is left out, because it contains <s> and <unk>, which are not chosen. */
static void raise_bounds(struct search *s, const struct qkv_next_scores *next, int64_t row, int64_t at)
{
    double so_far = log_probability_so_far(s, next, row, at), *bounds = s->bounds;
    int64_t last = s->capacity - 1, groups = qkv_next_groups(next);
    for (int64_t group = 1; group < groups; group++) {
        double value = so_far + number_at(next, next->group_max, at * groups + group);
        if (!(value > bounds[last])) continue;
        for (int64_t i = last; i > 0; i--) { /* in sorted order, without branches */
            double above = value < bounds[i - 1] ? value : bounds[i - 1];
            bounds[i] = above > bounds[i] ? above : bounds[i];
        }
        bounds[0] = value > bounds[0] ? value : bounds[0];
    }
}

/* A number that the float32 logit of a token reaches if so_far + logit reaches the bound; the margin is for rounding. */
static float least_logit(double so_far, double bound)
{
    return (float)(bound - so_far - 1e-6 * (fabs(bound) + fabs(so_far)));
}

/* The first token from `token` to stop - 1 whose logit is not below the least one, or stop. */
static inline int64_t next_reaching(const struct qkv_next_scores *next, int64_t at, int64_t token,
                                    int64_t stop, float least)
{
    if (next->dtype != QKV_FLOAT32) return token;
    const float *logits = (const float *)next->logits + at * next->classes;
    while (token < stop && logits[token] < least) token++;
    return token;
}

/* Inserts the best continuations of one row into s->candidates. `row` is its number in the search, `at` its number in
 * `next`. Skips the tokens below the last bound, since s->capacity others reach it. False if the scores of the row are not
 * finite. */
static bool insert_row(struct search *s, const struct qkv_next_scores *next, int64_t row, int64_t at,
                       int64_t *count)
{
    int64_t groups = qkv_next_groups(next);
    double so_far = log_probability_so_far(s, next, row, at), bound = s->bounds[s->capacity - 1];
    float least = least_logit(so_far, bound);
    if (!isfinite(so_far)) return false;
    for (int64_t group = 0; group < groups; group++) {
        double greatest = so_far + number_at(next, next->group_max, at * groups + group);
        bool is_full = *count == s->capacity;
        if (greatest < bound || (is_full && !(greatest > s->candidates[s->capacity - 1].log_probability)))
            continue;
        int64_t stop = (group + 1) * QKV_GROUP < next->classes ? (group + 1) * QKV_GROUP : next->classes;
        for (int64_t token = group * QKV_GROUP; (token = next_reaching(next, at, token, stop, least)) < stop;
             token++) {
            if (token == QKV_BEGIN || token == s->excluded) continue;
            double value = so_far + number_at(next, next->logits, at * next->classes + token);
            insert(s->candidates, count, s->capacity, (struct candidate){row, (int32_t)token, value});
        }
    }
    return true;
}

/* Stores the best continuations of rows first .. end-1, the rows of one sentence, in s->candidates
 * and returns their number: 1 in greedy search, else up to 2 * width; 0 if scores are not finite.
 *
 * Each of the at most s->width rows can end with </s> only once, so at least s->width of the 2 * s->width candidates
 * continue, unless constraints exclude tokens. */
static int64_t find_best(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = 0; i < s->capacity; i++) s->bounds[i] = -HUGE_VAL;
    for (int64_t row = first; row < end && !s->constrained; row++) raise_bounds(s, next, row, row);
    for (int64_t row = first; row < end; row++) {
        const struct qkv_next_scores *scores = s->constrained ? constrain(s, next, row) : next;
        int64_t at = s->constrained ? 0 : row;
        if (s->constrained) raise_bounds(s, scores, row, at);
        if (!insert_row(s, scores, row, at, &count)) return 0;
    }
    while (s->constrained && count && s->candidates[count - 1].log_probability <= -HUGE_VAL) count--;
    return count && isfinite(s->candidates[0].log_probability) ? count : 0;
}

/* ---- sampling: draws the next token of each hypothesis from the probabilities of the model ---- */

/* Random numbers are indexed by sentence and position: the low POSITION_BITS bits are the position in a sample, the bits
 * above are the number of the sentence. */
enum { POSITION_BITS = 20 };

static bool comes_before(const struct choice *a, const struct choice *b)
{
    return a->logit > b->logit || (!(a->logit < b->logit) && a->token < b->token);
}

/* Restores a heap below `at`: each choice comes before those at 2 i + 1 and 2 i + 2. */
static void sift_down(struct choice *heap, int64_t count, int64_t at)
{
    struct choice moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_before(&heap[child + 1], &heap[child])) child++;
        if (!comes_before(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Removes the best choice from a heap of `count` choices and stores it after the others. */
static const struct choice *take_best(struct choice *heap, int64_t count)
{
    struct choice best = heap[0];
    heap[0] = heap[count - 1];
    sift_down(heap, count - 1, 0);
    heap[count - 1] = best;
    return &heap[count - 1];
}

/* Keeps the `top_k` best of `count` choices, and of these only the smallest set of best choices that has at least `top_p`
 * of their total weight (nucleus sampling, Holtzman et al. 2020). Moves them to the end of the array, best last, and
 * returns their number. */
static int64_t keep_best(struct choice *choices, int64_t count, int64_t top_k, double top_p)
{
    int64_t max = top_k && top_k < count ? top_k : count, kept = 0;
    double total = 0, nucleus = 0;
    for (int64_t i = count / 2 - 1; i >= 0; i--) sift_down(choices, count, i);
    if (max < count) /* the weight of the nucleus counts only the `max` best */
        for (; kept < max; kept++) total += take_best(choices, count - kept)->weight;
    else
        for (int64_t i = 0; i < count; i++) total += choices[i].weight;
    if (top_p >= 1) return max;
    for (int64_t i = 0; i < max; i++) {
        const struct choice *next = max < count ? &choices[count - 1 - i] : take_best(choices, count - i);
        nucleus += next->weight;
        if (nucleus >= top_p * total) return i + 1;
    }
    return max;
}

/* Stores the tokens that may follow a row in s->choices and returns their number; 0 if scores are not finite. `at`:
 * number of the row in `next`. */
static int64_t find_choices(struct search *s, const struct qkv_next_scores *next, int64_t at)
{
    double greatest = -HUGE_VAL, temperature = s->options->sampling.temperature;
    int64_t count = 0;
    for (int64_t token = 0; token < next->classes; token++) {
        double logit = qkv_dtype_get(next->dtype, next->logits, at * next->classes + token);
        if (token == QKV_BEGIN || token == s->excluded || logit <= -HUGE_VAL) continue;
        if (!isfinite(logit)) return 0;
        if (logit > greatest) greatest = logit;
        s->choices[count++] = (struct choice){logit, 0, (int32_t)token};
    }
    for (int64_t i = 0; i < count; i++)
        s->choices[i].weight = qkv_scalar_exp((s->choices[i].logit - greatest) / temperature);
    return count;
}

/* Draws a choice with a probability in proportion to its weight. */
static const struct choice *draw(const struct choice *choices, int64_t count, double uniform)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) total += choices[i].weight;
    const struct choice *drawn = NULL;
    for (int64_t i = 0; i < count; i++) {
        if (!(choices[i].weight > 0)) continue;
        drawn = &choices[i];
        sum += drawn->weight;
        if (sum > uniform * total) break;
    }
    return drawn;
}

static double random_number(const struct search *s, const struct live *live)
{
    const struct qkv_search_options *options = s->options;
    const struct qkv_random random = {options->sampling.seed, QKV_STREAM_SAMPLE, (uint32_t)live->sample};
    uint64_t number = (uint64_t)(options->numbers ? options->numbers[live->sentence] : live->sentence);
    return qkv_random_uniform(random, number << POSITION_BITS | (uint64_t)s->step);
}

/* Stores one candidate for each of these rows, drawn at random, and returns their number; 0 if scores are
 * not finite. */
static int64_t draw_candidates(struct search *s, const struct qkv_next_scores *next, int64_t first,
                               int64_t end)
{
    const struct qkv_sampling_options *sampling = &s->options->sampling;
    for (int64_t row = first; row < end; row++) {
        const struct qkv_next_scores *scores = s->constrained ? constrain(s, next, row) : next;
        int64_t at = s->constrained ? 0 : row, count = find_choices(s, scores, at), kept = count;
        if (!count) return 0;
        if ((sampling->top_k > 0 && sampling->top_k < count) || sampling->top_p < 1)
            kept = keep_best(s->choices, count, sampling->top_k, sampling->top_p);
        const struct choice *drawn = draw(s->choices + count - kept, kept, random_number(s, &s->live[row]));
        double log_probability = 0;
        if (s->scored)
            log_probability = s->live[row].log_probability + drawn->logit -
                              qkv_dtype_get(scores->dtype, scores->log_sum_exp, at);
        if (!isfinite(log_probability)) return 0;
        s->candidates[row - first] = (struct candidate){row, drawn->token, log_probability};
    }
    return end - first;
}

/* ---- one sentence at one step ---- */

/* Makes room for a finished hypothesis with this score in the sorted list of its sentence, and returns its place; -1 if the
 * list is full and none of its hypotheses is worse. */
static int64_t find_place(struct search *s, struct progress *progress, struct qkv_hypothesis *list,
                          double score)
{
    int64_t capacity = s->width;
    if (progress->finished == capacity && !(score > list[capacity - 1].score)) return -1;
    int64_t i = progress->finished < capacity ? progress->finished++ : capacity - 1;
    for (; i > 0 && score > list[i - 1].score; i--) list[i] = list[i - 1];
    return i;
}

/* Adds a hypothesis to the finished ones of its sentence, if it is among the s->width best; samples are always added.
 * length: tokens without </s>. ended: whether it ends with </s>. False when memory runs out. */
static bool finish(struct search *s, const struct live *live, int64_t length, double log_probability,
                   bool ended)
{
    struct progress *progress = &s->progress[live->sentence];
    struct qkv_hypothesis *list = s->done + live->sentence * s->width;
    double score = log_probability / penalty(s, length + ended);
    int64_t place = live->sample;
    if (s->options->sampling.enabled)
        progress->finished++;
    else
        place = find_place(s, progress, list, score);
    if (place < 0) return true;
    int32_t *ids = qkv_arena_array(s->arena, length, sizeof *ids);
    if (ids) write_tokens(s, live->node, length, ids);
    list[place] = (struct qkv_hypothesis){length, ids, log_probability, score, ended};
    return ids != NULL;
}

/* Whether the list of finished hypotheses of a sentence is final: it is full, and its last score is at least what the
 * best live hypothesis can still reach. That bound is its log-probability, which can only fall, divided by the
 * greatest penalty, that of the greatest length: log-probabilities are negative, so dividing by more gives a
 * higher score. Greedy search ends at the first </s>. A list of samples is never final while one of them is live. */
static bool is_settled(const struct search *s, const struct live *best)
{
    const struct progress *progress = &s->progress[best->sentence];
    const struct qkv_hypothesis *list = s->done + best->sentence * s->width;
    if (s->options->sampling.enabled || progress->finished < s->width) return false;
    return s->width == 1 ||
           list[s->width - 1].score >= best->log_probability / penalty(s, progress->max_length);
}

static enum qkv_status not_finite(struct qkv_error *error)
{
    qkv_error_set(error, "the model's scores of the next token are not finite: its weights are too large, or "
                         "infinity or NaN");
    return QKV_FAILED;
}

/* Stores the next token of the prefix as the one candidate of each row. Returns their number; 0 if scores are not
 * finite. */
static int64_t force(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end)
{
    const struct qkv_ids *prefix = &s->progress[s->live[first].sentence].prefix;
    for (int64_t row = first; row < end; row++) {
        int32_t token = prefix->ids[s->step];
        double log_probability =
            s->scored ? s->live[row].log_probability + qkv_next_log_probability(next, row, token) : 0;
        if (!isfinite(log_probability)) return 0;
        s->candidates[row - first] = (struct candidate){row, token, log_probability};
    }
    return end - first;
}

/* Stores what may follow the rows of one sentence in s->candidates, best first, and returns their number; 0 if scores
 * are not finite. */
static int64_t find_candidates(struct search *s, const struct qkv_next_scores *next, int64_t first,
                               int64_t end)
{
    if (s->step < s->progress[s->live[first].sentence].prefix.length) return force(s, next, first, end);
    int64_t count =
        s->options->sampling.enabled ? draw_candidates(s, next, first, end) : find_best(s, next, first, end);
    for (int64_t i = 0; !s->scored && i < count; i++) s->candidates[i].log_probability = 0;
    return count;
}

/* At the greatest length only </s> may follow. Finishes, without </s>, the rows first .. end-1 for which </s> is
 * not among the best `count` candidates. False when memory runs out. */
static bool cut_rows(struct search *s, int64_t first, int64_t end, int64_t count)
{
    for (int64_t row = first; row < end; row++) {
        const struct live *live = &s->live[row];
        bool ended = false;
        for (int64_t i = 0; i < count; i++)
            ended = ended || (s->candidates[i].row == row && is_end(s, s->candidates[i].token));
        if (!ended && !finish(s, live, s->step, live->log_probability, false)) return false;
    }
    return true;
}

/* Makes the best of the `count` candidates, at most s->width that do not end with </s>, the next rows of their
 * sentence. */
static void continue_rows(struct search *s, int64_t count)
{
    int64_t limit = s->next_rows + s->width;
    for (int64_t i = 0; i < count && s->next_rows < limit; i++) {
        const struct candidate *c = &s->candidates[i];
        const struct live *live = &s->live[c->row];
        if (is_end(s, c->token)) continue;
        if (s->options->token && s->step >= s->progress[live->sentence].prefix.length)
            s->options->token(s->options->context, c->token);
        s->nodes[s->node_count] = (struct node){live->node, c->token};
        s->parents[s->next_rows] = c->row;
        s->continued[s->next_rows++] =
            (struct live){live->sentence, s->node_count++, c->log_probability, live->sample};
    }
}

/* Advances one sentence, whose rows are first .. end-1: finishes hypotheses and chooses the next rows. Only the s->width
 * best candidates may finish; the others replace them among the next rows. */
static enum qkv_status advance_sentence(struct search *s, const struct qkv_next_scores *next, int64_t first,
                                        int64_t end, struct qkv_error *error)
{
    int64_t begin = s->next_rows, count = find_candidates(s, next, first, end);
    int64_t best_count = count < s->width ? count : s->width;
    if (!count) return not_finite(error);
    for (int64_t i = 0; i < best_count; i++) {
        const struct candidate *c = &s->candidates[i];
        if (is_end(s, c->token) && !finish(s, &s->live[c->row], s->step, c->log_probability, true))
            return qkv_no_memory(error);
    }
    if (s->step + 1 >= s->progress[s->live[first].sentence].max_length)
        return cut_rows(s, first, end, best_count) ? QKV_OK : qkv_no_memory(error);
    continue_rows(s, count);
    if (s->next_rows > begin && is_settled(s, &s->continued[begin])) s->next_rows = begin;
    return QKV_OK;
}

/* One step of the decoder. Sentences without live hypotheses leave the batch. */
static enum qkv_status advance(struct search *s, struct qkv_error *error)
{
    for (int64_t i = 0; i < s->rows; i++) {
        int32_t first = s->options->first ? s->options->first[s->live[i].sentence] : QKV_BEGIN;
        s->ids[i] = s->step ? s->nodes[s->live[i].node].token : first;
        s->sentence_of[i] = s->live[i].sentence;
    }
    const struct qkv_next_scores *next =
        qkv_decoding_step(s->decoding, s->rows, s->ids, s->sentence_of, error);
    if (!next) return QKV_INVALID;
    s->next_rows = 0;
    for (int64_t first = 0, end; first < s->rows; first = end) {
        for (end = first + 1; end < s->rows && s->live[end].sentence == s->live[first].sentence; end++)
            continue;
        enum qkv_status status = advance_sentence(s, next, first, end, error);
        if (status) return status;
    }
    qkv_decoding_reorder(s->decoding, s->next_rows, s->parents);
    struct live *previous = s->live;
    s->live = s->continued;
    s->continued = previous;
    s->rows = s->next_rows;
    s->step++;
    return QKV_OK;
}

/* ---- setting up ---- */

/* Allocates s->row, for C tokens and hypotheses of `length` tokens. */
static void allocate_row(struct search *s, int64_t classes, int64_t length)
{
    struct constrained_row *row = &s->row;
    row->next = (struct qkv_next_scores){.dtype = QKV_FLOAT64, .rows = 1, .classes = classes};
    row->logits = qkv_arena_array(s->arena, classes, sizeof *row->logits);
    row->group_max =
        qkv_arena_allocate(s->arena, (size_t)qkv_next_groups(&row->next) * sizeof *row->group_max);
    row->history = qkv_arena_array(s->arena, length, sizeof *row->history);
    row->next.logits = row->logits;
    row->next.group_max = row->group_max;
    row->next.log_sum_exp = &row->sum;
}

static void allocate(struct search *s, int64_t longest)
{
    int64_t rows = s->sentences * s->width, classes = s->decoding->model->target_size;
    s->nodes = qkv_arena_array(s->arena, rows * longest + 1, sizeof *s->nodes);
    s->done = qkv_arena_zeros(s->arena, rows, sizeof *s->done);
    s->live = qkv_arena_array(s->arena, rows, sizeof *s->live);
    s->continued = qkv_arena_array(s->arena, rows, sizeof *s->continued);
    s->candidates = qkv_arena_allocate(s->arena, 2 * (size_t)s->width * sizeof *s->candidates);
    s->bounds = qkv_arena_array(s->arena, s->capacity, sizeof *s->bounds);
    s->ids = qkv_arena_array(s->arena, rows, sizeof *s->ids);
    s->sentence_of = qkv_arena_array(s->arena, rows, sizeof *s->sentence_of);
    s->parents = qkv_arena_array(s->arena, rows, sizeof *s->parents);
    if (s->constrained) allocate_row(s, classes, longest);
    if (s->options->sampling.enabled) s->choices = qkv_arena_array(s->arena, classes, sizeof *s->choices);
}

/* Refuses a sentence number that is out of range: its samples would be those of another sentence. */
static enum qkv_status check_number(const struct search *s, int64_t sentence, struct qkv_error *error)
{
    const int64_t max = ((int64_t)1 << 44) - 1,
                  number = s->options->numbers ? s->options->numbers[sentence] : 0;
    if (number >= 0 && number <= max) return QKV_OK;
    return qkv_error_set(error, "the number of a sentence is %lld, but must be between 0 and %lld",
                         (long long)number, (long long)max);
}

/* Refuses a prefix with a token that no translation has, or that leaves no room for </s>. */
static enum qkv_status check_prefix(const struct search *s, int64_t sentence, struct qkv_error *error)
{
    const struct progress *progress = &s->progress[sentence];
    const struct qkv_ids *prefix = &progress->prefix;
    int64_t number = s->options->numbers ? s->options->numbers[sentence] : sentence;
    if (prefix->length < 0 || prefix->length >= progress->max_length)
        return qkv_error_set(
            error, "sentence %lld: its prefix has %lld tokens, but a translation has at most %lld",
            (long long)number, (long long)prefix->length, (long long)progress->max_length - 1);
    for (int64_t i = 0; i < prefix->length; i++) {
        int32_t id = prefix->ids[i];
        if (id < 0 || id >= s->decoding->model->target_size || id == QKV_BEGIN || is_end(s, id))
            return qkv_error_set(error, "sentence %lld: its prefix holds the id %d, which is no word",
                                 (long long)number, (int)id);
    }
    return QKV_OK;
}

/* Sets the prefix of a sentence and the greatest length of its translations, in tokens with </s>; the decoder
 * needs a position for each. */
static enum qkv_status set_progress(const struct search *s, int64_t sentence, int64_t source_length,
                                    struct qkv_error *error)
{
    const struct qkv_search_options *options = s->options;
    struct progress *progress = &s->progress[sentence];
    if (options->prefixes) progress->prefix = options->prefixes[sentence];
    int64_t possible = s->decoding->max_length;
    int64_t given = progress->prefix.length < possible ? progress->prefix.length : possible;
    const double old[2] = {2, 10}, *limit = options->length_limit;
    if (limit[0] <= 0 && limit[1] <= 0) limit = old;
    int64_t usual = (int64_t)fmin(ceil(limit[0] * (double)(source_length - 1) + limit[1]), 1e9) + given,
            least = options->min_output_length + 10;
    int64_t tokens = options->max_output_length ? options->max_output_length : usual > least ? usual : least;
    progress->max_length = tokens < possible ? tokens + 1 : possible;
    if (check_number(s, sentence, error)) return QKV_INVALID;
    return check_prefix(s, sentence, error);
}

/* ---- the search ---- */

/* Encodes the batch and makes the first rows: one for each sentence, or one for each of its samples. */
static enum qkv_status start(struct search *s, const struct qkv_batch_view *batch, struct qkv_error *error)
{
    int64_t longest = 0, first_rows = s->options->sampling.enabled ? s->width : 1;
    s->progress = qkv_arena_zeros(s->arena, batch->count, sizeof *s->progress);
    if (!s->progress) return qkv_no_memory(error);
    for (int64_t i = 0; i < batch->count; i++) {
        if (set_progress(s, i, batch->source_length[i], error)) return QKV_INVALID;
        if (s->progress[i].max_length > longest) longest = s->progress[i].max_length;
    }
    if (qkv_decoding_start(s->decoding, batch, batch->count * s->width, longest, s->scored, error))
        return QKV_INVALID;
    allocate(s, longest);
    if (s->arena->failed) return qkv_no_memory(error);
    for (int64_t i = 0; i < batch->count * first_rows; i++)
        s->live[s->rows++] = (struct live){i / first_rows, -1, 0, i % first_rows};
    return QKV_OK;
}

enum qkv_status qkv_search(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                           const struct qkv_search_options *options, struct qkv_translations *translations,
                           struct qkv_error *error)
{
    const bool samples = options->sampling.enabled;
    struct search s = {
        .options = options,
        .decoding = decoding,
        .width = samples ? options->n_best : options->beam_size,
        .sentences = batch->count,
        .capacity = options->beam_size > 1 ? 2 * options->beam_size : 1,
        .scored = (!samples && options->beam_size > 1) || !options->skip_scores,
        .constrained = is_constrained(options),
        .excluded = options->allow_unknown ? QKV_BEGIN : QKV_UNKNOWN,
        .arena = &translations->arena,
    };
    qkv_arena_reset(s.arena);
    *translations = (struct qkv_translations){.arena = translations->arena};
    if (qkv_search_options_check(options, error) || qkv_batch_view_check(batch, false, error))
        return QKV_INVALID;
    translations->count = batch->count;
    translations->best = qkv_arena_zeros(s.arena, batch->count * options->n_best, sizeof *translations->best);
    if (!translations->best) return qkv_no_memory(error);
    if (batch->count == 0) return QKV_OK;
    enum qkv_status status = start(&s, batch, error);
    while (!status && s.rows > 0)
        if (!(status = qkv_check_interrupt(error))) status = advance(&s, error);
    if (status) return status;
    for (int64_t i = 0; i < batch->count; i++)
        for (int64_t k = 0; k < options->n_best && k < s.progress[i].finished; k++)
            translations->best[i * options->n_best + k] = s.done[i * s.width + k];
    return QKV_OK;
}

void qkv_translations_release(struct qkv_translations *translations)
{
    qkv_arena_release(&translations->arena);
    *translations = (struct qkv_translations){0};
}
