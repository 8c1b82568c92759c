/* A scene: one attention layer with its words, vectors and matrices, described in a YAML file, to
 * be explained step by step (qkv/explain.h). Every field below is a key of the file;
 * framework/translator/explain/scene_keys.def holds its range, default and help, and `qkv explain --reference`
 * prints them.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_scene scene;
 *     struct qkv_messages messages;
 *     const char *const overrides[] = {"random.seed=7"};
 *     if (qkv_scene_read(&scene, &arena, "configs/seeds/general_attention.yaml", overrides, 1, &messages))
 *         for (int i = 0; i < messages.count; i++) fprintf(stderr, "%s\n", messages.text[i]);
 *     else
 *         printf("%d words\n", (int)scene.tokens.count);
 *     qkv_arena_release(&arena);
 *
 * Nq: number of words with queries (`tokens`); Nk: number of words with keys and values (`source`, or without a source
 * `tokens`: self-attention); D: width of their vectors; H: number of heads; K and V: key and value width per head; A:
 * hidden width of additive scores. */
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

enum qkv_generator {
    QKV_GENERATOR_QKV,  /* qkv/random.h */
    QKV_GENERATOR_NUMPY /* numpy.random.seed: qkv/numpy_random.h */
};
enum qkv_distribution { QKV_SAMPLE_NORMAL, QKV_SAMPLE_UNIFORM, QKV_SAMPLE_INTEGERS, QKV_SAMPLE_XAVIER };
enum qkv_vectors_from {
    QKV_VECTORS_GIVEN,     /* `values`: a row for each word */
    QKV_VECTORS_RANDOM,    /* drawn: a row for each distinct word */
    QKV_VECTORS_LEARNED,   /* embeddings: rows of the embedding table of a run */
    QKV_VECTORS_LETTERS,   /* embeddings: a is 1, b is 2, and so on; one letter a component, then zeros */
    QKV_VECTORS_PROJECTED, /* queries, keys, values: inputs times a matrix */
};
enum qkv_weights_from { QKV_WEIGHTS_RANDOM, QKV_WEIGHTS_GIVEN, QKV_WEIGHTS_LEARNED, QKV_WEIGHTS_NONE };
enum qkv_bias { QKV_BIAS_NONE, QKV_BIAS_ZEROS, QKV_BIAS_RANDOM };
enum qkv_score {
    QKV_SCENE_SCORE_SCALED_DOT, /* q k / sqrt(K) */
    QKV_SCENE_SCORE_DOT,        /* q k */
    QKV_SCENE_SCORE_GENERAL,    /* q W k (Luong et al. 2015) */
    QKV_SCENE_SCORE_ADDITIVE,   /* v tanh(q W + k U) (Bahdanau et al. 2015) */
    QKV_SCENE_SCORE_LENGTH      /* ln(letters of the word with the key) */
};
enum qkv_scene_mask {
    QKV_MASK_NONE,
    QKV_MASK_CAUSAL,  /* no word sees a later word */
    QKV_MASK_PADDING, /* no word sees the word `mask.padding` */
    QKV_MASK_BOOLEAN, /* `mask.values`: 1 visible, 0 hidden */
    QKV_MASK_ADDED,   /* `mask.values` is added to the scaled scores; -infinity hides */
};

/* One of the sections embeddings, source_embeddings, queries, keys and values. */
struct qkv_vectors_config {
    enum qkv_vectors_from from;
    struct qkv_matrix values;
    int64_t width; /* 0: as `values` or the run; for queries and keys H * K, for values H * V */
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
        const char *path, *checkpoint; /* "": none */
        int64_t layer;                 /* from 1 */
        enum qkv_attention_kind kind;
    } run;
    struct qkv_vectors_config embeddings, source_embeddings;
    struct {
        enum qkv_position_kind type;
        double base;
        int64_t rows; /* rows of the table that are shown; 0: one per word */
    } positions;
    struct qkv_vectors_config queries, keys, values;
    struct {
        enum qkv_weights_from from;
        enum qkv_distribution draw;
        int64_t below; /* integers: 0 .. below-1 */
        enum qkv_bias bias;
        struct qkv_matrix query, key, value, output; /* [D, H K], [D, H K], [D, H V], [H V, any] */
        struct qkv_matrix score, score_query, score_key, score_vector; /* [H K, K]; [H K, A] twice; [H, A] */
    } weights;
    struct {
        enum qkv_score score;
        int64_t heads, key_width, value_width, hidden_width;
        bool output;    /* random weights: project the joined heads back to D */
        int64_t window; /* greatest distance of a word that a word sees */
    } attention;
    struct {
        enum qkv_scene_mask type;
        struct qkv_matrix values; /* [Nq, Nk] */
        const char *padding;
    } mask;
    struct {
        int64_t components; /* leading components of each context row to add up; 0: no sum */
        bool distinct;      /* count a repeated word once */
    } sum;

    /* Not keys of the file: qkv_scene_read computes these fields, and widths that the file leaves 0. */
    int64_t query_count;
    const int32_t *query_rows;             /* [query_count]: tokens with queries: those to follow, or all */
    int64_t width, source_width;           /* D of tokens and source; 0: known only when the run is open */
    const struct qkv_scene_places *places; /* lines of the YAML keys, for messages */
};

/* Reads a scene, with overrides "key=value", as qkv_config_read reads a config: collects all errors
 * of the file in `messages`. Checks everything that does not need the run: keys, counts, widths and
 * shapes. The texts and matrices of the scene are in the arena. On QKV_INVALID the scene must not
 * be used. */
QKV_API enum qkv_status qkv_scene_read(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                                       const char *const *overrides, int override_count,
                                       struct qkv_messages *messages);

/* Reads a scene from memory: `text` is the contents of the file, UTF-8 with a NUL at its end, and `path` names it in
 * messages. With `text` NULL it works as qkv_scene_read. */
QKV_API enum qkv_status qkv_scene_read_text(struct qkv_scene *scene, struct qkv_arena *arena,
                                            const char *path, const char *text, const char *const *overrides,
                                            int override_count, struct qkv_messages *messages);

/* The beginning of a message about a key of the scene: "configs/x.yaml:14:7: " when the file gives the key, else
 * "configs/x.yaml: ", also for a key that scenes do not have. In the arena; "" when memory runs out, and for a scene that was
 * not read. */
QKV_API const char *qkv_scene_place(const struct qkv_scene *scene, const char *key, struct qkv_arena *arena);

/* Writes a Markdown table of all keys with type, values, default and meaning. Fails when the file
 * cannot be written. */
QKV_API enum qkv_status qkv_scene_write_reference(FILE *file);

#endif
