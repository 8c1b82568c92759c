#include "data/utf16.h"

#include <stdint.h>
#include <utf8proc.h>

enum { HIGH_SURROGATE = 0xD800, LOW_SURROGATE = 0xDC00, SURROGATE_BITS = 10 };

bool qkv_is_utf16(const unsigned char bytes[2], bool *big_endian)
{
    *big_endian = bytes[0] == 0xFE;
    return (bytes[0] == 0xFE && bytes[1] == 0xFF) || (bytes[0] == 0xFF && bytes[1] == 0xFE);
}

static int32_t unit_at(const unsigned char *bytes, bool big_endian)
{
    return big_endian ? bytes[0] << 8 | bytes[1] : bytes[1] << 8 | bytes[0];
}

/* Whether a unit is the first half of a surrogate pair (HIGH_SURROGATE), or the second half (LOW_SURROGATE). */
static bool is_surrogate(int32_t unit, int half)
{
    return unit >> SURROGATE_BITS == half >> SURROGATE_BITS;
}

size_t qkv_utf16_convert(const unsigned char *bytes, size_t size, bool big_endian, char *text,
                         size_t *text_size, bool *valid)
{
    size_t used = 0;
    *text_size = 0;
    *valid = true;
    while (used + 2 <= size) {
        int32_t point = unit_at(bytes + used, big_endian);
        size_t units = is_surrogate(point, HIGH_SURROGATE) ? 2 : 1;
        if (used + 2 * units > size) break;
        if (units == 2) {
            int32_t second = unit_at(bytes + used + 2, big_endian);
            *valid = is_surrogate(second, LOW_SURROGATE);
            point = 0x10000 + ((point - HIGH_SURROGATE) << SURROGATE_BITS) + (second - LOW_SURROGATE);
        } else {
            *valid = !is_surrogate(point, LOW_SURROGATE);
        }
        if (!*valid) break;
        *text_size += (size_t)utf8proc_encode_char(point, (utf8proc_uint8_t *)text + *text_size);
        used += 2 * units;
    }
    return used;
}
