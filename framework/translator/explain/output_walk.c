/* The steps after an attention layer of a model: the residual connection and feed forward of a transformer's layer, and,
 * after the last layer of the decoder, the logits, the probabilities and the chosen words. */
#include "explain/learned.h"
#include "explain/model_walk.h"

#include "qkv/vocabulary.h"

/* ---- the rest of a transformer's layer ---- */

/* A hidden state of the walk, and the step that shows it. */
struct state {
    struct qkv_tensor *x;
    const char *step, *letter;
};

/* Adds the norm of a state as a step. */
static struct state add_norm(struct model_walk *m, const struct qkv_norm *norm, struct state state,
                             const char *name, const char *title, const char *letter)
{
    struct walk *walk = m->walk;
    state.x = qkv_norm_apply(norm, walk->graph, state.x);
    qkv_walk_add_tensor(walk, name, title,
                        norm->kind == QKV_NORM_RMS
                            ? qkv_walk_text(walk, "%s = rms_norm(%s), row by row", letter, state.letter)
                            : qkv_walk_text(walk, "%s = layer_norm(%s), row by row", letter, state.letter),
                        state.x, m->query_words);
    return (struct state){state.x, name, letter};
}

/* Adds x + y, the end of a residual connection, as a step. */
static struct state add_residual(struct model_walk *m, struct state x, struct state y, const char *name,
                                 const char *title, const char *letter)
{
    struct walk *walk = m->walk;
    struct qkv_tensor *sum = qkv_add(walk->graph, x.x, y.x);
    qkv_walk_add_tensor(walk, name, title, qkv_walk_text(walk, "%s = %s + %s", letter, x.letter, y.letter),
                        sum, m->query_words);
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, x.step, y.step, NULL);
    return (struct state){sum, name, letter};
}

/* The texts of one product of feed forward. */
struct product_texts {
    const char *weight, *weight_title, *weight_letter, *bias, *bias_title, *bias_letter, *result, *title,
        *letter;
};

static struct state add_product(struct model_walk *m, const struct qkv_dense *dense, struct state x,
                                const struct product_texts *texts)
{
    struct walk *walk = m->walk;
    struct projection projection = qkv_learned_projection(m->model, walk, dense);
    qkv_walk_add_matrix(walk, texts->weight, texts->weight_title, texts->weight_letter, projection.weight, 0);
    if (projection.bias.rows)
        qkv_walk_add_matrix(walk, texts->bias, texts->bias_title, texts->bias_letter, projection.bias, 0);
    struct qkv_tensor *y = qkv_walk_project(walk, x.x, &projection);
    qkv_walk_add_tensor(walk, texts->result, texts->title,
                        qkv_walk_text(walk, "%s = %s %s%s%s", texts->letter, x.letter, texts->weight_letter,
                                      projection.bias.rows ? " + " : "",
                                      projection.bias.rows ? texts->bias_letter : ""),
                        y, m->query_words);
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, x.step, texts->weight,
                  projection.bias.rows ? texts->bias : NULL);
    return (struct state){y, texts->result, texts->letter};
}

static struct state add_feed_forward(struct model_walk *m, struct state x)
{
    static const struct product_texts INNER = {"inner_weights", "inner weights",       "W_1",
                                               "inner_bias",    "inner bias",          "b_1",
                                               "inner",         "feed forward, inner", "F"},
                                      OUTER = {"outer_weights", "outer weights",       "W_2",
                                               "outer_bias",    "outer bias",          "b_2",
                                               "outer",         "feed forward, outer", "G"};
    const struct qkv_attention_layers *layers = &m->layers;
    struct walk *walk = m->walk;
    bool is_pre = layers->feed_forward_residual->place == QKV_NORM_PRE;
    struct state inside = x;
    if (is_pre)
        inside = add_norm(m, &layers->feed_forward_residual->norm, x, "inner_inputs",
                          "inputs of feed forward, normed", "N");
    struct state inner = add_product(m, &layers->feed_forward->inner, inside, &INNER);
    if (layers->feed_forward->activation != QKV_ACTIVATION_NONE) {
        inner.x = qkv_activation_apply(walk->graph, inner.x, layers->feed_forward->activation);
        inner.letter = qkv_walk_text(walk, "%s(F)", qkv_activation_name(layers->feed_forward->activation));
        inner.step = "activated";
        qkv_walk_add_tensor(walk, inner.step, "after the activation", inner.letter, inner.x, m->query_words);
    }
    struct state outer = add_product(m, &layers->feed_forward->outer, inner, &OUTER);
    struct state sum = add_residual(
        m, x, outer, "layer_sum", is_pre ? "output of the layer" : "feed forward added", is_pre ? "X'" : "U");
    if (is_pre) return sum;
    return add_norm(m, &layers->feed_forward_residual->norm, sum, "layer_output", "output of the layer",
                    "X'");
}

