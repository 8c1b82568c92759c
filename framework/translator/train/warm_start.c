/* training.from: the first parameters come from another run, or from a file. */
#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "core/memory.h"
#include "graph/internal.h"
#include "models/network.h"
#include "train/training.h"

#include <errno.h>

/* Keys that decide into which tokens a text is split: if the vocabulary of the old run is used, both configs must have the same
 * values. */
static const char *const TEXT_KEYS[] = {"level",      "lowercase",    "split_punctuation",
                                        "num_merges", "bpe_min_freq", "voc_limit"};
enum { TEXT_KEY_COUNT = sizeof TEXT_KEYS / sizeof TEXT_KEYS[0] };

static enum qkv_status compare_texts(const struct training *training, struct qkv_error *error)
{
    static const char *const sides[] = {"data.src", "data.trg"};
    const struct warm_start *from = &training->from;
    struct qkv_arena arena = {0};
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < 2 * TEXT_KEY_COUNT && !status; i++) {
        const char *path = qkv_arena_format(&arena, "%s.%s", sides[i % 2], TEXT_KEYS[i / 2]);
        const struct qkv_key *key = path ? qkv_schema_find(&qkv_config_schema, path) : NULL;
        const char *ours = key ? qkv_value_text(key, training->config, &arena) : NULL;
        const char *old = key ? qkv_value_text(key, &from->run.config, &arena) : NULL;
        if (!ours || !old)
            status = qkv_no_memory(error);
        else if (strcmp(ours, old) != 0)
            status =
                qkv_error_set(error,
                              "%s is %s, but in %s, whose vocabulary is used, it is %s: set it to %s, or "
                              "training.from_vocabulary to new",
                              path, ours, from->run.path, old, old);
    }
    qkv_arena_release(&arena);
    return status;
}

