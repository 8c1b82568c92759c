/* The links between the words of a corpus as links between its tokens, for guided alignment (struct qkv_objective).
 *
 * Example:
 *     struct qkv_corpus corpus = {0}; // of qkv_corpus_read, with keep_words
 *     struct qkv_token_links links = {0};
 *     struct qkv_error error = {""};
 *     struct qkv_objective objective = {.guided = {.weight = 0.05, .head = 1, .links = &links}};
 *     if (qkv_token_links_read(&links, "train.align", &corpus, &error)) fprintf(stderr, "%s\n", error.message);
 *     // ... qkv_replicas_new(model, workers, shards, QKV_GRADIENTS_BY_SIZE, &objective, &error)
 *     qkv_token_links_release(&links);
 */
#ifndef QKV_TOKEN_LINKS_H
#define QKV_TOKEN_LINKS_H

#include "qkv/corpus.h"
#include "qkv/model.h"

/* Reads links between words in a format of qkv_alignments_read, for all pairs of the text that the corpus was read from,
 * with keep_words; also for those that it dropped. Words count from 0, in a .wa file from 1. Sure and possible links are
 * equal. Of a target word that is linked to n source words, each piece has a link to every piece of these: one of p pieces
 * of a source word has the share 1 / (n p).
 *
 * Fails, with file:line:column where there is one, as qkv_alignments_read does: for a file that cannot be read, another
 * number of lines than pairs, and a link of a word that its pair does not have. On failure there is nothing to release. */
QKV_API enum qkv_status qkv_token_links_read(struct qkv_token_links *links, const char *path,
                                             const struct qkv_corpus *corpus, struct qkv_error *error);

/* A CRC-32 of the links: the same as long as they are. */
QKV_API uint32_t qkv_token_links_checksum(const struct qkv_token_links *links);

QKV_API void qkv_token_links_release(struct qkv_token_links *links);

#endif
