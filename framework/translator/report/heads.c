/* Measures all heads of a run: their maps, their gradients, and the scores of the run when they are ablated. */
#include "models/network.h"

#include "core/memory.h"
#include "data/batch.h"
#include "qkv/trainer.h"
#include "report/collect.h"
#include "report/words.h"

#include <math.h>

static const struct qkv_head_measure_info MEASURES[] = {
#define HEAD_MEASURE(id, name, title, digits, factor, help) {#name, title, help, digits, factor},
#include "qkv/head_measures.def"
#undef HEAD_MEASURE
};

const struct qkv_head_measure_info *qkv_head_measure_info(enum qkv_head_measure measure)
{
    return (unsigned)measure < QKV_HEAD_MEASURES ? &MEASURES[measure] : NULL;
}

/* Sums over sentences. The measure m is the mean of sum[m] over rows[m] rows, except that alignment errors follow from
 * counts of links. */
struct head_sums {
    double sum[QKV_HEAD_MEASURES];
    int64_t rows[QKV_HEAD_MEASURES];
    struct qkv_alignment_result counted[QKV_READINGS];
};

static void add_measured(struct head_sums *sums, enum qkv_head_measure measure, double value)
{
    sums->sum[measure] += value;
    sums->rows[measure]++;
}

/* The maps of a sentence pair. */
struct head_maps {
    const struct forced_pair *pair;    /* maps of weights, in the order of qkv_model_head */
    struct qkv_attention_report norms; /* the same maps times norms of values */
    const struct qkv_alignment *gold;  /* NULL: none */
    bool measures_norms;               /* measure `norms` instead of weights */
};

/* ---- maps between words, with <s> and </s> ---- */

/* The words of the rows and columns of one map. */
struct labeled_map {
    const struct qkv_attention_map *map;
    const char *const *row_names, *const *column_names;
    int64_t special_column; /* the column of </s>; in decoder attention, of <s> */
    int64_t special_row;
};

static struct labeled_map labeled(const struct qkv_attention_report *report,
                                  const struct qkv_attention_map *map)
{
    bool decoder = map->kind == QKV_ATTENTION_DECODER;
    return (struct labeled_map){map, qkv_attention_row_tokens(report, map->kind),
                                qkv_attention_column_tokens(report, map->kind),
                                decoder ? 0 : map->columns - 1, decoder ? 0 : map->rows - 1};
}

/* The share of a row on a column that is a word; 0 if there is no such column. */
static double share_of(const struct labeled_map *labels, const double *row, double total, int64_t column)
{
    if (column < 0 || column >= labels->map->columns || column == labels->special_column) return 0;
    return row[column] / total;
}

/* Adds the share of the row on words with the same text (in self-attention, only at other positions), if it can see one. Weight
 * 0 does not show whether a key is hidden, because an unlikely key may also have it; so decoder attention ignores later
 * keys. */
static void add_copied(const struct labeled_map *labels, const double *row, double total, int64_t r,
                       struct head_sums *sums)
{
    bool self = labels->map->kind != QKV_ATTENTION_CROSS, found = false;
    int64_t end = labels->map->kind == QKV_ATTENTION_DECODER ? r : labels->map->columns;
    double share = 0;
    for (int64_t c = 0; c < end; c++) {
        if (c == labels->special_column || (self && c == r) ||
            strcmp(labels->row_names[r], labels->column_names[c]) != 0)
            continue;
        share += row[c] / total;
        found = true;
    }
    if (found) add_measured(sums, QKV_HEAD_COPIED, share);
}

static void add_row(const struct labeled_map *labels, int64_t r, struct head_sums *sums)
{
    int64_t columns = labels->map->columns;
    const double *row = labels->map->weights + r * columns;
    double total = qkv_row_total(row, columns), greatest = 0;
    if (!(total > 0)) return;
    for (int64_t c = 0; c < columns; c++)
        if (row[c] > greatest) greatest = row[c];
    add_measured(sums, QKV_HEAD_ENTROPY, qkv_row_entropy(row, columns, total));
    add_measured(sums, QKV_HEAD_SHARPNESS, greatest / total);
    add_measured(sums, QKV_HEAD_PREVIOUS, share_of(labels, row, total, r - 1));
    add_measured(sums, QKV_HEAD_SAME, share_of(labels, row, total, r));
    add_measured(sums, QKV_HEAD_NEXT, share_of(labels, row, total, r + 1));
    add_measured(sums, QKV_HEAD_SPECIAL, row[labels->special_column] / total);
    add_copied(labels, row, total, r, sums);
}

