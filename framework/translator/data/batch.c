/* Batches: one batch, its memory and shards; and the batches of an epoch. */
#include "data/batch.h"
#include "core/memory.h"
#include "core/numbers.h"

#include "config/config_keys.h"
#include "data/bpe.h"
#include "data/corpus.h"

/* Replaces *array by memory for `wanted` elements; the contents are lost. */
static bool reserve(void **array, int64_t wanted, size_t element_size)
{
    free(*array);
    *array = (uint64_t)wanted > SIZE_MAX / 2 / element_size ? NULL : malloc((size_t)wanted * element_size);
    return *array != NULL;
}

bool qkv_batch_reserve(struct qkv_batch *batch, int64_t sentences, int64_t source_tokens,
                       int64_t target_tokens)
{
    bool done = true;
    void *numbers = batch->index, *source = batch->source, *target = batch->target_input;
    if (sentences > batch->sentence_capacity || !numbers) {
        int64_t **const arrays[] = {
            &batch->index,         &batch->source_start,      &batch->source_length,     &batch->target_start,
            &batch->target_length, &batch->view_source_start, &batch->view_target_start,
        };
        enum { ARRAYS = sizeof arrays / sizeof *arrays };
        done = reserve(&numbers, sentences + 1, ARRAYS * sizeof *batch->index);
        for (int i = 0; i < ARRAYS; i++) *arrays[i] = done ? (int64_t *)numbers + i * (sentences + 1) : NULL;
        batch->sentence_capacity = sentences;
    }
    if (source_tokens > batch->source_capacity || !source) {
        done = reserve(&source, source_tokens + 1, sizeof *batch->source) && done;
        batch->source = source;
        batch->source_capacity = source_tokens;
    }
    if (target_tokens > batch->target_capacity || !target) {
        done = reserve(&target, target_tokens + 1, 2 * sizeof *batch->target_input) && done;
        batch->target_input = target;
        batch->target_output = target ? batch->target_input + target_tokens + 1 : NULL;
        batch->target_capacity = target_tokens;
    }
    if (!done) qkv_batch_release(batch);
    return done;
}

void qkv_batch_clear(struct qkv_batch *batch)
{
    batch->count = batch->source_tokens = batch->target_tokens = 0;
    batch->source_start[0] = batch->target_start[0] = 0;
    batch->source_masked = batch->target_masked = NULL;
}

static bool are_ids(struct qkv_ids sentence)
{
    return sentence.length >= 0 && sentence.length < INT32_MAX && (sentence.ids || !sentence.length);
}

static void copy(int32_t *to, struct qkv_ids from)
{
    if (from.length) memcpy(to, from.ids, (size_t)from.length * sizeof *to);
}

/* Adds a source, and </s>; NULL: none. */
static void add_source(struct qkv_batch *batch, int64_t i, const struct qkv_ids *source)
{
    batch->source_length[i] = source ? source->length + 1 : 0;
    if (source) {
        int32_t *tokens = batch->source + batch->source_tokens;
        copy(tokens, *source);
        tokens[source->length] = QKV_END;
    }
    batch->source_start[i + 1] = batch->source_tokens += batch->source_length[i];
}

void qkv_batch_add_window(struct qkv_batch *batch, int64_t index, struct qkv_ids window)
{
    int64_t i = batch->count++;
    batch->index[i] = index;
    add_source(batch, i, NULL);
    copy(batch->target_input + batch->target_tokens, (struct qkv_ids){window.length, window.ids - 1});
    copy(batch->target_output + batch->target_tokens, window);
    batch->target_length[i] = window.length;
    batch->target_start[i + 1] = batch->target_tokens += window.length;
}

void qkv_batch_add(struct qkv_batch *batch, int64_t index, const struct qkv_ids *source,
                   const struct qkv_ids *target)
{
    int64_t i = batch->count++;
    batch->index[i] = index;
    add_source(batch, i, source);
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
        if ((source && !are_ids(source[i])) || (target && !are_ids(target[i])))
            return qkv_error_set(
                error, "sentence %lld has no ids, or a length that is negative or above 2^31", (long long)i);
        if (source) source_tokens += source[i].length + 1;
        if (target) target_tokens += target[i].length + 1;
    }
    if (!qkv_batch_reserve(batch, count, source_tokens, target_tokens)) return qkv_no_memory(error);
    qkv_batch_clear(batch);
    for (int64_t i = 0; i < count; i++)
        qkv_batch_add(batch, i, source ? &source[i] : NULL, target ? &target[i] : NULL);
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
        .target_masked = batch->target_masked ? batch->target_masked + target : NULL,
    };
}

