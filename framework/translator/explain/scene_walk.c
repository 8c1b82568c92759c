/* The walk through a scene: vectors and matrices are given, drawn, or taken from a run. */
#include "data/unicode.h"
#include "explain/learned.h"
#include "explain/random_stream.h"
#include "explain/walk.h"

#include "qkv/layers.h"
#include "qkv/scalar_math.h"

#include <math.h>
#include <string.h>

struct scene_walk {
    const struct qkv_scene *scene;
    struct walk *walk;
    struct random_stream stream;
    struct learned learned; /* open only if the scene has learned embeddings or weights */
    struct qkv_texts tokens;
    struct qkv_texts source;                         /* words with keys; self-attention: the tokens */
    struct qkv_texts query_words;                    /* tokens with queries: those to follow, or all */
    struct qkv_matrix embeddings, source_embeddings; /* rows 0: none */
    struct attention_setup setup;
    struct qkv_error *error;
};

/* ---- vectors and matrices ---- */

/* A random matrix; xavier counts its rows as inputs and its columns as outputs. */
static struct qkv_matrix random_matrix(struct scene_walk *s, enum qkv_distribution distribution,
                                       int64_t below, int64_t rows, int64_t columns)
{
    const struct sample_options options = {distribution, below, rows + columns};
    double *values = qkv_walk_memory(s->walk, rows * columns, sizeof *values);
    if (values) qkv_random_stream_fill(&s->stream, options, rows * columns, values);
    return (struct qkv_matrix){values ? rows : 0, values ? columns : 0, values};
}

/* A random matrix with the distribution of the scene's weights. */
static struct qkv_matrix random_weights(struct scene_walk *s, int64_t rows, int64_t columns)
{
    return random_matrix(s, s->scene->weights.draw, s->scene->weights.below, rows, columns);
}

/* [rows, heads * columns], drawn head by head. */
static struct qkv_matrix random_weights_by_head(struct scene_walk *s, int64_t heads, int64_t rows,
                                                int64_t columns)
{
    struct qkv_matrix stacked = random_weights(s, heads * rows, columns); /* heads below each other */
    double *values = qkv_walk_memory(s->walk, heads * rows * columns, sizeof *values);
    for (int64_t i = 0; values && stacked.value && i < heads * rows * columns; i++) {
        int64_t head = i / (rows * columns), row = i / columns % rows;
        values[row * heads * columns + head * columns + i % columns] = stacked.value[i];
    }
    return (struct qkv_matrix){values ? rows : 0, heads * columns, values};
}

/* The index of the first word with the same text. */
static int64_t first_of(const struct qkv_texts *words, int64_t at)
{
    int64_t first = 0;
    while (strcmp(words->text[first], words->text[at]) != 0) first++;
    return first;
}

/* One random row for each word, the same for equal words. Rows are drawn in the order of first occurrence. */
static struct qkv_matrix random_word_vectors(struct scene_walk *s, const struct qkv_vectors_config *config,
                                             const struct qkv_texts *words)
{
    int64_t width = config->width;
    const struct sample_options options = {config->draw, config->below, words->count + width};
    double *values = qkv_walk_memory(s->walk, words->count * width, sizeof *values);
    for (int64_t i = 0; values && i < words->count; i++) {
        int64_t first = first_of(words, i);
        if (first < i)
            memcpy(values + i * width, values + first * width, (size_t)width * sizeof *values);
        else
            qkv_random_stream_fill(&s->stream, options, width, values + i * width);
    }
    return (struct qkv_matrix){values ? words->count : 0, width, values};
}

/* Vectors of letter numbers: a is 1, b is 2, and so on, ignoring case; any other character is 0. */
static struct qkv_matrix letter_vectors(struct scene_walk *s, const struct qkv_texts *words, int64_t width)
{
    double *values = qkv_walk_memory(s->walk, words->count * width, sizeof *values);
    for (int64_t i = 0; values && i < words->count; i++) {
        double *row = values + i * width;
        for (const char *at = words->text[i]; *at;) {
            int32_t letter;
            at += qkv_point(at, &letter);
            letter |= 0x20;
            *row++ = letter >= 'a' && letter <= 'z' ? letter - 'a' + 1 : 0;
        }
    }
    return (struct qkv_matrix){values ? words->count : 0, width, values};
}

