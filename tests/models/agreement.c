/* Attention, transformer layers, the loss and whole models against PyTorch's figures in
 * tests/figures/attention.json, which attention.py beside it made. Both sides start from the same
 * closed formula. */
#include "figures.h"

/* As in attention.py. */
enum {
    WIDTH = 6,
    HEADS = 2,
    INNER = 10,
    SOURCE_TOKENS = 9,
    TARGET_TOKENS = 9,
    SOURCE_TYPES = 11,
    TARGET_TYPES = 9
};
static const double EPSILON = 1e-5;
static const int64_t SOURCE_START[] = {0, 3, 4}, SOURCE_LENGTH[] = {3, 1, 5};
static const int64_t TARGET_START[] = {0, 4, 6}, TARGET_LENGTH[] = {4, 2, 3};
static const struct qkv_segments SOURCE = {3, SOURCE_START, SOURCE_LENGTH},
                                 TARGET = {3, TARGET_START, TARGET_LENGTH};

/* ---- multi-head attention ---- */

static struct qkv_multi_head_options attention_options(bool causal)
{
    return (struct qkv_multi_head_options){.rule = {.heads = HEADS, .causal = causal},
                                           .width = WIDTH,
                                           .key_width = WIDTH / HEADS,
                                           .value_width = WIDTH / HEADS,
                                           .bias = true};
}

/* The weights of every sentence, [heads, queries, keys]. */
static void expect_weights(const struct figures_case *test, const struct qkv_tensor *node)
{
    const cJSON *maps = cJSON_GetObjectItem(test->figures, "weights");
    for (int s = 0; s < 3; s++) {
        double all[HEADS * 5 * 5];
        int64_t rows = 0, columns = 0, count = 0;
        for (int head = 0; head < HEADS; head++, count += rows * columns) {
            const double *weights = qkv_attention_weights_of(node, s, head, &rows, &columns);
            memcpy(all + count, weights, (size_t)(rows * columns) * sizeof *all);
        }
        figures_expect(cJSON_GetArrayItem(maps, s), all, count, test->name, "weights");
    }
}

static void check_multi_head(const char *name, bool causal, bool cross)
{
    struct figures_case test RELEASED(figures_end);
    struct qkv_multi_head layer;
    struct qkv_tensor *node;
    const struct qkv_multi_head_options options = attention_options(causal);
    figures_start(&test, "attention.json", name);
    qkv_multi_head_init(&layer, test.parameters, &options, "attention");
    figures_bind(&test);
    struct qkv_tensor *x = figures_input(&test, 0, cross ? TARGET_TOKENS : SOURCE_TOKENS, WIDTH);
    struct qkv_tensor *memory = cross ? figures_input(&test, 1, SOURCE_TOKENS, WIDTH) : x;
    const struct qkv_attention_inputs inputs = {
        .x = x, .memory = memory, .queries = cross ? TARGET : SOURCE, .keys = SOURCE};
    struct qkv_tensor *y = qkv_multi_head_apply(&layer, test.graph, &inputs, &node);
    figures_expect_case(&test, y);
    expect_weights(&test, node);
}

Test(agreement, multi_head_attention)
{
    check_multi_head("multi_head self", false, false);
    check_multi_head("multi_head causal", true, false);
    check_multi_head("multi_head cross", false, true);
}

/* ---- encoder and decoder layers of the transformer ---- */

struct block {
    struct qkv_multi_head self, cross;
    struct qkv_feed_forward feed_forward;
    struct qkv_residual around_self, around_cross, around_feed_forward;
};

static void declare_block(struct block *block, struct qkv_parameters *parameters, enum qkv_norm_place place,
                          bool decoder)
{
    const struct qkv_norm_options norm = {QKV_NORM_LAYER, WIDTH, EPSILON};
    const struct qkv_multi_head_options self = attention_options(decoder), cross = attention_options(false);
    const struct qkv_feed_forward_options inner = {
        .width = WIDTH, .inner_width = INNER, .activation = QKV_ACTIVATION_RELU};
    qkv_multi_head_init(&block->self, parameters, &self, "self");
    qkv_residual_init(&block->around_self, parameters, &norm, place, 0, "self.norm");
    if (decoder) {
        qkv_multi_head_init(&block->cross, parameters, &cross, "cross");
        qkv_residual_init(&block->around_cross, parameters, &norm, place, 0, "cross.norm");
    }
    qkv_feed_forward_init(&block->feed_forward, parameters, &inner, "feed_forward");
    qkv_residual_init(&block->around_feed_forward, parameters, &norm, place, 0, "feed_forward.norm");
}

