/* The walk through an attention layer of a trained model: finds the layer and its words. The inputs of the layer are copied from
 * what the network recorded of a forced pass (qkv/model.h); the walk computes everything after them op by op: attention, what
 * follows it, and the weights between words. A network that another program defines may not have recorded or given all of it:
 * then m->error says what is missing, and the walk fails. */
#include "qkv/model.h"
#include "core/choices.h"
#include "data/tokenizer.h"
#include "explain/walk.h"
#include "graph/attention_rule.h"
#include "models/network.h"
#include "report/collect.h"

struct model_walk {
    const struct qkv_model *model;
    enum qkv_attention_kind kind;
    int layer; /* from 1 */
    struct qkv_attention_layers layers;
    struct recorded_pass pass; /* the forced pass */
    const struct qkv_attention_pair *pair;
    struct walk *walk;
    struct qkv_texts query_words; /* names of the rows of the weights; cross-attention: decoder outputs */
    struct qkv_texts key_words;   /* names of the columns of the weights */
    int64_t sources;              /* the number of key words that are of the source; they come first */
    bool has_prefix;              /* those of the target follow, in the same sequence */
    struct qkv_texts input_words; /* tokens that the stack of the queries reads; decoder: <s>, then targets */
    int64_t row_count;            /* of all rows */
    const int32_t *followed_rows; /* [query_words.count]; NULL: all rows */
    int64_t heads;                /* set by the walk through the layer */
    const struct qkv_vocabulary *target_vocabulary; /* NULL: no logits */
    struct merged_words words;                      /* with names only if the step word_weights is wanted */
    struct qkv_error *error;
};

/* ---- parts of the forced pass ---- */

/* Fails the walk: the network gives no such layer. */
static void no_layer(struct model_walk *m, const char *function, const char *layer, const char *owner)
{
    qkv_error_set(m->error, "network %s: its function %s gives no %s of %s, which explanations need",
                  m->model->interface->name, function, layer, owner);
    m->walk->failed = true;
}

/* Copies a part [rows, columns] of the pass to a constant of the walk's graph; fails the walk when there is none. */
static struct qkv_tensor *copy(struct model_walk *m, const struct qkv_part *part)
{
    if (!part) m->walk->failed = true;
    if (m->walk->failed) return NULL;
    double *values = qkv_walk_memory(m->walk, qkv_tensor_count(part->node), sizeof *values);
    struct qkv_shape shape = qkv_tensor_shape(part->node);
    if (!values) return NULL;
    qkv_tensor_read(part->node, values);
    return qkv_walk_constant(m->walk, (struct qkv_matrix){shape.size[0], shape.size[1], values});
}

/* A part of this attention layer in the forced pass, with a row for each query or key; NULL with a message. columns 0: any
 * number. */
static const struct qkv_part *part_of(const struct model_walk *m, enum qkv_part_role role, int64_t columns)
{
    int64_t rows = role == QKV_PART_MEMORY ? m->key_words.count : m->row_count;
    return qkv_recorded_attention(&m->pass, role, m->kind, m->layer, (struct part_shape){rows, columns});
}

/* The followed rows of a part of the queries, as a constant; all rows if none are followed. */
static struct qkv_tensor *followed_part(struct model_walk *m, enum qkv_part_role role, int64_t columns)
{
    struct qkv_tensor *x = copy(m, part_of(m, role, columns));
    return m->followed_rows ? qkv_gather_rows(m->walk->graph, x, m->followed_rows, m->query_words.count) : x;
}

/* Adds a step with a row for each query. */
static struct shown add_rows(struct model_walk *m, const char *name, const char *title, const char *letter,
                             const char *formula, struct qkv_tensor *x)
{
    qkv_walk_add_tensor(m->walk, name, title, formula, (struct layout){m->query_words}, x);
    return (struct shown){x, letter, name};
}

static void note(struct model_walk *m, const char *text)
{
    m->walk->step[m->walk->count - 1].note = text;
}

/* ---- from tokens to the inputs of the first layer ---- */

/* The encoder reads the source and then </s>, the decoder <s> and then the target. */
static int32_t token_id(const struct model_walk *m, enum qkv_stack_id stack, int64_t i)
{
    if (stack == QKV_STACK_ENCODER) return i < m->pair->source.length ? m->pair->source.ids[i] : QKV_END;
    return i ? m->pair->target.ids[i - 1] : qkv_pair_first(m->pair);
}

/* Adds the steps before the first layer of a stack: tokens, embeddings, positions, inputs. `source`: names them source_tokens
 * and so on. */
