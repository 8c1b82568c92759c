/* Notices: warnings that training overfits, gives one translation for everything, learns nothing from the source, or ends
 * early. A notice is one sentence for the listener. Notices have no effect on training and are not stored in checkpoints: a
 * resumed training knows only the losses in metrics.jsonl, and may repeat other notices. */
#include "train/training.h"

#include "metrics/metric.h"
#include "run/training_log.h"

#include "core/choices.h"
#include "core/numbers.h"
#include "core/text.h"
#include "kernels/registry.h"

#include <math.h>
#include <stdlib.h>

enum {
    SETTLED = 1000, /* updates after the warm-up before a lack of progress is worth a notice */
    WINDOW = 500,   /* updates over which the mean loss is compared with the loss of guessing */
    LEAST = 100,    /* updates of a training that deserves a notice at its end */
    BLOCK = 50,     /* the mean for that notice is over the last half of a block of updates or more */
    SENTENCES = 10, /* a smaller dev set cannot show a collapse */
};

static const char TRAIN_LONGER[] = "train longer, ";

/* A loss of at least this share of the loss of guessing counts as no better than guessing. */
static const double GUESSING = 0.98;

/* A loss of at least so many times that of equal probabilities, with which training begins, shows at once that it diverged. */
static const double DIVERGED = 2;

/* A training still improves at its end if the last validation is better than the best one of the first EARLIER of its updates by
 * the share STILL, and by VISIBLE, unless its loss is below LITTLE, where hardly anything is left to learn. */
static const double EARLIER = 0.75, STILL = 0.03, VISIBLE = 0.01, LITTLE = 0.1;

/* Whether a notice of this kind may be given now. If so, blocks it until the number of updates has doubled. */
static bool is_due(struct training *training, enum notice kind)
{
    int64_t update = training->progress.update, *silent_until = &training->notices.silent_until[kind];
    const struct qkv_train_listener *listener = training->options->listener;
    if (!listener || !listener->notice || update < *silent_until) return false;
    *silent_until = 2 * update;
    return true;
}

/* Whether training should have learned something by now. */
static bool is_settled(const struct training *training)
{
    return training->progress.update >= SETTLED + training->config->training.learning_rate_warmup;
}

/* Whether a short training is at its end, after which no other update can show what it has learned. */
static bool is_at_early_end(const struct training *training)
{
    return !is_settled(training) && training->progress.update >= LEAST && qkv_training_is_at_end(training);
}

/* ---- guessing ---- */

/* The cross-entropy of a network that predicts every target token with its frequency in the training text, whatever the source:
 * the entropy of these frequencies. NaN: no memory. */
static double unigram_loss(const struct training *training)
{
    const struct qkv_corpus_side *target = &training->train.target;
    int64_t sentences = training->train.count, words = target->start[sentences],
            classes = training->target.size;
    int64_t ends = training->train.sides.runs_on ? 0 : sentences; /* not among the ids */
    int64_t *count = calloc((size_t)classes, sizeof *count);
    double loss = 0;
    if (!count) return (double)NAN;
    for (int64_t i = 0; i < words; i++) count[target->ids[i]]++;
    count[QKV_END] += ends;
    for (int64_t c = 0; c < classes; c++) {
        double share = (double)count[c] / (double)(words + ends);
        if (share > 0) loss -= share * qkv_scalar_log(share);
    }
    free(count);
    return loss;
}

/* Whether a training loss is no better than the loss of guessing. */
static bool is_guessing(struct training *training, double loss)
{
    struct notices *notices = &training->notices;
    if (notices->guessing == 0) notices->guessing = unigram_loss(training);
    return loss >= GUESSING * notices->guessing;
}

static bool has_diverged(const struct training *training, double loss)
{
    return loss >= DIVERGED * qkv_scalar_log((double)training->target.size);
}

static void add(struct block *sum, double loss, int64_t tokens)
{
    sum->loss += loss;
    sum->tokens += tokens;
}

/* The mean loss of the last updates. That since the beginning would be too high for a short training, which begins with a loss
 * far above that of guessing. */
static double mean_of_end(const struct notices *notices)
{
    struct block end = notices->block;
    if ((notices->window_updates - 1) % BLOCK < BLOCK / 2)
        add(&end, notices->last_block.loss, notices->last_block.tokens);
    return end.loss / (double)end.tokens;
}

