/* The config that `qkv init` writes. */
#ifndef QKV_TOOLS_INIT_CONFIG_H
#define QKV_TOOLS_INIT_CONFIG_H

#include "init_plan.h"

#include <stdio.h>

/* Names that occur in the config. */
struct init_names {
    const char *name;    /* of the run: letters, digits, '.', '_' and '-' */
    const char *file;    /* of the config, for the comment at its top */
    const char *origin;  /* the file that the pairs come from, for the same comment */
    const char *lang[2]; /* the language codes */
};

/* The name of the file of a part, in the folder of the config: "spa.train.tsv". */
const char *init_part_file(char name[256], const struct init_names *names, enum qkv_pairs_part part);

/* Writes YAML with comments. A failed write is reported when the file is committed. */
void init_config_write(FILE *file, const struct init_plan *plan, const struct init_names *names);

#endif
