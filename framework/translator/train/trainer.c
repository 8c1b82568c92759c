/* The training loop: updates, validations, reports and the end. */
#include "train/training.h"

#include "core/memory.h"
#include "core/system.h"
#include "graph/internal.h"

#include "models/network.h"

#include <math.h>

/* Figures for progress reports: speed and gradient norm. They are not stored in checkpoints. */
struct clock {
    double started;     /* qkv_clock_seconds at the last log line or validation */
    int64_t all_tokens; /* source and target tokens since `started` */
    int64_t updates;    /* since `started` */
    double norm;        /* of the gradient of the last update, before clipping */
};

static const struct qkv_train_listener *listener_of(const struct training *training)
{
    static const struct qkv_train_listener nobody = {0};
    return training->options->listener ? training->options->listener : &nobody;
}

/* Expected number of updates in total; 0: unknown. With batches by tokens, the number of batches of an epoch
 * varies, so that this is an estimate. */
static int64_t expected_updates(const struct training *training)
{
    const struct qkv_training_config *settings = &training->config->training;
    int64_t batches = training->batches.count, multiplier = settings->batch_multiplier;
    if (!settings->epochs || settings->epochs > (INT64_MAX - multiplier) / batches) return settings->updates;
    /* The last update may sum fewer batches. */
    int64_t by_epochs = (settings->epochs * batches + multiplier - 1) / multiplier;
    return settings->updates && settings->updates < by_epochs ? settings->updates : by_epochs;
}

/* Does one update and counts it. Sets *more to false after the last epoch. */
static enum qkv_status update(struct training *training, struct clock *clock, bool *more,
                              struct qkv_error *error)
{
    struct update_sums sums;
    enum qkv_status status = qkv_training_update(training, &sums, error);
    if (status) return status;
    *more = sums.tokens > 0;
    if (!*more) return QKV_OK;
    clock->norm = sums.norm;
    clock->all_tokens += sums.all_tokens;
    clock->updates++;
    qkv_notice_update(training, sums.negative_log_likelihood, sums.tokens);
    return QKV_OK;
}

/* ---- reports ---- */

static enum qkv_status report_progress(struct training *training, struct clock *clock,
                                       struct qkv_error *error)
{
    const struct qkv_train_listener *listener = listener_of(training);
    struct progress *progress = &training->progress;
    double elapsed = qkv_clock_seconds() - clock->started;
    struct qkv_train_progress report = {
        .update = progress->update,
        .epoch = progress->epoch + 1,
        .updates = expected_updates(training),
        .tokens = progress->tokens,
        .loss = progress->log_loss / (double)progress->log_tokens,
        .cross_entropy = progress->log_cross_entropy / (double)progress->log_tokens,
        .alignment =
            training->links.pairs ? progress->log_alignment / (double)progress->log_tokens : (double)NAN,
        .learning_rate = qkv_schedule_rate(&training->schedule, progress->update, progress->epoch),
        .gradient_norm = clock->norm,
        .tokens_per_second = (double)clock->all_tokens / elapsed,
        .seconds_left = NAN,
        .logged = qkv_training_is_at_end(training) ||
                  progress->update % training->config->training.logging_freq == 0,
    };
    if (report.updates > progress->update)
        report.seconds_left = elapsed / (double)clock->updates * (double)(report.updates - progress->update);
    if (listener->progress) listener->progress(listener->context, &report);
    if (!report.logged) return QKV_OK;
    struct bytes line = qkv_log_line("train", report.update);
    qkv_log_number(&line, "epoch", (double)report.epoch);
    qkv_log_number(&line, "tokens", (double)report.tokens);
    qkv_log_number(&line, "loss", report.loss);
    if (isfinite(report.cross_entropy)) qkv_log_number(&line, "cross_entropy", report.cross_entropy);
    if (isfinite(report.alignment)) qkv_log_number(&line, "alignment", report.alignment);
    qkv_log_number(&line, "learning_rate", report.learning_rate);
    qkv_log_number(&line, "gradient_norm", report.gradient_norm);
    qkv_log_seconds(&line, training);
    qkv_log_number(&line, "tokens_per_second", report.tokens_per_second);
    progress->log_loss = progress->log_cross_entropy = progress->log_alignment = 0;
    progress->log_tokens = 0;
    *clock = (struct clock){.started = qkv_clock_seconds()};
    return qkv_log_write(training, &line, error);
}

enum { WRITTEN = 150 /* tokens of a sample */ };

