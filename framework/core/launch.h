/* What the environment says of the launcher that started this process. */
#ifndef QKV_CORE_LAUNCH_H
#define QKV_CORE_LAUNCH_H

#include <stdlib.h>

/* How many processes mpirun, or another launcher, has started together with this one, which is counted; 0: it does not say,
 * 1: there was none. */
static inline int qkv_launched_processes(void)
{
    static const char *const COUNTS[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (int i = 0; i < 2; i++) {
        const char *count = getenv(COUNTS[i]);
        if (count) return atoi(count);
    }
    return getenv("PMIX_RANK") ? 0 : 1;
}

/* The number that the launcher has given this process; 0 without a launcher. */
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
