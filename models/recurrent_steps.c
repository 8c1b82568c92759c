/* Input feeding: a step needs what the step before it found, so the steps of a batch follow one another, each
 * for all sentences that are that long. Sentences stand in the order of their lengths, longest first, so that
 * those that go on are always the first rows; rows stand step by step ("by steps"), which at the end is
 * undone. */
#include "models/recurrent.h"

struct steps {
    const struct qkv_batch_view *batch;
    int64_t count;           /* steps: tokens of the longest target */
    int64_t *active, *first; /* [count]: sentences of a step, and its first row */
    int32_t *order, *rank;   /* [sentences]: which sentence comes where, and where a sentence comes */
    int64_t *key_start, *key_length, *iota, *ones; /* [sentences], in that order */
    int32_t *ids;                                  /* [target tokens], by steps */
    int32_t *place;                                /* [target tokens]: row by steps of each packed row */
    struct qkv_tensor **found;                     /* [count] */
    struct looked *looked;                         /* [count] */
    struct qkv_tensor **state;                     /* [layers] */
};

static bool make_room(struct steps *s, struct qkv_graph *graph, int64_t layers)
{
    size_t sentences = (size_t)s->batch->count, tokens = (size_t)s->batch->target_tokens;
    for (int64_t i = 0; i < s->batch->count; i++)
        if (s->batch->target_length[i] > s->count) s->count = s->batch->target_length[i];
    size_t steps = (size_t)s->count;
    s->active = qkv_graph_memory(graph, steps * sizeof *s->active);
    s->first = qkv_graph_memory(graph, steps * sizeof *s->first);
    s->found = qkv_graph_memory(graph, steps * sizeof(struct qkv_tensor *));
    s->looked = qkv_graph_memory(graph, steps * sizeof *s->looked);
    s->state = qkv_graph_memory(graph, (size_t)layers * sizeof(struct qkv_tensor *));
    s->order = qkv_graph_memory(graph, sentences * sizeof *s->order);
    s->rank = qkv_graph_memory(graph, sentences * sizeof *s->rank);
    s->ids = qkv_graph_memory(graph, tokens * sizeof *s->ids);
    s->place = qkv_graph_memory(graph, tokens * sizeof *s->place);
    int64_t **arrays[] = {&s->key_start, &s->key_length, &s->iota, &s->ones};
    for (int i = 0; i < 4; i++) *arrays[i] = qkv_graph_memory(graph, sentences * sizeof **arrays[i]);
    return s->active && s->first && s->found && s->looked && s->state && s->order && s->rank && s->ids &&
           s->place && s->key_start && s->key_length && s->iota && s->ones;
}

/* Sorts by length, in as many rounds as there are steps: sentences of one length keep their order. */
static void plan(struct steps *s)
{
    const struct qkv_batch_view *batch = s->batch;
    int32_t next = 0;
    for (int64_t length = s->count; length > 0; length--) {
        for (int64_t i = 0; i < batch->count; i++) {
            if (batch->target_length[i] != length) continue;
            s->rank[i] = next;
            s->key_start[next] = batch->source_start[i];
            s->key_length[next] = batch->source_length[i];
            s->iota[next] = next;
            s->ones[next] = 1;
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
            s->place[packed] = (int32_t)row;
        }
    }
}

/* One step: the rows of the sentences that have ended are left out of what the step before it made. */
static void take_step(const struct qkv_model *model, struct qkv_graph *graph, struct steps *s,
                      struct qkv_tensor *gates, const struct source *source, int64_t t)
{
    const struct recurrent *network = model->network;
    int64_t active = s->active[t];
    const struct qkv_segments queries = {active, s->iota, s->ones};
    const struct qkv_segments keys = {active, s->key_start, s->key_length};
    struct qkv_tensor *own = qkv_slice(graph, gates, 0, s->first[t], active);
    for (int64_t l = 0; t && l < model->config.decoder.num_layers; l++)
        s->state[l] = qkv_slice(graph, s->state[l], 0, 0, active);
    if (t) /* the first step is fed zeros */
        own = qkv_recurrent_feed(&network->decoder[0].cell, graph, own,
                                 qkv_slice(graph, s->found[t - 1], 0, 0, active));
    s->found[t] = qkv_recurrent_decode(model, graph, own, s->state, queries, source, keys, &s->looked[t]);
}