static struct qkv_matrix make_embeddings(struct scene_walk *s, const struct qkv_vectors_config *config,
                                         const struct qkv_texts *words, int64_t width, bool source)
{
    switch (config->from) {
    case QKV_VECTORS_RANDOM:
        return random_word_vectors(s, config, words);
    case QKV_VECTORS_LETTERS:
        return letter_vectors(s, words, width);
    case QKV_VECTORS_LEARNED:
        return qkv_learned_embeddings(&s->learned, s->walk, words, source);
    default:
        return config->values;
    }
}

/* Queries, keys or values that are not projected. */
static struct qkv_tensor *make_direct(struct scene_walk *s, const struct qkv_vectors_config *config,
                                      int64_t words)
{
    struct qkv_matrix matrix = config->values;
    if (config->from == QKV_VECTORS_RANDOM)
        matrix = random_matrix(s, config->draw, config->below, words, config->width);
    return qkv_walk_constant(s->walk, matrix);
}

/* ---- from words to inputs ---- */

static void add_tokens(struct scene_walk *s, const char *name, const char *title, struct qkv_texts words)
{
    static const char *const ROW[] = {"word"};
    double *numbers = qkv_walk_memory(s->walk, words.count, sizeof *numbers);
    for (int64_t i = 0; numbers && i < words.count; i++) numbers[i] = (double)(i + 1);
    qkv_walk_add(s->walk, &(struct new_step){.name = name,
                                             .title = title,
                                             .formula = "",
                                             .content = QKV_STEP_TOKENS,
                                             .values = numbers,
                                             .rows = {1, ROW},
                                             .columns = words});
}

/* Sinusoids for `rows` positions. */
static struct qkv_matrix position_table(struct scene_walk *s, int64_t rows, int64_t width)
{
    double *table = qkv_walk_memory(s->walk, rows * width, sizeof *table);
    for (int64_t i = 0; table && i < rows * width; i++)
        table[i] = qkv_sinusoid(i / width, i % width, width, s->scene->positions.base);
    return (struct qkv_matrix){table ? rows : 0, width, table};
}

/* Embeddings plus positions, [N, D]; NULL when the scene has no embeddings on this side. */
static struct qkv_tensor *make_inputs(struct scene_walk *s, struct qkv_matrix embeddings,
                                      struct qkv_texts words, bool source)
{
    struct walk *walk = s->walk;
    if (!embeddings.rows) return NULL;
    struct qkv_tensor *x = qkv_walk_constant(walk, embeddings);
    if (s->scene->positions.type == QKV_POSITION_NONE) return x;
    int64_t rows = s->scene->positions.rows > words.count ? s->scene->positions.rows : words.count;
    struct qkv_matrix table = position_table(s, rows, embeddings.columns);
    if (!table.rows) return NULL;
    if (!source || embeddings.columns != s->embeddings.columns) { /* otherwise the table has a step already */
        qkv_walk_add(walk, &(struct new_step){
                               .name = source ? "source_positions" : "positions",
                               .title = "position encoding",
                               .formula = "P[p, 2i] = sin(p / base^(2i/D)), P[p, 2i+1] = cos of the same",
                               .matrix = table,
                               .rows = qkv_walk_positions(walk, table.rows)});
        if (embeddings.columns % 2)
            qkv_walk_note(walk, "The width is odd: the last column has no partner and stays 0.");
    }
    x = qkv_add_positions(walk->graph, x, qkv_walk_constant(walk, table), (struct qkv_segments){0}, 0);
    qkv_walk_add_tensor(walk, source ? "source_inputs" : "inputs", source ? "source inputs" : "inputs",
                        source ? "M = E_source + P" : "X = E + P", x, words);
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, source ? "source_embeddings" : "embeddings",
                  source && embeddings.columns != s->embeddings.columns ? "source_positions" : "positions",
                  NULL);
    return x;
}

/* The name of embeddings.from in formulas. */
static const char *origin_name(const struct qkv_vectors_config *config)
{
    return config->from == QKV_VECTORS_RANDOM    ? "random"
           : config->from == QKV_VECTORS_LEARNED ? "learned"
           : config->from == QKV_VECTORS_LETTERS ? "letters"
                                                 : "given";
}

