/* What a caller must not pass to an op: every op refuses it with the graph's error, or computes something without
 * reaching memory that is not its own (run with AddressSanitizer to see that). */
#include "support.h"

#include "framework/engine/graph/internal.h"

static void expect_error(struct qkv_graph *graph, const char *name, const char *message)
{
    cr_expect(qkv_graph_check(graph, &error) == QKV_INVALID && strstr(error.message, message),
              "%s: '%s' lacks '%s'", name, error.message, message);
}

/* ---- a table of misuse, each with its message ---- */

static const int64_t ZERO[] = {0, 0}, ONE[] = {1, 1}, TWO[] = {2, 2}, HUGE_NUMBER[] = {INT64_MAX, INT64_MAX},
                     HALF[] = {INT64_MAX / 2, INT64_MAX / 2}, NEGATIVE[] = {-1, INT64_MIN};
static const int32_t INDICES[] = {0, 1, 0, 1};

struct misuse {
    enum qkv_op_id op;
    struct qkv_shape input[QKV_MAX_INPUTS]; /* rank 0: NULL */
    struct qkv_options options;
    const char *message;
};

#define M(...)   LIST(2, LIST(__VA_ARGS__))
#define V(count) LIST(1, LIST(count))
#define INPUTS   LIST
#define OPTIONS  LIST
#define ONE_HEAD .attention = {.heads = 1}

