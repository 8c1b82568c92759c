/* Reads a config, checks it and finishes it, in this order: values from files, the rules between keys, and the values that
 * follow from other keys. The config of a program takes the same way, but for the files. The checks of a single value are
 * in reader.c, those of its row in config_keys.def; config_to_engine.c fills the structs of the engine. */
#include "config/config_keys.h"
#include "config/path.h"
#include "core/memory.h"
#include "graph/attention_rule.h"

#include <stdarg.h>

/* ---- values that follow from others ---- */

static void derive_stack(struct qkv_stack_config *stack)
{
    bool recurrent = stack->type == QKV_NETWORK_RECURRENT;
    struct qkv_attention_config *attention = &stack->attention;
    int64_t width =
        recurrent || stack->num_heads < 1 ? stack->hidden_size : stack->hidden_size / stack->num_heads;
    if (!attention->key_width) attention->key_width = width;
    if (!stack->embeddings.embedding_dim) stack->embeddings.embedding_dim = stack->hidden_size;
    if (attention->dropout == QKV_SAME_AS_DROPOUT) attention->dropout = stack->dropout;
    if (recurrent) return; /* without the others, which stay 0, 0 and -1 */
    if (!attention->value_width) attention->value_width = width;
    if (!attention->key_value_heads) attention->key_value_heads = stack->num_heads;
    if (stack->activation_dropout == QKV_SAME_AS_DROPOUT) stack->activation_dropout = stack->dropout;
}

/* Replaces values that are given as 0, -1 or "", which mean: derive this from other keys. False when there is no memory. */
static bool derive(struct qkv_config *config, struct qkv_arena *arena)
{
    struct qkv_training_config *training = &config->training;
    if (config->model.decoder.type != QKV_NETWORK_DECODER_ONLY) derive_stack(&config->model.encoder);
    derive_stack(&config->model.decoder);
    if (!training->model_dir || !*training->model_dir)
        training->model_dir = qkv_arena_format(arena, "runs/%s", config->name ? config->name : "");
    return training->model_dir;
}

bool qkv_key_is_derivable(const struct qkv_key *key, const struct qkv_config *config, struct qkv_arena *arena)
{
    struct qkv_collector ignored = {.arena = arena};
    struct qkv_config changed = *config;
    if (!key->fallback) return !*qkv_key_text(key, config);
    return qkv_value_read_text(key, key->fallback, (struct qkv_place){.name = key->path}, &changed,
                               &ignored) &&
           (qkv_value_equal(key, config, &changed) ||
            (derive(&changed, arena) && qkv_value_equal(key, config, &changed)));
}

/* ---- keys without effect ---- */

/* The next key, from number *next on, that is not at its default although its condition fails; NULL: there is none. The
 * config in a run folder has a value for every key; keys without effect have their default there, and must be accepted. */
static const struct qkv_key *next_without_effect(const struct qkv_config *config,
                                                 enum qkv_without_effect otherwise, int *next,
                                                 struct qkv_condition *unmet, struct qkv_arena *arena)
{
    while (*next < qkv_config_schema.count) {
        const struct qkv_key *key = &qkv_config_schema.keys[(*next)++];
        *unmet = qkv_key_unmet(&qkv_config_schema, key, config, otherwise);
        if (unmet->key && !qkv_key_is_derivable(key, config, arena)) return key;
    }
    return NULL;
}

enum qkv_status qkv_config_each_unread(const struct qkv_config *config,
                                       void (*each)(void *context, const char *sentence), void *context)
{
    struct qkv_arena arena = {0};
    struct qkv_condition unmet;
    const char *sentence = "";
    int next = 0;
    for (const struct qkv_key *key;
         sentence && (key = next_without_effect(config, QKV_WITHOUT_EFFECT_NOTED, &next, &unmet, &arena));) {
        sentence = qkv_key_without_effect(&qkv_config_schema, key, unmet, config, &arena);
        if (sentence) each(context, sentence);
    }
    qkv_arena_release(&arena);
    return sentence ? QKV_OK : QKV_INVALID;
}

