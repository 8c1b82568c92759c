/* Private to report: declarations shared by aligner.c and aligner_choose.c. */
#ifndef QKV_REPORT_ALIGNER_H
#define QKV_REPORT_ALIGNER_H

#include "qkv/aligner.h"
#include "report/forced.h"
#include "report/word_map.h"

/* One direction of translation, with its run. */
struct aligner_direction {
    const struct qkv_run *run;
    struct qkv_aligner_map map;         /* the map in use; head QKV_ATTENTION_BEST until one is chosen */
    struct qkv_aligner_map *candidates; /* [candidate_count]: the heads to choose from */
    int64_t candidate_count;
    struct value_norms norms; /* empty unless the options want norms */
};

/* Working memory of a thread. Slot j computes the groups j, j + slots, j + 2 slots, ... */
struct aligner_slot {
    struct forced_passes passes[2];
    struct qkv_arena scratch; /* of one pair */
    struct qkv_arena results; /* of one run */
    enum qkv_status status;
    struct qkv_error error;
};

struct qkv_aligner {
    struct qkv_aligner_options options;
    int direction_count; /* 1 or 2 */
    struct aligner_direction direction[2];
    struct qkv_workers *workers;
    int slots;
    struct aligner_slot *slot; /* [slots] */
    struct qkv_arena arena;
};

/* Processes one group of at most FORCED_MAX pairs: first .. first + count - 1. */
typedef enum qkv_status aligner_function(void *context, struct aligner_slot *slot, int64_t first,
                                         int64_t count);

/* Splits `count` pairs into groups and calls the function for each, on all threads. Returns the error of the first slot that
 * has one. */
enum qkv_status qkv_aligner_for_groups(struct qkv_aligner *aligner, int64_t count, aligner_function *function,
                                       void *context, struct qkv_error *error);

/* The word map of a report for a layer and head, in slot->scratch, and the number of its words. */
enum qkv_status qkv_aligner_word_map(const struct qkv_aligner *aligner, struct aligner_slot *slot,
                                     const struct forced_pair *pair, struct qkv_aligner_map map,
                                     struct qkv_word_map *words);

#endif
