#include "train/training.h"

#include "run/provenance.h"
#include "train/warm_start.h"

#include <dirent.h>
#include <string.h>

static const char *file_of(struct training *training, const char *name)
{
    return qkv_run_file(&training->arena, training->folder, name);
}

/* ---- input ---- */

struct qkv_corpus_options qkv_train_text_options(const struct qkv_config *config)
{
    bool is_guided = config->training.guided_alignment > 0;
    return (struct qkv_corpus_options){.drop_long = true,
                                       .keep_words = is_guided,
                                       .third_column = !strcmp(config->data.train, config->data.train_links),
                                       .key = "data.train"};
}

enum qkv_status qkv_training_find_merges(struct training *training, struct qkv_error *error)
{
    training->with_merges = *training->config;
    training->config = &training->with_merges;
    struct qkv_data_config *data = &training->with_merges.data;
    struct qkv_corpus_options options = qkv_train_text_options(training->config);
    const struct warm_start *from = &training->from;
    if (from->has_old_vocabulary) return qkv_run_merges(from->run.path, data, training->bpe, error);
    if (training->options->resume) return qkv_run_merges(training->folder, data, training->bpe, error);
    options.drop_long = false; /* merges are learned from all pairs */
    return qkv_corpus_merges(data->train, data, training->bpe, options, error);
}

enum qkv_status qkv_training_load_vocabularies(struct training *training, const char *folder,
                                               struct qkv_error *error)
{
    const char *source = qkv_run_file(&training->arena, folder, QKV_RUN_SOURCE),
               *target = qkv_run_file(&training->arena, folder, QKV_RUN_TARGET);
    if (!source || !target) return qkv_error_set(error, "out of memory");
    if (qkv_vocabulary_load(&training->source, source, error)) return QKV_INVALID;
    return qkv_vocabulary_load(&training->target, target, error);
}

