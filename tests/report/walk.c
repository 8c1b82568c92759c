/* Walks through models: the terms of each number add up to it, and the last steps are the words that the model predicts. */
#include "data/corpus.h"
#include "framework/engine/core/memory.h"
#include "framework/engine/core/text.h"
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

/* Expects that the terms of a number make it; of a softmax, that they are the weights times their sum. Returns how many. */
static int64_t expect_terms_of(struct subject *subject, const struct qkv_explanation *explanation,
                               const struct qkv_step *step, int64_t head, int64_t row, int64_t column,
                               double tolerance)
{
    struct qkv_terms terms;
    enum qkv_status status = qkv_explanation_terms(explanation, &(struct qkv_number){step, head, row, column},
                                                   &subject->arena, &terms, &error);
    cr_assert_eq(status, QKV_OK, "%s", error.message);
    if (!terms.count) return 0;
    double value = terms.sum;
    if (step->rule == QKV_STEP_RULE_SOFTMAX) {
        const char *key = step->column_names[column];
        value = 0;
        for (int64_t i = 0, seen = 0; i < terms.count; i++)
            if (!strcmp(terms.terms[i].name, key) && !seen++) value = terms.terms[i].value / terms.sum;
    }
    cr_assert_float_eq(terms.value, value, tolerance, "%s [%d, %d, %d]: %.17g, terms make %.17g", step->name,
                       (int)head, (int)row, (int)column, terms.value, value);
    return terms.count;
}

static void expect_terms(struct subject *subject, const struct qkv_explanation *explanation, double tolerance)
{
    for (int64_t i = 0; i < explanation->step_count; i++) {
        const struct qkv_step *step = &explanation->steps[i];
        int64_t heads = step->heads ? step->heads : 1, count = 0;
        for (int64_t cell = 0; cell < heads * step->rows * step->columns; cell++)
            count += expect_terms_of(subject, explanation, step, cell / step->columns / step->rows,
                                     cell / step->columns % step->rows, cell % step->columns, tolerance);
        cr_expect((count > 0) == (step->rule != QKV_STEP_RULE_NONE), "%s: %d terms", step->name, (int)count);
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
        struct subject subject;
        open_subject(&subject, config, dtype);
        if (silent) qkv_model_ablate(subject.model, (struct qkv_head){QKV_ATTENTION_CROSS, 2, 1}, true);
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
            for (int layer = 1; layer <= 2; layer++) {
                struct qkv_explanation explanation = explain(&subject, (enum qkv_attention_kind)kind, layer);
                expect_terms(&subject, &explanation, tolerance);
                if (kind == QKV_ATTENTION_CROSS && layer == 2)
                    expect_words(&subject, &explanation, tolerance);
                else
                    cr_expect_null(qkv_explanation_step(&explanation, "logits"));
            }
        close_subject(&subject);
    }
}

Test(walk, terms_add_up_and_the_words_are_those_of_the_model)
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

Test(walk, a_recurrent_network)
{
    for (int silent = 0; silent < 2; silent++) {
        struct qkv_model_config config = tiny_recurrent_config();
        struct subject subject;
        config.encoder.embeddings.scale = config.decoder.embeddings.scale = true;
        config.decoder.input_feeding = false;
        open_subject(&subject, &config, QKV_FLOAT64);
        if (silent) qkv_model_ablate(subject.model, (struct qkv_head){QKV_ATTENTION_CROSS, 1, 1}, true);
        struct qkv_explanation explanation = explain(&subject, QKV_ATTENTION_CROSS, 1);
        expect_terms(&subject, &explanation, 1e-11);
        expect_words(&subject, &explanation, 1e-11);
        close_subject(&subject);
    }
}

/* All heads are joined, also where only one is selected: its columns have terms, and those of others are refused. */
Test(walk, terms_of_a_selected_head)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_scene scene;
    struct qkv_messages messages;
    struct qkv_explanation all;
    static const char TEXT[] = "name: s\ntokens: [a, b, c]\nembeddings: {from: random, width: 8}\n"
                               "attention: {heads: 4, key_width: 2, value_width: 2, output: true}\n";
    qkv_arena_guard(true);
    cr_assert_eq(qkv_scene_read(&scene, &arena, "s", TEXT, NULL, 0, &messages), QKV_OK);
    expect_done(qkv_explain_scene(&scene, &arena, &all, &error));
    for (int head = 1; head <= 4; head++) {
        struct qkv_explanation one = all;
        expect_done(qkv_explanation_select_head(&one, head, &arena, &error));
        const struct qkv_step *joined = step_of(&one, "concatenated");
        cr_assert_eq(joined->columns, 8);
        for (int64_t column = 0; column < 8; column++) {
            const struct qkv_number number = {joined, 0, 2, column};
            struct qkv_terms expected, terms;
            cr_assert_eq(qkv_explanation_terms(&all, &number, &arena, &expected, &error), QKV_OK);
            enum qkv_status status = qkv_explanation_terms(&one, &number, &arena, &terms, &error);
            cr_expect_eq(status, column / 2 == head - 1 ? QKV_OK : QKV_INVALID);
            if (status) {
                const char *part =
                    format("is of head %d, which step context does not have", (int)column / 2 + 1);
                cr_expect(!terms.count && shows(error.message, part), "%s", error.message);
            } else {
                cr_expect(terms.count == 1 && terms.sum == expected.sum && terms.sum == terms.value);
                cr_expect_str_eq(terms.terms[0].name, expected.terms[0].name);
            }
        }
    }
}