/* Refuses the keys without effect that the config sets. */
static void check_effects(const struct qkv_config *config, const struct qkv_key_check *check)
{
    struct qkv_arena *arena = check->collector->arena;
    struct qkv_condition unmet;
    int next = 0;
    for (const struct qkv_key *key;
         (key = next_without_effect(config, QKV_WITHOUT_EFFECT_REFUSED, &next, &unmet, arena));)
        qkv_key_report(check, key->path, unmet.key, "%s",
                       qkv_kept(qkv_key_without_effect(check->schema, key, unmet, config, arena)));
}

/* ---- rules between keys: helpers ---- */

/* The set of rules that a config must follow; each set includes the previous one. */
enum rules {
    RULES_OF_MODEL,    /* between the keys of the model; the rest of the config need not be set */
    RULES_OF_CONFIG,   /* between all keys */
    RULES_OF_TRAINING, /* and training must have an end */
};

struct check {
    const struct qkv_config *config;
    struct qkv_key_check keys;
    const char *section; /* of the paths that begin with a dot: "model.encoder" */
};

/* The path of a key, which may be written without the section: ".num_heads". */
static const char *full(const struct check *check, const char *path)
{
    return *path == '.' ? QKV_KEPT(check->keys.collector, "%s%s", check->section, path) : path;
}

/* The value of a key as it is written in a config. */
static const char *value_of(const struct check *check, const char *path)
{
    const struct qkv_key *key = qkv_schema_find(&qkv_config_schema, full(check, path));
    const char *text = key ? qkv_value_text(key, check->config, check->keys.collector->arena) : NULL;
    return text ? text : "?";
}

/* Unless `holds`, reports "<path> is noam, but <sentence>" at the place of `path`, or else of `other`. */
QKV_PRINTF(5, 6)
static void require(const struct check *check, bool holds, const char *path, const char *other,
                    const char *format, ...)
{
    struct qkv_error but;
    va_list arguments;
    if (holds || check->keys.collector->arena->failed) return;
    va_start(arguments, format);
    vsnprintf(but.message, sizeof but.message, format, arguments);
    va_end(arguments);
    qkv_key_report(&check->keys, full(check, path), full(check, other), "%s is %s, but %s", full(check, path),
                   value_of(check, path), but.message);
}

/* Unless `holds`, reports "<path> is 3, but <must> <other> (64)", where `must` is a phrase such as "must divide". */
static void relate(const struct check *check, bool holds, const char *path, const char *must,
                   const char *other)
{
    if (!holds)
        require(check, false, path, other, "%s %s (%s)", must, full(check, other), value_of(check, other));
}

/* Unless `holds`, reports "<path> is noam, but needs <other><how>". */
static void need(const struct check *check, bool holds, const char *path, const char *other, const char *how)
{
    if (!holds) require(check, false, path, other, "needs %s%s", full(check, other), how);
}

/* ---- the model ---- */

static void check_attention(const struct check *check, const struct qkv_stack_config *stack)
{
    const struct qkv_attention_config *attention = &stack->attention;
    bool widths_given = attention->key_width && attention->value_width;
    relate(check, widths_given || stack->hidden_size % stack->num_heads == 0, ".num_heads", "must divide",
           ".hidden_size");
    relate(check, !attention->key_value_heads || stack->num_heads % attention->key_value_heads == 0,
           ".attention.key_value_heads", "must divide", ".num_heads");
    need(check, !attention->global_tokens || attention->window, ".attention.global_tokens",
         ".attention.window", ": without it every token is global");
}

