/* Decoding for every network: each step runs the forced pass over all tokens so far. Slow, because nothing is kept
 * between steps; faster decodings are tested against it. */
#include "models/network.h"

#include "qkv/ops.h"

#include <string.h>

struct plain_decoding {
    struct qkv_decoding base;
    struct qkv_batch_view batch; /* the sources: arrays of base.arena */
    int64_t longest_source;

    int32_t *tokens, *next_tokens; /* [rows, length]: what was fed; reordering writes the second and swaps */

    /* The batch of a step: row i is the source of row i with the tokens so far. */
    int32_t *source;         /* [rows * longest source] */
    bool *source_masked;     /* [rows * longest source]; NULL: nothing is masked */
    int32_t *input, *output; /* [rows * length]; output is never read */
    int64_t *source_start, *source_length, *target_start, *target_length, *index; /* [rows] */
    int32_t *last; /* [rows]: the last token of each row, in `input` */
};

static struct plain_decoding *plain_decoding_of(struct qkv_decoding *decoding)
{
    return (struct plain_decoding *)decoding; /* base is the first member */
}

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct plain_decoding *d = plain_decoding_of(decoding);
    struct qkv_arena *arena = &decoding->arena;
    size_t rows = (size_t)decoding->rows, cells = rows * (size_t)decoding->length;
    d->batch = *batch;
    d->longest_source = 0;
    for (int64_t s = 0; s < batch->count; s++)
        if (batch->source_length[s] > d->longest_source) d->longest_source = batch->source_length[s];
    int32_t **ids[] = {&d->tokens, &d->next_tokens, &d->input, &d->output};
    int64_t **numbers[] = {&d->source_start, &d->source_length, &d->target_start, &d->target_length,
                           &d->index};
    bool complete = true;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        complete &= (*ids[i] = qkv_arena_zeroed(arena, cells * sizeof **ids[i])) != NULL;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        complete &= (*numbers[i] = qkv_arena_zeroed(arena, rows * sizeof **numbers[i])) != NULL;
    d->last = qkv_arena_zeroed(arena, rows * sizeof *d->last);
    d->source = qkv_arena_zeroed(arena, rows * (size_t)d->longest_source * sizeof *d->source);
    size_t sources = rows * (size_t)d->longest_source;
    d->source_masked =
        batch->source_masked ? qkv_arena_zeroed(arena, sources * sizeof *d->source_masked) : NULL;
    if (!complete || !d->last || !d->source || (batch->source_masked && !d->source_masked))
        return qkv_error_set(error, "out of memory for %lld hypotheses of %lld tokens",
                             (long long)decoding->rows, (long long)decoding->length);
    return QKV_OK;
}

/* The batch of this step. */
static struct qkv_batch_view fill(struct plain_decoding *d, int64_t rows, const int64_t *sentences)
{
    int64_t length = d->base.step + 1, sources = 0;
    for (int64_t i = 0; i < rows; i++) {
        int64_t count = d->batch.source_length[sentences[i]], first = d->batch.source_start[sentences[i]];
        memcpy(d->source + sources, d->batch.source + first, (size_t)count * sizeof *d->source);
        if (d->source_masked)
            memcpy(d->source_masked + sources, d->batch.source_masked + first,
                   (size_t)count * sizeof *d->source_masked);
        memcpy(d->input + i * length, d->tokens + i * d->base.length, (size_t)length * sizeof *d->input);
        d->source_start[i] = sources;
        d->source_length[i] = count;
        d->target_start[i] = i * length;
        d->target_length[i] = length;
        d->index[i] = i;
        d->last[i] = (int32_t)((i + 1) * length - 1);
        sources += count;
    }
    return (struct qkv_batch_view){
        .count = rows,
        .source_tokens = sources,
        .target_tokens = rows * length,
        .index = d->index,
        .source = d->source,
        .source_start = d->source_start,
        .source_length = d->source_length,
        .target_input = d->input,
        .target_output = d->output,
        .target_start = d->target_start,
        .target_length = d->target_length,
        .source_masked = d->source_masked,
    };
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct plain_decoding *d = plain_decoding_of(decoding);
    struct qkv_graph *graph = decoding->decoder;
    for (int64_t i = 0; i < rows; i++) d->tokens[i * decoding->length + decoding->step] = ids[i];
    const struct qkv_batch_view batch = fill(d, rows, sentences);
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, true);
    struct qkv_tensor *hidden =
        qkv_model_forward(decoding->model, graph, &batch, NULL); /* [rows * length, D] */
    qkv_decoding_add_output(decoding, qkv_gather_rows(graph, hidden, d->last, rows));
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    return qkv_graph_check(graph, error);
}

static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct plain_decoding *d = plain_decoding_of(decoding);
    for (int64_t i = 0; i < rows; i++)
        memcpy(d->next_tokens + i * decoding->length, d->tokens + parents[i] * decoding->length,
               (size_t)decoding->step * sizeof *d->tokens);
    int32_t *previous = d->tokens;
    d->tokens = d->next_tokens;
    d->next_tokens = previous;
}

const struct qkv_decoding_interface qkv_plain_decoding = {
    .size = sizeof(struct plain_decoding),
    .start = start,
    .step = step,
    .reorder = reorder,
};
