/* Reads gold links between words. */
#pragma once

#include "metrics/alignment.h"

#include "support.h"

/* Writes the text to a file in a new scratch folder, and reads it; words count from 0. The caller releases the links. */
static inline struct qkv_alignments read_links(const char *name, const char *text)
{
    struct qkv_alignments alignments;
    const char *path = write_text(scratch(name), "gold.links", text);
    expect_done(qkv_alignments_read(&alignments, path, 0, NULL, 0, &error));
    return alignments;
}
