/* Joins the processes that mpirun started. */
#ifndef QKV_PROCESSES_MPI_H
#define QKV_PROCESSES_MPI_H

#include "core/exchange.h"

/* Joins `expected` processes (0: the launcher does not tell). *processes is NULL before, and stays NULL if there is but one.
 * Fails in a build without MPI (mpi_absent.c). */
enum qkv_status qkv_mpi_join(struct qkv_processes **processes, int expected, struct qkv_error *error);

#endif
