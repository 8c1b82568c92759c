/* The measures of heads against direct computations: maps and values of single forced passes, gold links, finite
 * differences of the loss, and a model whose rows of the output projection are 0. */
#include "zeroed_head.h"

#include "models/network.h"
#include "report/alignment_score.h"

enum { PAIRS = 5, CAPACITY = 8 }; /* heads of the models at most */

/* Words that repeat; unknown words that are copied (q, z); links that are possible or missing. */
static const char PAIR_TEXT[] = "a b a c\tA B A C\nc q d\tC q D\ne\tE\nb b\tB B B\nd z e a\tz D A\n";
static const char LINK_TEXT[] = "0-0 1-1 2-2 3-3\n0-0 1p1 2-2\n0-0\n0-0 1-1 1p2\n1-0 0-1 2p2 3-2\n";

struct fixture {
    struct qkv_run run;
    struct qkv_corpus corpus;
    struct qkv_alignments gold;
    const char *folder;
};

enum network { TRANSFORMER, RECURRENT_NETWORK, GATED_TRANSFORMER, PREFIX };

#define GATED "num_layers: 1, num_heads: 2, hidden_size: 8, attention: {output_gate: true}"
static const char *const STACKS[][2] = {
    [RECURRENT_NETWORK] = {"type: recurrent, hidden_size: 12",
                           "type: recurrent, hidden_size: 12, input_feeding: true, attention: {score: "
                           "general}"},
    [GATED_TRANSFORMER] = {GATED, GATED},
    [PREFIX] = {"", "type: decoder_only, num_layers: 2, num_heads: 2, hidden_size: 12, ff_size: 16"},
};

/* A trained run in float64, and the pairs. */
static struct fixture open_fixture(int network)
{
    struct fixture f = {.folder = network ? tiny_task("task") : tiny_run("transformer", 60)};
    enter(f.folder);
    if (network) {
        write_config("train: train.tsv, src: {lang: a}, trg: {lang: b}", STACKS[network][0],
                     STACKS[network][1], "updates: 40, learning_rate: 0.01");
        run_ok("qkv train c.yaml -q 2>&1");
    }
    static const struct qkv_word_counts WORDS[PAIRS] = {{4, 4}, {3, 3}, {1, 1}, {2, 3}, {4, 3}};
    write_text(f.folder, "gold", LINK_TEXT);
    const struct qkv_corpus_options keep = {.keep_raw = true};
    cr_assert_not(qkv_run_open(&f.run, format("%s/run", f.folder), NULL, QKV_FLOAT64, &error) ||
                      qkv_corpus_read(&f.corpus, write_text(f.folder, "pairs.tsv", PAIR_TEXT),
                                      &f.run.config.data, keep, &error) ||
                      qkv_corpus_encode(&f.corpus, &f.run.source, &f.run.target, &error) ||
                      qkv_alignments_read(&f.gold, format("%s/gold", f.folder), 0, WORDS, PAIRS, &error),
                  "%s", error.message);
    return f;
}

static void close_fixture(struct fixture *f)
{
    qkv_alignments_release(&f->gold);
    qkv_corpus_release(&f->corpus);
    qkv_run_release(&f->run);
}

static struct qkv_measured_heads measured(struct fixture *f, bool norms)
{
    const struct qkv_heads_options options = {.links = format("%s/gold", f->folder),
                                              .links_from = QKV_LINKS_FROM_0,
                                              .norms = norms,
                                              .testing = f->run.config.testing};
    struct qkv_measured_heads heads;
    expect_done(qkv_heads_measure(&f->run, &f->corpus, &options, &heads, &error));
    return heads;
}

/* ---- maps ---- */

/* Sums and counts of rows, by measure. */
struct expected {
    double sum[QKV_HEAD_MEASURES];
    int count[QKV_HEAD_MEASURES];
};

static void add(struct expected *e, enum qkv_head_measure measure, double value)
{
    e->sum[measure] += value;
    e->count[measure]++;
}

/* The words of a side of a pair, as they are written. */
static int words_of(const char *text, char *copy, char **words)
{
    int count = 0;
    strcpy(copy, text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) words[count++] = word;
    return count;
}

