#include "core/memory.h"
#include "data/corpus.h"

#include "core/file.h"
#include "core/text.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <zlib.h>

static const char *const specials[QKV_SPECIALS] = {
    [QKV_UNKNOWN] = "<unk>",
    [QKV_BEGIN] = "<s>",
    [QKV_END] = "</s>",
};

static bool is_special(const char *token)
{
    for (int i = 0; i < QKV_SPECIALS; i++)
        if (!strcmp(token, specials[i])) return true;
    return false;
}

bool qkv_types_add_frequent(struct qkv_types *types, const struct qkv_types *text, int64_t minimum)
{
    for (int64_t i = 0; i < text->size; i++)
        if (text->frequency[i] >= minimum &&
            qkv_types_add(types, qkv_types_token(text, i), text->frequency[i]) < 0)
            return false;
    return true;
}

struct entry {
    const char *token;
    int64_t frequency;
};

/* Orders by frequency, highest first, and then by bytes. */
static int compare(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->frequency != b->frequency) return a->frequency > b->frequency ? -1 : 1;
    return strcmp(a->token, b->token);
}

/* The types that occur at least `minimum` times in all texts together, in the order of their future ids; NULL when there is
 * no memory. */
static struct entry *sorted(const struct qkv_types *sum, int64_t minimum, int64_t *count)
{
    struct entry *entries = malloc((size_t)(sum->size + 1) * sizeof *entries);
    if (!entries) return NULL;
    *count = 0;
    for (int64_t i = 0; i < sum->size; i++) {
        const char *token = qkv_types_token(sum, i);
        if (sum->frequency[i] < minimum || is_special(token)) continue;
        entries[(*count)++] = (struct entry){token, sum->frequency[i]};
    }
    qsort(entries, (size_t)*count, sizeof *entries, compare);
    return entries;
}

static bool add_token(struct qkv_vocabulary *vocabulary, const char *token, int64_t frequency)
{
    if (qkv_types_add(&vocabulary->types, token, frequency) < 0) return false;
    vocabulary->size = (int32_t)vocabulary->types.size;
    return true;
}

enum qkv_status qkv_vocabulary_build(struct qkv_vocabulary *vocabulary, int64_t count,
                                     const struct qkv_types *const *texts, int64_t limit, int64_t minimum,
                                     struct qkv_error *error)
{
    *vocabulary = (struct qkv_vocabulary){0};
    struct qkv_types sum = {0};
    bool done = true;
    for (int64_t t = 0; t < count && done; t++) done = qkv_types_add_frequent(&sum, texts[t], INT64_MIN);
    int64_t kept = 0;
    struct entry *entries = done ? sorted(&sum, minimum, &kept) : NULL;
    done = entries != NULL;
    if (limit > 0 && kept > limit) kept = limit;
    for (int i = 0; i < QKV_SPECIALS && done; i++) done = add_token(vocabulary, specials[i], 0);
    for (int64_t i = 0; i < kept && done; i++)
        done = add_token(vocabulary, entries[i].token, entries[i].frequency);
    free(entries);
    qkv_types_release(&sum);
    if (done) return QKV_OK;
    qkv_vocabulary_release(vocabulary);
    return qkv_no_memory(error);
}

int32_t qkv_vocabulary_id(const struct qkv_vocabulary *vocabulary, const char *token)
{
    int32_t id = qkv_types_find(&vocabulary->types, token), point;
    struct qkv_bare_token mark = qkv_token_bare(token);
    char other[64];
    if (mark.size) qkv_point(mark.text, &point);
    bool is_mark = id < 0 && mark.size && mark.size < sizeof other / 2 && qkv_is_punctuation(point);
    for (int joins = 0; id < 0 && is_mark && joins <= (QKV_JOINS_LEFT | QKV_JOINS_RIGHT); joins++) {
        snprintf(other, sizeof other, "%s%.*s%s", joins & QKV_JOINS_LEFT ? QKV_JOINER : "", (int)mark.size,
                 mark.text, joins & QKV_JOINS_RIGHT ? QKV_JOINER : "");
        id = qkv_types_find(&vocabulary->types, other);
    }
    return id < QKV_SPECIALS ? QKV_UNKNOWN : id;
}

const char *qkv_vocabulary_token(const struct qkv_vocabulary *vocabulary, int32_t id)
{
    return qkv_types_token(&vocabulary->types, id);
}

