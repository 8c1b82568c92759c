/* qkv attribute --compare: which methods of attribution are to be trusted, on sentence pairs: by gold links, by what happens when
 * words are erased, and by whether runs agree. */
#include "trust.h"

#include "open_run.h"

#include "core/numbers.h"
#include "report/attribution.h"
#include "report/words.h"
#include "train/training.h"

#include <math.h>

/* Random numbers are one more method. */
enum { METHODS = QKV_ATTRIBUTION_METHODS + 1, RATIONALES = 3, MAX_SEEDS = 64 };

/* A rationale is the share of the source words that have the largest contributions. */
static const double RATIONALE[RATIONALES] = {0.1, 0.2, 0.5};

/* The columns of the table. Comprehensiveness and sufficiency: by how much the probability of a token falls without its
 * rationale, and with it alone (DeYoung et al. 2020), as means over the rationales. The first column needs gold links, the last
 * one runs of other seeds. */
enum column { ALIGNMENT_ERROR, COMPREHENSIVENESS, SUFFICIENCY, AGREEMENT, COLUMNS };
static const char *const COLUMN_NAME[COLUMNS] = {"alignment_error", "comprehensiveness", "sufficiency",
                                                 "agreement"};

struct trust {
    const struct trust_options *options;
    const struct qkv_run *run;
    struct qkv_run other[MAX_SEEDS];
    struct qkv_attention_collector *collector[1 + MAX_SEEDS]; /* of the run, and of the other ones */
    struct qkv_corpus corpus;
    struct qkv_alignments gold;
    /* Sums over the target tokens of all pairs: */
    double sum[METHODS][COLUMNS];
    struct qkv_alignment_result links[METHODS];
    int64_t pairs, tokens;
    /* The present pair: */
    struct forced_slots slots; /* one, which reads it */
    struct forced_pair pair;
    struct attribution pass; /* erases its words */
    struct qkv_arena arena;
};

