/* The learned vectors and matrices of a model. */
#include "explain/walk.h"
#include "graph/attention_rule.h"

/* The values of a parameter as a matrix; a vector becomes one row. No rows when the parameter is NULL. */
static struct qkv_matrix parameter_matrix(const struct qkv_model *model, struct walk *walk,
                                          const struct qkv_parameter *parameter)
{
    if (!parameter) return (struct qkv_matrix){0};
    bool row = parameter->shape.rank == 1;
    int64_t rows = row ? 1 : parameter->shape.size[0], columns = parameter->shape.size[row ? 0 : 1];
    double *values = qkv_walk_memory(walk, rows * columns, sizeof *values);
    for (int64_t i = 0; values && i < rows * columns; i++)
        values[i] = qkv_parameter_get(&model->parameters, parameter, i);
    return (struct qkv_matrix){values ? rows : 0, columns, values};
}

struct projection qkv_learned_projection(const struct qkv_model *model, struct walk *walk,
                                         const struct qkv_dense *dense)
{
    return (struct projection){parameter_matrix(model, walk, dense->weight),
                               parameter_matrix(model, walk, dense->bias)};
}

struct qkv_matrix qkv_walk_sinusoids(struct walk *walk, int64_t rows, int64_t width, double base)
{
    double *table = qkv_walk_memory(walk, rows * width, sizeof *table);
    for (int64_t i = 0; table && i < rows * width; i++)
        table[i] = qkv_sinusoid(i / width, i % width, width, base);
    return (struct qkv_matrix){table ? rows : 0, width, table};
}

struct qkv_matrix qkv_learned_positions(const struct qkv_model *model, const struct qkv_positions *positions,
                                        struct walk *walk)
{
    if (positions->table) return parameter_matrix(model, walk, positions->table);
    return qkv_walk_sinusoids(walk, positions->length, positions->width, positions->base);
}

void qkv_learned_multi_head(const struct qkv_model *model, const struct qkv_multi_head *layer,
                            struct walk *walk, struct attention_setup *setup)
{
    setup->query_projection = qkv_learned_projection(model, walk, &layer->query);
    setup->key_projection = qkv_learned_projection(model, walk, &layer->key);
    setup->value_projection = qkv_learned_projection(model, walk, &layer->value);
    setup->output_projection = qkv_learned_projection(model, walk, &layer->output);
    setup->gate_projection = qkv_learned_projection(model, walk, &layer->gate);
    setup->query_norm = parameter_matrix(model, walk, layer->query_norm.gain);
    setup->key_norm = parameter_matrix(model, walk, layer->key_norm.gain);
    setup->norm_epsilon = layer->query_norm.epsilon;
    setup->sink = parameter_matrix(model, walk, layer->sink_score);
    if (layer->sink == QKV_ATTENTION_SINK_ZERO)
        setup->sink = (struct qkv_matrix){1, layer->rule.heads,
                                          qkv_walk_memory(walk, layer->rule.heads, sizeof(double))};
    setup->rule = layer->rule;
    setup->ablated = layer->is_ablated;
    setup->key_width = setup->query_projection.weight.columns / layer->rule.heads;
    setup->value_width = setup->value_projection.weight.columns / qkv_attention_key_value_heads(&layer->rule);
}

static struct qkv_matrix transposed(struct walk *walk, struct qkv_matrix matrix)
{
    double *values = qkv_walk_memory(walk, matrix.rows * matrix.columns, sizeof *values);
    for (int64_t r = 0; values && r < matrix.rows; r++)
        for (int64_t c = 0; c < matrix.columns; c++)
            values[c * matrix.rows + r] = matrix.value[r * matrix.columns + c];
    return (struct qkv_matrix){matrix.columns, matrix.rows, values};
}

void qkv_learned_single_head(const struct qkv_model *model, const struct qkv_single_head_attention *layer,
                             struct walk *walk, struct attention_setup *setup)
{
    struct qkv_matrix query = parameter_matrix(model, walk, layer->query.weight),
                      key = parameter_matrix(model, walk, layer->key.weight), *joint = &setup->concat_weight;
    setup->rule.heads = 1;
    setup->ablated = layer->is_ablated;
    setup->additive_vector = parameter_matrix(model, walk, layer->vector);
    setup->key_width = setup->value_width = layer->memory_width;
    if (layer->score == QKV_ATTENTION_SCORE_LOCAL_P)
        setup->predictor = (struct position_predictor){
            parameter_matrix(model, walk, layer->place.weight),
            parameter_matrix(model, walk, layer->place_vector.weight), layer->local_window};
    switch (layer->score) {
    case QKV_ATTENTION_SCORE_SCALED_DOT:
        setup->score = QKV_SCENE_SCORE_SCALED_DOT;
        setup->query_projection.weight = query;
        setup->key_projection.weight = key;
        setup->key_width = key.columns;
        break;
    case QKV_ATTENTION_SCORE_LOCAL_P: /* a general score within the window */
    case QKV_ATTENTION_SCORE_GENERAL:
        setup->score = QKV_SCENE_SCORE_GENERAL;
        /* The paper scores h W m. The model computes keys m W_key, so W is the transpose of W_key. */
        setup->general = transposed(walk, key);
        break;
    case QKV_ATTENTION_SCORE_CONCAT:
        setup->score = QKV_SCENE_SCORE_ADDITIVE;
        *joint = parameter_matrix(model, walk, layer->joint);
        if (!joint->rows) break; /* memory runs out */
        setup->additive_query = (struct qkv_matrix){layer->query_width, joint->columns, joint->value};
        setup->additive_key = (struct qkv_matrix){layer->memory_width, joint->columns,
                                                  joint->value + layer->query_width * joint->columns};
        break;
    case QKV_ATTENTION_SCORE_ADDITIVE:
        setup->score = QKV_SCENE_SCORE_ADDITIVE;
        setup->additive_query = query;
        setup->additive_key = key;
        break;
    case QKV_ATTENTION_SCORE_DOT:
    case QKV_ATTENTION_SCORE_NONE:
        setup->score = QKV_SCENE_SCORE_DOT;
        break;
    }
}