/* The ids of a text that a language model writes. */
struct written {
    int32_t ids[WRITTEN];
    int64_t count;
};

static void keep_id(void *context, int32_t id)
{
    struct written *written = context;
    written->ids[written->count++] = id;
}

/* Lets a language model write text number `number`, and stores its lines that are not blank, at most `wanted`. Returns how many
 * there are. */
static int64_t write_lines(struct training *training, int64_t number, int64_t wanted, const char **lines,
                           struct qkv_arena *arena)
{
    const struct qkv_data_config *data = &training->config->data;
    struct written written = {.count = 0};
    const struct qkv_completion completion = {
        .model = training->model,
        .runs_on = training->train.sides.runs_on,
        .window = data->context,
        .max_length = WRITTEN,
        .sampling = {true, 0.8, 0, 1, (uint64_t)training->progress.update},
        .number = number,
        .token = keep_id,
        .context = &written,
    };
    struct qkv_error ignored;
    int64_t count = 0;
    if (qkv_complete(&completion, (struct qkv_ids){0, NULL}, &ignored)) return 0;
    for (int64_t i = 0, end; i < written.count && count < wanted; i = end + 1) {
        for (end = i; end < written.count && written.ids[end] != QKV_END;) end++;
        const char **tokens = qkv_vocabulary_tokens(&training->target, end - i, written.ids + i, arena);
        const char *line = tokens ? qkv_detokenize(&data->trg, end - i, tokens, arena) : NULL;
        if (line && *line) lines[count++] = line;
    }
    return count;
}

/* What a language model writes, after a validation: of running text some lines, otherwise some texts. */
static int64_t write_samples(struct training *training, int64_t wanted, const char **lines,
                             struct qkv_arena *arena)
{
    int64_t count = 0;
    bool is_running = training->train.sides.runs_on;
    if (wanted > MAX_SAMPLES) wanted = MAX_SAMPLES;
    qkv_optimizer_swap_average(&training->optimizer, &training->model->parameters);
    if (is_running && wanted) count = write_lines(training, 0, wanted, lines, arena);
    for (int64_t i = 0; i < wanted && !is_running; i++)
        count += write_lines(training, i, 1, lines + count, arena);
    qkv_optimizer_swap_average(&training->optimizer, &training->model->parameters);
    return count;
}

static void report_validation(struct training *training, const struct qkv_scores *scores, bool best)
{
    const struct qkv_train_listener *listener = listener_of(training);
    struct qkv_arena arena = {0};
    const char *source[MAX_SAMPLES], *reference[MAX_SAMPLES], *translation[MAX_SAMPLES];
    int64_t wanted = training->config->training.validation_samples, count = training->dev.count, samples = 0;
    if (!listener->validation) return;
    if (!scores->counts.translated) {
        samples = write_samples(training, wanted, translation, &arena);
        for (int64_t i = 0; i < samples; i++) source[i] = NULL, reference[i] = translation[i];
        wanted = 0;
    }
    for (; samples < wanted && samples < MAX_SAMPLES && samples < count; samples++) {
        int64_t i = samples * count / wanted; /* evenly over the dev set */
        source[samples] = qkv_corpus_source(&training->dev, i);
        reference[samples] = qkv_corpus_target(&training->dev, i);
        translation[samples] = qkv_evaluator_translation(training->evaluator, i);
    }
    struct qkv_train_validation validation = {
        training->progress.update, *scores, best, samples, source, reference, translation};
    listener->validation(listener->context, &validation);
    qkv_arena_release(&arena);
}

/* ---- validation ---- */

static enum qkv_status validate(struct training *training, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    enum qkv_metric metric = training->config->training.early_stopping_metric;
    struct qkv_scores scores;
    struct qkv_error inner;
    bool best;
    if (!training->evaluator || progress->validated == progress->update) return QKV_OK;
    qkv_optimizer_swap_average(&training->optimizer, &training->model->parameters);
    enum qkv_status status = qkv_evaluator_run(training->evaluator, &scores, &inner);
    qkv_optimizer_swap_average(&training->optimizer, &training->model->parameters);
    if (status == QKV_FAILED) return qkv_training_diverged(progress->update, &inner, error);
    if (status) return qkv_error_set(error, "%s", inner.message);
    double score = scores.value[metric];
    progress->validated = progress->update;
    if (qkv_best_record(training, score, scores.value[QKV_METRIC_LOSS], &best, error)) return QKV_INVALID;
    /* An uninterrupted training would not have an early validation. */
    if (!progress->early_end) {
        qkv_schedule_record_validation(&training->schedule, score, !qkv_metric_info(metric)->lower_is_better);
        progress->waited = best ? 0 : progress->waited + 1;
    }
    struct bytes line = qkv_log_line("validation", progress->update);
    qkv_log_number(&line, "tokens", (double)progress->tokens);
    qkv_log_scores(&line, &scores);
    qkv_bytes_format(&line, ",\"best\":%s", best ? "true" : "false");
    qkv_log_seconds(&line, training);
    report_validation(training, &scores, best);
    qkv_notice_validation(training, &scores);
    return qkv_log_write(training, &line, error);
}

