/* Measures of heads for a page: the effect of silencing each head, and its alignment error, on sentence pairs. */
#ifndef QKV_TOOLS_PAGE_HEADS_H
#define QKV_TOOLS_PAGE_HEADS_H

#include "attention_options.h"

#include "qkv/alignment.h"
#include "qkv/corpus.h"
#include "qkv/heads.h"

struct cJSON;

struct page_heads_options {
    const char *pairs;          /* file of the pairs; NULL: nothing is measured */
    int64_t max_pairs;          /* only the first `max_pairs` pairs of the file are used */
    struct links_options links; /* path NULL: alignment errors are not measured */
    int64_t threads;
};

/* Caller's storage, all zero at first. */
struct page_heads {
    struct page_heads_options options;
    struct qkv_corpus corpus;
    struct qkv_measured_heads measured; /* with the parameters of the page */
};

/* Reads the pairs and measures the heads of a run with its present parameters. Does nothing without pairs. Release it also
 * after a failure. */
enum qkv_status page_heads_measure(struct page_heads *heads, struct qkv_run *run,
                                   const struct page_heads_options *options, struct qkv_error *error);

/* Adds "loss" to an object: nats per token of the pairs, with the present parameters of the run. Adds nothing if there are no
 * pairs, or if the loss is not finite. */
enum qkv_status page_heads_add_loss(const struct page_heads *heads, const struct qkv_run *run,
                                    struct cJSON *object, struct qkv_error *error);

/* Whether alignment errors are measured. */
bool page_heads_has_links(const struct page_heads *heads);

/* Adds "errors" to an object: the alignment error rate of each head, 0 to 1, with the present parameters of the run; null for
 * a head that is not of cross attention. Of the two readings of a map (qkv/alignment.h), uses for each head the one with the
 * lower error for the parameters of the page. */
enum qkv_status page_heads_add_errors(const struct page_heads *heads, const struct qkv_run *run,
                                      struct cJSON *object, struct qkv_error *error);

/* {"pairs", "file", "loss", "bleu", "heads": [{"name", "loss", "bleu"}]}, where loss and BLEU of a head are the changes if only
 * this head is silenced; "null" without pairs. NULL when memory runs out. The caller frees it with cJSON_free. */
char *page_heads_json(const struct page_heads *heads);

void page_heads_release(struct page_heads *heads);

#endif
