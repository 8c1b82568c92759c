/* Sends gradients to another process in buckets, so that one bucket is sent while backward computes the next. An embedding
 * table has gradients only in the rows of the words that occur in the shard, so only these rows are sent. */
#ifndef QKV_TRAIN_GRADIENT_MESSAGE_H
#define QKV_TRAIN_GRADIENT_MESSAGE_H

#include "core/exchange.h"

#include "qkv/parameters.h"

struct qkv_gradient_message;

/* NULL when memory runs out. The parameters, which are allocated, must outlive it. */
struct qkv_gradient_message *qkv_gradient_message_new(const struct qkv_parameters *parameters);
void qkv_gradient_message_free(struct qkv_gradient_message *message); /* NULL: does nothing */

/* Number of buckets. They cover the block from its end to its start, because backward computes the gradients of the parameters
 * that were declared last first. */
int qkv_gradient_message_buckets(const struct qkv_gradient_message *message);

/* The numbers of a block that a bucket covers, [start, start + count), and the parameters that these belong to, wholly or in
 * part: [first, end). */
struct qkv_gradient_range {
    int64_t start, count;
    int64_t first, end;
};
struct qkv_gradient_range qkv_gradient_message_range(const struct qkv_gradient_message *message, int bucket);

/* Sends a bucket of a block of gradients to a process that receives it, with the same bits. */
enum qkv_status qkv_gradient_message_send(struct qkv_gradient_message *message, int bucket,
                                          struct qkv_processes *processes, int to, const void *gradients,
                                          struct qkv_error *error);

/* Receives a bucket. *numbers points into the message and is valid until the next bucket is sent or received. */
enum qkv_status qkv_gradient_message_receive(struct qkv_gradient_message *message, int bucket,
                                             struct qkv_processes *processes, int from, void **numbers,
                                             struct qkv_error *error);

#endif
