/* Checkpoints: the state of training, files of qkv, and parameters by name from files of any program. */
#include "qkv/checkpoint.h"

#include "checkpoint/safetensors.h"
#include "core/memory.h"
#include "core/numbers.h"
#include "core/text.h"
#include "graph/graph.h"

#include <inttypes.h>
#include <math.h>

/* ---- the state of training ---- */

static struct qkv_state_entry *find_entry(const struct qkv_state *state, const char *key)
{
    int32_t i = qkv_types_find(&state->keys, key); /* keys are numbered in the order of the list */
    return i < 0 || i >= state->count ? NULL : &state->list[i];
}

/* Appends an entry for a new key; NULL when memory runs out, which may also have lost the existing entries. */
static struct qkv_state_entry *append_entry(struct qkv_state *state, const char *key)
{
    const char *copy = qkv_arena_string(&state->arena, key);
    bool has_room = copy && QKV_RESERVE(state->list, state->capacity, state->count + 1) &&
                    qkv_types_add(&state->keys, key, 0) >= 0;
    if (!state->list) state->count = 0;
    if (!has_room) return NULL;
    state->list[state->count] = (struct qkv_state_entry){copy, ""};
    return &state->list[state->count++];
}

void qkv_state_set(struct qkv_state *state, const char *key, const char *text)
{
    if (state->failed) return; /* keys and list may no longer agree */
    struct qkv_state_entry *entry = find_entry(state, key);
    if (!entry) entry = append_entry(state, key);
    char *copy = qkv_arena_string(&state->arena, text);
    size_t size = strlen(text), valid = 0;
    while (copy && (valid += qkv_text_valid_size(copy + valid, size - valid)) < size) copy[valid] = '?';
    if (entry && copy)
        entry->text = copy;
    else
        state->failed = true;
}

void qkv_state_set_integer(struct qkv_state *state, const char *key, int64_t value)
{
    char text[QKV_NUMBER_SIZE];
    snprintf(text, sizeof text, "%" PRId64, value);
    qkv_state_set(state, key, text);
}

void qkv_state_set_number(struct qkv_state *state, const char *key, double value)
{
    char text[QKV_NUMBER_SIZE];
    if (isnan(value))
        qkv_state_set(state, key, "nan");
    else if (isinf(value))
        qkv_state_set(state, key, value > 0 ? "inf" : "-inf");
    else {
        qkv_number_format(text, value);
        qkv_state_set(state, key, text);
    }
}

const char *qkv_state_get(const struct qkv_state *state, const char *key)
{
    const struct qkv_state_entry *entry = find_entry(state, key);
    return entry ? entry->text : NULL;
}

enum qkv_status qkv_state_get_integer(const struct qkv_state *state, const char *key, int64_t *value,
                                      struct qkv_error *error)
{
    const char *text = qkv_state_get(state, key);
    if (!text) return qkv_error_set(error, "%s is missing", key);
    int64_t number;
    if (qkv_number_kind(text) != QKV_NUMBER_INTEGER || !qkv_integer_read(text, &number))
        return qkv_error_set(error, "%s is \"%s\", but must be a whole number", key, text);
    *value = number;
    return QKV_OK;
}

enum qkv_status qkv_state_get_count(const struct qkv_state *state, const char *key, int64_t *value,
                                    struct qkv_error *error)
{
    int64_t count;
    if (qkv_state_get_integer(state, key, &count, error)) return QKV_INVALID;
    if (count < 0 || count > QKV_COUNT_MAX)
        return qkv_error_set(error, "%s is %lld, but must be from 0 to %lld", key, (long long)count,
                             (long long)QKV_COUNT_MAX);
    *value = count;
    return QKV_OK;
}

