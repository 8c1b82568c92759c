#include "train/trainer.h"

#include "qkv/file.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *file_of(struct session *session, const char *name)
{
    return qkv_run_file(&session->arena, session->folder, name);
}

/* ---- the folder ---- */

/* A new run must not replace one by accident, and --resume needs one. */
static enum qkv_status check_folder(struct session *session, struct qkv_error *error)
{
    const char *config = file_of(session, QKV_RUN_CONFIG), *last = file_of(session, QKV_RUN_LAST);
    if (!config || !last) return qkv_error_set(error, "out of memory");
    if (session->options->resume) {
        if (qkv_path_exists(last)) return QKV_OK;
        return qkv_error_set(error, "%s: nothing to resume: there is no %s", session->folder, QKV_RUN_LAST);
    }
    if (session->options->overwrite || (!qkv_path_exists(config) && !qkv_path_exists(last))) return QKV_OK;
    return qkv_error_set(error, "%s: holds a run already; continue it with --resume or replace it with --overwrite",
                         session->folder);
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);
    return length > end_length && !strcmp(name + length - end_length, end);
}

/* Whether a file name is one that a run makes. */
static bool is_of_a_run(const char *name)
{
    static const char *const NAMES[] = {QKV_RUN_CONFIG,  QKV_RUN_SOURCE, QKV_RUN_TARGET,
                                        QKV_RUN_METRICS, QKV_RUN_LAST,   QKV_RUN_BEST};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (!strcmp(name, NAMES[i])) return true;
    return !strncmp(name, "update-", 7) && ends_with(name, ".safetensors");
}

/* Whether it is one that a kill can leave behind while a file of a run is written: "<name>.<...>.tmp". */
static bool is_left_over(const char *name)
{
    static const char *const NAMES[] = {QKV_RUN_CONFIG ".",  QKV_RUN_SOURCE ".", QKV_RUN_TARGET ".", QKV_RUN_METRICS ".",
                                        QKV_RUN_LAST ".",    QKV_RUN_BEST ".",   "update-"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (!strncmp(name, NAMES[i], strlen(NAMES[i]))) return ends_with(name, ".tmp");
    return false;
}

/* Removes what a killed run left half written and, for a new run, all that an old one left; nothing else. */
static enum qkv_status clear_folder(struct session *session, bool all, struct qkv_error *error)
{
    DIR *folder = opendir(session->folder);
    if (!folder) return qkv_error_set(error, "%s: %s", session->folder, strerror(errno));
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        const char *name = entry->d_name;
        const char *path = is_left_over(name) || (all && is_of_a_run(name)) ? file_of(session, name) : NULL;
        if (path && unlink(path) != 0) status = qkv_error_set(error, "%s: %s", path, strerror(errno));
    }
    closedir(folder);
    return status;
}

static enum qkv_status write_config(struct session *session, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    const char *path = file_of(session, QKV_RUN_CONFIG);
    if (!path) return qkv_error_set(error, "out of memory");
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_config_write(session->config, writer.file, true); /* failed writes show at commit */
    return qkv_file_commit(&writer, error);
}

/* Lines of metrics.jsonl that tell of updates after the checkpoint would come twice: a resumed run drops them, and a line
 * that a kill cut short with them. */
static enum qkv_status trim_metrics(struct session *session, struct qkv_error *error)
{
    const char *path = file_of(session, QKV_RUN_METRICS);
    FILE *old = path ? fopen(path, "r") : NULL;
    if (!old) return QKV_OK;
    struct qkv_file_writer writer;
    enum qkv_status status = qkv_file_begin(&writer, path, error);
    char *line = NULL;
    size_t room = 0;
    while (!status && getline(&line, &room, old) > 0) {
        cJSON *object = strchr(line, '\n') ? cJSON_Parse(line) : NULL;
        const cJSON *update = cJSON_GetObjectItemCaseSensitive(object, "update");
        if (cJSON_IsNumber(update) && update->valuedouble <= (double)session->at.update) fputs(line, writer.file);
        cJSON_Delete(object);
    }
    free(line);
    fclose(old);
    return status ? status : qkv_file_commit(&writer, error);
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
    const struct qkv_model_config *model = &session->config->model;
    const struct qkv_corpus *corpora[] = {&session->train, &session->dev};
    for (int i = 0; i < 2; i++) {
        int64_t source = corpora[i]->source.longest + 1, target = corpora[i]->target.longest + 1; /* with </s> */
        bool encoder = source > model->encoder.positions.max_length;
        if (!encoder && target <= model->decoder.positions.max_length) continue;
        return qkv_error_set(error, "%s: the longest %s sentence has %lld tokens with </s>, but model.%s.positions.max_length "
                             "is %lld: raise it%s", i ? session->config->data.dev : session->config->data.train,
                             encoder ? "source" : "target", (long long)(encoder ? source : target),
                             encoder ? "encoder" : "decoder",
                             (long long)(encoder ? model->encoder : model->decoder).positions.max_length,
                             i ? "" : " or lower max_length");
    }
    return QKV_OK;
}

