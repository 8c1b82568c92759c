/* A network of one's own that keeps its state from step to step while it translates.
 *
 *     cc own_decoding.c $(pkg-config --cflags --libs qkv) -o own_decoding
 *     ./own_decoding own_network.yaml "the cat is sleeping" model.network=reader_and_writer model.settings=
 *
 * One GRU reads the source, another writes the target, and each of its states attends to those of the first (Luong et al.
 * 2015). A network without a decoding, as in own_network.c, runs `forward` for all words so far in each step of a search; here
 * a step computes one row for each hypothesis. qkv_train compares both before it trains. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <string.h>

struct network {
    struct qkv_embedding source, target;
    struct qkv_recurrent reader, writer;
    struct qkv_single_head_attention attention;
    struct qkv_dense join;
};

static void *declare(struct qkv_model *model, struct qkv_error *error)
{
    (void)error; /* every config can be used */
    struct qkv_parameters *parameters = &model->parameters;
    struct network *network = qkv_arena_zeroed(&parameters->arena, sizeof *network);
    if (!network) return NULL;
    const int64_t width = model->config.decoder.hidden_size; /* D */
    const struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1},
                             normal = {QKV_INITIALIZER_NORMAL, 1};
    const struct qkv_embedding_options source = {model->source_size, width, true, normal},
                                       target = {model->target_size, width, true, normal};
    const struct qkv_recurrent_options cell = {
        .cell = QKV_CELL_GRU, .inputs = width, .width = width, .initial = xavier, .recurrent = xavier};
    const struct qkv_single_head_attention_options attention = {
        QKV_ATTENTION_SCORE_GENERAL, .query_width = width, .memory_width = width, .initial = xavier};
    const struct qkv_dense_options join = {2 * width, width, true, QKV_ACTIVATION_TANH, xavier};
    qkv_embedding_init(&network->source, parameters, &source, "source");
    qkv_embedding_init(&network->target, parameters, &target, "target");
    qkv_recurrent_init(&network->reader, parameters, &cell, "reader");
    qkv_recurrent_init(&network->writer, parameters, &cell, "writer");
    qkv_single_head_attention_init(&network->attention, parameters, &attention, "attention");
    qkv_dense_init(&network->join, parameters, &join, "join");
    return network;
}

/* States [N, D] of a cell after each of N words. initial: before the first word of each sentence; NULL: zeros. */
static struct qkv_tensor *run(const struct qkv_embedding *embedding, const struct qkv_recurrent *cell,
                              struct qkv_graph *graph, const int32_t *ids, struct qkv_segments sentences,
                              struct qkv_tensor *initial)
{
    int64_t words = 0;
    for (int64_t i = 0; i < sentences.count; i++) words += sentences.length[i];
    struct qkv_tensor *gates =
        qkv_recurrent_gates(cell, graph, qkv_embedding_apply(embedding, graph, ids, words));
    return qkv_recurrent_run(cell, graph, gates, initial, sentences, false);
}

/* Hidden states [N, D]: what each state of the writer says together with what it finds in the memory. */
static struct qkv_tensor *attend(const struct network *network, struct qkv_graph *graph,
                                 const struct qkv_attention_inputs *inputs, struct qkv_tensor **weights)
{
    struct qkv_tensor *keys = qkv_single_head_attention_keys(&network->attention, graph, inputs->memory);
    struct qkv_tensor *context =
        qkv_single_head_attention_apply(&network->attention, graph, keys, inputs, weights); /* [N, D] */
    return qkv_dense_apply(&network->join, graph, qkv_concat(graph, inputs->x, context, 1));
}

static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct network *network = model->network;
    const struct qkv_part owner = {
        .stack = QKV_STACK_DECODER, .attention = QKV_ATTENTION_CROSS, .layer = 1, .heads = 1};
    struct qkv_attention_inputs inputs = {
        .queries = {batch->count, batch->target_start, batch->target_length},
        .keys = {batch->count, batch->source_start, batch->source_length}};
    struct qkv_tensor *weights;
    inputs.memory = run(&network->source, &network->reader, graph, batch->source, inputs.keys, NULL);
    inputs.x = run(&network->target, &network->writer, graph, batch->target_input, inputs.queries, NULL);
    struct qkv_tensor *result = attend(network, graph, &inputs, &weights);
    qkv_trace_record(trace, graph, &owner, QKV_PART_WEIGHTS, weights);
    return result;
}

/* ---- decoding: the memory is computed once; the state of each hypothesis, a row, is kept ---- */

struct decoding {
    struct qkv_decoding base; /* must come first */
    struct qkv_batch_view batch;
    struct qkv_tensor *memory; /* of all sources, in base.encoder */
    char *states, *reordered;  /* [rows, D], numbers of the model's dtype */
};

