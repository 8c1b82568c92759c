#include "train/trainer.h"
#include "core/clock.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <time.h>

/* The clock of one logging interval; it decides nothing but what is shown. */
struct clock {
    double started;     /* seconds */
    int64_t all_tokens; /* source and target */
    int64_t updates;
    double norm;
};

static const struct qkv_train_listener *listener_of(const struct session *session)
{
    static const struct qkv_train_listener nobody = {0};
    return session->options->listener ? session->options->listener : &nobody;
}

/* Updates that the whole training will take, as far as can be said: the number of batches by tokens varies a
 * little from epoch to epoch. */
static int64_t expected_updates(const struct session *session)
{
    const struct qkv_training_config *training = &session->config->training;
    int64_t batches = session->batches.count, multiplier = training->batch_multiplier;
    if (!training->epochs || training->epochs > (INT64_MAX - multiplier) / batches) return training->updates;
    int64_t by_epochs =
        (training->epochs * batches + multiplier - 1) / multiplier; /* the last one may have fewer */
    return training->updates && training->updates < by_epochs ? training->updates : by_epochs;
}

/* Whether the update that was just done is the last one. */
static bool is_last(const struct session *session)
{
    const struct qkv_training_config *training = &session->config->training;
    const struct position *at = &session->at;
    if (training->updates && at->update >= training->updates) return true;
    return training->epochs && at->epoch + 1 >= training->epochs && at->batch >= session->batches.count;
}

/* ---- one update ---- */

/* Fills the batch that comes next; false when the training data has been gone through as often as wanted. */
static bool next_batch(struct session *session, enum qkv_status *status, struct qkv_error *error)
{
    struct position *at = &session->at;
    const struct qkv_training_config *training = &session->config->training;
    if (at->batch >= session->batches.count) {
        if (training->epochs && at->epoch + 1 >= training->epochs) return false;
        at->epoch++;
        at->batch = 0;
    }
    if (session->batches.epoch != at->epoch) qkv_batches_epoch(&session->batches, at->epoch);
    *status = qkv_batches_get(&session->batches, at->batch, &session->batch, error);
    at->batch++;
    return !*status;
}

/* Says which update broke, and what helps. */
static enum qkv_status diverged(const struct session *session, const struct qkv_error *found,
                                struct qkv_error *error)
{
    qkv_error_set(error, "update %lld: %s; lower training.learning_rate, or set training.clip_grad_norm",
                  (long long)session->at.update + 1, found->message);
    return QKV_FAILED;
}

/* Gradients of training.batch_multiplier batches, then one step. *more becomes false at the end of the data.
 */
static enum qkv_status update(struct session *session, struct clock *clock, bool *more,
                              struct qkv_error *error)
{
    const struct qkv_training_config *training = &session->config->training;
    struct position *at = &session->at;
    int64_t tokens = 0;
    enum qkv_status status = QKV_OK;
    struct qkv_error inner = {""};
    for (int64_t i = 0; i < training->batch_multiplier && next_batch(session, &status, error); i++) {
        struct qkv_step_sums sums;
        /* Each batch of an update draws masks of its own. */
        struct qkv_random random = {
            .seed = (uint64_t)training->random_seed,
            .step = (uint32_t)(at->update * training->batch_multiplier + i),
        };
        status = qkv_replicas_step(session->replicas, &session->batch, training->label_smoothing, &random,
                                   i > 0, &sums, &inner);
        if (status == QKV_FAILED) return diverged(session, &inner, error);
        if (status) return qkv_error_set(error, "%s", inner.message);
        tokens += sums.tokens;
        at->log_loss += sums.loss;
        clock->all_tokens += session->batch.source_tokens + session->batch.target_tokens;
    }
    if (status) return status;
    *more = tokens > 0;
    if (!*more) return QKV_OK;
    double rate = qkv_schedule_rate(&session->schedule, at->update + 1, at->epoch);
    clock->norm = qkv_optimizer_step(&session->optimizer, &session->model->parameters, session->workers,
                                     qkv_replicas_blocks(session->replicas),
                                     qkv_replicas_gradients(session->replicas), 1.0 / (double)tokens, rate);
    if (!isfinite(clock->norm)) {
        const struct qkv_parameter *parameter = qkv_parameters_find_not_finite(
            &session->model->parameters, qkv_replicas_gradients(session->replicas)[0]);
        qkv_error_set(&inner, "the gradient is not finite; the first parameter whose gradient is not is %s",
                      parameter ? parameter->name : "their norm");
        return diverged(session, &inner, error);
    }
    at->update++;
    at->tokens += tokens;
    at->log_tokens += tokens;
    clock->updates++;
    return QKV_OK;
}

