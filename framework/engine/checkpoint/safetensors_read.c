#include "checkpoint/safetensors.h"

#include "checkpoint/json.h"
#include "core/crc32.h"
#include "core/plain_text.h"
#include "qkv/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The arguments shared by the functions of this file. */
struct reading {
    const char *path;
    unsigned char *bytes;         /* [size]: the whole file; they live in the arena of `file` */
    size_t size;                  /* of the file in bytes */
    size_t data_offset;           /* of the first data byte, from the start of the file */
    bool is_foreign;              /* a checksum may be missing */
    struct qkv_safetensors *file; /* the result */
    struct qkv_error *error;
};

static enum qkv_status out_of_memory(const struct reading *reading)
{
    return qkv_error_set(reading->error, "%s: out of memory for its %zu bytes", reading->path, reading->size);
}

static enum qkv_status read_stream(struct reading *reading, FILE *stream)
{
    struct stat status;
    if (fstat(fileno(stream), &status))
        return qkv_error_set(reading->error, "%s: cannot be read: %s", reading->path, strerror(errno));
    reading->size = (size_t)status.st_size;
    reading->bytes = qkv_arena_allocate(&reading->file->arena, reading->size);
    if (!reading->bytes) return out_of_memory(reading);
    size_t got = fread(reading->bytes, 1, reading->size, stream);
    if (got == reading->size) return QKV_OK;
    return qkv_error_set(reading->error, "%s: byte %zu: cannot be read from here on: %s", reading->path, got,
                         ferror(stream) ? strerror(errno) : "the file ends");
}

static enum qkv_status read_bytes(struct reading *reading)
{
    FILE *stream = qkv_file_stream(reading->path, true, reading->error);
    if (!stream) return QKV_INVALID;
    enum qkv_status status = read_stream(reading, stream);
    fclose(stream);
    return status;
}

/* Refuses bytes that other readers may read differently: a byte order mark, a NUL within a string, and anything
 * but padding after the JSON. */
static enum qkv_status check_header_text(const struct reading *reading, const char *text, size_t length,
                                         const char *end)
{
    size_t valid = qkv_text_valid_size(text, length);
    if (valid < length)
        return qkv_error_set(reading->error, "%s: byte %zu: the header is not valid UTF-8 there",
                             reading->path, 8 + valid);
    for (const char *at = text; at < end; at++) {
        if (*at != '\\') continue;
        if (!strncmp(at, "\\u0000", 6))
            return qkv_error_set(reading->error, "%s: byte %td: a text of the header holds a NUL character",
                                 reading->path, 8 + (at - text));
        at++;
    }
    for (; end < text + length; end++)
        if (*end != ' ')
            return qkv_error_set(
                reading->error,
                "%s: byte %td: the header goes on after its JSON, where only spaces may follow",
                reading->path, 8 + (end - text));
    return QKV_OK;
}

/* The header as JSON; NULL with a message on failure. Sets reading->data_offset. */
static const struct qkv_json *parse_header(struct reading *reading)
{
    uint64_t length = 0;
    for (unsigned i = 0; i < 8 && reading->size >= 8; i++) length |= (uint64_t)reading->bytes[i] << (8 * i);
    if (reading->size < 8 || length > reading->size - 8) {
        qkv_error_set(
            reading->error,
            "%s: byte %zu: the file ends within its header: it was cut short, or is not a safetensors file",
            reading->path, reading->size);
        return NULL;
    }
    reading->data_offset = 8 + (size_t)length;
    const char *text = (const char *)reading->bytes + 8, *end = text;
    const struct qkv_json *header =
        length && *text == '{' ? qkv_json_read(&reading->file->arena, text, (size_t)length, &end) : NULL;
    if (header) return check_header_text(reading, text, (size_t)length, end) ? NULL : header;
    if (!end)
        out_of_memory(reading);
    else
        qkv_error_set(reading->error,
                      "%s: byte %zu: the header is not a JSON object: the file is damaged, or is not a "
                      "safetensors file",
                      reading->path, 8 + (size_t)(end - text));
    return NULL;
}

/* Reads an integer from 0 to `max`; false when `item` is not one. */
static bool read_size(const struct qkv_json *item, size_t max, size_t *value)
{
    if (!item || item->kind != QKV_JSON_NUMBER || !(item->number >= 0 && item->number <= (double)max))
        return false;
    *value = (size_t)item->number;
    return (double)*value == item->number;
}

/* Reads where the data of a tensor starts and ends, in bytes from the first data byte. False when the
 * offsets are missing, out of order, or above `max`. */
static bool read_offsets(const struct qkv_json *tensor, size_t max, size_t *begin, size_t *end)
{
    const struct qkv_json *offsets = qkv_json_item(tensor, "data_offsets");
    return offsets && offsets->count == 2 && read_size(offsets->child, max, begin) &&
           read_size(offsets->child->next, max, end) && *begin <= *end;
}

