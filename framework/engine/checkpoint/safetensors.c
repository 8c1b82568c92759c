/* Reads and writes safetensors files. */
#include "checkpoint/safetensors.h"

#include "core/file.h"
#include "core/numbers.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors are little-endian; this machine needs code that swaps bytes"
#endif

/* The key of the checksum in __metadata__; the text before its digits in the header; and the digits that
 * take its place while the checksum is computed. */
#define CHECKSUM_KEY   "qkv.crc32"
#define CHECKSUM_BEGIN "\"" CHECKSUM_KEY "\":\""
#define CHECKSUM_NONE  "00000000"

enum {
    CHECKSUM_DIGITS = 8,
    ALIGNMENT = 64, /* bytes: the data starts at a multiple of it */
};

/* ---- types of numbers ---- */

static const struct {
    const char *name;
    size_t size;
} TYPES[] = {
    [QKV_STORED_F32] = {"F32", 4},   [QKV_STORED_F64] = {"F64", 8}, [QKV_STORED_F16] = {"F16", 2},
    [QKV_STORED_BF16] = {"BF16", 2}, [QKV_STORED_I8] = {"I8", 1},
};

enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

const char *qkv_stored_type_name(enum qkv_stored_type type)
{
    return TYPES[type].name;
}

bool qkv_stored_type_find(const char *name, enum qkv_stored_type *type)
{
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(name, TYPES[i].name) != 0) continue;
        *type = (enum qkv_stored_type)i;
        return true;
    }
    return false;
}

size_t qkv_stored_type_size(enum qkv_stored_type type)
{
    return TYPES[type].size;
}

size_t qkv_safetensor_size(const struct qkv_safetensor *tensor)
{
    return (size_t)qkv_shape_count(tensor->shape) * qkv_stored_type_size(tensor->type);
}

static float bfloat16_value(uint16_t stored)
{
    uint32_t bits = (uint32_t)stored << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Reads number i. Uses memcpy, as the data in a file may start at any byte. */
static double number_at(const struct qkv_safetensor *tensor, int64_t i)
{
    const char *at = (const char *)tensor->data + (size_t)i * qkv_stored_type_size(tensor->type);
    float single;
    double number;
    uint16_t bits;
    switch (tensor->type) {
    case QKV_STORED_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case QKV_STORED_F16:
        memcpy(&bits, at, sizeof bits);
        return (double)qkv_half_value(bits);
    case QKV_STORED_BF16:
        memcpy(&bits, at, sizeof bits);
        return (double)bfloat16_value(bits);
    case QKV_STORED_I8:
        return (double)*(const int8_t *)at;
    case QKV_STORED_F64:
        break;
    }
    memcpy(&number, at, sizeof number);
    return number;
}

void qkv_safetensor_copy(const struct qkv_safetensor *tensor, enum qkv_dtype dtype, void *to)
{
    int64_t count = qkv_shape_count(tensor->shape);
    if (tensor->type == qkv_stored_type_of(dtype))
        memcpy(to, tensor->data, qkv_safetensor_size(tensor));
    else
        for (int64_t i = 0; i < count; i++) qkv_dtype_set(dtype, to, i, number_at(tensor, i));
}

/* ---- JSON, as the headers have it (RFC 8259). Nesting is limited, so that no text makes the reader run out of stack ---- */

enum json_kind {
    JSON_LITERAL, /* true, false, null */
    JSON_NUMBER,
    JSON_TEXT,
    JSON_ARRAY,
    JSON_OBJECT
};

/* A value. All of it lives in the arena of the reader. */
struct json {
    enum json_kind kind;
    const char *name; /* of an item of an object */
    const char *text; /* of a text */
    double number;
    int64_t count;      /* items of an array or object */
    struct json *child; /* its first item */
    struct json *next;  /* the item behind this one */
};

enum { DEEPEST = 64 };

struct reader {
    struct qkv_arena *arena;
    const char *at, *end;
    int depth;
    bool has_memory;
};

static char next_of(const struct reader *reader)
{
    return reader->at < reader->end ? *reader->at : '\0';
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at) reader->at++;
}

