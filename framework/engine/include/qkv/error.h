/* Errors: a status code, and one sentence for the user.
 *
 * Example:
 *     struct qkv_error error;
 *     enum qkv_status status = qkv_error_set(&error, "%s:%d: the line is empty", "train.tsv", 7);
 *     if (status != QKV_OK) fprintf(stderr, "%s\n", error.message);
 *
 * There are three kinds of error:
 * - user errors (config, data, files): functions return a status and fill in a struct qkv_error;
 * - wrong calls: functions return a status, NULL, NaN or an empty result; a graph keeps the error until qkv_graph_check
 *   (graph.h);
 * - faults of the library itself: QKV_BUG calls the handler of qkv_set_bug_handler and aborts.
 * The library never exits and never prints, with two exceptions: QKV_BUG prints a line and aborts, and
 * qkv_processes_leave ends all processes when one of them has died. */
#ifndef QKV_ERROR_H
#define QKV_ERROR_H

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
 * `configs/x.yaml:14:7: model.encoder.num_heads is 3, but must divide 64`. */
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

#endif