/* Adds what the rows of one map say. row[r]: the name of the word that looks; NULL: <s> or </s>. */
static void add_map(struct expected *e, const struct qkv_attention_map *map, char **row, char **column)
{
    bool cross = map->kind == QKV_ATTENTION_CROSS;
    for (int64_t r = 0; r < map->rows; r++) {
        double shares[16], total = 0, entropy = 0, max = 0, copied = 0, near[3] = {0}, special = 0;
        bool sees_copy = false;
        if (!row[r]) continue;
        for (int64_t c = 0; c < map->columns; c++) total += map->weights[r * map->columns + c];
        for (int64_t c = 0; c < map->columns; c++) {
            double p = shares[c] = map->weights[r * map->columns + c] / total;
            if (p > 0) entropy -= p * log(p);
            max = fmax(max, p);
            if (!column[c]) {
                special += p;
                continue;
            }
            if (c >= r - 1 && c <= r + 1) near[c - r + 1] += p;
            bool hidden = map->kind == QKV_ATTENTION_DECODER && c > r;
            if (!hidden && (cross || c != r) && !strcmp(row[r], column[c])) copied += p, sees_copy = true;
        }
        add(e, QKV_HEAD_ENTROPY, entropy);
        add(e, QKV_HEAD_SHARPNESS, max);
        add(e, QKV_HEAD_PREVIOUS, near[0]);
        add(e, QKV_HEAD_SAME, near[1]);
        add(e, QKV_HEAD_NEXT, near[2]);
        add(e, QKV_HEAD_SPECIAL, special);
        if (sees_copy) add(e, QKV_HEAD_COPIED, copied);
    }
}

/* Adds half the sum of the differences of each row from its links; `shift`: row r belongs to word r - shift. */
static void add_variation(struct expected *e, const struct qkv_attention_map *map,
                          const struct qkv_alignment *gold, int shift)
{
    for (int64_t r = shift; r < map->rows - 1 + shift; r++) {
        double ideal[16] = {0}, links = 0, sum = 0, total = 0;
        for (int64_t i = 0; i < gold->count; i++)
            if (gold->links[i].target == r - shift) ideal[gold->links[i].source]++, links++;
        if (links < 1) continue;
        for (int64_t c = 0; c < map->columns; c++) total += map->weights[r * map->columns + c];
        for (int64_t c = 0; c < map->columns; c++)
            sum += fabs(map->weights[r * map->columns + c] / total - ideal[c] / links);
        add(e, shift ? QKV_HEAD_VARIATION_READ : QKV_HEAD_VARIATION_PREDICTED, sum / 2);
    }
}

/* ---- values ---- */

/* The norm of what the head makes of each key for a query: value, times the output gate, times its rows of the output
 * projection. */
static void find_norms(const struct qkv_model *model, const struct qkv_trace *trace, struct qkv_head head,
                       int64_t query, double *norm)
{
    struct qkv_rows rows;
    cr_assert(qkv_model_head_rows(model, head, &rows));
    const struct qkv_multi_head *layer = qkv_model_attention(model, head.attention, head.layer).multi_head;
    struct qkv_tensor *value = qkv_trace_attention(trace, QKV_PART_VALUE, head.attention, head.layer)->node;
    int64_t keys = qkv_tensor_shape(value).size[0], width = qkv_tensor_shape(value).size[1];
    int64_t first = layer ? (head.head - 1) * rows.count : 0, outputs = rows.parameter->shape.size[1];
    const double *values = qkv_tensor_value(value), *gates = NULL;
    if (layer && layer->gate.weight)
        gates = qkv_tensor_value(qkv_trace_attention(trace, QKV_PART_GATE, head.attention, head.layer)->node);
    for (int64_t key = 0; key < keys; key++) {
        double square = 0;
        for (int64_t j = 0; j < outputs; j++) {
            double sum = 0;
            for (int64_t d = 0; d < rows.count; d++)
                sum += values[key * width + first + d] * (gates ? gates[query * width + first + d] : 1) *
                       qkv_parameter_get(&model->parameters, rows.parameter, (rows.first + d) * outputs + j);
            square += sum * sum;
        }
        norm[key] = sqrt(square);
    }
}