static void check_positions(const struct check *check, const struct qkv_stack_config *stack)
{
    const struct qkv_position_config *positions = &stack->positions;
    const struct qkv_data_config *data = &check->config->data;
    bool encoder = stack == &check->config->model.encoder,
         relative = positions->type == QKV_POSITION_RELATIVE;
    int64_t key_width =
        stack->attention.key_width ? stack->attention.key_width : stack->hidden_size / stack->num_heads;
    if (positions->type == QKV_POSITION_ROTARY && key_width % 2)
        qkv_key_report(&check->keys, full(check, ".positions.type"), full(check, ".hidden_size"),
                       "%s is rotary, which rotates pairs of numbers, but the key width of a head is %lld",
                       full(check, ".positions.type"), (long long)key_width);
    /* data.*.max_length counts words only, positions.max_length also </s> (or <s>): so > and not >=. */
    relate(check,
           positions->type != QKV_POSITION_LEARNED || qkv_sides_of(data, NULL).runs_on ||
               positions->max_length > (encoder ? &data->src : &data->trg)->max_length,
           ".positions.max_length", "learned positions must exceed",
           encoder ? "data.src.max_length" : "data.trg.max_length");
    require(check, !relative || !encoder || positions->buckets % 2 == 0, ".positions.buckets",
            ".positions.type", "must be even: half of them are for each direction");
    relate(check,
           !relative || positions->max_distance > qkv_attention_single_buckets(positions->buckets, !encoder),
           ".positions.max_distance", encoder ? "must exceed a quarter of" : "must exceed half of",
           ".positions.buckets");
}

/* Refuses a dropout probability below 0 that is not -1. */
static void check_dropout(const struct check *check, double rate, const char *name)
{
    require(check, rate >= 0 || rate == QKV_SAME_AS_DROPOUT, name, name,
            "must be at least 0, or -1 for the value of %s.dropout", check->section);
}

static void check_transformer_stack(struct check check, const struct qkv_stack_config *stack,
                                    const char *section)
{
    int64_t width = stack->embeddings.embedding_dim;
    bool is_encoder = stack == &check.config->model.encoder;
    if (stack->type == QKV_NETWORK_RECURRENT || (stack->type == QKV_NETWORK_DECODER_ONLY && is_encoder))
        return;
    check.section = section;
    check_dropout(&check, stack->activation_dropout, ".activation_dropout");
    check_dropout(&check, stack->attention.dropout, ".attention.dropout");
    check_attention(&check, stack);
    check_positions(&check, stack);
    need(&check, !stack->ff_gated || stack->ff_size, ".ff_gated", ".ff_size", " above 0");
    relate(&check, !width || width == stack->hidden_size, ".embeddings.embedding_dim", "must be 0 or",
           ".hidden_size");
}

static int64_t embedding_width(const struct qkv_stack_config *stack)
{
    return stack->embeddings.embedding_dim ? stack->embeddings.embedding_dim : stack->hidden_size;
}

static void check_recurrent(const struct check *check, const struct qkv_model_config *model)
{
    const struct qkv_stack_config *encoder = &model->encoder, *decoder = &model->decoder;
    enum qkv_attention_score score = decoder->attention.score;
    const struct qkv_key *gate = qkv_key_at(&qkv_config_schema, "model.lstm_forget_gate");
    int64_t memory_width = encoder->hidden_size * (encoder->bidirectional ? 2 : 1);
    bool same_cells = encoder->rnn_type == decoder->rnn_type && encoder->num_layers == decoder->num_layers &&
                      encoder->hidden_size == decoder->hidden_size;
    bool has_gate = encoder->rnn_type == QKV_CELL_LSTM || decoder->rnn_type == QKV_CELL_LSTM;
    need(check, !encoder->reverse || !encoder->bidirectional, ".encoder.reverse", ".encoder.bidirectional",
         " to be false");
    require(check, decoder->init_hidden != QKV_INIT_HIDDEN_LAST || same_cells, ".decoder.init_hidden",
            ".encoder.hidden_size",
            "needs encoder and decoder to agree in rnn_type, num_layers and hidden_size");
    require(check, score != QKV_ATTENTION_SCORE_DOT || memory_width == decoder->hidden_size,
            ".decoder.attention.score", ".encoder.hidden_size",
            "needs states of the same width: the encoder has %lld%s, the decoder %lld",
            (long long)memory_width, encoder->bidirectional ? " (two directions)" : "",
            (long long)decoder->hidden_size);
    require(check,
            score != QKV_ATTENTION_SCORE_NONE || decoder->input_feeding ||
                decoder->init_hidden != QKV_INIT_HIDDEN_ZERO,
            ".decoder.init_hidden", ".decoder.attention.score",
            "with model.decoder.attention.score none and model.decoder.input_feeding false the decoder would "
            "know "
            "nothing of the source");
    need(check, !model->tied_embeddings || embedding_width(encoder) == embedding_width(decoder),
         ".tied_embeddings", ".decoder.embeddings.embedding_dim", " to be that of the encoder");
    need(check, !model->tied_softmax || embedding_width(decoder) == decoder->hidden_size, ".tied_softmax",
         ".decoder.embeddings.embedding_dim", " to be hidden_size");
    require(check, has_gate || qkv_key_is_derivable(gate, check->config, check->keys.collector->arena),
            ".lstm_forget_gate", ".encoder.rnn_type",
            "has an effect only when model.encoder.rnn_type or model.decoder.rnn_type is lstm");
}