enum qkv_status qkv_state_get_number(const struct qkv_state *state, const char *key, double *value,
                                     struct qkv_error *error)
{
    const char *text = qkv_state_get(state, key);
    if (!text) return qkv_error_set(error, "%s is missing", key);
    double number;
    if (!strcmp(text, "nan"))
        number = (double)NAN;
    else if (!strcmp(text, "inf"))
        number = (double)INFINITY;
    else if (!strcmp(text, "-inf"))
        number = -(double)INFINITY;
    else if (qkv_number_kind(text) == QKV_NUMBER_NONE || !qkv_number_read(text, &number))
        return qkv_error_set(error, "%s is \"%s\", but must be a number", key, text);
    *value = number;
    return QKV_OK;
}

enum qkv_status qkv_state_find_number(const struct qkv_state *state, const char *key, double *value,
                                      struct qkv_error *error)
{
    return qkv_state_get(state, key) ? qkv_state_get_number(state, key, value, error) : QKV_OK;
}

void qkv_state_release(struct qkv_state *state)
{
    qkv_arena_release(&state->arena);
    qkv_types_release(&state->keys);
    free(state->list);
    *state = (struct qkv_state){0};
}

/* ---- the blocks of a checkpoint ---- */

/* The blocks of a checkpoint: the values; the moments of the optimizer; and, if the values are a moving average, the
 * trained parameters themselves. Each block has a tensor for every parameter, named by the prefix of the block and the name
 * of the parameter. */
enum { VALUES, MOMENTS, TRAINED = MOMENTS + QKV_MOMENTS_MAX, BLOCKS };
static const char *const PREFIX[BLOCKS] = {"", "optimizer.first.", "optimizer.second.", "optimizer.third.",
                                           "optimizer.parameters."};

/* Suffix of the name of the tensor that holds the scales of an int8 matrix. */
#define SCALE ".scale"

/* Fails when the moments do not fit the parameters. */
static enum qkv_status check_moments(const struct qkv_parameters *parameters,
                                     const struct qkv_optimizer_state *optimizer, const char *path,
                                     struct qkv_error *error)
{
    if (!optimizer->name)
        return qkv_error_set(
            error, "%s: the optimizer of the checkpoint is not initialised: call qkv_optimizer_init first",
            path);
    if (optimizer->dtype == parameters->dtype && optimizer->elements == parameters->elements) return QKV_OK;
    return qkv_error_set(
        error,
        "%s: the optimizer was made for other parameters: it has %lld numbers of type %s for "
        "each moment, but the parameters are %lld of type %s",
        path, (long long)optimizer->elements, qkv_stored_type_name(qkv_stored_type_of(optimizer->dtype)),
        (long long)parameters->elements, qkv_stored_type_name(qkv_stored_type_of(parameters->dtype)));
}

/* Sets blocks[i] to the memory of block i; NULL where there is none. */
static enum qkv_status list_blocks(const struct qkv_parameters *parameters,
                                   const struct qkv_optimizer_state *optimizer, void *blocks[BLOCKS],
                                   const char *path, struct qkv_error *error)
{
    if (!parameters->values)
        return qkv_error_set(error, "%s: the parameters of the checkpoint are not allocated", path);
    if (optimizer && check_moments(parameters, optimizer, path, error)) return QKV_INVALID;
    bool averaged = optimizer && optimizer->average;
    blocks[VALUES] = averaged ? optimizer->average : parameters->values;
    blocks[TRAINED] = averaged ? parameters->values : NULL;
    for (int i = 0; i < QKV_MOMENTS_MAX; i++) blocks[MOMENTS + i] = optimizer ? optimizer->moments[i] : NULL;
    return QKV_OK;
}

/* ---- saving ---- */

/* What is about to be written; all of it lives in the arena of the metadata. */
struct contents {
    int64_t count;
    struct qkv_safetensor *tensors;
    struct qkv_state metadata;
};

