/* Decoding with the transformer: the encoder runs once; each step runs the decoder on one new token of every
 * hypothesis, whose keys and values go into caches. The decoder's graph is built once and run again for every
 * step, as long as its rows stay. */
#include "models/transformer.h"

#include <stdlib.h>
#include <string.h>

/* Keys or values of the hypotheses so far: [rows * length, width]; a slot is a run of `length` places. */
struct cache {
    void *memory;
    int64_t width;
};

struct layer_state {
    struct cache keys, values;                  /* of self attention */
    struct qkv_tensor *cross_key, *cross_value; /* of the source; in the encoder's graph */
};

struct transformer_decoding {
    struct qkv_decoding base;
    struct layer_state *layers;
    struct qkv_segments sources; /* of the batch that is being decoded */
    int64_t rows, length;        /* room */
    int64_t step;                /* tokens fed so far */
    int64_t built;               /* rows that the decoder's graph was built for; 0: it must be built anew */

    /* Where the rows have their keys and values. Rows change places by changing slots; only where two
     * continue one is something copied. */
    int64_t *slot, *next_slot;
    bool *continued, *busy; /* by row, by slot; while reordering */

    /* Segments of one step: query i is row i; its keys are places 0 .. step of its slot, or its source. */
    int64_t *query_start, *query_length, *self_start, *self_length, *cross_start, *cross_length;
    int32_t *place; /* where the new keys and values go */
    int32_t *ids;   /* the tokens fed */
};

static struct transformer_decoding *inside(struct qkv_decoding *decoding)
{
    return (struct transformer_decoding *)decoding; /* base is the first member */
}

static bool make_cache(struct transformer_decoding *d, struct cache *cache, int64_t width)
{
    size_t bytes = (size_t)(d->rows * d->length) * (size_t)width * d->base.size;
    cache->width = width;
    cache->memory = qkv_arena_allocate(&d->base.arena, bytes);
    return cache->memory != NULL;
}

/* Room for the hypotheses; the arena keeps its chunks from batch to batch. */
static bool make_room(struct transformer_decoding *d, const struct transformer *network)
{
    const struct transformer_stack *stack = &network->decoder;
    const struct qkv_stack_config *config = &d->base.model->config.decoder;
    qkv_arena_reset(&d->base.arena);
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
        if (!(*arrays[i] = qkv_arena_allocate(&d->base.arena, (size_t)d->rows * sizeof **arrays[i])))
            return false;
    for (int64_t i = 0; i < d->rows; i++) d->slot[i] = i;
    d->place = qkv_arena_allocate(&d->base.arena, (size_t)d->rows * sizeof *d->place);
    d->ids = qkv_arena_allocate(&d->base.arena, (size_t)d->rows * sizeof *d->ids);
    d->continued = qkv_arena_allocate(&d->base.arena, (size_t)d->rows * sizeof *d->continued);
    d->busy = qkv_arena_allocate(&d->base.arena, (size_t)d->rows * sizeof *d->busy);
    return d->place && d->ids && d->continued && d->busy;
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch, int64_t rows,
                             int64_t length, struct qkv_error *error)
{
    struct transformer_decoding *d = inside(decoding);
    const struct transformer *network = decoding->model->network;
    QKV_BUG(rows < 1 || length < 1, "%lld hypotheses of %lld tokens", (long long)rows, (long long)length);
    if (length > INT32_MAX / rows) /* places in the caches are row numbers of an op, which are 32 bits wide */
        return qkv_error_set(
            error,
            "%lld hypotheses of %lld tokens are too many: translate fewer sentences together or "
            "use a smaller beam",
            (long long)rows, (long long)length);
    d->rows = rows;
    d->length = length;
    d->step = 0;
    d->built = 0;
    d->sources = (struct qkv_segments){batch->count, batch->source_start, batch->source_length};
    if (!make_room(d, network))
        return qkv_error_set(error, "out of memory for %lld hypotheses of %lld tokens", (long long)rows,
                             (long long)length);
    qkv_graph_reset(d->base.encoder);
    qkv_graph_share_memory(d->base.encoder, true);
    struct qkv_tensor *memory = qkv_transformer_encode(network, d->base.encoder, batch->source,
                                                       batch->source_tokens, d->sources, NULL);
    for (int64_t i = 0; i < network->decoder.layer_count; i++) {
        const struct qkv_multi_head *cross = &network->decoder.layers[i].cross.attention;
        d->layers[i].cross_key = qkv_multi_head_key(cross, d->base.encoder, memory, d->sources, NULL);
        d->layers[i].cross_value = qkv_multi_head_value(cross, d->base.encoder, memory);
    }
    qkv_graph_plan(d->base.encoder, memory);
    if (qkv_graph_check(d->base.encoder, error)) return QKV_INVALID;
    qkv_forward(d->base.encoder);
    return QKV_OK;
}