void qkv_batch_release(struct qkv_batch *batch)
{
    free(batch->index);
    free(batch->source);
    free(batch->target_input);
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

/* ---- the batches of an epoch: the order of the sentences, where batches begin, and the order of the batches ---- */

/* Number of batches in a pool. A pool is a part of the shuffled order whose sentences are sorted by length and whose
 * batches are shuffled. Larger pools make the lengths within a batch more equal; smaller pools make batches differ more
 * between epochs and need less memory. */
enum { POOL = 64 };

static bool is_longer(const struct qkv_corpus *corpus, int64_t left, int64_t right)
{
    int64_t a = qkv_target_rows(corpus, left), b = qkv_target_rows(corpus, right);
    return a != b ? a > b : qkv_source_rows(corpus, left) > qkv_source_rows(corpus, right);
}

/* Sorts `order` by target length, then source length, shortest first: a stable merge sort. qsort is
 * not stable and calls malloc. */
static void sort_by_length(const struct qkv_corpus *corpus, int64_t count, int64_t *order, int64_t *scratch)
{
    int64_t *from = order, *to = scratch;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t left = 0; left < count; left += 2 * width) {
            int64_t middle = left + width < count ? left + width : count;
            int64_t end = middle + width < count ? middle + width : count;
            int64_t i = left, j = middle;
            for (int64_t k = left; k < end; k++) {
                bool right = i == middle || (j < end && is_longer(corpus, from[i], from[j]));
                to[k] = from[right ? j++ : i++];
            }
        }
        int64_t *kept = from;
        from = to;
        to = kept;
    }
    if (from != order) memcpy(order, from, (size_t)count * sizeof *order);
}

/* The end of the batch that begins at order[first]; at most `end`. */
static int64_t batch_end(const struct qkv_batches *batches, int64_t first, int64_t end)
{
    int64_t size = batches->options.size;
    if (batches->options.type == QKV_BATCH_SENTENCE) return end - first > size ? first + size : end;
    int64_t source = 0, target = 0, i = first;
    for (; i < end; i++) {
        source += qkv_source_rows(batches->corpus, batches->order[i]);
        target += qkv_target_rows(batches->corpus, batches->order[i]);
        if (i > first && (source > size || target > size)) break;
    }
    return i;
}

/* Number of sentences in a pool, chosen to give about POOL batches. It is the same for all pools, so that a pool can be found
 * without planning those before it. Without shuffling, one pool holds the complete corpus. */
static int64_t sentences_of_pool(const struct qkv_batches *batches)
{
    const struct qkv_corpus *corpus = batches->corpus;
    int64_t count = corpus->count, size = batches->options.size;
    if (batches->options.order != QKV_BATCH_ORDER_SHUFFLED || size > INT64_MAX / POOL || !count) return count;
    int64_t mean = (corpus->target.start[count] + 2 * count - 1) / count; /* tokens with </s>, rounded up */
    int64_t sentences = batches->options.type == QKV_BATCH_SENTENCE ? POOL * size : POOL * size / mean;
    return sentences < 1 ? 1 : sentences < count ? sentences : count;
}

static int64_t pool_count(const struct qkv_batches *batches)
{
    return batches->pool_size ? (batches->corpus->count + batches->pool_size - 1) / batches->pool_size : 0;
}

/* The random numbers that permute the sentences of the epoch (`pool` 0) or the batches of a pool (from 1 on). */
static struct qkv_random random_of(const struct qkv_batches *batches, int64_t pool)
{
    return (struct qkv_random){batches->options.seed, QKV_STREAM_SHUFFLE | (uint32_t)pool << 8,
                               (uint32_t)batches->epoch};
}

