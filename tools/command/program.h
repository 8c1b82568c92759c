/* How a program begins, and how a signal ends it. */
#pragma once

/* With QKV_KERNELS=blas: if OpenBLAS has chosen kernels that do not fit the processor, and the environment variable
 * OPENBLAS_CORETYPE is not set, executes this program again with that variable, which OpenBLAS reads only when it is loaded.
 * Call it before anything is read, written or started. It returns if there is nothing to do, or if executing fails: then it
 * reports on standard error that kernels are slow, and the program continues. */
void choose_blas_core(char **argv);

/* Removes temporary files and ends the process by a signal, so that a shell sees the status 128 + number, and ends the loop or
 * the `&&` list that the command is part of. A handler may call it. */
void end_by_signal(int number);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE end the process in this way, except signals that were ignored, such as SIGHUP
 * under nohup. Commands may install other handlers later. */
void end_by_signal_handle(void);
