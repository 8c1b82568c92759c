/* Runs: opens a trained model, translates texts with it, averages its checkpoints, and quantises it.
 *
 * A run is the folder of a trained model. It holds all files that translation needs.
 *
 *     qkv.format                  version of the format of the folder (QKV_RUN_FORMAT)
 *     config.yaml                 the effective config
 *     source.vocabulary, target.vocabulary
 *     source.codes, target.codes  merges, where data.src.level or data.trg.level is bpe
 *     source.pieces, target.pieces  the pieces that cutting keeps, where bpe_min_freq of the side is above 0
 *     metrics.jsonl               one object a line: training progress and validations
 *     last.safetensors            where --resume continues: values and the optimizer's moments
 *     best.safetensors            values of the best validation; translate, evaluate and attention read it
 *     update-<n>.safetensors      values of the training.keep_best_ckpts best validations, and of the last
 *                                 training.keep_last_ckpts ones
 *     snapshot-<n>.safetensors    values in half precision of training.snapshots updates, from 0 to the last
 *     average.safetensors         where testing.average is above 0: the mean of the best checkpoints (qkv_run_average)
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_run run;
 *     if (qkv_run_open(&run, "runs/toy_en_es", NULL, QKV_FLOAT32, &error)) {
 *         fprintf(stderr, "%s\n", error.message);
 *     } else {
 *         printf("%s has %d source types\n", run.config.name, (int)run.source.size);
 *         qkv_run_release(&run);
 *     }
 */
#ifndef QKV_RUN_H
#define QKV_RUN_H

#include "qkv/checkpoint.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/model.h"

/* Version of the format of run folders that this library writes. It reads this version and all older ones; in those of format
 * 1, punctuation marks that were split off do not record where spaces were (qkv/corpus.h). */
enum { QKV_RUN_FORMAT = 2 };

#define QKV_RUN_FORMAT_FILE   "qkv.format"
#define QKV_RUN_CONFIG        "config.yaml"
#define QKV_RUN_SOURCE        "source.vocabulary"
#define QKV_RUN_TARGET        "target.vocabulary"
#define QKV_RUN_SOURCE_CODES  "source.codes"
#define QKV_RUN_TARGET_CODES  "target.codes"
#define QKV_RUN_SOURCE_PIECES "source.pieces"
#define QKV_RUN_TARGET_PIECES "target.pieces"
#define QKV_RUN_METRICS       "metrics.jsonl"
#define QKV_RUN_LAST          "last.safetensors"
#define QKV_RUN_BEST          "best.safetensors"
#define QKV_RUN_AVERAGE       "average.safetensors"

/* A trained model, ready for use. Caller's storage. */
struct qkv_run {
    const char *path;         /* of the folder */
    const char *checkpoint;   /* path of the loaded file */
    struct qkv_config config; /* its data.src.bpe and data.trg.bpe are the merges of the run */
    struct qkv_sides sides;   /* of config */
    struct qkv_vocabulary source, target;
    struct qkv_bpe *bpe[2]; /* of source and target; NULL: the level is not bpe */
    struct qkv_model *model;
    struct qkv_state state; /* of training, when the checkpoint was written */
    struct qkv_arena arena;
};

/* Opens a run. `checkpoint` is a file name in the folder, with or without `.safetensors`, or a path. NULL: the average, if
 * the config has testing.average above 0 and training has ended; else the best checkpoint; else, without any validation,
 * the last one. `dtype`: of the parameters; a checkpoint of the other precision is converted. The network that the config
 * names must be registered (model.h). Fails when the folder is missing, is not a run or has a newer format, or a file is
 * damaged or belongs to another model; QKV_FAILED: a parameter is infinite or NaN, so the model is useless. After a failure
 * nothing needs to be released (qkv_run_release then does nothing). */
QKV_API enum qkv_status qkv_run_open(struct qkv_run *run, const char *path, const char *checkpoint,
                                     enum qkv_dtype dtype, struct qkv_error *error);
QKV_API void qkv_run_release(struct qkv_run *run);

/* ---- averages ----
 * Averages the parameters of several checkpoints of one run, as Vaswani et al. 2017 do before testing: the mean often
 * translates better than each of the checkpoints.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_average average;
 *     if (qkv_run_average("runs/toy_en_es", QKV_AVERAGE_BEST, 3, "average", &average, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("mean of %lld checkpoints\n", (long long)average.count);
 */

/* Which checkpoints to average. */
enum qkv_average_choice {
    QKV_AVERAGE_LAST, /* the last ones: training keeps training.keep_last_ckpts */
    QKV_AVERAGE_BEST, /* the best ones by training.early_stopping_metric: training keeps training.keep_best_ckpts */
};

