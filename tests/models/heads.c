/* Silencing heads: a silent head adds to its layer what it would add if its rows of the output projection were 0, in the
 * forced pass and in decoding. */
#include "tiny.h"
#include "zeroed_head.h"

#include "models/network.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 7 };

static const int64_t SOURCE[] = {3, 1, 5}, TARGET[] = {4, 2, 6};

static struct qkv_model *model_of(const struct qkv_model_config *config)
{
    return tiny_model(config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 5);
}

/* Greatest difference between two models. */
static double difference(const struct qkv_model *model, const struct qkv_model *other)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    tiny_batch(&batch, model, 3, SOURCE, TARGET, 2);
    const struct qkv_batch_view view = tiny_view(&batch);
    return tiny_difference(model, &view, other, &view);
}

/* Silences each head in turn, then all. */
static void expect_silence(const struct qkv_model_config *config, int64_t heads, const char *what)
{
    struct qkv_model *complete RELEASED(free_model) = model_of(config),
                               *model RELEASED(free_model) = model_of(config),
                               *none RELEASED(free_model) = model_of(config);
    cr_assert_eq(qkv_model_head_count(model), heads, "%s", what);
    for (int64_t i = 0; i < heads; i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        struct qkv_model *zeroed RELEASED(free_model) = model_of(config);
        scale_head(zeroed, head, 0);
        scale_head(none, head, 0);
        cr_expect_not(qkv_model_is_ablated(model, head));
        cr_assert(qkv_model_ablate(model, head, true));
        cr_expect(qkv_model_is_ablated(model, head));
        cr_expect_leq(difference(model, zeroed), 1e-12, "%s, head %d", what, (int)i);
        cr_expect_geq(difference(model, complete), 1e-4, "%s, head %d", what, (int)i);
        tiny_expect_decoding(model, what);
        cr_assert(qkv_model_ablate(model, head, false));
        cr_expect_eq(difference(model, complete), 0, "%s, head %d speaks again", what, (int)i);
    }
    for (int64_t i = 0; i < heads; i++) qkv_model_ablate(model, qkv_model_head(model, i), true);
    cr_expect_leq(difference(model, none), 1e-12, "%s, no head", what);
    tiny_expect_decoding(model, what);
}

Test(heads, silent_heads_of_a_transformer)
{
    static const enum qkv_attention_kernel KERNELS[] = {QKV_KERNEL_EXACT, QKV_KERNEL_FLASH};
    for (int flash = 0; flash < 2; flash++) {
        struct qkv_model_config config = tiny_config();
        config.encoder.attention.kernel = config.decoder.attention.kernel = KERNELS[flash];
        expect_silence(&config, 12, flash ? "flash" : "exact");
    }
    struct qkv_model_config config = tiny_config();
    config.encoder.num_heads = config.decoder.num_heads = 4; /* which share keys and values in pairs */
    config.encoder.attention.value_width = config.decoder.attention.value_width = 3;
    config.encoder.layer_norm = config.decoder.layer_norm = QKV_NORM_POST;
    config.decoder.num_layers = 1;
    expect_silence(&config, 2 * 4 + 4 + 4, "grouped heads");
}

Test(heads, the_silent_head_of_a_recurrent_network)
{
    for (int feeding = 0; feeding < 2; feeding++) {
        struct qkv_model_config config = tiny_recurrent_config();
        config.decoder.input_feeding = feeding;
        expect_silence(&config, 1, feeding ? "input feeding" : "recurrent");
        config.decoder.attention.score = QKV_ATTENTION_SCORE_NONE;
        struct qkv_model *model RELEASED(free_model) = model_of(&config);
        cr_expect_eq(qkv_model_head_count(model), 0);
    }
}

Test(heads, are_listed_by_kind_layer_and_number)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_model *model RELEASED(free_model) = model_of(&config);
    for (int64_t i = 0; i < 12; i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        cr_expect(head.attention == i / 4 && head.layer == i / 2 % 2 + 1 && head.head == i % 2 + 1,
                  "head %d is %d.%d.%d", (int)i, head.attention, (int)head.layer, (int)head.head);
    }
    static const struct qkv_head MISSING[] = {
        {QKV_ATTENTION_CROSS, 0, 1}, {QKV_ATTENTION_CROSS, 3, 1},  {QKV_ATTENTION_CROSS, 1, 0},
        {QKV_ATTENTION_CROSS, 1, 3}, {QKV_ATTENTION_CROSS, -1, 1}, {QKV_ATTENTION_KINDS, 1, 1},
    };
    for (size_t i = 0; i < sizeof MISSING / sizeof *MISSING; i++) {
        cr_expect_not(qkv_model_ablate(model, MISSING[i], true));
        cr_expect_not(qkv_model_is_ablated(model, MISSING[i]));
    }
    cr_expect_eq(qkv_model_head(model, 12).layer, 0);
    cr_expect_eq(qkv_model_head(model, -1).layer, 0);
}

/* In the trace, the weights of a silent head stay and its context is 0. */
Test(heads, a_silent_head_keeps_its_weights)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_trace trace;
    struct tiny tiny RELEASED(tiny_release) = tiny_with(model_of(&config), 3, SOURCE, TARGET, 2);
    cr_assert(qkv_model_ablate(tiny.model, (struct qkv_head){QKV_ATTENTION_CROSS, 2, 1}, true));
    struct qkv_graph *graph RELEASED(free_graph) = tiny_traced(&tiny, &trace);
    struct qkv_tensor *context = qkv_trace_attention(&trace, QKV_PART_CONTEXT, QKV_ATTENTION_CROSS, 2)->node;
    const double *values = qkv_tensor_value(context);
    for (int64_t i = 0; i < qkv_tensor_count(context); i++)
        cr_assert_eq(i % 8 < 4, values[i] == 0, "number %d is %g", (int)i, values[i]);
    int64_t rows, columns;
    const double *weights = qkv_attention_weights_of(
        qkv_trace_attention(&trace, QKV_PART_WEIGHTS, QKV_ATTENTION_CROSS, 2)->node, 0, 0, &rows, &columns);
    double sum = 0;
    for (int64_t j = 0; j < columns; j++) sum += weights[j];
    cr_expect_float_eq(sum, 1, 1e-12);
}
