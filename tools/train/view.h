/* How `qkv train` shows its progress and handles signals. */
#pragma once

#include "command.h"

enum { TRAIN_BLOCK_SAMPLES = 3, TRAIN_BLOCK_PARTS = 80 };

/* The state of training that is drawn. All zero at first, except for the first four members. */
struct train_block {
    enum qkv_metric metric;   /* the metric that decides which validation is the best */
    bool has_other_objective; /* the loss is not the cross-entropy, which is therefore shown beside it */
    bool is_utf8, is_colored;
    struct qkv_train_progress progress; /* update 0: none yet */
    double *losses;                     /* [loss_count]: those of the log lines */
    int64_t loss_count, loss_capacity;
    int64_t validated, best_update; /* updates of the last validation and of the best; 0: none */
    double best;
    struct qkv_scores scores; /* of the last validation */
    /* Translations of the last validation, in the arena. */
    int64_t samples;
    struct {
        const char *source, *reference, *translation;
    } sample[TRAIN_BLOCK_SAMPLES];
    struct qkv_arena arena;
};

/* All zero at first, except for the first four members, which the caller sets. */
struct train_view {
    struct qkv_sides sides; /* of the config */
    const char *unit;       /* what its text is made of: "pairs" */
    const char *config;     /* operand */
    const struct option_list *settings;
    bool quiet;
    bool resume;     /* --resume is given */
    bool started;    /* the run folder exists and updates begin: from now on, errors tell how to continue */
    int64_t resumed; /* updates of the checkpoint that training continues; 0: none */
    bool may_stop_early;
    bool has_estimated;     /* the estimate of time and memory is printed */
    double started_at;      /* qkv_clock_seconds */
    bool is_one_of_several; /* processes, which print no message of a signal; set by the caller */
    bool is_live;           /* standard error is a terminal with cursor control, which shows the block */
    /* The state of the block there. Between two drawings the cursor waits at its start, so that it can be erased without
     * knowing how many rows it has: a terminal that is made narrower may have wrapped its lines. */
    bool is_drawn;
    int rows;        /* below the row of the cursor */
    double drawn_at; /* qkv_clock_seconds */
    struct train_block block;
};

/* Prepares the view for a training. From now on the first SIGINT, SIGTERM or SIGHUP prints a message and ends training after a
 * checkpoint; a second one ends the process immediately. SIGPIPE is ignored. */
void train_view_begin(struct train_view *view, const struct qkv_config *config);

/* The callbacks that show the events of training, and stop it after a signal. */
struct qkv_train_listener train_view_listener(struct train_view *view);

/* Prints how training ended, unless quiet. */
void train_view_end(struct train_view *view, const struct qkv_config *config,
                    const struct qkv_train_result *result);

/* Prints the error and, when a failed write ended the training, how to continue. */
void train_view_failure(struct train_view *view, const struct qkv_config *config, enum qkv_status status,
                        const char *message);

void train_view_release(struct train_view *view);

/* The number of the signal that came; 0: none. */
int train_signal_received(void);

/* True in `qkv sweep`: --resume then never changes the learning rate of a run. */
extern bool train_keeps_rate;
