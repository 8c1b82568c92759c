/* The state of one call of qkv_train, and the files that work on it; each file calls only files above it:
 *
 *     run_folder.c    the run folder: lock, config, lines of metrics.jsonl; notices
 *     checkpoints.c   checkpoints, and which of them are kept
 *     messages.c      the commands of process 0 to the others
 *     updates.c       the loss of a batch, and one update: neither files nor threads of its own, nor have the two files around it
 *     construct.c     makes the model, its optimizer and the batches
 *     precision.c     training.precision: auto
 *     notices.c       warnings about overfitting and lack of progress
 *     warm_start.c    training.from: parameters of another run or of a file
 *     setup.c         reads and checks all input, makes the model, restores or begins the run
 *     trainer.c       the loop, behind qkv/trainer.h */
#pragma once

#include "core/text.h"
#include "data/prepared.h"
#include "metrics/links.h"
#include "qkv/trainer.h"
#include "run/checkpoints.h"
#include "train/overfitting.h"

#include <dirent.h>

enum {
    MAX_KEPT =
        64, /* upper limit of training.keep_best_ckpts, testing.average, keep_last_ckpts and snapshots */
    MAX_SAMPLES = 16, /* upper limit of training.validation_samples */
    MAX_TEXTS = 3,    /* data.train, data.train_links, data.dev */
};

/* The lists of the checkpoints that are kept. */
enum kept_in {
    KEPT_BEST,      /* best first, by training.early_stopping_metric */
    KEPT_LAST,      /* ascending, as are snapshots */
    KEPT_SNAPSHOTS, /* of training.snapshots */
    KEPT_LISTS,
};

/* Places are one more than are kept: of the best and last ones for that of `early_end`, of the snapshots for a new one. */
struct kept_list {
    int64_t count;
    struct kept {
        int64_t update;
        double score, loss; /* of the best ones; a loss of NaN: not known, in a checkpoint of an older qkv */
    } item[MAX_KEPT + 1];
};

/* Where training is. A checkpoint keeps it, so that a resumed run computes the same bits. */
struct progress {
    int64_t update;    /* updates done */
    int64_t epoch;     /* from 0 */
    int64_t batch;     /* next batch of that epoch, from 0; the number of batches at the end of the epoch */
    int64_t tokens;    /* target tokens trained on */
    int64_t waited;    /* validations since the best one */
    int64_t validated; /* update of the last validation; 0: none */
    /* The last update, if it was the end of training and no multiple of training.validation_freq; else 0. When training
     * goes on, the lists forget its checkpoint, which an uninterrupted training would not have. */
    int64_t early_end;
    double log_loss; /* sum of the loss, with label smoothing, since the last log line, nats */
    /* The same without label smoothing; NaN: not known, in a checkpoint of an older qkv */
    double log_cross_entropy;
    double log_alignment; /* sum of the cross entropy of guided alignment since the last log line, nats */
    int64_t log_tokens;   /* target tokens since the last log line */
    struct kept_list kept[KEPT_LISTS];
};

/* The warnings that training may give. */
enum notice { NOTICE_OVERFITTING, NOTICE_COLLAPSE, NOTICE_GUESSING, NOTICE_CUT, NOTICE_END, NOTICE_COUNT };

/* Some successive updates. */
struct block {
    double loss; /* sum of negative log-likelihoods, nats */
    int64_t tokens;
};

/* What notices.c remembers. Checkpoints do not keep it. */
struct notices {
    struct block validation; /* since the last validation */
    struct block window;     /* since the last comparison with guessing */
    int64_t window_updates;
    struct block block, last_block; /* the last 1 to 50 updates of the window, and the 50 before them */
    double guessing;                /* loss of guessing each word by its frequency; 0: not computed yet */
    struct qkv_overfitting overfitting;
    int64_t cut; /* translations of the last validation that ended at the limit of their length */
    int64_t silent_until[NOTICE_COUNT]; /* update before which a notice is not repeated */
};

