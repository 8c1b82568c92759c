/* Lists of texts and matrices of numbers, as they are read from a file.
 *
 * Example:
 *     const double value[] = {1, 2, 3, 4, 5, 6};
 *     const struct qkv_matrix matrix = {.rows = 2, .columns = 3, .value = value};
 *     printf("%g\n", matrix.value[1 * matrix.columns + 2]); // row 1, column 2: 6
 */
#ifndef QKV_MATRIX_H
#define QKV_MATRIX_H

#include <stdint.h>

/* A list of texts. The code that fills it in owns the memory; a list that was read from a file lives in the arena that was
 * passed to the reader. */
struct qkv_texts {
    int64_t count;
    const char *const *text; /* [count] */
};

/* A matrix, row after row. Memory is owned as for struct qkv_texts. */
struct qkv_matrix {
    int64_t rows, columns; /* 0, 0: not given */
    const double *value;   /* [rows, columns] */
};

#endif