/* Validates, unless that is done for this update, and saves checkpoints. */
static enum qkv_status validate_and_save(struct training *training, struct qkv_error *error)
{
    enum qkv_status status = validate(training, error);
    return status ? status : qkv_checkpoint_keep(training, error);
}

/* ---- the loop ---- */

/* Called before each update, not after it, so that a run that was stopped between an update and its validation
 * validates when it is resumed. */
static bool validation_is_due(const struct training *training)
{
    const struct progress *progress = &training->progress;
    return progress->update > 0 && progress->update % training->config->training.validation_freq == 0 &&
           progress->validated != progress->update;
}

/* Whether this process, or another one, has been asked to stop. */
static bool is_stopped(const struct training *training)
{
    const struct qkv_train_listener *listener = listener_of(training);
    if (listener->stop && listener->stop(listener->context)) return true;
    for (int i = 1; i < qkv_processes_count(training->options->processes); i++)
        if (training->wants_stop[i]) return true;
    return false;
}

static enum qkv_status loop(struct training *training, enum qkv_train_end *end, struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    struct progress *progress = &training->progress;
    struct clock clock = {.started = qkv_clock_seconds()};
    training->begun = clock.started;
    int64_t saved = training->options->resume ? progress->update : -1, validated = progress->validated;
    *end = QKV_TRAIN_DONE;
    for (bool more = true;;) {
        if (validation_is_due(training)) {
            enum qkv_status status = validate_and_save(training, error);
            if (status) return status;
            clock.started = qkv_clock_seconds();
            clock.all_tokens = clock.updates = 0;
        }
        if (settings->updates && progress->update >= settings->updates) break;
        if (settings->patience && progress->waited >= settings->patience) {
            *end = QKV_TRAIN_PATIENCE;
            qkv_notice_patience(training);
            break;
        }
        enum qkv_status status = update(training, &clock, &more, error);
        if (status) return status;
        if (!more) break;
        /* Before the log line, which resets the sum of the loss that the snapshot stores. */
        if (qkv_snapshot_record(training, false, error)) return QKV_INVALID;
        if (report_progress(training, &clock, error)) return QKV_INVALID;
        if (is_stopped(training)) {
            *end = QKV_TRAIN_STOPPED;
            return qkv_checkpoint_save_last(training, error);
        }
    }
    enum qkv_status status = validate(training, error);
    if (status) return status;
    if (progress->update == saved && progress->validated == validated && qkv_checkpoint_is_kept(training))
        return QKV_OK; /* last.safetensors is up to date */
    if (qkv_snapshot_record(training, true, error)) return QKV_INVALID;
    qkv_notice_end(training, *end == QKV_TRAIN_PATIENCE);
    return validate_and_save(training, error);
}

/* Writes and reports the average of testing.average, unless a finished run already has it. */
static enum qkv_status average(struct training *training, struct qkv_train_result *result,
                               struct qkv_error *error)
{
    const struct qkv_train_listener *listener = listener_of(training);
    const struct kept_average *kept = &training->kept_average;
    struct qkv_train_average average = {0};
    if (kept->is_scored) {
        result->averaged = kept->checkpoints;
        result->average = kept->score;
        return QKV_OK;
    }
    enum qkv_status status = qkv_final_average(training, &average, error);
    if (status || !average.checkpoints.count) return status;
    result->averaged = average.checkpoints.count;
    result->average = average.scores.value[training->config->training.early_stopping_metric];
    if (listener->average) listener->average(listener->context, &average);
    return QKV_OK;
}

