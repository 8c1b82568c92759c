/* Workloads: four built-in sizes, for comparisons with other programs, and any config. */
#include "bench.h"
#include "core/system.h"

#include "core/choices.h"

static const struct bench_shape SHAPES[] = {
    {"toy", 64, 4, 256, 2, 200, 32, 10},
    {"small", 128, 4, 256, 4, 10000, 64, 15},
    {"base", 512, 8, 2048, 3, 10000, 64, 15},
    {"large", 512, 8, 2048, 6, 10000, 64, 15}, /* 60 million parameters */
};

/* Compared programs train with the same settings: post-norm, dropout everywhere, label smoothing,
 * Adam. */
static void set_stack(struct qkv_stack_config *stack, const struct bench_shape *shape)
{
    stack->num_layers = shape->layers;
    stack->num_heads = shape->heads;
    stack->hidden_size = shape->width;
    stack->ff_size = shape->inner;
    stack->dropout = stack->attention.dropout = stack->embeddings.dropout = 0.1;
    stack->layer_norm = QKV_NORM_POST;
    stack->embeddings.embedding_dim = shape->width;
    if (stack->positions.max_length < shape->tokens) stack->positions.max_length = shape->tokens;
    stack->attention.key_width = stack->attention.value_width = shape->width / shape->heads;
}

static enum qkv_status set_shape(struct bench_work *work, struct qkv_error *error)
{
    struct qkv_config *config = &work->config;
    const struct bench_shape *shape = work->shape;
    if (qkv_config_default(config, &work->arena, shape->name)) return qkv_no_memory(error);
    set_stack(&config->model.encoder, shape);
    set_stack(&config->model.decoder, shape);
    struct qkv_training_config *training = &config->training;
    training->batch_size = shape->sentences;
    training->label_smoothing = 0.1;
    training->adam_betas[1] = 0.98;
    training->adam_epsilon = 1e-9;
    training->learning_rate = 1e-4;
    work->vocabulary[0] = work->vocabulary[1] = shape->vocabulary;
    /* Of a text, lower case and separate punctuation marks: a small vocabulary then covers more of it. */
    struct qkv_text_config *texts[] = {&config->data.src, &config->data.trg};
    for (int side = 0; side < 2; side++) {
        texts[side]->lowercase = texts[side]->split_punctuation = true;
        texts[side]->voc_limit = shape->vocabulary - QKV_SPECIALS;
    }
    return QKV_OK;
}

static enum qkv_status read_config(struct bench_work *work, struct qkv_error *error)
{
    struct qkv_messages messages = {0};
    if (!qkv_config_read(&work->config, &work->arena, work->name, NULL, 0, &messages)) return QKV_OK;
    qkv_error_set(error, "%s", messages.count ? messages.text[0] : "out of memory");
    return QKV_INVALID;
}

static enum qkv_status read_text(struct bench_work *work, const char *path, struct qkv_error *error)
{
    const struct qkv_corpus_options options = {.drop_long = true};
    struct qkv_data_config *data = &work->config.data;
    struct training *training = &work->training;
    if (qkv_corpus_merges(path, data, training->bpe, options, error) ||
        qkv_corpus_read(&training->train, path, data, options, error) ||
        qkv_corpus_vocabularies(&training->train, data, &training->source, &training->target, error) ||
        qkv_corpus_encode(&training->train, &training->source, &training->target, error))
        return QKV_INVALID;
    if (work->shape) return QKV_OK; /* a built-in workload keeps its size */
    work->vocabulary[0] = training->source.size;
    work->vocabulary[1] = training->target.size;
    return QKV_OK;
}

int64_t bench_work_length(const struct bench_work *work)
{
    const struct qkv_corpus *corpus = &work->training.train;
    int64_t length = corpus->source.start[corpus->count] / corpus->count;
    return length > 0 ? length : 1;
}

int32_t *bench_random_words(const struct bench_work *work, int64_t count, int side)
{
    const struct qkv_random random = {.seed = 7, .step = (uint32_t)side, .stream = QKV_STREAM_CHECK};
    uint64_t size = (uint64_t)(work->vocabulary[side] - QKV_SPECIALS);
    int32_t *words = required(malloc((size_t)count * sizeof *words));
    for (int64_t i = 0; i < count; i++)
        words[i] = QKV_SPECIALS + (int32_t)qkv_random_below(random, (uint64_t)i, size);
    return words;
}

