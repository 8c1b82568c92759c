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

/* Fails unless a walk has these steps with these shapes: "tokens [1,4], embeddings [4,3]". */
static inline void expect_steps(const cJSON *json, const char *steps)
{
    const char *list = "";
    const cJSON *step;
    cJSON_ArrayForEach(
        step, cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "walks"), 0), "steps")) list =
        format("%s%s%s %s", list, *list ? ", " : "", cJSON_GetStringValue(cJSON_GetObjectItem(step, "name")),
               (char *)remember(cJSON_PrintUnformatted(cJSON_GetObjectItem(step, "shape"))));
    cr_expect_str_eq(list, steps);
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

/* Expects the same numbers in two rows of steps. */
static inline void expect_same_row(const cJSON *one, int row, const cJSON *other, int other_row)
{
    const cJSON *shape = cJSON_GetObjectItem(one, "shape");
    int columns = cJSON_GetArrayItem(shape, cJSON_GetArraySize(shape) - 1)->valueint;
    for (int c = 0; c < columns; c++)
        cr_expect_float_eq(number_of(one, 0, row, c), number_of(other, 0, other_row, c), 1e-12, "%d", c);
}

/* Expects that the weights of each head of a walk are the maps "KIND.LAYER.1", ... of qkv attention. Returns how far the
 * weights are from those of a query that attends to all keys alike. */
static inline double expect_maps(const cJSON *walk, const cJSON *report, const char *maps)
{
    const cJSON *weights = step_of(walk, 0, "weights"), *shape = cJSON_GetObjectItem(weights, "shape");
    int rank = cJSON_GetArraySize(shape), heads = rank == 3 ? cJSON_GetArrayItem(shape, 0)->valueint : 1,
        rows = cJSON_GetArrayItem(shape, rank - 2)->valueint,
        columns = cJSON_GetArrayItem(shape, rank - 1)->valueint;
    double range = 0;
    for (int head = 0; head < heads; head++) {
        const cJSON *map = cJSON_GetObjectItem(map_of(report, format("%s.%d", maps, head + 1)), "weights");
        cr_expect_eq(cJSON_GetArraySize(map), rows);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++) {
                double weight = number_of(weights, head, i, j);
                cr_expect_float_eq(weight, cJSON_GetArrayItem(cJSON_GetArrayItem(map, i), j)->valuedouble,
                                   2e-6, "%s.%d [%d, %d]", maps, head + 1, i, j);
                range = fmax(range, fabs(weight - 1.0 / columns));
            }
    }
    return range;
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

#endif
