/* BLEU and chrF as the tools count and show them. */
#ifndef QKV_TOOLS_SCORE_OPTIONS_H
#define QKV_TOOLS_SCORE_OPTIONS_H

#include "command.h"
#include "qkv/metrics.h"

struct cJSON;

/* Values of the options that say how texts are compared. */
struct score_options {
    const char *tokenizer;
    bool lowercase;
};

#define SCORE_OPTIONS_DEFAULT                                                                                \
    {                                                                                                        \
        .tokenizer = "13a"                                                                                   \
    }

/* The rows of an options table. */
/* clang-format off */
#define COMMAND_OPTIONS_SCORE(o)                                                                             \
    {"tokenize", 0, "NAME", OPTION_CHOICE, &(o)->tokenizer,                                                  \
     "how BLEU finds words: {choices} (default: 13a)", .choices = score_tokenizer_name},                     \
    {"lowercase", 0, NULL, OPTION_FLAG, &(o)->lowercase, "BLEU and chrF ignore case"}
/* clang-format on */

/* The choices of --tokenize; the context is not used. */
const char *score_tokenizer_name(const void *context, int64_t index);

struct texts_score {
    struct qkv_bleu bleu;
    struct qkv_chrf chrf;
};

/* QKV_INVALID, after complaining, when there is no such tokenizer. */
enum qkv_status texts_score_init(struct texts_score *score, const struct score_options *options);
enum qkv_status texts_score_add(struct texts_score *score, const char *output, const char *const *references,
                                int64_t count, struct qkv_error *error);
void texts_score_print(const struct texts_score *score);
/* Adds bleu, bleu_signature, chrf, chrf_signature to an object. */
void texts_score_json(const struct texts_score *score, struct cJSON *object);
void texts_score_release(struct texts_score *score);

#endif
