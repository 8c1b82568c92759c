/* Ops: recurrent cells (rnn, gru, lstm) over all steps of a batch of sentences. Input 0, `gates`,
 * is x W_x of all words, which one product computes before. Step t processes the active sentences,
 * those longer than t: it multiplies their hidden states h [active, H] with the recurrent weight W
 * [H, product]. The saved rows of all steps follow each other in the order of time, so that one
 * product gives the gradient of W. */
#include "kernels/attention.h"
#include "kernels/gemm.h"

/* A type of cell. All its rows consist of parts of n = H numbers. A row of activations starts with
 * the parts to which h W is added; parts that h W does not reach follow. */
struct cell {
    int product_parts;             /* of a row of h W */
    int activation_parts;          /* of a row of activations */
    int state_parts;               /* of a row of the result; 1: h; 2: h and c */
    int bias_input, initial_input; /* which input is the bias (0: none), and which the initial state */
    bool carries_h;                /* h' depends on h directly, not only through h W */

    /* One step of one sentence. activations: in, pre-activations; out, activations. before, state:
     * the rows of the result before and after the step. */
    void (*forward)(int64_t n, real *restrict activations, const real *restrict before, real *restrict state);

    /* d: the gradient of `state`; an LSTM replaces its second part, the gradient of c, by the gradient
     * of the c in `before`. dpre: receives the gradient of the pre-activations. carried: receives, if
     * carries_h, the part of the gradient of the h in `before` that does not pass through h W. */
    void (*backward)(int64_t n, const real *restrict activations, const real *restrict before,
                     const real *restrict state, real *restrict d, real *restrict dpre,
                     real *restrict carried);
};

/* ---- the cells ---- */

/* h' = tanh(x + h W) */
static void rnn_forward(int64_t n, real *restrict activations, const real *restrict before,
                        real *restrict state)
{
    (void)before;
    for (int64_t j = 0; j < n; j++) state[j] = fast_tanh(activations[j]);
}

/* dpre = dh' (1 - h'^2) */
static void rnn_backward(int64_t n, const real *restrict activations, const real *restrict before,
                         const real *restrict state, real *restrict d, real *restrict dpre,
                         real *restrict carried)
{
    (void)activations, (void)before, (void)carried;
    for (int64_t j = 0; j < n; j++) dpre[j] = d[j] * (1 - state[j] * state[j]);
}

/* Activations: r, z, q, u (Cho et al. 2014, with the reset gate after the product, as in PyTorch), with the
 * candidate u: r, z = sigmoid(x + h W), q = h W_u + b, u = tanh(x_u + r q), h' = (1 - z) u + z h */
static void gru_forward(int64_t n, real *restrict activations, const real *restrict before,
                        real *restrict state)
{
    real *restrict r = activations, *restrict z = activations + n, *restrict q = activations + 2 * n,
                   *restrict u = activations + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        r[j] = fast_sigmoid(r[j]);
        z[j] = fast_sigmoid(z[j]);
        u[j] = fast_tanh(u[j] + r[j] * q[j]);
        state[j] = u[j] + z[j] * (before[j] - u[j]);
    }
}

/* Gradients of the pre-activations: du = dh' (1 - z) (1 - u^2), dz = dh' (h - u) z (1 - z), dq = du r,
 * dr = du q r (1 - r); and dh = dh' z, to which cell_backward adds the part through h W. */
static void gru_backward(int64_t n, const real *restrict activations, const real *restrict before,
                         const real *restrict state, real *restrict d, real *restrict dpre,
                         real *restrict carried)
{
    (void)state;
    const real *restrict r = activations, *restrict z = activations + n, *restrict q = activations + 2 * n,
                         *restrict u = activations + 3 * n;
    real *restrict dr = dpre, *restrict dz = dpre + n, *restrict dq = dpre + 2 * n,
                   *restrict du = dpre + 3 * n;
    for (int64_t j = 0; j < n; j++) {
        real inner = d[j] * (1 - z[j]) * (1 - u[j] * u[j]);
        du[j] = inner;
        dz[j] = d[j] * (before[j] - u[j]) * z[j] * (1 - z[j]);
        dq[j] = inner * r[j];
        dr[j] = inner * q[j] * r[j] * (1 - r[j]);
        carried[j] = d[j] * z[j];
    }
}

