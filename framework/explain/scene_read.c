/* Reads a scene, and checks all that can be told of it without a run. */
#include "config/reader.h"
#include "explain/scene_keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct qkv_scene_places {
    const char *file;
    const struct qkv_key_source *sources;
};

/* ---- sentences ---- */

struct checking {
    struct qkv_scene *scene;
    const struct qkv_key_source *sources;
    struct qkv_collector *collector;
};

static const struct qkv_key_source *source_of(const struct checking *checking, const char *path)
{
    const struct qkv_key *key = qkv_schema_find(&qkv_scene_schema, path);
    QKV_BUG(!key, "there is no key %s", path);
    return &checking->sources[key - qkv_scene_schema.keys];
}

/* Whether a key was read, so that its value may be looked at. */
static bool sound(const struct checking *checking, const char *path)
{
    return !source_of(checking, path)->bad;
}

static bool given(const struct checking *checking, const char *path)
{
    return source_of(checking, path)->given;
}

/* Whether the sentence has been said of that place already. */
static bool said(const struct qkv_collector *collector, struct qkv_place place, const char *sentence)
{
    for (int i = 0; i < collector->count; i++)
        if (collector->finding[i].line == place.line && collector->finding[i].column == place.column &&
            strstr(collector->finding[i].text, sentence))
            return true;
    return false;
}

/* Collects a sentence at the place of a key, unless the key itself is bad; of one that was not given at the
 * place of the tokens, which always are. */
static void QKV_PRINTF(3, 4)
    object(const struct checking *checking, const char *path, const char *format, ...)
{
    struct qkv_error sentence;
    if (!sound(checking, path)) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence.message, sizeof sentence.message, format, arguments);
    va_end(arguments);
    struct qkv_place place = source_of(checking, given(checking, path) ? path : "tokens")->place;
    if (!said(checking->collector, place, sentence.message))
        qkv_collect(checking->collector, place, "%s", sentence.message);
}

static const char *join(const struct checking *checking, const char *section, const char *key)
{
    const char *path = qkv_arena_format(checking->collector->arena, "%s.%s", section, key);
    return path ? path : "name";
}

/* Whether a matrix has a shape; `why` says where the shape comes from. A size of 0 is not known. */
static bool check_shape(const struct checking *checking, const char *path, const struct qkv_matrix *matrix,
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
    object(checking, path, "%s is [%lld, %lld], but must be %s: %s", path, (long long)matrix->rows,
           (long long)matrix->columns, wanted, why);
    return false;
}

/* ---- words ---- */

static int64_t source_count(const struct qkv_scene *scene)
{
    return scene->source.count ? scene->source.count : scene->tokens.count;
}

/* Rows of the tokens that `word` means: those of that text, else the one of that number. */
static int64_t find_words(const struct qkv_scene *scene, const char *word, int32_t *rows)
{
    int64_t count = 0;
    for (int64_t i = 0; i < scene->tokens.count; i++)
        if (!strcmp(scene->tokens.text[i], word)) rows[count++] = (int32_t)i;
    char *end;
    long number = strtol(word, &end, 10);
    if (!count && end > word && !*end && number >= 1 && number <= scene->tokens.count)
        rows[count++] = (int32_t)(number - 1);
    return count;
}

static void find_query_rows(const struct checking *checking)
{
    struct qkv_scene *scene = checking->scene;
    int64_t room = scene->tokens.count * (scene->follow.count + 1);
    int32_t *rows = qkv_arena_allocate(checking->collector->arena, (size_t)room * sizeof *rows);
    if (!rows) {
        qkv_collect_no_memory(checking->collector, scene->places->file);
        return;
    }
    for (int64_t i = 0; !scene->follow.count && i < scene->tokens.count; i++)
        rows[scene->query_count++] = (int32_t)i;
    for (int64_t i = 0; i < scene->follow.count; i++) {
        int64_t found = find_words(scene, scene->follow.text[i], rows + scene->query_count);
        if (!found)
            object(checking, "follow",
                   "follow is '%s', but must be one of the tokens, or a number from 1 to %lld",
                   qkv_shown(checking->collector->arena, scene->follow.text[i]),
                   (long long)scene->tokens.count);
        scene->query_count += found;
    }
    scene->query_rows = rows;
}

