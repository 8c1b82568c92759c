/* English-Spanish sentence pairs with gold word alignments: train.tsv, dev.tsv, test.tsv (source, tab, target), dev.align,
 * test.align (Pharaoh `i-j`), held_out.tsv (the combinations of words that train.tsv never contains). datasets/README.md
 * gives the reasons. */
#pragma once

#include "datasets/generate/dataset.h"

enum {
    EN_ES_SHORTEST = 3, /* words of a sentence of a single clause, on both sides */
    EN_ES_LONGEST = 14,
    EN_ES_LIMIT = 120, /* most words of any sentence, on both sides */
    EN_ES_TRAIN = 24000,
    EN_ES_TEST = 1000,          /* default pairs of test, and of dev */
    EN_ES_HELD_OUT_PERCENT = 60 /* percent of the dev and test pairs that have a held-out combination */
};

struct en_es_request {
    struct dataset_request request;
    const char *lexicon; /* path of the file */
    /* All 0: single clauses. Otherwise sentences of any structure whose English and Spanish words are within these bounds,
     * all English lengths equally frequent; longest_test is for dev and test. From EN_ES_SHORTEST to EN_ES_LIMIT. No
     * sentence is in the dev or test set of single clauses of the same seed. */
    int64_t shortest, longest, longest_test;
};

/* Counts of the generated data. */
struct en_es_statistics {
    int64_t pairs[SPLITS], held_out[SPLITS];           /* pairs; those with a held-out combination */
    int64_t words[SPLITS][2];                          /* English and Spanish */
    int64_t types[SPLITS][2];                          /* different English and Spanish words */
    int64_t links[SPLITS];                             /* of the word alignments */
    int64_t combinations[2], combinations_held_out[2]; /* [enum combination] */
};

/* Each English sentence comes once in all three files; with request.stream, those of train may repeat. */
enum qkv_status en_es_generate(const struct en_es_request *request, struct en_es_statistics *statistics,
                               struct qkv_error *error);
