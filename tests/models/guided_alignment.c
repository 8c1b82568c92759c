/* The loss of guided alignment, against the attention weights of a forced pass. */
#include "tiny.h"

#include "models/network.h"

enum { SOURCE_SIZE = 11, TARGET_SIZE = 9, PAIRS = 3 };
static const int64_t SOURCE[] = {3, 5, 1}, TARGET[] = {4, 2, 6};

/* Pair 0 has a target token with two links; pair 1 has none. */
static int64_t starts[] = {0, 4, 4, 5};
static struct qkv_token_link links[] = {{0, 2, 0.75}, {0, 0, 0.25}, {2, 1, 1}, {3, 1, 1}, {5, 0, 1}};
static const struct qkv_token_links LINKS = {PAIRS, starts, links};

static struct tiny make_subject(int64_t key_value_heads, double dropout)
{
    struct qkv_model_config config = tiny_config();
    config.decoder.num_heads = 4;
    config.decoder.attention.key_value_heads = key_value_heads;
    config.decoder.dropout = config.decoder.attention.dropout = dropout;
    return tiny_with(tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 3), PAIRS, SOURCE, TARGET, 5);
}

/* The sum over the links of the pairs first .. end - 1, which the pass holds, of -share log(weight). A link of target token
 * t is learned by row t + shift. */
static double expected_loss(const struct qkv_trace *trace, int64_t layer, int64_t head, int64_t shift,
                            int64_t first, int64_t end)
{
    const struct qkv_part *part = qkv_trace_attention(trace, QKV_PART_WEIGHTS, QKV_ATTENTION_CROSS, layer);
    double loss = 0;
    for (int64_t pair = first; pair < end; pair++) {
        int64_t rows, columns;
        const double *weights = qkv_attention_weights_of(part->node, pair - first, head - 1, &rows, &columns);
        cr_assert_not_null(weights);
        for (int64_t i = starts[pair]; i < starts[pair + 1]; i++) {
            int64_t row = links[i].target + shift;
            if (row < rows) loss -= links[i].share * log(weights[row * columns + links[i].source]);
        }
    }
    return loss;
}

static struct qkv_graph *compute(const struct tiny *subject, const struct qkv_objective *objective,
                                 const struct qkv_random *random, double *loss, struct qkv_trace *trace)
{
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    qkv_graph_set_dropout(graph, random);
    qkv_graph_bind(graph, &subject->model->parameters, NULL, false);
    struct qkv_tensor *tensor = qkv_model_loss(subject->model, graph, &subject->view, objective, 0.5, trace);
    expect_done(qkv_graph_check(graph, &error));
    qkv_forward(graph);
    *loss = qkv_tensor_scalar(tensor);
    return graph;
}

/* layer: that of the key; expected: that whose weights it means. */
static void expect_loss(int64_t key_value_heads, int64_t layer, int64_t expected_layer, int64_t head,
                        enum qkv_alignment_reading reading)
{
    struct tiny subject RELEASED(tiny_release) = make_subject(key_value_heads, 0);
    struct qkv_objective objective = {.smoothing = 0.1, .guided = {3, layer, head, &LINKS, reading}};
    struct qkv_trace trace;
    double guided, plain, unused;
    struct qkv_graph *graph = compute(&subject, &objective, NULL, &guided, &trace);
    double expected = expected_loss(&trace, expected_layer, head, reading == QKV_READING_READ, 0, PAIRS), sum;
    cr_expect_gt(expected, 1);
    qkv_cross_entropy_sums(trace.alignment[0], &sum, &unused);
    cr_expect_float_eq(sum, expected, 1e-12);
    cr_expect_null(trace.alignment[1]);
    qkv_graph_free(graph);
    objective.guided.weight = 0;
    qkv_graph_free(compute(&subject, &objective, NULL, &plain, &trace));
    cr_expect_null(trace.alignment[0]);
    cr_expect_float_eq(guided, plain + 0.5 * 3 * expected, 1e-11);
}

/* Where the alignment is read, links are learned by the step that reads the token. Layer 0 is the last but one of two. */
Test(guided_alignment, the_loss_is_the_cross_entropy_of_links_and_weights)
{
    expect_loss(0, 1, 1, 1, QKV_READING_PREDICTED);
    expect_loss(2, 2, 2, 2, QKV_READING_PREDICTED);
    expect_loss(2, 1, 1, 4, QKV_READING_PREDICTED);
    expect_loss(0, 0, 1, 2, QKV_READING_PREDICTED);
    expect_loss(0, 1, 1, 1, QKV_READING_READ);
    expect_loss(2, 2, 2, 3, QKV_READING_READ);
}