/* ---- vectors ---- */

/* What is given must be used. */
static void check_used(const struct checking *checking, const char *section,
                       const struct qkv_vectors_config *vectors)
{
    const char *values = join(checking, section, "values"), *from = join(checking, section, "from");
    if (vectors->values.rows && vectors->from != QKV_VECTORS_GIVEN)
        object(checking, values, "%s is given, but %s is not: say %s: given", values, from, from);
}

/* Only masks may hide for good. */
static void check_finite(const struct checking *checking)
{
    for (int i = 0; i < qkv_scene_schema.count; i++) {
        const struct qkv_key *key = &qkv_scene_schema.keys[i];
        if (key->kind != QKV_KEY_MATRIX || !strcmp(key->path, "mask.values")) continue;
        const struct qkv_matrix *matrix = qkv_key_value(key, checking->scene);
        for (int64_t c = 0; c < matrix->rows * matrix->columns; c++)
            if (isinf(matrix->value[c]))
                object(checking, key->path, "%s holds -.inf, which is for mask.values", key->path);
    }
}

static int64_t longest_word(const struct qkv_texts *words)
{
    size_t longest = 0;
    for (int64_t i = 0; i < words->count; i++)
        if (strlen(words->text[i]) > longest) longest = strlen(words->text[i]);
    return (int64_t)longest;
}

/* Whether queries, keys or values are made from inputs. */
static bool is_projected(const struct qkv_vectors_config *vectors)
{
    return vectors->from == QKV_VECTORS_PROJECTED;
}

/* Embeddings of one side; gives their width, 0 where it is not known. */
static int64_t check_embeddings(const struct checking *checking, const char *section,
                                const struct qkv_vectors_config *vectors, const struct qkv_texts *words,
                                bool needed)
{
    const char *values = join(checking, section, "values"), *from = join(checking, section, "from"),
               *width = join(checking, section, "width");
    switch (vectors->from) {
    case QKV_VECTORS_GIVEN:
        if (!vectors->values.rows && needed)
            object(checking, given(checking, values) ? values : from,
                   "%s is missing: give a row for each word, or say %s: random", values, from);
        if (vectors->values.rows)
            check_shape(checking, values, &vectors->values, words->count, 0, "a row for each word");
        return vectors->values.columns;
    case QKV_VECTORS_RANDOM:
        if (!vectors->width)
            object(checking, given(checking, width) ? width : from,
                   "%s must be given where vectors are random", width);
        return vectors->width;
    case QKV_VECTORS_LETTERS:
        return longest_word(words);
    case QKV_VECTORS_LEARNED:
        return 0;
    case QKV_VECTORS_PROJECTED:
        object(checking, from, "%s is projected, but that is for queries, keys and values", from);
        return 0;
    }
    return 0;
}

/* Queries, keys or values that are not projected; gives the width of one head, 0 where it is not known. */
static int64_t check_direct(const struct checking *checking, const char *section,
                            struct qkv_vectors_config *vectors, int64_t words, int64_t width)
{
    const char *values = join(checking, section, "values"), *from = join(checking, section, "from");
    int64_t heads = checking->scene->attention.heads;
    if (vectors->from == QKV_VECTORS_LETTERS || vectors->from == QKV_VECTORS_LEARNED) {
        object(checking, from,
               "%s must be projected, given or random; letters and learned are for embeddings", from);
        return 0;
    }
    if (vectors->from == QKV_VECTORS_RANDOM) {
        if (!vectors->width) vectors->width = heads * width;
        const char *path = join(checking, section, "width");
        if (!vectors->width)
            object(checking, from, "%s must be given where vectors are random", path);
        else if (vectors->width % heads)
            object(checking, given(checking, path) ? path : from,
                   "%s is %lld, but must be a multiple of %lld heads", path, (long long)vectors->width,
                   (long long)heads);
        return vectors->width / heads;
    }
    if (!vectors->values.rows) {
        object(checking, from, "%s is missing: give a row for each word", values);
        return 0;
    }
    if (vectors->values.columns % heads)
        object(checking, values, "%s has %lld columns, but must have a multiple of %lld heads", values,
               (long long)vectors->values.columns, (long long)heads);
    check_shape(checking, values, &vectors->values, words, 0, "a row for each word");
    return vectors->values.columns / heads;
}

