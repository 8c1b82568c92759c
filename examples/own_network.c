/* A network of one's own, trained, searched and drawn by qkv like its own two.
 *
 *     cc own_network.c $(pkg-config --cflags --libs qkv) -o own_network
 *     ./own_network own_network.yaml "1 2 3 4" [KEY=VALUE...]
 *
 * The source is embeddings with positions, without any layer above them. The decoder is a GRU; in each step its state
 * attends to the source with several heads: hidden = tanh(W [state; context]). The program trains it as its config says,
 * translates the sentence with a beam of 4, and prints where the translation looked. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct network {
    struct qkv_embedding source, target;
    struct qkv_positions positions;
    struct qkv_recurrent cell;
    struct qkv_multi_head attention;
    struct qkv_dense join;
};

static void *declare(struct qkv_model *model, struct qkv_error *error)
{
    struct qkv_parameters *parameters = &model->parameters;
    struct network *network = qkv_arena_zeroed(&parameters->arena, sizeof *network);
    const int64_t width = model->config.decoder.hidden_size; /* D */
    const int64_t heads = (int64_t)qkv_model_setting(model, "heads");
    if (network && width % heads) {
        qkv_error_set(error, "%d heads do not divide a width of %d", (int)heads, (int)width);
        return NULL;
    }
    if (!network) return NULL;
    const struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1},
                             normal = {QKV_INITIALIZER_NORMAL, 1};
    const struct qkv_embedding_options source = {model->source_size, width, true, normal},
                                       target = {model->target_size, width, true, normal};
    const struct qkv_positions_options positions = {
        QKV_POSITION_SINUSOIDAL, model->config.encoder.positions.max_length, width, 10000, normal};
    const struct qkv_recurrent_options cell = {
        .cell = QKV_CELL_GRU, .inputs = width, .width = width, .initial = xavier, .recurrent = xavier};
    const struct qkv_multi_head_options attention = {
        .rule.heads = heads,
        .width = width,
        .key_width = width / heads,
        .value_width = width / heads,
        .initial = xavier,
        .output_initial = xavier,
    };
    const struct qkv_dense_options join = {2 * width, width, true, QKV_ACTIVATION_TANH, xavier};
    qkv_embedding_init(&network->source, parameters, &source, "source");
    qkv_embedding_init(&network->target, parameters, &target, "target");
    qkv_positions_init(&network->positions, parameters, &positions, "positions");
    qkv_recurrent_init(&network->cell, parameters, &cell, "cell");
    qkv_multi_head_init(&network->attention, parameters, &attention, "attention");
    qkv_dense_init(&network->join, parameters, &join, "join");
    return network;
}

/* The teacher-forced pass. D: width; Ns, Nt: source and target tokens of the batch. */
static struct qkv_tensor *forward(const struct qkv_model *model, struct qkv_graph *graph,
                                  const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct network *network = model->network;
    const struct qkv_segments source = {batch->count, batch->source_start, batch->source_length},
                              target = {batch->count, batch->target_start, batch->target_length};
    const struct qkv_part owner = {.stack = QKV_STACK_DECODER,
                                   .attention = QKV_ATTENTION_CROSS,
                                   .layer = 1,
                                   .heads = network->attention.rule.heads};
    struct qkv_tensor *memory =
        qkv_embedding_apply(&network->source, graph, batch->source, batch->source_tokens);
    memory = qkv_positions_apply(&network->positions, graph, memory, source, NULL); /* [Ns, D] */
    struct qkv_tensor *words =
        qkv_embedding_apply(&network->target, graph, batch->target_input, batch->target_tokens); /* [Nt, D] */
    struct qkv_tensor *gates = qkv_recurrent_gates(&network->cell, graph, words);
    struct qkv_tensor *states =
        qkv_recurrent_run(&network->cell, graph, gates, NULL, target, false); /* [Nt, D] */
    const struct qkv_attention_inputs inputs = {states, memory, .mask = qkv_source_mask(graph, batch),
                                                .queries = target, .keys = source};
    struct qkv_tensor *weights;
    struct qkv_tensor *context =
        qkv_multi_head_apply(&network->attention, graph, &inputs, &weights); /* [Nt, D] */
    qkv_trace_record(trace, graph, &owner, QKV_PART_WEIGHTS, weights);
    return qkv_dense_apply(&network->join, graph, qkv_concat(graph, states, context, 1)); /* [Nt, D] */
}