/* The average of a finished training that is resumed. */
struct kept_average {
    int64_t checkpoints; /* how many it averages; 0: there is none, or it is not of the best checkpoints */
    bool is_scored;      /* metrics.jsonl has its scores; otherwise the average is made again */
    double score;        /* by training.early_stopping_metric */
};

/* The run or file that training.from names. All zero: none. */
struct warm_start {
    const char *path;        /* of the checkpoint or file */
    bool is_run;             /* it is of a run */
    bool is_open;            /* `run` is open */
    bool has_old_vocabulary; /* vocabularies and merges are those of `run` */
    struct qkv_run run;
    /* Source and target tokens, except special ones, that are also in the run's vocabularies */
    int64_t known[2];
};

/* The learning rate of a resumed run; with the schedule noam its factor. */
struct changed_rate {
    double given;  /* in the config of the caller */
    double before; /* with which the checkpoint was trained */
    double first;  /* in the config when the run began, if it was changed since; else 0 */
};

/* The text of validations: data.dev, or with data.dev_share data.train; "": none. */
static inline const char *qkv_dev_path(const struct qkv_data_config *data)
{
    return data->dev_share > 0 ? data->train : data->dev;
}

struct training {
    const struct qkv_config *config; /* until the merges are known, that of the caller; then `with_merges` */
    struct qkv_config with_merges;   /* the same with data.src.bpe and data.trg.bpe */
    struct qkv_bpe *bpe[2];          /* of source and target; NULL: the level is not bpe */
    const struct qkv_train_options *options;
    const char *folder;         /* of the run */
    const char *metrics;        /* path of its metrics.jsonl */
    const char *best_temporary; /* path of best.safetensors until it is complete */
    DIR *lock;                  /* the locked folder; NULL before it is locked */
    struct qkv_arena arena;
    struct qkv_corpus train, dev;
    struct qkv_token_links links; /* of `train`, with guided alignment */
    struct qkv_vocabulary source, target;
    struct qkv_batches batches;
    struct qkv_batch batch; /* the batch that is computed; its memory is reused */
    struct qkv_model *model;
    struct qkv_workers *workers;
    struct qkv_data_parallel *parallel;
    struct qkv_batch_loss loss; /* of `batch` */
    struct qkv_optimizer optimizer;
    struct qkv_schedule schedule;
    struct changed_rate rate;
    struct qkv_evaluator *evaluator; /* NULL: no dev set */
    struct progress progress;
    struct notices notices;
    struct kept_average kept_average;
    double seconds_before; /* of training by the processes whose checkpoint is continued */
    double begun;          /* qkv_clock_seconds when this process began to train */
    struct warm_start from;

    /* Of several processes: */
    bool has_followers;      /* this is process 0, and the others wait for its commands */
    uint64_t shared_changes; /* parameters.changes when values were last sent to the others; 0: never */
    bool *wants_stop;        /* [processes]: which have been asked to stop */
    int64_t *sent;           /* [processes]: bytes */
};

/* The key of a checkpoint for changed_rate.first. */
#define FIRST_RATE "train.first_rate"

/* ---- run_folder.c ---- */

/* Refuses to replace a run without --overwrite, to resume where there is no run or one of a newer format, and a folder
 * in which a file of a run is not a regular file. */
enum qkv_status qkv_run_folder_check(struct training *training, struct qkv_error *error);

/* Makes the folder, unless the run is resumed, and locks it against other processes. */
enum qkv_status qkv_run_folder_lock(struct training *training, struct qkv_error *error);

/* Fails if the path of the run leads no longer to the folder that was locked: it may lead to another run. Fails, too, if
 * the path cannot be read. */
enum qkv_status qkv_run_folder_is_locked(const struct training *training, struct qkv_error *error);

/* Whether that is certain: false where the path cannot be read. */
bool qkv_run_folder_is_moved(const struct training *training);

/* Removes the files of an old run, and temporary files that a killed process left. Where the run is resumed,
 * only the temporary files. Other files stay. */
enum qkv_status qkv_run_folder_clear(struct training *training, struct qkv_error *error);