/* Fails unless the file ends where the data of its last tensor ends. */
static enum qkv_status check_end(const struct reading *reading, const struct qkv_json *header)
{
    size_t last = 0, begin, end, max = (size_t)1 << 53; /* a double is exact up to here */
    for (const struct qkv_json *item = header->child; item; item = item->next)
        if (read_offsets(item, max, &begin, &end) && end > last) last = end;
    size_t expected = reading->data_offset + last;
    if (reading->size == expected) return QKV_OK;
    if (reading->size > expected)
        return qkv_error_set(reading->error, "%s: byte %zu: the data ends here, but the file goes on",
                             reading->path, expected);
    return qkv_error_set(reading->error,
                         "%s: byte %zu: the file ends here, but its data goes on to byte %zu: it was cut "
                         "short",
                         reading->path, reading->size, expected);
}

/* The first occurrence of a text in the header, or NULL. */
static unsigned char *find_in_header(const struct reading *reading, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 8; i + length <= reading->data_offset; i++)
        if (!memcmp(reading->bytes + i, text, length)) return reading->bytes + i;
    return NULL;
}

/* Compares the checksum stored in the header with the CRC-32 of the whole file. The CRC is computed with zeros in
 * place of the stored digits, so this overwrites the digits in reading->bytes. */
static enum qkv_status compare_checksums(const struct reading *reading)
{
    unsigned char *digits = find_in_header(reading, QKV_CHECKSUM_BEGIN);
    if (!digits && reading->is_foreign) return QKV_OK;
    if (digits) digits += strlen(QKV_CHECKSUM_BEGIN);
    if (!digits || digits + QKV_CHECKSUM_DIGITS > reading->bytes + reading->data_offset)
        return qkv_error_set(reading->error, "%s: is not a checkpoint of qkv: its header has no %s",
                             reading->path, QKV_CHECKSUM_KEY);
    char stored[QKV_CHECKSUM_DIGITS + 1] = "", computed[QKV_CHECKSUM_DIGITS + 1];
    memcpy(stored, digits, QKV_CHECKSUM_DIGITS);
    memcpy(digits, QKV_CHECKSUM_NONE, QKV_CHECKSUM_DIGITS);
    snprintf(computed, sizeof computed, "%08" PRIx32, qkv_crc32(0, reading->bytes, reading->size));
    if (!strcmp(stored, computed)) return QKV_OK;
    return qkv_error_set(reading->error, "%s: is damaged: its checksum is %s, but that of its bytes is %s",
                         reading->path, stored, computed);
}

/* Fails when two items of a JSON object have the same name. what: what the items are, for the message; tensor: the one that
 * they belong to, or NULL. */
static enum qkv_status check_names(const struct reading *reading, const struct qkv_json *object,
                                   const char *what, const char *tensor)
{
    struct qkv_types names = {0};
    enum qkv_status status = QKV_OK;
    int32_t count = 0; /* a new name gets this number; a repeated one has a lower number */
    for (const struct qkv_json *item = object->child; item && !status; item = item->next, count++) {
        int32_t number = qkv_types_add(&names, item->name, 0);
        if (number < 0)
            status = out_of_memory(reading);
        else if (number != count)
            status = qkv_error_set(reading->error, "%s: holds %s %s%s%s twice", reading->path, what,
                                   item->name, tensor ? " of " : "", tensor ? tensor : "");
    }
    qkv_types_release(&names);
    return status;
}

static enum qkv_status read_metadata(const struct reading *reading, const struct qkv_json *object)
{
    struct qkv_safetensors *file = reading->file;
    if (object->kind != QKV_JSON_OBJECT)
        return qkv_error_set(reading->error, "%s: __metadata__ must be an object of texts", reading->path);
    if (check_names(reading, object, "the metadata key", NULL)) return QKV_INVALID;
    size_t count = (size_t)object->count;
    file->metadata = qkv_arena_zeroed(&file->arena, count * sizeof *file->metadata);
    if (!file->metadata) return out_of_memory(reading);
    for (const struct qkv_json *item = object->child; item; item = item->next) {
        if (item->kind != QKV_JSON_TEXT)
            return qkv_error_set(reading->error, "%s: __metadata__ holds %s, which is not a text",
                                 reading->path, item->name);
        struct qkv_state_entry *entry = &file->metadata[file->metadata_count++];
        *entry = (struct qkv_state_entry){item->name, item->text};
    }
    return QKV_OK;
}

/* Reads the axes of a tensor of `count` numbers. False unless there are 1 to QKV_MAX_RANK axes, each above 0,
 * whose product is `count`. */
