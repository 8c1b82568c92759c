/* How qkv reports what went wrong.
 *
 * Three kinds, never mixed (CONTRIBUTING.md, "Errors"):
 * - user errors (config, data, files): a status and one finished sentence in a struct qkv_error;
 * - graph building errors: sticky in the graph (graph.h);
 * - bugs: QKV_BUG, which prints and aborts.
 * The library never exits and never prints, except in QKV_BUG. */
#ifndef QKV_ERROR_H
#define QKV_ERROR_H

/* Stands before every public function: part of the shared library's interface and, in C++, a C function. The
 * one macro does for C++ what a pair around each header would do. */
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

/* What a function that can fail returns, and what the command line exits with. */
enum qkv_status {
    QKV_OK = 0,      /* done */
    QKV_FAILED = 1,  /* a check failed, or training diverged */
    QKV_INVALID = 2, /* bad usage or input */
};

/* One finished sentence without a full stop, with place first: `configs/x.yaml:14:7: model... is 3, but ...`.
 */
struct qkv_error {
    char message[1024];
};

/* Formats the sentence into `error` (which may be NULL) and returns QKV_INVALID, so that callers can write
 * `return qkv_error_set(error, "...", ...)`. A message that does not fit is cut and ends in "...". */
QKV_API enum qkv_status qkv_error_set(struct qkv_error *error, const char *format, ...) QKV_PRINTF(2, 3);

/* Prints where and what, and aborts. For QKV_BUG. */
QKV_API QKV_NORETURN void qkv_bug(const char *file, int line, const char *condition, const char *format, ...)
    QKV_PRINTF(4, 5);

/* States an invariant of this library: aborts with the message when `condition` HOLDS. Never compiled out,
 * and never for input. */
#define QKV_BUG(condition, ...)                                                                              \
    do {                                                                                                     \
        if (condition) qkv_bug(__FILE__, __LINE__, #condition, __VA_ARGS__);                                 \
    } while (0)

#endif
