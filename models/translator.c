/* Translates any number of sentences in batches, on several threads and processes. */
#include "core/memory.h"
#include "core/system.h"
#include "graph/internal.h"

#include "models/network.h"
#include "processes/processes.h"

#include <stdatomic.h>

/* The state of one thread. */
struct slot {
    struct qkv_decoding *decoding;
    struct qkv_batch batch;
    struct qkv_translations translations;
    struct qkv_search_options options; /* of the translator, with the arrays of this batch */
    struct qkv_arena ids;              /* token ids of this thread's translations */
    enum qkv_status status;
    struct qkv_error error;
};

struct sorted_sentence {
    int64_t length, sentence;
};

struct qkv_translator {
    struct qkv_workers *workers;
    struct qkv_processes *processes;
    int64_t models;                /* of the ensemble */
    struct qkv_panels **panels;    /* [models] */
    struct qkv_arena arena;        /* of the arrays below */
    struct sorted_sentence *order; /* [count]: longest first */
    struct qkv_ids *sorted;        /* [count]: the sources in that order */
    struct qkv_ids *prefixes;      /* [count], in that order; NULL: none */
    int64_t *numbers;              /* [count], in that order */
    struct qkv_hypothesis *best;   /* [count * n_best], in the order of the caller's sentences */
    const struct qkv_search_options *options;
    int64_t count, batch_size, batches;
    atomic_llong next; /* index of the next batch to translate, among those of this process */
    int slots;         /* threads */
    struct slot slot[];
};

static bool make_panels(struct qkv_translator *t, struct qkv_ensemble ensemble)
{
    t->panels = calloc((size_t)ensemble.count, sizeof(struct qkv_panels *));
    for (; t->panels && t->models < ensemble.count; t->models++)
        if (!(t->panels[t->models] = qkv_panels_new(&ensemble.models[t->models]->parameters))) return false;
    return t->panels != NULL;
}

static struct qkv_decoding *make_decoding(struct qkv_translator *t, struct qkv_ensemble ensemble,
                                          struct qkv_error *error)
{
    struct qkv_decoding *decoding = ensemble.count == 1 ? qkv_decoding_new(ensemble.models[0])
                                                        : qkv_decoding_new_ensemble(ensemble, error);
    for (int64_t i = 0; decoding && i < ensemble.count; i++)
        qkv_decoding_set_panels(qkv_decoding_member(decoding, i), t->panels[i]);
    return decoding;
}

struct qkv_translator *qkv_translator_new_ensemble(struct qkv_ensemble ensemble, struct qkv_workers *workers,
                                                   struct qkv_error *error)
{
    int slots = workers ? qkv_workers_count(workers) : 1;
    if (qkv_ensemble_check(ensemble, error)) return NULL;
    struct qkv_translator *t = calloc(1, sizeof *t + (size_t)slots * sizeof t->slot[0]);
    bool complete = t && make_panels(t, ensemble);
    for (int i = 0; complete && i < slots; i++, t->slots++)
        complete = (t->slot[i].decoding = make_decoding(t, ensemble, error)) != NULL;
    if (complete) {
        t->workers = workers;
        return t;
    }
    qkv_translator_free(t);
    qkv_no_memory(error);
    return NULL;
}

struct qkv_translator *qkv_translator_new(const struct qkv_model *model, struct qkv_workers *workers,
                                          struct qkv_error *error)
{
    return qkv_translator_new_ensemble((struct qkv_ensemble){1, &model}, workers, error);
}

void qkv_translator_free(struct qkv_translator *t)
{
    if (!t) return;
    for (int i = 0; i < t->slots; i++) {
        qkv_decoding_free(t->slot[i].decoding);
        qkv_batch_release(&t->slot[i].batch);
        qkv_translations_release(&t->slot[i].translations);
        qkv_arena_release(&t->slot[i].ids);
    }
    for (int64_t i = 0; i < t->models; i++) qkv_panels_free(t->panels[i]);
    free(t->panels);
    qkv_arena_release(&t->arena);
    free(t);
}

void qkv_translator_divide(struct qkv_translator *t, struct qkv_processes *processes)
{
    t->processes = processes;
}

static int longer_first(const void *a, const void *b)
{
    const struct sorted_sentence *x = a, *y = b;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    return x->sentence < y->sentence ? -1 : x->sentence > y->sentence;
}

