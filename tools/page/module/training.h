/* A small model that is trained in the page, on pairs of sentences that are a text in memory. The trainer is that of `qkv
 * train` (train/training.h), without files and threads. */
#ifndef QKV_PAGE_TRAINING_H
#define QKV_PAGE_TRAINING_H

#include "page/module/translation.h"
#include "train/training.h"

enum {
    PAGE_MAX_LOSSES = 4096, /* updates of one call of page_train */
};

/* Caller's storage, all zero at first. */
struct page_training {
    struct qkv_config config;
    struct qkv_arena arena; /* of the config */
    struct training training;
    struct page_translation sentence; /* borrows model and vocabularies of the training */
    double losses[PAGE_MAX_LOSSES];   /* of the updates of the last page_train: nats per target token */
    int64_t loss_count;
};

/* Makes pairs by a task of `qkv generate`, such as "reverse": lines source<TAB>target, to be freed. NULL, with a message,
 * when there is no such task, or no memory. */
char *page_generate(const char *task, struct qkv_error *error);

/* Reads the pairs and makes a model with random parameters, in place of the one before. Fails with the number of the line
 * that is no pair; there is no model then. */
enum qkv_status page_training_begin(struct page_training *t, const char *pairs, size_t size, uint64_t seed,
                                    struct qkv_error *error);

/* Does up to `updates` updates at a constant learning rate. */
enum qkv_status page_train(struct page_training *t, int64_t updates, double learning_rate,
                           struct qkv_error *error);

void page_training_release(struct page_training *t);

/* Makes a text in memory the one that is read as the file `pairs.tsv`. It must live until it is read. */
void page_set_file(const char *bytes, size_t size);

#endif
