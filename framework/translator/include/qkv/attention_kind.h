/* The kinds of attention in an encoder-decoder, and the two ways to assign a row of cross attention to a target word.
 * Models record attention by kind, reports show it.
 *
 * Example:
 *     enum qkv_attention_kind kind = QKV_ATTENTION_CROSS;
 *     printf("%d of %d\n", (int)kind, QKV_ATTENTION_KINDS);
 */
#ifndef QKV_ATTENTION_KIND_H
#define QKV_ATTENTION_KIND_H

enum qkv_attention_kind {
    QKV_ATTENTION_ENCODER, /* self-attention: source words attend to source words */
    QKV_ATTENTION_DECODER, /* causal self-attention: target words attend to earlier target words */
    QKV_ATTENTION_CROSS,   /* target words attend to source words */
    QKV_ATTENTION_KINDS,   /* number of kinds */
};

/* Which target word a row of cross attention belongs to; alignment.h says when which is better. */
enum qkv_alignment_reading {
    QKV_READING_PREDICTED, /* the word that the decoder step predicts */
    QKV_READING_READ,      /* the word that the decoder step reads */
    QKV_READINGS,          /* number of readings */
};

#endif
