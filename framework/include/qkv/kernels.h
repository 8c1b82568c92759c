/* Which kernels compute on this machine: those of qkv for all ops, and those of OpenBLAS for large products
 * in float64.
 *
 * Example:
 *     struct qkv_kernel_names names;
 *     struct qkv_error error;
 *     if (!qkv_kernels_in_use(&names, &error)) printf("%s, OpenBLAS for %s\n", names.float32, names.blas_core);
 *
 * Both choose at run time the fastest kernels that the processor can run. Environment variables choose others:
 * QKV_KERNELS=avx2 those of qkv, OPENBLAS_CORETYPE=Haswell those of OpenBLAS. Other kernels round differently, so that
 * training with them gives other numbers. */
#ifndef QKV_KERNELS_H
#define QKV_KERNELS_H

#include "qkv/error.h"

/* Static texts. */
struct qkv_kernel_names {
    const char *float32,
        *float64;            /* variants of qkv's kernels, for each precision: "avx512", "avx2", "portable" */
    const char *blas_core;   /* the processor whose kernels OpenBLAS uses: "SkylakeX" */
    const char *blas_config; /* OpenBLAS's version and how it was built: "OpenBLAS 0.3.26 DYNAMIC_ARCH ..." */
};

/* QKV_INVALID when QKV_KERNELS is set, but not to the name of a variant: then building a graph and making an optimizer
 * also fail. A variant that this processor cannot run, or that does not exist for the precision, is replaced by the
 * fastest that it can. `names` may be NULL. */
QKV_API enum qkv_status qkv_kernels_in_use(struct qkv_kernel_names *names, struct qkv_error *error);

#endif
