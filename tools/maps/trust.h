/* Private to qkv attribute: --compare. */
#pragma once

#include "attention_options.h"
#include "output_options.h"

struct trust_options {
    const char *path; /* of the sentence pairs; NULL: methods are not compared */
    const struct links_options *links;
    struct option_list seeds; /* runs */
    int64_t limit;            /* pairs; 0: 100 */
};

/* Compares the methods, and writes a table. */
enum qkv_status compare_methods(const struct qkv_run *run, const struct trust_options *options,
                                struct output *output, struct qkv_error *error);
