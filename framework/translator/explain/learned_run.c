/* The vectors and matrices of the run that a scene names. */
#include "explain/learned.h"

#include "qkv/network.h"

enum qkv_status qkv_learned_open(struct learned *learned, const struct qkv_scene *scene,
                                 struct qkv_arena *arena, struct qkv_error *error)
{
    *learned = (struct learned){.scene = scene, .arena = arena, .error = error};
    if (scene->embeddings.from != QKV_VECTORS_LEARNED &&
        scene->source_embeddings.from != QKV_VECTORS_LEARNED && scene->weights.from != QKV_WEIGHTS_LEARNED)
        return QKV_OK;
    struct qkv_error inner;
    const char *checkpoint = *scene->run.checkpoint ? scene->run.checkpoint : NULL;
    enum qkv_status status = qkv_run_open(&learned->run, scene->run.path, checkpoint, QKV_FLOAT64, &inner);
    if (status) qkv_error_set(error, "%s%s", qkv_scene_place(scene, "run.path", arena), inner.message);
    return status;
}

void qkv_learned_close(struct learned *learned)
{
    if (learned->run.model) qkv_run_release(&learned->run);
}

struct qkv_matrix qkv_learned_embeddings(struct learned *learned, struct walk *walk,
                                         const struct qkv_texts *words, bool source)
{
    const struct qkv_model *model = learned->run.model;
    enum qkv_attention_kind kind = learned->scene->run.kind;
    bool encoder = kind == QKV_ATTENTION_ENCODER || (kind == QKV_ATTENTION_CROSS && source);
    const struct qkv_vocabulary *vocabulary = encoder ? &learned->run.source : &learned->run.target;
    const struct qkv_embedding *embedding =
        qkv_model_inputs(model, encoder ? QKV_STACK_ENCODER : QKV_STACK_DECODER).embedding;
    if (!embedding) {
        learned->failed = true;
        qkv_error_set(learned->error, "%s%s: its network %s gives no embeddings",
                      qkv_scene_place(learned->scene, source ? "source" : "tokens", learned->arena),
                      learned->run.path, model->interface->name);
        return (struct qkv_matrix){0};
    }
    int64_t width = embedding->table->shape.size[1];
    double *values = qkv_walk_memory(walk, words->count * width, sizeof *values);
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
            values[i * width + d] =
                embedding->factor * qkv_parameter_get(&model->parameters, embedding->table, id * width + d);
    }
    return (struct qkv_matrix){values ? words->count : 0, width, values};
}

enum qkv_status qkv_learned_weights(struct learned *learned, struct walk *walk, const struct qkv_tensor *x,
                                    const struct qkv_tensor *memory, struct attention_setup *setup)
{
    const struct qkv_scene *scene = learned->scene;
    const struct qkv_model *model = learned->run.model;
    bool encoder = scene->run.kind == QKV_ATTENTION_ENCODER;
    const struct qkv_stack_config *stack = encoder ? &model->config.encoder : &model->config.decoder;
    if (stack->type == QKV_NETWORK_RECURRENT)
        return qkv_error_set(learned->error,
                             "%s%s is a recurrent network, but a scene takes weights only from transformers; "
                             "`qkv explain %s SENTENCE` shows the attention of this run",
                             qkv_scene_place(scene, "weights.from", learned->arena), scene->run.path,
                             scene->run.path);
    if (scene->run.layer > stack->num_layers)
        return qkv_error_set(learned->error, "%srun.layer is %lld, but the run has %lld layers",
                             qkv_scene_place(scene, "run.layer", learned->arena), (long long)scene->run.layer,
                             (long long)stack->num_layers);
    const struct qkv_multi_head *multi_head =
        qkv_model_attention(model, scene->run.kind, scene->run.layer).multi_head;
    if (!multi_head)
        return qkv_error_set(
            learned->error, "%s%s: its network %s gives no multi-head %s attention in layer %lld",
            qkv_scene_place(scene, "weights.from", learned->arena), scene->run.path, model->interface->name,
            qkv_attention_kind_name(scene->run.kind), (long long)scene->run.layer);
    qkv_learned_multi_head(model, multi_head, walk, setup);
    if (walk->failed) return qkv_error_set(learned->error, "out of memory for a walk through attention");
    const struct qkv_tensor *inputs[] = {x, memory};
    for (int i = 0; i < 2; i++) {
        int64_t width = inputs[i] ? qkv_tensor_shape(inputs[i]).size[1] : 0;
        int64_t wanted = (i ? &setup->key_projection : &setup->query_projection)->weight.rows;
        if (inputs[i] && width != wanted)
            return qkv_error_set(learned->error,
                                 "%sthe matrices of the run need vectors of width %lld, but the vectors "
                                 "are %lld wide",
                                 qkv_scene_place(scene, "weights.from", learned->arena), (long long)wanted,
                                 (long long)width);
    }
    return QKV_OK;
}
