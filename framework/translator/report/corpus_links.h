/* Private to report: the pairs of a corpus as text, and their gold links (alignment_error.c). */
#ifndef QKV_REPORT_CORPUS_LINKS_H
#define QKV_REPORT_CORPUS_LINKS_H

#include "qkv/alignment.h"
#include "qkv/corpus.h"

/* Finds the texts of a pair. Fails when the corpus has not kept its raw lines. */
enum qkv_status qkv_corpus_texts(const struct qkv_corpus *corpus, int64_t pair, struct qkv_pair_texts *texts,
                                 struct qkv_error *error);

/* Reads the gold links of all pairs of the corpus' file: those of pair i are gold->sentences[corpus->line[i] - 1]. On
 * failure, there is nothing to release. */
enum qkv_status qkv_corpus_links(const struct qkv_corpus *corpus, const struct qkv_data_config *data,
                                 const char *links, enum qkv_links_from from, struct qkv_alignments *gold,
                                 struct qkv_error *error);

#endif
