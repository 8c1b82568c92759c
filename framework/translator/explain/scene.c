/* The walk through a scene: vectors and matrices are given, drawn, or taken from a run. */
#include "explain/scene.h"

#include "data/unicode.h"
#include "explain/walk.h"

#include "core/numbers.h"
#include "models/network.h"

#include <math.h>

/* ---- random numbers ---- */

struct scene_random {
    struct qkv_random stream;
    uint64_t used; /* numbers drawn from it so far */
};

/* Draws `count` numbers. below: integers are 0 .. below-1; fan: inputs plus outputs of the matrix, for xavier (Glorot and Bengio
 * 2010). */
static void random_draw(struct scene_random *random, enum qkv_distribution distribution, int64_t below,
                        int64_t fan, int64_t count, double *values)
{
    const struct qkv_random stream = random->stream;
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = random->used++;
        values[i] = distribution == QKV_SAMPLE_NORMAL ? qkv_random_normal(stream, at)
                    : distribution == QKV_SAMPLE_INTEGERS
                        ? (double)qkv_random_below(stream, at, (uint64_t)below)
                        : qkv_random_uniform(stream, at);
        if (distribution == QKV_SAMPLE_XAVIER) values[i] = (2 * values[i] - 1) * sqrt(6.0 / (double)fan);
    }
}

struct scene_walk {
    const struct qkv_scene *scene;
    struct walk *walk;
    struct scene_random random;
    const struct qkv_run *run; /* NULL: the scene has no learned embeddings or weights */
    bool has_source, has_positions;
    struct qkv_texts source;      /* words with keys; self-attention: the tokens */
    struct qkv_texts query_words; /* tokens with queries: those to follow, or all */
    struct attention_setup setup;
    struct qkv_error *error;
};

/* ---- vectors and matrices ---- */

/* A random matrix; xavier counts its rows as inputs and its columns as outputs. */
static struct qkv_matrix random_matrix(struct scene_walk *s, enum qkv_distribution distribution,
                                       int64_t below, int64_t rows, int64_t columns)
{
    double *values = qkv_walk_memory(s->walk, rows * columns, sizeof *values);
    if (values) random_draw(&s->random, distribution, below, rows + columns, rows * columns, values);
    return (struct qkv_matrix){values ? rows : 0, values ? columns : 0, values};
}

/* A random matrix with the distribution of the scene's weights. */
static struct qkv_matrix random_weights(struct scene_walk *s, int64_t rows, int64_t columns)
{
    return random_matrix(s, s->scene->weights.draw, s->scene->weights.below, rows, columns);
}

/* The index of the first word with the same text. */
static int64_t first_of(const struct qkv_texts *words, int64_t at)
{
    int64_t first = 0;
    while (strcmp(words->text[first], words->text[at]) != 0) first++;
    return first;
}

/* A row for each word, the same for equal words, drawn in the order of first occurrence. */
static void draw_word_vectors(struct scene_walk *s, const struct qkv_vectors_config *config,
                              const struct qkv_texts *words, double *values)
{
    int64_t width = config->width;
    for (int64_t i = 0; i < words->count; i++) {
        int64_t first = first_of(words, i);
        if (first < i)
            memcpy(values + i * width, values + first * width, (size_t)width * sizeof *values);
        else
            random_draw(&s->random, config->draw, config->below, words->count + width, width,
                        values + i * width);
    }
}

/* The numbers of letters: a is 1, b is 2, and so on, ignoring case; any other character is 0. */
static void number_letters(const char *word, double *row)
{
    for (int32_t letter; *word;) {
        word += qkv_point(word, &letter);
        letter |= 0x20;
        *row++ = letter >= 'a' && letter <= 'z' ? letter - 'a' + 1 : 0;
    }
}

