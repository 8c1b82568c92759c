/* The rates of parameters: training some of them more slowly than others, or not at all. */
#include "config/number.h"

#include "qkv/nearest.h"
#include "qkv/parameters.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 255 };

int64_t qkv_parameters_frozen(const struct qkv_parameters *parameters)
{
    int64_t frozen = 0;
    for (int64_t i = 0; i < parameters->count; i++)
        if (!(parameters->list[i]->rate > 0)) frozen += parameters->list[i]->count;
    return frozen;
}

static const char *name_at(const void *context, int64_t index)
{
    const struct qkv_parameters *parameters = context;
    return index < parameters->count ? parameters->list[index]->name : NULL;
}

/* Sets the rate of all parameters whose names the pattern fits. */
static enum qkv_status set_rate(struct qkv_parameters *parameters, const char *pattern, double rate,
                                struct qkv_error *error)
{
    char near[3 * LONGEST + 16];
    bool fits = false;
    for (int64_t i = 0; i < parameters->count; i++) {
        if (fnmatch(pattern, parameters->list[i]->name, 0) != 0) continue;
        parameters->list[i]->rate = rate;
        fits = true;
    }
    if (fits) return QKV_OK;
    qkv_names_near(near, sizeof near, pattern, "", name_at, parameters);
    return qkv_error_set(error, "no parameter is named %s%s%s; `qkv inspect RUN` lists the names of a run",
                         pattern, *near ? "; did you mean " : "", near);
}

/* Reads one PATTERN=FACTOR of `length` bytes. */
static enum qkv_status read_rate(struct qkv_parameters *parameters, const char *text, size_t length,
                                 struct qkv_error *error)
{
    char pair[LONGEST + 1];
    snprintf(pair, sizeof pair, "%.*s", (int)length, text);
    char *equals = strrchr(pair, '=');
    double rate = -1;
    bool is_number = equals && qkv_number_kind(equals + 1) && qkv_number_read(equals + 1, &rate);
    if (length > LONGEST || !is_number || equals == pair || !(rate >= 0) || !isfinite(rate))
        return qkv_error_set(
            error, "'%s' is not PATTERN=FACTOR with a factor from 0 on, such as encoder.*=0.1", pair);
    *equals = 0;
    return set_rate(parameters, pair, rate, error);
}

enum qkv_status qkv_parameters_set_rates(struct qkv_parameters *parameters, const char *rates,
                                         struct qkv_error *error)
{
    static const char SPACE[] = " \t\n";
    if (!rates) return QKV_OK;
    for (const char *at = rates + strspn(rates, SPACE); *at;) {
        size_t length = strcspn(at, SPACE);
        if (read_rate(parameters, at, length, error)) return QKV_INVALID;
        at += length;
        at += strspn(at, SPACE);
    }
    if (parameters->count && qkv_parameters_frozen(parameters) == qkv_parameters_total(parameters))
        return qkv_error_set(error, "every parameter is frozen, so there is nothing to train");
    return QKV_OK;
}
