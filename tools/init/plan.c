/* The sizes, tokens and length of training of a first config, chosen by the data. */
#include "init/init.h"

#include "data/bpe.h"
#include "data/tokenizer.h"

/* Little data needs a small model and much dropout, else it is learned by heart. Words that occur once teach nothing: from
 * some ten thousand pairs on, byte-pair encoding cuts them into pieces that occur more often. */
static const struct init_sizes SIZES[] = {
    {0, QKV_LEVEL_WORD, 0, 2, 64, 128, 4, 0.3, 0.003, 200, 500, 100},
    {5000, QKV_LEVEL_WORD, 0, 3, 128, 256, 4, 0.3, 0.002, 300, 600, 40},
    {20000, QKV_LEVEL_BPE, 6000, 4, 128, 256, 4, 0.25, 0.002, 800, 1000, 40},
    {80000, QKV_LEVEL_BPE, 8000, 3, 256, 1024, 8, 0.1, 0.001, 800, 1000, 20},
    {300000, QKV_LEVEL_BPE, 10000, 4, 256, 1024, 8, 0.1, 0.001, 2000, 2000, 10},
};
enum { SIZES_COUNT = sizeof SIZES / sizeof *SIZES };

enum {
    MIN_MERGES = 100, /* with fewer merges, byte-pair encoding is not worthwhile */
    LENGTH_MIN = 20,
    LENGTH_STEP = 10,
    LONG_ONE_IN = 200, /* at most one sentence in this many is longer than max_length */
    MAX_VALIDATIONS = 20,
};

/* ---- tokens ---- */

/* The settings with which a side is tokenised, the same as files.c writes. */
static struct qkv_text_config text_of(const struct init *init, int side)
{
    const struct init_plan *plan = &init->plan;
    return (struct qkv_text_config){.lang = init->pairs.lang[side],
                                    .level = plan->level[side],
                                    .lowercase = init_is_lowercase(plan, side),
                                    .split_punctuation = plan->split_punctuation[side]};
}

/* Calls the tokenizer on each sentence of a side: on those of training, to add their tokens to `types`; or on all, to set
 * length[i] to the number of tokens of pair i. The other one of `types` and `length` is NULL. */
static enum qkv_status tokenize_side(const struct init *init, int side, const struct qkv_text_config *text,
                                     struct qkv_types *types, int64_t *length, struct qkv_error *error)
{
    struct qkv_tokens tokens = {0};
    enum qkv_status status = QKV_OK;
    for (int64_t i = 0; i < init->pairs.count && !status; i++) {
        if (types && init->part[i] != QKV_PAIRS_TRAIN) continue;
        const char *line = qkv_pairs_text(&init->pairs, i, side);
        status = qkv_tokenize(&tokens, text, line, strlen(line), error);
        if (types && !status && !qkv_tokens_count(&tokens, types, NULL)) required(NULL);
        if (length) length[i] = tokens.count;
    }
    qkv_tokens_release(&tokens);
    return status;
}

/* A max_length with which nearly all training sentences fit, of these numbers of tokens. */
static int64_t fitting_length(const struct init *init, const int64_t *length)
{
    int64_t sentences[INIT_LENGTH_MAX + 1] = {0}, longer = init->count[QKV_PAIRS_TRAIN], max = 0;
    for (int64_t i = 0; i < init->pairs.count; i++)
        if (init->part[i] == QKV_PAIRS_TRAIN)
            sentences[length[i] < INIT_LENGTH_MAX ? length[i] : INIT_LENGTH_MAX]++;
    while (max < INIT_LENGTH_MAX && longer * LONG_ONE_IN > init->count[QKV_PAIRS_TRAIN])
        longer -= sentences[max++];
    max = (max + LENGTH_STEP - 1) / LENGTH_STEP * LENGTH_STEP;
    return max < LENGTH_MIN ? LENGTH_MIN : max > INIT_LENGTH_MAX ? INIT_LENGTH_MAX : max;
}

/* Takes pairs of more than INIT_LENGTH_MAX tokens on a side out of dev and test, unless that would leave nothing of a part:
 * translating one of thousands of words takes longer than all others together, and most of the loss would be that of its
 * words. */
