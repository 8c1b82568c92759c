#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct checking {
    const struct qkv_config *config;
    const struct qkv_origin *origins;
    struct qkv_collector *collector;
};

static const struct qkv_origin *origin(const struct checking *checking, const char *path)
{
    const struct qkv_key *key = qkv_key_find(path);
    QKV_BUG(!key, "there is no key %s", path);
    return &checking->origins[key - qkv_keys];
}

/* Whether the values of both keys were read, so that they may be compared. */
static bool sound(const struct checking *checking, const char *path, const char *other)
{
    return !origin(checking, path)->bad && !origin(checking, other)->bad;
}

/* Collects a sentence at the place of `path`, or at that of `other` when only that was given. */
static void QKV_PRINTF(4, 5)
    object(const struct checking *checking, const char *path, const char *other, const char *format, ...)
{
    struct qkv_error sentence;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence.message, sizeof sentence.message, format, arguments);
    va_end(arguments);
    const struct qkv_origin *first = origin(checking, path);
    if (!first->given) first = origin(checking, other);
    qkv_collect(checking->collector, first->place, "%s", sentence.message);
}

struct path {
    char text[QKV_KEY_LONGEST];
};

static struct path path_of(const char *section, const char *key)
{
    struct path path;
    snprintf(path.text, sizeof path.text, "%s.%s", section, key);
    return path;
}

/* The name becomes that of a folder. */
static void check_name(const struct checking *checking)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = checking->config->name;
    if (!sound(checking, "name", "name") || (*name != '.' && !name[strspn(name, allowed)])) return;
    object(checking, "name", "name",
           "name is '%s', but must be made of letters, digits, '.', '_' and '-', and not start with '.'",
           qkv_shown(checking->collector->arena, name));
}

static void check_stack(const struct checking *checking, const struct qkv_stack_config *stack,
                        const char *section, const struct qkv_text_config *text, const char *side)
{
    struct path hidden = path_of(section, "hidden_size"), heads = path_of(section, "num_heads");
    bool free_widths = stack->attention.key_width && stack->attention.value_width;
    if (sound(checking, heads.text, hidden.text) && !free_widths && stack->hidden_size % stack->num_heads)
        object(checking, heads.text, hidden.text, "%s is %" PRId64 ", but must divide %s (%" PRId64 ")",
               heads.text, stack->num_heads, hidden.text, stack->hidden_size);

    struct path embedding = path_of(section, "embeddings.embedding_dim");
    int64_t width = stack->embeddings.embedding_dim;
    if (sound(checking, embedding.text, hidden.text) && width && width != stack->hidden_size)
        object(checking, embedding.text, hidden.text, "%s is %" PRId64 ", but must be 0 or %s (%" PRId64 ")",
               embedding.text, width, hidden.text, stack->hidden_size);

    /* A sentence of max_length tokens and the one that marks its begin or end. */
    struct path rows = path_of(section, "positions.max_length"), longest = path_of(side, "max_length"),
                type = path_of(section, "positions.type");
    if (sound(checking, rows.text, longest.text) && sound(checking, type.text, type.text) &&
        stack->positions.type == QKV_POSITION_LEARNED && stack->positions.max_length < text->max_length + 1)
        object(checking, rows.text, longest.text,
               "%s is %" PRId64 ", but learned positions need one more than %s (%" PRId64 ")", rows.text,
               stack->positions.max_length, longest.text, text->max_length);
}

static void check_model(const struct checking *checking)
{
    const struct qkv_model_config *model = &checking->config->model;
    const struct qkv_data_config *data = &checking->config->data;
    check_stack(checking, &model->encoder, "model.encoder", &data->src, "data.src");
    check_stack(checking, &model->decoder, "model.decoder", &data->trg, "data.trg");
    if (sound(checking, "model.encoder.hidden_size", "model.decoder.hidden_size") &&
        model->encoder.hidden_size != model->decoder.hidden_size)
        object(checking, "model.decoder.hidden_size", "model.encoder.hidden_size",
               "model.decoder.hidden_size is %" PRId64 ", but must equal model.encoder.hidden_size (%" PRId64
               ")",
               model->decoder.hidden_size, model->encoder.hidden_size);
    if (sound(checking, "model.tied_embeddings", "data.joint_vocabulary") && model->tied_embeddings &&
        !data->joint_vocabulary)
        object(checking, "model.tied_embeddings", "data.joint_vocabulary",
               "model.tied_embeddings is true, but needs data.joint_vocabulary");
    if (sound(checking, "data.src.level", "data.trg.level") && data->joint_vocabulary &&
        data->src.level != data->trg.level)
        object(checking, "data.trg.level", "data.src.level",
               "data.trg.level is %s, but data.joint_vocabulary needs that of data.src.level (%s)",
               qkv_level_name(data->trg.level), qkv_level_name(data->src.level));
}

