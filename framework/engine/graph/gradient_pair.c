/* Pairs: two graphs on different threads, whose gradients of parameters are summed in one block. The first graph writes to
 * the block. The second computes the gradient of each parameter in separate memory, the stage, and adds it to the block
 * when both are complete. The sum has the same bits as that of two blocks, but the stage holds only the few parameters on
 * which backward works at a time. */
#include "core/memory.h"
#include "graph/graph.h"

#include <sched.h>

/* How the second graph adds the gradient of a parameter. */
enum addition {
    NOT_BEGUN,
    IN_PLACE, /* backward adds it, in one addition to each number of the block */
    BY_ROWS,  /* backward computes some rows in the block; the stage keeps those of the first graph */
    STAGED,   /* backward computes it in the stage */
    COMPLETE,
};

/* A parameter of the second graph, and its part of the stage. */
struct part {
    enum addition addition;
    char *memory; /* NULL: no part of the stage */
    size_t bytes;
    struct part *next; /* in the stage */
};

enum { ALIGNMENT = 64 };

struct qkv_gradient_pair {
    const struct qkv_parameters *parameters;
    size_t element_size; /* bytes of one number */
    /* The stage is divided by first fit: a part takes the lowest gap, so that higher pages stay unwritten and take no physical
     * memory. It is as large as all parameters, each of which has one part in a pass, so that there is always a gap. */
    char *stage;
    size_t stage_bytes;
    struct part *first;    /* of the stage, by address */
    struct part *part;     /* [parameters->count] */
    atomic_bool is_done[]; /* [parameters->count]: the progress of the first graph */
};

struct qkv_gradient_pair *qkv_gradient_pair_new(const struct qkv_parameters *parameters)
{
    if (!parameters->values) return NULL; /* more parameters may still be declared */
    size_t count = (size_t)parameters->count;
    struct qkv_gradient_pair *pair = calloc(1, sizeof *pair + count * sizeof pair->is_done[0]);
    if (!pair) return NULL;
    pair->parameters = parameters;
    pair->element_size = qkv_dtype_size(parameters->dtype);
    pair->stage_bytes = (size_t)parameters->elements * pair->element_size + ALIGNMENT;
    pair->part = calloc(count, sizeof *pair->part);
    pair->stage = qkv_block_new(pair->stage_bytes, 0);
    if (pair->stage && (pair->part || !count)) return pair;
    qkv_gradient_pair_free(pair);
    return NULL;
}

void qkv_gradient_pair_free(struct qkv_gradient_pair *pair)
{
    if (!pair) return;
    qkv_block_free(pair->stage, pair->stage_bytes);
    free(pair->part);
    free(pair);
}

void qkv_gradient_pair_reset(struct qkv_gradient_pair *pair)
{
    for (int64_t i = 0; i < pair->parameters->count; i++) {
        atomic_store(&pair->is_done[i], false);
        pair->part[i] = (struct part){0};
    }
    pair->first = NULL;
}

void qkv_graph_set_pair(struct qkv_graph *graph, struct qkv_gradient_pair *pair, bool is_second)
{
    graph->pair = pair;
    graph->is_second = is_second;
    graph->progress = (struct qkv_progress){0};
    if (pair && !is_second) graph->progress = (struct qkv_progress){pair->parameters, pair->is_done};
}

/* ---- the stage ---- */

/* Assigns to a parameter its part of the stage: the lowest gap that is large enough for at most as many bytes as the parameter
 * has. */
static void take_stage(struct qkv_gradient_pair *pair, int64_t index, size_t bytes)
{
    struct part *part = &pair->part[index], **at = &pair->first;
    char *gap = pair->stage;
    part->bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    for (; *at && gap + part->bytes > (*at)->memory; at = &(*at)->next) gap = (*at)->memory + (*at)->bytes;
    QKV_BUG(gap + part->bytes > pair->stage + pair->stage_bytes, "the stage of gradients is full");
    part->memory = gap;
    part->next = *at;
    *at = part;
}

static void return_stage(struct qkv_gradient_pair *pair, struct part *part)
{
    struct part **at = &pair->first;
    while (*at != part) at = &(*at)->next;
    *at = part->next;
    part->memory = NULL;
}

/* to [n] += from */
static void add_numbers(enum qkv_dtype dtype, int64_t n, const void *from, void *to)
{
    if (dtype == QKV_FLOAT32) {
        const float *restrict a = from;
        float *restrict b = to;
        for (int64_t i = 0; i < n; i++) b[i] += a[i];
    } else {
        const double *restrict a = from;
        double *restrict b = to;
        for (int64_t i = 0; i < n; i++) b[i] += a[i];
    }
}

/* ---- rows of an embedding table: rows of tokens that do not occur have no gradient and need no addition ---- */

/* Number of indices of the embedding nodes that use the table x; -1 if another op uses it, or if it is used more than twice. */
static int64_t embedded_rows(const struct qkv_tensor *x)
{
    const struct qkv_tensor *user[] = {x->first_consumer, x->last_consumer};
    int64_t rows = 0;
    if (x->consumers > 2) return -1;
    for (int i = 0; i < 2; i++) {
        if (user[i]->op != QKV_OP_embedding) return -1;
        if (i == 0 || user[1] != user[0]) rows += user[i]->options.index_count;
    }
    return rows;
}