static void check_model(struct check check)
{
    const struct qkv_model_config *model = &check.config->model;
    bool recurrent = model->encoder.type == QKV_NETWORK_RECURRENT,
         has_encoder = qkv_sides_of(&check.config->data, model).has_encoder;
    bool same_type = model->encoder.type == model->decoder.type;
    check.section = "model";
    relate(&check, same_type, ".decoder.type", "must equal", ".encoder.type");
    if (recurrent && same_type) check_recurrent(&check, model);
    check_transformer_stack(check, &model->encoder, "model.encoder");
    check_transformer_stack(check, &model->decoder, "model.decoder");
    require(&check,
            model->decoder.type == QKV_NETWORK_RECURRENT ||
                model->decoder.attention.score == QKV_ATTENTION_SCORE_SCALED_DOT,
            ".decoder.attention.score", ".decoder.type", "a transformer has scaled_dot");
    relate(&check, recurrent || !has_encoder || model->encoder.hidden_size == model->decoder.hidden_size,
           ".decoder.hidden_size", "must equal", ".encoder.hidden_size");
    const struct qkv_position_config *positions = &model->decoder.positions;
    need(&check, model->decoder.prefix == QKV_PREFIX_CAUSAL || positions->type != QKV_POSITION_RELATIVE,
         ".decoder.prefix", ".decoder.positions.type",
         " other than relative: relative positions of a decoder are distances to the words before");
    need(&check, !positions->restart || !has_encoder, ".decoder.positions.restart", ".decoder.type",
         " decoder_only: other networks have positions of their own for each side");
    need(&check, !*model->settings || *model->network, ".settings", ".network", "");
    need(&check, !model->tied_embeddings || check.config->data.joint_vocabulary, ".tied_embeddings",
         "data.joint_vocabulary", "");
}

/* ---- data, training, testing ---- */

