/* Training: from a config to a run folder (run.h).
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_messages messages = {0};
 *     struct qkv_train_options options = {.overwrite = true};
 *     struct qkv_train_result result = {0};
 *     if (qkv_config_read(&config, &arena, "configs/toy_en_es.yaml", NULL, 0, &messages))
 *         fprintf(stderr, "%s\n", messages.text[0]);
 *     else if (qkv_train(&config, &options, &result, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("%lld updates\n", (long long)result.updates);
 *     qkv_arena_release(&arena);
 *
 * The run can be opened from the first checkpoint on (run.h, text_translator.h). A checkpoint is written at every
 * validation, every training.validation_freq updates: killing the process loses only the updates since the last checkpoint,
 * and training that continues with `resume` ends with the same bits as training that was never killed. */
#ifndef QKV_TRAINER_H
#define QKV_TRAINER_H

#include "qkv/base.h"
#include "qkv/batch.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/gradcheck.h"
#include "qkv/metrics.h"
#include "qkv/model.h"
#include "qkv/optimizer.h"
#include "qkv/processes.h"
#include "qkv/run.h"
#include "qkv/translator.h"

/* ---- the loss of a batch ----
 * The loss of a translation model on a batch of sentence pairs, for data parallelism (qkv/optimizer.h). The split into shards
 * depends on the batch alone, so that sums have the same bits for any number of threads and any size of the model.
 *
 * Example:
 *     struct qkv_model *model = NULL;     // of qkv_model_new
 *     struct qkv_workers *workers = NULL; // of qkv_workers_new
 *     struct qkv_batch batch = {0};       // of qkv_batches_get
 *     struct qkv_optimizer optimizer = {0};
 *     struct qkv_shard_sums sums;
 *     struct qkv_error error = {""};
 *     struct qkv_data_parallel *parallel =
 *         qkv_data_parallel_new(&model->parameters, workers, 4, QKV_GRADIENTS_BY_SIZE, &error);
 *     struct qkv_batch_loss of_batch = {.model = model, .batch = &batch, .objective.smoothing = 0.1};
 *     const struct qkv_shard_loss loss = qkv_batch_loss(&of_batch);
 *     int blocks;
 *     if (!qkv_data_parallel_step(parallel, &loss, NULL, false, &sums, &error)) {
 *         void *const *gradients = qkv_data_parallel_gradients(parallel, &blocks);
 *         qkv_optimizer_step(&optimizer, &model->parameters, workers, blocks, gradients, 1.0 / (double)sums.items, 1e-3);
 *     }
 *     qkv_data_parallel_free(parallel);
 */

/* What the loss is computed from. All of it must outlive the step. */
struct qkv_batch_loss {
    const struct qkv_model *model;
    struct qkv_batch *batch;
    struct qkv_objective objective;
    int shards; /* of the step, which sets it */
};

/* The loss in shards: a step sums the objective, in nats, over the target tokens, `</s>` counted, which are the items. */
QKV_API struct qkv_shard_loss qkv_batch_loss(struct qkv_batch_loss *loss);

/* The further sums of a step (struct qkv_shard_sums). */
enum qkv_batch_sum {
    QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD, /* cross-entropy without smoothing, nats */
    QKV_BATCH_CORRECT,                 /* target tokens to which the model gives the highest probability */
    QKV_BATCH_ALIGNMENT, /* cross entropy of guided alignment, without its weight, nats; 0: off */
};

/* Reserves memory for every batch of `batches`, in any epoch, with the model and objective of `loss`: steps then never call
 * malloc, except that the matrix library allocates a buffer per thread in its first product. Reserving does not write to the
 * memory, so that unused pages take no physical memory. Fails when memory runs out, and where a step would fail: for a
 * sentence longer than the positions. */
QKV_API enum qkv_status qkv_batch_loss_reserve(const struct qkv_batch_loss *loss,
                                               struct qkv_data_parallel *parallel,
                                               const struct qkv_batches *batches, struct qkv_error *error);

