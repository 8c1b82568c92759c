#include "config/number.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_digits(const char *at)
{
    while (*at >= '0' && *at <= '9') at++;
    return at;
}

enum qkv_number_kind qkv_number_kind(const char *text)
{
    if (*text == '+' || *text == '-') text++;
    const char *end = skip_digits(text);
    bool whole = end > text, fraction = false, exponent = false;
    if (end - text > 1 && *text == '0')
        return QKV_NUMBER_NONE; /* octal in YAML 1.1: who knows what was meant */
    if (*end == '.') {
        const char *digits = end + 1;
        end = skip_digits(digits);
        fraction = true;
        whole |= end > digits;
    }
    if (!whole) return QKV_NUMBER_NONE;
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

/* strtod and printf take the decimal point from the locale of the thread: C's, for the duration. */
static locale_t enter_c_locale(locale_t *own)
{
    *own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return uselocale(*own);
}

static void leave_c_locale(locale_t before, locale_t own)
{
    uselocale(before);
    if (own) freelocale(own);
}

bool qkv_number_read(const char *text, double *value)
{
    locale_t own, before = enter_c_locale(&own);
    *value = strtod(text, NULL);
    leave_c_locale(before, own);
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
    locale_t own, before = enter_c_locale(&own);
    int digits = 0; /* after the first */
    do snprintf(text, QKV_NUMBER_SIZE, "%.*e", digits, value);
    while (strtod(text, NULL) != value && digits++ < 17);
    char *e = strchr(text, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, QKV_NUMBER_SIZE, "%.*f", digits > exponent ? digits - exponent : 0, value);
    else
        snprintf(e + 1, QKV_NUMBER_SIZE - (size_t)(e + 1 - text), "%d", exponent); /* e-8, not e-08 */
    leave_c_locale(before, own);
}
