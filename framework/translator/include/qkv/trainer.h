/* Training, from a config to a run folder (run.h): metrics, evaluation, the gradient check of a model, several processes.
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
 * The run can be opened from the first checkpoint on (qkv_run_open). A checkpoint is written at every
 * validation, every training.validation_freq updates: killing the process loses only the updates since the last checkpoint,
 * and training that continues with `resume` ends with the same bits as training that was never killed. */
#ifndef QKV_TRAINER_H
#define QKV_TRAINER_H

#include "qkv/base.h"
#include "qkv/checkpoint.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/gradcheck.h"
#include "qkv/model.h"
#include "qkv/optimizer.h"
#include "qkv/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ======== metrics ========
 *
 * The table of all metrics (qkv/metrics.def), and an accumulator that computes them. Scores and signatures are those of
 * sacreBLEU 2 (Post 2018, "A Call for Clarity in Reporting BLEU Scores").
 *
 * Example:
 *     const char *reference = "the cat is on the mat";
 *     struct qkv_scorer scorer = {.options = {.lowercase = true}};
 *     struct qkv_error error = {""};
 *     if (!qkv_scorer_add(&scorer, "The cat sat on the mat", &reference, 1, &error)) {
 *         struct qkv_scores scores = qkv_scorer_scores(&scorer);
 *         printf("%.2f %.2f\n", scores.value[QKV_METRIC_BLEU], scores.value[QKV_METRIC_CHRF]);
 *     }
 *     qkv_scorer_release(&scorer);
 *
 * The accumulator is caller's storage: fill in the options (all zero: sacreBLEU's defaults), add each segment once, read
 * the scores as often as you like, release. A segment is a hypothesis, which is the translation to score, with its
 * references.
 *
 * Texts are UTF-8, not tokenized. A byte that is not valid UTF-8 counts as one U+FFFD. BLEU and chrF are 0 to 100, more is
 * better; TER is 0 or more, less is better.
 *
 * A reference that is NULL is missing: segments may have different numbers of references, and the signature then says
 * `nrefs:var`. An empty hypothesis or reference is a text of no words, not a missing one.
 *
 * Adding fails, and adds nothing, when a segment has no reference, an option is out of range or memory runs out. */

#define QKV_BLEU_ORDER         4    /* n-grams of 1 to 4 words */
#define QKV_BLEU_SMOOTHING_MAX 1000 /* greatest smoothing value */
#define QKV_CHRF_CHARACTERS    6    /* default: n-grams of 1 to 6 characters */
#define QKV_CHRF_BETA          2    /* default: recall counts twice as much as precision */
#define QKV_CHRF_BETA_MAX      1000 /* greatest beta */
#define QKV_CHRF_LONGEST       10   /* the longest n-grams of characters */
#define QKV_CHRF_WORDS         4    /* the longest n-grams of words */
#define QKV_CHRF_ORDERS        (QKV_CHRF_LONGEST + QKV_CHRF_WORDS)

enum { QKV_BLEU_TOKENIZERS = QKV_BLEU_AUTO }; /* that a scorer has, qkv/choices.def */

/* Smoothing of BLEU: what counts for an n-gram order without matches (Chen and Cherry 2014). */
enum qkv_bleu_smoothing {
    QKV_BLEU_EXP,   /* half a match for the first such order, a quarter for the next one, and so on (NIST) */
    QKV_BLEU_FLOOR, /* a fixed number of matches, 0.1 */
    QKV_BLEU_ADD_K, /* adds 1 to matches and n-grams of every order but the first, with or without matches */
    QKV_BLEU_UNSMOOTHED, /* nothing: the score is 0 */
};
enum { QKV_BLEU_SMOOTHINGS = QKV_BLEU_UNSMOOTHED + 1 };