/* ---- telling ---- */

static enum qkv_status tell_progress(struct session *session, struct clock *clock, struct qkv_error *error)
{
    const struct qkv_train_listener *listener = listener_of(session);
    struct position *at = &session->at;
    double elapsed = qkv_clock_seconds() - clock->started;
    struct qkv_train_progress progress = {
        .update = at->update,
        .epoch = at->epoch + 1,
        .updates = expected_updates(session),
        .tokens = at->tokens,
        .loss = at->log_loss / (double)at->log_tokens,
        .learning_rate = qkv_schedule_rate(&session->schedule, at->update, at->epoch),
        .gradient_norm = clock->norm,
        .tokens_per_second = (double)clock->all_tokens / elapsed,
        .seconds_left = NAN,
        .logged = is_last(session) || at->update % session->config->training.logging_freq == 0,
    };
    if (progress.updates > at->update)
        progress.seconds_left = elapsed / (double)clock->updates * (double)(progress.updates - at->update);
    if (listener->progress) listener->progress(listener->context, &progress);
    if (!progress.logged) return QKV_OK;
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "kind", "train");
    cJSON_AddNumberToObject(line, "update", (double)progress.update);
    cJSON_AddNumberToObject(line, "epoch", (double)progress.epoch);
    cJSON_AddNumberToObject(line, "tokens", (double)progress.tokens);
    cJSON_AddNumberToObject(line, "loss", progress.loss);
    cJSON_AddNumberToObject(line, "learning_rate", progress.learning_rate);
    cJSON_AddNumberToObject(line, "gradient_norm", progress.gradient_norm);
    cJSON_AddNumberToObject(line, "tokens_per_second", progress.tokens_per_second);
    at->log_loss = 0;
    at->log_tokens = 0;
    *clock = (struct clock){.started = qkv_clock_seconds()};
    return qkv_session_log(session, line, error);
}

static void tell_validation(struct session *session, const struct qkv_scores *scores, bool best)
{
    const struct qkv_train_listener *listener = listener_of(session);
    const char *source[MOST_SAMPLES], *reference[MOST_SAMPLES], *translation[MOST_SAMPLES];
    int64_t wanted = session->config->training.validation_samples, count = session->dev.count, samples = 0;
    if (!listener->validation) return;
    for (; samples < wanted && samples < MOST_SAMPLES && samples < count; samples++) {
        int64_t i = samples * count / wanted; /* spread over the dev set */
        source[samples] = qkv_corpus_source(&session->dev, i);
        reference[samples] = qkv_corpus_target(&session->dev, i);
        translation[samples] = qkv_evaluator_translation(session->evaluator, i);
    }
    struct qkv_train_validation validation = {session->at.update, *scores,    best, samples, source,
                                              reference,          translation};
    listener->validation(listener->context, &validation);
}

/* ---- validation ---- */

static enum qkv_status validate(struct session *session, struct qkv_error *error)
{
    struct position *at = &session->at;
    enum qkv_metric metric = session->config->training.early_stopping_metric;
    struct qkv_scores scores;
    bool best;
    if (!session->evaluator || at->validated == at->update) return QKV_OK;
    if (qkv_evaluator_run(session->evaluator, &scores, error)) return QKV_INVALID;
    double score = scores.value[metric];
    at->validated = at->update;
    qkv_schedule_validated(&session->schedule, score, !qkv_metric_info(metric)->lower_is_better);
    if (qkv_best_record(session, score, &best, error)) return QKV_INVALID;
    at->waited = best ? 0 : at->waited + 1;
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "kind", "validation");
    cJSON_AddNumberToObject(line, "update", (double)at->update);
    cJSON_AddNumberToObject(line, "tokens", (double)at->tokens);
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        cJSON_AddNumberToObject(line, qkv_metric_info((enum qkv_metric)m)->key, scores.value[m]);
    cJSON_AddBoolToObject(line, "best", best);
    tell_validation(session, &scores, best);
    return qkv_session_log(session, line, error);
}

