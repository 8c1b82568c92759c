/* The kernels of OpenBLAS that a command computes with. */
#ifndef QKV_TOOLS_BLAS_CORE_H
#define QKV_TOOLS_BLAS_CORE_H

/* With QKV_KERNELS=blas: executes this program anew with the environment variable OPENBLAS_CORETYPE, if OpenBLAS has
 * chosen kernels that do not fit the processor and the variable is not set. OpenBLAS reads it only when it is loaded. Call
 * it before anything is read, written or started. It returns when there is nothing to do, or after it has said on standard
 * error why the program goes on with slow kernels. */
void choose_blas_core(char **argv);

#endif