/* The metrics of texts:
 * - corpus BLEU (Papineni et al. 2002): the geometric mean of the clipped n-gram precisions of orders 1 to 4, times the
 *   brevity penalty. With several references an n-gram is clipped at its highest count in any of them, and the reference
 *   length is that of the closest reference (the shorter of two equally close);
 * - corpus chrF (Popovic 2015): the F score of n-gram precision and recall, each averaged over those character orders 1 to 6
 *   (white space removed) for which both hypothesis and reference have n-grams; recall counts beta times as much as
 *   precision. With `word_order` 2 it is chrF++ (Popovic 2017), which averages over word orders 1 and 2 as well; a
 *   punctuation mark at the end of a word, or else at its start, is then a word of its own. Of several references, the one
 *   that gives the segment its best score counts;
 * - corpus TER (Snover et al. 2006): the number of edits that turn the hypothesis into a reference, in percent of the
 *   reference words. An edit inserts, deletes or replaces a word, or moves a block of words. The shifts are found as tercom
 *   finds them, greedily and with limits: blocks of at most 10 words, at most 50 words away, and at most 1000 candidates for
 *   a pair of texts. Of several references the one with the fewest edits counts, with the mean length of all of them.
 *   References without words: 100 where there are edits, else 0. */

/* ---- all metrics (qkv/metrics.def) ---- */

/* The tables of the command line that show only some metrics, as bits: those of `qkv evaluate --by-length` and of
 * `qkv compare`. */
enum { QKV_COLUMN_BY_LENGTH = 1, QKV_COLUMN_COMPARE = 2 };

/* How a metric is named and shown. */
struct qkv_metric_info {
    const char *key;   /* in JSON */
    const char *title; /* in the table of `qkv evaluate`, which has a row for each metric: "token accuracy" */
    /* Where there is less room, in the line of a validation and in heads of columns: "tokens" */
    const char *label;
    const char *unit; /* shown after the title; NULL: none, or percent */
    int digits;       /* after the decimal point, in tables */
    int line_digits;  /* after the decimal point, in the line that a validation prints */
    bool percent;     /* a share of 0 to 1, which is shown in percent */
    bool lower_is_better;
    bool of_texts;    /* computed from translations and references; false: from qkv_score_counts */
    bool on_request;  /* computed only where qkv_text_options.metrics names it, because it is slow */
    unsigned columns; /* bits QKV_COLUMN_...: the tables with a column for the metric */
};

/* NULL for a metric that does not exist. */
QKV_API const struct qkv_metric_info *qkv_metric_info(enum qkv_metric metric);

/* Sums over sentences, from which the metrics are computed whose `of_texts` is false. */
struct qkv_score_counts {
    int64_t sentences, tokens;      /* target tokens, </s> counted */
    double negative_log_likelihood; /* of the references, nats, without smoothing */
    double correct;                 /* reference tokens that the model finds most probable; a whole number */
    int64_t translated;             /* sentences whose translation is known */
    int64_t exact_matches;          /* translations that equal their reference, token for token */
    int64_t cut;                    /* translations that ended at the limit of their length */
    int64_t characters, words;      /* of the references, as in struct qkv_corpus; 0: not counted */
};

/* The values of all metrics, and the counts. */
struct qkv_scores {
    struct qkv_score_counts counts;
    double value[QKV_METRIC_COUNT]; /* by enum qkv_metric */
};

/* How texts are compared. All zero: sacreBLEU's defaults. */
struct qkv_text_options {
    /* Which text metrics to compute: a bit 1 << QKV_METRIC_... for each; 0: all that are not `on_request`. */
    unsigned metrics;
    bool lowercase; /* BLEU and chrF: Unicode lower case before all else; the signature says case:lc */
    /* BLEU */
    enum qkv_bleu_tokenizer tokenizer;
    enum qkv_bleu_smoothing smoothing;
    double smoothing_value; /* of floor and add-k, at most QKV_BLEU_SMOOTHING_MAX; 0: 0.1 and 1 */
    bool
        effective_order; /* average only over the orders for which the hypotheses are long enough: for single sentences */
    /* chrF */
    int character_order; /* 1 to 10; 0: 6 */
    int word_order;      /* 0 to 4. 0: chrF; 1 or 2: chrF+, chrF++ */
    double beta;         /* at most QKV_CHRF_BETA_MAX; 0: 2 */
    /* TER */
    bool ter_normalized;     /* tokenizes punctuation and replaces entities as tercom's normalization does */
    bool ter_no_punctuation; /* removes . , ? : ; ! " ( ) */
    bool ter_case_sensitive; /* false: lower case; the signature says case:lc */
};

/* Accumulates all metrics. Caller's storage, all zero but for the options; the caller adds to the counts. */
struct qkv_scorer {
    struct qkv_text_options options; /* set before the first text */
    struct qkv_score_counts counts;
    /* Private: */
    struct qkv_statistics *statistics[QKV_METRIC_COUNT]; /* of the text metrics; NULL before the first text */
    int64_t fewest_references, most_references;          /* of a segment so far; 0 before the first */
    struct qkv_arena scratch;
};