static void list_tensors(struct contents *contents, const struct qkv_parameters *parameters,
                         void *const blocks[BLOCKS])
{
    size_t max = (size_t)parameters->count * (BLOCKS + 1); /* with scales */
    contents->tensors = qkv_arena_allocate(&contents->metadata.arena, max * sizeof *contents->tensors);
    for (int block = 0; block < BLOCKS; block++) {
        for (int64_t p = 0; p < parameters->count && blocks[block] && contents->tensors; p++) {
            const struct qkv_parameter *parameter = parameters->list[p];
            const char *name =
                qkv_arena_format(&contents->metadata.arena, "%s%s", PREFIX[block], parameter->name);
            size_t offset = (size_t)parameter->offset * qkv_dtype_size(parameters->dtype);
            contents->tensors[contents->count++] = (struct qkv_safetensor){
                .name = name,
                .type = qkv_stored_type_of(parameters->dtype),
                .shape = parameter->shape,
                .data = (const char *)blocks[block] + offset,
            };
        }
    }
}

/* Stores a tensor in half precision, unless one of its numbers would become infinite. */
static void store_half(struct qkv_safetensor *tensor, enum qkv_dtype dtype, struct qkv_arena *arena)
{
    int64_t count = qkv_shape_count(tensor->shape);
    uint16_t *halves = qkv_arena_allocate(arena, (size_t)count * sizeof *halves);
    for (int64_t i = 0; halves && i < count; i++) {
        halves[i] = qkv_half_of((float)qkv_dtype_get(dtype, tensor->data, i));
        if (isinf(qkv_half_value(halves[i]))) return;
    }
    tensor->type = QKV_STORED_F16;
    tensor->data = halves;
}

/* Stores matrix `parameter` as int8, and appends its scales, for which contents->tensors has room. */
static void store_int8(struct contents *contents, struct qkv_safetensor *tensor,
                       const struct qkv_parameter *parameter)
{
    const struct qkv_int8_layout layout = qkv_int8_layout_of(parameter);
    const float *values = tensor->data;
    int8_t *numbers = qkv_arena_allocate(&contents->metadata.arena, (size_t)parameter->count);
    float *scales = qkv_arena_allocate(&contents->metadata.arena, (size_t)layout.scales * sizeof *scales);
    const char *name = qkv_arena_format(&contents->metadata.arena, "%s" SCALE, tensor->name);
    if (contents->metadata.arena.failed) return;
    for (int64_t i = 0; i < layout.scales; i++) {
        int64_t first = i * layout.scale_step;
        scales[i] = qkv_int8_scale(layout.count, values + first, layout.step);
        for (int64_t j = 0; j < layout.count; j++)
            numbers[first + j * layout.step] = qkv_int8_of(values[first + j * layout.step], scales[i]);
    }
    tensor->type = QKV_STORED_I8;
    tensor->data = numbers;
    contents->tensors[contents->count++] =
        (struct qkv_safetensor){name, QKV_STORED_F32, QKV_SHAPE(layout.scales), scales};
}

static void list_metadata(struct qkv_state *metadata, const struct qkv_optimizer_state *optimizer,
                          const struct qkv_state *state)
{
    qkv_state_set_integer(metadata, "qkv.format", QKV_CHECKPOINT_FORMAT);
    if (optimizer) {
        qkv_state_set(metadata, "qkv.optimizer", optimizer->name);
        qkv_state_set_integer(metadata, "qkv.optimizer.updates", optimizer->updates);
    }
    for (int64_t i = 0; state && i < state->count; i++)
        qkv_state_set(metadata, state->list[i].key, state->list[i].text);
    metadata->failed |= state && state->failed;
}

/* Keys of the checkpoint itself cannot be keys of the state. */
static enum qkv_status check_keys(const struct qkv_state *state, const char *path, struct qkv_error *error)
{
    for (int64_t i = 0; state && i < state->count; i++)
        if (!strncmp(state->list[i].key, "qkv.", 4))
            return qkv_error_set(error, "%s: the key %s of a state is reserved", path, state->list[i].key);
    return QKV_OK;
}

enum stored_as { STORED_FULL, STORED_HALF, STORED_INT8 };

/* Converts the tensors of all values to the type in which they are stored. */
static void convert(struct contents *contents, const struct qkv_parameters *parameters, enum stored_as type)
{
    int64_t count = contents->count; /* without the scales, which store_int8 appends */
    for (int64_t i = 0; i < count; i++)
        if (type == STORED_HALF)
            store_half(&contents->tensors[i], parameters->dtype, &contents->metadata.arena);
        else if (type == STORED_INT8 && contents->tensors[i].shape.rank == 2)
            store_int8(contents, &contents->tensors[i], parameters->list[i]);
}

