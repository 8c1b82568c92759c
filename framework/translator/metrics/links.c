/* Reads gold links: Pharaoh's format, three columns, or .wa (qkv/alignment.h). */
#include "metrics/links.h"

#include "core/grow.h"
#include "data/unicode.h"
#include "qkv/lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SENTENCES = 1 << 20 }; /* of a .wa file, if the number of sentence pairs is not known */

enum links_format { UNKNOWN, PHARAOH, THREE_COLUMNS, WA };

/* The state of reading a file. */
struct reading {
    struct qkv_lines lines;
    enum links_format format; /* UNKNOWN: all lines so far were empty */
    struct file_links links;
    int64_t sentences;                   /* the highest number of a sentence pair so far */
    const struct qkv_word_counts *words; /* [pairs] of the text; NULL: not known */
    int64_t pairs;                       /* of the text; -1: not known */
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

static bool add_link(struct reading *reading, int64_t sentence, struct qkv_alignment_link link)
{
    struct file_links *links = &reading->links;
    if (!QKV_RESERVE(links->links, links->capacity, links->count + 1)) {
        links->count = 0;
        return false;
    }
    link.line = reading->lines.number;
    links->links[links->count++] = (struct file_link){.sentence = sentence, .link = link};
    return true;
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
        if (!add_link(reading, sentence, link)) return no_memory(reading);
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
    int64_t here[] = {qkv_utf8_count_words(source, target - 1), qkv_utf8_count_words(target, third - 1)};
    int64_t wanted[] = {reading->words[pair].source, reading->words[pair].target};
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

static enum qkv_status refuse_wa(const struct reading *reading)
{
    return qkv_error_set(
        reading->error,
        "%s:%lld: is not a line of a .wa file: number of a sentence pair, source word, target "
        "word, and S (sure) or P (possible), as in 1 1 3 S",
        reading->lines.path, (long long)reading->lines.number);
}

/* Reads a number and the space after it; false if the field is not a number. */
static bool read_wa_number(const char **text, int64_t *number)
{
    const char *end = read_number(*text, number);
    if (!end || end != end_of_field(end)) return false;
    *text = skip_space(end);
    return true;
}

/* Reads the optional end of a line, after the words: S or P, and a number. */
static bool read_wa_end(const char *text, bool *sure)
{
    const char *end = end_of_field(text);
    *sure = true;
    if (end == text + 1 && strchr("SPsp", *text)) {
        *sure = *text == 'S' || *text == 's';
        text = skip_space(end);
        end = end_of_field(text);
    }
    return strspn(text, "0123456789.eE+-") == (size_t)(end - text) && !*skip_space(end);
}

/* Reads the three numbers of a line. Returns what is behind them; NULL: it has no three numbers. */
static const char *read_wa_numbers(const char *line, int64_t *sentence, struct qkv_alignment_link *link)
{
    const char *text = skip_space(line);
    if (!read_wa_number(&text, sentence)) return NULL;
    link->column = text - line + 1;
    return read_wa_number(&text, &link->source) && read_wa_number(&text, &link->target) ? text : NULL;
}

static bool read_wa(const char *line, int64_t *sentence, struct qkv_alignment_link *link)
{
    const char *end = read_wa_numbers(line, sentence, link);
    return end && read_wa_end(end, &link->sure);
}

static enum qkv_status read_wa_line(struct reading *reading)
{
    struct qkv_alignment_link link;
    int64_t sentence;
    const char *path = reading->lines.path;
    long long line = reading->lines.number;
    if (!*skip_space(reading->lines.line)) return QKV_OK;
    if (!read_wa(reading->lines.line, &sentence, &link)) return refuse_wa(reading);
    if (sentence < 1 || (reading->pairs < 0 && sentence > MAX_SENTENCES))
        return qkv_error_set(reading->error, "%s:%lld: sentence pairs have the numbers 1, 2, ..., not %lld",
                             path, line, (long long)sentence);
    if (reading->pairs >= 0 && sentence > reading->pairs)
        return qkv_error_set(
            reading->error, "%s:%lld: a link of sentence pair %lld, but the corpus has %lld pair%s", path,
            line, (long long)sentence, (long long)reading->pairs, reading->pairs == 1 ? "" : "s");
    if (sentence > reading->sentences) reading->sentences = sentence;
    return add_link(reading, sentence - 1, link) ? QKV_OK : no_memory(reading);
}

/* ---- lines ---- */

static enum links_format format_of(const char *line)
{
    struct qkv_alignment_link link;
    int64_t sentence;
    if (!*skip_space(line)) return UNKNOWN;
    if (read_wa(line, &sentence, &link)) return WA;
    const char *column = third_column(line);
    if (column && !strchr(column, '\t')) return THREE_COLUMNS;
    /* A line of .wa with a wrong end, which read_wa_line reports. */
    return read_wa_numbers(line, &sentence, &link) ? WA : PHARAOH;
}

static enum qkv_status read_line(struct reading *reading)
{
    if (reading->format == UNKNOWN) {
        reading->format = format_of(reading->lines.line);
        if (reading->format == WA) reading->sentences = 0; /* previous empty lines were not sentence pairs */
        reading->links.null_words = reading->format == WA;
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

/* How many pairs have an entry; the links are sorted by pair. */
static int64_t count_named(const struct file_links *links)
{
    int64_t named = 0;
    for (int64_t i = 0; i < links->count; i++)
        named += i == 0 || links->links[i].sentence != links->links[i - 1].sentence;
    return named;
}

/* Sorts the links and stores them in `alignments`: each once, with words from 0. */
static bool store(struct reading *reading, int from, struct qkv_alignments *alignments)
{
    struct file_links *links = &reading->links;
    struct qkv_arena *arena = &alignments->arena;
    const char *file = qkv_arena_string(arena, reading->lines.path);
    struct qkv_alignment *sentences =
        qkv_arena_allocate(arena, (size_t)reading->sentences * sizeof *sentences);
    struct qkv_alignment_link *stored = qkv_arena_allocate(arena, (size_t)links->count * sizeof *stored);
    if (!file || !sentences || !stored) return false;
    for (int64_t i = 0; i < reading->sentences; i++)
        sentences[i] = (struct qkv_alignment){.links = stored, .file = file, .from = from};
    if (links->count > 1) qsort(links->links, (size_t)links->count, sizeof *links->links, by_words);
    for (int64_t i = 0; i < links->count; i++) {
        const struct file_link *link = &links->links[i];
        struct qkv_alignment *sentence = &sentences[link->sentence];
        struct qkv_alignment_link moved = link->link, *last = sentence->count ? stored - 1 : NULL;
        moved.source -= from;
        moved.target -= from;
        if (moved.source < 0 || moved.target < 0) continue; /* a link to no word (null_words) */
        if (last && last->source == moved.source && last->target == moved.target) {
            last->sure = last->sure || moved.sure;
            continue;
        }
        if (!sentence->count++) sentence->links = stored;
        *stored++ = moved;
    }
    alignments->sentences = sentences;
    alignments->count = reading->sentences;
    alignments->missing = reading->sentences - count_named(links);
    return true;
}

static enum qkv_status read_file(struct reading *reading, enum qkv_links_from wanted,
                                 const struct qkv_word_counts *words, struct qkv_alignments *alignments)
{
    int from;
    reading->links.file = reading->lines.path;
    if (read_lines(reading) ||
        qkv_links_find_first_word(&reading->links, wanted, words, reading->pairs, &from, reading->error))
        return QKV_INVALID;
    if (!store(reading, from, alignments)) return no_memory(reading);
    for (int64_t i = 0; words && i < alignments->count; i++)
        if (qkv_alignment_check(&alignments->sentences[i], words[i], reading->error)) return QKV_INVALID;
    return QKV_OK;
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
    enum qkv_status status = read_file(&reading, from, words, alignments);
    qkv_lines_close(&reading.lines);
    free(reading.links.links);
    if (status) qkv_alignments_release(alignments);
    return status;
}

void qkv_alignments_release(struct qkv_alignments *alignments)
{
    qkv_arena_release(&alignments->arena);
    *alignments = (struct qkv_alignments){0};
}
