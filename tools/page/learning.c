/* What a page shows about the heads of its model, measured on sentence pairs, and how the model learned: snapshots and
 * losses. */
#include "page/page.h"
#include "train/training.h"

#include "search_options.h"

#include "checkpoint/safetensors.h"
#include "data/corpus.h"
#include "run/training_log.h"

struct learning {
    struct page *page;
    struct qkv_run *run; /* its present parameters are those of the moment that is added next */
    const struct page_options *options;
    struct qkv_corpus corpus;        /* the pairs, if there are any */
    struct qkv_measured_heads heads; /* with the parameters of the page */
    /* Arrays of the JSON. The losses of metrics.jsonl are [update, loss] each; those of training are without label
     * smoothing, so that they compare with those of validations. */
    cJSON *moments, *curve /* of validations */, *training /* of logged intervals */;
};

/* ---- heads ---- */

static void show_progress(void *context, int64_t done, int64_t total)
{
    char text[64];
    snprintf(text, sizeof text, "measuring heads: pass %lld of %lld", (long long)done, (long long)total);
    progress_bar_show(context, (double)done / (double)total, text);
}

static enum qkv_status read_pairs(struct learning *learning, struct qkv_error *error)
{
    struct qkv_run *run = learning->run;
    const char *path = learning->options->pairs;
    const struct qkv_corpus_options read = {.keep_raw = true,
                                            .max_pairs = learning->options->max_pairs,
                                            .third_column = learning->options->links.path};
    if (qkv_corpus_read(&learning->corpus, path, &run->config.data, read, error) ||
        qkv_corpus_fits(&learning->corpus, path, &run->model->config, error))
        return QKV_INVALID;
    return qkv_corpus_encode(&learning->corpus, &run->source, &run->target, error);
}

static enum qkv_status measure_heads(struct learning *learning, struct qkv_error *error)
{
    const struct page_options *options = learning->options;
    struct qkv_run *run = learning->run;
    if (read_pairs(learning, error)) return QKV_INVALID;
    struct qkv_workers *workers = qkv_workers_new((int)options->threads, error);
    if (!workers) return QKV_INVALID;
    struct progress_bar bar = progress_bar_on(stderr);
    const struct qkv_heads_options measure = {
        .links = options->links.path,
        .links_from = links_from(&options->links),
        .testing = run->config.testing,
        .workers = workers,
        .progress = show_progress,
        .context = &bar,
    };
    /* Measuring heads needs gradients, which do not exist for int8 products. */
    enum qkv_status status = set_precision(run->model, "float32", error);
    if (!status) status = qkv_heads_measure(run, &learning->corpus, &measure, &learning->heads, error);
    progress_bar_clear(&bar);
    qkv_workers_free(workers);
    return status;
}

static void add_head(cJSON *array, const struct qkv_measured_head *head)
{
    cJSON *object = cJSON_CreateObject();
    char name[64];
    cJSON_AddItemToArray(array, object);
    qkv_head_name(head->head, name, sizeof name);
    for (char *dot = strchr(name, '.'); dot; dot = strchr(dot, '.')) *dot = '-'; /* as the page names heads */
    cJSON_AddStringToObject(object, "name", name);
    JSON_NUMBERS(object, {"loss", head->value[QKV_HEAD_LOSS]}, {"bleu", head->value[QKV_HEAD_BLEU]});
}

static enum qkv_status add_heads(struct learning *learning, struct qkv_error *error)
{
    if (measure_heads(learning, error)) return QKV_INVALID;
    const struct qkv_measured_heads *heads = &learning->heads;
    const char *path = learning->options->pairs, *slash = strrchr(path, '/');
    cJSON *root = cJSON_CreateObject();
    cJSON_AddNumberToObject(root, "pairs", (double)heads->sentences);
    cJSON_AddStringToObject(root, "file", slash ? slash + 1 : path);
    JSON_NUMBERS(root, {"loss", heads->loss}, {"bleu", heads->bleu});
    cJSON *array = cJSON_AddArrayToObject(root, "heads");
    for (int64_t i = 0; i < heads->count; i++) add_head(array, &heads->heads[i]);
    page_add_json(learning->page, "id=\"heads-data\"", root);
    return QKV_OK;
}

