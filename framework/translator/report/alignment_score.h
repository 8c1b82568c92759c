/* Private: scores how well cross attention aligns words, against gold links made by people (alignment.h).
 *
 * A word may be several tokens (level char, split_punctuation): the columns of the tokens of a source word are
 * summed, the rows of those of a target word are averaged (Clark et al. 2019); white space at level char (▁)
 * belongs to no word. The column of </s> and the step that outputs </s> do not count.
 */
#pragma once

#include "metrics/alignment.h"
#include "qkv/attention_map.h"

/* Caller's storage; all zero is empty. */
struct qkv_alignment_score {
    /* [count]: over all sentences so far, sorted by drawing (target, union), reading, layer, head; the mean over the heads of a
     * layer follows its heads, the mean over all heads comes last */
    struct qkv_alignment_result *results;
    int64_t count;
    int64_t sentences;
    int64_t missing; /* pairs that have no gold links: every link drawn there counts as wrong */
    struct qkv_word_spaces spaces;
};

/* The result with the lowest error rate among those with this drawing; of equal results the first. All 0 if there is
 * none. */
struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                     enum qkv_alignment_drawing drawing);

void qkv_alignment_score_release(struct qkv_alignment_score *score);

/* Adds the cross maps of one sentence pair: those of every layer and head, the mean over the heads of every layer, and the
 * mean over all, where these are several; each with the drawings target and union and with every reading of alignment.h. All
 * reports of a score must have the same layers and heads. Fails, and adds nothing, when the report has no cross maps, when a
 * gold link names a word that the sentence pair does not have, when the index of a word is not below the number of tokens, when
 * maps do not fit their tokens, or when memory runs out. */
enum qkv_status qkv_alignment_score_add(struct qkv_alignment_score *score,
                                        const struct qkv_attention_report *report,
                                        struct qkv_attention_words words, const struct qkv_alignment *gold,
                                        struct qkv_error *error);

/* Scores a run on a corpus: feeds the references to the decoder and compares the maps with the gold links of a file (read
 * by qkv_alignments_read, which also explains `from`). The file has links for each pair in the file of the corpus; links of
 * pairs that were dropped for their length are skipped. Words are separated by white space, however the text is tokenized.
 * The corpus must have kept its raw lines, which the run tokenizes itself. Fails as reading links and adding do. */
enum qkv_status qkv_alignment_evaluate(const struct qkv_run *run, const struct qkv_corpus *corpus,
                                       const char *links, enum qkv_links_from from,
                                       struct qkv_alignment_score *score, struct qkv_error *error);