void qkv_notice_update(struct training *training, double loss, int64_t tokens)
{
    struct notices *notices = &training->notices;
    add(&notices->validation, loss, tokens);
    add(&notices->window, loss, tokens);
    if (notices->window_updates % BLOCK == 0) {
        notices->last_block = notices->block;
        notices->block = (struct block){0};
    }
    add(&notices->block, loss, tokens);
    bool at_early_end = is_at_early_end(training) && notices->window_updates >= LEAST - 1;
    if (++notices->window_updates < WINDOW && !at_early_end) return;
    const struct block window = notices->window;
    double mean = at_early_end ? mean_of_end(notices) : window.loss / (double)window.tokens;
    notices->window = (struct block){0};
    notices->window_updates = 0;
    if (!at_early_end && !is_settled(training) && !has_diverged(training, mean)) return;
    if (!is_guessing(training, mean) || !is_due(training, NOTICE_GUESSING)) return;
    qkv_training_say(
        training,
        "update %lld: the cross-entropy is %.2f, %s better than guessing each word by its frequency (%.2f): "
        "%stry another training.learning_rate or training.learning_rate_warmup, and check that the lines of "
        "data.train %s",
        (long long)training->progress.update, mean, mean < notices->guessing ? "hardly" : "no",
        notices->guessing, at_early_end ? TRAIN_LONGER : "",
        training->train.sides.has_source ? "belong together" : "are text");
}

/* ---- overfitting ---- */

enum { PATIENCE = 3 }; /* validations in a row that show overfitting */

/* A validation shows overfitting if, since the best validation, the loss of the dev set has risen by RISE nats and by the
 * share RELATIVE_RISE, and the loss of training has fallen to FALL of its value then. Smaller changes are noise. */
static const double RISE = 0.1, RELATIVE_RISE = 0.03, FALL = 0.97;

bool qkv_overfitting_add(struct qkv_overfitting *overfitting, int64_t update, double train, double dev)
{
    if (!overfitting->best_update || dev < overfitting->best_dev) {
        *overfitting = (struct qkv_overfitting){update, dev, train, dev, train, .risen = 0};
        return false;
    }
    overfitting->dev = dev;
    overfitting->train = train;
    double rise = dev - overfitting->best_dev;
    bool risen = rise >= RISE && rise >= RELATIVE_RISE * overfitting->best_dev;
    overfitting->risen = risen && train <= FALL * overfitting->best_train ? overfitting->risen + 1 : 0;
    return overfitting->risen >= PATIENCE;
}

static void notice_overfitting(struct training *training, double dev)
{
    struct notices *notices = &training->notices;
    const struct block since = notices->validation;
    if (!since.tokens) return; /* a resumed training that has only validated */
    double train = since.loss / (double)since.tokens;
    notices->validation = (struct block){0};
    if (!qkv_overfitting_add(&notices->overfitting, training->progress.update, train, dev)) return;
    if (is_guessing(training, train) || !is_due(training, NOTICE_OVERFITTING)) return;
    qkv_training_say(
        training,
        "update %lld: the model overfits: since update %lld, the loss of data.dev has risen from "
        "%.2f to %.2f, while that of training fell: raise model.encoder.dropout and "
        "model.decoder.dropout, %smake the model smaller",
        (long long)training->progress.update, (long long)notices->overfitting.best_update,
        notices->overfitting.best_dev, dev,
        training->config->training.patience ? "or " : "stop early with training.patience, or ");
}

enum qkv_status qkv_notices_restore(struct training *training, struct qkv_error *error)
{
    struct qkv_training_log log = {0};
    struct notices *notices = &training->notices;
    int64_t at = 0, *silent_until = &notices->silent_until[NOTICE_OVERFITTING];
    double mean = (double)NAN;
    enum qkv_status status = qkv_training_log_read(&log, training->folder, error);
    for (int64_t i = 0; i < log.validations && !status; i++) {
        double update = log.validation[i].place.update, dev = log.validation[i].score[QKV_METRIC_LOSS];
        double sum = 0, count = 0;
        for (; at < log.intervals && log.interval[at].place.update <= update; at++, count++)
            sum += log.interval[at].cross_entropy;
        if (count > 0) mean = sum / count; /* otherwise that of the interval before */
        if (!isfinite(mean) || !isfinite(dev)) continue;
        bool overfits = qkv_overfitting_add(&notices->overfitting, (int64_t)update, mean, dev);
        if (overfits && (int64_t)update >= *silent_until) *silent_until = 2 * (int64_t)update;
    }
    qkv_training_log_release(&log);
    return status;
}