/* The state that the layer adds its output to: X itself or, with pre-norm, the state of which X is the norm. */
static struct state add_residual_input(struct model_walk *m, struct qkv_tensor *x)
{
    if (m->layers.residual->place != QKV_NORM_PRE) return (struct state){x, "layer_inputs", "X"};
    struct qkv_tensor *residual = qkv_model_walk_followed(m, qkv_model_walk_part(m, QKV_PART_RESIDUAL));
    qkv_walk_add_tensor(m->walk, "residual", "residual input", "R, of which X is the norm", residual,
                        m->query_words);
    return (struct state){residual, "residual", "R"};
}

void qkv_model_walk_rest_of_layer(struct model_walk *m, struct qkv_tensor *x, struct qkv_tensor *output)
{
    const struct qkv_attention_layers *layers = &m->layers;
    if (!layers->residual || !output || m->walk->failed) return;
    bool is_pre = layers->residual->place == QKV_NORM_PRE;
    struct state sum = add_residual(m, add_residual_input(m, x), (struct state){output, "output", "Y"},
                                    "attention_sum", "attention added", "T");
    if (!is_pre)
        sum = add_norm(m, &layers->residual->norm, sum, "attention_norm", "attention added, normed", "N");
    if (!layers->feed_forward) {
        qkv_walk_note(m->walk, "Cross-attention of the same layer reads this.");
        return;
    }
    struct state result = add_feed_forward(m, sum);
    if (layers->last_norm)
        result = add_norm(m, layers->last_norm, result, "final_norm", "normed after the last layer", "H");
    if (!layers->is_last) {
        qkv_walk_note(m->walk, "The next layer reads this.");
        return;
    }
    if (m->kind == QKV_ATTENTION_ENCODER) {
        qkv_walk_note(m->walk, "This is the memory, to which the decoder attends.");
        return;
    }
    qkv_model_walk_words(m, result.x, result.step, result.letter);
}

/* ---- from hidden states to words ---- */

enum { BEST_WORDS = 3 }; /* most probable words of each row that the logits show */

/* The words that the logits show. */
struct shown_words {
    int64_t count;
    int32_t *ids;
    const char **names;
};

static void show_word(struct model_walk *m, struct shown_words *shown, int32_t id)
{
    for (int64_t i = 0; i < shown->count; i++)
        if (shown->ids[i] == id) return;
    shown->names[shown->count] = qkv_walk_text(m->walk, "%s", qkv_vocabulary_token(m->target_vocabulary, id));
    shown->ids[shown->count++] = id;
}

/* The id with the highest logit of a row that is not among ids[0 .. found - 1]; of equal ones, the lowest id. */
static int32_t next_best(const double *logits, int64_t classes, const int32_t *ids, int found)
{
    int32_t best = -1;
    for (int32_t id = 0; id < classes; id++) {
        bool is_used = false;
        for (int i = 0; i < found; i++) is_used = is_used || ids[i] == id;
        if (!is_used && (best < 0 || logits[id] > logits[best])) best = id;
    }
    return best;
}

/* Chooses the words to show: the most probable ones of each row. best [rows]: receives the id that greedy search chooses, the
 * most probable one besides <unk> and <s>. *has_excluded: this is not the most probable id in some row. */
static struct shown_words choose_words(struct model_walk *m, const double *logits, int64_t classes,
                                       double *best, bool *has_excluded)
{
    struct walk *walk = m->walk;
    int64_t rows = m->query_words.count;
    static const int32_t excluded[] = {QKV_UNKNOWN, QKV_BEGIN};
    struct shown_words shown = {0, qkv_walk_memory(walk, rows * (BEST_WORDS + 1), sizeof *shown.ids),
                                qkv_walk_memory(walk, rows * (BEST_WORDS + 1), sizeof *shown.names)};
    *has_excluded = false;
    for (int64_t row = 0; !walk->failed && row < rows; row++) {
        int32_t ids[BEST_WORDS];
        for (int found = 0; found < BEST_WORDS && found < classes; found++) {
            ids[found] = next_best(logits + row * classes, classes, ids, found);
            show_word(m, &shown, ids[found]);
        }
        int32_t chosen = next_best(logits + row * classes, classes, excluded, 2);
        show_word(m, &shown, chosen);
        *has_excluded = *has_excluded || chosen != ids[0];
        best[row] = chosen;
    }
    return shown;
}

/* The columns of the shown words: [rows, classes] -> [rows, shown.count]. */
static const double *shown_columns(struct walk *walk, const double *values, int64_t rows, int64_t classes,
                                   const struct shown_words *shown)
{
    double *columns = qkv_walk_memory(walk, rows * shown->count, sizeof *columns);
    for (int64_t i = 0; columns && i < rows * shown->count; i++)
        columns[i] = values[i / shown->count * classes + shown->ids[i % shown->count]];
    return columns;
}

