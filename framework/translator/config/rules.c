/* Rules between the keys of a config. Rules about a single key (its type, its range, the choice that it is used with) are in
 * its row of config_keys.def. */
#include "config/rules.h"

#include "config/config_keys.h"
#include "config/key_check.h"
#include "config/normalise.h"
#include "config/value.h"

#include <string.h>

struct check {
    const struct qkv_config *config;
    struct qkv_key_check keys;
};

static const struct qkv_key *key_at(const char *path)
{
    return qkv_key_at(&qkv_config_schema, path);
}

/* The value of a key as it is written in a config. */
static const char *value_of(const struct check *check, const char *path)
{
    const char *text = qkv_value_text(key_at(path), check->config, check->keys.collector->arena);
    return text ? text : "?";
}

/* Unless `holds`, reports "<path> is 3, but <must> <other> (64)", where `must` is a phrase such as "must divide". */
static void require_relation(const struct check *check, bool holds, const char *path, const char *must,
                             const char *other)
{
    if (holds) return;
    qkv_key_report(&check->keys, path, other, "%s is %s, but %s %s (%s)", path, value_of(check, path), must,
                   other, value_of(check, other));
}

/* Unless `holds`, reports "<path> is noam, but needs <other><how>". */
static void require(const struct check *check, bool holds, const char *path, const char *other,
                    const char *how)
{
    if (holds) return;
    qkv_key_report(&check->keys, path, other, "%s is %s, but needs %s%s", path, value_of(check, path), other,
                   how);
}

/* The path of a key in model.encoder, model.decoder, data.src or data.trg. */
struct path {
    char text[QKV_KEY_LONGEST];
};

static struct path path_of(const char *section, const char *key)
{
    struct path path;
    snprintf(path.text, sizeof path.text, "%s.%s", section, key);
    return path;
}

/* ---- keys without effect ---- */

/* True when the value of a key is its default, or the value that normalisation makes of the default. The config in a run
 * folder has a value for every key. Keys without effect have one of these values there, and must be accepted. */
static bool is_default(const struct check *check, const struct qkv_key *key)
{
    struct qkv_config changed = *check->config;
    struct qkv_arena *arena = check->keys.collector->arena;
    struct qkv_collector ignored = {.arena = arena};
    if (!qkv_value_read_text(key, key->fallback, (struct qkv_place){.name = key->path}, &changed, arena,
                             &ignored))
        return false;
    return qkv_value_equal(key, check->config, &changed) ||
           (qkv_config_normalise(&changed, arena) && qkv_value_equal(key, check->config, &changed));
}

/* Refuses keys that have no effect in this config, unless they have their default. */
static void check_effects(const struct check *check)
{
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        const struct qkv_key *unmet = qkv_key_without_effect(&qkv_config_schema, key, check->config);
        if (!unmet || is_default(check, key)) continue;
        char values[QKV_CHOICES_SIZE];
        qkv_key_report(
            &check->keys, key->path, unmet->used_by,
            "%s is %s, but has an effect only when %s is %s (it is %s)", key->path,
            value_of(check, key->path), unmet->used_by,
            qkv_choices_text(values, key_at(unmet->used_by)->choices, unmet->used_values, "", " or "),
            value_of(check, unmet->used_by));
    }
}

/* ---- the model ---- */

static void check_attention(const struct check *check, const struct qkv_stack_config *stack,
                            const char *section)
{
    struct path heads = path_of(section, "num_heads"), hidden = path_of(section, "hidden_size"),
                key_value_heads = path_of(section, "attention.key_value_heads"),
                window = path_of(section, "attention.window"),
                global_tokens = path_of(section, "attention.global_tokens");
    const struct qkv_attention_config *attention = &stack->attention;
    bool widths_given = attention->key_width && attention->value_width;
    require_relation(check, widths_given || stack->hidden_size % stack->num_heads == 0, heads.text,
                     "must divide", hidden.text);
    require_relation(
        check, !attention->rule.key_value_heads || stack->num_heads % attention->rule.key_value_heads == 0,
        key_value_heads.text, "must divide", heads.text);
    require(check, !attention->rule.global_tokens || attention->rule.window < QKV_WINDOW_NONE,
            global_tokens.text, window.text, ": without it every token is global");
}

