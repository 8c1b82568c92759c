/* Decoding with the transformer: the encoder runs once per batch; each step runs the decoder on one
 * new token of every hypothesis and stores its keys and values in caches. The graph of the decoder
 * is built once and runs again for every step with the same number of rows. */
#include "graph/graph.h"
#include "models/transformer.h"

#include <string.h>

/* Keys or values of the tokens so far: [slots, length, width]. Each hypothesis has one slot, which has room
 * for the tokens of all steps. */
struct cache {
    void *memory;
    int64_t width;
};

struct layer_state {
    struct cache keys, values;                  /* of self-attention */
    struct qkv_tensor *cross_key, *cross_value; /* of the sources: nodes of the encoder's graph */
};

struct transformer_decoding {
    struct qkv_decoding base;
    struct layer_state *layers;
    struct qkv_batch_view batch; /* the sources: arrays of base.arena */
    struct qkv_segments sources; /* of the batch */
    int64_t graph_rows;          /* rows of the decoder's graph; 0: not built */

    /* Slot of each row in the caches. Reordering changes slots; it copies keys and values only when
     * several rows continue the same row. */
    int64_t *slot, *next_slot;
    /* Used by reorder. */
    bool *is_taken; /* [rows], by old row: a new row has taken over its slot */
    bool *is_busy;  /* [rows], by slot: its old row is continued by some new row */

    /* Segments of one step. The query of hypothesis i is row i; its keys are rows 0 .. step of its
     * slot, and for cross-attention its source. */
    int64_t *query_start, *query_length, *self_start, *self_length, *cross_start, *cross_length;
    int32_t *cache_row; /* rows of the caches for the new keys and values */
    int32_t *ids;       /* the tokens fed */
};

static struct transformer_decoding *transformer_decoding_of(struct qkv_decoding *decoding)
{
    return (struct transformer_decoding *)decoding; /* base is the first member */
}

static bool make_cache(struct transformer_decoding *d, struct cache *cache, int64_t width)
{
    size_t bytes = (size_t)(d->base.rows * d->base.length) * (size_t)width * d->base.element_size;
    cache->width = width;
    cache->memory = qkv_arena_allocate(&d->base.arena, bytes);
    return cache->memory != NULL;
}

/* Allocates the arrays; the arena reuses its memory from batch to batch. */
static bool make_room(struct transformer_decoding *d, const struct transformer *network)
{
    const struct transformer_stack *stack = &network->decoder;
    const struct qkv_stack_config *config = &d->base.model->config.decoder;
    d->layers = qkv_arena_zeroed(&d->base.arena, (size_t)stack->layer_count * sizeof *d->layers);
    if (!d->layers) return false;
    for (int64_t i = 0; i < stack->layer_count; i++) {
        struct layer_state *state = &d->layers[i];
        const struct qkv_multi_head *self = &stack->layers[i].self.attention;
        if (!make_cache(d, &state->keys,
                        qkv_attention_key_value_heads(&self->rule) * config->attention.key_width))
            return false;
        if (!make_cache(d, &state->values,
                        qkv_attention_key_value_heads(&self->rule) * config->attention.value_width))
            return false;
    }
    int64_t **arrays[] = {&d->query_start, &d->query_length, &d->self_start, &d->self_length,
                          &d->cross_start, &d->cross_length, &d->slot,       &d->next_slot};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (!(*arrays[i] = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof **arrays[i])))
            return false;
    for (int64_t i = 0; i < d->base.rows; i++) d->slot[i] = i;
    d->cache_row = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof *d->cache_row);
    d->ids = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof *d->ids);
    d->is_taken = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof *d->is_taken);
    d->is_busy = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof *d->is_busy);
    return d->cache_row && d->ids && d->is_taken && d->is_busy;
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct transformer_decoding *d = transformer_decoding_of(decoding);
    const struct transformer *network = decoding->model->network;
    d->graph_rows = 0;
    d->batch = *batch;
    d->sources = (struct qkv_segments){batch->count, batch->source_start, batch->source_length};
    if (!make_room(d, network))
        return qkv_error_set(error, "out of memory for %lld hypotheses of %lld tokens",
                             (long long)decoding->rows, (long long)decoding->length);
    qkv_graph_reset(d->base.encoder);
    qkv_graph_share_memory(d->base.encoder, true);
    struct qkv_tensor *mask = qkv_source_mask(d->base.encoder, batch),
                      *memory = qkv_transformer_encode(network, d->base.encoder, batch, mask, NULL);
    for (int64_t i = 0; i < network->decoder.layer_count; i++) {
        const struct qkv_multi_head *cross = &network->decoder.layers[i].cross.attention;
        d->layers[i].cross_key = qkv_multi_head_key(cross, d->base.encoder, memory, d->sources, NULL);
        d->layers[i].cross_value = qkv_multi_head_value(cross, d->base.encoder, memory);
    }
    qkv_graph_plan(d->base.encoder, memory);
    if (qkv_graph_check(d->base.encoder, error)) return QKV_INVALID;
    qkv_forward(d->base.encoder);
    return qkv_graph_check(d->base.encoder, error);
}