/* The learned embeddings of the words, scaled as in the model. */
static enum qkv_status learned_embeddings(struct scene_walk *s, const struct qkv_texts *words, bool source,
                                          struct qkv_matrix *matrix)
{
    const struct qkv_model *model = s->run->model;
    const char *place = qkv_scene_place(s->scene, source ? "source" : "tokens", s->walk->arena);
    enum qkv_attention_kind kind = s->scene->run.kind;
    bool encoder = kind == QKV_ATTENTION_ENCODER || (kind == QKV_ATTENTION_CROSS && source);
    const struct qkv_embedding *embedding =
        qkv_model_inputs(model, encoder ? QKV_STACK_ENCODER : QKV_STACK_DECODER).embedding;
    if (!embedding)
        return qkv_error_set(s->error, "%s%s: its network %s gives no embeddings", place, s->run->path,
                             model->interface->name);
    int64_t width = embedding->table->shape.size[1];
    double *values = qkv_walk_memory(s->walk, words->count * width, sizeof *values);
    for (int64_t i = 0; values && i < words->count; i++) {
        int32_t id = qkv_vocabulary_id(encoder ? &s->run->source : &s->run->target, words->text[i]);
        if (id == QKV_UNKNOWN)
            return qkv_error_set(s->error, "%s%s does not know the word '%s'", place, s->run->path,
                                 words->text[i]);
        for (int64_t d = 0; d < width; d++)
            values[i * width + d] =
                embedding->factor * qkv_parameter_get(&model->parameters, embedding->table, id * width + d);
    }
    *matrix = (struct qkv_matrix){values ? words->count : 0, width, values};
    return QKV_OK;
}

/* Sets the embeddings of the tokens or of the source; rows 0: there are none. */
static enum qkv_status make_embeddings(struct scene_walk *s, bool source, struct qkv_matrix *matrix)
{
    const struct qkv_vectors_config *config = source ? &s->scene->source_embeddings : &s->scene->embeddings;
    const struct qkv_texts *words = source ? &s->scene->source : &s->scene->tokens;
    int64_t width = source ? s->scene->source_width : s->scene->width;
    *matrix = config->values;
    if (config->from == QKV_VECTORS_LEARNED) return learned_embeddings(s, words, source, matrix);
    if (config->from != QKV_VECTORS_RANDOM && config->from != QKV_VECTORS_LETTERS) return QKV_OK;
    double *values = qkv_walk_memory(s->walk, words->count * width, sizeof *values);
    *matrix = (struct qkv_matrix){values ? words->count : 0, width, values};
    if (values && config->from == QKV_VECTORS_RANDOM) draw_word_vectors(s, config, words, values);
    for (int64_t i = 0; values && config->from == QKV_VECTORS_LETTERS && i < words->count; i++)
        number_letters(words->text[i], values + i * width);
    return QKV_OK;
}

/* ---- from words to inputs ---- */

static void add_tokens(struct scene_walk *s, const char *name, struct qkv_texts words)
{
    double *numbers = qkv_walk_memory(s->walk, words.count, sizeof *numbers);
    for (int64_t i = 0; numbers && i < words.count; i++) numbers[i] = (double)(i + 1);
    qkv_walk_add_tokens(s->walk, name, NULL, "", "word", words, numbers);
}

static void add_embeddings(struct scene_walk *s, bool source, struct qkv_matrix matrix)
{
    static const char *const ORIGIN[] = {[QKV_VECTORS_GIVEN] = "given",
                                         [QKV_VECTORS_RANDOM] = "random",
                                         [QKV_VECTORS_LEARNED] = "learned",
                                         [QKV_VECTORS_LETTERS] = "letters"};
    const char *letter = s->has_positions ? source ? "E_source" : "E" : source ? "M" : "X";
    const struct qkv_vectors_config *config = source ? &s->scene->source_embeddings : &s->scene->embeddings;
    if (!matrix.rows) return;
    qkv_walk_add_values(
        s->walk, source ? "source_embeddings" : "embeddings", NULL,
        qkv_walk_text(s->walk, "%s, %s", letter, ORIGIN[config->from]),
        (struct layout){source ? s->scene->source : s->scene->tokens, {.count = matrix.columns}},
        matrix.value);
}

/* Embeddings plus positions, [N, D]; NULL when the scene has no embeddings on this side. has_table: the step positions
 * shows the table already. */
