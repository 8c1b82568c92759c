/* Scenes in files: the table of keys, reading, the rules between keys (counts, widths and shapes, as far as they are known
 * without a run), and packing. */
#include "core/choices.h"
#include "explain/scene.h"

#include "config/config_keys.h"
#include "data/unicode.h"
#include "explain/walk.h"

/* ---- keys ---- */

/* The names of the values of an enum, in its order. */
#define SCENE_CHOICES(type, ...)                                                                             \
    static const struct qkv_choice type##_list[] = {__VA_ARGS__};                                            \
    static const struct qkv_choices type##_choices = {type##_list, sizeof type##_list / sizeof *type##_list};

SCENE_CHOICES(qkv_distribution, {"normal", ""}, {"uniform", ""}, {"integers", ""}, {"xavier", ""})
SCENE_CHOICES(qkv_vectors_from, {"given", ""}, {"random", ""}, {"learned", ""}, {"letters", ""},
              {"projected", ""})
SCENE_CHOICES(qkv_weights_from, {"random", ""}, {"given", ""}, {"learned", ""}, {"none", ""})
SCENE_CHOICES(qkv_bias, {"none", ""}, {"zeros", ""}, {"random", ""})
SCENE_CHOICES(qkv_score, {"scaled_dot", ""}, {"dot", ""}, {"general", ""}, {"additive", ""}, {"length", ""})
SCENE_CHOICES(qkv_scene_mask, {"none", ""}, {"causal", ""}, {"padding", ""}, {"boolean", ""}, {"added", ""})
SCENE_CHOICES(qkv_attention_kind, {"encoder", ""}, {"decoder", ""}, {"cross", ""})

#define KEY_STRUCT struct qkv_scene
#define KEY_TABLE  "explain/scene_keys.def"
#include "config/key_rows.h"

static const struct qkv_key keys[] = {
#include KEY_TABLE
};
static const struct qkv_schema schema = {
    .keys = keys, .count = sizeof keys / sizeof *keys, .size = sizeof(KEY_STRUCT)};

enum qkv_status qkv_scene_write_reference(FILE *file)
{
    return qkv_schema_write_reference(&schema, file);
}

/* ---- reporting ---- */

struct check {
    struct qkv_scene *scene;
    struct qkv_key_check keys;
};

/* Reports an error at the place of a key or, if the key was not given, at the place of `tokens`, which is always given. */
#define report_at(check, path, ...) qkv_key_report(&(check)->keys, path, "tokens", __VA_ARGS__)

static bool is_given(const struct check *check, const char *path)
{
    return qkv_key_source_of(&check->keys, path)->given;
}

/* The first of two keys if it is given, else the second. */
static const char *given_of(const struct check *check, const char *first, const char *second)
{
    return is_given(check, first) ? first : second;
}

/* Requires a shape; 0 rows or columns: any number. why: the explanation of the shape in the message. */
static void require_shape(const struct check *check, const char *path, const struct qkv_matrix *matrix,
                          int64_t rows, int64_t columns, const char *why)
{
    if ((!rows || matrix->rows == rows) && (!columns || matrix->columns == columns)) return;
    char wanted[64];
    if (rows && columns)
        snprintf(wanted, sizeof wanted, "[%lld, %lld]", (long long)rows, (long long)columns);
    else
        snprintf(wanted, sizeof wanted, rows ? "%lld rows" : "%lld columns", (long long)(rows + columns));
    report_at(check, path, "%s is [%lld, %lld], but must be %s: %s", path, (long long)matrix->rows,
              (long long)matrix->columns, wanted, why);
}

