/* Attention maps of a model, and attribution. That maps have the numbers of the model, tests/tools/explain_run.c tests. */
#include "core/text.h"
#include "data/corpus.h"
#include "report/attribution.h"

#include "maps.h"

enum { WIDTH = 6, HEADS = 2, SOURCE_SIZE = 7, TARGET_SIZE = 6 };

/* A model, and a collector of its maps. */
struct subject {
    struct qkv_arena arena;
    struct qkv_model *model;
    struct qkv_attention_collector *collector;
};

/* Makes a float64 model of two encoder layers and one decoder layer, with dropout. */
static struct subject make_subject(int64_t longest)
{
    struct subject subject = {0};
    struct qkv_config config;
    cr_assert_eq(qkv_config_default(&config, &subject.arena, "small"), QKV_OK);
    struct qkv_stack_config *stacks[] = {&config.model.encoder, &config.model.decoder};
    for (int i = 0; i < 2; i++) {
        stacks[i]->num_layers = 2 - i;
        stacks[i]->num_heads = stacks[i]->attention.key_value_heads = HEADS;
        stacks[i]->hidden_size = stacks[i]->embeddings.embedding_dim = WIDTH;
        stacks[i]->attention.key_width = stacks[i]->attention.value_width = WIDTH / HEADS;
        stacks[i]->ff_size = 8;
        stacks[i]->dropout = stacks[i]->attention.dropout = stacks[i]->embeddings.dropout = 0.5;
        stacks[i]->layer_norm = QKV_NORM_PRE;
        stacks[i]->positions.max_length = longest;
    }
    subject.model = qkv_model_new(&config.model, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, &error);
    cr_assert_not_null(subject.model, "%s", error.message);
    qkv_parameters_initialize(&subject.model->parameters, 3);
    subject.collector = qkv_attention_collector_new(subject.model, &error);
    cr_assert_not_null(subject.collector, "%s", error.message);
    return subject;
}

static void release_subject(struct subject *subject)
{
    qkv_attention_collector_free(subject->collector);
    qkv_model_free(subject->model);
    qkv_arena_release(&subject->arena);
}

static const int32_t SOURCE_IDS[] = {3, 5, 4, 6}, TARGET_IDS[] = {4, 3, 5};
static const char *const SOURCE[] = {"a", "b", "c", "d"}, *const TARGET[] = {"x", "y", "z"};

/* Three pairs of different lengths; the last translation ended without </s>. */
static const struct qkv_attention_pair PAIRS[] = {
    {{2, SOURCE_IDS}, {3, TARGET_IDS}, SOURCE, TARGET, false},
    {{4, SOURCE_IDS}, {1, TARGET_IDS}, SOURCE, TARGET, false},
    {{1, SOURCE_IDS}, {2, TARGET_IDS}, SOURCE, TARGET, true},
};

static const struct qkv_attention_map *find(const struct qkv_attention_report *report,
                                            enum qkv_attention_kind kind, int layer, int head)
{
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        if (map->kind == kind && map->layer == layer && map->head == head) return map;
    }
    cr_assert_fail("no map %d.%d.%d", (int)kind, layer, head);
    return NULL;
}

/* Collects the maps of three pairs. */
static void collect(struct subject *subject, const struct qkv_attention_pair *pairs,
                    struct qkv_attention_report *reports)
{
    expect_done(qkv_attention_collect(subject->collector, 3, pairs, 0, reports, &error));
}

static bool is_near(const struct qkv_attention_map *a, const struct qkv_attention_map *b)
{
    bool near = a->kind == b->kind && a->rows == b->rows && a->columns == b->columns;
    for (int64_t i = 0; near && i < a->rows * a->columns; i++)
        near = fabs(a->weights[i] - b->weights[i]) <= 1e-14;
    return near;
}

