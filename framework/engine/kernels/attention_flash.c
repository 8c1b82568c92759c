/* The flash kernel of fused attention (Dao et al. 2022): tiles of queries by keys that stay in the cache,
 * and an online softmax, which rescales when a larger score appears (Milakov and Gimelshein 2018). Of
 * each row i it keeps only m_i, the largest score, and 1 / S_i, with S_i the sum of exp(s - m_i). Backward recomputes w =
 * exp(s - m) / S from the scores s, and the dropout mask, which is a function of the index of the pair in the ragged block.
 * (The paper keeps L = m + log S, whose rounding error grows with m: w = exp(s - L) would be wrong by as much.) */
#include "kernels/attention.h"

/* 256 x 512 numbers are 512 KiB in float32: two of them fit a second-level cache of 1 MiB and more. */
enum { MAX_ROWS = 256, MAX_KEYS = 512 };

/* A tile of the scores of a block: all rows of the block, and keys first .. first + count - 1 of the segment; and the workspace of
 * the block, in the scratch, after the tables of distance terms. */
struct tile {
    const struct place *place;
    int range; /* of the block, to which the keys belong */
    int64_t first, count;
    real *scores, *gradients; /* [rows, count] */
    real *maximum, *sum;      /* forward [rows]: largest score and sum of exponentials, so far */
    real *dot;                /* backward [rows], in the same memory: do . o */
    real *work;               /* of tile_scores */
    struct dropper dropper;
};

/* Most rows and keys of a tile. */
struct tile_sizes {
    int64_t rows, keys;
};

static struct tile_sizes tile_sizes_of(const struct attention *a)
{
    int64_t rows = rows_of_blocks(a->rule, MAX_ROWS);
    return (struct tile_sizes){.rows = rows < a->longest_queries ? rows : a->longest_queries,
                               .keys = MAX_KEYS < a->longest_keys ? MAX_KEYS : a->longest_keys};
}

/* m and 1 / S: [H, query rows, 2] */
static int64_t flash_saved(const struct attention *a)
{
    return 2 * a->query_rows * a->heads;
}

static int64_t flash_scratch(const struct attention *a)
{
    struct tile_sizes sizes = tile_sizes_of(a);
    int64_t width = a->key_width > a->value_width ? a->key_width : a->value_width;
    return distance_count(a) + 2 * sizes.rows * (sizes.keys + 1) + tile_workspace(sizes.keys, width);
}

/* Before the first tile of a block. */
static struct tile tiles_of(const struct place *place)
{
    const struct attention *a = place->a;
    struct tile_sizes sizes = tile_sizes_of(a);
    struct tile tile = {.place = place, .first = place->block.start[0]};
    tile.scores = (real *)place->y->graph->scratch + distance_count(a);
    tile.gradients = tile.scores + sizes.rows * sizes.keys;
    tile.maximum = tile.gradients + sizes.rows * sizes.keys;
    tile.sum = tile.dot = tile.maximum + sizes.rows;
    tile.work = tile.sum + sizes.rows;
    if (a->drops) tile.dropper = dropper_of(place->y, a->rule->dropout);
    return tile;
}

/* Goes to the next tile, and computes its products q k^T; false after the last one. */
static bool next_tile(struct tile *tile)
{
    const struct attention *a = tile->place->a;
    const struct block *b = &tile->place->block;
    const struct head *head = &tile->place->head;
    int64_t left;
    tile->first += tile->count;
    while (!(left = b->start[tile->range] + b->length[tile->range] - tile->first)) {
        if (tile->range++) return false;
        tile->first = b->start[1];
    }
    tile->count = left < MAX_KEYS ? left : MAX_KEYS;
    tile_scores(b->rows, tile->count, a->key_width, a->query + head->query + b->row * a->query_ld,
                a->query_ld, a->key + head->key + tile->first * a->key_ld, a->key_ld, tile->scores,
                tile->count, tile->work);
    return true;
}

/* m and 1 / S of row i. */
static real *kept_of(const struct place *place, int64_t i)
{
    int64_t row = place->head.segment.query + place->block.row + i;
    return (real *)place->y->saved + 2 * (place->head.index * place->a->query_rows + row);
}

/* ---- scores ---- */

/* Scales and caps the scores of row i and adds the distance terms. slope: with a soft cap, the derivatives of the capped scores;
 * NULL: not wanted. */
static void finish_scores(const struct tile *tile, int64_t i, real *restrict row, real *restrict slope)
{
    const struct attention *a = tile->place->a;
    real scale = a->scale;
    if (a->rule->soft_cap > 0) {
        for (int64_t j = 0; j < tile->count; j++) row[j] *= scale;
        cap_scores(a->rule, tile->count, row);
        for (int64_t j = 0; slope && j < tile->count; j++) slope[j] = cap_slope(a->rule, row[j]);
        scale = 1;
    }
    if (!qkv_attention_adds_distance(a->rule)) {
        for (int64_t j = 0; j < tile->count; j++) row[j] *= scale;
        return;
    }
    const real *restrict table =
        distance_row(tile->place->y, a, tile->place->head.index) + tile->first - position_of(tile->place, i);
    for (int64_t j = 0; j < tile->count; j++) row[j] = row[j] * scale + table[j];
}