/* Sets scene->query_rows: the tokens to follow, or all. */
static void find_query_rows(const struct check *check)
{
    struct qkv_scene *scene = check->scene;
    struct qkv_arena *arena = check->keys.collector->arena;
    int64_t capacity = scene->tokens.count * (scene->follow.count + 1);
    int32_t *rows = qkv_arena_array(arena, capacity, sizeof *rows);
    if (!rows) return;
    for (int64_t i = 0; !scene->follow.count && i < scene->tokens.count; i++)
        rows[scene->query_count++] = (int32_t)i;
    for (int64_t i = 0; i < scene->follow.count; i++) {
        int64_t found = qkv_walk_find_rows(scene->tokens, scene->follow.text[i], rows + scene->query_count);
        if (!found)
            report_at(check, "follow",
                      "follow is '%s', but must be one of the tokens, or a number from 1 to %lld",
                      qkv_printable(arena, scene->follow.text[i]), (long long)scene->tokens.count);
        scene->query_count += found;
    }
    scene->query_rows = rows;
}

/* ---- vectors ---- */

/* A section of vectors, and the paths of its keys. */
struct section {
    struct qkv_vectors_config *vectors;
    const struct qkv_texts *words;
    const char *values, *from, *width;
};

#define SECTION(scene, name, words)                                                                          \
    {                                                                                                        \
        &(scene)->name, words, #name ".values", #name ".from", #name ".width"                                \
    }

/* Checks the embeddings of one side and returns their width; 0: not known. */
static int64_t check_embeddings(const struct check *check, const struct section *section, bool needed)
{
    const struct qkv_vectors_config *vectors = section->vectors;
    int64_t longest = 0;
    switch (vectors->from) {
    case QKV_VECTORS_GIVEN:
        if (!vectors->values.rows && needed)
            report_at(check, given_of(check, section->values, section->from),
                      "%s is missing: give a row for each word, or set %s to random", section->values,
                      section->from);
        if (vectors->values.rows)
            require_shape(check, section->values, &vectors->values, section->words->count, 0,
                          "a row for each word");
        return vectors->values.columns;
    case QKV_VECTORS_RANDOM:
        if (!vectors->width)
            report_at(check, given_of(check, section->width, section->from),
                      "%s must be given when vectors are random", section->width);
        return vectors->width;
    case QKV_VECTORS_LETTERS:
        for (int64_t i = 0; i < section->words->count; i++) {
            int64_t letters = qkv_utf8_count(section->words->text[i]);
            if (letters > longest) longest = letters;
        }
        return longest;
    case QKV_VECTORS_LEARNED:
        return 0;
    case QKV_VECTORS_PROJECTED:
        report_at(check, section->from, "%s is projected, but only queries, keys and values can be projected",
                  section->from);
        return 0;
    }
    return 0;
}

/* Checks queries, keys or values that are not projected; returns the width of one head, 0: not known. */
static int64_t check_direct(const struct check *check, const struct section *section, int64_t width)
{
    struct qkv_vectors_config *vectors = section->vectors;
    int64_t heads = check->scene->attention.heads;
    switch (vectors->from) {
    case QKV_VECTORS_RANDOM:
        if (!vectors->width) vectors->width = heads * width;
        if (!vectors->width)
            report_at(check, section->from, "%s must be given when vectors are random", section->width);
        else if (vectors->width % heads)
            report_at(check, given_of(check, section->width, section->from),
                      "%s is %lld, but must be a multiple of %lld heads", section->width,
                      (long long)vectors->width, (long long)heads);
        return vectors->width / heads;
    case QKV_VECTORS_GIVEN:
        if (!vectors->values.rows) {
            report_at(check, section->from, "%s is missing: give a row for each word", section->values);
            return 0;
        }
        if (vectors->values.columns % heads)
            report_at(check, section->values, "%s has %lld columns, but must have a multiple of %lld heads",
                      section->values, (long long)vectors->values.columns, (long long)heads);
        require_shape(check, section->values, &vectors->values, section->words->count, 0,
                      "a row for each word");
        return vectors->values.columns / heads;
    default:
        report_at(check, section->from,
                  "%s must be projected, given or random; letters and learned are for embeddings",
                  section->from);
        return 0;
    }
}

