/* Scores a model or an ensemble on a corpus: the loss of the references, and its own translations. */
#include "data/corpus.h"
#include "models/network.h"
#include "train/training.h"

#include "core/memory.h"
#include "core/system.h"
#include "graph/internal.h"
#include "metrics/metric.h"
#include "processes/processes.h"

#include <math.h>

/* A graph and a batch. There are as many slots as threads, so that all threads can work at the same time; of the batches of
 * this process, slot j computes j, j + slots, j + 2 slots, ... on the thread that takes it. */
struct slot {
    struct qkv_graph *graph;       /* of one model */
    struct qkv_decoding *decoding; /* of an ensemble, which has no graph; else NULL */
    struct qkv_arena arena;        /* of one batch of an ensemble: its rows */
    struct qkv_batch batch;
    enum qkv_status status;
    struct qkv_error error;
};

/* Sums over the target tokens, with </s>, of a batch. */
struct sums {
    double negative_log_likelihood; /* nats */
    double correct;                 /* tokens to which the model gives the highest probability */
    int64_t tokens;
};

struct qkv_evaluator {
    const struct qkv_model *model; /* the first of the ensemble */
    struct qkv_ensemble ensemble;
    const struct qkv_corpus *corpus;
    const struct qkv_text_config *target_text;
    const struct qkv_vocabulary *target;
    struct qkv_workers *workers;
    struct qkv_processes *processes;
    struct qkv_search_options search;
    enum qkv_bleu_tokenizer tokenizer;
    struct qkv_batches batches;
    int slots;
    bool scored;               /* the last run has computed sums and log-probabilities */
    struct slot *slot;         /* [slots] */
    struct sums *sums;         /* [batches] */
    double *correct;           /* [sentences]: as in struct sums */
    double *log_probabilities; /* of the target tokens of all sentences in order, each with its </s> */
    int64_t batch_size;
    struct qkv_ids *sources; /* [sentences] */
    struct qkv_translator *translator;
    const struct qkv_hypothesis *outputs; /* [sentences]; owned by the translator, until its next run */
    const char **translations;            /* [sentences]: texts live in `arena` */
    struct qkv_arena arena, memory;       /* memory: of the arrays above */
};

static enum qkv_status side_fits(const struct qkv_corpus *corpus, const struct qkv_corpus_side *side,
                                 const char *name, const char *path, int64_t positions, const char *stack,
                                 struct qkv_error *error)
{
    for (int64_t i = 0; i < corpus->count && side->longest >= positions; i++) {
        int64_t length =
            side == &corpus->source ? qkv_source_rows(corpus, i) : qkv_target_rows(corpus, i); /* with </s> */
        if (length > positions)
            return qkv_error_set(
                error, "%s:%lld: the %s has %lld tokens with </s>, but model.%s.positions.max_length is %lld",
                path, corpus->line ? (long long)corpus->line[i] : 1, name, (long long)length, stack,
                (long long)positions);
    }
    return QKV_OK;
}

enum qkv_status qkv_corpus_fits(const struct qkv_corpus *corpus, const char *path,
                                const struct qkv_model_config *model, struct qkv_error *error)
{
    if (corpus->types_only) return qkv_error_set(error, "%s: a corpus of types only has no sentences", path);
    int64_t source = qkv_max_length(model, false), target = qkv_max_length(model, true);
    const char *stack = model->encoder.type == QKV_NETWORK_DECODER_ONLY ? "decoder" : "encoder";
    if (side_fits(corpus, &corpus->source, "source", path, source, stack, error)) return QKV_INVALID;
    return side_fits(corpus, &corpus->target, corpus->sides.has_source ? "target" : "text", path, target,
                     "decoder", error);
}

