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
    struct qkv_ids *prefix;  /* [capacity]: the beginnings of their translations */
    int64_t *number;         /* [capacity]: their numbers */
    int64_t *place;          /* [capacity]: ids[i] belong to line[place[i]] */
    int64_t filled;          /* number of `ids` */
    struct qkv_arena arena;
};

/* Allocates memory for `capacity` lines. Call block_close even after a failure. */
enum qkv_status block_open(struct block *block, int64_t capacity, struct qkv_error *error);
void block_close(struct block *block);

void block_add(struct block *block, const struct input_line *line);
void block_clear(struct block *block);

/* Sends the lines with words, which process 0 has read, to the other processes, and its *end, which is true after the last
 * block. Does nothing in a single process. */
enum qkv_status block_share(struct block *block, struct qkv_processes *processes, bool *end,
                            struct qkv_error *error);

#endif
