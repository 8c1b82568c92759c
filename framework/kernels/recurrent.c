/* Recurrent cells over complete sequences. The input products of all steps are computed before, by one
 * product. Each step processes all sentences that are long enough (active): one product of [active, H]
 * with the recurrent weight. What a step saves is time-major, so that the gradient of the weight is one
 * product over all steps. */
#include "kernels/attention.h"
#include "kernels/gemm.h"

/* A type of cell. Rows consist of blocks of n = H numbers. A row of `block` holds first the blocks that
 * the product with the recurrent weight is added to, then what else the cell keeps. */
struct cell {
    int product;       /* blocks of H in the product with the recurrent weight */
    int blocks;        /* blocks of H in a row of `block` */
    int states;        /* 1: rows of the result are h; 2: h and c */
    int bias, initial; /* index of these inputs; bias 0: none */
    bool carries_h;    /* whether h' depends on h other than through the product */

    /* block: pre-activations, which become activations; `before` and `state`: rows of the result. */
    void (*forward)(int64_t n, real *restrict block, const real *restrict before, real *restrict state);

    /* d: gradient of `state`; its part for c is replaced by the gradient of the c in `before`. Writes the
     * gradient of the pre-activations and, if carries_h, to `carried` the part of dh that does not pass
     * through the product. */
    void (*backward)(int64_t n, const real *restrict block, const real *restrict before,
                     const real *restrict state, real *restrict d, real *restrict dblock,
                     real *restrict carried);
};

/* ---- the cells ---- */

/* h' = tanh(x + h W);  dz = dh' (1 - h'^2) */
static void rnn_forward(int64_t n, real *restrict block, const real *restrict before, real *restrict state)
{
    (void)before;
    for (int64_t j = 0; j < n; j++) state[j] = fast_tanh(block[j]);
}

static void rnn_backward(int64_t n, const real *restrict block, const real *restrict before,
                         const real *restrict state, real *restrict d, real *restrict dblock,
                         real *restrict carried)
{
    (void)block, (void)before, (void)carried;
    for (int64_t j = 0; j < n; j++) dblock[j] = d[j] * (1 - state[j] * state[j]);
}

/* block: r, z, q = h W_n + b, n.  r, z = sigmoid(x + h W), n = tanh(x_n + r q), h' = (1 - z) n + z h */
static void gru_forward(int64_t n, real *restrict block, const real *restrict before, real *restrict state)
{
    real *restrict r = block, *restrict z = block + n, *restrict q = block + 2 * n,
                   *restrict c = block + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        r[j] = fast_sigmoid(r[j]);
        z[j] = fast_sigmoid(z[j]);
        c[j] = fast_tanh(c[j] + r[j] * q[j]);
        state[j] = c[j] + z[j] * (before[j] - c[j]);
    }
}

/* dn = dh' (1 - z) (1 - n^2), dz = dh' (h - n) z (1 - z), dq = dn r, dr = dn q r (1 - r), dh = dh' z */
static void gru_backward(int64_t n, const real *restrict block, const real *restrict before,
                         const real *restrict state, real *restrict d, real *restrict dblock,
                         real *restrict carried)
{
    (void)state;
    const real *restrict r = block, *restrict z = block + n, *restrict q = block + 2 * n,
                         *restrict c = block + 3 * n;
    real *restrict dr = dblock, *restrict dz = dblock + n, *restrict dq = dblock + 2 * n,
                   *restrict dc = dblock + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        real inner = d[j] * (1 - z[j]) * (1 - c[j] * c[j]);
        dc[j] = inner;
        dz[j] = d[j] * (before[j] - c[j]) * z[j] * (1 - z[j]);
        dq[j] = inner * r[j];
        dr[j] = inner * q[j] * r[j] * (1 - r[j]);
        carried[j] = d[j] * z[j];
    }
}