static bool make_slots(struct qkv_evaluator *e)
{
    e->slots = e->workers ? qkv_workers_count(e->workers) : 1;
    e->slot = qkv_arena_zeros(&e->memory, e->slots, sizeof *e->slot);
    e->sums = qkv_arena_zeros(&e->memory, e->batches.count, sizeof *e->sums);
    e->sources = qkv_arena_zeros(&e->memory, e->corpus->count, sizeof *e->sources);
    e->translations = qkv_arena_zeros(&e->memory, e->corpus->count, sizeof *e->translations);
    e->correct = qkv_arena_zeros(&e->memory, e->corpus->count, sizeof *e->correct);
    int64_t tokens = e->corpus->target.start[e->corpus->count] + e->corpus->count; /* or more */
    e->log_probabilities = qkv_arena_zeros(&e->memory, tokens, sizeof *e->log_probabilities);
    if (e->memory.failed) return false;
    const struct qkv_corpus_side *source = &e->corpus->source;
    for (int64_t i = 0; i < e->corpus->count; i++)
        e->sources[i] =
            (struct qkv_ids){source->start[i + 1] - source->start[i], source->ids + source->start[i]};
    for (int i = 0; i < e->slots; i++) {
        if (e->ensemble.count > 1) {
            e->slot[i].decoding = qkv_decoding_new_ensemble(e->ensemble, NULL);
            if (!e->slot[i].decoding) return false;
            continue;
        }
        e->slot[i].graph = qkv_graph_new(e->model->parameters.dtype);
        if (!e->slot[i].graph) return false;
        qkv_graph_set_gradients(e->slot[i].graph, false);
        qkv_graph_share_memory(e->slot[i].graph, true);
        qkv_graph_bind(e->slot[i].graph, &e->model->parameters, NULL, false);
    }
    return true;
}

static enum qkv_status check_arguments(const struct qkv_model *model, const struct qkv_corpus *corpus,
                                       const struct qkv_vocabulary *target,
                                       const struct qkv_testing_config *testing, struct qkv_error *error)
{
    const struct qkv_search_options search = qkv_search_options_from_config(testing);
    bool has_raw = corpus->source.raw_start && corpus->target.raw_start;
    if (!corpus->encoded || (corpus->sides.has_source && !has_raw))
        return qkv_error_set(error,
                             "a corpus can be evaluated when it is encoded and was read with keep_raw");
    if (corpus->source.dropout || corpus->target.dropout)
        return qkv_error_set(error, "a corpus with BPE dropout, which changes its references, cannot be "
                                    "evaluated: read it without options.bpe_dropout");
    if (target->size != model->target_size)
        return qkv_error_set(error, "the target vocabulary has %d entries, but the model was made for %d",
                             (int)target->size, (int)model->target_size);
    if (testing->batch_size < 1)
        return qkv_error_set(error, "testing.batch_size is %lld, but must be at least 1",
                             (long long)testing->batch_size);
    return qkv_search_options_check(&search, error);
}

struct qkv_evaluator *
qkv_evaluator_new_ensemble(struct qkv_ensemble ensemble, const struct qkv_corpus *corpus,
                           const struct qkv_text_config *target_text, const struct qkv_vocabulary *target,
                           struct qkv_workers *workers, const struct qkv_testing_config *testing,
                           struct qkv_error *error)
{
    if (qkv_ensemble_check(ensemble, error)) return NULL;
    const struct qkv_model *model = ensemble.models[0];
    if (check_arguments(model, corpus, target, testing, error)) return NULL;
    struct qkv_evaluator *e = calloc(1, sizeof *e);
    if (!e) {
        qkv_no_memory(error);
        return NULL;
    }
    *e = (struct qkv_evaluator){
        .model = model, .corpus = corpus, .target_text = target_text, .target = target, .workers = workers};
    e->ensemble = ensemble.count > 1 ? ensemble : (struct qkv_ensemble){1, &e->model};
    e->batch_size = testing->batch_size;
    e->search = qkv_search_options_from_config(testing);
    e->tokenizer = qkv_bleu_tokenizer_for(testing->bleu_tokenizer, corpus);
    struct qkv_batches_options options = {QKV_BATCH_SENTENCE, testing->batch_size, QKV_BATCH_ORDER_LENGTH, 0};
    if (qkv_batches_init(&e->batches, corpus, options, error)) {
        qkv_evaluator_free(e);
        return NULL;
    }
    if (!make_slots(e))
        qkv_no_memory(error);
    else if ((e->translator = qkv_translator_new_ensemble(e->ensemble, workers, error)))
        return e;
    qkv_evaluator_free(e);
    return NULL;
}

struct qkv_evaluator *qkv_evaluator_new(const struct qkv_model *model, const struct qkv_corpus *corpus,
                                        const struct qkv_text_config *target_text,
                                        const struct qkv_vocabulary *target, struct qkv_workers *workers,
                                        const struct qkv_testing_config *testing, struct qkv_error *error)
{
    return qkv_evaluator_new_ensemble((struct qkv_ensemble){1, &model}, corpus, target_text, target, workers,
                                      testing, error);
}

void qkv_evaluator_divide(struct qkv_evaluator *e, struct qkv_processes *processes)
{
    e->processes = processes;
    qkv_translator_divide(e->translator, processes);
}