static void add_inputs(struct model_walk *m, enum qkv_stack_id stack, bool source, struct qkv_texts words)
{
    struct walk *walk = m->walk;
    const struct qkv_input_layers layers = qkv_model_inputs(m->model, stack);
    const struct part_shape shape = {words.count, 0};
    if (walk->failed) return;
    const struct qkv_part *embedded = qkv_recorded_stack(&m->pass, QKV_PART_EMBEDDING, stack, shape);
    struct qkv_tensor *embeddings = copy(m, embedded);
    const char *owner = stack == QKV_STACK_ENCODER ? "the encoder" : "the decoder";
    if (!layers.embedding) no_layer(m, "inputs", "embedding", owner);
    if (walk->failed) return;
    const char *letter = source ? "E_source" : "E";
    double *ids = qkv_walk_memory(walk, words.count, sizeof *ids);
    for (int64_t i = 0; ids && i < words.count; i++) ids[i] = token_id(m, stack, i);
    qkv_walk_add_tokens(walk, source ? "source_tokens" : "tokens", NULL, "in the vocabulary", "number", words,
                        ids);
    const char *formula = qkv_walk_text(walk, "%s = row of the learned table", letter);
    if (layers.embedding->factor > 1)
        formula = qkv_walk_text(walk, "%s times √%lld", formula,
                                (long long)qkv_tensor_shape(embedded->node).size[1]);
    qkv_walk_add_tensor(walk, source ? "source_embeddings" : "embeddings", NULL, formula,
                        (struct layout){words}, embeddings);
    if (!qkv_trace_stack(m->pass.trace, QKV_PART_POSITIONS, stack, 0)) return;
    struct qkv_tensor *inputs = copy(m, qkv_recorded_stack(&m->pass, QKV_PART_POSITIONS, stack, shape));
    if (inputs && (!layers.positions || !(layers.positions->table || layers.positions->sinusoids)))
        no_layer(m, "inputs", "positions", owner);
    if (walk->failed) return;
    struct qkv_matrix table = qkv_learned_positions(m->model, layers.positions, walk);
    if (m->has_prefix && !source && !m->model->config.decoder.positions.restart)
        table.value += m->sources * table.columns;
    if (table.rows > words.count) table.rows = words.count;
    if (!source)
        qkv_walk_add_positions(walk, "positions", layers.positions->table ? "P, learned" : NULL, table);
    qkv_walk_add_tensor(walk, source ? "source_inputs" : "inputs", NULL,
                        qkv_walk_text(walk, "%s + P", letter), (struct layout){words}, inputs);
}

/* ---- mask ---- */

static const char *mask_note(struct model_walk *m, const struct qkv_attention_rule *rule, bool masks_words)
{
    const char *text = "";
    if (rule && rule->window)
        text = qkv_walk_text(m->walk, " A word sees only words at a distance of at most %lld.",
                             (long long)rule->window);
    if (rule && rule->window && rule->global_tokens == 1)
        text = qkv_walk_text(m->walk, "%s The first one sees all words, and all words see it.", text);
    else if (rule && rule->window && rule->global_tokens)
        text = qkv_walk_text(m->walk, "%s The first %lld see all words, and all words see them.", text,
                             (long long)rule->global_tokens);
    if (rule && rule->causal)
        text = qkv_walk_text(m->walk, "%s No word sees a later word: during translation there is none yet.",
                             text);
    if (masks_words) text = qkv_walk_text(m->walk, "%s Nothing attends to a silent word.", text);
    return text + (*text == ' ');
}

/* Sets the mask of `setup`, if there is one: keys that the rule of the layer hides, and masked tokens. rule NULL:
 * there is no rule that hides keys. */
static void set_mask(struct model_walk *m, const struct qkv_attention_rule *rule,
                     struct attention_setup *setup)
{
    int64_t keys = m->key_words.count, queries = m->query_words.count;
    const bool *of_source = m->sources ? m->pair->source_masked : NULL,
               *of_target = keys > m->sources ? m->pair->target_masked : NULL;
    const bool masked = of_source || of_target;
    if (!masked && !(rule && (rule->causal || rule->window))) return;
    double *visible = qkv_walk_memory(m->walk, queries * keys, sizeof *visible);
    for (int64_t i = 0; visible && i < queries; i++) {
        int64_t position = (m->has_prefix ? m->sources : 0) + (m->followed_rows ? m->followed_rows[i] : i);
        struct qkv_visible_keys seen = {0, 0, keys};
        if (rule) seen = qkv_attention_visible(rule, position, keys);
        for (int64_t j = 0; j < keys; j++) {
            bool is_masked =
                j < m->sources ? of_source && of_source[j] : of_target && of_target[j - m->sources];
            visible[i * keys + j] = qkv_is_visible(seen, j) && !is_masked;
        }
    }
    setup->visible = visible;
    setup->mask_note = mask_note(m, rule, masked);
}

/* ---- from the last hidden states to words ---- */

enum { BEST_WORDS = 3 }; /* most probable words of each row that the logits show */

/* The words that the logits show. */
struct shown_words {
    int64_t count;
    int32_t *ids;
    const char **names;
};

