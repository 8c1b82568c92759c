/* Walks through models: the rule of a step makes its numbers, and the last steps are the words that the model predicts. */
#include "data/corpus.h"
#include "framework/engine/core/text.h"
#include "framework/engine/graph/attention_rule.h"
#include "tiny.h"

#include "explain/explain.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 7, SOURCE_LENGTH = 4, TARGET_LENGTH = 3, STEPS = TARGET_LENGTH + 1 };

/* A model and a pair of sentences of random words. */
struct subject {
    struct qkv_arena arena;
    struct qkv_model *model;
    struct qkv_batch batch;
    struct qkv_vocabulary vocabulary; /* of the target */
    struct qkv_attention_pair pair;
};

static void open_subject(struct subject *subject, const struct qkv_model_config *config, enum qkv_dtype dtype)
{
    static const char *const WORDS[] = {"a", "b", "c", "d", "e", "f"};
    static const int64_t SOURCE[] = {SOURCE_LENGTH}, TARGET[] = {TARGET_LENGTH};
    struct qkv_types types = {0};
    const struct qkv_types *texts[] = {&types};
    *subject = (struct subject){.model = tiny_model(config, SOURCE_SIZE, TARGET_SIZE, dtype, 2)};
    tiny_batch(&subject->batch, subject->model, 1, SOURCE, TARGET, 1);
    for (int i = 0; i < TARGET_SIZE - QKV_SPECIALS; i++) qkv_types_add(&types, WORDS[i], 9 - i);
    cr_assert_eq(qkv_vocabulary_build(&subject->vocabulary, 1, texts, 0, 1, &error), QKV_OK);
    cr_assert_eq(subject->vocabulary.size, TARGET_SIZE);
    qkv_types_release(&types);
    subject->pair = (struct qkv_attention_pair){.source = {SOURCE_LENGTH, subject->batch.source},
                                                .target = {TARGET_LENGTH, subject->batch.target_output},
                                                .source_tokens = WORDS,
                                                .target_tokens = WORDS};
}

static void close_subject(struct subject *subject)
{
    qkv_model_free(subject->model);
    qkv_batch_release(&subject->batch);
    qkv_vocabulary_release(&subject->vocabulary);
    qkv_arena_release(&subject->arena);
}

static struct qkv_explanation explain(struct subject *subject, enum qkv_attention_kind kind, int layer)
{
    const struct qkv_explain_options options = {
        .kind = kind, .layer = layer, .target_vocabulary = &subject->vocabulary};
    struct qkv_explanation explanation;
    enum qkv_status status =
        qkv_explain_model(subject->model, &subject->pair, &options, &subject->arena, &explanation, &error);
    cr_assert_eq(status, QKV_OK, "%s", error.message);
    return explanation;
}

static const struct qkv_step *step_of(const struct qkv_explanation *explanation, const char *name)
{
    const struct qkv_step *step = qkv_explanation_step(explanation, name);
    cr_assert_not_null(step, "there is no step %s", name);
    return step;
}

/* A number of a step for one of `heads` heads, of which several may share a matrix. */
static double number_of(const struct qkv_step *step, int64_t head, int64_t heads, int64_t row, int64_t column)
{
    int64_t matrix = step->heads > 1 ? head * step->heads / heads : 0;
    return step->values[(matrix * step->rows + row) * step->columns + column];
}

/* A number of a step as its rule makes it from earlier steps. */
static double made_by_rule(const struct qkv_step *step, const struct qkv_step *const from[3], int64_t head,
                           int64_t row, int64_t column)
{
    const struct qkv_step *x = from[0], *y = from[1], *z = from[2];
    int64_t heads = step->heads ? step->heads : 1;
    double own = number_of(step, head, heads, row, column), sum = 0;
    switch (step->rule) {
    case QKV_STEP_RULE_NONE:
        return own;
    case QKV_STEP_RULE_PRODUCT:
    case QKV_STEP_RULE_ROW_PRODUCT:
        for (int64_t k = 0; k < x->columns; k++)
            sum += number_of(x, head, heads, row, k) * (step->rule == QKV_STEP_RULE_PRODUCT
                                                            ? number_of(y, head, heads, k, column)
                                                            : number_of(y, head, heads, column, k));
        return z ? sum + number_of(z, head, heads, 0, column) : sum;
    case QKV_STEP_RULE_SUM:
        return number_of(x, head, heads, row, column) + (y ? number_of(y, head, heads, row, column) : 0);
    case QKV_STEP_RULE_SCALE:
        return step->factor * number_of(x, head, heads, row, column);
    case QKV_STEP_RULE_SOFTMAX:
        for (int64_t k = 0; k < x->columns; k++) sum += exp(number_of(x, head, heads, row, k));
        return sum > 0 ? exp(number_of(x, head, heads, row, column)) / sum : 0;
    case QKV_STEP_RULE_JOIN:
        return fabs(own) > 0
                   ? x->values[(column / x->columns * x->rows + row) * x->columns + column % x->columns]
                   : 0;
    }
    return own;
}

