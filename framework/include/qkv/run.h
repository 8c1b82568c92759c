/* A run is a folder, and needs nothing outside itself:
 *
 *     config.yaml                 the effective config
 *     source.vocabulary, target.vocabulary
 *     metrics.jsonl               one object a line: training progress and validations
 *     last.safetensors            where --resume goes on: values and the optimizer's moments
 *     best.safetensors            the best validation, values alone; what translate, evaluate and attention
 * use update-<n>.safetensors      the training.keep_best_ckpts best ones, likewise */
#ifndef QKV_RUN_H
#define QKV_RUN_H

#include "qkv/arena.h"
#include "qkv/checkpoint.h"
#include "qkv/config.h"
#include "qkv/model.h"
#include "qkv/vocabulary.h"

#define QKV_RUN_FORMAT_FILE "qkv.format"
#define QKV_RUN_CONFIG      "config.yaml"
#define QKV_RUN_SOURCE      "source.vocabulary"
#define QKV_RUN_TARGET      "target.vocabulary"
#define QKV_RUN_METRICS     "metrics.jsonl"
#define QKV_RUN_LAST        "last.safetensors"
#define QKV_RUN_BEST        "best.safetensors"

/* A trained model, ready to be used. Caller's storage, all zero at first. */
struct qkv_run {
    const char *path;       /* of the folder */
    const char *checkpoint; /* path of the file that was loaded */
    struct qkv_config config;
    struct qkv_vocabulary source, target;
    struct qkv_model *model;
    struct qkv_state state; /* of training, when the checkpoint was written */
    struct qkv_arena arena;
};

/* Opens a run. `checkpoint` NULL: the best one, or the last where there was no validation; else a file name
 * within the folder, or a path. Fails with one sentence: no such folder, not a run, a broken or foreign file;
 * on failure there is nothing to release. */
QKV_API enum qkv_status qkv_run_open(struct qkv_run *run, const char *path, const char *checkpoint,
                                     enum qkv_dtype dtype, struct qkv_error *error);
QKV_API void qkv_run_release(struct qkv_run *run);

/* Refuses a run whose format is newer than QKV_RUN_FORMAT, with a sentence that says what to do. A folder
 * without the file QKV_RUN_FORMAT_FILE has format 1. */
QKV_API enum qkv_status qkv_run_format_check(const char *folder, struct qkv_error *error);

/* "<folder>/<name>" in the arena; NULL when memory is out. */
QKV_API const char *qkv_run_file(struct qkv_arena *arena, const char *folder, const char *name);

/* Whether something stands at that path. */
QKV_API bool qkv_path_exists(const char *path);

#endif
