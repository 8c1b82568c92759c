#include "train/trainer.h"

#include "run/provenance.h"

#include <dirent.h>

static const char *file_of(struct session *session, const char *name)
{
    return qkv_run_file(&session->arena, session->folder, name);
}

/* ---- input ---- */

static enum qkv_status read_corpora(struct session *session, struct qkv_error *error)
{
    const struct qkv_data_config *data = &session->config->data;
    struct qkv_corpus_options train = {.drop_long = true}, dev = {.keep_raw = true};
    if (qkv_corpus_read(&session->train, data->train, data, train, error)) return QKV_INVALID;
    if (data->dev[0] && qkv_corpus_read(&session->dev, data->dev, data, dev, error)) return QKV_INVALID;
    if (session->options->resume) {
        const char *source = file_of(session, QKV_RUN_SOURCE), *target = file_of(session, QKV_RUN_TARGET);
        if (!source || !target) return qkv_error_set(error, "out of memory");
        if (qkv_vocabulary_load(&session->source, source, error)) return QKV_INVALID;
        if (qkv_vocabulary_load(&session->target, target, error)) return QKV_INVALID;
    } else if (qkv_corpus_vocabularies(&session->train, data, &session->source, &session->target, error)) {
        return QKV_INVALID;
    }
    if (qkv_corpus_encode(&session->train, &session->source, &session->target, error)) return QKV_INVALID;
    if (!data->dev[0]) return QKV_OK;
    return qkv_corpus_encode(&session->dev, &session->source, &session->target, error);
}

/* A sentence that has no position must be found now, not after an hour. */
static enum qkv_status check_lengths(const struct session *session, struct qkv_error *error)
{
    const struct qkv_config *config = session->config;
    if (qkv_corpus_fits(&session->train, config->data.train, &config->model, error)) return QKV_INVALID;
    return qkv_corpus_fits(&session->dev, config->data.dev, &config->model, error);
}

/* ---- the machine ---- */

static enum qkv_status make_machine(struct session *session, struct qkv_error *error)
{
    const struct qkv_config *config = session->config;
    const struct qkv_training_config *training = &config->training;
    uint64_t seed = (uint64_t)training->random_seed;
    session->model =
        qkv_model_new(&config->model, session->source.size, session->target.size, QKV_FLOAT32, error);
    if (!session->model) return QKV_INVALID;
    qkv_parameters_initialize(&session->model->parameters, seed);
    session->workers = qkv_workers_new(session->options->threads, error);
    if (!session->workers) return QKV_INVALID;
    session->replicas = qkv_replicas_new(session->model, session->workers, (int)training->shards, 0, error);
    if (!session->replicas) return QKV_INVALID;
    if (qkv_optimizer_init(&session->optimizer, training, &session->model->parameters, error))
        return QKV_INVALID;
    qkv_schedule_init(&session->schedule, training, config->model.decoder.hidden_size);
    struct qkv_batches_options batches = {training->batch_type, training->batch_size,
                                          QKV_BATCH_ORDER_SHUFFLED, seed};
    if (qkv_batches_init(&session->batches, &session->train, batches, error)) return QKV_INVALID;
    if (qkv_replicas_reserve(session->replicas, &session->batches, error)) return QKV_INVALID;
    if (!config->data.dev[0]) return QKV_OK;
    session->evaluator = qkv_evaluator_new(session->model, &session->dev, &config->data.trg, &session->target,
                                           session->workers, &config->testing, error);
    return session->evaluator ? QKV_OK : QKV_INVALID;
}

/* The run goes on with the text it was trained on. A score compares with those of the same text only: another
 * dev set is welcome as long as there is none. */
static enum qkv_status check_texts(const struct session *session, const struct qkv_state *state,
                                   const char *last, struct qkv_error *error)
{
    const struct qkv_data_config *data = &session->config->data;
    if (qkv_provenance_check_text(state, "data.train", data->train, &session->train, last, error))
        return QKV_INVALID;
    if (!data->dev[0] || !session->at.best_count) return QKV_OK;
    return qkv_provenance_check_text(state, "data.dev", data->dev, &session->dev, last, error);
}