/* Writes the merges to the run folder. */
static enum qkv_status save_merges(struct training *training, struct qkv_error *error)
{
    static const char *const names[2] = {QKV_RUN_SOURCE_CODES, QKV_RUN_TARGET_CODES},
                             *const pieces[2] = {QKV_RUN_SOURCE_PIECES, QKV_RUN_TARGET_PIECES};
    const struct qkv_data_config *data = &training->config->data;
    for (int side = 0; side < 2; side++) {
        const struct qkv_bpe *bpe = training->bpe[side];
        const char *path = file_of(training, names[side]), *kept = file_of(training, pieces[side]);
        if (!path || !kept) return qkv_error_set(error, "out of memory");
        if (bpe && qkv_bpe_save(bpe, path, error)) return QKV_INVALID;
        int64_t minimum = side ? data->trg.bpe_min_freq : data->src.bpe_min_freq;
        if (bpe && minimum > 0 && qkv_bpe_save_pieces(bpe, kept, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

/* Reads the links of guided alignment. */
static enum qkv_status read_links(struct training *training, struct qkv_error *error)
{
    struct qkv_error inner;
    const struct qkv_data_config *data = &training->config->data;
    if (training->config->training.guided_alignment == 0) return QKV_OK;
    if (!qkv_token_links_read(&training->links, data->train_links, data->train_links_from, &training->train,
                              &inner))
        return QKV_OK;
    return qkv_error_set(error, "data.train_links: %s", inner.message);
}

static enum qkv_status read_corpora(struct training *training, struct qkv_error *error)
{
    const struct qkv_data_config *data = &training->config->data;
    struct qkv_corpus_options train = qkv_train_text_options(training->config),
                              dev = {.keep_raw = true, .key = "data.dev"};
    train.bpe_dropout = true;
    if (qkv_corpus_read(&training->train, data->train, data, train, error)) return QKV_INVALID;
    if (read_links(training, error)) return QKV_INVALID;
    if (data->dev[0] && qkv_corpus_read(&training->dev, data->dev, data, dev, error)) return QKV_INVALID;
    const struct warm_start *from = &training->from;
    if (training->options->resume || from->has_old_vocabulary) {
        const char *folder = from->has_old_vocabulary ? from->run.path : training->folder;
        if (qkv_training_load_vocabularies(training, folder, error)) return QKV_INVALID;
    } else if (qkv_corpus_vocabularies(&training->train, data, &training->source, &training->target, error)) {
        return QKV_INVALID;
    }
    if (qkv_corpus_encode(&training->train, &training->source, &training->target, error)) return QKV_INVALID;
    if (!data->dev[0]) return QKV_OK;
    return qkv_corpus_encode(&training->dev, &training->source, &training->target, error);
}

/* Refuses, before training starts, sentences that are longer than positions.max_length of the model. */
static enum qkv_status check_lengths(const struct training *training, struct qkv_error *error)
{
    const struct qkv_config *config = training->config;
    if (qkv_corpus_fits(&training->train, config->data.train, &config->model, error)) return QKV_INVALID;
    return qkv_corpus_fits(&training->dev, config->data.dev, &config->model, error);
}

/* ---- model, workers, evaluator ---- */

static enum qkv_status make_parts(struct training *training, struct qkv_error *error)
{
    const struct qkv_config *config = training->config;
    struct qkv_processes *processes = training->options->processes;
    int threads = training->options->threads;
    training->workers = qkv_workers_new(threads ? threads : qkv_processes_threads(processes), error);
    if (!training->workers) return QKV_INVALID;
    if (qkv_training_make_model(training, error)) return QKV_INVALID;
    enum qkv_status status = qkv_warm_start_apply(training, error);
    if (status) return status;
    if (qkv_training_make_optimizer(training, error)) return QKV_INVALID;
    if (!config->data.dev[0] || qkv_processes_rank(processes) > 0) return QKV_OK;
    training->evaluator = qkv_evaluator_new(training->model, &training->dev, &config->data.trg,
                                            &training->target, training->workers, &config->testing, error);
    return training->evaluator ? QKV_OK : QKV_INVALID;
}

/* Refuses another training text on resuming. Refuses another dev set if the run has validated already, as
 * scores of different texts do not compare. */
static enum qkv_status check_texts(const struct training *training, const struct qkv_state *state,
                                   const char *last, struct qkv_error *error)
{
    const struct qkv_data_config *data = &training->config->data;
    if (qkv_provenance_check_text(state, "data.train", data->train, &training->train, last, error))
        return QKV_INVALID;
    if (training->links.pairs && qkv_provenance_check_links(state, "data.train_links", data->train_links,
                                                            &training->links, last, error))
        return QKV_INVALID;
    if (!data->dev[0] || !training->progress.best_count) return QKV_OK;
    return qkv_provenance_check_text(state, "data.dev", data->dev, &training->dev, last, error);
}

static enum qkv_status restore(struct training *training, struct qkv_error *error)
{
    const char *last = file_of(training, QKV_RUN_LAST);
    struct qkv_state state = {0};
    struct qkv_error inner = {""};
    if (!last) return qkv_error_set(error, "out of memory");
    enum qkv_status status =
        qkv_checkpoint_load(last, &training->model->parameters, &training->optimizer.state, &state, error);
    if (!status) {
        status = qkv_progress_restore(&training->progress, &state, &inner);
        if (!status) status = qkv_schedule_restore(&training->schedule, &state, &inner);
        if (status) qkv_error_set(error, "%s: %s", last, inner.message);
    }
    /* Check even if loading failed: a changed config key explains more than a tensor of another shape. */
    if (qkv_provenance_check(&state, training->config, QKV_KEYS_FIXED_ON_RESUME, &training->source,
                             &training->target, last, error))
        status = QKV_INVALID;
    if (!status) status = check_texts(training, &state, last, error);
    int64_t updates = training->config->training.updates, done = training->progress.update;
    if (!status && updates && updates < done)
        status =
            qkv_error_set(error, "%s: has %lld updates, but training.updates is %lld: give at least %lld",
                          last, (long long)done, (long long)updates, (long long)done);
    qkv_state_release(&state);
    return status;
}

enum qkv_status qkv_training_prepare(struct training *training, struct qkv_error *error)
{
    enum qkv_status status = qkv_warm_start_open(training, error);
    if (status) return status;
    if (qkv_training_find_merges(training, error) || read_corpora(training, error) ||
        check_lengths(training, error))
        return QKV_INVALID;
    return make_parts(training, error);
}

/* Refuses more processes than shards: each process must compute at least one shard. */
static enum qkv_status check_shards(const struct training *training, struct qkv_error *error)
{
    int shards = (int)training->config->training.shards,
        count = qkv_processes_count(training->options->processes);
    if (count <= shards) return QKV_OK;
    return qkv_error_set(
        error,
        "training.shards is %d, but must be at least the number of processes (%d): start at most %d, or "
        "raise it, which changes the results",
        shards, count, shards);
}

enum qkv_status qkv_training_open(struct training *training, struct qkv_error *error)
{
    training->folder = training->config->training.model_dir;
    training->metrics = file_of(training, QKV_RUN_METRICS);
    training->best_temporary = file_of(training, QKV_RUN_BEST ".tmp");
    bool has_paths = training->metrics && training->best_temporary;
    bool has_folder = qkv_processes_rank(training->options->processes) == 0;
    enum qkv_status status = has_paths ? QKV_OK : qkv_error_set(error, "out of memory");
    if (!status) status = check_shards(training, error);
    if (!status && has_folder) status = qkv_run_folder_check(training, error);
    if (!status) status = qkv_training_prepare(training, error);
    status = qkv_training_agree(training, status, error);
    if (status || !has_folder) return status;
    if (qkv_run_folder_lock(training, error)) return QKV_INVALID;
    if (training->options->resume) {
        if (restore(training, error) || qkv_run_folder_clear(training, error)) return QKV_INVALID;
        qkv_training_plan_epoch(training);
        if (qkv_best_forget_early_end(training, error) || qkv_final_average_restore(training, error) ||
            qkv_run_folder_trim_metrics(training, error) || qkv_best_restore(training, error) ||
            qkv_snapshots_prune(training, error) || qkv_notices_restore(training, error))
            return QKV_INVALID;
        return qkv_run_folder_describe(training, error);
    }
    qkv_training_plan_epoch(training);
    const char *source = file_of(training, QKV_RUN_SOURCE), *target = file_of(training, QKV_RUN_TARGET);
    if (!source || !target) return qkv_error_set(error, "out of memory");
    if (qkv_run_folder_clear(training, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&training->source, source, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&training->target, target, error)) return QKV_INVALID;
    if (save_merges(training, error)) return QKV_INVALID;
    if (qkv_snapshot_record(training, false, error)) return QKV_INVALID;
    /* Write the checkpoint before config.yaml, which makes the folder a run: so every run can be resumed. */
    if (qkv_training_save(training, QKV_RUN_LAST, CHECKPOINT_RESUMABLE, error)) return QKV_INVALID;
    return qkv_run_folder_describe(training, error);
}

void qkv_training_release(struct training *training)
{
    qkv_warm_start_release(training);
    qkv_evaluator_free(training->evaluator);
    qkv_training_release_model(training);
    qkv_workers_free(training->workers);
    qkv_vocabulary_release(&training->source);
    qkv_vocabulary_release(&training->target);
    for (int side = 0; side < 2; side++) qkv_bpe_free(training->bpe[side]);
    qkv_token_links_release(&training->links);
    qkv_corpus_release(&training->train);
    qkv_corpus_release(&training->dev);
    if (training->lock) closedir(training->lock);
    qkv_arena_release(&training->arena);
}