static size_t row_size(const struct qkv_decoding *base)
{
    return (size_t)base->model->config.decoder.hidden_size * base->element_size;
}

static enum qkv_status start(struct qkv_decoding *base, const struct qkv_batch_view *batch,
                             struct qkv_error *error)
{
    struct decoding *d = (struct decoding *)base;
    const struct network *network = base->model->network;
    const struct qkv_segments sources = {batch->count, batch->source_start, batch->source_length};
    d->batch = *batch; /* its arrays stay valid */
    d->states = qkv_arena_zeroed(&base->arena, (size_t)base->rows * row_size(base));
    d->reordered = qkv_arena_zeroed(&base->arena, (size_t)base->rows * row_size(base));
    if (!d->states || !d->reordered) return qkv_error_set(error, "out of memory");
    qkv_graph_reset(base->encoder);
    d->memory = run(&network->source, &network->reader, base->encoder, batch->source, sources, NULL);
    if (qkv_graph_check(base->encoder, error)) return QKV_INVALID;
    qkv_forward(base->encoder);
    return QKV_OK;
}

/* Row i of the step is a target of one word, and its keys are those of sentence sentences[i], which rows may share. */
static enum qkv_status step(struct qkv_decoding *base, int64_t rows, const int32_t *ids,
                            const int64_t *sentences, struct qkv_error *error)
{
    struct decoding *d = (struct decoding *)base;
    const struct network *network = base->model->network;
    struct qkv_graph *graph = base->decoder;
    qkv_graph_reset(graph);
    int64_t *numbers = qkv_graph_memory(graph, (size_t)(4 * rows) * sizeof *numbers);
    if (!numbers) return qkv_graph_check(graph, error);
    int64_t *start = numbers, *one = start + rows, *key_start = one + rows, *key_length = key_start + rows;
    for (int64_t i = 0; i < rows; i++) {
        start[i] = i;
        one[i] = 1;
        key_start[i] = d->batch.source_start[sentences[i]];
        key_length[i] = d->batch.source_length[sentences[i]];
    }
    const struct qkv_segments queries = {rows, start, one};
    struct qkv_tensor *before =
        qkv_wrap(graph, QKV_SHAPE(rows, base->model->config.decoder.hidden_size), d->states);
    const struct qkv_attention_inputs inputs = {
        .x = run(&network->target, &network->writer, graph, ids, queries, before),
        .memory = qkv_wrap(graph, qkv_tensor_shape(d->memory), qkv_tensor_value(d->memory)),
        .queries = queries,
        .keys = {rows, key_start, key_length}};
    qkv_decoding_add_output(base, attend(network, graph, &inputs, NULL));
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    memcpy(d->states, qkv_tensor_value(inputs.x), (size_t)rows * row_size(base));
    return QKV_OK;
}

static void reorder(struct qkv_decoding *base, int64_t rows, const int64_t *parents)
{
    struct decoding *d = (struct decoding *)base;
    const size_t size = row_size(base);
    for (int64_t i = 0; i < rows; i++)
        memcpy(d->reordered + (size_t)i * size, d->states + (size_t)parents[i] * size, size);
    char *states = d->states;
    d->states = d->reordered;
    d->reordered = states;
}

static const struct qkv_decoding_interface decoding = {
    .size = sizeof(struct decoding), .start = start, .step = step, .reorder = reorder};
static const struct qkv_network_interface reader_and_writer = {
    .name = "reader_and_writer", .declare = declare, .forward = forward, .decoding = &decoding};

int main(int count, char **arguments)
{
    struct qkv_error error = {""};
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages = {0};
    struct qkv_train_result result;
    const struct qkv_train_options options = {.overwrite = true};
    if (count < 3) return fprintf(stderr, "Usage: own_decoding CONFIG SENTENCE [KEY=VALUE...]\n"), 2;
    enum qkv_status status = qkv_network_register(&reader_and_writer, &error);
    if (!status && qkv_config_read(&config, &arena, arguments[1], (const char *const *)arguments + 3,
                                   count - 3, &messages))
        status = qkv_error_set(&error, "%s", messages.text[0]);
    if (!status) status = qkv_train(&config, &options, &result, &error);
    struct qkv_text_translator *translator =
        status ? NULL : qkv_text_translator_open(config.training.model_dir, NULL, &error);
    const char *translation =
        translator ? qkv_text_translator_run(translator, arguments[2], 4, &error) : NULL; /* a beam of 4 */
    if (translation) printf("%s\n", translation);
    if (!translation) fprintf(stderr, "own_decoding: %s\n", error.message);
    qkv_text_translator_free(translator);
    qkv_arena_release(&arena);
    return translation ? 0 : 2;
}
