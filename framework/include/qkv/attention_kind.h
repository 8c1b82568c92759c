/* The kinds of attention in an encoder-decoder. Models record them, reports show them.
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

#endif