/* What row i sees of keys first .. first + count - 1. */
static void visible_spans(const struct place *place, int64_t i, int64_t first, int64_t count,
                          struct span span[2])
{
    const struct attention *a = place->a;
    const struct segment *p = &place->head.segment;
    int64_t row = place->block.row + i;
    spans_of(visible_to(a->rule, p, row), first, count, mask_row(a->mask, p, row), span);
}

/* The dropout words of row i of a tile. */
static void tile_words(const struct tile *tile, int64_t i, uint16_t *words)
{
    const struct head *head = &tile->place->head;
    int64_t row = tile->place->block.row + i;
    dropper_row(&tile->dropper, head->ragged + row * head->segment.keys + tile->first, tile->count, words);
}

/* ---- forward ---- */

/* row = exp(row - m), with m the largest score of the row in this tile and those before. If m has grown, rescales the sum
 * and the output so far. */
static void add_row(const struct tile *tile, int64_t i, real *row, int64_t width, real *restrict out)
{
    struct span span[2];
    real maximum = tile->maximum[i];
    visible_spans(tile->place, i, tile->first, tile->count, span);
    for (int k = 0; k < 2; k++) {
        real here = span_maximum(span[k], row);
        maximum = here > maximum ? here : maximum;
    }
    if (maximum > tile->maximum[i]) {
        real shrink = fast_exp(tile->maximum[i] - maximum);
        tile->sum[i] *= shrink;
        for (int64_t d = 0; d < width; d++) out[d] *= shrink;
        tile->maximum[i] = maximum;
    }
    for (int k = 0; k < 2; k++) tile->sum[i] += span_exp(span[k], row, maximum, row);
    zero_hidden(tile->count, span, row);
}

static void tile_forward(const struct tile *tile, real *out)
{
    const struct attention *a = tile->place->a;
    int64_t rows = tile->place->block.rows;
    uint16_t words[MAX_KEYS];
    for (int64_t i = 0; i < rows; i++) {
        real *row = tile->scores + i * tile->count;
        finish_scores(tile, i, row, NULL);
        add_row(tile, i, row, a->value_width, out + i * a->out_ld);
        if (!a->drops) continue;
        tile_words(tile, i, words);
        for (int64_t j = 0; j < tile->count; j++)
            row[j] = words[j] >= tile->dropper.threshold ? row[j] * tile->dropper.factor : 0;
    }
    tile_product(rows, a->value_width, tile->count, tile->scores, tile->count,
                 a->value + tile->place->head.value + tile->first * a->value_ld, a->value_ld, true, out,
                 a->out_ld);
}

/* A row without visible keys is 0, and so are its recomputed weights. */
static void block_forward(const struct place *place)
{
    const struct attention *a = place->a;
    real *out = (real *)place->y->value + place->head.out + place->block.row * a->out_ld;
    struct tile tile = tiles_of(place);
    real sink = sink_of(a->sink, place->head.index);
    for (int64_t i = 0; i < place->block.rows; i++) {
        memset(out + i * a->out_ld, 0, (size_t)a->value_width * sizeof(real));
        tile.maximum[i] = sink;
        tile.sum[i] = sink <= (real)-INFINITY ? 0 : fast_exp(sink - sink); /* 1, or NaN as of softmax */
    }
    while (next_tile(&tile)) tile_forward(&tile, out);
    for (int64_t i = 0; i < place->block.rows; i++) {
        real *kept = kept_of(place, i);
        struct span span[2];
        visible_spans(place, i, 0, place->head.segment.keys, span);
        kept[0] = tile.maximum[i];
        kept[1] = inverse_sum(tile.sum[i], span);
        for (int64_t d = 0; d < a->value_width; d++) out[i * a->out_ld + d] *= kept[1];
    }
}

static void flash_forward(struct qkv_tensor *y, const struct attention *a)
{
    distance_table(y, a);
    visit_blocks(y, a, MAX_ROWS, block_forward, NULL);
}

/* ---- backward ---- */

/* Turns the scores of row i into weights. slope: as for finish_scores. */
static void recompute_weights(const struct tile *tile, int64_t i, real *row, real *slope)
{
    const real *kept = kept_of(tile->place, i);
    struct span span[2];
    finish_scores(tile, i, row, slope);
    visible_spans(tile->place, i, tile->first, tile->count, span);
    for (int k = 0; k < 2; k++) {
        span_exp(span[k], row, kept[0], row);
        for (int64_t j = span[k].from; j < span[k].to; j++) row[j] *= kept[1];
    }
    zero_hidden(tile->count, span, row);
}

