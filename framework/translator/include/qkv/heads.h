/* The heads of a trained model: their names, and measures of what they attend to and how much they contribute.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_run run;
 *     struct qkv_head head;
 *     if (!qkv_run_open(&run, "runs/toy_en_es", NULL, QKV_FLOAT32, &error)) {
 *         if (qkv_head_find(run.model, "cross.2.1", &head, &error))
 *             fprintf(stderr, "%s\n", error.message);
 *         else
 *             qkv_model_ablate(run.model, head, true); // translates without this head from now on
 *         qkv_run_release(&run);
 *     }
 */
#ifndef QKV_HEADS_H
#define QKV_HEADS_H

#include "qkv/base.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/run.h"

#include <stddef.h>

/* Writes the name of a head into `text`, cut to `size` bytes: kind of attention, layer and head, as in cross.2.1. 64 bytes
 * are enough. */
QKV_API void qkv_head_name(struct qkv_head head, char *text, size_t size);

/* Finds the head of a model that has this name. If there is none, fails with a message that lists the heads. */
QKV_API enum qkv_status qkv_head_find(const struct qkv_model *model, const char *name, struct qkv_head *head,
                                      struct qkv_error *error);

/* ---- measures ---- */

/* The measures of a head: QKV_HEAD_ENTROPY and so on. */
enum qkv_head_measure {
#define HEAD_MEASURE(id, name, title, digits, factor, help) QKV_HEAD_##id,
#include "qkv/head_measures.def"
#undef HEAD_MEASURE
    QKV_HEAD_MEASURES, /* their number */
};

/* A row of head_measures.def. */
struct qkv_head_measure_info {
    const char *name, *title, *help;
    int digits;
    double factor; /* in tables: 100 for percent */
};

/* NULL for an unknown measure. */
QKV_API const struct qkv_head_measure_info *qkv_head_measure_info(enum qkv_head_measure measure);

struct qkv_measured_head {
    struct qkv_head head;
    double value[QKV_HEAD_MEASURES]; /* NaN: not measured, or there is nothing to measure */
};

/* Caller's storage, all zero at first. */
struct qkv_measured_heads {
    struct qkv_measured_head *heads; /* [count], in the order of qkv_model_head */
    int64_t count;
    int64_t sentences, tokens; /* target tokens with </s> */
    int64_t missing;           /* sentences without gold links in the file */
    double loss, bleu;         /* with all heads; bleu is NaN without translations */
};

struct qkv_heads_options {
    const char
        *links; /* file of gold links, in a format of `qkv align --gold`; NULL: no alignment is measured */
    enum qkv_links_from links_from; /* the number of the first word */
    bool norms; /* use weights times norms of values, each row divided by its sum, instead of weights */
    bool no_translation;               /* do not measure BLEU, which takes most of the time */
    struct qkv_testing_config testing; /* batch size and search of translations */
    struct qkv_workers *workers;       /* NULL: the calling thread alone */
    /* Called after each of `total` parts of the work, on the calling thread; NULL: not called. */
    void (*progress)(void *context, int64_t done, int64_t total);
    void *context;
};

/* Measures all heads of a run on an encoded corpus that has kept its raw lines. Measures maps between words, from forced
 * passes with the references: the columns of a word's tokens are summed, their rows averaged. Silences each head in turn,
 * so no other thread may use the model meanwhile. Heads that were silent before stay silent. The results are the same for
 * any number of threads. Fails for a model without attention, for a program's own network that does not record the
 * necessary parts (qkv_trace_record in network.h), when memory runs out, and where reading links or evaluating fails; nothing
 * needs to be released then. */
QKV_API enum qkv_status qkv_heads_measure(struct qkv_run *run, const struct qkv_corpus *corpus,
                                          const struct qkv_heads_options *options,
                                          struct qkv_measured_heads *measured, struct qkv_error *error);
QKV_API void qkv_measured_heads_release(struct qkv_measured_heads *measured);

#endif