/* The most hypotheses that a model should decode together. In int8, more are slower: their logits, of four bytes, leave the
 * second-level cache and take more memory than the output layer's weights, of one byte, which smaller batches read more
 * often. In other types weights are larger, and the number of rows of a product may change its rounding: no limit. */
static int64_t most_rows(const struct qkv_model *model)
{
    enum { LOGITS = 1 << 18, LOGIT_BYTES = 4 };
    if (model->parameters.products != QKV_PRECISION_INT8) return INT64_MAX;
    int64_t cached = LOGITS / model->target_size,
            as_weights = model->config.decoder.hidden_size / LOGIT_BYTES;
    return cached > as_weights ? cached : as_weights;
}

/* Sentences of a batch: `wanted`, halved until their hypotheses are few enough. */
static int64_t batch_size_of(const struct qkv_translator *t, int64_t wanted)
{
    const struct qkv_search_options *options = t->options;
    int64_t size = wanted < t->count ? wanted : t->count,
            hypotheses = options->sampling.enabled ? options->n_best : options->beam_size;
    const struct qkv_decoding *member;
    for (int64_t i = 0; (member = qkv_decoding_member(t->slot[0].decoding, i)); i++)
        while (size > 1 && size > most_rows(member->model) / hypotheses) size = (size + 1) / 2;
    return size > 0 ? size : 1;
}

/* Where translation i of a batch, whose first sentence in sorted order is `first`, belongs. */
static struct qkv_hypothesis *place_of(const struct qkv_translator *t, int64_t first, int64_t i)
{
    int64_t n_best = t->options->n_best;
    return &t->best[t->order[first + i / n_best].sentence * n_best + i % n_best];
}

/* Sentences of a batch. */
static int64_t size_of(const struct qkv_translator *t, int64_t batch)
{
    int64_t rest = t->count - batch * t->batch_size;
    return rest < t->batch_size ? rest : t->batch_size;
}

/* Translates one batch and stores its translations in t->best under the numbers of their sentences.
 */
static enum qkv_status translate(struct qkv_translator *t, struct slot *slot, int64_t batch)
{
    int64_t first = batch * t->batch_size, n_best = t->options->n_best, count = size_of(t, batch);
    struct qkv_batch_view view;
    if (qkv_batch_make(&slot->batch, count, t->sorted + first, NULL, &slot->error)) return QKV_INVALID;
    qkv_batch_shard(&slot->batch, 0, 1, &view);
    slot->options = *t->options;
    slot->options.prefixes = t->prefixes ? t->prefixes + first : NULL;
    slot->options.numbers = t->numbers + first;
    enum qkv_status status =
        qkv_search(slot->decoding, &view, &slot->options, &slot->translations, &slot->error);
    if (status) return status;
    for (int64_t i = 0; i < count * n_best; i++) {
        struct qkv_hypothesis hypothesis = slot->translations.best[i];
        size_t bytes = (size_t)hypothesis.length * sizeof *hypothesis.ids;
        int32_t *ids = hypothesis.ids ? qkv_arena_allocate(&slot->ids, bytes) : NULL;
        if (hypothesis.ids && !ids) return qkv_no_memory(&slot->error);
        if (bytes) memcpy(ids, hypothesis.ids, bytes);
        hypothesis.ids = ids;
        *place_of(t, first, i) = hypothesis;
    }
    return QKV_OK;
}

/* Process r of n has the batches r, r + n, r + 2n, ..., so that each has long sentences and short ones. */
static int64_t own_batch(const struct qkv_translator *t, int64_t i)
{
    return qkv_processes_rank(t->processes) + i * qkv_processes_count(t->processes);
}

/* One thread: translates batches until there are no more. */
static void run_slot(void *context, int part)
{
    struct qkv_translator *t = context;
    struct slot *slot = &t->slot[part];
    for (int64_t b; !slot->status && (b = own_batch(t, atomic_fetch_add(&t->next, 1))) < t->batches;)
        slot->status = translate(t, slot, b);
}

