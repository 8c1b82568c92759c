#include "qkv/search.h"

#include "models/network.h"

#include "qkv/scalar_math.h"
#include "qkv/vocabulary.h"

#include <math.h>
#include <string.h>

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
};

/* A token that may follow a row. */
struct candidate {
    int64_t row;
    int32_t token;
    double log_probability;
};

/* The state of one sentence. */
struct progress {
    int64_t longest;  /* greatest length of its translations, in tokens with </s> */
    int64_t finished; /* hypotheses in its list of finished ones */
};

struct search {
    const struct qkv_search_options *options;
    struct qkv_decoding *decoding;
    int64_t sentences, step;
    bool scored;                 /* false: greedy search by logits; log-probabilities stay 0 */
    struct progress *progress;   /* [sentences] */
    struct qkv_hypothesis *done; /* [sentences * beam]: finished hypotheses of each sentence, best first */
    struct node *nodes;
    int64_t node_count, node_capacity;
    struct live *live,
        *continued; /* rows of this step and of the next; those of a sentence are consecutive */
    int64_t rows, next_rows;
    struct candidate *candidates; /* [2 * beam] */
    int32_t *ids;                 /* [rows]: token that each row feeds to qkv_decoding_step */
    int64_t *sentence_of;         /* [rows] */
    int64_t *parents;             /* [next_rows], for qkv_decoding_reorder */
    struct qkv_arena *arena;
};

static double penalty(const struct search *search, int64_t length)
{
    return qkv_scalar_power((5.0 + (double)length) / 6.0, search->options->length_penalty);
}

static double number_at(const struct qkv_next_scores *next, const void *values, int64_t i)
{
    return qkv_dtype_get(next->dtype, values, i);
}

/* ---- setting up ---- */

static bool allocate(struct search *s)
{
    int64_t beam = s->options->beam_size, rows = s->sentences * beam;
    int64_t longest = 0;
    for (int64_t i = 0; i < s->sentences; i++)
        if (s->progress[i].longest > longest) longest = s->progress[i].longest;
    s->node_capacity = rows * longest + 1;
    s->nodes = qkv_arena_allocate(s->arena, (size_t)s->node_capacity * sizeof *s->nodes);
    s->done = qkv_arena_zeroed(s->arena, (size_t)rows * sizeof *s->done);
    s->live = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->live);
    s->continued = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->continued);
    s->candidates = qkv_arena_allocate(s->arena, 2 * (size_t)beam * sizeof *s->candidates);
    s->ids = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->ids);
    s->sentence_of = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->sentence_of);
    s->parents = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->parents);
    return s->nodes && s->done && s->live && s->continued && s->candidates && s->ids && s->sentence_of &&
           s->parents;
}

/* The greatest length of a translation, in tokens with </s>; the decoder needs a position for each.
 */
static int64_t longest_output(const struct search *s, int64_t source_length)
{
    int64_t tokens =
        s->options->max_output_length ? s->options->max_output_length : 2 * (source_length - 1) + 10;
    int64_t possible = qkv_stack_longest(&s->decoding->model->config.decoder);
    return tokens < possible ? tokens + 1 : possible;
}

/* ---- one sentence at one step ---- */

/* Inserts a candidate into a sorted list of at most `capacity`; the earlier of equal candidates
 * comes first. */
static void insert(struct candidate *list, int64_t *count, int64_t capacity, struct candidate candidate)
{
    if (*count == capacity && !(candidate.log_probability > list[capacity - 1].log_probability)) return;
    int64_t i = *count < capacity ? (*count)++ : capacity - 1;
    for (; i > 0 && candidate.log_probability > list[i - 1].log_probability; i--) list[i] = list[i - 1];
    list[i] = candidate;
}

/* The first group of tokens that has the greatest logit of the row. */
static int64_t best_group(const struct qkv_next_scores *next, int64_t row)
{
    int64_t groups = qkv_next_groups(next), best = 0;
    double greatest = number_at(next, next->group_max, row * groups);
    for (int64_t group = 1; group < groups; group++) {
        double other = number_at(next, next->group_max, row * groups + group);
        if (!(other > greatest)) continue;
        greatest = other;
        best = group;
    }
    return best;
}

/* Stores the best continuations of rows first .. end-1, the rows of one sentence, in s->candidates
 * and returns their number: 1 in greedy search, else up to 2 * beam; 0 if scores are not finite. Each of the at most `beam`
 * rows can end with </s> only once, so at least `beam` of the 2 * beam candidates continue. Skips
 * groups of tokens whose greatest logit is too small. */
