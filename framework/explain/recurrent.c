/* The walk through the attention of a recurrent decoder: states that ask, what the encoder left of each word,
 * the score, and the vector that is made of state and context. */
#include "explain/learned.h"
#include "explain/visit.h"

/* "bidirectional GRU" */
static const char *name_of_cells(struct visit *v, const struct qkv_stack_config *stack, bool encoder)
{
    static const char *const CELL[] = {
        [QKV_CELL_TANH] = "tanh cell", [QKV_CELL_GRU] = "GRU", [QKV_CELL_LSTM] = "LSTM"};
    const char *layers =
        stack->num_layers > 1 ? qkv_walk_text(v->walk, "%lld layers of ", (long long)stack->num_layers) : "";
    return qkv_walk_text(v->walk, "%s%s%s", layers, encoder && stack->bidirectional ? "bidirectional " : "",
                         CELL[stack->rnn_type]);
}

static void note_memory(struct visit *v, const struct qkv_tensor *memory)
{
    const struct qkv_stack_config *encoder = &v->model->config.encoder;
    struct walk *walk = v->walk;
    qkv_walk_note_tensor(walk, "memory", "encoder states",
                         qkv_walk_text(walk, "M = %s over E_source", name_of_cells(v, encoder, true)), memory,
                         0, false, v->columns,
                         qkv_walk_numbered(memory ? qkv_tensor_shape(memory).size[1] : 0));
    walk->step[walk->count - 1].note =
        encoder->bidirectional
            ? "The left half of a row was made of the words up to this one, the right half of those "
              "from the end back to it."
        : encoder->reverse ? "A row was made of the words from the end back to this one."
                           : "A row was made of the words up to this one.";
}

/* What each step was fed: what the step before it found. */
static void note_fed(struct visit *v, const struct qkv_tensor *found)
{
    struct qkv_matrix all = qkv_visit_matrix(v, found);
    double *fed = qkv_walk_memory(v->walk, all.rows * all.columns, sizeof *fed);
    for (int64_t i = all.columns; fed && i < all.rows * all.columns; i++) fed[i] = all.value[i - all.columns];
    qkv_walk_note_matrix(v->walk, "fed", "what was found", "F_t = Y of step t-1, at first 0",
                         (struct qkv_matrix){all.rows, all.columns, fed}, 0, v->inputs);
    v->walk->step[v->walk->count - 1].note =
        "Input feeding: beside a word, each step takes in what the last one found.";
}

static void note_states(struct visit *v, const struct qkv_tensor *states, bool fed)
{
    struct walk *walk = v->walk;
    qkv_walk_note_tensor(
        walk, "states", "decoder states",
        qkv_walk_text(walk, "H_t = %s(E_t,%s H_t-1)", name_of_cells(v, &v->model->config.decoder, false),
                      fed ? " F_t," : ""),
        states, 0, false, v->rows, qkv_walk_numbered(states ? qkv_tensor_shape(states).size[1] : 0));
    walk->step[walk->count - 1].note =
        "These ask. From here on a row is named by the word that its step puts out.";
}

/* tanh([h; z] W + b): Luong et al. 2015, equation 5. */
static void note_vector(struct visit *v, const struct projection *vector, struct qkv_tensor *states,
                        struct qkv_tensor *context, bool fed)
{
    struct walk *walk = v->walk;
    struct qkv_tensor *both = qkv_concat(walk->graph, states, context, 1);
    qkv_walk_note_tensor(walk, "joined", "state and context", "C = [H Z]", both, 0, false, v->rows,
                         qkv_walk_numbered(vector->weight.rows));
    qkv_walk_note_matrix(walk, "output_weights", "weights of the attentional vector", "W_C", vector->weight,
                         0, qkv_walk_numbered(vector->weight.rows));
    qkv_walk_note_matrix(walk, "output_bias", "bias of the attentional vector", "b_C", vector->bias, 0,
                         qkv_walk_numbered(1));
    qkv_walk_note_tensor(walk, "output", "attentional vector", "Y = tanh(C W_C + b_C)",
                         qkv_tanh(walk->graph, qkv_walk_project(walk, both, vector)), 0, false, v->rows,
                         qkv_walk_numbered(vector->weight.columns));
    walk->step[walk->count - 1].note =
        fed ? "The output layer makes the word of it, and the next step is fed it."
            : "The output layer makes the word of it.";
}

enum qkv_status qkv_visit_recurrent(struct visit *v)
{
    bool fed = v->model->config.decoder.input_feeding;
    struct attention_parts parts = {.asking = v->rows,
                                    .answering = v->columns,
                                    .x_name = "H",
                                    .memory_name = "M",
                                    .x_step = "states",
                                    .memory_step = "memory"};
    struct projection vector;
    if (qkv_learned_scored(v->model, v->walk, &parts, &vector, v->error)) return QKV_INVALID;
    struct qkv_tensor *states = qkv_visit_asking(v, qkv_visit_copy(v, v->visited->states)),
                      *memory = qkv_visit_copy(v, v->visited->memory);
    qkv_visit_front(v, true, true, v->columns);
    note_memory(v, memory);
    qkv_visit_front(v, false, false, v->inputs);
    if (fed) note_fed(v, v->visited->found);
    note_states(v, states, fed);
    if (v->walk->failed) return qkv_visit_no_memory(v->error);
    parts.x = states;
    parts.memory = memory;
    struct attention_result result = qkv_walk_attention(v->walk, &parts);
    note_vector(v, &vector, states, result.context, fed);
    v->heads = 1;
    return QKV_OK;
}
