/* Reads gold links: Pharaoh's format, three columns, or .wa (metrics/alignment.h); and converts links between words to links
 * between tokens. */
#include "metrics/links.h"
#include "core/memory.h"
#include "data/lines.h"
#include "data/unicode.h"

#include <ctype.h>
#include <zlib.h>

enum { MAX_SENTENCES = 1 << 20 }; /* of a .wa file, if the number of sentence pairs is not known */

enum links_format { UNKNOWN, PHARAOH, THREE_COLUMNS, WA };

/* A link with the numbers of the file: words count from 0 or from 1. */
struct file_link {
    int64_t sentence; /* from 0 */
    struct qkv_alignment_link link;
};

/* The state of reading a file. */
struct reading {
    struct qkv_lines lines;
    enum links_format format; /* UNKNOWN: all lines so far were empty */
    struct file_link *links;  /* [count]: all links */
    int64_t count, capacity;
    int64_t sentences;                   /* the highest number of a sentence pair so far */
    const struct qkv_word_counts *words; /* [pairs] of the text; NULL: not known */
    int64_t pairs;                       /* of the text; -1: not known */
    bool by_unicode; /* the links number the words that any white space separates, not only that of ASCII */
    struct qkv_error *error;
};

static enum qkv_status no_memory(const struct reading *reading)
{
    return qkv_error_set(reading->error, "%s: out of memory", reading->lines.path);
}

static const char *end_of_field(const char *text)
{
    return text + strcspn(text, " \t\r");
}

static const char *skip_space(const char *text)
{
    return text + strspn(text, " \t\r");
}

/* Reads a number of up to nine digits. Returns the end of the digits; NULL when there is none. */
static const char *read_number(const char *text, int64_t *number)
{
    const char *start = text;
    for (*number = 0; isdigit((unsigned char)*text) && text - start < 9; text++)
        *number = 10 * *number + (*text - '0');
    return text == start ? NULL : text;
}

static enum qkv_status add_link(struct reading *reading, int64_t sentence, struct qkv_alignment_link link)
{
    if (!QKV_RESERVE(reading->links, reading->capacity, reading->count + 1)) {
        reading->count = 0;
        return no_memory(reading);
    }
    link.line = reading->lines.number;
    reading->links[reading->count++] = (struct file_link){.sentence = sentence, .link = link};
    return QKV_OK;
}

/* The number of words of a side of a pair, between white space of ASCII or any; -1: not known. */
static int64_t word_count(const struct reading *reading, int64_t pair, int side, bool by_unicode)
{
    const struct qkv_word_counts *words = &reading->words[pair];
    const char *text = words->text[side];
    if (text) return qkv_utf8_count_words(text, text + strlen(text), !by_unicode);
    return side ? words->target : words->source;
}

/* ---- 0-0 1p2 ---- */

static enum qkv_status refuse_link(const struct reading *reading, const char *at)
{
    const char *tab = strchr(reading->lines.line, '\t');
    if (reading->sentences == 1 && tab && !strchr(tab + 1, '\t'))
        return qkv_error_set(
            reading->error,
            "%s:%lld: has two columns, but links are the third: source<TAB>target<TAB>0-0 1-2",
            reading->lines.path, (long long)reading->lines.number);
    return qkv_error_set(
        reading->error,
        "%s:%lld:%lld: %.*s is not a link between words: write 0-2 for a sure link from the first "
        "source word to the third target word, 0p2 for a possible one",
        reading->lines.path, (long long)reading->lines.number, (long long)(at - reading->lines.line + 1),
        (int)(end_of_field(at) - at), at);
}

/* Reads the links in the rest of a line. */
static enum qkv_status read_links(struct reading *reading, const char *text)
{
    int64_t sentence = reading->sentences++;
    for (const char *at = skip_space(text), *end; *at; at = skip_space(end)) {
        struct qkv_alignment_link link = {.column = at - reading->lines.line + 1};
        end = read_number(at, &link.source);
        if (!end || !*end || !strchr("-p?:", *end)) return refuse_link(reading, at);
        link.sure = *end == '-';
        end = read_number(end + 1, &link.target);
        if (!end || end != end_of_field(end)) return refuse_link(reading, at);
        if (add_link(reading, sentence, link)) return QKV_INVALID;
    }
    return QKV_OK;
}

