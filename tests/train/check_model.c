/* The gradient check of models, here of a network from outside; tests/tools/gradcheck.c checks those of the library. */
#include "own_network.h"
#include "training.h"

static const struct qkv_config *config_of(struct qkv_config *config, struct qkv_arena *arena,
                                          const char *network)
{
    const char *const overrides[] = {format("model.network=%s", network), "model.decoder.dropout=0.2",
                                     "training.updates=1"};
    struct qkv_messages messages;
    cr_assert_eq(qkv_config_read(config, arena, training_config(scratch(network)), overrides, 3, &messages),
                 QKV_OK, "%s", messages.text[0]);
    return config;
}

static void keep_sizes(void *context, const struct qkv_checked_sizes *sizes)
{
    *(struct qkv_checked_sizes *)context = *sizes;
}

static const struct qkv_check_options OPTIONS = {.seed = 1, .sample = 4};

Test(check_model, passes_networks_from_outside)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_check_report report RELEASED(qkv_check_release) = {0};
    struct qkv_checked_sizes sizes = {0};
    own_network_register();
    const struct qkv_checked_model model = {.subject = "own",
                                            .config = config_of(&config, &arena, "own"),
                                            .sentences = 3,
                                            .begin = keep_sizes,
                                            .context = &sizes};
    expect_done(qkv_check_model(&report, &model, &OPTIONS, &error));
    cr_expect_eq(report.failures, 0);
    cr_expect_geq(report.count, 10);
    bool has_attention = false, has_precision = false;
    for (int64_t i = 0; i < report.count; i++) {
        cr_expect_str_eq(report.rows[i].subject, "own");
        has_attention |= !strcmp(report.rows[i].tensor, "cross.query.weight");
        has_precision |= strstr(report.rows[i].tensor, "float32") != NULL;
    }
    cr_expect(has_attention);
    cr_expect(has_precision);
    cr_expect_eq(sizes.sentences, 3);
    cr_expect_geq(sizes.source_tokens, 6); /* each with </s> */
    cr_expect_geq(sizes.target_tokens, 6);
    cr_expect_gt(sizes.parameters, 100);
}

/* A network that computes half of its result from numbers through which no gradient flows. */
static struct qkv_tensor *forward_without_gradient(const struct qkv_model *model, struct qkv_graph *graph,
                                                   const struct qkv_batch_view *batch,
                                                   struct qkv_trace *trace)
{
    struct qkv_tensor *x = own_network("own").forward(model, graph, batch, trace);
    return qkv_add(graph, qkv_scale(graph, x, 0.5), qkv_detach(graph, qkv_scale(graph, x, 0.5)));
}

Test(check_model, finds_wrong_gradients)
{
    static struct qkv_network_interface network;
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_check_report report RELEASED(qkv_check_release) = {0};
    network = own_network("wrong");
    network.forward = forward_without_gradient;
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    const struct qkv_checked_model model = {
        .subject = "wrong", .config = config_of(&config, &arena, "wrong"), .sentences = 2};
    expect_done(qkv_check_model(&report, &model, &OPTIONS, &error));
    cr_expect_gt(report.failures, 4);
}

Test(check_model, refuses_what_it_cannot_check)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_check_report report RELEASED(qkv_check_release) = {0};
    own_network_register();
    struct qkv_checked_model model = {.subject = "own", .config = config_of(&config, &arena, "own")};
    expect_refusal(qkv_check_model(&report, &model, &OPTIONS, &error),
                   "a model is checked on at least 1 sentence, not 0");
    model.sentences = 1;
    config.data.train = "missing.tsv";
    expect_refusal_with(qkv_check_model(&report, &model, &OPTIONS, &error), "missing.tsv");
    config.model.network = "unknown";
    expect_refusal_with(qkv_check_model(&report, &model, &OPTIONS, &error), "no network called 'unknown'");
    cr_expect_eq(report.count, 0);
}
