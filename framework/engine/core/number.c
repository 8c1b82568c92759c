#include "core/number.h"

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
    bool digits_seen = end > text, fraction = false, exponent = false;
    if (end - text > 1 && *text == '0')
        return QKV_NUMBER_NONE; /* 010 is octal in YAML 1.1 and decimal in YAML 1.2 */
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
