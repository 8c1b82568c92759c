/* Time since a fixed but arbitrary moment, for durations; changes of the date do not affect it. */
#ifndef QKV_CORE_CLOCK_H
#define QKV_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t qkv_clock_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double qkv_clock_seconds(void)
{
    return 1e-9 * (double)qkv_clock_nanoseconds();
}

#endif
