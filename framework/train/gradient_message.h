/* Gradients on their way to another process, in buckets, so that a bucket is sent while backward computes the next. A table of
 * embeddings has gradients in few of its rows, those of the words of some sentences: then these rows alone are sent. */
#ifndef QKV_TRAIN_GRADIENT_MESSAGE_H
#define QKV_TRAIN_GRADIENT_MESSAGE_H

#include "core/exchange.h"

#include "qkv/parameters.h"

struct qkv_gradient_message;

/* NULL when memory is out. The parameters, which are allocated, must outlive it. */
struct qkv_gradient_message *qkv_gradient_message_new(const struct qkv_parameters *parameters);
void qkv_gradient_message_free(struct qkv_gradient_message *message); /* NULL: does nothing */

/* Number of buckets. They cover the block, its end first: backward begins with the parameters that were declared last. */
int qkv_gradient_message_buckets(const struct qkv_gradient_message *message);

/* Where a bucket lies in a block, in numbers, and which parameters it has numbers of: those from `first` to before `end`. */
struct qkv_gradient_range {
    int64_t start, count;
    int64_t first, end;
};
struct qkv_gradient_range qkv_gradient_message_range(const struct qkv_gradient_message *message, int bucket);

/* Sends a bucket of a block of gradients to a process that receives it, with the same bits. */
enum qkv_status qkv_gradient_message_send(struct qkv_gradient_message *message, int bucket,
                                          struct qkv_processes *processes, int to, const void *gradients,
                                          struct qkv_error *error);

/* Receives a bucket. *numbers: they lie in the message until the next bucket is sent or received. */
enum qkv_status qkv_gradient_message_receive(struct qkv_gradient_message *message, int bucket,
                                             struct qkv_processes *processes, int from, void **numbers,
                                             struct qkv_error *error);

#endif
