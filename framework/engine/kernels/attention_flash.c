/* The flash kernel of fused attention (Dao et al. 2022): tiles of queries by keys that stay in the cache,
 * and an online softmax, which rescales when a larger score appears (Milakov and Gimelshein 2018). Of
 * each row i it keeps only m_i, the largest score, and 1 / S_i, with S_i the sum of exp(s - m_i). Backward recomputes w =
 * exp(s - m) / S from the scores s, and the dropout mask, which is a function of the index of the pair in the ragged block.
 * (The paper keeps L = m + log S, whose rounding error grows with m: w = exp(s - L) would be wrong by as much.) */
#include "kernels/attention.h"

/* 256 x 512 numbers are 512 KiB in float32: two of them fit a second-level cache of 1 MiB and more. */
enum { MAX_ROWS = 256, MAX_KEYS = 512 };

static int64_t block_rows(const struct attention *a)
{
    return a->rule->window ? window_rows(a->rule) : MAX_ROWS;
}

/* A tile of the scores of a block: all rows of the block, and keys first .. first + count - 1 of the sentence. */
struct tile {
    int64_t first, count;
};

/* Workspace in the scratch, after the tables of distance terms. */
struct workspace {
    real *scores, *gradients; /* [rows, keys of a tile] */
    real *maximum, *sum;      /* forward [rows]: largest score and sum of exponentials, so far */
    real *dot;                /* backward [rows], in the same memory: do . o */
    real *work;               /* of tile_scores */
};

struct tile_sizes {
    int64_t rows, keys, work;
};

static struct tile_sizes tile_sizes_of(const struct attention *a)
{
    int64_t width = a->key_width > a->value_width ? a->key_width : a->value_width, rows = block_rows(a);
    struct tile_sizes sizes = {.rows = rows < a->longest_queries ? rows : a->longest_queries,
                               .keys = MAX_KEYS < a->longest_keys ? MAX_KEYS : a->longest_keys};
    sizes.work = tile_workspace(sizes.keys, width);
    return sizes;
}

static struct workspace workspace_of(const struct qkv_tensor *y, const struct attention *a)
{
    struct tile_sizes sizes = tile_sizes_of(a);
    struct workspace workspace = {.scores = (real *)y->graph->scratch + distance_count(a)};
    workspace.gradients = workspace.scores + sizes.rows * sizes.keys;
    workspace.maximum = workspace.gradients + sizes.rows * sizes.keys;
    workspace.sum = workspace.maximum + sizes.rows;
    workspace.dot = workspace.sum;
    workspace.work = workspace.sum + sizes.rows;
    return workspace;
}

/* m and 1 / S: [H, query rows, 2] */
static int64_t flash_saved(const struct attention *a)
{
    return 2 * a->query_rows * a->heads;
}

static int64_t flash_scratch(const struct attention *a)
{
    struct tile_sizes sizes = tile_sizes_of(a);
    return distance_count(a) + 2 * sizes.rows * (sizes.keys + 1) + sizes.work;
}

/* m and 1 / S of row i of a block. */
static real *kept_of(const struct qkv_tensor *y, const struct attention *a, const struct head *head,
                     const struct block *b, int64_t i)
{
    return (real *)y->saved + 2 * (head->index * a->query_rows + head->sentence.query + b->row + i);
}

/* ---- visiting tiles ---- */

/* Functions that are called at the beginning of each block, for each of its tiles, and at its end; begin and end may be
 * NULL. */
struct walk {
    void (*begin)(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                  const struct block *b, const struct workspace *workspace);
    void (*tile)(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                 const struct block *b, struct tile tile, const struct workspace *workspace);
    void (*end)(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                const struct block *b, const struct workspace *workspace);
};