/* memory NULL: an encoder layer. */
static struct qkv_tensor *apply_block(const struct block *block, struct qkv_graph *graph,
                                      struct qkv_tensor *x, struct qkv_tensor *memory)
{
    struct qkv_segments rows = memory ? TARGET : SOURCE;
    struct qkv_tensor *inside = qkv_residual_input(&block->around_self, graph, x);
    const struct qkv_attention_inputs self = {.x = inside, .memory = inside, .queries = rows, .keys = rows};
    struct qkv_tensor *made = qkv_multi_head_apply(&block->self, graph, &self, NULL);
    x = qkv_residual_output(&block->around_self, graph, x, made);
    if (memory) {
        inside = qkv_residual_input(&block->around_cross, graph, x);
        const struct qkv_attention_inputs cross = {
            .x = inside, .memory = memory, .queries = rows, .keys = SOURCE};
        made = qkv_multi_head_apply(&block->cross, graph, &cross, NULL);
        x = qkv_residual_output(&block->around_cross, graph, x, made);
    }
    inside = qkv_residual_input(&block->around_feed_forward, graph, x);
    made = qkv_feed_forward_apply(&block->feed_forward, graph, inside);
    return qkv_residual_output(&block->around_feed_forward, graph, x, made);
}

static void check_block(const char *name, enum qkv_norm_place place, bool decoder)
{
    struct figures_case test RELEASED(figures_end);
    struct block block;
    figures_start(&test, "attention.json", name);
    declare_block(&block, test.parameters, place, decoder);
    figures_bind(&test);
    struct qkv_tensor *x = figures_input(&test, 0, decoder ? TARGET_TOKENS : SOURCE_TOKENS, WIDTH);
    struct qkv_tensor *memory = decoder ? figures_input(&test, 1, SOURCE_TOKENS, WIDTH) : NULL;
    figures_expect_case(&test, apply_block(&block, test.graph, x, memory));
}

Test(agreement, encoder_layers)
{
    check_block("encoder pre", QKV_NORM_PRE, false);
    check_block("encoder post", QKV_NORM_POST, false);
}

Test(agreement, decoder_layers)
{
    check_block("decoder pre", QKV_NORM_PRE, true);
    check_block("decoder post", QKV_NORM_POST, true);
}

/* ---- the loss ---- */

static void make_labels(int32_t *labels, int count, int classes)
{
    for (int i = 0; i < count; i++) labels[i] = (5 * i + 2) % classes;
}

static void check_loss(const char *name, double smoothing)
{
    struct figures_case test RELEASED(figures_end);
    int32_t labels[TARGET_TOKENS];
    make_labels(labels, TARGET_TOKENS, WIDTH);
    figures_start(&test, "attention.json", name);
    struct qkv_tensor *logits = figures_input(&test, 0, TARGET_TOKENS, WIDTH);
    figures_expect_case(&test, qkv_cross_entropy(test.graph, logits, labels, smoothing, 0.25));
}

Test(agreement, label_smoothed_loss)
{
    check_loss("loss", 0);
    check_loss("smoothed loss", 0.1);
}

/* ---- the whole model ---- */

static void set_stack(struct qkv_stack_config *stack, enum qkv_norm_place place)
{
    stack->num_layers = 2;
    stack->num_heads = HEADS;
    stack->hidden_size = WIDTH;
    stack->ff_size = INNER;
    stack->layer_norm = place;
    stack->norm = QKV_NORM_LAYER;
    stack->norm_epsilon = EPSILON;
    stack->activation = QKV_ACTIVATION_RELU;
    stack->attention =
        (struct qkv_attention_config){.key_width = WIDTH / HEADS, .value_width = WIDTH / HEADS, .bias = true};
    stack->attention.window = 0;
    stack->embeddings = (struct qkv_embedding_config){.embedding_dim = WIDTH, .scale = true};
    stack->positions = (struct qkv_position_config){QKV_POSITION_SINUSOIDAL, 10000, 8};
}

static void check_model(const char *name, enum qkv_norm_place place, bool tied)
{
    int32_t source[SOURCE_TOKENS], target[TARGET_TOKENS + 1];
    make_labels(source, SOURCE_TOKENS, SOURCE_TYPES);
    make_labels(target, TARGET_TOKENS + 1, TARGET_TYPES);
    const struct qkv_batch_view view = {.count = 3,
                                        .source_tokens = SOURCE_TOKENS,
                                        .target_tokens = TARGET_TOKENS,
                                        .source = source,
                                        .source_start = SOURCE_START,
                                        .source_length = SOURCE_LENGTH,
                                        .target_input = target,
                                        .target_output = target + 1,
                                        .target_start = TARGET_START,
                                        .target_length = TARGET_LENGTH};
    struct qkv_model_config config = {
        .initializer = QKV_INITIALIZER_ZEROS, .init_gain = 1, .embed_init_gain = 1, .tied_softmax = tied};
    set_stack(&config.encoder, place);
    set_stack(&config.decoder, place);
    struct qkv_model *model RELEASED(free_model) =
        made(qkv_model_new(&config, SOURCE_TYPES, TARGET_TYPES, QKV_FLOAT64, &error));
    struct figures_case test RELEASED(figures_end);
    figures_start(&test, "attention.json", name);
    test.parameters = &model->parameters;
    figures_bind(&test);
    figures_expect_case(&test,
                        qkv_model_loss(model, test.graph, &view, &(struct qkv_objective){.smoothing = 0.1},
                                       1.0 / TARGET_TOKENS, NULL));
}

Test(agreement, the_loss_and_every_gradient_of_a_model)
{
    check_model("model pre", QKV_NORM_PRE, false);
    check_model("model post", QKV_NORM_POST, false);
    check_model("model tied", QKV_NORM_PRE, true);
}
