#include "config/check.h"

#include "config/value.h"

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

static const char *value_of(const struct checking *checking, const char *path)
{
    const char *text = qkv_value_text(qkv_key_find(path), checking->config, checking->collector->arena);
    return text ? text : "?";
}

/* Unless `holds`: "<path> is 3, but must divide <other> (64)". Says nothing when one of the values is bad by
 * itself. */
static void relate(const struct checking *checking, bool holds, const char *path, const char *must,
                   const char *other)
{
    if (holds || !sound(checking, path, other)) return;
    object(checking, path, other, "%s is %s, but %s %s (%s)", path, value_of(checking, path), must, other,
           value_of(checking, other));
}

/* Unless `holds`: "<path> is noam, but needs <other>" and what `more` adds. */
static void need(const struct checking *checking, bool holds, const char *path, const char *other,
                 const char *more)
{
    if (holds || !sound(checking, path, other)) return;
    object(checking, path, other, "%s is %s, but needs %s%s", path, value_of(checking, path), other, more);
}

/* The path of a key in a section that has a twin. */
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

static void check_attention(const struct checking *checking, const struct qkv_stack_config *stack,
                            const char *section)
{
    struct path heads = path_of(section, "num_heads"), shared = path_of(section, "attention.key_value_heads"),
                window = path_of(section, "attention.window"),
                globals = path_of(section, "attention.global_tokens"),
                type = path_of(section, "positions.type"), hidden = path_of(section, "hidden_size"),
                buckets = path_of(section, "positions.buckets"),
                distance = path_of(section, "positions.max_distance");
    const struct qkv_attention_config *attention = &stack->attention;
    const struct qkv_position_config *positions = &stack->positions;
    bool encoder = stack == &checking->config->model.encoder;
    int64_t width = attention->key_width ? attention->key_width : stack->hidden_size / stack->num_heads;
    relate(checking, !attention->key_value_heads || stack->num_heads % attention->key_value_heads == 0,
           shared.text, "must divide", heads.text);
    need(checking, !attention->global_tokens || attention->window < QKV_WINDOW_NONE, globals.text,
         window.text, ", without which all tokens are global");
    if (positions->type == QKV_POSITION_ROTARY && width % 2 && sound(checking, type.text, hidden.text))
        object(checking, type.text, hidden.text,
               "%s is rotary, which turns pairs of numbers, but the keys of a head are %lld wide", type.text,
               (long long)width);
    if (positions->type != QKV_POSITION_RELATIVE) return;
    if (encoder && positions->buckets % 2 && sound(checking, buckets.text, buckets.text))
        object(checking, buckets.text, type.text,
               "%s is %lld, but must be even: half of them are for each direction", buckets.text,
               (long long)positions->buckets);
    relate(checking, positions->max_distance > positions->buckets / (encoder ? 4 : 2), distance.text,
           encoder ? "must exceed a quarter of" : "must exceed half of", buckets.text);
}

/* Whether the config has the default of a key, or what that stands for: whole configs, as runs keep them,
 * name every key. */
static bool is_default(const struct checking *checking, const struct qkv_key *key)
{
    struct qkv_config without = *checking->config;
    struct qkv_arena *arena = checking->collector->arena;
    struct qkv_collector ignored = {.arena = arena};
    if (!qkv_value_read_text(key, key->fallback, (struct qkv_place){.name = key->path}, &without, arena,
                             &ignored))
        return false;
    return qkv_value_equal(key, checking->config, &without) ||
           (qkv_config_normalise(&without, arena) && qkv_value_equal(key, checking->config, &without));
}

/* Keys of a stack that only one kind of network has. */
static const char *const TRANSFORMER_KEYS[] = {"num_heads",
                                               "ff_size",
                                               "layer_norm",
                                               "norm",
                                               "norm_epsilon",
                                               "activation",
                                               "attention.bias",
                                               "attention.value_width",
                                               "positions.type",
                                               "positions.base",
                                               "positions.max_length",
                                               "positions.buckets",
                                               "positions.max_distance",
                                               "attention.key_value_heads",
                                               "attention.window",
                                               "attention.global_tokens",
                                               "attention.kernel"};
static const char *const RECURRENT_KEYS[] = {"rnn_type",        "bidirectional",         "reverse",
                                             "init_hidden",     "input_feeding",         "hidden_dropout",
                                             "attention.score", "attention.local_window"};