void qkv_evaluator_free(struct qkv_evaluator *e)
{
    if (!e) return;
    for (int i = 0; e->slot && i < e->slots; i++) {
        qkv_graph_free(e->slot[i].graph);
        qkv_decoding_free(e->slot[i].decoding);
        qkv_arena_release(&e->slot[i].arena);
        qkv_batch_release(&e->slot[i].batch);
    }
    qkv_translator_free(e->translator);
    qkv_batches_release(&e->batches);
    qkv_arena_release(&e->arena);
    qkv_arena_release(&e->memory);
    free(e);
}

/* ---- running ---- */

/* The log-probabilities of sentence i: one for each target token, and one for </s>. */
static double *log_probabilities_of(const struct qkv_evaluator *e, int64_t i)
{
    return e->log_probabilities + e->corpus->target.start[i] + i;
}

/* Stores the score of target token t of sentence i of a batch. */
static void store(struct qkv_evaluator *e, const struct qkv_batch_view *view, int64_t i, int64_t t,
                  double log_probability, double correct)
{
    log_probabilities_of(e, view->index[i])[t] = log_probability;
    e->correct[view->index[i]] += correct;
}

/* Scores the references of one batch with the graph of one model. */
static enum qkv_status score_by_graph(struct qkv_evaluator *e, struct slot *slot,
                                      const struct qkv_batch_view *view, struct sums *sums)
{
    qkv_graph_reset(slot->graph);
    struct qkv_tensor *loss = qkv_model_loss(e->model, slot->graph, view, NULL, 1, NULL);
    qkv_graph_plan(slot->graph, loss);
    if (qkv_graph_check(slot->graph, &slot->error)) return QKV_INVALID;
    qkv_forward(slot->graph);
    if (qkv_graph_check(slot->graph, &slot->error)) return QKV_INVALID;
    qkv_cross_entropy_sums(loss, &sums->negative_log_likelihood, &sums->correct);
    for (int64_t i = 0; i < view->count; i++)
        for (int64_t t = 0; t < view->target_length[i]; t++) {
            double negative_log_likelihood, correct;
            qkv_cross_entropy_row(loss, view->target_start[i] + t, &negative_log_likelihood, &correct);
            store(e, view, i, t, -negative_log_likelihood, correct);
        }
    return QKV_OK;
}

/* The sentences that still have a target token at the current step. Row i belongs to sentence[i]. */
struct rows {
    int64_t count;
    int64_t *sentence, *parent; /* [count]; parent: the row of the sentence in the previous step */
    int32_t *ids;               /* [count]: input token of each row */
};

/* Drops the rows of sentences without a token at `step`. */
static void keep_rows(struct rows *rows, const struct qkv_batch_view *batch, int64_t step)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t sentence = rows->sentence[i];
        if (batch->target_length[sentence] <= step) continue;
        rows->parent[kept] = i;
        rows->ids[kept] = batch->target_input[batch->target_start[sentence] + step];
        rows->sentence[kept++] = sentence;
    }
    rows->count = kept;
}

/* Whether `token` is the most probable one of the row; of equally probable tokens, the lowest id counts. */
static bool is_best(const struct qkv_next_scores *next, int64_t row, int32_t token)
{
    int64_t at = row * next->classes;
    double logit_of_token = qkv_dtype_get(next->dtype, next->logits, at + token);
    for (int64_t other = 0; other < next->classes; other++) {
        double logit = qkv_dtype_get(next->dtype, next->logits, at + other);
        if (logit > logit_of_token || (logit >= logit_of_token && other < token)) return false;
    }
    return true;
}

