/* Networks from outside the library: registering them, their settings, and that decoding, search, silencing, and attention
 * maps work with them. */
#include "own_network.h"
#include "tiny.h"

#include "models/network.h"

enum { SIZE = 9 };

static struct qkv_model_config config_of(const char *network, const char *settings)
{
    struct qkv_model_config config = tiny_config();
    config.network = network;
    config.settings = settings;
    return config;
}

/* Expects the model to be refused with this message. */
static void expect_refused(const struct qkv_model_config *config, const char *message)
{
    expect_refusal(STATUS_OF(qkv_model_new(config, SIZE, SIZE, QKV_FLOAT32, &error)), message);
}

static void expect_unregistered(const struct qkv_network_interface *network, const char *message)
{
    cr_expect_eq(qkv_network_register(network, &error), QKV_INVALID);
    cr_expect(begins(error.message, message), "%s, not %s", error.message, message);
}

/* ---- registering ---- */

Test(networks, are_refused_unless_complete)
{
    static const struct qkv_decoding_interface small = {.size = 8};
    static const struct qkv_network_setting far[] = {{"depth", 5, 1, 4, true}},
                                            half[] = {{"depth", 1.5, 1, 4, true}},
                                            twice[] = {{"depth", 1, 1, 4, true}, {"depth", 1, 1, 4, true}};
    const struct qkv_network_interface good = own_network("set");
    struct qkv_network_interface spaced = good, taken = good, lacking = good, steps = good, settings[5];
    spaced.name = "with space";
    taken.name = "recurrent";
    lacking.forward = NULL;
    steps.decoding = &small;
    for (int i = 0; i < 5; i++) settings[i] = good;
    settings[0].settings = far, settings[1].settings = half, settings[2].settings = twice;
    settings[2].setting_count = 2, settings[3].setting_count = -1, settings[4].settings = NULL;
    expect_unregistered(
        &spaced, "the name of a network must be made of letters, digits, '_' and '-', not 'with space'");
    expect_unregistered(&taken, "there is a network called recurrent already");
    expect_unregistered(&lacking, "network set: a network needs the functions declare and forward");
    expect_unregistered(&steps, "network set: decoding needs start, step and reorder, and a struct that "
                                "begins with struct qkv_decoding");
    expect_unregistered(&settings[0],
                        "network set: the default of setting depth, 5, must be an integer from 1 to 4");
    expect_unregistered(&settings[1],
                        "network set: the default of setting depth, 1.5, must be an integer from 1 to 4");
    expect_unregistered(&settings[2], "network set: two settings are called depth");
    expect_unregistered(&settings[3], "network set: setting_count is -1");
    expect_unregistered(&settings[4], "network set: setting_count is 1");
    own_network_register();
    taken.name = "own";
    expect_unregistered(&taken, "there is a network called own already");
}

Test(networks, are_at_most_32)
{
    static struct qkv_network_interface networks[33];
    static char names[33][8];
    for (int i = 0; i < 33; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        networks[i] = own_network(names[i]);
        if (i < 32) cr_assert_eq(qkv_network_register(&networks[i], NULL), QKV_OK);
    }
    expect_unregistered(&networks[32], "network n32: there are 32 networks already");
}

Test(networks, are_chosen_by_name)
{
    struct qkv_model_config config = config_of("own", "");
    expect_refused(&config, "model.network: this program has no network called 'own'; the program that has "
                            "it calls qkv_network_register (qkv/model.h)");
    own_network_register();
    struct qkv_model *model = made(qkv_model_new(&config, SIZE, SIZE, QKV_FLOAT32, &error));
    cr_expect_str_eq(model->interface->name, "own");
    cr_expect_not_null(qkv_parameters_find(&model->parameters, "cross.query.weight"));
    qkv_model_free(model);
    config = config_of("onw", "");
    expect_refused(&config, "model.network: this program has no network called 'onw'; did you mean own");
    config = config_of("transformer", "");
    expect_refused(&config, "model.network is for networks that a program registers; transformer is a "
                            "model.encoder.type");
}