/* Validates where that has not been done yet, and saves. last.safetensors is what counts: whatever a kill
 * leaves of files that it does not speak of, --resume makes undone (session.c). So old files go only after it
 * stands. */
static enum qkv_status validate_and_save(struct session *session, struct qkv_error *error)
{
    if (validate(session, error) || qkv_session_save(session, QKV_RUN_LAST, true, error)) return QKV_INVALID;
    return qkv_best_prune(session, error);
}

/* ---- the loop ---- */

/* Asked before each update, not after: a run that was stopped between an update and its validation makes up
 * for it. */
static bool validation_is_due(const struct session *session)
{
    const struct position *at = &session->at;
    return at->update > 0 && at->update % session->config->training.validation_freq == 0 &&
           at->validated != at->update;
}

static enum qkv_status loop(struct session *session, enum qkv_train_end *end, struct qkv_error *error)
{
    const struct qkv_training_config *training = &session->config->training;
    const struct qkv_train_listener *listener = listener_of(session);
    struct position *at = &session->at;
    struct clock clock = {.started = qkv_clock_seconds()};
    int64_t saved = session->options->resume ? at->update : -1, validated = at->validated;
    *end = QKV_TRAIN_DONE;
    for (bool more = true;;) {
        if (validation_is_due(session)) {
            if (validate_and_save(session, error)) return QKV_INVALID;
            clock.started = qkv_clock_seconds();
            clock.all_tokens = clock.updates = 0;
        }
        if (training->updates && at->update >= training->updates) break;
        if (training->patience && at->waited >= training->patience) {
            *end = QKV_TRAIN_PATIENCE;
            break;
        }
        enum qkv_status status = update(session, &clock, &more, error);
        if (status) return status;
        if (!more) break;
        if (tell_progress(session, &clock, error)) return QKV_INVALID;
        if (listener->stop && listener->stop(listener->context)) {
            *end = QKV_TRAIN_STOPPED;
            return qkv_session_save(session, QKV_RUN_LAST, true, error);
        }
    }
    if (validate(session, error)) return QKV_INVALID;
    if (at->update == saved && at->validated == validated) return QKV_OK; /* nothing was left to do */
    return validate_and_save(session, error);
}

static void tell_start(const struct session *session)
{
    const struct qkv_train_listener *listener = listener_of(session);
    const struct qkv_train_start start = {
        .folder = session->folder,
        .parameters = qkv_parameters_total(&session->model->parameters),
        .pairs = session->train.count,
        .read = session->train.read,
        .long_sources = session->train.long_sources,
        .long_targets = session->train.long_targets,
        .dev_pairs = session->dev.count,
        .source_types = session->source.size,
        .target_types = session->target.size,
        .threads = qkv_workers_count(session->workers),
        .shards = (int)session->config->training.shards,
        .resumed = session->at.update,
    };
    if (listener->start) listener->start(listener->context, &start);
}

enum qkv_status qkv_train(const struct qkv_config *config, const struct qkv_train_options *options,
                          struct qkv_train_result *result, struct qkv_error *error)
{
    struct session session = {.config = config, .options = options};
    enum qkv_status status = qkv_session_open(&session, error);
    if (!status) {
        tell_start(&session);
        status = loop(&session, &result->end, error);
        result->updates = session.at.update;
        result->tokens = session.at.tokens;
        result->validated = session.at.best_count > 0;
        result->best_update = session.at.best[0].update;
        result->best = session.at.best[0].score;
    }
    qkv_session_release(&session);
    return status;
}
