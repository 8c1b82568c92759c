/* Private to report: word maps (qkv/alignment.h) from the cross attention of a sentence pair. */
#ifndef QKV_REPORT_WORD_MAP_H
#define QKV_REPORT_WORD_MAP_H

#include "qkv/alignment.h"
#include "report/words.h"

/* The words that the rows and columns of a cross map belong to. */
struct alignment_labels {
    struct word_labels rows[QKV_READINGS]; /* by enum qkv_alignment_reading */
    struct word_labels columns;
    struct qkv_word_counts words; /* of the sentence pair */
};

/* Finds the words of the tokens of a report. The column of </s> belongs to no word, nor does the step that predicts </s> or the
 * one that reads <s>. Fails when `words` do not fit the tokens, and when memory runs out. */
enum qkv_status qkv_alignment_labels(const struct qkv_attention_report *report,
                                     struct qkv_attention_words words, struct qkv_arena *arena,
                                     struct alignment_labels *labels, struct qkv_error *error);

/* Merges a cross map of that report into a word map, in the arena; false when memory runs out. */
bool qkv_word_map_make(const struct qkv_attention_map *map, const struct alignment_labels *labels,
                       enum qkv_alignment_reading reading, struct qkv_arena *arena,
                       struct qkv_word_map *words);

#endif
