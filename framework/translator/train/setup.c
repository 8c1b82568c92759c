/* Everything before the first update: reads and checks all input, makes the model, compares processes, restores or begins the
 * run. */
#include "data/corpus.h"
#include "train/training.h"

#include "checkpoint/safetensors.h"
#include "data/bpe.h"
#include "processes/processes.h"

#include "core/choices.h"
#include "core/memory.h"
#include "metrics/metric.h"
#include "optimize/optimize.h"

#include <errno.h>
#include <math.h>
#include <zlib.h>

/* ---- texts, merges and vocabularies ---- */

/* How data.train is read, but for bpe_dropout: with guided alignment, the words of tokens are kept; if data.train_links is
 * the same file, the third column of a table holds the links. */
static struct qkv_corpus_options train_text_options(const struct qkv_config *config)
{
    bool is_guided = config->training.guided_alignment > 0;
    return (struct qkv_corpus_options){.drop_long = true,
                                       .part = config->data.dev_share > 0 ? QKV_PART_TRAIN : QKV_PART_ALL,
                                       .keep_words = is_guided,
                                       .keep_raw = is_guided, /* to see what separates the words */
                                       .third_column = !strcmp(config->data.train, config->data.train_links),
                                       .key = "data.train"};
}

/* The run whose merges and vocabularies are used: training.from, or the one that is resumed; NULL: those of data.train are. */
static const char *old_run(const struct training *training)
{
    if (training->from.has_old_vocabulary) return training->from.run.path;
    return training->options->resume ? training->folder : NULL;
}

/* Learns the merges of byte-pair encoding or reads them. From then on `config` is `with_merges`. */
static enum qkv_status find_merges(struct training *training, struct qkv_error *error)
{
    training->with_merges = *training->config;
    training->config = &training->with_merges;
    struct qkv_data_config *data = &training->with_merges.data;
    struct qkv_corpus_options options = train_text_options(training->config);
    const char *folder = old_run(training);
    if (folder && qkv_run_format_read(folder, data, error)) return QKV_INVALID;
    if (folder) return qkv_run_merges(folder, data, training->bpe, error);
    options.drop_long = false; /* merges are learned from all pairs */
    return qkv_corpus_merges(data->train, data, training->bpe, options, error);
}

/* Reads the vocabularies of the run in `folder`. */
static enum qkv_status load_vocabularies(struct training *training, const char *folder,
                                         struct qkv_error *error)
{
    if (qkv_vocabulary_load(&training->source, QKV_RUN_FILE(folder, QKV_RUN_SOURCE), error))
        return QKV_INVALID;
    return qkv_vocabulary_load(&training->target, QKV_RUN_FILE(folder, QKV_RUN_TARGET), error);
}

/* Reads the links of guided alignment. */
static enum qkv_status read_links(struct training *training, struct qkv_error *error)
{
    struct qkv_error inner;
    const struct qkv_data_config *data = &training->config->data;
    if (training->config->training.guided_alignment == 0) return QKV_OK;
    struct qkv_word_spaces spaces;
    if (!qkv_token_links_read(&training->links, data->train_links, data->train_links_from, &training->train,
                              &spaces, &inner)) {
        qkv_notice_spaces(training, spaces);
        return QKV_OK;
    }
    return qkv_error_set(error, "data.train_links: %s", inner.message);
}

enum qkv_status qkv_training_read(struct training *training, const char *dev_path, bool bpe_dropout,
                                  struct qkv_error *error)
{
    if (find_merges(training, error)) return QKV_INVALID;
    const struct qkv_data_config *data = &training->config->data;
    struct qkv_corpus_options train = train_text_options(training->config),
                              dev = {.keep_raw = true, .key = "data.dev"};
    if (data->dev_share > 0) dev.part = QKV_PART_DEV;
    train.bpe_dropout = bpe_dropout;
    if (qkv_corpus_read(&training->train, data->train, data, train, error)) return QKV_INVALID;
    if (read_links(training, error)) return QKV_INVALID;
    if (*dev_path && qkv_corpus_read(&training->dev, dev_path, data, dev, error)) return QKV_INVALID;
    const char *folder = old_run(training);
    if (folder ? load_vocabularies(training, folder, error)
               : qkv_corpus_vocabularies(&training->train, data, &training->source, &training->target, error))
        return QKV_INVALID;
    if (qkv_corpus_encode(&training->train, &training->source, &training->target, error)) return QKV_INVALID;
    if (!*dev_path) return QKV_OK;
    return qkv_corpus_encode(&training->dev, &training->source, &training->target, error);
}

/* Raises testing.length_limit to one and a half times the mean target tokens per source token, and to 10 tokens more than the
 * longest target of the training text then needs: no translation like those of the text is cut. */