/* Plans a pool of the epoch: its sentences, where its batches begin, and their order. */
static void plan_pool(struct qkv_batches *batches, int64_t pool)
{
    const struct qkv_corpus *corpus = batches->corpus;
    enum qkv_batch_order order = batches->options.order;
    bool is_shuffled = order == QKV_BATCH_ORDER_SHUFFLED;
    int64_t first = pool * batches->pool_size, rest = corpus->count - first;
    int64_t sentences = rest < batches->pool_size ? rest : batches->pool_size;
    struct qkv_random random = random_of(batches, 0);
    for (int64_t i = 0; i < sentences; i++)
        batches->order[i] =
            is_shuffled ? (int64_t)qkv_random_permuted(random, (uint64_t)corpus->count, (uint64_t)(first + i))
                        : first + i;
    if (order != QKV_BATCH_ORDER_CORPUS) sort_by_length(corpus, sentences, batches->order, batches->scratch);
    int64_t count = 0;
    batches->start[0] = 0;
    for (int64_t i = 0; i < sentences; batches->start[++count] = i) i = batch_end(batches, i, sentences);
    random = random_of(batches, pool + 1);
    for (int64_t i = 0; i < count; i++)
        batches->sequence[i] =
            is_shuffled ? (int64_t)qkv_random_permuted(random, (uint64_t)count, (uint64_t)i) : i;
    batches->pool = pool;
    batches->pool_batches = count;
}