static enum qkv_status save(const char *path, const struct qkv_parameters *parameters,
                            const struct qkv_optimizer_state *optimizer, const struct qkv_state *state,
                            enum stored_as type, struct qkv_error *error)
{
    void *blocks[BLOCKS];
    if (list_blocks(parameters, optimizer, blocks, path, error) || check_keys(state, path, error))
        return QKV_INVALID;
    struct contents contents = {0};
    list_tensors(&contents, parameters, blocks);
    list_metadata(&contents.metadata, optimizer, state);
    convert(&contents, parameters, type);
    enum qkv_status status =
        contents.metadata.failed || contents.metadata.arena.failed
            ? qkv_error_set(error, "%s: out of memory", path)
            : qkv_safetensors_write(path, contents.count, contents.tensors, contents.metadata.count,
                                    contents.metadata.list, error);
    qkv_state_release(&contents.metadata);
    return status;
}

enum qkv_status qkv_checkpoint_save(const char *path, const struct qkv_parameters *parameters,
                                    const struct qkv_optimizer_state *optimizer,
                                    const struct qkv_state *state, struct qkv_error *error)
{
    return save(path, parameters, optimizer, state, STORED_FULL, error);
}

enum qkv_status qkv_checkpoint_save_half(const char *path, const struct qkv_parameters *parameters,
                                         const struct qkv_state *state, struct qkv_error *error)
{
    return save(path, parameters, NULL, state, STORED_HALF, error);
}

/* Fails when a parameter has the name that the scales of a matrix will have: no reader accepts two tensors of one name. */
static enum qkv_status check_scale_names(const char *path, const struct qkv_parameters *parameters,
                                         struct qkv_error *error)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *matrix = parameters->list[p];
        char name[512];
        if (matrix->shape.rank != 2) continue;
        snprintf(name, sizeof name, "%s" SCALE, matrix->name);
        if (qkv_parameters_find(parameters, name))
            return qkv_error_set(error, "%s: the parameter %s has the name of the scales of %s: rename it",
                                 path, name, matrix->name);
    }
    return QKV_OK;
}

enum qkv_status qkv_checkpoint_save_int8(const char *path, const struct qkv_parameters *parameters,
                                         const struct qkv_state *state, struct qkv_error *error)
{
    if (parameters->dtype != QKV_FLOAT32)
        return qkv_error_set(error, "%s: only float32 parameters can be stored as int8", path);
    if (check_scale_names(path, parameters, error)) return QKV_INVALID;
    return save(path, parameters, NULL, state, STORED_INT8, error);
}

/* ---- loading ---- */

struct loading {
    const char *path;
    struct qkv_safetensors file;
    const struct qkv_parameters *parameters;
    const struct qkv_optimizer_state *optimizer;
    void *blocks[BLOCKS];
    const struct qkv_safetensor **source; /* [BLOCKS, parameters]: the tensor to load; in file.arena */
    const struct qkv_safetensor **scale;  /* [parameters]: of an int8 matrix, or NULL; in file.arena */
    int64_t updates;                      /* of the optimizer */
    struct qkv_error *error;
};

static enum qkv_status check_format(const struct loading *loading)
{
    const char *text = qkv_safetensors_metadata(&loading->file, "qkv.format");
    int64_t format;
    if (!text || qkv_number_kind(text) != QKV_NUMBER_INTEGER || !qkv_integer_read(text, &format) ||
        format < 1)
        return qkv_error_set(loading->error, "%s: is not a checkpoint of qkv: its metadata has no qkv.format",
                             loading->path);
    if (format <= QKV_CHECKPOINT_FORMAT) return QKV_OK;
    return qkv_error_set(loading->error,
                         "%s: has format %lld, but this qkv reads formats up to %d: use a newer qkv",
                         loading->path, (long long)format, QKV_CHECKPOINT_FORMAT);
}

