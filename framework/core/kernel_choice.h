/* What the environment variable QKV_KERNELS asks for. */
#ifndef QKV_CORE_KERNEL_CHOICE_H
#define QKV_CORE_KERNEL_CHOICE_H

#include <stdbool.h>

/* The value of QKV_KERNELS that names no variant of the kernels: the fastest variant, but large products in float32 by
 * OpenBLAS. */
#define QKV_KERNELS_BLAS "blas"

/* The value of QKV_KERNELS; NULL where it is not set, or empty. */
const char *qkv_wanted_kernels(void);

/* Whether QKV_KERNELS was QKV_KERNELS_BLAS when this function was first called; making a graph calls it. The answer
 * never changes: graphs, threads and packed weights must agree on who multiplies. */
bool qkv_blas_is_wanted(void);

#endif
