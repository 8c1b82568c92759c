/* Measures the heads of the model of a page. */
#include "page_heads.h"

#include "print.h"
#include "search_options.h"
#include "terminal.h"

#include "qkv/alignment_score.h"
#include "qkv/evaluate.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void show_progress(void *context, int64_t done, int64_t total)
{
    char text[64];
    snprintf(text, sizeof text, "measuring heads: pass %lld of %lld", (long long)done, (long long)total);
    progress_bar_show(context, (double)done / (double)total, text);
}

static enum qkv_status read_pairs(struct page_heads *heads, struct qkv_run *run, struct qkv_error *error)
{
    const char *path = heads->options.pairs;
    const struct qkv_corpus_options read = {
        .keep_raw = true, .max_pairs = heads->options.max_pairs, .third_column = heads->options.links.path};
    if (qkv_corpus_read(&heads->corpus, path, &run->config.data, read, error) ||
        qkv_corpus_fits(&heads->corpus, path, &run->model->config, error))
        return QKV_INVALID;
    return qkv_corpus_encode(&heads->corpus, &run->source, &run->target, error);
}

enum qkv_status page_heads_measure(struct page_heads *heads, struct qkv_run *run,
                                   const struct page_heads_options *options, struct qkv_error *error)
{
    heads->options = *options;
    if (!options->pairs) return QKV_OK;
    if (read_pairs(heads, run, error)) return QKV_INVALID;
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
    if (!status) status = qkv_heads_measure(run, &heads->corpus, &measure, &heads->measured, error);
    progress_bar_clear(&bar);
    qkv_workers_free(workers);
    return status;
}

enum qkv_status page_heads_add_loss(const struct page_heads *heads, const struct qkv_run *run, cJSON *object,
                                    struct qkv_error *error)
{
    if (!heads->options.pairs) return QKV_OK;
    struct qkv_scores scores;
    struct qkv_evaluator *evaluator = qkv_evaluator_new(run->model, &heads->corpus, &run->config.data.trg,
                                                        &run->target, NULL, &run->config.testing, error);
    enum qkv_status status =
        evaluator ? qkv_evaluator_run_references(evaluator, &scores, error) : QKV_INVALID;
    qkv_evaluator_free(evaluator);
    if (!status) cJSON_AddNumberToObject(object, "loss", scores.value[QKV_METRIC_LOSS]);
    return status == QKV_FAILED ? QKV_OK : status;
}

bool page_heads_has_links(const struct page_heads *heads)
{
    return heads->options.pairs && heads->options.links.path;
}

/* ---- alignment errors ---- */

static enum qkv_alignment_reading reading_of(const struct qkv_measured_head *head)
{
    return head->value[QKV_HEAD_ERROR_READ] < head->value[QKV_HEAD_ERROR_PREDICTED] ? QKV_READING_READ
                                                                                    : QKV_READING_PREDICTED;
}

/* The error rate of a head; NaN for one that the score does not have. */
static double error_of(const struct qkv_alignment_score *score, const struct qkv_measured_head *head)
{
    for (int64_t i = 0; head->head.attention == QKV_ATTENTION_CROSS && i < score->count; i++) {
        struct qkv_alignment_result result = qkv_alignment_score_get(score, i);
        if (result.drawing == QKV_DRAWING_TARGET && result.reading == reading_of(head) &&
            result.layer == head->head.layer && result.head == head->head.head)
            return result.error_rate;
    }
    return (double)NAN;
}

enum qkv_status page_heads_add_errors(const struct page_heads *heads, const struct qkv_run *run,
                                      cJSON *object, struct qkv_error *error)
{
    struct qkv_alignment_score score = {0};
    cJSON *errors = cJSON_AddArrayToObject(object, "errors");
    enum qkv_status status = qkv_alignment_evaluate(run, &heads->corpus, heads->options.links.path,
                                                    links_from(&heads->options.links), &score, error);
    for (int64_t i = 0; !status && i < heads->measured.count; i++) {
        double rate = error_of(&score, &heads->measured.heads[i]);
        cJSON_AddItemToArray(errors, isnan(rate) ? cJSON_CreateNull() : cJSON_CreateNumber(rate));
    }
    qkv_alignment_score_release(&score);
    return status;
}

/* ---- the effect of silence ---- */

static void add_head(cJSON *array, const struct qkv_measured_head *head)
{
    cJSON *object = cJSON_CreateObject();
    char name[64];
    cJSON_AddItemToArray(array, object);
    qkv_head_name(head->head, name, sizeof name);
    for (char *dot = strchr(name, '.'); dot; dot = strchr(dot, '.')) *dot = '-'; /* as the page names heads */
    cJSON_AddStringToObject(object, "name", name);
    cJSON_AddNumberToObject(object, "loss", head->value[QKV_HEAD_LOSS]);
    cJSON_AddNumberToObject(object, "bleu", head->value[QKV_HEAD_BLEU]);
}

char *page_heads_json(const struct page_heads *heads)
{
    cJSON *root = heads->options.pairs ? cJSON_CreateObject() : cJSON_CreateNull();
    if (heads->options.pairs) {
        const char *path = heads->options.pairs, *slash = strrchr(path, '/');
        cJSON_AddNumberToObject(root, "pairs", (double)heads->measured.sentences);
        cJSON_AddStringToObject(root, "file", slash ? slash + 1 : path);
        cJSON_AddNumberToObject(root, "loss", heads->measured.loss);
        cJSON_AddNumberToObject(root, "bleu", heads->measured.bleu);
        cJSON *array = cJSON_AddArrayToObject(root, "heads");
        for (int64_t i = 0; i < heads->measured.count; i++) add_head(array, &heads->measured.heads[i]);
    }
    char *json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (!json_memory_is_out()) return json;
    cJSON_free(json);
    return NULL;
}

void page_heads_release(struct page_heads *heads)
{
    qkv_measured_heads_release(&heads->measured);
    qkv_corpus_release(&heads->corpus);
    *heads = (struct page_heads){0};
}
