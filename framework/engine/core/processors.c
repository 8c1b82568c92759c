#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "core/processors.h"

#include <limits.h>
#include <sched.h>
#include <unistd.h>

int qkv_processors_available(void)
{
    long count = 0;
#ifdef CPU_COUNT
    cpu_set_t allowed; /* too small for machines of more than 1024 processors, on which the call fails */
    if (!sched_getaffinity(0, sizeof allowed, &allowed)) count = CPU_COUNT(&allowed);
#endif
    if (count < 1) count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count < INT_MAX ? (int)count : INT_MAX;
}
