/* qkv attribute --compare: which methods of attribution are to be trusted, on sentence pairs: by gold links, by what happens when
 * words are erased, and by whether runs agree. */
#include "trust.h"

#include "open_run.h"

#include "core/numbers.h"
#include "report/attribution.h"
#include "report/words.h"
#include "train/training.h"

#include <math.h>

enum { METHODS_AND_CHANCE = QKV_ATTRIBUTION_METHODS + 1, RATIONALES = 3, MAX_SEEDS = 64 };

/* A rationale is the share of the source words that have the largest contributions. */
static const double RATIONALE[RATIONALES] = {0.1, 0.2, 0.5};

/* The columns of the table. Comprehensiveness and sufficiency: by how much the probability of a token falls without its
 * rationale, and with it alone (DeYoung et al. 2020), as means over the rationales. */
enum column { ALIGNMENT_ERROR, COMPREHENSIVENESS, SUFFICIENCY, AGREEMENT, COLUMNS };
static const char *const COLUMN_NAME[COLUMNS] = {"alignment_error", "comprehensiveness", "sufficiency",
                                                 "agreement"};

struct trust {
    const struct trust_options *options;
    const struct qkv_run *run;
    struct qkv_attention_collector *collector, *others[MAX_SEEDS];
    struct qkv_run other_runs[MAX_SEEDS];
    struct qkv_corpus corpus;
    struct qkv_alignments gold_links;
    /* Sums over the target tokens of all pairs: */
    double sum[METHODS_AND_CHANCE][COLUMNS];
    struct qkv_alignment_result links[METHODS_AND_CHANCE];
    int64_t pairs, tokens;
    /* The present pair: */
    struct qkv_sentence source, target;
    struct qkv_attention_pair pair;
    const struct qkv_alignment *gold; /* NULL: none */
    struct attribution pass;
    struct qkv_attention_report report;
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
    }
    return QKV_OK;
}

static enum qkv_status read_corpus(struct trust *t, struct qkv_error *error)
{
    const struct links_options *links = t->options->links;
    const struct qkv_corpus_options read = {.keep_raw = true, .third_column = links->path};
    if (qkv_corpus_read(&t->corpus, t->options->path, &t->run->config.data, read, error) ||
        qkv_corpus_fits(&t->corpus, t->options->path, &t->run->model->config, error))
        return QKV_INVALID;
    return links->path
               ? qkv_corpus_links_read(&t->gold_links, links->path, links_from(links), &t->corpus, error)
               : QKV_OK;
}

/* ---- one pair ---- */