/* One batch of sentences of equal length. */
static enum qkv_status make_random_text(struct bench_work *work)
{
    struct qkv_corpus *corpus = &work->training.train;
    struct qkv_corpus_side *sides[] = {&corpus->source, &corpus->target};
    const int64_t count = work->shape->sentences, length = work->shape->tokens - 1;
    corpus->sides = qkv_sides_of(&work->config.data, &work->config.model);
    corpus->count = count;
    corpus->encoded = true;
    corpus->sides = qkv_sides_of(&work->config.data, NULL);
    for (int side = 0; side < 2; side++) {
        sides[side]->longest = length;
        sides[side]->ids = bench_random_words(work, count * length, side);
        sides[side]->start = required(malloc((size_t)(count + 1) * sizeof *sides[side]->start));
        for (int64_t i = 0; i <= count; i++) sides[side]->start[i] = i * length;
    }
    return QKV_OK;
}

enum qkv_status bench_work_make(struct bench_work *work, const struct bench_options *options,
                                struct qkv_error *error)
{
    struct training *training = &work->training;
    for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++)
        if (!strcmp(SHAPES[i].name, work->name)) work->shape = &SHAPES[i];
    if (work->shape ? set_shape(work, error) : read_config(work, error)) return QKV_INVALID;
    struct qkv_training_config *settings = &work->config.training;
    settings->random_seed = settings->batch_multiplier = 1; /* a step is one batch */
    settings->epochs = 0;
    /* Only decoding has int8. */
    if (options->precision && strcmp(options->precision, "int8") != 0)
        qkv_precision_find(options->precision, &settings->precision);
    enum qkv_status status =
        work->shape && !options->text
            ? make_random_text(work)
            : read_text(work, options->text ? options->text : work->config.data.train, error);
    if (status) return status;
    training->model =
        qkv_model_new(&work->config.model, work->vocabulary[0], work->vocabulary[1], QKV_FLOAT32, error);
    if (!training->model) return QKV_INVALID;
    qkv_parameters_initialize(&training->model->parameters, 1);
    return QKV_OK;
}

enum qkv_status bench_work_train(struct bench_work *work, int threads, int64_t shards,
                                 struct qkv_error *error)
{
    static const struct qkv_train_options alone = {0};
    struct training *training = &work->training;
    training->config = &work->config;
    training->options = &alone;
    training->workers = qkv_workers_new(threads, error);
    if (!training->workers) return QKV_INVALID;
    if (shards || work->shape)
        work->config.training.shards = shards ? shards : qkv_workers_count(training->workers);
    if (qkv_training_make_optimizer(training, error)) return QKV_INVALID;
    qkv_training_plan_epoch(training);
    return QKV_OK;
}

enum qkv_status bench_work_batch(struct bench_work *work, int64_t i, struct qkv_error *error)
{
    struct qkv_batches *batches = &work->training.batches;
    if (batches->epoch != i / batches->count) qkv_batches_epoch(batches, i / batches->count);
    return qkv_batches_get(batches, i % batches->count, &work->training.batch, error);
}

static void add_side(cJSON *object, const char *name, int64_t count, const int32_t *ids, const int64_t *start,
                     const int64_t *length)
{
    cJSON *sentences = cJSON_AddArrayToObject(object, name);
    for (int64_t i = 0; i < count; i++)
        cJSON_AddItemToArray(sentences, cJSON_CreateIntArray(ids + start[i], (int)length[i]));
}

enum qkv_status bench_work_write(struct bench_work *work, int64_t count, const char *path,
                                 struct qkv_error *error)
{
    struct bytes out = {0};
    const struct qkv_batch *batch = &work->training.batch;
    enum qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        status = bench_work_batch(work, i, error);
        if (status) break;
        cJSON *object = cJSON_CreateObject();
        add_side(object, "source", batch->count, batch->source, batch->source_start, batch->source_length);
        add_side(object, "target", batch->count, batch->target_output, batch->target_start,
                 batch->target_length);
        char *text = cJSON_PrintUnformatted(object);
        out.failed = out.failed || !text;
        if (text) qkv_bytes_format(&out, "%s\n", text);
        cJSON_free(text);
        cJSON_Delete(object);
    }
    qkv_training_plan_epoch(&work->training); /* the first one again */
    if (!status) return write_output(path, &out, error);
    free(out.data);
    return status;
}

void bench_work_release(struct bench_work *work)
{
    qkv_training_release(&work->training);
    qkv_arena_release(&work->arena);
}
