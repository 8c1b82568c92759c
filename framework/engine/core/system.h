/* What the machine gives a process: processors, threads, time, and the environment variable that chooses kernels. */
#pragma once

#include "qkv/base.h"

#include <time.h>

/* The number of processors that this process may run on, at least 1: those that taskset, a container or a batch system leave
 * it, as nproc counts them; where the system cannot tell, all that are online. */
int qkv_processors_available(void);

/* ---- more of teams of threads (qkv/base.h) ---- */

/* Number of threads, including the caller. 1 for NULL: the caller alone. */
int qkv_workers_count(const struct qkv_workers *workers);

/* Calls function(context, part) once for every part 0 .. parts-1 and returns when all are done. Any thread may run any
 * part, in any order; results must not depend on it. The caller runs all parts alone if `workers` is NULL, or if the
 * team is busy with the run of another thread or with the part that makes this call. */
void qkv_workers_run(struct qkv_workers *workers, int parts, void (*function)(void *context, int part),
                     void *context);

/* Sets OpenBLAS to one thread, unless the program has turned that off (qkv_set_openblas_single_threaded). */
void qkv_limit_matrix_threads(void);

/* ---- the kernels that the environment variable QKV_KERNELS requests ---- */

/* The value of QKV_KERNELS that is not the name of a variant: it selects the fastest variant, but OpenBLAS for large
 * products in float32. */
#define QKV_KERNELS_BLAS "blas"

/* The value of QKV_KERNELS; NULL where it is not set, or empty. */
const char *qkv_wanted_kernels(void);

/* Whether QKV_KERNELS was QKV_KERNELS_BLAS when this function was first called; making a graph calls it. The answer never
 * changes, because graphs, threads and packed weights must use the same kernels. */
bool qkv_blas_is_wanted(void);

/* ---- time since a fixed but arbitrary moment, for durations; changes of the date do not affect it ---- */

static inline int64_t qkv_clock_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double qkv_clock_seconds(void)
{
    return 1e-9 * (double)qkv_clock_nanoseconds();
}

/* ---- AMX and bfloat16 ---- */

/* Whether the processor has AMX for bfloat16 and int8, and the system lets this process use it. The first call asks it to. */
bool qkv_has_amx(void);

/* The ways in which products of bfloat16 numbers are computed where the processor has AVX-512; all give the same bits. */
enum qkv_bfloat16_way { QKV_BFLOAT16_BY_FLOAT32, QKV_BFLOAT16_BY_VDPBF16PS, QKV_BFLOAT16_BY_AMX };

/* The fastest way of this processor. The environment variable QKV_BFLOAT16 names another one (float32, vdpbf16ps or amx), which
 * is float32 if the processor does not have it. The first call decides for the process. */
enum qkv_bfloat16_way qkv_bfloat16_way(void);

/* QKV_INVALID when QKV_BFLOAT16 names no way. */
enum qkv_status qkv_bfloat16_check(struct qkv_error *error);
