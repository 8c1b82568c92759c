/* The random words of dropout masks (kernel.h). */
#include "kernels/kernel.h"

#include "core/numbers.h"

#if defined(__AVX2__)
#    include <immintrin.h>
#endif

/* Word 0, 1, 2 or 3 of eight Philox blocks, each of 4 words of 32 bits: one block in the low half of each lane. */
typedef uint64_t philox_lanes __attribute__((vector_size(64)));

/* x = (x mod 2^32) * factor, in 64 bits. By intrinsics, because compilers turn the plain C
 * below into three instructions instead of one. */
static inline void multiply_low(philox_lanes *x, uint32_t factor)
{
#if defined(__AVX512F__)
    *x = (philox_lanes)_mm512_mul_epu32((__m512i)*x, _mm512_set1_epi64((long long)factor));
#elif defined(__AVX2__)
    __m256i half[2];
    memcpy(half, x, sizeof half);
    for (int i = 0; i < 2; i++) half[i] = _mm256_mul_epu32(half[i], _mm256_set1_epi64x((long long)factor));
    memcpy(x, half, sizeof half);
#else
    *x = (*x & 0xFFFFFFFFu) * factor;
#endif
}

/* qkv_philox in each lane. */
static inline void philox_of_lanes(philox_lanes counter[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < QKV_PHILOX_ROUNDS; round++) {
        philox_lanes product0 = counter[0], product1 = counter[2];
        multiply_low(&product0, QKV_PHILOX_FACTOR0);
        multiply_low(&product1, QKV_PHILOX_FACTOR1);
        counter[0] = (product1 >> 32) ^ counter[1] ^ key0;
        counter[2] = (product0 >> 32) ^ counter[3] ^ key1;
        counter[1] = product1;
        counter[3] = product0;
        key0 += QKV_PHILOX_STEP0;
        key1 += QKV_PHILOX_STEP1;
    }
}

void dropper_words(const struct dropper *dropper, int64_t n, uint16_t *restrict words)
{
    enum { LANES_HERE = 8 };
    const philox_lanes count = {0, 1, 2, 3, 4, 5, 6, 7}, zeros = {0};
    for (int first = 0; first < DROPPER_BLOCKS; first += LANES_HERE) {
        philox_lanes index = count + ((uint64_t)n * DROPPER_BLOCKS + (uint64_t)first);
        philox_lanes counter[4] = {index, index >> 32, zeros + dropper->step, zeros + dropper->stream};
        philox_of_lanes(counter, dropper->key[0], dropper->key[1]);
        for (int w = 0; w < 8; w++) {
            philox_lanes word = counter[w / 2] >> (w % 2 ? 16 : 0);
            for (int i = 0; i < LANES_HERE; i++) words[w * DROPPER_BLOCKS + first + i] = (uint16_t)word[i];
        }
    }
}

void dropper_row(const struct dropper *dropper, int64_t first, int64_t count, uint16_t *to)
{
    uint16_t words[DROPPER_WORDS];
    for (int64_t done = 0; done < count;) {
        int64_t within = (first + done) % DROPPER_WORDS, n = DROPPER_WORDS - within;
        n = n < count - done ? n : count - done;
        dropper_words(dropper, (first + done) / DROPPER_WORDS, words);
        memcpy(to + done, words + within, (size_t)n * sizeof *to);
        done += n;
    }
}
