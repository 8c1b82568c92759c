/* The kernels of OpenBLAS that a command computes with. */
#ifndef QKV_TOOLS_BLAS_CORE_H
#define QKV_TOOLS_BLAS_CORE_H

/* With QKV_KERNELS=blas: if OpenBLAS has chosen kernels that do not fit the processor, and the environment variable
 * OPENBLAS_CORETYPE is not set, executes this program again with that variable, which OpenBLAS reads only when it is loaded.
 * Call it before anything is read, written or started. It returns if there is nothing to do, or if executing fails: then it
 * reports on standard error that kernels are slow, and the program continues. */
void choose_blas_core(char **argv);

#endif
