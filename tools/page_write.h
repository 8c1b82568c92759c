/* Writes the page: one HTML file that holds the engine, and a model or scenes. */
#ifndef QKV_TOOLS_PAGE_WRITE_H
#define QKV_TOOLS_PAGE_WRITE_H

#include "page_learning.h"

#include "qkv/error.h"

#include <stddef.h>

/* The contents of a page besides the engine. The caller owns the memory. */
struct page_contents {
    unsigned char *model; /* a packed run, or the scenes (page_scenes.h) */
    size_t model_size;
    /* JSON with {"tutorial", "file", "name", "about", "seed", "isRandom"} for each scene; "tutorial" only for scenes of the
     * tutorials. NULL: the page holds a run */
    char *scenes;
    const char *opening_sentence, *model_summary;
    char *heads; /* page_heads_json */
    struct page_learning learning;
};

/* Writes the page to a file, whose name it prints to standard error, or to standard output ("-"). After a failure, the file
 * does not exist, or is unchanged if it existed before. */
enum qkv_status page_write(const struct page_contents *contents, const char *output, struct qkv_error *error);

#endif
