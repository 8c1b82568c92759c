/* The random words of dropout masks: 16 bits for each element, a pure function of seed, step, op
 * and element, so that backward can recompute them. */
#ifndef QKV_KERNELS_DROPOUT_H
#define QKV_KERNELS_DROPOUT_H

#include "kernels/kernel.h"

enum {
    DROPPER_BLOCKS = 16,                /* Philox blocks per call of dropper_words */
    DROPPER_WORDS = 8 * DROPPER_BLOCKS, /* words of 16 bits per call of dropper_words */
};

/* The generator of one op in one update. */
struct dropper {
    uint32_t key[2], step, stream;
    uint32_t threshold; /* rate * 65536; an element whose word is smaller is dropped */
    real factor;        /* 1 / (1 - rate): scales the elements that are kept */
};

static inline struct dropper dropper_of(const struct qkv_tensor *y, double rate)
{
    const struct qkv_random *random = &y->graph->random;
    uint32_t threshold = (uint32_t)lrint(rate * 65536.0);
    return (struct dropper){
        .key = {(uint32_t)random->seed, (uint32_t)(random->seed >> 32)},
        .step = random->step,
        .stream = QKV_STREAM_DROPOUT | y->dropout_index << 8,
        .threshold = threshold,
        .factor = (real)(65536.0 / (65536.0 - (double)(threshold < 65536 ? threshold : 65535))),
    };
}

#define dropper_words VARIANT(qkv_, dropper_words)
#define dropper_row   VARIANT(qkv_, dropper_row)

/* words [DROPPER_WORDS] = the words of elements n DROPPER_WORDS .. (n + 1) DROPPER_WORDS - 1. They come
 * from Philox blocks n DROPPER_BLOCKS and following. The word w (0 .. 7) of the b-th of these blocks has
 * index w * DROPPER_BLOCKS + b, because a vector holds word w of several blocks. */
void dropper_words(const struct dropper *dropper, int64_t n, uint16_t *restrict words);

/* to [count] = the words of elements first .. first + count - 1. */
void dropper_row(const struct dropper *dropper, int64_t first, int64_t count, uint16_t *to);

#endif