void qkv_notice_patience(struct training *training)
{
    const struct qkv_overfitting *seen = &training->notices.overfitting;
    /* Whether further training would only memorise the training text, even if the loss of data.dev does not rise. */
    bool is_stuck = seen->train <= FALL * seen->best_train && seen->train < seen->dev;
    if (!is_stuck || is_guessing(training, seen->train)) return;
    if (!is_due(training, NOTICE_OVERFITTING)) return;
    qkv_training_say(
        training,
        "update %lld: since update %lld, the loss of training fell from %.2f to %.2f, but that of "
        "data.dev did not (%.2f, now %.2f): the model learns its pairs by heart; more pairs help, or a "
        "higher model.encoder.dropout and model.decoder.dropout",
        (long long)training->progress.update, (long long)seen->best_update, seen->best_train, seen->train,
        seen->best_dev, seen->dev);
}

/* ---- links ---- */

void qkv_notice_spaces(struct training *training, struct qkv_word_spaces spaces)
{
    if (!spaces.pair) return;
    qkv_training_say(
        training,
        "pair %lld of data.train has U+%04X between words: the links of data.train_links fit words that %s",
        (long long)spaces.pair, (unsigned)spaces.space,
        spaces.by_unicode ? "any white space separates, as for Python"
                          : "only white space of ASCII separates, as for fast_align and awk");
}

/* ---- precision ---- */

void qkv_notice_precision(struct training *training, double ratio)
{
    enum qkv_precision precision = training->config->training.precision;
    struct qkv_kernel_names kernels;
    if (qkv_kernels_in_use(&kernels, NULL)) return;
    if (ratio == 0 && kernels.bfloat16_instruction) return;
    if (ratio > 0)
        qkv_training_say(
            training,
            "training.precision is auto, which is %s here: products in bfloat16 take %.2f of the "
            "time of those in float32",
            qkv_precision_name(precision), ratio);
    else
        qkv_training_say(training,
                         "training.precision is bfloat16, which is slower than float32 on this processor: it "
                         "has no instruction for it (qkv --version)");
}

/* ---- translations that are cut ---- */

/* Says nothing where another notice tells why the model does not end its translations. */
static void notice_cut(struct training *training)
{
    const struct notices *notices = &training->notices;
    for (int kind = 0; kind < NOTICE_CUT; kind++)
        if (notices->silent_until[kind] > training->progress.update) return;
    if (!notices->cut || (!is_at_early_end(training) && !is_settled(training))) return;
    if (!is_due(training, NOTICE_CUT)) return;
    qkv_training_say(
        training,
        "update %lld: %lld of the %lld translations of data.dev ended at the limit of their length: %s",
        (long long)training->progress.update, (long long)notices->cut, (long long)training->dev.count,
        training->config->testing.max_output_length ? "raise testing.max_output_length"
                                                    : "train longer, or raise testing.length_limit");
}

/* ---- an end that comes too early ---- */

/* Returns whether the model still improves, so that a longer training helps, and says so. */
static bool notice_early_end(struct training *training, bool by_patience)
{
    const struct qkv_training_config *settings = &training->config->training;
    const struct kept_list *best = &training->progress.kept[KEPT_BEST];
    /* The loss may fall where early stopping by another metric lacks the patience. */
    enum qkv_metric metric = by_patience ? QKV_METRIC_LOSS : settings->early_stopping_metric;
    double end = (double)training->progress.update, last = (double)NAN, before = last, at = 0, loss = last;
    struct qkv_training_log log = {0};
    bool is_best = best->count && best->item[0].update == training->progress.update;
    if (end < LEAST || (!is_best && !by_patience)) return false;
    if (!qkv_training_log_read(&log, training->folder, NULL))
        for (int64_t i = 0; i < log.validations; i++) {
            double update = log.validation[i].place.update;
            last = log.validation[i].score[metric];
            loss = log.validation[i].score[QKV_METRIC_LOSS];
            if (update > EARLIER * end || (at > 0 && !qkv_metric_is_better(metric, last, before))) continue;
            before = last;
            at = update;
        }
    qkv_training_log_release(&log);
    if (loss < LITTLE || !qkv_metric_is_better(metric, last, before) ||
        !(fabs(last - before) > fmax(STILL * fabs(before), VISIBLE)))
        return false;
    if (!is_due(training, NOTICE_END)) return true;
    bool by_updates = settings->updates && training->progress.update >= settings->updates;
    const char *key = by_patience ? "patience" : by_updates ? "updates" : "epochs";
    int64_t value = by_patience ? settings->patience : by_updates ? settings->updates : settings->epochs;
    /* Their learning rates depend on the last update, which --resume therefore does not change. */
    bool is_fixed =
        by_updates && !by_patience &&
        (settings->scheduling == QKV_SCHEDULE_LINEAR || settings->scheduling == QKV_SCHEDULE_COSINE);
    qkv_training_say(
        training,
        is_fixed ? "update %.0f: the model still improves: %s of data.dev was %.2f at update %.0f, and is "
                   "%.2f: train again with a higher training.%s"
                 : "update %.0f: the model still improves: %s of data.dev was %.2f at update %.0f, and is "
                   "%.2f: raise training.%s and go on, as in qkv train CONFIG --resume -s training.%s=%lld",
        end, qkv_metric_info(metric)->title, before, at, last, key, key, 2 * (long long)value);
    return true;
}

