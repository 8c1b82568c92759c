/* What all generators share: the request, random choices, and a folder whose files are written together. */
#pragma once

#include "core/file.h"

enum split { TRAIN, DEV, TEST, SPLITS };

struct dataset_request {
    const char *folder; /* created when it does not exist */
    bool overwrite;     /* false: existing files are an error */
    uint64_t seed;
    int64_t count[SPLITS]; /* lines of each file */
    /* Write the lines of train when they are drawn: memory for dev and test alone. They come first then, so that train
     * leaves out their sources, and lines of train may repeat. */
    bool stream;
};

/* ---- random choices: all depend only on the seed, the sub-stream and the step, so that the same seed gives the same data
 * everywhere ---- */

/* Each part of the generators has random numbers of its own: a sub-stream of QKV_STREAM_GENERATE (qkv/base.h). */
enum { STREAM_HELD_OUT = 1, STREAM_CLAUSE, STREAM_SEQUENCE, STREAM_SENTENCE };

/* The random numbers of a sub-stream (STREAM_...) and a step: a split, SPLITS + a split for the order of its lines, or a
 * kind of combination. */
static inline struct qkv_random generate_random(uint64_t seed, int stream, int step)
{
    return (struct qkv_random){.seed = seed,
                               .stream = (uint32_t)QKV_STREAM_GENERATE | (uint32_t)stream << 8,
                               .step = (uint32_t)step};
}

/* A sequence of random choices. */
struct dice {
    struct qkv_random random;
    uint64_t rolls; /* choices so far */
};

/* A number from 0 to bound - 1. */
static inline int64_t dice_below(struct dice *dice, int64_t bound)
{
    return (int64_t)qkv_random_below(dice->random, dice->rolls++, (uint64_t)bound);
}

/* True with this probability, in percent. */
static inline bool dice_percent(struct dice *dice, int percent)
{
    return dice_below(dice, 100) < percent;
}

/* One in so many combinations of two words is held out of training. */
enum { HELD_OUT_ONE_IN = 8 };

enum combination { ADJECTIVE_NOUN, VERB_OBJECT };

/* True when a combination of two words is held out. `first` and `second` are their indices in the
 * lists of the lexicon: adjective and noun, or verb and noun. */
static inline bool is_held_out(uint64_t seed, enum combination kind, int64_t first, int64_t second)
{
    uint64_t index = (uint64_t)first << 32 | (uint64_t)second;
    return qkv_random_below(generate_random(seed, STREAM_HELD_OUT, (int)kind), index, HELD_OUT_ONE_IN) == 0;
}

/* ---- files ---- */

enum { MAX_DATASET_FILES = 8 };

/* Caller's storage. */
struct dataset_files {
    struct qkv_file_writer writer[MAX_DATASET_FILES];
    int count;
};

/* Creates the folder and begins `count` files in it. Fails, before anything is changed, when one of them exists and must
 * not be replaced. After a failure nothing needs to be abandoned. */
enum qkv_status dataset_files_begin(struct dataset_files *files, const struct dataset_request *request,
                                    const char *const *names, int count, struct qkv_error *error);

/* Commits all files, in order, if `status` says that all went well, else abandons them; the first failure abandons the rest. */
enum qkv_status dataset_files_end(struct dataset_files *files, enum qkv_status status,
                                  struct qkv_error *error);

/* Fails when a line could not be written. Call it after each line, so that a full disk ends a long generation at once. */
enum qkv_status dataset_line_check(const struct qkv_file_writer *writer, struct qkv_error *error);