const char **qkv_vocabulary_tokens(const struct qkv_vocabulary *vocabulary, int64_t count, const int32_t *ids,
                                   struct qkv_arena *arena)
{
    const char **tokens = qkv_arena_allocate(arena, (size_t)(count > 0 ? count : 0) * sizeof *tokens);
    for (int64_t i = 0; tokens && i < count; i++) tokens[i] = qkv_vocabulary_token(vocabulary, ids[i]);
    return tokens;
}

int32_t qkv_vocabulary_difference(const struct qkv_vocabulary *a, const struct qkv_vocabulary *b)
{
    int32_t common = a->size < b->size ? a->size : b->size;
    for (int32_t id = 0; id < common; id++)
        if (strcmp(qkv_vocabulary_token(a, id), qkv_vocabulary_token(b, id)) != 0) return id;
    return a->size == b->size ? -1 : common;
}

void qkv_vocabulary_write(const struct qkv_vocabulary *vocabulary, FILE *file)
{
    for (int32_t id = 0; id < vocabulary->size; id++)
        fprintf(file, "%s\n", qkv_vocabulary_token(vocabulary, id));
}

enum qkv_status qkv_vocabulary_save(const struct qkv_vocabulary *vocabulary, const char *path,
                                    struct qkv_error *error)
{
    struct qkv_file_writer writer;
    for (int32_t id = 0; id < vocabulary->size; id++) {
        const char *token = qkv_vocabulary_token(vocabulary, id);
        size_t size = strlen(token);
        if (!size || qkv_text_valid_size(token, size) < size || qkv_text_has(token, qkv_is_space))
            return qkv_error_set(
                error,
                "%s: the token of id %d is empty, contains white space or is not valid UTF-8: "
                "a file with it could not be read",
                path, (int)id);
    }
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_vocabulary_write(vocabulary, writer.file);
    return qkv_file_commit(&writer, error);
}

/* Adds the current line of the file as the next id. */
static enum qkv_status add_line(void *made, const struct qkv_lines *lines, struct qkv_error *error)
{
    struct qkv_vocabulary *vocabulary = made;
    const char *path = lines->path, *token = lines->line;
    long long number = lines->number;
    if (number <= QKV_SPECIALS && strcmp(token, specials[number - 1]))
        return qkv_error_set(error, "%s:%lld: is \"%s\", but a vocabulary begins with <unk>, <s>, </s>", path,
                             number, token);
    if (!lines->size) return qkv_error_set(error, "%s:%lld: the line is empty", path, number);
    if (qkv_text_has(token, qkv_is_space))
        return qkv_error_set(error, "%s:%lld: \"%s\" contains white space, which no token does", path, number,
                             token);
    int32_t before = qkv_types_find(&vocabulary->types, token);
    if (before >= 0)
        return qkv_error_set(error, "%s:%lld: \"%s\" repeats line %d", path, number, token, before + 1);
    return add_token(vocabulary, token, 0) ? QKV_OK : qkv_no_memory(error);
}

enum qkv_status qkv_vocabulary_read(struct qkv_vocabulary *vocabulary, struct qkv_file_part part,
                                    struct qkv_error *error)
{
    *vocabulary = (struct qkv_vocabulary){0};
    enum qkv_status status = qkv_lines_read_part(part, add_line, vocabulary, error);
    if (!status && vocabulary->size < QKV_SPECIALS)
        status = qkv_error_set(error, "%s: has %d lines, but a vocabulary begins with <unk>, <s>, </s>",
                               part.path, vocabulary->size);
    if (status) qkv_vocabulary_release(vocabulary);
    return status;
}

enum qkv_status qkv_vocabulary_load(struct qkv_vocabulary *vocabulary, const char *path,
                                    struct qkv_error *error)
{
    return qkv_vocabulary_read(vocabulary, (struct qkv_file_part){.path = path}, error);
}

uint32_t qkv_vocabulary_checksum(const struct qkv_vocabulary *vocabulary)
{
    uLong sum = crc32_z(0, NULL, 0);
    for (int32_t id = 0; id < vocabulary->size; id++) {
        const char *token = qkv_vocabulary_token(vocabulary, id);
        sum = crc32_z(sum, (const Bytef *)token, strlen(token));
        sum = crc32_z(sum, (const Bytef *)"\n", 1);
    }
    return (uint32_t)sum;
}

void qkv_vocabulary_release(struct qkv_vocabulary *vocabulary)
{
    qkv_types_release(&vocabulary->types);
    *vocabulary = (struct qkv_vocabulary){0};
}
