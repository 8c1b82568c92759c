/* The runs of `qkv sweep`: every combination of the values of some keys, with several seeds. */
#ifndef QKV_TOOLS_SWEEP_GRID_H
#define QKV_TOOLS_SWEEP_GRID_H

#include "command.h"
#include "qkv/arena.h"
#include "qkv/error.h"

#include <stdbool.h>

enum { GRID_MAX_KEYS = 8, GRID_MAX_VALUES = 32 };

struct grid_key {
    const char *key;        /* "training.learning_rate" */
    const char *short_name; /* "learning_rate": the shortest end of `key` that no other key has */
    const char *value[GRID_MAX_VALUES];
    int values;
};

struct grid {
    struct grid_key key[GRID_MAX_KEYS];
    int keys;
};

/* Reads options of the form KEY=VALUE,VALUE. A comma within brackets does not separate values. Texts live in the arena. */
enum qkv_status grid_read(struct grid *grid, const struct option_list *options, struct qkv_arena *arena,
                          struct qkv_error *error);

/* The number of combinations, or some number above `max` if there are more than `max`. */
int grid_count(const struct grid *grid, int max);

/* The settings KEY=VALUE of a combination, settings[grid->keys], and its name, such as "learning_rate=1e-3,num_layers=2";
 * "" without keys. False: no memory. */
bool grid_combination(const struct grid *grid, int index, struct qkv_arena *arena,
                      const char *settings[GRID_MAX_KEYS], const char **name);

#endif