/* ---- source<TAB>target<TAB>0-0 1p2 ---- */

/* The text after the second tab; NULL when there is none. */
static const char *third_column(const char *line)
{
    const char *tab = strchr(line, '\t');
    if (tab) tab = strchr(tab + 1, '\t');
    return tab ? tab + 1 : NULL;
}

/* Refuses a pair whose words are not those of the text: the links number other words. */
static enum qkv_status check_words(struct reading *reading, const char *third)
{
    int64_t pair = reading->sentences;
    if (pair >= reading->pairs) return QKV_OK; /* check_line_count reports it */
    const char *source = reading->lines.line, *target = strchr(source, '\t') + 1;
    int64_t here[] = {qkv_utf8_count_words(source, target - 1, true),
                      qkv_utf8_count_words(target, third - 1, true)};
    int64_t wanted[] = {word_count(reading, pair, 0, false), word_count(reading, pair, 1, false)};
    for (int side = 0; side < 2; side++)
        if (wanted[side] >= 0 && here[side] != wanted[side])
            return qkv_error_set(reading->error,
                                 "%s:%lld: the %s has %lld word%s, but that of the text has %lld: these are "
                                 "links of another text, or of other tokens",
                                 reading->lines.path, (long long)reading->lines.number,
                                 side ? "target" : "source", (long long)here[side],
                                 here[side] == 1 ? "" : "s", (long long)wanted[side]);
    return QKV_OK;
}

static enum qkv_status read_columns(struct reading *reading)
{
    const char *column = third_column(reading->lines.line);
    if (column) {
        enum qkv_status status = check_words(reading, column);
        return status ? status : read_links(reading, column);
    }
    return qkv_error_set(
        reading->error,
        "%s:%lld: the line has no third column; a line is source<TAB>target<TAB>links, as in "
        "the lines before it",
        reading->lines.path, (long long)reading->lines.number);
}

/* ---- 0001 1 1 S ---- */

/* Reads a line: three numbers, then perhaps S or P, and a number. Returns how many of the numbers it has; 4: all of it is
 * right. */
static int read_wa(const char *line, int64_t *sentence, struct qkv_alignment_link *link)
{
    int64_t *const number[] = {sentence, &link->source, &link->target};
    const char *text = skip_space(line), *end;
    for (int i = 0; i < 3; i++, text = skip_space(end)) {
        end = read_number(text, number[i]);
        if (!end || end != end_of_field(end)) return i;
        if (i == 1) link->column = text - line + 1;
    }
    bool has_kind = *text && strchr("SPsp", *text) && end_of_field(text) == text + 1;
    link->sure = !has_kind || *text == 'S' || *text == 's';
    if (has_kind) text = skip_space(text + 1);
    return *skip_space(text + strspn(text, "0123456789.eE+-")) ? 3 : 4;
}

static enum qkv_status read_wa_line(struct reading *reading)
{
    struct qkv_alignment_link link;
    int64_t sentence;
    const char *path = reading->lines.path;
    long long line = reading->lines.number;
    if (!*skip_space(reading->lines.line)) return QKV_OK;
    if (read_wa(reading->lines.line, &sentence, &link) < 4)
        return qkv_error_set(
            reading->error,
            "%s:%lld: is not a line of a .wa file: number of a sentence pair, source word, target "
            "word, and S (sure) or P (possible), as in 1 1 3 S",
            path, line);
    if (sentence < 1 || (reading->pairs < 0 && sentence > MAX_SENTENCES))
        return qkv_error_set(reading->error, "%s:%lld: sentence pairs have the numbers 1, 2, ..., not %lld",
                             path, line, (long long)sentence);
    if (reading->pairs >= 0 && sentence > reading->pairs)
        return qkv_error_set(
            reading->error, "%s:%lld: a link of sentence pair %lld, but the corpus has %lld pair%s", path,
            line, (long long)sentence, (long long)reading->pairs, reading->pairs == 1 ? "" : "s");
    if (sentence > reading->sentences) reading->sentences = sentence;
    return add_link(reading, sentence - 1, link);
}

/* ---- lines ---- */