/* ---- moments of training ---- */

/* Adds the loss of the pairs, unless it is not finite. */
static enum qkv_status add_loss(const struct learning *learning, cJSON *moment, struct qkv_error *error)
{
    struct qkv_run *run = learning->run;
    struct qkv_scores scores;
    struct qkv_evaluator *evaluator = qkv_evaluator_new(run->model, &learning->corpus, &run->config.data.trg,
                                                        &run->target, NULL, &run->config.testing, error);
    enum qkv_status status =
        evaluator ? qkv_evaluator_run_references(evaluator, &scores, error) : QKV_INVALID;
    qkv_evaluator_free(evaluator);
    if (!status) cJSON_AddNumberToObject(moment, "loss", scores.value[QKV_METRIC_LOSS]);
    return status == QKV_FAILED ? QKV_OK : status;
}

static enum qkv_alignment_reading reading_of(const struct qkv_measured_head *head)
{
    return head->value[QKV_HEAD_ERROR_READ] < head->value[QKV_HEAD_ERROR_PREDICTED] ? QKV_READING_READ
                                                                                    : QKV_READING_PREDICTED;
}

/* The error rate of a head; NaN for one that the score does not have. */
static double error_of(const struct qkv_alignment_score *score, const struct qkv_measured_head *head)
{
    for (int64_t i = 0; head->head.attention == QKV_ATTENTION_CROSS && i < score->count; i++) {
        struct qkv_alignment_result result = score->results[i];
        if (result.drawing == QKV_DRAWING_TARGET && result.reading == reading_of(head) &&
            result.layer == head->head.layer && result.head == head->head.head)
            return result.error_rate;
    }
    return (double)NAN;
}

static enum qkv_status add_errors(const struct learning *learning, cJSON *moment, struct qkv_error *error)
{
    const struct links_options *links = &learning->options->links;
    struct qkv_alignment_score score = {0};
    cJSON *errors = cJSON_AddArrayToObject(moment, "errors");
    enum qkv_status status = qkv_alignment_evaluate(learning->run, &learning->corpus, links->path,
                                                    links_from(links), &score, error);
    for (int64_t i = 0; !status && i < learning->heads.count; i++) {
        double rate = error_of(&score, &learning->heads.heads[i]);
        cJSON_AddItemToArray(errors, isnan(rate) ? cJSON_CreateNull() : cJSON_CreateNumber(rate));
    }
    qkv_alignment_score_release(&score);
    return status;
}

/* A mean loss in training, and the last update that it covers. */
struct training_loss {
    double loss; /* NaN: unknown */
    int64_t until;
};

/* Adds a moment, without members that are not known. */
static enum qkv_status add_moment(const struct learning *learning, int64_t update,
                                  struct training_loss training, struct qkv_error *error)
{
    cJSON *moment = cJSON_CreateObject();
    cJSON_AddItemToArray(learning->moments, moment);
    cJSON_AddNumberToObject(moment, "update", (double)update);
    if (isfinite(training.loss)) {
        JSON_NUMBERS(moment, {"training_loss", training.loss}, {"training_until", (double)training.until});
    }
    if (!learning->options->pairs) return QKV_OK;
    if (add_loss(learning, moment, error)) return QKV_INVALID;
    return learning->options->links.path ? add_errors(learning, moment, error) : QKV_OK;
}

static void add_point(cJSON *points, double update, double loss)
{
    if (!isnan(loss)) cJSON_AddItemToArray(points, cJSON_CreateDoubleArray((double[]){update, loss}, 2));
}

/* The loss of the logged interval that contains an update: the first one that ends at the update or later. If there is none,
 * the loss `otherwise`, of the update alone. */
