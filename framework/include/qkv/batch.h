/* Batches: packed ids without padding, and the order in which an epoch goes through a corpus. */
#ifndef QKV_BATCH_H
#define QKV_BATCH_H

#include "qkv/corpus.h"
#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- One batch ---- */

/* B sentences packed one behind the other. With Ns and Nt the tokens of both sides:
 * - the source sentences, each with </s> at its end;
 * - what the decoder reads (target_input: <s> y1 .. yn) and what it must say (target_output:
 *   y1 .. yn </s>), which therefore share their offsets.
 * Caller's storage; all zero is valid and empty. Filling it again reuses the memory. */
struct qkv_batch {
    int64_t count;          /* B */
    int64_t source_tokens;  /* Ns */
    int64_t target_tokens;  /* Nt */
    int64_t *index;         /* [B]: number of each sentence in its corpus */
    int32_t *source;        /* [Ns] */
    int64_t *source_start;  /* [B + 1]: row of the first token; [B] is Ns */
    int64_t *source_length; /* [B] */
    int32_t *target_input;  /* [Nt] */
    int32_t *target_output; /* [Nt] */
    int64_t *target_start;  /* [B + 1] */
    int64_t *target_length; /* [B] */
    /* private */
    int64_t *view_source_start, *view_target_start;
    int64_t sentence_capacity, source_capacity, target_capacity;
};

/* Some neighbouring sentences of a batch; it owns nothing. Every array begins at the view's own first
 * sentence and every start counts from the view's own first token, so that source_start and source_length are
 * ready segments. */
struct qkv_batch_view {
    int64_t count, source_tokens, target_tokens;
    int64_t first; /* number of its first sentence in the batch */
    const int64_t *index;
    const int32_t *source;
    const int64_t *source_start, *source_length; /* [count] */
    const int32_t *target_input, *target_output;
    const int64_t *target_start, *target_length; /* [count] */
};

/* A sentence given by its ids, without <s> and </s>. */
struct qkv_ids {
    int64_t length;
    const int32_t *ids;
};

/* Makes a batch of given sentences; adds <s> and </s> as above. `target` NULL: no target side (target_tokens
 * is 0, all its lengths are 0), for translating. index is 0 .. count-1. Fails when there is no memory. */
QKV_API enum qkv_status qkv_batch_make(struct qkv_batch *batch, int64_t count, const struct qkv_ids *source,
                                       const struct qkv_ids *target, struct qkv_error *error);

/* The shard-th of `shards` parts of a batch: neighbouring sentences, cut where the sum of source and target
 * tokens comes nearest to an even split. A pure function of the batch and the two numbers; all parts together
 * hold every sentence once; a part can be empty (fewer sentences than parts, or one sentence of many tokens).
 * The view is valid until the batch is filled again or split into another number of parts. Different shards
 * may be asked for from different threads. */
QKV_API void qkv_batch_shard(struct qkv_batch *batch, int64_t shard, int64_t shards,
                             struct qkv_batch_view *view);

QKV_API void qkv_batch_release(struct qkv_batch *batch);

/* ---- The batches of a corpus ---- */

enum qkv_batch_order {
    QKV_BATCH_ORDER_CORPUS,   /* as in the corpus */
    QKV_BATCH_ORDER_LENGTH,   /* short ones first; batch.index restores the order */
    QKV_BATCH_ORDER_SHUFFLED, /* another one in each epoch, sentences of like length together */
};

struct qkv_batches_options {
    enum qkv_batch_type type;
    int64_t size; /* sentence: most sentences of a batch. token: most tokens of the fuller side, max(Ns, Nt),
                     counted with </s> and without padding, since there is none; a longer sentence is a batch
                     of its own */
    enum qkv_batch_order order;
    uint64_t seed; /* shuffled only */
};

/* A plan: which sentences form which batch. Caller's storage. */
struct qkv_batches {
    const struct qkv_corpus *corpus;
    struct qkv_batches_options options;
    int64_t epoch;
    int64_t count; /* batches of this epoch; by tokens it differs a little between epochs */
    /* private */
    int64_t *order;    /* [sentences] */
    int64_t *scratch;  /* [sentences] */
    int64_t *start;    /* [count + 1]: first sentence of each batch in `order` */
    int64_t *sequence; /* [count]: which batch comes when */
    int64_t most_sentences, most_source_tokens, most_target_tokens; /* of any batch in any epoch */
};

/* Reserves what every epoch needs and plans epoch 0. The corpus must be encoded and outlive the plan. Fails
 * when there is no memory. options.size > 0. */
QKV_API enum qkv_status qkv_batches_init(struct qkv_batches *batches, const struct qkv_corpus *corpus,
                                         struct qkv_batches_options options, struct qkv_error *error);

/* Plans an epoch (0 .. 2^32-1): a pure function of corpus, options and epoch, so that a resumed run continues
 * where it stopped. Every sentence is in exactly one batch. Shuffled: all sentences are shuffled, sorted by
 * length within pools of 64 batches, cut, and the batches are shuffled. Calls no malloc. */
QKV_API void qkv_batches_epoch(struct qkv_batches *batches, int64_t epoch);

/* Fills `batch` with the i-th batch of the epoch, 0 <= i < count. Reserves the most that any batch of the
 * plan needs, so that later calls with the same batch call no malloc. Different batches may be filled from
 * different threads. Fails when there is no memory. */
QKV_API enum qkv_status qkv_batches_get(const struct qkv_batches *batches, int64_t i, struct qkv_batch *batch,
                                        struct qkv_error *error);

/* Fills `batch` with sentences of unknown words that are together at least as long as any of `shards` parts
 * of any batch in any epoch, on either side and in any product of lengths: what needs memory in proportion
 * can be reserved with it. Fails when there is no memory. */
QKV_API enum qkv_status qkv_batches_largest(const struct qkv_batches *batches, int64_t shards,
                                            struct qkv_batch *batch, struct qkv_error *error);

QKV_API void qkv_batches_release(struct qkv_batches *batches);

#endif
