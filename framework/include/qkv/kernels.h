/* Which kernels compute on this machine: those of qkv for all ops, and those of OpenBLAS for large products
 * in float64, and if wanted in float32.
 *
 * Example:
 *     struct qkv_kernel_names names;
 *     struct qkv_error error;
 *     if (!qkv_kernels_in_use(&names, &error)) printf("%s, OpenBLAS for %s\n", names.float32, names.blas_core);
 *
 * Both choose at run time the fastest kernels that the processor can run. Environment variables choose others:
 * QKV_KERNELS=avx2 those of qkv, OPENBLAS_CORETYPE=Haswell those of OpenBLAS. All kernels of qkv in float32 give the same
 * bits on every processor.
 *
 * QKV_KERNELS=blas is the fastest variant of qkv's kernels, with large products in float32 by OpenBLAS, which may be
 * faster. It gives up those bits: training then gives other numbers with every core of OpenBLAS and every version, and a
 * row of a product may have other last bits in a batch of another size. The number of threads still changes no bit. The
 * library reads this value once, when the first graph or optimizer of the process is made or when it is first asked for
 * the names; the choice then holds for the whole process.
 *
 * OpenBLAS may not know a newer processor, and then uses kernels that are several times slower. better_blas_core says so.
 * OpenBLAS chooses when it is loaded, so a program that wants its speed sets OPENBLAS_CORETYPE to that core and executes
 * itself anew, as the commands of qkv do with QKV_KERNELS=blas; the library never does. */
#ifndef QKV_KERNELS_H
#define QKV_KERNELS_H

#include "qkv/error.h"

#include <stdbool.h>

/* Static texts. */
struct qkv_kernel_names {
    /* Variants of qkv's kernels, for each precision: "avx512", "avx2", "portable". */
    const char *float32, *float64;
    /* The instructions of this processor by which they multiply bfloat16 ("vdpbf16ps") and int8 ("vpdpbusd"). NULL: there is
     * none, or QKV_KERNELS forbids it; products of bfloat16 then take longer than in float32. */
    const char *bfloat16_instruction, *int8_instruction;
    /* QKV_KERNELS=blas: OpenBLAS computes large products in float32, too. */
    bool is_float32_by_blas;
    /* The processor whose kernels OpenBLAS uses: "SkylakeX". */
    const char *blas_core;
    /* NULL, or, where blas_core does not fit this processor, the value of OPENBLAS_CORETYPE that does: "SkylakeX". Always
     * NULL where OpenBLAS was built for one core only. */
    const char *better_blas_core;
    /* OpenBLAS's version and how it was built: "OpenBLAS 0.3.26 DYNAMIC_ARCH ...". */
    const char *blas_config;
};

/* QKV_INVALID when QKV_KERNELS is set, but neither to the name of a variant nor to blas: then building a graph and making
 * an optimizer also fail. A variant that this processor cannot run, or that does not exist for the precision, is replaced
 * by the fastest that it can. `names` may be NULL. */
QKV_API enum qkv_status qkv_kernels_in_use(struct qkv_kernel_names *names, struct qkv_error *error);

#endif
