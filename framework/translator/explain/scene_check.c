/* Checks the rules between the keys of a scene: counts, widths and shapes, as far as they are known
 * without a run. */
#include "explain/scene_check.h"
#include "explain/walk.h"

#include "data/unicode.h"
#include "explain/scene_keys.h"

#include <math.h>
#include <string.h>

/* ---- reporting ---- */

/* Reports an error at the place of a key or, if the key was not given, at the place of `tokens`, which is always given. */
#define report_at(check, path, ...) qkv_key_report(&(check)->keys, path, "tokens", __VA_ARGS__)

static bool is_given(const struct scene_check *check, const char *path)
{
    return qkv_key_source_of(&check->keys, path)->given;
}

/* "section.key" in the arena. When memory runs out, "name", which is at least the path of a key. */
static const char *path_of(const struct scene_check *check, const char *section, const char *key)
{
    const char *path = qkv_arena_format(check->keys.collector->arena, "%s.%s", section, key);
    return path ? path : "name";
}

/* Requires a shape; 0 rows or columns: any number. why: the explanation of the shape in the message. */
static bool require_shape(const struct scene_check *check, const char *path, const struct qkv_matrix *matrix,
                          int64_t rows, int64_t columns, const char *why)
{
    if ((!rows || matrix->rows == rows) && (!columns || matrix->columns == columns)) return true;
    char wanted[64];
    if (rows && columns)
        snprintf(wanted, sizeof wanted, "[%lld, %lld]", (long long)rows, (long long)columns);
    else if (rows)
        snprintf(wanted, sizeof wanted, "%lld rows", (long long)rows);
    else
        snprintf(wanted, sizeof wanted, "%lld columns", (long long)columns);
    report_at(check, path, "%s is [%lld, %lld], but must be %s: %s", path, (long long)matrix->rows,
              (long long)matrix->columns, wanted, why);
    return false;
}

/* ---- words ---- */

static int64_t source_count(const struct qkv_scene *scene)
{
    return scene->source.count ? scene->source.count : scene->tokens.count;
}

/* Sets scene->query_rows: the tokens to follow, or all. */
static void find_query_rows(const struct scene_check *check)
{
    struct qkv_scene *scene = check->scene;
    int64_t capacity = scene->tokens.count * (scene->follow.count + 1);
    int32_t *rows = qkv_arena_allocate(check->keys.collector->arena, (size_t)capacity * sizeof *rows);
    if (!rows) {
        qkv_collect_no_memory(check->keys.collector, check->file);
        return;
    }
    for (int64_t i = 0; !scene->follow.count && i < scene->tokens.count; i++)
        rows[scene->query_count++] = (int32_t)i;
    for (int64_t i = 0; i < scene->follow.count; i++) {
        int64_t found = qkv_walk_find_rows(scene->tokens, scene->follow.text[i], rows + scene->query_count);
        if (!found)
            report_at(check, "follow",
                      "follow is '%s', but must be one of the tokens, or a number from 1 to %lld",
                      qkv_printable(check->keys.collector->arena, scene->follow.text[i]),
                      (long long)scene->tokens.count);
        scene->query_count += found;
    }
    scene->query_rows = rows;
}

/* ---- vectors ---- */

/* Refuses values that are given but not used. */
static void check_used(const struct scene_check *check, const char *section,
                       const struct qkv_vectors_config *vectors)
{
    const char *values = path_of(check, section, "values"), *from = path_of(check, section, "from");
    if (vectors->values.rows && vectors->from != QKV_VECTORS_GIVEN)
        report_at(check, values, "%s is given but not used: set %s to given", values, from);
}

/* Only the mask may contain -infinity. */
static void check_finite(const struct scene_check *check)
{
    for (int i = 0; i < qkv_scene_schema.count; i++) {
        const struct qkv_key *key = &qkv_scene_schema.keys[i];
        if (key->kind != QKV_KEY_MATRIX) continue;
        const struct qkv_matrix *matrix = qkv_key_value(key, check->scene);
        if (matrix == &check->scene->mask.values) continue;
        for (int64_t c = 0; c < matrix->rows * matrix->columns; c++)
            if (isinf(matrix->value[c]))
                report_at(check, key->path, "%s contains -.inf, which only mask.values may contain",
                          key->path);
    }
}

static int64_t longest_word(const struct qkv_texts *words)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < words->count; i++) {
        int64_t letters = qkv_utf8_count(words->text[i]);
        if (letters > longest) longest = letters;
    }
    return longest;
}