/* ---- evaluation ----
 * Scores a model on a corpus: the loss of the references, and the quality of the model's own translations.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_model *model = NULL;         // of qkv_model_new or qkv_run_open
 *     struct qkv_corpus corpus = {0};         // encoded, read with keep_raw
 *     struct qkv_text_config text = {0};      // data.trg of the config
 *     struct qkv_vocabulary vocabulary = {0}; // of the target
 *     struct qkv_testing_config testing = {.batch_size = 32, .beam_size = 1};
 *     struct qkv_workers *workers = qkv_workers_new(0, &error);
 *     struct qkv_evaluator *evaluator =
 *         qkv_evaluator_new(model, &corpus, &text, &vocabulary, workers, &testing, &error);
 *     struct qkv_scores scores;
 *     if (evaluator && !qkv_evaluator_run(evaluator, &scores, &error))
 *         printf("BLEU %.2f\n", scores.value[QKV_METRIC_BLEU]);
 *     qkv_evaluator_free(evaluator);
 */

/* Fails unless the model has a position for every token of a corpus, </s> included; the message names the line of the first
 * sentence that is too long. Fails for a corpus of types only; otherwise always succeeds for models without a table of
 * positions. `path`: of the corpus, for the message. */
QKV_API enum qkv_status qkv_corpus_fits(const struct qkv_corpus *corpus, const char *path,
                                        const struct qkv_model_config *model, struct qkv_error *error);

struct qkv_evaluator;

/* Prepares to score `model` on an encoded corpus that kept its raw lines. All arguments must outlive the
 * evaluator. workers NULL: the calling thread computes alone. Returns NULL, with a message, when memory is
 * out, when the corpus is not encoded, has no raw lines, or was read with options.bpe_dropout for a side with BPE dropout,
 * when the target vocabulary is not of the model's size, and when a field of `testing` is out of range. */
QKV_API struct qkv_evaluator *
qkv_evaluator_new(const struct qkv_model *model, const struct qkv_corpus *corpus,
                  const struct qkv_text_config *target_text, const struct qkv_vocabulary *target,
                  struct qkv_workers *workers, const struct qkv_testing_config *testing,
                  struct qkv_error *error);

/* Prepares to score an ensemble (qkv_decoding_new_ensemble in model.h), whose models also score the references together.
 * Also returns NULL where qkv_decoding_new_ensemble does. */
QKV_API struct qkv_evaluator *
qkv_evaluator_new_ensemble(struct qkv_ensemble ensemble, const struct qkv_corpus *corpus,
                           const struct qkv_text_config *target_text, const struct qkv_vocabulary *target,
                           struct qkv_workers *workers, const struct qkv_testing_config *testing,
                           struct qkv_error *error);

/* Divides the batches of a run among processes, which must all score the same models on the same corpus with the same
 * options. Only process 0 gets scores, translations and log-probabilities, which have the same bits as with one process;
 * the other processes get only the status. Processes must outlive the evaluator. */
QKV_API void qkv_evaluator_divide(struct qkv_evaluator *evaluator, struct qkv_processes *processes);

/* Scores the model with its current parameters. QKV_FAILED: the scores are not finite; QKV_INVALID: a sentence is longer
 * than its positions, or memory runs out. The result is the same bits for any number of threads. */
QKV_API enum qkv_status qkv_evaluator_run(struct qkv_evaluator *evaluator, struct qkv_scores *scores,
                                          struct qkv_error *error);

/* The same without translations: only loss, perplexity and token accuracy; sequence accuracy is NaN, and the metrics of texts
 * are 0. */
QKV_API enum qkv_status qkv_evaluator_run_references(struct qkv_evaluator *evaluator,
                                                     struct qkv_scores *scores, struct qkv_error *error);

/* The model's translation of sentence i, as text, from the last run. Valid until the next run. NULL before the first
 * run, after a run that failed or was one of references, and for a sentence that does not exist. */
QKV_API const char *qkv_evaluator_translation(const struct qkv_evaluator *evaluator, int64_t i);

/* The counts of one sentence in the last run; all 0 before the first run, after a run that failed, and for a sentence that does
 * not exist. */
struct qkv_sentence_score {
    int64_t source_tokens;          /* without </s> */
    int64_t tokens;                 /* target tokens, </s> counted */
    double negative_log_likelihood; /* of the reference, nats */
    double correct;                 /* reference tokens to which the model gives the highest probability */
    bool is_exact_match;            /* the translation equals the reference, token for token */
};
QKV_API struct qkv_sentence_score qkv_evaluator_sentence(const struct qkv_evaluator *evaluator, int64_t i);

