/* The transformer: decoding step by step gives the probabilities of the forced pass, for every
 * architecture, batch and order of the hypotheses. */
#include "tiny.h"

#include "qkv/ops.h"
#include "qkv/vocabulary.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_SIZE = 9, TARGET_SIZE = 7 };

/* ---- architectures ---- */

struct variant {
    const char *name;
    enum qkv_norm_place place;
    enum qkv_norm_kind norm;
    enum qkv_position_kind positions;
    bool tied, narrow;
    int64_t decoder_layers;
    int64_t window, global_tokens, key_value_heads;
    enum qkv_attention_kernel kernel;
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
        stacks[i]->positions.buckets = 8;
        stacks[i]->positions.max_distance = 6;
        stacks[i]->attention.rule.kernel = variant->kernel;
        stacks[i]->attention.rule.global_tokens = variant->global_tokens;
        if (variant->key_value_heads) stacks[i]->attention.rule.key_value_heads = variant->key_value_heads;
        if (variant->window) stacks[i]->attention.rule.window = variant->window;
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
            struct qkv_model *model = model_of(&VARIANTS[v], (enum qkv_dtype)dtype);
            tiny_expect_decoding(model, VARIANTS[v].name);
            qkv_model_free(model);
        }
}

/* ---- hypotheses that split, move and end ---- */

enum { MAX_ROWS = 7, STEPS = 8, SENTENCES = 3 };

struct history {
    int64_t sentence, length;
    int32_t ids[STEPS];
};

/* Compares the scores of a step with those of a forced pass over the complete history. */
static void expect_history(const struct qkv_model *model, const struct qkv_batch_view *sources,
                           const struct history *history, const double *values, int64_t step)
{
    int64_t s = history->sentence;
    struct qkv_ids source = {sources->source_length[s] - 1, sources->source + sources->source_start[s]};
    struct qkv_ids target = {history->length, history->ids};
    struct qkv_batch batch = {0};
    cr_assert_eq(qkv_batch_make(&batch, 1, &source, &target, NULL), QKV_OK);
    struct qkv_batch_view view = tiny_view(&batch);
    double *forced = tiny_log_probabilities(model, &view);
    for (int32_t c = 0; c < model->target_size; c++)
        cr_assert_float_eq(values[c], forced[history->length * model->target_size + c], 1e-12,
                           "step %lld, sentence %lld, token %d", (long long)step, (long long)s, c);
    free(forced);
    qkv_batch_release(&batch);
}

static void expect_histories(const struct variant *variant)
{
    static const int64_t LENGTHS[SENTENCES] = {4, 1, 6};
    struct qkv_model *model = model_of(variant, QKV_FLOAT64);
    struct qkv_decoding *decoding = qkv_decoding_new(model);
    struct qkv_batch batch = {0};
    tiny_batch(&batch, model, SENTENCES, LENGTHS, NULL, 5);
    struct qkv_batch_view view = tiny_view(&batch);
    struct history rows[MAX_ROWS], next[MAX_ROWS];
    int64_t count = SENTENCES, sentences[MAX_ROWS], parents[MAX_ROWS];
    int32_t ids[MAX_ROWS];
    uint64_t draw = 0;
    const struct qkv_random random = {.seed = 3, .stream = QKV_STREAM_CHECK};
    for (int64_t i = 0; i < count; i++) rows[i] = (struct history){.sentence = i};
    cr_assert_eq(qkv_decoding_start(decoding, &view, MAX_ROWS, STEPS, true, NULL), QKV_OK);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int64_t i = 0; i < count; i++) {
            sentences[i] = rows[i].sentence;
            ids[i] = rows[i].length ? rows[i].ids[rows[i].length - 1] : QKV_BEGIN;
        }
        const struct qkv_next_scores *found = qkv_decoding_step(decoding, count, ids, sentences, NULL);
        double values[MAX_ROWS * TARGET_SIZE];
        cr_assert_not_null(found);
        for (int64_t i = 0; i < count * TARGET_SIZE; i++)
            values[i] = qkv_next_log_probability(found, i / TARGET_SIZE, (int32_t)(i % TARGET_SIZE));
        for (int64_t i = 0; i < count; i++)
            expect_history(model, &view, &rows[i], values + i * TARGET_SIZE, step);
        if (step == STEPS - 1) break;
        /* A random number of rows, each with a random parent: hypotheses split, end and move. */
        int64_t survivors = 1 + (int64_t)qkv_random_below(random, draw++, MAX_ROWS);
        for (int64_t i = 0; i < survivors; i++) {
            parents[i] = (int64_t)qkv_random_below(random, draw++, (uint64_t)count);
            next[i] = rows[parents[i]];
            next[i].ids[next[i].length++] = (int32_t)qkv_random_below(random, draw++, TARGET_SIZE);
        }
        qkv_decoding_reorder(decoding, survivors, parents);
        memcpy(rows, next, sizeof rows);
        count = survivors;
    }
    qkv_batch_release(&batch);
    qkv_decoding_free(decoding);
    qkv_model_free(model);
}