/* Whether queries, keys or values are projected from inputs, and not made directly. */
static bool is_projected(const struct qkv_vectors_config *vectors)
{
    return vectors->from == QKV_VECTORS_PROJECTED;
}

/* Checks the embeddings of one side and returns their width; 0: not known. */
static int64_t check_embeddings(const struct scene_check *check, const char *section,
                                const struct qkv_vectors_config *vectors, const struct qkv_texts *words,
                                bool needed)
{
    const char *values = path_of(check, section, "values"), *from = path_of(check, section, "from"),
               *width = path_of(check, section, "width");
    switch (vectors->from) {
    case QKV_VECTORS_GIVEN:
        if (!vectors->values.rows && needed)
            report_at(check, is_given(check, values) ? values : from,
                      "%s is missing: give a row for each word, or set %s to random", values, from);
        if (vectors->values.rows)
            require_shape(check, values, &vectors->values, words->count, 0, "a row for each word");
        return vectors->values.columns;
    case QKV_VECTORS_RANDOM:
        if (!vectors->width)
            report_at(check, is_given(check, width) ? width : from,
                      "%s must be given when vectors are random", width);
        return vectors->width;
    case QKV_VECTORS_LETTERS:
        return longest_word(words);
    case QKV_VECTORS_LEARNED:
        return 0;
    case QKV_VECTORS_PROJECTED:
        report_at(check, from, "%s is projected, but only queries, keys and values can be projected", from);
        return 0;
    }
    return 0;
}

/* Checks queries, keys or values that are not projected; returns the width of one head, 0: not
 * known. */
static int64_t check_direct(const struct scene_check *check, const char *section,
                            struct qkv_vectors_config *vectors, int64_t words, int64_t width)
{
    const char *values = path_of(check, section, "values"), *from = path_of(check, section, "from");
    int64_t heads = check->scene->attention.heads;
    if (vectors->from == QKV_VECTORS_LETTERS || vectors->from == QKV_VECTORS_LEARNED) {
        report_at(check, from,
                  "%s must be projected, given or random; letters and learned are for embeddings", from);
        return 0;
    }
    if (vectors->from == QKV_VECTORS_RANDOM) {
        if (!vectors->width) vectors->width = heads * width;
        const char *path = path_of(check, section, "width");
        if (!vectors->width)
            report_at(check, from, "%s must be given when vectors are random", path);
        else if (vectors->width % heads)
            report_at(check, is_given(check, path) ? path : from,
                      "%s is %lld, but must be a multiple of %lld heads", path, (long long)vectors->width,
                      (long long)heads);
        return vectors->width / heads;
    }
    if (!vectors->values.rows) {
        report_at(check, from, "%s is missing: give a row for each word", values);
        return 0;
    }
    if (vectors->values.columns % heads)
        report_at(check, values, "%s has %lld columns, but must have a multiple of %lld heads", values,
                  (long long)vectors->values.columns, (long long)heads);
    require_shape(check, values, &vectors->values, words, 0, "a row for each word");
    return vectors->values.columns / heads;
}

/* ---- weights ---- */

/* The width of one head of a projection from vectors of width `inputs`; 0: not known. `wanted`:
 * value of `key`, 0 if the file leaves it out; `weight` and `matrix`: name and value of the
 * projection matrix. */
static int64_t head_width(const struct scene_check *check, const char *key, int64_t wanted, int64_t inputs,
                          const char *weight, const struct qkv_matrix *matrix)
{
    const struct qkv_scene *scene = check->scene;
    int64_t heads = scene->attention.heads;
    if (scene->weights.from == QKV_WEIGHTS_LEARNED) return 0;
    bool has_weights = scene->weights.from == QKV_WEIGHTS_GIVEN;
    int64_t columns = has_weights ? matrix->columns : inputs;
    if (has_weights && !matrix->rows) {
        report_at(check, "weights.from", "weights.from is given, so %s must be given", weight);
        return wanted;
    }
    if (has_weights && inputs) {
        char why[64];
        snprintf(why, sizeof why, "the vectors are %lld wide", (long long)inputs);
        require_shape(check, weight, matrix, inputs, 0, why);
    }
    bool must_fit = has_weights || scene->weights.from == QKV_WEIGHTS_NONE;
    if (wanted && (!must_fit || !columns || columns == heads * wanted)) return wanted;
    if (wanted) {
        report_at(check, key, "%s is %lld, but %lld heads share %lld columns", key, (long long)wanted,
                  (long long)heads, (long long)columns);
        return 0;
    }
    if (columns % heads)
        report_at(check, "attention.heads", "attention.heads is %lld, but must divide %lld, %s",
                  (long long)heads, (long long)columns,
                  has_weights ? "the columns of the matrices" : "the width of the vectors");
    return columns / heads;
}