/* Self attention of the new tokens: their keys and values are stored first, then each attends to all of its
 * row. */
static struct qkv_tensor *attend_self(struct transformer_decoding *d, const struct transformer_layer *layer,
                                      struct layer_state *state, struct qkv_tensor *x, int64_t rows)
{
    struct qkv_graph *graph = d->base.decoder;
    const struct qkv_segments queries = {rows, d->query_start, d->query_length};
    const struct qkv_segments keys = {rows, d->self_start, d->self_length};
    int64_t places = d->rows * d->length;
    struct qkv_tensor *normed = qkv_residual_enter(&layer->self.residual, graph, x);
    struct qkv_tensor *query = qkv_multi_head_query(&layer->self.attention, graph, normed, queries, &d->step);
    struct qkv_tensor *key = qkv_store_rows(
        graph, qkv_wrap(graph, QKV_SHAPE(places, state->keys.width), state->keys.memory),
        qkv_multi_head_key(&layer->self.attention, graph, normed, queries, &d->step), d->place);
    struct qkv_tensor *value =
        qkv_store_rows(graph, qkv_wrap(graph, QKV_SHAPE(places, state->values.width), state->values.memory),
                       qkv_multi_head_value(&layer->self.attention, graph, normed), d->place);
    /* The new token is the last of the row's keys, which is where attention takes it to stand. */
    struct qkv_tensor *result =
        qkv_multi_head_attend(&layer->self.attention, graph, query, key, value, NULL, queries, keys, NULL);
    return qkv_residual_leave(&layer->self.residual, graph, x, result);
}

static struct qkv_tensor *attend_cross(struct transformer_decoding *d, const struct transformer_layer *layer,
                                       struct layer_state *state, struct qkv_tensor *x, int64_t rows)
{
    struct qkv_graph *graph = d->base.decoder;
    const struct qkv_segments queries = {rows, d->query_start, d->query_length};
    const struct qkv_segments keys = {rows, d->cross_start, d->cross_length};
    struct qkv_tensor *normed = qkv_residual_enter(&layer->cross.residual, graph, x);
    struct qkv_tensor *query = qkv_multi_head_query(&layer->cross.attention, graph, normed, queries, NULL);
    struct qkv_tensor *key =
        qkv_wrap(graph, qkv_tensor_shape(state->cross_key), qkv_tensor_value(state->cross_key));
    struct qkv_tensor *value =
        qkv_wrap(graph, qkv_tensor_shape(state->cross_value), qkv_tensor_value(state->cross_value));
    struct qkv_tensor *result =
        qkv_multi_head_attend(&layer->cross.attention, graph, query, key, value, NULL, queries, keys, NULL);
    return qkv_residual_leave(&layer->cross.residual, graph, x, result);
}

/* Where the queries, keys and values of this step stand. */
static void set_segments(struct transformer_decoding *d, int64_t rows, const int64_t *sentences)
{
    for (int64_t i = 0; i < rows; i++) {
        d->query_start[i] = i;
        d->query_length[i] = 1;
        d->self_start[i] = d->slot[i] * d->length;
        d->self_length[i] = d->step + 1;
        d->cross_start[i] = d->sources.start[sentences[i]];
        d->cross_length[i] = d->sources.length[sentences[i]];
        d->place[i] = (int32_t)(d->slot[i] * d->length + d->step);
    }
}

