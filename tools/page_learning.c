/* Collects snapshots and losses that show how the model of a page learned. */
#include "page_learning.h"

#include "print.h"

#include "run/checkpoints.h"
#include "run/training_log.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The sources of the moments of training, and the array that collects them. */
struct moments {
    struct qkv_run *run; /* its present parameters are those of the moment that is added next */
    const struct page_heads *heads;
    enum qkv_packed_numbers numbers;
    cJSON *array;
};

/* A mean loss in training, and the last update that it covers. */
struct training_loss {
    double loss; /* NaN: unknown */
    int64_t until;
};

/* Adds {"update", "training_loss", "training_until", "loss", "errors"}, without members that are not known. */
static enum qkv_status add_moment(const struct moments *moments, int64_t update,
                                  struct training_loss training, struct qkv_error *error)
{
    cJSON *moment = cJSON_CreateObject();
    cJSON_AddItemToArray(moments->array, moment);
    cJSON_AddNumberToObject(moment, "update", (double)update);
    if (isfinite(training.loss)) {
        cJSON_AddNumberToObject(moment, "training_loss", training.loss);
        cJSON_AddNumberToObject(moment, "training_until", (double)training.until);
    }
    if (page_heads_add_loss(moments->heads, moments->run, moment, error)) return QKV_INVALID;
    if (!page_heads_has_links(moments->heads)) return QKV_OK;
    return page_heads_add_errors(moments->heads, moments->run, moment, error);
}

/* The losses in metrics.jsonl, [update, loss] each. Those of training are without label smoothing, so that they compare with
 * those of validations. */
struct metrics {
    cJSON *curve;    /* of validations */
    cJSON *training; /* of logged intervals */
};

static void add_point(cJSON *points, double update, double loss)
{
    if (!isnan(loss)) cJSON_AddItemToArray(points, cJSON_CreateDoubleArray((double[]){update, loss}, 2));
}

/* The loss of the logged interval that contains an update: the first one that ends at the update or later. If there is none,
 * the loss `otherwise`, of the update alone. */
static struct training_loss training_loss(const struct metrics *metrics, int64_t update, double otherwise)
{
    const cJSON *point;
    cJSON_ArrayForEach(point, metrics->training)
    {
        double until = cJSON_GetNumberValue(point->child);
        if (until >= (double)update)
            return (struct training_loss){cJSON_GetNumberValue(point->child->next), (int64_t)until};
    }
    return (struct training_loss){otherwise, update};
}

/* Removes points, so that a curve has at most as many as it can show. Keeps the last one. */
static void thin_out(cJSON *points)
{
    enum { CAPACITY = 400 };
    int count = cJSON_GetArraySize(points), step = (count + CAPACITY - 1) / CAPACITY, place = 0;
    cJSON *point = points->child, *next;
    for (; point; point = next, place++) {
        next = point->next;
        if (step > 1 && (count - 1 - place) % step) cJSON_Delete(cJSON_DetachItemViaPointer(points, point));
    }
}

/* Reads metrics.jsonl. If it does not exist, the curves stay empty. */
static enum qkv_status read_metrics(struct metrics *metrics, const struct qkv_run *run,
                                    struct qkv_error *error)
{
    struct qkv_training_log log = {0};
    enum qkv_status status = qkv_training_log_read(&log, run->path, error);
    for (int64_t i = 0; i < log.validations && !status; i++)
        add_point(metrics->curve, log.validation[i].place.update, log.validation[i].score[QKV_METRIC_LOSS]);
    for (int64_t i = 0; i < log.intervals && !status; i++) {
        const struct qkv_log_interval *interval = &log.interval[i];
        /* Old versions of qkv did not log the cross-entropy. */
        add_point(metrics->training, interval->place.update,
                  isnan(interval->cross_entropy) ? interval->loss : interval->cross_entropy);
    }
    qkv_training_log_release(&log);
    return status;
}

/* Loads and packs the snapshot of an update. */
static enum qkv_status add_snapshot(struct page_learning *learning, const struct moments *moments,
                                    const struct metrics *metrics, int64_t update, struct qkv_error *error)
{
    struct page_snapshot *snapshot = &learning->snapshots[learning->snapshot_count];
    struct qkv_run *run = moments->run;
    struct qkv_error inner = {""};
    double loss;
    if (qkv_snapshot_load(run, update, &loss, error)) return QKV_INVALID;
    if (qkv_run_pack_parameters(run, moments->numbers, &snapshot->bytes, &snapshot->size, &inner))
        return qkv_error_set(error, "%s: snapshot-%lld: %s: keep all digits with --numbers float32",
                             run->path, (long long)update, inner.message);
    learning->snapshot_count++;
    return add_moment(moments, update, training_loss(metrics, update, loss), error);
}

/* Moves the moment of the model of the page to the end. It is added first, before the parameters of the run are overwritten. */
static void move_first_to_end(cJSON *array)
{
    cJSON_AddItemToArray(array, cJSON_DetachItemFromArray(array, 0));
}

static enum qkv_status collect(struct page_learning *learning, const struct moments *moments, int64_t max,
                               cJSON *root, struct qkv_error *error)
{
    struct qkv_run *run = moments->run;
    int64_t *updates, count, first = 0, last = INT64_MAX;
    if (qkv_state_get_count(&run->state, "train.update", &last, NULL)) last = INT64_MAX;
    struct metrics metrics = {cJSON_AddArrayToObject(root, "curve"),
                              cJSON_AddArrayToObject(root, "training")};
    if (read_metrics(&metrics, run, error) || qkv_snapshots_find(run, &updates, &count, error) ||
        add_moment(moments, last == INT64_MAX ? -1 : last,
                   training_loss(&metrics, last, qkv_checkpoint_loss(&run->state)), error))
        return QKV_INVALID;
    while (first < count && updates[first] == 0) first++; /* the page makes the random weights itself */
    while (count > first && updates[count - 1] >= last) count--;
    int64_t between = count - first, chosen = between < max ? between : max;
    learning->snapshots = calloc((size_t)chosen + 1, sizeof *learning->snapshots);
    if (!learning->snapshots) return qkv_error_set(error, "out of memory for the page");
    qkv_parameters_initialize(&run->model->parameters, (uint64_t)run->config.training.random_seed);
    if (add_moment(moments, 0, (struct training_loss){(double)NAN, 0}, error)) return QKV_INVALID;
    for (int64_t i = 0; i < chosen; i++)
        if (add_snapshot(learning, moments, &metrics, updates[first + (2 * i + 1) * between / (2 * chosen)],
                         error))
            return QKV_INVALID;
    move_first_to_end(moments->array);
    thin_out(metrics.training);
    return QKV_OK;
}

enum qkv_status page_learning_collect(struct page_learning *learning, struct qkv_run *run,
                                      const struct page_heads *heads, int64_t max,
                                      enum qkv_packed_numbers numbers, struct qkv_error *error)
{
    *learning = (struct page_learning){0};
    cJSON *root = cJSON_CreateObject();
    const struct moments moments = {run, heads, numbers, cJSON_AddArrayToObject(root, "moments")};
    enum qkv_status status = collect(learning, &moments, max, root, error);
    if (!status) learning->json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (!status && (!learning->json || json_memory_is_out()))
        status = qkv_error_set(error, "out of memory for the page");
    return status;
}

void page_learning_release(struct page_learning *learning)
{
    for (int64_t i = 0; i < learning->snapshot_count; i++) free(learning->snapshots[i].bytes);
    free(learning->snapshots);
    cJSON_free(learning->json);
    *learning = (struct page_learning){0};
}