static enum qkv_status restore(struct session *session, struct qkv_error *error)
{
    const char *last = file_of(session, QKV_RUN_LAST);
    struct qkv_state state = {0};
    struct qkv_error inner = {""};
    if (!last) return qkv_error_set(error, "out of memory");
    enum qkv_status status =
        qkv_checkpoint_load(last, &session->model->parameters, &session->optimizer, &state, error);
    if (!status) {
        status = qkv_position_restore(&session->at, &state, &inner);
        if (!status) status = qkv_schedule_restore(&session->schedule, &state, &inner);
        if (status) qkv_error_set(error, "%s: %s", last, inner.message);
    }
    /* What the model was trained as says more than the first tensor that does not fit. */
    if (qkv_provenance_check(&state, session->config, QKV_KEYS_FIXED_ON_RESUME, &session->source, &session->target,
                             last, error))
        status = QKV_INVALID;
    if (!status) status = check_texts(session, &state, last, error);
    qkv_state_release(&state);
    return status;
}

enum qkv_status qkv_session_open(struct session *session, struct qkv_error *error)
{
    session->folder = session->config->training.model_dir;
    if (qkv_folder_check(session, error) || read_corpora(session, error) || check_lengths(session, error) ||
        make_machine(session, error) || qkv_folder_lock(session, error))
        return QKV_INVALID;
    if (session->options->resume) {
        if (restore(session, error) || qkv_folder_clear(session, error)) return QKV_INVALID;
        if (qkv_folder_trim_metrics(session, error) || qkv_best_restore(session, error)) return QKV_INVALID;
        return qkv_folder_write_config(session, error);
    }
    const char *source = file_of(session, QKV_RUN_SOURCE), *target = file_of(session, QKV_RUN_TARGET);
    if (!source || !target) return qkv_error_set(error, "out of memory");
    if (qkv_folder_clear(session, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&session->source, source, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&session->target, target, error)) return QKV_INVALID;
    /* From the first moment on there is something to resume; and what has no config is no run yet. */
    if (qkv_session_save(session, QKV_RUN_LAST, true, error)) return QKV_INVALID;
    return qkv_folder_write_config(session, error);
}

enum qkv_status qkv_session_save(struct session *session, const char *name, bool resumable,
                                 struct qkv_error *error)
{
    const struct qkv_optimizer *optimizer = resumable ? &session->optimizer : NULL;
    struct qkv_state state = {0};
    const struct qkv_data_config *data = &session->config->data;
    const char *path = file_of(session, name);
    qkv_provenance_save(&state, session->config, &session->source, &session->target);
    qkv_provenance_save_text(&state, "data.train", data->train, &session->train);
    if (data->dev[0]) qkv_provenance_save_text(&state, "data.dev", data->dev, &session->dev);
    qkv_position_save(&session->at, &state);
    qkv_schedule_save(&session->schedule, &state);
    enum qkv_status status =
        path ? qkv_checkpoint_save(path, &session->model->parameters, optimizer, &state, error)
             : qkv_error_set(error, "out of memory");
    qkv_state_release(&state);
    return status;
}

void qkv_session_release(struct session *session)
{
    qkv_evaluator_free(session->evaluator);
    qkv_optimizer_release(&session->optimizer);
    qkv_replicas_free(session->replicas);
    qkv_workers_free(session->workers);
    qkv_model_free(session->model);
    qkv_batch_release(&session->batch);
    qkv_batches_release(&session->batches);
    qkv_vocabulary_release(&session->source);
    qkv_vocabulary_release(&session->target);
    qkv_corpus_release(&session->train);
    qkv_corpus_release(&session->dev);
    if (session->lock) closedir(session->lock);
    qkv_arena_release(&session->arena);
}