static void take_out_long(struct init *init, const int64_t *length)
{
    int64_t count = init->pairs.count, left[QKV_PAIRS_PARTS] = {0};
    for (int64_t i = 0; i < count; i++)
        left[init->part[i]] += length[i] <= INIT_LENGTH_MAX && length[count + i] <= INIT_LENGTH_MAX;
    for (int64_t i = 0; i < count; i++) {
        enum qkv_pairs_part part = init->part[i];
        bool fits = length[i] <= INIT_LENGTH_MAX && length[count + i] <= INIT_LENGTH_MAX;
        if (part == QKV_PAIRS_TRAIN || fits || !left[part]) continue;
        init->part[i] = QKV_PAIRS_PARTS;
        init->count[part]--;
        init->plan.taken_out++;
    }
}

/* Chooses max_length of both sides, and finds which pairs are longer. */
static enum qkv_status choose_lengths(struct init *init, struct qkv_bpe *const bpe[2],
                                      struct qkv_error *error)
{
    struct init_plan *plan = &init->plan;
    int64_t count = init->pairs.count, training = init->count[QKV_PAIRS_TRAIN], left_out = 0;
    int64_t *length = required(malloc(2 * (size_t)count * sizeof *length));
    enum qkv_status status = QKV_OK;
    for (int side = 0; side < 2 && !status; side++) {
        struct qkv_text_config text = text_of(init, side);
        text.bpe = bpe[side];
        status = tokenize_side(init, side, &text, NULL, length + side * count, error);
        if (!status) plan->max_length[side] = fitting_length(init, length + side * count);
    }
    for (int64_t i = 0; i < count && !status; i++)
        left_out += init->part[i] == QKV_PAIRS_TRAIN &&
                    (length[i] > plan->max_length[0] || length[count + i] > plan->max_length[1]);
    if (!status) take_out_long(init, length);
    plan->left_out = training ? (double)left_out / (double)training : 0;
    if (!status && left_out == training)
        status = qkv_error_set(
            error,
            "%s: all of its training pairs have a side of more than %d tokens, but qkv learns from "
            "sentences: split the texts, so that each pair is a sentence and its translation",
            init->pairs.path[0], INIT_LENGTH_MAX);
    free(length);
    return status;
}

/* ---- merges ---- */

/* Learns merges for the sides whose level is bpe; joint merges for both sides together. False: the text does not yield that
 * many merges. */
static bool learn(const struct init_plan *plan, const struct qkv_types types[2], struct qkv_bpe *bpe[2])
{
    const struct qkv_types *const texts[2] = {&types[0], &types[1]};
    struct qkv_error error;
    bool learned = true;
    for (int side = 0; side < 2 && learned; side++) {
        if (plan->level[side] != QKV_LEVEL_BPE) continue;
        bpe[side] = plan->is_joint && side
                        ? qkv_bpe_copy(bpe[0])
                        : qkv_bpe_learn(plan->is_joint ? 2 : 1, texts + side, plan->merges, &error);
        learned = bpe[side] != NULL;
    }
    return learned;
}

static void forget(struct qkv_bpe *bpe[2])
{
    for (int side = 0; side < 2; side++) {
        qkv_bpe_free(bpe[side]);
        bpe[side] = NULL;
    }
}

/* Halves the number of merges until the text yields that many. If it yields too few, words are not split into pieces. */
static enum qkv_status choose_merges(struct init *init, struct qkv_bpe *bpe[2], struct qkv_error *error)
{
    struct init_plan *plan = &init->plan;
    struct qkv_types types[2] = {{0}, {0}};
    enum qkv_status status = QKV_OK;
    for (int side = 0; side < 2 && !status; side++) {
        struct qkv_text_config words = text_of(init, side);
        words.level = QKV_LEVEL_WORD;
        words.plain_marks = true; /* as those that merges are learned from */
        if (plan->level[side] == QKV_LEVEL_BPE)
            status = tokenize_side(init, side, &words, &types[side], NULL, error);
    }
    while (!status && plan->merges >= MIN_MERGES && !learn(plan, types, bpe)) {
        forget(bpe);
        plan->merges /= 2;
    }
    for (int side = 0; side < 2; side++) qkv_types_release(&types[side]);
    if (status || plan->merges >= MIN_MERGES) return status;
    plan->merges = 0;
    plan->is_joint = false;
    for (int side = 0; side < 2; side++)
        if (plan->level[side] == QKV_LEVEL_BPE) plan->level[side] = QKV_LEVEL_WORD;
    return QKV_OK;
}

