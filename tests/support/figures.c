#include "figures.h"

enum { INPUT = 100, COTANGENT = 200 }; /* families of numbers besides the parameters */

static const double BOUND = 1e-10;

/* Returns number i of a family: the formula that the scripts use, too. */
static double figures_number(int64_t family, int64_t i)
{
    double x = (double)i;
    return sin(0.1 * x * x + 0.7 * x + 1.3 * (double)family + 0.5);
}

/* ---- figures ---- */

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
    const char *text = read_file(format(QKV_SOURCE_DIR "/tests/figures/%s", file), NULL);
    *test = (struct figures_case){.name = name, .graph = qkv_graph_new(QKV_FLOAT64)};
    test->parameters = &test->own;
    test->root = text ? cJSON_Parse(text) : NULL;
    test->figures = cJSON_GetObjectItem(test->root, name);
    cr_assert_not_null(test->figures, "no figures for %s", name);
}

/* Gives the parameters that the file names the values of its formula. */
static void set_parameters(struct figures_case *test)
{
    const cJSON *list = cJSON_GetObjectItem(test->figures, "parameters");
    cr_assert_eq(cJSON_GetArraySize(list), test->parameters->count, "%s has other parameters", test->name);
    int family = 0;
    for (const cJSON *row = list->child; row; row = row->next, family++) {
        const char *title = cJSON_GetObjectItem(row, "name")->valuestring;
        const struct qkv_parameter *parameter = qkv_parameters_find(test->parameters, title);
        cr_assert_not_null(parameter, "%s: qkv has no %s", test->name, title);
        double offset = strlen(title) > 4 && !strcmp(title + strlen(title) - 4, "gain") ? 1 : 0;
        for (int64_t i = 0; i < parameter->count; i++)
            qkv_parameter_set(test->parameters, parameter, i, offset + 0.4 * figures_number(family, i));
    }
}

void figures_bind(struct figures_case *test)
{
    if (test->parameters == &test->own) expect_done(qkv_parameters_allocate(&test->own, QKV_FLOAT64, &error));
    set_parameters(test);
    test->gradients = calloc((size_t)test->parameters->elements, sizeof *test->gradients);
    qkv_graph_bind(test->graph, test->parameters, test->gradients, false);
}

struct qkv_tensor *figures_input(struct figures_case *test, int number_of_input, int64_t rows, int64_t width)
{
    struct qkv_tensor *x = qkv_variable(test->graph, QKV_SHAPE(rows, width));
    for (int64_t i = 0; i < rows * width; i++)
        ((double *)qkv_tensor_value(x))[i] = figures_number(INPUT + number_of_input, i);
    return test->input[number_of_input] = x;
}

void figures_expect_gradients(const struct figures_case *test)
{
    for (const cJSON *row = cJSON_GetObjectItem(test->figures, "parameters")->child; row; row = row->next) {
        const char *title = cJSON_GetObjectItem(row, "name")->valuestring;
        const struct qkv_parameter *parameter = qkv_parameters_find(test->parameters, title);
        figures_expect(cJSON_GetObjectItem(row, "gradient"), test->gradients + parameter->offset,
                       parameter->count, test->name, title);
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
    figures_expect_gradients(test);
}

void figures_end(struct figures_case *test)
{
    qkv_graph_free(test->graph);
    qkv_parameters_release(&test->own);
    free(test->gradients);
    cJSON_Delete(test->root);
}
