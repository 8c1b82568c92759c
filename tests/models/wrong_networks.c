/* Networks of a program that break the rules of network.h, and batches that no function of the library has made: an error,
 * never an access outside of an array. */
#include "models/network.h"
#include "own_network.h"
#include "tiny.h"

enum { SOURCE_SIZE = 11, TARGET_SIZE = 9, SENTENCES = 2, ROWS = 2 };

static const int64_t SOURCE[SENTENCES] = {3, 1}; /* words: with </s>, 4 and 2 tokens */
static const struct qkv_search_options GREEDY = {.beam_size = 1, .n_best = 1};

/* ---- decodings ---- */

static enum step_mistake { NONE, NO_OUTPUT, FEW_ROWS, MANY_ROWS, THREE_AXES, NO_HIDDEN } mistake;

static enum qkv_status start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                             struct qkv_error *unused)
{
    (void)decoding, (void)batch, (void)unused;
    return QKV_OK;
}

static enum qkv_status step(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *unused)
{
    struct qkv_graph *graph = decoding->decoder;
    const int64_t width = decoding->model->config.decoder.hidden_size,
                  given = rows + (mistake == MANY_ROWS) - (mistake == FEW_ROWS);
    (void)ids, (void)sentences, (void)unused;
    qkv_graph_reset(graph);
    struct qkv_tensor *hidden =
        qkv_constant(graph, mistake == THREE_AXES ? QKV_SHAPE(rows, 1, width) : QKV_SHAPE(given, width));
    if (mistake != NO_OUTPUT) qkv_decoding_add_output(decoding, mistake == NO_HIDDEN ? NULL : hidden);
    qkv_forward(graph);
    return QKV_OK;
}

static void reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    (void)decoding, (void)rows, (void)parents;
}

static struct qkv_model *register_and_make(void)
{
    static const struct qkv_decoding_interface decoding = {
        .size = sizeof(struct qkv_decoding), .start = start, .step = step, .reorder = reorder};
    static struct qkv_network_interface network;
    network = own_network("wrong_steps");
    network.decoding = &decoding;
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    struct qkv_model_config config = tiny_config();
    config.network = "wrong_steps";
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
}

Test(wrong_networks, a_step_must_give_scores_for_each_row)
{
    static const int32_t IDS[ROWS] = {1, 1};
    static const int64_t NUMBERS[ROWS] = {0, 1};
    struct tiny tiny RELEASED(tiny_release) = tiny_with(register_and_make(), SENTENCES, SOURCE, NULL, 5);
    for (mistake = NONE; mistake <= NO_HIDDEN; mistake++) {
        struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(tiny.model);
        struct qkv_translations translations RELEASED(qkv_translations_release) = {0};
        cr_assert_eq(qkv_decoding_start(decoding, &tiny.view, ROWS, 3, true, &error), QKV_OK);
        const struct qkv_next_scores *next = qkv_decoding_step(decoding, ROWS, IDS, NUMBERS, &error);
        enum qkv_status status = qkv_search(decoding, &tiny.view, &GREEDY, &translations, &error);
        cr_expect_eq(next != NULL && next->rows == ROWS, mistake == NONE, "mistake %d", (int)mistake);
        if (mistake == NONE)
            expect_done(status);
        else
            expect_refusal_with(status,
                                "network wrong_steps: a step of 2 rows ended without scores for each");
    }
}

/* ---- layers ---- */

static struct qkv_attention_layers same_in_each_layer(const struct qkv_model *model,
                                                      enum qkv_attention_kind kind, int64_t layer)
{
    return layer < 1 ? (struct qkv_attention_layers){0}
                     : own_network("wrong_layers").attention(model, kind, 1);
}

Test(wrong_networks, layers_without_end_are_counted_up_to_the_maximum)
{
    static struct qkv_network_interface network;
    network = own_network("wrong_layers");
    network.attention = same_in_each_layer;
    cr_assert_eq(qkv_network_register(&network, NULL), QKV_OK);
    struct qkv_model_config config = tiny_config();
    config.network = "wrong_layers";
    struct qkv_model *model RELEASED(free_model) =
        tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
    cr_expect_eq(qkv_model_head_count(model),
                 2 * QKV_LAYERS_MAX); /* a head in each layer of decoder and cross */
}

/* ---- batches ---- */

static const struct {
    const char *what;
    int64_t count, start[SENTENCES], length[SENTENCES]; /* of sources or of targets */
} BATCHES[] = {
    {"a negative count", -1, {0, 4}, {4, 2}},
    {"a negative start", 2, {-4, 4}, {4, 2}},
    {"sentences that overlap", 2, {0, 2}, {4, 4}},
    {"a start behind the end", 2, {0, INT64_MAX}, {4, 2}},
    {"a length beyond the end", 2, {0, 4}, {4, 3}},
    {"a length whose end overflows", 2, {0, 4}, {4, INT64_MAX}},
    {"a negative length", 2, {0, 4}, {4, -2}},
    {"the least of all lengths", 2, {0, 4}, {INT64_MIN, 2}},
    {"tokens of no sentence", 1, {0, 0}, {4, 0}},
};

static void expect_disorder(enum qkv_status status, const char *what)
{
    cr_expect(status == QKV_INVALID && strstr(error.message, "do not follow one another"),
              "%s: status %d, %s", what, (int)status, error.message);
    *error.message = '\0';
}

/* Expects an error of everything that reads a batch. */
static void expect_refused(const struct qkv_model *model, const struct qkv_batch_view *view, bool of_sources,
                           const char *what)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    cr_expect_null(qkv_model_loss(model, graph, view, NULL, 1, NULL), "%s", what);
    expect_disorder(qkv_graph_check(graph, &error), what);
    for (int plain = 0; of_sources && plain < 2; plain++) {
        struct qkv_decoding *decoding RELEASED(free_decoding) =
            plain ? qkv_decoding_new_plain(model) : qkv_decoding_new(model);
        struct qkv_translations translations RELEASED(qkv_translations_release) = {0};
        expect_disorder(qkv_decoding_start(decoding, view, ROWS, 3, false, &error), what);
        expect_disorder(qkv_search(decoding, view, &GREEDY, &translations, &error), what);
    }
}

Test(wrong_networks, batches_that_do_not_fit_their_tokens_are_refused)
{
    for (int feeds = 0; feeds < 2; feeds++) {
        struct qkv_model_config config = feeds ? tiny_recurrent_config() : tiny_config();
        config.decoder.input_feeding = feeds;
        struct tiny tiny RELEASED(tiny_release) = tiny_with(
            tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4), SENTENCES, SOURCE, SOURCE, 5);
        for (size_t i = 0; i < sizeof BATCHES / sizeof BATCHES[0]; i++) {
            struct qkv_batch_view view = tiny.view;
            view.count = BATCHES[i].count;
            view.source_start = BATCHES[i].start;
            view.source_length = BATCHES[i].length;
            expect_refused(tiny.model, &view, true, BATCHES[i].what);
            if (BATCHES[i].count != SENTENCES) continue;
            view = tiny.view;
            view.target_start = BATCHES[i].start;
            view.target_length = BATCHES[i].length;
            expect_refused(tiny.model, &view, false, BATCHES[i].what);
        }
    }
}
