/* Small attention reports and explanations, and their rendered bytes. */
#pragma once

#include "support.h"

#include "report/steps.h"

#define LENGTH_OF(array) (sizeof(array) / sizeof(array)[0])

/* Initialises a report from local arrays; what follows them are further fields. */
#define REPORT_OF(source_tokens, input_tokens, output_tokens, of_maps, ...)                                  \
    LIST(.source = source_tokens, .source_length = LENGTH_OF(source_tokens), .target_input = input_tokens,   \
         .target_output = output_tokens, .target_length = LENGTH_OF(output_tokens), .maps = of_maps,         \
         .map_count = LENGTH_OF(of_maps), __VA_ARGS__)

/* Initialises a step of an explanation; what follows its values are further fields. */
#define STEP_OF(of_name, row_count, column_count, of_values, ...)                                            \
    LIST(.name = of_name, .title = of_name, .formula = "", .rows = row_count, .columns = column_count,       \
         .values = of_values, __VA_ARGS__)

/* Initialises an explanation of one head from a local array of steps; what follows are further fields. */
#define EXPLANATION_OF(of_steps, ...)                                                                        \
    LIST(.first_head = 1, .heads = 1, .layer_heads = 1, .step_count = LENGTH_OF(of_steps),                   \
         .steps = of_steps, __VA_ARGS__)

/* Expects the tokens of a report, joined by spaces. NULL: not looked at. */
void expect_tokens(const struct qkv_attention_report *report, const char *source, const char *target_input,
                   const char *target_output);

/* Renders a report, or explanations, in a format. The bytes live until the test ends; `size` may be NULL. */
char *rendered(const struct qkv_attention_report *report, const char *format,
               const struct qkv_format_options *options, size_t *size);
char *explained(const struct qkv_explanation *explanations, int count, const char *format,
                const struct qkv_format_options *options, size_t *size);
