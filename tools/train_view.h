/* Shows the progress of `qkv train` on standard error: in a block that is redrawn in place on a terminal, otherwise as
 * lines. */
#ifndef QKV_TOOLS_TRAIN_VIEW_H
#define QKV_TOOLS_TRAIN_VIEW_H

#include "command.h"
#include "status_block.h"
#include "train_block.h"

#include "qkv/trainer.h"

/* All zero at first, except for the first four members, which the caller sets. */
struct train_view {
    const char *config; /* operand */
    const struct option_list *settings;
    bool quiet;
    bool resume;     /* --resume is given */
    bool started;    /* the run folder exists and updates begin: from now on, errors tell how to continue */
    int64_t resumed; /* updates of the checkpoint that training continues; 0: none */
    bool may_stop_early;
    bool has_estimated; /* the estimate of time and memory is printed */
    double started_at;  /* qkv_clock_seconds */
    struct status_block terminal;
    struct train_block block;
};

/* Prepares the view for a training. */
void train_view_begin(struct train_view *view, const struct qkv_config *config);

/* The callbacks that show the events of training. The caller sets `stop`. */
struct qkv_train_listener train_view_listener(struct train_view *view);

/* Prints how training ended, unless quiet. */
void train_view_end(struct train_view *view, const struct qkv_config *config,
                    const struct qkv_train_result *result);

/* Prints the error and, when a failed write ended the training, how to continue. */
void train_view_failure(struct train_view *view, const struct qkv_config *config, enum qkv_status status,
                        const char *message);

void train_view_release(struct train_view *view);

#endif
