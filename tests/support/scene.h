/* Reads the JSON of qkv explain and finds its steps. */
#ifndef QKV_TESTS_SCENE_H
#define QKV_TESTS_SCENE_H

#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SEEDS QKV_SOURCE_DIR "/configs/seeds"

/* Parses JSON, which lives until the test ends. */
static inline cJSON *parsed(const char *text)
{
    return remember(cJSON_Parse(text));
}

/* Runs qkv explain and returns its JSON. */
static inline cJSON *walk_of(const char *arguments)
{
    struct outcome outcome = run("qkv explain %s -f json", arguments);
    cr_assert_eq(outcome.exit_code, 0, "%s: %s", arguments, outcome.error);
    cJSON *walk = parsed(outcome.output);
    cr_assert_not_null(walk, "%s", outcome.output);
    return walk;
}

/* Returns step `name` of a walk; NULL if there is none. */
static inline cJSON *step_of(const cJSON *json, int walk, const char *name)
{
    cJSON *steps = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "walks"), walk), "steps"),
          *step;
    cJSON_ArrayForEach(
        step, steps) if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(step, "name")), name)) return step;
    return NULL;
}

/* Returns a map such as "cross.1.2" in the JSON of qkv attention. */
static inline cJSON *map_of(const cJSON *report, const char *name)
{
    cJSON *map;
    cJSON_ArrayForEach(
        map, cJSON_GetObjectItem(report,
                                 "maps")) if (!strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(map, "name")),
                                                      name)) return map;
    cr_assert_fail("no map %s", name);
    return NULL;
}

/* Fails unless a step has a shape such as "[5, 4, 6]". */
static inline void expect_shape(const cJSON *json, const char *name, const char *shape)
{
    cJSON *step = step_of(json, 0, name);
    cr_assert_not_null(step, "no step %s", name);
    cr_expect_str_eq(remember(cJSON_PrintUnformatted(cJSON_GetObjectItem(step, "shape"))), shape, "%s", name);
}

/* Returns a number of a matrix, or of the matrix of one head; NaN for a masked number. */
static inline double number_of(const cJSON *step, int head, int row, int column)
{
    const cJSON *rows = cJSON_GetObjectItem(step, "values");
    if (cJSON_GetArraySize(cJSON_GetObjectItem(step, "shape")) == 3) rows = cJSON_GetArrayItem(rows, head);
    cJSON *number = cJSON_GetArrayItem(cJSON_GetArrayItem(rows, row), column);
    cr_assert_not_null(number, "no [%d, %d, %d]", head, row, column);
    return cJSON_IsNumber(number) ? number->valuedouble : (double)NAN;
}

/* Compares one row of a step with expected numbers, rounded to `digits` decimals. */
static inline void expect_row(const cJSON *json, const char *name, int head, int row, int count,
                              const double *expected, int digits)
{
    cJSON *step = step_of(json, 0, name);
    cr_assert_not_null(step, "no step %s", name);
    for (int c = 0; c < count; c++) {
        char actual[64], wanted[64];
        snprintf(actual, sizeof actual, "%.*f", digits, number_of(step, head, row, c));
        snprintf(wanted, sizeof wanted, "%.*f", digits, expected[c]);
        cr_expect_str_eq(actual, wanted, "%s [%d, %d, %d]", name, head, row, c);
    }
}
#define EXPECT_ROW(json, name, head, row, digits, ...)                                                       \
    expect_row(json, name, head, row, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)),               \
               (double[]){__VA_ARGS__}, digits)

#endif
