/* Gradients on their way to another process. A table of embeddings has gradients in few of its rows, those of the words of some
 * sentences: then these rows alone are sent. */
#ifndef QKV_TRAIN_GRADIENT_MESSAGE_H
#define QKV_TRAIN_GRADIENT_MESSAGE_H

#include "core/exchange.h"

#include "qkv/parameters.h"

struct qkv_gradient_message;

/* NULL when memory is out. The parameters, which are allocated, must outlive it. */
struct qkv_gradient_message *qkv_gradient_message_new(const struct qkv_parameters *parameters);
void qkv_gradient_message_free(struct qkv_gradient_message *message); /* NULL: does nothing */

/* Sends a block of gradients to a process that receives it, with the same bits. */
enum qkv_status qkv_gradient_message_send(struct qkv_gradient_message *message,
                                          struct qkv_processes *processes, int to, const void *gradients,
                                          struct qkv_error *error);
enum qkv_status qkv_gradient_message_receive(struct qkv_gradient_message *message,
                                             struct qkv_processes *processes, int from, void *gradients,
                                             struct qkv_error *error);

#endif
