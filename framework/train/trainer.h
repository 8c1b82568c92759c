/* The parts of the trainer: trainer.c runs the loop, session.c sets up, folder.c keeps the run folder, best.c
 * the list of best checkpoints. */
#ifndef QKV_TRAIN_TRAINER_H
#define QKV_TRAIN_TRAINER_H

#include "qkv/optimizer.h"
#include "qkv/replicas.h"
#include "qkv/run.h"
#include "qkv/schedule.h"
#include "qkv/trainer.h"

#include <dirent.h>

enum { MOST_BEST = 64, MOST_SAMPLES = 16 };

/* One of the best checkpoints. */
struct best {
    int64_t update;
    double score;
};

/* What a checkpoint keeps beside parameters and moments: from it, the run goes on bit by bit. */
struct position {
    int64_t update;       /* updates done */
    int64_t epoch, batch; /* the next batch to be trained on; epochs from 0 */
    int64_t tokens;       /* target tokens so far */
    int64_t waited;       /* validations without a new best */
    int64_t validated;    /* update of the last validation; 0: none */
    double log_loss;      /* smoothed loss and tokens since the last log line */
    int64_t log_tokens;
    int64_t best_count; /* best checkpoints, best first */
    struct best best[MOST_BEST];
};

/* Everything that a training session holds. */
struct session {
    const struct qkv_config *config;
    const struct qkv_train_options *options;
    const char *folder;
    DIR *lock; /* the folder, locked while the session lasts; NULL before */
    struct qkv_arena arena;
    struct qkv_corpus train, dev;
    struct qkv_vocabulary source, target;
    struct qkv_batches batches;
    struct qkv_batch batch;
    struct qkv_model *model;
    struct qkv_workers *workers;
    struct qkv_replicas *replicas;
    struct qkv_optimizer optimizer;
    struct qkv_schedule schedule;
    struct qkv_evaluator *evaluator; /* NULL: no dev set */
    struct position at;
};

/* session.c: reads and checks all input, makes the model, restores or writes the run folder. On failure the
 * session must be released all the same. */
enum qkv_status qkv_session_open(struct session *session, struct qkv_error *error);
/* `resumable`: with the optimizer's moments, which are two thirds of the file and which only --resume reads.
 */
enum qkv_status qkv_session_save(struct session *session, const char *name, bool resumable,
                                 struct qkv_error *error);
void qkv_session_release(struct session *session);

/* folder.c. A new run must not replace one by accident, and --resume needs one. */
enum qkv_status qkv_folder_check(struct session *session, struct qkv_error *error);

/* Makes the folder unless the run is resumed, and keeps other processes from training in it. */
enum qkv_status qkv_folder_lock(struct session *session, struct qkv_error *error);

/* Removes what an old run left in the locked folder, and nothing else: of one that is resumed only files that
 * a kill left half written. */
enum qkv_status qkv_folder_clear(struct session *session, struct qkv_error *error);
enum qkv_status qkv_folder_write_config(struct session *session, struct qkv_error *error);

/* Lines of metrics.jsonl that tell of updates after the checkpoint would come twice: a resumed run drops
 * them, and a line that a kill cut short with them. */
enum qkv_status qkv_folder_trim_metrics(struct session *session, struct qkv_error *error);

/* metrics.jsonl: appends one line, made of a JSON object that is consumed. */
struct cJSON;
enum qkv_status qkv_session_log(struct session *session, struct cJSON *line, struct qkv_error *error);

/* position.c: to and from the state of a checkpoint. */
void qkv_position_save(const struct position *position, struct qkv_state *state);
enum qkv_status qkv_position_restore(struct position *position, const struct qkv_state *state,
                                     struct qkv_error *error);

/* best.c: the list of best validations in the position, and their checkpoints. qkv_best_record takes note of a
 * validation and saves it if it is among them; *is_best says whether it is the best of all so far.
 * qkv_best_prune removes the checkpoints that are not in the list (any more). qkv_best_restore makes the files
 * agree with a list that was just restored. */
enum qkv_status qkv_best_record(struct session *session, double score, bool *is_best,
                                struct qkv_error *error);
enum qkv_status qkv_best_prune(struct session *session, struct qkv_error *error);
enum qkv_status qkv_best_restore(struct session *session, struct qkv_error *error);

#endif
