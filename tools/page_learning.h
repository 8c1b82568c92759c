/* Data for a page about the training of its model: snapshots, and the losses of metrics.jsonl. */
#ifndef QKV_TOOLS_PAGE_LEARNING_H
#define QKV_TOOLS_PAGE_LEARNING_H

#include "page_heads.h"

#include "qkv/run.h"
#include "run/packed_run.h"

/* Parameters of an update, as qkv_run_pack_parameters packs them. */
struct page_snapshot {
    unsigned char *bytes;
    size_t size;
};

struct page_learning {
    /* {"moments": [{"update", "training_loss", "training_until", "loss", "errors"}], "curve": [[update, loss on data.dev]],
     * "training": [[update, loss of training]]}. The first moment has the random weights, the last one the model of the page.
     * training_loss: mean over the logged interval that contains the update and ends with the update training_until. loss and
     * errors come from page_heads.h, if there are pairs and gold links. */
    char *json;
    int64_t snapshot_count;
    struct page_snapshot *snapshots; /* [snapshot_count]: of the moments between */
};

/* Collects the data, with at most `max` snapshots, chosen evenly from those of updates between the random weights and the model
 * of the page. Overwrites the parameters of the run. Release the data even after a failure. */
enum qkv_status page_learning_collect(struct page_learning *learning, struct qkv_run *run,
                                      const struct page_heads *heads, int64_t max,
                                      enum qkv_packed_numbers numbers, struct qkv_error *error);
void page_learning_release(struct page_learning *learning);

#endif