/* The contributions of the source, [T, S]; QKV_ATTRIBUTION_METHODS stands for random numbers of this seed. NULL with an error. */
static const double *contributions(struct trust *t, struct qkv_attention_collector *collector, int method,
                                   int64_t seed)
{
    const struct qkv_attribution_options options = {.method = (enum qkv_attribution_method)method};
    const struct qkv_random random = {1, QKV_STREAM_SAMPLE, (uint32_t)seed};
    const int64_t cells = t->pass.steps * t->pass.sources;
    double *weights = required(qkv_arena_zeros(&t->arena, cells, sizeof *weights));
    struct qkv_attention_report report = {0};
    for (int64_t i = 0; i < cells; i++) weights[i] = qkv_random_uniform(random, (uint64_t)i);
    if (method == QKV_ATTRIBUTION_METHODS) return weights;
    if (qkv_attribute(collector, &t->pair, &options, &report, t->pass.error)) return NULL;
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

/* Draws a link from each target word to its strongest source word, and counts the links. */
static enum qkv_status count_links(struct trust *t, const double *weights,
                                   struct qkv_alignment_result *result)
{
    const struct attribution *a = &t->pass;
    const struct qkv_attention_map map = {
        .kind = QKV_ATTENTION_CROSS, .rows = a->steps, .columns = a->sources, .weights = weights};
    const struct qkv_attention_words of_tokens = {t->source.tokens.word, t->target.tokens.word};
    struct qkv_word_map words;
    struct qkv_alignment drawn;
    if (qkv_word_map_make(a->report, of_tokens, &map, QKV_READING_PREDICTED, &t->arena, &words, a->error) ||
        qkv_alignment_check(t->gold, (struct qkv_word_counts){words.sources, words.targets}, a->error) ||
        qkv_alignment_draw(&words, NULL, QKV_DRAWING_TARGET, 0, &t->arena, &drawn, a->error))
        return QKV_INVALID;
    qkv_alignment_count(result, &drawn, t->gold);
    return QKV_OK;
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

/* Adds one method on the present pair. */
static enum qkv_status add_method(struct trust *t, int method)
{
    struct attribution *a = &t->pass;
    const int64_t sources = a->sources, seeds = t->options->seeds.count;
    const double *weights = contributions(t, t->collector, method, t->pairs);
    for (int64_t o = 0; o < seeds && weights; o++) {
        const double *others = contributions(t, t->others[o], method, t->pairs + 1000000 * (o + 1));
        if (!others) return QKV_INVALID;
        for (int64_t i = 0; i < a->steps * sources; i += sources)
            t->sum[method][AGREEMENT] +=
                (strongest(weights + i, sources - 1, NULL) == strongest(others + i, sources - 1, NULL)) /
                (double)seeds;
    }
    if (!weights || qkv_copies_begin(a, 1u << QKV_ATTENTION_CROSS) ||
        (t->gold && count_links(t, weights, &t->links[method])))
        return QKV_INVALID;
    return erase_rationales(t, weights, t->sum[method]);
}

static enum qkv_status add_pair(struct trust *t, struct qkv_error *error)
{
    const int64_t line = t->corpus.line[t->pairs];
    qkv_arena_reset(&t->arena);
    const char *what = TEXT_IN(&t->arena, "%s:%lld", t->options->path, (long long)line);
    if (qkv_user_sentence_encode(&t->source, t->run, false, what, qkv_corpus_source(&t->corpus, t->pairs),
                                 error) ||
        qkv_user_sentence_encode(&t->target, t->run, true, what, qkv_corpus_target(&t->corpus, t->pairs),
                                 error))
        return QKV_INVALID;
    t->pair = (struct qkv_attention_pair){.source = {t->source.tokens.count, t->source.ids},
                                          .target = {t->target.tokens.count, t->target.ids},
                                          .source_tokens = t->source.tokens.token,
                                          .target_tokens = t->target.tokens.token};
    t->gold = t->gold_links.count ? &t->gold_links.sentences[line - 1] : NULL;
    t->pass = (struct attribution){
        .collector = t->collector, .pair = &t->pair, .report = &t->report, .error = error};
    enum qkv_status status = qkv_copies_begin(&t->pass, 1u << QKV_ATTENTION_CROSS);
    for (int m = 0; m < METHODS_AND_CHANCE && !status; m++) status = add_method(t, m);
    t->pairs++;
    t->tokens += t->pass.steps;
    return status;
}

/* ---- the table ---- */

static enum qkv_status write_table(struct trust *t, struct output *output, struct qkv_error *error)
{
    const bool measured[COLUMNS] = {t->gold_links.count > 0, true, true, t->options->seeds.count > 0};
    const char *rows[METHODS_AND_CHANCE], *columns[COLUMNS];
    double values[METHODS_AND_CHANCE * COLUMNS];
    int64_t used = 0, cells = 0;
    for (int c = 0; c < COLUMNS; c++)
        if (measured[c]) columns[used++] = COLUMN_NAME[c];
    for (int m = 0; m < METHODS_AND_CHANCE; m++) {
        rows[m] = m < QKV_ATTRIBUTION_METHODS
                      ? qkv_attribution_method_info((enum qkv_attribution_method)m)->name
                      : "random";
        t->sum[m][ALIGNMENT_ERROR] = t->links[m].error_rate * (double)t->tokens;
        for (int c = 0; c < COLUMNS; c++)
            if (measured[c]) values[cells++] = t->sum[m][c] / (double)t->tokens;
    }
    const struct qkv_step table = {.name = "methods",
                                   .title = "methods",
                                   .formula = "",
                                   .rows = METHODS_AND_CHANCE,
                                   .columns = used,
                                   .values = values,
                                   .row_names = rows,
                                   .column_names = columns};
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
    t->collector = qkv_attention_collector_new(t->run->model, error);
    if (!t->collector || open_others(t, error) || read_corpus(t, error)) return QKV_INVALID;
    int64_t count = t->options->limit ? t->options->limit : 100;
    if (count > t->corpus.count) count = t->corpus.count;
    struct progress_bar bar = progress_bar_on(stderr);
    enum qkv_status status = QKV_OK;
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
    qkv_alignments_release(&t->gold_links);
    qkv_corpus_release(&t->corpus);
    qkv_arena_release(&t->arena);
    free(t);
    return status;
}
