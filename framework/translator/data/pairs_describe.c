#include "qkv/pairs_set.h"

#include "data/pairs_markup.h"
#include "data/sentence_numbers.h"
#include "data/unicode.h"
#include "qkv/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum script {
#define SCRIPT(name, has_spaces) SCRIPT_##name,
#define RANGE(name, first, last)
#include "data/scripts.def"
#undef SCRIPT
#undef RANGE
    SCRIPT_COUNT
};

static const struct {
    const char *name;
    bool has_spaces;
} SCRIPTS[] = {
#define SCRIPT(name, has_spaces) {#name, has_spaces},
#define RANGE(name, first, last)
#include "data/scripts.def"
#undef SCRIPT
#undef RANGE
    {"unknown", true},
};

static const struct {
    enum script script;
    int32_t first, last;
} RANGES[] = {
#define SCRIPT(name, has_spaces)
#define RANGE(name, first, last) {SCRIPT_##name, first, last},
#include "data/scripts.def"
#undef SCRIPT
#undef RANGE
};

static enum script script_of(int32_t point)
{
    for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++)
        if (point >= RANGES[i].first && point <= RANGES[i].last) return RANGES[i].script;
    return SCRIPT_COUNT;
}

enum { CODE_POINTS = 0x110000 };

/* Counts over one side of the pairs. */
struct counts {
    bool *is_used;                     /* [CODE_POINTS] */
    int64_t letters[SCRIPT_COUNT + 1]; /* by script; the last: of no known script */
    int64_t tokenized;                 /* sentences that look tokenised */
};

static void count_sentence(struct qkv_pairs_side *side, struct counts *counts, const char *text)
{
    int64_t words = 0;
    bool in_word = false;
    counts->tokenized += qkv_looks_tokenized(text);
    while (*text) {
        int32_t point;
        text += qkv_point(text, &point);
        side->characters++;
        bool is_space = qkv_is_space(point);
        words += !is_space && !in_word;
        in_word = !is_space;
        if (is_space) continue;
        side->alphabet += !counts->is_used[point];
        counts->is_used[point] = true;
        if (qkv_is_letter(point)) counts->letters[script_of(point)]++;
    }
    side->words += words;
    if (words > side->longest) side->longest = words;
}

static bool describe_side(const struct qkv_pairs *pairs, int side, struct qkv_pairs_side *facts)
{
    struct counts counts = {.is_used = calloc(CODE_POINTS, sizeof(bool))};
    if (!counts.is_used) return false;
    *facts = (struct qkv_pairs_side){0};
    for (int64_t i = 0; i < pairs->count; i++) count_sentence(facts, &counts, qkv_pairs_text(pairs, i, side));
    int64_t letters = 0, max = 0;
    int script = SCRIPT_COUNT;
    for (int s = 0; s <= SCRIPT_COUNT; s++) {
        letters += counts.letters[s];
        if (counts.letters[s] <= max) continue;
        max = counts.letters[s];
        script = s;
    }
    /* Japanese mixes its syllables with Chinese characters. */
    int64_t japanese = counts.letters[SCRIPT_Japanese], chinese = counts.letters[SCRIPT_Chinese];
    if (script == SCRIPT_Chinese && japanese * 10 > chinese) script = SCRIPT_Japanese;
    if (script == SCRIPT_Japanese) max = japanese + chinese;
    facts->script = SCRIPTS[script].name;
    facts->script_share = letters ? (double)max / (double)letters : 0;
    facts->has_spaces = SCRIPTS[script].has_spaces;
    facts->is_tokenized = counts.tokenized * 2 > pairs->count;
    free(counts.is_used);
    return true;
}

static bool has_markup(const char *text, bool entities)
{
    while (*text && !qkv_markup_size(text, entities)) text++;
    return *text;
}

enum qkv_status qkv_pairs_describe(const struct qkv_pairs *pairs, struct qkv_pairs_statistics *facts,
                                   struct qkv_error *error)
{
    struct qkv_sentence_numbers numbers;
    *facts = (struct qkv_pairs_statistics){0};
    if (!describe_side(pairs, 0, &facts->side[0]) || !describe_side(pairs, 1, &facts->side[1]) ||
        !qkv_sentence_numbers_init(&numbers, pairs))
        return qkv_error_set(error, "out of memory for sentence pairs");
    for (int64_t i = 0; i < pairs->count; i++) {
        facts->repeated += !numbers.is_new[i];
        facts->copied += !strcmp(qkv_pairs_text(pairs, i, 0), qkv_pairs_text(pairs, i, 1));
        facts->markup += has_markup(qkv_pairs_text(pairs, i, 0), !facts->side[0].is_tokenized) ||
                         has_markup(qkv_pairs_text(pairs, i, 1), !facts->side[1].is_tokenized);
        facts->shared +=
            numbers.uses[0][numbers.number[0][i]] > 1 || numbers.uses[1][numbers.number[1][i]] > 1;
    }
    qkv_sentence_numbers_release(&numbers);
    return QKV_OK;
}