static void expect_rules(const struct qkv_explanation *explanation, double tolerance)
{
    for (int64_t i = 0; i < explanation->step_count; i++) {
        const struct qkv_step *step = &explanation->steps[i], *from[3] = {NULL};
        int64_t heads = step->heads ? step->heads : 1;
        for (int k = 0; k < 3; k++)
            if (step->from[k]) from[k] = step_of(explanation, step->from[k]);
        for (int64_t cell = 0; cell < heads * step->rows * step->columns; cell++) {
            int64_t head = cell / step->columns / step->rows, row = cell / step->columns % step->rows;
            double value = step->values[cell],
                   made = made_by_rule(step, from, head, row, cell % step->columns);
            cr_assert(isinf(value) || fabs(value - made) <= tolerance,
                      "%s [%d, %d, %d]: %.17g, its rule makes %.17g", step->name, (int)head, (int)row,
                      (int)(cell % step->columns), value, made);
        }
    }
}

/* The logits and probabilities of the last step are those of the model; the chosen words are the best. */
static void expect_words(struct subject *subject, const struct qkv_explanation *explanation, double tolerance)
{
    const struct qkv_step *probabilities = step_of(explanation, "probabilities"),
                          *chosen = step_of(explanation, "chosen");
    struct qkv_batch_view view = tiny_view(&subject->batch);
    double *expected RELEASED(free_memory) = tiny_log_probabilities(subject->model, &view);
    cr_assert_eq(probabilities->rows, STEPS);
    for (int64_t row = 0; row < STEPS; row++) {
        int32_t best = QKV_END; /* never <unk> or <s> */
        for (int32_t id = QKV_END + 1; id < TARGET_SIZE; id++)
            if (expected[row * TARGET_SIZE + id] > expected[row * TARGET_SIZE + best]) best = id;
        cr_expect_eq((int32_t)chosen->values[row], best);
        cr_expect_str_eq(chosen->column_names[row], qkv_vocabulary_token(&subject->vocabulary, best));
        for (int64_t i = 0; i < probabilities->columns; i++) {
            int32_t id = 0;
            while (strcmp(qkv_vocabulary_token(&subject->vocabulary, id), probabilities->column_names[i]) !=
                   0)
                id++;
            cr_expect_float_eq(probabilities->values[row * probabilities->columns + i],
                               exp(expected[row * TARGET_SIZE + id]), tolerance);
        }
    }
}

static void expect_walks(const struct qkv_model_config *config, enum qkv_dtype dtype, double tolerance)
{
    for (int silent = 0; silent < 2; silent++) {
        struct subject subject RELEASED(close_subject);
        open_subject(&subject, config, dtype);
        if (silent) qkv_model_ablate(subject.model, (struct qkv_head){QKV_ATTENTION_CROSS, 2, 1}, true);
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
            for (int layer = 1; layer <= 2; layer++) {
                struct qkv_explanation explanation = explain(&subject, (enum qkv_attention_kind)kind, layer);
                expect_rules(&explanation, tolerance);
                if (kind == QKV_ATTENTION_CROSS && layer == 2)
                    expect_words(&subject, &explanation, tolerance);
                else
                    cr_expect_null(qkv_explanation_step(&explanation, "logits"));
            }
    }
}

Test(walk, rules_make_the_numbers_and_the_words_are_those_of_the_model)
{
    for (int post = 0; post < 2; post++) {
        struct qkv_model_config config = tiny_config();
        config.encoder.layer_norm = config.decoder.layer_norm = post ? QKV_NORM_POST : QKV_NORM_PRE;
        expect_walks(&config, QKV_FLOAT64, 1e-11);
        expect_walks(&config, QKV_FLOAT32, 1e-4);
    }
}

Test(walk, every_kind_of_position_and_shared_heads)
{
    const enum qkv_position_kind types[] = {QKV_POSITION_LEARNED, QKV_POSITION_ROTARY, QKV_POSITION_RELATIVE};
    for (int i = 0; i < 3; i++) {
        struct qkv_model_config config = tiny_config();
        config.encoder.positions.type = config.decoder.positions.type = types[i];
        config.encoder.attention.key_value_heads = config.decoder.attention.key_value_heads = 1;
        config.decoder.attention.window = 2;
        expect_walks(&config, QKV_FLOAT64, 1e-11);
    }
}

