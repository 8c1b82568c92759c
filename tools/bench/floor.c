/* The floor under a training step: its matrix products, with the flow of data that they have in the model,
 * and nothing else. Sentences are split over threads, each of which calls the library with one thread inside.
 */
#include "bench.h"

#include "qkv/arena.h"
#include "qkv/workers.h"

#include <cblas.h>
#include <stdlib.h>

/* c = a' b' + beta c, sgemm's way. */
struct product {
    bool ta, tb;
    int m, n, k, lda, ldb, ldc;
    const float *a, *b;
    float *c;
    float beta;
};

/* What one thread multiplies in a step. Backward runs in the opposite order of forward. */
struct list {
    struct product *forward, *backward;
    int64_t forward_count, backward_count, room;
    struct qkv_arena arena;
    bool failed;
};

/* A matrix and its gradient. */
struct pair {
    float *value, *gradient;
};

static struct pair pair_new(struct list *list, int64_t count)
{
    struct pair pair = {qkv_arena_zeroed(&list->arena, (size_t)count * sizeof(float)),
                        qkv_arena_zeroed(&list->arena, (size_t)count * sizeof(float))};
    if (!pair.value || !pair.gradient) {
        list->failed = true;
        return (struct pair){NULL, NULL};
    }
    for (int64_t i = 0; i < count; i++) pair.value[i] = (float)(i % 1021 - 510) / 4096;
    return pair;
}

static void add(struct list *list, bool backward, struct product product)
{
    if (list->forward_count == list->room || list->backward_count == list->room) {
        int64_t room = list->room ? 2 * list->room : 1024;
        struct product *forward = realloc(list->forward, (size_t)room * sizeof *forward);
        if (forward) list->forward = forward;
        struct product *behind = realloc(list->backward, (size_t)room * sizeof *behind);
        if (behind) list->backward = behind;
        if (!forward || !behind) {
            list->failed = true;
            return;
        }
        list->room = room;
    }
    if (backward)
        list->backward[list->backward_count++] = product;
    else
        list->forward[list->forward_count++] = product;
}

/* y [m, n] = a [m, k] b' and both gradients; b' is b transposed where asked. Gradients of activations are
 * set, those that several products share are added to. */
static void product(struct list *list, int64_t rows, int64_t columns, int64_t inner, struct pair a,
                    int64_t lda, struct pair b, int64_t ldb, bool transposed, struct pair y, int64_t ldy)
{
    int m = (int)rows, n = (int)columns, k = (int)inner, la = (int)lda, lb = (int)ldb, ly = (int)ldy;
    add(list, false, (struct product){false, transposed, m, n, k, la, lb, ly, a.value, b.value, y.value, 0});
    if (transposed)
        add(list, true,
            (struct product){true, false, n, k, m, ly, la, lb, y.gradient, a.value, b.gradient, 0});
    else
        add(list, true,
            (struct product){true, false, k, n, m, la, ly, lb, a.value, y.gradient, b.gradient, 0});
    add(list, true,
        (struct product){false, !transposed, m, k, n, ly, lb, la, y.gradient, b.value, a.gradient, 0});
}

static struct pair dense(struct list *list, int64_t rows, int64_t inner, int64_t columns, struct pair x)
{
    struct pair weight = pair_new(list, inner * columns), y = pair_new(list, rows * columns);
    product(list, rows, columns, inner, x, inner, weight, columns, false, y, columns);
    return y;
}

static struct pair at(struct pair pair, int64_t i)
{
    return (struct pair){pair.value + i, pair.gradient + i};
}

/* The sentences of one side. */
struct side {
    int64_t count, rows;
    const int64_t *start, *length;
};

/* Attention over `x`, of a stack of that shape, to `memory`, with the projections around it. */
static struct pair attention(struct list *list, const struct qkv_stack_config *stack, struct pair x,
                             struct side queries, struct pair memory, struct side keys)
{
    int64_t d = stack->hidden_size, k = stack->attention.key_width, v = stack->attention.value_width;
    int64_t kh = k * stack->num_heads, vh = v * stack->num_heads;
    struct pair query = dense(list, queries.rows, d, kh, x), key = dense(list, keys.rows, d, kh, memory),
                value = dense(list, keys.rows, d, vh, memory), mix = pair_new(list, queries.rows * vh);
    for (int64_t s = 0; s < queries.count; s++) {
        int64_t tq = queries.length[s], tk = keys.length[s];
        for (int64_t h = 0; h < stack->num_heads && !list->failed; h++) {
            struct pair weights = pair_new(list, tq * tk);
            struct pair q = at(query, queries.start[s] * kh + h * k),
                        ks = at(key, keys.start[s] * kh + h * k);
            struct pair vs = at(value, keys.start[s] * vh + h * v),
                        m = at(mix, queries.start[s] * vh + h * v);
            product(list, tq, tk, k, q, kh, ks, kh, true, weights, tk);
            product(list, tq, v, tk, weights, tk, vs, vh, false, m, vh);
        }
    }
    return dense(list, queries.rows, vh, d, mix);
}

