/* The kernels that the environment variable QKV_KERNELS requests. */
#ifndef QKV_CORE_KERNEL_CHOICE_H
#define QKV_CORE_KERNEL_CHOICE_H

#include <stdbool.h>

/* The value of QKV_KERNELS that is not the name of a variant: it selects the fastest variant, but OpenBLAS for large
 * products in float32. */
#define QKV_KERNELS_BLAS "blas"

/* The value of QKV_KERNELS; NULL where it is not set, or empty. */
const char *qkv_wanted_kernels(void);

/* Whether QKV_KERNELS was QKV_KERNELS_BLAS when this function was first called; making a graph calls it. The answer never
 * changes, because graphs, threads and packed weights must use the same kernels. */
bool qkv_blas_is_wanted(void);

#endif
