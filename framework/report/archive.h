/* Private to the report writers: NumPy's npz, a zip archive, here stored without compression, of .npy arrays.
 * All times are 1980-01-01, so equal arrays give equal bytes. */
#ifndef QKV_ARCHIVE_H
#define QKV_ARCHIVE_H

#include "draw/bytes.h"

/* The archive so far: members in `out`, and the directory that goes behind them. Begins with only `out` set.
 */
struct archive {
    struct bytes *out, directory;
    int members;
};

/* An array of float64; rank 1 to 4. Names end in ".npy". */
void qkv_npz_append_numbers(struct archive *archive, const char *name, const int64_t *shape, int rank,
                            const double *values);

/* An array of Unicode text. */
void qkv_npz_append_tokens(struct archive *archive, const char *name, const char *const *tokens,
                           int64_t count);

/* Writes the directory and releases what the archive holds. QKV_INVALID with a sentence for more than the
 * format can hold. */
enum qkv_status qkv_npz_finish(struct archive *archive, struct qkv_error *error);

#endif