Test(transformer, hypotheses_keep_their_history_when_reordered)
{
    for (int v = 0; v < VARIANT_COUNT; v++) expect_histories(&VARIANTS[v]);
}

Test(transformer, caches_too_large_for_32_bit_row_numbers_are_refused)
{
    struct qkv_model *model = model_of(&VARIANTS[0], QKV_FLOAT32);
    struct qkv_decoding *decoding = qkv_decoding_new(model);
    struct qkv_batch batch = {0};
    struct qkv_error error = {""};
    tiny_batch(&batch, model, 1, (int64_t[]){2}, NULL, 5);
    struct qkv_batch_view view = tiny_view(&batch);
    cr_expect_eq(qkv_decoding_start(decoding, &view, 64000, 1000000, true, &error), QKV_INVALID);
    cr_expect_not_null(strstr(error.message, "64000 hypotheses of 1000000 tokens are too many"), "%s",
                       error.message);
    cr_expect_eq(qkv_decoding_start(decoding, &view, 2, 3, true, &error), QKV_OK,
                 "and the decoding can be used after it");
    qkv_batch_release(&batch);
    qkv_decoding_free(decoding);
    qkv_model_free(model);
}

/* ---- the forced pass ---- */

static double loss_of(const struct qkv_model *model, const struct qkv_batch_view *batch, double smoothing,
                      struct qkv_trace *trace, struct qkv_graph *graph)
{
    struct qkv_error error = {""};
    qkv_graph_reset(graph);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    struct qkv_tensor *loss =
        qkv_model_loss(model, graph, batch, &(struct qkv_objective){.smoothing = smoothing}, 1, trace);
    cr_assert_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
    qkv_forward(graph);
    return qkv_tensor_scalar(loss);
}

Test(transformer, sentences_of_a_batch_do_not_see_each_other)
{
    static const int64_t SOURCE[] = {3, 1, 6, 2}, TARGET[] = {4, 0, 2, 7};
    for (int v = 0; v < VARIANT_COUNT; v++) {
        struct qkv_model *model = model_of(&VARIANTS[v], QKV_FLOAT64);
        struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
        struct qkv_batch batch = {0};
        tiny_batch(&batch, model, 4, SOURCE, TARGET, 1);
        struct qkv_batch_view view = tiny_view(&batch);
        double together = loss_of(model, &view, 0.1, NULL, graph), alone = 0, plain = 0;
        double without = loss_of(model, &view, 0, NULL, graph);
        double *forced = tiny_log_probabilities(model, &view);
        for (int64_t i = 0; i < view.target_tokens; i++)
            plain -= forced[i * TARGET_SIZE + view.target_output[i]];
        for (int64_t i = 0; i < 4; i++) {
            qkv_batch_shard(&batch, i, 4, &view);
            if (view.count) alone += loss_of(model, &view, 0.1, NULL, graph);
        }
        cr_expect_float_eq(together, alone, 1e-11, "%s", VARIANTS[v].name);
        cr_expect_float_eq(without, plain, 1e-11, "%s: the loss is the negative log-likelihood",
                           VARIANTS[v].name);
        free(forced);
        qkv_batch_release(&batch);
        qkv_graph_free(graph);
        qkv_model_free(model);
    }
}

