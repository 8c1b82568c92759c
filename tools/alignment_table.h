/* Alignment scores as a table for people and as JSON for programs. */
#ifndef QKV_TOOLS_ALIGNMENT_TABLE_H
#define QKV_TOOLS_ALIGNMENT_TABLE_H

#include "qkv/alignment.h"

#include <cjson/cJSON.h>
#include <stdio.h>

/* Prints, for both ways to draw links, a line for every head of every layer and their means, in both
 * readings, and names the best. There must have been a sentence. What `qkv evaluate` should exit with: 0, or
 * 2 when the file cannot be written.
 */
int print_alignment(const struct qkv_alignment_score *score, FILE *file);

/* The same as an object: sentences, best (rows and both), and results, each with drawing, reading, layer,
 * head (numbers from 1, or "mean"), aer, precision, recall (0 to 1) and the counts that they come from. The
 * caller owns it; NULL when memory is out. */
cJSON *alignment_json(const struct qkv_alignment_score *score);

#endif