/* Adds one translation and its `count` references. Fails, and adds to none of the metrics, when all references are NULL, an
 * option of a metric that is computed is out of range, or memory runs out. */
QKV_API enum qkv_status qkv_scorer_add(struct qkv_scorer *scorer, const char *translation,
                                       const char *const *references, int64_t count, struct qkv_error *error);

/* All metrics. Metrics of counts are NaN if there are no tokens or sentences; metrics of texts are 0 if no text was added
 * or the options do not select them. */
QKV_API struct qkv_scores qkv_scorer_scores(const struct qkv_scorer *scorer);

QKV_API void qkv_scorer_release(struct qkv_scorer *scorer);

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
    struct qkv_scores scores; /* scores.value[QKV_METRIC_BLEU] and so on */
    bool best;                /* the best so far, by training.early_stopping_metric */
    int64_t samples;          /* translations to show */
    /* [samples]. A language model has no sources (NULL); its translations are what it writes, and equal their references */
    const char *const *source, *const *reference, *const *translation;
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
    bool resume; /* from the last checkpoint; refused if the config would give other numbers */
    /* With resume: training goes on with the learning rate of the config (of the schedule noam: its factor), also where it is
     * another one, and records it in the run. Without: with the one that the run recorded. */
    bool new_rate;
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

/* Scores are as in struct qkv_scores: accuracies from 0 to 1, BLEU and chrF from 0 to 100. */
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

/* ---- the gradient check of a model ----
 * The gradient check of a translation model on the first sentences of its training text: does the same as `qkv gradcheck
 * CONFIG` and `qkv gradcheck RUN`, but also works for a program's own network (qkv/model.h), which the command cannot
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

/* Largest relative difference between float32 and float64, in loss and gradients of a model, that passes: relative to
 * the largest number of its tensor or to 1/100 of the largest gradient of all tensors, whichever is more. */
#define QKV_MODEL_FLOAT32_BOUND 2e-5

/* Checks a model with the vocabularies, dropout, label smoothing and loss scale of training: the gradient of every
 * parameter (qkv_check_graph), and float32 against float64. Wrong gradients become failed rows of the
 * report; the status is still QKV_OK. QKV_INVALID when the text cannot be read, the model cannot be made from the config,
 * `run` does not fit the config, qkv_check_graph refuses the options, or memory runs out. */
QKV_API enum qkv_status qkv_check_model(struct qkv_check_report *report,
                                        const struct qkv_checked_model *model,
                                        const struct qkv_check_options *options, struct qkv_error *error);

/* ======== several processes ========
 * Several processes, started by mpirun, that train one model together: each computes complete shards of every batch, and
 * process 0 gets the sums, added in the order of qkv/optimizer.h and so with the same bits as in one process. They can
 * also translate together (qkv_translator_divide, qkv_evaluator_divide). docs/processes.md explains how to start them.
 *
 * Example:
 *     struct qkv_error error;
 *     struct qkv_processes *processes;
 *     if (qkv_processes_join(&processes, &error)) fprintf(stderr, "%s\n", error.message);
 *     if (qkv_processes_rank(processes) == 0) printf("%d processes\n", qkv_processes_count(processes));
 *     qkv_processes_leave(processes);
 *
 * Everywhere, NULL stands for a process that works alone. Processes communicate through MPI; only qkv_processes_join loads
 * the MPI library. One thread calls these functions; a training step starts another thread, which sends gradients while
 * backward goes on. */

struct qkv_processes;

/* Joins the processes that mpirun started together with this one; all of them must call it. *processes becomes NULL if
 * mpirun started only this process, or did not start it; this case only reads environment variables. Fails if qkv was built
 * without MPI, or the MPI library is missing. */
QKV_API enum qkv_status qkv_processes_join(struct qkv_processes **processes, struct qkv_error *error);

/* Number of this process, from 0, and of all processes. */
QKV_API int qkv_processes_rank(const struct qkv_processes *processes);
QKV_API int qkv_processes_count(const struct qkv_processes *processes);

/* Waits until all processes leave, and frees `processes`. If a process has died or given up, ends all processes
 * immediately, including this one, with exit code 2: write files and print messages before the call. */
QKV_API void qkv_processes_leave(struct qkv_processes *processes);

#endif