static enum qkv_status check_optimizer(struct loading *loading)
{
    if (!loading->optimizer) return QKV_OK;
    const char *wanted = loading->optimizer->name;
    const char *kind = qkv_safetensors_metadata(&loading->file, "qkv.optimizer");
    const char *updates = qkv_safetensors_metadata(&loading->file, "qkv.optimizer.updates");
    if (!kind)
        return qkv_error_set(
            loading->error,
            "%s: holds values but no state of an optimizer, so training cannot continue from it",
            loading->path);
    if (strcmp(kind, wanted) != 0)
        return qkv_error_set(loading->error, "%s: holds the state of the optimizer %s, but the config has %s",
                             loading->path, kind, wanted);
    if (!updates || qkv_number_kind(updates) != QKV_NUMBER_INTEGER ||
        !qkv_integer_read(updates, &loading->updates) || loading->updates < 0 ||
        loading->updates > QKV_COUNT_MAX)
        return qkv_error_set(loading->error,
                             "%s: qkv.optimizer.updates must be a whole number from 0 to %lld", loading->path,
                             (long long)QKV_COUNT_MAX);
    return QKV_OK;
}

/* The block that a tensor belongs to, by the prefix of its name. */
static int block_of(const char *name)
{
    for (int block = BLOCKS - 1; block > VALUES; block--)
        if (!strncmp(name, PREFIX[block], strlen(PREFIX[block]))) return block;
    return VALUES;
}

/* The parameter whose scales a tensor holds; NULL: it holds no scales. */
static const struct qkv_parameter *scaled_parameter(const struct loading *loading,
                                                    const struct qkv_safetensor *tensor)
{
    for (int64_t p = 0; p < loading->parameters->count; p++) {
        const struct qkv_parameter *parameter = loading->parameters->list[p];
        size_t length = strlen(parameter->name);
        if (!strncmp(tensor->name, parameter->name, length) && !strcmp(tensor->name + length, SCALE))
            return parameter;
    }
    return NULL;
}

/* Enters the scales of a matrix in loading->scale. */
static enum qkv_status place_scales(struct loading *loading, const struct qkv_safetensor *tensor,
                                    const struct qkv_parameter *parameter)
{
    bool is_matrix = parameter->shape.rank == 2;
    int64_t wanted = is_matrix ? qkv_int8_layout_of(parameter).scales : 0;
    if (tensor->type != QKV_STORED_F32 || !qkv_are_equal(tensor->shape, QKV_SHAPE(wanted)))
        return qkv_error_set(loading->error, "%s: %s is %s of type %s, but must be [%lld] of type F32",
                             loading->path, tensor->name, qkv_shape_text(tensor->shape),
                             qkv_stored_type_name(tensor->type), (long long)wanted);
    loading->scale[parameter->index] = tensor;
    return QKV_OK;
}

/* An int8 matrix needs scales, and nothing else has them. */
static enum qkv_status check_scales(const struct loading *loading)
{
    for (int64_t p = 0; p < BLOCKS * loading->parameters->count; p++) {
        const struct qkv_safetensor *tensor = loading->source[p];
        bool is_value = p < loading->parameters->count, is_scaled = is_value && loading->scale[p];
        if (tensor && (tensor->type == QKV_STORED_I8) != is_scaled)
            return qkv_error_set(loading->error, "%s: %s is of type %s, but there %s %s" SCALE, loading->path,
                                 tensor->name, qkv_stored_type_name(tensor->type), is_scaled ? "is" : "is no",
                                 tensor->name);
    }
    return QKV_OK;
}

/* Finds the parameter and the block that a tensor belongs to, and enters it in loading->source. Skips moments
 * if they are not wanted. */