Test(collect, reports_hold_every_head_and_name_their_tokens)
{
    struct qkv_attention_report reports[3];
    struct subject subject RELEASED(release_subject) = make_subject(20);
    collect(&subject, PAIRS, reports);
    for (int s = 0; s < 3; s++) {
        cr_assert_eq(reports[s].map_count, 2 * HEADS + HEADS + HEADS);
        for (int64_t m = 0; m < reports[s].map_count; m++) {
            const struct qkv_attention_map *map = &reports[s].maps[m];
            bool encoder = map->kind == QKV_ATTENTION_ENCODER, decoder = map->kind == QKV_ATTENTION_DECODER;
            cr_assert_eq(map->rows, encoder ? reports[s].source_length : reports[s].target_length);
            cr_assert_eq(map->columns, decoder ? reports[s].target_length : reports[s].source_length);
            for (int64_t r = 0; r < map->rows; r++) {
                double sum = 0;
                for (int64_t c = 0; c < map->columns; c++) {
                    double weight = map->weights[r * map->columns + c];
                    sum += weight;
                    cr_expect(decoder && c > r ? weight == 0.0 : weight > 0);
                }
                cr_expect_float_eq(sum, 1, 1e-12);
            }
        }
        for (int head = 1; head <= HEADS; head++) {
            find(&reports[s], QKV_ATTENTION_ENCODER, 2, head);
            find(&reports[s], QKV_ATTENTION_DECODER, 1, head);
            find(&reports[s], QKV_ATTENTION_CROSS, 1, head);
        }
    }
    expect_tokens(&reports[0], "a b </s>", "<s> x y z", "x y z </s>");
    /* An unfinished translation has no step that outputs </s>. */
    expect_tokens(&reports[2], NULL, "<s> x", "x y");
}

Test(collect, each_pass_is_independent)
{
    struct qkv_attention_report together[3], alone;
    struct subject subject RELEASED(release_subject) = make_subject(20);
    struct qkv_attention_collector *second RELEASED(free_attention_collector) =
        qkv_attention_collector_new(subject.model, &error);
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    collect(&subject, PAIRS, together);
    for (int s = 0; s < 3; s++) {
        expect_done(qkv_attention_collect(second, 1, &PAIRS[s], cross, &alone, &error));
        cr_assert_eq(alone.map_count, HEADS);
        for (int head = 1; head <= HEADS; head++)
            cr_expect(is_near(find(&alone, QKV_ATTENTION_CROSS, 1, head),
                              find(&together[s], QKV_ATTENTION_CROSS, 1, head)),
                      "pair %d, head %d", s, head);
    }
}

Test(collect, refuses_sentences_longer_than_the_positions)
{
    struct qkv_attention_report reports[3];
    struct subject subject RELEASED(release_subject) = make_subject(3);
    expect_refusal(qkv_attention_collect(subject.collector, 2, PAIRS + 1, 0, reports, &error),
                   "the source sentence has 4 tokens, but the model has positions for 2");
    expect_refusal(qkv_attention_collect(subject.collector, 1, PAIRS, 0, reports, &error),
                   "the target sentence has 3 tokens, but the model has positions for 2");
    /* The last token of an unfinished translation is output only and needs no position. */
    struct qkv_attention_pair cut = PAIRS[0];
    cut.unfinished = true;
    expect_done(qkv_attention_collect(subject.collector, 1, &cut, 0, reports, &error));
    cr_assert_eq(reports[0].target_length, 3);
}

Test(collect, refuses_no_pairs_and_kinds_that_do_not_exist)
{
    struct qkv_attention_report report;
    struct subject subject RELEASED(release_subject) = make_subject(20);
    for (int count = -1; count < 1; count++)
        expect_refusal(qkv_attention_collect(subject.collector, count, PAIRS, 0, &report, &error),
                       format("attention maps of %d sentence pairs: there must be at least one", count));
    for (unsigned bit = QKV_ATTENTION_KINDS; bit < 32; bit += 14)
        expect_refusal(qkv_attention_collect(subject.collector, 1, PAIRS, 1u << bit, &report, &error),
                       format("there is no kind of attention in 0x%x", 1u << bit));
    expect_done(qkv_attention_collect(subject.collector, 1, PAIRS, ~0u, &report, &error));
}

