/* Compares qkv with the numbers in tests/figures/<file>.json, which a script in that folder
 * computed with PyTorch in float64. Both programs compute parameters and inputs with the same
 * closed formula. */
#pragma once

#include "support.h"

#include <cjson/cJSON.h>

void figures_expect(const cJSON *figures, const double *numbers, int64_t count, const char *name,
                    const char *what);

/* One case: figures_start, declare the parameters, or point at those of a model, figures_bind, build the graph,
 * figures_expect_case, figures_end. */
struct figures_case {
    const char *name;
    cJSON *root;
    const cJSON *figures;
    struct qkv_parameters own, *parameters; /* the latter are the own ones, unless a test sets others */
    double *gradients;
    struct qkv_graph *graph;
    struct qkv_tensor *input[2];
};

void figures_start(struct figures_case *test, const char *file, const char *name);
void figures_bind(struct figures_case *test);
struct qkv_tensor *figures_input(struct figures_case *test, int number_of_input, int64_t rows, int64_t width);
/* Runs the graph and compares the output and all gradients with the file. */
void figures_expect_case(struct figures_case *test, struct qkv_tensor *output);
/* Compares the gradients of the parameters alone. */
void figures_expect_gradients(const struct figures_case *test);
void figures_end(struct figures_case *test);
