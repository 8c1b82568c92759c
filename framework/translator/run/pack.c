/* Packs an open run. */
#include "run/packed_run.h"

#include "config/config_keys.h"
#include "config/value.h"
#include "core/half.h"
#include "data/bpe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A buffer of bytes that grows; `failed` is set when memory runs out. */
struct block {
    unsigned char *bytes;
    size_t size, capacity;
    bool failed;
};

static void add(struct block *block, const void *bytes, size_t size)
{
    if (block->failed) return;
    if (size > block->capacity - block->size) {
        size_t capacity = 2 * (block->size + size);
        unsigned char *grown = realloc(block->bytes, capacity);
        if (!grown) {
            block->failed = true;
            return;
        }
        block->bytes = grown;
        block->capacity = capacity;
    }
    if (size) memcpy(block->bytes + block->size, bytes, size);
    block->size += size;
}

static void add_text(struct block *block, const char *text)
{
    add(block, text, strlen(text));
}

/* Begins a section, whose size is not known yet; returns where it begins. */
static size_t begin(struct block *block)
{
    const uint64_t size = 0;
    add(block, &size, sizeof size);
    return block->size;
}

static void end(struct block *block, size_t start)
{
    uint64_t size = block->size - start;
    if (!block->failed) memcpy(block->bytes + start - sizeof size, &size, sizeof size);
}

static void add_config(struct block *block, const struct qkv_config *config)
{
    struct qkv_arena arena = {0};
    size_t start = begin(block);
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (key->is_path) continue;
        const char *text =
            key->kind == QKV_KEY_TEXT ? qkv_key_text(key, config) : qkv_value_text(key, config, &arena);
        if (!text) {
            block->failed = true;
            break;
        }
        add_text(block, key->path);
        add_text(block, "=");
        add(block, text, strlen(text) + 1);
    }
    end(block, start);
    qkv_arena_release(&arena);
}

static void add_vocabulary(struct block *block, const struct qkv_vocabulary *vocabulary)
{
    size_t start = begin(block);
    for (int32_t id = 0; id < vocabulary->size; id++) {
        add_text(block, qkv_vocabulary_token(vocabulary, id));
        add_text(block, "\n");
    }
    end(block, start);
}

static void add_merges(struct block *block, const struct qkv_bpe *bpe)
{
    size_t start = begin(block);
    for (int64_t i = 0; bpe && i < bpe->count; i++) {
        int32_t pair = bpe->order[i];
        add_text(block, qkv_types_token(&bpe->symbols, bpe->pairs.left[pair]));
        add_text(block, " ");
        add_text(block, qkv_types_token(&bpe->symbols, bpe->pairs.right[pair]));
        add_text(block, "\n");
    }
    for (int64_t i = 0; bpe && i < bpe->kept.size; i++) {
        add_text(block, qkv_types_token(&bpe->kept, i));
        add_text(block, "\n");
    }
    end(block, start);
}

/* The first parameter with a number beyond the range of half precision, or NULL. */
static const struct qkv_parameter *too_large(const struct qkv_parameters *parameters)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        const float *values = (const float *)parameters->values + parameter->offset;
        for (int64_t i = 0; i < parameter->count; i++)
            if (isinf(qkv_half_value(qkv_half_of(values[i])))) return parameter;
    }
    return NULL;
}

static void add_parameters(struct block *block, const struct qkv_parameters *parameters,
                           enum qkv_packed_numbers numbers)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        const float *values = (const float *)parameters->values + parameter->offset;
        if (numbers == QKV_PACKED_FLOAT32) add(block, values, (size_t)parameter->count * sizeof *values);
        for (int64_t i = 0; numbers == QKV_PACKED_HALF && i < parameter->count; i++) {
            uint16_t half = qkv_half_of(values[i]);
            add(block, &half, sizeof half);
        }
    }
}

/* Fails when a parameter is out of the range of this type of numbers. */
static enum qkv_status check_range(const struct qkv_parameters *parameters, enum qkv_packed_numbers numbers,
                                   struct qkv_error *error)
{
    QKV_BUG(parameters->dtype != QKV_FLOAT32, "only parameters in float32 can be packed");
    const struct qkv_parameter *large = numbers == QKV_PACKED_HALF ? too_large(parameters) : NULL;
    if (!large) return QKV_OK;
    return qkv_error_set(error, "%s holds a number beyond 65504, the greatest of half precision",
                         large->name);
}

/* Gives the block to the caller. */
static enum qkv_status give(struct block *block, unsigned char **bytes, size_t *size, struct qkv_error *error)
{
    if (block->failed) {
        free(block->bytes);
        return qkv_error_set(error, "out of memory for the packed run");
    }
    *bytes = block->bytes;
    *size = block->size;
    return QKV_OK;
}

enum qkv_status qkv_run_pack_parameters(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                                        unsigned char **bytes, size_t *size, struct qkv_error *error)
{
    struct block block = {0};
    if (check_range(&run->model->parameters, numbers, error)) return QKV_INVALID;
    add_parameters(&block, &run->model->parameters, numbers);
    return give(&block, bytes, size, error);
}

enum qkv_status qkv_run_pack(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                             unsigned char **bytes, size_t *size, struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &run->model->parameters;
    if (check_range(parameters, numbers, error)) return QKV_INVALID;
    struct block block = {0};
    add_config(&block, &run->config);
    add_vocabulary(&block, &run->source);
    add_vocabulary(&block, &run->target);
    for (int side = 0; side < 2; side++) add_merges(&block, run->bpe[side]);
    size_t start = begin(&block);
    add_parameters(&block, parameters, numbers);
    end(&block, start);
    return give(&block, bytes, size, error);
}
