/* The matrix library's own threads: each takes a core from the workers while it looks for work. */
#include "qkv/workers.h"

#include <cblas.h>

/* OpenBLAS has this beside its interface, where it runs before a fork; other libraries lack it. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

void qkv_end_matrix_threads(void)
{
    openblas_set_num_threads(1); /* before: it starts threads where there are none */
    if (blas_thread_shutdown_) blas_thread_shutdown_();
}
