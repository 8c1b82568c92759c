/* The block that `qkv train` draws on a terminal while it trains: progress, losses, and scores of the dev set. */
#ifndef QKV_TOOLS_TRAIN_BLOCK_H
#define QKV_TOOLS_TRAIN_BLOCK_H

#include "loss_history.h"

#include "qkv/trainer.h"

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

/* Appends the lines, none wider than `width`. */
void train_block_lines(const struct train_block *block, int width, struct bytes *out);

#endif