static const struct misuse MISUSE[] = {
    {QKV_OP_reshape, INPUTS(M(3, 4)), OPTIONS(.shape = {0, {0}}), "would have 0 axes, but must have 1 to 4"},
    {QKV_OP_reshape, INPUTS(M(3, 4)), OPTIONS(.shape = {5, {1, 1, 3, 4}}), "would have 5 axes"},
    {QKV_OP_reshape, INPUTS(M(3, 4)), OPTIONS(.shape = {1000000, {12}}), "would have 1000000 axes"},
    {QKV_OP_reshape, INPUTS(M(3, 4)), OPTIONS(.shape = M(-3, -4)), "cannot become [-3, -4]"},
    {QKV_OP_reshape, INPUTS(M(3, 4)), OPTIONS(.shape = {3, {(int64_t)1 << 62, 4, 12}}), "cannot become"},
    {QKV_OP_permute, INPUTS(M(3, 4)), OPTIONS(.permutation = {1, {0}}),
     "permutation has 1 axes, but input is [3, 4]"},
    {QKV_OP_permute, INPUTS(M(3, 4)), OPTIONS(.permutation = {3, {1, 0, 2}}), "permutation has 3 axes"},
    {QKV_OP_permute, INPUTS(M(3, 4)), OPTIONS(.permutation = {INT32_MAX, {1, 0}}), "permutation has"},
    {QKV_OP_permute, INPUTS(M(3, 4)), OPTIONS(.permutation = {2, {64, 0}}),
     "entry 0 of the permutation is 64"},
    {QKV_OP_concat, INPUTS(M(3, 4), M(3, 4)), OPTIONS(.axis = INT64_MAX), "axis is 9223372036854775807"},
    {QKV_OP_mean, INPUTS(M(3, 4)), OPTIONS(.axis = INT64_MAX), "axis is 9223372036854775807"},
    {QKV_OP_slice, INPUTS(M(3, 4)), OPTIONS(.axis = 0, .start = INT64_MAX, .length = 1), "1 elements from"},
    {QKV_OP_slice, INPUTS(M(3, 4)), OPTIONS(.start = 1, .length = INT64_MAX), "elements from 1 on"},
    {QKV_OP_slice, INPUTS(M(3, 4)), OPTIONS(.start = INT64_MIN, .length = 2), "2 elements from"},
    {QKV_OP_embedding, INPUTS(M(3, 4)), OPTIONS(.indices = INDICES), "has no ids"},
    {QKV_OP_gather_rows, INPUTS(M(3, 4)), OPTIONS(.indices = INDICES, .index_count = -1), "has no rows"},
    {QKV_OP_gather_rows, INPUTS(M(3, 4)), OPTIONS(.indices = INDICES, .index_count = INT64_MAX),
     "there are 9223372036854775807 indices"},
    {QKV_OP_scatter_rows, INPUTS(M(3, 4)), OPTIONS(.indices = INDICES, .rows = INT64_MAX),
     "the result would have shape [9223372036854775807, 4], but must have at most 2^40 elements"},
    {QKV_OP_matmul, INPUTS(M(1 << 21, 1), M(1, 1 << 21)), OPTIONS(0),
     "the result would have shape [2097152, 2097152], but must have at most 2^40 elements"},
    {QKV_OP_neighbours, INPUTS(M(3, 4)), OPTIONS(.length = (int64_t)1 << 40),
     "the result would have shape [3, 4398046511104], but must have at most 2^40 elements"},
    {QKV_OP_scatter_rows, INPUTS(M(3, 4)), OPTIONS(.indices = INDICES, .rows = -1),
     "the result would have -1 rows"},
    {QKV_OP_cross_entropy, INPUTS(M(3, 4)), OPTIONS(.factor = 1), "has no labels"},
    {QKV_OP_linear_cross_entropy, INPUTS(M(3, 4), M(4, 5)), OPTIONS(.factor = 1), "has no labels"},
    {QKV_OP_paired_cross_entropy, INPUTS(M(3, 4), M(3, 4), M(4, 5)), OPTIONS(.factor = 1), "has no labels"},
    {QKV_OP_paired_cross_entropy, INPUTS(M(3, 4), M(3, 4), M(4, 5)), OPTIONS(.factor = 1, .consistency = NAN),
     "consistency is nan"},
    {QKV_OP_cross_entropy, INPUTS(M(3, 4)), OPTIONS(.indices = INDICES, .smoothing = NAN),
     "smoothing is nan"},
    {QKV_OP_dropout, INPUTS(M(3, 4)), OPTIONS(.rate = NAN), "the rate is nan"},
    {QKV_OP_layer_norm, INPUTS(M(3, 4)), OPTIONS(.epsilon = NAN), "epsilon is nan"},
    {QKV_OP_rms_norm, INPUTS(M(3, 4)), OPTIONS(.epsilon = INFINITY), "epsilon is inf"},
    {QKV_OP_attention, INPUTS(M(3, 4), M(3, 4), M(3, 4)), OPTIONS(.attention = {.heads = INT64_MAX}),
     "must be a multiple of 9223372036854775807 heads"},
    {QKV_OP_attention_weights, INPUTS(V(4)),
     OPTIONS(.attention = {.heads = INT64_MAX / 2}, .queries = {2, ZERO, TWO}, .keys = {2, ZERO, ONE}),
     "segments 0 and 1 of queries share row 0"},
    {QKV_OP_attention_weights, INPUTS(V(4)),
     OPTIONS(.attention = {.heads = INT64_MAX / 2}, .queries = {1, ZERO, TWO}, .keys = {1, ZERO, ONE}),
     "pairs of query and key"},
    {QKV_OP_attention, INPUTS(M(3, 4), M(3, 4), M(3, 4), {0}, M(4, 1)),
     OPTIONS(.attention = {.heads = 1, .buckets = INT64_MAX - 1, .max_distance = INT64_MAX}),
     "but must be [9223372036854775806, 1]"},
    {QKV_OP_attention_scores, INPUTS(M(3, 4), M(3, 4), M(4, 1)),
     OPTIONS(.attention = {.heads = 1, .buckets = INT64_MIN, .max_distance = 4}),
     "buckets is -9223372036854775808"},
    {QKV_OP_attention, INPUTS(M(3, 4), M(3, 4), M(3, 4)),
     OPTIONS(.attention = {.heads = 1, .window = INT64_MIN}), "neither may be negative"},
    {QKV_OP_attention, INPUTS(M(3, 4), M(3, 4), M(3, 4)), OPTIONS(.attention = {.heads = 1, .scale = NAN}),
     "the scale is nan"},
    {QKV_OP_attention, INPUTS(M(3, 4), M(3, 4), M(3, 4)),
     OPTIONS(.attention = {.heads = 1, .kernel = (enum qkv_attention_kernel)7}),
     "kernel is 7, which is no value of enum qkv_attention_kernel"},
    {QKV_OP_attention, INPUTS(M(3, 4), M(3, 4), M(3, 4)),
     OPTIONS(.attention = {.heads = 1, .mask_values = (enum qkv_mask_values)7}), "mask_values is 7"},
    {QKV_OP_attention_weights, INPUTS(V(6), {3, {1, 2, 3}}),
     OPTIONS(ONE_HEAD, .queries = {1, ZERO, TWO}, .keys = {1, ZERO, (const int64_t[]){3}}),
     "the mask must not need a gradient"},
    {QKV_OP_attention_arrange, INPUTS(V(4)), OPTIONS(ONE_HEAD, .indices = INDICES),
     "needs attention.queries and attention.keys"},
    {QKV_OP_attention_weights, INPUTS(V(12)), OPTIONS(ONE_HEAD),
     "because its first input does not come from attention_scores or"},
    {QKV_OP_attention_arrange, INPUTS(V(4)),
     OPTIONS(ONE_HEAD, .indices = INDICES, .queries = {1, ZERO, HALF}, .keys = {1, ZERO, HALF}),
     "pairs of query and key"},
    {QKV_OP_attention_mix, INPUTS(V(1), M(2, 2)),
     OPTIONS(ONE_HEAD, .queries = {1, HALF, ONE}, .keys = {1, ZERO, ONE}), "segment 0 of queries"},
};

