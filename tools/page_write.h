/* Writes the page: one HTML file that holds the engine, and a model or scenes. */
#ifndef QKV_TOOLS_PAGE_WRITE_H
#define QKV_TOOLS_PAGE_WRITE_H

#include "page_learning.h"

#include "qkv/error.h"

#include <stddef.h>

/* What a page holds besides the engine. Whoever fills it owns the memory. */
struct page_contents {
    unsigned char *model; /* a packed run, or the scenes (page_scenes.h) */
    size_t model_size;
    /* {"tutorial", "file", "name", "about", "seed", "isRandom"} of each scene, as JSON, tutorial only of the tutorials' own; NULL:
     * the page holds a run */
    char *scenes;
    const char *opening_sentence, *model_summary;
    char *heads; /* page_heads_json */
    struct page_learning learning;
};

/* Writes the page to a file, which it names on standard error, or to standard output ("-"). After a failure there is no file, or
 * the one that was there before. */
enum qkv_status page_write(const struct page_contents *contents, const char *output, struct qkv_error *error);

#endif
