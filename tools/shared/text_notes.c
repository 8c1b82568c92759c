#include "text_notes.h"

#include "print.h"

#include "data/tokenizer.h"
#include "metrics/metric.h"

#include <stdio.h>
#include <string.h>

enum { MANY = 10 }; /* references without which the lack of capitals says nothing */

/* Whether a line has some characters of Chinese, Japanese, Thai or the like, which take three bytes, and no space. */
static bool is_without_spaces(const char *line)
{
    enum { FEW = 5 }; /* characters that may be one word */
    int64_t wide = 0;
    if (strchr(line, ' ')) return false;
    for (; *line; line++) wide += ((unsigned char)*line & 0xF0) == 0xE0;
    return wide > FEW;
}

void text_notes_add_reference(struct text_notes *notes, const char *line)
{
    notes->references++;
    notes->tokenized += qkv_looks_tokenized(line);
    notes->without_spaces += is_without_spaces(line);
    notes->cased_references += qkv_has_capitals(line);
}

void text_notes_add_translation(struct text_notes *notes, const char *line)
{
    notes->translations += *line != 0;
    notes->cased_translations += qkv_has_capitals(line);
}

static void note_tokenized(const struct text_notes *notes, const struct qkv_scorer *scorer, bool joined)
{
    enum qkv_bleu_tokenizer tokenizer = scorer->options.tokenizer;
    char count[80];
    snprintf(count, sizeof count, "note: %lld of %lld references look tokenized", (long long)notes->tokenized,
             (long long)notes->references);
    if (joined)
        print_error("%s, but translations are joined to plain text: only BLEU with 13a or intl compares them "
                    "rightly. Evaluate on plain text, or train with data.trg.split_punctuation: false",
                    count);
    else if (qkv_scorer_computes(scorer, QKV_METRIC_BLEU) &&
             (tokenizer == QKV_BLEU_13A || tokenizer == QKV_BLEU_INTL))
        print_error(
            "%s. BLEU with the tokenizer %s is made for plain text: compare it only with scores of the same "
            "tokenized text; --tokenize none takes the tokens as they are",
            count, qkv_bleu_tokenizer_name(tokenizer));
}

static void note_case(const struct text_notes *notes, const struct qkv_scorer *scorer)
{
    if (scorer->options.lowercase ||
        !(qkv_scorer_computes(scorer, QKV_METRIC_BLEU) || qkv_scorer_computes(scorer, QKV_METRIC_CHRF)))
        return;
    print_error(
        "note: the translations have no capital letters, but %lld of %lld references do: BLEU and chrF count "
        "each as an error; --lowercase ignores case",
        (long long)notes->cased_references, (long long)notes->references);
}

static void note_without_spaces(const struct text_notes *notes, const struct qkv_scorer *scorer)
{
    enum qkv_bleu_tokenizer tokenizer = scorer->options.tokenizer;
    if (!qkv_scorer_computes(scorer, QKV_METRIC_BLEU) || tokenizer == QKV_BLEU_CHAR) return;
    print_error("note: %lld of %lld references have no spaces between words: BLEU with the tokenizer %s "
                "takes what is between punctuation marks for one word; --tokenize char compares characters",
                (long long)notes->without_spaces, (long long)notes->references,
                qkv_bleu_tokenizer_name(tokenizer));
}

/* Whether a number of references is at least half of all, and not 0. */
static bool is_usual(const struct text_notes *notes, int64_t count)
{
    return count && 2 * count >= notes->references;
}

void text_notes_print(const struct text_notes *notes, const struct qkv_scorer *scorer, bool joined)
{
    if (is_usual(notes, notes->tokenized)) note_tokenized(notes, scorer, joined);
    if (is_usual(notes, notes->without_spaces)) note_without_spaces(notes, scorer);
    bool has_text = is_usual(notes, notes->translations) && notes->references >= MANY;
    if (is_usual(notes, notes->cased_references) && has_text && !notes->cased_translations)
        note_case(notes, scorer);
}
