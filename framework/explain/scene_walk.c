/* The walk through a scene: its vectors and matrices, given, drawn or taken from a run. */
#include "explain/draw.h"
#include "explain/learned.h"
#include "explain/walk.h"

#include "qkv/layers.h"

#include <math.h>
#include <string.h>

struct setting {
    const struct qkv_scene *scene;
    struct walk *walk;
    struct drawing drawing;
    struct learned learned; /* opened only where something is learned */
    struct words tokens, source, query_words;
    struct qkv_matrix embeddings, source_embeddings; /* no rows: none */
    struct attention_parts parts;
    struct qkv_error *error;
};

/* ---- numbers ---- */

static struct qkv_matrix drawn(struct setting *s, enum qkv_draw kind, int64_t below, int64_t rows,
                               int64_t columns)
{
    double *values = qkv_walk_memory(s->walk, rows * columns, sizeof *values);
    if (values) qkv_draw_numbers(&s->drawing, kind, below, rows + columns, rows * columns, values);
    return (struct qkv_matrix){values ? rows : 0, values ? columns : 0, values};
}

/* [rows, heads * columns], drawn head by head. */
static struct qkv_matrix drawn_heads(struct setting *s, enum qkv_draw kind, int64_t below, int64_t heads,
                                     int64_t rows, int64_t columns)
{
    struct qkv_matrix apart = drawn(s, kind, below, heads * rows, columns);
    double *beside = qkv_walk_memory(s->walk, heads * rows * columns, sizeof *beside);
    for (int64_t i = 0; beside && apart.value && i < heads * rows * columns; i++) {
        int64_t head = i / (rows * columns), row = i / columns % rows;
        beside[row * heads * columns + head * columns + i % columns] = apart.value[i];
    }
    return (struct qkv_matrix){beside ? rows : 0, heads * columns, beside};
}

static int64_t first_of(const struct words *words, int64_t at)
{
    int64_t first = 0;
    while (strcmp(words->text[first], words->text[at]) != 0) first++;
    return first;
}

/* One row for each distinct word, in the order in which they come first. */
static struct qkv_matrix drawn_words(struct setting *s, const struct qkv_vectors_config *config,
                                     const struct words *words)
{
    int64_t width = config->width;
    double *values = qkv_walk_memory(s->walk, words->count * width, sizeof *values);
    for (int64_t i = 0; values && i < words->count; i++) {
        int64_t first = first_of(words, i);
        if (first < i)
            memcpy(values + i * width, values + first * width, (size_t)width * sizeof *values);
        else
            qkv_draw_numbers(&s->drawing, config->draw, config->below, words->count + width, width,
                             values + i * width);
    }
    return (struct qkv_matrix){values ? words->count : 0, width, values};
}

/* a is 1, b is 2, ...; capitals count as small letters, other signs as 0. */
static struct qkv_matrix spelled(struct setting *s, const struct words *words, int64_t width)
{
    double *values = qkv_walk_memory(s->walk, words->count * width, sizeof *values);
    for (int64_t i = 0; values && i < words->count; i++)
        for (int64_t j = 0; words->text[i][j]; j++) {
            int letter = words->text[i][j] | 0x20;
            values[i * width + j] = letter >= 'a' && letter <= 'z' ? letter - 'a' + 1 : 0;
        }
    return (struct qkv_matrix){values ? words->count : 0, width, values};
}

static struct qkv_matrix make_embeddings(struct setting *s, const struct qkv_vectors_config *config,
                                         const struct words *words, int64_t width, bool source)
{
    switch (config->from) {
    case QKV_VECTORS_RANDOM:
        return drawn_words(s, config, words);
    case QKV_VECTORS_LETTERS:
        return spelled(s, words, width);
    case QKV_VECTORS_LEARNED:
        return qkv_learned_embeddings(&s->learned, s->walk, words, source);
    default:
        return config->values;
    }
}

/* Queries, keys or values that are not projected. */
static struct qkv_tensor *make_direct(struct setting *s, const struct qkv_vectors_config *config,
                                      int64_t words)
{
    struct qkv_matrix matrix = config->values;
    if (config->from == QKV_VECTORS_RANDOM)
        matrix = drawn(s, config->draw, config->below, words, config->width);
    return qkv_walk_constant(s->walk, matrix);
}