Test(walk, newer_variants)
{
    for (int i = 0; i < 2; i++) {
        struct qkv_model_config config = tiny_config();
        struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
        for (int s = 0; s < 2; s++) {
            stacks[s]->ff_gated = true;
            stacks[s]->attention.output_gate = i;
            stacks[s]->attention.qk_norm = true;
            stacks[s]->attention.soft_cap = 0.8;
            stacks[s]->attention.sink = i ? QKV_ATTENTION_SINK_LEARNED : QKV_ATTENTION_SINK_ZERO;
            stacks[s]->positions.type = i ? QKV_POSITION_ROTARY : QKV_POSITION_SINUSOIDAL;
            stacks[s]->activation = i ? QKV_ACTIVATION_SILU : QKV_ACTIVATION_NONE;
        }
        expect_walks(&config, QKV_FLOAT64, 1e-11);
    }
}

Test(walk, a_recurrent_network)
{
    for (int silent = 0; silent < 2; silent++) {
        struct qkv_model_config config = tiny_recurrent_config();
        struct subject subject RELEASED(close_subject);
        config.encoder.embeddings.scale = config.decoder.embeddings.scale = true;
        config.decoder.input_feeding = false;
        open_subject(&subject, &config, QKV_FLOAT64);
        if (silent) qkv_model_ablate(subject.model, (struct qkv_head){QKV_ATTENTION_CROSS, 1, 1}, true);
        struct qkv_explanation explanation = explain(&subject, QKV_ATTENTION_CROSS, 1);
        expect_rules(&explanation, 1e-11);
        expect_words(&subject, &explanation, 1e-11);
    }
}

/* ---- a translator without an encoder ---- */

static struct qkv_model_config prefix_config(enum qkv_prefix prefix)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.type = config.decoder.type = QKV_NETWORK_DECODER_ONLY;
    config.decoder.prefix = prefix;
    return config;
}

Test(walk, of_a_prefix_masks_words_of_both_sides)
{
    static const bool SOURCE[SOURCE_LENGTH + 1] = {false, true}, TARGET[STEPS] = {false, false, true};
    const struct qkv_model_config config = prefix_config(QKV_PREFIX_CAUSAL);
    struct subject subject RELEASED(close_subject);
    open_subject(&subject, &config, QKV_FLOAT64);
    subject.pair.source_masked = SOURCE;
    subject.pair.target_masked = TARGET;
    const struct qkv_explanation explanation = explain(&subject, QKV_ATTENTION_DECODER, 1);
    const struct qkv_step *weights = step_of(&explanation, "weights");
    cr_assert_eq(weights->columns, SOURCE_LENGTH + 1 + STEPS);
    for (int64_t i = 0; i < weights->rows * weights->columns; i++) {
        int64_t column = i % weights->columns, target = column - SOURCE_LENGTH - 1;
        bool is_hidden = target < 0 ? SOURCE[column] : TARGET[target] || target > i / weights->columns;
        cr_expect_eq(number_of(weights, 0, weights->heads, i / weights->columns, column) > 0, !is_hidden,
                     "cell %d", (int)i);
    }
}

/* Pictures hatch the cells that the rule of a map hides. */
Test(walk, maps_of_a_prefix_have_the_rule_that_hides_their_cells)
{
    static const int64_t GLOBAL[] = {0, 2, SOURCE_LENGTH + 1, SOURCE_LENGTH + 2};
    for (size_t i = 0; i < 2 * sizeof GLOBAL / sizeof *GLOBAL; i++) {
        struct qkv_model_config config = prefix_config(i % 2 ? QKV_PREFIX_BIDIRECTIONAL : QKV_PREFIX_CAUSAL);
        config.decoder.attention.window = 1;
        config.decoder.attention.global_tokens = GLOBAL[i / 2];
        struct subject subject RELEASED(close_subject);
        struct qkv_attention_report report;
        open_subject(&subject, &config, QKV_FLOAT64);
        struct qkv_attention_collector *collector = made(qkv_attention_collector_new(subject.model, &error));
        expect_done(qkv_attention_collect(collector, 1, &subject.pair, 0, &report, &error));
        for (int64_t k = 0; k < report.map_count; k++) {
            const struct qkv_attention_map *map = &report.maps[k];
            for (int64_t at = 0; map->kind != QKV_ATTENTION_CROSS && at < map->rows * map->columns; at++)
                cr_expect_eq(map->weights[at] > 0,
                             qkv_is_visible(qkv_attention_visible(map->rule, at / map->columns, map->columns),
                                            at % map->columns),
                             "case %d, map %d, cell %d", (int)i, (int)k, (int)at);
        }
        qkv_attention_collector_free(collector);
    }
}
