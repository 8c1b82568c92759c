#include "figures.h"

enum { INPUT = 100, COTANGENT = 200 }; /* families of numbers besides the parameters */

static const double BOUND = 1e-10;

double figures_number(int64_t family, int64_t i)
{
    double x = (double)i;
    return sin(0.1 * x * x + 0.7 * x + 1.3 * (double)family + 0.5);
}

/* ---- figures ---- */

cJSON *figures_read(const char *file)
{
    char *text RELEASED(free_memory) = read_file(format(QKV_SOURCE_DIR "/tests/figures/%s", file), NULL);
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    cr_assert_not_null(root, "tests/figures/%s cannot be read", file);
    return root;
}

void figures_expect(const cJSON *figures, const double *numbers, int64_t count, const char *name,
                    const char *what)
{
    cr_assert_eq(cJSON_GetArraySize(figures), count, "%s, %s: %d figures for %lld numbers", name, what,
                 cJSON_GetArraySize(figures), (long long)count);
    const cJSON *figure = figures->child;
    for (int64_t i = 0; i < count; i++, figure = figure->next)
        cr_assert(fabs(numbers[i] - figure->valuedouble) <= BOUND,
                  "%s, %s [%lld]: %.17g, but PyTorch has %.17g", name, what, (long long)i, numbers[i],
                  figure->valuedouble);
}

/* ---- one case ---- */

void figures_start(struct figures_case *test, const char *file, const char *name)
{
    *test =
        (struct figures_case){.name = name, .root = figures_read(file), .graph = qkv_graph_new(QKV_FLOAT64)};
    test->figures = cJSON_GetObjectItem(test->root, name);
    cr_assert_not_null(test->figures, "no figures for %s", name);
}

void figures_set(struct qkv_parameters *parameters, const cJSON *figures, const char *name)
{
    const cJSON *list = cJSON_GetObjectItem(figures, "parameters");
    cr_assert_eq(cJSON_GetArraySize(list), parameters->count, "%s has other parameters", name);
    int family = 0;
    for (const cJSON *row = list->child; row; row = row->next, family++) {
        const char *title = cJSON_GetObjectItem(row, "name")->valuestring;
        const struct qkv_parameter *parameter = qkv_parameters_find(parameters, title);
        cr_assert_not_null(parameter, "%s: qkv has no %s", name, title);
        double offset = strlen(title) > 4 && !strcmp(title + strlen(title) - 4, "gain") ? 1 : 0;
        for (int64_t i = 0; i < parameter->count; i++)
            qkv_parameter_set(parameters, parameter, i, offset + 0.4 * figures_number(family, i));
    }
}

void figures_bind(struct figures_case *test)
{
    expect_done(qkv_parameters_allocate(&test->parameters, QKV_FLOAT64, &error));
    figures_set(&test->parameters, test->figures, test->name);
    test->gradients = calloc((size_t)test->parameters.elements, sizeof *test->gradients);
    qkv_graph_bind(test->graph, &test->parameters, test->gradients, false);
}

struct qkv_tensor *figures_input(struct figures_case *test, int number_of_input, int64_t rows, int64_t width)
{
    struct qkv_tensor *x = qkv_variable(test->graph, QKV_SHAPE(rows, width));
    for (int64_t i = 0; i < rows * width; i++)
        ((double *)qkv_tensor_value(x))[i] = figures_number(INPUT + number_of_input, i);
    return test->input[number_of_input] = x;
}

void figures_expect_gradients(const struct qkv_parameters *parameters, const double *gradients,
                              const cJSON *figures, const char *name)
{
    for (const cJSON *row = cJSON_GetObjectItem(figures, "parameters")->child; row; row = row->next) {
        const char *title = cJSON_GetObjectItem(row, "name")->valuestring;
        const struct qkv_parameter *parameter = qkv_parameters_find(parameters, title);
        figures_expect(cJSON_GetObjectItem(row, "gradient"), gradients + parameter->offset, parameter->count,
                       name, title);
    }
}

void figures_expect_case(struct figures_case *test, struct qkv_tensor *output)
{
    cr_assert_eq(qkv_graph_check(test->graph, &error), QKV_OK, "%s: %s", test->name, error.message);
    qkv_forward(test->graph);
    int64_t count = qkv_tensor_count(output);
    double *cotangent = malloc((size_t)count * sizeof *cotangent);
    for (int64_t i = 0; i < count; i++) cotangent[i] = figures_number(COTANGENT, i);
    qkv_backward(test->graph, output, count > 1 ? cotangent : NULL);
    free(cotangent);
    figures_expect(cJSON_GetObjectItem(test->figures, "output"), qkv_tensor_value(output), count, test->name,
                   "output");
    const cJSON *inputs = cJSON_GetObjectItem(test->figures, "inputs");
    for (int k = 0; k < cJSON_GetArraySize(inputs); k++)
        figures_expect(cJSON_GetArrayItem(inputs, k), qkv_tensor_gradient(test->input[k]),
                       qkv_tensor_count(test->input[k]), test->name,
                       k ? "gradient of input 2" : "gradient of input 1");
    figures_expect_gradients(&test->parameters, test->gradients, test->figures, test->name);
}

void figures_end(struct figures_case *test)
{
    qkv_graph_free(test->graph);
    qkv_parameters_release(&test->parameters);
    free(test->gradients);
    cJSON_Delete(test->root);
}