void qkv_notice_end(struct training *training, bool by_patience)
{
    if (!notice_early_end(training, by_patience)) notice_cut(training);
}

/* ---- collapse ---- */

/* How often the most frequent of the texts occurs. Sorts them. */
static int64_t most_frequent(const char **text, int64_t count)
{
    int64_t max = 0, same = 0;
    qsort(text, (size_t)count, sizeof *text, qkv_by_text);
    for (int64_t i = 0; i < count; i++) {
        same = i && !strcmp(text[i], text[i - 1]) ? same + 1 : 1;
        if (same > max) max = same;
    }
    return max;
}

/* Whether a text ends with the same words, or the same characters, again and again: four times and at least twelve bytes. */
static bool ends_in_repetition(const char *text)
{
    enum { TIMES = 4, BYTES = 12 };
    size_t size = strlen(text);
    for (size_t unit = 1; unit * TIMES <= size; unit++) {
        size_t same = unit;
        while (same < size && text[size - same - 1] == text[size - same - 1 + unit]) same++;
        if (same >= unit * TIMES && same >= BYTES) return true;
    }
    return false;
}

static int64_t count_repetitive(const char *const *text, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) found += ends_in_repetition(text[i]);
    return found;
}

/* Compares translations with references: most must share the fault, and twice as many as references. */
static bool is_fault_of_most(int64_t translations, int64_t references, int64_t count)
{
    return 2 * translations > count && translations > 2 * references;
}

static void notice_collapse(struct training *training)
{
    int64_t count = training->dev.count;
    bool at_early_end = is_at_early_end(training);
    if (count < SENTENCES || (!at_early_end && !is_settled(training))) return;
    const char **text = malloc((size_t)count * sizeof *text);
    if (!text) return;
    for (int64_t i = 0; i < count; i++) text[i] = qkv_evaluator_translation(training->evaluator, i);
    int64_t same = most_frequent(text, count), repetitive = count_repetitive(text, count);
    for (int64_t i = 0; i < count; i++) text[i] = qkv_corpus_target(&training->dev, i);
    bool are_same = is_fault_of_most(same, most_frequent(text, count), count),
         are_repetitive = is_fault_of_most(repetitive, count_repetitive(text, count), count);
    free(text);
    if ((!are_same && !are_repetitive) || !is_due(training, NOTICE_COLLAPSE)) return;
    qkv_training_say(
        training,
        "update %lld: %lld of the %lld translations of data.dev %s: %slower training.learning_rate, or "
        "raise training.learning_rate_warmup",
        (long long)training->progress.update, (long long)(are_same ? same : repetitive), (long long)count,
        are_same ? "are the same sentence" : "repeat the same words without end",
        at_early_end ? TRAIN_LONGER : "");
}

void qkv_notice_validation(struct training *training, const struct qkv_scores *scores)
{
    notice_overfitting(training, scores->value[QKV_METRIC_LOSS]);
    if (scores->counts.translated) notice_collapse(training);
    training->notices.cut = scores->counts.cut;
    int64_t patience = training->config->training.patience;
    bool ends = qkv_training_is_at_end(training) || (patience && training->progress.waited >= patience);
    if (!ends) notice_cut(training); /* otherwise qkv_notice_end follows */
}
