/* Lines that `qkv translate` reads before it translates them together. */
#ifndef QKV_TOOLS_TRANSLATE_BLOCK_H
#define QKV_TOOLS_TRANSLATE_BLOCK_H

#include "input_lines.h"

#include "qkv/processes.h"
#include "qkv/search.h"

struct block {
    int64_t capacity;        /* lines */
    int64_t count;           /* lines */
    struct input_line *line; /* [capacity] */
    struct qkv_ids *ids;     /* [capacity]: the lines that have words */
    struct qkv_ids *prefix;  /* [capacity]: what their translations begin with */
    int64_t *number;         /* [capacity]: their numbers */
    int64_t *place;          /* [capacity]: ids[i] are those of line[place[i]] */
    int64_t filled;          /* number of `ids` */
    struct qkv_arena arena;
};

/* Makes room for so many lines. Call block_close even after a failure. */
enum qkv_status block_open(struct block *block, int64_t capacity, struct qkv_error *error);
void block_close(struct block *block);

void block_add(struct block *block, const struct input_line *line);
void block_clear(struct block *block);

/* Gives the lines that have words, which process 0 has read, to the others; *end becomes that of process 0: true after the last
 * block. Does nothing where there is one process. */
enum qkv_status block_share(struct block *block, struct qkv_processes *processes, bool *end,
                            struct qkv_error *error);

#endif