/* Moves past a character if it comes next. */
static bool skip(struct reader *reader, char character)
{
    bool is_next = next_of(reader) == character;
    reader->at += is_next;
    return is_next;
}

/* Reads four hexadecimal digits. */
static bool read_unit(struct reader *reader, uint32_t *unit)
{
    static const char DIGITS[] = "0123456789abcdef";
    *unit = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        char digit = next_of(reader);
        const char *found =
            digit ? strchr(DIGITS, digit >= 'A' && digit <= 'F' ? digit - 'A' + 'a' : digit) : NULL;
        if (!found) return false;
        *unit = 16 * *unit + (uint32_t)(found - DIGITS);
    }
    return true;
}

/* Appends a code point as UTF-8. */
static char *append(char *to, uint32_t point)
{
    int more = point < 0x80 ? 0 : point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char FIRST[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = (char)(FIRST[more] | point >> (6 * more));
    while (more-- > 0) *to++ = (char)(0x80 | (point >> (6 * more) & 0x3F));
    return to;
}

/* Reads what follows a backslash, and appends it. NULL: it is no escape of JSON. */
static char *read_escape(struct reader *reader, char *to)
{
    static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
    char name = next_of(reader);
    const char *found = name ? strchr(NAMES, name) : NULL;
    uint32_t unit, low;
    if (found) {
        reader->at++;
        *to++ = VALUES[found - NAMES];
        return to;
    }
    if (!skip(reader, 'u') || !read_unit(reader, &unit) || (unit >= 0xDC00 && unit < 0xE000)) return NULL;
    if (unit < 0xD800 || unit > 0xDFFF) return append(to, unit);
    bool is_pair = skip(reader, '\\') && skip(reader, 'u') && read_unit(reader, &low);
    if (!is_pair || low < 0xDC00 || low > 0xDFFF) return NULL;
    return append(to, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
}

/* Reads a text after its first quotation mark. NULL: it is not a text, or memory runs out. */
static const char *read_text(struct reader *reader)
{
    const char *close = reader->at;
    while (close < reader->end && *close != '"') close += *close == '\\' && reader->end - close > 1 ? 2 : 1;
    if (close == reader->end) {
        reader->at = close;
        return NULL;
    }
    char *text = qkv_arena_allocate(reader->arena, (size_t)(close - reader->at) + 1), *to = text;
    if (!text) reader->has_memory = false;
    while (to && reader->at < close) {
        if (skip(reader, '\\'))
            to = read_escape(reader, to);
        else
            *to++ = *reader->at++;
    }
    if (!to) return NULL;
    *to = '\0';
    reader->at++;
    return text;
}

/* Reads a number, or true, false or null. */
static bool read_word(struct reader *reader, struct json *value)
{
    char text[QKV_NUMBER_SIZE] = "";
    size_t size = 0;
    while (size + 1 < sizeof text && next_of(reader) && strchr("+-.0123456789eEaflnrstu", next_of(reader)))
        text[size++] = *reader->at++;
    value->kind = JSON_LITERAL;
    if (!strcmp(text, "true") || !strcmp(text, "false") || !strcmp(text, "null")) return true;
    value->kind = JSON_NUMBER;
    return qkv_number_kind(text) != QKV_NUMBER_NONE && qkv_number_read(text, &value->number);
}

static struct json *read_value(struct reader *reader);

/* Reads the items of an array or object after its first bracket. */
static bool read_items(struct reader *reader, struct json *list)
{
    struct json **last = &list->child;
    char close = list->kind == JSON_OBJECT ? '}' : ']';
    if (++reader->depth > DEEPEST) return false;
    skip_space(reader);
    while (list->child || next_of(reader) != close) {
        const char *name = NULL;
        skip_space(reader);
        if (list->kind == JSON_OBJECT) {
            if (!skip(reader, '"') || !(name = read_text(reader))) return false;
            skip_space(reader);
            if (!skip(reader, ':')) return false;
        }
        struct json *item = read_value(reader);
        if (!item) return false;
        item->name = name;
        *last = item;
        last = &item->next;
        list->count++;
        skip_space(reader);
        if (!skip(reader, ',')) break;
    }
    reader->depth--;
    return skip(reader, close);
}

static struct json *read_value(struct reader *reader)
{
    struct json *value = qkv_arena_zeroed(reader->arena, sizeof *value);
    if (!value) {
        reader->has_memory = false;
        return NULL;
    }
    skip_space(reader);
    if (skip(reader, '"')) {
        value->kind = JSON_TEXT;
        return (value->text = read_text(reader)) ? value : NULL;
    }
    bool is_object = skip(reader, '{'), is_array = !is_object && skip(reader, '[');
    if (!is_object && !is_array) return read_word(reader, value) ? value : NULL;
    value->kind = is_object ? JSON_OBJECT : JSON_ARRAY;
    return read_items(reader, value) ? value : NULL;
}

/* Reads the value at the start of `size` bytes of text. *end: the first byte behind the value; of a text that is not JSON, the
 * byte where that shows. Returns NULL for such a text, and when memory runs out, with *end NULL. */
static const struct json *read_json(struct qkv_arena *arena, const char *text, size_t size, const char **end)
{
    struct reader reader = {.arena = arena, .at = text, .end = text + size, .has_memory = true};
    const struct json *value = read_value(&reader);
    *end = reader.has_memory ? reader.at : NULL;
    return value;
}

/* The first item of an object with that name; NULL if there is none, or `object` is none. */
static const struct json *item_of(const struct json *object, const char *name)
{
    const struct json *item = object && object->kind == JSON_OBJECT ? object->child : NULL;
    while (item && strcmp(item->name, name) != 0) item = item->next;
    return item;
}

/* ---- reading ---- */

/* The arguments shared by the functions that read. */
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
static const struct json *parse_header(struct reading *reading)
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
    const struct json *header =
        length && *text == '{' ? read_json(&reading->file->arena, text, (size_t)length, &end) : NULL;
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
static bool read_size(const struct json *item, size_t max, size_t *value)
{
    if (!item || item->kind != JSON_NUMBER || !(item->number >= 0 && item->number <= (double)max))
        return false;
    *value = (size_t)item->number;
    return (double)*value == item->number;
}

/* Reads where the data of a tensor starts and ends, in bytes from the first data byte. False when the
 * offsets are missing, out of order, or above `max`. */
static bool read_offsets(const struct json *tensor, size_t max, size_t *begin, size_t *end)
{
    const struct json *offsets = item_of(tensor, "data_offsets");
    return offsets && offsets->count == 2 && read_size(offsets->child, max, begin) &&
           read_size(offsets->child->next, max, end) && *begin <= *end;
}

/* Fails unless the file ends where the data of its last tensor ends. */
static enum qkv_status check_end(const struct reading *reading, const struct json *header)
{
    size_t last = 0, begin, end, max = (size_t)1 << 53; /* a double is exact up to here */
    for (const struct json *item = header->child; item; item = item->next)
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
    unsigned char *digits = find_in_header(reading, CHECKSUM_BEGIN);
    if (!digits && reading->is_foreign) return QKV_OK;
    if (digits) digits += strlen(CHECKSUM_BEGIN);
    if (!digits || digits + CHECKSUM_DIGITS > reading->bytes + reading->data_offset)
        return qkv_error_set(reading->error, "%s: is not a checkpoint of qkv: its header has no %s",
                             reading->path, CHECKSUM_KEY);
    char stored[CHECKSUM_DIGITS + 1] = "", computed[CHECKSUM_DIGITS + 1];
    memcpy(stored, digits, CHECKSUM_DIGITS);
    memcpy(digits, CHECKSUM_NONE, CHECKSUM_DIGITS);
    snprintf(computed, sizeof computed, "%08" PRIx32, qkv_crc32(0, reading->bytes, reading->size));
    if (!strcmp(stored, computed)) return QKV_OK;
    return qkv_error_set(reading->error, "%s: is damaged: its checksum is %s, but that of its bytes is %s",
                         reading->path, stored, computed);
}

/* Fails when two items of a JSON object have the same name. what: what the items are, for the message; tensor: the one that
 * they belong to, or NULL. */
static enum qkv_status check_names(const struct reading *reading, const struct json *object, const char *what,
                                   const char *tensor)
{
    struct qkv_types names = {0};
    enum qkv_status status = QKV_OK;
    int32_t count = 0; /* a new name gets this number; a repeated one has a lower number */
    for (const struct json *item = object->child; item && !status; item = item->next, count++) {
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

static enum qkv_status read_metadata(const struct reading *reading, const struct json *object)
{
    struct qkv_safetensors *file = reading->file;
    if (object->kind != JSON_OBJECT)
        return qkv_error_set(reading->error, "%s: __metadata__ must be an object of texts", reading->path);
    if (check_names(reading, object, "the metadata key", NULL)) return QKV_INVALID;
    size_t count = (size_t)object->count;
    file->metadata = qkv_arena_zeroed(&file->arena, count * sizeof *file->metadata);
    if (!file->metadata) return out_of_memory(reading);
    for (const struct json *item = object->child; item; item = item->next) {
        if (item->kind != JSON_TEXT)
            return qkv_error_set(reading->error, "%s: __metadata__ holds %s, which is not a text",
                                 reading->path, item->name);
        struct qkv_state_entry *entry = &file->metadata[file->metadata_count++];
        *entry = (struct qkv_state_entry){item->name, item->text};
    }
    return QKV_OK;
}

/* Reads the axes of a tensor of `count` numbers. False unless there are 1 to QKV_MAX_RANK axes, each above 0,
 * whose product is `count`. */
static bool read_shape(const struct json *array, size_t count, struct qkv_shape *shape)
{
    if (!array || array->count < 1 || array->count > QKV_MAX_RANK) return false;
    shape->rank = (int)array->count;
    size_t product = 1, size;
    const struct json *axis = array->child;
    for (int i = 0; i < shape->rank; i++, axis = axis->next) {
        if (!read_size(axis, count, &size) || size == 0 || size > count / product) return false;
        product *= size;
        shape->size[i] = (int64_t)size;
    }
    return product == count;
}

static enum qkv_status read_tensor(const struct reading *reading, const struct json *item,
                                   struct qkv_safetensor *tensor)
{
    const struct json *type = item_of(item, "dtype");
    const char *dtype = type ? type->text : NULL;
    size_t begin, end, max = reading->size - reading->data_offset;
    if (item->kind == JSON_OBJECT && check_names(reading, item, "the field", item->name)) return QKV_INVALID;
    if (!dtype || !qkv_stored_type_find(dtype, &tensor->type))
        return qkv_error_set(reading->error, "%s: %s is of type %s, but must be F32, F64, F16, BF16 or I8",
                             reading->path, item->name, dtype ? dtype : "none");
    if (!read_offsets(item, max, &begin, &end))
        return qkv_error_set(reading->error, "%s: the data_offsets of %s do not lie in the data",
                             reading->path, item->name);
    size_t element_size = qkv_stored_type_size(tensor->type);
    const struct json *shape = item_of(item, "shape");
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

static enum qkv_status read_tensors(const struct reading *reading, const struct json *header)
{
    struct qkv_safetensors *file = reading->file;
    size_t max = (size_t)header->count;
    if (check_names(reading, header, "the tensor", NULL)) return QKV_INVALID;
    file->tensors = qkv_arena_zeroed(&file->arena, max * sizeof *file->tensors);
    if (!file->tensors) return out_of_memory(reading);
    enum qkv_status status = QKV_OK;
    for (const struct json *item = header->child; item && !status; item = item->next)
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
    const struct json *header = NULL;
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

/* ---- writing ---- */

/* Writes a text as JSON: quoted, with escapes. */
static void write_text(struct bytes *header, const char *text)
{
    static const char NAMES[] = "\"\\bfnrt", VALUES[] = "\"\\\b\f\n\r\t";
    qkv_bytes_text(header, "\"");
    for (; *text; text++) {
        const char *escaped = strchr(VALUES, *text);
        if (escaped)
            qkv_bytes_format(header, "\\%c", NAMES[escaped - VALUES]);
        else if ((unsigned char)*text < ' ')
            qkv_bytes_format(header, "\\u%04x", *text);
        else
            qkv_bytes_append(header, text, 1);
    }
    qkv_bytes_text(header, "\"");
}

static void write_entry(struct bytes *header, const char *separator, const char *key, const char *text)
{
    qkv_bytes_text(header, separator);
    write_text(header, key);
    qkv_bytes_text(header, ":");
    write_text(header, text);
}

static void write_tensor(struct bytes *header, const struct qkv_safetensor *tensor, size_t begin)
{
    qkv_bytes_text(header, ",");
    write_text(header, tensor->name);
    write_entry(header, ":{", "dtype", qkv_stored_type_name(tensor->type));
    qkv_bytes_text(header, ",\"shape\":");
    for (int i = 0; i < tensor->shape.rank; i++)
        qkv_bytes_format(header, "%c%" PRId64, i ? ',' : '[', tensor->shape.size[i]);
    qkv_bytes_format(header, "],\"data_offsets\":[%zu,%zu]}", begin, begin + qkv_safetensor_size(tensor));
}

/* The bytes of the file before the data: the length of the header, the header with zeros for the checksum, and padding. The caller
 * frees them. */
static struct bytes make_preamble(int64_t count, const struct qkv_safetensor *tensors, int64_t metadata_count,
                                  const struct qkv_state_entry *metadata)
{
    struct bytes preamble = {0};
    size_t begin = 0;
    qkv_bytes_little_endian(&preamble, 0, 8);
    write_entry(&preamble, "{\"__metadata__\":{", CHECKSUM_KEY, CHECKSUM_NONE);
    for (int64_t i = 0; i < metadata_count; i++)
        write_entry(&preamble, ",", metadata[i].key, metadata[i].text);
    qkv_bytes_text(&preamble, "}");
    for (int64_t i = 0; i < count; i++) {
        write_tensor(&preamble, &tensors[i], begin);
        begin += qkv_safetensor_size(&tensors[i]);
    }
    qkv_bytes_text(&preamble, "}");
    while (!preamble.failed && preamble.size % ALIGNMENT) qkv_bytes_text(&preamble, " ");
    for (int i = 0; i < 8 && !preamble.failed; i++)
        preamble.data[i] = (char)((preamble.size - 8) >> (8 * i) & 0xFF);
    return preamble;
}

/* Computes the checksum of preamble and tensors and writes it over its zeros in the preamble. */
static void write_checksum(struct bytes *preamble, int64_t count, const struct qkv_safetensor *tensors)
{
    uint32_t sum = qkv_crc32(0, preamble->data, preamble->size);
    for (int64_t i = 0; i < count; i++)
        sum = qkv_crc32(sum, tensors[i].data, qkv_safetensor_size(&tensors[i]));
    char *place = strstr(preamble->data + 8, CHECKSUM_BEGIN), digits[CHECKSUM_DIGITS + 1];
    QKV_BUG(!place, "a header was made without a checksum");
    snprintf(digits, sizeof digits, "%08" PRIx32, sum);
    memcpy(place + strlen(CHECKSUM_BEGIN), digits, CHECKSUM_DIGITS);
}

enum qkv_status qkv_safetensors_write(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                      int64_t metadata_count, const struct qkv_state_entry *metadata,
                                      struct qkv_error *error)
{
    struct qkv_file_writer writer;
    struct bytes preamble = make_preamble(count, tensors, metadata_count, metadata);
    enum qkv_status status = preamble.failed ? qkv_error_set(error, "%s: out of memory", path)
                                             : qkv_file_begin(&writer, path, error);
    if (!status) {
        write_checksum(&preamble, count, tensors);
        fwrite(preamble.data, 1, preamble.size, writer.file);
        for (int64_t i = 0; i < count; i++)
            fwrite(tensors[i].data, 1, qkv_safetensor_size(&tensors[i]), writer.file);
        status = qkv_file_commit(&writer, error);
    }
    free(preamble.data);
    return status;
}