static bool read_shape(const struct qkv_json *array, size_t count, struct qkv_shape *shape)
{
    if (!array || array->count < 1 || array->count > QKV_MAX_RANK) return false;
    shape->rank = (int)array->count;
    size_t product = 1, size;
    const struct qkv_json *axis = array->child;
    for (int i = 0; i < shape->rank; i++, axis = axis->next) {
        if (!read_size(axis, count, &size) || size == 0 || size > count / product) return false;
        product *= size;
        shape->size[i] = (int64_t)size;
    }
    return product == count;
}

static enum qkv_status read_tensor(const struct reading *reading, const struct qkv_json *item,
                                   struct qkv_safetensor *tensor)
{
    const struct qkv_json *type = qkv_json_item(item, "dtype");
    const char *dtype = type ? type->text : NULL;
    size_t begin, end, max = reading->size - reading->data_offset;
    if (item->kind == QKV_JSON_OBJECT && check_names(reading, item, "the field", item->name))
        return QKV_INVALID;
    if (!dtype || !qkv_stored_type_find(dtype, &tensor->type))
        return qkv_error_set(reading->error, "%s: %s is of type %s, but must be F32, F64, F16, BF16 or I8",
                             reading->path, item->name, dtype ? dtype : "none");
    if (!read_offsets(item, max, &begin, &end))
        return qkv_error_set(reading->error, "%s: the data_offsets of %s do not lie in the data",
                             reading->path, item->name);
    size_t element_size = qkv_stored_type_size(tensor->type);
    const struct qkv_json *shape = qkv_json_item(item, "shape");
    if ((end - begin) % element_size || !read_shape(shape, (end - begin) / element_size, &tensor->shape))
        return qkv_error_set(reading->error, "%s: byte %zu: the data of %s does not fit its shape",
                             reading->path, reading->data_offset + begin, item->name);
    tensor->data = reading->bytes + reading->data_offset + begin;
    tensor->name = item->name;
    return QKV_OK;
}

static int by_data(const void *left, const void *right)
{
    const struct qkv_safetensor *const *a = left, *const *b = right;
    if ((*a)->data != (*b)->data) return (*a)->data < (*b)->data ? -1 : 1;
    return (*a > *b) - (*a < *b);
}

/* Fails unless the tensors cover each byte of the data exactly once. check_end has checked that the last one ends with the
 * file. */
static enum qkv_status check_layout(const struct reading *reading)
{
    struct qkv_safetensors *file = reading->file;
    size_t count = (size_t)file->count;
    const struct qkv_safetensor **order = qkv_arena_allocate(&file->arena, count * sizeof *order);
    if (!order) return out_of_memory(reading);
    for (size_t i = 0; i < count; i++) order[i] = &file->tensors[i];
    qsort(order, count, sizeof *order, by_data);
    const unsigned char *end = reading->bytes + reading->data_offset;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *begin = order[i]->data;
        if (begin != end)
            return qkv_error_set(reading->error, "%s: byte %td: %s %s", reading->path, begin - reading->bytes,
                                 begin < end ? "two tensors share the data of"
                                             : "no tensor has the bytes before",
                                 order[i]->name);
        end = begin + qkv_safetensor_size(order[i]);
    }
    return QKV_OK;
}

static enum qkv_status read_tensors(const struct reading *reading, const struct qkv_json *header)
{
    struct qkv_safetensors *file = reading->file;
    size_t max = (size_t)header->count;
    if (check_names(reading, header, "the tensor", NULL)) return QKV_INVALID;
    file->tensors = qkv_arena_zeroed(&file->arena, max * sizeof *file->tensors);
    if (!file->tensors) return out_of_memory(reading);
    enum qkv_status status = QKV_OK;
    for (const struct qkv_json *item = header->child; item && !status; item = item->next)
        if (!strcmp(item->name, "__metadata__"))
            status = read_metadata(reading, item);
        else
            status = read_tensor(reading, item, &file->tensors[file->count++]);
    return status ? status : check_layout(reading);
}

enum qkv_status qkv_safetensors_read(struct qkv_safetensors *file, const char *path, bool is_foreign,
                                     struct qkv_error *error)
{
    *file = (struct qkv_safetensors){0};
    struct reading reading = {.path = path, .is_foreign = is_foreign, .file = file, .error = error};
    const struct qkv_json *header = NULL;
    enum qkv_status status = read_bytes(&reading);
    if (!status) header = parse_header(&reading);
    if (!header) status = QKV_INVALID;
    if (!status) status = check_end(&reading, header);
    if (!status) status = compare_checksums(&reading);
    if (!status) status = read_tensors(&reading, header);
    if (status) qkv_safetensors_release(file);
    return status;
}

const char *qkv_safetensors_metadata(const struct qkv_safetensors *file, const char *key)
{
    for (int64_t i = 0; i < file->metadata_count; i++)
        if (!strcmp(file->metadata[i].key, key)) return file->metadata[i].text;
    return NULL;
}

void qkv_safetensors_release(struct qkv_safetensors *file)
{
    qkv_arena_release(&file->arena);
    *file = (struct qkv_safetensors){0};
}