static enum links_format format_of(const char *line)
{
    struct qkv_alignment_link link;
    int64_t sentence;
    if (!*skip_space(line)) return UNKNOWN;
    const char *column = third_column(line);
    int numbers = read_wa(line, &sentence, &link);
    if (numbers < 4 && column && !strchr(column, '\t')) return THREE_COLUMNS;
    return numbers < 3 ? PHARAOH : WA; /* read_wa_line reports a wrong end */
}

static enum qkv_status read_line(struct reading *reading)
{
    if (reading->format == UNKNOWN) {
        reading->format = format_of(reading->lines.line);
        if (reading->format == WA) reading->sentences = 0; /* previous empty lines were not sentence pairs */
    }
    if (reading->format == THREE_COLUMNS) return read_columns(reading);
    if (reading->format == WA) return read_wa_line(reading);
    return read_links(reading, reading->lines.line);
}

/* Checks that there is one line of links per sentence pair. Does not apply to .wa, which names the pairs that have links. */
static enum qkv_status check_line_count(struct reading *reading)
{
    if (reading->pairs >= 0 && reading->format == WA) reading->sentences = reading->pairs;
    if (reading->pairs < 0 || reading->sentences == reading->pairs) return QKV_OK;
    return qkv_error_set(reading->error, "%s: has %lld line%s, but the corpus has %lld pair%s",
                         reading->lines.path, (long long)reading->sentences,
                         reading->sentences == 1 ? "" : "s", (long long)reading->pairs,
                         reading->pairs == 1 ? "" : "s");
}

static enum qkv_status read_lines(struct reading *reading)
{
    bool found;
    enum qkv_status status;
    while (!(status = qkv_lines_next(&reading->lines, &found, reading->error)) && found)
        if ((status = read_line(reading))) return status;
    return status ? status : check_line_count(reading);
}

/* ---- the number of the first word ---- */

#define IN_CONFIG " (in a config: data.train_links_from)"

static enum qkv_status refuse_word_0(const struct reading *reading, const struct file_link *link)
{
    return qkv_error_set(
        reading->error,
        reading->format == WA
            ? "%s:%lld:%lld: the words of a .wa file count from 1, but here is word 0: if it "
              "means no word, --links-from 1 leaves such links out; if words count from 0, give "
              "--links-from 0" IN_CONFIG
            : "%s:%lld:%lld: here is word 0, but --links-from 1" IN_CONFIG " says that words count from 1",
        reading->lines.path, (long long)link->link.line, (long long)link->link.column);
}

/* Whether a sentence does not have a word, which counts from 0. words: how many it has; -1: not known. */
static bool is_outside(int64_t word, int64_t words)
{
    return word < 0 || (words >= 0 && word >= words);
}

/* Sets *from, the number of the first word, 0 or 1, to what `wanted` says or the links show. In a .wa file, words count from 1
 * by definition, and 0 can mean no word. Fails when the links do not determine it, or contradict `wanted`. */
static enum qkv_status find_first_word(const struct reading *reading, enum qkv_links_from wanted, int *from)
{
    const struct file_link *word_0 = NULL;
    bool outside = false, null_words = reading->format == WA, detected = wanted == QKV_LINKS_FROM_DETECTED,
         by_unicode = reading->by_unicode;
    for (int64_t i = 0; i < reading->count; i++) {
        const struct file_link *link = &reading->links[i];
        if (!word_0 && (!link->link.source || !link->link.target)) word_0 = link;
        if (link->sentence < reading->pairs)
            outside = outside ||
                      is_outside(link->link.source, word_count(reading, link->sentence, 0, by_unicode)) ||
                      is_outside(link->link.target, word_count(reading, link->sentence, 1, by_unicode));
    }
    *from = detected ? reading->count && (!word_0 || null_words) : wanted == QKV_LINKS_FROM_1;
    if (word_0 && *from == 1 && (detected || !null_words)) return refuse_word_0(reading, word_0);
    if (!detected || !*from || null_words || outside) return QKV_OK;
    return qkv_error_set(
        reading->error,
        "%s: words may count from 0 or from 1: no link has a word 0, nor a word that only counting "
        "from 1 explains; say which with --links-from 0 or --links-from 1" IN_CONFIG,
        reading->lines.path);
}

/* The number of a word, which counts from 0, in a file whose words count from 1 if `from` is 1. */
static long long number_of(int64_t word, int from)
{
    return from == 1 && word < INT64_MAX ? word + 1 : word;
}