static int64_t best_candidates(struct search *s, const struct qkv_next_scores *next, int64_t first,
                               int64_t end)
{
    bool greedy = s->options->beam_size == 1;
    int64_t count = 0, capacity = greedy ? 1 : 2 * s->options->beam_size, groups = qkv_next_groups(next);
    for (int64_t row = first; row < end; row++) {
        double so_far = s->live[row].log_probability;
        if (s->scored) so_far -= number_at(next, next->sums, row);
        if (!isfinite(so_far)) return 0;
        /* Greedy search reads only the best group, unless that is group 0: it has <s> and the unknown
         * word, which are never chosen, so the best other token may be in any group. */
        int64_t best = greedy ? best_group(next, row) : 0, last_group = best ? best : groups - 1;
        for (int64_t group = best; group <= last_group; group++) {
            if (count == capacity && !(so_far + number_at(next, next->group_max, row * groups + group) >
                                       s->candidates[capacity - 1].log_probability))
                continue;
            int64_t begin = group * QKV_GROUP, stop = begin + QKV_GROUP;
            for (int64_t token = begin; token < stop && token < next->classes; token++) {
                if (token == QKV_BEGIN || token == QKV_UNKNOWN) continue;
                double value = so_far + number_at(next, next->logits, row * next->classes + token);
                insert(s->candidates, &count, capacity, (struct candidate){row, (int32_t)token, value});
            }
        }
    }
    return count && isfinite(s->candidates[0].log_probability) ? count : 0;
}

static const int32_t *collect_ids(struct search *s, int64_t node, int64_t length)
{
    int32_t *ids = qkv_arena_allocate(s->arena, (size_t)length * sizeof *ids);
    for (int64_t i = length - 1; ids && i >= 0; i--, node = s->nodes[node].parent)
        ids[i] = s->nodes[node].token;
    return ids;
}

/* Adds a hypothesis to the finished ones of its sentence, if it is among the `beam` best. ended:
 * with </s>. False when memory is out. */
static bool finish(struct search *s, int64_t sentence, int64_t node, int64_t length, double log_probability,
                   bool ended)
{
    struct progress *progress = &s->progress[sentence];
    struct qkv_hypothesis *list = s->done + sentence * s->options->beam_size;
    double score = log_probability / penalty(s, length + ended);
    int64_t capacity = s->options->beam_size;
    if (progress->finished == capacity && !(score > list[capacity - 1].score)) return true;
    const int32_t *ids = collect_ids(s, node, length);
    if (!ids) return false;
    int64_t i = progress->finished < capacity ? progress->finished++ : capacity - 1;
    for (; i > 0 && score > list[i - 1].score; i--) list[i] = list[i - 1];
    list[i] = (struct qkv_hypothesis){length, ids, log_probability, score, ended};
    return true;
}

/* Whether the list of finished hypotheses is final: it is full, and its last score is at least what the best
 * live hypothesis can still reach. That bound is its log-probability, which can only fall, divided by the
 * greatest penalty, that of the greatest length: log-probabilities are negative, so dividing by more gives a
 * higher score. Greedy search ends at the first </s>. */
static bool is_settled(const struct search *s, int64_t sentence, double best_live)
{
    const struct progress *progress = &s->progress[sentence];
    int64_t beam = s->options->beam_size;
    if (progress->finished < beam) return false;
    return beam == 1 ||
           s->done[sentence * beam + beam - 1].score >= best_live / penalty(s, progress->longest);
}

/* At the greatest length only </s> may follow. Finishes, without </s>, the rows for which </s> is
 * not among the `beam` best candidates. */
static bool cut_rows(struct search *s, int64_t first, int64_t end, int64_t candidates)
{
    int64_t beam = s->options->beam_size, considered = candidates < beam ? candidates : beam;
    for (int64_t row = first; row < end; row++) {
        const struct live *live = &s->live[row];
        bool ended = false;
        for (int64_t i = 0; i < considered; i++)
            ended = ended || (s->candidates[i].row == row && s->candidates[i].token == QKV_END);
        if (!ended && !finish(s, live->sentence, live->node, s->step, live->log_probability, false))
            return false;
    }
    return true;
}

static enum qkv_status out_of_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory while searching");
}

