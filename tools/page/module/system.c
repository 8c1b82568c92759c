/* What the engine takes from a system, for a module that has one thread, one kind of kernels and no OpenBLAS: in place of
 * core/workers.c, core/memory.c, core/matrix_threads.c, core/kernel_choice.c, config/path.c and kernels/registry.c. */
#include "config/path.h"
#include "core/kernel_choice.h"
#include "core/matrix_threads.h"
#include "kernels/registry.h"

#include "qkv/arena.h"
#include "qkv/kernels.h"
#include "qkv/workers.h"

#include <stdlib.h>
#include <sys/mman.h>

int qkv_workers_count(const struct qkv_workers *workers)
{
    (void)workers;
    return 1;
}

void qkv_workers_run(struct qkv_workers *workers, int parts, void (*function)(void *context, int part),
                     void *context)
{
    (void)workers;
    for (int part = 0; part < parts; part++) function(context, part);
}

void qkv_limit_matrix_threads(void)
{
}

bool qkv_blas_is_wanted(void)
{
    return false;
}

void *qkv_block_new(size_t size, size_t written)
{
    enum { VECTOR = 64 };
    (void)written; /* WebAssembly has no large pages */
    if (size > SIZE_MAX / 2) return NULL;
    return aligned_alloc(VECTOR, (size + VECTOR - 1) / VECTOR * VECTOR);
}

void qkv_block_free(void *block, size_t size)
{
    (void)size;
    free(block);
}

/* A page has no files: the paths of a config are left out when a run is packed. */
const char *qkv_path_of_file(struct qkv_arena *arena, const char *file, const char *path)
{
    (void)arena, (void)file;
    return path;
}

bool qkv_path_is_text(const char *path)
{
    (void)path;
    return false;
}

/* Arenas are never guarded here. */
int mprotect(void *start, size_t size, int protection)
{
    (void)start, (void)size, (void)protection;
    return -1;
}

enum qkv_status qkv_kernels_check(struct qkv_error *error)
{
    (void)error;
    return QKV_OK;
}

extern const struct qkv_kernels qkv_kernels_float32_portable;

const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype)
{
    QKV_BUG(dtype != QKV_FLOAT32, "the module computes in float32 only");
    return qkv_kernels_float32_portable.op;
}

const struct qkv_op *qkv_op_rule(enum qkv_op_id op)
{
    return qkv_kernels_float32_portable.op[op];
}
