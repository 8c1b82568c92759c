/* What a page holds of how its model learned: snapshots of training, and the losses of metrics.jsonl. */
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
     * "training": [[update, loss of training]]}; the first moment is that of the random weights, the last that of the model of
     * the page. training_loss: mean of the logged interval of training that holds the update, up to the update training_until.
     * page_heads.h adds loss and errors, where there are pairs and gold links. */
    char *json;
    int64_t snapshot_count;
    struct page_snapshot *snapshots; /* [snapshot_count]: of the moments between */
};

/* Collects it. At most `max` snapshots, evenly chosen among those of the run that are younger than the model of the page.
 * The parameters of the run are overwritten. Release it also after a failure. */
enum qkv_status page_learning_collect(struct page_learning *learning, struct qkv_run *run,
                                      const struct page_heads *heads, int64_t max,
                                      enum qkv_packed_numbers numbers, struct qkv_error *error);
void page_learning_release(struct page_learning *learning);

#endif
