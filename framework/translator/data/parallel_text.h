/* Parallel text, read pair by pair: a file x.tsv or two line-aligned files. */
#ifndef QKV_DATA_PARALLEL_TEXT_H
#define QKV_DATA_PARALLEL_TEXT_H

#include "qkv/corpus.h"

/* One side of the current pair. */
struct qkv_pair_side {
    const struct qkv_text_config *text;
    struct qkv_tokens tokens;
    const char *raw; /* the line, or its part before or after the tab */
    size_t size;     /* bytes of `raw`, without the NUL */
};

/* Set path, options, the texts of both sides, `add` and `context`, and the rest to zero. */
struct qkv_parallel_text {
    const char *path;
    struct qkv_corpus_options options;
    struct qkv_pair_side source, target;
    int64_t line;                                   /* of the current pair, from 1 */
    int64_t read, kept, long_sources, long_targets; /* pairs; as in struct qkv_corpus */
    /* Called for each pair in order, except those that options.drop_long drops. Reading ends when it fails. */
    enum qkv_status (*add)(struct qkv_parallel_text *text, struct qkv_error *error);
    void *context; /* of `add` */
};

/* Reads and tokenises all pairs, with one in memory at a time. Fails as qkv_corpus_read does. The caller releases the text. */
enum qkv_status qkv_parallel_text_read(struct qkv_parallel_text *text, struct qkv_error *error);

void qkv_parallel_text_release(struct qkv_parallel_text *text);

#endif