static void check_positions(const struct check *check, const struct qkv_stack_config *stack,
                            const char *section, const struct qkv_text_config *text, const char *side)
{
    struct path type = path_of(section, "positions.type"), hidden = path_of(section, "hidden_size"),
                buckets = path_of(section, "positions.buckets"),
                distance = path_of(section, "positions.max_distance"),
                positions_longest = path_of(section, "positions.max_length"),
                text_longest = path_of(side, "max_length");
    const struct qkv_position_config *positions = &stack->positions;
    bool encoder = stack == &check->config->model.encoder;
    int64_t key_width =
        stack->attention.key_width ? stack->attention.key_width : stack->hidden_size / stack->num_heads;
    if (positions->type == QKV_POSITION_ROTARY && key_width % 2)
        qkv_key_report(&check->keys, type.text, hidden.text,
                       "%s is rotary, which rotates pairs of numbers, but the key width of a head is %lld",
                       type.text, (long long)key_width);
    /* data.*.max_length counts words only, positions.max_length also </s> (or <s>): so > and not >=. */
    if (positions->type == QKV_POSITION_LEARNED)
        require_relation(check, positions->max_length > text->max_length, positions_longest.text,
                         "learned positions must exceed", text_longest.text);
    if (positions->type != QKV_POSITION_RELATIVE) return;
    if (encoder && positions->buckets % 2)
        qkv_key_report(&check->keys, buckets.text, type.text,
                       "%s is %lld, but must be even: half of them are for each direction", buckets.text,
                       (long long)positions->buckets);
    require_relation(
        check, positions->max_distance > qkv_attention_single_buckets(positions->buckets, !encoder),
        distance.text, encoder ? "must exceed a quarter of" : "must exceed half of", buckets.text);
}

static void check_transformer_stack(const struct check *check, const struct qkv_stack_config *stack,
                                    const char *section, const struct qkv_text_config *text, const char *side)
{
    if (stack->type != QKV_NETWORK_TRANSFORMER) return;
    struct path hidden = path_of(section, "hidden_size"),
                embedding = path_of(section, "embeddings.embedding_dim"),
                inner_dropout = path_of(section, "activation_dropout");
    int64_t width = stack->embeddings.embedding_dim;
    double rate = stack->activation_dropout;
    if (rate < 0 && rate != QKV_SAME_AS_DROPOUT)
        qkv_key_report(&check->keys, inner_dropout.text, inner_dropout.text,
                       "%s is %s, but must be at least 0, or -1 for the value of %s.dropout",
                       inner_dropout.text, value_of(check, inner_dropout.text), section);
    check_attention(check, stack, section);
    check_positions(check, stack, section, text, side);
    require_relation(check, !width || width == stack->hidden_size, embedding.text, "must be 0 or",
                     hidden.text);
}

static int64_t embedding_width(const struct qkv_stack_config *stack)
{
    return stack->embeddings.embedding_dim ? stack->embeddings.embedding_dim : stack->hidden_size;
}

