/* Text of any origin, numbers as text, suggestions for misspelled names, and numbered strings. */
#include "core/text.h"

#include "core/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>

/* ---- text of any origin ---- */

/* Decodes the first character of UTF-8 text of at least one byte: returns the number of its bytes, at most `size`, and sets its
 * code point; 0 if the text does not begin with a valid character (Unicode 15, table 3-7). Reads a byte only if the bytes
 * before it are valid, and so never reads past a NUL. */
static size_t decode(const unsigned char *bytes, size_t size, uint32_t *point)
{
    unsigned char first = bytes[0];
    *point = first;
    if (first < 0x80) return 1;
    size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    /* The range of the second byte excludes longer spellings, surrogates and numbers above 0x10FFFF. */
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    *point = first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xBF) {
        if (i >= size || bytes[i] < low || bytes[i] > high) return 0;
        *point = *point << 6 | (bytes[i] & 0x3Fu);
    }
    return length;
}

uint32_t qkv_utf8_next(const char **text)
{
    uint32_t point;
    if (!**text) return 0;
    size_t size = decode((const unsigned char *)*text, SIZE_MAX, &point);
    *text += size ? size : 1;
    return size ? point : QKV_REPLACEMENT;
}

size_t qkv_text_valid_size(const char *text, size_t size)
{
    uint32_t point;
    size_t valid = 0, used = 1;
    while (valid < size && text[valid] && used) {
        used = decode((const unsigned char *)text + valid, size - valid, &point);
        valid += used;
    }
    return valid;
}

bool qkv_is_utf8(const char *text)
{
    while (*text) {
        const char *start = text;
        if (qkv_utf8_next(&text) == QKV_REPLACEMENT && text == start + 1) return false;
    }
    return true;
}

