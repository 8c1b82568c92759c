/* Private to report: attention of sentence pairs that are given as text, from forced passes. */
#ifndef QKV_REPORT_FORCED_H
#define QKV_REPORT_FORCED_H

#include "qkv/attention_collect.h"
#include "qkv/corpus.h"
#include "qkv/run.h"
#include "report/value_norms.h"

/* Maximal number of pairs of a pass. It is fixed, because the last bits of results may depend on it. */
enum { FORCED_MAX = 64 };

/* The memory for passes through the model of a run, which is reused. For one thread at a time. */
struct forced_passes {
    const struct qkv_run *run;
    unsigned kinds; /* of the maps; qkv_forced_init sets it to cross attention */
    bool has_texts; /* reports have the texts of tokens; false: "" instead, except for <s> and </s> */
    struct qkv_attention_collector *collector;
    struct qkv_sentence sentence;
    struct qkv_arena arena; /* of the last pass */
};

/* The result for a pair. */
struct forced_pair {
    bool has_report;
    const char *reason; /* why there is no report: "the source has 9 tokens, ..."; NULL: a side is empty */
    struct qkv_attention_words words;
    struct qkv_attention_report report;
};

/* norms: maps hold weights times these norms, which must outlive the passes; NULL: maps hold weights. Passes that are all zero
 * can be released. Fails when memory runs out. */
enum qkv_status qkv_forced_init(struct forced_passes *passes, const struct qkv_run *run,
                                const struct value_norms *norms, struct qkv_error *error);
void qkv_forced_release(struct forced_passes *passes);

/* Collects the attention of at most FORCED_MAX pairs. `swapped`: the run translates targets to sources, and the
 * report has them exchanged, too. Results are valid until the next pass. Fails for text that is not valid UTF-8, for a
 * run without attention, and when memory runs out. */
enum qkv_status qkv_forced_collect(struct forced_passes *passes, int64_t count,
                                   const struct qkv_pair_texts *texts, bool swapped,
                                   struct forced_pair *pairs, struct qkv_error *error);

#endif
