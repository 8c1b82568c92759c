/* The table of metrics, the accumulator of all of them, and the bootstrap. */
#include "core/memory.h"
#include "core/numbers.h"
#include "metrics/metric.h"
#include "qkv/version.h"

#include <math.h>

/* ---- metrics of counts ---- */

static double loss_of(const struct qkv_score_counts *counts)
{
    return counts->negative_log_likelihood / (double)counts->tokens;
}

static double perplexity_of(const struct qkv_score_counts *counts)
{
    return qkv_scalar_exp(loss_of(counts));
}

static double token_accuracy_of(const struct qkv_score_counts *counts)
{
    return counts->correct / (double)counts->tokens;
}

static double sequence_accuracy_of(const struct qkv_score_counts *counts)
{
    return (double)counts->exact_matches / (double)counts->translated;
}

double qkv_bits_per(const struct qkv_score_counts *counts, int64_t items)
{
    return items ? counts->negative_log_likelihood / qkv_scalar_log(2) / (double)items : (double)NAN;
}

/* ---- the table ---- */

static const struct metric {
    struct qkv_metric_info info;
    /* How the metric is computed: from counts or from texts. One of these two is NULL. */
    double (*of_counts)(const struct qkv_score_counts *counts);
    const struct qkv_text_metric *of_texts;
} METRICS[QKV_METRIC_COUNT] = {
#define METRIC(NAME, name, choice, help, ...)                                                                \
    [QKV_METRIC_##NAME] = {{.key = #name, __VA_ARGS__}, name##_of, NULL},
#define TEXT_METRIC(NAME, name, choice, help, ...)                                                           \
    [QKV_METRIC_##NAME] = {{.key = #name, .of_texts = true, __VA_ARGS__}, NULL, &qkv_text_metric_##name},
#define REQUESTED_METRIC(NAME, name, choice, help, ...)                                                      \
    TEXT_METRIC(NAME, name, choice, help, .on_request = true, __VA_ARGS__)
#include "qkv/metrics.def"
};

const struct qkv_metric_info *qkv_metric_info(enum qkv_metric metric)
{
    return (int)metric >= 0 && (int)metric < QKV_METRIC_COUNT ? &METRICS[metric].info : NULL;
}

bool qkv_metric_is_better(enum qkv_metric metric, double a, double b)
{
    if (isnan(a)) return false;
    return isnan(b) || (qkv_metric_info(metric)->lower_is_better ? a < b : a > b);
}

/* ---- the accumulator ---- */

/* The statistics of a text metric. */
struct qkv_statistics {
    int width;                       /* numbers of each */
    double last[QKV_STATISTICS_MAX]; /* of the segment that was added last */
    double next[QKV_STATISTICS_MAX]; /* of the segment that is being added */
    double sums[QKV_STATISTICS_MAX];
};

bool qkv_scorer_computes(const struct qkv_scorer *scorer, enum qkv_metric metric)
{
    const struct qkv_metric_info *info = qkv_metric_info(metric);
    if (!info || !info->of_texts) return false;
    return scorer->options.metrics ? scorer->options.metrics >> metric & 1 : !info->on_request;
}

/* Computes the statistics of a segment, which has all texts but not yet their words, for one metric. */
static bool compare(struct qkv_scorer *scorer, int m, struct qkv_segment segment)
{
    const struct qkv_text_metric *metric = METRICS[m].of_texts;
    struct qkv_words **words = qkv_arena_array(segment.arena, segment.count, sizeof *words);
    for (int64_t i = 0; words && i < segment.count; i++) words[i] = metric->words(&segment, i);
    segment.words = words ? qkv_text_number_words(segment.arena, words, segment.count) : NULL;
    scorer->statistics[m]->width = segment.words ? metric->compare(&segment, scorer->statistics[m]->next) : 0;
    return scorer->statistics[m]->width;
}

/* Computes the statistics of a segment for all metrics that the options ask for. */
static enum qkv_status compare_all(struct qkv_scorer *scorer, const struct qkv_segment *segment,
                                   struct qkv_error *error)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_text_metric *metric = METRICS[m].of_texts;
        if (!qkv_scorer_computes(scorer, (enum qkv_metric)m)) continue;
        if (!scorer->statistics[m]) scorer->statistics[m] = calloc(1, sizeof *scorer->statistics[m]);
        if (metric->check && metric->check(&scorer->options, error)) return QKV_INVALID;
        if (!scorer->statistics[m] || !compare(scorer, m, *segment)) return qkv_no_memory(error);
    }
    return QKV_OK;
}