/* Builds the misuse and returns the error. */
static void try_misuse(const struct misuse *misuse)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *inputs[QKV_MAX_INPUTS] = {NULL};
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        if (misuse->input[k].rank) /* the table of rotate has no gradient */
            inputs[k] = k && misuse->op == QKV_OP_rotate ? qkv_constant(graph, misuse->input[k])
                                                         : qkv_variable(graph, misuse->input[k]);
    cr_expect_null(qkv_node(graph, misuse->op, inputs, &misuse->options), "%s: %s", qkv_op_name(misuse->op),
                   misuse->message);
    expect_error(graph, qkv_op_name(misuse->op), misuse->message);
}

Test(misuse, is_refused_with_a_message)
{
    for (size_t i = 0; i < sizeof MISUSE / sizeof *MISUSE; i++) try_misuse(&MISUSE[i]);
}

/* ---- segments, in every op that has them ---- */

static const struct {
    struct qkv_segments segments;
    const char *message;
    bool may_be_keys; /* sentences may share keys */
} SEGMENTS[] = {
    {{1, HUGE_NUMBER, ONE}, "is rows 9223372036854775807 to 9223372036854775807", false},
    {{1, ONE, HUGE_NUMBER}, "is rows 1 to 9223372036854775807", false},
    {{1, HUGE_NUMBER, HUGE_NUMBER}, "is rows 9223372036854775807 to", false},
    {{2, NEGATIVE, ONE}, "segment 0 of", false},
    {{2, ZERO, NEGATIVE}, "segment 0 of", false},
    {{-1, ZERO, ONE}, "there are -1 segments of", false},
    {{INT64_MAX, ZERO, ONE}, "9223372036854775807 segments", false},
    {{1, NULL, ONE}, "have no array of starts or lengths", false},
    {{1, ZERO, NULL}, "have no array of starts or lengths", false},
    {{2, ZERO, TWO}, "segments 0 and 1 of", true},
};

