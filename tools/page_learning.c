/* How the model of a page learned. */
#include "page_learning.h"

#include "json.h"

#include "qkv/file.h"
#include "qkv/lines.h"
#include "run/snapshots.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds {"update", "loss"}; without a loss where it is not known. */
static void add_moment(cJSON *moments, int64_t update, double loss)
{
    cJSON *moment = cJSON_CreateObject();
    cJSON_AddItemToArray(moments, moment);
    cJSON_AddNumberToObject(moment, "update", (double)update);
    if (isfinite(loss)) cJSON_AddNumberToObject(moment, "loss", loss);
}

/* What metrics.jsonl says. */
struct metrics {
    cJSON *curve;   /* gets [update, loss] of each validation */
    int64_t update; /* whose training loss is wanted */
    double loss;    /* that loss; NaN: not logged */
};

static void read_metrics_line(struct metrics *metrics, const char *line)
{
    cJSON *object = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(object, "kind"));
    const cJSON *update = cJSON_GetObjectItem(object, "update"), *loss = cJSON_GetObjectItem(object, "loss");
    bool complete = kind && cJSON_IsNumber(update) && cJSON_IsNumber(loss);
    if (complete && !strcmp(kind, "validation")) {
        double pair[] = {update->valuedouble, loss->valuedouble};
        cJSON_AddItemToArray(metrics->curve, cJSON_CreateDoubleArray(pair, 2));
    }
    if (complete && !strcmp(kind, "train") && update->valuedouble == (double)metrics->update)
        metrics->loss = loss->valuedouble;
    cJSON_Delete(object);
}

/* A page does without the curve where there is no metrics.jsonl. */
static enum qkv_status read_metrics(struct metrics *metrics, struct qkv_run *run, struct qkv_error *error)
{
    const char *path = qkv_run_file(&run->arena, run->path, QKV_RUN_METRICS);
    struct qkv_lines lines = {0};
    bool found = true;
    if (!path) return qkv_error_set(error, "out of memory for the page");
    if (!qkv_path_exists(path)) return QKV_OK;
    if (qkv_lines_open(&lines, path, error)) return QKV_INVALID;
    enum qkv_status status = QKV_OK;
    while (!status && !(status = qkv_lines_next(&lines, &found, error)) && found)
        read_metrics_line(metrics, lines.line);
    qkv_lines_close(&lines);
    return status;
}

/* Loads and packs the snapshot of an update. */
static enum qkv_status add_snapshot(struct page_learning *learning, struct qkv_run *run, int64_t update,
                                    enum qkv_packed_numbers numbers, cJSON *moments, struct qkv_error *error)
{
    struct page_snapshot *snapshot = &learning->snapshots[learning->snapshot_count];
    struct qkv_error inner = {""};
    double loss;
    if (qkv_snapshot_load(run, update, &loss, error)) return QKV_INVALID;
    if (qkv_run_pack_parameters(run, numbers, &snapshot->bytes, &snapshot->size, &inner))
        return qkv_error_set(error, "%s: snapshot-%lld: %s: keep all digits with --numbers float32",
                             run->path, (long long)update, inner.message);
    learning->snapshot_count++;
    add_moment(moments, update, loss);
    return QKV_OK;
}

static enum qkv_status collect(struct page_learning *learning, struct qkv_run *run, int64_t most,
                               enum qkv_packed_numbers numbers, cJSON *root, struct qkv_error *error)
{
    cJSON *moments = cJSON_AddArrayToObject(root, "moments");
    int64_t *updates, count, first = 0, last = INT64_MAX;
    if (qkv_state_get_count(&run->state, "train.update", &last, NULL)) last = INT64_MAX;
    if (qkv_snapshots_find(run, &updates, &count, error)) return QKV_INVALID;
    while (first < count && updates[first] == 0) first++; /* the engine makes the random weights */
    while (count > first && updates[count - 1] >= last) count--;
    int64_t between = count - first, chosen = between < most ? between : most;
    learning->snapshots = calloc((size_t)chosen + 1, sizeof *learning->snapshots);
    if (!learning->snapshots) return qkv_error_set(error, "out of memory for the page");
    add_moment(moments, 0, (double)NAN);
    for (int64_t i = 0; i < chosen; i++) {
        int64_t place = first + (2 * i + 1) * between / (2 * chosen);
        if (add_snapshot(learning, run, updates[place], numbers, moments, error)) return QKV_INVALID;
    }
    struct metrics metrics = {cJSON_AddArrayToObject(root, "curve"), last, qkv_checkpoint_loss(&run->state)};
    if (read_metrics(&metrics, run, error)) return QKV_INVALID;
    add_moment(moments, last == INT64_MAX ? -1 : last, metrics.loss);
    return QKV_OK;
}

enum qkv_status page_learning_collect(struct page_learning *learning, struct qkv_run *run, int64_t most,
                                      enum qkv_packed_numbers numbers, struct qkv_error *error)
{
    *learning = (struct page_learning){0};
    json_watch_memory();
    cJSON *root = cJSON_CreateObject();
    enum qkv_status status = collect(learning, run, most, numbers, root, error);
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