/* block: i, f, g, o.  c' = f c + i g, h' = o tanh(c') */
static void lstm_forward(int64_t n, real *restrict block, const real *restrict before, real *restrict state)
{
    real *restrict i = block, *restrict f = block + n, *restrict g = block + 2 * n,
                   *restrict o = block + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        i[j] = fast_sigmoid(i[j]);
        f[j] = fast_sigmoid(f[j]);
        g[j] = fast_tanh(g[j]);
        o[j] = fast_sigmoid(o[j]);
        real c = f[j] * before[n + j] + i[j] * g[j];
        state[n + j] = c;
        state[j] = o[j] * fast_tanh(c);
    }
}

/* do = dh' tanh(c'), dc' += dh' o (1 - tanh(c')^2), di = dc' g, df = dc' c, dg = dc' i, dc = dc' f */
static void lstm_backward(int64_t n, const real *restrict block, const real *restrict before,
                          const real *restrict state, real *restrict d, real *restrict dblock,
                          real *restrict carried)
{
    (void)carried;
    const real *restrict i = block, *restrict f = block + n, *restrict g = block + 2 * n,
                         *restrict o = block + 3 * n;
    real *restrict di = dblock, *restrict df = dblock + n, *restrict dg = dblock + 2 * n,
                   *restrict dout = dblock + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        real tanh_c = fast_tanh(state[n + j]);
        real dc = d[n + j] + d[j] * o[j] * (1 - tanh_c * tanh_c);
        dout[j] = d[j] * tanh_c * o[j] * (1 - o[j]);
        di[j] = dc * g[j] * i[j] * (1 - i[j]);
        df[j] = dc * before[n + j] * f[j] * (1 - f[j]);
        dg[j] = dc * i[j] * (1 - g[j] * g[j]);
        d[n + j] = dc * f[j];
    }
}

static const struct cell RNN = {1, 1, 1, 0, 2, false, rnn_forward, rnn_backward};
static const struct cell GRU = {3, 4, 1, 2, 3, true, gru_forward, gru_backward};
static const struct cell LSTM = {4, 4, 2, 0, 2, false, lstm_forward, lstm_backward};

/* ---- steps ---- */

struct walk {
    const struct qkv_segments *segments;
    int64_t rows, sentences, longest, tokens; /* tokens: of all sentences */
    int64_t n, product, block, state;         /* widths: H, and of rows of product, block and result */
    bool reverse;
    const real *initial;
};

static struct walk walk_of(const struct qkv_tensor *y, const struct cell *cell)
{
    const struct qkv_tensor *initial = y->input[cell->initial];
    struct walk w = {
        .segments = &y->options.segments,
        .rows = y->input[0]->shape.size[0],
        .sentences = qkv_segment_count(&y->options.segments),
        .n = y->input[1]->shape.size[0],
        .reverse = y->options.reverse,
        .initial = initial ? initial->value : NULL,
    };
    w.longest = longest_segment(w.segments, w.rows);
    for (int64_t s = 0; s < w.sentences; s++) w.tokens += qkv_segment_length(w.segments, s, w.rows);
    w.product = cell->product * w.n;
    w.block = cell->blocks * w.n;
    w.state = cell->states * w.n;
    return w;
}

static bool is_active(const struct walk *w, int64_t s, int64_t step)
{
    return step < qkv_segment_length(w->segments, s, w->rows);
}

static int64_t count_active(const struct walk *w, int64_t step)
{
    int64_t active = 0;
    for (int64_t s = 0; s < w->sentences; s++) active += is_active(w, s, step);
    return active;
}

/* The row that a step processes of sentence s. */
static int64_t row_at(const struct walk *w, int64_t s, int64_t step)
{
    int64_t last = qkv_segment_length(w->segments, s, w->rows) - 1;
    return qkv_segment_start(w->segments, s) + (w->reverse ? last - step : step);
}

