/* The rates of parameters: training some of them more slowly than others, or not at all. */
#include "core/text.h"
#include "graph/internal.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Sets rate [parameters->count] of all parameters whose names the pattern fits. */
static enum qkv_status set_rate(struct qkv_parameters *parameters, const char *pattern, double value,
                                double *rate, struct qkv_error *error)
{
    char near[3 * LONGEST + 16];
    bool fits = false;
    for (int64_t i = 0; i < parameters->count; i++) {
        if (fnmatch(pattern, parameters->list[i]->name, 0) != 0) continue;
        rate[i] = value;
        fits = true;
    }
    if (fits) return QKV_OK;
    qkv_suggest_names(near, sizeof near, pattern, "", name_at, parameters);
    return qkv_error_set(error, "no parameter is named %s%s%s; `qkv inspect RUN` lists the names of a run",
                         pattern, *near ? "; did you mean " : "", near);
}

/* Reads one PATTERN=FACTOR of `length` bytes. */
static enum qkv_status read_rate(struct qkv_parameters *parameters, const char *text, size_t length,
                                 double *rate, struct qkv_error *error)
{
    char pair[LONGEST + 1];
    snprintf(pair, sizeof pair, "%.*s", (int)length, text);
    char *equals = strrchr(pair, '=');
    double value = -1;
    bool is_number = equals && qkv_number_kind(equals + 1) && qkv_number_read(equals + 1, &value);
    if (length > LONGEST || !is_number || equals == pair || !(value >= 0) || !isfinite(value))
        return qkv_error_set(
            error, "'%s' is not PATTERN=FACTOR with a factor from 0 on, such as encoder.*=0.1", pair);
    *equals = 0;
    return set_rate(parameters, pair, value, rate, error);
}

/* Reads all of `rates` into rate [parameters->count]. */
static enum qkv_status read_rates(struct qkv_parameters *parameters, const char *rates, double *rate,
                                  struct qkv_error *error)
{
    static const char SPACE[] = " \t\n";
    for (const char *at = rates + strspn(rates, SPACE); *at;) {
        size_t length = strcspn(at, SPACE);
        if (read_rate(parameters, at, length, rate, error)) return QKV_INVALID;
        at += length;
        at += strspn(at, SPACE);
    }
    for (int64_t i = 0; i < parameters->count; i++)
        if (rate[i] > 0) return QKV_OK;
    return parameters->count ? qkv_error_set(error, "every parameter is frozen, so there is nothing to train")
                             : QKV_OK;
}

enum qkv_status qkv_parameters_set_rates(struct qkv_parameters *parameters, const char *rates,
                                         struct qkv_error *error)
{
    if (!rates) return QKV_OK;
    double *rate = malloc(((size_t)parameters->count + 1) * sizeof *rate);
    if (!rate) return qkv_error_set(error, "out of memory for the rates of parameters");
    for (int64_t i = 0; i < parameters->count; i++) rate[i] = parameters->list[i]->rate;
    enum qkv_status status = read_rates(parameters, rates, rate, error);
    for (int64_t i = 0; !status && i < parameters->count; i++) parameters->list[i]->rate = rate[i];
    free(rate);
    return status;
}
