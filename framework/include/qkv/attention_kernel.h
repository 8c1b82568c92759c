/* How fused attention is computed; the numbers are the same but for rounding. */
#ifndef QKV_ATTENTION_KERNEL_H
#define QKV_ATTENTION_KERNEL_H

enum qkv_attention_kernel {
    QKV_KERNEL_AUTO,  /* flash for long sentences, exact for short ones, where it is faster */
    QKV_KERNEL_EXACT, /* keeps the weights: memory grows with the square of the length, or with the window */
    QKV_KERNEL_FLASH, /* keeps one number a row and makes the weights again in backward (Dao et al. 2022) */
};

#endif