/* ---- weights ---- */

/* A projection matrix, its path, and the key of its width per head. */
struct head_weight {
    const char *path, *width_key;
    const struct qkv_matrix *matrix;
};

/* The width of one head of a projection from vectors of width `inputs`; 0: not known. wanted: value of the key of the width, 0
 * if the file leaves it out. */
static int64_t head_width(const struct check *check, struct head_weight weight, int64_t wanted,
                          int64_t inputs)
{
    const struct qkv_scene *scene = check->scene;
    int64_t heads = scene->attention.heads;
    if (scene->weights.from == QKV_WEIGHTS_LEARNED) return 0;
    bool has_weights = scene->weights.from == QKV_WEIGHTS_GIVEN;
    int64_t columns = has_weights ? weight.matrix->columns : inputs;
    if (has_weights && !weight.matrix->rows) {
        report_at(check, "weights.from", "weights.from is given, so %s must be given", weight.path);
        return wanted;
    }
    if (has_weights && inputs) {
        char why[64];
        snprintf(why, sizeof why, "the vectors are %lld wide", (long long)inputs);
        require_shape(check, weight.path, weight.matrix, inputs, 0, why);
    }
    if (!wanted) {
        if (columns % heads)
            report_at(check, "attention.heads", "attention.heads is %lld, but must divide %lld, %s",
                      (long long)heads, (long long)columns,
                      has_weights ? "the columns of the matrices" : "the width of the vectors");
        return columns / heads;
    }
    if (scene->weights.from == QKV_WEIGHTS_RANDOM || !columns || columns == heads * wanted) return wanted;
    report_at(check, weight.width_key, "%s is %lld, but %lld heads share %lld columns", weight.width_key,
              (long long)wanted, (long long)heads, (long long)columns);
    return 0;
}

static void check_scores(const struct check *check)
{
    struct qkv_scene *scene = check->scene;
    int64_t heads = scene->attention.heads, width = scene->attention.key_width;
    bool general = scene->attention.score == QKV_SCENE_SCORE_GENERAL,
         additive = scene->attention.score == QKV_SCENE_SCORE_ADDITIVE,
         has_weights = scene->weights.from == QKV_WEIGHTS_GIVEN;
    if (!scene->attention.hidden_width)
        scene->attention.hidden_width =
            scene->weights.score_query.columns ? scene->weights.score_query.columns : width;
    int64_t hidden = scene->attention.hidden_width;
    const struct {
        const char *path;
        const struct qkv_matrix *matrix;
        bool used;
        int64_t rows, columns;
        const char *why;
    } matrices[] = {
        {"weights.score", &scene->weights.score, general, heads * width, width,
         "one [K, K] matrix a head, below each other"},
        {"weights.score_query", &scene->weights.score_query, additive, heads * width, hidden,
         "one [K, A] matrix a head, below each other"},
        {"weights.score_key", &scene->weights.score_key, additive, heads * width, hidden,
         "one [K, A] matrix a head, below each other"},
        {"weights.score_vector", &scene->weights.score_vector, additive, heads, hidden, "one row a head"},
    };
    for (int i = 0; i < 4; i++) {
        const char *path = matrices[i].path;
        bool used = matrices[i].used && has_weights;
        if (used && matrices[i].matrix->rows)
            require_shape(check, path, matrices[i].matrix, matrices[i].rows, matrices[i].columns,
                          matrices[i].why);
        else if (used)
            report_at(check, "weights.from", "weights.from is given, so %s must be given", path);
        else if (matrices[i].matrix->rows)
            report_at(check, path, "%s is given, but not used: see attention.score and weights.from", path);
    }
    if ((general || additive) && scene->weights.from == QKV_WEIGHTS_LEARNED)
        report_at(check, "attention.score", "attention.score needs weights that a run does not have");
    if ((general || additive) && scene->weights.from == QKV_WEIGHTS_NONE)
        report_at(check, "weights.from", "weights.from is none, but attention.score needs weights");
}