/* ---- the plan ---- */

bool init_is_lowercase(const struct init_plan *plan, int side)
{
    return side == 0 && plan->level[side] == QKV_LEVEL_WORD && !plan->is_cut[side];
}

enum qkv_status init_plan_choose(struct init *init, struct qkv_error *error)
{
    struct init_plan *plan = &init->plan;
    int row = 0;
    while (row + 1 < SIZES_COUNT && init->count[QKV_PAIRS_TRAIN] >= SIZES[row + 1].pairs) row++;
    *plan = (struct init_plan){.sizes = &SIZES[row],
                               .dropout = SIZES[row].dropout,
                               .merges = SIZES[row].merges,
                               .validations = MAX_VALIDATIONS};
    const struct qkv_pairs_side *sides = init->facts.side;
    for (int side = 0; side < 2; side++) {
        plan->is_cut[side] = sides[side].cut;
        plan->level[side] = plan->is_cut[side]       ? QKV_LEVEL_WORD
                            : sides[side].has_spaces ? SIZES[row].level
                                                     : QKV_LEVEL_CHAR;
        plan->split_punctuation[side] = !sides[side].is_tokenized && !plan->is_cut[side];
    }
    plan->is_joint = plan->level[0] == QKV_LEVEL_BPE && plan->level[1] == QKV_LEVEL_BPE &&
                     !strcmp(sides[0].script, sides[1].script);
    struct qkv_bpe *bpe[2] = {NULL, NULL};
    enum qkv_status status = QKV_OK;
    if (SIZES[row].level == QKV_LEVEL_BPE) status = choose_merges(init, bpe, error);
    if (!status) status = choose_lengths(init, bpe, error);
    forget(bpe);
    return status;
}

bool init_leaves_out_many(const struct init_plan *plan)
{
    return plan->left_out > 0.02;
}

bool init_plan_shrink(struct init_plan *plan)
{
    if (plan->sizes == SIZES) return false;
    plan->sizes--;
    return true;
}

int64_t init_validation_freq(const struct init_plan *plan)
{
    int64_t freq = (plan->updates + plan->validations - 1) / plan->validations, unit = 1;
    while (freq / unit >= 20) unit *= 10;
    return (freq + unit - 1) / unit * unit;
}

int64_t init_fitting_updates(const struct qkv_train_cost *cost, double seconds, int64_t validations,
                             int64_t epochs)
{
    enum { DIGITS = 100 };
    double left = seconds - (double)validations * cost->seconds_per_validation;
    /* Training gets at least half of the time, even if validations are slow. */
    left = fmax(left, seconds / 2) / cost->seconds_per_update;
    int64_t updates = (int64_t)fmin(left, (double)(epochs * cost->batches)), unit = 1;
    while (updates / unit >= DIGITS) unit *= 10;
    updates = updates / unit * unit;
    return updates < 1 ? 1 : updates;
}

int64_t init_plan_updates(struct init_plan *plan, const struct qkv_train_cost *cost, double seconds)
{
    double fitting = seconds / 3 / cost->seconds_per_validation;
    plan->validations = fitting < 1 ? 1 : fitting < MAX_VALIDATIONS ? (int64_t)fitting : MAX_VALIDATIONS;
    return init_fitting_updates(cost, seconds, plan->validations, plan->sizes->epochs);
}

int64_t init_plan_minutes(const struct qkv_train_cost *cost, int64_t epochs)
{
    enum { DIGITS = 100 };
    double training = (double)(epochs * cost->batches) * cost->seconds_per_update;
    /* As in init_plan_updates, validations take at most a third of the time, if one validation does. */
    double validations = MAX_VALIDATIONS * cost->seconds_per_validation;
    if (validations > training / 2) validations = training / 2;
    if (validations < cost->seconds_per_validation) validations = cost->seconds_per_validation;
    int64_t minutes = (int64_t)((training + validations) / 60) + 1, unit = 1;
    while (minutes / unit >= DIGITS) unit *= 10;
    return (minutes + unit - 1) / unit * unit;
}
