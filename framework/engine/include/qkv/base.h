/* What every other header needs: errors, memory, kinds of numbers, random numbers, files and threads.
 *
 * Example:
 *     struct qkv_error error;
 *     struct qkv_arena arena = {0};
 *     double *numbers = qkv_arena_zeroed(&arena, 100 * sizeof *numbers);
 *     struct qkv_random random = {.seed = 42, .stream = QKV_STREAM_GENERATE};
 *     for (uint64_t i = 0; numbers && i < 100; i++) numbers[i] = qkv_random_normal(random, i);
 *     enum qkv_status status = numbers ? QKV_OK : qkv_error_set(&error, "%s: out of memory", "example");
 *     if (status) fprintf(stderr, "%s\n", error.message);
 *     qkv_arena_release(&arena);
 *
 * There are three kinds of error:
 * - user errors (settings, data, files): functions return a status and fill in a struct qkv_error;
 * - wrong calls: functions return a status, NULL, NaN or an empty result; a graph keeps the error until qkv_graph_check
 *   (graph.h);
 * - faults of the library itself: QKV_BUG calls the handler of qkv_set_bug_handler and aborts.
 * The library never exits and never prints, except that QKV_BUG prints a line and aborts. */
#ifndef QKV_BASE_H
#define QKV_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Marks public functions: exported by the shared library, with C linkage in C++. */
#ifdef __cplusplus
#    define QKV_LINKAGE extern "C"
#else
#    define QKV_LINKAGE
#endif

#if defined(__GNUC__)
#    define QKV_API                 QKV_LINKAGE __attribute__((visibility("default")))
#    define QKV_PRINTF(text, first) __attribute__((format(printf, text, first)))
#    define QKV_NORETURN            __attribute__((noreturn))
#else
#    define QKV_API QKV_LINKAGE
#    define QKV_PRINTF(text, first)
#    define QKV_NORETURN
#endif

/* Result of functions that can fail, and exit code of the command line. */
enum qkv_status {
    QKV_OK = 0,     /* done */
    QKV_FAILED = 1, /* a check failed, or training diverged */
    QKV_INVALID =
        2, /* anything else: bad usage or input, no memory, a file that cannot be written; the message says it */
};

/* One sentence without a full stop. Functions fill it when they fail; after a success its contents are arbitrary. The place
 * of the error comes first:
 * `decoder.1.attention: key_value_heads is 2, but must divide 3 heads`. */
struct qkv_error {
    char message[1024];
};

/* Formats the sentence into `error` (NULL: discards it) and returns QKV_INVALID, for `return qkv_error_set(error, ...)`. A
 * sentence that is too long is cut and ends in "...". Control characters and invalid UTF-8, for example in the name of a
 * file, are escaped: \x1B, \u202E. */
QKV_API enum qkv_status qkv_error_set(struct qkv_error *error, const char *format, ...) QKV_PRINTF(2, 3);

/* Receives the message of QKV_BUG, "bug at file:line (condition): sentence". The handler may log it, end its thread or
 * leave with longjmp; when it returns, the program aborts. After a bug the objects that the call worked on must not be used
 * any more. */
typedef void qkv_bug_handler(void *context, const char *message);

/* Sets the handler of the whole process; NULL (the default) prints the message to stderr. Call it before other threads
 * use the library. */
QKV_API void qkv_set_bug_handler(qkv_bug_handler *handler, void *context);

/* Passes place, condition and message to the handler, and aborts. Called by QKV_BUG. */
QKV_API QKV_NORETURN void qkv_bug(const char *file, int line, const char *condition, const char *format, ...)
    QKV_PRINTF(4, 5);

/* Aborts with the message when `condition` is TRUE: the opposite of assert, and never compiled out. Only for broken
 * invariants of the library; a wrong call or wrong input is reported as an error instead. */
