/* Private to metrics: reading gold links (qkv/alignment.h). links.c reads files, link_words.c finds out
 * whether words count from 0 or from 1. */
#ifndef QKV_METRICS_LINKS_H
#define QKV_METRICS_LINKS_H

#include "qkv/alignment.h"

/* A link with the numbers of the file: words count from 0 or from 1. */
struct file_link {
    int64_t sentence; /* from 0 */
    struct qkv_alignment_link link;
};

/* All links of a file. */
struct file_links {
    const char *file; /* for messages */
    struct file_link *links;
    int64_t count, capacity;
    bool null_words; /* a .wa file: words count from 1 by definition, and 0 can mean no word */
};

/* Sets *from, the number of the first word, 0 or 1, to what `wanted` says or the links show. words [pairs]: the numbers of
 * words of the sentence pairs, or NULL. Fails when the links do not determine it, or contradict `wanted`. */
enum qkv_status qkv_links_find_first_word(const struct file_links *links, enum qkv_links_from wanted,
                                          const struct qkv_word_counts *words, int64_t pairs, int *from,
                                          struct qkv_error *error);

#endif
