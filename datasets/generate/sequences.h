/* Toy tasks on sequences of numbers: copy, reverse, sort. The defaults of the command line make Joey NMT's
 * reverse task (github.com/joeynmt/joeynmt, scripts/generate_reverse_task.py). */
#ifndef QKV_DATASETS_SEQUENCES_H
#define QKV_DATASETS_SEQUENCES_H

#include "datasets/generate/output.h"

enum sequence_task { SEQUENCE_COPY, SEQUENCE_REVERSE, SEQUENCE_SORT };

struct sequence_request {
    struct request request;
    enum sequence_task task;
    int64_t symbols; /* the numbers 0 .. symbols-1 */
    int64_t shortest, longest,
        longest_test; /* numbers of a line; lengths are uniform; longest_test also for dev */
};

/* Writes train.tsv dev.tsv test.tsv. `repeated` counts the dev and test sources that train has too: they are
 * drawn again, but some are too short for train not to have them all. */
enum qkv_status sequences_generate(const struct sequence_request *request, int64_t repeated[SPLITS],
                                   struct qkv_error *error);

#endif