/* Self-attention of the new tokens: stores their keys and values, then each query attends to all
 * tokens of its hypothesis. x [rows, D] -> [rows, D]. */
static struct qkv_tensor *attend_self(struct transformer_decoding *d, const struct transformer_layer *layer,
                                      struct layer_state *state, struct qkv_tensor *x, int64_t rows)
{
    struct qkv_graph *graph = d->base.decoder;
    const struct qkv_segments queries = {rows, d->query_start, d->query_length};
    const struct qkv_segments keys = {rows, d->self_start, d->self_length};
    int64_t cache_rows = d->base.rows * d->base.length;
    struct qkv_tensor *normed = qkv_residual_input(&layer->self.residual, graph, x);
    struct qkv_attention_projections projections = {.queries = queries, .keys = keys};
    projections.query = qkv_multi_head_query(&layer->self.attention, graph, normed, queries, &d->base.step);
    projections.key = qkv_store_rows(
        graph, qkv_wrap(graph, QKV_SHAPE(cache_rows, state->keys.width), state->keys.memory),
        qkv_multi_head_key(&layer->self.attention, graph, normed, queries, &d->base.step), d->cache_row);
    projections.value = qkv_store_rows(
        graph, qkv_wrap(graph, QKV_SHAPE(cache_rows, state->values.width), state->values.memory),
        qkv_multi_head_value(&layer->self.attention, graph, normed), d->cache_row);
    /* The queries of a sentence have the last positions of its keys (attention_rule.h): here the new
     * token has position `step`. */
    struct qkv_tensor *result = qkv_multi_head_attend(&layer->self.attention, graph, &projections, NULL);
    return qkv_residual_output(&layer->self.residual, graph, x, result);
}

static struct qkv_tensor *attend_cross(struct transformer_decoding *d, const struct transformer_layer *layer,
                                       struct layer_state *state, struct qkv_tensor *x,
                                       struct qkv_tensor *mask)
{
    struct qkv_graph *graph = d->base.decoder;
    int64_t rows = qkv_tensor_shape(x).size[0];
    const struct qkv_segments queries = {rows, d->query_start, d->query_length};
    const struct qkv_segments keys = {rows, d->cross_start, d->cross_length};
    struct qkv_tensor *normed = qkv_residual_input(&layer->cross.residual, graph, x);
    struct qkv_attention_projections projections = {.mask = mask, .queries = queries, .keys = keys};
    projections.query = qkv_multi_head_query(&layer->cross.attention, graph, normed, queries, NULL);
    projections.key = qkv_wrap(graph, qkv_tensor_shape(state->cross_key), qkv_tensor_value(state->cross_key));
    projections.value =
        qkv_wrap(graph, qkv_tensor_shape(state->cross_value), qkv_tensor_value(state->cross_value));
    struct qkv_tensor *result = qkv_multi_head_attend(&layer->cross.attention, graph, &projections, NULL);
    return qkv_residual_output(&layer->cross.residual, graph, x, result);
}

/* Sets the segments and cache rows of this step. */
static void set_segments(struct transformer_decoding *d, int64_t rows, const int64_t *sentences)
{
    for (int64_t i = 0; i < rows; i++) {
        d->query_start[i] = i;
        d->query_length[i] = 1;
        d->self_start[i] = d->slot[i] * d->base.length;
        d->self_length[i] = d->base.step + 1;
        d->cross_start[i] = d->sources.start[sentences[i]];
        d->cross_length[i] = d->sources.length[sentences[i]];
        d->cache_row[i] = (int32_t)(d->slot[i] * d->base.length + d->base.step);
    }
}