#define QKV_BUG(condition, ...)                                                                              \
    do {                                                                                                     \
        if (condition) qkv_bug(__FILE__, __LINE__, #condition, __VA_ARGS__);                                 \
    } while (0)

/* ---- arenas: many allocations that are released together; one thread at a time may use an arena ---- */

struct qkv_arena_chunk;

/* Caller's storage; all zero is an empty arena. */
struct qkv_arena {
    struct qkv_arena_chunk *first, *current;
    size_t used; /* bytes allocated since the last reset */
    size_t peak; /* most bytes ever allocated between two resets */
    bool
        failed; /* memory ran out for an allocation since the last reset: one check is enough after several of them */
};

/* Allocates `size` bytes, not zeroed, aligned to 64 bytes. NULL when memory runs out. Size 0 gives a valid pointer. */
QKV_API void *qkv_arena_allocate(struct qkv_arena *arena, size_t size);

/* The same, filled with zeros. */
QKV_API void *qkv_arena_zeroed(struct qkv_arena *arena, size_t size);

/* Returns all memory to the system. The arena is empty and can be used again. */
QKV_API void qkv_arena_release(struct qkv_arena *arena);

/* ---- arrays whose precision is known only at run time; indices are not checked ---- */

/* float32 is for training, float64 for gradient checks. */
enum qkv_dtype { QKV_FLOAT32, QKV_FLOAT64 };

/* Bytes of a number. */
static inline size_t qkv_dtype_size(enum qkv_dtype dtype)
{
    return dtype == QKV_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* Element i of an array, from 0. */
static inline double qkv_dtype_get(enum qkv_dtype dtype, const void *array, int64_t i)
{
    return dtype == QKV_FLOAT32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

/* Sets element i of an array; float32 rounds the value. */
static inline void qkv_dtype_set(enum qkv_dtype dtype, void *array, int64_t i, double value)
{
    if (dtype == QKV_FLOAT32)
        ((float *)array)[i] = (float)value;
    else
        ((double *)array)[i] = value;
}

/* ---- precision of the products of linear layers ----
 * With fewer bits per factor, one instruction computes more products; qkv_parameters_set_precision (graph.h) sets it.
 *
 * bfloat16: both factors of a product are rounded to 8 significant bits (7 of them stored), in forward and backward; sums
 * are float32. The parameters stay float32. Attention, norms, softmax, the loss and the recurrent products of an LSTM or
 * GRU are float32.
 *
 * int8: a weight is an integer from -127 to 127 times the scale of its output, an activation such an integer times the
 * scale of its row, which is computed when the product runs (dynamic quantisation). The sums of products are exact; only
 * the weights (once) and the activations are rounded. Embedding tables are rounded, too. Attention, norms, softmax and the
 * recurrent products of an LSTM or GRU stay float32. */

enum qkv_precision { QKV_PRECISION_FLOAT32, QKV_PRECISION_BFLOAT16, QKV_PRECISION_INT8, QKV_PRECISION_COUNT };

/* ---- what a program chooses by name: activations, norms, positions, cells, initializers, optimizers, schedules ----
 * qkv/engine_choices.def lists the values of each enum and says what they mean. */

#define CHOICES(type)                 enum type {
#define CHOICE(value, name, help)     value,
#define CHOICE_OF_OPTIONS(value, ...) value,
#define INTERNAL(value, name)         value,
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;
#include "qkv/engine_choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_OPTIONS
#undef INTERNAL
#undef CHOICES_END

/* The number of rows of each table: every row adds 1. */
enum {
    QKV_OPTIMIZER_COUNT = 0
#define OPTIMIZER(...) +1
#include "qkv/optimizers.def"
    ,
    QKV_SCHEDULE_COUNT = 0
#define SCHEDULE(...) +1
#include "qkv/schedules.def"
};

/* ---- random numbers as a pure function: value = f(seed, stream, step, index) ----
 * There is no state to save, share or lock. The generator is Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as
 * easy as 1, 2, 3"). */

/* What random numbers are used for. Each use has its own stream, so no two uses get the same numbers. */
enum qkv_stream {
    QKV_STREAM_INITIAL_VALUES, /* of parameters; index of the parameter in `step` */
    QKV_STREAM_SHUFFLE,        /* order of examples; epoch in `step`, pool of batches in the sub-stream */
    QKV_STREAM_DROPOUT,        /* masks; number of the dropout node in the sub-stream */
    QKV_STREAM_GENERATE,       /* generated data sets */
    QKV_STREAM_CHECK,          /* samples and cotangents of the gradient check */
    QKV_STREAM_SCENE,          /* vectors and matrices of scenes */
    QKV_STREAM_PIECES, /* parts of texts that are left out at random; epoch in `step`, side in the sub-stream */
    QKV_STREAM_SPLIT,  /* choice of the examples that are held out */
    QKV_STREAM_SAMPLE, /* draws from the output of a model; number of the sample in `step` */
};

/* A sequence of random numbers. */
struct qkv_random {
    uint64_t seed;
    uint32_t stream; /* enum qkv_stream, and a sub-stream in the upper 24 bits, where a use needs one */
    uint32_t step;   /* a number that the use defines: training step, epoch, index of a parameter */
};

/* Number `index` of the sequence: uniform in [0, 1). */
QKV_API double qkv_random_uniform(struct qkv_random random, uint64_t index);

/* Number `index` of the sequence: standard normal (Box and Muller 1958). */
QKV_API double qkv_random_normal(struct qkv_random random, uint64_t index);

/* Number `index` of the sequence: uniform in 0 .. bound-1, with a bias below 2^-32. Requires 0 < bound < 2^32; returns 0
 * otherwise. */
QKV_API uint64_t qkv_random_below(struct qkv_random random, uint64_t index, uint64_t bound);

/* ---- numbered strings, as the keys of a state of training (checkpoint.h) ---- */

/* Different strings, numbered in the order in which they were added, with their frequencies. Caller's storage; all zero
 * is valid and empty. */
struct qkv_types {
    int64_t size;
    int64_t *frequency; /* [size] */
    /* private */
    int64_t *start; /* [size]: offset of each string in text */
    uint32_t *hash; /* [size] */
    /* [slot_count, a power of two]: hash table with open addressing of type numbers; -1: free */
    int32_t *slots;
    char *text;
    int64_t capacity, start_capacity, hash_capacity, slot_count, text_capacity, text_size;
};

/* ---- stopping a long call ---- */

/* Sets the flag (NULL, the default: none) that long calls of this thread ask: reading texts, searches, evaluation, attention
 * of many pairs, and gradient checks. Once it is true, such a call fails with "interrupted", usually within a decoding step, a
 * batch or a gradient; what it worked on can be used again. Another thread or a signal handler may set the flag. Training ends
 * with its run saved by the `stop` of its listener instead (trainer.h). */
QKV_API void qkv_set_interrupt(const bool *flag);

/* ---- files ---- */

/* Removes the temporary files of all writers of this process. Only for a signal handler that then ends the process; it may
 * be called at any time and in any thread, and writers fail afterwards. Without this call, a signal that ends the process
 * leaves the temporary files behind. */
QKV_API void qkv_file_remove_temporary(void);

/* Opens a file for reading, as a stream that the caller closes; NULL with a message on failure. Never blocks.
 * `regular`: accepts only a regular file, as for the files of a checkpoint; otherwise also devices, and pipes that are already
 * open, such as /dev/stdin and /dev/fd/63. A folder or a named pipe is always refused. */
QKV_API FILE *qkv_file_stream(const char *path, bool regular, struct qkv_error *error);

/* ---- a team of threads, for work that consists of independent parts ---- */

struct qkv_workers;

/* Starts a team of `threads` (0 to 1024), of which the caller is one; 0: as many as the machine has processors. NULL,
 * with the error set, when the number is out of range or threads cannot be started. */
QKV_API struct qkv_workers *qkv_workers_new(int threads, struct qkv_error *error);

/* Stops and joins the threads. No run may be in progress. NULL is allowed. */
QKV_API void qkv_workers_free(struct qkv_workers *workers);

/* ---- threads of OpenBLAS, which belong to the whole process ---- */

/* Sets whether qkv_graph_new limits OpenBLAS to one thread in the whole process (openblas_set_num_threads); true at first.
 * qkv runs graphs and parts of products in parallel itself, so threads of OpenBLAS would only compete with its own. Call
 * it with false before the first graph if the program uses OpenBLAS itself with several threads: qkv then leaves the number
 * of threads as it is; products in float64 may be slower, and the bits of their results may depend on that number. */
QKV_API void qkv_set_openblas_single_threaded(bool to_one);

/* Ends the threads of OpenBLAS; call it at the start of a program that uses OpenBLAS only through qkv. OpenBLAS starts its
 * threads when it is loaded, and they spin for about 0.1 s before they sleep, on processors that the workers need. */
QKV_API void qkv_end_openblas_threads(void);

#endif