static void check_recurrent(const struct check *check, const struct qkv_model_config *model)
{
    static const char *const init = "model.decoder.init_hidden",
                             *const score = "model.decoder.attention.score",
                             *const reverse = "model.encoder.reverse",
                             *const bidirectional = "model.encoder.bidirectional",
                             *const embedding = "model.decoder.embeddings.embedding_dim",
                             *const hidden = "model.encoder.hidden_size";
    const struct qkv_stack_config *encoder = &model->encoder, *decoder = &model->decoder;
    int64_t memory_width = encoder->hidden_size * (encoder->bidirectional ? 2 : 1);
    bool same_cells = encoder->rnn_type == decoder->rnn_type && encoder->num_layers == decoder->num_layers &&
                      encoder->hidden_size == decoder->hidden_size;
    require(check, !encoder->reverse || !encoder->bidirectional, reverse, bidirectional, " to be false");
    if (decoder->init_hidden == QKV_INIT_HIDDEN_LAST && !same_cells)
        qkv_key_report(
            &check->keys, init, hidden,
            "%s is last, but needs encoder and decoder to agree in rnn_type, num_layers and hidden_size",
            init);
    if (decoder->attention.score == QKV_ATTENTION_SCORE_DOT && memory_width != decoder->hidden_size)
        qkv_key_report(
            &check->keys, score, hidden,
            "%s is dot, but needs states of the same width: the encoder has %lld%s, the decoder %lld", score,
            (long long)memory_width, encoder->bidirectional ? " (two directions)" : "",
            (long long)decoder->hidden_size);
    if (decoder->attention.score == QKV_ATTENTION_SCORE_NONE && !decoder->input_feeding &&
        decoder->init_hidden == QKV_INIT_HIDDEN_ZERO)
        qkv_key_report(
            &check->keys, init, score,
            "%s is zero, but with %s none and model.decoder.input_feeding false the decoder would know "
            "nothing of the source",
            init, score);
    require(check, !model->tied_embeddings || embedding_width(encoder) == embedding_width(decoder),
            "model.tied_embeddings", embedding, " to be that of the encoder");
    require(check, !model->tied_softmax || embedding_width(decoder) == decoder->hidden_size,
            "model.tied_softmax", embedding, " to be hidden_size");
    if (encoder->rnn_type != QKV_CELL_LSTM && decoder->rnn_type != QKV_CELL_LSTM &&
        !is_default(check, key_at("model.lstm_forget_gate")))
        qkv_key_report(&check->keys, "model.lstm_forget_gate", "model.encoder.rnn_type",
                       "model.lstm_forget_gate is %s, but has an effect only when model.encoder.rnn_type or "
                       "model.decoder.rnn_type is lstm",
                       value_of(check, "model.lstm_forget_gate"));
}

static void check_model(const struct check *check)
{
    const struct qkv_model_config *model = &check->config->model;
    const struct qkv_data_config *data = &check->config->data;
    bool recurrent = model->encoder.type == QKV_NETWORK_RECURRENT;
    bool same_type = model->encoder.type == model->decoder.type;
    require_relation(check, same_type, "model.decoder.type", "must equal", "model.encoder.type");
    if (recurrent && same_type) check_recurrent(check, model);
    check_transformer_stack(check, &model->encoder, "model.encoder", &data->src, "data.src");
    check_transformer_stack(check, &model->decoder, "model.decoder", &data->trg, "data.trg");
    if (model->decoder.type == QKV_NETWORK_TRANSFORMER &&
        model->decoder.attention.score != QKV_ATTENTION_SCORE_SCALED_DOT)
        qkv_key_report(&check->keys, "model.decoder.attention.score", "model.decoder.type",
                       "model.decoder.attention.score is %s, but a transformer has scaled_dot",
                       value_of(check, "model.decoder.attention.score"));
    require_relation(check, recurrent || model->encoder.hidden_size == model->decoder.hidden_size,
                     "model.decoder.hidden_size", "must equal", "model.encoder.hidden_size");
    require(check, !*model->settings || *model->network, "model.settings", "model.network", "");
    require(check, !model->tied_embeddings || data->joint_vocabulary, "model.tied_embeddings",
            "data.joint_vocabulary", "");
}

/* ---- data, training, testing ---- */