static void walk_head(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                      const struct walk *walk, const struct workspace *workspace)
{
    struct block b;
    for (int64_t row = 0; row < head->sentence.queries; row += b.rows) {
        b = block_at(a->rule, &head->sentence, row, block_rows(a));
        if (walk->begin) walk->begin(y, a, head, &b, workspace);
        for (int r = 0; r < 2; r++)
            for (int64_t done = 0; done < b.length[r]; done += MAX_KEYS) {
                int64_t left = b.length[r] - done;
                struct tile tile = {b.start[r] + done, left < MAX_KEYS ? left : MAX_KEYS};
                walk->tile(y, a, head, &b, tile, workspace);
            }
        if (walk->end) walk->end(y, a, head, &b, workspace);
    }
}

static void walk_all(struct qkv_tensor *y, const struct attention *a, const struct walk *walk)
{
    const struct workspace workspace = workspace_of(y, a);
    int64_t ragged = 0;
    for (int64_t s = 0; s < qkv_segment_count(&a->options->queries); s++) {
        struct sentence p = sentence_at(a->options, s, ragged, a->query_rows, a->key_rows);
        for (int64_t h = 0; h < a->heads; h++) {
            struct head head = head_at(a, &p, h);
            walk_head(y, a, &head, walk, &workspace);
        }
        ragged += a->heads * p.queries * p.keys;
    }
}

/* ---- scores ---- */

/* scores = q k^T, [rows, count] */
static void compute_scores(const struct attention *a, const struct head *head, const struct block *b,
                           struct tile tile, const struct workspace *workspace)
{
    tile_scores(b->rows, tile.count, a->key_width, a->query + head->query + b->row * a->query_ld, a->query_ld,
                a->key + head->key + tile.first * a->key_ld, a->key_ld, workspace->scores, tile.count,
                workspace->work);
}

/* Scales the scores of row i and adds the distance terms. */
static void finish_scores(const struct qkv_tensor *y, const struct attention *a, const struct head *head,
                          const struct block *b, struct tile tile, int64_t i, real *restrict row)
{
    if (!qkv_attention_adds_distance(a->rule)) {
        for (int64_t j = 0; j < tile.count; j++) row[j] *= a->scale;
        return;
    }
    int64_t position = head->sentence.keys - head->sentence.queries + b->row + i;
    const real *restrict table = distance_row(y, a, head->index) + tile.first - position;
    for (int64_t j = 0; j < tile.count; j++) row[j] = row[j] * a->scale + table[j];
}

static void visible_spans(const struct attention *a, const struct head *head, const struct block *b,
                          struct tile tile, int64_t i, struct span span[2])
{
    const struct sentence *p = &head->sentence;
    spans_of(visible_to(a->rule, p, b->row + i), tile.first, tile.count, mask_row(a->mask, p, b->row + i),
             span);
}

/* The dropout words of row i of a tile. */
static void tile_words(const struct dropper *dropper, const struct head *head, const struct block *b,
                       struct tile tile, int64_t i, uint16_t *words)
{
    dropper_row(dropper, head->ragged + (b->row + i) * head->sentence.keys + tile.first, tile.count, words);
}

/* ---- forward ---- */

static void begin_forward(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                          const struct block *b, const struct workspace *workspace)
{
    real *out = (real *)y->value + head->out + b->row * a->out_ld;
    for (int64_t i = 0; i < b->rows; i++) {
        memset(out + i * a->out_ld, 0, (size_t)a->value_width * sizeof(real));
        workspace->maximum[i] = (real)-INFINITY;
        workspace->sum[i] = 0;
    }
}

/* row = exp(row - m), with m the largest score of the row in this tile and those before. If m has grown, rescales the sum
 * and the output so far. */
static void add_row(const struct workspace *workspace, int64_t i, int64_t count, const struct span span[2],
                    real *row, int64_t width, real *restrict out)
{
    real maximum = workspace->maximum[i];
    for (int k = 0; k < 2; k++) {
        real here = span_maximum(span[k], row);
        maximum = here > maximum ? here : maximum;
    }
    if (maximum > workspace->maximum[i]) {
        real shrink = fast_exp(workspace->maximum[i] - maximum);
        workspace->sum[i] *= shrink;
        for (int64_t d = 0; d < width; d++) out[d] *= shrink;
        workspace->maximum[i] = maximum;
    }
    for (int k = 0; k < 2; k++) workspace->sum[i] += span_exp(span[k], row, maximum, row);
    zero_hidden(count, span, row);
}