/* ---- the front: words to inputs ---- */

static void add_tokens(struct setting *s, const char *name, const char *title, struct words words)
{
    static const char *const ROW[] = {"word"};
    double *numbers = qkv_walk_memory(s->walk, words.count, sizeof *numbers);
    for (int64_t i = 0; numbers && i < words.count; i++) numbers[i] = (double)(i + 1);
    struct qkv_step *step = qkv_walk_add_step(s->walk, name, title, "", (struct words){1, ROW}, words);
    step->values = numbers;
    step->content = QKV_STEP_TOKENS;
}

/* Sinusoids for `rows` positions. */
static struct qkv_matrix position_table(struct setting *s, int64_t rows, int64_t width)
{
    double *table = qkv_walk_memory(s->walk, rows * width, sizeof *table);
    for (int64_t i = 0; table && i < rows * width; i++)
        table[i] = qkv_sinusoid(i / width, i % width, width, s->scene->positions.base);
    return (struct qkv_matrix){table ? rows : 0, width, table};
}

/* Embeddings with positions, [N, D]; NULL where there are none. */
static struct qkv_tensor *make_inputs(struct setting *s, struct qkv_matrix embeddings, struct words words,
                                      bool source)
{
    struct walk *walk = s->walk;
    const char *letter = source ? "M" : "X";
    if (!embeddings.rows) return NULL;
    struct qkv_tensor *x = qkv_walk_constant(walk, embeddings);
    if (s->scene->positions.type == QKV_POSITION_NONE) return x;
    int64_t rows = s->scene->positions.rows > words.count ? s->scene->positions.rows : words.count;
    struct qkv_matrix table = position_table(s, rows, embeddings.columns);
    if (!table.rows) return NULL;
    if (!source || embeddings.columns != s->embeddings.columns) {
        const char *formula = "P[p, 2i] = sin(p / base^(2i/D)), P[p, 2i+1] = cos of the same";
        qkv_walk_add_matrix(walk, source ? "source_positions" : "positions", "position encoding", formula,
                            table, 0, qkv_walk_counted(walk, table.rows));
        if (embeddings.columns % 2)
            walk->step[walk->count - 1].note =
                "The width is odd: the last column has no partner and stays 0.";
    }
    x = qkv_add_positions(walk->graph, x, qkv_walk_constant(walk, table), (struct qkv_segments){0}, 0);
    qkv_walk_add_tensor(walk, source ? "source_inputs" : "inputs", source ? "source inputs" : "inputs",
                        qkv_walk_text(walk, "%s = %s + P", letter, source ? "E_source" : "E"), x, 0, false,
                        words, (struct words){embeddings.columns, NULL});
    return x;
}

static const char *origin_of(const struct qkv_vectors_config *config)
{
    return config->from == QKV_VECTORS_RANDOM    ? "random"
           : config->from == QKV_VECTORS_LEARNED ? "learned"
           : config->from == QKV_VECTORS_LETTERS ? "letters"
                                                 : "given";
}

static void add_embeddings(struct setting *s, bool source)
{
    const struct qkv_vectors_config *config = source ? &s->scene->source_embeddings : &s->scene->embeddings;
    struct qkv_matrix matrix = source ? s->source_embeddings : s->embeddings;
    bool plain = s->scene->positions.type == QKV_POSITION_NONE;
    const char *letter = source ? plain ? "M" : "E_source" : plain ? "X" : "E";
    if (!matrix.rows) return;
    qkv_walk_add_matrix(s->walk, source ? "source_embeddings" : "embeddings",
                        source ? "source embeddings" : "embeddings",
                        qkv_walk_text(s->walk, "%s, %s", letter, origin_of(config)), matrix, 0,
                        source ? s->source : s->tokens);
}

