/* How the heads of a language model read random sequences of tokens that come twice (Olsson et al. 2022). */
#include "models/network.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "qkv/attention_map.h"

#include <math.h>

enum { USUAL_LENGTH = 25, USUAL_COUNT = 20 };

struct qkv_induction_scores qkv_induction_scores(const struct qkv_attention_map *map, const int32_t *read)
{
    struct qkv_induction_scores scores = {0};
    const int64_t rows = map->rows, length = (rows - 1) / 2; /* row 0 reads what begins the text */
    for (int64_t r = 2; r < rows; r++) {
        const double *row = map->weights + r * map->columns;
        scores.previous_token += row[r - 1] / (double)(rows - 2);
        for (int64_t c = 2; c <= r && r > length; c++)
            if (read[c - 1] == read[r]) scores.prefix_matching += row[c] / (double)length;
    }
    return scores;
}

/* Chooses what `repeats` leaves open, and refuses what the model has no positions for. */
static enum qkv_status choose(const struct qkv_run *run, struct qkv_repeats *repeats, struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    int64_t positions = qkv_model_max_length(run->model),
            seen = run->sides.runs_on ? data->context - 1 : data->trg.max_length;
    if (seen > positions - 1) seen = positions - 1;
    if (run->sides.has_source || qkv_model_head_count(run->model) < 1)
        return qkv_error_set(error, "%s: induction is measured in language models with attention", run->path);
    if (run->target.size <= QKV_SPECIALS)
        return qkv_error_set(error, "%s: its vocabulary has no tokens to draw from", run->path);
    if (!repeats->count) repeats->count = USUAL_COUNT;
    if (!repeats->length)
        repeats->length = seen >= 2 * USUAL_LENGTH ? USUAL_LENGTH : seen >= 4 ? seen / 2 : 2;
    if (2 * repeats->length < positions) return QKV_OK;
    return qkv_error_set(error,
                         "%s: a random sequence of %lld tokens cannot come twice: the model has %lld "
                         "positions, and needs one for what begins the text",
                         run->path, (long long)repeats->length, (long long)positions);
}

/* Adds the scores of sequence `number`, and the logarithms of the probabilities of its tokens. */
static enum qkv_status add_sequence(const struct qkv_run *run, struct qkv_attention_collector *collector,
                                    int64_t number, int32_t *read, struct qkv_induction *induction,
                                    struct qkv_arena *arena, struct qkv_error *error)
{
    static const int32_t END = QKV_END;
    const struct qkv_random random = {.stream = QKV_STREAM_GENERATE, .step = (uint32_t)number};
    const int64_t length = induction->repeats.length, count = induction->repeats.count;
    struct qkv_attention_report report;
    read[0] = run->sides.runs_on ? QKV_END : QKV_BEGIN;
    for (int64_t i = 0; i < length; i++)
        read[1 + i] = read[1 + length + i] =
            QKV_SPECIALS +
            (int32_t)qkv_random_below(random, (uint64_t)i, (uint64_t)(run->target.size - QKV_SPECIALS));
    const char **tokens = qkv_vocabulary_tokens(&run->target, 2 * length, read + 1, arena);
    if (!tokens) return qkv_no_memory(error);
    const struct qkv_attention_pair text = {.target = {2 * length, read + 1},
                                            .target_tokens = tokens,
                                            .before = run->sides.runs_on ? &END : NULL,
                                            .vocabulary = &run->target};
    enum qkv_status status =
        qkv_attention_collect(collector, 1, &text, 1u << QKV_ATTENTION_DECODER, &report, error);
    if (status) return status;
    if (report.map_count != induction->count)
        return qkv_error_set(error, "%s: the network records the maps of %lld heads, but has %lld", run->path,
                             (long long)report.map_count, (long long)induction->count);
    for (int64_t i = 0; i < report.map_count; i++) {
        const struct qkv_induction_scores scores = qkv_induction_scores(&report.maps[i], read);
        induction->heads[i].prefix_matching += scores.prefix_matching / (double)count;
        induction->heads[i].previous_token += scores.previous_token / (double)count;
    }
    for (int64_t i = 0; i < 2 * length; i++)
        if (i < length)
            induction->first_loss -= qkv_scalar_log(report.next_probability[i]) / (double)(count * length);
        else if (i > length)
            induction->second_loss -=
                qkv_scalar_log(report.next_probability[i]) / (double)(count * (length - 1));
    return QKV_OK;
}

enum qkv_status qkv_induction_measure(const struct qkv_run *run, struct qkv_repeats repeats,
                                      struct qkv_arena *arena, struct qkv_induction *induction,
                                      struct qkv_error *error)
{
    *induction = (struct qkv_induction){.count = qkv_model_head_count(run->model)};
    enum qkv_status status = choose(run, &repeats, error);
    if (status) return status;
    induction->repeats = repeats;
    induction->heads = qkv_arena_zeros(arena, induction->count, sizeof *induction->heads);
    int32_t *read = qkv_arena_array(arena, 2 * repeats.length + 1, sizeof *read);
    if (!induction->heads || !read) return qkv_no_memory(error);
    struct qkv_attention_collector *collector = qkv_attention_collector_new(run->model, error);
    if (!collector) return QKV_INVALID;
    for (int64_t i = 0; i < repeats.count && !status; i++)
        status = add_sequence(run, collector, i, read, induction, arena, error);
    qkv_attention_collector_free(collector);
    return status;
}