static struct training_loss training_loss(const struct learning *learning, int64_t update, double otherwise)
{
    const cJSON *point;
    cJSON_ArrayForEach(point, learning->training)
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
static enum qkv_status read_metrics(const struct learning *learning, struct qkv_error *error)
{
    struct qkv_training_log log = {0};
    enum qkv_status status = qkv_training_log_read(&log, learning->run->path, error);
    for (int64_t i = 0; i < log.validations && !status; i++)
        add_point(learning->curve, log.validation[i].place.update, log.validation[i].score[QKV_METRIC_LOSS]);
    for (int64_t i = 0; i < log.intervals && !status; i++) {
        const struct qkv_log_interval *interval = &log.interval[i];
        /* Old versions of qkv did not log the cross-entropy. */
        add_point(learning->training, interval->place.update,
                  isnan(interval->cross_entropy) ? interval->loss : interval->cross_entropy);
    }
    qkv_training_log_release(&log);
    return status;
}

/* Loads and packs the snapshot of an update. */
static enum qkv_status add_snapshot(const struct learning *learning, int64_t update, struct qkv_error *error)
{
    struct qkv_run *run = learning->run;
    struct qkv_error inner = {""};
    unsigned char *bytes = NULL;
    size_t size;
    double loss;
    if (qkv_snapshot_load(run, update, &loss, error)) return QKV_INVALID;
    if (qkv_run_pack_parameters(run, learning->options->numbers, &bytes, &size, &inner))
        return qkv_error_set(error, "%s: snapshot-%lld: %s: keep all digits with --numbers float32",
                             run->path, (long long)update, inner.message);
    page_add_data(learning->page, "class=\"snapshot-data\"", bytes, size);
    free(bytes);
    return add_moment(learning, update, training_loss(learning, update, loss), error);
}

static enum qkv_status add_moments(const struct learning *learning, struct qkv_error *error)
{
    struct qkv_run *run = learning->run;
    int64_t *updates, count, first = 0, last = INT64_MAX;
    if (qkv_state_get_count(&run->state, "train.update", &last, NULL)) last = INT64_MAX;
    if (read_metrics(learning, error) || qkv_snapshots_find(run, &updates, &count, error) ||
        add_moment(learning, last == INT64_MAX ? -1 : last,
                   training_loss(learning, last, qkv_checkpoint_loss(&run->state)), error))
        return QKV_INVALID;
    while (first < count && updates[first] == 0) first++; /* the page makes the random weights itself */
    while (count > first && updates[count - 1] >= last) count--;
    int64_t between = count - first, most = learning->options->snapshots,
            chosen = between < most ? between : most;
    qkv_parameters_initialize(&run->model->parameters, (uint64_t)run->config.training.random_seed);
    if (add_moment(learning, 0, (struct training_loss){(double)NAN, 0}, error)) return QKV_INVALID;
    for (int64_t i = 0; i < chosen; i++)
        if (add_snapshot(learning, updates[first + (2 * i + 1) * between / (2 * chosen)], error))
            return QKV_INVALID;
    /* The moment of the model of the page was added first, before the parameters of the run were overwritten. */
    cJSON_AddItemToArray(learning->moments, cJSON_DetachItemFromArray(learning->moments, 0));
    thin_out(learning->training);
    return QKV_OK;
}

enum qkv_status page_add_learning(struct page *page, struct qkv_run *run, const struct page_options *options,
                                  struct qkv_error *error)
{
    cJSON *root = cJSON_CreateObject();
    struct learning learning = {.page = page,
                                .run = run,
                                .options = options,
                                .moments = cJSON_AddArrayToObject(root, "moments"),
                                .curve = cJSON_AddArrayToObject(root, "curve"),
                                .training = cJSON_AddArrayToObject(root, "training")};
    enum qkv_status status = options->pairs ? add_heads(&learning, error) : QKV_OK;
    if (!status) status = add_moments(&learning, error);
    page_add_json(page, "id=\"learning-data\"", root);
    qkv_measured_heads_release(&learning.heads);
    qkv_corpus_release(&learning.corpus);
    return status;
}