/* ---- the machine ---- */

static enum qkv_status make_machine(struct session *session, struct qkv_error *error)
{
    const struct qkv_config *config = session->config;
    const struct qkv_training_config *training = &config->training;
    uint64_t seed = (uint64_t)training->random_seed;
    session->model = qkv_model_new(&config->model, session->source.size, session->target.size, QKV_FLOAT32, error);
    if (!session->model) return QKV_INVALID;
    qkv_parameters_initialize(&session->model->parameters, seed);
    session->workers = qkv_workers_new(session->options->threads, error);
    if (!session->workers) return QKV_INVALID;
    session->replicas = qkv_replicas_new(session->model, session->workers, (int)training->shards, error);
    if (!session->replicas) return QKV_INVALID;
    if (qkv_optimizer_init(&session->optimizer, training, &session->model->parameters, error)) return QKV_INVALID;
    qkv_schedule_init(&session->schedule, training, config->model.decoder.hidden_size);
    struct qkv_batches_options batches = {training->batch_type, training->batch_size, QKV_BATCH_ORDER_SHUFFLED, seed};
    if (qkv_batches_init(&session->batches, &session->train, batches, error)) return QKV_INVALID;
    if (qkv_replicas_reserve(session->replicas, &session->batches, error)) return QKV_INVALID;
    if (!config->data.dev[0]) return QKV_OK;
    session->evaluator = qkv_evaluator_new(session->model, &session->dev, &config->data.trg, &session->target,
                                           session->workers, &config->testing, error);
    return session->evaluator ? QKV_OK : QKV_INVALID;
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
        status = position_restore(&session->at, &state, &inner);
        if (!status) status = qkv_schedule_restore(&session->schedule, &state, &inner);
        if (status) qkv_error_set(error, "%s: %s", last, inner.message);
    }
    qkv_state_release(&state);
    return status;
}

enum qkv_status session_open(struct session *session, struct qkv_error *error)
{
    session->folder = session->config->training.model_dir;
    if (check_folder(session, error) || read_corpora(session, error) || check_lengths(session, error) ||
        make_machine(session, error))
        return QKV_INVALID;
    if (session->options->resume) {
        if (restore(session, error) || clear_folder(session, false, error)) return QKV_INVALID;
        if (trim_metrics(session, error) || best_restore(session, error)) return QKV_INVALID;
        return write_config(session, error);
    }
    const char *source = file_of(session, QKV_RUN_SOURCE), *target = file_of(session, QKV_RUN_TARGET);
    if (!source || !target) return qkv_error_set(error, "out of memory");
    if (qkv_folder_make(session->folder, error) || clear_folder(session, true, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&session->source, source, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&session->target, target, error)) return QKV_INVALID;
    /* From the first moment on there is something to resume; and what has no config is no run yet. */
    if (session_save(session, QKV_RUN_LAST, error)) return QKV_INVALID;
    return write_config(session, error);
}

enum qkv_status session_save(struct session *session, const char *name, struct qkv_error *error)
{
    struct qkv_state state = {0};
    const char *path = file_of(session, name);
    position_save(&session->at, &state);
    qkv_schedule_save(&session->schedule, &state);
    enum qkv_status status =
        path ? qkv_checkpoint_save(path, &session->model->parameters, &session->optimizer, &state, error)
             : qkv_error_set(error, "out of memory");
    qkv_state_release(&state);
    return status;
}

enum qkv_status session_log(struct session *session, struct cJSON *line, struct qkv_error *error)
{
    const char *path = file_of(session, QKV_RUN_METRICS);
    char *text = cJSON_PrintUnformatted(line);
    cJSON_Delete(line);
    FILE *file = path && text ? fopen(path, "a") : NULL;
    bool written = file && fprintf(file, "%s\n", text) > 0;
    if (file && fclose(file) != 0) written = false;
    cJSON_free(text);
    return written ? QKV_OK : qkv_error_set(error, "%s: %s", path ? path : QKV_RUN_METRICS, strerror(errno));
}

void session_release(struct session *session)
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
    qkv_arena_release(&session->arena);
}
