/* Prints a report of `qkv init` about the pairs that it has read, and about its plan. */
#ifndef QKV_TOOLS_INIT_REPORT_H
#define QKV_TOOLS_INIT_REPORT_H

#include "init_plan.h"

/* Prints the file, its columns, the lines that were left out, facts about both sides, and three pairs. lang: the codes of both
 * sides. is_cleaned: the user has asked for --clean, so no line advises it. */
void init_report_pairs(const struct qkv_pairs *pairs, const struct qkv_pairs_statistics *facts,
                       const char *const lang[2], bool is_cleaned);

/* Prints the sizes that were chosen. */
void init_report_plan(const struct init_plan *plan, const struct init_data *data);

#endif
