/* qkv attribute --compare: which methods of attribution are to be trusted, on sentence pairs. */
#include "trust.h"

#include "open_run.h"

#include "report/attribution.h"
#include "report/json_text.h"
#include "train/training.h"

struct trust {
    const struct trust_options *options;
    const struct qkv_run *run;
    struct qkv_attention_collector *collector, *others[64];
    struct qkv_run other_runs[64];
    struct qkv_corpus corpus;
    struct qkv_alignments gold;
    struct attribution_comparison comparison;
    struct qkv_sentence source, target;
    struct qkv_arena arena;
};

/* Opens the runs of other seeds, which must have the same vocabularies. */
static enum qkv_status open_others(struct trust *t, struct qkv_error *error)
{
    const struct option_list *seeds = &t->options->seeds;
    for (int i = 0; i < seeds->count; i++) {
        struct qkv_run *other = &t->other_runs[i];
        if (open_run(other, seeds->value[i], NULL, QKV_FLOAT32, NULL, error)) return QKV_INVALID;
        if (other->model->source_size != t->run->model->source_size ||
            other->model->target_size != t->run->model->target_size)
            return qkv_error_set(error, "%s: has other vocabularies than %s: train both from the same text",
                                 seeds->value[i], t->run->path);
        if (!(t->others[i] = qkv_attention_collector_new(other->model, error))) return QKV_INVALID;
        t->comparison.other_count++;
    }
    t->comparison.others = t->others;
    return QKV_OK;
}

static enum qkv_status read_corpus(struct trust *t, struct qkv_error *error)
{
    const struct links_options *links = t->options->links;
    const struct qkv_corpus_options read = {.keep_raw = true, .third_column = links->path};
    if (qkv_corpus_read(&t->corpus, t->options->path, &t->run->config.data, read, error) ||
        qkv_corpus_fits(&t->corpus, t->options->path, &t->run->model->config, error))
        return QKV_INVALID;
    return links->path ? qkv_corpus_links_read(&t->gold, links->path, links_from(links), &t->corpus, error)
                       : QKV_OK;
}

static enum qkv_status add_pair(struct trust *t, int64_t i, struct qkv_error *error)
{
    const char *what = TEXT_IN(&t->arena, "%s:%lld", t->options->path, (long long)t->corpus.line[i]);
    if (qkv_user_sentence_encode(&t->source, t->run, false, what, qkv_corpus_source(&t->corpus, i), error) ||
        qkv_user_sentence_encode(&t->target, t->run, true, what, qkv_corpus_target(&t->corpus, i), error))
        return QKV_INVALID;
    const struct qkv_attention_pair pair = {.source = {t->source.tokens.count, t->source.ids},
                                            .target = {t->target.tokens.count, t->target.ids},
                                            .source_tokens = t->source.tokens.token,
                                            .target_tokens = t->target.tokens.token};
    const struct qkv_attention_words words = {t->source.tokens.word, t->target.tokens.word};
    const struct qkv_alignment *gold = t->gold.count ? &t->gold.sentences[t->corpus.line[i] - 1] : NULL;
    return qkv_attribution_compare(&t->comparison, t->collector, &pair, words, gold, &t->arena, error);
}

/* ---- output ---- */

static const struct {
    const char *title, *name;
} COLUMNS[] = {{"alignment error", "alignment_error"},
               {"comprehensiveness", "comprehensiveness"},
               {"sufficiency", "sufficiency"},
               {"agreement", "agreement"}};
enum { COLUMN_COUNT = sizeof COLUMNS / sizeof *COLUMNS };

/* The number in a column; NaN: it was not measured. */
static double number_of(const struct trust *t, int64_t method, int column)
{
    const struct attribution_score *score = &t->comparison.scores[method];
    const double tokens = (double)score->tokens;
    const double numbers[COLUMN_COUNT] = {
        t->gold.count ? score->links.error_rate : (double)NAN, score->comprehensiveness / tokens,
        score->sufficiency / tokens, t->comparison.other_count ? score->agreement / tokens : (double)NAN};
    return numbers[column];
}