/* ---- weights ---- */

/* The width of a head of what comes of a projection of D inputs; 0 where it is not known. */
static int64_t head_width(const struct checking *checking, const char *key, int64_t wanted, int64_t inputs,
                          const char *weight, const struct qkv_matrix *matrix)
{
    const struct qkv_scene *scene = checking->scene;
    int64_t heads = scene->attention.heads;
    if (scene->weights.from == QKV_WEIGHTS_LEARNED) return 0;
    bool is_given = scene->weights.from == QKV_WEIGHTS_GIVEN;
    int64_t whole = is_given ? matrix->columns : inputs;
    if (is_given && !matrix->rows) {
        object(checking, "weights.from", "weights.from is given, so %s must be", weight);
        return wanted;
    }
    if (is_given && inputs) {
        char why[64];
        snprintf(why, sizeof why, "the vectors are %lld wide", (long long)inputs);
        check_shape(checking, weight, matrix, inputs, 0, why);
    }
    bool must_fit = is_given || scene->weights.from == QKV_WEIGHTS_NONE;
    if (wanted && (!must_fit || !whole || whole == heads * wanted)) return wanted;
    if (wanted) {
        object(checking, key, "%s is %lld, but %lld heads share %lld columns", key, (long long)wanted,
               (long long)heads, (long long)whole);
        return 0;
    }
    if (whole % heads)
        object(checking, "attention.heads", "attention.heads is %lld, but must divide %lld, %s",
               (long long)heads, (long long)whole,
               is_given ? "the columns of the matrices" : "the width of the vectors");
    return whole / heads;
}

static void check_score_matrix(const struct checking *checking, const char *path,
                               const struct qkv_matrix *matrix, bool used, int64_t rows, int64_t columns,
                               const char *why)
{
    bool is_given = checking->scene->weights.from == QKV_WEIGHTS_GIVEN;
    if (!used || !is_given) {
        if (matrix->rows)
            object(checking, path, "%s is given, but not used: see attention.score and weights.from", path);
    } else if (!matrix->rows)
        object(checking, "weights.from", "weights.from is given, so %s must be", path);
    else
        check_shape(checking, path, matrix, rows, columns, why);
}

static void check_scores(const struct checking *checking)
{
    struct qkv_scene *scene = checking->scene;
    int64_t heads = scene->attention.heads, width = scene->attention.key_width;
    bool general = scene->attention.score == QKV_SCORE_GENERAL,
         additive = scene->attention.score == QKV_SCORE_ADDITIVE;
    if (!scene->attention.hidden_width)
        scene->attention.hidden_width =
            scene->weights.score_query.columns ? scene->weights.score_query.columns : width;
    int64_t hidden = scene->attention.hidden_width;
    check_score_matrix(checking, "weights.score", &scene->weights.score, general, heads * width, width,
                       "one [K, K] matrix a head, below each other");
    check_score_matrix(checking, "weights.score_query", &scene->weights.score_query, additive, heads * width,
                       hidden, "one [K, A] matrix a head, below each other");
    check_score_matrix(checking, "weights.score_key", &scene->weights.score_key, additive, heads * width,
                       hidden, "one [K, A] matrix a head, below each other");
    check_score_matrix(checking, "weights.score_vector", &scene->weights.score_vector, additive, heads,
                       hidden, "one row a head");
    if ((general || additive) && scene->weights.from == QKV_WEIGHTS_LEARNED)
        object(checking, "attention.score", "attention.score needs weights of its own, which a run has not");
    if ((general || additive) && scene->weights.from == QKV_WEIGHTS_NONE)
        object(checking, "weights.from", "weights.from is none, but attention.score needs weights");
}