static enum qkv_status place_tensor(struct loading *loading, const struct qkv_safetensor *tensor)
{
    int block = block_of(tensor->name);
    if (block != VALUES && !loading->optimizer) return QKV_OK;
    const struct qkv_parameter *parameter =
        loading->blocks[block]
            ? qkv_parameters_find(loading->parameters, tensor->name + strlen(PREFIX[block]))
            : NULL;
    const struct qkv_parameter *scaled =
        !parameter && block == VALUES ? scaled_parameter(loading, tensor) : NULL;
    if (scaled) return place_scales(loading, tensor, scaled);
    if (!parameter)
        return qkv_error_set(loading->error, "%s: holds %s, which the %s does not have", loading->path,
                             tensor->name, loading->blocks[block] ? "model" : "optimizer");
    if (!qkv_are_equal(tensor->shape, parameter->shape))
        return qkv_error_set(loading->error, "%s: %s is %s, but the model has %s", loading->path,
                             tensor->name, qkv_shape_text(tensor->shape), qkv_shape_text(parameter->shape));
    loading->source[block * loading->parameters->count + parameter->index] = tensor;
    return QKV_OK;
}

/* A checkpoint that was trained without a moving average has none. */
static enum qkv_status check_average(const struct loading *loading)
{
    if (!loading->blocks[TRAINED]) return QKV_OK;
    for (int64_t i = 0; i < loading->file.count; i++)
        if (block_of(loading->file.tensors[i].name) == TRAINED) return QKV_OK;
    return qkv_error_set(loading->error,
                         "%s: holds no moving average of the parameters, because it was trained with "
                         "training.ema 0: put it back, or train a new run",
                         loading->path);
}

static enum qkv_status place_tensors(struct loading *loading)
{
    int64_t count = loading->parameters->count;
    loading->source = qkv_arena_zeroed(&loading->file.arena, (size_t)(BLOCKS * count) * sizeof(void *));
    loading->scale = qkv_arena_zeroed(&loading->file.arena, (size_t)count * sizeof(void *));
    if (!loading->source || !loading->scale)
        return qkv_error_set(loading->error, "%s: out of memory", loading->path);
    for (int64_t i = 0; i < loading->file.count; i++)
        if (place_tensor(loading, &loading->file.tensors[i])) return QKV_INVALID;
    for (int block = 0; block < BLOCKS; block++)
        for (int64_t p = 0; p < count && loading->blocks[block]; p++)
            if (!loading->source[block * count + p])
                return qkv_error_set(loading->error, "%s: has no %s%s, which the model needs", loading->path,
                                     PREFIX[block], loading->parameters->list[p]->name);
    return check_scales(loading);
}

static enum qkv_status load_state(const struct loading *loading, struct qkv_state *state)
{
    for (int64_t i = 0; state && i < loading->file.metadata_count; i++) {
        const struct qkv_state_entry *entry = &loading->file.metadata[i];
        if (strncmp(entry->key, "qkv.", 4) != 0) qkv_state_set(state, entry->key, entry->text);
    }
    if (!state || !state->failed) return QKV_OK;
    return qkv_error_set(loading->error, "%s: out of memory", loading->path);
}

/* values = the int8 numbers, which they hold now, times their scales. */
static void multiply_by_scales(const struct qkv_parameter *parameter, const struct qkv_safetensor *scales,
                               enum qkv_dtype dtype, void *values)
{
    const struct qkv_int8_layout layout = qkv_int8_layout_of(parameter);
    for (int64_t i = 0; i < layout.scales; i++) {
        float scale;
        memcpy(&scale, (const char *)scales->data + (size_t)i * sizeof scale, sizeof scale);
        for (int64_t j = 0; j < layout.count; j++) {
            int64_t at = i * layout.scale_step + j * layout.step;
            qkv_dtype_set(dtype, values, at, qkv_dtype_get(dtype, values, at) * (double)scale);
        }
    }
}

/* Copies the tensors to the blocks in memory; multiplies int8 matrices by their scales. */
static void copy_tensors(const struct loading *loading)
{
    enum qkv_dtype dtype = loading->parameters->dtype;
    for (int block = 0; block < BLOCKS; block++) {
        for (int64_t p = 0; p < loading->parameters->count && loading->blocks[block]; p++) {
            const struct qkv_parameter *parameter = loading->parameters->list[p];
            const struct qkv_safetensor *tensor = loading->source[block * loading->parameters->count + p];
            void *to = (char *)loading->blocks[block] + (size_t)parameter->offset * qkv_dtype_size(dtype);
            qkv_safetensor_copy(tensor, dtype, to);
            if (tensor->type == QKV_STORED_I8) multiply_by_scales(parameter, loading->scale[p], dtype, to);
        }
    }
}

