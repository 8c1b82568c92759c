/* Ends the threads of OpenBLAS, which use processors that the workers need while they spin. */
#include "qkv/workers.h"

#include <cblas.h>

/* Not in the public interface of OpenBLAS, which calls it before a fork; other BLAS libraries lack it. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

void qkv_end_matrix_threads(void)
{
    openblas_set_num_threads(1); /* first: this call starts threads if there are none */
    if (blas_thread_shutdown_) blas_thread_shutdown_();
}