/* Opens the runs of other seeds, which must have the same vocabularies, and makes the collectors. */
static enum qkv_status open_runs(struct trust *t, struct qkv_error *error)
{
    const struct qkv_model *model = t->run->model;
    for (int i = 0; i <= t->options->seeds.count; i++) {
        const char *path = i ? t->options->seeds.value[i - 1] : NULL;
        const struct qkv_run *run = i ? &t->other[i - 1] : t->run;
        if (i && open_run(&t->other[i - 1], path, NULL, QKV_FLOAT32, NULL, error)) return QKV_INVALID;
        if (run->model->source_size != model->source_size || run->model->target_size != model->target_size)
            return qkv_error_set(error, "%s: has other vocabularies than %s: train both from the same text",
                                 path, t->run->path);
        if (!(t->collector[i] = qkv_attention_collector_new(run->model, error))) return QKV_INVALID;
    }
    return qkv_forced_open(&t->slots, NULL, (const struct qkv_run *const[]){t->run, NULL}, false, error);
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

/* ---- one pair ---- */

/* The contributions of the source, [T, S], in a run (from 0). NULL with an error. */
static const double *contributions(struct trust *t, int run, int method)
{
    const struct qkv_attribution_options options = {.method = (enum qkv_attribution_method)method};
    const struct qkv_random random = {1, QKV_STREAM_SAMPLE, (uint32_t)(t->pairs + 1000000 * run)};
    const int64_t cells = t->pass.steps * t->pass.sources;
    double *weights = required(qkv_arena_array(&t->arena, cells, sizeof *weights));
    struct qkv_attention_report report;
    for (int64_t i = 0; i < cells; i++) weights[i] = qkv_random_uniform(random, (uint64_t)i);
    if (method == QKV_ATTRIBUTION_METHODS) return weights;
    if (qkv_attribute(t->collector[run], &t->pair.pair, &options, &report, t->pass.error)) return NULL;
    for (int64_t m = 0; m < report.map_count; m++)
        if (report.maps[m].kind == QKV_ATTENTION_CROSS)
            memcpy(weights, report.maps[m].weights, (size_t)cells * sizeof *weights);
    return weights;
}

/* The source word (not </s>) with the largest contribution among those that are not taken (NULL: none is). */
static int64_t strongest(const double *row, int64_t words, const bool *taken)
{
    int64_t best = -1;
    for (int64_t c = 0; c < words; c++)
        if ((!taken || !taken[c]) && (best < 0 || row[c] > row[best])) best = c;
    return best;
}

/* Adds how far the probability of each target token falls without the rationale, and with it alone. */
static enum qkv_status erase_rationales(struct trust *t, const double *weights, double *sum)
{
    struct attribution *a = &t->pass;
    const int64_t words = a->sources - 1, count = a->steps * RATIONALES * 2;
    bool *hidden = required(qkv_arena_zeros(&t->arena, count * a->columns, sizeof *hidden));
    double *left = required(qkv_arena_array(&t->arena, count * a->steps, sizeof *left));
    for (int64_t i = 0; i < a->steps * RATIONALES; i++) {
        bool *without = hidden + 2 * i * a->columns, *alone = without + a->columns;
        int64_t chosen = (int64_t)ceil(RATIONALE[i % RATIONALES] * (double)words);
        while (chosen--) without[strongest(weights + i / RATIONALES * a->sources, words, without)] = true;
        for (int64_t c = 0; c < words; c++) alone[c] = !without[c];
    }
    if (qkv_copies_without(a, count, hidden, left)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        int64_t step = i / (2 * RATIONALES);
        sum[i % 2 ? SUFFICIENCY : COMPREHENSIVENESS] +=
            (qkv_scalar_exp(a->log_probability[step]) - qkv_scalar_exp(left[i * a->steps + step])) /
            RATIONALES;
    }
    return QKV_OK;
}

/* Adds one method on the present pair. gold: its links; NULL: none. */
static enum qkv_status add_method(struct trust *t, int method, const struct qkv_alignment *gold)
{
    const struct attribution *a = &t->pass;
    const int64_t sources = a->sources, seeds = t->options->seeds.count;
    const double *weights = contributions(t, 0, method);
    for (int run = 1; run <= seeds && weights; run++) {
        const double *others = contributions(t, run, method);
        if (!others) return QKV_INVALID;
        for (int64_t i = 0; i < a->steps * sources; i += sources)
            t->sum[method][AGREEMENT] +=
                (strongest(weights + i, sources - 1, NULL) == strongest(others + i, sources - 1, NULL)) /
                (double)seeds;
    }
    const struct qkv_attention_map map = {
        .kind = QKV_ATTENTION_CROSS, .rows = a->steps, .columns = sources, .weights = weights};
    if (!weights || (gold && qkv_count_map_links(&t->pair.report, t->pair.words, &map, gold, &t->arena,
                                                 &t->links[method], a->error)))
        return QKV_INVALID;
    return erase_rationales(t, weights, t->sum[method]);
}

static enum qkv_status add_pair(struct trust *t, struct qkv_error *error)
{
    struct forced_slot *slot = t->slots.slot;
    const struct qkv_alignment *gold =
        t->gold.count ? &t->gold.sentences[t->corpus.line[t->pairs] - 1] : NULL;
    qkv_arena_reset(&t->arena);
    enum qkv_status status = qkv_forced_corpus(slot, &t->corpus, t->pairs, 1, &t->pair);
    if (status) return qkv_error_set(error, "%s", slot->error.message);
    t->pass = (struct attribution){.collector = slot->passes[0].collector,
                                   .pair = &t->pair.pair,
                                   .report = &t->pair.report,
                                   .error = error};
    status = qkv_copies_begin(&t->pass, 1u << QKV_ATTENTION_CROSS);
    for (int m = 0; m < METHODS && !status; m++) status = add_method(t, m, gold);
    t->pairs++;
    t->tokens += t->pass.steps;
    return status;
}

/* ---- the table ---- */

static enum qkv_status write_table(struct trust *t, struct output *output, struct qkv_error *error)
{
    const int first = t->gold.count ? ALIGNMENT_ERROR : COMPREHENSIVENESS,
              columns = (t->options->seeds.count ? COLUMNS : AGREEMENT) - first;
    const char *rows[METHODS];
    double values[METHODS * COLUMNS];
    for (int m = 0; m < METHODS; m++) {
        rows[m] = m < QKV_ATTRIBUTION_METHODS
                      ? qkv_attribution_method_info((enum qkv_attribution_method)m)->name
                      : "random";
        t->sum[m][ALIGNMENT_ERROR] = t->links[m].error_rate * (double)t->tokens;
        for (int c = 0; c < columns; c++) values[m * columns + c] = t->sum[m][first + c] / (double)t->tokens;
    }
    const struct qkv_step table = {.name = "methods",
                                   .title = "methods",
                                   .formula = "",
                                   .rows = METHODS,
                                   .columns = columns,
                                   .values = values,
                                   .row_names = rows,
                                   .column_names = COLUMN_NAME + first};
    const struct qkv_explanation explanation = {.title = TEXT_IN(&t->arena,
                                                                 "%lld sentence pairs, %lld target tokens",
                                                                 (long long)t->pairs, (long long)t->tokens),
                                                .kind = QKV_ATTENTION_CROSS,
                                                .step_count = 1,
                                                .steps = &table};
    output->style.digits = 3;
    return output_explanations(output, &explanation, 1, error);
}

static enum qkv_status compare(struct trust *t, struct output *output, struct qkv_error *error)
{
    int64_t count = t->options->limit ? t->options->limit : 100;
    struct progress_bar bar = progress_bar_on(stderr);
    enum qkv_status status = QKV_OK;
    if (!t->run->sides.has_source)
        return qkv_error_set(error, "%s: is a language model: --compare erases words of a source",
                             t->run->path);
    if (open_runs(t, error) || read_corpus(t, error)) return QKV_INVALID;
    if (count > t->corpus.count) count = t->corpus.count;
    while (t->pairs < count && !status) {
        if (!output->quiet) progress_bar_show(&bar, (double)t->pairs / (double)count, "pairs");
        status = add_pair(t, error);
    }
    progress_bar_clear(&bar);
    return status ? status : write_table(t, output, error);
}

enum qkv_status compare_methods(const struct qkv_run *run, const struct trust_options *options,
                                struct output *output, struct qkv_error *error)
{
    struct trust *t = required(calloc(1, sizeof *t));
    t->options = options;
    t->run = run;
    enum qkv_status status = compare(t, output, error);
    for (int i = 0; i <= MAX_SEEDS; i++) qkv_attention_collector_free(t->collector[i]);
    for (int i = 0; i < MAX_SEEDS; i++) qkv_run_release(&t->other[i]);
    qkv_forced_close(&t->slots);
    qkv_alignments_release(&t->gold);
    qkv_corpus_release(&t->corpus);
    qkv_arena_release(&t->arena);
    free(t);
    return status;
}