/* Plans every pool once, to count its batches. */
void qkv_batches_epoch(struct qkv_batches *batches, int64_t epoch)
{
    if (!batches->corpus) return;
    batches->epoch = epoch;
    batches->resampled = batches->corpus->resampled;
    batches->count = batches->first_batch[0] = 0;
    batches->pool_batches = 0;
    for (int64_t pool = 0; pool < pool_count(batches); pool++) {
        plan_pool(batches, pool);
        batches->count += batches->pool_batches;
        batches->first_batch[pool + 1] = batches->count;
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the longest sentences, which determine the memory of a batch ---- */

/* Maximal number of tokens of sentence i, with </s>, in any epoch. */
static int64_t max_tokens(const struct qkv_corpus *corpus, const struct qkv_corpus_side *side, int64_t i)
{
    if (side->dropout) return qkv_bpe_dropout_max_tokens(side->dropout, i) + 1;
    return side == &corpus->source ? qkv_source_rows(corpus, i) : qkv_target_rows(corpus, i);
}

/* Histogram of the lengths of one side: number[length] sentences, for lengths up to `longest`. */
struct lengths {
    int64_t longest;
    int64_t *number;
};

/* Fails when there is no memory. */
static bool count_lengths(const struct qkv_corpus *corpus, const struct qkv_corpus_side *side,
                          struct lengths *lengths)
{
    int64_t longest = side->longest + 1;
    *lengths = (struct lengths){longest, calloc((size_t)longest + 1, sizeof *lengths->number)};
    for (int64_t i = 0; lengths->number && i < corpus->count; i++)
        lengths->number[max_tokens(corpus, side, i)]++;
    return lengths->number;
}

/* Counts the lengths of both sides, source first. */
static bool count_sides(const struct qkv_corpus *corpus, struct lengths side[2])
{
    side[0] = side[1] = (struct lengths){0};
    return count_lengths(corpus, &corpus->source, &side[0]) &&
           count_lengths(corpus, &corpus->target, &side[1]);
}

static void release_sides(struct lengths side[2])
{
    free(side[0].number);
    free(side[1].number);
}

/* Removes the longest sentence that is left and returns its length; 0: none is left. */
static int64_t take_longest(struct lengths *lengths)
{
    while (lengths->longest > 0 && !lengths->number[lengths->longest]) lengths->longest--;
    if (lengths->longest > 0) lengths->number[lengths->longest]--;
    return lengths->longest;
}

/* Total length of the `count` longest sentences of a side: an upper bound for the tokens of a batch of `count` sentences. */
static int64_t longest_sum(const struct lengths *lengths, int64_t count)
{
    int64_t sum = 0;
    for (int64_t length = lengths->longest; length > 0 && count > 0; length--) {
        int64_t taken = smaller(count, lengths->number[length]);
        sum += taken * length;
        count -= taken;
    }
    return sum;
}

/* Sets max_sentences, max_source_tokens and max_target_tokens: upper bounds for every batch. */
static void find_bounds(struct qkv_batches *batches, const struct lengths side[2])
{
    const struct qkv_corpus *corpus = batches->corpus;
    int64_t size = batches->options.size;
    bool by_tokens = batches->options.type == QKV_BATCH_TOKEN;
    /* By tokens: each sentence has at least 2, a word and </s>, so size / 2 sentences fit; + 1 because a sentence longer
     * than `size` is a batch of its own, even if size / 2 is 0. */
    int64_t max = smaller(by_tokens ? size / 2 + 1 : size, corpus->count);
    batches->max_sentences = max;
    batches->max_source_tokens = longest_sum(&side[0], max);
    batches->max_target_tokens = longest_sum(&side[1], max);
    if (!by_tokens) return;
    int64_t source = corpus->source.longest + 1, target = corpus->target.longest + 1;
    batches->max_source_tokens = smaller(batches->max_source_tokens, source > size ? source : size);
    batches->max_target_tokens = smaller(batches->max_target_tokens, target > size ? target : size);
}

enum qkv_status qkv_batches_init(struct qkv_batches *batches, const struct qkv_corpus *corpus,
                                 struct qkv_batches_options options, struct qkv_error *error)
{
    *batches = (struct qkv_batches){0};
    if (!corpus->encoded) return qkv_error_set(error, "batches are made of a corpus that is not encoded");
    if (!qkv_choice_exists(&qkv_batch_type_choices, (int)options.type))
        return qkv_error_set(error, "there is no type of batches %d", (int)options.type);
    if ((int)options.order < QKV_BATCH_ORDER_CORPUS || (int)options.order > QKV_BATCH_ORDER_SHUFFLED)
        return qkv_error_set(error, "there is no order of batches %d", (int)options.order);
    if (options.size <= 0)
        return qkv_error_set(error, "the batch size is %lld, but must be above 0", (long long)options.size);
    *batches = (struct qkv_batches){.corpus = corpus, .options = options};
    batches->pool_size = sentences_of_pool(batches);
    int64_t size = batches->pool_size + 1;
    struct lengths side[2];
    batches->order = malloc((size_t)(4 * size + pool_count(batches) + 1) * sizeof *batches->order);
    bool complete = count_sides(corpus, side) && batches->order;
    if (complete) find_bounds(batches, side);
    release_sides(side);
    if (!complete) {
        qkv_batches_release(batches);
        return qkv_no_memory(error);
    }
    batches->scratch = batches->order + size;
    batches->start = batches->scratch + size;
    batches->sequence = batches->start + size;
    batches->first_batch = batches->sequence + size;
    qkv_batches_epoch(batches, 0);
    return QKV_OK;
}

static struct qkv_ids sentence(const struct qkv_corpus_side *side, int64_t i)
{
    return (struct qkv_ids){side->start[i + 1] - side->start[i], side->ids + side->start[i]};
}

/* Adds sentence i of the corpus. */
static void add_from(struct qkv_batch *batch, const struct qkv_corpus *corpus, int64_t i)
{
    const struct qkv_ids source = sentence(&corpus->source, i), target = sentence(&corpus->target, i);
    if (corpus->sides.runs_on)
        qkv_batch_add_window(batch, i, target);
    else
        qkv_batch_add(batch, i, corpus->sides.has_source ? &source : NULL, &target);
}

/* The pool that has batch i. */
static int64_t pool_of(const struct qkv_batches *batches, int64_t i)
{
    int64_t low = 0, high = pool_count(batches);
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(batches->first_batch[middle] <= i ? &low : &high) = middle;
    }
    return low;
}

enum qkv_status qkv_batches_get(struct qkv_batches *batches, int64_t i, struct qkv_batch *batch,
                                struct qkv_error *error)
{
    if (i < 0 || i >= batches->count)
        return qkv_error_set(error, "there is no batch %lld: the epoch has %lld", (long long)i,
                             (long long)batches->count);
    const struct qkv_corpus *corpus = batches->corpus;
    if (batches->resampled != corpus->resampled)
        return qkv_error_set(error,
                             "the corpus was resampled: plan its batches again with qkv_batches_epoch");
    if (!qkv_batch_reserve(batch, batches->max_sentences, batches->max_source_tokens,
                           batches->max_target_tokens))
        return qkv_no_memory(error);
    qkv_batch_clear(batch);
    int64_t pool = pool_of(batches, i);
    if (pool != batches->pool) plan_pool(batches, pool);
    int64_t planned = batches->sequence[i - batches->first_batch[pool]];
    int64_t first = batches->start[planned], end = batches->start[planned + 1];
    for (int64_t k = first; k < end; k++) add_from(batch, corpus, batches->order[k]);
    return QKV_OK;
}

enum qkv_status qkv_batch_make_some(struct qkv_batch *batch, const struct qkv_corpus *corpus, int64_t first,
                                    int64_t count, struct qkv_error *error)
{
    int64_t source_tokens = 0, target_tokens = 0;
    for (int64_t i = first; i < first + count; i++) {
        source_tokens += qkv_source_rows(corpus, i);
        target_tokens += qkv_target_rows(corpus, i);
    }
    if (!qkv_batch_reserve(batch, count, source_tokens, target_tokens)) return qkv_no_memory(error);
    qkv_batch_clear(batch);
    for (int64_t i = 0; i < count; i++) add_from(batch, corpus, first + i);
    return QKV_OK;
}

/* Makes the largest batch that a shard can be: pairs the longest sources with the longest targets until both sides have as many
 * tokens as a shard can have. A shard exceeds its equal share by at most half a sentence at each end, together less than the
 * longest sentence. */
static enum qkv_status add_largest(const struct qkv_batches *batches, int64_t shards, struct lengths side[2],
                                   struct qkv_batch *batch)
{
    int64_t longest[2] = {side[0].longest, side[1].longest};
    int64_t even = (batches->max_source_tokens + batches->max_target_tokens) / shards;
    int64_t share = even + longest[0] + longest[1], count = 0, source_tokens = 0, target_tokens = 0;
    int64_t source_bound = smaller(share, batches->max_source_tokens);
    int64_t target_bound = smaller(share, batches->max_target_tokens);
    int64_t max =
        smaller(batches->max_sentences, source_bound + target_bound); /* each has at least one token */
    int64_t *lengths = malloc(2 * ((size_t)max + 1) * sizeof *lengths);
    for (; lengths && count < max && (source_tokens < source_bound || target_tokens < target_bound);
         count++) {
        source_tokens += lengths[2 * count] = take_longest(&side[0]);
        target_tokens += lengths[2 * count + 1] = take_longest(&side[1]);
    }
    int32_t *unknown = calloc((size_t)(longest[0] > longest[1] ? longest[0] : longest[1]), sizeof *unknown);
    bool reserved = lengths && unknown && qkv_batch_reserve(batch, count, source_tokens, target_tokens);
    if (reserved) qkv_batch_clear(batch);
    for (int64_t i = 0; reserved && i < count; i++) { /* QKV_UNKNOWN is 0 */
        const struct qkv_ids source = {lengths[2 * i] - 1, unknown},
                             target = {lengths[2 * i + 1] - 1, unknown};
        qkv_batch_add(batch, i, lengths[2 * i] ? &source : NULL, &target);
    }
    free(lengths);
    free(unknown);
    return reserved ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_batches_largest(const struct qkv_batches *batches, int64_t shards,
                                    struct qkv_batch *batch, struct qkv_error *error)
{
    if (shards < 1 || !batches->corpus || !batches->corpus->count)
        return qkv_error_set(error, "cannot make a batch: %lld shards, or a corpus without sentences",
                             (long long)shards);
    struct lengths side[2];
    enum qkv_status status =
        count_sides(batches->corpus, side) ? add_largest(batches, shards, side, batch) : QKV_INVALID;
    release_sides(side);
    return status ? qkv_no_memory(error) : QKV_OK;
}

void qkv_batches_release(struct qkv_batches *batches)
{
    free(batches->order);
    *batches = (struct qkv_batches){0};
}
