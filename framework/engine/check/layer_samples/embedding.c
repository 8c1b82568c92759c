/* Samples of the layer in layers/embedding.c. */
#include "check/layer_samples/layer_samples.h"

INIT_SAMPLE(embedding)

static struct qkv_tensor *apply_sample(const void *layer, struct qkv_graph *graph,
                                       struct qkv_tensor *const *input, const struct qkv_layer_sample *sample)
{
    static const int32_t ids[] = {4, 0, 4, 2};
    (void)input, (void)sample;
    return qkv_embedding_apply(layer, graph, ids, 4);
}

static const struct qkv_embedding_options PLAIN = {5, 3, false, INITIAL}, SCALED = {6, 4, true, INITIAL};
static const struct qkv_layer_sample SAMPLES[] = {{"plain", &PLAIN}, {"scaled", &SCALED}, {0}};
LAYER_SAMPLES(embedding, qkv_embedding);
