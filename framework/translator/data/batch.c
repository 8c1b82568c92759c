/* One batch: its memory, filling it, splitting it into shards. */
#include "data/batch.h"

#include "core/grow.h"

#include <string.h>

/* Replaces *array by memory for `wanted` elements; the contents are lost. */
static bool reserve(void **array, int64_t wanted, size_t element_size)
{
    free(*array);
    *array = (uint64_t)wanted > SIZE_MAX / 2 / element_size ? NULL : malloc((size_t)wanted * element_size);
    return *array != NULL;
}

static bool reserve_numbers(int64_t **array, int64_t wanted)
{
    void *memory = *array;
    bool done = reserve(&memory, wanted, sizeof **array);
    *array = memory;
    return done;
}

static bool reserve_ids(int32_t **array, int64_t wanted)
{
    void *memory = *array;
    bool done = reserve(&memory, wanted, sizeof **array);
    *array = memory;
    return done;
}

bool qkv_batch_reserve(struct qkv_batch *batch, int64_t sentences, int64_t source_tokens,
                       int64_t target_tokens)
{
    bool done = true;
    if (sentences > batch->sentence_capacity || !batch->index) {
        int64_t **const arrays[] = {
            &batch->index,         &batch->source_start,      &batch->source_length,     &batch->target_start,
            &batch->target_length, &batch->view_source_start, &batch->view_target_start,
        };
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
            done = reserve_numbers(arrays[i], sentences + 1) && done;
        batch->sentence_capacity = sentences;
    }
    if (source_tokens > batch->source_capacity || !batch->source) {
        done = reserve_ids(&batch->source, source_tokens + 1) && done;
        batch->source_capacity = source_tokens;
    }
    if (target_tokens > batch->target_capacity || !batch->target_input) {
        done = reserve_ids(&batch->target_input, target_tokens + 1) && done;
        done = reserve_ids(&batch->target_output, target_tokens + 1) && done;
        batch->target_capacity = target_tokens;
    }
    if (!done) qkv_batch_release(batch);
    return done;
}

void qkv_batch_clear(struct qkv_batch *batch)
{
    batch->count = batch->source_tokens = batch->target_tokens = 0;
    batch->source_start[0] = batch->target_start[0] = 0;
    batch->source_masked = NULL;
}

static bool are_ids(struct qkv_ids sentence)
{
    return sentence.length >= 0 && sentence.length < INT32_MAX && (sentence.ids || !sentence.length);
}

static void copy(int32_t *to, struct qkv_ids from)
{
    if (from.length) memcpy(to, from.ids, (size_t)from.length * sizeof *to);
}

void qkv_batch_add(struct qkv_batch *batch, int64_t index, struct qkv_ids source,
                   const struct qkv_ids *target)
{
    int64_t i = batch->count++;
    batch->index[i] = index;

    int32_t *tokens = batch->source + batch->source_tokens;
    copy(tokens, source);
    tokens[source.length] = QKV_END;
    batch->source_length[i] = source.length + 1;
    batch->source_start[i + 1] = batch->source_tokens += source.length + 1;

    batch->target_length[i] = target ? target->length + 1 : 0;
    if (target) {
        int32_t *input = batch->target_input + batch->target_tokens;
        int32_t *output = batch->target_output + batch->target_tokens;
        input[0] = QKV_BEGIN;
        copy(input + 1, *target);
        copy(output, *target);
        output[target->length] = QKV_END;
    }
    batch->target_start[i + 1] = batch->target_tokens += batch->target_length[i];
}

