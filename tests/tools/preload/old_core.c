/* Loaded into qkv with LD_PRELOAD: an OpenBLAS that does not know the processor, and chooses kernels for a much older one
 * unless OPENBLAS_CORETYPE names others. With QKV_CANNOT_EXECUTE, programs cannot be executed. */
#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

char *openblas_get_corename(void)
{
    static char old[] = "Prescott";
    char *chosen = getenv("OPENBLAS_CORETYPE");
    return chosen && *chosen ? chosen : old;
}

char *openblas_get_config(void)
{
    static char config[] = "OpenBLAS 0.0.0 DYNAMIC_ARCH";
    return config;
}

int execv(const char *path, char *const *argv)
{
    int (*execute)(const char *, char *const *);
    *(void **)&execute = dlsym(RTLD_NEXT, "execv");
    if (!getenv("QKV_CANNOT_EXECUTE")) return execute(path, argv);
    errno = EACCES;
    return -1;
}
