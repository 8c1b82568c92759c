/* Private to metrics: the parts of reading gold links (qkv/alignment.h). links.c reads files, link_words.c finds out
 * from which number words count. */
#ifndef QKV_METRICS_LINKS_H
#define QKV_METRICS_LINKS_H

#include "qkv/alignment.h"

/* A link as the file has it: words count from 0 or from 1. */
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

/* Sets *from to 0 or 1: to `wanted`, or where that is QKV_LINKS_DETECT, to what the links say. `words`: of the sentence
 * pairs, [pairs], or NULL. Fails where they say nothing, or contradict `wanted`. */
enum qkv_status qkv_links_find_first_word(const struct file_links *links, int wanted,
                                          const struct qkv_word_counts *words, int64_t pairs, int *from,
                                          struct qkv_error *error);

#endif