/* The state that a step starts from. */
static const real *state_before(const struct walk *w, int64_t s, int64_t step, const real *states,
                                const real *zeros)
{
    if (step > 0) return states + row_at(w, s, step - 1) * w->state;
    return w->initial ? w->initial + s * w->state : zeros;
}

static bool has_product(const struct walk *w, int64_t step)
{
    return step > 0 || w->initial;
}

/* Fills a row of `block` from gates and bias. A GRU keeps one block more than the product: the third
 * block of the gates goes after the product, and the bias takes its place. */
static void fill_block(const struct walk *w, const real *gates, const real *bias, real *block)
{
    if (w->block == w->product) {
        memcpy(block, gates, (size_t)w->product * sizeof(real));
        return;
    }
    int64_t both = w->product - w->n;
    memcpy(block, gates, (size_t)both * sizeof(real));
    if (bias)
        memcpy(block + both, bias, (size_t)w->n * sizeof(real));
    else
        memset(block + both, 0, (size_t)w->n * sizeof(real));
    memcpy(block + w->product, gates + both, (size_t)w->n * sizeof(real));
}

static void cell_forward(struct qkv_tensor *y, const struct cell *cell)
{
    struct walk w = walk_of(y, cell);
    const real *gates = y->input[0]->value, *weight = y->input[1]->value;
    const real *bias = cell->bias && y->input[cell->bias] ? y->input[cell->bias]->value : NULL;
    real *states = y->value, *zeros = scratch_of(y);
    real *block = y->saved, *hidden = block + w.rows * w.block; /* of the previous step */
    memset(zeros, 0, (size_t)w.state * sizeof(real));
    if (w.segments->count) memset(states, 0, (size_t)y->count * sizeof(real)); /* rows outside all segments */
    for (int64_t step = 0; step < w.longest; step++) {
        int64_t active = 0;
        for (int64_t s = 0; s < w.sentences; s++) {
            if (!is_active(&w, s, step)) continue;
            fill_block(&w, gates + row_at(&w, s, step) * w.product, bias, block + active * w.block);
            memcpy(hidden + active * w.n, state_before(&w, s, step, states, zeros),
                   (size_t)w.n * sizeof(real));
            active++;
        }
        if (has_product(&w, step))
            gemm(false, false, active, w.product, w.n, hidden, w.n, weight, w.product, 1, block, w.block);
        for (int64_t s = 0; s < w.sentences; s++) {
            if (!is_active(&w, s, step)) continue;
            cell->forward(w.n, block, state_before(&w, s, step, states, zeros),
                          states + row_at(&w, s, step) * w.state);
            block += w.block;
        }
        hidden += active * w.n;
    }
}

/* ---- backward ---- */

/* The scratch of backward. */
struct workspace {
    real *zeros;        /* [state] */
    real *dblock;       /* [tokens, block], time-major */
    real *d;            /* [sentences, state]: gradients of the states of one step */
    real *next_dh, *dh; /* [active, n]: dh through the product, of the next step and of this one */
};

static struct workspace workspace_of(struct qkv_tensor *y, const struct walk *w)
{
    real *at = scratch_of(y);
    struct workspace workspace = {.zeros = at};
    workspace.dblock = at + w->state;
    workspace.d = workspace.dblock + w->tokens * w->block;
    workspace.next_dh = workspace.d + w->sentences * w->state;
    workspace.dh = workspace.next_dh + w->sentences * w->n;
    memset(workspace.zeros, 0, (size_t)w->state * sizeof(real));
    return workspace;
}

