/* Workloads: four built-in sizes, for comparisons with other programs, and any config. */
#include "bench.h"

#include "core/choices.h"
#include "core/file.h"
#include "qkv/corpus.h"
#include "qkv/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (qkv_config_default(config, &work->arena, shape->name)) return qkv_error_set(error, "out of memory");
    set_stack(&config->model.encoder, shape);
    set_stack(&config->model.decoder, shape);
    struct qkv_training_config *training = &config->training;
    training->batch_size = shape->sentences;
    training->label_smoothing = 0.1;
    training->adam_betas[1] = 0.98;
    training->adam_epsilon = 1e-9;
    training->learning_rate = 1e-4;
    work->source_size = work->target_size = shape->vocabulary;
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
    const struct qkv_config *config = &work->config;
    const struct qkv_corpus_options options = {.drop_long = true};
    work->has_text = true;
    if (qkv_corpus_merges(path, &work->config.data, work->bpe, options, error) ||
        qkv_corpus_read(&work->corpus, path, &config->data, options, error) ||
        qkv_corpus_vocabularies(&work->corpus, &config->data, &work->source, &work->target, error) ||
        qkv_corpus_encode(&work->corpus, &work->source, &work->target, error))
        return QKV_INVALID;
    if (!work->shape) { /* a built-in workload keeps its size */
        work->source_size = work->source.size;
        work->target_size = work->target.size;
    }
    const struct qkv_batches_options batches = {config->training.batch_type, config->training.batch_size,
                                                QKV_BATCH_ORDER_SHUFFLED, 1};
    return qkv_batches_init(&work->batches, &work->corpus, batches, error);
}

enum qkv_status bench_work_batch(struct bench_work *work, int64_t i, struct qkv_error *error)
{
    if (!work->has_text) return QKV_OK;
    int64_t epoch = i / work->batches.count;
    if (work->batches.epoch != epoch) qkv_batches_epoch(&work->batches, epoch);
    return qkv_batches_get(&work->batches, i % work->batches.count, &work->batch, error);
}

/* Returns the tokens of a random sentence without </s>: with a text, the average length of its
 * sentences. */
static int64_t length_of(const struct bench_work *work, bool is_target)
{
    if (!work->has_text) return work->shape->tokens - 1;
    const struct qkv_corpus_side *side = is_target ? &work->corpus.target : &work->corpus.source;
    int64_t length = side->start[work->corpus.count] / work->corpus.count;
    return length > 0 ? length : 1;
}

struct qkv_ids *bench_random_sentences(const struct bench_work *work, int64_t count, bool is_target,
                                       struct qkv_error *error)
{
    const struct qkv_random random = {.seed = 7, .step = is_target, .stream = QKV_STREAM_CHECK};
    int64_t length = length_of(work, is_target);
    uint64_t size = (uint64_t)((is_target ? work->target_size : work->source_size) - QKV_SPECIALS);
    struct qkv_ids *ids = malloc((size_t)count * (sizeof *ids + (size_t)length * sizeof(int32_t)));
    if (!ids) {
        qkv_error_set(error, "out of memory for %lld sentences", (long long)count);
        return NULL;
    }
    int32_t *words = (int32_t *)(ids + count); /* behind the sentences */
    for (int64_t i = 0; i < count * length; i++)
        words[i] = QKV_SPECIALS + (int32_t)qkv_random_below(random, (uint64_t)i, size);
    for (int64_t i = 0; i < count; i++) ids[i] = (struct qkv_ids){length, words + i * length};
    return ids;
}

static enum qkv_status make_random_batch(struct bench_work *work, struct qkv_error *error)
{
    int64_t count = work->shape->sentences;
    struct qkv_ids *sources = bench_random_sentences(work, count, false, error),
                   *targets = bench_random_sentences(work, count, true, error);
    enum qkv_status status = QKV_INVALID;
    if (sources && targets) status = qkv_batch_make(&work->batch, count, sources, targets, error);
    free(sources);
    free(targets);
    return status;
}

static enum qkv_status make_model(struct bench_work *work, struct qkv_error *error)
{
    work->model =
        qkv_model_new(&work->config.model, work->source_size, work->target_size, QKV_FLOAT32, error);
    if (!work->model) return QKV_INVALID;
    qkv_parameters_initialize(&work->model->parameters, 1);
    return QKV_OK;
}

enum qkv_status bench_work_make(struct bench_work *work, const struct bench_options *options,
                                struct qkv_error *error)
{
    for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++)
        if (!strcmp(SHAPES[i].name, work->name)) work->shape = &SHAPES[i];
    const struct bench_shape *shape = work->shape;
    if (shape ? set_shape(work, error) : read_config(work, error)) return QKV_INVALID;
    enum qkv_status status =
        shape && !options->text
            ? make_random_batch(work, error)
            : read_text(work, options->text ? options->text : work->config.data.train, error);
    return status ? status : make_model(work, error);
}

static void write_side(FILE *file, const char *name, int64_t count, const int32_t *ids, const int64_t *start,
                       const int64_t *length)
{
    fprintf(file, "\"%s\": [", name);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", [" : "[", file);
        for (int64_t t = 0; t < length[i]; t++) fprintf(file, t ? ", %d" : "%d", (int)ids[start[i] + t]);
        fputc(']', file);
    }
    fputc(']', file);
}

enum qkv_status bench_work_write(struct bench_work *work, int64_t count, const char *path,
                                 struct qkv_error *error)
{
    struct qkv_file_writer writer;
    const struct qkv_batch *batch = &work->batch;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        if (bench_work_batch(work, i, error)) {
            qkv_file_abandon(&writer);
            return QKV_INVALID;
        }
        fputc('{', writer.file);
        write_side(writer.file, "source", batch->count, batch->source, batch->source_start,
                   batch->source_length);
        fputs(", ", writer.file);
        write_side(writer.file, "target", batch->count, batch->target_output, batch->target_start,
                   batch->target_length);
        fputs("}\n", writer.file);
    }
    return qkv_file_commit(&writer, error);
}

void bench_work_release(struct bench_work *work)
{
    qkv_model_free(work->model);
    qkv_batch_release(&work->batch);
    qkv_batches_release(&work->batches);
    qkv_corpus_release(&work->corpus);
    qkv_vocabulary_release(&work->source);
    qkv_vocabulary_release(&work->target);
    for (int side = 0; side < 2; side++) qkv_bpe_free(work->bpe[side]);
    qkv_arena_release(&work->arena);
}

enum qkv_status bench_work_narrow(struct bench_work *work, const struct bench_options *options,
                                  struct qkv_error *error)
{
    enum qkv_precision precision = work->config.training.precision;
    if (options->precision && strcmp(options->precision, "int8") != 0)
        qkv_precision_find(options->precision, &precision);
    return qkv_parameters_set_precision(&work->model->parameters, precision, error);
}
