/* The names of the values of each enum of config.h and scene.h. */
#ifndef QKV_CONFIG_CHOICES_H
#define QKV_CONFIG_CHOICES_H

#include "qkv/config.h"
#include "qkv/scene.h"

/* names[value] is the name of a value. The first `count` may be chosen in a config; enums keep the others
 * behind. */
struct qkv_choices {
    const char *const *names;
    int count;
};

extern const struct qkv_choices qkv_level_choices, qkv_network_choices, qkv_norm_place_choices,
    qkv_norm_kind_choices, qkv_position_kind_choices, qkv_attention_kernel_choices, qkv_activation_choices,
    qkv_initializer_choices, qkv_optimizer_kind_choices, qkv_schedule_kind_choices, qkv_batch_type_choices,
    qkv_metric_choices, qkv_generator_choices, qkv_draw_choices, qkv_vectors_from_choices,
    qkv_weights_from_choices, qkv_bias_choices, qkv_score_choices, qkv_scene_mask_choices,
    qkv_attention_kind_choices, qkv_cell_choices, qkv_attention_score_choices, qkv_init_hidden_choices;

/* The choices of an expression whose type is one of these enums; NULL for any other type. */
#define QKV_CHOICES_OF(expression)                                                                           \
    _Generic((expression), enum qkv_level                                                                    \
             : &qkv_level_choices, enum qkv_network                                                          \
             : &qkv_network_choices, enum qkv_norm_place                                                     \
             : &qkv_norm_place_choices, enum qkv_norm_kind                                                   \
             : &qkv_norm_kind_choices, enum qkv_position_kind                                                \
             : &qkv_position_kind_choices, enum qkv_attention_kernel                                         \
             : &qkv_attention_kernel_choices, enum qkv_activation                                            \
             : &qkv_activation_choices, enum qkv_initializer                                                 \
             : &qkv_initializer_choices, enum qkv_optimizer_kind                                             \
             : &qkv_optimizer_kind_choices, enum qkv_schedule_kind                                           \
             : &qkv_schedule_kind_choices, enum qkv_batch_type                                               \
             : &qkv_batch_type_choices, enum qkv_metric                                                      \
             : &qkv_metric_choices, enum qkv_generator                                                       \
             : &qkv_generator_choices, enum qkv_draw                                                         \
             : &qkv_draw_choices, enum qkv_vectors_from                                                      \
             : &qkv_vectors_from_choices, enum qkv_weights_from                                              \
             : &qkv_weights_from_choices, enum qkv_bias                                                      \
             : &qkv_bias_choices, enum qkv_score                                                             \
             : &qkv_score_choices, enum qkv_scene_mask                                                       \
             : &qkv_scene_mask_choices, enum qkv_attention_kind                                              \
             : &qkv_attention_kind_choices, enum qkv_cell                                                    \
             : &qkv_cell_choices, enum qkv_attention_score                                                   \
             : &qkv_attention_score_choices, enum qkv_init_hidden                                            \
             : &qkv_init_hidden_choices, default                                                             \
             : NULL)

#endif