static struct qkv_tensor *make_inputs(struct scene_walk *s, bool source, struct qkv_matrix embeddings,
                                      bool has_table)
{
    struct walk *walk = s->walk;
    const struct qkv_texts words = source ? s->scene->source : s->scene->tokens;
    const char *table_step = source && !has_table ? "source_positions" : "positions";
    if (!embeddings.rows) return NULL;
    struct qkv_tensor *x = qkv_walk_constant(walk, embeddings);
    if (!s->has_positions) return x;
    int64_t rows = s->scene->positions.rows > words.count ? s->scene->positions.rows : words.count;
    struct qkv_matrix table = qkv_walk_sinusoids(walk, rows, embeddings.columns, s->scene->positions.base);
    if (!table.rows) return NULL;
    if (!has_table) {
        qkv_walk_add_positions(walk, table_step, NULL, table);
        if (table.columns % 2)
            walk->step[walk->count - 1].note =
                "The width is odd: the last column has no partner and stays 0.";
    }
    x = qkv_add_positions(walk->graph, x, qkv_walk_constant(walk, table), (struct qkv_segments){0}, 0);
    qkv_walk_add_tensor(walk, source ? "source_inputs" : "inputs", NULL,
                        source ? "M = E_source + P" : "X = E + P", (struct layout){words}, x);
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, source ? "source_embeddings" : "embeddings", table_step, NULL);
    return x;
}

/* The rows of x for the words to follow; x itself when all words are shown. */
static struct qkv_tensor *followed_rows(struct scene_walk *s, struct qkv_tensor *x)
{
    const struct qkv_scene *scene = s->scene;
    if (!x || !scene->follow.count) return x;
    return qkv_gather_rows(s->walk->graph, x, scene->query_rows, scene->query_count);
}

/* ---- weights ---- */

/* Queries, keys or values of `words` that are not projected. */
static struct qkv_tensor *make_direct(struct scene_walk *s, const struct qkv_vectors_config *config,
                                      int64_t words)
{
    struct qkv_matrix matrix = config->values;
    if (config->from == QKV_VECTORS_RANDOM)
        matrix = random_matrix(s, config->draw, config->below, words, config->width);
    return qkv_walk_constant(s->walk, matrix);
}

/* A matrix that projects to `width` columns a head: given, or [inputs, heads * width], drawn head by head. */
static struct projection make_projection(struct scene_walk *s, struct qkv_matrix given, int64_t inputs,
                                         int64_t width)
{
    if (s->scene->weights.from != QKV_WEIGHTS_RANDOM) return (struct projection){.weight = given};
    int64_t heads = s->scene->attention.heads, count = heads * inputs * width;
    struct qkv_matrix stacked = random_weights(s, heads * inputs, width); /* heads below each other */
    double *values = qkv_walk_memory(s->walk, count, sizeof *values);
    for (int64_t i = 0; values && stacked.value && i < count; i++) {
        int64_t head = i / (inputs * width), row = i / width % inputs;
        values[(row * heads + head) * width + i % width] = stacked.value[i];
    }
    return (struct projection){.weight = {values ? inputs : 0, heads * width, values}};
}

static void add_bias(struct scene_walk *s, struct projection *projection)
{
    int64_t columns = projection->weight.columns;
    if (s->scene->weights.bias == QKV_BIAS_NONE || !projection->weight.rows) return;
    projection->bias = (struct qkv_matrix){1, columns, qkv_walk_memory(s->walk, columns, sizeof(double))};
    if (s->scene->weights.bias == QKV_BIAS_RANDOM) projection->bias = random_weights(s, 1, columns);
}

static void make_score_weights(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_setup *setup = &s->setup;
    int64_t heads = setup->rule.heads, width = setup->key_width, hidden = scene->attention.hidden_width;
    bool random = scene->weights.from == QKV_WEIGHTS_RANDOM;
    setup->general = scene->weights.score;
    setup->additive_query = scene->weights.score_query;
    setup->additive_key = scene->weights.score_key;
    setup->additive_vector = scene->weights.score_vector;
    if (random && setup->score == QKV_SCENE_SCORE_GENERAL)
        setup->general = random_weights(s, heads * width, width);
    if (random && setup->score == QKV_SCENE_SCORE_ADDITIVE) {
        setup->additive_query = random_weights(s, heads * width, hidden);
        setup->additive_key = random_weights(s, heads * width, hidden);
        setup->additive_vector = random_weights(s, heads, hidden);
    }
    if (setup->score != QKV_SCENE_SCORE_LENGTH) return;
    int64_t keys = s->source.count, count = s->query_words.count * keys;
    double *lengths = qkv_walk_memory(s->walk, count, sizeof *lengths);
    for (int64_t i = 0; lengths && i < count; i++)
        lengths[i] = qkv_scalar_log((double)qkv_utf8_count(s->source.text[i % keys]));
    setup->length_scores = lengths;
}