/* Refuses matrices that are given but not used, and -infinity, which only the mask may contain. */
static void check_matrices(const struct check *check, const struct section sections[5])
{
    struct qkv_scene *scene = check->scene;
    static const char *const weights[] = {"weights.query", "weights.key", "weights.value", "weights.output"};
    for (int i = 0; i < 5; i++)
        if (sections[i].vectors->values.rows && sections[i].vectors->from != QKV_VECTORS_GIVEN)
            report_at(check, sections[i].values, "%s is given but not used: set %s to given",
                      sections[i].values, sections[i].from);
    for (int i = 0; i < 4 && scene->weights.from != QKV_WEIGHTS_GIVEN; i++) {
        const struct qkv_matrix *matrix = qkv_key_value(qkv_key_at(&schema, weights[i]), scene);
        if (matrix->rows)
            report_at(check, weights[i], "%s is given but not used: set weights.from to given", weights[i]);
    }
    for (int i = 0; i < schema.count; i++) {
        const struct qkv_matrix *matrix = qkv_key_value(&keys[i], scene);
        if (keys[i].kind != QKV_KEY_MATRIX || matrix == &scene->mask.values) continue;
        for (int64_t c = 0; c < matrix->rows * matrix->columns; c++)
            if (isinf(matrix->value[c]))
                report_at(check, keys[i].path, "%s contains -.inf, which only mask.values may contain",
                          keys[i].path);
    }
}