static void raise_length_limit(struct training *training)
{
    const struct qkv_corpus *train = &training->train;
    if (!train->sides.has_source) return;
    const int64_t *source = train->source.start, *target = train->target.start;
    double *limit = training->with_merges.testing.length_limit;
    limit[0] =
        fmax(limit[0], ceil(1.5 * (double)target[train->count] / fmax(1, (double)source[train->count])));
    for (int64_t i = 0; i < train->count; i++)
        limit[1] = fmax(limit[1], ceil(10 + (double)(target[i + 1] - target[i]) -
                                       limit[0] * (double)(source[i + 1] - source[i])));
}

enum qkv_status qkv_train_prepare(const struct qkv_config *config, const char *file,
                                  struct qkv_prepared_header *header, struct qkv_error *error)
{
    const struct qkv_train_options options = {0};
    struct training training = {.config = config, .options = &options};
    const struct qkv_vocabulary *const loaded[2] = {&training.source, &training.target};
    const struct warm_start *from = &training.from;
    if (!qkv_sides_of(&config->data, NULL).has_source)
        return qkv_error_set(
            error, "%s: a prepared corpus has sentence pairs, but data.text is %s: train from the text", file,
            qkv_text_form_name(config->data.text));
    if (config->training.guided_alignment > 0)
        return qkv_error_set(error,
                             "%s: a prepared corpus does not say which words its tokens are part of, which "
                             "training.guided_alignment needs: train from the text, or set it to 0",
                             file);
    enum qkv_status status = qkv_warm_start_open(&training, error);
    bool has_old_vocabulary = !status && from->has_old_vocabulary;
    if (has_old_vocabulary) {
        status = find_merges(&training, error);
        if (!status) status = load_vocabularies(&training, from->run.path, error);
    }
    qkv_warm_start_close(&training); /* its parameters are not needed */
    const struct qkv_data_config *data = &training.config->data;
    if (!status)
        status =
            qkv_corpus_prepare(file, data->train, data, has_old_vocabulary ? loaded : NULL, header, error);
    qkv_training_release(&training);
    return status;
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
    if (!*qkv_dev_path(&config->data) || qkv_processes_rank(processes) > 0) return QKV_OK;
    training->evaluator = qkv_evaluator_new(training->model, &training->dev, &config->data.trg,
                                            &training->target, training->workers, &config->testing, error);
    return training->evaluator ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_training_prepare(struct training *training, struct qkv_error *error)
{
    enum qkv_status status = qkv_warm_start_open(training, error);
    if (status) return status;
    const char *dev_path = qkv_dev_path(&training->config->data);
    if (qkv_training_read(training, dev_path, true, error)) return QKV_INVALID;
    const struct qkv_config *config = training->config;
    /* Before training starts, because the model may have no position for a long sentence. */
    if (qkv_corpus_fits(&training->train, config->data.train, &config->model, error) ||
        qkv_corpus_fits(&training->dev, dev_path, &config->model, error))
        return QKV_INVALID;
    raise_length_limit(training);
    struct qkv_testing_config *testing = &training->with_merges.testing;
    if (training->dev.count)
        testing->bleu_tokenizer = qkv_bleu_tokenizer_for(testing->bleu_tokenizer, &training->dev);
    return make_parts(training, error);
}

/* ---- what several processes must have in common: if one of them had another text or vocabulary, no config would describe the result ---- */

static bool add_key(void *context, const char *path, const char *value)
{
    struct qkv_handshake *handshake = context;
    qkv_handshake_add(handshake, path, "%s", value);
    return !handshake->facts.failed;
}

/* States config, texts, vocabularies and merges of a prepared training. The keys of the config come first, because the key that
 * differs says more than a checksum; keys without an effect may differ. */
static void describe(const struct training *training, struct qkv_handshake *handshake)
{
    struct qkv_trained_text texts[MAX_TEXTS];
    int count = qkv_training_texts(training, texts);
    qkv_config_each(training->config, QKV_KEYS_WITH_EFFECT, add_key, handshake);
    qkv_handshake_add_checksum(
        handshake, "the config",
        (uint32_t)crc32_z(0, (const Bytef *)handshake->facts.data, handshake->facts.size));
    for (int i = 0; i < count; i++)
        qkv_handshake_add(handshake, texts[i].key, "%lld pairs, checksum %08lx", (long long)texts[i].pairs,
                          (unsigned long)texts[i].checksum);
    qkv_handshake_add_checksum(handshake, "the source vocabulary",
                               qkv_vocabulary_checksum(&training->source));
    qkv_handshake_add_checksum(handshake, "the target vocabulary",
                               qkv_vocabulary_checksum(&training->target));
    for (int side = 0; side < 2; side++)
        if (training->bpe[side])
            qkv_handshake_add_checksum(handshake, side ? "the target merges" : "the source merges",
                                       qkv_bpe_checksum(training->bpe[side]));
}

enum qkv_status qkv_training_agree(struct training *training, enum qkv_status status, struct qkv_error *error)
{
    struct qkv_processes *processes = training->options->processes;
    int count = qkv_processes_count(processes);
    if (!processes) return status;
    training->wants_stop = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(bool));
    training->sent = qkv_arena_zeroed(&training->arena, (size_t)count * sizeof(int64_t));
    if (!training->wants_stop || !training->sent) {
        qkv_processes_abort(processes);
        return qkv_no_memory(error);
    }
    /* Version and kernels come first, because another build may send the later messages in another format. */
    struct qkv_handshake build = {0}, input = {0};
    struct qkv_error inner = {""};
    qkv_handshake_add_build(&build);
    if (qkv_handshake(processes, &build, QKV_OK, &inner)) {
        *error = inner;
        return QKV_INVALID;
    }
    if (!status) describe(training, &input);
    status = qkv_handshake(processes, &input, status, error);
    training->has_followers = !status && qkv_processes_rank(processes) == 0;
    return status;
}

