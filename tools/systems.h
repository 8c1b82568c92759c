/* Prints the scores of several systems, for `qkv score --against`. */
#ifndef QKV_TOOLS_SYSTEMS_H
#define QKV_TOOLS_SYSTEMS_H

#include "qkv/bootstrap.h"

struct cJSON;

/* The systems that were compared; all others were compared with the first. samples, seed: of the bootstrap. */
struct systems {
    const char *const *name; /* [count] */
    int count;
    int64_t samples, seed;
    const struct qkv_bootstrap *bootstrap; /* has run */
};

/* Prints a table for each metric. */
void systems_print(const struct systems *systems);

/* Makes one object. */
struct cJSON *systems_json(const struct systems *systems);

#endif