/* Sets the longest segments that a later step may have: the graph plans its memory for these. */
static void set_longest_segments(struct transformer_decoding *d, int64_t rows)
{
    int64_t longest = 0;
    for (int64_t s = 0; s < d->sources.count; s++)
        if (d->sources.length[s] > longest) longest = d->sources.length[s];
    for (int64_t i = 0; i < rows; i++) {
        d->self_length[i] = d->base.length;
        d->cross_start[i] = 0;
        d->cross_length[i] = longest;
    }
}

/* Builds the graph of a step with `rows` rows. */
static enum qkv_status build(struct transformer_decoding *d, int64_t rows, const int64_t *sentences,
                             struct qkv_error *error)
{
    const struct transformer *network = d->base.model->network;
    const struct transformer_stack *stack = &network->decoder;
    const struct qkv_segments tokens = {rows, d->query_start, d->query_length};
    struct qkv_graph *graph = d->base.decoder;
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, true);
    set_segments(d, rows, sentences);
    set_longest_segments(d, rows);
    struct qkv_tensor *mask = qkv_source_mask(graph, &d->batch); /* [Ns] */
    struct qkv_tensor *x =
        qkv_transformer_embed(stack, graph, d->ids, rows, tokens, &d->base.step, NULL); /* [rows, D] */
    for (int64_t i = 0; i < stack->layer_count; i++) {
        x = attend_self(d, &stack->layers[i], &d->layers[i], x, rows);
        x = attend_cross(d, &stack->layers[i], &d->layers[i], x, mask);
        x = qkv_transformer_feed_forward(&stack->layers[i], graph, x, NULL);
    }
    qkv_decoding_add_output(&d->base, qkv_transformer_finish(stack, graph, x, NULL));
    enum qkv_status status = qkv_graph_check(graph, error);
    d->graph_rows = status ? 0 : rows;
    return status;
}

/* Whether all ids are in the target vocabulary. If not, `step` builds the graph again: the embedding op checks its ids when
 * it is recorded, and reports the invalid id. */
static bool are_valid(const struct transformer_decoding *d, int64_t rows, const int32_t *ids)
{
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] >= d->base.model->target_size) return false;
    return true;
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct transformer_decoding *d = transformer_decoding_of(decoding);
    memcpy(d->ids, ids, (size_t)rows * sizeof *ids);
    if ((rows != d->graph_rows || !are_valid(d, rows, ids)) && build(d, rows, sentences, error))
        return QKV_INVALID;
    set_segments(d, rows, sentences);
    qkv_graph_rewind_unchecked(d->base.decoder); /* reads the arrays of this step */
    qkv_forward(d->base.decoder);
    return qkv_graph_check(d->base.decoder, error);
}

/* Copies the rows of all tokens so far. */
static void copy_slot(const struct transformer_decoding *d, const struct cache *cache, int64_t from,
                      int64_t to)
{
    size_t row = (size_t)cache->width * d->base.element_size, slot = (size_t)d->base.length * row;
    memcpy((char *)cache->memory + (size_t)to * slot, (char *)cache->memory + (size_t)from * slot,
           (size_t)d->base.step * row);
}

/* The first row that continues a parent takes over its slot; each further row gets a copy in a free
 * slot. */
static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct transformer_decoding *d = transformer_decoding_of(decoding);
    int64_t layers = ((const struct transformer *)decoding->model->network)->decoder.layer_count, unused = 0;
    memset(d->is_taken, 0, (size_t)d->base.rows * sizeof *d->is_taken);
    memset(d->is_busy, 0, (size_t)d->base.rows * sizeof *d->is_busy);
    for (int64_t i = 0; i < rows; i++) d->is_busy[d->slot[parents[i]]] = true;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = d->slot[parents[i]];
        if (!d->is_taken[parents[i]]) {
            d->is_taken[parents[i]] = true;
            d->next_slot[i] = from;
            continue;
        }
        while (d->is_busy[unused]) unused++;
        d->next_slot[i] = unused++;
        for (int64_t layer = 0; layer < layers; layer++) {
            copy_slot(d, &d->layers[layer].keys, from, d->next_slot[i]);
            copy_slot(d, &d->layers[layer].values, from, d->next_slot[i]);
        }
    }
    int64_t *previous = d->slot;
    d->slot = d->next_slot;
    d->next_slot = previous;
}

const struct qkv_decoding_interface qkv_transformer_decoding = {
    .size = sizeof(struct transformer_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
};
