/* The random words behind dropout masks: 16 bits a decision, a pure function of (seed, step, node, element).
 */
#ifndef QKV_KERNELS_DROPOUT_H
#define QKV_KERNELS_DROPOUT_H

#include "core/philox.h"
#include "kernels/kernel.h"

enum {
    DROPPER_BLOCKS = 16,                /* Philox blocks made side by side, for the vector unit */
    DROPPER_WORDS = 8 * DROPPER_BLOCKS, /* decisions a call of dropper_words makes */
};

struct dropper {
    uint32_t key[2], step, stream;
    uint32_t threshold; /* words below it drop */
    real factor;        /* of what is kept */
};

static inline struct dropper dropper_of(const struct qkv_tensor *y)
{
    const struct qkv_random *random = &y->graph->random;
    uint32_t threshold = (uint32_t)lrint(y->options.rate * 65536.0);
    return (struct dropper){
        .key = {(uint32_t)random->seed, (uint32_t)(random->seed >> 32)},
        .step = random->step,
        .stream = QKV_STREAM_DROPOUT | y->ordinal << 8,
        .threshold = threshold,
        .factor = (real)(65536.0 / (65536.0 - (double)(threshold < 65536 ? threshold : 65535))),
    };
}

/* The words of elements block * DROPPER_WORDS onwards. Word w of Philox block b stands at index w *
 * DROPPER_BLOCKS + b, because the lanes of the vector unit are the blocks. */
static inline void dropper_words(const struct dropper *dropper, int64_t block, uint16_t *restrict words)
{
    uint32_t c0[DROPPER_BLOCKS], c1[DROPPER_BLOCKS], c2[DROPPER_BLOCKS], c3[DROPPER_BLOCKS];
    for (int i = 0; i < DROPPER_BLOCKS; i++) {
        uint64_t index = (uint64_t)block * DROPPER_BLOCKS + (uint64_t)i;
        uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), dropper->step, dropper->stream};
        qkv_philox(counter, dropper->key[0], dropper->key[1]);
        c0[i] = counter[0], c1[i] = counter[1], c2[i] = counter[2], c3[i] = counter[3];
    }
    for (int i = 0; i < DROPPER_BLOCKS; i++) {
        words[i] = (uint16_t)c0[i];
        words[DROPPER_BLOCKS + i] = (uint16_t)(c0[i] >> 16);
        words[2 * DROPPER_BLOCKS + i] = (uint16_t)c1[i];
        words[3 * DROPPER_BLOCKS + i] = (uint16_t)(c1[i] >> 16);
        words[4 * DROPPER_BLOCKS + i] = (uint16_t)c2[i];
        words[5 * DROPPER_BLOCKS + i] = (uint16_t)(c2[i] >> 16);
        words[6 * DROPPER_BLOCKS + i] = (uint16_t)c3[i];
        words[7 * DROPPER_BLOCKS + i] = (uint16_t)(c3[i] >> 16);
    }
}

/* The words of elements first .. first+count-1, in order. */
static inline void dropper_row(const struct dropper *dropper, int64_t first, int64_t count, uint16_t *to)
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

#endif
