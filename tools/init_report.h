/* What `qkv init` prints of the pairs that it read. */
#ifndef QKV_TOOLS_INIT_REPORT_H
#define QKV_TOOLS_INIT_REPORT_H

#include "init_plan.h"

/* The file, its columns, what was left out, both sides, and three pairs. `lang`: the codes of both sides. */
void init_report_pairs(const struct qkv_pairs *pairs, const struct qkv_pairs_facts *facts,
                       const char *const lang[2]);

/* The sizes that were chosen. */
void init_report_plan(const struct init_plan *plan, const struct init_data *data);

#endif