static void check_schedule(const struct checking *checking)
{
    const struct qkv_training_config *training = &checking->config->training;
    const char *name = qkv_schedule_kind_name(training->scheduling);
    enum qkv_schedule_kind kind = training->scheduling;
    bool warms_up = kind == QKV_SCHEDULE_NOAM || kind == QKV_SCHEDULE_INVERSE_SQRT;
    bool has_end = kind == QKV_SCHEDULE_LINEAR || kind == QKV_SCHEDULE_COSINE;
    if (origin(checking, "training.scheduling")->bad) return;
    if (warms_up && sound(checking, "training.learning_rate_warmup", "training.learning_rate_warmup") &&
        !training->learning_rate_warmup)
        object(checking, "training.scheduling", "training.scheduling",
               "training.scheduling is %s, but needs training.learning_rate_warmup above 0", name);
    if (has_end && sound(checking, "training.updates", "training.epochs") && !training->updates &&
        training->epochs)
        object(checking, "training.scheduling", "training.scheduling",
               "training.scheduling is %s, but needs training.updates, the length of the schedule", name);
    if (kind == QKV_SCHEDULE_PLATEAU && !origin(checking, "data.dev")->bad && !*checking->config->data.dev)
        object(checking, "training.scheduling", "training.scheduling",
               "training.scheduling is plateau, but needs data.dev");
    if (sound(checking, "training.learning_rate", "training.learning_rate_min") &&
        training->learning_rate_min > training->learning_rate)
        object(checking, "training.learning_rate_min", "training.learning_rate",
               "training.learning_rate_min is %g, but must not exceed training.learning_rate (%g)",
               training->learning_rate_min, training->learning_rate);
}

void qkv_config_check(const struct qkv_config *config, const struct qkv_origin *origins,
                      struct qkv_collector *collector)
{
    struct checking checking = {config, origins, collector};
    const struct qkv_training_config *training = &config->training;
    check_name(&checking);
    check_model(&checking);
    check_schedule(&checking);
    if (sound(&checking, "training.updates", "training.epochs") && !training->updates && !training->epochs)
        object(&checking, "training.updates", "training.epochs",
               "training.updates or training.epochs must be given, so that training ends");
    if (sound(&checking, "training.patience", "data.dev") && training->patience && !*config->data.dev)
        object(&checking, "training.patience", "data.dev",
               "training.patience is %" PRId64 ", but needs data.dev", training->patience);
    if (sound(&checking, "testing.n_best", "testing.beam_size") &&
        config->testing.n_best > config->testing.beam_size)
        object(&checking, "testing.n_best", "testing.beam_size",
               "testing.n_best is %" PRId64 ", but must not exceed testing.beam_size (%" PRId64 ")",
               config->testing.n_best, config->testing.beam_size);
}

static void normalise_stack(struct qkv_stack_config *stack)
{
    int64_t width = stack->hidden_size / stack->num_heads;
    if (!stack->attention.key_width) stack->attention.key_width = width;
    if (!stack->attention.value_width) stack->attention.value_width = width;
    if (!stack->embeddings.embedding_dim) stack->embeddings.embedding_dim = stack->hidden_size;
}

bool qkv_config_normalise(struct qkv_config *config, struct qkv_arena *arena)
{
    normalise_stack(&config->model.encoder);
    normalise_stack(&config->model.decoder);
    if (!*config->training.model_dir)
        config->training.model_dir = qkv_arena_format(arena, "runs/%s", config->name);
    return config->training.model_dir;
}