static void report_start(const struct training *training)
{
    const struct qkv_train_listener *listener = listener_of(training);
    const struct qkv_train_start start = {
        .folder = training->folder,
        .parameters = qkv_parameters_total(&training->model->parameters),
        .frozen = qkv_parameters_frozen(&training->model->parameters),
        .pairs = training->train.count,
        .read = training->train.sides.runs_on ? training->train.count : training->train.read,
        .long_sources = training->train.long_sources,
        .long_targets = training->train.long_targets,
        .dev_pairs = training->dev.count,
        .source_types = training->source.size,
        .target_types = training->target.size,
        .threads = qkv_workers_count(training->workers),
        .shards = (int)training->config->training.shards,
        .processes = qkv_processes_count(training->options->processes),
        .resumed = training->progress.update,
        .from = training->from.path,
        .has_new_vocabulary = training->from.is_run && !training->from.has_old_vocabulary,
        .known_source = training->from.known[0],
        .known_target = training->from.known[1],
    };
    if (listener->start) listener->start(listener->context, &start);
}

/* Completes a config that a program has filled in, and checks it before any text is read. */
static enum qkv_status finish_config(struct training *training, struct qkv_config *config,
                                     struct qkv_error *error)
{
    struct qkv_messages messages;
    if (qkv_config_finish_training(config, &training->arena, &messages))
        return qkv_error_set(error, "%s", messages.text[0]);
    return qkv_network_check(&config->model, error);
}

/* Reports which keys of the config have no effect. */
static enum qkv_status report_unread(const struct training *training, struct qkv_error *error)
{
    const struct qkv_train_listener *listener = listener_of(training);
    if (!listener->notice || !qkv_config_each_unread(training->config, listener->notice, listener->context))
        return QKV_OK;
    return qkv_no_memory(error);
}

enum qkv_status qkv_train(const struct qkv_config *config, const struct qkv_train_options *options,
                          struct qkv_train_result *result, struct qkv_error *error)
{
    struct qkv_config complete = *config;
    struct training training = {.config = &complete, .options = options};
    const struct kept_list *best = &training.progress.kept[KEPT_BEST];
    enum qkv_status status = finish_config(&training, &complete, error);
    *result = (struct qkv_train_result){0};
    status = status ? qkv_training_agree(&training, status, error) : qkv_training_open(&training, error);
    bool leads = qkv_processes_rank(options->processes) == 0;
    if (!status && !leads) status = qkv_training_follow(&training, &result->end, error);
    if (!status && leads) {
        report_start(&training);
        status = report_unread(&training, error);
        if (!status) status = loop(&training, &result->end, error);
        if (!status && result->end != QKV_TRAIN_STOPPED) status = average(&training, result, error);
        result->updates = training.progress.update;
        result->tokens = training.progress.tokens;
        result->validated = best->count > 0;
        result->best_update = best->item[0].update;
        result->best = best->item[0].score;
    }
    qkv_training_dismiss(&training, status, result);
    qkv_training_release(&training);
    return status;
}

/* Does updates until `seconds` have passed, but at least `min`; the first one, which touches all memory for the first
 * time, is not counted. */
static enum qkv_status time_updates(struct training *training, double seconds, struct qkv_train_cost *cost,
                                    struct qkv_error *error)
{
    enum { MIN_STEPS = 3 };
    struct clock clock = {0};
    double begin = qkv_clock_seconds(), first = begin, now = begin;
    bool more = true;
    for (int64_t done = 0; more && (done < MIN_STEPS || now - begin < seconds); done++) {
        enum qkv_status status = update(training, &clock, &more, error);
        if (status) return status;
        now = qkv_clock_seconds();
        if (done)
            cost->seconds_per_update = (now - first) / (double)done;
        else
            first = now;
    }
    return QKV_OK;
}

enum qkv_status qkv_train_measure(const struct qkv_config *config, int threads, double seconds,
                                  struct qkv_train_cost *cost, struct qkv_error *error)
{
    struct qkv_config complete = *config;
    const struct qkv_train_options options = {.threads = threads};
    struct training training = {.config = &complete, .options = &options};
    enum qkv_status status = finish_config(&training, &complete, error);
    *cost = (struct qkv_train_cost){0};
    if (!status) status = qkv_training_prepare(&training, error);
    if (!status) status = qkv_training_choose_precision(&training, error);
    if (!status) status = time_updates(&training, seconds, cost, error);
    if (!status) {
        cost->parameters = qkv_parameters_total(&training.model->parameters);
        cost->batches = training.batches.count;
        if (training.evaluator) {
            struct qkv_scores scores;
            double begin = qkv_clock_seconds();
            status = qkv_evaluator_run(training.evaluator, &scores, error);
            cost->seconds_per_validation = qkv_clock_seconds() - begin;
        }
    }
    qkv_training_release(&training);
    return status;
}
