/* The options of scoring, and how the tools print metrics. */
#pragma once

#include "command.h"

struct cJSON;

/* The values of the options for the metrics of texts: which ones are computed, and how. */
struct score_options {
    struct option_list metrics;
    const char *tokenizer; /* NULL: not given */
    const char *smoothing;
    double smoothing_value;              /* 0: not given */
    int64_t character_order, word_order; /* -1: not given */
    double beta;                         /* 0: not given */
    bool lowercase, effective_order;
    bool ter_normalized, ter_no_punctuation, ter_case_sensitive;
};

#define SCORE_OPTIONS_DEFAULT                                                                                \
    {                                                                                                        \
        .smoothing = "exp", .character_order = -1, .word_order = -1                                          \
    }

/* The rows of an options table. */
/* clang-format off */
#define COMMAND_OPTIONS_SCORE(o, tokenizer_default)                                                                             \
    {"metrics", 'm', "NAME", OPTION_LIST, &(o)->metrics,                                                     \
     "scores of the translations: {choices}; may be repeated, or comma-separated (default: bleu,chrf)",   \
     .choices = score_metric_name, .needs_translations = true},                                              \
    {"tokenize", 0, "NAME", OPTION_CHOICE, &(o)->tokenizer,                                                  \
     "how BLEU finds words: {choices} (default: " tokenizer_default ")", .choices = score_tokenizer_name,                      \
     .needs_translations = true},                                                                            \
    {"lowercase", 0, NULL, OPTION_FLAG, &(o)->lowercase, "BLEU and chrF ignore case",                        \
     .needs_translations = true},                                                                            \
    {"smooth-method", 0, "NAME", OPTION_CHOICE, &(o)->smoothing,                                             \
     "what BLEU does where no n-gram of an order matches: {choices} (default: exp)",                         \
     .choices = score_smoothing_name, .needs_translations = true},                                           \
    {"smooth-value", 0, "X", OPTION_NUMBER, &(o)->smoothing_value,                                           \
     "number of matches of floor (default: 0.1), number that add-k adds (default: 1)", 1e-9, QKV_BLEU_SMOOTHING_MAX,           \
     .needs_translations = true},                                                                            \
    {"effective-order", 0, NULL, OPTION_FLAG, &(o)->effective_order,                                         \
     "BLEU leaves out orders of n-grams for which all translations are too short",                           \
     .needs_translations = true},                                                                            \
    {"chrf-char-order", 0, "N", OPTION_INTEGER, &(o)->character_order,                                       \
     "longest n-grams of characters (default: 6)", 1, QKV_CHRF_LONGEST, .needs_translations = true},         \
    {"chrf-word-order", 0, "N", OPTION_INTEGER, &(o)->word_order,                                            \
     "longest n-grams of words (default: 0); 2 is chrF++", 0, QKV_CHRF_WORDS, .needs_translations = true},   \
    {"chrf-beta", 0, "X", OPTION_NUMBER, &(o)->beta,                                                         \
     "how many times as much as precision chrF counts recall (default: 2)", 1e-3, QKV_CHRF_BETA_MAX,                      \
     .needs_translations = true},                                                                            \
    {"ter-normalized", 0, NULL, OPTION_FLAG, &(o)->ter_normalized,                                           \
     "TER tokenizes punctuation and replaces entities such as &quot;", .needs_translations = true},          \
    {"ter-no-punct", 0, NULL, OPTION_FLAG, &(o)->ter_no_punctuation, "TER ignores . , ? : ; ! \" ( )",       \
     .needs_translations = true},                                                                            \
    {"ter-case-sensitive", 0, NULL, OPTION_FLAG, &(o)->ter_case_sensitive, "TER distinguishes case",         \
     .needs_translations = true}
/* clang-format on */

/* The choices of --metrics, --tokenize and --smooth-method; the context is not used. */
const char *score_metric_name(const void *context, int64_t index);
const char *score_tokenizer_name(const void *context, int64_t index);
const char *score_smoothing_name(const void *context, int64_t index);

/* Converts the options. Prints an error message and returns QKV_INVALID when an option has no effect because of another one. */
enum qkv_status score_options_read(const struct score_options *options, struct qkv_text_options *result);

/* Prints a row for each metric, or adds each metric to an object, with <metric>_signature and <metric>_details if it
 * has them. A scorer without counts has only metrics that compare texts, such as BLEU. */
void scorer_print(const struct qkv_scorer *scorer);
void scorer_json(const struct qkv_scorer *scorer, struct cJSON *object);

/* The head of the column of a metric, with its unit: "tokens, %"; and the value in that column,
 * 100 * value for a metric in percent. */
enum { METRIC_NAME_SIZE = 32 };
const char *metric_column_name(enum qkv_metric metric, char text[static METRIC_NAME_SIZE]);
double metric_shown(enum qkv_metric metric, double value);
