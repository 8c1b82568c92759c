/* Private: word maps, and links that are drawn from them (metrics/alignment.h has the definitions); links between tokens. */
#pragma once

#include "metrics/alignment.h"
#include "qkv/model.h"

/* Weights between the words of a sentence pair. */
struct qkv_word_map {
    double *weights; /* [targets, sources], row-major; not owned */
    int64_t targets, sources;
};

/* Lets two directions of one sentence pair agree (Liang, Taskar and Klein 2006, "Alignment by agreement"): multiplies each
 * weight of `map` by the weight that `reverse`, in which sources and targets are exchanged, has for the same two words, and
 * the other way round; then divides each row of both maps by its sum, unless the sum is 0. Fails, and changes nothing, when
 * the maps do not fit each other. */
enum qkv_status qkv_word_maps_multiply(struct qkv_word_map *map, struct qkv_word_map *reverse,
                                       struct qkv_error *error);

/* Draws links: T from the rows of `map`, and S from the rows of `reverse`, in which sources and targets are exchanged
 * (NULL: from the columns of `map`). threshold: if above 0, draws all links with a greater weight, or from columns with a
 * greater share of the column. The links are in the arena. Fails when the maps do not fit each other, and out of
 * memory. */
enum qkv_status qkv_alignment_draw(const struct qkv_word_map *map, const struct qkv_word_map *reverse,
                                   enum qkv_alignment_drawing drawing, double threshold,
                                   struct qkv_arena *arena, struct qkv_alignment *drawn,
                                   struct qkv_error *error);

/* Fails when a link names a word that the sentence pair does not have. */
enum qkv_status qkv_alignment_check(const struct qkv_alignment *alignment, struct qkv_word_counts words,
                                    struct qkv_error *error);

/* Reads the gold links of all pairs of the text that the corpus was read from, also of pairs that it dropped, by
 * qkv_alignments_read: those of pair i are links->sentences[corpus->line[i] - 1]. The corpus must keep its raw lines. On
 * failure there is nothing to release. */
enum qkv_status qkv_corpus_links_read(struct qkv_alignments *links, const char *path,
                                      enum qkv_links_from from, const struct qkv_corpus *corpus,
                                      struct qkv_error *error);

/* ---- links between tokens ---- */

/* Reads links between words in a format of qkv_alignments_read, for the text that the corpus was read from, with
 * keep_words and keep_raw. The file must have links for all pairs of the text, also for pairs that the corpus dropped. `from`: the
 * number of the first word, detected as by qkv_alignments_read. Sure and possible links count the same. Each token of a
 * target word that is linked to n source words gets a link to every token of these words; if a source word has p tokens, the
 * share of each of them is 1 / (n p).
 *
 * Fails, with file:line:column where there is one, as qkv_alignments_read does: for a file that cannot be read, for
 * different numbers of lines and pairs, for a link to a word that its pair does not have, and when the number of the first
 * word cannot be detected. On failure there is nothing to release. */
enum qkv_status qkv_token_links_read(struct qkv_token_links *links, const char *path,
                                     enum qkv_links_from from, const struct qkv_corpus *corpus,
                                     struct qkv_word_spaces *spaces, struct qkv_error *error);

/* A CRC-32 of the links, to detect changes. */
uint32_t qkv_token_links_checksum(const struct qkv_token_links *links);

void qkv_token_links_release(struct qkv_token_links *links);
