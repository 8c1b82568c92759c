/* Reads the environment variable QKV_KERNELS. */
#include "core/kernel_choice.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const char *qkv_wanted_kernels(void)
{
    const char *wanted = getenv("QKV_KERNELS");
    return wanted && *wanted ? wanted : NULL;
}

static bool blas_is_wanted;

static void read_choice(void)
{
    const char *wanted = qkv_wanted_kernels();
    blas_is_wanted = wanted && !strcmp(wanted, QKV_KERNELS_BLAS);
}

bool qkv_blas_is_wanted(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_choice);
    return blas_is_wanted;
}
