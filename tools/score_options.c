#include "score_options.h"

#include "complain.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

enum { SIGNATURE_SIZE = 128 };

/* The tokenizers of --tokenize, by the names that sacreBLEU gives them. */
static const enum qkv_bleu_tokenizer KNOWN[] = {QKV_BLEU_13A, QKV_BLEU_NONE, QKV_BLEU_CHAR};

enum { KNOWN_COUNT = sizeof KNOWN / sizeof KNOWN[0] };

const char *score_tokenizer_name(const void *context, int64_t index)
{
    (void)context;
    return index < KNOWN_COUNT ? qkv_bleu_tokenizer_name(KNOWN[index]) : NULL;
}

enum qkv_status score_options_apply(const struct score_options *options, struct qkv_scorer *scorer)
{
    scorer->options.lowercase = options->lowercase;
    for (int i = 0; i < KNOWN_COUNT; i++) {
        scorer->options.tokenizer = KNOWN[i];
        if (!strcmp(options->tokenizer, qkv_bleu_tokenizer_name(KNOWN[i]))) return QKV_OK;
    }
    complain_of_name("--tokenize", options->tokenizer, score_tokenizer_name, NULL);
    return QKV_INVALID;
}

/* True when the scorer has what the metric is computed from: texts, or counts of tokens. */
static bool is_known(const struct qkv_scorer *scorer, const struct qkv_metric_info *info)
{
    return info->of_texts || scorer->counts.tokens;
}

void scorer_print(const struct qkv_scorer *scorer)
{
    const struct qkv_scores scores = qkv_scorer_scores(scorer);
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        char signature[SIGNATURE_SIZE];
        if (!is_known(scorer, info)) continue;
        printf("%-18s %.*f", info->title, info->digits, metric_shown((enum qkv_metric)m, scores.value[m]));
        if (info->percent || info->unit) printf(" %s", info->percent ? "%" : info->unit);
        qkv_scorer_signature(scorer, (enum qkv_metric)m, signature, sizeof signature);
        printf(*signature ? "  (%s)\n" : "%s\n", signature);
    }
}

void scorer_json(const struct qkv_scorer *scorer, struct cJSON *object)
{
    const struct qkv_scores scores = qkv_scorer_scores(scorer);
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        char signature[SIGNATURE_SIZE], key[METRIC_NAME_SIZE + sizeof "_signature"];
        if (!is_known(scorer, info)) continue;
        cJSON_AddNumberToObject(object, info->key, scores.value[m]);
        qkv_scorer_signature(scorer, (enum qkv_metric)m, signature, sizeof signature);
        snprintf(key, sizeof key, "%s_signature", info->key);
        if (*signature) cJSON_AddStringToObject(object, key, signature);
    }
}

const char *metric_column_name(enum qkv_metric metric, char text[static METRIC_NAME_SIZE])
{
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    snprintf(text, METRIC_NAME_SIZE, "%s%s", info->label, info->percent ? ", %" : "");
    return text;
}

double metric_shown(enum qkv_metric metric, double value)
{
    return qkv_metric_info(metric)->percent ? 100 * value : value;
}