bool qkv_is_plain(uint32_t point)
{
    bool control = point < 0x20 || (point >= 0x7F && point < 0xA0);
    bool separator_or_order = (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
    bool character = (point < 0xD800 || point > 0xDFFF) && (point < 0xFDD0 || point > 0xFDEF) &&
                     (point & 0xFFFE) != 0xFFFE;
    return character && !control && !separator_or_order;
}

int qkv_plain_next(const char **text, char out[QKV_PLAIN_SIZE])
{
    const char *start = *text;
    uint32_t point = qkv_utf8_next(text);
    size_t size = (size_t)(*text - start);
    if (size == 1 && point == QKV_REPLACEMENT)
        return snprintf(out, QKV_PLAIN_SIZE, "\\x%02X", (unsigned char)*start);
    if (qkv_is_plain(point) || !size) {
        memcpy(out, start, size);
        return (int)size;
    }
    return snprintf(out, QKV_PLAIN_SIZE,
                    point < 0x100     ? "\\x%02X"
                    : point < 0x10000 ? "\\u%04X"
                                      : "\\U%08X",
                    point);
}

/* ---- a growing buffer ---- */

/* Makes room for `size` more bytes and a NUL. */
static bool reserve(struct bytes *bytes, size_t size)
{
    if (bytes->failed) return false;
    if (bytes->size + size < bytes->capacity) return true;
    size_t capacity = 2 * bytes->capacity + size + 256;
    char *data = capacity > size ? realloc(bytes->data, capacity) : NULL;
    if (!data) {
        bytes->failed = true;
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

void qkv_bytes_append(struct bytes *bytes, const void *data, size_t size)
{
    if (size == 0 || !reserve(bytes, size)) return;
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    bytes->data[bytes->size] = 0;
}

void qkv_bytes_text(struct bytes *bytes, const char *text)
{
    qkv_bytes_append(bytes, text, strlen(text));
}

void qkv_bytes_format(struct bytes *bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !reserve(bytes, (size_t)length + 1)) return;
    va_start(arguments, format);
    vsnprintf(bytes->data + bytes->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    bytes->size += (size_t)length;
}

void qkv_bytes_little_endian(struct bytes *bytes, uint64_t value, int size)
{
    unsigned char digits[8];
    for (int i = 0; i < size; i++) digits[i] = (unsigned char)(value >> (8 * i));
    qkv_bytes_append(bytes, digits, (size_t)size);
}

/* ---- numbers as text ---- */

static const char *skip_digits(const char *at)
{
    while (*at >= '0' && *at <= '9') at++;
    return at;
}

enum qkv_number_kind qkv_number_kind(const char *text)
{
    if (*text == '+' || *text == '-') text++;
    const char *end = skip_digits(text);
    bool digits_seen = end > text, fraction = false, exponent = false;
    if (end - text > 1 && *text == '0')
        return QKV_NUMBER_NONE; /* 010 is octal to some readers and decimal to others */
    if (*end == '.') {
        const char *digits = end + 1;
        end = skip_digits(digits);
        fraction = true;
        digits_seen |= end > digits;
    }
    if (!digits_seen) return QKV_NUMBER_NONE;
    if (*end == 'e' || *end == 'E') {
        end++;
        if (*end == '+' || *end == '-') end++;
        const char *digits = end;
        end = skip_digits(digits);
        exponent = true;
        if (end == digits) return QKV_NUMBER_NONE;
    }
    if (*end) return QKV_NUMBER_NONE;
    return fraction || exponent ? QKV_NUMBER_DECIMAL : QKV_NUMBER_INTEGER;
}

/* strtod and printf take the decimal point from the locale of the thread. Switches to the C locale, which is stored in
 * *c_locale, and returns the previous one. */
static locale_t enter_c_locale(locale_t *c_locale)
{
    *c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return uselocale(*c_locale);
}

static void leave_c_locale(locale_t previous, locale_t c_locale)
{
    uselocale(previous);
    if (c_locale) freelocale(c_locale);
}

bool qkv_number_read(const char *text, double *value)
{
    locale_t c_locale, previous = enter_c_locale(&c_locale);
    *value = strtod(text, NULL);
    leave_c_locale(previous, c_locale);
    return isfinite(*value);
}

bool qkv_integer_read(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoimax(text, &end, 10);
    return !errno;
}

void qkv_number_format(char text[static QKV_NUMBER_SIZE], double value)
{
    if (!isfinite(value)) {
        strcpy(text, isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf"); /* refused when read */
        return;
    }
    locale_t c_locale, previous = enter_c_locale(&c_locale);
    int digits = 0; /* after the first one */
    do snprintf(text, QKV_NUMBER_SIZE, "%.*e", digits, value);
    while (strtod(text, NULL) != value && digits++ < 17);
    char *e = strchr(text, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, QKV_NUMBER_SIZE, "%.*f", digits > exponent ? digits - exponent : 0, value);
    else
        snprintf(e + 1, QKV_NUMBER_SIZE - (size_t)(e + 1 - text), "%d", exponent); /* e-8, not e-08 */
    leave_c_locale(previous, c_locale);
}

/* ---- suggestions for misspelled names ---- */

enum {
    LONGEST = 63,      /* bytes of a name */
    SHORTEST_PART = 3, /* bytes of `given` for which names that contain it are suggested */
    MAX_NAMES = 3,     /* suggestions */
};

static int min(int a, int b)
{
    return a < b ? a : b;
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

int qkv_name_distance(const char *a, const char *b)
{
    int rows[3][LONGEST + 1] = {0}, *two_above = rows[0], *above = rows[1], *row = rows[2];
    size_t height = strlen(a), width = strlen(b);
    if (height > LONGEST || width > LONGEST) return INT_MAX;
    for (size_t j = 0; j <= width; j++) above[j] = (int)j;
    for (size_t i = 1; i <= height; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= width; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = min(above[j - 1] + (x != y), min(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                row[j] = min(row[j], two_above[j - 2] + 1);
        }
        int *oldest = two_above;
        two_above = above;
        above = row;
        row = oldest;
    }
    return above[width];
}

bool qkv_names_are_near(const char *a, const char *b, int distance)
{
    size_t length = strlen(a), other = strlen(b), longer = length > other ? length : other;
    return distance <= (longer < 5 ? 1 : 1 + (int)(longer / 4));
}

/* Whether to suggest `name`. `distance` is the smallest distance of a near name to `given`: then `name` must have it;
 * INT_MAX: no name is near, and `name` must contain `given`. */
static bool is_wanted(const char *given, const char *name, int distance)
{
    if (distance == INT_MAX) return strlen(given) >= SHORTEST_PART && strstr(name, given);
    return qkv_name_distance(given, name) == distance;
}

const char *qkv_suggest_names(char *text, size_t size, const char *given, const char *prefix,
                              qkv_name_lister *name, const void *context)
{
    int nearest = INT_MAX, count = 0;
    const char *found[MAX_NAMES], *candidate;
    for (int64_t i = 0; (candidate = name(context, i)); i++) {
        int distance = qkv_name_distance(given, candidate);
        if (distance < nearest && qkv_names_are_near(given, candidate, distance)) nearest = distance;
    }
    for (int64_t i = 0; (candidate = name(context, i)) && count < MAX_NAMES; i++)
        if (is_wanted(given, candidate, nearest)) found[count++] = candidate;
    if (size) *text = '\0';
    for (int i = 0; size && i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s%s",
                 !i              ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 prefix, found[i]);
    }
    return text;
}

/* ---- numbered strings ---- */

/* A hash table from a string to its number; all strings are in one block. */

/* FNV-1a (Fowler, Noll, Vo), folded to 32 bits. */
static uint32_t hash_of(const char *token, size_t *size)
{
    uint64_t hash = 14695981039346656037u;
    const char *end = token;
    for (; *end; end++) hash = (hash ^ (unsigned char)*end) * 1099511628211u;
    *size = (size_t)(end - token);
    return (uint32_t)(hash ^ (hash >> 32));
}

/* The slot of a string, or the free slot for it. At most half of the slots are in use. */
static int64_t slot_of(const struct qkv_types *types, const char *token, uint32_t hash)
{
    int64_t mask = types->slot_count - 1, slot = hash & mask;
    for (; types->slots[slot] >= 0; slot = (slot + 1) & mask) {
        int32_t type = types->slots[slot];
        if (types->hash[type] == hash && !strcmp(types->text + types->start[type], token)) break;
    }
    return slot;
}

static bool double_slots(struct qkv_types *types)
{
    int64_t count = types->slot_count ? 2 * types->slot_count : 1024;
    int32_t *slots = malloc((size_t)count * sizeof *slots);
    if (!slots) return false;
    for (int64_t i = 0; i < count; i++) slots[i] = -1;
    for (int64_t type = 0; type < types->size; type++) {
        int64_t slot = types->hash[type] & (count - 1);
        while (slots[slot] >= 0) slot = (slot + 1) & (count - 1);
        slots[slot] = (int32_t)type;
    }
    free(types->slots);
    types->slots = slots;
    types->slot_count = count;
    return true;
}

/* The sum, or the number that is closest to it. */
static int64_t sum_saturated(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

/* Appends a string and its NUL to the text, also a part of the text itself, which growing moves. False when there is no
 * memory. */
static bool append(struct qkv_types *types, const char *token, int64_t size)
{
    uintptr_t begin = (uintptr_t)types->text, at = (uintptr_t)token;
    bool is_part = begin && at >= begin && at < begin + (uintptr_t)types->text_size;
    if (!QKV_RESERVE(types->text, types->text_capacity, types->text_size + size)) return false;
    memcpy(types->text + types->text_size, is_part ? types->text + (at - begin) : token, (size_t)size);
    types->text_size += size;
    return true;
}

int32_t qkv_types_add(struct qkv_types *types, const char *token, int64_t frequency)
{
    size_t size;
    uint32_t hash = hash_of(token, &size);
    if (2 * (types->size + 1) > types->slot_count && !double_slots(types)) {
        qkv_types_release(types);
        return -1;
    }
    int64_t slot = slot_of(types, token, hash), type = types->slots[slot];
    if (type >= 0) {
        types->frequency[type] = sum_saturated(types->frequency[type], frequency);
        return (int32_t)type;
    }
    type = types->size;
    int64_t start = types->text_size;
    if (type == INT32_MAX || !QKV_RESERVE(types->frequency, types->capacity, type + 1) ||
        !QKV_RESERVE(types->start, types->start_capacity, type + 1) ||
        !QKV_RESERVE(types->hash, types->hash_capacity, type + 1) ||
        !append(types, token, (int64_t)size + 1)) {
        qkv_types_release(types);
        return -1;
    }
    types->start[type] = start;
    types->hash[type] = hash;
    types->frequency[type] = frequency;
    types->slots[slot] = (int32_t)type;
    types->size++;
    return (int32_t)type;
}

int32_t qkv_types_find(const struct qkv_types *types, const char *token)
{
    size_t size;
    uint32_t hash = hash_of(token, &size);
    return types->slot_count ? types->slots[slot_of(types, token, hash)] : -1;
}

const char *qkv_types_token(const struct qkv_types *types, int64_t type)
{
    return type >= 0 && type < types->size ? types->text + types->start[type] : NULL;
}

void qkv_types_release(struct qkv_types *types)
{
    free(types->frequency);
    free(types->start);
    free(types->hash);
    free(types->slots);
    free(types->text);
    *types = (struct qkv_types){0};
}
