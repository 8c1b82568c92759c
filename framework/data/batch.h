/* Between batch.c and batches.c. */
#ifndef QKV_DATA_BATCH_H
#define QKV_DATA_BATCH_H

#include "qkv/batch.h"

/* Makes room for a batch of that many sentences and tokens; false, and an empty batch, when there is no
 * memory. */
bool qkv_batch_reserve(struct qkv_batch *batch, int64_t sentences, int64_t source_tokens,
                       int64_t target_tokens);

/* Makes the batch empty but keeps its storage. */
void qkv_batch_clear(struct qkv_batch *batch);

/* Adds a sentence, for which there is room, with <s> and </s>. `target` NULL: none. */
void qkv_batch_add(struct qkv_batch *batch, int64_t index, struct qkv_ids source,
                   const struct qkv_ids *target);

#endif