/* Removes some files of the folder. */
enum qkv_status qkv_run_folder_remove(const struct training *training,
                                      bool is_removed(const struct training *training, const char *name),
                                      struct qkv_error *error);

/* Writes the format of the run. It comes before the checkpoint that can be resumed, as a run without it has format 1. */
enum qkv_status qkv_run_folder_write_format(struct training *training, struct qkv_error *error);

/* Writes config.yaml, which makes the folder a run. */
enum qkv_status qkv_run_folder_write_config(struct training *training, struct qkv_error *error);

/* Removes from metrics.jsonl the lines of updates after that of the checkpoint, because training will write them
 * again, a last line that a kill cut short, and that of an average unless it is kept. Sets seconds_before. */
enum qkv_status qkv_run_folder_trim_metrics(struct training *training, struct qkv_error *error);

/* A line of metrics.jsonl that is being made. */
struct bytes qkv_log_line(const char *kind, int64_t update);
void qkv_log_number(struct bytes *line, const char *key, double value);
void qkv_log_scores(struct bytes *line, const struct qkv_scores *scores);
/* Adds the seconds of training so far, including those before the run was resumed. */
void qkv_log_seconds(struct bytes *line, const struct training *training);
/* Appends the line to metrics.jsonl, and frees it, even on failure. */
enum qkv_status qkv_log_write(struct training *training, struct bytes *line, struct qkv_error *error);

/* Gives the listener a notice, if there is one that takes notices. */
void qkv_training_say(const struct training *training, const char *format, ...) QKV_PRINTF(2, 3);

/* ---- checkpoints.c ---- */

/* Takes the progress from the state of a checkpoint. Fails, and changes nothing, when a number is missing or impossible. */
enum qkv_status qkv_progress_restore(struct progress *progress, const struct qkv_state *state,
                                     struct qkv_error *error);

/* The texts and links of this training, that of data.dev last; returns their number. */
int qkv_training_texts(const struct training *training, struct qkv_trained_text texts[MAX_TEXTS]);

/* True after the last update. The epoch must be planned. */
bool qkv_training_is_at_end(const struct training *training);

/* If the last update is among the best by `score`, and of equal scores by `loss`: adds it to the list of best checkpoints and
 * writes its checkpoint. *is_best: it is the best of all. */
enum qkv_status qkv_best_record(struct training *training, double score, double loss, bool *is_best,
                                struct qkv_error *error);

/* Writes a snapshot of the present update if one is due, or if `is_end`, the last update, unless it has one. Adds it to the
 * list. If there are then more than training.snapshots, drops the snapshot whose neighbours are closest to each other. */
enum qkv_status qkv_snapshot_record(struct training *training, bool is_end, struct qkv_error *error);

/* Saves last.safetensors. Only then does it remove checkpoints that are in no list: if the process is killed before, --resume
 * continues from the previous last.safetensors and needs the files that it lists. */
enum qkv_status qkv_checkpoint_save_last(struct training *training, struct qkv_error *error);

/* The same after it has added the present update to the list of the training.keep_last_ckpts last checkpoints. */
enum qkv_status qkv_checkpoint_keep(struct training *training, struct qkv_error *error);

/* True when the present update is in the list of the last checkpoints and in that of snapshots, if they are wanted. */
bool qkv_checkpoint_is_kept(const struct training *training);

/* Where testing.average is above 0 and training has validated: writes average.safetensors, scores it and logs that.
 * Afterwards the model holds the average. Otherwise does nothing. */
enum qkv_status qkv_final_average(struct training *training, struct qkv_train_average *average,
                                  struct qkv_error *error);

/* For a resumed run, whose progress is restored and whose epoch is planned: makes lists, files and metrics.jsonl agree. */
enum qkv_status qkv_checkpoints_restore(struct training *training, struct qkv_error *error);

/* ---- messages.c; all do nothing in one process ---- */