static void add_rows(const struct labeled_map *labels, const struct labeled_map *norms,
                     struct head_sums *sums)
{
    for (int64_t r = 0; r < labels->map->rows; r++) {
        if (r == labels->special_row) continue;
        add_row(labels, r, sums);
        add_measured(sums, QKV_HEAD_NORM,
                     qkv_row_total(norms->map->weights + r * norms->map->columns, norms->map->columns));
    }
}

/* ---- gold links ---- */

static const enum qkv_head_measure ERROR[] = {QKV_HEAD_ERROR_PREDICTED, QKV_HEAD_ERROR_READ},
                                   VARIATION[] = {QKV_HEAD_VARIATION_PREDICTED, QKV_HEAD_VARIATION_READ};

/* The total variation distance between a row of weights, which sums to at most 1, and the uniform distribution over the gold
 * links of its word. The rest of the row up to 1 is on </s>, which has no links. -1: the word has no link. */
static double variation_of(const double *row, int64_t sources, int64_t target,
                           const struct qkv_alignment *gold, double *ideal)
{
    double links = 0, sum = 0;
    memset(ideal, 0, (size_t)sources * sizeof *ideal);
    for (int64_t i = 0; i < gold->count; i++)
        if (gold->links[i].target == target) ideal[gold->links[i].source] = 1, links++;
    if (!(links > 0)) return -1;
    for (int64_t c = 0; c < sources; c++) sum += fabs(row[c] - ideal[c] / links);
    return (sum + fabs(1 - qkv_row_total(row, sources))) / 2;
}

/* Counts the links that are drawn from the map in one reading, and adds the variation of its rows. */
static enum qkv_status add_reading(const struct qkv_word_map *map, const struct qkv_alignment *gold,
                                   enum qkv_alignment_reading reading, struct qkv_arena *arena,
                                   struct head_sums *sums, struct qkv_error *error)
{
    struct qkv_alignment drawn;
    double *ideal = qkv_arena_array(arena, map->sources, sizeof *ideal);
    if (!ideal) return qkv_no_memory(error);
    if (qkv_alignment_check(gold, (struct qkv_word_counts){map->sources, map->targets}, error) ||
        qkv_alignment_draw(map, NULL, QKV_DRAWING_TARGET, 0, arena, &drawn, error))
        return QKV_INVALID;
    qkv_alignment_count(&sums->counted[reading], &drawn, gold);
    for (int64_t target = 0; target < map->targets; target++) {
        double variation =
            variation_of(map->weights + target * map->sources, map->sources, target, gold, ideal);
        if (variation >= 0) add_measured(sums, VARIATION[reading], variation);
    }
    return QKV_OK;
}

