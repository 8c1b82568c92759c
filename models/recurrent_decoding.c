/* Decoding with the recurrent network: the encoder runs once per batch; each step feeds one new
 * token of every hypothesis to the decoder, from the states that the step before it has stored. */
#include "models/recurrent.h"

#include <string.h>

/* Numbers that each hypothesis keeps from step to step: [rows, width]. */
struct kept_rows {
    void *memory, *spare; /* reordering writes to spare and swaps the two */
    int64_t width;
};

struct recurrent_decoding {
    struct qkv_decoding base;
    struct encoded_source source; /* nodes of the encoder's graph */
    struct kept_rows *state;      /* [layers]: [rows, S] */
    struct kept_rows output;      /* [rows, H]: previous attentional vectors, for input feeding */
    struct qkv_tensor **tensor;   /* [layers]: `state` as tensors of the decoder's graph */

    int64_t *query_start, *query_length; /* [rows]: the query segment of row i is row i */
    int64_t *key_start, *key_length;     /* [rows]: the source of row i in the encoder's memory */
    int32_t *sentence;                   /* [rows]: number of the source in the batch */
};

static struct recurrent_decoding *recurrent_decoding_of(struct qkv_decoding *decoding)
{
    return (struct recurrent_decoding *)decoding; /* base is the first member */
}

static bool make_rows(struct recurrent_decoding *d, struct kept_rows *kept, int64_t width)
{
    size_t bytes = (size_t)(d->base.rows * width) * d->base.element_size;
    kept->width = width;
    kept->memory = qkv_arena_zeroed(&d->base.arena, bytes);
    kept->spare = qkv_arena_allocate(&d->base.arena, bytes);
    return kept->memory && kept->spare;
}

static bool make_room(struct recurrent_decoding *d)
{
    const struct qkv_stack_config *config = &d->base.model->config.decoder;
    size_t layers = (size_t)config->num_layers;
    d->state = qkv_arena_zeroed(&d->base.arena, layers * sizeof *d->state);
    d->tensor = qkv_arena_zeroed(&d->base.arena, layers * sizeof(struct qkv_tensor *));
    d->sentence = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof *d->sentence);
    if (!d->state || !d->tensor || !d->sentence) return false;
    for (size_t l = 0; l < layers; l++)
        if (!make_rows(d, &d->state[l], qkv_recurrent_state_width(config->rnn_type, config->hidden_size)))
            return false;
    int64_t **arrays[] = {&d->query_start, &d->query_length, &d->key_start, &d->key_length};
    for (int i = 0; i < 4; i++)
        if (!(*arrays[i] = qkv_arena_allocate(&d->base.arena, (size_t)d->base.rows * sizeof **arrays[i])))
            return false;
    return make_rows(d, &d->output, config->hidden_size);
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct recurrent_decoding *d = recurrent_decoding_of(decoding);
    if (!make_room(d))
        return qkv_error_set(error, "out of memory for %lld hypotheses", (long long)decoding->rows);
    qkv_graph_reset(d->base.encoder);
    d->source = qkv_recurrent_encode(decoding->model, d->base.encoder, batch, NULL);
    if (qkv_graph_check(d->base.encoder, error)) return QKV_INVALID;
    qkv_forward(d->base.encoder);
    return qkv_graph_check(d->base.encoder, error);
}

/* Copies row number[i] of `from` to row i of `to`. */
static void copy_rows(const struct recurrent_decoding *d, int64_t rows, int64_t width, const int64_t *number,
                      const void *from, void *to)
{
    size_t bytes = (size_t)width * d->base.element_size;
    for (int64_t i = 0; i < rows; i++)
        memcpy((char *)to + (size_t)i * bytes, (const char *)from + (size_t)number[i] * bytes, bytes);
}

/* Before the first step: copies the initial states of the sentence of each hypothesis. Layers
 * without an initial state start from zeros. */
static void start_states(struct recurrent_decoding *d, int64_t rows, const int64_t *sentences)
{
    for (int64_t l = 0; l < d->base.model->config.decoder.num_layers; l++)
        if (d->source.initial[l])
            copy_rows(d, rows, d->state[l].width, sentences, qkv_tensor_value(d->source.initial[l]),
                      d->state[l].memory);
}