/* Chooses the next rows of one sentence, whose rows are first .. end-1. */
static enum qkv_status advance_sentence(struct search *s, const struct qkv_next_scores *next, int64_t first,
                                        int64_t end, struct qkv_error *error)
{
    int64_t sentence = s->live[first].sentence, beam = s->options->beam_size, begin = s->next_rows;
    int64_t count = best_candidates(s, next, first, end);
    if (!count) {
        qkv_error_set(error,
                      "the model's scores of the next token are not finite: its weights are too large, or "
                      "infinity or NaN");
        return QKV_FAILED;
    }
    for (int64_t i = 0; !s->scored && i < count; i++) s->candidates[i].log_probability = 0;
    bool last = s->step + 1 >= s->progress[sentence].longest;
    for (int64_t i = 0; i < count && s->next_rows - begin < beam; i++) {
        struct candidate c = s->candidates[i];
        int64_t node = s->live[c.row].node;
        if (c.token == QKV_END) {
            if (i < beam && !finish(s, sentence, node, s->step, c.log_probability, true))
                return out_of_memory(error);
            continue;
        }
        if (last) continue;
        s->nodes[s->node_count] = (struct node){node, c.token};
        s->parents[s->next_rows] = c.row;
        s->continued[s->next_rows++] = (struct live){sentence, s->node_count++, c.log_probability};
    }
    if (last) return cut_rows(s, first, end, count) ? QKV_OK : out_of_memory(error);
    if (s->next_rows > begin && is_settled(s, sentence, s->continued[begin].log_probability))
        s->next_rows = begin;
    return QKV_OK;
}

/* One step of the decoder. Sentences without live hypotheses leave the batch. */
static enum qkv_status advance(struct search *s, struct qkv_error *error)
{
    for (int64_t i = 0; i < s->rows; i++) {
        s->ids[i] = s->step ? s->nodes[s->live[i].node].token : QKV_BEGIN;
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

/* ---- the search ---- */

enum qkv_status qkv_search_options_check(const struct qkv_search_options *options, struct qkv_error *error)
{
    if (options->beam_size < 1 || options->beam_size > QKV_BEAM_MOST)
        return qkv_error_set(error, "beam_size is %lld, but must be between 1 and %d",
                             (long long)options->beam_size, QKV_BEAM_MOST);
    if (options->n_best < 1 || options->n_best > options->beam_size)
        return qkv_error_set(error, "n_best is %lld, but must be between 1 and beam_size (%lld)",
                             (long long)options->n_best, (long long)options->beam_size);
    if (options->max_output_length < 0)
        return qkv_error_set(error, "max_output_length is %lld, but must be 0 or more",
                             (long long)options->max_output_length);
    if (options->length_penalty >= 0 && isfinite(options->length_penalty)) return QKV_OK;
    return qkv_error_set(error, "length_penalty is %g, but must be 0 or more, and finite",
                         options->length_penalty);
}

enum qkv_status qkv_search(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                           const struct qkv_search_options *options, struct qkv_translations *translations,
                           struct qkv_error *error)
{
    struct search s = {
        .options = options,
        .decoding = decoding,
        .sentences = batch->count,
        .scored = options->beam_size > 1 || !options->unscored,
        .arena = &translations->arena,
    };
    int64_t beam = options->beam_size, longest = 0;
    qkv_arena_reset(s.arena);
    *translations = (struct qkv_translations){.arena = translations->arena};
    if (qkv_search_options_check(options, error)) return QKV_INVALID;
    translations->count = batch->count;
    translations->best =
        qkv_arena_zeroed(s.arena, (size_t)(batch->count * options->n_best) * sizeof *translations->best);
    s.progress = qkv_arena_zeroed(s.arena, (size_t)batch->count * sizeof *s.progress);
    if (!translations->best || !s.progress) return out_of_memory(error);
    if (batch->count == 0) return QKV_OK;
    for (int64_t i = 0; i < batch->count; i++) {
        s.progress[i].longest = longest_output(&s, batch->source_length[i]);
        if (s.progress[i].longest > longest) longest = s.progress[i].longest;
    }
    if (qkv_decoding_start(decoding, batch, batch->count * beam, longest, s.scored, error))
        return QKV_INVALID;
    if (!allocate(&s)) return out_of_memory(error);
    for (int64_t i = 0; i < batch->count; i++) s.live[s.rows++] = (struct live){i, -1, 0};
    while (s.rows > 0) {
        enum qkv_status status = advance(&s, error);
        if (status) return status;
    }
    for (int64_t i = 0; i < batch->count; i++)
        for (int64_t k = 0; k < options->n_best && k < s.progress[i].finished; k++)
            translations->best[i * options->n_best + k] = s.done[i * beam + k];
    return QKV_OK;
}

void qkv_translations_release(struct qkv_translations *translations)
{
    qkv_arena_release(&translations->arena);
    *translations = (struct qkv_translations){0};
}