static void check_score_matrix(const struct scene_check *check, const char *path,
                               const struct qkv_matrix *matrix, bool used, int64_t rows, int64_t columns,
                               const char *why)
{
    bool has_weights = check->scene->weights.from == QKV_WEIGHTS_GIVEN;
    if (!used || !has_weights) {
        if (matrix->rows)
            report_at(check, path, "%s is given, but not used: see attention.score and weights.from", path);
    } else if (!matrix->rows)
        report_at(check, "weights.from", "weights.from is given, so %s must be given", path);
    else
        require_shape(check, path, matrix, rows, columns, why);
}

static void check_scores(const struct scene_check *check)
{
    struct qkv_scene *scene = check->scene;
    int64_t heads = scene->attention.heads, width = scene->attention.key_width;
    bool general = scene->attention.score == QKV_SCENE_SCORE_GENERAL,
         additive = scene->attention.score == QKV_SCENE_SCORE_ADDITIVE;
    if (!scene->attention.hidden_width)
        scene->attention.hidden_width =
            scene->weights.score_query.columns ? scene->weights.score_query.columns : width;
    int64_t hidden = scene->attention.hidden_width;
    check_score_matrix(check, "weights.score", &scene->weights.score, general, heads * width, width,
                       "one [K, K] matrix a head, below each other");
    check_score_matrix(check, "weights.score_query", &scene->weights.score_query, additive, heads * width,
                       hidden, "one [K, A] matrix a head, below each other");
    check_score_matrix(check, "weights.score_key", &scene->weights.score_key, additive, heads * width, hidden,
                       "one [K, A] matrix a head, below each other");
    check_score_matrix(check, "weights.score_vector", &scene->weights.score_vector, additive, heads, hidden,
                       "one row a head");
    if ((general || additive) && scene->weights.from == QKV_WEIGHTS_LEARNED)
        report_at(check, "attention.score", "attention.score needs weights that a run does not have");
    if ((general || additive) && scene->weights.from == QKV_WEIGHTS_NONE)
        report_at(check, "weights.from", "weights.from is none, but attention.score needs weights");
}

/* Refuses weights.query and so on unless weights.from is `given`, and attention.output unless it is
 * `random`. */
static void check_given(const struct scene_check *check)
{
    const struct qkv_scene *scene = check->scene;
    static const char *const paths[] = {"weights.query", "weights.key", "weights.value", "weights.output"};
    bool used = scene->weights.from == QKV_WEIGHTS_GIVEN;
    for (int i = 0; i < 4; i++) {
        const struct qkv_key *key = qkv_schema_find(&qkv_scene_schema, paths[i]);
        const struct qkv_matrix *matrix = qkv_key_value(key, scene);
        if (matrix->rows && !used)
            report_at(check, paths[i], "%s is given but not used: set weights.from to given", paths[i]);
    }
    if (scene->attention.output && scene->weights.from != QKV_WEIGHTS_RANDOM)
        report_at(check, "attention.output",
                  "attention.output needs random weights: give weights.output instead");
}

static void check_weights(const struct scene_check *check)
{
    struct qkv_scene *scene = check->scene;
    bool length = scene->attention.score == QKV_SCENE_SCORE_LENGTH;
    int64_t query = 0, key = 0, value = 0;
    if (!length) {
        query = is_projected(&scene->queries)
                    ? head_width(check, "attention.key_width", scene->attention.key_width, scene->width,
                                 "weights.query", &scene->weights.query)
                    : check_direct(check, "queries", &scene->queries, scene->tokens.count,
                                   scene->attention.key_width);
        bool random = scene->weights.from == QKV_WEIGHTS_RANDOM;
        int64_t wanted = random && query ? query : scene->attention.key_width;
        key = is_projected(&scene->keys) ? head_width(check, "attention.key_width", wanted,
                                                      scene->source_width, "weights.key", &scene->weights.key)
                                         : check_direct(check, "keys", &scene->keys, source_count(scene),
                                                        scene->attention.key_width);
    }
    value = is_projected(&scene->values)
                ? head_width(check, "attention.value_width", scene->attention.value_width,
                             scene->source_width, "weights.value", &scene->weights.value)
                : check_direct(check, "values", &scene->values, source_count(scene),
                               scene->attention.value_width);
    const char *place = is_given(check, "keys.values")   ? "keys.values"
                        : is_given(check, "weights.key") ? "weights.key"
                                                         : "weights.from";
    if (query && key && query != key)
        report_at(check, place,
                  "keys are %lld wide, but queries are %lld wide: their product needs the same width",
                  (long long)key, (long long)query);
    if (scene->weights.from != QKV_WEIGHTS_LEARNED) {
        scene->attention.key_width = query ? query : key;
        scene->attention.value_width = value;
    }
    if (scene->weights.output.rows && value)
        require_shape(check, "weights.output", &scene->weights.output, scene->attention.heads * value, 0,
                      "a row for each component of the joined heads");
    check_scores(check);
}