/* One pair of several has masked source tokens: no row of its maps sees them, and the other pairs are as before. */
Test(collect, masked_tokens_of_one_pair)
{
    static const bool MASKED[] = {false, true, false, false, true};
    struct subject subject RELEASED(release_subject) = make_subject(8),
                           other RELEASED(release_subject) = make_subject(8);
    struct qkv_attention_pair pairs[3];
    struct qkv_attention_report reports[3], unmasked[3];
    memcpy(pairs, PAIRS, sizeof pairs);
    pairs[1].source_masked = MASKED;
    collect(&subject, pairs, reports);
    collect(&other, PAIRS, unmasked);
    for (int pair = 0; pair < 3; pair++)
        for (int64_t i = 0; i < reports[pair].map_count; i++) {
            const struct qkv_attention_map *map = &reports[pair].maps[i];
            cr_expect(pair == 1 || is_near(map, &unmasked[pair].maps[i]), "pair %d, map %d", pair, (int)i);
            if (pair != 1 || map->kind == QKV_ATTENTION_DECODER) continue;
            for (int64_t k = 0; k < map->rows * map->columns; k++)
                cr_expect_eq(map->weights[k] == 0, MASKED[k % map->columns], "map %d, cell %d is %g", (int)i,
                             (int)k, map->weights[k]);
        }
    /* The mask ends with its pass. */
    collect(&subject, PAIRS, reports);
    cr_expect_gt(reports[1].maps[0].weights[1], 0);
}

/* ---- attribution ---- */

/* A pair whose report has probabilities, and the map of this kind of its attribution. */
static const struct qkv_vocabulary CLASSES = {.size = TARGET_SIZE};
static const struct qkv_attention_pair WITH_PROBABILITIES = {
    {4, SOURCE_IDS}, {3, TARGET_IDS}, SOURCE, TARGET, false, .vocabulary = &CLASSES};
enum { S = 5, T = 4 };

static const struct qkv_attention_map *attribute(struct subject *subject, enum qkv_attribution_method method,
                                                 enum qkv_attention_kind kind,
                                                 struct qkv_attention_report *report)
{
    const struct qkv_attribution_options options = {.method = method};
    expect_done(qkv_attribute(subject->collector, &WITH_PROBABILITIES, &options, report, &error));
    return find(report, kind, 0, 0);
}

/* The log-probabilities of the target. */
static void log_probabilities(struct subject *subject, const struct qkv_attention_pair *pair,
                              double result[T])
{
    struct qkv_attention_report report;
    expect_done(qkv_attention_collect(subject->collector, 1, pair, 0, &report, &error));
    for (int t = 0; t < T; t++) result[t] = log(report.next_probability[t]);
}

/* Multiplies the embedding of a token, or of all tokens (-1). */
static void scale_embedding(struct subject *subject, const char *stack, int32_t token, double factor)
{
    struct qkv_parameters *parameters = &subject->model->parameters;
    const struct qkv_parameter *table = qkv_parameters_find(parameters, format("%s.embeddings.table", stack));
    for (int64_t i = 0; i < table->count; i++)
        if (token < 0 || i / WIDTH == token)
            qkv_parameter_set(parameters, table, i, factor * qkv_parameter_get(parameters, table, i));
}

/* The embedding of a source token, or of one that the decoder reads, from <s>. */
static int32_t token_at(bool of_source, int i)
{
    return of_source ? (i < 4 ? SOURCE_IDS[i] : QKV_END) : i ? TARGET_IDS[i - 1] : QKV_BEGIN;
}