static void check_name(const struct check *check)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = check->config->name;
    if (*name != '.' && !name[strspn(name, allowed)]) return;
    qkv_key_report(
        &check->keys, "name", "name",
        "name is '%s', but must be made of letters, digits, '.', '_' and '-', and not start with '.'",
        qkv_printable(check->keys.collector->arena, name));
}

/* Level bpe needs merges: a number of merges to learn, or a file. */
static void check_merges(const struct check *check, const struct qkv_text_config *text, const char *side)
{
    struct path level = path_of(side, "level"), merges = path_of(side, "num_merges"),
                codes = path_of(side, "bpe_codes");
    if (text->level != QKV_LEVEL_BPE) return;
    if (!text->num_merges && !*text->bpe_codes)
        qkv_key_report(&check->keys, level.text, merges.text, "%s is bpe, but needs %s above 0 or %s",
                       level.text, merges.text, codes.text);
    if (text->num_merges && *text->bpe_codes)
        qkv_key_report(&check->keys, codes.text, merges.text,
                       "%s is %s and %s is %s, but merges are either learned or read: give one of them",
                       codes.text, value_of(check, codes.text), merges.text, value_of(check, merges.text));
    struct path frequency = path_of(side, "bpe_min_freq"), dropout = path_of(side, "bpe_dropout");
    if (text->bpe_min_freq > 0 && text->bpe_dropout > 0)
        qkv_key_report(&check->keys, frequency.text, frequency.text,
                       "%s is %s, but needs %s to be 0: BPE dropout makes pieces of any frequency",
                       frequency.text, value_of(check, frequency.text), dropout.text);
}

static void check_joint_vocabulary(const struct check *check)
{
    static const char *const must = "with a joint vocabulary must equal";
    const struct qkv_text_config *source = &check->config->data.src, *target = &check->config->data.trg;
    if (!check->config->data.joint_vocabulary) return;
    require_relation(check, source->level == target->level, "data.trg.level", must, "data.src.level");
    require_relation(check, source->num_merges == target->num_merges, "data.trg.num_merges", must,
                     "data.src.num_merges");
    require_relation(check, source->voc_limit == target->voc_limit, "data.trg.voc_limit", must,
                     "data.src.voc_limit");
    require_relation(check, source->voc_min_freq == target->voc_min_freq, "data.trg.voc_min_freq", must,
                     "data.src.voc_min_freq");
}

/* Reports keys that are not set although the value of a choice needs them. */
static void check_needs(const struct check *check)
{
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        const char *const *path = key->choices ? qkv_key_choice(key, check->config)->needs : NULL;
        for (; path && *path && **path; path++) {
            const struct qkv_key *needed = key_at(*path);
            const void *value = qkv_key_value(needed, check->config);
            if (needed->kind == QKV_KEY_TEXT)
                require(check, *qkv_key_text(needed, check->config), key->path, *path, "");
            else
                require(check, *(const int64_t *)value > 0, key->path, *path, " above 0");
        }
    }
}

/* Whether any kind of dropout is used in a stack. */
static bool drops_out(const struct qkv_stack_config *stack, bool is_decoder)
{
    bool transformer = stack->type == QKV_NETWORK_TRANSFORMER;
    bool attends = transformer || (is_decoder && stack->attention.score != QKV_ATTENTION_SCORE_NONE);
    return stack->dropout > 0 || stack->embeddings.dropout > 0 || stack->embeddings.word_dropout > 0 ||
           (transformer && stack->activation_dropout > 0) || (attends && stack->attention.rule.dropout > 0) ||
           (!transformer && is_decoder && stack->hidden_dropout > 0);
}