static void add_embeddings(struct scene_walk *s, bool source)
{
    const struct qkv_vectors_config *config = source ? &s->scene->source_embeddings : &s->scene->embeddings;
    struct qkv_matrix matrix = source ? s->source_embeddings : s->embeddings;
    bool plain = s->scene->positions.type == QKV_POSITION_NONE;
    const char *letter = source ? plain ? "M" : "E_source" : plain ? "X" : "E";
    if (!matrix.rows) return;
    qkv_walk_add(s->walk,
                 &(struct new_step){.name = source ? "source_embeddings" : "embeddings",
                                    .title = source ? "source embeddings" : "embeddings",
                                    .formula = qkv_walk_text(s->walk, "%s, %s", letter, origin_name(config)),
                                    .matrix = matrix,
                                    .rows = source ? s->source : s->tokens});
}

/* The rows of x for the words to follow; x itself when all words are shown. */
static struct qkv_tensor *followed_rows(struct scene_walk *s, struct qkv_tensor *x)
{
    const struct qkv_scene *scene = s->scene;
    if (!x || !scene->follow.count) return x;
    return qkv_gather_rows(s->walk->graph, x, scene->query_rows, scene->query_count);
}

/* ---- weights ---- */

static struct projection projection_of(struct scene_walk *s, struct qkv_matrix given, int64_t inputs,
                                       int64_t width)
{
    const struct qkv_scene *scene = s->scene;
    struct projection projection = {.weight = given};
    if (scene->weights.from == QKV_WEIGHTS_RANDOM)
        projection.weight = random_weights_by_head(s, scene->attention.heads, inputs, width);
    return projection;
}

static void add_bias(struct scene_walk *s, struct projection *projection)
{
    const struct qkv_scene *scene = s->scene;
    int64_t columns = projection->weight.columns;
    if (scene->weights.bias == QKV_BIAS_NONE || !projection->weight.rows) return;
    projection->bias = (struct qkv_matrix){1, columns, qkv_walk_memory(s->walk, columns, sizeof(double))};
    if (scene->weights.bias == QKV_BIAS_RANDOM) projection->bias = random_weights(s, 1, columns);
}

static void make_score_weights(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_setup *setup = &s->setup;
    int64_t heads = setup->rule.heads, width = setup->key_width, hidden = scene->attention.hidden_width;
    bool random = scene->weights.from == QKV_WEIGHTS_RANDOM;
    setup->score = scene->attention.score;
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
    double *lengths = qkv_walk_memory(s->walk, s->query_words.count * s->source.count, sizeof *lengths);
    for (int64_t i = 0; lengths && i < s->query_words.count * s->source.count; i++)
        lengths[i] = qkv_scalar_log((double)qkv_utf8_count(s->source.text[i % s->source.count]));
    setup->length_scores = (struct qkv_matrix){s->query_words.count, s->source.count, lengths};
}

static void make_weights(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_setup *setup = &s->setup;
    int64_t key = scene->attention.key_width, value = scene->attention.value_width;
    bool compares = scene->attention.score != QKV_SCENE_SCORE_LENGTH;
    setup->rule.heads = scene->attention.heads;
    setup->key_width = key;
    setup->value_width = value;
    if (scene->queries.from != QKV_VECTORS_PROJECTED)
        setup->query = followed_rows(s, make_direct(s, &scene->queries, s->tokens.count));
    else if (compares)
        setup->query_projection = projection_of(s, scene->weights.query, scene->width, key);
    if (scene->keys.from != QKV_VECTORS_PROJECTED)
        setup->key = make_direct(s, &scene->keys, s->source.count);
    else if (compares)
        setup->key_projection = projection_of(s, scene->weights.key, scene->source_width, key);
    if (scene->values.from != QKV_VECTORS_PROJECTED)
        setup->value = make_direct(s, &scene->values, s->source.count);
    else
        setup->value_projection = projection_of(s, scene->weights.value, scene->source_width, value);
    make_score_weights(s);
    setup->output_projection.weight = scene->weights.output;
    if (scene->weights.from == QKV_WEIGHTS_RANDOM && scene->attention.output)
        setup->output_projection.weight = random_weights(
            s, setup->rule.heads * value, scene->width ? scene->width : setup->rule.heads * value);
    add_bias(s, &setup->query_projection);
    add_bias(s, &setup->key_projection);
    add_bias(s, &setup->value_projection);
    add_bias(s, &setup->output_projection);
}