static void tile_forward(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                         const struct block *b, struct tile tile, const struct workspace *workspace)
{
    real *out = (real *)y->value + head->out + b->row * a->out_ld;
    struct dropper dropper;
    uint16_t words[MAX_KEYS];
    if (a->drops) dropper = dropper_of(y, a->rule->dropout);
    compute_scores(a, head, b, tile, workspace);
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = workspace->scores + i * tile.count;
        struct span span[2];
        finish_scores(y, a, head, b, tile, i, row);
        visible_spans(a, head, b, tile, i, span);
        add_row(workspace, i, tile.count, span, row, a->value_width, out + i * a->out_ld);
        if (!a->drops) continue;
        tile_words(&dropper, head, b, tile, i, words);
        for (int64_t j = 0; j < tile.count; j++)
            row[j] = words[j] >= dropper.threshold ? row[j] * dropper.factor : 0;
    }
    tile_product(b->rows, a->value_width, tile.count, workspace->scores, tile.count,
                 a->value + head->value + tile.first * a->value_ld, a->value_ld, true, out, a->out_ld);
}

/* A row without visible keys is 0, and so are its recomputed weights. */
static void end_forward(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                        const struct block *b, const struct workspace *workspace)
{
    real *out = (real *)y->value + head->out + b->row * a->out_ld;
    for (int64_t i = 0; i < b->rows; i++) {
        real *kept = kept_of(y, a, head, b, i);
        struct span span[2];
        visible_spans(a, head, b, (struct tile){0, head->sentence.keys}, i, span);
        kept[0] = workspace->maximum[i];
        kept[1] = inverse_sum(workspace->sum[i], span);
        for (int64_t d = 0; d < a->value_width; d++) out[i * a->out_ld + d] *= kept[1];
    }
}

static void flash_forward(struct qkv_tensor *y, const struct attention *a)
{
    static const struct walk walk = {begin_forward, tile_forward, end_forward};
    distance_table(y, a);
    walk_all(y, a, &walk);
}

/* ---- backward ---- */

/* Turns the scores of row i into weights. */
static void recompute_weights(const struct qkv_tensor *y, const struct attention *a, const struct head *head,
                              const struct block *b, struct tile tile, int64_t i, real *row)
{
    const real *kept = kept_of(y, a, head, b, i);
    struct span span[2];
    finish_scores(y, a, head, b, tile, i, row);
    visible_spans(a, head, b, tile, i, span);
    for (int k = 0; k < 2; k++) {
        span_exp(span[k], row, kept[0], row);
        for (int64_t j = span[k].from; j < span[k].to; j++) row[j] *= kept[1];
    }
    zero_hidden(tile.count, span, row);
}

/* Sets do . o of each row. With and without dropout, do_i . o_i is the sum of w_ij dw_ij over all keys j of
 * row i, which ds needs and of which a tile has only a part. */
static void begin_backward(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                           const struct block *b, const struct workspace *workspace)
{
    int64_t at = head->out + b->row * a->out_ld;
    const real *out = (const real *)y->value + at, *dout = (const real *)y->gradient + at;
    for (int64_t i = 0; i < b->rows; i++)
        workspace->dot[i] = row_dot(a->value_width, out + i * a->out_ld, dout + i * a->out_ld);
}

