/* The importance of heads by gradients (Michel et al. 2019). */
#include "report/head_sums.h"

#include "qkv/layers.h"

#include <stdlib.h>

enum qkv_status qkv_head_gradients_init(struct head_gradients *gradients, const struct qkv_model *model,
                                        struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &model->parameters;
    *gradients = (struct head_gradients){.model = model, .graph = qkv_graph_new(parameters->dtype)};
    gradients->parameters = calloc((size_t)parameters->elements, qkv_dtype_size(parameters->dtype));
    if (!gradients->graph || !gradients->parameters)
        return qkv_error_set(error, "out of memory for the gradients of heads");
    qkv_graph_share_memory(gradients->graph, true);
    qkv_graph_bind(gradients->graph, parameters, gradients->parameters, false);
    return QKV_OK;
}

void qkv_head_gradients_release(struct head_gradients *gradients)
{
    qkv_graph_free(gradients->graph);
    free(gradients->parameters);
    qkv_batch_release(&gradients->batch);
    *gradients = (struct head_gradients){0};
}

/* d loss / dm at m = 1. The mask m of a head multiplies its context, which has the same effect as multiplying the rows W of the
 * output projection that belong to the head. So the derivative is the sum over these rows of W times d loss / dW. */
static double gradient_of_mask(const struct head_gradients *gradients, struct qkv_head head)
{
    const struct qkv_parameters *parameters = &gradients->model->parameters;
    struct qkv_rows rows;
    double sum = 0;
    if (!qkv_model_head_rows(gradients->model, head, &rows)) return 0;
    int64_t columns = rows.parameter->shape.size[1];
    for (int64_t i = rows.first * columns; i < (rows.first + rows.count) * columns; i++)
        sum += qkv_parameter_get(parameters, rows.parameter, i) *
               qkv_dtype_get(parameters->dtype, gradients->parameters, rows.parameter->offset + i);
    return sum;
}

enum qkv_status qkv_head_gradients_of(struct head_gradients *gradients, struct qkv_ids source,
                                      struct qkv_ids target, double *gradient, struct qkv_error *error)
{
    struct qkv_graph *graph = gradients->graph;
    struct qkv_batch_view view;
    if (qkv_batch_make(&gradients->batch, 1, &source, &target, error)) return QKV_INVALID;
    qkv_batch_shard(&gradients->batch, 0, 1, &view);
    qkv_graph_reset(graph);
    struct qkv_tensor *loss = qkv_model_loss(gradients->model, graph, &view, NULL, 1, NULL);
    qkv_graph_plan(graph, loss);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    for (int64_t i = 0; i < qkv_model_head_count(gradients->model); i++)
        gradient[i] = gradient_of_mask(gradients, qkv_model_head(gradients->model, i));
    return QKV_OK;
}
