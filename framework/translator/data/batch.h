/* Filling a batch. */
#pragma once

#include "qkv/corpus.h"

/* Reserves memory for this many sentences and tokens. When there is no memory, returns false and leaves the batch empty. */
bool qkv_batch_reserve(struct qkv_batch *batch, int64_t sentences, int64_t source_tokens,
                       int64_t target_tokens);

/* Empties the batch and keeps its memory. */
void qkv_batch_clear(struct qkv_batch *batch);

/* Appends a sentence pair, given without <s> and </s>, which are added; its memory must be reserved. `index` is its
 * position in the corpus. `source` or `target` NULL: the pair has no such side. */
void qkv_batch_add(struct qkv_batch *batch, int64_t index, const struct qkv_ids *source,
                   const struct qkv_ids *target);

/* Appends a window of a text, as a target to which nothing is added: the token before it, window.ids[-1], is its first
 * input. */
void qkv_batch_add_window(struct qkv_batch *batch, int64_t index, struct qkv_ids window);

/* Makes a batch of the sentences first .. first + count - 1 of an encoded corpus. Fails when memory runs out. */
enum qkv_status qkv_batch_make_some(struct qkv_batch *batch, const struct qkv_corpus *corpus, int64_t first,
                                    int64_t count, struct qkv_error *error);

/* Fills `batch` with <unk> tokens so that its graph needs at least as much memory as the graph of any shard of any batch in
 * any epoch, when batches are split into `shards`. Each side has as many tokens as the largest such shard, and the longest
 * sources are paired with the longest targets, which maximises products of lengths (attention weights). A graph that was
 * built for this batch has room for every shard. Fails when the corpus is empty, `shards` is below 1, or there is no
 * memory. */
enum qkv_status qkv_batches_largest(const struct qkv_batches *batches, int64_t shards,
                                    struct qkv_batch *batch, struct qkv_error *error);

/* Refuses a view unless its sentences follow one another without gaps from its first token to its last, as qkv_batch_shard
 * makes them: networks use these numbers as row indices. has_target: checks the targets, too. */
enum qkv_status qkv_batch_view_check(const struct qkv_batch_view *view, bool has_target,
                                     struct qkv_error *error);