/* Guided alignment needs links, a head of cross attention, and the same tokens in each epoch. */
static void check_guided_alignment(const struct check *check)
{
    const struct qkv_config *config = check->config;
    const struct qkv_training_config *training = &config->training;
    const struct qkv_stack_config *decoder = &config->model.decoder;
    if (training->guided_alignment == 0) return;
    require(check, *config->data.train_links, "training.guided_alignment", "data.train_links", "");
    if (config->data.src.bpe_dropout > 0 || config->data.trg.bpe_dropout > 0)
        qkv_key_report(&check->keys, "training.guided_alignment", "data.src.bpe_dropout",
                       "training.guided_alignment needs the same pieces of words in each epoch: set "
                       "data.src.bpe_dropout and data.trg.bpe_dropout to 0");
    if (decoder->type != QKV_NETWORK_TRANSFORMER) {
        qkv_key_report(
            &check->keys, "training.guided_alignment", "model.decoder.type",
            "training.guided_alignment is %s, but needs model.decoder.type transformer: it guides a "
            "head of multi-head attention",
            value_of(check, "training.guided_alignment"));
        return;
    }
    require_relation(check, training->guided_alignment_layer <= decoder->num_layers,
                     "training.guided_alignment_layer", "must not exceed", "model.decoder.num_layers");
    require_relation(check, training->guided_alignment_head <= decoder->num_heads,
                     "training.guided_alignment_head", "must not exceed", "model.decoder.num_heads");
}

/* `ends`: training must have an end. */
static void check_training(const struct check *check, bool ends)
{
    const struct qkv_training_config *training = &check->config->training;
    bool has_dev = *check->config->data.dev, drops = drops_out(&check->config->model.encoder, false) ||
                                                     drops_out(&check->config->model.decoder, true);
    if (ends && !training->updates && !training->epochs)
        qkv_key_report(&check->keys, "training.updates", "training.epochs",
                       "training.updates or training.epochs must be given, so that training ends");
    check_needs(check);
    require(check, !training->patience || has_dev, "training.patience", "data.dev", "");
    if (training->snapshots == 1)
        qkv_key_report(&check->keys, "training.snapshots", "training.snapshots",
                       "training.snapshots is 1, but must be 0 or at least 2: the first and the last");
    require(check, training->r_drop == 0 || drops, "training.r_drop", "model.encoder.dropout",
            " above 0, or another dropout: without, both passes are equal");
    require(check, training->simcut == 0 || training->simcut_rate > 0 || drops, "training.simcut",
            "training.simcut_rate", " above 0, or some dropout: without, both passes are equal");
    if (training->r_drop > 0 && training->simcut > 0)
        qkv_key_report(&check->keys, "training.simcut", "training.r_drop",
                       "training.simcut and training.r_drop are both above 0, but a batch has one second "
                       "pass: set one of them to 0");
    check_guided_alignment(check);
    require_relation(check, training->learning_rate_min <= training->learning_rate,
                     "training.learning_rate_min", "must not exceed", "training.learning_rate");
}

void qkv_config_check_rules(const struct qkv_config *config, const struct qkv_key_source *sources,
                            enum qkv_rules rules, struct qkv_collector *collector)
{
    const struct check check = {config, {&qkv_config_schema, sources, collector}};
    if (rules == QKV_RULES_OF_MODEL) {
        check_model(&check);
        return;
    }
    check_name(&check);
    check_effects(&check);
    check_model(&check);
    check_merges(&check, &config->data.src, "data.src");
    check_merges(&check, &config->data.trg, "data.trg");
    check_joint_vocabulary(&check);
    check_training(&check, rules == QKV_RULES_OF_TRAINING);
    require(&check, !config->testing.average || *config->data.dev, "testing.average", "data.dev", "");
    require_relation(&check, config->testing.average <= config->training.keep_best_ckpts, "testing.average",
                     "must not exceed", "training.keep_best_ckpts");
    require_relation(&check, config->testing.n_best <= config->testing.beam_size, "testing.n_best",
                     "must not exceed", "testing.beam_size");
    require_relation(&check,
                     !config->testing.max_output_length ||
                         config->testing.min_output_length <= config->testing.max_output_length,
                     "testing.min_output_length", "must not exceed", "testing.max_output_length");
}