Test(transformer, the_trace_holds_every_attention_layer_in_order)
{
    static const int64_t SOURCE[] = {3, 1}, TARGET[] = {4, 2};
    struct qkv_model *model = model_of(&VARIANTS[3], QKV_FLOAT64);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    struct qkv_batch batch = {0};
    struct qkv_trace trace;
    tiny_batch(&batch, model, 2, SOURCE, TARGET, 1);
    struct qkv_batch_view view = tiny_view(&batch);
    for (int round = 0; round < 2; round++) loss_of(model, &view, 0, &trace, graph);
    static const struct {
        enum qkv_attention_kind kind;
        int64_t layer;
    } EXPECTED[] = {{QKV_ATTENTION_ENCODER, 1}, {QKV_ATTENTION_ENCODER, 2}, {QKV_ATTENTION_DECODER, 1},
                    {QKV_ATTENTION_CROSS, 1},   {QKV_ATTENTION_DECODER, 2}, {QKV_ATTENTION_CROSS, 2},
                    {QKV_ATTENTION_DECODER, 3}, {QKV_ATTENTION_CROSS, 3}};
    int i = 0;
    for (const struct qkv_part *part = trace.first; part; part = part->next) {
        if (part->role != QKV_PART_WEIGHTS) continue;
        cr_assert_lt(i, 8);
        cr_expect_eq(part->attention, EXPECTED[i].kind);
        cr_expect_eq(part->layer, EXPECTED[i].layer);
        cr_expect_eq(part->heads, 2);
        for (int64_t s = 0; s < 2; s++)
            for (int64_t h = 0; h < 2; h++) {
                int64_t rows, columns;
                const double *w = qkv_attention_weights_of(part->node, s, h, &rows, &columns);
                cr_assert_not_null(w);
                cr_expect_eq(rows, EXPECTED[i].kind == QKV_ATTENTION_ENCODER ? SOURCE[s] + 1 : TARGET[s] + 1);
                cr_expect_eq(columns,
                             EXPECTED[i].kind == QKV_ATTENTION_DECODER ? TARGET[s] + 1 : SOURCE[s] + 1);
                for (int64_t r = 0; r < rows; r++) {
                    double sum = 0;
                    for (int64_t c = 0; c < columns; c++) {
                        sum += w[r * columns + c];
                        if (EXPECTED[i].kind == QKV_ATTENTION_DECODER && c > r)
                            cr_expect_eq(w[r * columns + c], 0);
                    }
                    cr_expect_float_eq(sum, 1, 1e-12);
                }
            }
        i++;
    }
    cr_expect_eq(i, 8);
    qkv_batch_release(&batch);
    qkv_graph_free(graph);
    qkv_model_free(model);
}

Test(transformer, a_sentence_without_positions_is_refused)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.positions.max_length = 5;
    struct qkv_model *model = tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 1);
    struct qkv_decoding *decoding = qkv_decoding_new(model);
    struct qkv_batch batch = {0};
    struct qkv_error error = {""};
    cr_expect_eq(qkv_model_max_length(model), 5);
    tiny_batch(&batch, model, 1, (int64_t[]){4}, NULL, 1);
    struct qkv_batch_view view = tiny_view(&batch);
    cr_expect_eq(qkv_decoding_start(decoding, &view, 1, 3, true, &error), QKV_OK, "%s", error.message);
    tiny_batch(&batch, model, 1, (int64_t[]){5}, NULL, 1);
    view = tiny_view(&batch);
    cr_expect_eq(qkv_decoding_start(decoding, &view, 1, 3, true, &error), QKV_INVALID);
    cr_expect_not_null(strstr(error.message, "6 rows from position 0 on, but the table has 5 positions"),
                       "%s", error.message);
    qkv_batch_release(&batch);
    qkv_decoding_free(decoding);
    qkv_model_free(model);
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
    struct qkv_batch batch = {0};
    const struct qkv_random random = {.seed = 3, .step = 1};
    const struct qkv_observer observer = {count_dropout, count};
    struct qkv_model *model = tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 17);
    tiny_batch(&batch, model, 2, SOURCE, TARGET, 5);
    struct qkv_batch_view view = tiny_view(&batch);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    *count = (struct dropout_count){0};
    qkv_graph_observe(graph, &observer);
    qkv_graph_set_dropout(graph, &random);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    const struct qkv_tensor *loss = qkv_model_loss(model, graph, &view, NULL, 1, NULL);
    qkv_forward(graph);
    double value = qkv_tensor_scalar(loss);
    qkv_graph_free(graph);
    qkv_batch_release(&batch);
    qkv_model_free(model);
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