/* Does the same for an ensemble, which has no graph for a forced pass, by decoding step by step. */
static enum qkv_status score_by_steps(struct qkv_evaluator *e, struct slot *slot,
                                      const struct qkv_batch_view *view, struct sums *sums)
{
    int64_t count = view->count, longest = 0;
    qkv_arena_reset(&slot->arena);
    struct rows rows = {count, qkv_arena_array(&slot->arena, count, sizeof *rows.sentence),
                        qkv_arena_array(&slot->arena, count, sizeof *rows.parent),
                        qkv_arena_array(&slot->arena, count, sizeof *rows.ids)};
    if (slot->arena.failed) return qkv_no_memory(&slot->error);
    for (int64_t i = 0; i < count; i++) {
        rows.sentence[i] = i;
        if (view->target_length[i] > longest) longest = view->target_length[i];
    }
    if (qkv_decoding_start(slot->decoding, view, count, longest, true, &slot->error)) return QKV_INVALID;
    for (int64_t step = 0; step < longest; step++) {
        keep_rows(&rows, view, step);
        if (step) qkv_decoding_reorder(slot->decoding, rows.count, rows.parent);
        const struct qkv_next_scores *next =
            qkv_decoding_step(slot->decoding, rows.count, rows.ids, rows.sentence, &slot->error);
        if (!next) return QKV_INVALID;
        for (int64_t row = 0; row < rows.count; row++) {
            int64_t i = rows.sentence[row];
            int32_t token = view->target_output[view->target_start[i] + step];
            store(e, view, i, step, qkv_next_log_probability(next, row, token), is_best(next, row, token));
        }
    }
    *sums = (struct sums){0};
    for (int64_t i = 0; i < count; i++) {
        sums->correct += e->correct[view->index[i]];
        for (int64_t t = 0; t < view->target_length[i]; t++)
            sums->negative_log_likelihood -= log_probabilities_of(e, view->index[i])[t];
    }
    return QKV_OK;
}

/* Scores the references of one batch, and sums their loss. */
static enum qkv_status sum_batch(struct qkv_evaluator *e, struct slot *slot,
                                 const struct qkv_batch_view *view, struct sums *sums)
{
    for (int64_t i = 0; i < view->count; i++) e->correct[view->index[i]] = 0;
    enum qkv_status status =
        slot->decoding ? score_by_steps(e, slot, view, sums) : score_by_graph(e, slot, view, sums);
    if (status) return status;
    sums->tokens = view->target_tokens;
    if (isfinite(sums->negative_log_likelihood)) return QKV_OK;
    qkv_error_set(&slot->error,
                  "the loss of the references is not finite: the model's weights are too large, or infinity "
                  "or NaN");
    return QKV_FAILED;
}

static void run_slot(void *context, int index)
{
    struct qkv_evaluator *e = context;
    struct slot *slot = &e->slot[index];
    slot->status = QKV_OK;
    int rank = qkv_processes_rank(e->processes), count = qkv_processes_count(e->processes);
    for (int64_t b = rank + (int64_t)index * count; b < e->batches.count; b += (int64_t)e->slots * count) {
        struct qkv_batch_view view;
        slot->status = qkv_check_interrupt(&slot->error);
        if (!slot->status) slot->status = qkv_batches_get(&e->batches, b, &slot->batch, &slot->error);
        if (slot->status) return;
        qkv_batch_shard(&slot->batch, 0, 1, &view);
        slot->status = sum_batch(e, slot, &view, &e->sums[b]);
        if (slot->status) return;
    }
}

/* Moves the sums of the batches of a process, and the scores of their sentences. */
static void move_batches(void *context, int rank, struct qkv_parcel *parcel)
{
    struct qkv_evaluator *e = context;
    struct qkv_batch *batch = &e->slot[0].batch;
    struct qkv_batch_view view;
    for (int64_t b = rank; b < e->batches.count; b += qkv_processes_count(e->processes)) {
        if (qkv_batches_get(&e->batches, b, batch, NULL)) {
            parcel->has_failed = true;
            return;
        }
        qkv_batch_shard(batch, 0, 1, &view);
        qkv_parcel_move(parcel, &e->sums[b], sizeof e->sums[b]);
        for (int64_t i = 0; i < view.count; i++) {
            size_t size = (size_t)view.target_length[i] * sizeof *e->log_probabilities;
            qkv_parcel_move(parcel, &e->correct[view.index[i]], sizeof *e->correct);
            qkv_parcel_move(parcel, log_probabilities_of(e, view.index[i]), size);
        }
    }
}

/* Computes the loss of the batches of this process. */
static enum qkv_status run_own(struct qkv_evaluator *e, struct qkv_error *error)
{
    qkv_workers_run(e->workers, e->slots, run_slot, e);
    for (int i = 0; i < e->slots; i++)
        if (e->slot[i].status) {
            qkv_error_set(error, "%s", e->slot[i].error.message);
            return e->slot[i].status;
        }
    return QKV_OK;
}

/* ---- scores ---- */

static bool equals_reference(const struct qkv_evaluator *e, int64_t i)
{
    const struct qkv_corpus_side *side = &e->corpus->target;
    int64_t length = side->start[i + 1] - side->start[i];
    const int32_t *ids = side->ids + side->start[i];
    if (!e->outputs[i].finished || e->outputs[i].length != length) return false;
    for (int64_t j = 0; j < length; j++)
        if (ids[j] != e->outputs[i].ids[j] || ids[j] == QKV_UNKNOWN) return false;
    return true;
}