/* The gradients of all sentences of one step, whose rows begin at `at`. */
static void step_backward(struct qkv_tensor *y, const struct cell *cell, const struct walk *w,
                          struct workspace *workspace, int64_t step, int64_t at)
{
    const real *states = y->value, *dy = y->gradient, *block = (const real *)y->saved + at * w->block;
    real *dblock = workspace->dblock + at * w->block, *dh = workspace->dh;
    const real *next_dh = workspace->next_dh;
    for (int64_t s = 0; s < w->sentences; s++) {
        if (!is_active(w, s, step)) continue;
        int64_t row = row_at(w, s, step);
        real *d = workspace->d + s * w->state;
        const real *dy_row = dy + row * w->state;
        if (is_active(w, s, step + 1)) {
            for (int64_t j = 0; j < w->n; j++) d[j] = dy_row[j] + next_dh[j];
            for (int64_t j = w->n; j < w->state; j++) d[j] += dy_row[j];
            next_dh += w->n;
        } else {
            memcpy(d, dy_row, (size_t)w->state * sizeof(real));
        }
        cell->backward(w->n, block, state_before(w, s, step, states, workspace->zeros),
                       states + row * w->state, d, dblock, dh);
        block += w->block;
        dblock += w->block;
        dh += w->n;
    }
}

/* dgates += dblock: the reverse of fill_block. */
static void gates_backward(struct qkv_tensor *y, const struct walk *w, const real *dblock)
{
    real *dgates = gradient_of(y->input[0]);
    int64_t tail =
        w->block == w->product ? 0 : w->n; /* columns of the gates that are stored after the product */
    for (int64_t step = 0; dgates && step < w->longest; step++)
        for (int64_t s = 0; s < w->sentences; s++) {
            if (!is_active(w, s, step)) continue;
            real *to = dgates + row_at(w, s, step) * w->product;
            accumulate(w->product - tail, 1, dblock, to);
            if (tail) accumulate(tail, 1, dblock + w->product, to + w->product - tail);
            dblock += w->block;
        }
}

/* dW = sum over all steps of h^T dz; the first step has no h if there is no initial state. */
static void weight_backward(struct qkv_tensor *y, const struct walk *w, const real *dblock)
{
    int64_t first = w->initial ? 0 : count_active(w, 0);
    const real *hidden = (const real *)y->saved + w->rows * w->block;
    real beta;
    if (w->tokens == first) {
        gradient_of(y->input[1]);
        return;
    }
    real *dw = claim_gradient(y->input[1], &beta);
    if (dw)
        gemm(true, false, w->n, w->product, w->tokens - first, hidden + first * w->n, w->n,
             dblock + first * w->block, w->block, beta, dw, w->product);
}

static void initial_backward(struct qkv_tensor *y, const struct cell *cell, const struct walk *w,
                             const struct workspace *workspace)
{
    real *dinitial = gradient_of(y->input[cell->initial]);
    const real *next_dh = workspace->next_dh;
    for (int64_t s = 0; dinitial && s < w->sentences; s++) {
        if (!is_active(w, s, 0)) continue;
        accumulate(w->n, 1, next_dh, dinitial + s * w->state);
        accumulate(w->state - w->n, 1, workspace->d + s * w->state + w->n, dinitial + s * w->state + w->n);
        next_dh += w->n;
    }
}

/* dz of each step from the last to the first, dh = dz W^T + what the cell carries; then the inputs. */
static void cell_backward(struct qkv_tensor *y, const struct cell *cell)
{
    struct walk w = walk_of(y, cell);
    struct workspace workspace = workspace_of(y, &w);
    const real *weight = y->input[1]->value;
    int64_t at = w.tokens;
    for (int64_t step = w.longest - 1; step >= 0; step--) {
        int64_t active = count_active(&w, step);
        at -= active;
        step_backward(y, cell, &w, &workspace, step, at);
        if (has_product(&w, step))
            gemm(false, true, active, w.n, w.product, workspace.dblock + at * w.block, w.block, weight,
                 w.product, cell->carries_h ? 1 : 0, workspace.dh, w.n);
        real *dh = workspace.dh;
        workspace.dh = workspace.next_dh;
        workspace.next_dh = dh;
    }
    gates_backward(y, &w, workspace.dblock);
    weight_backward(y, &w, workspace.dblock);
    if (w.initial) initial_backward(y, cell, &w, &workspace);
    real *dbias = cell->bias ? gradient_of(y->input[cell->bias]) : NULL;
    for (int64_t i = 0; dbias && i < w.tokens; i++)
        accumulate(w.n, 1, workspace.dblock + i * w.block + w.product - w.n, dbias);
}