/* Bytes at the start of a part BY_ROWS, which hold one bit for each row of the table. The saved rows follow. */
static size_t row_bits_size(const struct qkv_tensor *x)
{
    return ((size_t)qkv_rows(x) / 8 + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
}

/* Bytes of a part BY_ROWS. Only embedding nodes may use the table x. */
static size_t part_size_by_rows(const struct qkv_tensor *x)
{
    return row_bits_size(x) + (size_t)(embedded_rows(x) * qkv_columns(x)) * x->graph->size;
}

/* With `save`, moves the rows that backward will compute from the block to the stage; otherwise adds the moved rows to the
 * block. */
static void move_rows(struct qkv_tensor *x, const struct part *part, bool save)
{
    const struct qkv_tensor *user[] = {x->first_consumer, x->last_consumer};
    int64_t columns = qkv_columns(x);
    size_t bytes = (size_t)columns * x->graph->size;
    unsigned char *bits = (unsigned char *)part->memory;
    char *saved = part->memory + row_bits_size(x);
    if (save) memset(bits, 0, row_bits_size(x));
    for (int u = 0; u < (user[0] == user[1] ? 1 : 2); u++)
        for (int64_t i = 0; i < user[u]->options.index_count; i++) {
            int64_t row = user[u]->options.indices[i];
            unsigned bit = 1u << row % 8;
            if (!(bits[row / 8] & bit) != save) continue;
            bits[row / 8] = (unsigned char)(bits[row / 8] ^ bit);
            char *to = (char *)x->gradient + (size_t)row * bytes;
            if (save) {
                memcpy(saved, to, bytes);
                memset(to, 0, bytes);
            } else {
                add_numbers(x->graph->dtype, columns, saved, to);
            }
            saved += bytes;
        }
}

/* ---- the two graphs ---- */

/* Whether x is a parameter of the pair. */
static bool is_paired(const struct qkv_tensor *x)
{
    return x && x->binding && x->needs_gradient && x->binding->parameters == x->graph->pair->parameters;
}

static void wait_for_first(const struct qkv_gradient_pair *pair, int64_t index)
{
    enum { SPINS = 2000 }; /* take longer than an op, and less than a time slice of the scheduler */
    for (int spins = 0; !atomic_load_explicit(&pair->is_done[index], memory_order_acquire); spins++)
        if (spins > SPINS) sched_yield();
}

static bool accumulates_once(const struct qkv_tensor *x, const struct qkv_tensor *y)
{
    unsigned inputs = y->graph->ops[y->op]->accumulates_once;
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (y->input[i] == x && !(inputs & QKV_INPUT(i))) return false;
    return x->consumers == 1 && y->consumers == 0;
}

static size_t gradient_size(const struct qkv_tensor *x)
{
    return (size_t)x->count * x->graph->size;
}

/* Whether x is an embedding table of which backward computes so few rows that saving them takes no more memory than a
 * second gradient. */
static bool has_few_rows(const struct qkv_tensor *x)
{
    int64_t rows = embedded_rows(x);
    return rows >= 0 && rows <= qkv_rows(x) / 2 && part_size_by_rows(x) <= gradient_size(x);
}

/* Begins the addition of the gradient of the parameter x before the backward of y: the first node whose backward adds to it,
 * or x itself if backward starts there. If backward writes to the block, the gradient of the first graph must be complete there.
 * Called again for later nodes, it does nothing. */
static void begin_addition(struct qkv_tensor *x, const struct qkv_tensor *y)
{
    struct qkv_gradient_pair *pair = x->graph->pair;
    int64_t index = x->parameter->index;
    struct part *part = &pair->part[index];
    if (part->addition != NOT_BEGUN) return;
    part->addition = x == y ? STAGED : accumulates_once(x, y) ? IN_PLACE : has_few_rows(x) ? BY_ROWS : STAGED;
    if (part->addition == STAGED) {
        take_stage(pair, index, gradient_size(x));
        x->gradient = part->memory;
        x->touched = false;
        return;
    }
    if (part->addition == BY_ROWS) take_stage(pair, index, part_size_by_rows(x));
    wait_for_first(pair, index);
    if (part->addition == BY_ROWS) move_rows(x, part, true);
}

/* Completes the sum of both gradients of the parameter x. */
static void complete(struct qkv_tensor *x)
{
    struct qkv_gradient_pair *pair = x->graph->pair;
    int64_t index = x->parameter->index;
    struct part *part = &pair->part[index];
    if (part->addition == BY_ROWS) move_rows(x, part, false);
    if (part->addition == STAGED) {
        x->gradient = x->binding->gradients + (size_t)x->parameter->offset * pair->element_size;
        wait_for_first(pair, index);
        if (x->touched) add_numbers(x->graph->dtype, x->count, part->memory, x->gradient);
        x->touched = true;
    }
    if (part->memory) return_stage(pair, part);
    part->addition = COMPLETE;
}

void qkv_pair_before(struct qkv_tensor *y)
{
    if (!y->graph->pair || !y->graph->is_second) return;
    if (is_paired(y)) begin_addition(y, y);
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (is_paired(y->input[i])) begin_addition(y->input[i], y);
}

void qkv_pair_after(const struct qkv_tensor *y)
{
    if (!y->graph->pair || !y->graph->is_second) return;
    for (int i = 0; i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *x = y->input[i];
        if (is_paired(x) && x->first_consumer == y &&
            y->graph->pair->part[x->parameter->index].addition != COMPLETE)
            complete(x);
    }
}

void qkv_graph_finish_pair(struct qkv_graph *graph)
{
    struct qkv_gradient_pair *pair = graph->pair;
    if (!pair) return;
    const struct qkv_binding *binding = qkv_binding_of(graph, pair->parameters);
    for (int64_t i = 0; i < pair->parameters->count; i++) {
        if (!graph->is_second)
            atomic_store_explicit(&pair->is_done[i], true, memory_order_release);
        else if (pair->part[i].addition != NOT_BEGUN && pair->part[i].addition != COMPLETE)
            complete(binding->leaf[i]);
    }
}
