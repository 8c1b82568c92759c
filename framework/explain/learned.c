#include "explain/learned.h"

#include <math.h>

enum qkv_status qkv_learned_open(struct learned *learned, const struct qkv_scene *scene,
                                 struct qkv_arena *arena, struct qkv_error *error)
{
    *learned = (struct learned){.scene = scene, .arena = arena, .error = error};
    if (scene->embeddings.from != QKV_VECTORS_LEARNED &&
        scene->source_embeddings.from != QKV_VECTORS_LEARNED && scene->weights.from != QKV_WEIGHTS_LEARNED)
        return QKV_OK;
    struct qkv_error inner;
    const char *checkpoint = *scene->run.checkpoint ? scene->run.checkpoint : NULL;
    if (!qkv_run_open(&learned->run, scene->run.path, checkpoint, QKV_FLOAT64, &inner)) return QKV_OK;
    return qkv_error_set(error, "%s%s", qkv_scene_place(scene, "run.path", arena), inner.message);
}

void qkv_learned_close(struct learned *learned)
{
    if (learned->run.model) qkv_run_release(&learned->run);
}

/* The values of a parameter; no rows where there is none of that name. */
static struct qkv_matrix parameter_matrix(const struct qkv_model *model, struct walk *walk, const char *name)
{
    const struct qkv_parameter *parameter = qkv_parameters_find(&model->parameters, name);
    if (!parameter) return (struct qkv_matrix){0};
    bool row = parameter->shape.rank == 1;
    int64_t rows = row ? 1 : parameter->shape.size[0], columns = parameter->shape.size[row ? 0 : 1];
    double *values = qkv_walk_memory(walk, rows * columns, sizeof *values);
    for (int64_t i = 0; values && i < rows * columns; i++)
        values[i] = qkv_parameter_get(&model->parameters, parameter, i);
    return (struct qkv_matrix){values ? rows : 0, columns, values};
}

struct qkv_matrix qkv_learned_embeddings(struct learned *learned, struct walk *walk,
                                         const struct words *words, bool source)
{
    const struct qkv_model *model = learned->run.model;
    enum qkv_attention_kind kind = learned->scene->run.kind;
    bool encoder = kind == QKV_ATTENTION_ENCODER || (kind == QKV_ATTENTION_CROSS && source);
    const struct qkv_vocabulary *vocabulary = encoder ? &learned->run.source : &learned->run.target;
    const struct qkv_stack_config *stack = encoder ? &model->config.encoder : &model->config.decoder;
    bool own = encoder || !model->config.tied_embeddings;
    const struct qkv_parameter *table = qkv_parameters_find(
        &model->parameters, own && !encoder ? "decoder.embeddings.table" : "encoder.embeddings.table");
    if (!table) {
        learned->failed = true;
        qkv_error_set(learned->error, "%s: the model has no embeddings", learned->run.path);
        return (struct qkv_matrix){0};
    }
    int64_t width = table->shape.size[1];
    double *values = qkv_walk_memory(walk, words->count * width, sizeof *values);
    double factor = stack->embeddings.scale ? sqrt((double)width) : 1;
    for (int64_t i = 0; values && i < words->count; i++) {
        int32_t id = qkv_vocabulary_id(vocabulary, words->text[i]);
        if (id == QKV_UNKNOWN) {
            learned->failed = true;
            qkv_error_set(learned->error, "%s%s does not know the word '%s'",
                          qkv_scene_place(learned->scene, source ? "source" : "tokens", learned->arena),
                          learned->run.path, words->text[i]);
            return (struct qkv_matrix){0};
        }
        for (int64_t d = 0; d < width; d++)
            values[i * width + d] = factor * qkv_parameter_get(&model->parameters, table, id * width + d);
    }
    return (struct qkv_matrix){values ? words->count : 0, width, values};
}

enum qkv_status qkv_learned_projections(const struct qkv_model *model, const char *name, int64_t heads,
                                        struct walk *walk, struct attention_parts *parts,
                                        struct qkv_error *error)
{
    struct {
        const char *part;
        struct projection *projection;
    } const all[] = {{"query", &parts->query_weight},
                     {"key", &parts->key_weight},
                     {"value", &parts->value_weight},
                     {"output", &parts->output_weight}};
    for (int i = 0; i < 4; i++) {
        const char *whole = qkv_walk_text(walk, "%s.%s", name, all[i].part);
        all[i].projection->weight = parameter_matrix(model, walk, qkv_walk_text(walk, "%s.weight", whole));
        all[i].projection->bias = parameter_matrix(model, walk, qkv_walk_text(walk, "%s.bias", whole));
        if (walk->failed) return qkv_error_set(error, "out of memory for a walk through attention");
        if (!all[i].projection->weight.rows) return qkv_error_set(error, "the model has no %s.weight", whole);
    }
    parts->heads = heads;
    parts->key_width = parts->query_weight.weight.columns / heads;
    parts->key_value_heads = parts->key_weight.weight.columns / parts->key_width;
    parts->value_width = parts->value_weight.weight.columns / parts->key_value_heads;
    return QKV_OK;
}

/* Part of decoder.attention; no rows where the score has no such part. */
static struct qkv_matrix scored_matrix(const struct qkv_model *model, struct walk *walk, const char *part)
{
    return parameter_matrix(model, walk, qkv_walk_text(walk, "decoder.attention.%s", part));
}