/* What process 0 commands the others: to compute a batch, or to end. */
struct training_command {
    bool is_last, has_values; /* has_values: new values of all parameters follow */
    enum qkv_status status;   /* of the training that ends */
    enum qkv_train_end end;
    int64_t update, epoch, batch; /* updates done; epoch and batch to compute */
    int64_t part;                 /* number of the batch in its update, from 0 */
    enum qkv_precision
        precision; /* that of process 0, which has chosen it where training.precision is auto */
};

/* Process 0: commands the others to compute the batch just fetched (number progress.batch - 1), part `part` of an update. */
enum qkv_status qkv_training_command(struct training *training, int64_t part, struct qkv_error *error);

/* The others: wait for the next command. */
enum qkv_status qkv_training_receive(struct training *training, struct training_command *command,
                                     struct qkv_error *error);

/* After each step: tells process 0 which processes have been asked to stop, by a signal for example. */
enum qkv_status qkv_training_collect_stops(struct training *training, struct qkv_error *error);

/* In process 0: ends the training of the others, if they still follow, and adds the numbers of bytes sent to the result. */
void qkv_training_dismiss(struct training *training, enum qkv_status status, struct qkv_train_result *result);

/* ---- construct.c ---- */

/* Makes the model with its initial parameters, for `config` and the vocabularies. */
enum qkv_status qkv_training_make_model(struct training *training, struct qkv_error *error);

/* Makes loss, optimizer, schedule and batches, for the model with its first parameters, `train`, which is encoded, and
 * `workers`. */
enum qkv_status qkv_training_make_optimizer(struct training *training, struct qkv_error *error);

/* Releases everything that both have made, even if they have failed. */
void qkv_training_release_model(struct training *training);

/* ---- updates.c ---- */

/* Sums over the batches of one update. */
struct update_sums {
    double loss;                    /* with label smoothing and its other terms, nats */
    double negative_log_likelihood; /* of the target tokens, nats */
    double norm;                    /* of the gradient, before clipping */
    int64_t tokens;                 /* target tokens; 0: no batch was left */
    int64_t all_tokens;             /* source and target tokens */
};

/* Draws the pieces of the current epoch of training->progress and plans its batches. */
void qkv_training_plan_epoch(struct training *training);

/* Does one update: sums the gradients of training.batch_multiplier batches, then steps the optimizer. Does nothing
 * after the last epoch. QKV_FAILED: training has diverged; the message names the update, and remedies. */
enum qkv_status qkv_training_update(struct training *training, struct update_sums *sums,
                                    struct qkv_error *error);

/* In a process other than 0: computes what process 0 commands until it ends the training; returns the status of the
 * training, and *end. The message is empty, because process 0 reports it, except for a failure that only this process knows
 * of. */
enum qkv_status qkv_training_follow(struct training *training, enum qkv_train_end *end,
                                    struct qkv_error *error);

/* QKV_FAILED, with a message that names the update that diverged, what was found, and remedies. */
enum qkv_status qkv_training_diverged(int64_t update, const struct qkv_error *found, struct qkv_error *error);

/* ---- warm_start.c ---- */

/* Opens the run that training.from names, unless a run is resumed, and sets training->from. Fails when it cannot be opened, and
 * when its vocabulary is to be used although the configs split texts into tokens differently. */
enum qkv_status qkv_warm_start_open(struct training *training, struct qkv_error *error);

/* Replaces the initial values of the model, and closes the run. Fails when names or shapes of parameters differ. */
enum qkv_status qkv_warm_start_apply(struct training *training, struct qkv_error *error);

void qkv_warm_start_close(struct training *training);

/* ---- setup.c ---- */

/* Reads data.train and its links, and the dev text unless dev_path is "". Its merges and vocabularies are those of the texts, of
 * training.from, or of the resumed run. bpe_dropout: data.train has other pieces in each epoch, if the config says so. */
enum qkv_status qkv_training_read(struct training *training, const char *dev_path, bool bpe_dropout,
                                  struct qkv_error *error);

/* Reads all input and makes the model and all that trains it, but no run folder. The caller sets config and options before,
 * and releases the training also after a failure. */
