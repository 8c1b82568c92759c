/* The decoder alone, as a language model and as a translator: decoding gives the probabilities of the forced pass, and what is
 * packed into a batch does not see each other. */
#include "figures.h"
#include "tiny.h"

#include "data/batch.h"
#include "models/network.h"

enum { SIZE = 7, WINDOWS = 3 };

static struct qkv_model_config config_of(enum qkv_position_kind positions)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.type = config.decoder.type = QKV_NETWORK_DECODER_ONLY;
    config.decoder.positions.type = positions;
    config.decoder.positions.buckets = 8;
    config.decoder.positions.max_distance = 6;
    return config;
}

/* A language model. */
static struct qkv_model *model_of(enum qkv_position_kind positions, enum qkv_dtype dtype)
{
    const struct qkv_model_config config = config_of(positions);
    return tiny_model(&config, QKV_SPECIALS, SIZE, dtype, 17);
}

/* Windows of running text. */
static struct qkv_batch_view windows(struct qkv_batch *batch, int64_t count, const struct qkv_ids *window)
{
    int64_t tokens = 0;
    for (int64_t i = 0; i < count; i++) tokens += window[i].length;
    cr_assert(qkv_batch_reserve(batch, count, 0, tokens));
    qkv_batch_clear(batch);
    for (int64_t i = 0; i < count; i++) qkv_batch_add_window(batch, i, window[i]);
    return tiny_view(batch);
}

/* Sentences without a source. */
static struct qkv_batch_view sentences(struct qkv_batch *batch)
{
    static const int32_t WORDS[] = {3, 4, 5, 6, 3, 3, 5, 4, 6};
    const struct qkv_ids target[] = {{4, WORDS}, {0, WORDS}, {9, WORDS}, {2, WORDS + 3}};
    cr_assert_eq(qkv_batch_make(batch, 4, NULL, target, &error), QKV_OK);
    cr_assert_eq(batch->source_tokens, 0);
    return tiny_view(batch);
}

Test(decoder_only, decoding_gives_the_probabilities_of_the_forced_pass)
{
    for (int positions = 0; positions <= QKV_POSITION_NONE; positions++) {
        struct qkv_model *model RELEASED(free_model) =
            model_of((enum qkv_position_kind)positions, QKV_FLOAT64);
        struct qkv_decoding *cached RELEASED(free_decoding) = qkv_decoding_new(model);
        struct qkv_decoding *plain RELEASED(free_decoding) = qkv_decoding_new_plain(model);
        struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
        const struct qkv_batch_view view = sentences(&batch);
        const char *name = format("positions %d", positions);
        tiny_expect_forced(cached, model, name, &view, 1e-12);
        tiny_expect_forced(plain, model, name, &view, 1e-12);
    }
}

/* Two layers as in GPT-2, over packed windows: hidden states, loss and gradients are those of PyTorch's layers. */
Test(decoder_only, a_gpt_computes_the_numbers_of_pytorch)
{
    static const int32_t TEXT[] = {QKV_END, 3, 4, 5, QKV_END, 6, 6, 3, 5, QKV_END};
    static const struct qkv_ids WINDOW[WINDOWS] = {{4, TEXT + 1}, {4, TEXT + 5}, {3, TEXT + 2}};
    struct qkv_model_config config = config_of(QKV_POSITION_LEARNED);
    config.tied_softmax = true;
    config.decoder.ff_size = 12;
    config.decoder.activation = QKV_ACTIVATION_GELU;
    config.decoder.norm_epsilon = 1e-5;
    config.decoder.embeddings.scale = false;
    config.decoder.positions.max_length = 8;
    struct qkv_model *model RELEASED(free_model) =
        made(qkv_model_new(&config, QKV_SPECIALS, SIZE, QKV_FLOAT64, &error));
    struct figures_case test RELEASED(figures_end);
    figures_start(&test, "gpt.json", "gpt");
    test.parameters = &model->parameters;
    figures_bind(&test);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    const struct qkv_batch_view view = windows(&batch, WINDOWS, WINDOW);
    struct qkv_trace trace;
    struct qkv_tensor *loss = qkv_model_loss(model, test.graph, &view, NULL, 1, &trace);
    const struct qkv_part *hidden = NULL; /* the norm after the last layer */
    for (const struct qkv_part *part = trace.first; part; part = part->next)
        if (part->role == QKV_PART_NORM && part->layer == 0) hidden = part;
    cr_assert_not_null(hidden);
    qkv_forward(test.graph);
    figures_expect(cJSON_GetObjectItem(test.figures, "hidden"), qkv_tensor_value(hidden->node), 11 * 8, "gpt",
                   "hidden states");
    figures_expect(cJSON_GetObjectItem(test.figures, "loss"), qkv_tensor_value(loss), 1, "gpt", "loss");
    qkv_backward(test.graph, loss, NULL);
    figures_expect_gradients(&test);
}

