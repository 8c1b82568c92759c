/* The transformer: decoding step by step gives the probabilities of the forced pass, for every
 * architecture, batch and order of the hypotheses. */
#include "tiny.h"

#include "framework/engine/graph/internal.h"
#include "models/network.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 7 };

/* ---- architectures ---- */

struct variant {
    const char *name;
    enum qkv_norm_place place;
    enum qkv_norm_kind norm;
    enum qkv_position_kind positions;
    bool tied, narrow, attention_only;
    int64_t decoder_layers;
    int64_t window, global_tokens, key_value_heads;
    enum qkv_attention_kernel kernel;
    bool ff_gated, output_gate, qk_norm;
    double soft_cap;
    enum qkv_attention_sink sink;
};

static const struct variant VARIANTS[] = {
    {"pre-norm", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_SINUSOIDAL, .decoder_layers = 2},
    {"post-norm", QKV_NORM_POST, QKV_NORM_LAYER, QKV_POSITION_LEARNED, .decoder_layers = 2},
    {"tied", QKV_NORM_PRE, QKV_NORM_RMS, QKV_POSITION_SINUSOIDAL, .tied = true, .decoder_layers = 1},
    {"tied, post-norm", QKV_NORM_POST, QKV_NORM_RMS, QKV_POSITION_NONE, .tied = true, .decoder_layers = 3},
    {"heads of other widths", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_LEARNED, .narrow = true,
     .decoder_layers = 1},
    {"window", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_SINUSOIDAL, .decoder_layers = 2, .window = 2},
    {"window, global token, one key head", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_LEARNED,
     .decoder_layers = 2, .window = 1, .global_tokens = 1, .key_value_heads = 1, .kernel = QKV_KERNEL_EXACT},
    {"rotary", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_ROTARY, .decoder_layers = 2, .key_value_heads = 1},
    {"ALiBi", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_ALIBI, .decoder_layers = 2,
     .kernel = QKV_KERNEL_FLASH},
    {"relative", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_RELATIVE, .decoder_layers = 2},
    {"all of it", QKV_NORM_POST, QKV_NORM_RMS, QKV_POSITION_RELATIVE, .decoder_layers = 2, .window = 3,
     .global_tokens = 2, .key_value_heads = 1, .kernel = QKV_KERNEL_FLASH},
    {"gated feed forward", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_SINUSOIDAL, .decoder_layers = 1,
     .ff_gated = true},
    {"output gate", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_ROTARY, .decoder_layers = 1,
     .output_gate = true},
    {"attention alone", QKV_NORM_PRE, QKV_NORM_RMS, QKV_POSITION_ROTARY, .attention_only = true,
     .decoder_layers = 2},
    {"attention alone, post-norm", QKV_NORM_POST, QKV_NORM_LAYER, QKV_POSITION_LEARNED,
     .attention_only = true, .decoder_layers = 1},
    {"QK-norm", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_ROTARY, .decoder_layers = 2, .key_value_heads = 1,
     .qk_norm = true},
    {"soft cap", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_RELATIVE, .decoder_layers = 2, .soft_cap = 0.5},
    {"learned sink", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_SINUSOIDAL, .decoder_layers = 2,
     .sink = QKV_ATTENTION_SINK_LEARNED},
    {"sink of 0, flash, window", QKV_NORM_PRE, QKV_NORM_LAYER, QKV_POSITION_ALIBI, .decoder_layers = 2,
     .window = 2, .soft_cap = 2, .kernel = QKV_KERNEL_FLASH, .sink = QKV_ATTENTION_SINK_ZERO},
};

enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

static struct qkv_model *model_of(const struct variant *variant, enum qkv_dtype dtype)
{
    struct qkv_model_config config = tiny_config();
    config.tied_embeddings = config.tied_softmax = variant->tied;
    config.decoder.num_layers = variant->decoder_layers;
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->layer_norm = variant->place;
        stacks[i]->norm = variant->norm;
        stacks[i]->positions.type = variant->positions;
        stacks[i]->ff_gated = variant->ff_gated;
        stacks[i]->attention.output_gate = variant->output_gate;
        stacks[i]->attention.qk_norm = variant->qk_norm;
        stacks[i]->attention.soft_cap = variant->soft_cap;
        stacks[i]->attention.sink = variant->sink;
        stacks[i]->positions.buckets = 8;
        stacks[i]->positions.max_distance = 6;
        stacks[i]->attention.kernel = variant->kernel;
        stacks[i]->attention.global_tokens = variant->global_tokens;
        if (variant->key_value_heads) stacks[i]->attention.key_value_heads = variant->key_value_heads;
        if (variant->window) stacks[i]->attention.window = variant->window;
        if (variant->attention_only) stacks[i]->ff_size = 0;
        if (!variant->narrow) continue;
        stacks[i]->attention.key_width = 3;
        stacks[i]->attention.value_width = 5;
    }
    return tiny_model(&config, variant->tied ? TARGET_SIZE : SOURCE_SIZE, TARGET_SIZE, dtype, 17);
}

/* ---- decoding against the forced pass ---- */