/* The log-probabilities (natural logarithm), from the last run, of the target tokens of sentence i of the corpus, </s>
 * included, each given the reference tokens before it: as many as `tokens` of qkv_evaluator_sentence. Their sum is
 * -negative_log_likelihood. Valid until the next run. NULL where there is no such sentence or no run. */
QKV_API const double *qkv_evaluator_log_probabilities(const struct qkv_evaluator *evaluator, int64_t i);

QKV_API void qkv_evaluator_free(struct qkv_evaluator *evaluator);

/* ---- training ---- */

/* Reported after each update. */
struct qkv_train_progress {
    int64_t update, epoch; /* both from 1 */
    int64_t updates;       /* expected in total; 0: unknown */
    int64_t tokens;        /* target tokens so far */
    double loss;           /* the objective (model.h) per target token, nats; mean since the last log line */
    double cross_entropy;  /* of the same tokens, without label smoothing; NaN: not known */
    double alignment;      /* the loss of guided alignment per target token, without its weight; NaN: off */
    double learning_rate;
    double gradient_norm;     /* before clipping */
    double tokens_per_second; /* source and target, since the last log line or validation */
    double seconds_left;      /* NaN: unknown */
    bool logged;              /* this update ends a logging interval */
};

/* Reported after each validation. */
struct qkv_train_validation {
    int64_t update;
    struct qkv_scores scores; /* scores.value[QKV_METRIC_BLEU] and so on (metrics.h) */
    bool best;                /* the best so far, by training.early_stopping_metric */
    int64_t samples;          /* translations to show */
    const char *const *source, *const *reference, *const *translation; /* [samples] */
};

/* Reported before the first update. */
struct qkv_train_start {
    const char *folder;
    int64_t parameters, frozen;         /* number of parameters; of those that are frozen */
    int64_t pairs, read;                /* training pairs kept, and in the file */
    int64_t long_sources, long_targets; /* dropped because a side is longer than max_length */
    int64_t dev_pairs;                  /* 0: no validation */
    int32_t source_types, target_types; /* sizes of the vocabularies */
    int threads, shards, processes;
    int64_t resumed;                    /* updates done before; 0: a new run */
    const char *from;                   /* checkpoint of training.from; NULL: random initial values */
    bool has_new_vocabulary;            /* the vocabularies are not those of the run of `from`: */
    int64_t known_source, known_target; /* types that both runs have, without special tokens */
};

/* Reported at the end of training if testing.average is above 0: the average of the best checkpoints. */
struct qkv_train_average {
    struct qkv_average checkpoints; /* what was averaged */
    struct qkv_scores scores;       /* of the average, on the dev set */
};

/* Callbacks. Any may be NULL. */
struct qkv_train_listener {
    void *context;
    bool (*stop)(void *context); /* called after each update; true: save and end */
    void (*start)(void *context, const struct qkv_train_start *start);
    void (*progress)(void *context, const struct qkv_train_progress *progress);
    void (*validation)(void *context, const struct qkv_train_validation *validation);
    void (*average)(void *context, const struct qkv_train_average *average);
    /* Reports a probable problem, such as overfitting, and the config key that helps, in one sentence. */
    void (*notice)(void *context, const char *sentence);
};

/* Messages name resume and overwrite as options of `qkv train`: --resume, --overwrite. */
struct qkv_train_options {
    bool resume; /* continue from the run's last checkpoint; QKV_KEYS_FIXED_ON_RESUME must not have changed */
    bool overwrite; /* replace an existing run */
    int threads;    /* 0: one per processor */
    const struct qkv_train_listener *listener;
    /* NULL: this process alone. Otherwise all processes must call qkv_train with the same config and options. Process 0
     * writes the run and calls the listener; the other processes call only `stop` of their listeners, and their errors are
     * empty unless process 0 cannot know of them. */
    struct qkv_processes *processes;
};

/* Why training ended. */
enum qkv_train_end {
    QKV_TRAIN_DONE,     /* all updates or epochs */
    QKV_TRAIN_PATIENCE, /* no progress for training.patience validations */
    QKV_TRAIN_STOPPED,  /* the listener stopped it; --resume continues */
};

