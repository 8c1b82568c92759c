/* Prints alignment scores as a table for people and as JSON for programs. */
#ifndef QKV_TOOLS_ALIGNMENT_TABLE_H
#define QKV_TOOLS_ALIGNMENT_TABLE_H

#include "report/alignment_score.h"

#include <cjson/cJSON.h>
#include <stdio.h>

/* Prints a table for the drawings target and union: a line for every head of every layer and for
 * their means, columns for each enum qkv_alignment_reading, and the name of the best. The score
 * must have at least one sentence. */
void print_alignment(const struct qkv_alignment_score *score, FILE *file);

/* Makes a JSON object of one result with its rates. The caller owns it. */
cJSON *alignment_result_json(const struct qkv_alignment_result *result);

/* Makes a JSON object of the same results: sentences, best (target and union), and results, each with
 * drawing, reading, layer, head (numbers from 1, or "mean"), aer, precision, recall (0 to 1) and
 * the counts that they come from. */
cJSON *alignment_json(const struct qkv_alignment_score *score);

#endif