Test(transformer, decoding_gives_the_probabilities_of_the_forced_pass)
{
    for (int v = 0; v < VARIANT_COUNT; v++)
        for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
            struct qkv_model *model RELEASED(free_model) = model_of(&VARIANTS[v], (enum qkv_dtype)dtype);
            tiny_expect_decoding(model, VARIANTS[v].name);
            /* Rows that split and end, and sentences that must not see each other. */
            cr_expect_eq(qkv_network_check_decoding(model, &error), QKV_OK, "%s: %s", VARIANTS[v].name,
                         error.message);
            cr_expect_eq(qkv_network_check_forward(model, &error), QKV_OK, "%s: %s", VARIANTS[v].name,
                         error.message);
        }
}

/* A decoding can be used after it has refused to start. */
Test(transformer, decodings_that_do_not_fit_are_refused)
{
    static const struct {
        int64_t words, rows, steps;
        const char *message;
    } CASES[] = {
        {5, 1, 3, "6 rows from position 0 on, but the table has 5 positions"},
        {2, 64000, 1000000, "64000 hypotheses of 1000000 tokens are too many"},
        {4, 2, 3, NULL},
    };
    struct qkv_model_config config = tiny_config();
    config.encoder.positions.max_length = 5;
    struct qkv_model *model RELEASED(free_model) =
        tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 1);
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    cr_expect_eq(qkv_model_max_length(model), 5);
    for (int i = 0; i < 3; i++) {
        tiny_batch(&batch, model, 1, &CASES[i].words, NULL, 1);
        const struct qkv_batch_view view = tiny_view(&batch);
        cr_expect_eq(qkv_decoding_start(decoding, &view, CASES[i].rows, CASES[i].steps, true, &error),
                     CASES[i].message ? QKV_INVALID : QKV_OK, "case %d", i);
        cr_expect(shows(error.message, CASES[i].message ? CASES[i].message : ""), "case %d: %s", i,
                  error.message);
    }
}

/* ---- which parts drop out ---- */

struct dropout_count {
    int all, in_feed_forward, of_words; /* nodes of one forward pass */
};

static void count_dropout(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct dropout_count *count = context;
    const char *op = qkv_tensor_op(tensor);
    if (backward || strncmp(op, "dropout", 7) != 0) return;
    count->all++;
    count->in_feed_forward += strstr(qkv_tensor_name(tensor), "feed_forward.inner") != NULL;
    count->of_words += !strcmp(op, "dropout_rows");
}

/* The loss of a batch under dropout, and the nodes that drop out. */
static double loss_with_dropout(struct qkv_model_config config, struct dropout_count *count)
{
    static const int64_t SOURCE[] = {3, 5}, TARGET[] = {4, 2};
    const struct qkv_random random = {.seed = 3, .step = 1};
    const struct qkv_observer observer = {count_dropout, count};
    struct tiny tiny RELEASED(tiny_release) =
        tiny_with(tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 17), 2, SOURCE, TARGET, 5);
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    *count = (struct dropout_count){0};
    qkv_graph_observe(graph, &observer);
    qkv_graph_set_dropout(graph, &random);
    qkv_graph_bind(graph, &tiny.model->parameters, NULL, false);
    const struct qkv_tensor *loss = qkv_model_loss(tiny.model, graph, &tiny.view, NULL, 1, NULL);
    qkv_forward(graph);
    double value = qkv_tensor_scalar(loss);
    return value;
}

static double loss_with_inner_dropout(double dropout, double inner, struct dropout_count *count)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.dropout = config.decoder.dropout = dropout;
    config.encoder.activation_dropout = config.decoder.activation_dropout = inner;
    return loss_with_dropout(config, count);
}

Test(transformer, activation_dropout_acts_inside_feed_forward_layers_only)
{
    struct dropout_count count;
    double same = loss_with_inner_dropout(0.3, QKV_SAME_AS_DROPOUT, &count);
    cr_expect(count.in_feed_forward == 4 && count.all == 14, "%d of %d", count.in_feed_forward, count.all);
    cr_expect_eq(loss_with_inner_dropout(0.3, 0.3, &count), same);
    cr_expect_neq(loss_with_inner_dropout(0.3, 0.2, &count), same);
    loss_with_inner_dropout(0.3, 0, &count);
    cr_expect(count.in_feed_forward == 0 && count.all == 10, "%d of %d", count.in_feed_forward, count.all);
    loss_with_inner_dropout(0, 0.3, &count);
    cr_expect(count.in_feed_forward == 4 && count.all == 4, "%d of %d", count.in_feed_forward, count.all);
}

Test(transformer, word_dropout_belongs_to_the_stack_of_its_key)
{
    struct dropout_count count;
    for (int network = 0; network < 2; network++) {
        double loss[4];
        for (int stacks = 0; stacks < 4; stacks++) {
            struct qkv_model_config config = tiny_config();
            config.encoder.type = config.decoder.type =
                network ? QKV_NETWORK_RECURRENT : QKV_NETWORK_TRANSFORMER;
            config.encoder.embeddings.word_dropout = stacks & 1 ? 0.4 : 0;
            config.decoder.embeddings.word_dropout = stacks & 2 ? 0.4 : 0;
            loss[stacks] = loss_with_dropout(config, &count);
            cr_expect_eq(count.of_words, (stacks & 1) + stacks / 2, "%d nodes", count.of_words);
            cr_expect_eq(count.all, count.of_words);
            for (int earlier = 0; earlier < stacks; earlier++) cr_expect_neq(loss[stacks], loss[earlier]);
        }
    }
}