static void make_weights(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_setup *setup = &s->setup;
    int64_t heads = scene->attention.heads, key = scene->attention.key_width,
            value = scene->attention.value_width;
    bool compares = setup->score != QKV_SCENE_SCORE_LENGTH;
    setup->rule.heads = heads;
    setup->key_width = key;
    setup->value_width = value;
    if (scene->queries.from != QKV_VECTORS_PROJECTED)
        setup->query = followed_rows(s, make_direct(s, &scene->queries, scene->tokens.count));
    else if (compares)
        setup->query_projection = make_projection(s, scene->weights.query, scene->width, key);
    if (scene->keys.from != QKV_VECTORS_PROJECTED)
        setup->key = make_direct(s, &scene->keys, s->source.count);
    else if (compares)
        setup->key_projection = make_projection(s, scene->weights.key, scene->source_width, key);
    if (scene->values.from != QKV_VECTORS_PROJECTED)
        setup->value = make_direct(s, &scene->values, s->source.count);
    else
        setup->value_projection = make_projection(s, scene->weights.value, scene->source_width, value);
    make_score_weights(s);
    setup->output_projection.weight = scene->weights.output;
    if (scene->weights.from == QKV_WEIGHTS_RANDOM && scene->attention.output)
        setup->output_projection.weight =
            random_weights(s, heads * value, scene->width ? scene->width : heads * value);
    add_bias(s, &setup->query_projection);
    add_bias(s, &setup->key_projection);
    add_bias(s, &setup->value_projection);
    add_bias(s, &setup->output_projection);
}

/* Takes projections, heads and widths from the attention layer of the run. */
static enum qkv_status learned_weights(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    const struct qkv_model *model = s->run->model;
    const char *place = qkv_scene_place(scene, "weights.from", s->walk->arena);
    bool encoder = scene->run.kind == QKV_ATTENTION_ENCODER;
    const struct qkv_stack_config *stack = encoder ? &model->config.encoder : &model->config.decoder;
    if (stack->type == QKV_NETWORK_RECURRENT)
        return qkv_error_set(s->error,
                             "%s%s is a recurrent network, but a scene takes weights only from transformers; "
                             "`qkv explain %s SENTENCE` shows the attention of this run",
                             place, scene->run.path, scene->run.path);
    if (scene->run.layer > stack->num_layers)
        return qkv_error_set(s->error, "%srun.layer is %lld, but the run has %lld layers",
                             qkv_scene_place(scene, "run.layer", s->walk->arena), (long long)scene->run.layer,
                             (long long)stack->num_layers);
    const struct qkv_multi_head *multi_head =
        qkv_model_attention(model, scene->run.kind, scene->run.layer).multi_head;
    if (!multi_head)
        return qkv_error_set(s->error, "%s%s: its network %s gives no multi-head %s attention in layer %lld",
                             place, scene->run.path, model->interface->name,
                             qkv_attention_kind_name(scene->run.kind), (long long)scene->run.layer);
    qkv_learned_multi_head(model, multi_head, s->walk, &s->setup);
    if (s->walk->failed) return qkv_no_memory(s->error);
    const struct qkv_tensor *inputs[] = {s->setup.x.tensor, s->setup.memory.tensor};
    for (int i = 0; i < 2; i++) {
        int64_t width = inputs[i] ? qkv_tensor_shape(inputs[i]).size[1] : 0;
        int64_t wanted = (i ? &s->setup.key_projection : &s->setup.query_projection)->weight.rows;
        if (inputs[i] && width != wanted)
            return qkv_error_set(s->error,
                                 "%sthe matrices of the run need vectors of width %lld, but the vectors are "
                                 "%lld wide",
                                 place, (long long)wanted, (long long)width);
    }
    return QKV_OK;
}

