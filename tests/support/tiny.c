#include "tiny.h"

struct qkv_model_config tiny_config(void)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    cr_assert_eq(qkv_config_default(&config, &arena, "tiny"), QKV_OK);
    struct qkv_model_config model = config.model;
    model.network = model.settings = ""; /* the texts of the config are in the arena */
    struct qkv_stack_config *stacks[] = {&model.encoder, &model.decoder};
    for (int i = 0; i < 2; i++) {
        struct qkv_stack_config *stack = stacks[i];
        stack->num_layers = 2;
        stack->num_heads = stack->attention.key_value_heads = 2;
        stack->hidden_size = stack->embeddings.embedding_dim = 8;
        stack->ff_size = 12;
        stack->attention.key_width = stack->attention.value_width = 4;
        stack->dropout = stack->attention.dropout = stack->embeddings.dropout = 0;
        stack->positions.max_length = 24;
    }
    return model;
}

struct qkv_model_config tiny_recurrent_config(void)
{
    struct qkv_model_config config = tiny_config();
    config.encoder.type = config.decoder.type = QKV_NETWORK_RECURRENT;
    config.encoder.rnn_type = config.decoder.rnn_type = QKV_CELL_GRU;
    config.encoder.embeddings.scale = config.decoder.embeddings.scale = false;
    config.decoder.attention.score = QKV_ATTENTION_SCORE_GENERAL;
    return config;
}

struct qkv_model *tiny_model(const struct qkv_model_config *config, int32_t source_size, int32_t target_size,
                             enum qkv_dtype dtype, uint64_t seed)
{
    struct qkv_model *model = made(qkv_model_new(config, source_size, target_size, dtype, &error));
    qkv_parameters_initialize(&model->parameters, seed);
    for (int64_t p = 0; p < model->parameters.count; p++) {
        const struct qkv_parameter *parameter = model->parameters.list[p];
        struct qkv_random random = {.seed = seed, .stream = QKV_STREAM_CHECK, .step = (uint32_t)p};
        for (int64_t i = 0; i < parameter->count; i++) {
            double moved = qkv_parameter_get(&model->parameters, parameter, i) +
                           0.4 * (2 * qkv_random_uniform(random, (uint64_t)i) - 1);
            qkv_parameter_set(&model->parameters, parameter, i, moved);
        }
    }
    return model;
}

/* `length` random words of a vocabulary. */
static struct qkv_ids words(int64_t length, int32_t size, struct qkv_random random)
{
    int32_t *ids = malloc(((size_t)length + 1) * sizeof *ids);
    for (int64_t i = 0; i < length; i++)
        ids[i] =
            QKV_SPECIALS + (int32_t)qkv_random_below(random, (uint64_t)i, (uint64_t)(size - QKV_SPECIALS));
    return (struct qkv_ids){length, ids};
}

void tiny_favour(struct qkv_model *model, int32_t token, double by)
{
    double bias = qkv_parameter_get(&model->parameters, model->output_bias, token);
    qkv_parameter_set(&model->parameters, model->output_bias, token, bias + by);
}

void tiny_search(const struct qkv_model *model, const struct qkv_batch_view *batch,
                 struct qkv_search_options options, struct qkv_translations *translations)
{
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    expect_done(qkv_search(decoding, batch, &options, translations, &error));
    cr_assert_eq(translations->count, batch->count);
}

void tiny_batch(struct qkv_batch *batch, const struct qkv_model *model, int64_t count,
                const int64_t *source_length, const int64_t *target_length, uint64_t seed)
{
    struct qkv_ids source[64], target[64];
    cr_assert_leq(count, 64);
    for (int64_t i = 0; i < count; i++) {
        struct qkv_random random = {.seed = seed, .stream = QKV_STREAM_GENERATE, .step = 2 * (uint32_t)i};
        source[i] = words(source_length[i], model->source_size, random);
        random.step++;
        target[i] = words(target_length ? target_length[i] : 0, model->target_size, random);
    }
    cr_assert_eq(qkv_batch_make(batch, count, source, target_length ? target : NULL, NULL), QKV_OK);
    for (int64_t i = 0; i < count; i++) {
        free((int32_t *)(uintptr_t)source[i].ids);
        free((int32_t *)(uintptr_t)target[i].ids);
    }
}

double *tiny_log_probabilities(const struct qkv_model *model, const struct qkv_batch_view *batch)
{
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(model->parameters.dtype);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    struct qkv_tensor *hidden = qkv_model_forward(model, graph, batch, NULL);
    struct qkv_tensor *logits =
        qkv_linear(graph, hidden, qkv_graph_parameter(graph, model->output_weight),
                   qkv_graph_parameter(graph, model->output_bias), model->output_tied);
    struct qkv_tensor *result = qkv_log_softmax(graph, logits);
    expect_done(qkv_graph_check(graph, &error));
    qkv_forward(graph);
    double *values = malloc((size_t)qkv_tensor_count(result) * sizeof *values);
    qkv_tensor_read(result, values);
    return values;
}