/* The output weights of the shown words, [D, shown.count], and their biases, [1, shown.count]. */
static void add_word_weights(struct model_walk *m, const struct shown_words *shown)
{
    struct walk *walk = m->walk;
    const struct qkv_model *model = m->model;
    const struct qkv_parameters *parameters = &model->parameters;
    int64_t width = model->output_weight->shape.size[model->output_tied ? 1 : 0],
            classes = model->target_size;
    double *weights = qkv_walk_memory(walk, width * shown->count, sizeof *weights),
           *bias = qkv_walk_memory(walk, shown->count, sizeof *bias);
    if (walk->failed) return;
    for (int64_t d = 0; d < width; d++)
        for (int64_t i = 0; i < shown->count; i++)
            weights[d * shown->count + i] = qkv_parameter_get(
                parameters, model->output_weight,
                model->output_tied ? shown->ids[i] * width + d : d * classes + shown->ids[i]);
    for (int64_t i = 0; i < shown->count; i++)
        bias[i] = qkv_parameter_get(parameters, model->output_bias, shown->ids[i]);
    const struct qkv_texts words = {shown->count, shown->names};
    qkv_walk_add(walk, &(struct new_step){.name = "word_vectors",
                                          .title = "output weights of words",
                                          .formula = model->output_tied
                                                         ? "W_out, the learned embeddings, transposed"
                                                         : "W_out",
                                          .values = weights,
                                          .rows = {width, NULL},
                                          .columns = words});
    qkv_walk_note(walk, qkv_walk_text(walk, "Only the %d most probable words of each row are shown, of %lld.",
                                      (int)BEST_WORDS, (long long)classes));
    qkv_walk_add(walk, &(struct new_step){.name = "word_bias",
                                          .title = "output bias of words",
                                          .formula = "b_out",
                                          .values = bias,
                                          .rows = {1, NULL},
                                          .columns = words});
}

static void add_chosen(struct model_walk *m, const double *best, bool has_excluded)
{
    static const char *const ROW[] = {"number"};
    int64_t rows = m->query_words.count;
    const char **names = qkv_walk_memory(m->walk, rows, sizeof *names);
    if (!names) return;
    for (int64_t i = 0; i < rows; i++)
        names[i] = qkv_walk_text(m->walk, "%s", qkv_vocabulary_token(m->target_vocabulary, (int32_t)best[i]));
    qkv_walk_add(m->walk, &(struct new_step){.name = "chosen",
                                             .title = "most probable words",
                                             .formula = "in the vocabulary",
                                             .content = QKV_STEP_TOKENS,
                                             .values = best,
                                             .rows = {1, ROW},
                                             .columns = {rows, names}});
    qkv_walk_note(
        m->walk,
        has_excluded
            ? "Greedy search takes the most probable word of a step, but never <unk>, and reads it in "
              "the next."
            : "Greedy search takes the most probable word of a step, and reads it in the next.");
}

/* Runs the graph so far and reads a tensor; NULL when memory runs out or the graph has failed. */
static const double *read_now(struct walk *walk, const struct qkv_tensor *tensor)
{
    struct qkv_error error;
    if (walk->failed || !tensor || qkv_graph_check(walk->graph, &error)) return NULL;
    double *values = qkv_walk_memory(walk, qkv_tensor_count(tensor), sizeof *values);
    qkv_forward(walk->graph);
    if (values) qkv_tensor_read(tensor, values);
    return values;
}

void qkv_model_walk_words(struct model_walk *m, struct qkv_tensor *hidden, const char *step,
                          const char *letter)
{
    struct walk *walk = m->walk;
    int64_t rows = m->query_words.count, classes = m->model->target_size;
    if (!m->target_vocabulary) return;
    struct qkv_tensor *all = qkv_model_logits(m->model, walk->graph, hidden); /* [Nq, C] */
    struct qkv_tensor *softmax = qkv_softmax(walk->graph, all);               /* [Nq, C] */
    const double *probabilities = read_now(walk, softmax), *logits = read_now(walk, all);
    double *best = qkv_walk_memory(walk, rows, sizeof *best);
    if (!logits || !probabilities || !best) return;
    bool has_excluded;
    struct shown_words shown = choose_words(m, logits, classes, best, &has_excluded);
    if (walk->failed) return;
    add_word_weights(m, &shown);
    struct new_step new = {.name = "logits",
                           .title = "logits",
                           .formula = qkv_walk_text(walk, "L = %s W_out + b_out", letter),
                           .values = shown_columns(walk, logits, rows, classes, &shown),
                           .rows = m->query_words,
                           .columns = {shown.count, shown.names}};
    qkv_walk_add(walk, &new);
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, step, "word_vectors", "word_bias");
    new.name = new.title = "probabilities";
    new.formula = qkv_walk_text(walk, "softmax(L), row by row, over all %lld words", (long long)classes);
    new.values = shown_columns(walk, probabilities, rows, classes, &shown);
    qkv_walk_add(walk, &new);
    add_chosen(m, best, has_excluded);
}
