/* Holding qkv against figures of tests/figures/<file>.json, which a script beside it made with PyTorch in
 * float64. Both sides start from the same closed formula. */
#ifndef QKV_TESTS_FIGURES_H
#define QKV_TESTS_FIGURES_H

#include "qkv/parameters.h"

#include <cjson/cJSON.h>

/* Number i of a family, in every script and here. */
double figures_number(int64_t family, int64_t i);

cJSON *figures_read(const char *file);
void figures_expect(const cJSON *figures, const double *numbers, int64_t count, const char *name,
                    const char *what);
/* Values and gradients of parameters, by the figures' names. */
void figures_set(struct qkv_parameters *parameters, const cJSON *figures, const char *name);
void figures_expect_gradients(const struct qkv_parameters *parameters, const double *gradients,
                              const cJSON *figures, const char *name);

/* One case. Declare its parameters between start and bind. */
struct scene {
    const char *name;
    cJSON *root;
    const cJSON *figures;
    struct qkv_parameters parameters;
    double *gradients;
    struct qkv_graph *graph;
    struct qkv_tensor *input[2];
};

void scene_start(struct scene *scene, const char *file, const char *name);
void scene_bind(struct scene *scene);
struct qkv_tensor *scene_input(struct scene *scene, int number_of_input, int64_t rows, int64_t width);
/* Runs the graph for `output` and holds it and all gradients against the figures. */
void scene_expect(struct scene *scene, struct qkv_tensor *output);
void scene_end(struct scene *scene);

#endif
