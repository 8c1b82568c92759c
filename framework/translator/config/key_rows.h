/* The macros that turn the rows of a table into struct qkv_key. Define KEY_STRUCT, the struct that the keys are
 * fields of, and KEY_TABLE, the file of the rows, include this header once, then write
 *
 *     static const struct qkv_key keys[] = {
 *     #include KEY_TABLE
 *     };
 *
 * config_keys.def explains the rows; scene_keys.def explains TEXTS and MATRIX, which only scenes have. */
#include "config/schema.h"

#include <math.h>

#define FIELD(path)       (((KEY_STRUCT *)0)->path)
#define TO_STRING(tokens) #tokens
#define NAME(path)        TO_STRING(path)

/* Compilation fails where the type of a field is not that of its row. */
#define IS(type, path)     _Static_assert(_Generic(FIELD(path), type : 1, default : 0), NAME(path));
#define TEXT(path, ...)    IS(const char *, path)
#define INTEGER(path, ...) IS(int64_t, path)
#define NUMBER(path, ...)  IS(double, path)
#define BOOLEAN(path, ...) IS(bool, path)
#define TEXTS(path, ...)   IS(struct qkv_texts, path)
#define MATRIX(path, ...)  IS(struct qkv_matrix, path)
#define PAIR(path, ...)                                                                                      \
    IS(double *, path) _Static_assert(sizeof FIELD(path) == 2 * sizeof(double), NAME(path));
#define CHOICE(path, type, ...)                                                                              \
    IS(enum type, path) _Static_assert(sizeof(enum type) == sizeof(int), NAME(path));
#include KEY_TABLE
#undef TEXT
#undef INTEGER
#undef NUMBER
#undef BOOLEAN
#undef PAIR
#undef TEXTS
#undef MATRIX
#undef CHOICE

#define REQUIRED NULL
/* clang-format would break each of these lines into four. */
/* clang-format off */
#define ANY           {-HUGE_VAL, HUGE_VAL, false, false}
#define FROM(a)       {(a), HUGE_VAL, false, false}
#define ABOVE(a)      {(a), HUGE_VAL, true, false}
#define WITHIN(a, b)  {(a), (b), false, false}
#define BELOW(a, b)   {(a), (b), false, true}
#define BETWEEN(a, b) {(a), (b), true, true}
/* clang-format on */

/* The last argument of a row whose key has an effect only while the choice key `path` has a value whose bit is set in
 * `bits`: USED_WITH(model.encoder.type, BIT(QKV_NETWORK_RECURRENT)). */
#define USED_WITH(path, bits) .condition = {NAME(path), (bits), QKV_WITHOUT_EFFECT_REFUSED}
#define BIT(value)            (UINT32_C(1) << (value))

/* An argument of a row whose key is read only while the NUMBER `path` is above 0. */
#define READ_WITH(path) .condition = {NAME(path), 0, QKV_WITHOUT_EFFECT_NOTED}

/* An argument of an INTEGER for which this number in a file means none, which is 0 in the field. */
#define NONE(number) .none = (number)

/* The last argument of a TEXT that is a path. */
#define IS_PATH .is_path = true

/* Programs that print no reference of the keys can leave out its texts. */
#ifdef QKV_WITHOUT_KEY_HELP
#    define KEY_HELP(text) ""
#else
#    define KEY_HELP(text) text
#endif

#define ROW(key_kind, key_path, key_role, key_fallback, key_help, ...)                                       \
    {.path = NAME(key_path),                                                                                 \
     .kind = key_kind,                                                                                       \
     .role = QKV_ROLE_##key_role,                                                                            \
     .offset = offsetof(KEY_STRUCT, key_path),                                                               \
     .fallback = key_fallback,                                                                               \
     .help = KEY_HELP(key_help),                                                                             \
     __VA_ARGS__},
#define PLAIN(kind, path, role, fallback, help, ...)                                                         \
    ROW(kind, path, role, fallback, help, .range = ANY, .unit = "", __VA_ARGS__)
#define TEXT(...)               PLAIN(QKV_KEY_TEXT, __VA_ARGS__, )
#define BOOLEAN(...)            PLAIN(QKV_KEY_BOOLEAN, __VA_ARGS__, )
#define TEXTS(...)              PLAIN(QKV_KEY_TEXTS, __VA_ARGS__, )
#define MATRIX(...)             PLAIN(QKV_KEY_MATRIX, __VA_ARGS__, )
#define CHOICE(path, type, ...) PLAIN(QKV_KEY_CHOICE, path, __VA_ARGS__, .choices = &type##_choices, )
#define INTEGER(path, role, limits, of_unit, fallback, help, ...)                                            \
    ROW(QKV_KEY_INTEGER, path, role, fallback, help, .range = limits, .unit = of_unit, __VA_ARGS__)
#define NUMBER(path, role, limits, of_unit, fallback, help, ...)                                             \
    ROW(QKV_KEY_NUMBER, path, role, fallback, help, .range = limits, .unit = of_unit, __VA_ARGS__)
#define PAIR(path, role, limits, fallback, help, ...)                                                        \
    ROW(QKV_KEY_PAIR, path, role, fallback, help, .range = limits, .unit = "", __VA_ARGS__)
