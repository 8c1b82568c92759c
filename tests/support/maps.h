/* Small attention reports, and their rendered bytes. */
#ifndef QKV_TESTS_MAPS_H
#define QKV_TESTS_MAPS_H

#include "qkv/attention_map.h"

/* Initialises a report from local arrays: source (3 tokens), input and output (2 tokens each). */
#define SMALL_REPORT(of_title, of_model, of_maps, count)                                                     \
    {                                                                                                        \
        .title = of_title, .model = of_model, .source = source, .source_length = 3, .target_input = input,   \
        .target_output = output, .target_length = 2, .maps = of_maps, .map_count = count,                    \
    }

/* Renders a report in a format. The caller frees the bytes; `size` may be NULL. */
char *rendered(const struct qkv_attention_report *report, const char *format,
               const struct qkv_format_options *options, size_t *size);

#endif
