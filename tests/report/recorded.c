/* Norms of values, measures of heads and explanations of a network of the program's own that records too little, or tensors
 * of other shapes than its layers have: refused with a message that names the part (run with AddressSanitizer). */
#include "own_network.h"
#include "tiny.h"

#include "explain/explain.h"
#include "models/network.h"
#include "report/aligner.h"
#include "report/collect.h"

enum { WIDTH = 8 };

/* What the network records besides its weights: numbers do not matter. */
#define OF_ATTENTION(kind) LIST(.attention = kind, .layer = 1, .heads = 1)
static const struct recorded {
    enum qkv_part_role role;
    bool of_source; /* a row for each token of the source, else of the target */
    struct qkv_part owner;
    const char *name;
} PARTS[] = {
    {QKV_PART_INPUT, false, OF_ATTENTION(QKV_ATTENTION_CROSS),
     "QKV_PART_INPUT of layer 1 of cross attention"},
    {QKV_PART_MEMORY, true, OF_ATTENTION(QKV_ATTENTION_CROSS),
     "QKV_PART_MEMORY of layer 1 of cross attention"},
    {QKV_PART_EMBEDDING, false, {.stack = QKV_STACK_DECODER}, "QKV_PART_EMBEDDING of the decoder"},
    {QKV_PART_EMBEDDING, true, {.stack = QKV_STACK_ENCODER}, "QKV_PART_EMBEDDING of the encoder"},
    {QKV_PART_VALUE, true, OF_ATTENTION(QKV_ATTENTION_CROSS), "QKV_PART_VALUE of layer 1 of cross attention"},
    {QKV_PART_VALUE, false, OF_ATTENTION(QKV_ATTENTION_DECODER),
     "QKV_PART_VALUE of layer 1 of decoder attention"},
    {QKV_PART_POSITIONS, true, {.stack = QKV_STACK_ENCODER}, "QKV_PART_POSITIONS of the encoder"},
};
enum { PART_COUNT = sizeof PARTS / sizeof PARTS[0], FIRST_VALUE = 4, POSITIONS = 6 };

/* What the network does wrong. */
static struct mistake {
    const struct recorded *left_out, *other_shape;
    bool swaps_kinds;        /* records cross attention as that of the decoder, and the other way round */
    bool leaves_out_weights; /* of the decoder */
    bool gives_no_attention, gives_no_inputs;
    bool gives_single_head; /* without attentional, as its cross attention */
} mistake;

static struct qkv_single_head_attention single_head;

static void *declare(struct qkv_model *model, struct qkv_error *refusal)
{
    const struct qkv_single_head_attention_options options = {
        .score = QKV_ATTENTION_SCORE_DOT, .query_width = WIDTH, .memory_width = WIDTH};
    qkv_single_head_attention_init(&single_head, &model->parameters, &options, "single");
    return own_network("own").declare(model, refusal);
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    struct qkv_trace weights = {0};
    struct qkv_tensor *result = own_network("own").forward(model, graph, batch, trace ? &weights : NULL);
    for (const struct qkv_part *part = weights.first; part; part = part->next) {
        struct qkv_part owner = *part;
        if (mistake.leaves_out_weights && part->attention == QKV_ATTENTION_DECODER) continue;
        if (mistake.swaps_kinds)
            owner.attention =
                part->attention == QKV_ATTENTION_CROSS ? QKV_ATTENTION_DECODER : QKV_ATTENTION_CROSS;
        qkv_trace_record(trace, graph, &owner, QKV_PART_WEIGHTS, part->node);
    }
    for (const struct recorded *part = PARTS; part < PARTS + PART_COUNT; part++) {
        int64_t rows = part->of_source ? batch->source_tokens : batch->target_tokens;
        if (part == mistake.left_out) continue;
        if (part == mistake.other_shape) rows *= 2;
        qkv_trace_record(trace, graph, &part->owner, part->role, qkv_constant(graph, QKV_SHAPE(rows, WIDTH)));
    }
    return result;
}

static struct qkv_attention_layers attention(const struct qkv_model *model, enum qkv_attention_kind kind,
                                             int64_t layer)
{
    if (mistake.gives_no_attention) return (struct qkv_attention_layers){0};
    if (mistake.gives_single_head && kind == QKV_ATTENTION_CROSS && layer == 1)
        return (struct qkv_attention_layers){.single_head = &single_head};
    return own_network("own").attention(model, kind, layer);
}

static struct qkv_input_layers inputs(const struct qkv_model *model, enum qkv_stack_id stack)
{
    return mistake.gives_no_inputs ? (struct qkv_input_layers){0} : own_network("own").inputs(model, stack);
}

