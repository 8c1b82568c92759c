/* Reads the JSON of qkv explain and finds its steps. */
#pragma once

#include "json.h"

#define SEEDS QKV_SOURCE_DIR "/configs/seeds"

/* Runs qkv explain and returns its JSON. */
static inline const cJSON *walk_of(const char *arguments)
{
    return json_by("qkv explain %s -f json", arguments);
}

/* Returns the object with this name in a list at a path; NULL if there is none. */
static inline const cJSON *named(const cJSON *json, const char *path, const char *name)
{
    const cJSON *list = json_at(json, path);
    for (int i = 0; i < cJSON_GetArraySize(list); i++)
        if (!strcmp(json_text(cJSON_GetArrayItem(list, i), "name"), name)) return cJSON_GetArrayItem(list, i);
    return NULL;
}

/* Returns step `name` of a walk; NULL if there is none. */
static inline const cJSON *step_of(const cJSON *json, int walk, const char *name)
{
    return named(json, format("walks.%d.steps", walk), name);
}

/* The shape of a step, such as "[5,4,6]". */
static inline const char *shape_of(const cJSON *step)
{
    return remember(cJSON_PrintUnformatted(json_at(step, "shape")));
}

/* Fails unless a step has a shape. */
static inline void expect_shape(const cJSON *json, const char *name, const char *shape)
{
    const cJSON *step = step_of(json, 0, name);
    cr_assert_not_null(step, "no step %s", name);
    cr_expect_str_eq(shape_of(step), shape, "%s", name);
}

/* Fails unless a walk has these steps with these shapes: "tokens [1,4], embeddings [4,3]". */
static inline void expect_steps(const cJSON *json, const char *steps)
{
    const char *list = "";
    const cJSON *step;
    cJSON_ArrayForEach(step, json_at(json, "walks.0.steps")) list =
        format("%s%s%s %s", list, *list ? ", " : "", json_text(step, "name"), shape_of(step));
    cr_expect_str_eq(list, steps);
}

/* Returns a number of a matrix, or of the matrix of one head; NaN for a masked number. */
static inline double number_of(const cJSON *step, int head, int row, int column)
{
    const cJSON *rows = json_at(step, "values");
    if (json_size(step, "shape") == 3) rows = cJSON_GetArrayItem(rows, head);
    cJSON *number = cJSON_GetArrayItem(cJSON_GetArrayItem(rows, row), column);
    cr_assert_not_null(number, "no [%d, %d, %d]", head, row, column);
    return cJSON_IsNumber(number) ? number->valuedouble : (double)NAN;
}

/* Heads, rows and columns of a step; one head where it has none. */
struct step_size {
    int heads, rows, columns;
};

static inline struct step_size size_of(const cJSON *step)
{
    bool has_heads = json_size(step, "shape") == 3;
    const cJSON *rows = json_at(step, has_heads ? "values.0" : "values");
    return (struct step_size){has_heads ? json_size(step, "values") : 1, json_size(rows, ""),
                              json_size(rows, "0")};
}

/* Expects the same numbers in two rows of steps. */
static inline void expect_same_row(const cJSON *one, int row, const cJSON *other, int other_row)
{
    for (int c = 0; c < size_of(one).columns; c++)
        cr_expect_float_eq(number_of(one, 0, row, c), number_of(other, 0, other_row, c), 1e-12, "%d", c);
}

/* Expects that the weights of each head of a walk are the maps "KIND.LAYER.1", ... of qkv attention. Returns how far the
 * weights are from those of a query that attends to all keys alike. */
static inline double expect_maps(const cJSON *walk, const cJSON *report, const char *maps)
{
    const cJSON *weights = step_of(walk, 0, "weights");
    const struct step_size size = size_of(weights);
    double range = 0;
    for (int head = 0; head < size.heads; head++) {
        const cJSON *map = named(report, "maps", format("%s.%d", maps, head + 1));
        cr_expect_eq(json_size(map, "weights"), size.rows);
        for (int i = 0; i < size.rows; i++)
            for (int j = 0; j < size.columns; j++) {
                double weight = number_of(weights, head, i, j);
                cr_expect_float_eq(weight, json_cell(json_at(map, "weights"), i, j), 2e-6, "%s.%d [%d, %d]",
                                   maps, head + 1, i, j);
                range = fmax(range, fabs(weight - 1.0 / size.columns));
            }
    }
    return range;
}

/* Compares a row of a step, and rows after it while there are expected numbers, rounded to `digits` decimals. */
static inline void expect_row(const cJSON *json, const char *name, int row, int count, const double *expected,
                              int digits)
{
    const cJSON *step = step_of(json, 0, name);
    cr_assert_not_null(step, "no step %s", name);
    int columns = size_of(step).columns;
    for (int i = 0; i < count; i++) {
        char actual[64], wanted[64];
        snprintf(actual, sizeof actual, "%.*f", digits, number_of(step, 0, row + i / columns, i % columns));
        snprintf(wanted, sizeof wanted, "%.*f", digits, expected[i]);
        cr_expect_str_eq(actual, wanted, "%s [%d, %d]", name, row + i / columns, i % columns);
    }
}