/* Whether a value was given that is read, sound and not the default. */
static bool is_set(const struct checking *checking, const char *path, const char *other)
{
    const struct qkv_key *key = qkv_key_find(path);
    return key && sound(checking, path, other) && !is_default(checking, key);
}

/* Refuses what only positions of another type read. */
static void check_positions(const struct checking *checking, enum qkv_position_kind type, const char *section)
{
    bool relative = type == QKV_POSITION_RELATIVE;
    const struct {
        const char *key, *of;
        bool used;
    } keys[] = {{"positions.buckets", "relative", relative},
                {"positions.max_distance", "relative", relative},
                {"positions.base", "sinusoidal or rotary",
                 type == QKV_POSITION_SINUSOIDAL || type == QKV_POSITION_ROTARY}};
    struct path by = path_of(section, "positions.type");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct path path = path_of(section, keys[i].key);
        if (!keys[i].used && is_set(checking, path.text, by.text))
            object(checking, path.text, by.text,
                   "%s is %s, but that is for positions that are %s, and %s is %s", path.text,
                   value_of(checking, path.text), keys[i].of, by.text, value_of(checking, by.text));
    }
}

/* Refuses a value that nothing would come of, as the key is for networks of the other kind. `type`: the key
 * that says which this is. */
static void refuse_for_kind(const struct checking *checking, const char *path, const char *type,
                            enum qkv_network network)
{
    if (!is_set(checking, path, type)) return;
    object(checking, path, type, "%s is %s, but that is for %s networks, and %s is %s", path,
           value_of(checking, path), network == QKV_NETWORK_RECURRENT ? "transformer" : "recurrent", type,
           qkv_network_name(network));
}

static void check_kind(const struct checking *checking, enum qkv_network network, const char *section)
{
    bool recurrent = network == QKV_NETWORK_RECURRENT;
    const char *const *others = recurrent ? TRANSFORMER_KEYS : RECURRENT_KEYS;
    size_t count =
        recurrent ? sizeof TRANSFORMER_KEYS / sizeof *others : sizeof RECURRENT_KEYS / sizeof *others;
    struct path type = path_of(section, "type");
    for (size_t i = 0; i < count; i++)
        refuse_for_kind(checking, path_of(section, others[i]).text, type.text, network);
}

/* Keys of attention that do nothing in a recurrent network: its encoder has none, and not every score needs
 * all. */
static void check_scored(const struct checking *checking, const struct qkv_model_config *model)
{
    static const char *const ENCODER[] = {"model.encoder.attention.key_width",
                                          "model.encoder.attention.dropout"};
    static const char *const scored = "model.decoder.attention.score";
    enum qkv_attention_score score = model->decoder.attention.score;
    bool none = score == QKV_ATTENTION_SCORE_NONE,
         product =
             score == QKV_ATTENTION_SCORE_DOT || score == QKV_ATTENTION_SCORE_GENERAL; /* of whole states */
    const struct {
        const char *path;
        bool used;
    } decoder[] = {{"model.decoder.attention.key_width", !none && !product},
                   {"model.decoder.attention.dropout", !none},
                   {"model.decoder.attention.local_window", score == QKV_ATTENTION_SCORE_LOCAL_P}};
    for (size_t i = 0; i < sizeof ENCODER / sizeof *ENCODER; i++)
        refuse_for_kind(checking, ENCODER[i], "model.encoder.type", QKV_NETWORK_RECURRENT);
    for (size_t i = 0; i < sizeof decoder / sizeof *decoder; i++)
        if (!decoder[i].used && is_set(checking, decoder[i].path, scored))
            object(checking, decoder[i].path, scored, "%s is %s, but %s is %s, which has no use for it",
                   decoder[i].path, value_of(checking, decoder[i].path), scored, value_of(checking, scored));
}

