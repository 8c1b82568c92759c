/* The batches of an epoch: the order of the sentences, where batches begin, and the order of the batches. */
#include "data/batch.h"
#include "qkv/random.h"

#include <stdlib.h>
#include <string.h>

/* Number of batches in a pool. A pool is a part of the shuffled order whose sentences are sorted by length. Larger pools
 * make the lengths within a batch more equal; smaller pools make batches differ more between epochs. */
enum { POOL = 64 };

/* Added to QKV_STREAM_SHUFFLE: the random numbers of the order of the batches. The order of the sentences uses the stream
 * itself. */
enum { BATCH_ORDER = 1 << 8 };

/* Tokens of a sentence with </s>. */
static int64_t source_length(const struct qkv_corpus *corpus, int64_t i)
{
    return corpus->source.start[i + 1] - corpus->source.start[i] + 1;
}

static int64_t target_length(const struct qkv_corpus *corpus, int64_t i)
{
    return corpus->target.start[i + 1] - corpus->target.start[i] + 1;
}

static bool is_longer(const struct qkv_corpus *corpus, int64_t left, int64_t right)
{
    int64_t a = target_length(corpus, left), b = target_length(corpus, right);
    return a != b ? a > b : source_length(corpus, left) > source_length(corpus, right);
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
        source += source_length(batches->corpus, batches->order[i]);
        target += target_length(batches->corpus, batches->order[i]);
        if (i > first && (source > size || target > size)) break;
    }
    return i;
}

/* The end of the pool that begins at order[first]: about POOL batches later. Without shuffling, one
 * pool holds the whole corpus. */
static int64_t pool_end(const struct qkv_batches *batches, int64_t first)
{
    int64_t count = batches->corpus->count, size = batches->options.size, i = first;
    if (batches->options.order != QKV_BATCH_ORDER_SHUFFLED || size > INT64_MAX / POOL) return count;
    if (batches->options.type == QKV_BATCH_SENTENCE)
        return count - first > POOL * size ? first + POOL * size : count;
    for (int64_t tokens = 0; i < count && tokens < POOL * size; i++)
        tokens += target_length(batches->corpus, batches->order[i]);
    return i;
}

void qkv_batches_epoch(struct qkv_batches *batches, int64_t epoch)
{
    const struct qkv_corpus *corpus = batches->corpus;
    if (!corpus) return;
    enum qkv_batch_order order = batches->options.order;
    struct qkv_random random = {batches->options.seed, QKV_STREAM_SHUFFLE, (uint32_t)epoch};
    for (int64_t i = 0; i < corpus->count; i++) batches->order[i] = i;
    if (order == QKV_BATCH_ORDER_SHUFFLED) qkv_random_shuffle(random, corpus->count, batches->order);
    batches->epoch = epoch;
    batches->count = 0;
    batches->start[0] = 0;
    for (int64_t first = 0, end; first < corpus->count; first = end) {
        end = pool_end(batches, first);
        if (order != QKV_BATCH_ORDER_CORPUS)
            sort_by_length(corpus, end - first, batches->order + first, batches->scratch);
        for (int64_t i = first; i < end; batches->start[++batches->count] = i) i = batch_end(batches, i, end);
    }
    for (int64_t i = 0; i < batches->count; i++) batches->sequence[i] = i;
    random.stream |= BATCH_ORDER;
    if (order == QKV_BATCH_ORDER_SHUFFLED) qkv_random_shuffle(random, batches->count, batches->sequence);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int descending(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a < b) - (a > b);
}

/* The lengths of all sentences of a side, longest first. */
static void sort_lengths(const struct qkv_corpus *corpus,
                         int64_t (*length)(const struct qkv_corpus *, int64_t), int64_t *lengths)
{
    for (int64_t i = 0; i < corpus->count; i++) lengths[i] = length(corpus, i);
    qsort(lengths, (size_t)corpus->count, sizeof *lengths, descending);
}

/* Tokens of the `count` longest sentences of a side: an upper bound for a batch of so many sentences. */
static int64_t longest_sum(const struct qkv_batches *batches, int64_t count,
                           int64_t (*length)(const struct qkv_corpus *, int64_t))
{
    int64_t sum = 0;
    sort_lengths(batches->corpus, length, batches->scratch);
    for (int64_t i = 0; i < count; i++) sum += batches->scratch[i];
    return sum;
}

/* Sets most_sentences, most_source_tokens and most_target_tokens: upper bounds for every batch. */
static void find_bounds(struct qkv_batches *batches)
{
    const struct qkv_corpus *corpus = batches->corpus;
    int64_t size = batches->options.size;
    bool by_tokens = batches->options.type == QKV_BATCH_TOKEN;
    /* By tokens: each sentence has at least 2, a word and </s>, so size / 2 sentences fit; + 1 because a sentence longer
     * than `size` is a batch of its own, also when size / 2 is 0. */
    int64_t most = smaller(by_tokens ? size / 2 + 1 : size, corpus->count);
    batches->most_sentences = most;
    batches->most_source_tokens = longest_sum(batches, most, source_length);
    batches->most_target_tokens = longest_sum(batches, most, target_length);
    if (!by_tokens) return;
    int64_t source = corpus->source.longest + 1, target = corpus->target.longest + 1;
    batches->most_source_tokens = smaller(batches->most_source_tokens, source > size ? source : size);
    batches->most_target_tokens = smaller(batches->most_target_tokens, target > size ? target : size);
}

