#include "text_notes.h"

#include "data/bpe.h"
#include "data/unicode.h"
#include "run/checkpoints.h"

#include <utf8proc.h>

enum { MANY = 10 }; /* references without which the lack of capitals says nothing */

/* Whether Unicode's normal form C of a line is another text. */
static bool is_decomposed(const char *line)
{
    char *composed = required(qkv_text_compose(line, strlen(line)));
    bool differs = strcmp(line, composed) != 0;
    free(composed);
    return differs;
}

void text_notes_add_reference(struct text_notes *notes, const char *line)
{
    notes->references++;
    notes->tokenized += qkv_looks_tokenized(line);
    qkv_cuts_add(&notes->cuts, line);
    notes->decomposed[0] += is_decomposed(line);
    qkv_writing_add(&notes->writing, line);
    notes->cased_references += qkv_text_has(line, qkv_is_capital);
}

void text_notes_add_translation(struct text_notes *notes, const char *line)
{
    notes->translations += *line != 0;
    notes->decomposed[1] += is_decomposed(line);
    notes->tokenized_translations += qkv_looks_tokenized(line);
    notes->cased_translations += qkv_text_has(line, qkv_is_capital);
}

static void note_tokenized(const struct text_notes *notes, const struct qkv_scorer *scorer, bool joined)
{
    enum qkv_bleu_tokenizer tokenizer = scorer->options.tokenizer;
    char count[80];
    snprintf(count, sizeof count, "note: %lld of %lld references look tokenized", (long long)notes->tokenized,
             (long long)notes->references);
    if (joined)
        print_error("%s, but the translations do not: only BLEU with 13a or intl compares them rightly. "
                    "Evaluate on plain text, or train on tokenized text",
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
    if (!qkv_scorer_computes(scorer, QKV_METRIC_BLEU) || tokenizer >= QKV_BLEU_CHAR) return;
    print_error("note: %lld of %lld references have no spaces between words: BLEU with the tokenizer %s "
                "takes what is between punctuation marks for one word; --tokenize %s compares characters",
                (long long)notes->writing.unspaced, (long long)notes->references,
                qkv_bleu_tokenizer_name(tokenizer),
                qkv_bleu_tokenizer_name(qkv_writing_tokenizer(&notes->writing)));
}

/* Whether a number of references is at least half of all, and not 0. */
static bool is_usual(const struct text_notes *notes, int64_t count)
{
    return count && 2 * count >= notes->references;
}

void text_notes_print(const struct text_notes *notes, const struct qkv_scorer *scorer, bool joined)
{
    const struct qkv_cut_mark *cut = qkv_cuts_usual(&notes->cuts);
    if (cut)
        print_error(
            "note: the references are cut into pieces (such as %s), which scores count as words: join the "
            "pieces of both texts first: %s",
            cut->example, cut->joining);
    else if (is_usual(notes, notes->tokenized))
        note_tokenized(notes, scorer, joined && !is_usual(notes, notes->tokenized_translations));
    if (is_usual(notes, notes->writing.unspaced)) note_without_spaces(notes, scorer);
    if (!notes->decomposed[0] != !notes->decomposed[1])
        print_error(
            "note: %lld of the %s are not in Unicode's normal form C, in which a letter and its accent are "
            "one "
            "character, but all %s are: each such word counts as an error; `uconv -x any-nfc` composes them",
            (long long)(notes->decomposed[0] + notes->decomposed[1]),
            notes->decomposed[0] ? "references" : "translations",
            notes->decomposed[0] ? "translations" : "references");
    bool has_text = is_usual(notes, notes->translations) && notes->references >= MANY;
    if (is_usual(notes, notes->cased_references) && has_text && !notes->cased_translations)
        note_case(notes, scorer);
}

/* ---- characters that a picture cannot show ---- */

/* The package of Debian and Ubuntu whose fonts have a character. */
static const char *font_of(uint32_t character)
{
    /* Jamo; kana and Han; hangul; Han; their marks; letters of full width; more Han. */
    static const uint32_t east_asian[][2] = {{0x1100, 0x11FF},  {0x2E80, 0x9FFF}, {0xAC00, 0xD7FF},
                                             {0xF900, 0xFAFF},  {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF},
                                             {0x20000, 0x3FFFF}};
    for (size_t i = 0; i < sizeof east_asian / sizeof *east_asian; i++)
        if (character >= east_asian[i][0] && character <= east_asian[i][1]) return "fonts-noto-cjk";
    return character >= 0x1F000 && character <= 0x1FAFF ? "fonts-noto-color-emoji" : "fonts-noto-core";
}

int64_t note_missing_characters(const char *path, const struct qkv_missing_characters *missing, int64_t first)
{
    enum { SHOWN = 5 };
    char characters[SHOWN * 24] = "", packages[80] = "";
    const int64_t count = missing->count - first, most = sizeof missing->character / sizeof(uint32_t);
    for (int64_t i = 0; i < count; i++) {
        uint32_t character = missing->character[first + i];
        const char *package = font_of(character);
        unsigned char letter[5] = "";
        size_t used = strlen(characters);
        utf8proc_encode_char((utf8proc_int32_t)character, letter);
        if (i < SHOWN)
            snprintf(characters + used, sizeof characters - used, "%sU+%04X %s", used ? ", " : "", character,
                     letter);
        used = strlen(packages);
        if (!strstr(packages, package))
            snprintf(packages + used, sizeof packages - used, "%s%s", used ? " " : "", package);
    }
    if (count > 0)
        print_error("note: %s: no font has %s%lld of its characters (%s%s), so boxes with codes stand there: "
                    "apt-get install %s",
                    path, missing->count == most ? "at least " : "", (long long)count, characters,
                    count > SHOWN ? ", ..." : "", packages);
    return missing->count;
}

/* ---- words that a run does not know, and sentences of the wrong language ---- */

enum { MAX_WORDS = 8, MAX_WORD_BYTES = 60, MAX_LINES = 10 };

/* Number of bytes to print of a word of this length. A long word is cut between two characters. */
static size_t shown_length(const char *word, size_t length)
{
    if (length <= MAX_WORD_BYTES) return length;
    for (length = MAX_WORD_BYTES; ((unsigned char)word[length] & 0xC0) == 0x80;) length--;
    return length;
}

/* ---- the language of sentences ---- */

/* The tokens of one sentence or several. */
struct token_counts {
    int64_t tokens, unknown;
    int64_t in_other; /* unknown ones that are in the vocabulary of the other side */
};

static void count_tokens(struct token_counts *counts, const struct qkv_sentence *sentence,
                         const struct qkv_run *run, bool is_target)
{
    const struct qkv_vocabulary *other = is_target ? &run->source : &run->target;
    counts->tokens += sentence->tokens.count;
    counts->unknown += sentence->unknown;
    for (int64_t i = 0; i < sentence->tokens.count; i++)
        if (sentence->ids[i] == QKV_UNKNOWN)
            counts->in_other += qkv_vocabulary_id(other, sentence->tokens.token[i]) != QKV_UNKNOWN;
}

/* Whether sentences seem to be of the other side of the run: most of their tokens are unknown, and most of the unknown ones are
 * in the vocabulary of the other side. */
static bool are_of_other_side(const struct token_counts *counts)
{
    return counts->unknown > 1 && 2 * counts->unknown > counts->tokens &&
           2 * counts->in_other > counts->unknown;
}

#define DIRECTION "this run translates from %s to %s"

void warn_of_swapped_sides(const char *place, const char *(*source)(const void *context, int64_t index),
                           const void *context, int64_t count, const struct qkv_run *run)
{
    struct token_counts counts = {0};
    struct qkv_sentence sentence = {0};
    for (int64_t i = 0; i < count; i++) {
        const char *text = source(context, i);
        /* A line that cannot be read is reported elsewhere. */
        if (qkv_sentence_encode(&sentence, &run->config.data.src, &run->source, text, strlen(text), NULL))
            break;
        count_tokens(&counts, &sentence, run, false);
    }
    qkv_sentence_release(&sentence);
    if (!are_of_other_side(&counts)) return;
    print_error("%s: most of its source words are not in the vocabulary, but most of these are words of the "
                "target language: " DIRECTION "; are the columns swapped?",
                place, run->config.data.src.lang, run->config.data.trg.lang);
}

static const char *source_of_corpus(const void *corpus, int64_t i)
{
    return qkv_corpus_source(corpus, i);
}

void warn_of_swapped_corpus(const char *place, const struct qkv_corpus *corpus, const struct qkv_run *run)
{
    /* Only a suspicious text is tokenised a second time. */
    if (2 * corpus->source.unknown > corpus->source.start[corpus->count])
        warn_of_swapped_sides(strcmp(place, "-") ? place : "<stdin>", source_of_corpus, corpus, corpus->count,
                              run);
}

/* ---- unknown words ---- */

void warn_of_unknown_words(const char *place, const struct qkv_sentence *sentence, const struct qkv_run *run,
                           bool is_target, const char *as_trained)
{
    if (!sentence->unknown) return;
    struct qkv_types unknown = {0};
    struct qkv_arena arena = {0};
    bool done = true;
    for (int64_t i = 0; i < sentence->tokens.count && done; i++) {
        if (sentence->ids[i] != QKV_UNKNOWN) continue;
        const char *token = qkv_token_shown(sentence->tokens.token[i], &arena);
        done = token && qkv_types_add(&unknown, token, 1) >= 0;
    }
    qkv_arena_release(&arena);
    if (!done) return;
    struct bytes words = {0};
    for (int64_t i = 0; i < unknown.size && i < MAX_WORDS; i++) {
        const char *word = qkv_types_token(&unknown, i);
        size_t full = qkv_length_in_word(word), length = shown_length(word, full);
        qkv_bytes_format(&words, "%s%.*s%s", i ? ", " : "", (int)length, word, length < full ? "..." : "");
    }
    if (unknown.size > MAX_WORDS)
        qkv_bytes_format(&words, " and %lld more", (long long)(unknown.size - MAX_WORDS));
    struct token_counts counts = {0};
    count_tokens(&counts, sentence, run, is_target);
    if (are_of_other_side(&counts))
        qkv_bytes_format(&words, "; most of them are words of the %s language: " DIRECTION,
                         is_target ? "source" : "target", run->config.data.src.lang,
                         run->config.data.trg.lang);
    else if (as_trained)
        qkv_bytes_format(&words, "; --as-trained reads it as: %s", as_trained);
    if (words.failed) required(NULL);
    say(stderr, "qkv: %s: not in the %svocabulary: %s\n", place, is_target ? "target " : "", words.data);
    free(words.data);
    qkv_types_release(&unknown);
}

void note_known_words(const struct qkv_run *run)
{
    const char *example = qkv_state_get(&run->state, QKV_STATE_EXAMPLE);
    if (example) say(stderr, "qkv: note: a sentence that the model knows: %s; its words: ", example);
    if (!example) fputs("qkv: note: the words that the model knows: ", stderr);
    print_command(stderr, "qkv inspect %s --vocabulary\n", run->path);
}

void unknown_words_note(struct unknown_words *notes, const char *place, const struct qkv_sentence *sentence,
                        const struct qkv_run *run, bool is_target, const char *as_trained, int64_t line)
{
    if (!sentence->unknown) return;
    if (!notes->shows_all && notes->line != line) notes->lines++;
    notes->line = line;
    if (notes->lines <= MAX_LINES) warn_of_unknown_words(place, sentence, run, is_target, as_trained);
}

bool unknown_words_are_named(const struct unknown_words *notes)
{
    return notes->lines < MAX_LINES;
}

void unknown_words_end(const struct unknown_words *notes)
{
    if (notes->lines <= MAX_LINES) return;
    long long more = (long long)(notes->lines - MAX_LINES);
    print_error("%lld more line%s words that are not in the vocabulary; -q leaves these notes out", more,
                more == 1 ? " has" : "s have");
}