/* Replaces the weights of a map of one sentence by weights times norms, and adds their sums. */
static void multiply(const struct qkv_model *model, const struct qkv_trace *trace,
                     struct qkv_attention_map *map, char **row, bool replace, struct expected *e)
{
    double norm[16], *weights = malloc((size_t)(map->rows * map->columns) * sizeof *weights);
    for (int64_t r = 0; r < map->rows; r++) {
        double sum = 0;
        find_norms(model, trace, (struct qkv_head){map->kind, map->layer, map->head}, r, norm);
        for (int64_t c = 0; c < map->columns; c++)
            sum += weights[r * map->columns + c] = map->weights[r * map->columns + c] * norm[c];
        if (row[r]) add(e, QKV_HEAD_NORM, sum);
    }
    if (replace) map->weights = weights;
    remember(weights);
}

/* ---- a pair at a time ---- */

/* Adds the measures of all maps of one pair, of a pass of its own. */
static void add_pair(const struct fixture *f, int64_t pair, bool norms, struct expected *e)
{
    char copy[2][64], *source[16] = {NULL}, *output[16] = {NULL}, *input[17] = {NULL};
    const struct qkv_corpus_side *from = &f->corpus.source, *to = &f->corpus.target;
    struct qkv_model *model = f->run.model;
    words_of(qkv_corpus_source(&f->corpus, pair), copy[0], source);
    int targets = words_of(qkv_corpus_target(&f->corpus, pair), copy[1], output);
    for (int i = 0; i < targets; i++) input[i + 1] = output[i];
    const struct qkv_ids ids[] = {{from->start[pair + 1] - from->start[pair], from->ids + from->start[pair]},
                                  {to->start[pair + 1] - to->start[pair], to->ids + to->start[pair]}};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_batch_view view;
    struct qkv_trace trace;
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    cr_assert_not(qkv_batch_make(&batch, 1, &ids[0], &ids[1], NULL));
    qkv_batch_shard(&batch, 0, 1, &view);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    qkv_model_loss(model, graph, &view, NULL, 1, &trace);
    qkv_forward(graph);
    for (int64_t i = 0; i < qkv_model_head_count(model); i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        struct qkv_attention_map map = {
            .kind = head.attention, .layer = (int)head.layer, .head = (int)head.head};
        map.weights = qkv_attention_weights_of(
            qkv_trace_attention(&trace, QKV_PART_WEIGHTS, head.attention, head.layer)->node, 0, head.head - 1,
            &map.rows, &map.columns);
        char **row = head.attention == QKV_ATTENTION_ENCODER   ? source
                     : head.attention == QKV_ATTENTION_DECODER ? input
                                                               : output;
        multiply(model, &trace, &map, row, norms, &e[i]);
        add_map(&e[i], &map, row, head.attention == QKV_ATTENTION_DECODER ? input : source);
        for (int shift = 0; shift < 2 && head.attention == QKV_ATTENTION_CROSS; shift++)
            add_variation(&e[i], &map, &f->gold.sentences[pair], shift);
    }
}

static void expect_maps(int network, bool norms)
{
    const unsigned others = 1u << QKV_HEAD_ERROR_PREDICTED | 1u << QKV_HEAD_ERROR_READ | 1u << QKV_HEAD_LOSS |
                            1u << QKV_HEAD_BLEU | 1u << QKV_HEAD_IMPORTANCE;
    struct fixture f RELEASED(close_fixture) = open_fixture(network);
    struct qkv_measured_heads heads RELEASED(qkv_measured_heads_release) = measured(&f, norms);
    struct expected expected[CAPACITY] = {0};
    cr_assert_eq(heads.count, network == RECURRENT_NETWORK ? 1 : 6);
    cr_expect_eq(heads.sentences, PAIRS);
    cr_expect_eq(heads.tokens, 4 + 3 + 1 + 3 + 3 + PAIRS);
    for (int64_t pair = 0; pair < PAIRS; pair++) add_pair(&f, pair, norms, expected);
    for (int64_t i = 0; i < heads.count; i++)
        for (int m = 0; m < QKV_HEAD_MEASURES; m++) {
            double found = heads.heads[i].value[m], mean = expected[i].sum[m] / expected[i].count[m];
            if (others >> m & 1) continue;
            cr_expect(expected[i].count[m] ? fabs(found - mean) < 1e-9 : isnan(found),
                      "head %d, %s: %g, expected %g", (int)i,
                      qkv_head_measure_info((enum qkv_head_measure)m)->name, found, mean);
        }
}

Test(heads, maps_of_both_networks)
{
    for (int i = 0; i < 6; i++) expect_maps(i / 2, i % 2);
}