static struct qkv_model *model;
static struct qkv_attention_collector *collector;
static struct qkv_arena arena;

static void setup(void)
{
    static struct qkv_network_interface network;
    network = own_network("recorded");
    network.declare = declare;
    network.forward = forward;
    network.attention = attention;
    network.inputs = inputs;
    expect_done(qkv_network_register(&network, &error));
    struct qkv_model_config config = tiny_config();
    config.network = "recorded";
    model = tiny_model(&config, 9, 9, QKV_FLOAT32, 4);
    collector = qkv_attention_collector_new(model, &error);
}

TestSuite(recorded, .init = setup);

static const int32_t IDS[] = {4, 5, 6};
static const char *const WORDS[] = {"a", "b", "c"};
static const struct qkv_attention_pair PAIR = {{3, IDS}, {1, IDS}, WORDS, WORDS, false};

static enum qkv_status explain(void)
{
    const struct qkv_explain_options options = {.kind = QKV_ATTENTION_CROSS};
    struct qkv_explanation explanation;
    return qkv_explain_model(model, &PAIR, &options, &arena, &explanation, &error);
}

static enum qkv_status collect(void)
{
    struct qkv_attention_report report;
    return qkv_attention_collect(collector, 1, &PAIR, 0, &report, &error);
}

/* With this mistake, a call is refused with this part of a message; NULL: it succeeds. */
static void expect_with(struct mistake made, enum qkv_status (*call)(void), const char *part)
{
    mistake = made;
    if (part)
        expect_refusal_with(call(), part);
    else
        expect_done(call());
}

Test(recorded, explanations_name_what_is_missing)
{
    expect_done(explain());
    for (int i = 0; i < PART_COUNT; i++) {
        const char *name = PARTS[i].name, *missing = format("does not record %s", name);
        bool is_needed = i < FIRST_VALUE;
        expect_with((struct mistake){.left_out = &PARTS[i]}, explain, is_needed ? missing : NULL);
        expect_with((struct mistake){.other_shape = &PARTS[i]}, explain,
                    is_needed || i == POSITIONS ? name : NULL);
    }
    expect_with((struct mistake){.gives_no_inputs = true}, explain,
                "network recorded: its function inputs gives no embedding of the decoder");
    expect_with((struct mistake){.gives_single_head = true}, explain,
                "network recorded: its function attention gives no attentional layer of its single head");
}

Test(recorded, norms_name_what_is_missing)
{
    qkv_attention_collector_measure_norms(collector, true);
    expect_done(collect());
    for (int i = FIRST_VALUE; i < POSITIONS; i++) {
        const char *name = PARTS[i].name;
        expect_with((struct mistake){.left_out = &PARTS[i]}, collect, format("does not record %s", name));
        expect_with((struct mistake){.other_shape = &PARTS[i]}, collect, format("%s has shape", name));
    }
    mistake = (struct mistake){.gives_no_attention = true};
    qkv_attention_collector_measure_norms(collector, true);
    expect_refusal_with(collect(), "gives no layer with the head decoder.1.1");
}

Test(recorded, a_single_head_without_a_layer_after_it_has_no_norms)
{
    struct qkv_rows rows;
    const struct qkv_head head = {QKV_ATTENTION_CROSS, 1, 1};
    cr_expect(qkv_model_head_rows(model, head, &rows));
    mistake.gives_single_head = true;
    cr_expect_not(qkv_model_head_rows(model, head, &rows));
    cr_expect(qkv_model_ablate(model, head, true));
    qkv_attention_collector_measure_norms(collector, true);
    expect_refusal_with(collect(), "the context of layer 1 of cross attention (attentional)");
    qkv_attention_collector_measure_norms(collector, false);
    expect_done(collect());
}

Test(recorded, weights_of_other_tokens_make_no_map)
{
    expect_with((struct mistake){.swaps_kinds = true}, collect,
                "QKV_PART_WEIGHTS of layer 1 of decoder attention has shape [2, 4]");
}

Test(recorded, parts_of_kinds_that_do_not_exist_are_refused)
{
    static const int KINDS[] = {-1, QKV_ATTENTION_KINDS, 1000000};
    for (int i = 0; i < 3; i++) {
        struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
        struct qkv_trace trace = {0};
        const struct qkv_part owner = {
            .attention = (enum qkv_attention_kind)KINDS[i], .layer = 1, .heads = 1};
        qkv_trace_record(&trace, graph, &owner, QKV_PART_VALUE, qkv_constant(graph, QKV_SHAPE(1, 1)));
        cr_expect_null(trace.first);
        expect_refusal_with(qkv_graph_check(graph, &error), "there is no attention of kind");
    }
}