/* ---- mask ---- */

/* Whether the query of token i can see the key of source word j. */
static bool sees(const struct scene_walk *s, int64_t i, int64_t j)
{
    const struct qkv_scene *scene = s->scene;
    const struct qkv_matrix *given = &scene->mask.values;
    if (scene->attention.window && (i > j ? i - j : j - i) > scene->attention.window) return false;
    switch (scene->mask.type) {
    case QKV_MASK_NONE:
        return true;
    case QKV_MASK_CAUSAL:
        return j <= i;
    case QKV_MASK_PADDING:
        return strcmp(s->source.text[j], scene->mask.padding) != 0;
    case QKV_MASK_BOOLEAN:
        return given->value[i * given->columns + j] > 0;
    case QKV_MASK_ADDED:
        return !isinf(given->value[i * given->columns + j]);
    }
    return true;
}

static void make_mask(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    int64_t keys = s->source.count, queries = s->query_words.count;
    bool added = scene->mask.type == QKV_MASK_ADDED, hides = !added && scene->mask.type != QKV_MASK_NONE;
    double *visible = qkv_walk_memory(s->walk, queries * keys, sizeof *visible),
           *addends = qkv_walk_memory(s->walk, queries * keys, sizeof *addends);
    if (!visible || !addends) return;
    for (int64_t i = 0; i < queries * keys; i++) {
        int64_t row = scene->query_rows[i / keys];
        visible[i] = sees(s, row, i % keys);
        hides = hides || !(visible[i] > 0);
        if (added) addends[i] = visible[i] > 0 ? scene->mask.values.value[row * keys + i % keys] : -HUGE_VAL;
    }
    if (hides) s->setup.visible = visible;
    if (!added) return;
    s->setup.added_mask = addends;
    s->setup.mask_note =
        "A number like -1e9 hides a word only if other words of the row are not hidden: adding -1e9 to a "
        "complete row does not change its softmax. -.inf always hides.";
}

/* ---- sum ---- */

/* The sum of the first components of the context sum_j a_j v_j; a repeated word may count once. */
static void add_sum(struct scene_walk *s, struct attention_result result)
{
    const struct qkv_scene *scene = s->scene;
    static const char *const COLUMN[] = {"sum"};
    struct qkv_graph *graph = s->walk->graph;
    int64_t keys = s->source.count, count = s->query_words.count * keys * s->setup.rule.heads;
    if (!scene->sum.components) return;
    double *counts = qkv_walk_memory(s->walk, count, sizeof *counts);
    struct qkv_tensor *factors = qkv_constant(graph, QKV_SHAPE(count));
    if (!counts || !factors) return;
    for (int64_t i = 0; i < count; i++)
        counts[i] = !scene->sum.distinct || first_of(&s->source, i % keys) == i % keys;
    qkv_tensor_write(factors, counts);
    struct qkv_tensor *mixed = qkv_attention_mix(graph, qkv_multiply(graph, result.weights, factors),
                                                 result.value, result.layout); /* [Nq, H V] */
    qkv_walk_add_tensor(s->walk, "sum", NULL,
                        qkv_walk_text(s->walk, "first %lld of %lld components%s",
                                      (long long)scene->sum.components,
                                      (long long)(s->setup.rule.heads * s->setup.value_width),
                                      scene->sum.distinct ? ", each distinct word once" : ""),
                        (struct layout){s->query_words, {1, COLUMN}},
                        qkv_sum(graph, qkv_slice(graph, mixed, 1, 0, scene->sum.components), 1));
}

/* ---- all steps ---- */