/* A text without pairs is for a language model. */
static void check_text(struct check check)
{
    const struct qkv_config *config = check.config;
    const enum qkv_metric metric = config->training.early_stopping_metric;
    const struct qkv_sides sides = qkv_sides_of(&config->data, &config->model);
    check.section = "data";
    if (sides.has_source) return;
    need(&check, !sides.has_encoder, ".text", "model.decoder.type",
         " decoder_only: there is no source to encode");
    need(&check, config->data.dev_share == 0 || !*config->data.dev, ".dev_share", ".dev", " to be empty");
    need(&check, !sides.runs_on || config->data.trg.bpe_dropout <= 0, ".text", ".trg.bpe_dropout",
         " to be 0");
    relate(&check, !sides.runs_on || config->data.context <= qkv_max_length(&config->model, true), ".context",
           "must not exceed", "model.decoder.positions.max_length");
    require(&check, metric <= QKV_METRIC_TOKEN_ACCURACY, "training.early_stopping_metric", ".text",
            "a language model has only loss, ppl and token_accuracy");
}

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
static void check_merges(struct check check, const struct qkv_text_config *text, const char *side)
{
    if (text->level != QKV_LEVEL_BPE) return;
    check.section = side;
    require(&check, text->num_merges || *text->bpe_codes, ".level", ".num_merges",
            "needs %s.num_merges above 0 or %s.bpe_codes", side, side);
    if (text->num_merges && *text->bpe_codes)
        qkv_key_report(&check.keys, full(&check, ".bpe_codes"), full(&check, ".num_merges"),
                       "%s.bpe_codes is %s and %s.num_merges is %s, but merges are either learned or read: "
                       "give one of them",
                       side, value_of(&check, ".bpe_codes"), side, value_of(&check, ".num_merges"));
    require(&check, text->bpe_min_freq <= 0 || text->bpe_dropout <= 0, ".bpe_min_freq", ".bpe_min_freq",
            "needs %s.bpe_dropout to be 0: BPE dropout makes pieces of any frequency", side);
}

static void check_joint_vocabulary(struct check check)
{
    static const char *const must = "with a joint vocabulary must equal";
    const struct qkv_text_config *source = &check.config->data.src, *target = &check.config->data.trg;
    if (!check.config->data.joint_vocabulary) return;
    check.section = "data";
    relate(&check, source->level == target->level, ".trg.level", must, ".src.level");
    relate(&check, source->num_merges == target->num_merges, ".trg.num_merges", must, ".src.num_merges");
    relate(&check, source->voc_limit == target->voc_limit, ".trg.voc_limit", must, ".src.voc_limit");
    relate(&check, source->voc_min_freq == target->voc_min_freq, ".trg.voc_min_freq", must,
           ".src.voc_min_freq");
}

/* Reports keys that are not set although the value of a choice needs them. */
static void check_needs(const struct check *check)
{
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        const char *const *path = key->choices ? qkv_key_choice(key, check->config)->needs : NULL;
        for (; path && *path && **path; path++) {
            const struct qkv_key *needed = qkv_key_at(&qkv_config_schema, *path);
            bool is_share = needed->kind == QKV_KEY_TEXT && check->config->data.dev_share > 0 &&
                            !strcmp(*path, "data.dev");
            if (needed->kind == QKV_KEY_TEXT)
                need(check, is_share || *qkv_key_text(needed, check->config), key->path, *path, "");
            else
                need(check, *(const int64_t *)qkv_key_value(needed, check->config) > 0, key->path, *path,
                     " above 0");
        }
    }
}

/* Whether any kind of dropout is used in a stack. */
static bool drops_out(const struct qkv_stack_config *stack, bool is_decoder)
{
    bool transformer = stack->type != QKV_NETWORK_RECURRENT;
    bool attends = transformer || (is_decoder && stack->attention.score != QKV_ATTENTION_SCORE_NONE);
    return stack->dropout > 0 || stack->embeddings.dropout > 0 || stack->embeddings.word_dropout > 0 ||
           (transformer && stack->activation_dropout > 0) || (attends && stack->attention.dropout > 0) ||
           (!transformer && is_decoder && stack->hidden_dropout > 0);
}

/* Guided alignment needs links, a head of cross attention, and the same tokens in each epoch. */
static void check_guided_alignment(const struct check *check)
{
    const struct qkv_config *config = check->config;
    const struct qkv_training_config *training = &config->training;
    const struct qkv_stack_config *decoder = &config->model.decoder;
    bool transformer = decoder->type != QKV_NETWORK_RECURRENT;
    if (training->guided_alignment == 0) return;
    need(check, *config->data.train_links, ".guided_alignment", "data.train_links", "");
    if (config->data.src.bpe_dropout > 0 || config->data.trg.bpe_dropout > 0)
        qkv_key_report(&check->keys, "training.guided_alignment", "data.src.bpe_dropout",
                       "training.guided_alignment needs the same pieces of words in each epoch: set "
                       "data.src.bpe_dropout and data.trg.bpe_dropout to 0");
    need(check, transformer, ".guided_alignment", "model.decoder.type",
         " transformer: it guides a head of multi-head attention");
    relate(check, !transformer || training->guided_alignment_layer <= decoder->num_layers,
           ".guided_alignment_layer", "must not exceed", "model.decoder.num_layers");
    relate(check, !transformer || training->guided_alignment_head <= decoder->num_heads,
           ".guided_alignment_head", "must not exceed", "model.decoder.num_heads");
}