static void write_table(const struct trust *t, struct bytes *out)
{
    qkv_bytes_format(out, "%lld sentence pairs, %lld target tokens\n\n%-11s", (long long)t->comparison.pairs,
                     (long long)t->comparison.scores[0].tokens, "method");
    for (int c = 0; c < COLUMN_COUNT; c++)
        if (!isnan(number_of(t, 0, c))) qkv_bytes_format(out, "  %s", COLUMNS[c].title);
    qkv_bytes_text(out, "\n");
    for (int64_t m = 0; qkv_attribution_compared(m); m++) {
        qkv_bytes_format(out, "%-11s", qkv_attribution_compared(m));
        for (int c = 0; c < COLUMN_COUNT; c++)
            if (!isnan(number_of(t, 0, c)))
                qkv_bytes_format(out, "  %*.3f", (int)strlen(COLUMNS[c].title), number_of(t, m, c));
        qkv_bytes_text(out, "\n");
    }
}

static void write_object(const struct trust *t, struct bytes *out)
{
    cJSON *object = cJSON_CreateObject(), *methods;
    JSON_NUMBERS(object, {"pairs", (double)t->comparison.pairs},
                 {"tokens", (double)t->comparison.scores[0].tokens});
    methods = cJSON_AddArrayToObject(object, "methods");
    for (int64_t m = 0; qkv_attribution_compared(m); m++) {
        cJSON *row = cJSON_CreateObject();
        JSON_TEXTS(row, {"name", qkv_attribution_compared(m)});
        for (int c = 0; c < COLUMN_COUNT; c++) JSON_NUMBERS(row, {COLUMNS[c].name, number_of(t, m, c)});
        cJSON_AddItemToArray(methods, row);
    }
    qkv_json_append(out, object);
    qkv_bytes_text(out, "\n");
    cJSON_Delete(object);
}

static enum qkv_status compare(struct trust *t, struct output *output, struct qkv_error *error)
{
    t->collector = qkv_attention_collector_new(t->run->model, error);
    if (!t->collector || open_others(t, error) || read_corpus(t, error)) return QKV_INVALID;
    int64_t count = t->options->limit ? t->options->limit : 100;
    if (count > t->corpus.count) count = t->corpus.count;
    struct progress_bar bar = progress_bar_on(stderr);
    enum qkv_status status = QKV_OK;
    for (int64_t i = 0; i < count && !status; i++) {
        qkv_arena_reset(&t->arena);
        status = add_pair(t, i, error);
        if (!output->quiet) progress_bar_show(&bar, (double)i / (double)count, "pairs");
    }
    progress_bar_clear(&bar);
    if (status) return status;
    struct bytes out = {0};
    (output->format->use == QKV_FORMAT_TERMINAL ? write_table : write_object)(t, &out);
    required(out.failed ? NULL : out.data);
    return output_write(output, out.data, out.size, error);
}

enum qkv_status compare_methods(const struct qkv_run *run, const struct trust_options *options,
                                struct output *output, struct qkv_error *error)
{
    struct trust *t = required(calloc(1, sizeof *t));
    t->options = options;
    t->run = run;
    enum qkv_status status =
        run->sides.has_source
            ? compare(t, output, error)
            : qkv_error_set(error, "%s: is a language model: --compare erases words of a source", run->path);
    for (int i = 0; i < options->seeds.count; i++) {
        qkv_attention_collector_free(t->others[i]);
        if (t->other_runs[i].model) qkv_run_release(&t->other_runs[i]);
    }
    qkv_attention_collector_free(t->collector);
    qkv_sentence_release(&t->source);
    qkv_sentence_release(&t->target);
    qkv_alignments_release(&t->gold);
    qkv_corpus_release(&t->corpus);
    qkv_arena_release(&t->arena);
    free(t);
    return status;
}