/* ---- what heads are for ---- */

/* The loss of each pair, in nats, and the scores of all. */
static struct qkv_scores evaluate(const struct fixture *f, double *losses)
{
    struct qkv_scores scores;
    struct qkv_evaluator *evaluator RELEASED(free_evaluator) =
        made(qkv_evaluator_new(f->run.model, &f->corpus, &f->run.config.data.trg, &f->run.target, NULL,
                               &f->run.config.testing, &error));
    expect_done(qkv_evaluator_run(evaluator, &scores, &error));
    for (int64_t i = 0; i < PAIRS; i++)
        losses[i] = qkv_evaluator_sentence(evaluator, i).negative_log_likelihood;
    return scores;
}

static void expect_purpose(bool recurrent)
{
    const double step = 1e-5;
    struct fixture f RELEASED(close_fixture) = open_fixture(recurrent);
    struct qkv_measured_heads heads RELEASED(qkv_measured_heads_release) = measured(&f, false);
    double above[PAIRS], below[PAIRS], unused[PAIRS];
    const struct qkv_scores all = evaluate(&f, unused);
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) = {0};
    cr_expect_float_eq(heads.loss, all.value[QKV_METRIC_LOSS], 1e-12);
    cr_expect_float_eq(heads.bleu, all.value[QKV_METRIC_BLEU], 1e-12);
    for (int64_t i = 0; i < heads.count; i++) {
        const struct qkv_head head = heads.heads[i].head;
        const double *value = heads.heads[i].value;
        struct qkv_rows rows;
        cr_assert(qkv_model_head_rows(f.run.model, head, &rows));
        int64_t columns = rows.parameter->shape.size[1], numbers = rows.count * columns;
        double *kept = malloc((size_t)numbers * sizeof *kept), sum = 0;
        for (int64_t k = 0; k < numbers; k++)
            kept[k] = qkv_parameter_get(&f.run.model->parameters, rows.parameter, rows.first * columns + k);
        scale_head(f.run.model, head, 1 + step);
        evaluate(&f, above);
        scale_head(f.run.model, head, (1 - step) / (1 + step));
        evaluate(&f, below);
        for (int pair = 0; pair < PAIRS; pair++) sum += fabs(above[pair] - below[pair]) / (2 * step);
        cr_expect_float_eq(value[QKV_HEAD_IMPORTANCE], sum / (double)heads.tokens, 1e-7,
                           "head %d: %g, expected %g", (int)i, value[QKV_HEAD_IMPORTANCE],
                           sum / (double)heads.tokens);
        cr_expect_gt(sum, 1e-4);
        scale_head(f.run.model, head, 0);
        const struct qkv_scores without = evaluate(&f, unused);
        for (int64_t k = 0; k < numbers; k++)
            qkv_parameter_set(&f.run.model->parameters, rows.parameter, rows.first * columns + k, kept[k]);
        free(kept);
        cr_expect_float_eq(value[QKV_HEAD_LOSS], without.value[QKV_METRIC_LOSS] - all.value[QKV_METRIC_LOSS],
                           1e-12);
        cr_expect_float_eq(value[QKV_HEAD_BLEU], without.value[QKV_METRIC_BLEU] - all.value[QKV_METRIC_BLEU],
                           1e-9);
        cr_expect_not(qkv_model_is_ablated(f.run.model, head));
    }
    /* Alignment errors are those of qkv evaluate. */
    expect_done(qkv_alignment_evaluate(&f.run, &f.corpus, format("%s/gold", f.folder), 0, &score, &error));
    for (int64_t i = 0; i < score.count; i++) {
        const struct qkv_alignment_result result = score.results[i];
        bool reads = result.reading == QKV_READING_READ;
        if (result.drawing != QKV_DRAWING_TARGET || !result.head) continue;
        for (int64_t h = 0; h < heads.count; h++)
            if (heads.heads[h].head.attention == QKV_ATTENTION_CROSS &&
                heads.heads[h].head.head == result.head)
                cr_expect_float_eq(
                    heads.heads[h].value[reads ? QKV_HEAD_ERROR_READ : QKV_HEAD_ERROR_PREDICTED],
                    result.error_rate, 1e-12);
    }
}

Test(heads, purpose_in_both_networks)
{
    for (int recurrent = 0; recurrent < 2; recurrent++) expect_purpose(recurrent);
}