Test(decoder_only, it_has_no_other_attention_and_no_source)
{
    struct qkv_model *model RELEASED(free_model) = model_of(QKV_POSITION_LEARNED, QKV_FLOAT32);
    const int64_t length = 2;
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    cr_assert_eq(qkv_model_head_count(model), 4);
    for (int i = 0; i < 4; i++) cr_assert_eq(qkv_model_head(model, i).attention, QKV_ATTENTION_DECODER);
    cr_assert_null(qkv_model_inputs(model, QKV_STACK_ENCODER).embedding);
    cr_assert_eq(qkv_model_attention(model, QKV_ATTENTION_CROSS, 1).multi_head, NULL);
    const struct qkv_ids source = {length, (const int32_t[]){1, 2}};
    cr_assert_eq(qkv_batch_make(&batch, 1, &source, &source, &error), QKV_OK);
    const struct qkv_batch_view view = tiny_view(&batch);
    expect_refusal(qkv_decoding_start(decoding, &view, 1, 3, false, &error),
                   "a language model has no sources: decode an empty batch");
}

/* ---- translation: source and target are one sequence ---- */

enum { SOURCE_SIZE = 8 };

/* With every kind of prefix and of positions, in both decodings, in both kernels. */
Test(decoder_only, decoding_of_translations_gives_the_probabilities_of_the_forced_pass)
{
    for (int i = 0; i < 4 * (QKV_POSITION_NONE + 1); i++) {
        struct qkv_model_config config = config_of((enum qkv_position_kind)(i / 4));
        bool is_relative = config.decoder.positions.type == QKV_POSITION_RELATIVE;
        config.decoder.prefix = i % 2 && !is_relative ? QKV_PREFIX_BIDIRECTIONAL : QKV_PREFIX_CAUSAL;
        config.decoder.positions.restart = i / 2 % 2;
        config.decoder.attention.kernel = i % 3 ? QKV_KERNEL_EXACT : QKV_KERNEL_FLASH;
        config.decoder.layer_norm = i % 5 ? QKV_NORM_PRE : QKV_NORM_POST;
        struct qkv_model *model RELEASED(free_model) =
            tiny_model(&config, SOURCE_SIZE, SIZE, i % 7 ? QKV_FLOAT64 : QKV_FLOAT32, 17);
        tiny_expect_decoding(model, format("cached, case %d", i));
        struct qkv_network_interface plain = *model->interface;
        plain.decoding = NULL;
        model->interface = &plain;
        tiny_expect_decoding(model, format("plain, case %d", i));
    }
}

/* With a causal prefix and shared embeddings, the translator is the language model over source, </s>, <s> and target. */
Test(decoder_only, a_causal_prefix_is_the_beginning_of_a_text)
{
    static const int32_t TEXT[] = {3, 4, 6, QKV_END, QKV_BEGIN, 5, 3, 3, 4, QKV_END};
    for (int positions = 0; positions <= QKV_POSITION_NONE; positions++) {
        if (positions == QKV_POSITION_LEARNED) continue; /* the translator has a table for two sentences */
        struct qkv_model_config config = config_of((enum qkv_position_kind)positions);
        config.tied_embeddings = true;
        config.decoder.attention.window = positions == QKV_POSITION_ALIBI ? 4 : 0;
        struct qkv_model *translator RELEASED(free_model) = tiny_model(&config, SIZE, SIZE, QKV_FLOAT64, 3);
        config.tied_embeddings = false;
        struct qkv_model *text_model RELEASED(free_model) =
            tiny_model(&config, QKV_SPECIALS, SIZE, QKV_FLOAT64, 4);
        cr_assert_eq(translator->parameters.elements, text_model->parameters.elements);
        memcpy(text_model->parameters.values, translator->parameters.values,
               (size_t)text_model->parameters.elements * sizeof(double));
        struct qkv_batch pair RELEASED(qkv_batch_release) = {0}, text RELEASED(qkv_batch_release) = {0};
        const struct qkv_ids source = {3, TEXT}, target = {4, TEXT + 5};
        cr_assert_eq(qkv_batch_make(&pair, 1, &source, &target, &error), QKV_OK);
        const struct qkv_batch_view of_pair = tiny_view(&pair),
                                    of_text = windows(&text, 1, &(struct qkv_ids){9, TEXT + 1});
        double *a RELEASED(free_memory) = tiny_log_probabilities(translator, &of_pair),
                  *b RELEASED(free_memory) = tiny_log_probabilities(text_model, &of_text);
        for (int i = 0; i < 5 * SIZE; i++)
            cr_assert_float_eq(a[i], b[4 * SIZE + i], 1e-12, "positions %d, number %d", positions, i);
    }
}

