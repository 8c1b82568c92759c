/* Numbers the different sentences of a set of pairs. */
#ifndef QKV_DATA_SENTENCE_NUMBERS_H
#define QKV_DATA_SENTENCE_NUMBERS_H

#include "qkv/pairs_file.h"
#include "qkv/vocabulary.h"

/* Sentences of a side have the same number when they have the same letters and digits, in lower case. */
struct qkv_sentence_numbers {
    int32_t *number[2];     /* [count]: of the sentence of each pair */
    const int64_t *uses[2]; /* [number]: pairs that have the sentence */
    int64_t different[2];
    bool *is_new; /* [count]: false for a pair that is equal to an earlier one, in every character */
    /* private */
    struct qkv_types types[2];
};

/* False when memory runs out: then there is nothing to release. */
bool qkv_sentence_numbers_init(struct qkv_sentence_numbers *numbers, const struct qkv_pairs *pairs);
void qkv_sentence_numbers_release(struct qkv_sentence_numbers *numbers);

#endif
