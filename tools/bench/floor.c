/* The measurement of the matrix products of a training step and nothing else, by OpenBLAS, on data that flows
 * as in the model. Sentences are split over threads; each thread calls the matrix library, which
 * uses one thread inside. */
#include "bench.h"

#include "qkv/arena.h"
#include "qkv/workers.h"

#include <cblas.h>
#include <stdlib.h>

/* The arguments of cblas_sgemm: c = a b + beta c, where a and b may be transposed. */
struct product {
    bool transpose_a, transpose_b;
    int m, n, k, lda, ldb, ldc;
    const float *a, *b;
    float *c;
    float beta;
};

/* The products of one thread in a step. Backward runs its list from the end. */
struct product_list {
    struct product *forward, *backward;
    int64_t forward_count, backward_count, capacity;
    struct qkv_arena arena;
    bool failed;
};

/* A matrix and its gradient; rows are `stride` numbers apart. */
struct matrix {
    float *value, *gradient;
    int64_t stride;
};

static struct matrix matrix_new(struct product_list *list, int64_t rows, int64_t columns)
{
    int64_t count = rows * columns;
    struct matrix matrix = {qkv_arena_zeroed(&list->arena, (size_t)count * sizeof(float)),
                            qkv_arena_zeroed(&list->arena, (size_t)count * sizeof(float)), columns};
    if (!matrix.value || !matrix.gradient) {
        list->failed = true;
        return (struct matrix){NULL, NULL, columns};
    }
    for (int64_t i = 0; i < count; i++) matrix.value[i] = (float)(i % 1021 - 510) / 4096;
    return matrix;
}

static void add(struct product_list *list, bool backward, struct product product)
{
    if (list->forward_count == list->capacity || list->backward_count == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 1024;
        struct product *grown_forward = realloc(list->forward, (size_t)capacity * sizeof *grown_forward);
        if (grown_forward) list->forward = grown_forward;
        struct product *grown_backward = realloc(list->backward, (size_t)capacity * sizeof *grown_backward);
        if (grown_backward) list->backward = grown_backward;
        if (!grown_forward || !grown_backward) {
            list->failed = true;
            return;
        }
        list->capacity = capacity;
    }
    if (backward)
        list->backward[list->backward_count++] = product;
    else
        list->forward[list->forward_count++] = product;
}

struct sizes {
    int64_t rows, columns, inner;
};

/* Adds the product y [rows, columns] = a [rows, inner] b [inner, columns] and both products of its
 * backward pass. With `transpose_b`, b is [columns, inner]. */
static void add_product(struct product_list *list, struct sizes sizes, struct matrix a, struct matrix b,
                        bool transpose_b, struct matrix y)
{
    int m = (int)sizes.rows, n = (int)sizes.columns, k = (int)sizes.inner;
    int lda = (int)a.stride, ldb = (int)b.stride, ldy = (int)y.stride;
    add(list, false,
        (struct product){false, transpose_b, m, n, k, lda, ldb, ldy, a.value, b.value, y.value, 0});
    if (transpose_b)
        add(list, true,
            (struct product){true, false, n, k, m, ldy, lda, ldb, y.gradient, a.value, b.gradient, 0});
    else
        add(list, true,
            (struct product){true, false, k, n, m, lda, ldy, ldb, a.value, y.gradient, b.gradient, 0});
    add(list, true,
        (struct product){false, !transpose_b, m, k, n, ldy, ldb, lda, y.gradient, b.value, a.gradient, 0});
}

static struct matrix dense(struct product_list *list, int64_t rows, int64_t inner, int64_t columns,
                           struct matrix x)
{
    struct matrix weight = matrix_new(list, inner, columns), y = matrix_new(list, rows, columns);
    add_product(list, (struct sizes){rows, columns, inner}, x, weight, false, y);
    return y;
}

/* The part of a matrix that begins at a row and column. */
static struct matrix part_of(struct matrix matrix, int64_t row, int64_t column)
{
    int64_t offset = row * matrix.stride + column;
    return (struct matrix){matrix.value + offset, matrix.gradient + offset, matrix.stride};
}

/* The sentences of the source or target side. */
struct side {
    int64_t count, rows;
    const int64_t *start, *length;
};

/* Multi-head attention from x to memory with the sizes of a stack, projections included. */
static struct matrix attention(struct product_list *list, const struct qkv_stack_config *stack,
                               struct matrix x, struct side queries, struct matrix memory, struct side keys)
{
    int64_t d = stack->hidden_size, k = stack->attention.key_width, v = stack->attention.value_width;
    struct matrix query = dense(list, queries.rows, d, k * stack->num_heads, x);
    struct matrix key = dense(list, keys.rows, d, k * stack->num_heads, memory);
    struct matrix value = dense(list, keys.rows, d, v * stack->num_heads, memory);
    struct matrix mix = matrix_new(list, queries.rows, v * stack->num_heads);
    for (int64_t s = 0; s < queries.count; s++) {
        int64_t tq = queries.length[s], tk = keys.length[s];
        for (int64_t h = 0; h < stack->num_heads && !list->failed; h++) {
            struct matrix weights = matrix_new(list, tq, tk);
            add_product(list, (struct sizes){tq, tk, k}, part_of(query, queries.start[s], h * k),
                        part_of(key, keys.start[s], h * k), true, weights);
            add_product(list, (struct sizes){tq, v, tk}, weights, part_of(value, keys.start[s], h * v), false,
                        part_of(mix, queries.start[s], h * v));
        }
    }
    return dense(list, queries.rows, v * stack->num_heads, d, mix);
}

static struct matrix feed_forward(struct product_list *list, const struct qkv_stack_config *stack,
                                  int64_t rows, struct matrix x)
{
    return dense(list, rows, stack->ff_size, stack->hidden_size,
                 dense(list, rows, stack->hidden_size, stack->ff_size, x));
}

static void list_make(struct product_list *list, const struct bench_work *work,
                      const struct qkv_batch_view *view)
{
    const struct qkv_stack_config *encoder = &work->config.model.encoder,
                                  *decoder = &work->config.model.decoder;
    struct side source = {view->count, view->source_tokens, view->source_start, view->source_length},
                target = {view->count, view->target_tokens, view->target_start, view->target_length};
    struct matrix x = matrix_new(list, source.rows, encoder->hidden_size);
    for (int64_t i = 0; i < encoder->num_layers; i++) {
        x = attention(list, encoder, x, source, x, source);
        x = feed_forward(list, encoder, source.rows, x);
    }
    struct matrix y = matrix_new(list, target.rows, decoder->hidden_size);
    for (int64_t i = 0; i < decoder->num_layers; i++) {
        y = attention(list, decoder, y, target, y, target);
        y = attention(list, decoder, y, target, x, source);
        y = feed_forward(list, decoder, target.rows, y);
    }
    dense(list, target.rows, decoder->hidden_size, work->target_size, y);
}

static void multiply(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
                p->transpose_b ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, 1.0f, p->a, p->lda, p->b,
                p->ldb, p->beta, p->c, p->ldc);
}

static double operations_of(const struct product_list *list)
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
    struct product_list *list;
    int parts;
};

static void multiply_part(void *context, int part)
{
    const struct floor *floor = context;
    const struct product_list *list = &floor->list[part];
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