/* A head that is silent before stays so, and nothing is lost when it is silenced. */
Test(heads, silent_heads_stay_silent)
{
    struct fixture f RELEASED(close_fixture) = open_fixture(TRANSFORMER);
    const struct qkv_head head = {QKV_ATTENTION_CROSS, 1, 2};
    cr_assert(qkv_model_ablate(f.run.model, head, true));
    struct qkv_measured_heads heads RELEASED(qkv_measured_heads_release) = measured(&f, false);
    cr_expect_eq(heads.heads[5].value[QKV_HEAD_LOSS], 0);
    cr_expect_eq(heads.heads[5].value[QKV_HEAD_IMPORTANCE], 0);
    cr_expect_neq(heads.heads[4].value[QKV_HEAD_LOSS], 0);
    for (int64_t i = 0; i < heads.count; i++)
        cr_expect_eq(qkv_model_is_ablated(f.run.model, heads.heads[i].head), i == 5);
}

/* ---- induction ---- */

Test(heads, induction_scores_of_maps_are_known)
{
    static const int32_t READ[] = {1, 5, 6, 7, 5, 6, 7}, EQUAL[] = {1, 5, 5, 5, 5};
    double weights[7 * 7] = {0};
    static const double OF_EQUAL[] = {1, 0, 0,  0,  0,  .5, .5, 0,  0,  0,  .2, .2, .6,
                                      0, 0, .2, .4, .3, .1, 0,  .1, .2, .3, .3, .1};
    const struct qkv_attention_map
        map = {.kind = QKV_ATTENTION_DECODER, .rows = 7, .columns = 7, .weights = weights},
        equal = {.kind = QKV_ATTENTION_DECODER, .rows = 5, .columns = 5, .weights = OF_EQUAL};
    weights[1 * 7 + 0] = 1;  /* the first token has none before it */
    weights[2 * 7 + 1] = .5; /* the token before */
    weights[3 * 7 + 2] = 1;
    weights[4 * 7 + 3] = .1;
    weights[4 * 7 + 2] = .9; /* what follows the first 5 */
    weights[5 * 7 + 3] = .6;
    weights[6 * 7 + 4] = .3;
    weights[6 * 7 + 3] = .7; /* the first 7 itself */
    struct qkv_induction_scores scores = qkv_induction_scores(&map, READ);
    cr_expect_float_eq(scores.prefix_matching, (.9 + .6 + .3) / 3, 1e-12, "%g", scores.prefix_matching);
    cr_expect_float_eq(scores.previous_token, (.5 + 1 + .1) / 5, 1e-12, "%g", scores.previous_token);
    scores = qkv_induction_scores(&equal, EQUAL); /* every token but the first follows one like it */
    cr_expect_float_eq(scores.prefix_matching, (.3 + .1 + .3 + .3 + .1) / 2, 1e-12, "%g",
                       scores.prefix_matching);
    cr_expect_float_eq(scores.previous_token, (.2 + .3 + .3) / 3, 1e-12, "%g", scores.previous_token);
}

/* ---- a translator without an encoder ---- */

static void keep_total(void *context, int64_t done, int64_t total)
{
    int64_t *last = context;
    last[0] = done;
    last[1] = total;
}

/* The three kinds of maps of a head of a prefix are ablated together, and so once. */
Test(heads, of_a_prefix_are_ablated_once)
{
    int64_t last[2] = {0};
    struct fixture f RELEASED(close_fixture) = open_fixture(PREFIX);
    const struct qkv_heads_options options = {
        .no_translation = true, .testing = f.run.config.testing, .progress = keep_total, .context = last};
    struct qkv_measured_heads heads RELEASED(qkv_measured_heads_release);
    expect_done(qkv_heads_measure(&f.run, &f.corpus, &options, &heads, &error));
    cr_assert_eq(heads.count, 3 * 4);
    cr_expect_eq(last[0], 2 + 4);
    cr_expect_eq(last[1], 2 + 4);
    for (int i = 0; i < 12; i++)
        cr_expect_eq(heads.heads[i].value[QKV_HEAD_LOSS], heads.heads[i % 4].value[QKV_HEAD_LOSS], "%d", i);
    cr_expect_neq(heads.heads[0].value[QKV_HEAD_LOSS], heads.heads[1].value[QKV_HEAD_LOSS]);
}
