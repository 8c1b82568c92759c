/* Toy tasks on sequences of numbers (sequences.def). The defaults of the command line give the reverse task of Joey NMT
 * (github.com/joeynmt/joeynmt, scripts/generate_reverse_task.py). */
#pragma once

#include "datasets/generate/dataset.h"
#include "qkv/corpus.h"

enum sequence_task {
#define SEQUENCE_TASK(name, help) SEQUENCE_TASK_##name,
#include "datasets/generate/sequences.def"
#undef SEQUENCE_TASK
    SEQUENCE_TASKS
};

struct sequence_request {
    struct dataset_request request;
    enum sequence_task task;
    int64_t symbols; /* the numbers are 0 .. symbols-1 */
    int64_t shortest,
        longest; /* numbers of a line of train, of induction from 4; all lengths are equally likely */
    int64_t longest_test; /* the longest line of dev and test */
};

/* A number, and its place in the source, from 0. */
struct sequence_element {
    int64_t number, place;
};

/* The lines of a request, one after another. Caller's storage; sequences_release frees the memory. */
struct sequences {
    const struct sequence_request *request; /* `folder` is not read */
    char *source, *target;                  /* the current line */
    char *links;                            /* which number of the source is which of the target: "0-3 1-2" */
    /* private */
    struct qkv_types drawn; /* the sources that later splits leave out: those of train, or of dev and test */
    struct sequence_element *elements; /* of one sequence */
};

/* `request` must outlive the sequences. Fails when there is no memory. */
enum qkv_status sequences_begin(struct sequences *sequences, const struct sequence_request *request,
                                struct qkv_error *error);

/* The dice for the lines of a split, before its first line. */
struct dice sequences_dice(const struct sequences *sequences, enum split split);

/* Makes the next line of a split; train comes first, or last with request.stream. *known: the source is also in a split that
 * came before and should not have it, because that has (almost) all sequences of its length. Fails when there is no memory. */
enum qkv_status sequences_next(struct sequences *sequences, enum split split, struct dice *dice, bool *known,
                               struct qkv_error *error);
void sequences_release(struct sequences *sequences);

/* Writes train.tsv, dev.tsv and test.tsv, and the links of dev and test (dev.align, test.align); of induction, train.txt,
 * dev.txt and test.txt, whose lines have the source and then the target, the first numbers of the source. `repeated` counts the
 * lines of dev and test whose source is also in train, because train has (almost) all sequences of a short length; with
 * request.stream, the lines of train whose source is in dev or test. */
enum qkv_status sequences_generate(const struct sequence_request *request, int64_t repeated[SPLITS],
                                   struct qkv_error *error);