Test(attribution, gradient_times_input_is_a_difference_quotient)
{
    const double step = 1e-6;
    struct qkv_attention_report report;
    struct subject subject RELEASED(release_subject) = make_subject(20);
    for (int side = 0; side < 2; side++) {
        const char *stack = side ? "encoder" : "decoder";
        for (int c = 0; c < (side ? S : T); c++) {
            double above[T], below[T];
            int32_t token = token_at(side, c);
            scale_embedding(&subject, stack, token, 1 + step);
            log_probabilities(&subject, &WITH_PROBABILITIES, above);
            scale_embedding(&subject, stack, token, (1 - step) / (1 + step));
            log_probabilities(&subject, &WITH_PROBABILITIES, below);
            scale_embedding(&subject, stack, token, 1 / (1 - step));
            const struct qkv_attention_map *map =
                attribute(&subject, QKV_ATTRIBUTION_GRADIENT,
                          side ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER, &report);
            cr_assert(map->rows == T && map->columns == (side ? S : T));
            for (int t = 0; t < T; t++)
                cr_expect_float_eq(map->weights[t * map->columns + c], (above[t] - below[t]) / (2 * step),
                                   1e-7);
        }
    }
    cr_expect_eq(subject.model->parameters.list[0]->rate, 1); /* as before */
}

Test(attribution, integrated_gradients_are_complete)
{
    double with[T], without[T], sum[T] = {0};
    struct qkv_attention_report report;
    struct subject subject RELEASED(release_subject) = make_subject(20);
    struct qkv_parameters *parameters = &subject.model->parameters;
    log_probabilities(&subject, &WITH_PROBABILITIES, with);
    attribute(&subject, QKV_ATTRIBUTION_INTEGRATED, QKV_ATTENTION_CROSS, &report);
    for (int64_t m = 0; m < report.map_count; m++)
        for (int64_t i = 0; i < T * report.maps[m].columns; i++)
            sum[i / report.maps[m].columns] += report.maps[m].weights[i];
    for (int side = 0; side < 2; side++) { /* all words become <unk> */
        const struct qkv_parameter *table =
            qkv_parameters_find(parameters, side ? "encoder.embeddings.table" : "decoder.embeddings.table");
        for (int64_t i = WIDTH; i < table->count; i++)
            qkv_parameter_set(parameters, table, i, qkv_parameter_get(parameters, table, i % WIDTH));
    }
    log_probabilities(&subject, &WITH_PROBABILITIES, without);
    for (int t = 0; t < T; t++) {
        cr_expect_float_eq(sum[t], with[t] - without[t], 1e-3, "%g, expected %g", sum[t],
                           with[t] - without[t]);
        cr_expect_gt(fabs(sum[t]), 1e-2);
    }
}

Test(attribution, erasure_is_the_fall_without_the_token)
{
    struct qkv_attention_report report;
    struct subject subject RELEASED(release_subject) = make_subject(20);
    for (int side = 0; side < 2; side++)
        for (int c = !side; c < (side ? S : T); c++) { /* <s> stays */
            double with[T], without[T], column[T];
            int32_t target[T - 1];
            bool mask[S] = {false};
            mask[c] = true;
            struct qkv_attention_pair masked = WITH_PROBABILITIES;
            memcpy(target, TARGET_IDS, sizeof target);
            masked.target.ids = target;
            *(side ? &masked.source_masked : &masked.target_masked) = mask;
            if (!side) target[c - 1] = QKV_UNKNOWN; /* its own row reads <unk> */
            const struct qkv_attention_map *map =
                attribute(&subject, QKV_ATTRIBUTION_ERASURE,
                          side ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER, &report);
            for (int t = 0; t < T; t++) column[t] = map->weights[t * map->columns + c];
            log_probabilities(&subject, &WITH_PROBABILITIES, with);
            log_probabilities(&subject, &masked, without);
            for (int t = side ? 0 : c; t < T; t++)
                cr_expect_float_eq(column[t], with[t] - without[t], 1e-12, "token %d, step %d", c, t);
            cr_expect_gt(fabs(column[T - 1]), 1e-6);
        }
}