/* ---- mask ---- */

/* Whether the query of token i can see the key of source word j. */
static bool sees(const struct qkv_scene *scene, int64_t i, int64_t j)
{
    bool near = (i > j ? i - j : j - i) <= scene->attention.window;
    const struct qkv_texts *source = scene->source.count ? &scene->source : &scene->tokens;
    const struct qkv_matrix *given = &scene->mask.values;
    switch (scene->mask.type) {
    case QKV_MASK_NONE:
        return near;
    case QKV_MASK_CAUSAL:
        return near && j <= i;
    case QKV_MASK_PADDING:
        return near && strcmp(source->text[j], scene->mask.padding) != 0;
    case QKV_MASK_BOOLEAN:
        return near && given->value[i * given->columns + j] > 0;
    case QKV_MASK_ADDED:
        return near && !isinf(given->value[i * given->columns + j]);
    }
    return true;
}

static void make_mask(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    int64_t keys = s->source.count, queries = s->query_words.count;
    bool added = scene->mask.type == QKV_MASK_ADDED, hides = false;
    double *visible = qkv_walk_memory(s->walk, queries * keys, sizeof *visible),
           *addends = qkv_walk_memory(s->walk, queries * keys, sizeof *addends);
    if (!visible || !addends) return;
    for (int64_t i = 0; i < queries * keys; i++) {
        int64_t row = scene->query_rows[i / keys];
        visible[i] = sees(scene, row, i % keys);
        hides = hides || !(visible[i] > 0);
        if (added) addends[i] = visible[i] > 0 ? scene->mask.values.value[row * keys + i % keys] : -HUGE_VAL;
    }
    if (added) s->setup.added_mask = addends;
    if (hides || scene->mask.type == QKV_MASK_BOOLEAN || scene->mask.type == QKV_MASK_CAUSAL ||
        scene->mask.type == QKV_MASK_PADDING)
        s->setup.visible = visible;
    if (added)
        s->setup.mask_note =
            "A number like -1e9 hides a word only if other words of the row are not hidden: adding -1e9 to "
            "a complete row does not change its softmax. -.inf always hides.";
}

/* ---- sum ---- */

/* The sum of the first components of the context sum_j a_j v_j; a repeated word may count once. */
static void add_sum(struct scene_walk *s, struct attention_result result)
{
    const struct qkv_scene *scene = s->scene;
    static const char *const COLUMN[] = {"sum"};
    struct qkv_graph *graph = s->walk->graph;
    int64_t keys = s->source.count, queries = s->query_words.count,
            count = queries * keys * s->setup.rule.heads;
    if (!scene->sum.components) return;
    double *counts = qkv_walk_memory(s->walk, count, sizeof *counts);
    struct qkv_tensor *factors = qkv_constant(graph, QKV_SHAPE(count));
    if (!counts || !factors) return;
    for (int64_t i = 0; i < count; i++)
        counts[i] = !scene->sum.distinct || first_of(&s->source, i % keys) == i % keys;
    qkv_tensor_write(factors, counts);
    struct qkv_tensor *mixed = qkv_attention_mix(graph, qkv_multiply(graph, result.weights, factors),
                                                 result.value, result.layout); /* [Nq, H V] */
    struct qkv_tensor *sum = qkv_sum(graph, qkv_slice(graph, mixed, 1, 0, scene->sum.components), 1);
    qkv_walk_add(s->walk, &(struct new_step){.name = "sum",
                                             .title = "sum",
                                             .formula = qkv_walk_text(
                                                 s->walk, "first %lld of %lld components%s",
                                                 (long long)scene->sum.components,
                                                 (long long)(s->setup.rule.heads * s->setup.value_width),
                                                 scene->sum.distinct ? ", each distinct word once" : ""),
                                             .tensor = sum,
                                             .rows = s->query_words,
                                             .columns = {1, COLUMN}});
}

