#include "qkv/search.h"

#include "models/network.h"

#include "qkv/vocabulary.h"

#include <math.h>
#include <string.h>

/* Tokens of all hypotheses as a tree: a hypothesis is a leaf, its tokens the way to the root. */
struct node {
    int64_t parent; /* -1: <s> */
    int32_t token;
};

/* A hypothesis that goes on: one row of the decoder. */
struct live {
    int64_t sentence, node;
    double log_probability;
};

/* One token behind one row. */
struct candidate {
    int64_t row;
    int32_t token;
    double log_probability;
};

/* Where a sentence stands. */
struct progress {
    int64_t longest;  /* tokens that it may have */
    int64_t finished; /* entries of its list, best first */
};

struct search {
    const struct qkv_search_options *options;
    struct qkv_decoding *decoding;
    int64_t sentences, step;
    bool scored;                 /* else the greatest logit decides, and log-probabilities stay 0 */
    struct progress *progress;   /* [sentences] */
    struct qkv_hypothesis *done; /* [sentences * beam] */
    struct node *nodes;
    int64_t node_count, node_room;
    struct live *live, *next; /* rows of this step and of the next; a sentence's rows stand together */
    int64_t rows, next_rows;
    struct candidate *candidates; /* [2 beam] */
    int32_t *ids;
    int64_t *sentence_of, *parents;
    struct qkv_arena *arena;
};

static double penalty(const struct search *search, int64_t length)
{
    return pow((5.0 + (double)length) / 6.0, search->options->length_penalty);
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
    s->node_room = rows * longest + 1;
    s->nodes = qkv_arena_allocate(s->arena, (size_t)s->node_room * sizeof *s->nodes);
    s->done = qkv_arena_zeroed(s->arena, (size_t)rows * sizeof *s->done);
    s->live = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->live);
    s->next = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->next);
    s->candidates = qkv_arena_allocate(s->arena, 2 * (size_t)beam * sizeof *s->candidates);
    s->ids = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->ids);
    s->sentence_of = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->sentence_of);
    s->parents = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->parents);
    return s->nodes && s->done && s->live && s->next && s->candidates && s->ids && s->sentence_of &&
           s->parents;
}

/* The most tokens a translation may have, </s> counted: the decoder reads one behind the other, from <s> on.
 */
static int64_t longest_output(const struct search *s, int64_t source_length)
{
    int64_t words =
        s->options->max_output_length ? s->options->max_output_length : 2 * (source_length - 1) + 10;
    int64_t wanted = words + 1, possible = qkv_stack_longest(&s->decoding->model->config.decoder);
    return wanted < possible ? wanted : possible;
}

/* ---- one sentence at one step ---- */

/* Puts a candidate into the sorted list of at most `room`; equal ones keep the order in which they came. */
static void insert(struct candidate *list, int64_t *count, int64_t room, struct candidate candidate)
{
    if (*count == room && !(candidate.log_probability > list[room - 1].log_probability)) return;
    int64_t i = *count < room ? (*count)++ : room - 1;
    for (; i > 0 && candidate.log_probability > list[i - 1].log_probability; i--) list[i] = list[i - 1];
    list[i] = candidate;
}

/* The first run of the row's tokens that holds the greatest logit. */
static int64_t greatest_run(const struct qkv_next_scores *next, int64_t row)
{
    int64_t runs = qkv_next_groups(next), greatest = 0;
    double peak = number_at(next, next->group_max, row * runs);
    for (int64_t run = 1; run < runs; run++) {
        double other = number_at(next, next->group_max, row * runs + run);
        if (!(other > peak)) continue;
        peak = other;
        greatest = run;
    }
    return greatest;
}

/* The best continuations of the rows first .. end-1: of 2 beam there are `beam` that go on, even when as many
 * end; greedy search takes the best, whatever it is. Of most runs of tokens none could enter the list, which
 * the greatest of them tells. */
static int64_t best_candidates(struct search *s, const struct qkv_next_scores *next, int64_t first,
                               int64_t end)
{
    bool greedy = s->options->beam_size == 1;
    int64_t count = 0, room = greedy ? 1 : 2 * s->options->beam_size, runs = qkv_next_groups(next);
    for (int64_t row = first; row < end; row++) {
        double so_far = s->live[row].log_probability;
        if (s->scored) so_far -= number_at(next, next->sums, row);
        /* Run 0 has tokens that are passed over: if it holds the greatest logit, that says nothing. */
        int64_t only = greedy ? greatest_run(next, row) : 0;
        for (int64_t run = only; run < (only ? only + 1 : runs); run++) {
            if (count == room && !(so_far + number_at(next, next->group_max, row * runs + run) >
                                   s->candidates[room - 1].log_probability))
                continue;
            int64_t begin = run * QKV_GROUP, stop = begin + QKV_GROUP;
            for (int64_t token = begin; token < stop && token < next->classes; token++) {
                if (token == QKV_BEGIN || token == QKV_UNKNOWN) continue; /* never words of a translation */
                double value = so_far + number_at(next, next->logits, row * next->classes + token);
                insert(s->candidates, &count, room, (struct candidate){row, (int32_t)token, value});
            }
        }
    }
    return count;
}