/* Matrices that are given must be used, and so must be what asks for drawn ones. */
static void check_given(const struct checking *checking)
{
    const struct qkv_scene *scene = checking->scene;
    static const char *const paths[] = {"weights.query", "weights.key", "weights.value", "weights.output"};
    bool may = scene->weights.from == QKV_WEIGHTS_GIVEN;
    for (int i = 0; i < 4; i++) {
        const struct qkv_key *key = qkv_schema_find(&qkv_scene_schema, paths[i]);
        const struct qkv_matrix *matrix = qkv_key_value(key, scene);
        if (matrix->rows && !may)
            object(checking, paths[i], "%s is given, but weights.from is not: say weights.from: given",
                   paths[i]);
    }
    if (scene->attention.output && scene->weights.from != QKV_WEIGHTS_RANDOM)
        object(checking, "attention.output",
               "attention.output is for random weights: give weights.output instead");
}

static void check_weights(const struct checking *checking)
{
    struct qkv_scene *scene = checking->scene;
    bool length = scene->attention.score == QKV_SCORE_LENGTH;
    int64_t query = 0, key = 0, value = 0;
    if (!length) {
        query = is_projected(&scene->queries)
                    ? head_width(checking, "attention.key_width", scene->attention.key_width, scene->width,
                                 "weights.query", &scene->weights.query)
                    : check_direct(checking, "queries", &scene->queries, scene->tokens.count,
                                   scene->attention.key_width);
        bool random = scene->weights.from == QKV_WEIGHTS_RANDOM;
        int64_t wanted = random && query ? query : scene->attention.key_width;
        key = is_projected(&scene->keys) ? head_width(checking, "attention.key_width", wanted,
                                                      scene->source_width, "weights.key", &scene->weights.key)
                                         : check_direct(checking, "keys", &scene->keys, source_count(scene),
                                                        scene->attention.key_width);
    }
    value = is_projected(&scene->values)
                ? head_width(checking, "attention.value_width", scene->attention.value_width,
                             scene->source_width, "weights.value", &scene->weights.value)
                : check_direct(checking, "values", &scene->values, source_count(scene),
                               scene->attention.value_width);
    const char *place = given(checking, "keys.values")   ? "keys.values"
                        : given(checking, "weights.key") ? "weights.key"
                                                         : "weights.from";
    if (query && key && query != key)
        object(checking, place,
               "keys are %lld wide, but queries are %lld wide: their product needs the same width",
               (long long)key, (long long)query);
    if (scene->weights.from != QKV_WEIGHTS_LEARNED) {
        scene->attention.key_width = query ? query : key;
        scene->attention.value_width = value;
    }
    if (scene->weights.output.rows && value)
        check_shape(checking, "weights.output", &scene->weights.output, scene->attention.heads * value, 0,
                    "a row for each component of the joined heads");
    check_scores(checking);
}

/* ---- the rest ---- */

static void check_run(const struct checking *checking)
{
    const struct qkv_scene *scene = checking->scene;
    bool words =
        scene->embeddings.from == QKV_VECTORS_LEARNED || scene->source_embeddings.from == QKV_VECTORS_LEARNED;
    bool weights = scene->weights.from == QKV_WEIGHTS_LEARNED;
    if ((words || weights) && !*scene->run.path)
        object(checking, words ? "embeddings.from" : "weights.from",
               "what is learned comes from a run: give its folder as run.path");
    if (weights && given(checking, "attention.heads"))
        object(checking, "attention.heads",
               "attention.heads is given, but the run says how many heads there are");
}

static void check_mask(const struct checking *checking)
{
    const struct qkv_scene *scene = checking->scene;
    bool matrix = scene->mask.type == QKV_MASK_BOOLEAN || scene->mask.type == QKV_MASK_ADDED;
    const struct qkv_matrix *values = &scene->mask.values;
    if (matrix && !values->rows)
        object(checking, "mask.type", "mask.values is missing, but mask.type needs it");
    else if (values->rows && !matrix)
        object(checking, "mask.values", "mask.values is given, but mask.type is neither boolean nor added");
    else if (matrix)
        check_shape(checking, "mask.values", values, scene->tokens.count, source_count(scene),
                    "a row for each token, a column for each source word");
    for (int64_t i = 0; scene->mask.type == QKV_MASK_BOOLEAN && i < values->rows * values->columns; i++) {
        double value = values->value[i];
        if (value > 0 && value < 1 + 1e-9 && value > 1 - 1e-9) continue;
        if (!(value < 0) && !(value > 0)) continue;
        object(checking, "mask.values", "mask.values holds %g, but a boolean mask is made of 0 and 1", value);
        break;
    }
    if (scene->mask.type == QKV_MASK_CAUSAL && scene->source.count)
        object(checking, "mask.type",
               "mask.type is causal, which is for self-attention, but there is a source");
}