Test(guided_alignment, the_links_of_a_shard_are_those_of_its_pairs)
{
    struct tiny subject RELEASED(tiny_release) = make_subject(0, 0);
    struct qkv_objective objective = {.guided = {1, 1, 1, &LINKS}};
    double sum, loss, unused;
    for (int64_t shard = 0, first = 0; shard < 2; shard++) {
        struct qkv_trace trace;
        qkv_batch_shard(&subject.batch, shard, 2, &subject.view);
        cr_assert_gt(subject.view.count, 0);
        struct qkv_graph *graph RELEASED(free_graph) = compute(&subject, &objective, NULL, &loss, &trace);
        int64_t end = first + subject.view.count;
        qkv_cross_entropy_sums(trace.alignment[0], &sum, &unused);
        cr_expect_float_eq(sum, expected_loss(&trace, 1, 1, 0, first, end), 1e-12);
        first = end;
    }
}

Test(guided_alignment, both_passes_of_r_drop_and_the_first_of_simcut_are_guided)
{
    const struct qkv_random random = {.seed = 8, .step = 2};
    const struct qkv_guided_alignment guide = {3, 1, 1, &LINKS};
    const struct qkv_objective objectives[] = {{.r_drop = 2, .guided = guide},
                                               {.simcut = 2, .simcut_rate = 0.3, .guided = guide}};
    for (int i = 0; i < 2; i++) {
        struct tiny subject RELEASED(tiny_release) = make_subject(0, 0.3);
        struct qkv_objective objective = objectives[i];
        struct qkv_trace trace;
        double guided, plain, sum[2] = {0}, unused;
        struct qkv_graph *graph = compute(&subject, &objective, &random, &guided, &trace);
        cr_assert_eq(trace.alignment[1] != NULL, i == 0);
        for (int pass = 0; pass < 2 - i; pass++)
            qkv_cross_entropy_sums(trace.alignment[pass], &sum[pass], &unused);
        qkv_graph_free(graph);
        if (i) sum[1] = sum[0];
        cr_expect(i || fabs(sum[0] - sum[1]) > 1e-3, "%g, %g", sum[0], sum[1]);
        objective.guided.weight = 0;
        qkv_graph_free(compute(&subject, &objective, &random, &plain, &trace));
        cr_expect_float_eq(guided, plain + 0.5 * 3 * (sum[0] + sum[1]) / 2, 1e-11, "objective %d", i);
    }
}

Test(guided_alignment, a_head_that_does_not_exist_is_refused)
{
    static const struct qkv_guided_alignment wrong[] = {
        {1, 3, 1, &LINKS}, {1, 1, 5, &LINKS}, {1, 1, 0, &LINKS}, {1, 1, INT64_MIN, &LINKS}};
    struct tiny subject RELEASED(tiny_release) = make_subject(0, 0);
    for (int i = 0; i < 4; i++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
        qkv_graph_bind(graph, &subject.model->parameters, NULL, false);
        const struct qkv_objective objective = {.guided = wrong[i]};
        qkv_model_loss(subject.model, graph, &subject.view, &objective, 1, NULL);
        expect_refusal_with(qkv_graph_check(graph, &error), "of cross attention in layer");
    }
}

/* Foreign numbers lead to no write outside of the weights. */
Test(guided_alignment, links_of_tokens_and_pairs_that_do_not_exist_are_left_out)
{
    static const int32_t wrong[] = {-1, INT32_MIN, 5, INT32_MAX};
    struct tiny subject RELEASED(tiny_release) = make_subject(0, 0);
    struct qkv_token_link foreign[9];
    int64_t foreign_starts[] = {0, 9, 9, 9}, before[] = {-1, 1, INT64_MIN};
    for (int i = 0; i < 8; i++)
        foreign[i] =
            i % 2 ? (struct qkv_token_link){wrong[i / 2], 1, 1} : (struct qkv_token_link){1, wrong[i / 2], 1};
    foreign[8] = (struct qkv_token_link){2, 1, 1};
    const struct qkv_token_links some = {PAIRS, foreign_starts, foreign},
                                 one = {PAIRS, (int64_t[]){0, 1, 1, 1}, foreign + 8};
    double loss, expected;
    struct qkv_trace trace;
    struct qkv_objective objective = {.guided = {1, 1, 1, &one}};
    qkv_graph_free(compute(&subject, &objective, NULL, &expected, &trace));
    objective.guided.links = &some;
    qkv_graph_free(compute(&subject, &objective, NULL, &loss, &trace));
    cr_expect_eq(loss, expected);
    objective.guided.weight = 0;
    qkv_graph_free(compute(&subject, &objective, NULL, &expected, &trace));
    objective.guided.weight = 1;
    subject.view.index = before;
    qkv_graph_free(compute(&subject, &objective, NULL, &loss, &trace));
    cr_expect_eq(loss, expected);
}
