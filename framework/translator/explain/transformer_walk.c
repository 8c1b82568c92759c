/* The walk through an attention layer of a transformer. */
#include "explain/learned.h"
#include "explain/model_walk.h"

/* Sets the rotation of queries and keys (rotary), and the distance bias of scores (relative). */
static void set_positions(struct model_walk *m, struct attention_setup *setup)
{
    const struct qkv_positions *positions = m->layers.multi_head->positions;
    setup->positions = m->followed_rows;
    if (!positions) return;
    if (positions->kind == QKV_POSITION_ROTARY)
        setup->rotation = qkv_position_table(m->model, positions, m->walk);
    if (positions->kind == QKV_POSITION_RELATIVE)
        setup->distance_bias = qkv_position_table(m->model, positions, m->walk);
}

/* Adds the inputs of the layer: the hidden state and, for cross-attention, the memory. */
static void add_layer_inputs(struct model_walk *m, struct qkv_tensor *x, struct qkv_tensor *memory)
{
    struct walk *walk = m->walk;
    bool cross = m->kind == QKV_ATTENTION_CROSS;
    const struct qkv_part *input = qkv_trace_attention(m->trace, QKV_PART_INPUT, m->kind, m->layer);
    const char *formula = m->layer > 1 || cross
                              ? qkv_walk_text(walk, "X, hidden states that enter layer %d", m->layer)
                              : "X, the inputs as the layer reads them";
    if (qkv_trace_has(m->trace, QKV_PART_NORM, input->node))
        formula = qkv_walk_text(walk, "%s, normed", formula);
    qkv_walk_add_tensor(walk, "layer_inputs", "inputs of the layer", formula, x, m->query_words);
    qkv_walk_note(walk, cross ? "From here on, a row is named after the word that its decoder step "
                                "outputs."
                              : NULL);
    if (cross)
        qkv_walk_add_tensor(walk, "memory", "memory", "M, the output of the encoder", memory, m->key_words);
}

enum qkv_status qkv_model_walk_transformer(struct model_walk *m)
{
    struct walk *walk = m->walk;
    bool cross = m->kind == QKV_ATTENTION_CROSS;
    struct attention_setup setup = {
        .query_words = m->query_words,
        .key_words = m->key_words,
        .score = QKV_SCENE_SCORE_SCALED_DOT,
        .x_name = "X",
        .memory_name = cross ? "M" : "X",
        .x_step = "layer_inputs",
        .memory_step = cross              ? "memory"
                       : m->followed_rows ? NULL
                                          : "layer_inputs",
    };
    qkv_learned_multi_head(m->model, m->layers.multi_head, walk, &setup);
    qkv_model_walk_inputs(m, m->kind == QKV_ATTENTION_ENCODER ? QKV_STACK_ENCODER : QKV_STACK_DECODER, false,
                          m->input_words);
    if (cross) qkv_model_walk_inputs(m, QKV_STACK_ENCODER, true, m->key_words);
    setup.x = qkv_model_walk_followed(m, qkv_model_walk_part(m, QKV_PART_INPUT));
    setup.memory = qkv_model_walk_part(m, QKV_PART_MEMORY);
    if (walk->failed) return qkv_model_walk_no_memory(m->error);
    add_layer_inputs(m, setup.x, setup.memory);
    qkv_model_walk_mask(m, &m->layers.multi_head->rule, &setup);
    set_positions(m, &setup);
    struct attention_result result = qkv_walk_attention(walk, &setup);
    qkv_model_walk_rest_of_layer(m, setup.x, result.output);
    m->heads = setup.rule.heads;
    return QKV_OK;
}