double tiny_difference(const struct qkv_model *model, const struct qkv_batch_view *batch,
                       const struct qkv_model *other, const struct qkv_batch_view *other_batch)
{
    double *one RELEASED(free_memory) = tiny_log_probabilities(model, batch),
                *two RELEASED(free_memory) = tiny_log_probabilities(other, other_batch), max = 0;
    for (int64_t i = 0; i < batch->target_tokens * model->target_size; i++) {
        cr_assert(isfinite(one[i]) && isfinite(two[i]), "number %d is %g, then %g", (int)i, one[i], two[i]);
        max = fmax(max, fabs(one[i] - two[i]));
    }
    return max;
}

struct qkv_batch_view tiny_view(struct qkv_batch *batch)
{
    struct qkv_batch_view view;
    qkv_batch_shard(batch, 0, 1, &view);
    return view;
}

struct tiny tiny_with(struct qkv_model *model, int64_t count, const int64_t *source_length,
                      const int64_t *target_length, uint64_t seed)
{
    struct tiny tiny = {.model = model};
    tiny_batch(&tiny.batch, model, count, source_length, target_length, seed);
    tiny.view = tiny_view(&tiny.batch);
    return tiny;
}

void tiny_release(struct tiny *tiny)
{
    qkv_batch_release(&tiny->batch);
    qkv_model_free(tiny->model);
}

void tiny_sources(const struct qkv_batch *batch, struct qkv_ids *ids)
{
    for (int64_t i = 0; i < batch->count; i++)
        ids[i] = (struct qkv_ids){batch->source_length[i] - 1, batch->source + batch->source_start[i]};
}

const struct qkv_hypothesis *tiny_translate(struct qkv_translator *translator, int64_t count,
                                            const struct qkv_ids *sources, int64_t batch_size,
                                            const struct qkv_search_options *options)
{
    const struct qkv_hypothesis *best;
    expect_done(qkv_translator_run(translator, count, sources, batch_size, options, &best, &error));
    return best;
}

bool tiny_is_same(const struct qkv_hypothesis *a, const struct qkv_hypothesis *b)
{
    return a->length == b->length && a->finished == b->finished &&
           !memcmp(a->ids, b->ids, (size_t)a->length * sizeof *a->ids);
}

struct qkv_graph *tiny_traced(const struct tiny *tiny, struct qkv_trace *trace)
{
    struct qkv_graph *graph = qkv_graph_new(tiny->model->parameters.dtype);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, &tiny->model->parameters, NULL, false);
    qkv_model_loss(tiny->model, graph, &tiny->view, NULL, 1, trace);
    expect_done(qkv_graph_check(graph, &error));
    qkv_forward(graph);
    return graph;
}

/* Row r is sentence r or, if `moving`, sentence (r + t) mod B at step t. */
static void feed(struct qkv_decoding *decoding, const struct qkv_model *model, const char *name,
                 const struct qkv_batch_view *batch, const double *forced, bool moving, double tolerance)
{
    int64_t longest = 0, count = batch->count, classes = model->target_size, sentences[8], parents[8];
    int32_t ids[8];
    for (int64_t i = 0; i < count; i++)
        if (batch->target_length[i] > longest) longest = batch->target_length[i];
    expect_done(qkv_decoding_start(decoding, batch, count, longest, true, &error));
    for (int64_t t = 0; t < longest; t++) {
        for (int64_t r = 0; r < count; r++) {
            int64_t s = sentences[r] = moving ? (r + t) % count : r;
            parents[r] = (r + 1) % count;
            ids[r] = t < batch->target_length[s] ? batch->target_input[batch->target_start[s] + t] : QKV_END;
        }
        if (t && moving) qkv_decoding_reorder(decoding, count, parents);
        const struct qkv_next_scores *next = made(qkv_decoding_step(decoding, count, ids, sentences, &error));
        for (int64_t r = 0; r < count; r++) {
            int64_t s = sentences[r];
            for (int64_t c = 0; t < batch->target_length[s] && c < classes; c++)
                cr_assert_float_eq(qkv_next_log_probability(next, r, (int32_t)c),
                                   forced[(batch->target_start[s] + t) * classes + c], tolerance,
                                   "%s, rows that %s: sentence %lld, step %lld, token %lld", name,
                                   moving ? "move" : "stay", (long long)s, (long long)t, (long long)c);
        }
    }
}

void tiny_expect_forced(struct qkv_decoding *decoding, const struct qkv_model *model, const char *name,
                        const struct qkv_batch_view *batch, double tolerance)
{
    double *forced RELEASED(free_memory) = tiny_log_probabilities(model, batch);
    for (int moving = 0; moving < 2; moving++) feed(decoding, model, name, batch, forced, moving, tolerance);
}

void tiny_expect_decoding(struct qkv_model *model, const char *what)
{
    static const int64_t SOURCE[][5] = {{3, 1, 6, 0, 2}, {4, 4, 1, 1, 8}},
                         TARGET[][5] = {{4, 0, 2, 7, 1}, {9, 1, 5, 0, 3}};
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    for (uint64_t i = 0; i < 2; i++) { /* the second batch reuses everything */
        tiny_batch(&batch, model, 5 - (int64_t)i, SOURCE[i], TARGET[i], i);
        struct qkv_batch_view view = tiny_view(&batch);
        tiny_expect_forced(decoding, model, what, &view,
                           model->parameters.dtype == QKV_FLOAT64 ? 1e-12 : 2e-5);
    }
}