/* `ends`: training must have an end. */
static void check_training(struct check check, bool ends)
{
    const struct qkv_training_config *training = &check.config->training;
    const struct qkv_model_config *model = &check.config->model;
    bool has_encoder = qkv_sides_of(&check.config->data, model).has_encoder;
    bool drops = (has_encoder && drops_out(&model->encoder, false)) || drops_out(&model->decoder, true);
    check.section = "training";
    if (ends && !training->updates && !training->epochs)
        qkv_key_report(&check.keys, "training.updates", "training.epochs",
                       "training.updates or training.epochs must be given, so that training ends");
    check_needs(&check);
    bool has_dev = *check.config->data.dev || check.config->data.dev_share > 0;
    need(&check, !training->patience || has_dev, ".patience", "data.dev", "");
    require(&check, training->snapshots != 1, ".snapshots", ".snapshots",
            "must be 0 or at least 2: the first and the last");
    need(&check, training->r_drop == 0 || drops, ".r_drop", "model.encoder.dropout",
         " above 0, or another dropout: without, both passes are equal");
    need(&check, training->simcut == 0 || training->simcut_rate > 0 || drops, ".simcut", ".simcut_rate",
         " above 0, or some dropout: without, both passes are equal");
    if (training->r_drop > 0 && training->simcut > 0)
        qkv_key_report(&check.keys, "training.simcut", "training.r_drop",
                       "training.simcut and training.r_drop are both above 0, but a batch has one second "
                       "pass: set one of them to 0");
    check_guided_alignment(&check);
    relate(&check, training->learning_rate_min <= training->learning_rate, ".learning_rate_min",
           "must not exceed", ".learning_rate");
}

static void check_testing(struct check check)
{
    const struct qkv_testing_config *testing = &check.config->testing;
    int64_t longest = testing->max_output_length;
    check.section = "testing";
    bool has_dev = *check.config->data.dev || check.config->data.dev_share > 0;
    need(&check, !testing->average || has_dev, ".average", "data.dev", "");
    relate(&check, testing->average <= check.config->training.keep_best_ckpts, ".average", "must not exceed",
           "training.keep_best_ckpts");
    relate(&check, testing->n_best <= testing->beam_size, ".n_best", "must not exceed", ".beam_size");
    relate(&check, !longest || testing->min_output_length <= longest, ".min_output_length", "must not exceed",
           ".max_output_length");
}

/* Collects an error for each rule that the config breaks; if it breaks none, derives the values that follow from others. */
static void complete(struct qkv_config *config, const struct qkv_key_source *sources, enum rules rules,
                     struct qkv_collector *collector)
{
    struct check check = {config, {&qkv_config_schema, sources, collector}, ""};
    if (config->model.decoder.type == QKV_NETWORK_DECODER_ONLY)
        config->model.encoder.type = QKV_NETWORK_DECODER_ONLY; /* no network has it only in one */
    if (rules != RULES_OF_MODEL) {
        check_name(&check);
        check_effects(config, &check.keys);
    }
    check_model(check);
    if (rules != RULES_OF_MODEL) {
        check_merges(check, &config->data.src, "data.src");
        check_merges(check, &config->data.trg, "data.trg");
        check_joint_vocabulary(check);
        check_text(check);
        check_training(check, rules == RULES_OF_TRAINING);
        check_testing(check);
    }
    if (!qkv_collector_failed(collector)) derive(config, collector->arena);
}

/* ---- the config of a file ---- */

