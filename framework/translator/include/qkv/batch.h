/* Batches of sentence pairs, packed without padding, and their order in each epoch.
 *
 * Example:
 *     const int32_t hello[] = {5, 7}, world[] = {6};
 *     const struct qkv_ids source[] = {{2, hello}, {1, world}};
 *     struct qkv_batch batch = {0};
 *     struct qkv_error error;
 *     if (!qkv_batch_make(&batch, 2, source, NULL, &error)) // 5 7 </s> 6 </s>
 *         printf("%lld source tokens\n", (long long)batch.source_tokens);
 *     qkv_batch_release(&batch);
 *
 * Training makes batches of a corpus: qkv_batches_init, then for each epoch qkv_batches_epoch and qkv_batches_get. */
#ifndef QKV_BATCH_H
#define QKV_BATCH_H

#include "qkv/base.h"
#include "qkv/corpus.h"
#include "qkv/optimizer.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- one batch ---- */

/* B sentence pairs, one after another:
 * - source: the source sentences, each with </s> at its end;
 * - target_input: the input of the decoder, <s> y1 .. yn for each sentence;
 * - target_output: what the decoder must predict, y1 .. yn </s>, at the same offsets as target_input.
 * Caller's storage; all zero is valid and empty. Filling a batch again reuses its memory. */
struct qkv_batch {
    int64_t count;          /* B */
    int64_t source_tokens;  /* Ns */
    int64_t target_tokens;  /* Nt */
    int64_t *index;         /* [B]: position of each pair in its corpus */
    int32_t *source;        /* [Ns] */
    int64_t *source_start;  /* [B + 1]: offset of each sentence in `source`; [B] is Ns */
    int64_t *source_length; /* [B] */
    int32_t *target_input;  /* [Nt] */
    int32_t *target_output; /* [Nt] */
    int64_t *target_start;  /* [B + 1]: offsets in target_input and target_output; [B] is Nt */
    int64_t *target_length; /* [B] */
    /* [Ns]: true for source tokens that attention must ignore, in the caller's memory; NULL: none. Filling the batch sets
     * it to NULL */
    const bool *source_masked;
    /* private */
    /* [B]: offset of each sentence from the first token of its shard; views point into it */
    int64_t *view_source_start, *view_target_start;
    int64_t sentence_capacity, source_capacity, target_capacity;
};

/* Consecutive sentences of a batch, in the batch's memory. Every array begins at the first sentence of the view, and every
 * start counts from the view's first token, so that source_start and source_length can be used as segments (struct
 * qkv_segments) of a graph of the view's tokens. Passes and decodings refuse a view whose sentences do not follow one
 * another without gaps. */
struct qkv_batch_view {
    int64_t count, source_tokens, target_tokens;
    int64_t first; /* position of the view's first sentence in the batch */
    const int64_t *index;
    const int32_t *source;
    const int64_t *source_start, *source_length; /* [count] */
    const int32_t *target_input, *target_output;
    const int64_t *target_start, *target_length; /* [count] */
    const bool *source_masked;                   /* [source_tokens]; NULL: nothing is masked */
};

/* A sentence given by its ids, without <s> and </s>. */
struct qkv_ids {
    int64_t length;
    const int32_t *ids;
};

/* Makes a batch of `count` given sentences and adds <s> and </s>. `target` NULL: no target side, for translation
 * (target_tokens and all target lengths are 0). index is 0 .. count-1. Fails, and leaves the
 * batch as it was, when a count or length is negative; when memory runs out, the batch is empty. */
QKV_API enum qkv_status qkv_batch_make(struct qkv_batch *batch, int64_t count, const struct qkv_ids *source,
                                       const struct qkv_ids *target, struct qkv_error *error);

/* Makes a view of shard number `shard` when a batch is split into `shards`. Shards are consecutive
 * sentences, split where the sum of source and target tokens is closest to equal parts. Every
 * sentence is in one shard; a shard can be empty. The result depends only on the batch and the two
 * numbers. The view is valid until the batch is filled again or split into another number of
 * shards. Different shards may be requested from different threads. The view is empty when there is
 * no such shard: a negative number, one that is not below `shards`, or more than QKV_SHARDS_MAX shards. */
