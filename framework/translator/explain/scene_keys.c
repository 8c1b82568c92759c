#include "explain/scene_keys.h"

#include "config/choices.h"

#define SCENE_CHOICES(type, ...)                                                                             \
    static const struct qkv_choice type##_list[] = {__VA_ARGS__};                                            \
    static const struct qkv_choices type##_choices = {type##_list, sizeof type##_list / sizeof *type##_list};

SCENE_CHOICES(qkv_generator, [QKV_GENERATOR_QKV] = {"qkv", ""}, [QKV_GENERATOR_NUMPY] = {"numpy", ""})
SCENE_CHOICES(qkv_distribution, [QKV_SAMPLE_NORMAL] = {"normal", ""}, [QKV_SAMPLE_UNIFORM] = {"uniform", ""},
              [QKV_SAMPLE_INTEGERS] = {"integers", ""}, [QKV_SAMPLE_XAVIER] = {"xavier", ""})
SCENE_CHOICES(qkv_vectors_from, [QKV_VECTORS_GIVEN] = {"given", ""}, [QKV_VECTORS_RANDOM] = {"random", ""},
              [QKV_VECTORS_LEARNED] = {"learned", ""}, [QKV_VECTORS_LETTERS] = {"letters", ""},
              [QKV_VECTORS_PROJECTED] = {"projected", ""})
SCENE_CHOICES(qkv_weights_from, [QKV_WEIGHTS_RANDOM] = {"random", ""}, [QKV_WEIGHTS_GIVEN] = {"given", ""},
              [QKV_WEIGHTS_LEARNED] = {"learned", ""}, [QKV_WEIGHTS_NONE] = {"none", ""})
SCENE_CHOICES(qkv_bias, [QKV_BIAS_NONE] = {"none", ""}, [QKV_BIAS_ZEROS] = {"zeros", ""},
              [QKV_BIAS_RANDOM] = {"random", ""})
SCENE_CHOICES(qkv_score, [QKV_SCENE_SCORE_SCALED_DOT] = {"scaled_dot", ""},
              [QKV_SCENE_SCORE_DOT] = {"dot", ""}, [QKV_SCENE_SCORE_GENERAL] = {"general", ""},
              [QKV_SCENE_SCORE_ADDITIVE] = {"additive", ""}, [QKV_SCENE_SCORE_LENGTH] = {"length", ""})
SCENE_CHOICES(qkv_scene_mask, [QKV_MASK_NONE] = {"none", ""}, [QKV_MASK_CAUSAL] = {"causal", ""},
              [QKV_MASK_PADDING] = {"padding", ""}, [QKV_MASK_BOOLEAN] = {"boolean", ""},
              [QKV_MASK_ADDED] = {"added", ""})
SCENE_CHOICES(qkv_attention_kind, [QKV_ATTENTION_ENCODER] = {"encoder", ""},
              [QKV_ATTENTION_DECODER] = {"decoder", ""}, [QKV_ATTENTION_CROSS] = {"cross", ""})

#define KEY_STRUCT struct qkv_scene
#define KEY_TABLE  "explain/scene_keys.def"
#include "config/key_rows.h"

static const struct qkv_key keys[] = {
#include KEY_TABLE
};
const struct qkv_schema qkv_scene_schema = {
    .keys = keys, .count = sizeof keys / sizeof *keys, .size = sizeof(KEY_STRUCT)};

enum qkv_status qkv_scene_write_reference(FILE *file)
{
    return qkv_schema_write_reference(&qkv_scene_schema, file);
}