enum qkv_status qkv_alignment_check(const struct qkv_alignment *alignment, struct qkv_word_counts words,
                                    struct qkv_error *error)
{
    for (int64_t i = 0; i < alignment->count; i++) {
        const struct qkv_alignment_link *link = &alignment->links[i];
        bool source = is_outside(link->source, words.source);
        if (!source && !is_outside(link->target, words.target)) continue;
        int from = alignment->from;
        return qkv_error_set(
            error, "%s:%lld:%lld: link %lld%c%lld has no %s word %lld: the sentence has %lld, from %d",
            alignment->file ? alignment->file : "links", (long long)link->line, (long long)link->column,
            number_of(link->source, from), link->sure ? '-' : 'p', number_of(link->target, from),
            source ? "source" : "target", number_of(source ? link->source : link->target, from),
            (long long)(source ? words.source : words.target), from);
    }
    return QKV_OK;
}

/* ---- words between other white space than that of ASCII ---- */

/* Finds the first pair that has some between its words. */
static void find_spaces(const struct reading *reading, struct qkv_word_spaces *spaces)
{
    for (int64_t i = 0; i < reading->pairs; i++)
        for (int side = 0; side < 2; side++) {
            const char *text = reading->words[i].text[side], *end = text ? text + strlen(text) : NULL;
            if (!text || qkv_utf8_count_words(text, end, true) == qkv_utf8_count_words(text, end, false))
                continue;
            spaces->pair = i + 1;
            while (spaces->space < 0x80 || !qkv_is_space(spaces->space))
                text += qkv_point(text, &spaces->space);
            return;
        }
}

/* The number of a word that any white space separates among those that white space of ASCII separates. */
static int64_t number_by_ascii(const char *text, int64_t word)
{
    const char *at = text;
    bool in_word = false;
    for (int32_t point; *at;) {
        at += qkv_point(at, &point);
        bool is_space = qkv_is_space(point);
        if (!is_space && !in_word && !word--) break;
        in_word = !is_space;
    }
    return qkv_utf8_count_words(text, at, true) - 1;
}

/* Gives the words of links the numbers that they have among those that white space of ASCII separates. False if there is no
 * such word. */
static bool renumber(struct reading *reading, int from)
{
    for (int64_t i = 0; i < reading->count; i++) {
        struct file_link *link = &reading->links[i];
        int64_t *const word[] = {&link->link.source, &link->link.target};
        for (int side = 0; side < 2 && link->sentence < reading->pairs; side++) {
            const char *text = reading->words[link->sentence].text[side];
            if (!text || *word[side] < from) continue;
            if (*word[side] - from >= word_count(reading, link->sentence, side, true)) return false;
            *word[side] = number_by_ascii(text, *word[side] - from) + from;
        }
    }
    return true;
}

/* ---- links by sentence ---- */

static int by_words(const void *a, const void *b)
{
    const struct file_link *x = a, *y = b;
    if (x->sentence != y->sentence) return x->sentence < y->sentence ? -1 : 1;
    if (x->link.source != y->link.source) return x->link.source < y->link.source ? -1 : 1;
    if (x->link.target != y->link.target) return x->link.target < y->link.target ? -1 : 1;
    if (x->link.line != y->link.line) return x->link.line < y->link.line ? -1 : 1;
    return (x->link.column > y->link.column) - (x->link.column < y->link.column);
}

/* Sorts the links and stores them in `alignments`: each once, with words from 0. */
static bool store(struct reading *reading, int from, struct qkv_alignments *alignments)
{
    struct qkv_arena *arena = &alignments->arena;
    const char *file = qkv_arena_string(arena, reading->lines.path);
    struct qkv_alignment *sentences =
        qkv_arena_allocate(arena, (size_t)reading->sentences * sizeof *sentences);
    struct qkv_alignment_link *stored = qkv_arena_allocate(arena, (size_t)reading->count * sizeof *stored);
    if (!file || !sentences || !stored) return false;
    *alignments = (struct qkv_alignments){
        .sentences = sentences, .count = reading->sentences, .missing = reading->sentences, .arena = *arena};
    for (int64_t i = 0; i < reading->sentences; i++)
        sentences[i] = (struct qkv_alignment){.links = stored, .file = file, .from = from};
    if (reading->count > 1) qsort(reading->links, (size_t)reading->count, sizeof *reading->links, by_words);
    for (int64_t i = 0; i < reading->count; i++) {
        const struct file_link *link = &reading->links[i];
        struct qkv_alignment *sentence = &sentences[link->sentence];
        struct qkv_alignment_link moved = link->link, *last = sentence->count ? stored - 1 : NULL;
        alignments->missing -= i == 0 || link->sentence != link[-1].sentence;
        moved.source -= from;
        moved.target -= from;
        if (moved.source < 0 || moved.target < 0) continue; /* a link to no word, in a .wa file */
        if (last && last->source == moved.source && last->target == moved.target) {
            last->sure = last->sure || moved.sure;
            continue;
        }
        if (!sentence->count++) sentence->links = stored;
        *stored++ = moved;
    }
    return true;
}