/* ---- all steps ---- */

/* The step from which keys and values are made. */
static const char *memory_step(const struct qkv_scene *scene, bool cross)
{
    bool plain = scene->positions.type == QKV_POSITION_NONE;
    if (cross) return plain ? "source_embeddings" : "source_inputs";
    return plain ? "embeddings" : "inputs";
}

static enum qkv_status walk_scene(struct scene_walk *s)
{
    const struct qkv_scene *scene = s->scene;
    bool cross = scene->source.count;
    add_tokens(s, "tokens", "tokens", s->tokens);
    if (cross) add_tokens(s, "source_tokens", "source tokens", s->source);
    if (cross)
        s->source_embeddings =
            make_embeddings(s, &scene->source_embeddings, &s->source, scene->source_width, true);
    s->embeddings = make_embeddings(s, &scene->embeddings, &s->tokens, scene->width, false);
    if (s->learned.failed) return QKV_INVALID;
    add_embeddings(s, false);
    if (cross) add_embeddings(s, true);
    struct qkv_tensor *x = make_inputs(s, s->embeddings, s->tokens, false), *memory = x;
    if (cross) memory = make_inputs(s, s->source_embeddings, s->source, true);
    make_mask(s);
    if (scene->weights.from == QKV_WEIGHTS_LEARNED) {
        if (qkv_learned_weights(&s->learned, s->walk, x, memory, &s->setup)) return QKV_INVALID;
        s->setup.score = scene->attention.score;
    } else {
        make_weights(s);
    }
    s->setup.query_words = s->query_words;
    s->setup.key_words = s->source;
    s->setup.x = followed_rows(s, x);
    s->setup.memory = memory;
    if (x && !scene->follow.count && s->setup.query_projection.weight.rows)
        s->setup.x_step = scene->positions.type == QKV_POSITION_NONE ? "embeddings" : "inputs";
    if (memory && s->setup.value_projection.weight.rows) s->setup.memory_step = memory_step(scene, cross);
    s->setup.x_name = "X";
    s->setup.memory_name = cross ? "M" : "X";
    add_sum(s, qkv_walk_attention(s->walk, &s->setup));
    return QKV_OK;
}

static struct qkv_texts followed_words(const struct qkv_scene *scene, struct walk *walk)
{
    const char **names = qkv_walk_memory(walk, scene->query_count, sizeof *names);
    for (int64_t i = 0; names && i < scene->query_count; i++)
        names[i] = scene->tokens.text[scene->query_rows[i]];
    return (struct qkv_texts){scene->query_count, names};
}

enum qkv_status qkv_walk_scene(enum qkv_dtype dtype, const struct qkv_scene *scene, struct qkv_arena *arena,
                               struct qkv_explanation *explanation, struct qkv_error *error)
{
    struct walk *walk = qkv_walk_new(dtype, arena, error);
    const struct qkv_texts *source = scene->source.count ? &scene->source : &scene->tokens;
    struct scene_walk s = {
        .scene = scene,
        .walk = walk,
        .stream = qkv_random_stream(scene),
        .tokens = {scene->tokens.count, scene->tokens.text},
        .source = {source->count, source->text},
        .error = error,
    };
    if (!walk) return QKV_INVALID;
    s.query_words = followed_words(scene, walk);
    *explanation = (struct qkv_explanation){
        .title = scene->name,
        .about = scene->about,
        .kind = scene->source.count ? QKV_ATTENTION_CROSS : QKV_ATTENTION_ENCODER,
        .first_head = 1,
    };
    enum qkv_status status = qkv_learned_open(&s.learned, scene, arena, error);
    if (!status) status = walk_scene(&s);
    if (!status) status = qkv_walk_finish(walk, explanation, error);
    explanation->heads = explanation->layer_heads = s.setup.rule.heads;
    if (s.learned.run.model) explanation->model = qkv_arena_string(arena, s.learned.run.config.name);
    qkv_learned_close(&s.learned);
    qkv_walk_free(walk);
    return status;
}

enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error)
{
    return qkv_walk_scene(QKV_FLOAT64, scene, arena, explanation, error);
}