/* ---- the rest ---- */

static void check_run(const struct scene_check *check)
{
    const struct qkv_scene *scene = check->scene;
    bool words =
        scene->embeddings.from == QKV_VECTORS_LEARNED || scene->source_embeddings.from == QKV_VECTORS_LEARNED;
    bool weights = scene->weights.from == QKV_WEIGHTS_LEARNED;
    if ((words || weights) && !*scene->run.path)
        report_at(check, words ? "embeddings.from" : "weights.from",
                  "learned vectors and weights come from a run: set run.path to its folder");
    if (weights && is_given(check, "attention.heads"))
        report_at(check, "attention.heads",
                  "attention.heads is given, but the number of heads comes from the run");
}

static void check_mask(const struct scene_check *check)
{
    const struct qkv_scene *scene = check->scene;
    bool matrix = scene->mask.type == QKV_MASK_BOOLEAN || scene->mask.type == QKV_MASK_ADDED;
    const struct qkv_matrix *values = &scene->mask.values;
    if (matrix && !values->rows)
        report_at(check, "mask.type", "mask.values is missing, but mask.type needs it");
    else if (values->rows && !matrix)
        report_at(check, "mask.values", "mask.values is given, but mask.type is neither boolean nor added");
    else if (matrix)
        require_shape(check, "mask.values", values, scene->tokens.count, source_count(scene),
                      "a row for each token, a column for each source word");
    for (int64_t i = 0; scene->mask.type == QKV_MASK_BOOLEAN && i < values->rows * values->columns; i++) {
        double value = values->value[i];
        if (value > 0 && value < 1 + 1e-9 && value > 1 - 1e-9) continue;
        if (!(value < 0) && !(value > 0)) continue;
        report_at(check, "mask.values", "mask.values contains %g, but a boolean mask consists of 0 and 1",
                  value);
        break;
    }
    if (scene->mask.type == QKV_MASK_CAUSAL && scene->source.count)
        report_at(check, "mask.type",
                  "mask.type is causal, which is for self-attention, but there is a source");
}

void qkv_scene_check(const struct scene_check *check)
{
    struct qkv_scene *scene = check->scene;
    bool cross = scene->source.count, length = scene->attention.score == QKV_SCENE_SCORE_LENGTH;
    bool needs_queries = is_projected(&scene->queries) && !length,
         needs_keys = is_projected(&scene->keys) && !length;
    bool needs_values = is_projected(&scene->values);
    find_query_rows(check);
    scene->width = check_embeddings(check, "embeddings", &scene->embeddings, &scene->tokens,
                                    needs_queries || (!cross && (needs_keys || needs_values)));
    scene->source_width = scene->width;
    if (cross)
        scene->source_width = check_embeddings(check, "source_embeddings", &scene->source_embeddings,
                                               &scene->source, needs_keys || needs_values);
    else if (is_given(check, "source_embeddings.values") || is_given(check, "source_embeddings.from"))
        report_at(check,
                  is_given(check, "source_embeddings.from") ? "source_embeddings.from"
                                                            : "source_embeddings.values",
                  "source_embeddings is given, but there is no source");
    enum qkv_position_kind positions = scene->positions.type;
    if (positions != QKV_POSITION_SINUSOIDAL && positions != QKV_POSITION_NONE)
        report_at(check, "positions.type", "positions.type is %s, but must be sinusoidal or none in a scene",
                  qkv_position_kind_name(positions));
    check_used(check, "embeddings", &scene->embeddings);
    check_used(check, "source_embeddings", &scene->source_embeddings);
    check_used(check, "queries", &scene->queries);
    check_used(check, "keys", &scene->keys);
    check_used(check, "values", &scene->values);
    check_finite(check);
    check_run(check);
    check_given(check);
    check_weights(check);
    check_mask(check);
    int64_t joined = scene->attention.heads * scene->attention.value_width;
    if (joined && scene->sum.components > joined)
        report_at(check, "sum.components", "sum.components is %lld, but the context has %lld",
                  (long long)scene->sum.components, (long long)joined);
}
