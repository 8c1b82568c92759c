#include "config/choices.h"

#include <stddef.h>

#define COUNT(names) ((int)(sizeof(names) / sizeof(names)[0]))

/* CHOICES(prefix, count, names...): the choices of one enum and the public function that names its values. */
#define CHOICES(prefix, chosen, ...)                                                                         \
    static const char *const prefix##_names[] = {__VA_ARGS__};                                               \
    const struct qkv_choices prefix##_choices = {prefix##_names, chosen};                                    \
    const char *prefix##_name(enum prefix value)                                                             \
    {                                                                                                        \
        return (int)value >= 0 && (int)value < COUNT(prefix##_names) ? prefix##_names[value] : "unknown";    \
    }

CHOICES(qkv_level, COUNT(qkv_level_names), [QKV_LEVEL_WORD] = "word", [QKV_LEVEL_CHAR] = "char")

CHOICES(qkv_network, COUNT(qkv_network_names), [QKV_NETWORK_TRANSFORMER] = "transformer",
        [QKV_NETWORK_RECURRENT] = "recurrent")

CHOICES(qkv_norm_place, COUNT(qkv_norm_place_names), [QKV_NORM_PRE] = "pre", [QKV_NORM_POST] = "post")

CHOICES(qkv_norm_kind, COUNT(qkv_norm_kind_names), [QKV_NORM_LAYER] = "layer", [QKV_NORM_RMS] = "rms")

CHOICES(qkv_position_kind, COUNT(qkv_position_kind_names), [QKV_POSITION_SINUSOIDAL] = "sinusoidal",
        [QKV_POSITION_LEARNED] = "learned", [QKV_POSITION_ROTARY] = "rotary", [QKV_POSITION_ALIBI] = "alibi",
        [QKV_POSITION_RELATIVE] = "relative", [QKV_POSITION_NONE] = "none")

CHOICES(qkv_attention_kernel, COUNT(qkv_attention_kernel_names), [QKV_KERNEL_AUTO] = "auto",
        [QKV_KERNEL_EXACT] = "exact", [QKV_KERNEL_FLASH] = "flash")

CHOICES(qkv_activation,
        COUNT(qkv_activation_names), [QKV_ACTIVATION_NONE] = "none", [QKV_ACTIVATION_RELU] = "relu",
        [QKV_ACTIVATION_GELU] = "gelu", [QKV_ACTIVATION_GELU_TANH] = "gelu_tanh",
        [QKV_ACTIVATION_SILU] = "silu", [QKV_ACTIVATION_TANH] = "tanh", [QKV_ACTIVATION_SIGMOID] = "sigmoid")

CHOICES(qkv_init_hidden, COUNT(qkv_init_hidden_names), [QKV_INIT_HIDDEN_BRIDGE] = "bridge",
        [QKV_INIT_HIDDEN_LAST] = "last", [QKV_INIT_HIDDEN_ZERO] = "zero")

CHOICES(qkv_cell,
        COUNT(qkv_cell_names), [QKV_CELL_TANH] = "tanh", [QKV_CELL_GRU] = "gru", [QKV_CELL_LSTM] = "lstm")

CHOICES(qkv_attention_score,
        COUNT(qkv_attention_score_names), [QKV_ATTENTION_SCORE_SCALED_DOT] = "scaled_dot",
        [QKV_ATTENTION_SCORE_NONE] = "none", [QKV_ATTENTION_SCORE_ADDITIVE] = "additive",
        [QKV_ATTENTION_SCORE_DOT] = "dot", [QKV_ATTENTION_SCORE_GENERAL] = "general",
        [QKV_ATTENTION_SCORE_CONCAT] = "concat", [QKV_ATTENTION_SCORE_LOCAL_P] = "local_p")

CHOICES(
    qkv_initializer, QKV_INITIALIZER_ONES, [QKV_INITIALIZER_XAVIER_UNIFORM] = "xavier_uniform",
    [QKV_INITIALIZER_XAVIER_NORMAL] = "xavier_normal", [QKV_INITIALIZER_UNIFORM] = "uniform",
    [QKV_INITIALIZER_NORMAL] = "normal", [QKV_INITIALIZER_ZEROS] = "zeros", [QKV_INITIALIZER_ONES] = "ones",
    [QKV_INITIALIZER_ORTHOGONAL] = "orthogonal", [QKV_INITIALIZER_FORGET] = "forget")

CHOICES(qkv_optimizer_kind, COUNT(qkv_optimizer_kind_names), [QKV_OPTIMIZER_ADAM] = "adam",
        [QKV_OPTIMIZER_ADAMW] = "adamw", [QKV_OPTIMIZER_SGD] = "sgd")

CHOICES(qkv_schedule_kind, COUNT(qkv_schedule_kind_names), [QKV_SCHEDULE_CONSTANT] = "constant",
        [QKV_SCHEDULE_NOAM] = "noam", [QKV_SCHEDULE_INVERSE_SQRT] = "inverse_sqrt",
        [QKV_SCHEDULE_LINEAR] = "linear", [QKV_SCHEDULE_COSINE] = "cosine",
        [QKV_SCHEDULE_EXPONENTIAL] = "exponential", [QKV_SCHEDULE_PLATEAU] = "plateau")

CHOICES(qkv_batch_type,
        COUNT(qkv_batch_type_names), [QKV_BATCH_SENTENCE] = "sentence", [QKV_BATCH_TOKEN] = "token")

CHOICES(qkv_metric, COUNT(qkv_metric_names), [QKV_METRIC_LOSS] = "loss", [QKV_METRIC_PERPLEXITY] = "ppl",
        [QKV_METRIC_TOKEN_ACCURACY] = "token_accuracy", [QKV_METRIC_SEQUENCE_ACCURACY] = "sequence_accuracy",
        [QKV_METRIC_BLEU] = "bleu", [QKV_METRIC_CHRF] = "chrf")

/* ---- scenes; their values are not named outside ---- */

#define SCENE_CHOICES(prefix, ...)                                                                           \
    static const char *const prefix##_names[] = {__VA_ARGS__};                                               \
    const struct qkv_choices prefix##_choices = {prefix##_names, COUNT(prefix##_names)};

SCENE_CHOICES(qkv_generator, [QKV_GENERATOR_QKV] = "qkv", [QKV_GENERATOR_NUMPY] = "numpy")
SCENE_CHOICES(qkv_draw, [QKV_SAMPLE_NORMAL] = "normal", [QKV_SAMPLE_UNIFORM] = "uniform",
              [QKV_SAMPLE_INTEGERS] = "integers", [QKV_SAMPLE_XAVIER] = "xavier")
SCENE_CHOICES(qkv_vectors_from, [QKV_VECTORS_GIVEN] = "given", [QKV_VECTORS_RANDOM] = "random",
              [QKV_VECTORS_LEARNED] = "learned", [QKV_VECTORS_LETTERS] = "letters",
              [QKV_VECTORS_PROJECTED] = "projected")
SCENE_CHOICES(qkv_weights_from, [QKV_WEIGHTS_RANDOM] = "random", [QKV_WEIGHTS_GIVEN] = "given",
              [QKV_WEIGHTS_LEARNED] = "learned", [QKV_WEIGHTS_NONE] = "none")
SCENE_CHOICES(qkv_bias, [QKV_BIAS_NONE] = "none", [QKV_BIAS_ZEROS] = "zeros", [QKV_BIAS_RANDOM] = "random")
SCENE_CHOICES(
    qkv_score, [QKV_SCORE_SCALED_DOT] = "scaled_dot", [QKV_SCORE_DOT] = "dot",
    [QKV_SCORE_GENERAL] = "general", [QKV_SCORE_ADDITIVE] = "additive", [QKV_SCORE_LENGTH] = "length")
SCENE_CHOICES(qkv_scene_mask, [QKV_MASK_NONE] = "none", [QKV_MASK_CAUSAL] = "causal",
              [QKV_MASK_PADDING] = "padding", [QKV_MASK_BOOLEAN] = "boolean", [QKV_MASK_ADDED] = "added")
SCENE_CHOICES(qkv_attention_kind, [QKV_ATTENTION_ENCODER] = "encoder", [QKV_ATTENTION_DECODER] = "decoder",
              [QKV_ATTENTION_CROSS] = "cross")