static const char *word_of(struct model_walk *m, int32_t id)
{
    struct qkv_bare_token word = qkv_token_bare(qkv_vocabulary_token(m->target_vocabulary, id));
    return qkv_walk_text(m->walk, "%.*s", (int)word.size, word.text);
}

static void show_word(struct model_walk *m, struct shown_words *shown, int32_t id)
{
    for (int64_t i = 0; i < shown->count; i++)
        if (shown->ids[i] == id) return;
    shown->names[shown->count] = word_of(m, id);
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
static struct shown_words choose_words(struct model_walk *m, const double *logits, double *best,
                                       bool *has_excluded)
{
    static const int32_t excluded[] = {QKV_UNKNOWN, QKV_BEGIN};
    int64_t rows = m->query_words.count, classes = m->model->target_size;
    struct shown_words shown = {0, qkv_walk_memory(m->walk, rows * (BEST_WORDS + 1), sizeof *shown.ids),
                                qkv_walk_memory(m->walk, rows * (BEST_WORDS + 1), sizeof *shown.names)};
    *has_excluded = false;
    for (int64_t row = 0; !m->walk->failed && row < rows; row++) {
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

/* Adds a step with the columns of the shown words: [rows, classes] -> [rows, shown.count]. */
static void add_words(struct model_walk *m, const char *name, const char *formula, const double *values,
                      const struct shown_words *shown)
{
    int64_t rows = m->query_words.count, classes = m->model->target_size;
    double *columns = qkv_walk_memory(m->walk, rows * shown->count, sizeof *columns);
    for (int64_t i = 0; columns && i < rows * shown->count; i++)
        columns[i] = values[i / shown->count * classes + shown->ids[i % shown->count]];
    qkv_walk_add_values(m->walk, name, NULL, formula,
                        (struct layout){m->query_words, {shown->count, shown->names}}, columns);
}

/* The output weights of the shown words, [D, shown.count], and their biases, [1, shown.count]. */
static void add_word_weights(struct model_walk *m, const struct shown_words *shown)
{
    struct walk *walk = m->walk;
    const struct qkv_model *model = m->model;
    const struct qkv_texts words = {shown->count, shown->names};
    bool tied = model->output_tied;
    int64_t width = model->output_weight->shape.size[tied ? 1 : 0], classes = model->target_size;
    double *weights = qkv_walk_memory(walk, width * shown->count, sizeof *weights),
           *bias = qkv_walk_memory(walk, shown->count, sizeof *bias);
    for (int64_t i = 0; !walk->failed && i < shown->count; i++) {
        int64_t id = shown->ids[i];
        bias[i] = qkv_parameter_get(&model->parameters, model->output_bias, id);
        for (int64_t d = 0; d < width; d++)
            weights[d * shown->count + i] = qkv_parameter_get(&model->parameters, model->output_weight,
                                                              tied ? id * width + d : d * classes + id);
    }
    qkv_walk_add_values(walk, "word_vectors", "output weights of words",
                        tied ? "W_out, the learned embeddings, transposed" : "W_out",
                        (struct layout){{.count = width}, words}, weights);
    note(m, qkv_walk_text(walk, "Only the %d most probable words of each row are shown, of %lld.",
                          (int)BEST_WORDS, (long long)classes));
    qkv_walk_add_values(walk, "word_bias", "output bias of words", "b_out",
                        (struct layout){{.count = 1}, words}, bias);
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

/* Adds the steps from the last hidden states to the chosen words. */
static void add_prediction(struct model_walk *m, struct shown hidden)
{
    struct walk *walk = m->walk;
    int64_t rows = m->query_words.count;
    if (!m->target_vocabulary) return;
    struct qkv_tensor *all = qkv_model_logits(m->model, walk->graph, hidden.tensor); /* [Nq, C] */
    struct qkv_tensor *softmax = qkv_softmax(walk->graph, all);                      /* [Nq, C] */
    const double *probabilities = read_now(walk, softmax), *logits = read_now(walk, all);
    double *best = qkv_walk_memory(walk, rows, sizeof *best);
    const char **names = qkv_walk_memory(walk, rows, sizeof *names);
    bool has_excluded;
    if (!logits || !probabilities || !best || !names) return;
    struct shown_words shown = choose_words(m, logits, best, &has_excluded);
    if (walk->failed) return;
    add_word_weights(m, &shown);
    add_words(m, "logits", qkv_walk_text(walk, "L = %s W_out + b_out", hidden.letter), logits, &shown);
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, hidden.step, "word_vectors", "word_bias");
    add_words(
        m, "probabilities",
        qkv_walk_text(walk, "softmax(L), row by row, over all %lld words", (long long)m->model->target_size),
        probabilities, &shown);
    for (int64_t i = 0; i < rows; i++) names[i] = word_of(m, (int32_t)best[i]);
    qkv_walk_add_tokens(walk, "chosen", "most probable words", "in the vocabulary", "number",
                        (struct qkv_texts){rows, names}, best);
    note(m, has_excluded
                ? "Greedy search takes the most probable word of a step, but never <unk>, and reads it in "
                  "the next."
                : "Greedy search takes the most probable word of a step, and reads it in the next.");
}

/* ---- a layer of a transformer ---- */

/* Adds the norm of a state. */
static struct shown add_norm(struct model_walk *m, const struct qkv_norm *norm, struct shown x,
                             const char *name, const char *title, const char *letter)
{
    const char *kind = norm->kind == QKV_NORM_RMS ? "rms" : "layer";
    return add_rows(m, name, title, letter,
                    qkv_walk_text(m->walk, "%s = %s_norm(%s), row by row", letter, kind, x.letter),
                    qkv_norm_apply(norm, m->walk->graph, x.tensor));
}

/* Adds x + y, the end of a residual connection. */
static struct shown add_residual(struct model_walk *m, struct shown x, struct shown y, const char *name,
                                 const char *title, const char *letter)
{
    struct shown sum =
        add_rows(m, name, title, letter, qkv_walk_text(m->walk, "%s = %s + %s", letter, x.letter, y.letter),
                 qkv_add(m->walk->graph, x.tensor, y.tensor));
    qkv_walk_rule(m->walk, QKV_STEP_RULE_SUM, x.step, y.step, NULL);
    return sum;
}

static struct shown add_dense(struct model_walk *m, const struct qkv_dense *dense, struct product product,
                              struct shown x)
{
    const struct projection projection = qkv_learned_projection(m->model, m->walk, dense);
    product.projection = &projection;
    product.rows = m->query_words;
    qkv_walk_add_weights(m->walk, &product);
    return qkv_walk_add_product(m->walk, &product, x);
}

static struct shown add_feed_forward(struct model_walk *m, struct shown x)
{
    static const struct product INNER = {"inner", "feed forward, inner", "F", "inner", "1"},
                                GATE = {"gate", "feed forward, gate", "J", "gate", "gate"},
                                OUTER = {"outer", "feed forward, outer", "G", "outer", "2"};
    const struct qkv_residual *residual = m->layers.feed_forward_residual;
    const struct qkv_feed_forward *layer = m->layers.feed_forward;
    if (!residual) no_layer(m, "attention", "feed_forward_residual", "a layer with feed_forward");
    if (!residual) return x;
    bool is_pre = residual->place == QKV_NORM_PRE;
    struct shown inner = x;
    if (is_pre)
        inner = add_norm(m, &residual->norm, x, "inner_inputs", "inputs of feed forward, normed", "N");
    bool is_gated = layer->gate.weight;
    struct shown factor = add_dense(m, &layer->inner, INNER, inner);
    inner = is_gated ? add_dense(m, &layer->gate, GATE, inner) : factor;
    if (layer->activation != QKV_ACTIVATION_NONE) {
        const char *letter =
            qkv_walk_text(m->walk, "%s(%s)", qkv_activation_name(layer->activation), inner.letter);
        inner = add_rows(m, "activated", "after the activation", letter, letter,
                         qkv_activation_apply(m->walk->graph, inner.tensor, layer->activation));
    }
    if (is_gated) {
        const char *formula = qkv_walk_text(m->walk, "D = %s * F, number by number", inner.letter);
        inner = add_rows(m, "gated", "after the gate", "D", formula,
                         qkv_multiply(m->walk->graph, inner.tensor, factor.tensor));
    }
    struct shown outer = add_dense(m, &layer->outer, OUTER, inner);
    if (is_pre) return add_residual(m, x, outer, "layer_sum", "output of the layer", "X'");
    struct shown sum = add_residual(m, x, outer, "layer_sum", "feed forward added", "U");
    return add_norm(m, &residual->norm, sum, "layer_output", "output of the layer", "X'");
}

/* Adds the steps after attention, up to the words if the layer is the last of the decoder. x: inputs of the layer; y: the
 * output of attention. */
static void add_rest_of_layer(struct model_walk *m, struct shown x, struct shown y)
{
    const struct qkv_attention_layers *layers = &m->layers;
    if (!layers->residual || !y.tensor || m->walk->failed) return;
    bool is_pre = layers->residual->place == QKV_NORM_PRE;
    if (is_pre) /* the state to which the layer adds its output */
        x = add_rows(m, "residual", "residual input", "R", "R, of which X is the norm",
                     followed_part(m, QKV_PART_RESIDUAL, m->layers.multi_head->output.weight->shape.size[1]));
    if (m->walk->failed) return;
    struct shown state = add_residual(m, x, y, "attention_sum", "attention added", "T");
    if (!is_pre)
        state = add_norm(m, &layers->residual->norm, state, "attention_norm", "attention added, normed", "N");
    if (layers->cross_follows) {
        note(m, "Cross-attention of the same layer reads this.");
        return;
    }
    if (layers->feed_forward) state = add_feed_forward(m, state);
    if (m->walk->failed) return;
    if (layers->last_norm)
        state = add_norm(m, layers->last_norm, state, "final_norm", "normed after the last layer", "H");
    if (!layers->is_last)
        note(m, "The next layer reads this.");
    else if (m->kind == QKV_ATTENTION_ENCODER)
        note(m, "This is the memory, to which the decoder attends.");
    else
        add_prediction(m, state);
}

/* Adds the inputs of the layer: the hidden state and, for cross-attention, the memory. */
static void add_layer_inputs(struct model_walk *m, const struct attention_setup *setup)
{
    struct walk *walk = m->walk;
    bool cross = m->kind == QKV_ATTENTION_CROSS || m->has_prefix;
    const char *formula = m->layer > 1 || cross
                              ? qkv_walk_text(walk, "X, hidden states that enter layer %d", m->layer)
                              : "X, the inputs as the layer reads them";
    if (qkv_trace_has(m->pass.trace, QKV_PART_NORM, part_of(m, QKV_PART_INPUT, 0)->node))
        formula = qkv_walk_text(walk, "%s, normed", formula);
    add_rows(m, "layer_inputs", "inputs of the layer", "X", formula, setup->x.tensor);
    if (!cross) return;
    if (m->kind == QKV_ATTENTION_CROSS)
        note(m, "From here on, a row is named after the word that its decoder step outputs.");
    qkv_walk_add_tensor(walk, "memory", NULL,
                        m->has_prefix ? "M, the inputs of the layer for the source and the target"
                                      : "M, the output of the encoder",
                        (struct layout){m->key_words}, setup->memory.tensor);
}

/* The hidden states that keys and values of this kind of attention are made from. */
static struct qkv_tensor *memory_of(struct model_walk *m, enum qkv_attention_kind kind, int64_t width)
{
    int64_t rows = kind == QKV_ATTENTION_DECODER ? m->key_words.count - m->sources : m->sources;
    return copy(m, qkv_recorded_attention(&m->pass, QKV_PART_MEMORY, kind, m->layer,
                                          (struct part_shape){rows, width}));
}

static void set_positions(struct model_walk *m, struct attention_setup *setup)
{
    int32_t sources = m->has_prefix ? (int32_t)m->sources : 0;
    bool restarts = m->has_prefix && m->model->config.decoder.positions.restart;
    int32_t *queries = qkv_walk_memory(m->walk, m->query_words.count, sizeof *queries),
            *keys = qkv_walk_memory(m->walk, m->key_words.count, sizeof *keys);
    for (int32_t i = 0; queries && i < m->query_words.count; i++)
        queries[i] = (restarts ? 0 : sources) + (m->followed_rows ? m->followed_rows[i] : i);
    for (int32_t i = 0; keys && i < m->key_words.count; i++)
        keys[i] = restarts && i >= sources ? i - sources : i;
    setup->positions = queries;
    setup->key_positions = keys;
}

static void qkv_model_walk_transformer(struct model_walk *m)
{
    struct walk *walk = m->walk;
    const struct qkv_positions *positions = m->layers.multi_head->positions;
    bool cross = m->kind == QKV_ATTENTION_CROSS || m->has_prefix;
    struct attention_setup setup = {.query_words = m->query_words,
                                    .key_words = m->key_words,
                                    .score = QKV_SCENE_SCORE_SCALED_DOT,
                                    .merged = m->words.rows.names ? &m->words : NULL};
    qkv_learned_multi_head(m->model, m->layers.multi_head, walk, &setup);
    set_positions(m, &setup);
    add_inputs(m, m->kind == QKV_ATTENTION_ENCODER ? QKV_STACK_ENCODER : QKV_STACK_DECODER, false,
               m->input_words);
    if (cross) add_inputs(m, QKV_STACK_ENCODER, true, (struct qkv_texts){m->sources, m->key_words.text});
    const struct qkv_multi_head *layer = m->layers.multi_head;
    setup.x = (struct shown){followed_part(m, QKV_PART_INPUT, layer->query.weight->shape.size[0]), "X",
                             "layer_inputs"};
    int64_t width = layer->key.weight->shape.size[0];
    struct qkv_tensor *memory = m->has_prefix
                                    ? qkv_concat(walk->graph, memory_of(m, QKV_ATTENTION_CROSS, width),
                                                 memory_of(m, QKV_ATTENTION_DECODER, width), 0)
                                    : memory_of(m, m->kind, width);
    setup.memory = (struct shown){memory, cross ? "M" : "X",
                                  cross              ? "memory"
                                  : m->followed_rows ? NULL
                                                     : "layer_inputs"};
    if (walk->failed) return;
    add_layer_inputs(m, &setup);
    set_mask(m, &m->layers.multi_head->rule, &setup);
    if (positions && positions->kind == QKV_POSITION_ROTARY)
        setup.rotation = qkv_learned_positions(m->model, positions, walk);
    if (positions && positions->kind == QKV_POSITION_RELATIVE)
        setup.distance_bias = qkv_learned_positions(m->model, positions, walk);
    add_rest_of_layer(m, setup.x, qkv_walk_attention(walk, &setup).output);
    m->heads = setup.rule.heads;
}

/* ---- a recurrent decoder ---- */

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
    qkv_walk_add_tensor(m->walk, "memory", "encoder states",
                        qkv_walk_text(m->walk, "M = %s over E_source", cell_name(m, encoder, true)),
                        (struct layout){m->key_words}, memory);
    note(m,
         encoder->bidirectional
             ? "The left half of a row encodes the words up to this one, the right half the words from the "
               "end back to this one."
         : encoder->reverse ? "A row encodes the words from the end back to this one."
                            : "A row encodes the words up to this one.");
}

/* Input feeding: the attentional vector of the previous step, zeros in the first. */
static void add_fed(struct model_walk *m)
{
    const struct qkv_part *output = part_of(m, QKV_PART_OUTPUT, 0);
    if (!output) m->walk->failed = true;
    if (!output) return;
    struct qkv_shape shape = qkv_tensor_shape(output->node);
    int64_t width = shape.size[1];
    double *values = qkv_walk_memory(m->walk, (shape.size[0] + 1) * width, sizeof *values);
    if (!values) return;
    qkv_tensor_read(output->node, values + width);
    qkv_walk_add_values(m->walk, "previous_attentional", "previous attentional vector",
                        "F_t = Y of step t-1; zeros in step 1",
                        (struct layout){m->input_words, {.count = width}}, values);
    note(m, "Input feeding: each step reads the word and the attentional vector of the step before it.");
}

/* tanh([h; z] W + b): Luong et al. 2015, equation 5. */
static void add_attentional(struct model_walk *m, struct qkv_tensor *states, struct qkv_tensor *context,
                            bool fed)
{
    struct walk *walk = m->walk;
    const struct projection attentional = qkv_learned_projection(m->model, walk, m->layers.attentional);
    const struct product product = {
        "pre_activation", "attentional vector before tanh", NULL, "output", "C", &attentional, 0,
        m->query_words};
    struct shown joined = add_rows(m, "concatenated", "state and context", "C", "C = [H Z]",
                                   qkv_concat(walk->graph, states, context, 1)); /* [Nq, H + M] */
    qkv_walk_add_matrix(walk, "output_weights", "weights of the attentional vector", "W_C", 0,
                        attentional.weight);
    qkv_walk_add_matrix(walk, "output_bias", "bias of the attentional vector", "b_C", 0, attentional.bias);
    struct shown sums = qkv_walk_add_product(walk, &product, joined);
    struct shown output = add_rows(m, "output", "attentional vector", "Y", "Y = tanh(C W_C + b_C)",
                                   qkv_tanh(walk->graph, sums.tensor));
    note(m, fed ? "The output layer predicts the word from this vector, and the next step reads it as well."
                : "The output layer predicts the word from this vector.");
    add_prediction(m, output);
}

static void qkv_model_walk_recurrent(struct model_walk *m)
{
    const struct qkv_stack_config *decoder = &m->model->config.decoder;
    bool fed = decoder->input_feeding;
    struct attention_setup setup = {.query_words = m->query_words,
                                    .key_words = m->key_words,
                                    .merged = m->words.rows.names ? &m->words : NULL};
    const struct qkv_single_head_attention *layer = m->layers.single_head;
    if (!m->layers.attentional) no_layer(m, "attention", "attentional layer", "its single head");
    if (m->walk->failed) return;
    qkv_learned_single_head(m->model, layer, m->walk, &setup);
    setup.x = (struct shown){followed_part(m, QKV_PART_INPUT, layer->query_width), "H", "decoder_states"};
    setup.memory = (struct shown){copy(m, part_of(m, QKV_PART_MEMORY, layer->memory_width)), "M", "memory"};
    add_inputs(m, QKV_STACK_ENCODER, true, m->key_words);
    if (m->walk->failed) return;
    add_memory(m, setup.memory.tensor);
    add_inputs(m, QKV_STACK_DECODER, false, m->input_words);
    if (fed) add_fed(m);
    add_rows(
        m, "decoder_states", NULL, "H",
        qkv_walk_text(m->walk, "H_t = %s(E_t,%s H_t-1)", cell_name(m, decoder, false), fed ? " F_t," : ""),
        setup.x.tensor);
    note(m,
         "The queries are made from these states. From here on, a row is named after the word that its step "
         "outputs.");
    if (m->walk->failed) return;
    set_mask(m, NULL, &setup);
    add_attentional(m, setup.x.tensor, qkv_walk_attention(m->walk, &setup).context, fed);
    m->heads = 1;
}

/* ---- the layer ---- */

static enum qkv_status no_attention(const struct model_walk *m)
{
    bool recurrent = m->model->config.decoder.type == QKV_NETWORK_RECURRENT;
    if (recurrent && m->model->config.decoder.attention.score == QKV_ATTENTION_SCORE_NONE)
        return qkv_error_set(m->error,
                             "this model has no attention (model.decoder.attention.score is none): its "
                             "decoder gets only the final state of the encoder");
    return qkv_error_set(
        m->error, "the model has no %s attention%s", qkv_attention_kind_name(m->kind),
        recurrent ? ": in a recurrent network only the decoder attends, to the encoder (cross)" : "");
}

static bool has_layer(const struct qkv_attention_layers *layers)
{
    return layers->multi_head || layers->single_head;
}

/* Sets m->layers; an m->layer of 0 becomes the last layer. */
static enum qkv_status find_layer(struct model_walk *m)
{
    int count = 0;
    while (m->layers = qkv_model_attention(m->model, m->kind, count + 1), has_layer(&m->layers)) count++;
    if (!count) return no_attention(m);
    if (!m->layer) m->layer = count;
    m->layers = qkv_model_attention(m->model, m->kind, m->layer);
    if (has_layer(&m->layers)) return QKV_OK;
    return qkv_error_set(m->error, "the %s attention has no layer %d: its layers are 1 to %d",
                         qkv_attention_kind_name(m->kind), m->layer, count);
}

/* ---- words ---- */

/* Copies tokens from the memory of the collector to the arena of the walk. */
static struct qkv_texts keep(struct model_walk *m, int64_t count, const char *const *tokens)
{
    const char **kept = qkv_walk_memory(m->walk, count, sizeof *kept);
    for (int64_t i = 0; kept && i < count; i++) kept[i] = qkv_walk_text(m->walk, "%s", tokens[i]);
    return (struct qkv_texts){count, kept};
}

static void name_words(struct model_walk *m, const struct qkv_attention_report *report)
{
    bool encoder = m->kind == QKV_ATTENTION_ENCODER, decoder = m->kind == QKV_ATTENTION_DECODER;
    int64_t rows = encoder ? report->source_length : report->target_length;
    m->row_count = rows;
    m->input_words = keep(m, rows, encoder ? report->source : report->target_input);
    m->query_words = keep(m, rows, qkv_attention_row_tokens(report, m->kind));
    m->has_prefix = !encoder && qkv_has_prefix(m->model);
    m->sources = decoder && !m->has_prefix ? 0 : report->source_length;
    int64_t count = m->sources + (decoder || m->has_prefix ? report->target_length : 0);
    const char **keys = qkv_walk_memory(m->walk, count, sizeof *keys);
    for (int64_t i = 0; keys && i < count; i++)
        keys[i] = i < m->sources ? report->source[i] : report->target_input[i - m->sources];
    if (keys) m->key_words = keep(m, count, keys);
}

/* Finds the rows with this token, or this number from 1, or else those of the words with this name. */
static int64_t find_rows(const struct model_walk *m, const struct named_words *words, const char *text,
                         int32_t *rows)
{
    int64_t count = qkv_walk_find_rows(m->query_words, text, rows);
    if (count || !words) return count;
    for (int64_t i = 0; i < words->labels.tokens; i++)
        if (words->labels.word[i] >= 0 && !strcmp(words->names[words->labels.word[i]], text))
            rows[count++] = (int32_t)i;
    return count;
}

/* Writes all rows of the words of these rows, in the order of the sentence, to `all`. Returns their number. */
static int64_t complete_words(const struct word_labels *labels, const int32_t *rows, int64_t count,
                              int32_t *all)
{
    int64_t written = 0;
    for (int64_t i = 0; i < labels->tokens; i++)
        for (int64_t r = 0; r < count; r++) {
            if (rows[r] != i && (labels->word[i] < 0 || labels->word[rows[r]] != labels->word[i])) continue;
            all[written++] = (int32_t)i;
            break;
        }
    return written;
}

/* Keeps only the query rows that `follow` names; with words, which merge tokens, all rows of the words of these. */
static enum qkv_status follow_words(struct model_walk *m, const struct named_words *words,
                                    const struct qkv_texts *follow)
{
    if (!follow->count) return QKV_OK;
    int64_t count = 0, capacity = (follow->count + 1) * m->query_words.count;
    int32_t *rows = qkv_walk_memory(m->walk, capacity, sizeof *rows);
    const char **names = qkv_walk_memory(m->walk, capacity, sizeof *names);
    int32_t *all = qkv_walk_memory(m->walk, m->query_words.count, sizeof *all);
    if (!rows || !names || !all) return qkv_no_memory(m->error);
    for (int64_t f = 0; f < follow->count; f++) {
        int64_t found = find_rows(m, words, follow->text[f], rows + count);
        count += found;
        if (!found)
            return qkv_error_set(
                m->error,
                "there is no word '%s' to follow: give a word of the rows, or a number from 1 to %lld",
                follow->text[f], (long long)m->query_words.count);
    }
    if (words) {
        count = complete_words(&words->labels, rows, count, all);
        rows = all;
    }
    for (int64_t i = 0; i < count; i++) names[i] = m->query_words.text[rows[i]];
    m->query_words = (struct qkv_texts){count, names};
    m->followed_rows = rows;
    return QKV_OK;
}

/* ---- weights between words ---- */

/* Keeps the rows that `follow` names, and finds the words of these rows and of the columns if options->words is not NULL. */
static enum qkv_status find_words(struct model_walk *m, const struct qkv_attention_report *report,
                                  const struct qkv_explain_options *options)
{
    struct qkv_arena *arena = m->walk->arena;
    struct named_words rows, source, target; /* of all tokens; names are in the memory of the collector */
    if (!options->words) return follow_words(m, NULL, &options->follow);
    if (!qkv_report_row_words(report, *options->words, m->kind, arena, &rows) ||
        !qkv_report_column_words(report, *options->words, QKV_ATTENTION_CROSS, arena, &source) ||
        !qkv_report_column_words(report, *options->words, QKV_ATTENTION_DECODER, arena, &target))
        return qkv_no_memory(m->error);
    if (follow_words(m, &rows, &options->follow)) return QKV_INVALID;
    int64_t *word = qkv_walk_memory(m->walk, m->query_words.count, sizeof *word);
    for (int64_t i = 0; word && i < m->query_words.count; i++)
        word[i] = rows.labels.word[m->followed_rows ? m->followed_rows[i] : i];
    int64_t *key = qkv_walk_memory(m->walk, m->key_words.count, sizeof *key);
    for (int64_t i = 0; key && i < m->key_words.count; i++)
        key[i] =
            i < m->sources ? source.labels.word[i] : source.labels.words + target.labels.word[i - m->sources];
    bool grouped = word && key &&
                   qkv_group_words(m->query_words.text, word, m->query_words.count, arena, &m->words.rows) &&
                   qkv_group_words(m->key_words.text, key, m->key_words.count, arena, &m->words.columns);
    return grouped ? QKV_OK : qkv_no_memory(m->error);
}

/* ---- the walk ---- */

static enum qkv_status walk_layer(struct model_walk *m, struct qkv_attention_collector *collector,
                                  const struct qkv_explain_options *options,
                                  struct qkv_explanation *explanation)
{
    struct qkv_attention_report report;
    enum qkv_status status = qkv_attention_collect(collector, 1, m->pair, 1u << m->kind, &report, m->error);
    if (status) return status;
    if (find_layer(m)) return QKV_INVALID;
    m->pass = (struct recorded_pass){m->model, &collector->trace, "explanations", m->error};
    name_words(m, &report);
    if (m->walk->failed) return qkv_no_memory(m->error);
    if (find_words(m, &report, options)) return QKV_INVALID;
    if (m->layers.multi_head)
        qkv_model_walk_transformer(m);
    else
        qkv_model_walk_recurrent(m);
    return qkv_walk_finish(m->walk, explanation, m->error);
}

enum qkv_status qkv_explain_model(const struct qkv_model *model, const struct qkv_attention_pair *pair,
                                  const struct qkv_explain_options *options, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error)
{
    if ((int)options->kind < 0 || (int)options->kind >= QKV_ATTENTION_KINDS)
        return qkv_error_set(error, "there is no attention of kind %d", (int)options->kind);
    struct walk *walk = qkv_walk_new(model->parameters.dtype, arena, error);
    struct model_walk m = {.model = model,
                           .kind = options->kind,
                           .layer = options->layer,
                           .pair = pair,
                           .walk = walk,
                           .target_vocabulary = options->target_vocabulary,
                           .error = error};
    if (!walk) return QKV_INVALID;
    qkv_graph_bind(walk->graph, &model->parameters, NULL, false);
    *explanation = (struct qkv_explanation){.about = "", .kind = options->kind, .first_head = 1};
    struct qkv_attention_collector *collector = qkv_attention_collector_new(model, error);
    enum qkv_status status = collector ? walk_layer(&m, collector, options, explanation) : QKV_INVALID;
    explanation->heads = explanation->layer_heads = m.heads;
    explanation->layer = m.layer;
    qkv_attention_collector_free(collector);
    qkv_walk_free(walk);
    return status;
}