static enum qkv_status walk_scene(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_setup *setup = &s->setup;
    bool cross = s->has_source;
    struct qkv_matrix embeddings, source_embeddings = {0};
    add_tokens(s, "tokens", scene->tokens);
    if (cross) add_tokens(s, "source_tokens", scene->source);
    /* Vectors of the source are drawn first, but an unknown word of the tokens is reported first. */
    enum qkv_status status = cross ? make_embeddings(s, true, &source_embeddings) : QKV_OK;
    if (make_embeddings(s, false, &embeddings) || status) return QKV_INVALID;
    add_embeddings(s, false, embeddings);
    add_embeddings(s, true, source_embeddings);
    struct qkv_tensor *x = make_inputs(s, false, embeddings, false);
    setup->x = (struct shown){x, .letter = "X"};
    setup->memory = (struct shown){x, .letter = cross ? "M" : "X"};
    if (cross)
        setup->memory.tensor =
            make_inputs(s, true, source_embeddings, embeddings.columns == source_embeddings.columns);
    make_mask(s);
    setup->score = scene->attention.score;
    if (scene->weights.from != QKV_WEIGHTS_LEARNED)
        make_weights(s);
    else if (learned_weights(s))
        return QKV_INVALID;
    setup->x.tensor = followed_rows(s, x);
    if (x && !scene->follow.count && setup->query_projection.weight.rows)
        setup->x.step = s->has_positions ? "inputs" : "embeddings";
    if (setup->memory.tensor && setup->value_projection.weight.rows)
        setup->memory.step = cross              ? s->has_positions ? "source_inputs" : "source_embeddings"
                             : s->has_positions ? "inputs"
                                                : "embeddings";
    add_sum(s, qkv_walk_attention(s->walk, setup));
    return QKV_OK;
}

enum qkv_status qkv_walk_scene(enum qkv_dtype dtype, const struct qkv_scene *scene, const struct qkv_run *run,
                               struct qkv_arena *arena, struct qkv_explanation *explanation,
                               struct qkv_error *error)
{
    struct walk *walk = qkv_walk_new(dtype, arena, error);
    bool cross = scene->source.count;
    struct scene_walk s = {.scene = scene,
                           .walk = walk,
                           .run = run,
                           .has_source = cross,
                           .has_positions = scene->positions.type != QKV_POSITION_NONE,
                           .source = cross ? scene->source : scene->tokens,
                           .error = error};
    if (!walk) return QKV_INVALID;
    s.random.stream = (struct qkv_random){(uint64_t)scene->random.seed, QKV_STREAM_SCENE, 0};
    const char **names = qkv_walk_memory(walk, scene->query_count, sizeof *names);
    for (int64_t i = 0; names && i < scene->query_count; i++)
        names[i] = scene->tokens.text[scene->query_rows[i]];
    s.setup.query_words = s.query_words = (struct qkv_texts){scene->query_count, names};
    s.setup.key_words = s.source;
    *explanation = (struct qkv_explanation){.title = scene->name,
                                            .about = scene->about,
                                            .kind = cross ? QKV_ATTENTION_CROSS : QKV_ATTENTION_ENCODER,
                                            .first_head = 1};
    enum qkv_status status = walk_scene(&s);
    if (!status) status = qkv_walk_finish(walk, explanation, error);
    explanation->heads = explanation->layer_heads = s.setup.rule.heads;
    if (run) explanation->model = qkv_arena_string(arena, run->config.name);
    qkv_walk_free(walk);
    return status;
}

enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error)
{
    if (scene->embeddings.from != QKV_VECTORS_LEARNED &&
        scene->source_embeddings.from != QKV_VECTORS_LEARNED && scene->weights.from != QKV_WEIGHTS_LEARNED)
        return qkv_walk_scene(QKV_FLOAT64, scene, NULL, arena, explanation, error);
    struct qkv_run run;
    struct qkv_error inner;
    const char *checkpoint = *scene->run.checkpoint ? scene->run.checkpoint : NULL;
    enum qkv_status status = qkv_run_open(&run, scene->run.path, checkpoint, QKV_FLOAT64, &inner);
    if (status) {
        qkv_error_set(error, "%s%s", qkv_scene_place(scene, "run.path", arena), inner.message);
        return status;
    }
    if (!run.sides.has_source)
        status = qkv_error_set(error, "%sis a language model, but a scene shows layers of a translator",
                               qkv_scene_place(scene, "run.path", arena));
    else
        status = qkv_walk_scene(QKV_FLOAT64, scene, &run, arena, explanation, error);
    qkv_run_release(&run);
    return status;
}