static bool prepare(struct qkv_translator *t, int64_t count, const struct qkv_ids *sources)
{
    qkv_arena_reset(&t->arena);
    size_t sentences = (size_t)count, results = sentences * (size_t)t->options->n_best;
    if (sentences > SIZE_MAX / sizeof *t->best / (size_t)t->options->n_best) return false;
    t->order = qkv_arena_allocate(&t->arena, sentences * sizeof *t->order);
    t->sorted = qkv_arena_allocate(&t->arena, sentences * sizeof *t->sorted);
    t->numbers = qkv_arena_allocate(&t->arena, sentences * sizeof *t->numbers);
    t->prefixes =
        t->options->prefixes ? qkv_arena_allocate(&t->arena, sentences * sizeof *t->prefixes) : NULL;
    t->best = qkv_arena_zeroed(&t->arena, results * sizeof *t->best);
    if (t->arena.failed) return false;
    for (int64_t i = 0; i < count; i++) t->order[i] = (struct sorted_sentence){sources[i].length, i};
    qsort(t->order, sentences, sizeof *t->order, longer_first);
    for (int64_t i = 0; i < count; i++) {
        int64_t sentence = t->order[i].sentence;
        t->sorted[i] = sources[sentence];
        t->numbers[i] = t->options->numbers ? t->options->numbers[sentence] : sentence;
        if (t->prefixes) t->prefixes[i] = t->options->prefixes[sentence];
    }
    return true;
}

/* Moves one translation between processes. */
static void move_hypothesis(struct qkv_translator *t, struct qkv_parcel *parcel,
                            struct qkv_hypothesis *hypothesis)
{
    qkv_parcel_move(parcel, hypothesis, sizeof *hypothesis);
    size_t bytes = (size_t)hypothesis->length * sizeof *hypothesis->ids;
    int32_t *ids = (int32_t *)hypothesis->ids; /* a pointer of the sender, if it is received */
    if (!ids) return;
    if (parcel->received) ids = qkv_arena_allocate(&t->arena, bytes);
    hypothesis->ids = ids;
    if (ids)
        qkv_parcel_move(parcel, ids, bytes);
    else
        parcel->has_failed = true;
}

static void move_batches(void *context, int rank, struct qkv_parcel *parcel)
{
    struct qkv_translator *t = context;
    for (int64_t b = rank; b < t->batches; b += qkv_processes_count(t->processes))
        for (int64_t i = 0; !parcel->has_failed && i < size_of(t, b) * t->options->n_best; i++)
            move_hypothesis(t, parcel, place_of(t, b * t->batch_size, i));
}

/* Translates the batches of this process. */
static enum qkv_status run_own(struct qkv_translator *t, const struct qkv_ids *sources,
                               struct qkv_error *error)
{
    if (!prepare(t, t->count, sources)) return qkv_no_memory(error);
    int parts = t->batches < t->slots ? (int)t->batches : t->slots;
    for (int i = 0; i < t->slots; i++) {
        t->slot[i].status = QKV_OK;
        qkv_arena_reset(&t->slot[i].ids);
        qkv_decoding_set_workers(t->slot[i].decoding, parts == 1 ? t->workers : NULL);
    }
    qkv_workers_run(t->workers, parts, run_slot, t);
    for (int i = 0; i < parts; i++)
        if (t->slot[i].status) {
            qkv_error_set(error, "%s", t->slot[i].error.message);
            return t->slot[i].status;
        }
    return QKV_OK;
}

enum qkv_status qkv_translator_run(struct qkv_translator *t, int64_t count, const struct qkv_ids *sources,
                                   int64_t batch_size, const struct qkv_search_options *options,
                                   const struct qkv_hypothesis **best, struct qkv_error *error)
{
    *best = NULL;
    if (count < 0 || batch_size < 1)
        return qkv_error_set(error, "%lld sentences in batches of %lld cannot be translated",
                             (long long)count, (long long)batch_size);
    if (qkv_search_options_check(options, error)) return QKV_INVALID;
    t->options = options;
    t->count = count;
    t->batch_size = batch_size_of(t, batch_size);
    t->batches = count / t->batch_size + (count % t->batch_size > 0);
    t->next = 0;
    const struct qkv_parcel_contents contents = {t, move_batches};
    enum qkv_status status = qkv_gather(t->processes, &contents, run_own(t, sources, error), error);
    if (!status) *best = t->best;
    return status;
}
