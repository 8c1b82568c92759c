/* Wrong calls of modules above the graph end in an error, NaN or an empty result, never in an abort. */
#include "tiny.h"

#include "explain/explain.h"
#include "framework/engine/check/check.h"
#include "models/network.h"

enum { SOURCE_SIZE = 11, TARGET_SIZE = 9, SENTENCES = 2 };

static const int64_t SOURCE[SENTENCES] = {3, 1}, TARGET[SENTENCES] = {4, 2};
static struct qkv_model *model;
static struct qkv_batch batch;

static void setup(void)
{
    struct qkv_model_config config = tiny_config();
    model = tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
    tiny_batch(&batch, model, SENTENCES, SOURCE, TARGET, 5);
}

static void teardown(void)
{
    qkv_batch_release(&batch);
    qkv_model_free(model);
}

TestSuite(misuse, .init = setup, .fini = teardown);

Test(misuse, searches_decodings_and_translations_out_of_range)
{
    static const int64_t CASES[][2] = {{0, 1}, {-1, 1}, {2, 0}, {2, 3}};
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    struct qkv_translations translations RELEASED(qkv_translations_release) = {0};
    const struct qkv_batch_view view = tiny_view(&batch);
    for (int i = 0; i < 4; i++) {
        const struct qkv_search_options options = {.beam_size = CASES[i][0], .n_best = CASES[i][1]};
        expect_refusal_with(qkv_search(decoding, &view, &options, &translations, &error),
                            CASES[i][0] < 1 ? "beam_size is" : "n_best is");
    }
    expect_refusal_with(qkv_decoding_start(decoding, &view, 0, 3, false, &error), "has 0 of 3");
    const int64_t sentences[3] = {0, 1, 1};
    const int32_t ids[3] = {1, 1, 1}, wrong[2] = {1, 1000000};
    cr_assert_eq(qkv_decoding_start(decoding, &view, 2, 1, false, &error), QKV_OK);
    expect_refusal_with(STATUS_OF(qkv_decoding_step(decoding, 3, ids, sentences, &error)),
                        "step 1 with 3 rows");
    expect_refusal_with(STATUS_OF(qkv_decoding_step(decoding, 2, wrong, sentences, &error)),
                        "id 1 is 1000000");
    const struct qkv_next_scores *next = made(qkv_decoding_step(decoding, 2, ids, sentences, &error));
    cr_expect(isnan(qkv_next_log_probability(next, 0, 1)), "started without sums");
    expect_refusal_with(STATUS_OF(qkv_decoding_step(decoding, 2, ids, sentences, &error)),
                        "step 2 with 2 rows, but decoding has room for 1 steps");
    struct qkv_translator *translator RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    const struct qkv_search_options greedy = {.beam_size = 1, .n_best = 1};
    const struct qkv_hypothesis *best;
    expect_refusal_with(qkv_translator_run(translator, -1, NULL, 1, &greedy, &best, &error), "-1 sentences");
    expect_refusal_with(qkv_translator_run(translator, 0, NULL, 0, &greedy, &best, &error), "batches of 0");
}

/* Every source ends with </s>, and search compares its score, so that both vocabularies need the special tokens. */
Test(misuse, a_vocabulary_has_the_special_tokens)
{
    const struct qkv_model_config config = tiny_config();
    static const int SIZES[][2] = {{2, 9}, {9, 2}, {0, 9}, {9, -1}};
    for (int i = 0; i < 4; i++)
        expect_refusal_with(STATUS_OF(qkv_model_new(&config, SIZES[i][0], SIZES[i][1], QKV_FLOAT32, &error)),
                            "a model cannot have vocabularies of");
    struct qkv_model *least = tiny_model(&config, QKV_SPECIALS, QKV_SPECIALS, QKV_FLOAT32, 1);
    const int64_t no_words = 0;
    struct tiny tiny RELEASED(tiny_release) = tiny_with(least, 1, &no_words, NULL, 1);
    struct qkv_translations translations RELEASED(qkv_translations_release) = {0};
    const struct qkv_search_options options = {
        .beam_size = 1, .n_best = 1, .min_output_length = 1, .allow_unknown = true};
    tiny_search(least, &tiny.view, options, &translations);
}