static struct pair feed_forward(struct list *list, const struct qkv_stack_config *stack, int64_t rows,
                                struct pair x)
{
    return dense(list, rows, stack->ff_size, stack->hidden_size,
                 dense(list, rows, stack->hidden_size, stack->ff_size, x));
}

static void list_make(struct list *list, const struct bench_work *work, const struct qkv_batch_view *view)
{
    const struct qkv_stack_config *encoder = &work->config.model.encoder,
                                  *decoder = &work->config.model.decoder;
    struct side source = {view->count, view->source_tokens, view->source_start, view->source_length},
                target = {view->count, view->target_tokens, view->target_start, view->target_length};
    struct pair x = pair_new(list, source.rows * encoder->hidden_size);
    for (int64_t i = 0; i < encoder->num_layers; i++) {
        x = attention(list, encoder, x, source, x, source);
        x = feed_forward(list, encoder, source.rows, x);
    }
    struct pair y = pair_new(list, target.rows * decoder->hidden_size);
    for (int64_t i = 0; i < decoder->num_layers; i++) {
        y = attention(list, decoder, y, target, y, target);
        y = attention(list, decoder, y, target, x, source);
        y = feed_forward(list, decoder, target.rows, y);
    }
    dense(list, target.rows, decoder->hidden_size, work->target_size, y);
}

static void multiply(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans, p->m,
                p->n, p->k, 1.0f, p->a, p->lda, p->b, p->ldb, p->beta, p->c, p->ldc);
}

static double operations_of(const struct list *list)
{
    double sum = 0;
    for (int64_t i = 0; i < list->forward_count; i++)
        sum += 2.0 * list->forward[i].m * list->forward[i].n * list->forward[i].k;
    for (int64_t i = 0; i < list->backward_count; i++)
        sum += 2.0 * list->backward[i].m * list->backward[i].n * list->backward[i].k;
    return sum;
}

struct floor {
    struct qkv_workers *workers;
    struct list *list;
    int parts;
};

static void multiply_part(void *context, int part)
{
    const struct floor *floor = context;
    const struct list *list = &floor->list[part];
    for (int64_t i = 0; i < list->forward_count; i++) multiply(&list->forward[i]);
    for (int64_t i = list->backward_count - 1; i >= 0; i--) multiply(&list->backward[i]);
}

static enum qkv_status floor_step(void *context, int64_t i, struct qkv_error *error)
{
    struct floor *floor = context;
    (void)i, (void)error;
    qkv_workers_run(floor->workers, floor->parts, multiply_part, floor);
    return QKV_OK;
}

enum qkv_status bench_floor(struct bench_work *work, const struct bench_options *options,
                            const struct bench_sink *sink, struct qkv_error *error)
{
    struct floor floor = {.workers = qkv_workers_new((int)options->threads, error)};
    struct bench_result result = {.name = "floor"};
    if (!floor.workers) return QKV_INVALID;
    enum qkv_status status = bench_work_batch(work, 0, error);
    floor.parts = qkv_workers_count(floor.workers);
    floor.list = calloc((size_t)floor.parts, sizeof *floor.list);
    if (!floor.list) status = qkv_error_set(error, "out of memory for %d threads", floor.parts);
    for (int part = 0; part < floor.parts && !status; part++) {
        struct qkv_batch_view view;
        qkv_batch_shard(&work->batch, part, floor.parts, &view);
        if (view.count) list_make(&floor.list[part], work, &view);
        if (floor.list[part].failed) status = qkv_error_set(error, "out of memory for the matrix products");
        result.operations += operations_of(&floor.list[part]);
    }
    if (!status) status = bench_time(options, &result, floor_step, &floor, error);
    if (!status) {
        result.threads = floor.parts;
        result.tokens = (double)(work->batch.source_tokens + work->batch.target_tokens);
        sink->result(sink->context, &result);
    }
    for (int part = 0; floor.list && part < floor.parts; part++) {
        free(floor.list[part].forward);
        free(floor.list[part].backward);
        qkv_arena_release(&floor.list[part].arena);
    }
    free(floor.list);
    qkv_workers_free(floor.workers);
    return status;
}