/* The folder of the run that a checkpoint lies in; NULL: it lies in no run, or memory runs out. */
static const char *run_folder_of(const char *path, struct qkv_arena *arena)
{
    const char *slash = strrchr(path, '/');
    char *folder = qkv_arena_format(arena, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return folder && qkv_path_exists(QKV_RUN_FILE(folder, QKV_RUN_CONFIG)) ? folder : NULL;
}

enum qkv_status qkv_warm_start_open(struct training *training, struct qkv_error *error)
{
    const char *path = training->config->training.from;
    struct warm_start *from = &training->from;
    struct stat found;
    bool has_new = training->config->training.from_vocabulary == QKV_FROM_VOCABULARY_NEW;
    if (training->options->resume) return QKV_OK;
    if (!*path && has_new)
        return qkv_error_set(error, "training.from_vocabulary is new, but there is no training.from");
    if (!*path) return QKV_OK;
    if (stat(path, &found))
        return errno == ENOENT || errno == ENOTDIR
                   ? qkv_error_set(error, "training.from: %s: there is no such run or file", path)
                   : qkv_error_set(error, "training.from: %s: cannot be read: %s", path, strerror(errno));
    bool is_folder = S_ISDIR(found.st_mode);
    const char *folder = is_folder ? path : run_folder_of(path, &training->arena);
    from->path = path;
    if (!folder) return QKV_OK; /* a file of another program */
    struct qkv_error inner = {""};
    const char *checkpoint =
        is_folder || strchr(path, '/') ? path : qkv_arena_format(&training->arena, "./%s", path);
    if (!checkpoint) return qkv_no_memory(error);
    enum qkv_status status =
        qkv_run_open(&from->run, folder, is_folder ? NULL : checkpoint, QKV_FLOAT32, &inner);
    if (status) {
        qkv_error_set(error, "training.from: %s", inner.message);
        return status;
    }
    from->is_run = from->is_open = true;
    from->path = qkv_arena_string(&training->arena, from->run.checkpoint);
    if (!from->path) return qkv_no_memory(error);
    from->has_old_vocabulary = !has_new;
    return from->has_old_vocabulary ? compare_texts(training, error) : QKV_OK;
}

void qkv_warm_start_close(struct training *training)
{
    if (training->from.is_open) qkv_run_release(&training->from.run);
    training->from.is_open = false;
}

/* A parameter with a row, or with a column, for each entry of a vocabulary. */
struct entries {
    const struct qkv_parameter *parameter;
    bool is_target, entries_are_columns;
};
enum { ENTRIES_MAX = 4 };

/* The parameters of a model that have entries of vocabularies. */
static int list_entries(const struct qkv_model *model, struct entries entries[ENTRIES_MAX])
{
    const struct qkv_embedding *source = qkv_model_inputs(model, QKV_STACK_ENCODER).embedding,
                               *target = qkv_model_inputs(model, QKV_STACK_DECODER).embedding;
    int count = 0;
    if (source) entries[count++] = (struct entries){source->table, false, false};
    if (target && (!source || target->table != source->table))
        entries[count++] = (struct entries){target->table, true, false};
    if (!model->output_tied) entries[count++] = (struct entries){model->output_weight, true, true};
    entries[count++] = (struct entries){model->output_bias, true, false};
    return count;
}

/* Copies the entries of those tokens that are in both vocabularies. */
static void copy_entries(struct training *training, struct entries entries)
{
    const struct qkv_run *old = &training->from.run;
    const struct qkv_vocabulary *ours = entries.is_target ? &training->target : &training->source,
                                *theirs = entries.is_target ? &old->target : &old->source;
    struct qkv_parameters *to = &training->model->parameters;
    const struct qkv_parameters *from = &old->model->parameters;
    const struct qkv_parameter *parameter = entries.parameter;
    const struct qkv_parameter *other = qkv_parameters_find(from, parameter->name);
    int64_t width = parameter->count / ours->size;
    for (int32_t id = 0; id < ours->size; id++) {
        int32_t old_id = id < QKV_SPECIALS ? id : qkv_vocabulary_id(theirs, qkv_vocabulary_token(ours, id));
        if (id >= QKV_SPECIALS && old_id == QKV_UNKNOWN) continue;
        for (int64_t i = 0; i < width; i++) {
            int64_t at = entries.entries_are_columns ? i * ours->size + id : id * width + i;
            int64_t old_at = entries.entries_are_columns ? i * theirs->size + old_id : old_id * width + i;
            qkv_parameter_set(to, parameter, at, qkv_parameter_get(from, other, old_at));
        }
    }
}

static void count_known(struct training *training)
{
    const struct qkv_run *old = &training->from.run;
    for (int side = 0; side < 2; side++) {
        const struct qkv_vocabulary *ours = side ? &training->target : &training->source,
                                    *theirs = side ? &old->target : &old->source;
        training->from.known[side] = 0;
        for (int32_t id = QKV_SPECIALS; id < ours->size; id++)
            training->from.known[side] +=
                qkv_vocabulary_id(theirs, qkv_vocabulary_token(ours, id)) != QKV_UNKNOWN;
    }
}

/* Fails if an entry of the old model has another size. The number of entries may differ. */
static enum qkv_status check_entries(const struct training *training, struct entries entries,
                                     struct qkv_error *error)
{
    const struct qkv_run *old = &training->from.run;
    const struct qkv_parameter *other = qkv_parameters_find(&old->model->parameters, entries.parameter->name);
    int64_t ours = entries.is_target ? training->target.size : training->source.size,
            theirs = entries.is_target ? old->target.size : old->source.size;
    if (!other) return QKV_OK; /* reported as missing */
    if (other->count / theirs == entries.parameter->count / ours) return QKV_OK;
    return qkv_error_set(error, "%s: %s has %lld numbers for a token, but the model has %lld",
                         training->from.path, other->name, (long long)(other->count / theirs),
                         (long long)(entries.parameter->count / ours));
}

/* Copies the parameters of the old run by name. If its vocabulary is not used, parameters with an entry per token are copied
 * token by token. */
static enum qkv_status copy_run(struct training *training, struct qkv_error *error)
{
    struct warm_start *from = &training->from;
    const struct qkv_parameters *old = &from->run.model->parameters;
    struct qkv_parameters *parameters = &training->model->parameters;
    struct entries entries[ENTRIES_MAX];
    struct qkv_load_report report = {0};
    int entry_count = from->has_old_vocabulary ? 0 : list_entries(training->model, entries);
    struct qkv_safetensor *tensors = qkv_arena_zeros(&report.arena, old->count + 1, sizeof *tensors);
    const struct qkv_safetensor **source =
        qkv_arena_zeroed(&report.arena, (size_t)(parameters->count + 1) * sizeof(void *));
    bool *has_entries = qkv_arena_zeroed(&report.arena, (size_t)(parameters->count + 1));
    enum qkv_status status = report.arena.failed ? qkv_no_memory(error) : QKV_OK;
    /* The int8 numbers of a quantised run are too coarse to train on. */
    if (!status && old->products != QKV_PRECISION_FLOAT32)
        status = qkv_error_set(error, "%s: is quantised: start from the run that it was quantised from",
                               from->path);
    for (int64_t p = 0; !status && p < old->count; p++)
        tensors[p] = (struct qkv_safetensor){old->list[p]->name, QKV_STORED_F32, old->list[p]->shape,
                                             (const float *)old->values + old->list[p]->offset};
    for (int i = 0; !status && i < entry_count; i++) {
        has_entries[entries[i].parameter->index] = true;
        status = check_entries(training, entries[i], error);
    }
    if (!status && !qkv_weights_match(old->count, tensors, parameters, has_entries, source, &report))
        status = qkv_no_memory(error);
    if (!status) status = qkv_weights_check(from->path, old->count, tensors, parameters, &report, error);
    for (int64_t p = 0; !status && p < parameters->count; p++)
        if (!has_entries[p])
            qkv_safetensor_copy(source[p], parameters->dtype,
                                (float *)parameters->values + parameters->list[p]->offset);
    for (int i = 0; !status && i < entry_count; i++) copy_entries(training, entries[i]);
    if (!status && entry_count) count_known(training);
    parameters->changes++;
    qkv_load_report_release(&report);
    return status;
}

enum qkv_status qkv_warm_start_apply(struct training *training, struct qkv_error *error)
{
    struct warm_start *from = &training->from;
    struct qkv_error inner = {""};
    if (!from->path) return QKV_OK;
    enum qkv_status status =
        from->is_run ? copy_run(training, &inner)
                     : qkv_parameters_load(from->path, &training->model->parameters, false, NULL, &inner);
    if (status) return qkv_error_set(error, "training.from: %s", inner.message);
    qkv_warm_start_close(training);
    const struct qkv_parameters *parameters = &training->model->parameters;
    const struct qkv_parameter *bad = qkv_parameters_find_not_finite(parameters, parameters->values);
    if (!bad) return QKV_OK;
    qkv_error_set(error, "training.from: %s: %s holds infinity or NaN", from->path, bad->name);
    return QKV_FAILED;
}
