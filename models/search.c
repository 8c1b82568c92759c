#include "qkv/search.h"

#include "data/batch.h"
#include "models/network.h"
#include "models/search_state.h"

#include "qkv/scalar_math.h"
#include "qkv/vocabulary.h"

#include <math.h>
#include <string.h>

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

/* ---- setting up ---- */

static bool allocate(struct search *s, int64_t longest)
{
    int64_t rows = s->sentences * s->width, classes = s->decoding->model->target_size;
    s->node_capacity = rows * longest + 1;
    s->nodes = qkv_arena_allocate(s->arena, (size_t)s->node_capacity * sizeof *s->nodes);
    s->done = qkv_arena_zeroed(s->arena, (size_t)rows * sizeof *s->done);
    s->live = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->live);
    s->continued = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->continued);
    s->candidates = qkv_arena_allocate(s->arena, 2 * (size_t)s->width * sizeof *s->candidates);
    s->bounds = qkv_arena_allocate(s->arena, (size_t)s->capacity * sizeof *s->bounds);
    s->ids = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->ids);
    s->sentence_of = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->sentence_of);
    s->parents = qkv_arena_allocate(s->arena, (size_t)rows * sizeof *s->parents);
    if (s->constrained && !qkv_search_allocate_row(s, classes, longest)) return false;
    if (s->options->sampling.enabled &&
        !(s->choices = qkv_arena_allocate(s->arena, (size_t)classes * sizeof *s->choices)))
        return false;
    return s->nodes && s->done && s->live && s->continued && s->candidates && s->bounds && s->ids &&
           s->sentence_of && s->parents;
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

/* Refuses a prefix with a token that no translation has, or that leaves no least for </s>. */
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
        if (id < 0 || id >= s->decoding->model->target_size || id == QKV_BEGIN || id == QKV_END)
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
    int64_t usual = 2 * (source_length - 1) + 10 + given, least = options->min_output_length + 10;
    int64_t tokens = options->max_output_length ? options->max_output_length : usual > least ? usual : least;
    progress->max_length = tokens < possible ? tokens + 1 : possible;
    if (check_number(s, sentence, error)) return QKV_INVALID;
    return check_prefix(s, sentence, error);
}

/* ---- one sentence at one step ---- */

static const int32_t *collect_ids(struct search *s, int64_t node, int64_t length)
{
    int32_t *ids = qkv_arena_allocate(s->arena, (size_t)length * sizeof *ids);
    if (ids) qkv_search_tokens(s, node, length, ids);
    return ids;
}

/* Makes least for a finished hypothesis with this score in the sorted list of its sentence, and returns its place; -1 if the
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
    const int32_t *ids = collect_ids(s, live->node, length);
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

static enum qkv_status out_of_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory while searching");
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
    int64_t count = s->options->sampling.enabled ? qkv_search_draw(s, next, first, end)
                                                 : qkv_search_best(s, next, first, end);
    for (int64_t i = 0; !s->scored && i < count; i++) s->candidates[i].log_probability = 0;
    return count;
}

/* Finishes the hypotheses that end with </s> among the best `count` candidates. False when memory runs out. */
static bool finish_ended(struct search *s, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const struct candidate *c = &s->candidates[i];
        if (c->token == QKV_END && !finish(s, &s->live[c->row], s->step, c->log_probability, true))
            return false;
    }
    return true;
}

/* At the greatest length only </s> may follow. Finishes, without </s>, the rows first .. end-1 for which </s> is
 * not among the best `count` candidates. False when memory runs out. */
static bool cut_rows(struct search *s, int64_t first, int64_t end, int64_t count)
{
    for (int64_t row = first; row < end; row++) {
        const struct live *live = &s->live[row];
        bool ended = false;
        for (int64_t i = 0; i < count; i++)
            ended = ended || (s->candidates[i].row == row && s->candidates[i].token == QKV_END);
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
        if (c->token == QKV_END) continue;
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
    if (!finish_ended(s, best_count)) return out_of_memory(error);
    if (s->step + 1 >= s->progress[s->live[first].sentence].max_length)
        return cut_rows(s, first, end, best_count) ? QKV_OK : out_of_memory(error);
    continue_rows(s, count);
    if (s->next_rows > begin && is_settled(s, &s->continued[begin])) s->next_rows = begin;
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

/* Encodes the batch and makes the first rows: one for each sentence, or one for each of its samples. */
static enum qkv_status start(struct search *s, const struct qkv_batch_view *batch, struct qkv_error *error)
{
    int64_t longest = 0, first_rows = s->options->sampling.enabled ? s->width : 1;
    s->progress = qkv_arena_zeroed(s->arena, (size_t)batch->count * sizeof *s->progress);
    if (!s->progress) return out_of_memory(error);
    for (int64_t i = 0; i < batch->count; i++) {
        if (set_progress(s, i, batch->source_length[i], error)) return QKV_INVALID;
        if (s->progress[i].max_length > longest) longest = s->progress[i].max_length;
    }
    if (qkv_decoding_start(s->decoding, batch, batch->count * s->width, longest, s->scored, error))
        return QKV_INVALID;
    if (!allocate(s, longest)) return out_of_memory(error);
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
        .constrained = qkv_search_is_constrained(options),
        .excluded = options->allow_unknown ? QKV_BEGIN : QKV_UNKNOWN,
        .arena = &translations->arena,
    };
    qkv_arena_reset(s.arena);
    *translations = (struct qkv_translations){.arena = translations->arena};
    if (qkv_search_options_check(options, error) || qkv_batch_view_check(batch, false, error))
        return QKV_INVALID;
    translations->count = batch->count;
    translations->best =
        qkv_arena_zeroed(s.arena, (size_t)(batch->count * options->n_best) * sizeof *translations->best);
    if (!translations->best) return out_of_memory(error);
    if (batch->count == 0) return QKV_OK;
    enum qkv_status status = start(&s, batch, error);
    while (!status && s.rows > 0) status = advance(&s, error);
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
