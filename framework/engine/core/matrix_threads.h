/* The threads of OpenBLAS. */
#ifndef QKV_CORE_MATRIX_THREADS_H
#define QKV_CORE_MATRIX_THREADS_H

/* Sets OpenBLAS to one thread, unless the program has turned that off (qkv_set_openblas_single_threaded). */
void qkv_limit_matrix_threads(void);

#endif
