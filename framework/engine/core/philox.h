/* The random number generator of random.h, inline for kernels that draw millions of numbers (dropout). */
#ifndef QKV_CORE_PHILOX_H
#define QKV_CORE_PHILOX_H

#include <stdint.h>

/* Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"). */
enum { QKV_PHILOX_ROUNDS = 10 };
static const uint32_t QKV_PHILOX_FACTOR0 = 0xD2511F53u, QKV_PHILOX_FACTOR1 = 0xCD9E8D57u,
                      QKV_PHILOX_STEP0 = 0x9E3779B9u, QKV_PHILOX_STEP1 = 0xBB67AE85u;

/* Counter (4 words) and key (2 words) to 4 random words. */
static inline void qkv_philox(uint32_t counter[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < QKV_PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)QKV_PHILOX_FACTOR0 * counter[0];
        uint64_t product1 = (uint64_t)QKV_PHILOX_FACTOR1 * counter[2];
        uint32_t next0 = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
        uint32_t next2 = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
        counter[1] = (uint32_t)product1;
        counter[3] = (uint32_t)product0;
        counter[0] = next0;
        counter[2] = next2;
        key0 += QKV_PHILOX_STEP0;
        key1 += QKV_PHILOX_STEP1;
    }
}

#endif
