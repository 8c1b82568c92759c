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
    int64_t longest_source; /* tokens with </s> that all models have positions for */
    int64_t longest_target;
};

/* Makes an ensemble of a run and of those named in `with`, which may be empty, and opens these. Fails when one cannot be
 * opened or has other vocabularies than the first. Close it even then. precision: of --precision, for the others; NULL: their
 * own. */
enum qkv_status ensemble_open(struct ensemble *ensemble, const struct qkv_run *first,
                              const struct option_list *with, const char *precision, struct qkv_error *error);

void ensemble_close(struct ensemble *ensemble);

#endif