enum qkv_status qkv_batches_init(struct qkv_batches *batches, const struct qkv_corpus *corpus,
                                 struct qkv_batches_options options, struct qkv_error *error)
{
    *batches = (struct qkv_batches){0};
    if (!corpus->encoded) return qkv_error_set(error, "batches are made of a corpus that is not encoded");
    if (options.size <= 0)
        return qkv_error_set(error, "the batch size is %lld, but must be above 0", (long long)options.size);
    *batches = (struct qkv_batches){.corpus = corpus, .options = options};
    size_t size = ((size_t)corpus->count + 1) * sizeof(int64_t);
    batches->order = malloc(size);
    batches->scratch = malloc(size);
    batches->start = malloc(size);
    batches->sequence = malloc(size);
    if (!batches->order || !batches->scratch || !batches->start || !batches->sequence) {
        qkv_batches_release(batches);
        return qkv_error_set(error, "out of memory");
    }
    find_bounds(batches);
    qkv_batches_epoch(batches, 0);
    return QKV_OK;
}

static struct qkv_ids sentence(const struct qkv_corpus_side *side, int64_t i)
{
    return (struct qkv_ids){side->start[i + 1] - side->start[i], side->ids + side->start[i]};
}

enum qkv_status qkv_batches_get(const struct qkv_batches *batches, int64_t i, struct qkv_batch *batch,
                                struct qkv_error *error)
{
    if (i < 0 || i >= batches->count)
        return qkv_error_set(error, "there is no batch %lld: the epoch has %lld", (long long)i,
                             (long long)batches->count);
    const struct qkv_corpus *corpus = batches->corpus;
    if (!qkv_batch_reserve(batch, batches->most_sentences, batches->most_source_tokens,
                           batches->most_target_tokens))
        return qkv_error_set(error, "out of memory");
    qkv_batch_clear(batch);
    int64_t first = batches->start[batches->sequence[i]], end = batches->start[batches->sequence[i] + 1];
    for (int64_t k = first; k < end; k++) {
        int64_t index = batches->order[k];
        struct qkv_ids target = sentence(&corpus->target, index);
        qkv_batch_add(batch, index, sentence(&corpus->source, index), &target);
    }
    return QKV_OK;
}

/* Pairs the longest sources with the longest targets until both sides have as many tokens as a
 * shard can have. A shard exceeds its equal share by at most half a sentence at each end, less than one of the longest. */
static enum qkv_status add_largest(const struct qkv_batches *batches, int64_t shards, const int64_t *source,
                                   const int64_t *target, struct qkv_batch *batch)
{
    int64_t even = (batches->most_source_tokens + batches->most_target_tokens) / shards;
    int64_t share = even + source[0] + target[0], count = 0, source_tokens = 0, target_tokens = 0;
    int64_t source_bound = smaller(share, batches->most_source_tokens);
    int64_t target_bound = smaller(share, batches->most_target_tokens);
    for (; count < batches->most_sentences && (source_tokens < source_bound || target_tokens < target_bound);
         count++) {
        source_tokens += source[count];
        target_tokens += target[count];
    }
    int64_t longest = source[0] > target[0] ? source[0] : target[0];
    int32_t *unknown = calloc((size_t)longest, sizeof *unknown); /* QKV_UNKNOWN is 0 */
    bool reserved = unknown && qkv_batch_reserve(batch, count, source_tokens, target_tokens);
    if (reserved) qkv_batch_clear(batch);
    for (int64_t i = 0; reserved && i < count; i++) {
        struct qkv_ids target_ids = {target[i] - 1, unknown};
        qkv_batch_add(batch, i, (struct qkv_ids){source[i] - 1, unknown}, &target_ids);
    }
    free(unknown);
    return reserved ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_batches_largest(const struct qkv_batches *batches, int64_t shards,
                                    struct qkv_batch *batch, struct qkv_error *error)
{
    if (shards < 1 || !batches->corpus || !batches->corpus->count)
        return qkv_error_set(error, "there is no shard of %lld shards, or no sentence", (long long)shards);
    size_t size = (size_t)batches->corpus->count * sizeof(int64_t);
    int64_t *source = malloc(size), *target = malloc(size);
    enum qkv_status status = source && target ? QKV_OK : QKV_INVALID;
    if (!status) {
        sort_lengths(batches->corpus, source_length, source);
        sort_lengths(batches->corpus, target_length, target);
        status = add_largest(batches, shards, source, target, batch);
    }
    free(source);
    free(target);
    return status ? qkv_error_set(error, "out of memory") : QKV_OK;
}

void qkv_batches_release(struct qkv_batches *batches)
{
    free(batches->order);
    free(batches->scratch);
    free(batches->start);
    free(batches->sequence);
    *batches = (struct qkv_batches){0};
}