/* ---- shapes ---- */

static bool cell_shape(struct qkv_tensor *y, const struct cell *cell)
{
    const struct qkv_tensor *gates = y->input[0], *weight = y->input[1], *initial = y->input[cell->initial];
    if (weight->shape.rank != 2 || weight->shape.size[1] != cell->product * weight->shape.size[0])
        return qkv_refuse(y, "weight is %s, but must be [H, %d H]", qkv_shape_text(weight->shape),
                          cell->product);
    if (gates->shape.rank != 2 || gates->shape.size[1] != weight->shape.size[1])
        return qkv_refuse(y, "gates are %s, but weight is %s", qkv_shape_text(gates->shape),
                          qkv_shape_text(weight->shape));
    if (!check_segments(y, &y->options.segments, gates->shape.size[0], "gates")) return false;
    struct walk w = walk_of(y, cell);
    if (cell->bias && !check_vector(y, y->input[cell->bias], w.n, "bias")) return false;
    if (initial && (initial->shape.rank != 2 || initial->shape.size[0] != w.sentences ||
                    initial->shape.size[1] != w.state))
        return qkv_refuse(y, "initial is %s, but must be [%lld, %lld]", qkv_shape_text(initial->shape),
                          (long long)w.sentences, (long long)w.state);
    y->shape = QKV_SHAPE(w.rows, w.state);
    y->saved_count = w.rows * w.block + w.tokens * w.n;
    y->scratch = w.state + w.tokens * w.block + w.sentences * (w.state + 2 * w.n);
    return true;
}

#define CELL(name, kind)                                                                                     \
    static bool name##_op_shape(struct qkv_tensor *y)                                                        \
    {                                                                                                        \
        return cell_shape(y, &kind);                                                                         \
    }                                                                                                        \
    static void name##_op_forward(struct qkv_tensor *y)                                                      \
    {                                                                                                        \
        cell_forward(y, &kind);                                                                              \
    }                                                                                                        \
    static void name##_op_backward(struct qkv_tensor *y)                                                     \
    {                                                                                                        \
        cell_backward(y, &kind);                                                                             \
    }

CELL(rnn, RNN)
CELL(gru, GRU)
CELL(lstm, LSTM)

static const int64_t STARTS[] = {1, 3, 4}, LENGTHS[] = {2, 1, 4}, NONE_LENGTHS[] = {2, 0, 4};
static const int64_t ONE_STARTS[] = {0, 1}, ONE_LENGTHS[] = {1, 1};
#define RAGGED .segments = {3, STARTS, LENGTHS}
#define EMPTY  .segments = {3, STARTS, NONE_LENGTHS}
#define ONE    .segments = {2, ONE_STARTS, ONE_LENGTHS}

