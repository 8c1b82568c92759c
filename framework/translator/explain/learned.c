#include "explain/learned.h"

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

struct qkv_matrix qkv_position_table(const struct qkv_model *model, const struct qkv_positions *positions,
                                     struct walk *walk)
{
    if (positions->table) return parameter_matrix(model, walk, positions->table);
    int64_t rows = positions->length, columns = positions->width;
    double *values = qkv_walk_memory(walk, rows * columns, sizeof *values);
    for (int64_t i = 0; values && i < rows * columns; i++)
        values[i] = qkv_sinusoid(i / columns, i % columns, columns, positions->base);
    return (struct qkv_matrix){values ? rows : 0, columns, values};
}

void qkv_learned_multi_head(const struct qkv_model *model, const struct qkv_multi_head *layer,
                            struct walk *walk, struct attention_setup *setup)
{
    setup->query_projection = qkv_learned_projection(model, walk, &layer->query);
    setup->key_projection = qkv_learned_projection(model, walk, &layer->key);
    setup->value_projection = qkv_learned_projection(model, walk, &layer->value);
    setup->output_projection = qkv_learned_projection(model, walk, &layer->output);
    setup->rule = layer->rule;
    setup->silent = layer->is_silent;
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

/* Rows first .. first + rows - 1. */
static struct qkv_matrix rows_of(struct qkv_matrix matrix, int64_t first, int64_t rows)
{
    return (struct qkv_matrix){rows, matrix.columns, matrix.value + first * matrix.columns};
}

void qkv_learned_single_head(const struct qkv_model *model, const struct qkv_attention_layers *layers,
                             struct walk *walk, struct attention_setup *setup, struct projection *attentional)
{
    const struct qkv_single_head_attention *layer = layers->single_head;
    struct qkv_matrix query = parameter_matrix(model, walk, layer->query.weight),
                      key = parameter_matrix(model, walk, layer->key.weight);
    *attentional = qkv_learned_projection(model, walk, layers->attentional);
    setup->rule.heads = 1;
    setup->silent = layer->is_silent;
    setup->additive_vector = parameter_matrix(model, walk, layer->vector);
    setup->query_width = layer->query_width;
    setup->key_width = setup->value_width = layer->memory_width;
    switch (layer->score) {
    case QKV_ATTENTION_SCORE_SCALED_DOT:
        setup->score = QKV_SCENE_SCORE_SCALED_DOT;
        setup->query_projection.weight = query;
        setup->key_projection.weight = key;
        setup->query_width = setup->key_width = key.columns;
        break;
    case QKV_ATTENTION_SCORE_LOCAL_P: /* a general score within the window */
        setup->predictor = (struct position_predictor){
            parameter_matrix(model, walk, layer->place.weight),
            parameter_matrix(model, walk, layer->place_vector.weight), layer->window};
        setup->score = QKV_SCENE_SCORE_GENERAL;
        setup->general = transposed(walk, key);
        break;
    case QKV_ATTENTION_SCORE_GENERAL:
        setup->score = QKV_SCENE_SCORE_GENERAL;
        /* The paper scores h W m. The model computes keys m W_key, so W is the transpose of W_key. */
        setup->general = transposed(walk, key);
        break;
    case QKV_ATTENTION_SCORE_CONCAT:
        setup->score = QKV_SCENE_SCORE_ADDITIVE;
        setup->concat_weight = parameter_matrix(model, walk, layer->joint);
        if (!setup->concat_weight.rows) break; /* memory runs out */
        setup->additive_query = rows_of(setup->concat_weight, 0, setup->query_width);
        setup->additive_key = rows_of(setup->concat_weight, setup->query_width, setup->key_width);
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
