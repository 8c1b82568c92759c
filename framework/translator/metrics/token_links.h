/* Private: converts links between the words of a corpus to links between its tokens, for guided alignment (struct qkv_objective).
 */
#ifndef QKV_METRICS_TOKEN_LINKS_H
#define QKV_METRICS_TOKEN_LINKS_H

#include "qkv/corpus.h"
#include "qkv/model.h"

/* Reads links between words in a format of qkv_alignments_read, for the text that the corpus was read from, with
 * keep_words. The file must have links for all pairs of the text, also for pairs that the corpus dropped. `from`: the
 * number of the first word, detected as by qkv_alignments_read. Sure and possible links count the same. Each token of a
 * target word that is linked to n source words gets a link to every token of these words; if a source word has p tokens, the
 * share of each of them is 1 / (n p).
 *
 * Fails, with file:line:column where there is one, as qkv_alignments_read does: for a file that cannot be read, for
 * different numbers of lines and pairs, for a link to a word that its pair does not have, and when the number of the first
 * word cannot be detected. On failure there is nothing to release. */
enum qkv_status qkv_token_links_read(struct qkv_token_links *links, const char *path,
                                     enum qkv_links_from from, const struct qkv_corpus *corpus,
                                     struct qkv_error *error);

/* A CRC-32 of the links, to detect changes. */
uint32_t qkv_token_links_checksum(const struct qkv_token_links *links);

void qkv_token_links_release(struct qkv_token_links *links);

#endif