/* Activations: i, f, g, o (Hochreiter and Schmidhuber 1997; Gers et al. 2000).
 * i, f, o = sigmoid(x + h W), g = tanh(x + h W), c' = f c + i g, h' = o tanh(c') */
static void lstm_forward(int64_t n, real *restrict activations, const real *restrict before,
                         real *restrict state)
{
    real *restrict i = activations, *restrict f = activations + n, *restrict g = activations + 2 * n,
                   *restrict o = activations + 3 * n;
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

/* dc' += dh' o (1 - tanh(c')^2), dc = dc' f. Gradients of the pre-activations: do = dh' tanh(c') o
 * (1 - o), di = dc' g i (1 - i), df = dc' c f (1 - f), dg = dc' i (1 - g^2) */
static void lstm_backward(int64_t n, const real *restrict activations, const real *restrict before,
                          const real *restrict state, real *restrict d, real *restrict dpre,
                          real *restrict carried)
{
    (void)carried;
    const real *restrict i = activations, *restrict f = activations + n, *restrict g = activations + 2 * n,
                         *restrict o = activations + 3 * n;
    real *restrict di = dpre, *restrict df = dpre + n, *restrict dg = dpre + 2 * n,
                   *restrict dout = dpre + 3 * n;
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

/* product_parts, activation_parts, state_parts, bias_input, initial_input, carries_h */
static const struct cell RNN = {1, 1, 1, 0, 2, false, rnn_forward, rnn_backward};
static const struct cell GRU = {3, 4, 1, 2, 3, true, gru_forward, gru_backward};
static const struct cell LSTM = {4, 4, 2, 0, 2, false, lstm_forward, lstm_backward};

static const struct cell *cell_of(const struct qkv_tensor *y)
{
    return y->op == QKV_OP_rnn ? &RNN : y->op == QKV_OP_gru ? &GRU : &LSTM;
}

/* ---- steps ---- */

/* The sizes of a batch, and where its sentences are. */
struct batch {
    const struct qkv_segments *segments;
    int64_t rows;                       /* of gates and result, those outside all sentences included */
    int64_t sentences, longest, tokens; /* longest: most tokens of a sentence; tokens: of all sentences */
    /* Columns: H, and those of h W, of activations and of the result */
    int64_t n, product, activations, state;
    bool reverse;
    const real *initial; /* [sentences, state] or NULL */
};

static struct batch batch_of(const struct qkv_tensor *y)
{
    const struct cell *cell = cell_of(y);
    const struct qkv_tensor *initial = y->input[cell->initial_input];
    struct batch batch = {
        .segments = &y->options.segments,
        .rows = y->input[0]->shape.size[0],
        .sentences = qkv_segment_count(&y->options.segments),
        .n = y->input[1]->shape.size[0],
        .reverse = y->options.reverse,
        .initial = initial ? initial->value : NULL,
    };
    batch.longest = longest_segment(batch.segments, batch.rows);
    for (int64_t s = 0; s < batch.sentences; s++)
        batch.tokens += qkv_segment_length(batch.segments, s, batch.rows);
    batch.product = cell->product_parts * batch.n;
    batch.activations = cell->activation_parts * batch.n;
    batch.state = cell->state_parts * batch.n;
    return batch;
}

static bool is_active(const struct batch *batch, int64_t s, int64_t step)
{
    return step < qkv_segment_length(batch->segments, s, batch->rows);
}

static int64_t count_active(const struct batch *batch, int64_t step)
{
    int64_t active = 0;
    for (int64_t s = 0; s < batch->sentences; s++) active += is_active(batch, s, step);
    return active;
}

/* The row of gates and result that a step of sentence s processes. */
static int64_t row_at(const struct batch *batch, int64_t s, int64_t step)
{
    int64_t last = qkv_segment_length(batch->segments, s, batch->rows) - 1;
    return qkv_segment_start(batch->segments, s) + (batch->reverse ? last - step : step);
}

/* The state [state] of sentence s before a step. */
static const real *state_before(const struct batch *batch, int64_t s, int64_t step, const real *states,
                                const real *zeros)
{
    if (step > 0) return states + row_at(batch, s, step - 1) * batch->state;
    return batch->initial ? batch->initial + s * batch->state : zeros;
}

/* The first step has no h W if there is no initial state. */
static bool has_product(const struct batch *batch, int64_t step)
{
    return step > 0 || batch->initial;
}

/* Fills a row of pre-activations, to which h W is added next, from a row of gates and the bias. A
 * GRU has one part more than h W: r and z start as parts of the gates, q as the bias, and u as x_u,
 * the third part of the gates. */
static void fill_pre_activations(const struct batch *batch, const real *gates, const real *bias,
                                 real *activations)
{
    if (batch->activations == batch->product) {
        memcpy(activations, gates, (size_t)batch->product * sizeof(real));
        return;
    }
    int64_t gated = batch->product - batch->n;
    memcpy(activations, gates, (size_t)gated * sizeof(real));
    if (bias)
        memcpy(activations + gated, bias, (size_t)batch->n * sizeof(real));
    else
        memset(activations + gated, 0, (size_t)batch->n * sizeof(real));
    memcpy(activations + batch->product, gates + gated, (size_t)batch->n * sizeof(real));
}

/* saved, both ordered by step: the activations [tokens, activations], in memory for `rows` rows, then
 * the h before each step [tokens, H]. */
static void cell_forward(struct qkv_tensor *y)
{
    const struct cell *cell = cell_of(y);
    struct batch batch = batch_of(y);
    const real *gates = y->input[0]->value, *weight = y->input[1]->value;
    const real *bias =
        cell->bias_input && y->input[cell->bias_input] ? y->input[cell->bias_input]->value : NULL;
    real *states = y->value, *zeros = scratch_of(y);
    real *activations = y->saved,
         *hidden = activations + batch.rows * batch.activations; /* h before the step [active, H] */
    memset(zeros, 0, (size_t)batch.state * sizeof(real));
    if (batch.segments->count)
        memset(states, 0, (size_t)y->count * sizeof(real)); /* rows outside all segments */
    for (int64_t step = 0; step < batch.longest; step++) {
        int64_t active = 0;
        for (int64_t s = 0; s < batch.sentences; s++) {
            if (!is_active(&batch, s, step)) continue;
            fill_pre_activations(&batch, gates + row_at(&batch, s, step) * batch.product, bias,
                                 activations + active * batch.activations);
            memcpy(hidden + active * batch.n, state_before(&batch, s, step, states, zeros),
                   (size_t)batch.n * sizeof(real));
            active++;
        }
        if (has_product(&batch, step))
            gemm(false, false, active, batch.product, batch.n, hidden, batch.n, weight, batch.product, 1,
                 activations, batch.activations);
        for (int64_t s = 0; s < batch.sentences; s++) {
            if (!is_active(&batch, s, step)) continue;
            cell->forward(batch.n, activations, state_before(&batch, s, step, states, zeros),
                          states + row_at(&batch, s, step) * batch.state);
            activations += batch.activations;
        }
        hidden += active * batch.n;
    }
}

/* ---- backward ---- */

/* The scratch memory of backward. */
struct workspace {
    real *zeros;        /* [state] */
    real *dpre;         /* [tokens, activations]: gradients of the pre-activations, step by step */
    real *d;            /* [sentences, state]: gradients of the states after one step */
    real *next_dh, *dh; /* [active, H]: gradients of the h after the step at hand, and of the h before it.
                           Backward visits steps from the last to the first: dh is the next_dh of the next visit. */
};

static struct workspace workspace_of(struct qkv_tensor *y, const struct batch *batch)
{
    real *at = scratch_of(y);
    struct workspace workspace = {.zeros = at};
    workspace.dpre = at + batch->state;
    workspace.d = workspace.dpre + batch->tokens * batch->activations;
    workspace.next_dh = workspace.d + batch->sentences * batch->state;
    workspace.dh = workspace.next_dh + batch->sentences * batch->n;
    memset(workspace.zeros, 0, (size_t)batch->state * sizeof(real));
    return workspace;
}

/* Computes dpre and the carried dh of all sentences of one step, whose rows of activations start at
 * row `at`. */
static void step_backward(struct qkv_tensor *y, const struct cell *cell, const struct batch *batch,
                          struct workspace *workspace, int64_t step, int64_t at)
{
    const real *states = y->value, *dy = y->gradient,
               *activations = (const real *)y->saved + at * batch->activations;
    real *dpre = workspace->dpre + at * batch->activations, *dh = workspace->dh;
    const real *next_dh = workspace->next_dh;
    for (int64_t s = 0; s < batch->sentences; s++) {
        if (!is_active(batch, s, step)) continue;
        int64_t row = row_at(batch, s, step);
        real *d = workspace->d + s * batch->state;
        const real *dy_row = dy + row * batch->state;
        if (is_active(batch, s, step + 1)) {
            for (int64_t j = 0; j < batch->n; j++) d[j] = dy_row[j] + next_dh[j];
            for (int64_t j = batch->n; j < batch->state; j++) d[j] += dy_row[j];
            next_dh += batch->n;
        } else {
            memcpy(d, dy_row, (size_t)batch->state * sizeof(real));
        }
        cell->backward(batch->n, activations, state_before(batch, s, step, states, workspace->zeros),
                       states + row * batch->state, d, dpre, dh);
        activations += batch->activations;
        dpre += batch->activations;
        dh += batch->n;
    }
}

/* dgates += dpre, rearranged as fill_pre_activations does it. */
static void gates_backward(struct qkv_tensor *y, const struct batch *batch, const real *dpre)
{
    real *dgates = gradient_of(y->input[0]);
    /* Columns of the gates that are stored after those of h W. */
    int64_t tail = batch->activations == batch->product ? 0 : batch->n;
    for (int64_t step = 0; dgates && step < batch->longest; step++)
        for (int64_t s = 0; s < batch->sentences; s++) {
            if (!is_active(batch, s, step)) continue;
            real *to = dgates + row_at(batch, s, step) * batch->product;
            accumulate(batch->product - tail, 1, dpre, to);
            if (tail) accumulate(tail, 1, dpre + batch->product, to + batch->product - tail);
            dpre += batch->activations;
        }
}

/* dW += h^T dpre, over all steps that have an h W. */
static void weight_backward(struct qkv_tensor *y, const struct batch *batch, const real *dpre)
{
    int64_t first = batch->initial ? 0 : count_active(batch, 0);
    const real *hidden = (const real *)y->saved + batch->rows * batch->activations;
    real beta;
    if (batch->tokens == first) {
        gradient_of(y->input[1]); /* there is nothing to add, but the gradient must hold zeros */
        return;
    }
    real *dw = claim_gradient(y->input[1], &beta);
    if (dw)
        gemm(true, false, batch->n, batch->product, batch->tokens - first, hidden + first * batch->n,
             batch->n, dpre + first * batch->activations, batch->activations, beta, dw, batch->product);
}

/* dinitial += the gradient of the state before the first step. */
static void initial_backward(struct qkv_tensor *y, const struct cell *cell, const struct batch *batch,
                             const struct workspace *workspace)
{
    real *dinitial = gradient_of(y->input[cell->initial_input]);
    const real *next_dh = workspace->next_dh;
    for (int64_t s = 0; dinitial && s < batch->sentences; s++) {
        if (!is_active(batch, s, 0)) continue;
        accumulate(batch->n, 1, next_dh, dinitial + s * batch->state);
        accumulate(batch->state - batch->n, 1, workspace->d + s * batch->state + batch->n,
                   dinitial + s * batch->state + batch->n);
        next_dh += batch->n;
    }
}

/* Computes dpre and dh = dpre W^T + carried dh of each step, from the last to the first. Then adds
 * to the gradients of the inputs: dgates += dpre, dW += h^T dpre, dbias += the sum of the rows of
 * dq. */
static void cell_backward(struct qkv_tensor *y)
{
    const struct cell *cell = cell_of(y);
    struct batch batch = batch_of(y);
    struct workspace workspace = workspace_of(y, &batch);
    const real *weight = y->input[1]->value;
    int64_t at = batch.tokens;
    for (int64_t step = batch.longest - 1; step >= 0; step--) {
        int64_t active = count_active(&batch, step);
        at -= active;
        step_backward(y, cell, &batch, &workspace, step, at);
        if (has_product(&batch, step))
            gemm(false, true, active, batch.n, batch.product, workspace.dpre + at * batch.activations,
                 batch.activations, weight, batch.product, cell->carries_h ? 1 : 0, workspace.dh, batch.n);
        real *dh = workspace.dh;
        workspace.dh = workspace.next_dh;
        workspace.next_dh = dh;
    }
    gates_backward(y, &batch, workspace.dpre);
    weight_backward(y, &batch, workspace.dpre);
    if (batch.initial) initial_backward(y, cell, &batch, &workspace);
    real *dbias = cell->bias_input ? gradient_of(y->input[cell->bias_input]) : NULL;
    if (dbias)
        add_column_sums(batch.tokens, batch.n, workspace.dpre + batch.product - batch.n, batch.activations,
                        dbias);
}

/* ---- shapes ---- */

static bool cell_shape(struct qkv_tensor *y)
{
    const struct cell *cell = cell_of(y);
    const struct qkv_tensor *gates = y->input[0], *weight = y->input[1],
                            *initial = y->input[cell->initial_input];
    if (weight->shape.rank != 2 || weight->shape.size[1] != cell->product_parts * weight->shape.size[0])
        return qkv_refuse(y, "weight is %s, but must be [H, %d H]", qkv_shape_text(weight->shape),
                          cell->product_parts);
    if (gates->shape.rank != 2 || gates->shape.size[1] != weight->shape.size[1])
        return qkv_refuse(y, "gates are %s, but weight is %s", qkv_shape_text(gates->shape),
                          qkv_shape_text(weight->shape));
    if (!qkv_check_segments(y, &y->options.segments, gates->shape.size[0], "gates") ||
        !qkv_check_disjoint(y, &y->options.segments, "gates"))
        return false;
    struct batch batch = batch_of(y);
    if (cell->bias_input && !check_vector(y, y->input[cell->bias_input], batch.n, "bias")) return false;
    if (initial && (initial->shape.rank != 2 || initial->shape.size[0] != batch.sentences ||
                    initial->shape.size[1] != batch.state))
        return qkv_refuse(y, "initial is %s, but must be [%lld, %lld]", qkv_shape_text(initial->shape),
                          (long long)batch.sentences, (long long)batch.state);
    y->shape = QKV_SHAPE(batch.rows, batch.state);
    y->saved_count = batch.rows * batch.activations + batch.tokens * batch.n;
    y->scratch =
        batch.state + batch.tokens * batch.activations + batch.sentences * (batch.state + 2 * batch.n);
    return true;
}

OP(rnn, .inputs = 3, .optional = INPUT(2), .backward_reads = INPUT(1) | RESULT, .shape = RULE(cell_shape),
   .forward = cell_forward, .backward = cell_backward);
OP(gru, .inputs = 4, .optional = INPUT(2) | INPUT(3), .backward_reads = INPUT(1) | INPUT(3) | RESULT,
   .shape = RULE(cell_shape), .forward = cell_forward, .backward = cell_backward);
OP(lstm, .inputs = 3, .optional = INPUT(2), .backward_reads = INPUT(1) | INPUT(2) | RESULT,
   .shape = RULE(cell_shape), .forward = cell_forward, .backward = cell_backward);
