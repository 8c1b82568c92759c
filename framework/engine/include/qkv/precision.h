/* Low-precision types for the products of linear layers: fewer bits per factor, so that one instruction computes more
 * products.
 *
 * bfloat16: both factors of a product are rounded to 8 significant bits (7 of them stored), in forward and backward; sums
 * are float32. The parameters stay float32. Attention, norms, softmax, the loss and the recurrent products of an LSTM or
 * GRU are float32.
 *
 * int8: a weight is an integer from -127 to 127 times the scale of its output, an activation such an integer times the
 * scale of its row, which is computed when the product runs (dynamic quantisation). The sums of products are exact; only
 * the weights (once) and the activations are rounded. Embedding tables are rounded, too. Attention, norms, softmax and the
 * recurrent products of an LSTM or GRU stay float32.
 *
 * Example:
 *     enum qkv_precision precision;
 *     if (qkv_precision_find("int8", &precision)) printf("%s\n", qkv_precision_name(precision));
 *
 * qkv_parameters_set_precision (parameters.h) sets the precision. */
#ifndef QKV_PRECISION_H
#define QKV_PRECISION_H

#include "qkv/error.h" /* QKV_API */

#include <stdbool.h>

enum qkv_precision { QKV_PRECISION_FLOAT32, QKV_PRECISION_BFLOAT16, QKV_PRECISION_INT8, QKV_PRECISION_COUNT };

/* "float32", "bfloat16", "int8"; NULL for an unknown value. */
QKV_API const char *qkv_precision_name(enum qkv_precision precision);

/* Finds a precision by its name; false if there is none. */
QKV_API bool qkv_precision_find(const char *name, enum qkv_precision *precision);

#endif
