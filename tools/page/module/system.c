/* What the engine takes from a system, for a module that has one thread, one kind of kernels and no OpenBLAS: in place of
 * core/workers.c, core/memory.c, core/matrix_threads.c, core/kernel_choice.c, config/path.c, data/input.c,
 * data/prepared.c, explain/learned_run.c, kernels/registry.c and run/listing.c. */
#include "config/path.h"
#include "core/kernel_choice.h"
#include "core/matrix_threads.h"
#include "data/lines.h"
#include "data/prepared.h"
#include "explain/learned.h"
#include "kernels/optimizer.h"
#include "kernels/registry.h"
#include "page/module/training.h"
#include "run/listing.h"

#include "qkv/arena.h"
#include "qkv/kernels.h"
#include "qkv/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

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

/* ---- one text in memory, in place of all files ---- */

struct qkv_input {
    const char *bytes;
    size_t size;
};

static struct qkv_input file;

void page_set_file(const char *bytes, size_t size)
{
    file = (struct qkv_input){bytes, size};
}

struct qkv_input *qkv_input_open(const char *path, struct qkv_error *error)
{
    (void)path, (void)error;
    return &file;
}

enum qkv_status qkv_input_read(struct qkv_input *input, char *to, size_t size, size_t *got,
                               struct qkv_error *error)
{
    (void)error;
    *got = size < input->size ? size : input->size;
    memcpy(to, input->bytes, *got);
    input->bytes += *got;
    input->size -= *got;
    return QKV_OK;
}

void qkv_input_close(struct qkv_input *input)
{
    (void)input;
}

/* A page has no prepared corpora, data/prepared.c: a corpus that could hold one is never asked about it. */
enum qkv_status qkv_prepared_open(struct qkv_corpus *corpus, const char *path,
                                  const struct qkv_data_config *data, struct qkv_corpus_options options,
                                  struct qkv_error *error)
{
    (void)corpus, (void)data, (void)options;
    return qkv_error_set(error, "%s: cannot be read by a page", path);
}

enum qkv_status qkv_prepared_vocabularies(const struct qkv_corpus *corpus, struct qkv_vocabulary *source,
                                          struct qkv_vocabulary *target, struct qkv_error *error)
{
    (void)corpus, (void)source, (void)target, (void)error;
    return QKV_INVALID;
}

enum qkv_status qkv_prepared_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                    const struct qkv_vocabulary *target, struct qkv_error *error)
{
    (void)corpus, (void)source, (void)target, (void)error;
    return QKV_INVALID;
}

void qkv_prepared_close(struct qkv_corpus *corpus)
{
    (void)corpus;
}

int stat(const char *restrict path, struct stat *restrict status)
{
    (void)path, (void)status;
    errno = ENOENT;
    return -1;
}

/* ---- the run that a scene names: `qkv page` refuses such scenes ---- */

enum qkv_status qkv_learned_open(struct learned *learned, const struct qkv_scene *scene,
                                 struct qkv_arena *arena, struct qkv_error *error)
{
    (void)scene, (void)arena, (void)error;
    *learned = (struct learned){0};
    return QKV_OK;
}

void qkv_learned_close(struct learned *learned)
{
    (void)learned;
}

struct qkv_matrix qkv_learned_embeddings(struct learned *learned, struct walk *walk,
                                         const struct qkv_texts *words, bool source)
{
    (void)walk, (void)words, (void)source;
    learned->failed = true;
    return (struct qkv_matrix){0};
}

enum qkv_status qkv_learned_weights(struct learned *learned, struct walk *walk, const struct qkv_tensor *x,
                                    const struct qkv_tensor *memory, struct attention_setup *setup)
{
    (void)learned, (void)walk, (void)x, (void)memory, (void)setup;
    return QKV_INVALID;
}

/* ---- memory and kernels ---- */

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

enum qkv_status qkv_kernels_in_use(struct qkv_kernel_names *names, struct qkv_error *error)
{
    (void)names, (void)error;
    return QKV_OK;
}

/* Those of float32 also prepare updates, in float64: they carry the rules (QKV_KERNEL_RULES). */
const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype)
{
    (void)dtype;
    return qkv_kernels_float32_portable.optimizer;
}

/* Of zlib: the checksum of a corpus is one of these. */
uLong crc32_z(uLong sum, const Bytef *bytes, z_size_t size)
{
    uLong rest = ~sum & 0xFFFFFFFF;
    for (z_size_t i = 0; i < size; i++) {
        rest ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) rest = rest >> 1 ^ (rest & 1 ? 0xEDB88320 : 0);
    }
    return ~rest & 0xFFFFFFFF;
}

const char *qkv_list_checkpoints(struct qkv_arena *arena, const char *folder)
{
    (void)arena, (void)folder;
    return NULL;
}

const char *qkv_find_run_inside(struct qkv_arena *arena, const char *folder)
{
    (void)arena, (void)folder;
    return NULL;
}