/* Keys of the model as a whole that only one kind of network has. */
static void check_model_kind(const struct checking *checking, const struct qkv_model_config *model)
{
    static const char *const type = "model.encoder.type", *const gate = "model.lstm_forget_gate";
    bool recurrent = model->encoder.type == QKV_NETWORK_RECURRENT;
    refuse_for_kind(checking, recurrent ? "model.init_depth_scaling" : "model.init_rnn_orthogonal", type,
                    model->encoder.type);
    if (!recurrent)
        refuse_for_kind(checking, gate, type, QKV_NETWORK_TRANSFORMER);
    else if (model->encoder.rnn_type != QKV_CELL_LSTM && model->decoder.rnn_type != QKV_CELL_LSTM &&
             is_set(checking, gate, "model.encoder.rnn_type"))
        object(checking, gate, gate,
               "%s is %s, but neither model.encoder.rnn_type nor model.decoder.rnn_type is lstm", gate,
               value_of(checking, gate));
}

static void check_stack(const struct checking *checking, const struct qkv_stack_config *stack,
                        const char *section, const struct qkv_text_config *text, const char *side)
{
    struct path hidden = path_of(section, "hidden_size"), heads = path_of(section, "num_heads"),
                embedding = path_of(section, "embeddings.embedding_dim"),
                rows = path_of(section, "positions.max_length"), longest = path_of(side, "max_length");
    int64_t width = stack->embeddings.embedding_dim;
    check_kind(checking, stack->type, section);
    if (stack->type == QKV_NETWORK_RECURRENT) return;
    bool free_widths = stack->attention.key_width && stack->attention.value_width;
    relate(checking, free_widths || stack->hidden_size % stack->num_heads == 0, heads.text, "must divide",
           hidden.text);
    relate(checking, !width || width == stack->hidden_size, embedding.text, "must be 0 or", hidden.text);
    check_attention(checking, stack, section);
    check_positions(checking, stack->positions.type, section);
    /* One row more, for the token that marks the begin or the end. */
    if (stack->positions.type == QKV_POSITION_LEARNED)
        relate(checking, stack->positions.max_length > text->max_length, rows.text,
               "learned positions must exceed", longest.text);
}

/* Tables that are shared need one width; in a transformer all have that of the model. */
static void check_tied_widths(const struct checking *checking, const struct qkv_model_config *model)
{
    const struct qkv_stack_config *encoder = &model->encoder, *decoder = &model->decoder;
    int64_t source =
        encoder->embeddings.embedding_dim ? encoder->embeddings.embedding_dim : encoder->hidden_size;
    int64_t target =
        decoder->embeddings.embedding_dim ? decoder->embeddings.embedding_dim : decoder->hidden_size;
    need(checking, !model->tied_embeddings || source == target, "model.tied_embeddings",
         "model.decoder.embeddings.embedding_dim", " to be that of the encoder");
    need(checking, !model->tied_softmax || target == decoder->hidden_size, "model.tied_softmax",
         "model.decoder.embeddings.embedding_dim", " to be hidden_size");
}

/* What the parts of a recurrent network need of each other. */
static void check_recurrent(const struct checking *checking, const struct qkv_model_config *model)
{
    const struct qkv_stack_config *encoder = &model->encoder, *decoder = &model->decoder;
    enum qkv_attention_score score = decoder->attention.score;
    int64_t memory = encoder->hidden_size * (encoder->bidirectional ? 2 : 1);
    bool last = decoder->init_hidden == QKV_INIT_HIDDEN_LAST, none = score == QKV_ATTENTION_SCORE_NONE;
    bool alike = encoder->rnn_type == decoder->rnn_type && encoder->num_layers == decoder->num_layers &&
                 encoder->hidden_size == decoder->hidden_size;
    static const char *const hidden = "model.decoder.init_hidden", *const scored =
                                                                       "model.decoder.attention.score";
    if (encoder->bidirectional && encoder->reverse &&
        sound(checking, "model.encoder.reverse", "model.encoder.bidirectional"))
        object(checking, "model.encoder.reverse", "model.encoder.bidirectional",
               "model.encoder.reverse is true, but needs model.encoder.bidirectional to be false");
    if (last && !alike && sound(checking, hidden, "model.encoder.hidden_size"))
        object(
            checking, hidden, hidden,
            "%s is last, but needs rnn_type, num_layers and hidden_size of encoder and decoder to be alike",
            hidden);
    if (score == QKV_ATTENTION_SCORE_DOT && memory != decoder->hidden_size &&
        sound(checking, scored, "model.encoder.hidden_size"))
        object(checking, scored, scored,
               "%s is dot, but needs states of one width: those of the encoder are %lld wide%s, those of the "
               "decoder "
               "%lld",
               scored, (long long)memory, encoder->bidirectional ? ", both directions together" : "",
               (long long)decoder->hidden_size);
    if (none && decoder->init_hidden == QKV_INIT_HIDDEN_ZERO && !decoder->input_feeding &&
        sound(checking, hidden, scored))
        object(checking, hidden, scored,
               "%s is zero, but with %s none and without model.decoder.input_feeding nothing of the source "
               "would reach "
               "the decoder",
               hidden, scored);
    check_scored(checking, model);
    check_tied_widths(checking, model);
}