enum { QKV_AVERAGE_MAX = 64 }; /* most checkpoints of an average */

struct qkv_average {
    int64_t count;                   /* checkpoints */
    int64_t update[QKV_AVERAGE_MAX]; /* [count]: their updates, ascending */
};

/* Writes the checkpoint `<name>.safetensors` of the run folder `run`: the mean of `count` checkpoints, number by number,
 * computed in float64 in the order of their updates and rounded once to float32, so that it has the same bits on every
 * processor. Memory does not grow with `count`. The file has no moments. Its metadata is that of the newest
 * checkpoint, with `average.choice` (last or best), `average.count`, and `average.1`, `average.2`, ...: the files, in
 * the order of their updates. qkv_run_open opens it like every other checkpoint.
 *
 * An existing file of that name is replaced. Fails, and writes nothing, when the folder is not a run; when it keeps
 * fewer than `count` such checkpoints (last.safetensors lists them), or `count` is not from 1 to QKV_AVERAGE_MAX; when a
 * checkpoint is missing, damaged, or of another model; and when `name` is a path, or a name that training writes: last,
 * best, update-N, snapshot-N. QKV_FAILED: a checkpoint holds infinity or NaN. */
QKV_API enum qkv_status qkv_run_average(const char *run, enum qkv_average_choice choice, int64_t count,
                                        const char *name, struct qkv_average *average,
                                        struct qkv_error *error);

/* ---- quantised runs ----
 * Quantises a run: makes a new run of a quarter of the size, whose matrices are int8.
 *
 * Example:
 *     struct qkv_error error;
 *     if (qkv_run_quantize("runs/toy_en_es", NULL, "runs/toy_int8", &error))
 *         fprintf(stderr, "%s\n", error.message);
 *
 * The new run translates as the old one does with products in int8 (qkv/base.h), and cannot be trained further. */

/* Writes a checkpoint of the run `path`, chosen as by qkv_run_open, in int8 into the folder `output`, with all files that
 * translation needs. Fails if `output` exists already, unless it is an empty folder, and where qkv_run_open fails. */
QKV_API enum qkv_status qkv_run_quantize(const char *path, const char *checkpoint, const char *output,
                                         struct qkv_error *error);

/* ---- text in, translation and maps out ----
 * A trained run behind one pointer: text in, translation and attention maps out. For programs that need only this, and for
 * other programming languages: all arguments are pointers, strings and numbers.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_text_translator *translator = qkv_text_translator_open("runs/toy_en_es", NULL, &error);
 *     const char *translation =
 *         translator ? qkv_text_translator_run(translator, "the cat is sleeping", 0, &error) : NULL;
 *     if (translation)
 *         printf("%s\n", translation);
 *     else
 *         fprintf(stderr, "%s\n", error.message);
 *     qkv_text_translator_free(translator);
 *
 * Only one thread at a time may use a translator. */

struct qkv_text_translator;
struct qkv_attention_report;

/* Opens the run in `folder`, in float32; `checkpoint` as in qkv_run_open (NULL: its default). Returns NULL with a message
 * where qkv_run_open fails. */
QKV_API struct qkv_text_translator *qkv_text_translator_open(const char *folder, const char *checkpoint,
                                                             struct qkv_error *error);

/* Translates a sentence, UTF-8, by the search that the config of the run sets, with `beam_size` hypotheses, 1 to
 * QKV_BEAM_MAX (model.h); 0: the beam size of the config. The text is tokenised as that of the run; tokens that the run
 * does not know are read as <unk>, without a message. The translation is valid until the next call, which may also take it
 * as its `text`. Returns NULL with a message when the text has no words, is longer than the model has positions, or is not
 * UTF-8, when qkv_translator_run fails, and when memory runs out. */
QKV_API const char *qkv_text_translator_run(struct qkv_text_translator *translator, const char *text,
                                            int64_t beam_size, struct qkv_error *error);

/* The maps of every layer and head of the last translation, of the attention kinds in `kinds` (bits 1u << kind; 0: all),
 * ordered by kind, layer, head (attention_map.h). The report, its tokens and weights are valid until the next call of this
 * function or of qkv_text_translator_run. Returns NULL with a message when nothing was translated or the last translation
 * failed, when qkv_attention_collect fails, and when memory runs out. */
QKV_API const struct qkv_attention_report *
qkv_text_translator_attention(struct qkv_text_translator *translator, unsigned kinds,
                              struct qkv_error *error);

QKV_API void qkv_text_translator_free(struct qkv_text_translator *translator); /* NULL: does nothing */

#endif
