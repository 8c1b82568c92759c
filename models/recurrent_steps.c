/* The forced pass with input feeding: a step needs the attentional vector of the step before it, so
 * the steps of a batch run one after the other, each for all sentences that are long enough.
 * In this file sentences are sorted by length, longest first: the sentences that have a token at a
 * step are then always the first rows. Rows are in step order: all first tokens, then all second
 * tokens, and so on. The results are gathered back into the packed order of the batch. */
#include "models/recurrent.h"

struct steps {
    const struct qkv_batch_view *batch;
    int64_t count;   /* steps: tokens of the longest target */
    int64_t *active; /* [count]: number of sentences that have a token at a step */
    int64_t *first;  /* [count]: first row of a step */
    int32_t *order;  /* [sentences]: order[i] is the index in the batch of the i-th longest sentence */
    int64_t *key_start, *key_length;     /* [sentences], sorted: segments of the sources */
    int64_t *query_start, *query_length; /* [sentences]: segments of a step, one row for each sentence */
    int32_t *ids;                        /* [target tokens], in step order */
    int32_t *row_of;                     /* [target tokens]: packed row -> row in step order */
    struct qkv_tensor **output;          /* [count]: attentional vectors [active, H] of a step */
    struct attention_record *record;     /* [count] */
    struct qkv_tensor **state;           /* [layers]: states after the last step, [active, S] */
};

static bool make_room(struct steps *s, struct qkv_graph *graph, int64_t layers)
{
    size_t sentences = (size_t)s->batch->count, tokens = (size_t)s->batch->target_tokens;
    for (int64_t i = 0; i < s->batch->count; i++)
        if (s->batch->target_length[i] > s->count) s->count = s->batch->target_length[i];
    size_t steps = (size_t)s->count;
    s->active = qkv_graph_memory(graph, steps * sizeof *s->active);
    s->first = qkv_graph_memory(graph, steps * sizeof *s->first);
    s->output = qkv_graph_memory(graph, steps * sizeof(struct qkv_tensor *));
    s->record = qkv_graph_memory(graph, steps * sizeof *s->record);
    s->state = qkv_graph_memory(graph, (size_t)layers * sizeof(struct qkv_tensor *));
    s->order = qkv_graph_memory(graph, sentences * sizeof *s->order);
    s->ids = qkv_graph_memory(graph, tokens * sizeof *s->ids);
    s->row_of = qkv_graph_memory(graph, tokens * sizeof *s->row_of);
    int64_t **arrays[] = {&s->key_start, &s->key_length, &s->query_start, &s->query_length};
    for (int i = 0; i < 4; i++) *arrays[i] = qkv_graph_memory(graph, sentences * sizeof **arrays[i]);
    return s->active && s->first && s->output && s->record && s->state && s->order && s->ids && s->row_of &&
           s->key_start && s->key_length && s->query_start && s->query_length;
}

/* Sorts the sentences, longest first and those of equal length in the order of the batch, and sets the segments, ids and
 * rows of all steps. */
static void sort_sentences(struct steps *s)
{
    const struct qkv_batch_view *batch = s->batch;
    int32_t next = 0;
    for (int64_t length = s->count; length > 0; length--) {
        for (int64_t i = 0; i < batch->count; i++) {
            if (batch->target_length[i] != length) continue;
            s->key_start[next] = batch->source_start[i];
            s->key_length[next] = batch->source_length[i];
            s->query_start[next] = next;
            s->query_length[next] = 1;
            s->order[next++] = (int32_t)i;
        }
        s->active[length - 1] = next;
    }
    int64_t row = 0;
    for (int64_t t = 0; t < s->count; t++) {
        s->first[t] = row;
        for (int64_t i = 0; i < s->active[t]; i++, row++) {
            int64_t packed = batch->target_start[s->order[i]] + t;
            s->ids[row] = batch->target_input[packed];
            s->row_of[packed] = (int32_t)row;
        }
    }
}

/* One step. Slices drop the rows of sentences that have ended. */
static void take_step(const struct qkv_model *model, struct qkv_graph *graph, struct steps *s,
                      struct qkv_tensor *gates, const struct encoded_source *source, int64_t t)
{
    const struct recurrent *network = model->network;
    int64_t active = s->active[t];
    const struct qkv_segments queries = {active, s->query_start, s->query_length};
    const struct qkv_segments keys = {active, s->key_start, s->key_length};
    struct qkv_tensor *input_gates = qkv_slice(graph, gates, 0, s->first[t], active);
    for (int64_t l = 0; t && l < model->config.decoder.num_layers; l++)
        s->state[l] = qkv_slice(graph, s->state[l], 0, 0, active);
    if (t) /* the first step is fed zeros */
        input_gates = qkv_recurrent_add_input(&network->decoder[0].cell, graph, input_gates,
                                              qkv_slice(graph, s->output[t - 1], 0, 0, active));
    const struct decoder_input input = {input_gates, s->state, queries, source, keys};
    s->output[t] = qkv_recurrent_decode(model, graph, &input, &s->record[t]);
}