/* ---- a trained run ---- */

static struct qkv_run train_run(struct qkv_corpus *corpus)
{
    struct qkv_config config;
    struct qkv_messages messages;
    struct qkv_train_result result;
    struct qkv_run run;
    const char *folder = tiny_task("recorded");
    const char *text = write_text(folder, "x.yaml",
                                  "name: recorded\ndata: {train: train.tsv, src: {lang: a}, trg: {lang: b}}\n"
                                  "model:\n  network: recorded\n  encoder: {num_heads: 1, hidden_size: 8}\n"
                                  "  decoder: {num_heads: 1, hidden_size: 8}\n"
                                  "training: {model_dir: run, updates: 1}\n");
    const struct qkv_train_options options = {.overwrite = true, .threads = 1};
    cr_assert_not(qkv_config_read(&config, &arena, text, NULL, 0, &messages), "%s", messages.text[0]);
    cr_assert_not(qkv_train(&config, &options, &result, &error) ||
                      qkv_run_open(&run, config.training.model_dir, NULL, QKV_FLOAT32, &error) ||
                      qkv_corpus_read(corpus, write_text(folder, "pairs.tsv", "a b\tA B\n"), &run.config.data,
                                      (struct qkv_corpus_options){.keep_raw = true}, &error) ||
                      qkv_corpus_encode(corpus, &run.source, &run.target, &error),
                  "%s", error.message);
    return run;
}

static enum qkv_status measure(struct qkv_run *run, const struct qkv_corpus *corpus)
{
    const struct qkv_heads_options options = {.no_translation = true, .testing = run->config.testing};
    struct qkv_measured_heads measured RELEASED(qkv_measured_heads_release) = {0};
    return qkv_heads_measure(run, corpus, &options, &measured, &error);
}

static enum qkv_status align(const struct qkv_run *run)
{
    const struct qkv_aligner_options options = {.norms = true};
    struct qkv_aligner *aligner = qkv_aligner_new(run, NULL, &options, NULL, &error);
    qkv_aligner_free(aligner);
    return STATUS_OF(aligner);
}

/* A scene that takes its embeddings from the run, and with `learned` its matrices. */
static enum qkv_status explain_scene(const struct qkv_run *run, const char *weights)
{
    struct qkv_scene scene;
    struct qkv_messages messages;
    struct qkv_explanation explanation;
    const char *path = write_text(run->path, "scene.yaml",
                                  format("tokens: A B\nembeddings: {from: learned}\nrun: {path: '%s', kind: "
                                         "decoder}\nweights: {from: %s}\n",
                                         run->path, weights));
    cr_assert_eq(qkv_scene_read(&scene, &arena, path, NULL, NULL, 0, &messages), QKV_OK, "%s",
                 messages.text[0]);
    return qkv_explain_scene(&scene, &arena, &explanation, &error);
}

Test(recorded, scenes_of_a_run_name_the_layer_that_is_missing)
{
    struct qkv_corpus corpus RELEASED(qkv_corpus_release);
    struct qkv_run run RELEASED(qkv_run_release) = train_run(&corpus);
    mistake = (struct mistake){.gives_no_inputs = true};
    expect_refusal_with(explain_scene(&run, "random"), "its network recorded gives no embeddings");
    mistake = (struct mistake){.gives_no_attention = true};
    expect_done(explain_scene(&run, "random"));
    expect_refusal_with(explain_scene(&run, "learned"),
                        "its network recorded gives no multi-head decoder attention in layer 1");
}

Test(recorded, heads_and_aligners_of_a_run_name_what_is_missing)
{
    struct qkv_corpus corpus RELEASED(qkv_corpus_release);
    struct qkv_run run RELEASED(qkv_run_release) = train_run(&corpus);
    expect_done(measure(&run, &corpus));
    expect_done(align(&run));
    mistake.left_out = &PARTS[FIRST_VALUE];
    const char *part = "network recorded: its function forward does not record QKV_PART_VALUE of layer 1";
    expect_refusal_with(measure(&run, &corpus), part);
    expect_refusal_with(align(&run), part);
    mistake = (struct mistake){.leaves_out_weights = true};
    expect_refusal_with(measure(&run, &corpus), "must record QKV_PART_WEIGHTS of the 2 heads");
    mistake = (struct mistake){.gives_single_head = true};
    expect_refusal_with(measure(&run, &corpus), "(attentional)");
}