static enum qkv_status take_links(struct reading *reading, enum qkv_links_from wanted,
                                  struct qkv_alignments *alignments)
{
    int from;
    if (find_first_word(reading, wanted, &from)) return QKV_INVALID;
    if (reading->by_unicode && !renumber(reading, from)) return QKV_INVALID;
    if (!store(reading, from, alignments)) return no_memory(reading);
    for (int64_t i = 0; reading->words && i < alignments->count; i++) {
        const struct qkv_word_counts words = {word_count(reading, i, 0, false),
                                              word_count(reading, i, 1, false)};
        if (qkv_alignment_check(&alignments->sentences[i], words, reading->error)) return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status read_file(struct reading *reading, enum qkv_links_from wanted,
                                 struct qkv_alignments *alignments)
{
    struct qkv_word_spaces spaces = {0};
    if (read_lines(reading)) return QKV_INVALID;
    find_spaces(reading, &spaces);
    enum qkv_status status = take_links(reading, wanted, alignments);
    if (status && spaces.pair) {
        const struct qkv_error message = *reading->error;
        qkv_alignments_release(alignments);
        spaces.by_unicode = reading->by_unicode = true;
        status = take_links(reading, wanted, alignments);
        if (status)
            qkv_error_set(
                reading->error,
                "%s; nor do the links fit words that any white space separates: sentence pair %lld has "
                "U+%04X between words",
                message.message, (long long)spaces.pair, (unsigned)spaces.space);
    }
    alignments->spaces = spaces;
    return status;
}

enum qkv_status qkv_alignments_read(struct qkv_alignments *alignments, const char *path,
                                    enum qkv_links_from from, const struct qkv_word_counts *words,
                                    int64_t count, struct qkv_error *error)
{
    struct reading reading = {.words = words, .pairs = words ? count : -1, .error = error};
    *alignments = (struct qkv_alignments){0};
    if (from != QKV_LINKS_FROM_DETECTED && from != QKV_LINKS_FROM_0 && from != QKV_LINKS_FROM_1)
        return qkv_error_set(error, "%s: `from` is %d, which is no value of enum qkv_links_from", path,
                             (int)from);
    if (words && count < 0)
        return qkv_error_set(error, "%s: there cannot be %lld sentence pairs", path, (long long)count);
    if (qkv_lines_open(&reading.lines, path, error)) return QKV_INVALID;
    enum qkv_status status = read_file(&reading, from, alignments);
    qkv_lines_close(&reading.lines);
    free(reading.links);
    if (status) qkv_alignments_release(alignments);
    return status;
}

void qkv_alignments_release(struct qkv_alignments *alignments)
{
    qkv_arena_release(&alignments->arena);
    *alignments = (struct qkv_alignments){0};
}

/* ---- links of a corpus ---- */

/* The tokens of one side of a pair. */
struct tokens {
    const int32_t *word; /* [count]: the word of each; -1: none */
    int64_t count;
};

static struct tokens tokens_of(const struct qkv_corpus_side *side, int64_t pair)
{
    return (struct tokens){side->word + side->start[pair], side->start[pair + 1] - side->start[pair]};
}

enum qkv_status qkv_corpus_links_read(struct qkv_alignments *links, const char *path,
                                      enum qkv_links_from from, const struct qkv_corpus *corpus,
                                      struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    if (!corpus->source.raw_start)
        return qkv_error_set(error, "alignment scores need a corpus that keeps its raw lines");
    struct qkv_word_counts *words = qkv_arena_array(&arena, corpus->read, sizeof *words);
    for (int64_t i = 0; words && i < corpus->read; i++) words[i] = (struct qkv_word_counts){-1, -1};
    for (int64_t i = 0; words && i < corpus->count; i++)
        words[corpus->line[i] - 1] =
            (struct qkv_word_counts){.text = {qkv_corpus_source(corpus, i), qkv_corpus_target(corpus, i)}};
    enum qkv_status status = words ? qkv_alignments_read(links, path, from, words, corpus->read, error)
                                   : qkv_error_set(error, "%s: out of memory", path);
    qkv_arena_release(&arena);
    return status;
}

/* ---- links between tokens ---- */

/* Adds the links between the pieces of two linked words to `links`, which has memory for `capacity` and holds *count. A target
 * word shares its weight among the source words that it is linked to, and a source word among its pieces. */
static bool add_pieces(struct qkv_token_links *links, int64_t *count, int64_t *capacity,
                       const struct tokens tokens[2], const struct qkv_alignment *alignment, int64_t link)
{
    const struct tokens source = tokens[0], target = tokens[1];
    const struct qkv_alignment_link words = alignment->links[link];
    int64_t linked = 0, pieces = 0;
    for (int64_t i = 0; i < alignment->count; i++) linked += alignment->links[i].target == words.target;
    for (int64_t s = 0; s < source.count; s++) pieces += source.word[s] == words.source;
    for (int64_t t = 0; t < target.count; t++)
        for (int64_t s = 0; target.word[t] == words.target && s < source.count; s++) {
            if (source.word[s] != words.source) continue;
            if (!QKV_RESERVE(links->links, *capacity, *count + 1)) return false;
            links->links[(*count)++] =
                (struct qkv_token_link){(int32_t)t, (int32_t)s, 1.0 / (double)(linked * pieces)};
        }
    return true;
}

static bool convert(struct qkv_token_links *links, const struct qkv_corpus *corpus,
                    const struct qkv_alignments *words)
{
    int64_t count = 0, capacity = 0;
    links->start = calloc((size_t)corpus->count + 1, sizeof *links->start);
    if (!links->start) return false;
    for (int64_t pair = 0; pair < corpus->count; pair++) {
        const struct qkv_alignment *alignment = &words->sentences[corpus->line[pair] - 1];
        const struct tokens tokens[] = {tokens_of(&corpus->source, pair), tokens_of(&corpus->target, pair)};
        for (int64_t i = 0; i < alignment->count; i++)
            if (!add_pieces(links, &count, &capacity, tokens, alignment, i)) return false;
        links->start[pair + 1] = count;
    }
    links->pairs = corpus->count;
    return true;
}

enum qkv_status qkv_token_links_read(struct qkv_token_links *links, const char *path,
                                     enum qkv_links_from from, const struct qkv_corpus *corpus,
                                     struct qkv_word_spaces *spaces, struct qkv_error *error)
{
    struct qkv_alignments words = {0};
    *links = (struct qkv_token_links){0};
    if (!corpus->source.word || !corpus->target.word)
        return qkv_error_set(error, "%s: links need a corpus that keeps the words of its tokens", path);
    enum qkv_status status = qkv_corpus_links_read(&words, path, from, corpus, error);
    if (!status && !convert(links, corpus, &words)) {
        qkv_token_links_release(links);
        status = qkv_error_set(error, "%s: out of memory", path);
    }
    if (spaces) *spaces = words.spaces;
    qkv_alignments_release(&words);
    return status;
}

uint32_t qkv_token_links_checksum(const struct qkv_token_links *links)
{
    uLong sum = crc32_z(0, NULL, 0);
    for (int64_t pair = 0; pair < links->pairs; pair++)
        for (int64_t i = links->start[pair]; i < links->start[pair + 1]; i++) {
            const struct qkv_token_link *link = &links->links[i];
            const uint64_t numbers[] = {(uint64_t)pair, (uint64_t)link->source, (uint64_t)link->target};
            Bytef bytes[sizeof numbers];
            for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = (Bytef)(numbers[k / 8] >> k % 8 * 8);
            sum = crc32_z(sum, bytes, sizeof bytes);
        }
    return (uint32_t)sum;
}

void qkv_token_links_release(struct qkv_token_links *links)
{
    free(links->start);
    free(links->links);
    *links = (struct qkv_token_links){0};
}