/* Concatenates the rows of all tensors, in pairs: each row is copied log2(count) times. Overwrites
 * list. */
static struct qkv_tensor *join(struct qkv_graph *graph, struct qkv_tensor **list, int64_t count)
{
    for (; count > 1; count = (count + 1) / 2)
        for (int64_t i = 0; i < count; i += 2)
            list[i / 2] = i + 1 < count ? qkv_concat(graph, list[i], list[i + 1], 0) : list[i];
    return list[0];
}

/* The weights of all steps, rearranged into the layout of an attention op over complete sentences: one [target tokens,
 * source tokens] matrix per sentence (array [P] of ops.def). list: the weights of each step, one row per active sentence.
 * Overwrites list. */
static struct qkv_tensor *arrange_weights(struct qkv_graph *graph, struct steps *s,
                                          const struct encoded_source *source, struct qkv_tensor **list)
{
    const struct qkv_batch_view *batch = s->batch;
    const struct qkv_attention attention = {
        .rule.heads = 1,
        .queries = {batch->count, batch->target_start, batch->target_length},
        .keys = source->segments,
    };
    int64_t total = 0, at = 0, step_first = 0;
    for (int64_t i = 0; i < batch->count; i++) total += batch->target_length[i] * batch->source_length[i];
    /* For each number of the result, its offset in the concatenated weights of all steps. */
    int32_t *offsets = qkv_graph_memory(graph, (size_t)total * sizeof *offsets);
    /* For each row (in step order), the offset of its weights. */
    int64_t *first = qkv_graph_memory(graph, (size_t)batch->target_tokens * sizeof *first);
    if (!offsets || !first) return NULL;
    for (int64_t t = 0; t < s->count; t++)
        for (int64_t i = 0; i < s->active[t]; i++) {
            first[s->first[t] + i] = step_first;
            step_first += s->key_length[i];
        }
    for (int64_t i = 0; i < batch->count; i++)
        for (int64_t t = 0; t < batch->target_length[i]; t++)
            for (int64_t j = 0; j < batch->source_length[i]; j++)
                offsets[at++] = (int32_t)(first[s->row_of[batch->target_start[i] + t]] + j);
    return qkv_attention_arrange(graph, join(graph, list, s->count), offsets, attention);
}

/* The rows of all steps in packed order. Overwrites list. */
static struct qkv_tensor *pack(struct qkv_graph *graph, struct steps *s, struct qkv_tensor **list)
{
    return qkv_gather_rows(graph, join(graph, list, s->count), s->row_of, s->batch->target_tokens);
}

/* The records of all steps in packed order. */
static struct attention_record pack_records(struct qkv_graph *graph, struct steps *s,
                                            const struct encoded_source *source)
{
    struct qkv_tensor **list = qkv_graph_memory(graph, (size_t)s->count * sizeof(struct qkv_tensor *));
    struct attention_record record = {0};
    if (!list) return record;
    for (int64_t t = 0; t < s->count; t++) list[t] = s->record[t].weights;
    record.weights = arrange_weights(graph, s, source, list);
    for (int64_t t = 0; t < s->count; t++) list[t] = s->record[t].states;
    record.states = pack(graph, s, list);
    for (int64_t t = 0; t < s->count; t++) list[t] = s->record[t].context;
    record.context = pack(graph, s, list);
    return record;
}

struct qkv_tensor *qkv_recurrent_by_steps(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch,
                                          const struct encoded_source *source, struct decoder_record *record)
{
    struct steps s = {.batch = batch};
    int64_t layers = model->config.decoder.num_layers, rows = batch->target_tokens;
    struct qkv_tensor *embedded;
    if (!make_room(&s, graph, layers)) return NULL;
    sort_sentences(&s);
    struct qkv_tensor *gates = qkv_recurrent_embed(model, graph, s.ids, rows, &embedded);
    for (int64_t l = 0; l < layers; l++)
        s.state[l] =
            source->initial[l] ? qkv_gather_rows(graph, source->initial[l], s.order, batch->count) : NULL;
    for (int64_t t = 0; t < s.count; t++) take_step(model, graph, &s, gates, source, t);
    if (record) {
        record->embedded = qkv_gather_rows(graph, embedded, s.row_of, rows);
        record->attention = pack_records(graph, &s, source);
    }
    return pack(graph, &s, s.output);
}