/* Only the words to follow ask. */
static struct qkv_tensor *followed_rows(struct setting *s, struct qkv_tensor *x)
{
    const struct qkv_scene *scene = s->scene;
    if (!x || !scene->follow.count) return x;
    return qkv_gather_rows(s->walk->graph, x, scene->query_rows, scene->query_count);
}

/* ---- the weights ---- */

static struct projection projection_of(struct setting *s, struct qkv_matrix given, int64_t inputs,
                                       int64_t width)
{
    const struct qkv_scene *scene = s->scene;
    struct projection projection = {.weight = given};
    if (scene->weights.from == QKV_WEIGHTS_RANDOM)
        projection.weight =
            drawn_heads(s, scene->weights.draw, scene->weights.below, scene->attention.heads, inputs, width);
    return projection;
}

static void add_bias(struct setting *s, struct projection *projection)
{
    const struct qkv_scene *scene = s->scene;
    int64_t columns = projection->weight.columns;
    if (scene->weights.bias == QKV_BIAS_NONE || !projection->weight.rows) return;
    projection->bias = (struct qkv_matrix){1, columns, qkv_walk_memory(s->walk, columns, sizeof(double))};
    if (scene->weights.bias == QKV_BIAS_RANDOM)
        projection->bias = drawn(s, scene->weights.draw, scene->weights.below, 1, columns);
}

static void make_score_weights(struct setting *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_parts *parts = &s->parts;
    int64_t heads = parts->heads, width = parts->key_width, hidden = scene->attention.hidden_width;
    enum qkv_draw kind = scene->weights.draw;
    bool random = scene->weights.from == QKV_WEIGHTS_RANDOM;
    parts->score = scene->attention.score;
    parts->hidden_width = hidden;
    parts->general = scene->weights.score;
    parts->additive_query = scene->weights.score_query;
    parts->additive_key = scene->weights.score_key;
    parts->additive_vector = scene->weights.score_vector;
    if (random && parts->score == QKV_SCORE_GENERAL)
        parts->general = drawn(s, kind, scene->weights.below, heads * width, width);
    if (random && parts->score == QKV_SCORE_ADDITIVE) {
        parts->additive_query = drawn(s, kind, scene->weights.below, heads * width, hidden);
        parts->additive_key = drawn(s, kind, scene->weights.below, heads * width, hidden);
        parts->additive_vector = drawn(s, kind, scene->weights.below, heads, hidden);
    }
    if (parts->score != QKV_SCORE_LENGTH) return;
    double *lengths = qkv_walk_memory(s->walk, s->query_words.count * s->source.count, sizeof *lengths);
    for (int64_t i = 0; lengths && i < s->query_words.count * s->source.count; i++)
        lengths[i] = log((double)strlen(s->source.text[i % s->source.count]));
    parts->lengths = (struct qkv_matrix){s->query_words.count, s->source.count, lengths};
}

static void make_weights(struct setting *s)
{
    const struct qkv_scene *scene = s->scene;
    struct attention_parts *parts = &s->parts;
    int64_t key = scene->attention.key_width, value = scene->attention.value_width;
    bool compares = scene->attention.score != QKV_SCORE_LENGTH;
    parts->heads = scene->attention.heads;
    parts->key_width = key;
    parts->value_width = value;
    if (scene->queries.from != QKV_VECTORS_PROJECTED)
        parts->query = followed_rows(s, make_direct(s, &scene->queries, s->tokens.count));
    else if (compares)
        parts->query_weight = projection_of(s, scene->weights.query, scene->width, key);
    if (scene->keys.from != QKV_VECTORS_PROJECTED)
        parts->key = make_direct(s, &scene->keys, s->source.count);
    else if (compares)
        parts->key_weight = projection_of(s, scene->weights.key, scene->source_width, key);
    if (scene->values.from != QKV_VECTORS_PROJECTED)
        parts->value = make_direct(s, &scene->values, s->source.count);
    else
        parts->value_weight = projection_of(s, scene->weights.value, scene->source_width, value);
    make_score_weights(s);
    parts->output_weight.weight = scene->weights.output;
    if (scene->weights.from == QKV_WEIGHTS_RANDOM && scene->attention.output)
        parts->output_weight.weight =
            drawn(s, scene->weights.draw, scene->weights.below, parts->heads * value,
                  scene->width ? scene->width : parts->heads * value);
    add_bias(s, &parts->query_weight);
    add_bias(s, &parts->key_weight);
    add_bias(s, &parts->value_weight);
    add_bias(s, &parts->output_weight);
}