/* ---- the run ---- */

/* Writes the merges to the run folder. */
static enum qkv_status save_merges(struct training *training, struct qkv_error *error)
{
    static const char *const names[2] = {QKV_RUN_SOURCE_CODES, QKV_RUN_TARGET_CODES},
                             *const pieces[2] = {QKV_RUN_SOURCE_PIECES, QKV_RUN_TARGET_PIECES};
    const struct qkv_data_config *data = &training->config->data;
    for (int side = 0; side < 2; side++) {
        const struct qkv_bpe *bpe = training->bpe[side];
        if (bpe && qkv_bpe_save(bpe, QKV_RUN_FILE(training->folder, names[side]), error)) return QKV_INVALID;
        int64_t minimum = side ? data->trg.bpe_min_freq : data->src.bpe_min_freq;
        if (bpe && minimum > 0 &&
            qkv_bpe_save_pieces(bpe, QKV_RUN_FILE(training->folder, pieces[side]), error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

/* Refuses another training text on resuming. Refuses another dev set if the run has validated already, as
 * scores of different texts do not compare. */
static enum qkv_status check_texts(const struct training *training, const struct qkv_state *state,
                                   const char *last, struct qkv_error *error)
{
    struct qkv_trained_text texts[MAX_TEXTS];
    int count = qkv_training_texts(training, texts);
    if (*qkv_dev_path(&training->config->data) && !training->progress.kept[KEPT_BEST].count) count--;
    for (int i = 0; i < count; i++)
        if (qkv_provenance_check_text(state, &texts[i], last, error)) return QKV_INVALID;
    return QKV_OK;
}

/* ---- a learning rate that --resume changes: the moments stay, and what the schedule makes of the rate ---- */

/* The number of the config by which its schedule is scaled; *key: its path. */
static double *rate_of(struct training *training, const char **key)
{
    struct qkv_training_config *settings = &training->with_merges.training;
    bool is_noam = settings->scheduling == QKV_SCHEDULE_NOAM;
    *key = is_noam ? "training.learning_rate_factor" : "training.learning_rate";
    return is_noam ? &settings->learning_rate_factor : &settings->learning_rate;
}

static bool differ(double a, double b)
{
    return a < b || a > b;
}

/* Checks the keys that must not change. Takes the learning rate, and the precision, of the checkpoint where the config has another
 * one by right. */
static enum qkv_status restore_config(struct training *training, const struct qkv_state *state,
                                      const char *last, struct qkv_error *error)
{
    const char *key;
    struct changed_rate *changed = &training->rate;
    double *rate = rate_of(training, &key);
    const char *recorded = qkv_arena_format(&training->arena, "config.%s", key);
    struct qkv_error inner;
    changed->given = changed->before = *rate;
    if (!recorded) return qkv_no_memory(error);
    if (qkv_state_find_number(state, recorded, &changed->before, &inner) ||
        qkv_state_find_number(state, FIRST_RATE, &changed->first, &inner))
        return qkv_error_set(error, "%s: %s", last, inner.message);
    if (training->options->new_rate || !differ(changed->given, changed->first)) *rate = changed->before;
    enum qkv_precision *precision = &training->with_merges.training.precision;
    const char *chosen = qkv_state_get(state, "config.training.precision");
    if (*precision == QKV_PRECISION_AUTO && !(chosen && qkv_precision_find(chosen, precision)))
        *precision = QKV_PRECISION_FLOAT32;
    return qkv_provenance_check(state, training->config, QKV_KEYS_FIXED_ON_RESUME, &training->source,
                                &training->target, last, error);
}

/* Goes on with the rate of the config if the options say so, and says which rate is another than before or than in the config.
 * metrics.jsonl is written first: its line is dropped on resuming if the checkpoint does not have the rate. */
static enum qkv_status restore_rate(struct training *training, struct qkv_error *error)
{
    struct changed_rate *changed = &training->rate;
    const char *key;
    double *rate = rate_of(training, &key);
    const bool differs = differ(*rate, changed->given), is_new = differs && training->options->new_rate;
    const int64_t update = training->progress.update;
    if (is_new) *rate = changed->given;
    training->schedule.learning_rate = training->config->training.learning_rate;
    training->schedule.factor = training->config->training.learning_rate_factor;
    if (!differs) return QKV_OK;
    if (is_new)
        qkv_training_say(training, "%s is %g from update %lld on (before: %g)", key, *rate,
                         (long long)update + 1, changed->before);
    else
        qkv_training_say(training, "%s is %g, which an earlier --resume set (config: %g)", key, *rate,
                         changed->given);
    if (!is_new) return QKV_OK;
    if (!(changed->first > 0)) changed->first = changed->before;
    struct bytes line = qkv_log_line("rate", update);
    qkv_log_number(&line, "before", changed->before);
    qkv_log_number(&line, "rate", *rate);
    return qkv_log_write(training, &line, error) ? QKV_INVALID : qkv_checkpoint_save_last(training, error);
}

static enum qkv_status restore(struct training *training, struct qkv_error *error)
{
    const char *last = QKV_RUN_FILE(training->folder, QKV_RUN_LAST);
    struct qkv_state state = {0};
    struct qkv_error inner = {""};
    enum qkv_status status =
        qkv_checkpoint_load(last, &training->model->parameters, &training->optimizer.state, &state, error);
    if (!status) {
        status = qkv_progress_restore(&training->progress, &state, &inner);
        if (!status) status = qkv_schedule_restore(&training->schedule, &state, &inner);
        if (status) qkv_error_set(error, "%s: %s", last, inner.message);
    }
    /* Check even if loading failed: a changed config key explains more than a tensor of another shape. */
    if (restore_config(training, &state, last, error)) status = QKV_INVALID;
    if (!status) status = check_texts(training, &state, last, error);
    int64_t updates = training->config->training.updates, done = training->progress.update;
    if (!status && updates && updates < done)
        status =
            qkv_error_set(error, "%s: has %lld updates, but training.updates is %lld: give at least %lld",
                          last, (long long)done, (long long)updates, (long long)done);
    qkv_state_release(&state);
    return status;
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
    training->metrics = qkv_arena_format(&training->arena, "%s/%s", training->folder, QKV_RUN_METRICS);
    training->best_temporary =
        qkv_arena_format(&training->arena, "%s/%s.tmp", training->folder, QKV_RUN_BEST);
    bool has_paths = training->metrics && training->best_temporary;
    bool has_folder = qkv_processes_rank(training->options->processes) == 0;
    enum qkv_status status = has_paths ? QKV_OK : qkv_no_memory(error);
    if (!status) status = check_shards(training, error);
    if (!status && has_folder) status = qkv_run_folder_check(training, error);
    if (!status) status = qkv_training_prepare(training, error);
    status = qkv_training_agree(training, status, error);
    if (status || !has_folder) return status;
    if (qkv_run_folder_lock(training, error)) return QKV_INVALID;
    if (training->options->resume) {
        if (restore(training, error) || qkv_run_folder_clear(training, error)) return QKV_INVALID;
        qkv_training_plan_epoch(training);
        if (qkv_checkpoints_restore(training, error) || qkv_notices_restore(training, error) ||
            restore_rate(training, error))
            return QKV_INVALID;
        if (qkv_run_folder_write_format(training, error)) return QKV_INVALID;
        return qkv_run_folder_write_config(training, error);
    }
    if (qkv_training_choose_precision(training, error)) return QKV_INVALID;
    qkv_training_plan_epoch(training);
    const char *source = QKV_RUN_FILE(training->folder, QKV_RUN_SOURCE),
               *target = QKV_RUN_FILE(training->folder, QKV_RUN_TARGET);
    if (qkv_run_folder_clear(training, error)) return QKV_INVALID;
    if (qkv_run_folder_write_format(training, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&training->source, source, error)) return QKV_INVALID;
    if (qkv_vocabulary_save(&training->target, target, error)) return QKV_INVALID;
    if (save_merges(training, error)) return QKV_INVALID;
    if (qkv_snapshot_record(training, false, error)) return QKV_INVALID;
    /* Write the checkpoint before config.yaml, which makes the folder a run: so every run can be resumed. */
    if (qkv_checkpoint_save_last(training, error)) return QKV_INVALID;
    return qkv_run_folder_write_config(training, error);
}

void qkv_training_release(struct training *training)
{
    qkv_warm_start_close(training);
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