enum qkv_status qkv_config_read(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                const char *const *overrides, int override_count,
                                struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_reading reading = {.schema = &qkv_config_schema,
                                  .config = config,
                                  .path = path,
                                  .overrides = overrides,
                                  .override_count = override_count,
                                  .extends = true,
                                  .collector = &collector};
    qkv_schema_read(&reading);
    if (reading.complete) {
        /* The config of a run names the folder where it was trained, but the run may have been moved since. */
        const struct qkv_key_check check = {&qkv_config_schema, reading.sources, &collector};
        const char *run = qkv_path_run_folder(arena, path);
        if (run && qkv_key_source_of(&check, "training.model_dir")->place.line)
            config->training.model_dir = run;
        complete(config, reading.sources, RULES_OF_TRAINING, &collector);
    }
    return qkv_collector_finish(&collector, path, messages);
}

/* ---- the config of a program ---- */

static const struct qkv_place PROGRAM = {.name = "config"};

/* Among the keys whose path begins with `prefix`, checks either the choices or all other keys. In the config of a model alone,
 * a key that has no effect may have any value. */
static bool check_values(const struct qkv_config *config, const char *prefix, bool choices, enum rules rules,
                         struct qkv_collector *collector)
{
    bool good = true;
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if ((key->kind == QKV_KEY_CHOICE) != choices || strncmp(key->path, prefix, strlen(prefix)) != 0)
            continue;
        bool has_effect =
            choices || !qkv_key_unmet(&qkv_config_schema, key, config, QKV_WITHOUT_EFFECT_REFUSED).key;
        if (!has_effect && rules == RULES_OF_MODEL) continue;
        good &= qkv_value_check(key, config, PROGRAM, has_effect && rules == RULES_OF_TRAINING, collector);
    }
    return good;
}

/* Replaces NULL by "" in the texts that a program may leave out, checks the keys whose path begins with `prefix`, choices
 * first, because they decide which keys have an effect, and completes the config. */
static enum qkv_status finish(struct qkv_config *config, const char *prefix, enum rules rules,
                              struct qkv_arena *arena, struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_key_source *sources = qkv_arena_zeros(arena, qkv_config_schema.count, sizeof *sources);
    if (!config->model.network) config->model.network = "";
    if (!config->model.settings) config->model.settings = "";
    if (!config->training.parameter_rates) config->training.parameter_rates = "";
    for (int i = 0; sources && i < qkv_config_schema.count; i++) sources[i].place = PROGRAM;
    if (sources && check_values(config, prefix, true, rules, &collector) &&
        check_values(config, prefix, false, rules, &collector))
        complete(config, sources, rules, &collector);
    return qkv_collector_finish(&collector, PROGRAM.name, messages);
}

enum qkv_status qkv_config_default(struct qkv_config *config, struct qkv_arena *arena, const char *name)
{
    if (!qkv_schema_defaults(&qkv_config_schema, config, arena)) return QKV_INVALID;
    config->name = name;
    return QKV_OK;
}

enum qkv_status qkv_config_finish(struct qkv_config *config, struct qkv_arena *arena,
                                  struct qkv_messages *messages)
{
    return finish(config, "", RULES_OF_CONFIG, arena, messages);
}

enum qkv_status qkv_config_finish_training(struct qkv_config *config, struct qkv_arena *arena,
                                           struct qkv_messages *messages)
{
    return finish(config, "", RULES_OF_TRAINING, arena, messages);
}

enum qkv_status qkv_model_config_finish(struct qkv_model_config *model, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_messages messages;
    /* A config with nothing but the model: its vocabularies and sentences are up to the caller. */
    struct qkv_config config = {.model = *model, .data.joint_vocabulary = true};
    enum qkv_status status = finish(&config, "model.", RULES_OF_MODEL, &arena, &messages);
    if (status)
        qkv_error_set(error, "%s", messages.text[0]);
    else
        *model = config.model;
    qkv_arena_release(&arena);
    return status;
}
