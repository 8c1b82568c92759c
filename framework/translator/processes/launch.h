/* Reads from the environment how a launcher such as mpirun started this process. */
#ifndef QKV_CORE_LAUNCH_H
#define QKV_CORE_LAUNCH_H

#include <stdlib.h>

/* The number of processes that mpirun or another launcher started, including this one; 0: the launcher does not tell; 1:
 * there is no launcher. */
static inline int qkv_launched_processes(void)
{
    static const char *const COUNTS[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < 2; i++) {
        const char *count = getenv(COUNTS[i]);
        if (count) return atoi(count);
    }
    return getenv("PMIX_RANK") ? 0 : 1;
}

/* The rank of this process, as the launcher set it; 0 without a launcher. */
static inline int qkv_launched_rank(void)
{
    static const char *const RANKS[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};
    for (int i = 0; i < 2; i++) {
        const char *rank = getenv(RANKS[i]);
        if (rank) return atoi(rank);
    }
    return 0;
}

#endif