/* Scores are as in struct qkv_scores (metrics.h): accuracies from 0 to 1, BLEU and chrF from 0 to 100. */
struct qkv_train_result {
    enum qkv_train_end end;
    int64_t updates;
    int64_t tokens; /* target tokens trained on */
    bool validated;
    int64_t best_update; /* of the best validation */
    double best;         /* its score, by training.early_stopping_metric */
    int64_t averaged;    /* checkpoints in the average (testing.average); 0: no average */
    double average;      /* its score, by training.early_stopping_metric */
    /* Bytes that process 0 sent to the others, and the most bytes that any other process sent; 0: one process. */
    int64_t sent, sent_by_others;
};

/* Trains a model. Reads and checks all input before it replaces any file of an old run. QKV_FAILED: the loss or the
 * gradient is no longer finite; the last checkpoint is intact. QKV_INVALID: bad input, an existing run without `overwrite`,
 * a failed write, or a resumed run whose text or fixed keys have changed; the message names the key, its old and its new
 * value. */
QKV_API enum qkv_status qkv_train(const struct qkv_config *config, const struct qkv_train_options *options,
                                  struct qkv_train_result *result, struct qkv_error *error);

/* Writes the text data.train of a config to `file`, x.prepared, as qkv_corpus_prepare does, with the vocabularies and
 * merges that qkv_train would use: those of the run that training.from names, or, if training.from_vocabulary is new or
 * there is no such run, those of the text. With data.train set to `file`, qkv_train then gives the same bits as from the
 * text. Fails, and writes no file, as qkv_corpus_prepare does, and where qkv_train refuses training.from. */
QKV_API enum qkv_status qkv_train_prepare(const struct qkv_config *config, const char *file,
                                          struct qkv_prepared_counts *counts, struct qkv_error *error);

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
QKV_API enum qkv_status qkv_train_measure(const struct qkv_config *config, int threads, double seconds,
                                          struct qkv_train_cost *cost, struct qkv_error *error);

/* ---- the gradient check of a model ----
 * The gradient check of a translation model on the first sentences of its training text: does the same as `qkv gradcheck
 * CONFIG` and `qkv gradcheck RUN`, but also works for a program's own network (qkv/network.h), which the command cannot
 * open.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_messages messages;
 *     struct qkv_check_report report = {0};
 *     struct qkv_error error = {""};
 *     const struct qkv_check_options options = {.seed = 1, .sample = 16}; // 16 numbers of each parameter
 *     const struct qkv_checked_model model = {.subject = "own", .config = &config, .sentences = 4};
 *     if (qkv_config_read(&config, &arena, "own_network.yaml", NULL, 0, &messages))
 *         fprintf(stderr, "%s\n", messages.text[0]);
 *     else if (qkv_check_model(&report, &model, &options, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("%lld of %lld checks failed\n", (long long)report.failures, (long long)report.count);
 *     qkv_check_release(&report);
 *     qkv_arena_release(&arena);
 *
 * gradcheck.h describes the comparison and the report. */

/* Sizes of the model and the text. */
struct qkv_checked_sizes {
    int64_t parameters;                              /* number of parameters */
    int64_t sentences, source_tokens, target_tokens; /* of the batch, with </s> */
};

struct qkv_checked_model {
    const char *subject; /* its name in the report; must outlive the report */
    const struct qkv_config *config;
    /* Values as trained, and its vocabularies; NULL: values as training starts with them */
    const struct qkv_run *run;
    int64_t sentences; /* pairs from the beginning of data.train, at least 1; fewer where it has fewer */
    /* Called before the first derivative; NULL: not called. */
    void (*begin)(void *context, const struct qkv_checked_sizes *sizes);
    void *context; /* first argument of `begin` */
};

/* Largest relative difference between float32 and float64, in loss and gradients of a model, that passes (relative to what:
 * see qkv_check_precision). */
#define QKV_MODEL_FLOAT32_BOUND 2e-5

/* Checks a model with the vocabularies, dropout, label smoothing and loss scale of training: the gradient of every
 * parameter (qkv_check_graph), and float32 against float64 (qkv_check_precision). Wrong gradients become failed rows of the
 * report; the status is still QKV_OK. QKV_INVALID when the text cannot be read, the model cannot be made from the config,
 * `run` does not fit the config, qkv_check_graph refuses the options, or memory runs out. */
QKV_API enum qkv_status qkv_check_model(struct qkv_check_report *report,
                                        const struct qkv_checked_model *model,
                                        const struct qkv_check_options *options, struct qkv_error *error);

#endif
