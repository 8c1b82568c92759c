/* Runs that translate together (--with). */
#ifndef QKV_TOOLS_ENSEMBLE_H
#define QKV_TOOLS_ENSEMBLE_H

#include "command.h"

#include "qkv/model.h"
#include "qkv/run.h"

struct ensemble {
    struct qkv_run *others; /* [models.count - 1]: all but the first */
    const struct qkv_model **model;
    struct qkv_ensemble models;
    int64_t longest_source; /* number of tokens, with </s>, for which all models have positions */
    int64_t longest_target;
    const char *shortest_run; /* path of the run with the fewest positions for the source; NULL: the first */
};

/* Makes an ensemble of a run and the runs named in `with`, which may be empty, and opens the latter. Fails when one cannot be
 * opened or has other vocabularies than the first. Close it even after a failure. precision: the value of --precision, for the
 * runs in `with`; NULL: each keeps its own. */
enum qkv_status ensemble_open(struct ensemble *ensemble, const struct qkv_run *first,
                              const struct option_list *with, const char *precision, struct qkv_error *error);

void ensemble_close(struct ensemble *ensemble);

#endif
