/* Private to qkv attribute: --compare. */
#pragma once

#include "output_options.h"
#include "sentence_pair.h"

struct trust_options {
    const char *path; /* of the sentence pairs; NULL: methods are not compared */
    const struct links_options *links;
    struct option_list seeds; /* runs */
    int64_t limit;            /* pairs; 0: 100 */
};

/* Compares the methods on the run of `pair`, and writes a table. */
enum qkv_status compare_methods(struct sentence_pair *pair, const struct trust_options *options,
                                struct output *output, struct qkv_error *error);
