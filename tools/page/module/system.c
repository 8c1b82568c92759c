/* Bytes in and results out, and what the engine takes from a system, for a module that has one thread, one kind of kernels
 * and no OpenBLAS: in place of core/system.c, config/path.c, the files of data/lines.c and kernels/registry.c. What a page
 * never calls is missing: CMakeLists.txt names it. */
#include "page/module/module.h"

#include "config/path.h"
#include "core/memory.h"
#include "core/system.h"
#include "data/lines.h"
#include "kernels/registry.h"

#include "draw/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* ---- bytes in, results out ---- */

struct qkv_error page_error;
char *page_bytes;

/* The results of a call; one without a name ends the list. engine.js reads it. */
static struct {
    const char *name;
    enum page_type type;
    void *values;
    uint32_t count; /* of texts: bytes; each ends with a newline */
} results[32];
static int result_count;
static struct qkv_arena result_arena;

void *page_sure(void *memory)
{
    if (memory) return memory;
    fputs("out of memory", stderr);
    exit(1);
}

void *page_give(const char *name, enum page_type type, int64_t count, size_t size)
{
    QKV_BUG(result_count + 1 == sizeof results / sizeof *results, "there is no room for %s", name);
    void *values = page_sure(qkv_arena_zeroed(&result_arena, (size_t)count * size));
    results[result_count].name = name;
    results[result_count].type = type;
    results[result_count].values = values;
    results[result_count++].count = (uint32_t)count;
    results[result_count].name = NULL;
    return values;
}

void page_texts(const char *name, int64_t count, const char *const *texts)
{
    size_t size = 0;
    for (int64_t i = 0; i < count; i++) size += strlen(texts[i]) + 1;
    char *end = page_give(name, PAGE_TEXTS, (int64_t)size, 1);
    for (int64_t i = 0; i < count; i++) {
        size_t length = strlen(texts[i]);
        memcpy(end, texts[i], length);
        end[length] = '\n';
        end += length + 1;
    }
}

/* Room for `size` bytes, with a NUL after them, in place of those of the last call, whose results end. */
void *EXPORT(page_input)(size_t size)
{
    free(page_bytes);
    qkv_arena_reset(&result_arena);
    result_count = 0;
    results[0].name = NULL;
    page_bytes = page_sure(malloc(size + 1));
    page_bytes[size] = '\0';
    return page_bytes;
}

const void *EXPORT(page_results)(void)
{
    return results;
}

const char *EXPORT(page_message)(void)
{
    return page_error.message;
}

/* The colours of weights from 0 to 1, as 0xRRGGBB, of each colormap (draw/text.h) that the page offers. */
int EXPORT(page_colors)(void)
{
    static const char *const names[] = {"YlOrRd", "viridis"};
    enum { COLORMAPS = sizeof names / sizeof *names, COLORS = 256 };
    page_texts("colormaps", COLORMAPS, names);
    int32_t *colors = page_integers("colors", COLORMAPS * COLORS);
    for (int i = 0; i < COLORMAPS * COLORS; i++)
        qkv_colormap_color(names[i / COLORS], (double)(i % COLORS) / (COLORS - 1), (uint32_t *)&colors[i]);
    return QKV_OK;
}

/* ---- threads and memory ---- */

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

const char **qkv_path_files(struct qkv_arena *arena, const char *path, int64_t *count)
{
    const char **files = qkv_arena_array(arena, 1, sizeof *files);
    if (files) files[0] = path;
    *count = 1;
    return files;
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

int stat(const char *restrict path, struct stat *restrict status)
{
    (void)path, (void)status;
    errno = ENOENT;
    return -1;
}

/* ---- kernels ---- */

enum qkv_status qkv_kernels_check(struct qkv_error *error)
{
    (void)error;
    return QKV_OK;
}

enum qkv_status qkv_kernels_in_use(struct qkv_kernel_names *names, struct qkv_error *error)
{
    (void)names, (void)error;
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

/* Those of float32 also prepare updates, in float64: they carry the rules (QKV_KERNEL_RULES). */
const struct qkv_optimizer_kernels *qkv_optimizer_registry(enum qkv_dtype dtype)
{
    (void)dtype;
    return qkv_kernels_float32_portable.optimizer;
}

/* Of zlib: the checksum of a corpus, which nothing compares here. */
uLong crc32_z(uLong sum, const Bytef *bytes, z_size_t size)
{
    (void)bytes, (void)size;
    return sum;
}

/* There are no folders. */
int scandir(const char *folder, struct dirent ***entries, int (*filter)(const struct dirent *),
            int (*compare)(const struct dirent **, const struct dirent **))
{
    (void)folder, (void)entries, (void)filter, (void)compare;
    return -1;
}