/* Lets heads be silenced (qkv_model_ablate). */
static struct qkv_attention_layers attention(const struct qkv_model *model, enum qkv_attention_kind kind,
                                             int64_t layer)
{
    const struct network *network = model->network;
    if (kind != QKV_ATTENTION_CROSS || layer != 1) return (struct qkv_attention_layers){0};
    return (struct qkv_attention_layers){.multi_head = &network->attention};
}

/* Without a decoding of its own, each step of a search runs `forward` for all tokens so far. own_decoding.c shows how to keep
 * states from step to step. */
static const struct qkv_network_setting settings[] = {{"heads", 2, 1, 64, true}};
static const struct qkv_network_interface gru_with_heads = {
    .name = "gru_with_heads",
    .settings = settings,
    .setting_count = 1,
    .declare = declare,
    .forward = forward,
    .attention = attention,
};

/* ---- what the program does with it ---- */

static enum qkv_status train(const char *config_path, int count, const char *const *overrides,
                             const char **folder, struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_config config;
    struct qkv_messages messages = {0};
    struct qkv_train_result result;
    const struct qkv_train_options options = {.overwrite = true};
    if (qkv_config_read(&config, arena, config_path, overrides, count, &messages))
        return qkv_error_set(error, "%s", messages.text[0]);
    if (qkv_train(&config, &options, &result, error)) return QKV_INVALID;
    printf("%lld updates, best BLEU %.1f\n", (long long)result.updates, result.best);
    *folder = config.training.model_dir;
    return QKV_OK;
}

/* Translates a sentence and prints where each word of the translation looked. */
static enum qkv_status look(const struct qkv_run *run, const char *text, struct qkv_arena *arena,
                            struct qkv_error *error)
{
    struct qkv_sentence source = {0};
    const struct qkv_search_options beam = {.beam_size = 4, .n_best = 1};
    const struct qkv_hypothesis *best;
    struct qkv_attention_report maps;
    struct qkv_translator *translator = qkv_translator_new(run->model, NULL, error);
    struct qkv_attention_collector *collector = qkv_attention_collector_new(run->model, error);
    enum qkv_status status = translator && collector ? QKV_OK : QKV_INVALID;
    if (!status)
        status = qkv_sentence_encode(&source, &run->config.data.src, &run->source, text, strlen(text), error);
    const struct qkv_ids ids = {source.tokens.count, source.ids};
    if (!status) status = qkv_translator_run(translator, 1, &ids, 1, &beam, &best, error);
    if (!status) {
        const char **words = qkv_arena_allocate(arena, (size_t)best->length * sizeof *words);
        for (int64_t i = 0; words && i < best->length; i++)
            words[i] = qkv_vocabulary_token(&run->target, best->ids[i]);
        const struct qkv_attention_pair pair = {.source = ids,
                                                .target = {best->length, best->ids},
                                                .source_tokens = source.tokens.token,
                                                .target_tokens = words,
                                                .unfinished = !best->finished};
        status = words ? qkv_attention_collect(collector, 1, &pair, 0, &maps, error)
                       : qkv_error_set(error, "out of memory");
    }
    char *picture = NULL;
    size_t size;
    if (!status) status = qkv_attention_render(&maps, qkv_format_find("text"), NULL, &picture, &size, error);
    if (!status) fwrite(picture, 1, size, stdout);
    free(picture);
    qkv_attention_collector_free(collector);
    qkv_translator_free(translator);
    qkv_sentence_release(&source);
    return status;
}

int main(int count, char **arguments)
{
    struct qkv_error error = {""};
    struct qkv_arena arena = {0};
    struct qkv_run run;
    const char *folder = NULL;
    if (count < 3) {
        fprintf(stderr, "Usage: own_network CONFIG SENTENCE [KEY=VALUE...]\n");
        return 2;
    }
    enum qkv_status status = qkv_network_register(&gru_with_heads, &error);
    if (!status)
        status = train(arguments[1], count - 3, (const char *const *)arguments + 3, &folder, &arena, &error);
    if (!status) status = qkv_run_open(&run, folder, NULL, QKV_FLOAT32, &error);
    if (!status) {
        status = look(&run, arguments[2], &arena, &error);
        qkv_run_release(&run);
    }
    if (status) fprintf(stderr, "own_network: %s\n", error.message);
    qkv_arena_release(&arena);
    return status ? 2 : 0;
}
