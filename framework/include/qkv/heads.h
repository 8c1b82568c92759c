/* The heads of a trained model by name.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_run run;
 *     struct qkv_head head;
 *     if (!qkv_run_open(&run, "runs/toy_en_es", NULL, QKV_FLOAT32, &error)) {
 *         if (qkv_head_find(run.model, "cross.2.1", &head, &error))
 *             fprintf(stderr, "%s\n", error.message);
 *         else
 *             qkv_model_silence(run.model, head, true); // translates without this head from now on
 *         qkv_run_release(&run);
 *     }
 */
#ifndef QKV_HEADS_H
#define QKV_HEADS_H

#include "qkv/error.h"
#include "qkv/run.h"

#include <stddef.h>

/* Writes the name of a head into `text`, cut to `size` bytes: kind of attention, layer and head, as in cross.2.1. 64 bytes
 * are enough. */
QKV_API void qkv_head_name(struct qkv_head head, char *text, size_t size);

/* Finds the head of a model that has this name. Fails when there is none, with a message that says which heads there are. */
QKV_API enum qkv_status qkv_head_find(const struct qkv_model *model, const char *name, struct qkv_head *head,
                                      struct qkv_error *error);

#endif