static void check_model(const struct checking *checking)
{
    const struct qkv_model_config *model = &checking->config->model;
    const struct qkv_data_config *data = &checking->config->data;
    bool recurrent = model->encoder.type == QKV_NETWORK_RECURRENT,
         mixed = model->encoder.type != model->decoder.type;
    relate(checking, !mixed, "model.decoder.type", "must equal", "model.encoder.type");
    if (recurrent && !mixed) check_recurrent(checking, model);
    if (!mixed) check_model_kind(checking, model);
    check_stack(checking, &model->encoder, "model.encoder", &data->src, "data.src");
    check_stack(checking, &model->decoder, "model.decoder", &data->trg, "data.trg");
    relate(checking, recurrent || model->encoder.hidden_size == model->decoder.hidden_size,
           "model.decoder.hidden_size", "must equal", "model.encoder.hidden_size");
    need(checking, !model->tied_embeddings || data->joint_vocabulary, "model.tied_embeddings",
         "data.joint_vocabulary", "");
    /* One vocabulary has one way to be made. */
    if (!data->joint_vocabulary) return;
    relate(checking, data->src.level == data->trg.level, "data.trg.level", "a joint vocabulary needs that of",
           "data.src.level");
    relate(checking, data->src.voc_limit == data->trg.voc_limit, "data.trg.voc_limit",
           "a joint vocabulary needs that of", "data.src.voc_limit");
    relate(checking, data->src.voc_min_freq == data->trg.voc_min_freq, "data.trg.voc_min_freq",
           "a joint vocabulary needs that of", "data.src.voc_min_freq");
}

static void check_training(const struct checking *checking)
{
    const struct qkv_training_config *training = &checking->config->training;
    enum qkv_schedule_kind kind = training->scheduling;
    bool warms_up = kind == QKV_SCHEDULE_NOAM || kind == QKV_SCHEDULE_INVERSE_SQRT;
    bool has_end = kind == QKV_SCHEDULE_LINEAR || kind == QKV_SCHEDULE_COSINE;
    bool ends = training->updates || training->epochs, has_dev = *checking->config->data.dev;
    if (!ends && sound(checking, "training.updates", "training.epochs"))
        object(checking, "training.updates", "training.epochs",
               "training.updates or training.epochs must be given, so that training ends");
    need(checking, !warms_up || training->learning_rate_warmup, "training.scheduling",
         "training.learning_rate_warmup", " above 0");
    need(checking, !has_end || training->updates || !ends, "training.scheduling", "training.updates",
         ", the length of the schedule");
    need(checking, kind != QKV_SCHEDULE_PLATEAU || has_dev, "training.scheduling", "data.dev", "");
    need(checking, !training->patience || has_dev, "training.patience", "data.dev", "");
    relate(checking, training->learning_rate_min <= training->learning_rate, "training.learning_rate_min",
           "must not exceed", "training.learning_rate");
}

void qkv_config_check(const struct qkv_config *config, const struct qkv_origin *origins,
                      struct qkv_collector *collector)
{
    struct checking checking = {config, origins, collector};
    check_name(&checking);
    check_model(&checking);
    check_training(&checking);
    relate(&checking, config->testing.n_best <= config->testing.beam_size, "testing.n_best",
           "must not exceed", "testing.beam_size");
}

static void normalise_stack(struct qkv_stack_config *stack)
{
    bool recurrent = stack->type == QKV_NETWORK_RECURRENT;
    int64_t width = stack->hidden_size / (recurrent ? 1 : stack->num_heads);
    if (!stack->attention.key_width) stack->attention.key_width = width;
    if (!stack->attention.value_width && !recurrent) stack->attention.value_width = width;
    if (!stack->attention.key_value_heads && !recurrent) stack->attention.key_value_heads = stack->num_heads;
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