Test(networks, are_checked_before_any_text_is_read)
{
    const char *folder = tiny_task("checked");
    static const char *const commands[] = {"train c.yaml", "gradcheck c.yaml"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        cr_expect(refused(
            run("cd '%s' && qkv %s -s model.network=own -s data.train=missing.tsv", folder, commands[i]),
            "qkv: model.network: this program has no network called 'own'; the program that has it "
            "calls qkv_network_register (qkv/model.h)"));
    own_network_register();
    struct qkv_model_config config = config_of("own", "gain=3");
    expect_refusal(qkv_network_check(&config, &error),
                   "model.settings: gain must be a number from 0.5 to 2, not '3'");
    config = config_of("own", "gain=2");
    cr_expect_eq(qkv_network_check(&config, &error), QKV_OK);
    config = config_of("", "");
    cr_expect_eq(qkv_network_check(&config, &error), QKV_OK);
}

Test(networks, say_why_a_config_cannot_be)
{
    own_network_register();
    struct qkv_model_config config = config_of("own", "");
    config.encoder.hidden_size = config.decoder.hidden_size = 7;
    config.encoder.embeddings.embedding_dim = config.decoder.embeddings.embedding_dim = 7;
    config.encoder.num_heads = config.decoder.num_heads = 1;
    config.encoder.attention.key_value_heads = config.decoder.attention.key_value_heads = 1;
    expect_refused(&config, "network own: a width of 7 is odd");
}

static void *declare_nothing(struct qkv_model *model, struct qkv_error *refusal)
{
    (void)model;
    (void)refusal;
    return NULL;
}

Test(networks, that_declare_nothing_are_refused)
{
    struct qkv_network_interface network = own_network("nothing");
    network.declare = declare_nothing;
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    const struct qkv_model_config config = config_of("nothing", "");
    expect_refused(&config,
                   "network nothing: declare returned NULL without a message, as where memory runs out");
}

Test(networks, have_settings)
{
    own_network_register();
    struct qkv_model_config config = config_of("own", "");
    const struct {
        const char *settings;
        double gain; /* 0: refused */
        const char *message;
    } CASES[] = {
        {"", 1, ""},
        {"gain=1.5", 1.5, ""},
        {" gain=0.5, gain=2 ", 2, ""},
        {"gain=3", 0, "model.settings: gain must be a number from 0.5 to 2, not '3'"},
        {"gain=", 0, "model.settings: gain must be a number from 0.5 to 2, not ''"},
        {"gain", 0, "model.settings: gain has no value; write gain=number"},
        {"gains=1", 0,
         "model.settings: 'gains=1' is not a setting of the network own, which has gain; write name=number"},
        {"gain=nan", 0, "model.settings: gain must be a number from 0.5 to 2, not 'nan'"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char settings[40];
        snprintf(settings, sizeof settings, "%s", CASES[i].settings);
        config.settings = settings;
        if (CASES[i].gain <= 0) {
            expect_refused(&config, CASES[i].message);
            continue;
        }
        struct qkv_model *model RELEASED(free_model) = qkv_model_new(&config, SIZE, SIZE, QKV_FLOAT32, NULL);
        cr_assert_not_null(model);
        memset(settings, 'x', sizeof settings - 1); /* the model does not need the caller's text */
        cr_expect_eq(qkv_model_setting(model, "gain"), CASES[i].gain);
        cr_expect(isnan(qkv_model_setting(model, "loss")));
        cr_expect_str_eq(model->config.settings, CASES[i].settings);
    }
    config = config_of("", "gain=1");
    expect_refused(&config, "config: model.settings is \"gain=1\", but needs model.network");
}

/* ---- working ---- */

static struct qkv_model *model_of(const char *network, enum qkv_dtype dtype)
{
    const struct qkv_model_config config = config_of(network, "");
    return tiny_model(&config, SIZE, SIZE, dtype, 7);
}

Test(networks, tie_the_output_layer_to_their_embedding)
{
    own_network_register();
    struct qkv_network_interface untied = own_network("untied");
    untied.inputs = NULL;
    cr_assert_eq(qkv_network_register(&untied, NULL), QKV_OK);
    struct qkv_model_config config = config_of("own", "");
    config.tied_softmax = true;
    struct qkv_model *model = made(qkv_model_new(&config, SIZE, SIZE, QKV_FLOAT32, &error));
    cr_expect_eq(model->output_weight, qkv_parameters_find(&model->parameters, "target.table"));
    qkv_model_free(model);
    config.network = "untied";
    expect_refused(&config,
                   "model.tied_softmax shares the embedding table of the decoder, but the network untied "
                   "has none");
}

/* ---- mistakes in forward ---- */

static const struct {
    enum { NOTHING, FEW_ROWS, WIDE, NO_LAYER, MANY_HEADS, NO_ATTENTION } mistake;
    const char *message;
} MISTAKES[] = {
    {NOTHING, "network wrong: forward returned NULL, but must return a row of model.decoder.hidden_size for "
              "each target token: [5, 8]"},
    {FEW_ROWS, "network wrong: forward returned [4, 8], but must return a row of model.decoder.hidden_size "
               "for each target token: [5, 8]"},
    {WIDE, "network wrong: forward returned [5, 16], but must return a row of model.decoder.hidden_size for "
           "each target token: [5, 8]"},
    {NO_LAYER, "qkv_trace_record: the layer of an attention is 0, but layers count from 1"},
    {MANY_HEADS, "qkv_trace_record: heads is 4, but attention has 1"},
    {NO_ATTENTION, "qkv_trace_record: scale (scale) has no attention weights: record the attention node"},
};
static size_t mistaken; /* index in MISTAKES */

/* Rows of Nt target tokens by one head that attends to them, with one of the mistakes. */
static struct qkv_tensor *mistaken_forward(const struct qkv_model *model, struct qkv_graph *graph,
                                           const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const int64_t width = model->config.decoder.hidden_size, mistake = MISTAKES[mistaken].mistake;
    const struct qkv_part part = {.stack = QKV_STACK_DECODER,
                                  .attention = QKV_ATTENTION_DECODER,
                                  .layer = mistake != NO_LAYER,
                                  .heads = mistake == MANY_HEADS ? 4 : 1};
    const struct qkv_attention attention = {.rule.heads = 1};
    struct qkv_tensor *x = qkv_constant(graph, QKV_SHAPE(batch->target_tokens, width));
    struct qkv_tensor *node = qkv_attention(graph, x, x, x, NULL, attention);
    if (mistake == NO_ATTENTION) node = qkv_scale(graph, node, 2);
    qkv_trace_record(trace, graph, &part, QKV_PART_WEIGHTS, node);
    if (mistake == NOTHING) return NULL;
    if (mistake == FEW_ROWS) return qkv_slice(graph, x, 0, 1, batch->target_tokens - 1);
    return mistake == WIDE ? qkv_concat(graph, x, x, 1) : x;
}

Test(networks, say_what_is_wrong_with_forward)
{
    struct qkv_network_interface network = own_network("wrong");
    network.forward = mistaken_forward;
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    const int64_t SOURCE[] = {3}, TARGET[] = {4};
    struct tiny tiny RELEASED(tiny_release) = tiny_with(model_of("wrong", QKV_FLOAT32), 1, SOURCE, TARGET, 1);
    for (mistaken = 0; mistaken < sizeof MISTAKES / sizeof MISTAKES[0]; mistaken++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_bind(graph, &tiny.model->parameters, NULL, false);
        cr_expect_null(qkv_model_loss(tiny.model, graph, &tiny.view, NULL, 1, NULL));
        expect_refusal(qkv_graph_check(graph, &error), MISTAKES[mistaken].message);
    }
}

/* The hidden states of the network `own`, of which row i is moved by `offset` rows, within its sentence or beyond it. */
static struct {
    int64_t offset;
    bool crosses;
} move;

static struct qkv_tensor *moved_forward(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct qkv_segments target = {batch->count, batch->target_start, batch->target_length};
    struct qkv_tensor *x = own_network("own").forward(model, graph, batch, trace);
    return qkv_neighbours(graph, x, move.crosses ? (struct qkv_segments){0} : target, move.offset, 1);
}

Test(networks, that_look_ahead_or_mix_sentences_are_refused)
{
    const struct {
        int64_t offset;
        bool crosses;
        const char *message; /* its part after "forward "; NULL: nothing is wrong */
    } CASES[] = {
        {0, false, NULL},
        {-1, false, NULL},
        {1, false, "looks ahead: row 0 of a sentence changes with row 1 of its target_input"},
        {3, false, "looks ahead: row 0 of a sentence changes with row 1 of its target_input"},
        {-1, true, "mixes sentences: row 0 of sentence 1 changes with the tokens of another sentence"},
        {4, true, "mixes sentences: row 0 of sentence 0 changes with the tokens of another sentence"},
    };
    struct qkv_network_interface network = own_network("moved");
    network.forward = moved_forward;
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    struct qkv_model *model RELEASED(free_model) = model_of("moved", QKV_FLOAT32);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        move.offset = CASES[i].offset;
        move.crosses = CASES[i].crosses;
        enum qkv_status status = qkv_network_check_forward(model, &error);
        cr_expect_eq(status, CASES[i].message ? QKV_INVALID : QKV_OK, "case %d", (int)i);
        const char *message = CASES[i].message ? CASES[i].message : "";
        cr_expect(shows(error.message, message), "case %d: %s", (int)i, error.message);
    }
}

/* Those of the library obey the rules. Plain decoding gives the probabilities of the forced pass, for any network. */
Test(networks, decode_without_a_decoding_of_their_own)
{
    static const int64_t SOURCE[] = {3, 1, 6}, TARGET[] = {4, 0, 5};
    own_network_register();
    const struct {
        const char *name;
        struct qkv_model_config config;
    } CASES[] = {{"own", config_of("own", "")},
                 {"transformer", tiny_config()},
                 {"recurrent", tiny_recurrent_config()}};
    for (int i = 0; i < 3; i++) {
        struct tiny tiny RELEASED(tiny_release) =
            tiny_with(tiny_model(&CASES[i].config, SIZE, SIZE, QKV_FLOAT64, 3), 3, SOURCE, TARGET, 1);
        struct qkv_decoding *plain RELEASED(free_decoding) = qkv_decoding_new_plain(tiny.model);
        tiny_expect_forced(plain, tiny.model, CASES[i].name, &tiny.view, 1e-12);
        cr_expect_eq(qkv_network_check_forward(tiny.model, &error), QKV_OK, "%s: %s", CASES[i].name,
                     error.message);
        cr_expect_eq(qkv_network_check_decoding(tiny.model, &error), QKV_OK, "%s: %s", CASES[i].name,
                     error.message);
    }
}

/* Maps: rows sum to 1; decoder maps know what a causal row does not see; a silent head is seen by no one. */
Test(networks, draw_maps_and_silence_heads)
{
    own_network_register();
    struct qkv_model *model = model_of("own", QKV_FLOAT64);
    const int32_t WORDS[] = {4, 5, 6};
    const char *const TOKENS[] = {"a", "b", "c"};
    const struct qkv_attention_pair pair = {
        .source = {3, WORDS}, .target = {2, WORDS}, .source_tokens = TOKENS, .target_tokens = TOKENS};
    struct qkv_attention_collector *collector = qkv_attention_collector_new(model, NULL);
    struct qkv_attention_report report;
    cr_assert_eq(qkv_attention_collect(collector, 1, &pair, 0, &report, NULL), QKV_OK);
    cr_assert_eq(report.map_count, 2);
    for (int m = 0; m < 2; m++) {
        const struct qkv_attention_map *map = &report.maps[m];
        bool is_cross = map->kind == QKV_ATTENTION_CROSS;
        cr_expect_eq(map->columns, is_cross ? 4 : 3);
        cr_expect_eq(map->rule != NULL, !is_cross);
        for (int64_t row = 0; row < map->rows; row++) {
            double sum = 0;
            for (int64_t c = 0; c < map->columns; c++) sum += map->weights[row * map->columns + c];
            cr_expect_float_eq(sum, 1, 1e-12);
        }
    }
    qkv_attention_collector_free(collector);

    cr_assert_eq(qkv_model_head_count(model), 2);
    const int64_t SOURCE[] = {3}, TARGET[] = {2};
    struct tiny tiny RELEASED(tiny_release) = tiny_with(model, 1, SOURCE, TARGET, 1);
    double *before RELEASED(free_memory) = tiny_log_probabilities(model, &tiny.view);
    cr_assert(qkv_model_ablate(model, qkv_model_head(model, 1), true));
    double *after RELEASED(free_memory) = tiny_log_probabilities(model, &tiny.view);
    cr_expect_gt(fabs(before[0] - after[0]), 1e-6);
}
