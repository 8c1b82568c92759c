/* The threads of OpenBLAS, which use processors that the workers need, because they spin before they sleep. */
#include "core/matrix_threads.h"

#include "qkv/workers.h"

#include <cblas.h>
#include <stdatomic.h>

/* Not in the public interface of OpenBLAS, which calls it before a fork; other BLAS libraries lack it. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

static atomic_bool keeps_threads;

void qkv_set_openblas_single_threaded(bool to_one)
{
    keeps_threads = !to_one;
}

void qkv_limit_matrix_threads(void)
{
    if (keeps_threads || openblas_get_num_threads() == 1)
        return; /* setting 1 again would restart ended threads */
    openblas_set_num_threads(1);
}

void qkv_end_openblas_threads(void)
{
    openblas_set_num_threads(1); /* starts the threads if there are none, so it must not follow their end */
    if (blas_thread_shutdown_) blas_thread_shutdown_();
}
