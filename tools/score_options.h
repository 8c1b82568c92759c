/* BLEU and chrF as the tools count and show them. */
#ifndef QKV_TOOLS_COUNTING_H
#define QKV_TOOLS_COUNTING_H

#include "arguments.h"
#include "qkv/metrics.h"

struct cJSON;

/* What the options say. */
struct counting {
    const char *tokenizer;
    bool lowercase;
};

#define COUNTING_DEFAULT                                                                                     \
    {                                                                                                        \
        .tokenizer = "13a"                                                                                   \
    }

/* The rows of an options table. */
#define ARGUMENTS_COUNTING(counting)                                                                         \
    {"tokenize",                                                                                             \
     0,                                                                                                      \
     "NAME",                                                                                                 \
     ARGUMENT_TEXT,                                                                                          \
     &(counting)->tokenizer,                                                                                 \
     0,                                                                                                      \
     0,                                                                                                      \
     "how BLEU finds words: 13a (default), none, char"},                                                     \
    {                                                                                                        \
        "lowercase", 0, NULL, ARGUMENT_FLAG, &(counting)->lowercase, 0, 0,                                   \
            "BLEU and chrF without regard to case"                                                           \
    }

struct texts_score {
    struct qkv_bleu bleu;
    struct qkv_chrf chrf;
};

/* QKV_INVALID, after complaining, when there is no such tokenizer. */
enum qkv_status texts_score_init(struct texts_score *score, const struct counting *counting);
enum qkv_status texts_score_add(struct texts_score *score, const char *output, const char *const *references,
                                int64_t count, struct qkv_error *error);
void texts_score_print(const struct texts_score *score);
/* Adds bleu, bleu_signature, chrf, chrf_signature to an object. */
void texts_score_json(const struct texts_score *score, struct cJSON *object);
void texts_score_release(struct texts_score *score);

#endif
