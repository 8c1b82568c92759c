/* Compares qkv with the numbers in tests/figures/<file>.json, which a script in that folder
 * computed with PyTorch in float64. Both programs compute parameters and inputs with the same
 * closed formula. */
#pragma once

#include "support.h"

#include <cjson/cJSON.h>

/* Returns number i of a family: the formula that the scripts use, too. */
double figures_number(int64_t family, int64_t i);

cJSON *figures_read(const char *file);
void figures_expect(const cJSON *figures, const double *numbers, int64_t count, const char *name,
                    const char *what);
/* Sets the values, or compares the gradients, of the parameters that the file names. */
void figures_set(struct qkv_parameters *parameters, const cJSON *figures, const char *name);
void figures_expect_gradients(const struct qkv_parameters *parameters, const double *gradients,
                              const cJSON *figures, const char *name);

/* One case: figures_start, declare the parameters, figures_bind, build the graph,
 * figures_expect_case, figures_end. */
struct figures_case {
    const char *name;
    cJSON *root;
    const cJSON *figures;
    struct qkv_parameters parameters;
    double *gradients;
    struct qkv_graph *graph;
    struct qkv_tensor *input[2];
};

void figures_start(struct figures_case *test, const char *file, const char *name);
void figures_bind(struct figures_case *test);
struct qkv_tensor *figures_input(struct figures_case *test, int number_of_input, int64_t rows, int64_t width);
/* Runs the graph and compares the output and all gradients with the file. */
void figures_expect_case(struct figures_case *test, struct qkv_tensor *output);
void figures_end(struct figures_case *test);
