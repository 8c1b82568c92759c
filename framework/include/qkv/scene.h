/* A scene: one attention, written down in a YAML file to be walked through step by step (explain.h), as
 * tutorials do. Every field is one row of the table in framework/explain/scene_keys.def, which holds its path,
 * range, default and help; `qkv explain --reference` prints that table.
 *
 * Letters: Nq words that ask (`tokens`), Nk words that are looked at (`source`; the same without it), D their
 * width, H heads, K and V key and value width of each head, A the hidden width of additive scores. */
#ifndef QKV_SCENE_H
#define QKV_SCENE_H

#include "qkv/arena.h"
#include "qkv/attention_kind.h"
#include "qkv/config.h"
#include "qkv/error.h"
#include "qkv/matrix.h"
#include "qkv/messages.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum qkv_generator { QKV_GENERATOR_QKV, QKV_GENERATOR_NUMPY };
enum qkv_distribution { QKV_SAMPLE_NORMAL, QKV_SAMPLE_UNIFORM, QKV_SAMPLE_INTEGERS, QKV_SAMPLE_XAVIER };
enum qkv_vectors_from {
    QKV_VECTORS_GIVEN,     /* `values`, a row a word */
    QKV_VECTORS_RANDOM,    /* drawn, a row for each distinct word */
    QKV_VECTORS_LEARNED,   /* embeddings: rows of the table of a run */
    QKV_VECTORS_LETTERS,   /* embeddings: a is 1, b is 2, ..., one letter a component, filled up with 0 */
    QKV_VECTORS_PROJECTED, /* queries, keys, values: the inputs times a matrix */
};
enum qkv_weights_from { QKV_WEIGHTS_RANDOM, QKV_WEIGHTS_GIVEN, QKV_WEIGHTS_LEARNED, QKV_WEIGHTS_NONE };
enum qkv_bias { QKV_BIAS_NONE, QKV_BIAS_ZEROS, QKV_BIAS_RANDOM };
enum qkv_score {
    QKV_SCORE_SCALED_DOT,
    QKV_SCORE_DOT,
    QKV_SCORE_GENERAL,
    QKV_SCORE_ADDITIVE,
    QKV_SCORE_LENGTH
};
enum qkv_scene_mask {
    QKV_MASK_NONE,
    QKV_MASK_CAUSAL,  /* no word sees one behind it */
    QKV_MASK_PADDING, /* no word sees one that is `mask.padding` */
    QKV_MASK_BOOLEAN, /* `mask.values`: 1 visible, 0 hidden */
    QKV_MASK_ADDED,   /* `mask.values` is added to the scaled scores; -.inf hides */
};

/* embeddings, source_embeddings, queries, keys, values */
struct qkv_vectors_config {
    enum qkv_vectors_from from;
    struct qkv_matrix values;
    int64_t width; /* 0: embeddings as wide as `values`; the others K or V */
    enum qkv_distribution draw;
    int64_t below; /* integers: 0 .. below-1 */
};

struct qkv_scene {
    const char *name, *about;
    struct qkv_texts tokens, source, follow;
    struct {
        enum qkv_generator generator;
        int64_t seed;
    } random;
    struct {
        const char *path, *checkpoint; /* "" for none */
        int64_t layer;
        enum qkv_attention_kind kind;
    } run;
    struct qkv_vectors_config embeddings, source_embeddings;
    struct {
        enum qkv_position_kind type;
        double base;
        int64_t rows; /* of the table, to look at; 0: as many as there are words */
    } positions;
    struct qkv_vectors_config queries, keys, values;
    struct {
        enum qkv_weights_from from;
        enum qkv_distribution draw;
        int64_t below;
        enum qkv_bias bias;
        struct qkv_matrix query, key, value, output; /* [D, H K], [D, H K], [D, H V], [H V, any] */
        struct qkv_matrix score, score_query, score_key, score_vector; /* [H K, K]; [H K, A] twice; [H, A] */
    } weights;
    struct {
        enum qkv_score score;
        int64_t heads, key_width, value_width, hidden_width;
        bool output;
        int64_t window;
    } attention;
    struct {
        enum qkv_scene_mask type;
        struct qkv_matrix values;
        const char *padding;
    } mask;
    struct {
        int64_t components; /* of each context row that are added up; 0: there is no sum */
        bool distinct;      /* a word that stands there twice counts once */
    } sum;

    /* Worked out while reading. */
    int64_t query_count;
    const int32_t *query_rows;             /* rows of the tokens that ask: those to follow, or all */
    int64_t width, source_width;           /* D of both sides; 0: only a run can tell */
    const struct qkv_scene_places *places; /* where the keys stand in the file */
};

/* Reads a scene as qkv_config_read reads a config: all errors of the file at once, in `messages`. Beside each
 * key itself, everything is checked that can be told without opening a run: counts, widths and shapes. Widths
 * that were not given are filled in where they follow from others. */
QKV_API enum qkv_status qkv_scene_read(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                                       const char *const *overrides, int override_count,
                                       struct qkv_messages *messages);

/* "configs/x.yaml:14:7: " for a key of the scene that was given, "configs/x.yaml: " for another; for messages
 * about what shows only later. In the arena; never NULL. */
QKV_API const char *qkv_scene_place(const struct qkv_scene *scene, const char *key, struct qkv_arena *arena);

/* Writes every key with type, values, default and meaning as a Markdown table. QKV_INVALID when the file
 * cannot be written. */
QKV_API enum qkv_status qkv_scene_write_reference(FILE *file);

#endif