/* What a row of weights sees: a source word those before it, or all of the source; a target word the source and those before
 * it. */
Test(decoder_only, a_prefix_sees_the_words_before_or_all_of_the_source)
{
    static const int32_t WORDS[] = {3, 4, 5, 6};
    const struct qkv_ids source = {3, WORDS}, target = {2, WORDS};
    for (int is_causal = 0; is_causal < 2; is_causal++) {
        struct qkv_model_config config = config_of(QKV_POSITION_SINUSOIDAL);
        config.decoder.prefix = is_causal ? QKV_PREFIX_CAUSAL : QKV_PREFIX_BIDIRECTIONAL;
        struct tiny tiny RELEASED(tiny_release) = {
            .model = tiny_model(&config, SOURCE_SIZE, SIZE, QKV_FLOAT64, 5)};
        cr_assert_eq(qkv_batch_make(&tiny.batch, 1, &source, &target, &error), QKV_OK);
        tiny.view = tiny_view(&tiny.batch);
        struct qkv_trace trace;
        struct qkv_graph *graph RELEASED(free_graph) = tiny_traced(&tiny, &trace);
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++) {
            bool is_source = kind == QKV_ATTENTION_ENCODER;
            const struct qkv_part *part =
                qkv_trace_attention(&trace, QKV_PART_WEIGHTS, (enum qkv_attention_kind)kind, 1);
            int64_t rows, columns;
            const double *weights = qkv_attention_weights_of(part->node, 0, 1, &rows, &columns);
            cr_assert_eq(rows, is_source ? 4 : 3);
            cr_assert_eq(columns, is_source ? 4 : 7);
            for (int64_t i = 0; i < rows * columns; i++) {
                int64_t end = is_source ? is_causal ? i / columns + 1 : 4 : 4 + i / columns + 1;
                cr_assert_eq(weights[i] > 0, i % columns < end, "kind %d, number %d", kind, (int)i);
            }
        }
    }
}

/* One head attends within the source, within the target, and from the target to the source. */
Test(decoder_only, a_head_of_a_translator_has_three_kinds_of_maps)
{
    struct qkv_model_config config = config_of(QKV_POSITION_ROTARY);
    struct qkv_model *model RELEASED(free_model) = tiny_model(&config, SOURCE_SIZE, SIZE, QKV_FLOAT32, 5);
    cr_assert_eq(qkv_model_head_count(model), 3 * 4);
    cr_assert(qkv_model_ablate(model, (struct qkv_head){QKV_ATTENTION_CROSS, 2, 1}, true));
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
        cr_assert(qkv_model_is_ablated(model, (struct qkv_head){(enum qkv_attention_kind)kind, 2, 1}));
}

/* ---- completion ---- */

struct written {
    int32_t ids[64];
    int64_t count;
};

static void write_id(void *context, int32_t id)
{
    struct written *written = context;
    written->ids[written->count++] = id;
}

/* The most probable token after text[first .. end-1], by a forced pass. */
static int32_t best_after(const struct qkv_model *model, int32_t *text, int64_t first, int64_t end)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    text[end] = QKV_END; /* a label, which does not matter */
    const struct qkv_batch_view view = windows(&batch, 1, &(struct qkv_ids){end - first, text + first + 1});
    double *scores RELEASED(free_memory) = tiny_log_probabilities(model, &view);
    const double *last = scores + (end - first - 1) * SIZE;
    int32_t best = QKV_END;
    for (int32_t id = QKV_END; id < SIZE; id++)
        if (last[id] > last[best]) best = id;
    return best;
}

/* Each token is the best one after those of its window, which begins with </s>, and when it is full again with its last half. */
Test(decoder_only, running_text_goes_on_window_by_window)
{
    enum { WINDOW = 6, LENGTH = 30 };
    struct qkv_model *model RELEASED(free_model) = model_of(QKV_POSITION_LEARNED, QKV_FLOAT64);
    const int32_t prompt[] = {3, 5};
    struct written written = {.count = 0};
    const struct qkv_completion completion = {.model = model,
                                              .runs_on = true,
                                              .window = WINDOW,
                                              .max_length = LENGTH,
                                              .token = write_id,
                                              .context = &written};
    cr_assert_eq(qkv_complete(&completion, (struct qkv_ids){2, prompt}, &error), QKV_OK, "%s", error.message);
    cr_assert_eq(written.count, LENGTH);
    int32_t text[64] = {QKV_END, 3, 5};
    for (int64_t i = 0, count = 3, first = 0; i < LENGTH; i++, count++) {
        if (count - first == WINDOW) first = count - WINDOW / 2;
        text[count] = best_after(model, text, first, count);
        cr_assert_eq(written.ids[i], text[count], "token %d", (int)i);
    }
}