QKV_API void qkv_batch_shard(struct qkv_batch *batch, int64_t shard, int64_t shards,
                             struct qkv_batch_view *view);

QKV_API void qkv_batch_release(struct qkv_batch *batch);

/* ---- the batches of a corpus ---- */

enum qkv_batch_order {
    QKV_BATCH_ORDER_CORPUS,   /* that of the corpus */
    QKV_BATCH_ORDER_LENGTH,   /* by length, longest last; batch.index has the original positions */
    QKV_BATCH_ORDER_SHUFFLED, /* different in each epoch; a batch holds sentences of similar length */
};

struct qkv_batches_options {
    enum qkv_batch_type type;
    /* Limit of a batch. sentence: number of sentences. token: number of tokens, with </s>, of the side that has more; a
     * longer sentence is a batch of its own */
    int64_t size;
    enum qkv_batch_order order;
    uint64_t seed; /* shuffled only */
};

/* The batches of one epoch. Caller's storage, which qkv_batches_init sets.
 *
 * Shuffled order: position i of an epoch holds the sentence that a keyed bijection of i gives (qkv_random_permuted), so
 * that the order of a corpus is a function of seed, epoch and number of sentences. The positions are divided into
 * consecutive pools, each large enough for about 64 batches of average length. Each pool is sorted by length and split into
 * batches, and its batches are shuffled. Only one pool is in memory at a time: 32 bytes for each of its sentences and 8
 * bytes for each pool of the epoch. The other orders take 32 bytes for each sentence of the corpus. */
struct qkv_batches {
    const struct qkv_corpus *corpus;
    struct qkv_batches_options options;
    int64_t epoch;
    int64_t count; /* batches of this epoch; it can differ between epochs when their size is in tokens */
    /* private */
    int64_t pool_size;    /* sentences of a pool; the last one can have fewer */
    int64_t *first_batch; /* [pools + 1]: where the batches of each pool begin in the epoch */
    int64_t pool;         /* the pool that the following arrays describe */
    int64_t pool_batches;
    int64_t *order;    /* [pool_size]: positions in the corpus, batch by batch */
    int64_t *scratch;  /* [pool_size]: for sorting */
    int64_t *start;    /* [pool_batches + 1]: where each batch begins in `order` */
    int64_t *sequence; /* [pool_batches]: the batches, in the order in which they are used */
    int64_t max_sentences, max_source_tokens, max_target_tokens; /* of any batch in any epoch */
    int64_t resampled; /* that of the corpus when the epoch was planned */
};

/* Reserves the memory for every epoch and plans epoch 0. The corpus must be encoded and outlive the batches. options.size
 * must be above 0, and its type and order must exist. Fails otherwise, and when memory runs out. */
QKV_API enum qkv_status qkv_batches_init(struct qkv_batches *batches, const struct qkv_corpus *corpus,
                                         struct qkv_batches_options options, struct qkv_error *error);

/* Plans an epoch (0 .. 2^32-1; others are taken modulo 2^32). The result depends only on corpus, options and epoch, so that
 * a resumed run continues exactly. Every sentence is in one batch. Does not call malloc. */
QKV_API void qkv_batches_epoch(struct qkv_batches *batches, int64_t epoch);

/* Fills `batch` with batch i of the epoch, 0 <= i < count. The first call reserves the memory of the largest batch of any
 * epoch; later calls with the same `batch` do not call malloc. In the shuffled order, plans the pool of batch i if the
 * previous call was for another pool: ask for batches in their order, and from one thread. In the other orders, different
 * batches may be filled from different threads. Fails when there is no such batch or no memory, and when qkv_corpus_resample
 * has changed the corpus since the epoch was planned. */
QKV_API enum qkv_status qkv_batches_get(struct qkv_batches *batches, int64_t i, struct qkv_batch *batch,
                                        struct qkv_error *error);

QKV_API void qkv_batches_release(struct qkv_batches *batches);

#endif