static enum qkv_status add_links(const struct head_maps *maps, const struct qkv_attention_report *report,
                                 struct qkv_attention_map map, struct qkv_arena *arena,
                                 struct head_sums *sums, struct qkv_error *error)
{
    if (maps->measures_norms && !qkv_map_normalize(&map, arena)) return qkv_no_memory(error);
    for (int i = 0; i < QKV_READINGS; i++) {
        const enum qkv_alignment_reading reading = (enum qkv_alignment_reading)i;
        struct qkv_word_map words;
        if (qkv_word_map_make(report, maps->pair->words, &map, reading, arena, &words, error) ||
            add_reading(&words, maps->gold, reading, arena, sums, error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

/* ---- all maps of a pair ---- */

/* Adds the maps of a pair to sums [maps]. Fails when links do not fit the pair. */
static enum qkv_status add_maps(const struct head_maps *maps, struct qkv_arena *arena, struct head_sums *sums,
                                struct qkv_error *error)
{
    struct qkv_attention_report weights, norms;
    const struct qkv_attention_report *chosen = maps->measures_norms ? &maps->norms : &maps->pair->report;
    if (qkv_attention_merge_words(&maps->pair->report, maps->pair->words, arena, &weights, error) ||
        qkv_attention_merge_words(&maps->norms, maps->pair->words, arena, &norms, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < chosen->map_count; i++) {
        const struct labeled_map by_weight = labeled(&weights, &weights.maps[i]),
                                 by_norm = labeled(&norms, &norms.maps[i]);
        add_rows(maps->measures_norms ? &by_norm : &by_weight, &by_norm, &sums[i]);
        if (maps->gold && chosen->maps[i].kind == QKV_ATTENTION_CROSS &&
            add_links(maps, chosen, chosen->maps[i], arena, &sums[i], error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

/* Adds `more` to `sums`. */
static void merge(struct head_sums *sums, const struct head_sums *more)
{
    for (int m = 0; m < QKV_HEAD_MEASURES; m++) {
        sums->sum[m] += more->sum[m];
        sums->rows[m] += more->rows[m];
    }
    for (int r = 0; r < QKV_READINGS; r++) qkv_alignment_add(&sums->counted[r], &more->counted[r]);
}

/* Sets the measures that follow from sums; NaN if there are no rows. `tokens`: target tokens of all sentences. */
static void finish(struct head_sums *sums, int64_t tokens, double value[QKV_HEAD_MEASURES])
{
    sums->rows[QKV_HEAD_IMPORTANCE] = tokens;
    for (int m = 0; m < QKV_HEAD_MEASURES; m++)
        if (m != QKV_HEAD_LOSS && m != QKV_HEAD_BLEU)
            value[m] = sums->rows[m] ? sums->sum[m] / (double)sums->rows[m] : (double)NAN;
    for (int r = 0; r < QKV_READINGS; r++)
        value[ERROR[r]] = sums->counted[r].sure ? sums->counted[r].error_rate : (double)NAN;
}

/* ---- the importance of heads by gradients (Michel et al. 2019) ---- */

/* Gradients of the loss of single sentences with respect to a mask of each head. For one thread at a time. All zero can be
 * released. */
struct head_gradients {
    const struct qkv_model *model;
    struct qkv_graph *graph;
    void *parameters; /* gradients of the parameters */
    struct qkv_batch batch;
    double *of_mask; /* [heads], of one pair */
};

static enum qkv_status gradients_init(struct head_gradients *gradients, const struct qkv_model *model,
                                      struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &model->parameters;
    *gradients = (struct head_gradients){.model = model, .graph = qkv_graph_new(parameters->dtype)};
    gradients->parameters = calloc((size_t)parameters->elements, qkv_dtype_size(parameters->dtype));
    gradients->of_mask = calloc((size_t)qkv_model_head_count(model), sizeof *gradients->of_mask);
    if (!gradients->graph || !gradients->parameters || !gradients->of_mask) return qkv_no_memory(error);
    qkv_graph_share_memory(gradients->graph, true);
    qkv_graph_bind(gradients->graph, parameters, gradients->parameters, false);
    return QKV_OK;
}

static void gradients_release(struct head_gradients *gradients)
{
    qkv_graph_free(gradients->graph);
    free(gradients->parameters);
    free(gradients->of_mask);
    qkv_batch_release(&gradients->batch);
}

/* d loss / dm at m = 1. The mask m of a head multiplies its context, which has the same effect as multiplying the rows W of the
 * output projection that belong to the head. So the derivative is the sum over these rows of W times d loss / dW. */
static double gradient_of_mask(const struct head_gradients *gradients, struct qkv_head head)
{
    const struct qkv_parameters *parameters = &gradients->model->parameters;
    struct qkv_rows rows;
    double sum = 0;
    if (!qkv_model_head_rows(gradients->model, head, &rows)) return 0;
    int64_t columns = rows.parameter->shape.size[1];
    for (int64_t i = rows.first * columns; i < (rows.first + rows.count) * columns; i++)
        sum += qkv_parameter_get(parameters, rows.parameter, i) *
               qkv_dtype_get(parameters->dtype, gradients->parameters, rows.parameter->offset + i);
    return sum;
}

/* Sets of_mask to d loss / d mask for the sum of the cross entropy over the target tokens of a sentence, in nats. The mask of a
 * head is 1 and multiplies its context. Fails when the sentence has more tokens than the model has positions. */
static enum qkv_status differentiate(struct head_gradients *gradients, const struct qkv_corpus *corpus,
                                     int64_t pair, struct qkv_error *error)
{
    struct qkv_graph *graph = gradients->graph;
    struct qkv_batch_view view;
    if (qkv_batch_make_some(&gradients->batch, corpus, pair, 1, error)) return QKV_INVALID;
    qkv_batch_shard(&gradients->batch, 0, 1, &view);
    qkv_graph_reset(graph);
    struct qkv_tensor *loss = qkv_model_loss(gradients->model, graph, &view, NULL, 1, NULL);
    qkv_graph_plan(graph, loss);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    qkv_backward(graph, loss, NULL);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    for (int64_t i = 0; i < qkv_model_head_count(gradients->model); i++)
        gradients->of_mask[i] = gradient_of_mask(gradients, qkv_model_head(gradients->model, i));
    return QKV_OK;
}

/* ---- all pairs ---- */

struct measuring {
    struct qkv_run *run;
    const struct qkv_corpus *corpus;
    const struct qkv_heads_options *options;
    struct qkv_measured_heads *measured;
    struct qkv_alignments gold; /* empty without links */
    struct forced_slots slots;
    struct head_gradients *gradients; /* [slots] */
    struct head_sums *sums; /* [groups, heads]; a group has FORCED_MAX pairs, the last one may have fewer */
    /* Heads that can be ablated alone: with a source prefix, the three kinds of maps are of the same heads. */
    int64_t distinct;
    int64_t done; /* parts of the work, for the progress function */
    struct qkv_arena arena;
};

static void report_progress(struct measuring *m)
{
    m->done++;
    /* The parts: maps and gradients; the scores with all heads; the scores without each head. */
    if (m->options->progress) m->options->progress(m->options->context, m->done, 2 + m->distinct);
}

/* Fails unless the report has one map for each head, in the same order, because sums are added map by map. */
static enum qkv_status check_maps(const struct measuring *m, const struct qkv_attention_report *report,
                                  struct qkv_error *error)
{
    bool fits = report->map_count == m->measured->count;
    for (int64_t i = 0; fits && i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        const struct qkv_head head = m->measured->heads[i].head;
        fits = map->kind == head.attention && map->layer == head.layer && map->head == head.head;
    }
    if (fits) return QKV_OK;
    return qkv_error_set(
        error,
        "network %s: its function forward must record QKV_PART_WEIGHTS of the %lld heads that "
        "its function attention gives, in their order, but records %lld",
        m->run->model->interface->name, (long long)m->measured->count, (long long)report->map_count);
}

/* Measures the pairs first .. first + count - 1. */
static enum qkv_status add_group(void *context, struct forced_slot *slot, int64_t first, int64_t count)
{
    struct measuring *m = context;
    struct head_gradients *gradients = &m->gradients[slot - m->slots.slot];
    struct head_sums *sums = m->sums + first / FORCED_MAX * m->measured->count;
    struct forced_pair pairs[FORCED_MAX];
    struct qkv_attention_report norms[FORCED_MAX];
    enum qkv_status status = qkv_forced_corpus(slot, m->corpus, first, count, pairs);
    if (status) return status;
    for (int64_t i = 0; i < count; i++) {
        if (check_maps(m, &pairs[i].report, &slot->error)) return QKV_INVALID;
        norms[i] = pairs[i].report;
    }
    if (qkv_value_norms_apply(slot->passes[0].collector, count, norms, &slot->error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        int64_t pair = first + i;
        const struct head_maps maps = {
            .pair = &pairs[i],
            .norms = norms[i],
            .gold = m->options->links ? &m->gold.sentences[m->corpus->line[pair] - 1] : NULL,
            .measures_norms = m->options->norms,
        };
        qkv_arena_reset(&slot->scratch);
        if (add_maps(&maps, &slot->scratch, sums, &slot->error) ||
            differentiate(gradients, m->corpus, pair, &slot->error))
            return QKV_INVALID;
        for (int64_t h = 0; h < m->measured->count; h++)
            sums[h].sum[QKV_HEAD_IMPORTANCE] += fabs(gradients->of_mask[h]);
    }
    return QKV_OK;
}

static enum qkv_status measure_maps(struct measuring *m, struct qkv_error *error)
{
    int64_t heads = m->measured->count, groups = (m->corpus->count + FORCED_MAX - 1) / FORCED_MAX;
    m->sums = qkv_arena_zeros(&m->arena, groups * heads, sizeof *m->sums);
    if (!m->sums) return qkv_no_memory(error);
    if (qkv_forced_open(&m->slots, m->options->workers, (const struct qkv_run *const[]){m->run, NULL}, false,
                        error))
        return QKV_INVALID;
    m->gradients = qkv_arena_zeros(&m->arena, m->slots.count, sizeof *m->gradients);
    if (!m->gradients) return qkv_no_memory(error);
    for (int i = 0; i < m->slots.count; i++) {
        m->slots.slot[i].passes[0].kinds = 0; /* all */
        m->slots.slot[i].passes[0].has_texts = true;
        if (gradients_init(&m->gradients[i], m->run->model, error)) return QKV_INVALID;
    }
    enum qkv_status status = qkv_forced_run(&m->slots, m->corpus->count, add_group, m, error);
    if (status) return status;
    for (int64_t g = 1; g < groups; g++)
        for (int64_t i = 0; i < heads; i++) merge(&m->sums[i], &m->sums[g * heads + i]);
    report_progress(m);
    return QKV_OK;
}

/* ---- without a head ---- */

static enum qkv_status evaluate(struct measuring *m, struct qkv_evaluator *evaluator,
                                struct qkv_scores *scores, struct qkv_error *error)
{
    enum qkv_status status = m->options->no_translation
                                 ? qkv_evaluator_run_references(evaluator, scores, error)
                                 : qkv_evaluator_run(evaluator, scores, error);
    if (m->options->no_translation) scores->value[QKV_METRIC_BLEU] = (double)NAN;
    if (!status) report_progress(m);
    return status;
}

static enum qkv_status ablate_each(struct measuring *m, struct qkv_evaluator *evaluator,
                                   struct qkv_error *error)
{
    struct qkv_scores all, scores;
    enum qkv_status status = evaluate(m, evaluator, &all, error);
    if (status) return status;
    m->measured->sentences = all.counts.sentences;
    m->measured->missing = m->gold.missing;
    m->measured->tokens = all.counts.tokens;
    m->measured->loss = all.value[QKV_METRIC_LOSS];
    m->measured->bleu = all.value[QKV_METRIC_BLEU];
    for (int64_t i = 0; i < m->distinct; i++) {
        struct qkv_measured_head *head = &m->measured->heads[i];
        bool was_ablated = qkv_model_is_ablated(m->run->model, head->head);
        qkv_model_ablate(m->run->model, head->head, true);
        status = evaluate(m, evaluator, &scores, error);
        qkv_model_ablate(m->run->model, head->head, was_ablated);
        if (status) break;
        head->value[QKV_HEAD_LOSS] = scores.value[QKV_METRIC_LOSS] - all.value[QKV_METRIC_LOSS];
        head->value[QKV_HEAD_BLEU] = scores.value[QKV_METRIC_BLEU] - all.value[QKV_METRIC_BLEU];
        for (int64_t k = i + m->distinct; k < m->measured->count; k += m->distinct)
            memcpy(m->measured->heads[k].value, head->value, sizeof head->value);
    }
    return status;
}

static enum qkv_status measure_ablation(struct measuring *m, struct qkv_error *error)
{
    const struct qkv_run *run = m->run;
    struct qkv_evaluator *evaluator =
        qkv_evaluator_new(run->model, m->corpus, &run->config.data.trg, &run->target, m->options->workers,
                          &m->options->testing, error);
    enum qkv_status status = evaluator ? ablate_each(m, evaluator, error) : QKV_INVALID;
    qkv_evaluator_free(evaluator);
    return status;
}

/* ---- induction ---- */

static enum qkv_status measure_induction(struct measuring *m, struct qkv_error *error)
{
    const struct qkv_run *run = m->run;
    struct qkv_induction *all = &m->measured->induction, silent;
    enum qkv_status status = qkv_induction_measure(run, m->options->repeats, &m->arena, all, error);
    for (int64_t i = 0; i < m->measured->count && !status; i++) {
        struct qkv_measured_head *head = &m->measured->heads[i];
        bool was_ablated = qkv_model_is_ablated(run->model, head->head);
        qkv_model_ablate(run->model, head->head, true);
        status = qkv_induction_measure(run, all->repeats, &m->arena, &silent, error);
        qkv_model_ablate(run->model, head->head, was_ablated);
        if (status) break;
        head->value[QKV_HEAD_PREFIX_MATCHING] = all->heads[i].prefix_matching;
        head->value[QKV_HEAD_PREVIOUS_TOKEN] = all->heads[i].previous_token;
        head->value[QKV_HEAD_SECOND_LOSS] = silent.second_loss - all->second_loss;
        head->value[QKV_HEAD_BEST_MATCHING] = 0;
        for (int64_t k = 0; k < silent.count; k++)
            head->value[QKV_HEAD_BEST_MATCHING] =
                fmax(head->value[QKV_HEAD_BEST_MATCHING], silent.heads[k].prefix_matching);
    }
    all->heads = NULL; /* the arena ends with the measuring */
    return status;
}

/* ---- all ---- */

static enum qkv_status measure(struct measuring *m, struct qkv_error *error)
{
    struct qkv_measured_heads *measured = m->measured;
    const struct qkv_model *model = m->run->model;
    measured->count = qkv_model_head_count(model);
    if (!measured->count)
        return qkv_error_set(error, "%s: the model has no attention, and so no heads", m->run->path);
    measured->heads = calloc((size_t)measured->count, sizeof *measured->heads);
    if (!measured->heads) return qkv_no_memory(error);
    for (int64_t i = 0; i < measured->count; i++) measured->heads[i].head = qkv_model_head(model, i);
    m->distinct = measured->count / (qkv_has_prefix(model) ? QKV_ATTENTION_KINDS : 1);
    if (m->options->links &&
        qkv_corpus_links_read(&m->gold, m->options->links, m->options->links_from, m->corpus, error))
        return QKV_INVALID;
    enum qkv_status status = measure_maps(m, error);
    if (!status) status = measure_ablation(m, error);
    if (status) return status;
    for (int64_t i = 0; i < measured->count; i++)
        finish(&m->sums[i], measured->tokens, measured->heads[i].value);
    return m->run->sides.has_source ? QKV_OK : measure_induction(m, error);
}

enum qkv_status qkv_heads_measure(struct qkv_run *run, const struct qkv_corpus *corpus,
                                  const struct qkv_heads_options *options,
                                  struct qkv_measured_heads *measured, struct qkv_error *error)
{
    struct measuring m = {.run = run, .corpus = corpus, .options = options, .measured = measured};
    *measured = (struct qkv_measured_heads){0};
    enum qkv_status status = measure(&m, error);
    for (int i = 0; m.gradients && i < m.slots.count; i++) gradients_release(&m.gradients[i]);
    qkv_forced_close(&m.slots);
    qkv_alignments_release(&m.gold);
    qkv_arena_release(&m.arena);
    if (status) qkv_measured_heads_release(measured);
    return status;
}

void qkv_measured_heads_release(struct qkv_measured_heads *measured)
{
    free(measured->heads);
    *measured = (struct qkv_measured_heads){0};
}