enum qkv_status qkv_batch_make(struct qkv_batch *batch, int64_t count, const struct qkv_ids *source,
                               const struct qkv_ids *target, struct qkv_error *error)
{
    int64_t source_tokens = 0, target_tokens = 0;
    if (count < 0) return qkv_error_set(error, "a batch of %lld sentences", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        if (!are_ids(source[i]) || (target && !are_ids(target[i])))
            return qkv_error_set(
                error, "sentence %lld has no ids, or a length that is negative or above 2^31", (long long)i);
        source_tokens += source[i].length + 1;
        if (target) target_tokens += target[i].length + 1;
    }
    if (!qkv_batch_reserve(batch, count, source_tokens, target_tokens))
        return qkv_error_set(error, "out of memory");
    qkv_batch_clear(batch);
    for (int64_t i = 0; i < count; i++) qkv_batch_add(batch, i, source[i], target ? &target[i] : NULL);
    return QKV_OK;
}

/* Finds the first sentence of a shard by binary search: the first one whose middle is not before the fraction
 * shard / shards of all tokens, source and target tokens counted together. */
static int64_t shard_begin(const struct qkv_batch *batch, int64_t shard, int64_t shards)
{
    const int64_t *source = batch->source_start, *target = batch->target_start;
    int64_t total = batch->source_tokens + batch->target_tokens;
    int64_t low = 0, high = batch->count;
    if (shard == shards) return high;
    while (low < high) {
        int64_t i = low + (high - low) / 2;
        int64_t twice_middle = source[i] + target[i] + source[i + 1] + target[i + 1];
        if (twice_middle * shards >= 2 * total * shard)
            high = i;
        else
            low = i + 1;
    }
    return low;
}

void qkv_batch_shard(struct qkv_batch *batch, int64_t shard, int64_t shards, struct qkv_batch_view *view)
{
    *view = (struct qkv_batch_view){0};
    if (!batch->count || shard < 0 || shard >= shards || shards > QKV_SHARDS_MAX) return;
    int64_t first = shard_begin(batch, shard, shards), end = shard_begin(batch, shard + 1, shards);
    int64_t source = batch->source_start[first], target = batch->target_start[first];
    /* Shards do not overlap, so threads write to different elements. */
    for (int64_t i = first; i < end; i++) {
        batch->view_source_start[i] = batch->source_start[i] - source;
        batch->view_target_start[i] = batch->target_start[i] - target;
    }
    *view = (struct qkv_batch_view){
        .count = end - first,
        .source_tokens = batch->source_start[end] - source,
        .target_tokens = batch->target_start[end] - target,
        .first = first,
        .index = batch->index + first,
        .source = batch->source + source,
        .source_start = batch->view_source_start + first,
        .source_length = batch->source_length + first,
        .target_input = batch->target_input + target,
        .target_output = batch->target_output + target,
        .target_start = batch->view_target_start + first,
        .target_length = batch->target_length + first,
        .source_masked = batch->source_masked ? batch->source_masked + source : NULL,
    };
}

void qkv_batch_release(struct qkv_batch *batch)
{
    free(batch->index);
    free(batch->source);
    free(batch->source_start);
    free(batch->source_length);
    free(batch->target_input);
    free(batch->target_output);
    free(batch->target_start);
    free(batch->target_length);
    free(batch->view_source_start);
    free(batch->view_target_start);
    *batch = (struct qkv_batch){0};
}

/* ---- views ---- */

/* Whether the sentences follow one another without gaps and have `tokens` tokens together. */
static bool are_consecutive(int64_t count, const int64_t *start, const int64_t *length, int64_t tokens)
{
    int64_t end = 0;
    for (int64_t i = 0; i < count; i++) {
        if (start[i] != end || length[i] < 0 || length[i] > tokens - end) return false;
        end += length[i];
    }
    return end == tokens;
}

enum qkv_status qkv_batch_view_check(const struct qkv_batch_view *view, bool has_target,
                                     struct qkv_error *error)
{
    bool is_valid =
        view->count >= 0 &&
        are_consecutive(view->count, view->source_start, view->source_length, view->source_tokens) &&
        (!has_target ||
         are_consecutive(view->count, view->target_start, view->target_length, view->target_tokens));
    if (is_valid) return QKV_OK;
    return qkv_error_set(
        error, "a batch whose sentences do not follow one another from its first token to its last: "
               "make it with qkv_batch_make and qkv_batch_shard");
}
