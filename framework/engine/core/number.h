/* Converts numbers to text and back: exactly, and in the same way in every locale. */
#ifndef QKV_CONFIG_NUMBER_H
#define QKV_CONFIG_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

enum { QKV_NUMBER_SIZE = 40 }; /* bytes of the longest formatted number, NUL included */

enum qkv_number_kind {
    QKV_NUMBER_NONE,    /* not a number: `abc`, `1_000`, `0x10`, `010`, `.inf` */
    QKV_NUMBER_DECIMAL, /* has a point or an exponent: `0.5`, `1e-3` */
    QKV_NUMBER_INTEGER, /* only digits, after an optional sign */
};

/* The kind of number that a text is. A number is an optional sign and decimal or scientific notation without leading
 * zeros. */
enum qkv_number_kind qkv_number_kind(const char *text);

/* Reads a text that is a number (qkv_number_kind); false when it is outside the range of the type. */
bool qkv_number_read(const char *text, double *value);
bool qkv_integer_read(const char *text, int64_t *value); /* the text is QKV_NUMBER_INTEGER */

/* Writes the shortest text that reads back as exactly this finite value. */
void qkv_number_format(char text[static QKV_NUMBER_SIZE], double value);

#endif