/* Lists the translation and those references that are not NULL. Fails when there are none. */
static enum qkv_status list_texts(struct qkv_segment *segment, const char *translation,
                                  const char *const *references, int64_t count, struct qkv_error *error)
{
    if (count < 0)
        return qkv_error_set(error, "a segment has %lld references, but must have at least 1",
                             (long long)count);
    const char **texts = qkv_arena_array(segment->arena, count + 1, sizeof *texts);
    if (!texts) return qkv_no_memory(error);
    segment->texts = texts;
    texts[segment->count++] = translation;
    for (int64_t i = 0; i < count; i++)
        if (references[i]) texts[segment->count++] = references[i];
    if (segment->count == 1)
        return qkv_error_set(error, "a segment has no reference translation to compare with");
    return QKV_OK;
}

enum qkv_status qkv_scorer_add(struct qkv_scorer *scorer, const char *translation,
                               const char *const *references, int64_t count, struct qkv_error *error)
{
    struct qkv_segment segment = {.options = &scorer->options, .arena = &scorer->scratch};
    enum qkv_status status = list_texts(&segment, translation, references, count, error);
    if (!status) status = compare_all(scorer, &segment, error);
    qkv_arena_reset(&scorer->scratch);
    if (status) return status;
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        struct qkv_statistics *statistics = scorer->statistics[m];
        for (int k = 0; statistics && k < statistics->width; k++)
            statistics->sums[k] += statistics->last[k] = statistics->next[k];
    }
    int64_t given = segment.count - 1;
    if (!scorer->most_references || given < scorer->fewest_references) scorer->fewest_references = given;
    if (given > scorer->most_references) scorer->most_references = given;
    return QKV_OK;
}

/* The score of a text metric for sums of its statistics. */
static double score_of(const struct qkv_scorer *scorer, int m, const double *sums)
{
    return METRICS[m].of_texts->score(&scorer->options, sums);
}

struct qkv_scores qkv_scorer_scores(const struct qkv_scorer *scorer)
{
    struct qkv_scores scores = {.counts = scorer->counts};
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        if (METRICS[m].of_counts)
            scores.value[m] = METRICS[m].of_counts(&scorer->counts);
        else if (scorer->statistics[m])
            scores.value[m] = score_of(scorer, m, scorer->statistics[m]->sums);
    }
    return scores;
}

struct qkv_scores qkv_scorer_last(const struct qkv_scorer *scorer)
{
    struct qkv_scores scores = {.counts = {0}};
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_statistics *statistics = scorer->statistics[m];
        scores.value[m] = statistics ? score_of(scorer, m, statistics->last) : (double)NAN;
    }
    return scores;
}

struct qkv_metric_description qkv_scorer_describe(const struct qkv_scorer *scorer, enum qkv_metric metric)
{
    struct qkv_metric_description description = {"", "", 0, {{0}}};
    const struct qkv_statistics *statistics = scorer->statistics[metric];
    char own[sizeof description.signature], references[24] = "var";
    snprintf(description.title, sizeof description.title, "%s", METRICS[metric].info.title);
    if (!statistics) return description;
    if (scorer->fewest_references == scorer->most_references)
        snprintf(references, sizeof references, "%lld", (long long)scorer->most_references);
    bool case_counts = METRICS[metric].of_texts->describe(&scorer->options, statistics->sums, &description);
    memcpy(own, description.signature, sizeof own);
    snprintf(description.signature, sizeof description.signature, "nrefs:%s|case:%s|%.90s|version:qkv-%s",
             references, case_counts ? "mixed" : "lc", own, qkv_version());
    return description;
}

void qkv_scorer_release(struct qkv_scorer *scorer)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        free(scorer->statistics[m]);
        scorer->statistics[m] = NULL;
    }
    qkv_arena_release(&scorer->scratch);
}

/* ---- the generator of sacreBLEU: numpy.random.default_rng, PCG64 (O'Neill 2014), seeded by SeedSequence ---- */

__extension__ typedef unsigned __int128 uint128;

struct generator {
    uint128 state, increment;
    bool has_half;
    uint32_t half; /* the unused half of the last word */
};

/* SeedSequence: multiplies and xors so that every bit of the seed changes every bit of the result (O'Neill 2015, seed_seq).
 * `constant` goes on from call to call. */
static uint32_t hash_word(uint32_t value, uint32_t *constant, uint32_t factor)
{
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ value >> 16;
}

static uint32_t mix_words(uint32_t x, uint32_t y)
{
    uint32_t mixed = 0xCA01F9DDu * x - 0x4973F715u * y;
    return mixed ^ mixed >> 16;
}

