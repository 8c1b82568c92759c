/* Texts as code points, the tokenizers of BLEU and TER, and n-grams. A tokenizer puts spaces between words and marks; then the
 * text is split at white space. */
#include "core/text.h"
#include "core/memory.h"
#include "metrics/metric.h"

#include <utf8proc.h>

/* ---- classes of characters ---- */

static utf8proc_category_t category_of(uint32_t point)
{
    return utf8proc_category((utf8proc_int32_t)point);
}

/* The white space of Python's str.split(), at which sacreBLEU splits words. */
static bool is_space(uint32_t point)
{
    return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
           point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
           point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

/* Whether the code point is one of these ASCII characters. */
static bool is_one_of(const char *characters, uint32_t point)
{
    return point && point < 128 && strchr(characters, (int)point);
}

static bool is_ascii_punctuation(uint32_t point)
{
    return is_one_of("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", point);
}

/* The ASCII punctuation that 13a and tercom always split off as a word: all except . , - and ', which also occur within
 * numbers and words. */
static bool is_separate_mark(uint32_t point)
{
    return is_ascii_punctuation(point) && !is_one_of("',-.", point);
}

static bool is_stop_or_comma(uint32_t point)
{
    return point == '.' || point == ',';
}

static bool is_dash(uint32_t point)
{
    return point == '-';
}

static bool is_digit(uint32_t point)
{
    return point >= '0' && point <= '9';
}

static bool is_not_digit(uint32_t point)
{
    return !is_digit(point);
}

/* Unicode's general category N, and the other ones. */
static bool is_not_number(uint32_t point)
{
    return category_of(point) < UTF8PROC_CATEGORY_ND || category_of(point) > UTF8PROC_CATEGORY_NO;
}

/* Unicode's general category P. */
static bool is_punctuation(uint32_t point)
{
    return category_of(point) >= UTF8PROC_CATEGORY_PC && category_of(point) <= UTF8PROC_CATEGORY_PO;
}

/* Unicode's general category S. */
static bool is_symbol(uint32_t point)
{
    return category_of(point) >= UTF8PROC_CATEGORY_SM && category_of(point) <= UTF8PROC_CATEGORY_SO;
}

static bool is_cased(uint32_t point)
{
    utf8proc_category_t category = category_of(point);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

/* Unicode's property Case_Ignorable: accents, modifiers, and punctuation that occurs inside words. */
static bool is_case_ignorable(uint32_t point)
{
    static const uint32_t inside_words[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                            0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                            0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    utf8proc_category_t category = category_of(point);
    for (size_t i = 0; i < sizeof inside_words / sizeof *inside_words; i++)
        if (point == inside_words[i]) return true;
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME ||
           category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_SK;
}

/* ---- code points ---- */

/* Makes an empty sequence with space for `capacity` symbols. */
static struct qkv_symbols *new_symbols(struct qkv_arena *arena, int64_t capacity)
{
    struct qkv_symbols *symbols = qkv_arena_zeroed(arena, sizeof *symbols);
    if (!symbols) return NULL;
    symbols->items = qkv_arena_array(arena, capacity, sizeof *symbols->items);
    return symbols->items ? symbols : NULL;
}

static void append(struct qkv_symbols *symbols, uint32_t point)
{
    symbols->items[symbols->count++] = point;
}

/* Unicode's condition Final_Sigma: a cased letter comes before position `at` and none follows it;
 * characters that are Case_Ignorable are skipped. */
static bool is_final_sigma(const struct qkv_symbols *text, int64_t at)
{
    int64_t before = at - 1, after = at + 1;
    while (before >= 0 && is_case_ignorable(text->items[before])) before--;
    while (after < text->count && is_case_ignorable(text->items[after])) after++;
    return before >= 0 && is_cased(text->items[before]) &&
           !(after < text->count && is_cased(text->items[after]));
}

/* Maps text to lower case with Unicode's full mapping, as Python's str.lower() does. Only U+0130 becomes
 * two code points, so that the result has at most twice as many. */
static struct qkv_symbols *lower(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = new_symbols(arena, 2 * text->count);
    for (int64_t i = 0; result && i < text->count; i++) {
        uint32_t point = text->items[i];
        if (point == 0x03A3)
            append(result, is_final_sigma(text, i) ? 0x03C2 : 0x03C3);
        else
            append(result, point == 0x0130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)point));
        if (point == 0x0130) append(result, 0x0307);
    }
    return result;
}

struct qkv_symbols *qkv_text_decode(struct qkv_arena *arena, const char *text, bool lowercase)
{
    struct qkv_symbols *symbols = new_symbols(arena, (int64_t)strlen(text));
    while (symbols && *text) append(symbols, qkv_utf8_next(&text));
    return symbols && lowercase ? lower(arena, symbols) : symbols;
}

struct qkv_symbols *qkv_text_without_space(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? new_symbols(arena, text->count) : NULL;
    for (int64_t i = 0; result && i < text->count; i++)
        if (!is_space(text->items[i])) append(result, text->items[i]);
    return result;
}

/* ---- words ---- */

/* Makes an empty list with space for `capacity` words. */
static struct qkv_words *new_words(struct qkv_arena *arena, int64_t capacity)
{
    struct qkv_words *words = qkv_arena_zeroed(arena, sizeof *words);
    if (!words) return NULL;
    words->items = qkv_arena_array(arena, capacity, sizeof *words->items);
    return words->items ? words : NULL;
}

static void append_word(struct qkv_words *words, const uint32_t *items, int64_t count)
{
    words->items[words->count++] = (struct qkv_word){items, count};
}

/* The words between white space; with `single`, each of their characters is a word. */
static struct qkv_words *split(struct qkv_arena *arena, const struct qkv_symbols *text, bool single)
{
    struct qkv_words *words = text ? new_words(arena, text->count) : NULL;
    for (int64_t start = 0, end; words && start < text->count; start = end) {
        end = start + 1;
        if (is_space(text->items[start])) continue;
        while (!single && end < text->count && !is_space(text->items[end])) end++;
        append_word(words, text->items + start, end - start);
    }
    return words;
}

struct qkv_words *qkv_text_words_and_marks(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *plain = split(arena, text, false);
    struct qkv_words *words = plain ? new_words(arena, 2 * plain->count) : NULL;
    for (int64_t i = 0; words && i < plain->count; i++) {
        struct qkv_word word = plain->items[i];
        /* Splits off at most one punctuation mark, as sacreBLEU does: `(hi)` becomes `(hi` and `)`. */
        int64_t cut = 0;
        if (word.count > 1 && is_ascii_punctuation(word.items[word.count - 1]))
            cut = word.count - 1;
        else if (word.count > 1 && is_ascii_punctuation(word.items[0]))
            cut = 1;
        if (cut) append_word(words, word.items, cut);
        append_word(words, word.items + cut, word.count - cut);
    }
    return words;
}

/* ---- steps of tokenizers ---- */

/* A copy without trailing white space; with a space at both ends if `padded`. */
static struct qkv_symbols *copy_trimmed(struct qkv_arena *arena, bool padded, const struct qkv_symbols *text)
{
    int64_t end = text ? text->count : 0;
    while (end > 0 && is_space(text->items[end - 1])) end--;
    struct qkv_symbols *copy = text ? new_symbols(arena, end + 2) : NULL;
    if (!copy) return NULL;
    if (padded) append(copy, ' ');
    for (int64_t i = 0; i < end; i++) append(copy, text->items[i]);
    if (padded) append(copy, ' ');
    return copy;
}

static bool starts_with(const struct qkv_symbols *text, int64_t at, const char *start)
{
    int64_t same = 0;
    while (start[same] && at + same < text->count && text->items[at + same] == (unsigned char)start[same])
        same++;
    return !start[same];
}

/* Replaces every occurrence of `from` with `to`, in place and from left to right. `to` must not be longer
 * than `from`. */
static void replace(struct qkv_symbols *text, const char *from, const char *to)
{
    int64_t length = (int64_t)strlen(from), kept = 0;
    for (int64_t i = 0; i < text->count;) {
        if (!starts_with(text, i, from)) {
            text->items[kept++] = text->items[i++];
            continue;
        }
        for (const char *c = to; *c; c++) text->items[kept++] = (unsigned char)*c;
        i += length;
    }
    text->count = kept;
}

static void replace_entities(struct qkv_symbols *text)
{
    replace(text, "&quot;", "\"");
    replace(text, "&amp;", "&");
    replace(text, "&lt;", "<");
    replace(text, "&gt;", ">");
}

/* A rule that inserts spaces at each character that matches `first` and is followed by one that matches `second` (NULL: by
 * anything): before them, between them, after them. Matches do not overlap: the second character of a match cannot be the
 * first of the next one. */
struct rule {
    bool (*first)(uint32_t), (*second)(uint32_t);
    bool space_before, space_between, space_after;
};

static struct qkv_symbols *apply_rule(struct qkv_arena *arena, const struct rule *rule,
                                      const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? new_symbols(arena, 3 * text->count) : NULL;
    for (int64_t i = 0; result && i < text->count; i++) {
        bool matches = rule->first(text->items[i]) &&
                       (!rule->second || (i + 1 < text->count && rule->second(text->items[i + 1])));
        if (matches && rule->space_before) append(result, ' ');
        append(result, text->items[i]);
        if (matches && rule->space_between) append(result, ' ');
        if (matches && rule->second) append(result, text->items[++i]);
        if (matches && rule->space_after) append(result, ' ');
    }
    return result;
}

static const struct rule AROUND_MARKS = {is_separate_mark, NULL, .space_before = true, .space_after = true};

/* Puts spaces around full stops and commas that are not between digits, and around dashes that follow a digit. */
static struct qkv_symbols *split_at_numbers(struct qkv_arena *arena, struct qkv_symbols *text)
{
    static const struct rule rules[] = {
        {is_not_digit, is_stop_or_comma, false, true, true},
        {is_stop_or_comma, is_not_digit, true, true, false},
        {is_digit, is_dash, false, true, true},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) text = apply_rule(arena, &rules[i], text);
    return text;
}

/* ---- the tokenizers ---- */

/* Tokenizes as mteval-v13a does: replaces entities and line ends, then puts spaces around punctuation. Trailing white
 * space is dropped first, because otherwise the replacement of "-\n" would remove a final dash. */
static struct qkv_symbols *tokenize_13a(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *copy = copy_trimmed(arena, true, text);
    if (!copy) return NULL;
    replace(copy, "<skipped>", "");
    replace(copy, "-\n", "");
    replace(copy, "\n", " ");
    replace_entities(copy);
    return split_at_numbers(arena, apply_rule(arena, &AROUND_MARKS, copy));
}

/* Tokenizes as mteval-v14 does with --international-tokenization: puts spaces around punctuation marks that are not
 * between digits, and around symbols. As there, a full stop after a number at the end of the text is not split off. */
static struct qkv_symbols *tokenize_intl(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    static const struct rule rules[] = {
        {is_not_number, is_punctuation, false, true, true},
        {is_punctuation, is_not_number, true, true, false},
        {is_symbol, NULL, true, false, true},
    };
    struct qkv_symbols *result = copy_trimmed(arena, false, text);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) result = apply_rule(arena, &rules[i], result);
    return result;
}

