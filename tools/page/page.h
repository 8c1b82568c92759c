/* Writes the page: one HTML file that holds the engine, and a model or scenes. */
#pragma once

#include "attention_options.h"
#include "command.h"

#include "core/text.h"
#include "run/packed_run.h"

/* ---- write.c ---- */

/* A page under way. Caller's storage, all zero at first. */
struct page {
    struct bytes html;
    const char *rest; /* HTML: what comes behind the script elements */
};

/* Whether this qkv has the files of the page. */
bool page_is_built(void);

/* Begins with the HTML up to the engine, and the engine. */
void page_begin(struct page *page);

/* Adds a script element with these attributes, which browsers do not run: compressed bytes, or JSON, which is freed. */
void page_add_data(struct page *page, const char *attributes, const void *bytes, size_t size);
void page_add_json(struct page *page, const char *attributes, struct cJSON *json);

/* Adds the texts of the lesson, lesson/<language>.json. */
void page_add_lesson(struct page *page);

/* Writes the page to a file, whose name it prints to standard error, or to standard output ("-"). After a failure, the file
 * does not exist, or is unchanged if it existed before. */
enum qkv_status page_write(struct page *page, const char *output, struct qkv_error *error);
void page_release(struct page *page);

/* A scene of the tutorials that is a part of qkv, in the order in which they are read, from 0; NULL: there are no more. */
struct page_scene {
    const char *file, *tutorial; /* file in configs/seeds, and the tutorial that it repeats */
    const char *text;            /* YAML */
};

const struct page_scene *page_scene(int64_t index);

/* ---- learning.c ---- */

/* Measures that a page shows about the heads and the training of its model. */
struct page_options {
    const char *pairs;          /* file of the pairs; NULL: nothing is measured */
    int64_t max_pairs;          /* only the first `max_pairs` pairs of the file are used */
    struct links_options links; /* path NULL: alignment errors are not measured */
    int64_t threads;
    int64_t
        snapshots; /* at most, chosen evenly from those of updates between the random weights and the model of the page */
    enum qkv_packed_numbers numbers;
};

/* Adds two texts of JSON, and the snapshots. Overwrites the parameters of the run.
 *
 * heads-data, only with pairs: {"pairs", "file", "loss", "bleu", "heads": [{"name", "loss", "bleu"}]}, where loss and BLEU
 * of a head are the changes if only this head is silenced.
 *
 * learning-data: {"moments": [{"update", "training_loss", "training_until", "loss", "errors"}], "curve": [[update, loss on
 * data.dev]], "training": [[update, loss of training]]}. The first moment has the random weights, the last one the model of
 * the page. training_loss: mean over the logged interval that contains the update and ends with the update training_until.
 * loss: nats per token of the pairs. errors: the alignment error rate of each head, 0 to 1; null for a head that is not of
 * cross attention. Of the two readings of a map (metrics/alignment.h), it is the one with the lower error for the
 * parameters of the page. */
enum qkv_status page_add_learning(struct page *page, struct qkv_run *run, const struct page_options *options,
                                  struct qkv_error *error);