/* Two tokens of a source, one of a target: the source mixes halves, the target looks at its first word. */
Test(attribution, rollout_and_flow_of_maps_made_by_hand)
{
    const double source[] = {0.5, 0.5, 0, 1}, cross[] = {1, 0}, own[] = {1};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct mixture *mixture = qkv_mixture_new(&arena, 2, 1, 3);
    double result[3];
    cr_assert(mixture);
    qkv_mixture_add(mixture, true, 0.5, source, NULL);
    qkv_mixture_add(mixture, true, 0.5, NULL, NULL); /* changes nothing */
    qkv_mixture_add(mixture, false, 0.5, own, NULL);
    qkv_mixture_add(mixture, false, 0.5, NULL, cross);
    qkv_rollout(mixture, result);
    const double shares[] = {0.375, 0.125, 0.5};
    for (int i = 0; i < 3; i++) cr_expect_float_eq(result[i], shares[i], 1e-15);
    /* A pipe of 0.5 leads to the source; from there 0.75 to the first token, and 0.25 to the second. */
    qkv_flow(mixture, result);
    const double flows[] = {0.5, 0.25, 0.5};
    for (int i = 0; i < 3; i++) cr_expect_float_eq(result[i], flows[i], 1e-15);
}

Test(attribution, each_method_fills_rows_that_sum_to_1)
{
    struct subject subject RELEASED(release_subject) = make_subject(20);
    for (int m = QKV_ATTRIBUTION_ROLLOUT; m < QKV_ATTRIBUTION_METHODS; m++) {
        const struct qkv_attribution_options options = {.method = (enum qkv_attribution_method)m};
        const bool nats =
            m == QKV_ATTRIBUTION_GRADIENT || m == QKV_ATTRIBUTION_INTEGRATED || m == QKV_ATTRIBUTION_ERASURE;
        double sum[T] = {0};
        struct qkv_attention_report report;
        struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
        expect_done(qkv_attribute(subject.collector, &WITH_PROBABILITIES, &options, &report, &error));
        const double first = report.maps[1].weights[0];
        expect_done(qkv_attribution_shares(&report, options.method, &arena, &error));
        cr_assert_eq(report.maps[0].nats && report.maps[1].nats, nats);
        if (nats) cr_expect_float_eq(report.maps[1].nats[0] * report.maps[1].weights[0], first, 1e-12);
        cr_assert_eq(report.map_count, 2);
        for (int64_t i = 0; i < T * S; i++) sum[i / S] += fabs(report.maps[0].weights[i]);
        for (int64_t i = 0; i < T * T; i++) sum[i / T] += fabs(report.maps[1].weights[i]);
        for (int64_t i = 0; i < T * T; i++)
            cr_expect(i % T <= i / T || report.maps[1].weights[i] == 0); /* sees nothing later */
        for (int t = 0; t < T; t++) cr_expect_float_eq(sum[t], 1, 1e-12);
    }
    /* Tokens of a word are added up before, so that their signs do not cancel in the sum of a row. */
    static const int64_t WORD[S + T];
    const struct qkv_attribution_options gradient = {.method = QKV_ATTRIBUTION_GRADIENT};
    struct qkv_attention_report merged;
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    expect_done(qkv_attribute(subject.collector, &WITH_PROBABILITIES, &gradient, &merged, &error));
    expect_done(qkv_attention_merge_words(&merged, (struct qkv_attention_words){WORD, WORD}, &arena, &merged,
                                          &error));
    expect_done(qkv_attribution_shares(&merged, gradient.method, &arena, &error));
    double first_row = 0;
    for (int64_t m = 0; m < merged.map_count; m++)
        for (int64_t c = 0; c < merged.maps[m].columns; c++) first_row += fabs(merged.maps[m].weights[c]);
    cr_expect_lt(merged.maps[0].columns, S);
    cr_expect_float_eq(first_row, 1, 1e-12);
    const struct qkv_attribution_options none = {.method = QKV_ATTRIBUTION_METHODS};
    struct qkv_attention_report report;
    cr_expect_eq(qkv_attribute(subject.collector, &WITH_PROBABILITIES, &none, &report, &error), QKV_INVALID);
}