Test(misuse, a_decoding_that_has_not_started_has_no_rows_to_reorder)
{
    const struct qkv_model_config config = tiny_recurrent_config();
    struct qkv_model *recurrent RELEASED(free_model) =
        tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 1);
    const struct qkv_batch_view view = tiny_view(&batch);
    const int64_t sentences[] = {0};
    const int32_t ids[] = {QKV_BEGIN};
    for (int i = 0; i < 2; i++) {
        struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(i ? recurrent : model);
        qkv_decoding_reorder(decoding, 0, NULL);
        expect_refusal_with(STATUS_OF(qkv_decoding_step(decoding, 1, ids, sentences, &error)),
                            "has not started");
        expect_done(qkv_decoding_start(decoding, &view, 1, 2, false, &error));
        cr_expect_not_null(qkv_decoding_step(decoding, 1, ids, sentences, &error), "%s", error.message);
    }
}

Test(misuse, numbers_that_name_nothing_give_nothing)
{
    static const int WRONG[] = {-1, 1000, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        cr_expect_null(qkv_metric_info((enum qkv_metric)WRONG[i]));
        cr_expect_str_eq(qkv_bleu_tokenizer_name((enum qkv_bleu_tokenizer)WRONG[i]), "unknown");
        cr_expect_null(qkv_layer_interface((enum qkv_layer_id)WRONG[i]));
    }
}

Test(misuse, of_explanations_and_maps_of_a_model)
{
    static const int64_t LENGTHS[] = {-1, INT64_MIN, INT64_MAX};
    const int32_t ids[] = {4};
    const char *const tokens[] = {"a"};
    const struct qkv_attention_pair good = {{1, ids}, {1, ids}, tokens, tokens, false};
    struct qkv_attention_collector *collector RELEASED(free_attention_collector) =
        qkv_attention_collector_new(model, &error);
    struct qkv_attention_report report;
    struct qkv_explanation explanation;
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    for (int i = 0; i < 6; i++) {
        struct qkv_attention_pair pair = good;
        (i < 3 ? &pair.source : &pair.target)->length = LENGTHS[i % 3];
        expect_refusal_with(qkv_attention_collect(collector, 1, &pair, 0, &report, &error),
                            "invalid sentence: ");
    }
    for (int kind = -1; kind < 1000; kind += 500) {
        const struct qkv_explain_options options = {.kind = (enum qkv_attention_kind)kind};
        expect_refusal_with(qkv_explain_model(model, &good, &options, &arena, &explanation, &error),
                            "there is no attention of kind");
    }
}

/* ---- decodings whose batch is gone ---- */

enum { STEPS = 3 };

/* Decodes a fixed text from a batch that is kept, or refilled with one short sentence of other words before the first step and
 * released after it; scores [STEPS, SENTENCES]: log-probabilities of a token. */
static void decode(struct qkv_decoding *decoding, bool keeps_batch, double *scores)
{
    static const int64_t LONGER[SENTENCES] = {5, 4}, SHORT = 1;
    static bool masked[] = {false, true, false, false, false, false, true, false, false, false, false};
    static const int32_t IDS[STEPS][SENTENCES] = {{1, 1}, {4, 5}, {6, 4}};
    static const int64_t NUMBERS[SENTENCES] = {0, 1}, SWAPPED[SENTENCES] = {1, 0};
    struct qkv_batch sources RELEASED(qkv_batch_release) = {0};
    tiny_batch(&sources, model, SENTENCES, LONGER, NULL, 6);
    bool *mask = malloc(sizeof masked);
    memcpy(mask, masked, sizeof masked);
    struct qkv_batch_view view = tiny_view(&sources);
    view.source_masked = mask;
    expect_done(qkv_decoding_start(decoding, &view, SENTENCES, STEPS, true, &error));
    if (!keeps_batch) {
        tiny_batch(&sources, model, 1, &SHORT, NULL, 7);
        memset(mask, true, sizeof masked);
    }
    for (int step = 0; step < STEPS; step++) {
        const struct qkv_next_scores *next =
            made(qkv_decoding_step(decoding, SENTENCES, IDS[step], step % 2 ? SWAPPED : NUMBERS, &error));
        for (int row = 0; row < SENTENCES; row++)
            scores[step * SENTENCES + row] = qkv_next_log_probability(next, row, 4);
        qkv_decoding_reorder(decoding, SENTENCES, SWAPPED);
        if (step || keeps_batch) continue;
        qkv_batch_release(&sources);
        free(mask);
        mask = NULL;
    }
    free(mask);
    qkv_decoding_free(decoding);
}

