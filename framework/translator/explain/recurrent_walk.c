/* The walk through the attention of a recurrent decoder: decoder states as queries, encoder states
 * as memory, the score, and the attentional vector of state and context. */
#include "explain/learned.h"
#include "explain/model_walk.h"

/* "bidirectional GRU" */
static const char *cell_name(struct model_walk *m, const struct qkv_stack_config *stack, bool encoder)
{
    static const char *const CELL[] = {
        [QKV_CELL_TANH] = "tanh cell", [QKV_CELL_GRU] = "GRU", [QKV_CELL_LSTM] = "LSTM"};
    const char *layers =
        stack->num_layers > 1 ? qkv_walk_text(m->walk, "%lld layers of ", (long long)stack->num_layers) : "";
    return qkv_walk_text(m->walk, "%s%s%s", layers, encoder && stack->bidirectional ? "bidirectional " : "",
                         CELL[stack->rnn_type]);
}

static void add_memory(struct model_walk *m, const struct qkv_tensor *memory)
{
    const struct qkv_stack_config *encoder = &m->model->config.encoder;
    const char *note = encoder->bidirectional
                           ? "The left half of a row encodes the words up to this one, the right half the "
                             "words from the end back to this one."
                       : encoder->reverse ? "A row encodes the words from the end back to this one."
                                          : "A row encodes the words up to this one.";
    qkv_walk_add_tensor(m->walk, "memory", "encoder states",
                        qkv_walk_text(m->walk, "M = %s over E_source", cell_name(m, encoder, true)), memory,
                        m->key_words);
    qkv_walk_note(m->walk, note);
}

/* Input feeding: the attentional vector of the previous step, zeros in the first. */
static void add_fed(struct model_walk *m)
{
    const struct qkv_part *output = qkv_trace_attention(m->trace, QKV_PART_OUTPUT, m->kind, m->layer);
    struct qkv_shape shape = qkv_tensor_shape(output->node);
    int64_t width = shape.size[1];
    double *values = qkv_walk_memory(m->walk, (shape.size[0] + 1) * width, sizeof *values);
    if (!values) return;
    qkv_tensor_read(output->node, values + width);
    qkv_walk_add(m->walk, &(struct new_step){.name = "previous_attentional",
                                             .title = "previous attentional vector",
                                             .formula = "F_t = Y of step t-1; zeros in step 1",
                                             .matrix = {shape.size[0], width, values},
                                             .rows = m->input_words});
    qkv_walk_note(m->walk, "Input feeding: each step reads the word and the attentional vector of "
                           "the step before it.");
}

static void add_states(struct model_walk *m, const struct qkv_tensor *states, bool fed)
{
    qkv_walk_add_tensor(m->walk, "decoder_states", "decoder states",
                        qkv_walk_text(m->walk, "H_t = %s(E_t,%s H_t-1)",
                                      cell_name(m, &m->model->config.decoder, false), fed ? " F_t," : ""),
                        states, m->query_words);
    qkv_walk_note(m->walk, "The queries are made from these states. From here on, a row is named after the "
                           "word that its step outputs.");
}

/* tanh([h; z] W + b): Luong et al. 2015, equation 5. */
static void add_attentional(struct model_walk *m, const struct projection *attentional,
                            struct qkv_tensor *states, struct qkv_tensor *context, bool fed)
{
    struct walk *walk = m->walk;
    struct qkv_tensor *joined = qkv_concat(walk->graph, states, context, 1); /* [Nq, H + M] */
    qkv_walk_add_tensor(walk, "concatenated", "state and context", "C = [H Z]", joined, m->query_words);
    qkv_walk_add_matrix(walk, "output_weights", "weights of the attentional vector", "W_C",
                        attentional->weight, 0);
    qkv_walk_add_matrix(walk, "output_bias", "bias of the attentional vector", "b_C", attentional->bias, 0);
    struct qkv_tensor *sums = qkv_walk_project(walk, joined, attentional),
                      *output = qkv_tanh(walk->graph, sums);
    qkv_walk_add_tensor(walk, "pre_activation", "attentional vector before tanh", "C W_C + b_C", sums,
                        m->query_words);
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, "concatenated", "output_weights", "output_bias");
    qkv_walk_add_tensor(walk, "output", "attentional vector", "Y = tanh(C W_C + b_C)", output,
                        m->query_words);
    qkv_walk_note(walk, fed ? "The output layer predicts the word from this vector, and the next step "
                              "reads it as well."
                            : "The output layer predicts the word from this vector.");
    qkv_model_walk_words(m, output, "output", "Y");
}

enum qkv_status qkv_model_walk_recurrent(struct model_walk *m)
{
    bool fed = m->model->config.decoder.input_feeding;
    struct attention_setup setup = {.query_words = m->query_words,
                                    .key_words = m->key_words,
                                    .x_name = "H",
                                    .memory_name = "M",
                                    .x_step = "decoder_states",
                                    .memory_step = "memory"};
    struct projection attentional;
    qkv_learned_single_head(m->model, &m->layers, m->walk, &setup, &attentional);
    setup.x = qkv_model_walk_followed(m, qkv_model_walk_part(m, QKV_PART_INPUT));
    setup.memory = qkv_model_walk_part(m, QKV_PART_MEMORY);
    qkv_model_walk_inputs(m, QKV_STACK_ENCODER, true, m->key_words);
    add_memory(m, setup.memory);
    qkv_model_walk_inputs(m, QKV_STACK_DECODER, false, m->input_words);
    if (fed) add_fed(m);
    add_states(m, setup.x, fed);
    if (m->walk->failed) return qkv_model_walk_no_memory(m->error);
    qkv_model_walk_mask(m, NULL, &setup);
    struct attention_result result = qkv_walk_attention(m->walk, &setup);
    add_attentional(m, &attentional, setup.x, result.context, fed);
    m->heads = 1;
    return QKV_OK;
}
