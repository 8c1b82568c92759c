/* Corpora with the vocabularies of their own words. */
#pragma once

#include "support.h"

struct encoded {
    struct qkv_corpus corpus;
    struct qkv_vocabulary source, target;
};

/* Reads a corpus, makes its vocabularies and encodes it. */
static inline void read_encoded(struct encoded *encoded, const char *path, const struct qkv_data_config *data,
                                struct qkv_corpus_options options)
{
    struct qkv_corpus *corpus = &encoded->corpus;
    expect_done(qkv_corpus_read(corpus, path, data, options, &error));
    expect_done(qkv_corpus_vocabularies(corpus, data, &encoded->source, &encoded->target, &error));
    expect_done(qkv_corpus_encode(corpus, &encoded->source, &encoded->target, &error));
}

static inline void release_encoded(struct encoded *encoded)
{
    qkv_corpus_release(&encoded->corpus);
    qkv_vocabulary_release(&encoded->source);
    qkv_vocabulary_release(&encoded->target);
}
