/* Private: Word alignment of text by a trained run: makes forced passes over sentence pairs, computes a word map
 * (alignment.h) from a head or the mean of several heads, and draws links from it. With a second run, which translates in
 * the other direction, the links per source word come from the maps of that run, or all links from the products of both
 * maps.
 *
 * Source and target are both given and the target is fed to the decoder, so no search takes place. All threads compute
 * fixed groups of pairs: results do not depend on the number of threads.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_run run = {0};
 *     const struct qkv_aligner_options options = {.drawing = QKV_DRAWING_UNION}; // the mean of all heads
 *     struct qkv_aligner *aligner = NULL;
 *     struct qkv_aligned_pair pair = {.texts = {"the cat", "el gato", 7, 7}};
 *     if (!qkv_run_open(&run, "runs/toy_en_es", NULL, QKV_FLOAT32, &error))
 *         aligner = qkv_aligner_new(&run, NULL, &options, NULL, &error);
 *     if (aligner && !qkv_aligner_run(aligner, 1, &pair, &error))
 *         for (int64_t i = 0; i < pair.links.count; i++)
 *             printf("%d-%d\n", (int)pair.links.links[i].source, (int)pair.links.links[i].target);
 *     qkv_aligner_free(aligner);
 *     qkv_run_release(&run); */
#pragma once

#include "metrics/alignment.h"
#include "qkv/attention_map.h"

/* A layer and a head as in qkv_attention_select: a number from 1, or QKV_ATTENTION_MEAN (0). To let qkv_aligner_choose
 * select the head, set head to QKV_ATTENTION_BEST; layer QKV_ATTENTION_MEAN then means any layer. qkv_aligner_run fails
 * until qkv_aligner_choose has selected a head. */
struct qkv_aligner_map {
    int layer, head;
};

struct qkv_aligner_options {
    struct qkv_aligner_map map[2]; /* of the run, and of the run in the other direction */
    enum qkv_alignment_reading reading;
    enum qkv_alignment_drawing drawing;
    double
        threshold; /* above 0: link all words with a greater weight (alignment.h); 0: the strongest words */
    /* Multiply each weight by the norm of the vector that it multiplies, which is the value after the output projection of
     * its head (Kobayashi et al. 2020, "Attention is not only a weight"). Each row is then divided by its sum, which
     * includes the column of </s>. Means over heads are taken of these products, before the division. */
    bool norms;
    /* With two runs, before links are drawn: multiply each weight by the weight of the other run for the same two words, and
     * divide each row by its sum (Liang, Taskar and Klein 2006, "Alignment by agreement") */
    bool multiply;
};

struct qkv_aligner;

/* Makes an aligner; runs and workers must outlive it. reverse NULL: one run. workers NULL: one thread. NULL with a
 * message when a run has no cross attention, or not that layer or head, when
 * its network does not record what norms need (qkv_trace_record in model.h), when `reverse` translates between the same
 * languages in the same direction, and out of memory. */
struct qkv_aligner *qkv_aligner_new(const struct qkv_run *run, const struct qkv_run *reverse,
                                    const struct qkv_aligner_options *options, struct qkv_workers *workers,
                                    struct qkv_error *error);
void qkv_aligner_free(struct qkv_aligner *aligner); /* NULL: does nothing */

/* A sentence pair and its result. */
struct qkv_aligned_pair {
    struct qkv_pair_texts texts;
    const struct qkv_alignment *gold; /* for QKV_HEAD_RULE_GOLD; NULL: none */
    struct qkv_alignment links; /* the result, valid until the next run; no links if a side has no words */
    /* Why a pair with words has no links: it is longer than a run's positions. NULL: it has links. */
    const char *reason;
};

/* Draws the links of `count` pairs. Fails for text that is not valid UTF-8, and out of memory. QKV_FAILED: as of
 * qkv_attention_collect (attention_map.h). Memory grows with the number of pairs; for long texts, call it with some thousand at
 * a time. */
enum qkv_status qkv_aligner_run(struct qkv_aligner *aligner, int64_t count, struct qkv_aligned_pair *pairs,
                                struct qkv_error *error);

/* Criteria for the best head. All of them use word maps. */
enum qkv_head_rule {
    QKV_HEAD_RULE_ENTROPY, /* lowest entropy of the weights of a target word, each row divided by its sum; nats, mean */
    QKV_HEAD_RULE_AGREEMENT, /* greatest sum over source words of its weights times the mean weights of all heads; mean over
                           target words */
    QKV_HEAD_RULE_GOLD, /* lowest alignment error rate */
    QKV_HEAD_RULES,     /* number of rules */
};

/* entropy, agreement, gold; NULL for other numbers. */
const char *qkv_head_rule_name(enum qkv_head_rule rule);

/* The head that was chosen, and its entropy, agreement or error rate. */
struct qkv_chosen_head {
    struct qkv_aligner_map map;
    double value;
};

/* Chooses the best head on `count` pairs for the run `direction` (0, or 1: the run in the other direction), whose head in
 * the options is QKV_ATTENTION_BEST, among the heads of its layer or of all layers; of equally good heads the first.
 * QKV_HEAD_RULE_GOLD uses only pairs with gold links; links are drawn as the options say, but with two runs from this run
 * alone, for each of its target words. Later calls of qkv_aligner_run use the head. Fails as qkv_aligner_run, when there is
 * no pair to choose by, and when there is no such direction. */
enum qkv_status qkv_aligner_choose(struct qkv_aligner *aligner, int direction, enum qkv_head_rule rule,
                                   int64_t count, const struct qkv_aligned_pair *pairs,
                                   struct qkv_chosen_head *chosen, struct qkv_error *error);
