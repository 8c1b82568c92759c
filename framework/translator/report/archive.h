/* Private to report: NumPy's npz format, a zip archive of .npy arrays, here without compression. All times are
 * 1980-01-01, so that equal arrays give equal bytes. */
#ifndef QKV_ARCHIVE_H
#define QKV_ARCHIVE_H

#include "draw/text.h"

/* An archive under construction: members are in `out`, and the directory will follow them. Initialise with
 * `out` only. */
struct archive {
    struct bytes *out, directory;
    int members;
};

/* Appends an array of float64 of rank 1 to 4. The name must end with ".npy". */
void qkv_npz_append_numbers(struct archive *archive, const char *name, const int64_t *shape, int rank,
                            const double *values);

/* Appends an array of Unicode strings. */
void qkv_npz_append_tokens(struct archive *archive, const char *name, const char *const *tokens,
                           int64_t count);

/* Appends the directory and frees it. Must be called once. Fails if there are more arrays or bytes than the
 * format can hold. */
enum qkv_status qkv_npz_finish(struct archive *archive, struct qkv_error *error);

#endif