static void step(struct generator *generator)
{
    const uint128 multiplier = (uint128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    generator->state = generator->state * multiplier + generator->increment;
}

static void seed_generator(struct generator *generator, uint32_t seed)
{
    enum { POOL = 4 };
    uint32_t pool[POOL] = {0}, constant = 0x43B0D7E5u, words[2 * POOL];
    const uint32_t factor = 0x931E8875u;
    for (int i = 0; i < POOL; i++) pool[i] = hash_word(i == 0 ? seed : 0, &constant, factor);
    for (int source = 0; source < POOL; source++)
        for (int target = 0; target < POOL; target++)
            if (source != target)
                pool[target] = mix_words(pool[target], hash_word(pool[source], &constant, factor));
    constant = 0x8B51F9DDu;
    for (int i = 0; i < 2 * POOL; i++) words[i] = hash_word(pool[i % POOL], &constant, 0x58F38DEDu);

    uint64_t numbers[POOL]; /* of 64 bits: start, upper half first, and stream, upper half first */
    for (int i = 0; i < POOL; i++) numbers[i] = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
    *generator = (struct generator){.increment = ((uint128)numbers[2] << 64 | numbers[3]) << 1 | 1};
    step(generator);
    generator->state += (uint128)numbers[0] << 64 | numbers[1];
    step(generator);
}

/* The next 32 bits: a step gives 64, of which the lower ones come first. Output function XSL-RR: the halves of the state,
 * xored and rotated by its upper six bits. */
static uint32_t next_bits(struct generator *generator)
{
    if (generator->has_half) {
        generator->has_half = false;
        return generator->half;
    }
    step(generator);
    uint64_t folded = (uint64_t)(generator->state >> 64) ^ (uint64_t)generator->state;
    unsigned rotation = (unsigned)(generator->state >> 122);
    uint64_t bits = folded >> rotation | folded << (-rotation & 63);
    generator->half = (uint32_t)(bits >> 32);
    generator->has_half = true;
    return (uint32_t)bits;
}

/* generator.choice(bound): uniform among 0 .. bound-1; by the multiplication of Lemire 2019. A single choice draws nothing. */
static uint32_t draw_below(struct generator *generator, uint32_t bound)
{
    if (bound == 1) return 0;
    uint64_t product = (uint64_t)next_bits(generator) * bound;
    /* 2^32 mod bound of the lower halves are rejected, so that each result has equally many. */
    if ((uint32_t)product < bound)
        for (uint32_t min = -bound % bound; (uint32_t)product < min;)
            product = (uint64_t)next_bits(generator) * bound;
    return (uint32_t)(product >> 32);
}

/* ---- the bootstrap ---- */

struct qkv_bootstrap *qkv_bootstrap_new(const struct qkv_text_options *options, int systems,
                                        struct qkv_error *error)
{
    struct qkv_bootstrap *b = calloc(1, sizeof *b);
    if (b) {
        b->scorers = calloc((size_t)systems, sizeof *b->scorers);
        b->columns = calloc((size_t)systems * QKV_METRIC_COUNT, sizeof *b->columns);
        b->systems = systems;
        b->count = systems * QKV_METRIC_COUNT;
        for (int s = 0; b->scorers && s < systems; s++) b->scorers[s].options = *options;
        if (b->scorers && b->columns) return b;
    }
    qkv_no_memory(error);
    qkv_bootstrap_free(b);
    return NULL;
}

void qkv_bootstrap_free(struct qkv_bootstrap *b)
{
    if (!b) return;
    for (int s = 0; b->scorers && s < b->systems; s++) qkv_scorer_release(&b->scorers[s]);
    for (int c = 0; b->columns && c < b->count; c++) {
        free(b->columns[c].numbers);
        free(b->columns[c].samples);
    }
    free(b->scorers);
    free(b->columns);
    free(b);
}

/* Stores the statistics of the segment that was added last to the scorer of the column. */
static bool keep_last(struct qkv_bootstrap *b, int c)
{
    struct qkv_bootstrap_column *column = &b->columns[c];
    const struct qkv_statistics *counted = b->scorers[c / QKV_METRIC_COUNT].statistics[c % QKV_METRIC_COUNT];
    if (!counted) return true;
    column->width = counted->width;
    int64_t first = b->segments * column->width;
    if (!QKV_RESERVE(column->numbers, column->capacity, first + column->width)) return false;
    for (int k = 0; k < column->width; k++) column->numbers[first + k] = (float)counted->last[k];
    return true;
}

enum qkv_status qkv_bootstrap_add(struct qkv_bootstrap *b, const char *const *translations,
                                  const char *const *references, int64_t count, struct qkv_error *error)
{
    for (int s = 0; s < b->systems; s++)
        if (qkv_scorer_add(&b->scorers[s], translations[s], references, count, error)) return QKV_INVALID;
    for (int c = 0; c < b->count; c++)
        if (!keep_last(b, c)) return qkv_no_memory(error);
    b->segments++;
    return QKV_OK;
}

/* The score of a sample, which consists of the segments with these numbers. */
static double score_sample(const struct qkv_bootstrap *b, int c, const uint32_t *segments)
{
    const struct qkv_bootstrap_column *column = &b->columns[c];
    float sums[QKV_STATISTICS_MAX] = {0};
    double values[QKV_STATISTICS_MAX];
    for (int64_t i = 0; i < b->segments; i++) {
        const float *row = column->numbers + segments[i] * (int64_t)column->width;
        for (int k = 0; k < column->width; k++) sums[k] += row[k];
    }
    for (int k = 0; k < column->width; k++) values[k] = (double)sums[k];
    return score_of(&b->scorers[c / QKV_METRIC_COUNT], c % QKV_METRIC_COUNT, values);
}

static double mean_of(const double *numbers, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += numbers[i];
    return sum / (double)count;
}

static double distance(double a, double b)
{
    return a < b ? b - a : a - b;
}

/* The p value: the share of samples in which the absolute difference between the systems exceeds its mean by more than the
 * difference on the complete texts. 1 is added to both counts, so that p is above 0. */
static double p_value(const struct qkv_bootstrap_column *base, const struct qkv_bootstrap_column *other,
                      int64_t samples, double *scratch)
{
    double difference = distance(base->result.score, other->result.score);
    int64_t greater = 0;
    for (int64_t i = 0; i < samples; i++) scratch[i] = distance(base->samples[i], other->samples[i]);
    double mean = mean_of(scratch, samples);
    for (int64_t i = 0; i < samples; i++) greater += scratch[i] - mean > difference;
    return (double)(greater + 1) / (double)(samples + 1);
}

/* Computes the results from the samples. The p values come first, because the interval sorts the samples. */
static void conclude(struct qkv_bootstrap *b, int64_t samples, double *scratch)
{
    for (int c = 0; c < b->count; c++) {
        struct qkv_bootstrap_column *column = &b->columns[c];
        column->result.score =
            qkv_scorer_scores(&b->scorers[c / QKV_METRIC_COUNT]).value[c % QKV_METRIC_COUNT];
        if (column->width)
            column->result.p_value =
                c < QKV_METRIC_COUNT ? 1
                                     : p_value(&b->columns[c % QKV_METRIC_COUNT], column, samples, scratch);
    }
    for (int c = 0; c < b->count; c++) {
        struct qkv_bootstrap_column *column = &b->columns[c];
        int64_t tail = samples / 40;
        if (!column->width) continue;
        qsort(column->samples, (size_t)samples, sizeof *column->samples, qkv_by_value);
        column->result.mean = mean_of(column->samples, samples);
        column->result.interval = (column->samples[samples - 1 - tail] - column->samples[tail]) / 2;
    }
}

enum qkv_status qkv_bootstrap_run(struct qkv_bootstrap *b, int64_t samples, uint32_t seed,
                                  struct qkv_error *error)
{
    if (b->segments < 1 || b->segments > UINT32_MAX)
        return qkv_error_set(error, "%lld segments cannot be sampled", (long long)b->segments);
    if (samples < 1)
        return qkv_error_set(error, "the number of samples is %lld, but must be at least 1",
                             (long long)samples);
    uint32_t *segments = malloc((size_t)b->segments * sizeof *segments);
    double *scratch = malloc((size_t)samples * sizeof *scratch);
    bool complete = segments && scratch;
    for (int c = 0; c < b->count; c++) {
        free(b->columns[c].samples);
        b->columns[c].samples = b->columns[c].width ? calloc((size_t)samples, sizeof(double)) : NULL;
        complete = complete && (b->columns[c].samples || !b->columns[c].width);
    }
    struct generator generator;
    seed_generator(&generator, seed);
    for (int64_t i = 0; complete && i < samples; i++) {
        for (int64_t k = 0; k < b->segments; k++) segments[k] = draw_below(&generator, (uint32_t)b->segments);
        for (int c = 0; c < b->count; c++)
            if (b->columns[c].width) b->columns[c].samples[i] = score_sample(b, c, segments);
    }
    if (complete) conclude(b, samples, scratch);
    free(segments);
    free(scratch);
    return complete ? QKV_OK : qkv_no_memory(error);
}