static void set_segments(struct recurrent_decoding *d, int64_t rows, const int64_t *sentences)
{
    for (int64_t i = 0; i < rows; i++) {
        d->query_start[i] = i;
        d->query_length[i] = 1;
        d->sentence[i] = (int32_t)sentences[i];
        d->key_start[i] = d->source.segments.start[sentences[i]];
        d->key_length[i] = d->source.segments.length[sentences[i]];
    }
}

/* Makes a tensor of the encoder's graph a constant of the decoder's graph, without a copy. */
static struct qkv_tensor *from_encoder(struct recurrent_decoding *d, struct qkv_tensor *x)
{
    return x ? qkv_wrap(d->base.decoder, qkv_tensor_shape(x), qkv_tensor_value(x)) : NULL;
}

static struct qkv_tensor *gates_of(struct recurrent_decoding *d, int64_t rows, const int32_t *ids)
{
    const struct qkv_model *model = d->base.model;
    const struct recurrent *network = model->network;
    struct qkv_tensor *gates = qkv_recurrent_embed(model, d->base.decoder, ids, rows, NULL), *fed = NULL;
    if (qkv_recurrent_feeds_summary(model))
        fed = qkv_gather_rows(d->base.decoder, from_encoder(d, d->source.summary), d->sentence, rows);
    else if (qkv_recurrent_feeds_attentional(model))
        fed = qkv_wrap(d->base.decoder, QKV_SHAPE(rows, d->output.width), d->output.memory);
    else
        return gates;
    return qkv_recurrent_add_input(&network->decoder[0].cell, d->base.decoder, gates, fed);
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct recurrent_decoding *d = recurrent_decoding_of(decoding);
    const struct qkv_model *model = decoding->model;
    int64_t layers = model->config.decoder.num_layers;
    struct qkv_graph *graph = d->base.decoder;
    qkv_graph_reset(graph);
    if (!d->base.step) start_states(d, rows, sentences);
    set_segments(d, rows, sentences);
    const struct encoded_source source = {.memory = from_encoder(d, d->source.memory),
                                          .keys = from_encoder(d, d->source.keys),
                                          .mask = from_encoder(d, d->source.mask)};
    const struct qkv_segments queries = {rows, d->query_start, d->query_length},
                              keys = {rows, d->key_start, d->key_length};
    for (int64_t l = 0; l < layers; l++)
        d->tensor[l] = qkv_wrap(graph, QKV_SHAPE(rows, d->state[l].width), d->state[l].memory);
    const struct decoder_input input = {gates_of(d, rows, ids), d->tensor, queries, &source, keys};
    struct qkv_tensor *output = qkv_recurrent_decode(model, graph, &input, NULL);
    qkv_decoding_add_output(decoding, output);
    qkv_forward(graph);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    for (int64_t l = 0; l < layers; l++)
        memcpy(d->state[l].memory, qkv_tensor_value(d->tensor[l]),
               (size_t)(rows * d->state[l].width) * d->base.element_size);
    memcpy(d->output.memory, qkv_tensor_value(output),
           (size_t)(rows * d->output.width) * d->base.element_size);
    return QKV_OK;
}

static void reorder_rows(const struct recurrent_decoding *d, struct kept_rows *kept, int64_t rows,
                         const int64_t *parents)
{
    copy_rows(d, rows, kept->width, parents, kept->memory, kept->spare);
    void *memory = kept->memory;
    kept->memory = kept->spare;
    kept->spare = memory;
}

static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct recurrent_decoding *d = recurrent_decoding_of(decoding);
    for (int64_t l = 0; l < decoding->model->config.decoder.num_layers; l++)
        reorder_rows(d, &d->state[l], rows, parents);
    reorder_rows(d, &d->output, rows, parents);
}

const struct qkv_decoding_interface qkv_recurrent_decoding = {
    .size = sizeof(struct recurrent_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
};