static enum qkv_status score_texts(struct qkv_evaluator *e, struct qkv_scorer *scorer,
                                   struct qkv_error *error)
{
    qkv_arena_reset(&e->arena);
    for (int64_t i = 0; i < e->corpus->count; i++) {
        const char *reference = qkv_corpus_target(e->corpus, i);
        const struct qkv_hypothesis *output = &e->outputs[i];
        scorer->counts.exact_matches += equals_reference(e, i);
        scorer->counts.cut += !output->finished;
        const char **tokens = qkv_vocabulary_tokens(e->target, output->length, output->ids, &e->arena);
        e->translations[i] =
            tokens ? qkv_detokenize(e->target_text, output->length, tokens, &e->arena) : NULL;
        if (!e->translations[i]) return qkv_no_memory(error);
        if (qkv_scorer_add(scorer, e->translations[i], &reference, 1, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

/* Computes the loss of all batches, and adds it to the counts. */
static enum qkv_status score_references(struct qkv_evaluator *e, struct qkv_score_counts *counts,
                                        struct qkv_error *error)
{
    e->outputs = NULL;
    e->scored = false;
    const struct qkv_parcel_contents contents = {e, move_batches};
    enum qkv_status status = qkv_gather(e->processes, &contents, run_own(e, error), error);
    if (status || qkv_processes_rank(e->processes) > 0) return status;
    *counts = (struct qkv_score_counts){
        .sentences = e->corpus->count, .characters = e->corpus->characters, .words = e->corpus->words};
    for (int64_t b = 0; b < e->batches.count; b++) {
        counts->negative_log_likelihood += e->sums[b].negative_log_likelihood;
        counts->correct += e->sums[b].correct;
        counts->tokens += e->sums[b].tokens;
    }
    e->scored = true;
    return QKV_OK;
}

enum qkv_status qkv_evaluator_run_references(struct qkv_evaluator *e, struct qkv_scores *scores,
                                             struct qkv_error *error)
{
    struct qkv_scorer scorer = {.counts = {0}};
    enum qkv_status status = score_references(e, &scorer.counts, error);
    *scores = qkv_scorer_scores(&scorer);
    return status;
}

enum qkv_status qkv_evaluator_run(struct qkv_evaluator *e, struct qkv_scores *scores, struct qkv_error *error)
{
    struct qkv_scorer scorer = {.options = {.tokenizer = e->tokenizer}};
    if (!e->corpus->sides.has_source) return qkv_evaluator_run_references(e, scores, error);
    enum qkv_status status = score_references(e, &scorer.counts, error);
    if (status) return status;
    status = qkv_translator_run(e->translator, e->corpus->count, e->sources, e->batch_size, &e->search,
                                &e->outputs, error);
    if (status || qkv_processes_rank(e->processes) > 0) {
        e->outputs = NULL;
        return status;
    }
    scorer.counts.translated = e->corpus->count;
    status = score_texts(e, &scorer, error);
    if (status) e->outputs = NULL;
    *scores = qkv_scorer_scores(&scorer);
    qkv_scorer_release(&scorer);
    return status;
}

const char *qkv_evaluator_translation(const struct qkv_evaluator *evaluator, int64_t i)
{
    bool exists = evaluator->outputs && i >= 0 && i < evaluator->corpus->count;
    return exists ? evaluator->translations[i] : NULL;
}

struct qkv_sentence_score qkv_evaluator_sentence(const struct qkv_evaluator *e, int64_t i)
{
    if (!e->scored || i < 0 || i >= e->corpus->count) return (struct qkv_sentence_score){0};
    const struct qkv_corpus_side *source = &e->corpus->source;
    struct qkv_sentence_score score = {
        .source_tokens = source->start[i + 1] - source->start[i],
        .tokens = qkv_target_rows(e->corpus, i),
        .correct = e->correct[i],
        .is_exact_match = e->outputs && equals_reference(e, i),
    };
    for (int64_t t = 0; t < score.tokens; t++) score.negative_log_likelihood -= log_probabilities_of(e, i)[t];
    return score;
}

const double *qkv_evaluator_log_probabilities(const struct qkv_evaluator *e, int64_t i)
{
    return e->scored && i >= 0 && i < e->corpus->count ? log_probabilities_of(e, i) : NULL;
}