/* Replaces du, which `ds` holds at first, by ds, and the weights w by u, the weights after dropout (see tile_backward). */
static void row_backward(const struct attention *a, const struct dropper *dropper, int64_t count, real dot,
                         const uint16_t *restrict words, real *restrict weights, real *restrict ds)
{
    if (!a->drops) {
        for (int64_t j = 0; j < count; j++) ds[j] = a->scale * weights[j] * (ds[j] - dot);
        return;
    }
    for (int64_t j = 0; j < count; j++) {
        real keep = words[j] >= dropper->threshold ? dropper->factor : 0;
        ds[j] = a->scale * weights[j] * (keep * ds[j] - dot);
        weights[j] *= keep;
    }
}

/* One tile, with w the weights and u the weights after dropout:
 *     dv += u^T do,  du = do v^T,  dw = du * mask / (1 - rate),  ds = scale w (dw - do . o)
 *     dq += ds k,  dk += ds^T q */
static void tile_backward(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                          const struct block *b, struct tile tile, const struct workspace *workspace)
{
    const real *out = (const real *)y->gradient + head->out + b->row * a->out_ld;
    int64_t query = head->query + b->row * a->query_ld, key = head->key + tile.first * a->key_ld,
            value = head->value + tile.first * a->value_ld, n = tile.count;
    real *dq = gradient_of(y->input[0]), *dk = gradient_of(y->input[1]), *dv = gradient_of(y->input[2]);
    real *table = needs_bias_gradient(y) ? distance_row(y, a, a->heads + head->index) : NULL,
         inverse = 1 / a->scale;
    int64_t position = head->sentence.keys - head->sentence.queries + b->row;
    struct dropper dropper = {.factor = 1};
    uint16_t words[MAX_KEYS];
    if (a->drops) dropper = dropper_of(y, a->rule->dropout);
    compute_scores(a, head, b, tile, workspace);
    tile_scores(b->rows, n, a->value_width, out, a->out_ld, a->value + value, a->value_ld,
                workspace->gradients, n, workspace->work);
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = workspace->scores + i * n, *ds = workspace->gradients + i * n;
        recompute_weights(y, a, head, b, tile, i, row);
        if (a->drops) tile_words(&dropper, head, b, tile, i, words);
        row_backward(a, &dropper, n, workspace->dot[i], words, row, ds);
        for (int64_t j = 0; table && j < n; j++) table[tile.first - position - i + j] += inverse * ds[j];
    }
    if (dv)
        tile_product_transposed(n, a->value_width, b->rows, workspace->scores, n, out, a->out_ld, dv + value,
                                a->value_ld);
    if (dq)
        tile_product(b->rows, a->key_width, n, workspace->gradients, n, a->key + key, a->key_ld, true,
                     dq + query, a->query_ld);
    if (dk)
        tile_product_transposed(n, a->key_width, b->rows, workspace->gradients, n, a->query + query,
                                a->query_ld, dk + key, a->key_ld);
}

static void flash_backward(struct qkv_tensor *y, const struct attention *a)
{
    static const struct walk walk = {begin_backward, tile_backward, NULL};
    distance_table(y, a);
    distance_clear(y, a);
    walk_all(y, a, &walk);
    distance_backward(y, a);
}

/* ---- weights for reports ---- */

static void unpack_tile(struct qkv_tensor *y, const struct attention *a, const struct head *head,
                        const struct block *b, struct tile tile, const struct workspace *workspace)
{
    real *to = (real *)y->weights + head->ragged + b->row * head->sentence.keys + tile.first;
    compute_scores(a, head, b, tile, workspace);
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = workspace->scores + i * tile.count;
        recompute_weights(y, a, head, b, tile, i, row);
        memcpy(to + i * head->sentence.keys, row, (size_t)tile.count * sizeof(real));
    }
}

static void flash_unpack_weights(struct qkv_tensor *y, const struct attention *a)
{
    static const struct walk walk = {NULL, unpack_tile, NULL};
    distance_table(y, a);
    walk_all(y, a, &walk);
}

const struct qkv_attention_kernels VARIANT(qkv_attention_, flash) = {
    RULE(flash_saved), RULE(flash_scratch), flash_forward, flash_backward, NULL, flash_unpack_weights};
