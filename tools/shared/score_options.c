#include "score_options.h"

#include "attention_options.h"
#include "metrics/metric.h"

/* ---- options ---- */

const char *score_metric_name(const void *context, int64_t index)
{
    (void)context;
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        if (info->of_texts && index-- == 0) return info->key;
    }
    return NULL;
}

NAME_LISTER(score_tokenizer_name,
            index < QKV_BLEU_TOKENIZERS ? qkv_bleu_tokenizer_name((enum qkv_bleu_tokenizer)index) : NULL);

NAME_LISTER(score_smoothing_name,
            index < QKV_BLEU_SMOOTHINGS ? qkv_bleu_smoothing_name((enum qkv_bleu_smoothing)index) : NULL);

static unsigned metrics_of(const struct option_list *list)
{
    unsigned metrics = 0;
    for (int i = 0; i < list->count; i++)
        for (int m = 0; m < QKV_METRIC_COUNT; m++)
            if (!strcmp(qkv_metric_info((enum qkv_metric)m)->key, list->value[i])) metrics |= 1u << m;
    return metrics;
}

/* Reports the first option that was given for a metric that is not computed. */
static enum qkv_status check_use(const struct score_options *o, const struct qkv_text_options *result)
{
    const struct qkv_scorer scorer = {.options = *result};
    const struct {
        const char *option;
        enum qkv_metric metric;
        bool given;
    } uses[] = {
        {"--lowercase", QKV_METRIC_BLEU, o->lowercase && !qkv_scorer_computes(&scorer, QKV_METRIC_CHRF)},
        {"--tokenize", QKV_METRIC_BLEU, result->tokenizer != QKV_BLEU_13A},
        {"--smooth-method", QKV_METRIC_BLEU, result->smoothing != QKV_BLEU_EXP},
        {"--effective-order", QKV_METRIC_BLEU, o->effective_order},
        {"--chrf-char-order", QKV_METRIC_CHRF, o->character_order >= 0},
        {"--chrf-word-order", QKV_METRIC_CHRF, o->word_order >= 0},
        {"--chrf-beta", QKV_METRIC_CHRF, o->beta > 0},
        {"--ter-normalized", QKV_METRIC_TER, o->ter_normalized},
        {"--ter-no-punct", QKV_METRIC_TER, o->ter_no_punctuation},
        {"--ter-case-sensitive", QKV_METRIC_TER, o->ter_case_sensitive},
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (uses[i].given && !qkv_scorer_computes(&scorer, uses[i].metric)) {
            print_error("%s has no effect without %s%s: add it to --metrics", uses[i].option,
                        qkv_metric_info(uses[i].metric)->key, i ? "" : " or chrf");
            return QKV_INVALID;
        }
    return QKV_OK;
}

enum qkv_status score_options_read(const struct score_options *o, struct qkv_text_options *result)
{
    *result = (struct qkv_text_options){
        .metrics = metrics_of(&o->metrics),
        .lowercase = o->lowercase,
        .tokenizer = (enum qkv_bleu_tokenizer)choice_index(o->tokenizer, score_tokenizer_name, 0),
        .smoothing = (enum qkv_bleu_smoothing)choice_index(o->smoothing, score_smoothing_name, 0),
        .smoothing_value = o->smoothing_value,
        .effective_order = o->effective_order,
        .character_order = o->character_order < 0 ? 0 : (int)o->character_order,
        .word_order = o->word_order < 0 ? 0 : (int)o->word_order,
        .beta = o->beta,
        .ter_normalized = o->ter_normalized,
        .ter_no_punctuation = o->ter_no_punctuation,
        .ter_case_sensitive = o->ter_case_sensitive,
    };
    bool has_value = result->smoothing == QKV_BLEU_FLOOR || result->smoothing == QKV_BLEU_ADD_K;
    if (o->smoothing_value > 0 && !has_value) {
        print_error("--smooth-value has no effect with --smooth-method %s: choose floor or add-k",
                    o->smoothing);
        return QKV_INVALID;
    }
    return check_use(o, result);
}

/* ---- output ---- */

/* True when the scorer has the data that the metric is computed from: texts, or counts of tokens or translations. */
static bool is_known(const struct qkv_scorer *scorer, int m)
{
    if (qkv_metric_info((enum qkv_metric)m)->of_texts) return scorer->statistics[m];
    return m == QKV_METRIC_SEQUENCE_ACCURACY ? scorer->counts.translated : scorer->counts.tokens;
}

void scorer_print(const struct qkv_scorer *scorer)
{
    const struct qkv_scores scores = qkv_scorer_scores(scorer);
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        const struct qkv_metric_description shown = qkv_scorer_describe(scorer, (enum qkv_metric)m);
        if (!is_known(scorer, m)) continue;
        printf("%-18s %.*f", shown.title, info->digits, metric_shown((enum qkv_metric)m, scores.value[m]));
        if (info->percent || info->unit) printf(" %s", info->percent ? "%" : info->unit);
        printf(*shown.signature ? "  (%s)\n" : "%s\n", shown.signature);
    }
}

void scorer_json(const struct qkv_scorer *scorer, struct cJSON *object)
{
    const struct qkv_scores scores = qkv_scorer_scores(scorer);
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const char *name = qkv_metric_info((enum qkv_metric)m)->key;
        const struct qkv_metric_description shown = qkv_scorer_describe(scorer, (enum qkv_metric)m);
        char key[METRIC_NAME_SIZE + sizeof "_signature"];
        if (!is_known(scorer, m)) continue;
        cJSON_AddNumberToObject(object, name, scores.value[m]);
        snprintf(key, sizeof key, "%s_signature", name);
        if (*shown.signature) cJSON_AddStringToObject(object, key, shown.signature);
        snprintf(key, sizeof key, "%s_details", name);
        cJSON *details = shown.detail_count ? cJSON_AddObjectToObject(object, key) : NULL;
        for (int i = 0; i < shown.detail_count; i++) {
            const struct qkv_metric_detail *detail = &shown.details[i];
            cJSON_AddItemToObject(details, detail->key,
                                  detail->count == 1 ? cJSON_CreateNumber(detail->value[0])
                                                     : cJSON_CreateDoubleArray(detail->value, detail->count));
        }
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