static void check_scene(const struct checking *checking)
{
    struct qkv_scene *scene = checking->scene;
    bool cross = scene->source.count, length = scene->attention.score == QKV_SCORE_LENGTH;
    bool needs_queries = is_projected(&scene->queries) && !length,
         needs_keys = is_projected(&scene->keys) && !length;
    bool needs_values = is_projected(&scene->values);
    find_query_rows(checking);
    scene->width = check_embeddings(checking, "embeddings", &scene->embeddings, &scene->tokens,
                                    needs_queries || (!cross && (needs_keys || needs_values)));
    scene->source_width = scene->width;
    if (cross)
        scene->source_width = check_embeddings(checking, "source_embeddings", &scene->source_embeddings,
                                               &scene->source, needs_keys || needs_values);
    else if (given(checking, "source_embeddings.values") || given(checking, "source_embeddings.from"))
        object(checking,
               given(checking, "source_embeddings.from") ? "source_embeddings.from"
                                                         : "source_embeddings.values",
               "source_embeddings is given, but there is no source");
    enum qkv_position_kind positions = scene->positions.type;
    if (positions != QKV_POSITION_SINUSOIDAL && positions != QKV_POSITION_NONE)
        object(checking, "positions.type", "positions.type is %s, but a scene has sinusoidal ones, or none",
               qkv_position_kind_name(positions));
    check_used(checking, "embeddings", &scene->embeddings);
    check_used(checking, "source_embeddings", &scene->source_embeddings);
    check_used(checking, "queries", &scene->queries);
    check_used(checking, "keys", &scene->keys);
    check_used(checking, "values", &scene->values);
    check_finite(checking);
    check_run(checking);
    check_given(checking);
    check_weights(checking);
    check_mask(checking);
    int64_t joined = scene->attention.heads * scene->attention.value_width;
    if (joined && scene->sum.components > joined)
        object(checking, "sum.components", "sum.components is %lld, but the context has %lld",
               (long long)scene->sum.components, (long long)joined);
}

enum qkv_status qkv_scene_read(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                               const char *const *overrides, int override_count,
                               struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_reading reading = {.schema = &qkv_scene_schema,
                                  .config = scene,
                                  .path = path,
                                  .overrides = overrides,
                                  .override_count = override_count,
                                  .arena = arena,
                                  .collector = &collector};
    struct qkv_scene_places *places = qkv_arena_zeroed(arena, sizeof *places);
    qkv_schema_read(&reading);
    if (places) {
        *places = (struct qkv_scene_places){path, reading.sources};
        scene->places = places;
    } else {
        qkv_collect_no_memory(&collector, path);
    }
    /* Counts and widths are compared only when every key is valid. */
    const struct checking checking = {scene, reading.sources, &collector};
    if (reading.complete && !collector.count) check_scene(&checking);
    qkv_collector_finish(&collector, path, messages);
    return messages->count ? QKV_INVALID : QKV_OK;
}

const char *qkv_scene_place(const struct qkv_scene *scene, const char *key, struct qkv_arena *arena)
{
    const struct qkv_key *row = qkv_schema_find(&qkv_scene_schema, key);
    const struct qkv_place *place = &scene->places->sources[row - qkv_scene_schema.keys].place;
    const char *text = place->line
                           ? qkv_arena_format(arena, "%s:%d:%d: ", place->name, place->line, place->column)
                           : qkv_arena_format(arena, "%s: ", scene->places->file);
    return text ? text : "";
}
