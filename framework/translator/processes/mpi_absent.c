/* In place of mpi.c in a build without MPI. */
#include "processes/mpi.h"

enum qkv_status qkv_mpi_join(struct qkv_processes **processes, int expected, struct qkv_error *error)
{
    (void)processes, (void)expected;
    return qkv_error_set(
        error, "this qkv was built without MPI, so that it cannot work in several processes: "
               "install it (on Debian or Ubuntu: apt-get install openmpi-bin libopenmpi-dev) and build "
               "qkv again");
}