static struct qkv_matrix transposed(struct walk *walk, struct qkv_matrix matrix)
{
    double *values = qkv_walk_memory(walk, matrix.rows * matrix.columns, sizeof *values);
    for (int64_t r = 0; values && r < matrix.rows; r++)
        for (int64_t c = 0; c < matrix.columns; c++)
            values[c * matrix.rows + r] = matrix.value[r * matrix.columns + c];
    return (struct qkv_matrix){matrix.columns, matrix.rows, values};
}

/* Rows first .. first + rows - 1. */
static struct qkv_matrix rows_of(struct qkv_matrix matrix, int64_t first, int64_t rows)
{
    return (struct qkv_matrix){rows, matrix.columns, matrix.value + first * matrix.columns};
}

enum qkv_status qkv_learned_scored(const struct qkv_model *model, struct walk *walk,
                                   struct attention_parts *parts, struct projection *vector,
                                   struct qkv_error *error)
{
    const struct qkv_attention_config *config = &model->config.decoder.attention;
    struct qkv_matrix query = scored_matrix(model, walk, "query.weight"),
                      key = scored_matrix(model, walk, "key.weight");
    parts->heads = 1;
    parts->additive_vector = scored_matrix(model, walk, "vector");
    if (config->score == QKV_ATTENTION_SCORE_LOCAL_P)
        parts->place =
            (struct place){scored_matrix(model, walk, "place.weight"),
                           scored_matrix(model, walk, "place_vector.weight"), config->local_window};
    vector->weight = parameter_matrix(model, walk, "decoder.attention_vector.weight");
    vector->bias = parameter_matrix(model, walk, "decoder.attention_vector.bias");
    parts->query_width = model->config.decoder.hidden_size;
    parts->key_width = parts->value_width = vector->weight.rows - parts->query_width; /* of the memory */
    switch (config->score) {
    case QKV_ATTENTION_SCORE_SCALED_DOT:
        parts->score = QKV_SCORE_SCALED_DOT;
        parts->query_weight.weight = query;
        parts->key_weight.weight = key;
        parts->query_width = parts->key_width = key.columns;
        break;
    case QKV_ATTENTION_SCORE_LOCAL_P: /* general, within the window */
    case QKV_ATTENTION_SCORE_GENERAL:
        parts->score = QKV_SCORE_GENERAL;
        parts->general = transposed(walk, key); /* as in the paper: h W m, where the model has M W */
        break;
    case QKV_ATTENTION_SCORE_CONCAT:
        parts->score = QKV_SCORE_ADDITIVE;
        parts->joint = scored_matrix(model, walk, "joint.weight");
        parts->additive_query = rows_of(parts->joint, 0, parts->query_width);
        parts->additive_key = rows_of(parts->joint, parts->query_width, parts->key_width);
        break;
    case QKV_ATTENTION_SCORE_ADDITIVE:
        parts->score = QKV_SCORE_ADDITIVE;
        parts->additive_query = query;
        parts->additive_key = key;
        break;
    case QKV_ATTENTION_SCORE_DOT:
    case QKV_ATTENTION_SCORE_NONE:
        parts->score = QKV_SCORE_DOT;
        break;
    }
    return walk->failed ? qkv_error_set(error, "out of memory for a walk through attention") : QKV_OK;
}

enum qkv_status qkv_learned_weights(struct learned *learned, struct walk *walk, const struct qkv_tensor *x,
                                    const struct qkv_tensor *memory, struct attention_parts *parts)
{
    const struct qkv_scene *scene = learned->scene;
    const struct qkv_model *model = learned->run.model;
    bool encoder = scene->run.kind == QKV_ATTENTION_ENCODER;
    const struct qkv_stack_config *stack = encoder ? &model->config.encoder : &model->config.decoder;
    const char *name =
        qkv_walk_text(walk, "%s.%lld.%s", encoder ? "encoder" : "decoder", (long long)scene->run.layer,
                      scene->run.kind == QKV_ATTENTION_CROSS ? "cross" : "self");
    if (stack->type == QKV_NETWORK_RECURRENT)
        return qkv_error_set(learned->error,
                             "%s%s is a recurrent network, and a scene takes weights from transformers only: "
                             "`qkv explain %s SENTENCE` walks through what this one has learned",
                             qkv_scene_place(scene, "weights.from", learned->arena), scene->run.path,
                             scene->run.path);
    if (scene->run.layer > stack->num_layers)
        return qkv_error_set(learned->error, "%srun.layer is %lld, but the run has %lld layers",
                             qkv_scene_place(scene, "run.layer", learned->arena), (long long)scene->run.layer,
                             (long long)stack->num_layers);
    if (qkv_learned_projections(model, name, stack->num_heads, walk, parts, learned->error))
        return QKV_INVALID;
    const struct qkv_tensor *inputs[] = {x, memory};
    for (int i = 0; i < 2; i++) {
        int64_t width = inputs[i] ? qkv_tensor_shape(inputs[i]).size[1] : 0;
        int64_t wanted = (i ? &parts->key_weight : &parts->query_weight)->weight.rows;
        if (inputs[i] && width != wanted)
            return qkv_error_set(learned->error,
                                 "%sthe matrices of the run take %lld numbers a word, but the words are "
                                 "%lld wide",
                                 qkv_scene_place(scene, "weights.from", learned->arena), (long long)wanted,
                                 (long long)width);
    }
    return QKV_OK;
}