static bool is_quantized(const struct loading *loading)
{
    for (int64_t p = 0; p < loading->parameters->count; p++)
        if (loading->scale[p]) return true;
    return false;
}

enum qkv_status qkv_checkpoint_load(const char *path, struct qkv_parameters *parameters,
                                    struct qkv_optimizer_state *optimizer, struct qkv_state *state,
                                    struct qkv_error *error)
{
    struct loading loading = {.path = path, .parameters = parameters, .optimizer = optimizer, .error = error};
    if (list_blocks(parameters, optimizer, loading.blocks, path, error)) return QKV_INVALID;
    if (qkv_safetensors_read(&loading.file, path, false, error)) return QKV_INVALID;
    enum qkv_status status = check_format(&loading);
    if (!status) status = load_state(&loading, state);
    if (!status) status = check_optimizer(&loading);
    if (!status) status = check_average(&loading);
    if (!status) status = place_tensors(&loading);
    if (!status) {
        copy_tensors(&loading);
        qkv_parameters_replaced(parameters);
        if (is_quantized(&loading) && parameters->dtype == QKV_FLOAT32)
            parameters->products = QKV_PRECISION_INT8;
        if (optimizer) optimizer->updates = loading.updates;
    }
    qkv_safetensors_release(&loading.file);
    return status;
}

/* ---- parameters by name, from files of any program ---- */

static const struct qkv_safetensor *find_tensor(int64_t count, const struct qkv_safetensor *tensors,
                                                const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (!strcmp(tensors[i].name, name)) return &tensors[i];
    return NULL;
}

static void add_name(struct qkv_names *names, const char **list, const char *name)
{
    list[names->count++] = name;
    names->name = list;
}

bool qkv_weights_match(int64_t count, const struct qkv_safetensor *tensors,
                       const struct qkv_parameters *parameters, const bool *may_differ,
                       const struct qkv_safetensor **source, struct qkv_load_report *report)
{
    size_t max = (size_t)(parameters->count + 1) * sizeof(char *);
    const char **missing = qkv_arena_allocate(&report->arena, max),
               **reshaped = qkv_arena_allocate(&report->arena, max),
               **superfluous = qkv_arena_allocate(&report->arena, (size_t)(count + 1) * sizeof(char *));
    if (!missing || !reshaped || !superfluous) return false;
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        const struct qkv_safetensor *tensor = find_tensor(count, tensors, parameter->name);
        bool compares = !may_differ || !may_differ[p];
        bool is_reshaped = tensor && compares && !qkv_are_equal(tensor->shape, parameter->shape);
        source[p] = is_reshaped ? NULL : tensor;
        report->loaded += source[p] != NULL;
        if (source[p]) continue;
        const char *name = qkv_arena_string(&report->arena, parameter->name);
        if (!name) return false;
        add_name(tensor ? &report->reshaped : &report->missing, tensor ? reshaped : missing, name);
    }
    for (int64_t i = 0; i < count; i++) {
        if (!strncmp(tensors[i].name, "optimizer.", 10) || qkv_parameters_find(parameters, tensors[i].name))
            continue;
        const char *name = qkv_arena_string(&report->arena, tensors[i].name);
        if (!name) return false;
        add_name(&report->superfluous, superfluous, name);
    }
    return true;
}

/* ---- the differences, as a sentence ---- */

