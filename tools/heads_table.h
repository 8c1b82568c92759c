/* Writes the measures of heads as text, TSV and JSON. */
#ifndef QKV_TOOLS_HEADS_TABLE_H
#define QKV_TOOLS_HEADS_TABLE_H

#include "draw/text.h"
#include "qkv/heads.h"

struct heads_table {
    const struct qkv_run *run;
    const char *test; /* path of the parallel text */
    bool norms;       /* the measures of maps are those of norms */
    const struct qkv_measured_heads *measured;
    const int64_t *order; /* [measured->count]: the heads in the order in which they are printed */
};

/* Writes two tables, of what heads attend to and of how important they are. Measures that no head has are left out. */
void heads_table_text(const struct heads_table *table, struct bytes *out);

/* Writes a line for each head, with all measures; a measure that the head does not have is empty. */
void heads_table_tsv(const struct heads_table *table, struct bytes *out);

/* Writes one object; a measure that a head does not have is null. */
void heads_table_json(const struct heads_table *table, struct bytes *out);

#endif