/* Joins the rows of all tensors; in pairs, so that no row is copied more often than the logarithm of their
 * number. */
static struct qkv_tensor *join(struct qkv_graph *graph, struct qkv_tensor **list, int64_t count)
{
    for (; count > 1; count = (count + 1) / 2)
        for (int64_t i = 0; i < count; i += 2)
            list[i / 2] = i + 1 < count ? qkv_concat(graph, list[i], list[i + 1], 0) : list[i];
    return list[0];
}

/* All weights as one ragged block over the packed sentences. */
static struct qkv_tensor *arrange(struct qkv_graph *graph, struct steps *s, const struct source *source,
                                  struct qkv_tensor **list)
{
    const struct qkv_batch_view *batch = s->batch;
    const struct qkv_attention layout = {
        .heads = 1,
        .queries = {batch->count, batch->target_start, batch->target_length},
        .keys = source->segments,
    };
    int64_t total = 0, at = 0, step_first = 0;
    for (int64_t i = 0; i < batch->count; i++) total += batch->target_length[i] * batch->source_length[i];
    int32_t *numbers = qkv_graph_memory(graph, (size_t)total * sizeof *numbers);
    int64_t *first =
        qkv_graph_memory(graph, (size_t)batch->target_tokens * sizeof *first); /* of rows by steps */
    if (!numbers || !first) return NULL;
    for (int64_t t = 0; t < s->count; t++)
        for (int64_t i = 0; i < s->active[t]; i++) {
            first[s->first[t] + i] = step_first;
            step_first += s->key_length[i];
        }
    for (int64_t i = 0; i < batch->count; i++)
        for (int64_t t = 0; t < batch->target_length[i]; t++)
            for (int64_t j = 0; j < batch->source_length[i]; j++)
                numbers[at++] = (int32_t)(first[s->place[batch->target_start[i] + t]] + j);
    return qkv_attention_arrange(graph, join(graph, list, s->count), numbers, layout);
}

/* What the steps left, over the packed sentences. */
static struct looked arrange_looked(struct qkv_graph *graph, struct steps *s, const struct source *source)
{
    struct qkv_tensor **list = qkv_graph_memory(graph, (size_t)s->count * sizeof(struct qkv_tensor *));
    struct looked looked = {0};
    if (!list) return looked;
    for (int64_t t = 0; t < s->count; t++) list[t] = s->looked[t].weights;
    looked.weights = arrange(graph, s, source, list);
    for (int64_t t = 0; t < s->count; t++) list[t] = s->looked[t].states;
    looked.states = qkv_gather_rows(graph, join(graph, list, s->count), s->place, s->batch->target_tokens);
    return looked;
}

struct qkv_tensor *qkv_recurrent_by_steps(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, const struct source *source,
                                          struct looked *looked)
{
    struct steps s = {.batch = batch};
    int64_t layers = model->config.decoder.num_layers, rows = batch->target_tokens;
    if (!make_room(&s, graph, layers)) return NULL;
    plan(&s);
    struct qkv_tensor *gates = qkv_recurrent_embed(model, graph, s.ids, rows);
    for (int64_t l = 0; l < layers; l++)
        s.state[l] =
            source->initial[l] ? qkv_gather_rows(graph, source->initial[l], s.order, batch->count) : NULL;
    for (int64_t t = 0; t < s.count; t++) take_step(model, graph, &s, gates, source, t);
    if (looked) *looked = arrange_looked(graph, &s, source);
    return qkv_gather_rows(graph, join(graph, s.found, s.count), s.place, rows);
}