static const struct qkv_sample rnn_good[] = {
    {"ragged, rows outside", {SHAPE(9, 3), SHAPE(3, 3)}, .options = OPTIONS(RAGGED)},
    {"from a state, reverse",
     {SHAPE(8, 3), SHAPE(3, 3), SHAPE(3, 3)},
     .options = OPTIONS(RAGGED, .reverse = true)},
    {"one sentence", {SHAPE(4, 2), SHAPE(2, 2)}},
    {0},
};
static const struct qkv_sample gru_good[] = {
    {"ragged, rows outside", {SHAPE(9, 9), SHAPE(3, 9), SHAPE(3)}, .options = OPTIONS(RAGGED)},
    {"from a state, reverse",
     {SHAPE(8, 9), SHAPE(3, 9), SHAPE(3), SHAPE(3, 3)},
     .options = OPTIONS(RAGGED, .reverse = true)},
    {"no bias, one word each", {SHAPE(2, 6), SHAPE(2, 6), {0}, SHAPE(2, 2)}, .options = OPTIONS(ONE)},
    {"an empty sentence", {SHAPE(8, 6), SHAPE(2, 6), SHAPE(2), SHAPE(3, 2)}, .options = OPTIONS(EMPTY)},
    {"one sentence, constant gates", {SHAPE(4, 6), SHAPE(2, 6), SHAPE(2)}, .constant = 1},
    {0},
};
static const struct qkv_sample lstm_good[] = {
    {"ragged, rows outside", {SHAPE(9, 12), SHAPE(3, 12)}, .options = OPTIONS(RAGGED)},
    {"from a state, reverse",
     {SHAPE(8, 12), SHAPE(3, 12), SHAPE(3, 6)},
     .options = OPTIONS(RAGGED, .reverse = true)},
    {"one word each", {SHAPE(2, 8), SHAPE(2, 8)}, .options = OPTIONS(ONE)},
    {"one word each, from a state", {SHAPE(2, 8), SHAPE(2, 8), SHAPE(2, 4)}, .options = OPTIONS(ONE)},
    {"an empty sentence", {SHAPE(8, 8), SHAPE(2, 8), SHAPE(3, 4)}, .options = OPTIONS(EMPTY)},
    {"one sentence, constant weight", {SHAPE(5, 8), SHAPE(2, 8)}, .constant = 2},
    {0},
};
static const struct qkv_sample rnn_bad[] = {
    {"weight", {SHAPE(8, 3), SHAPE(3, 4)}, .message = "weight is [3, 4], but must be [H, 1 H]"},
    {"gates", {SHAPE(8, 4), SHAPE(3, 3)}, .message = "gates are [8, 4], but weight is [3, 3]"},
    {0},
};
static const struct qkv_sample gru_bad[] = {
    {"bias", {SHAPE(8, 9), SHAPE(3, 9), SHAPE(9)}, .message = "bias is [9], but must be [3]"},
    {"initial",
     {SHAPE(8, 9), SHAPE(3, 9), SHAPE(3), SHAPE(1, 3)},
     .options = OPTIONS(RAGGED),
     .message = "initial is [1, 3], but must be [3, 3]"},
    {0},
};
static const struct qkv_sample lstm_bad[] = {
    {"weight", {SHAPE(8, 12), SHAPE(4, 12)}, .message = "weight is [4, 12], but must be [H, 4 H]"},
    {"initial",
     {SHAPE(8, 12), SHAPE(3, 12), SHAPE(3, 3)},
     .options = OPTIONS(RAGGED),
     .message = "initial is [3, 3], but must be [3, 6]"},
    {"rows",
     {SHAPE(7, 12), SHAPE(3, 12)},
     .options = OPTIONS(RAGGED),
     .message = "segment 2 of gates is rows 4 to 7, but there are 7 rows"},
    {0},
};
OP(rnn, .inputs = 3, .optional = INPUT(2), .backward_reads = INPUT(1) | RESULT, .shape = RULE(rnn_op_shape),
   .forward = rnn_op_forward, .backward = rnn_op_backward, .good = RULE(rnn_good), .bad = RULE(rnn_bad));
OP(gru, .inputs = 4, .optional = INPUT(2) | INPUT(3), .backward_reads = INPUT(1) | INPUT(3) | RESULT,
   .shape = RULE(gru_op_shape), .forward = gru_op_forward, .backward = gru_op_backward,
   .good = RULE(gru_good), .bad = RULE(gru_bad));
OP(lstm, .inputs = 3, .optional = INPUT(2), .backward_reads = INPUT(1) | INPUT(2) | RESULT,
   .shape = RULE(lstm_op_shape), .forward = lstm_op_forward, .backward = lstm_op_backward,
   .good = RULE(lstm_good), .bad = RULE(lstm_bad));
