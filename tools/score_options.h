/* The options of scoring, and how the tools print metrics. */
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

/* Sets the options of a scorer. QKV_INVALID, after complaining, when there is no such tokenizer. */
enum qkv_status score_options_apply(const struct score_options *options, struct qkv_scorer *scorer);

/* Prints a row for each metric, or adds each metric to an object, with <metric>_signature where it
 * has one. A scorer without counts has only metrics that compare texts, such as BLEU. */
void scorer_print(const struct qkv_scorer *scorer);
void scorer_json(const struct qkv_scorer *scorer, struct cJSON *object);

/* The head of the column of a metric, with its unit: "tokens, %"; and the value in that column,
 * which is 100 * value for a percent metric. */
enum { METRIC_NAME_SIZE = 32 };
const char *metric_column_name(enum qkv_metric metric, char text[static METRIC_NAME_SIZE]);
double metric_shown(enum qkv_metric metric, double value);

#endif
