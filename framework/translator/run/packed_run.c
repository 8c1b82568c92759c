/* Packs an open run, and opens a packed one. */
#include "run/packed_run.h"
#include "core/memory.h"
#include "core/text.h"

#include "config/config_keys.h"
#include "core/numbers.h"
#include "data/bpe.h"

#include <math.h>

/* ---- packing ---- */

/* Begins a section, whose size is not known yet; returns where it begins. */
static size_t begin_section(struct bytes *block)
{
    const uint64_t size = 0;
    qkv_bytes_append(block, &size, sizeof size);
    return block->size;
}

static void end_section(struct bytes *block, size_t start)
{
    uint64_t size = block->size - start;
    if (!block->failed) memcpy(block->data + start - sizeof size, &size, sizeof size);
}

static void add_config(struct bytes *block, const struct qkv_config *config)
{
    struct qkv_arena arena = {0};
    size_t start = begin_section(block);
    qkv_bytes_append(block, config->data.src.plain_marks ? "1" : "0", 2);
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (key->is_path) continue;
        const char *text =
            key->kind == QKV_KEY_TEXT ? qkv_key_text(key, config) : qkv_value_text(key, config, &arena);
        if (!text) {
            block->failed = true;
            break;
        }
        if (!*text)
            continue; /* the default, also where the key has no effect, as data.src.lang without a source */
        qkv_bytes_format(block, "%s=", key->path);
        qkv_bytes_append(block, text, strlen(text) + 1);
    }
    end_section(block, start);
    qkv_arena_release(&arena);
}

static void add_vocabulary(struct bytes *block, const struct qkv_vocabulary *vocabulary)
{
    size_t start = begin_section(block);
    for (int32_t id = 0; id < vocabulary->size; id++)
        qkv_bytes_format(block, "%s\n", qkv_vocabulary_token(vocabulary, id));
    end_section(block, start);
}