enum qkv_status qkv_training_prepare(struct training *training, struct qkv_error *error);

/* Reads all input, makes the model and its run folder, and restores the progress of a resumed run. The caller
 * sets config and options before, and releases the training also after a failure. */
enum qkv_status qkv_training_open(struct training *training, struct qkv_error *error);
/* Compares what several processes must have in common. status: of the preparation of this process, with its error. Returns a
 * failure in all processes if one has failed, or if what they have prepared differs; process 0 has the error. In one process:
 * returns `status`. */
enum qkv_status qkv_training_agree(struct training *training, enum qkv_status status,
                                   struct qkv_error *error);
void qkv_training_release(struct training *training);

/* Replaces training.precision: auto by the faster type. Called by process 0, before the first update. */
enum qkv_status qkv_training_choose_precision(struct training *training, struct qkv_error *error);

/* ---- notices.c ---- */

/* Called after each update, with the sum of its loss (nats), and after each validation. They call the listener. */
void qkv_notice_update(struct training *training, double loss, int64_t tokens);
void qkv_notice_validation(struct training *training, const struct qkv_scores *scores);

/* For a resumed run: takes the losses of its validations from metrics.jsonl. */
enum qkv_status qkv_notices_restore(struct training *training, struct qkv_error *error);

/* Called when training.patience ends the training. */
void qkv_notice_patience(struct training *training);

/* Called when the links of guided alignment are read. */
void qkv_notice_spaces(struct training *training, struct qkv_word_spaces spaces);

/* ratio: the time of bfloat16 / that of float32, by which the precision was chosen; 0: the config chose it. */
void qkv_notice_precision(struct training *training, double ratio);

/* Called when training ends, by its length or by training.patience. */
void qkv_notice_end(struct training *training, bool by_patience);

/* ---- for the commands ---- */

/* Time and size of training on this machine. */
struct qkv_train_cost {
    double seconds_per_update;
    double seconds_per_validation; /* of an untrained model, whose translations are long; 0: no data.dev */
    int64_t parameters;            /* number of parameters */
    int64_t batches;               /* of an epoch */
};

/* Measures the training that a config describes: reads all input, does updates for `seconds` seconds, but at least three
 * updates, and one validation, and discards the result. Writes no files and needs no run folder. Fails as qkv_train
 * does. */
enum qkv_status qkv_train_measure(const struct qkv_config *config, int threads, double seconds,
                                  struct qkv_train_cost *cost, struct qkv_error *error);

/* Writes the text data.train of a config to `file`, x.prepared, as qkv_corpus_prepare does, with the vocabularies and
 * merges that qkv_train would use: those of the run that training.from names, or, if training.from_vocabulary is new or
 * there is no such run, those of the text. With data.train set to `file`, qkv_train then gives the same bits as from the
 * text. Fails, and writes no file, as qkv_corpus_prepare does, and where qkv_train refuses training.from. */
enum qkv_status qkv_train_prepare(const struct qkv_config *config, const char *file,
                                  struct qkv_prepared_header *header, struct qkv_error *error);

/* Reserves memory for every batch of `batches`, in any epoch, with the model and objective of `loss`: steps then never call
 * malloc, except that the matrix library allocates a buffer per thread in its first product. Reserving does not write to the
 * memory, so that unused pages take no physical memory. Fails when memory runs out, and where a step would fail: for a
 * sentence longer than the positions. */
enum qkv_status qkv_batch_loss_reserve(const struct qkv_batch_loss *loss, struct qkv_data_parallel *parallel,
                                       const struct qkv_batches *batches, struct qkv_error *error);

/* Fails unless the model has a position for every token of a corpus, </s> included; the message names the line of the first
 * sentence that is too long. Fails for a corpus of types only; otherwise always succeeds for models without a table of
 * positions. `path`: of the corpus, for the message. */
enum qkv_status qkv_corpus_fits(const struct qkv_corpus *corpus, const char *path,
                                const struct qkv_model_config *model, struct qkv_error *error);