static struct qkv_decoding *ensemble_of_one(void)
{
    const struct qkv_model *const models[] = {model};
    return qkv_decoding_new_ensemble((struct qkv_ensemble){1, models}, &error);
}

static void expect_batch_may_go(const char *network)
{
    for (int i = 0; i < 3; i++) {
        double kept[STEPS * SENTENCES], gone[STEPS * SENTENCES];
        for (int keeps = 0; keeps < 2; keeps++)
            decode(i == 0   ? qkv_decoding_new(model)
                   : i == 1 ? qkv_decoding_new_plain(model)
                            : ensemble_of_one(),
                   keeps, keeps ? kept : gone);
        for (int s = 0; s < STEPS * SENTENCES; s++)
            cr_expect(kept[s] < 0 && kept[s] == gone[s], "%s, decoding %d, score %d: %g and %g", network, i,
                      s, kept[s], gone[s]);
    }
}

Test(misuse, a_batch_may_be_refilled_and_released_before_its_decoding_ends)
{
    expect_batch_may_go("transformer");
    struct qkv_model *transformer = model;
    const struct qkv_model_config config = tiny_recurrent_config();
    model = tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
    expect_batch_may_go("recurrent");
    qkv_model_free(model);
    model = transformer;
}

/* ---- kinds and types that do not exist ---- */

Test(misuse, of_networks_kinds_and_stacks)
{
    static const int WRONG[] = {-1, 3, 77, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        const struct qkv_attention_layers layers =
            qkv_model_attention(model, (enum qkv_attention_kind)WRONG[i], 1);
        cr_expect(!layers.multi_head && !layers.single_head && !layers.residual, "kind %d", WRONG[i]);
        const struct qkv_input_layers inputs = qkv_model_inputs(model, (enum qkv_stack_id)WRONG[i]);
        cr_expect(!inputs.embedding && !inputs.positions, "stack %d", WRONG[i]);
        struct qkv_model_config config = tiny_config();
        config.network = config.settings = NULL;
        expect_done(qkv_network_check(&config, &error));
        config.encoder.type = (enum qkv_network)WRONG[i];
        expect_refusal_with(qkv_network_check(&config, &error),
                            "model.encoder.type: there is no network of type");
    }
}

Test(misuse, groups_of_any_number_of_tokens)
{
    static const int64_t CASES[][2] = {{INT64_MAX, INT64_MAX / QKV_GROUP + 1},
                                       {INT64_MIN, 0},
                                       {-1, 0},
                                       {0, 0},
                                       {1, 1},
                                       {QKV_GROUP, 1},
                                       {QKV_GROUP + 1, 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        cr_expect_eq(qkv_next_groups(&(struct qkv_next_scores){.classes = CASES[i][0]}), CASES[i][1]);
}

/* The bias of the distances is the table of relative positions. */
Test(misuse, attention_with_buckets_needs_relative_positions)
{
    static const int64_t START[] = {0}, LENGTH[] = {3};
    for (int has_positions = 0; has_positions < 2; has_positions++) {
        const struct qkv_positions_options rotary = {QKV_POSITION_ROTARY, 3, 2, 100, {0}};
        struct qkv_positions positions;
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        struct qkv_multi_head layer;
        qkv_positions_init(&positions, &parameters, &rotary, "positions");
        const struct qkv_multi_head_options options = {.rule = {.heads = 2, .buckets = 6, .max_distance = 8},
                                                       .width = 4,
                                                       .key_width = 2,
                                                       .value_width = 2,
                                                       .positions = has_positions ? &positions : NULL};
        qkv_multi_head_init(&layer, &parameters, &options, "attention");
        cr_assert_eq(qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error), QKV_OK);
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        qkv_graph_bind(graph, &parameters, NULL, false);
        struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(3, 4));
        const struct qkv_segments segments = {1, START, LENGTH};
        const struct qkv_attention_inputs inputs = {
            .x = x, .memory = x, .queries = segments, .keys = segments};
        cr_expect_null(qkv_multi_head_apply(&layer, graph, &inputs, NULL));
        expect_refusal_with(
            qkv_graph_check(graph, &error),
            "there are 6 buckets, but no bias: set attention.bias to a tensor [6, 2], or give the "
            "layer relative positions");
    }
}