/* The matrix of the explanation with this name, [rows, columns]. */
static const double *matrix_of(const struct qkv_explanation *explanation, const char *name, int64_t rows,
                               int64_t columns)
{
    for (int64_t i = 0; i < explanation->step_count; i++) {
        const struct qkv_step *step = &explanation->steps[i];
        if (strcmp(step->name, name) != 0) continue;
        cr_assert(step->rows == rows && step->columns == columns, "%s", name);
        return step->values;
    }
    cr_assert_fail("there is no matrix %s", name);
    return NULL;
}

Test(attribution, patching_all_of_a_state_gives_the_other_prediction)
{
    enum { STEP = 2 };
    static const int32_t OTHER_IDS[] = {6, 5, 4, 3};
    struct qkv_attention_pair other = WITH_PROBABILITIES;
    struct qkv_explanation patched;
    double before[T], after[T];
    struct subject subject RELEASED(release_subject) = make_subject(20);
    other.source.ids = OTHER_IDS;
    log_probabilities(&subject, &WITH_PROBABILITIES, before);
    log_probabilities(&subject, &other, after);
    expect_done(qkv_patch(subject.collector, &WITH_PROBABILITIES, other.source, STEP, &patched, &error));
    /* The output depends on the last state alone; the encoder's middle words are the same in both. */
    const double *states = matrix_of(&patched, "decoder_states", 1, STEP + 1),
                 *source = matrix_of(&patched, "encoder_states", 2, S);
    cr_expect_float_eq(states[STEP], exp(after[STEP]) - exp(before[STEP]), 1e-14);
    cr_expect_gt(fabs(states[STEP]), 1e-6);
    for (int i = 0; i < STEP; i++) cr_expect_eq(states[i], 0.0);
    cr_expect_gt(fabs(source[0]), 1e-6);
    const double *heads = matrix_of(&patched, "cross_heads", 1, HEADS);
    cr_expect(fabs(heads[0]) > 1e-9 && fabs(heads[1]) > 1e-9 && heads[0] != heads[1]);
    matrix_of(&patched, "encoder_heads", 2, HEADS);
    /* By its own numbers, nothing changes. */
    expect_done(
        qkv_patch(subject.collector, &WITH_PROBABILITIES, WITH_PROBABILITIES.source, STEP, &patched, &error));
    const double *own = matrix_of(&patched, "encoder_states", 2, S);
    for (int i = 0; i < 2 * S; i++) cr_expect_eq(own[i], 0.0);
    other.source.length = 3;
    cr_expect_eq(qkv_patch(subject.collector, &WITH_PROBABILITIES, other.source, STEP, &patched, &error),
                 QKV_INVALID);
    cr_expect(shows(error.message, "the other sentence has 3 tokens, but the sentence has 4"));
}

/* A token that no attention sees has no value that could be missing; its neighbours have. */
Test(attribution, zeroing_the_value_of_an_unseen_token_changes_nothing)
{
    static const bool MASK[S] = {[1] = true};
    struct qkv_attention_pair masked = WITH_PROBABILITIES;
    struct qkv_attention_report report;
    const struct qkv_attribution_options options = {.method = QKV_ATTRIBUTION_ZEROING};
    struct subject subject RELEASED(release_subject) = make_subject(20);
    masked.source_masked = MASK;
    expect_done(qkv_attribute(subject.collector, &masked, &options, &report, &error));
    const double *weights = find(&report, QKV_ATTENTION_CROSS, 0, 0)->weights;
    for (int i = 0; i < T * S; i++)
        if (i % S == 1)
            cr_expect_float_eq(weights[i], 0, 1e-12);
        else
            cr_expect_gt(weights[i], 1e-6);
}
