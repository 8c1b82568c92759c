/* Quantises a run: makes a new run of a quarter of the size, whose matrices are int8.
 *
 * Example:
 *     struct qkv_error error;
 *     if (qkv_run_quantize("runs/toy_en_es", NULL, "runs/toy_int8", &error))
 *         fprintf(stderr, "%s\n", error.message);
 *
 * The new run translates as the old one does with products in int8 (qkv/base.h), and cannot be trained further. */
#ifndef QKV_QUANTIZE_H
#define QKV_QUANTIZE_H

#include "qkv/base.h"

/* Writes a checkpoint of the run `path`, chosen as by qkv_run_open, in int8 into the folder `output`, with all files that
 * translation needs. Fails if `output` exists already, unless it is an empty folder, and where qkv_run_open fails. */
QKV_API enum qkv_status qkv_run_quantize(const char *path, const char *checkpoint, const char *output,
                                         struct qkv_error *error);

#endif