/* ---- the mask ---- */

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

static void make_mask(struct setting *s)
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
    if (added) s->parts.added = addends;
    if (hides || scene->mask.type == QKV_MASK_BOOLEAN || scene->mask.type == QKV_MASK_CAUSAL ||
        scene->mask.type == QKV_MASK_PADDING)
        s->parts.visible = visible;
    if (added)
        s->parts.mask_note =
            "A number like -1e9 hides a word only beside words that it does not hide: a row of nothing "
            "but -1e9 gets its weights back, for the softmax does not see a constant. -.inf hides for "
            "good.";
}

/* ---- the sum ---- */

/* The first components of sum_j a_j v_j, where a word that stands there twice may count once. */
static void add_sum(struct setting *s, struct attention_result result)
{
    const struct qkv_scene *scene = s->scene;
    static const char *const COLUMN[] = {"sum"};
    struct qkv_graph *graph = s->walk->graph;
    int64_t keys = s->source.count, queries = s->query_words.count, count = queries * keys * s->parts.heads;
    if (!scene->sum.components) return;
    double *counts = qkv_walk_memory(s->walk, count, sizeof *counts);
    struct qkv_tensor *counting = qkv_constant(graph, QKV_SHAPE(count));
    if (!counts || !counting) return;
    for (int64_t i = 0; i < count; i++)
        counts[i] = !scene->sum.distinct || first_of(&s->source, i % keys) == i % keys;
    qkv_tensor_write(counting, counts);
    struct qkv_tensor *mixed = qkv_attention_mix(graph, qkv_multiply(graph, result.weights, counting),
                                                 result.value, result.layout); /* [Nq, H V] */
    struct qkv_tensor *sum = qkv_sum(graph, qkv_slice(graph, mixed, 1, 0, scene->sum.components), 1);
    qkv_walk_add_tensor(s->walk, "sum", "sum",
                        qkv_walk_text(s->walk, "first %lld of %lld components%s",
                                      (long long)scene->sum.components,
                                      (long long)(s->parts.heads * s->parts.value_width),
                                      scene->sum.distinct ? ", each distinct word once" : ""),
                        sum, 0, false, s->query_words, (struct words){1, COLUMN});
}

/* ---- all of it ---- */

static enum qkv_status walk_scene(struct setting *s)
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
        if (qkv_learned_weights(&s->learned, s->walk, x, memory, &s->parts)) return QKV_INVALID;
        s->parts.score = scene->attention.score;
    } else {
        make_weights(s);
    }
    s->parts.query_words = s->query_words;
    s->parts.key_words = s->source;
    s->parts.x = followed_rows(s, x);
    s->parts.memory = memory;
    s->parts.x_name = "X";
    s->parts.memory_name = cross ? "M" : "X";
    add_sum(s, qkv_walk_attention(s->walk, &s->parts));
    return QKV_OK;
}

static struct words followed_words(const struct qkv_scene *scene, struct walk *walk)
{
    const char **names = qkv_walk_memory(walk, scene->query_count, sizeof *names);
    for (int64_t i = 0; names && i < scene->query_count; i++)
        names[i] = scene->tokens.text[scene->query_rows[i]];
    return (struct words){scene->query_count, names};
}

enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error)
{
    struct walk *walk = qkv_walk_new(arena, error);
    const struct qkv_texts *source = scene->source.count ? &scene->source : &scene->tokens;
    struct setting s = {
        .scene = scene,
        .walk = walk,
        .drawing = qkv_drawing_of(scene),
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
    explanation->heads = explanation->layer_heads = s.parts.heads;
    if (s.learned.run.model) explanation->model = qkv_arena_string(arena, s.learned.run.config.name);
    qkv_learned_close(&s.learned);
    qkv_walk_free(walk);
    return status;
}
