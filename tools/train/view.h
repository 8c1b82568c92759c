/* How `qkv train` shows its progress and handles signals. */
#ifndef QKV_TOOLS_TRAIN_VIEW_H
#define QKV_TOOLS_TRAIN_VIEW_H

#include "command.h"

#include "draw/text.h"

#include "qkv/trainer.h"

#include <stdbool.h>
#include <stdio.h>

enum { LOSS_HISTORY_POINTS = 256 };

/* All zero: empty. Each point is the mean of `per_point` consecutive losses; the last may have fewer. When all points are used,
 * pairs of neighbours are merged. */
struct loss_history {
    double sum[LOSS_HISTORY_POINTS];
    int count;
    int64_t per_point; /* 0: 1 */
    int64_t in_last;
};

enum { TRAIN_BLOCK_SAMPLES = 3, TRAIN_BLOCK_PARTS = 80 };

/* The state of training that is drawn. All zero at first, except for the first four members. */
struct train_block {
    enum qkv_metric metric;   /* the metric that decides which validation is the best */
    bool has_other_objective; /* the loss is not the cross-entropy, which is therefore shown beside it */
    bool is_utf8, is_colored;
    struct qkv_train_progress progress; /* update 0: none yet */
    struct loss_history losses;
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

void train_block_progress(struct train_block *block, const struct qkv_train_progress *progress);
void train_block_validation(struct train_block *block, const struct qkv_train_validation *validation);
void train_block_release(struct train_block *block);

/* Writes the parts of the loss that are shown beside it: " (cross-entropy 2.3456, alignment 0.5678)"; "" if the loss is the
 * cross-entropy. */
void train_block_parts(const struct train_block *block, const struct qkv_train_progress *progress,
                       char text[TRAIN_BLOCK_PARTS]);

/* Formats a score as "loss 0.0590". */
const char *train_score_text(enum qkv_metric metric, double value, char text[64]);

/* Appends the lines, none wider than `width`. */
void train_block_lines(const struct train_block *block, int width, struct bytes *out);

/* Removes a block that is drawn, without changing the lines above it. A signal handler may write it, followed by a
 * message and a line end; the block is then drawn below the message the next time. */
#define STATUS_BLOCK_ERASE "\r\033[J"

/* A terminal and the state of the block on it. */
struct status_block {
    FILE *file;
    bool live; /* the file is a terminal with cursor control */
    bool drawn;
    int rows;        /* of the block, below the row of the cursor */
    double drawn_at; /* seconds on the monotonic clock */
};

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

/* Options for the messages of the handlers. */
struct train_signals {
    bool quiet;     /* no message */
    bool has_block; /* stderr has a status block, which a message replaces */
};

/* From now on the first SIGINT, SIGTERM or SIGHUP prints a message and ends training after a checkpoint; a second one ends the
 * process immediately. SIGPIPE is ignored. */
void train_signals_handle(struct train_signals signals);

/* The number of the signal that came; 0: none. */
int train_signals_received(void);

#endif
