/* The gradient check of a translation model on the first sentences of its training text: does the same as `qkv gradcheck
 * CONFIG` and `qkv gradcheck RUN`, but also works for a program's own network (qkv/network.h), which the command cannot
 * open.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_messages messages;
 *     struct qkv_check_report report = {0};
 *     struct qkv_error error = {""};
 *     const struct qkv_check_options options = {.seed = 1, .sample = 16}; // 16 numbers of each parameter
 *     const struct qkv_checked_model model = {.subject = "own", .config = &config, .sentences = 4};
 *     if (qkv_config_read(&config, &arena, "own_network.yaml", NULL, 0, &messages))
 *         fprintf(stderr, "%s\n", messages.text[0]);
 *     else if (qkv_check_model(&report, &model, &options, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("%lld of %lld checks failed\n", (long long)report.failures, (long long)report.count);
 *     qkv_check_release(&report);
 *     qkv_arena_release(&arena);
 *
 * gradcheck.h describes the comparison and the report. */
#ifndef QKV_CHECK_MODEL_H
#define QKV_CHECK_MODEL_H

#include "qkv/config.h"
#include "qkv/gradcheck.h"
#include "qkv/run.h"

/* Sizes of the model and the text. */
struct qkv_checked_sizes {
    int64_t parameters;                              /* number of parameters */
    int64_t sentences, source_tokens, target_tokens; /* of the batch, with </s> */
};

struct qkv_checked_model {
    const char *subject; /* its name in the report; must outlive the report */
    const struct qkv_config *config;
    /* Values as trained, and its vocabularies; NULL: values as training starts with them */
    const struct qkv_run *run;
    int64_t sentences; /* pairs from the beginning of data.train, at least 1; fewer where it has fewer */
    /* Called before the first derivative; NULL: not called. */
    void (*begin)(void *context, const struct qkv_checked_sizes *sizes);
    void *context; /* first argument of `begin` */
};

/* Largest relative difference between float32 and float64, in loss and gradients of a model, that passes (relative to what:
 * see qkv_check_precision). */
#define QKV_MODEL_FLOAT32_BOUND 2e-5

/* Checks a model with the vocabularies, dropout, label smoothing and loss scale of training: the gradient of every
 * parameter (qkv_check_graph), and float32 against float64 (qkv_check_precision). Wrong gradients become failed rows of the
 * report; the status is still QKV_OK. QKV_INVALID when the text cannot be read, the model cannot be made from the config,
 * `run` does not fit the config, qkv_check_graph refuses the options, or memory runs out. */
QKV_API enum qkv_status qkv_check_model(struct qkv_check_report *report,
                                        const struct qkv_checked_model *model,
                                        const struct qkv_check_options *options, struct qkv_error *error);

#endif