static const struct misuse SEGMENTED[] = {
    {QKV_OP_segment_softmax, {M(2, 2)}, {.axis = 0}, ""},
    {QKV_OP_add_positions, {M(2, 2), M(2, 2)}, {.axis = 0}, ""},
    {QKV_OP_rotate, {M(2, 4), M(2, 2)}, {.axis = 0}, ""},
    {QKV_OP_rnn, {M(2, 2), M(2, 2)}, {.axis = 0}, ""},
    {QKV_OP_gru, {M(2, 6), M(2, 6)}, {.axis = 0}, ""},
    {QKV_OP_lstm, {M(2, 8), M(2, 8)}, {.axis = 0}, ""},
    {QKV_OP_attention, {M(2, 2), M(2, 2), M(2, 2)}, {ONE_HEAD}, ""},
    {QKV_OP_attention_scores, {M(2, 2), M(2, 2)}, {ONE_HEAD}, ""},
    {QKV_OP_attention_weights, {V(2)}, {ONE_HEAD}, ""},
    {QKV_OP_attention_mix, {V(2), M(2, 2)}, {ONE_HEAD}, ""},
    {QKV_OP_attention_additive, {M(2, 2), M(2, 2), V(2)}, {ONE_HEAD}, ""},
    {QKV_OP_attention_loss, {V(2), V(2)}, {ONE_HEAD, .factor = 1}, ""},
    {QKV_OP_attention_local, {V(2), M(2, 1)}, {ONE_HEAD, .local_window = 1}, ""},
    {QKV_OP_attention_arrange, {V(2)}, {ONE_HEAD, .indices = INDICES}, ""},
};

Test(misuse, segments_that_lie_outside_the_rows_or_share_some_are_refused)
{
    for (size_t i = 0; i < sizeof SEGMENTED / sizeof *SEGMENTED; i++)
        for (size_t s = 0; s < sizeof SEGMENTS / sizeof *SEGMENTS; s++) {
            struct misuse misuse = SEGMENTED[i];
            misuse.message = SEGMENTS[s].message;
            misuse.options.segments = misuse.options.queries = SEGMENTS[s].segments;
            misuse.options.keys = (struct qkv_segments){1, ZERO, ONE};
            if (SEGMENTS[s].may_be_keys) misuse.options.keys = SEGMENTS[s].segments;
            try_misuse(&misuse);
            misuse.options.queries = (struct qkv_segments){1, ZERO, ONE};
            misuse.options.keys = SEGMENTS[s].segments;
            if (!SEGMENTS[s].may_be_keys) try_misuse(&misuse);
        }
}

Test(misuse, positions_that_the_table_does_not_have_are_refused)
{
    static const int64_t firsts[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, -1, 2};
    for (int i = 0; i < 10; i++)
        try_misuse(&(struct misuse){i % 2 ? QKV_OP_rotate : QKV_OP_add_positions,
                                    {M(2, 2), M(3, 2)},
                                    {.first = &firsts[i / 2]},
                                    "but the table has 3 positions"});
}

/* ---- every op ---- */

Test(misuse, every_op_refuses_missing_and_foreign_inputs)
{
    const struct qkv_options some = {0};
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32),
                            *other RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    struct qkv_tensor *none[QKV_MAX_INPUTS] = {NULL}, *all[QKV_MAX_INPUTS],
                      *foreign[QKV_MAX_INPUTS] = {qkv_variable(other, QKV_SHAPE(2, 2))};
    const struct {
        struct qkv_tensor **inputs;
        const struct qkv_options *options;
        const char *message;
    } CASES[] = {{none, &some, " is NULL"},
                 {NULL, &some, "NULL"},
                 {all, NULL, "NULL"},
                 {foreign, &some, " belongs to another graph"},
                 {all, &some, "is given, but the op has only"}};
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        for (int c = 0; c < (op == QKV_OP_attention ? 4 : 5);
             c++) { /* the only op with QKV_MAX_INPUTS inputs */
            for (int k = 0; k < QKV_MAX_INPUTS; k++) all[k] = qkv_variable(graph, QKV_SHAPE(2, 2));
            cr_expect_null(qkv_node(graph, (enum qkv_op_id)op, CASES[c].inputs, CASES[c].options), "%s: %s",
                           qkv_op_name((enum qkv_op_id)op), CASES[c].message);
            expect_error(graph, qkv_op_name((enum qkv_op_id)op), CASES[c].message);
            qkv_graph_reset(graph);
        }
}