/* The characters that sacreBLEU takes for Chinese. Two of its ranges, of Unicode beyond U+FFFF, are written in a way that means
 * U+2001 to U+2A6D and U+2F81 to U+2FA1. */
static bool is_chinese_for_bleu(uint32_t point)
{
    static const uint32_t ranges[][2] = {
        {0x2001, 0x2A6D}, {0x2E80, 0x2FDF}, {0x2FF0, 0x303F}, {0x3100, 0x312F}, {0x31A0, 0x31BF},
        {0x31C0, 0x31EF}, {0x3200, 0x4DB5}, {0x4E00, 0x9FBB}, {0xF900, 0xFA2D}, {0xFA30, 0xFA6A},
        {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F}, {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (point >= ranges[i][0] && point <= ranges[i][1]) return true;
    return false;
}

/* Tokenizes as sacreBLEU does Chinese: puts spaces around each Chinese character, and splits the rest as 13a, without its
 * replacements. */
static struct qkv_symbols *tokenize_zh(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    static const struct rule around_characters = {is_chinese_for_bleu, NULL, .space_before = true,
                                                  .space_after = true};
    struct qkv_symbols *copy = copy_trimmed(arena, false, text);
    while (copy && copy->count && is_space(copy->items[0])) copy->items++, copy->count--;
    return split_at_numbers(arena,
                            apply_rule(arena, &AROUND_MARKS, apply_rule(arena, &around_characters, copy)));
}

struct qkv_words *qkv_text_tokenize(struct qkv_arena *arena, enum qkv_bleu_tokenizer tokenizer,
                                    const struct qkv_symbols *text)
{
    const struct qkv_symbols *spaced = tokenizer == QKV_BLEU_13A    ? tokenize_13a(arena, text)
                                       : tokenizer == QKV_BLEU_INTL ? tokenize_intl(arena, text)
                                       : tokenizer == QKV_BLEU_ZH   ? tokenize_zh(arena, text)
                                                                    : text;
    return split(arena, spaced, tokenizer == QKV_BLEU_CHAR);
}

static bool is_within(uint32_t point, uint32_t first, uint32_t last)
{
    return point >= first && point <= last;
}

void qkv_writing_add(struct qkv_writing *writing, const char *line)
{
    enum { WORD = 8 }; /* letters: a longer mean is no word */
    int64_t chinese = 0, japanese = 0, others = 0, words = 1;
    while (*line) {
        uint32_t point = qkv_utf8_next(&line);
        chinese += is_within(point, 0x3400, 0x9FFF) || is_within(point, 0x20000, 0x3FFFF);
        japanese += is_within(point, 0x3041, 0x30FF);
        /* Thai and Lao, Tibetan, Burmese, Khmer */
        others += is_within(point, 0xE01, 0xFBC) || is_within(point, 0x1000, 0x109F) ||
                  is_within(point, 0x1780, 0x17D3);
        words += is_space(point);
    }
    int64_t letters = chinese + japanese + others;
    bool is_unspaced = letters > (words == 1 ? 1 : WORD * words);
    writing->lines++;
    writing->unspaced += is_unspaced;
    writing->chinese += is_unspaced && !japanese && chinese > others;
}

enum qkv_bleu_tokenizer qkv_writing_tokenizer(const struct qkv_writing *writing)
{
    if (!writing->unspaced || 2 * writing->unspaced < writing->lines) return QKV_BLEU_13A;
    return 2 * writing->chinese >= writing->unspaced ? QKV_BLEU_ZH : QKV_BLEU_CHAR;
}

enum qkv_bleu_tokenizer qkv_bleu_tokenizer_for(enum qkv_bleu_tokenizer tokenizer,
                                               const struct qkv_corpus *corpus)
{
    struct qkv_writing writing = {0};
    if (!corpus->sides.has_source) return tokenizer; /* there are no translations to compare */
    for (int64_t i = 0; tokenizer == QKV_BLEU_AUTO && i < corpus->count; i++)
        qkv_writing_add(&writing, qkv_corpus_target(corpus, i));
    return tokenizer == QKV_BLEU_AUTO ? qkv_writing_tokenizer(&writing) : tokenizer;
}

/* Puts a space before every 's at the end of a word. */
static struct qkv_symbols *split_possessives(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? new_symbols(arena, 2 * text->count) : NULL;
    for (int64_t i = 0; result && i < text->count; i++) {
        if (starts_with(text, i, "'s ")) append(result, ' ');
        append(result, text->items[i]);
    }
    return result;
}

/* Normalizes as tercom does: replaces entities and line ends, then puts spaces around punctuation. */
static struct qkv_symbols *normalize(struct qkv_arena *arena, struct qkv_symbols *text)
{
    replace(text, "\n-", "");
    replace(text, "\n", " ");
    replace_entities(text);
    return split_at_numbers(arena, split_possessives(arena, apply_rule(arena, &AROUND_MARKS, text)));
}

struct qkv_words *qkv_text_tercom(struct qkv_arena *arena, int passes, bool no_punctuation,
                                  const struct qkv_symbols *text)
{
    struct qkv_symbols *result = copy_trimmed(arena, true, text);
    for (int pass = 0; result && (pass < passes || pass == 0); pass++) {
        if (passes && !(result = normalize(arena, result))) break;
        int64_t kept = 0;
        for (int64_t i = 0; i < result->count; i++) {
            uint32_t point = result->items[i];
            /* The next pass takes all white space for spaces. */
            if (!no_punctuation || !is_one_of(".,?:;!\"()", point))
                result->items[kept++] = is_space(point) ? ' ' : point;
        }
        result->count = kept;
    }
    return split(arena, result, false);
}

/* ---- n-grams ---- */

/* Compares the first `order` symbols; the end of a text sorts before every symbol. */
static int compare_ngrams(const struct qkv_suffix *a, const struct qkv_suffix *b, int64_t order)
{
    for (int64_t i = 0; i < order; i++) {
        if (i == a->count || i == b->count) return (i < a->count) - (i < b->count);
        if (a->items[i] != b->items[i]) return a->items[i] < b->items[i] ? -1 : 1;
    }
    return 0;
}

static int compare_suffixes(const void *a, const void *b)
{
    return compare_ngrams(a, b, QKV_CHRF_LONGEST);
}

/* Suffixes that are sorted by their first QKV_CHRF_LONGEST symbols are also sorted by their first n, for every
 * smaller n. So one sort makes the equal n-grams of every order neighbours. */
struct qkv_ngrams *qkv_ngrams_sort(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_ngrams *ngrams = text ? qkv_arena_zeroed(arena, sizeof *ngrams) : NULL;
    if (!ngrams) return NULL;
    ngrams->suffixes = qkv_arena_array(arena, text->count, sizeof *ngrams->suffixes);
    if (!ngrams->suffixes) return NULL;
    ngrams->count = text->count;
    for (int64_t i = 0; i < text->count; i++) {
        int64_t left = text->count - i;
        ngrams->suffixes[i] =
            (struct qkv_suffix){text->items + i, left < QKV_CHRF_LONGEST ? left : QKV_CHRF_LONGEST};
    }
    qsort(ngrams->suffixes, (size_t)ngrams->count, sizeof *ngrams->suffixes, compare_suffixes);
    return ngrams;
}

int64_t qkv_ngrams_total(const struct qkv_ngrams *ngrams, int order)
{
    return ngrams->count < order ? 0 : ngrams->count - order + 1;
}

/* Moves the cursor past all suffixes that sort before the n-gram or start with it. Returns the number of suffixes
 * that start with it. */
static int64_t skip_and_count(const struct qkv_ngrams *ngrams, const struct qkv_suffix *ngram, int order,
                              int64_t *cursor)
{
    int64_t equal = 0;
    for (; *cursor < ngrams->count; ++*cursor) {
        int sign = compare_ngrams(&ngrams->suffixes[*cursor], ngram, order);
        if (sign > 0) break;
        equal += sign == 0;
    }
    return equal;
}

int64_t qkv_ngrams_matches(const struct qkv_ngrams *hypothesis, struct qkv_ngrams *const *references,
                           int64_t count, int order, int64_t *cursors)
{
    int64_t matches = 0;
    for (int64_t r = 0; r < count; r++) cursors[r] = 0;
    for (int64_t i = 0; i < hypothesis->count;) {
        const struct qkv_suffix *ngram = &hypothesis->suffixes[i];
        if (ngram->count < order) {
            i++;
            continue;
        }
        int64_t here = skip_and_count(hypothesis, ngram, order, &i);
        int64_t max = 0;
        for (int64_t r = 0; r < count; r++) {
            int64_t there = skip_and_count(references[r], ngram, order, &cursors[r]);
            if (there > max) max = there;
        }
        matches += here < max ? here : max;
    }
    return matches;
}

/* ---- numbers of words ---- */

/* A word, and the place where its number is stored. */
struct numbered {
    struct qkv_word word;
    uint32_t *number; /* in the caller's array; not owned */
};

static int compare_words(const void *a, const void *b)
{
    const struct qkv_word *left = &((const struct numbered *)a)->word,
                          *right = &((const struct numbered *)b)->word;
    int64_t shorter = left->count < right->count ? left->count : right->count;
    int order = memcmp(left->items, right->items, (size_t)shorter * sizeof *left->items);
    return order ? order : (left->count > right->count) - (left->count < right->count);
}

struct qkv_symbols *qkv_text_number_words(struct qkv_arena *arena, struct qkv_words *const *texts,
                                          int64_t count)
{
    int64_t total = 0;
    for (int64_t t = 0; t < count; t++) {
        if (!texts[t]) return NULL;
        total += texts[t]->count;
    }
    struct qkv_symbols *results = qkv_arena_array(arena, count, sizeof *results);
    struct numbered *words = qkv_arena_array(arena, total, sizeof *words);
    uint32_t *numbers = qkv_arena_array(arena, total, sizeof *numbers);
    if (!results || !words || !numbers) return NULL;
    int64_t at = 0;
    for (int64_t t = 0; t < count; t++) {
        results[t] = (struct qkv_symbols){numbers + at, texts[t]->count};
        for (int64_t i = 0; i < texts[t]->count; i++, at++)
            words[at] = (struct numbered){texts[t]->items[i], numbers + at};
    }
    qsort(words, (size_t)total, sizeof *words, compare_words);
    uint32_t number = 0;
    for (int64_t i = 0; i < total; i++) {
        if (i > 0 && compare_words(&words[i - 1], &words[i])) number++;
        *words[i].number = number;
    }
    return results;
}