/* sections: those of queries, keys and values. */
static void check_weights(const struct check *check, const struct section sections[3])
{
    struct qkv_scene *scene = check->scene;
    const int64_t wanted[] = {scene->attention.key_width, scene->attention.key_width,
                              scene->attention.value_width},
                  inputs[] = {scene->width, scene->source_width, scene->source_width};
    int64_t width[3] = {0}; /* of queries, keys and values; 0: not known */
    const struct head_weight weights[] = {{"weights.query", "attention.key_width", &scene->weights.query},
                                          {"weights.key", "attention.key_width", &scene->weights.key},
                                          {"weights.value", "attention.value_width", &scene->weights.value}};
    if (scene->attention.output && scene->weights.from != QKV_WEIGHTS_RANDOM)
        report_at(check, "attention.output",
                  "attention.output needs random weights: give weights.output instead");
    for (int i = scene->attention.score == QKV_SCENE_SCORE_LENGTH ? 2 : 0; i < 3; i++) {
        bool as_queries = i == 1 && scene->weights.from == QKV_WEIGHTS_RANDOM && width[0];
        width[i] = sections[i].vectors->from == QKV_VECTORS_PROJECTED
                       ? head_width(check, weights[i], as_queries ? width[0] : wanted[i], inputs[i])
                       : check_direct(check, &sections[i], wanted[i]);
    }
    int64_t query = width[0], key = width[1], value = width[2];
    if (query && key && query != key)
        report_at(check, given_of(check, "keys.values", given_of(check, "weights.key", "weights.from")),
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

static void check_run(const struct check *check)
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

static void check_mask(const struct check *check, int64_t source_count)
{
    const struct qkv_scene *scene = check->scene;
    bool matrix = scene->mask.type == QKV_MASK_BOOLEAN || scene->mask.type == QKV_MASK_ADDED;
    const struct qkv_matrix *values = &scene->mask.values;
    if (matrix && !values->rows)
        report_at(check, "mask.type", "mask.values is missing, but mask.type needs it");
    else if (values->rows && !matrix)
        report_at(check, "mask.values", "mask.values is given, but mask.type is neither boolean nor added");
    else if (matrix)
        require_shape(check, "mask.values", values, scene->tokens.count, source_count,
                      "a row for each token, a column for each source word");
    for (int64_t i = 0; scene->mask.type == QKV_MASK_BOOLEAN && i < values->rows * values->columns; i++) {
        double value = values->value[i];
        if (value > 0 ? fabs(value - 1) < 1e-9 : !(value < 0)) continue;
        report_at(check, "mask.values", "mask.values contains %g, but a boolean mask consists of 0 and 1",
                  value);
        break;
    }
    if (scene->mask.type == QKV_MASK_CAUSAL && scene->source.count)
        report_at(check, "mask.type",
                  "mask.type is causal, which is for self-attention, but there is a source");
}

/* Checks a scene whose keys were all read, and fills in the widths that follow from others and the fields that explain.h calls
 * computed. */
static void check_scene(const struct check *check)
{
    struct qkv_scene *scene = check->scene;
    bool cross = scene->source.count, compares = scene->attention.score != QKV_SCENE_SCORE_LENGTH,
         needs_queries = scene->queries.from == QKV_VECTORS_PROJECTED && compares,
         needs_source = (scene->keys.from == QKV_VECTORS_PROJECTED && compares) ||
                        scene->values.from == QKV_VECTORS_PROJECTED;
    const struct qkv_texts *source = cross ? &scene->source : &scene->tokens;
    const struct section sections[] = {
        SECTION(scene, embeddings, &scene->tokens),
        SECTION(scene, source_embeddings, &scene->source),
        SECTION(scene, queries, &scene->tokens),
        SECTION(scene, keys, source),
        SECTION(scene, values, source),
    };
    find_query_rows(check);
    scene->width = check_embeddings(check, &sections[0], needs_queries || (!cross && needs_source));
    scene->source_width = cross ? check_embeddings(check, &sections[1], needs_source) : scene->width;
    if (!cross && (is_given(check, "source_embeddings.values") || is_given(check, "source_embeddings.from")))
        report_at(check, given_of(check, "source_embeddings.from", "source_embeddings.values"),
                  "source_embeddings is given, but there is no source");
    enum qkv_position_kind positions = scene->positions.type;
    if (positions != QKV_POSITION_SINUSOIDAL && positions != QKV_POSITION_NONE)
        report_at(check, "positions.type", "positions.type is %s, but must be sinusoidal or none in a scene",
                  qkv_position_kind_name(positions));
    check_matrices(check, sections);
    check_run(check);
    check_weights(check, sections + 2);
    check_mask(check, source->count);
    int64_t joined = scene->attention.heads * scene->attention.value_width;
    if (joined && scene->sum.components > joined)
        report_at(check, "sum.components", "sum.components is %lld, but the context has %lld",
                  (long long)scene->sum.components, (long long)joined);
}

/* ---- reading ---- */

struct qkv_scene_places {
    const char *file;
    const struct qkv_key_source *sources;
};

enum qkv_status qkv_scene_read(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                               const char *text, const char *const *overrides, int override_count,
                               struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_reading reading = {.schema = &schema,
                                  .config = scene,
                                  .path = path,
                                  .text = text,
                                  .overrides = overrides,
                                  .override_count = override_count,
                                  .collector = &collector};
    struct qkv_scene_places *places = qkv_arena_zeroed(arena, sizeof *places);
    qkv_schema_read(&reading);
    if (places) *places = (struct qkv_scene_places){path, reading.sources};
    scene->places = places;
    /* The rules between keys are checked only when every key is valid. */
    const struct check check = {scene, {&schema, reading.sources, &collector}};
    if (reading.complete && !qkv_collector_failed(&collector)) check_scene(&check);
    return qkv_collector_finish(&collector, path, messages);
}

const char *qkv_scene_place(const struct qkv_scene *scene, const char *key, struct qkv_arena *arena)
{
    const struct qkv_scene_places *places = scene->places;
    if (!places) return ""; /* the scene was unpacked */
    const struct qkv_place *place = &places->sources[qkv_key_at(&schema, key) - keys].place;
    const char *text = place->line
                           ? qkv_arena_format(arena, "%s:%d:%d: ", place->name, place->line, place->column)
                           : qkv_arena_format(arena, "%s: ", places->file);
    return text ? text : "";
}

/* ---- packing ---- */

enum { LONGEST = 1 << 24 }; /* bytes of a text, numbers of a matrix: far more than a page can show */

struct passing {
    qkv_pass *pass;
    void *context;
    struct qkv_arena *arena;
};

static bool pass(const struct passing *p, void *bytes, size_t size)
{
    return p->pass(p->context, bytes, size);
}

/* Passes an array, and returns it; that of a scene that is unpacked is new. `passes`: its bytes; otherwise its elements are passed
 * by the caller. NULL: there is none. */
static void *pass_array(const struct passing *p, const void *there, int64_t count, size_t size, bool passes)
{
    if (count < 0 || count > LONGEST) return NULL;
    void *array = there ? (void *)there : qkv_arena_zeroed(p->arena, (size_t)count * size + 1);
    return array && (!passes || pass(p, array, (size_t)count * size)) ? array : NULL;
}

static bool pass_text(const struct passing *p, const char **text)
{
    int64_t length = *text ? (int64_t)strlen(*text) : 0;
    return pass(p, &length, sizeof length) && (*text = pass_array(p, *text, length, 1, true));
}

static bool pass_texts(const struct passing *p, struct qkv_texts *texts)
{
    if (!pass(p, &texts->count, sizeof texts->count)) return false;
    const char **list = pass_array(p, texts->text, texts->count, sizeof *list, false);
    bool passed = list != NULL;
    texts->text = list;
    for (int64_t i = 0; passed && i < texts->count; i++) passed = pass_text(p, &list[i]);
    return passed;
}

static bool pass_matrix(const struct passing *p, struct qkv_matrix *matrix)
{
    if (!pass(p, &matrix->rows, sizeof matrix->rows) || !pass(p, &matrix->columns, sizeof matrix->columns))
        return false;
    int64_t rows = matrix->rows, columns = matrix->columns;
    bool fits = rows >= 0 && rows <= LONGEST && columns >= 0 && (!rows || columns <= LONGEST / rows);
    return (matrix->value =
                pass_array(p, matrix->value, fits ? rows * columns : -1, sizeof *matrix->value, true));
}

bool qkv_scene_pass(struct qkv_scene *scene, qkv_pass *pass_bytes, void *context, struct qkv_arena *arena)
{
    static const size_t SIZES[] = {[QKV_KEY_INTEGER] = sizeof(int64_t),
                                   [QKV_KEY_NUMBER] = sizeof(double),
                                   [QKV_KEY_BOOLEAN] = sizeof(bool),
                                   [QKV_KEY_CHOICE] = sizeof(int)};
    const struct passing p = {pass_bytes, context, arena};
    bool passed = true;
    for (int i = 0; passed && i < schema.count; i++) {
        void *field = qkv_key_field(&keys[i], scene);
        if (keys[i].is_path) continue;
        passed = keys[i].kind == QKV_KEY_TEXT     ? pass_text(&p, field)
                 : keys[i].kind == QKV_KEY_TEXTS  ? pass_texts(&p, field)
                 : keys[i].kind == QKV_KEY_MATRIX ? pass_matrix(&p, field)
                                                  : pass(&p, field, SIZES[keys[i].kind]);
    }
    if (!passed || !pass(&p, &scene->query_count, sizeof scene->query_count) ||
        !pass(&p, &scene->width, sizeof scene->width) ||
        !pass(&p, &scene->source_width, sizeof scene->source_width))
        return false;
    if (!scene->run.path) scene->run.path = "";
    return (scene->query_rows =
                pass_array(&p, scene->query_rows, scene->query_count, sizeof *scene->query_rows, true));
}