/* As much of everything as a later step may have: what the graph's memory is laid out for. */
static void set_longest_segments(struct transformer_decoding *d, int64_t rows)
{
    int64_t longest = 0;
    for (int64_t s = 0; s < d->sources.count; s++)
        if (d->sources.length[s] > longest) longest = d->sources.length[s];
    for (int64_t i = 0; i < rows; i++) {
        d->self_length[i] = d->length;
        d->cross_start[i] = 0;
        d->cross_length[i] = longest;
    }
}

/* One step for `rows` rows. It serves all steps until their number changes. */
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
    struct qkv_tensor *x =
        qkv_transformer_embed(stack, graph, d->ids, rows, tokens, &d->step, NULL); /* [rows, D] */
    for (int64_t i = 0; i < stack->layer_count; i++) {
        x = attend_self(d, &stack->layers[i], &d->layers[i], x, rows);
        x = attend_cross(d, &stack->layers[i], &d->layers[i], x, rows);
        x = qkv_transformer_feed_forward(&stack->layers[i], graph, x, NULL);
    }
    qkv_decoding_finish(&d->base, qkv_transformer_finish(stack, graph, x, NULL));
    d->built = rows;
    return qkv_graph_check(graph, error);
}

/* Whether the ids are words of the target vocabulary, as building checks too. */
static bool are_words(const struct transformer_decoding *d, int64_t rows, const int32_t *ids)
{
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] >= d->base.model->target_size) return false;
    return true;
}

static const struct qkv_next_scores *step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                                          const int64_t *sentences, struct qkv_error *error)
{
    struct transformer_decoding *d = inside(decoding);
    QKV_BUG(rows > d->rows || d->step >= d->length, "step %lld of %lld with %lld rows of %lld",
            (long long)d->step, (long long)d->length, (long long)rows, (long long)d->rows);
    memcpy(d->ids, ids, (size_t)rows * sizeof *ids);
    if (rows != d->built || !are_words(d, rows, ids)) {
        if (build(d, rows, sentences, error)) return NULL;
    } else {
        qkv_graph_rewind(d->base.decoder);
    }
    set_segments(d, rows, sentences);
    qkv_forward(d->base.decoder);
    d->step++;
    return &d->base.next;
}

static void copy_slot(const struct transformer_decoding *d, const struct cache *cache, int64_t from,
                      int64_t to)
{
    size_t place = (size_t)cache->width * d->base.size, slot = (size_t)d->length * place;
    memcpy((char *)cache->memory + (size_t)to * slot, (char *)cache->memory + (size_t)from * slot,
           (size_t)d->step * place);
}

/* The first row that continues another takes over its slot; each more gets a copy in one that nobody has. */
static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct transformer_decoding *d = inside(decoding);
    int64_t layers = ((const struct transformer *)decoding->model->network)->decoder.layer_count, unused = 0;
    memset(d->continued, 0, (size_t)d->rows * sizeof *d->continued);
    memset(d->busy, 0, (size_t)d->rows * sizeof *d->busy);
    for (int64_t i = 0; i < rows; i++) d->busy[d->slot[parents[i]]] = true;
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = d->slot[parents[i]];
        if (!d->continued[parents[i]]) {
            d->continued[parents[i]] = true;
            d->next_slot[i] = from;
            continue;
        }
        while (d->busy[unused]) unused++;
        d->next_slot[i] = unused++;
        for (int64_t layer = 0; layer < layers; layer++) {
            copy_slot(d, &d->layers[layer].keys, from, d->next_slot[i]);
            copy_slot(d, &d->layers[layer].values, from, d->next_slot[i]);
        }
    }
    int64_t *kept = d->slot;
    d->slot = d->next_slot;
    d->next_slot = kept;
}

const struct qkv_decoding_interface qkv_transformer_decoding = {
    .size = sizeof(struct transformer_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
};