static void add_merges(struct bytes *block, const struct qkv_bpe *bpe)
{
    size_t start = begin_section(block);
    for (int64_t i = 0; bpe && i < bpe->count; i++) {
        int32_t pair = bpe->order[i];
        qkv_bytes_format(block, "%s %s\n", qkv_types_token(&bpe->symbols, bpe->pairs.left[pair]),
                         qkv_types_token(&bpe->symbols, bpe->pairs.right[pair]));
    }
    for (int64_t i = 0; bpe && i < bpe->kept.size; i++)
        qkv_bytes_format(block, "%s\n", qkv_types_token(&bpe->kept, i));
    end_section(block, start);
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

static void add_parameters(struct bytes *block, const struct qkv_parameters *parameters,
                           enum qkv_packed_numbers numbers)
{
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        const float *values = (const float *)parameters->values + parameter->offset;
        if (numbers == QKV_PACKED_FLOAT32)
            qkv_bytes_append(block, values, (size_t)parameter->count * sizeof *values);
        for (int64_t i = 0; numbers == QKV_PACKED_HALF && i < parameter->count; i++) {
            uint16_t half = qkv_half_of(values[i]);
            qkv_bytes_append(block, &half, sizeof half);
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
static enum qkv_status give(struct bytes *block, unsigned char **bytes, size_t *size, struct qkv_error *error)
{
    if (block->failed) {
        free(block->data);
        return qkv_no_memory(error);
    }
    *bytes = (unsigned char *)block->data;
    *size = block->size;
    return QKV_OK;
}

enum qkv_status qkv_run_pack_parameters(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                                        unsigned char **bytes, size_t *size, struct qkv_error *error)
{
    struct bytes block = {0};
    if (check_range(&run->model->parameters, numbers, error)) return QKV_INVALID;
    add_parameters(&block, &run->model->parameters, numbers);
    return give(&block, bytes, size, error);
}

enum qkv_status qkv_run_pack(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                             unsigned char **bytes, size_t *size, struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &run->model->parameters;
    if (check_range(parameters, numbers, error)) return QKV_INVALID;
    struct bytes block = {0};
    add_config(&block, &run->config);
    add_vocabulary(&block, &run->source);
    add_vocabulary(&block, &run->target);
    for (int side = 0; side < 2; side++) add_merges(&block, run->bpe[side]);
    size_t start = begin_section(&block);
    add_parameters(&block, parameters, numbers);
    end_section(&block, start);
    return give(&block, bytes, size, error);
}

/* ---- opening ---- */

/* A section of the packed run; its first `used` bytes have been read. */
struct section {
    const unsigned char *bytes;
    size_t size, used;
};

static enum qkv_status not_packed(struct qkv_error *error)
{
    return qkv_error_set(error, "the model is damaged, or was packed by another version of qkv");
}

/* Reads the next section of a block; false when the block is cut short. */
static bool next_section(struct section *block, struct section *section)
{
    uint64_t size;
    if (block->size - block->used < sizeof size) return false;
    memcpy(&size, block->bytes + block->used, sizeof size);
    block->used += sizeof size;
    if (size > block->size - block->used) return false;
    *section = (struct section){block->bytes + block->used, (size_t)size, 0};
    block->used += (size_t)size;
    return true;
}

/* Copies the next text, which is terminated by the byte `end`, into the arena; NULL when there is none, or no memory. */
static char *next_text(struct section *section, char end, struct qkv_arena *arena)
{
    const unsigned char *start = section->bytes + section->used;
    const unsigned char *stop = memchr(start, end, section->size - section->used);
    if (!stop) return NULL;
    size_t length = (size_t)(stop - start);
    char *text = qkv_arena_allocate(arena, length + 1);
    if (!text) return NULL;
    memcpy(text, start, length);
    text[length] = '\0';
    section->used += length + 1;
    return text;
}

static bool is_read(const struct section *section)
{
    return section->used == section->size;
}

static bool read_config(struct qkv_run *run, struct section *section)
{
    struct qkv_collector collector = {.arena = &run->arena};
    const char *plain_marks = next_text(section, '\0', &run->arena);
    if (!plain_marks || qkv_config_default(&run->config, &run->arena, "")) return false;
    run->config.data.src.plain_marks = run->config.data.trg.plain_marks = *plain_marks == '1';
    for (char *line; (line = next_text(section, '\0', &run->arena));) {
        char *equals = strchr(line, '=');
        if (!equals) return false;
        *equals = '\0';
        const struct qkv_key *key = qkv_schema_find(&qkv_config_schema, line);
        if (!key ||
            !qkv_value_read_text(key, equals + 1, (struct qkv_place){.name = line}, &run->config, &collector))
            return false;
    }
    return is_read(section);
}

static bool read_vocabulary(struct qkv_vocabulary *vocabulary, struct section *section)
{
    struct qkv_arena arena = {0};
    bool good = true;
    for (char *token; good && (token = next_text(section, '\n', &arena)); qkv_arena_reset(&arena))
        good = qkv_types_add(&vocabulary->types, token, 0) >= 0;
    qkv_arena_release(&arena);
    vocabulary->size = (int32_t)vocabulary->types.size;
    return good && is_read(section) && vocabulary->size >= QKV_SPECIALS;
}

static bool read_merges(struct qkv_run *run, int side, struct section *section)
{
    struct qkv_text_config *text = side ? &run->config.data.trg : &run->config.data.src;
    if (text->level != QKV_LEVEL_BPE) return is_read(section);
    struct qkv_arena arena = {0};
    struct qkv_bpe *bpe = calloc(1, sizeof *bpe);
    struct qkv_types kept = {0};
    struct qkv_error error;
    bool good = bpe != NULL;
    for (char *merge; good && (merge = next_text(section, '\n', &arena)); qkv_arena_reset(&arena)) {
        char *space = strchr(merge, ' ');
        if (space) *space = '\0';
        good = space ? qkv_bpe_add(bpe, merge, space + 1) : qkv_types_add(&kept, merge, 1) >= 0;
    }
    if (good && kept.size) good = !qkv_bpe_restrict(bpe, &kept, 1, &error);
    qkv_types_release(&kept);
    qkv_arena_release(&arena);
    text->bpe = run->bpe[side] = bpe;
    return good && is_read(section);
}

static bool read_parameters(struct qkv_parameters *parameters, const struct section *section)
{
    uint64_t total = (uint64_t)qkv_parameters_total(parameters);
    bool half = section->size == total * sizeof(uint16_t);
    if (!half && section->size != total * sizeof(float)) return false;
    const unsigned char *from = section->bytes;
    for (int64_t p = 0; p < parameters->count; p++) {
        const struct qkv_parameter *parameter = parameters->list[p];
        float *values = (float *)parameters->values + parameter->offset;
        size_t size = (size_t)parameter->count * (half ? sizeof(uint16_t) : sizeof(float));
        if (!half) memcpy(values, from, size);
        for (int64_t i = 0; half && i < parameter->count; i++) {
            uint16_t number;
            memcpy(&number, from + (size_t)i * sizeof number, sizeof number);
            values[i] = qkv_half_value(number);
        }
        from += size;
    }
    parameters->changes++;
    return true;
}

static enum qkv_status read_parts(struct qkv_run *run, struct section *block, struct qkv_error *error)
{
    enum { CONFIG, SOURCE, TARGET, SOURCE_MERGES, TARGET_MERGES, PARAMETERS, SECTIONS };
    struct section part[SECTIONS];
    bool good = true;
    for (int i = 0; good && i < SECTIONS; i++) good = next_section(block, &part[i]);
    if (!good || !is_read(block) || !read_config(run, &part[CONFIG]) ||
        !read_vocabulary(&run->source, &part[SOURCE]) || !read_vocabulary(&run->target, &part[TARGET]) ||
        !read_merges(run, 0, &part[SOURCE_MERGES]) || !read_merges(run, 1, &part[TARGET_MERGES]))
        return not_packed(error);
    run->sides = qkv_sides_of(&run->config.data, &run->config.model);
    run->model = qkv_model_new(&run->config.model, run->source.size, run->target.size, QKV_FLOAT32, error);
    if (!run->model) return QKV_INVALID;
    return read_parameters(&run->model->parameters, &part[PARAMETERS]) ? QKV_OK : not_packed(error);
}

enum qkv_status qkv_run_unpack_parameters(struct qkv_run *run, const unsigned char *bytes, size_t size,
                                          struct qkv_error *error)
{
    const struct section section = {bytes, size, 0};
    return read_parameters(&run->model->parameters, &section) ? QKV_OK : not_packed(error);
}

enum qkv_status qkv_run_unpack(struct qkv_run *run, const unsigned char *bytes, size_t size,
                               struct qkv_error *error)
{
    struct section block = {bytes, size, 0};
    *run = (struct qkv_run){.path = "", .checkpoint = ""};
    enum qkv_status status = read_parts(run, &block, error);
    if (status) qkv_run_release(run);
    return status;
}