static const int32_t *collect_ids(struct search *s, int64_t node, int64_t length)
{
    int32_t *ids = qkv_arena_allocate(s->arena, (size_t)length * sizeof *ids);
    for (int64_t i = length - 1; ids && i >= 0; i--, node = s->nodes[node].parent)
        ids[i] = s->nodes[node].token;
    return ids;
}

/* Files a hypothesis that has ended, if it is among the sentence's best. False when memory is out. */
static bool finish(struct search *s, int64_t sentence, int64_t node, int64_t length, double log_probability,
                   bool ended)
{
    struct progress *progress = &s->progress[sentence];
    struct qkv_hypothesis *list = s->done + sentence * s->options->beam_size;
    double score = log_probability / penalty(s, length + ended);
    int64_t room = s->options->beam_size;
    if (progress->finished == room && !(score > list[room - 1].score)) return true;
    const int32_t *ids = collect_ids(s, node, length);
    if (!ids) return false;
    int64_t i = progress->finished < room ? progress->finished++ : room - 1;
    for (; i > 0 && score > list[i - 1].score; i--) list[i] = list[i - 1];
    list[i] = (struct qkv_hypothesis){length, ids, log_probability, score, ended};
    return true;
}

/* Whether no hypothesis that goes on can still enter the sentence's list: the best there is can only lose
 * probability, and gains most from the penalty at the greatest length. Greedy search takes the most probable
 * token, </s> as any other, and looks at nothing else. */
static bool settled(const struct search *s, int64_t sentence, double best_live)
{
    const struct progress *progress = &s->progress[sentence];
    int64_t beam = s->options->beam_size;
    if (progress->finished < beam) return false;
    return beam == 1 ||
           s->done[sentence * beam + beam - 1].score >= best_live / penalty(s, progress->longest);
}

/* At the greatest length only </s> may follow: rows for which it is not among the `beam` best candidates are
 * cut. */
static bool cut_rows(struct search *s, int64_t first, int64_t end, int64_t candidates)
{
    int64_t beam = s->options->beam_size, looked_at = candidates < beam ? candidates : beam;
    for (int64_t row = first; row < end; row++) {
        const struct live *live = &s->live[row];
        bool ended = false;
        for (int64_t i = 0; i < looked_at; i++)
            ended = ended || (s->candidates[i].row == row && s->candidates[i].token == QKV_END);
        if (!ended && !finish(s, live->sentence, live->node, s->step, live->log_probability, false))
            return false;
    }
    return true;
}

static bool advance_sentence(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end)
{
    int64_t sentence = s->live[first].sentence, beam = s->options->beam_size, begin = s->next_rows;
    int64_t count = best_candidates(s, next, first, end);
    for (int64_t i = 0; !s->scored && i < count; i++) s->candidates[i].log_probability = 0;
    bool last = s->step + 1 >= s->progress[sentence].longest;
    for (int64_t i = 0; i < count && s->next_rows - begin < beam; i++) {
        struct candidate c = s->candidates[i];
        int64_t node = s->live[c.row].node;
        if (c.token == QKV_END) {
            if (i < beam && !finish(s, sentence, node, s->step, c.log_probability, true)) return false;
            continue;
        }
        if (last) continue;
        s->nodes[s->node_count] = (struct node){node, c.token};
        s->parents[s->next_rows] = c.row;
        s->next[s->next_rows++] = (struct live){sentence, s->node_count++, c.log_probability};
    }
    if (last) return cut_rows(s, first, end, count);
    if (s->next_rows > begin && settled(s, sentence, s->next[begin].log_probability)) s->next_rows = begin;
    return true;
}

/* One token for every row; sentences that are done leave the batch. */
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
        if (!advance_sentence(s, next, first, end))
            return qkv_error_set(error, "out of memory while searching");
    }
    qkv_decoding_reorder(s->decoding, s->next_rows, s->parents);
    struct live *kept = s->live;
    s->live = s->next;
    s->next = kept;
    s->rows = s->next_rows;
    s->step++;
    return QKV_OK;
}

/* ---- entry ---- */

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
    QKV_BUG(beam < 1 || options->n_best < 1 || options->n_best > beam, "beam %lld, n-best %lld",
            (long long)beam, (long long)options->n_best);
    qkv_arena_reset(s.arena);
    translations->count = batch->count;
    translations->best =
        qkv_arena_zeroed(s.arena, (size_t)(batch->count * options->n_best) * sizeof *translations->best);
    s.progress = qkv_arena_zeroed(s.arena, (size_t)batch->count * sizeof *s.progress);
    if (!translations->best || !s.progress) return qkv_error_set(error, "out of memory while searching");
    if (batch->count == 0) return QKV_OK;
    for (int64_t i = 0; i < batch->count; i++) {
        s.progress[i].longest = longest_output(&s, batch->source_length[i]);
        if (s.progress[i].longest > longest) longest = s.progress[i].longest;
    }
    if (!allocate(&s)) return qkv_error_set(error, "out of memory while searching");
    if (qkv_decoding_start(decoding, batch, batch->count * beam, longest, s.scored, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < batch->count; i++) s.live[s.rows++] = (struct live){i, -1, 0};
    while (s.rows > 0)
        if (advance(&s, error)) return QKV_INVALID;
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