/* The text with `; 5 <what> (a, b, c and 2 more)` behind it; NULL when memory runs out. */
static const char *add_names(struct qkv_arena *arena, const char *text, const struct qkv_names *names,
                             const char *one, const char *many)
{
    enum { SHOWN = 3 };
    if (!text || !names->count) return text;
    text = qkv_arena_format(arena, "%s%s%lld %s", text, *text ? "; " : "", (long long)names->count,
                            names->count == 1 ? one : many);
    for (int64_t i = 0; text && i < names->count && i < SHOWN; i++)
        text = qkv_arena_format(arena, "%s%s%s", text, i ? ", " : " (", names->name[i]);
    if (text && names->count > SHOWN)
        text = qkv_arena_format(arena, "%s and %lld more", text, (long long)(names->count - SHOWN));
    return text ? qkv_arena_format(arena, "%s)", text) : NULL;
}

enum qkv_status qkv_weights_check(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                  const struct qkv_parameters *parameters,
                                  const struct qkv_load_report *report, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    const char *text = add_names(&arena, "", &report->missing, "parameter of the model is missing",
                                 "parameters of the model are missing");
    text = add_names(&arena, text, &report->superfluous, "tensor is not in the model",
                     "tensors are not in the model");
    text = add_names(&arena, text, &report->reshaped, "parameter has another shape",
                     "parameters have other shapes");
    if (text && report->reshaped.count) {
        const char *name = report->reshaped.name[0];
        text = qkv_arena_format(&arena, "%s: %s is %s, but the model has %s", text, name,
                                qkv_shape_text(find_tensor(count, tensors, name)->shape),
                                qkv_shape_text(qkv_parameters_find(parameters, name)->shape));
    }
    enum qkv_status status = !text   ? qkv_no_memory(error)
                             : *text ? qkv_error_set(error, "%s: %s", path, text)
                                     : QKV_OK;
    qkv_arena_release(&arena);
    return status;
}

static void copy_found(struct qkv_parameters *parameters, const struct qkv_safetensor *const *source)
{
    bool is_any = false;
    for (int64_t p = 0; p < parameters->count; p++) {
        size_t offset = (size_t)parameters->list[p]->offset * qkv_dtype_size(parameters->dtype);
        if (source[p]) qkv_safetensor_copy(source[p], parameters->dtype, (char *)parameters->values + offset);
        is_any |= source[p] != NULL;
    }
    if (is_any) qkv_parameters_replaced(parameters);
}

/* Refuses int8, because its scales are separate tensors, and only checkpoints of qkv define which. */
static enum qkv_status check_not_int8(const char *path, const struct qkv_safetensors *file,
                                      struct qkv_error *error)
{
    for (int64_t i = 0; i < file->count; i++)
        if (file->tensors[i].type == QKV_STORED_I8)
            return qkv_error_set(error, "%s: %s is quantised (I8): load the file that it was made of", path,
                                 file->tensors[i].name);
    return QKV_OK;
}

enum qkv_status qkv_parameters_load(const char *path, struct qkv_parameters *parameters, bool is_partial,
                                    struct qkv_load_report *report, struct qkv_error *error)
{
    struct qkv_load_report ignored;
    struct qkv_load_report *found = report ? report : &ignored;
    struct qkv_safetensors file;
    *found = (struct qkv_load_report){0};
    if (!parameters->values) return qkv_error_set(error, "%s: the parameters are not allocated", path);
    if (qkv_safetensors_read(&file, path, true, error)) return QKV_INVALID;
    const struct qkv_safetensor **source =
        qkv_arena_zeroed(&file.arena, (size_t)(parameters->count + 1) * sizeof(void *));
    enum qkv_status status = check_not_int8(path, &file, error);
    if (!status && (!source || !qkv_weights_match(file.count, file.tensors, parameters, NULL, source, found)))
        status = qkv_error_set(error, "%s: out of memory", path);
    if (!status && !is_partial)
        status = qkv_weights_check(path, file.count, file.tensors, parameters, found, error);
    if (!status) copy_found(parameters, source);
    qkv_safetensors_release(&file);
    if (!report) qkv_load_report_release(&ignored);
    return status;
}

void qkv_load_report_release(struct qkv_load_report *report)
{
    qkv_arena_release(&report->arena);
    *report = (struct qkv_load_report){0};
}
