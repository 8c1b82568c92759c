/* The kinds of attention of an encoder-decoder: what models record and reports show. */
#ifndef QKV_ATTENTION_KIND_H
#define QKV_ATTENTION_KIND_H

/* Who looks at whom. */
enum qkv_attention_kind {
    QKV_ATTENTION_ENCODER, /* source at source */
    QKV_ATTENTION_DECODER, /* target input at target input, no position at a later one */
    QKV_ATTENTION_CROSS,   /* target at source */
    QKV_ATTENTION_KINDS,
};

#endif