/* Replaces du, which `ds` holds at first, by ds, and the weights w by u, the weights after dropout (see tile_backward). */
static void row_backward(const struct tile *tile, int64_t i, real *restrict weights, real *restrict ds)
{
    real scale = tile->place->a->scale, dot = tile->dot[i];
    const struct dropper *dropper = &tile->dropper;
    uint16_t words[MAX_KEYS];
    if (!tile->place->a->drops) {
        for (int64_t j = 0; j < tile->count; j++) ds[j] = scale * weights[j] * (ds[j] - dot);
        return;
    }
    tile_words(tile, i, words);
    for (int64_t j = 0; j < tile->count; j++) {
        real keep = words[j] >= dropper->threshold ? dropper->factor : 0;
        ds[j] = scale * weights[j] * (keep * ds[j] - dot);
        weights[j] *= keep;
    }
}

/* One tile, with w the weights and u the weights after dropout:
 *     dv += u^T do,  du = do v^T,  dw = du * mask / (1 - rate),  ds = scale w (dw - do . o)
 *     dq += ds k,  dk += ds^T q */
static void tile_backward(const struct tile *tile, const real *dout)
{
    struct qkv_tensor *y = tile->place->y;
    const struct attention *a = tile->place->a;
    const struct block *b = &tile->place->block;
    const struct head *head = &tile->place->head;
    int64_t query = head->query + b->row * a->query_ld, key = head->key + tile->first * a->key_ld,
            value = head->value + tile->first * a->value_ld, n = tile->count;
    real *dq = gradient_of(y->input[0]), *dk = gradient_of(y->input[1]), *dv = gradient_of(y->input[2]);
    real *table = needs_bias_gradient(y) ? distance_row(y, a, a->heads + head->index) : NULL,
         inverse = 1 / a->scale;
    tile_scores(b->rows, n, a->value_width, dout, a->out_ld, a->value + value, a->value_ld, tile->gradients,
                n, tile->work);
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = tile->scores + i * n, *ds = tile->gradients + i * n, slope[MAX_KEYS];
        recompute_weights(tile, i, row, slope);
        row_backward(tile, i, row, ds);
        for (int64_t j = 0; table && j < n; j++)
            table[tile->first - position_of(tile->place, i) + j] += inverse * ds[j];
        for (int64_t j = 0; a->rule->soft_cap > 0 && j < n; j++) ds[j] *= slope[j];
    }
    if (dv)
        tile_product_transposed(n, a->value_width, b->rows, tile->scores, n, dout, a->out_ld, dv + value,
                                a->value_ld);
    if (dq)
        tile_product(b->rows, a->key_width, n, tile->gradients, n, a->key + key, a->key_ld, true, dq + query,
                     a->query_ld);
    if (dk)
        tile_product_transposed(n, a->key_width, b->rows, tile->gradients, n, a->query + query, a->query_ld,
                                dk + key, a->key_ld);
}

/* First computes do . o of each row. With and without dropout, do_i . o_i is the sum of w_ij dw_ij over all keys j of
 * row i, which ds needs and of which a tile has only a part. */
static void block_backward(const struct place *place)
{
    const struct attention *a = place->a;
    int64_t at = place->head.out + place->block.row * a->out_ld;
    const real *out = (const real *)place->y->value + at, *dout = (const real *)place->y->gradient + at;
    struct tile tile = tiles_of(place);
    for (int64_t i = 0; i < place->block.rows; i++)
        tile.dot[i] = row_dot(a->value_width, out + i * a->out_ld, dout + i * a->out_ld);
    real *dsink = gradient_of(place->y->input[5]);
    /* dsink -= weight of the sink times do . o; that weight is exp(sink - m) / S */
    for (int64_t i = 0; dsink && i < place->block.rows; i++) {
        const real *kept = kept_of(place, i);
        dsink[place->head.index] -=
            fast_exp(sink_of(a->sink, place->head.index) - kept[0]) * kept[1] * tile.dot[i];
    }
    while (next_tile(&tile)) tile_backward(&tile, dout);
}

static void flash_backward(struct qkv_tensor *y, const struct attention *a)
{
    distance_table(y, a);
    distance_clear(y, a);
    visit_blocks(y, a, MAX_ROWS, block_backward, NULL);
    distance_backward(y, a);
}

/* ---- weights for reports ---- */

static void unpack_block(const struct place *place)
{
    int64_t keys = place->head.segment.keys;
    real *to = (real *)place->y->weights + place->head.ragged + place->block.row * keys;
    struct tile tile = tiles_of(place);
    while (next_tile(&tile))
        for (int64_t i = 0; i < place->block.rows; i++) {
            real *row = tile.scores + i * tile.count;
            recompute_weights(&tile, i, row, NULL);
            memcpy(to + i * keys + tile.first, row, (size_t)tile.count * sizeof(real));
        }
}

static void flash_unpack_weights(struct qkv_tensor *y, const struct attention *a)
{
    distance_table(y, a);
    visit_blocks(y, a, MAX_ROWS, unpack_block, NULL);
}

const struct qkv_attention_kernels VARIANT(qkv_attention_, flash) = {
    RULE(flash_saved), RULE(flash_scratch), flash_forward, flash_backward, NULL, flash_unpack_weights};
