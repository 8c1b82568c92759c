/* The kinds of things that a program chooses by name: activations, norms, positions, cells, initializers, optimizers,
 * schedules. qkv/engine_choices.def lists the values of each enum and says what they mean.
 *
 * Example:
 *     enum qkv_activation activation = QKV_ACTIVATION_GELU;
 *     printf("%s\n", qkv_activation_name(activation));
 */
#ifndef QKV_CHOICES_H
#define QKV_CHOICES_H

#include "qkv/error.h" /* QKV_API */

/* For each enum there is a function <enum>_name(value), such as qkv_activation_name(QKV_ACTIVATION_GELU): the name of the
 * value ("gelu"), or "unknown"; static memory. */
#define CHOICES(type)                 enum type {
#define CHOICE(value, name, help)     value,
#define CHOICE_OF_OPTIONS(value, ...) value,
#define INTERNAL(value, name)         value,
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    QKV_API const char *type##_name(enum type value);
#include "qkv/engine_choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_OPTIONS
#undef INTERNAL
#undef CHOICES_END

/* The number of rows of each table: every row adds 1. */
enum {
    QKV_OPTIMIZER_COUNT = 0
#define OPTIMIZER(...) +1
#include "qkv/optimizers.def"
    ,
    QKV_SCHEDULE_COUNT = 0
#define SCHEDULE(...) +1
#include "qkv/schedules.def"
};

#endif
