/* Tables of sentence pairs: quoted cells, the header of Anki, finding the columns of sentences, adding their pairs. */
#include "core/memory.h"
#include "data/lines.h"
#include "data/pairs.h"
#include "data/unicode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

/* ---- adding a pair ---- */

static enum qkv_status no_memory(const char *path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: out of memory", path);
}

static void leave_out(struct qkv_skipped_lines *lines, int64_t number)
{
    if (!lines->count++) lines->first = number;
}

void qkv_pairs_set_language(struct qkv_pairs *pairs, int side, const char *code)
{
    char *lang = pairs->lang[side];
    if (code && !*lang) snprintf(lang, sizeof pairs->lang[side], "%s", code);
}

struct pairs_field qkv_pairs_trim(struct pairs_field field)
{
    const char *end = field.text + field.size, *first = NULL, *last = field.text;
    for (const char *at = field.text, *next; at < end; at = next) {
        int32_t point;
        next = at + qkv_point(at, &point);
        if (qkv_is_space(point)) continue;
        if (!first) first = at;
        last = next;
    }
    if (!first) return (struct pairs_field){field.text, 0};
    return (struct pairs_field){first, (size_t)(last - first)};
}

/* Appends a sentence and a NUL; a tab and a line break become a space. */
static bool add_sentence(struct qkv_pairs *pairs, int side, struct pairs_field sentence)
{
    int64_t begin = pairs->text_size, end = begin + (int64_t)sentence.size + 1;
    if (!QKV_RESERVE(pairs->start[side], pairs->capacity[side], pairs->count + 1)) return false;
    if (!QKV_RESERVE(pairs->text, pairs->text_capacity, end)) return false;
    pairs->start[side][pairs->count] = begin;
    for (size_t i = 0; i < sentence.size; i++) {
        char byte = sentence.text[i];
        pairs->text[begin + (int64_t)i] = byte == '\t' || byte == '\n' ? ' ' : byte;
    }
    pairs->text[end - 1] = '\0';
    pairs->text_size = end;
    return true;
}

enum qkv_status qkv_pairs_add(struct qkv_pairs *pairs, int64_t line, const struct pairs_field sentence[2],
                              struct qkv_error *error)
{
    if (!pairs->count && !pairs->has_header &&
        qkv_is_title_pair(sentence[0].text, sentence[0].size, sentence[1].text, sentence[1].size)) {
        pairs->has_header = true;
        for (int side = 0; side < 2; side++)
            qkv_pairs_set_language(pairs, side,
                                   qkv_language_of_title(sentence[side].text, sentence[side].size));
        return QKV_OK;
    }
    if (!sentence[0].size || !sentence[1].size) {
        leave_out(sentence[0].size || sentence[1].size ? &pairs->empty : &pairs->blank, line);
        return QKV_OK;
    }
    if (!add_sentence(pairs, 0, sentence[0]) || !add_sentence(pairs, 1, sentence[1]))
        return no_memory(pairs->path[0], error);
    pairs->count++;
    return QKV_OK;
}

/* ---- quotation marks that spreadsheets and Anki put around cells that hold a comma or a quotation mark, as in CSV (RFC
 * 4180): He said "no". becomes "He said ""no"".". Sentences may have quotation marks of their own, so all fields of a table
 * are counted before it is decided whether they are quoted. ---- */

/* The number of fields of a table that ... All zero at first. */
struct quotes {
    int64_t quoted;       /* ... begin and end with a quotation mark, and double those within */
    int64_t doubled;      /* ... are quoted and have quotation marks within */
    int64_t other;        /* ... have a quotation mark, but are not quoted */
    int64_t quoted_comma; /* ... are quoted and have a comma */
    int64_t plain_comma;  /* ... have a comma and no quotation mark */
    int64_t joined;       /* ... have line breaks */
};

/* At most one field in this many may contradict the rest. */
enum { EXCEPTIONS = 20 };

/* Whether a field begins and ends with a quotation mark, and has only doubled ones between. *doubled: it has some. */
static bool is_quoted(const char *text, size_t size, bool *doubled)
{
    *doubled = false;
    if (size < 2 || text[0] != '"' || text[size - 1] != '"') return false;
    for (size_t i = 1; i < size - 1; i++) {
        if (text[i] != '"') continue;
        if (i + 1 == size - 1 || text[i + 1] != '"') return false;
        *doubled = true;
        i++;
    }
    return true;
}

/* Counts a field. */
static void count_quotes(struct quotes *quotes, struct pairs_field field)
{
    quotes->joined += memchr(field.text, '\n', field.size) != NULL;
    bool doubled, has_comma = memchr(field.text, ',', field.size) != NULL;
    if (is_quoted(field.text, field.size, &doubled)) {
        quotes->quoted++;
        quotes->doubled += doubled;
        quotes->quoted_comma += has_comma;
    } else if (memchr(field.text, '"', field.size)) {
        quotes->other++;
    } else {
        quotes->plain_comma += has_comma;
    }
}

/* Whether a program has quoted the cells of the table: hardly any quotation mark contradicts that, and there are doubled marks
 * or line breaks within fields, or commas occur almost only in quoted fields. */
static bool are_quoted(const struct quotes *quotes)
{
    bool by_comma = quotes->quoted_comma > 0 && quotes->plain_comma * EXCEPTIONS <= quotes->quoted_comma;
    return quotes->other * EXCEPTIONS <= quotes->quoted &&
           (quotes->doubled > 0 || quotes->joined > 0 || by_comma);
}

/* Undoes the quoting of a field in place, if it is quoted. Returns its new size. */
static size_t unquote(char *text, size_t size)
{
    bool doubled;
    if (!is_quoted(text, size, &doubled)) return size;
    size_t kept = 0;
    for (size_t i = 1; i < size - 1; i++) {
        text[kept++] = text[i];
        i += text[i] == '"';
    }
    return kept;
}

/* What the end of a line says about a quoted cell. */
enum cell { CELL_OPEN, CELL_CLOSED, CELL_NOT_QUOTED };

/* Reads a line from *at on, which is within a quoted cell. *at: moved behind the closing quotation mark, if there is one. */
static enum cell read_cell(const char **at)
{
    for (const char *byte = *at; *byte != '\t'; byte++) {
        if (!*byte) return CELL_OPEN;
        if (*byte != '"') continue;
        if (byte[1] == '"') {
            byte++;
            continue;
        }
        *at = byte + 1;
        return !byte[1] || byte[1] == '\t' ? CELL_CLOSED : CELL_NOT_QUOTED;
    }
    return CELL_NOT_QUOTED;
}

/* Whether the last cell of a line is quoted and not closed. */
static bool has_open_cell(const char *line)
{
    const char *tab = strrchr(line, '\t'), *cell = tab ? tab + 1 : line;
    if (*cell++ != '"') return false;
    return read_cell(&cell) == CELL_OPEN;
}

/* Joins the lines of quoted cells that have line breaks: `text` is a sequence of lines that end in a NUL; an LF replaces the
 * NUL between the lines of such a cell. A quotation mark at the beginning of a sentence is taken for that of a cell only if the
 * following lines close it, without a tab before. Returns the number of such cells. */
static int64_t join_cells(char *text, int64_t size)
{
    char *end = text + size;
    int64_t count = 0;
    const char *rest = text; /* of the line: what is behind a cell that has been joined */
    for (char *line = text; line < end;) {
        char *last = line, *next = line + strlen(line) + 1;
        const char *behind = rest;
        enum cell cell = has_open_cell(rest) ? CELL_OPEN : CELL_NOT_QUOTED;
        for (char *at = next; cell == CELL_OPEN && at < end; at += strlen(at) + 1) {
            last = at;
            behind = at;
            cell = read_cell(&behind);
        }
        if (cell != CELL_CLOSED) {
            rest = line = next;
            continue;
        }
        for (char *byte = line; byte < last; byte++)
            if (!*byte) *byte = '\n';
        count++;
        line = last;
        rest = behind;
    }
    return count;
}

/* ---- the columns that hold the sentences ---- */

enum { HASHES = 4096 };

/* Statistics of a column: the number of lines in which its field ... */
struct column {
    bool is_excluded;    /* the column holds no sentences, whatever its text is */
    int64_t filled;      /* ... has text */
    int64_t letterless;  /* ... has text without a letter: a number, a date */
    int64_t attribution; /* ... says who wrote the sentence */
    int64_t repeated;    /* ... repeats the text of the line before */
    int64_t one_word;    /* ... is one word of printable ASCII */
    int64_t digits;      /* ... has text with a digit */
    /* A bit for each hash of a text, to estimate how many different texts there are */
    uint8_t seen[HASHES / 8];
};

struct columns {
    int64_t lines;
    int count; /* maximal number of fields in a line */
    struct column column[QKV_PAIRS_COLUMNS];
    /* Hash of each field of the line before */
    uint32_t before[QKV_PAIRS_COLUMNS];
};

/* Splits a line at its tabs and trims white space. Returns the number of fields, of which the first QKV_PAIRS_COLUMNS are
 * stored. */
static int split_line(const char *line, size_t size, struct pairs_field field[QKV_PAIRS_COLUMNS])
{
    const char *end = line + size;
    for (int count = 0;; count++) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        size_t length = (size_t)((tab ? tab : end) - line);
        if (count < QKV_PAIRS_COLUMNS) field[count] = qkv_pairs_trim((struct pairs_field){line, length});
        if (!tab) return count + 1;
        line = tab + 1;
    }
}

/* Whether a field is only the name of a sound or image, as Anki exports them, or an address. */
static bool is_reference(struct pairs_field field)
{
    const char *text = field.text;
    char last = field.size ? text[field.size - 1] : '\0';
    return (!strncmp(text, "[sound:", 7) && last == ']') || (!strncmp(text, "<img ", 5) && last == '>') ||
           ((!strncmp(text, "http://", 7) || !strncmp(text, "https://", 8)) &&
            !memchr(text, ' ', field.size));
}

static bool contains(struct pairs_field field, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= field.size; i++)
        if (!memcmp(field.text + i, part, size)) return true;
    return false;
}

/* Counts a field that is not empty. */
static void count_field(struct column *column, struct pairs_field field, uint32_t hash)
{
    bool has_letter = false, has_digit = false, is_word = true, is_name = is_reference(field);
    for (const char *at = field.text, *end = at + field.size; at < end;) {
        int32_t point;
        at += qkv_point(at, &point);
        has_letter = has_letter || qkv_is_letter(point);
        has_digit = has_digit || (point >= '0' && point <= '9');
        is_word = is_word && point > ' ' && point <= '~';
    }
    column->filled++;
    column->letterless += is_name || !has_letter;
    column->one_word += is_word;
    column->digits += has_digit;
    column->seen[hash % HASHES / 8] |= (uint8_t)(1 << hash % 8);
    column->attribution += contains(field, "CC-BY") || contains(field, "Attribution:");
}

/* Counts a line. */
static void count_columns(struct columns *columns, const struct pairs_field *field, int count)
{
    if (count > columns->count) columns->count = count;
    for (int c = 0; c < count && c < QKV_PAIRS_COLUMNS; c++) {
        struct column *column = &columns->column[c];
        uint32_t hash = (uint32_t)crc32_z(0, (const Bytef *)field[c].text, field[c].size);
        column->repeated += columns->lines && hash == columns->before[c];
        columns->before[c] = hash;
        if (field[c].size) count_field(column, field[c], hash);
    }
    columns->lines++;
}

static bool has_letters(const struct column *column)
{
    return !column->is_excluded && column->letterless * 2 < column->filled;
}

/* Whether a column may hold sentences: it has text in most lines, not always the same text, and no attributions. */
static bool holds_text(const struct columns *columns, const struct column *column)
{
    enum { FEW = 10 /* in fewer lines than this, repeated text proves nothing */ };
    bool is_constant = columns->lines >= FEW && column->repeated * 10 > columns->lines * 9 - 10;
    return !column->is_excluded && column->filled * 2 > columns->lines &&
           column->attribution * 2 < column->filled && !is_constant;
}

/* Whether a column labels the pairs: nearly all its texts are one word, most with a digit, or they are few different ones. */
static bool holds_labels(const struct columns *columns, const struct column *column)
{
    enum { FEW = 40 /* of fewer lines than this, few texts prove nothing */ };
    int64_t different = 0;
    for (int i = 0; i < HASHES; i++) different += column->seen[i / 8] >> i % 8 & 1;
    int64_t lines = column->filled < HASHES ? column->filled : HASHES;
    return columns->lines >= FEW && column->one_word * 20 >= column->filled * 19 &&
           (column->digits * 10 >= column->filled * 9 || different * 8 <= lines);
}

/* Finds the first two columns of sentences, numbered from 1; labels such as "noun-12" or "easy" are sentences only where
 * fewer than two other columns are. Returns how many it has found: 0, 1 or 2. */
static int find_columns(const struct columns *columns, int found[2])
{
    int max = columns->count < QKV_PAIRS_COLUMNS ? columns->count : QKV_PAIRS_COLUMNS, count = 0;
    bool any_letters = false; /* false: the sentences are sequences of numbers */
    for (int c = 0; c < max; c++) any_letters = any_letters || has_letters(&columns->column[c]);
    int texts[QKV_PAIRS_COLUMNS], labels = 0;
    for (int c = 0; c < max; c++) {
        const struct column *column = &columns->column[c];
        if (!holds_text(columns, column) || has_letters(column) != any_letters) continue;
        texts[count++] = c;
        labels += holds_labels(columns, column);
    }
    bool skip_labels = any_letters && count - labels >= 2;
    int chosen = 0;
    for (int i = 0; i < count && chosen < 2; i++)
        if (!skip_labels || !holds_labels(columns, &columns->column[texts[i]]))
            found[chosen++] = texts[i] + 1;
    return chosen;
}

/* ---- the header of a text that the program Anki exports: lines `#key:value` before the notes, such as `#separator:tab`,
 * `#html:true` and `#guid column:1` ---- */

static bool is_anki_line(const char *line)
{
    return *line == '#' && line[1] >= 'a' && line[1] <= 'z' && strchr(line, ':');
}

/* The value of a header line with this key; NULL if it has another key. */
static const char *value_of(const char *line, const char *key)
{
    size_t size = strlen(key);
    return strncmp(line + 1, key, size) || line[1 + size] != ':' ? NULL : line + size + 2;
}

/* Reads a header line. If it names a column, stores its number. Fails when it names another separator than tabs. */
static enum qkv_status read_anki_line(const struct qkv_lines *lines, int column[QKV_ANKI_COLUMNS],
                                      struct qkv_error *error)
{
    static const char *const keys[QKV_ANKI_COLUMNS] = {[QKV_ANKI_GUID] = "guid column",
                                                       [QKV_ANKI_NOTETYPE] = "notetype column",
                                                       [QKV_ANKI_DECK] = "deck column",
                                                       [QKV_ANKI_TAGS] = "tags column"};
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) {
        const char *number = value_of(lines->line, keys[k]);
        long value = number ? strtol(number, NULL, 10) : 0;
        if (value >= 1 && value <= QKV_PAIRS_COLUMNS) column[k] = (int)value;
    }
    const char *separator = value_of(lines->line, "separator");
    if (!separator || !strcasecmp(separator, "tab")) return QKV_OK;
    return qkv_error_set(error,
                         "%s:%lld: the columns are separated by %s; export the notes with tabs between them",
                         lines->path, (long long)lines->number, separator);
}

/* ---- tables ---- */

/* The lines of a table below the header of Anki: one text, in which each line ends in a NUL. */
struct table {
    char *text;
    int64_t capacity, size, returns; /* returns: CR within lines */
    struct columns columns;
    struct quotes quotes;
};

static enum qkv_status read_lines(struct table *table, struct qkv_pairs *pairs, struct qkv_lines *lines,
                                  struct qkv_error *error)
{
    enum qkv_status status;
    bool found;
    /* So that the text is never NULL, even if the header of Anki is all there is. */
    if (!QKV_RESERVE(table->text, table->capacity, 1)) return no_memory(lines->path, error);
    while (!(status = qkv_lines_next(lines, &found, error)) && found) {
        pairs->read++;
        for (const char *at = lines->line; (at = strchr(at, '\r')); at++) table->returns++;
        if (pairs->anki_lines == lines->number - 1 && is_anki_line(lines->line)) {
            if (read_anki_line(lines, pairs->anki_column, error)) return QKV_INVALID;
            pairs->anki_lines++;
            continue;
        }
        int64_t end = table->size + (int64_t)lines->size + 1;
        if (!QKV_RESERVE(table->text, table->capacity, end)) return no_memory(lines->path, error);
        memcpy(table->text + table->size, lines->line, lines->size + 1);
        table->size = end;
    }
    if (!status && table->returns > pairs->read)
        return qkv_error_set(
            error,
            "%s: its lines end in CR alone, as on old Macs; convert them, as in: tr '\\r' '\\n' <OLD >NEW",
            lines->path);
    return status ? status : qkv_lines_check_read(lines, error);
}

/* Collects the statistics of columns and quotation marks. */
static void count_fields(struct table *table)
{
    struct pairs_field field[QKV_PAIRS_COLUMNS];
    for (const char *at = table->text, *end = at + table->size; at < end;) {
        size_t size = strlen(at);
        int count = split_line(at, size, field);
        at += size + 1;
        if (count > 1 || field[0].size) count_columns(&table->columns, field, count);
        for (int c = 0; c < count && c < QKV_PAIRS_COLUMNS; c++) count_quotes(&table->quotes, field[c]);
    }
}

/* Reports why two columns of sentences cannot be found in a table. */
static enum qkv_status too_few_columns(const struct table *table, const struct qkv_pairs *pairs, int count,
                                       struct qkv_error *error)
{
    static const char *const separators[] = {"|||", ";", ","};
    const char *path = pairs->path[0];
    if (table->columns.count > 1)
        return qkv_error_set(error,
                             "%s: %s of its %d columns hold%s sentences (text in most lines, and not always "
                             "the same), but a pair needs two; name them with "
                             "--columns, as in --columns 1,2",
                             path, count ? "only one" : "none", table->columns.count, count ? "s" : "");
    for (size_t s = 0; s < sizeof separators / sizeof *separators; s++) {
        int64_t lines = 0;
        for (const char *at = table->text; at < table->text + table->size; at += strlen(at) + 1)
            lines += strstr(at, separators[s]) != NULL;
        if (lines * 10 >= pairs->read * 9)
            return qkv_error_set(
                error,
                "%s: its lines have no tab; if '%s' separates the two sentences, write a tab in its "
                "place, or export the table with tabs",
                path, separators[s]);
    }
    size_t size = strlen(path);
    if (size > 5 && !strcmp(path + size - 5, ".yaml"))
        return qkv_error_set(error, "%s: has no sentence pairs; if it is a config, train it: qkv train %s",
                             path, path);
    return qkv_error_set(
        error,
        "%s: its lines have no tab, but a line needs a sentence, a tab and its translation; for "
        "two files with a sentence in each line, name both",
        path);
}

/* Chooses the columns whose titles name the languages that are asked for. If only one is named, the other column stays the
 * first of those that hold sentences. */
static void choose_by_titles(const struct table *table, struct qkv_pairs *pairs, const char *const lang[2])
{
    struct pairs_field field[QKV_PAIRS_COLUMNS];
    int count = split_line(table->text, strlen(table->text), field), titled[2] = {0, 0};
    bool is_title[QKV_PAIRS_COLUMNS] = {false};
    for (int c = 0; c < count && c < QKV_PAIRS_COLUMNS; c++) {
        struct pairs_field title = qkv_pairs_trim(field[c]);
        if (title.size > 1 && *title.text == '"' && title.text[title.size - 1] == '"')
            title = (struct pairs_field){title.text + 1, title.size - 2};
        const char *code = qkv_language_of_title(title.text, title.size);
        is_title[c] = qkv_is_column_title(title.text, title.size);
        for (int side = 0; side < 2; side++)
            if (code && lang[side] && !titled[side] && qkv_is_same_language(code, lang[side]))
                titled[side] = c + 1;
    }
    if (!titled[0] && !titled[1]) return;
    for (int side = 0; side < 2; side++)
        if (!titled[side]) titled[side] = pairs->column[pairs->column[0] == titled[!side]];
    if (titled[0] == titled[1] || !is_title[titled[0] - 1] || !is_title[titled[1] - 1]) return;
    for (int side = 0; side < 2; side++) pairs->column[side] = titled[side];
}

static enum qkv_status choose_columns(struct table *table, struct qkv_pairs *pairs,
                                      const struct qkv_pairs_request *request, struct qkv_error *error)
{
    const int64_t *column = request->column;
    pairs->columns = table->columns.count;
    if (!table->columns.lines && pairs->read > pairs->anki_lines)
        return qkv_error_set(error, "%s: has only blank lines", pairs->path[0]);
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) {
        if (column[0]) pairs->anki_column[k] = 0;
        if (pairs->anki_column[k]) table->columns.column[pairs->anki_column[k] - 1].is_excluded = true;
    }
    if (!column[0]) {
        int count = find_columns(&table->columns, pairs->column);
        if (count < 2) return too_few_columns(table, pairs, count, error);
        if (pairs->columns > 2) choose_by_titles(table, pairs, request->lang);
        return QKV_OK;
    }
    for (int side = 0; side < 2; side++) {
        int max = pairs->columns < QKV_PAIRS_COLUMNS ? pairs->columns : QKV_PAIRS_COLUMNS;
        if (column[side] < 1 || column[side] > max)
            return qkv_error_set(error, "%s: there is no column %lld; the lines have up to %d",
                                 pairs->path[0], (long long)column[side], pairs->columns);
        pairs->column[side] = (int)column[side];
    }
    return QKV_OK;
}

/* The sentence in a field, without quoting and outer white space. A field with line breaks is always quoted. May change the
 * text of the table. */
static struct pairs_field sentence_of(const struct table *table, const struct qkv_pairs *pairs,
                                      struct pairs_field field)
{
    if (pairs->is_quoted || memchr(field.text, '\n', field.size))
        field.size = unquote(table->text + (field.text - table->text), field.size);
    return qkv_pairs_trim(field);
}

/* Adds the pairs of all lines. */
static enum qkv_status take_pairs(const struct table *table, struct qkv_pairs *pairs, struct qkv_error *error)
{
    struct pairs_field field[QKV_PAIRS_COLUMNS];
    int64_t next = pairs->anki_lines + 1;
    pairs->is_quoted = are_quoted(&table->quotes);
    for (const char *at = table->text, *end = at + table->size; at < end;) {
        size_t size = strlen(at);
        int count = split_line(at, size, field);
        int64_t number = next++;
        for (const char *byte = at; (byte = strchr(byte, '\n')); byte++) next++;
        at += size + 1;
        if (count == 1 && !field[0].size) {
            leave_out(&pairs->blank, number);
        } else if (count < pairs->column[0] || count < pairs->column[1]) {
            leave_out(&pairs->incomplete, number);
        } else {
            struct pairs_field pair[2];
            for (int side = 0; side < 2; side++)
                pair[side] = sentence_of(table, pairs, field[pairs->column[side] - 1]);
            if (qkv_pairs_add(pairs, number, pair, error)) return QKV_INVALID;
        }
    }
    return QKV_OK;
}

/* Sets the languages that the name of the file mentions, in the order of the columns. Files of manythings.org are named only
 * after the language that is paired with English; their first column is English. */
static void name_languages(const struct table *table, struct qkv_pairs *pairs)
{
    const char *code[2];
    qkv_languages_of_path(pairs->path[0], code);
    pairs->has_named_order = code[1] && !*pairs->lang[0] && !*pairs->lang[1];
    if (code[0] && !code[1] && table->columns.count == 3 &&
        table->columns.column[2].attribution * 2 > table->columns.lines) {
        code[1] = code[0];
        code[0] = "en";
    }
    bool is_exchanged = pairs->column[0] > pairs->column[1];
    for (int side = 0; side < 2 && code[1]; side++)
        qkv_pairs_set_language(pairs, side, code[is_exchanged ? !side : side]);
}

enum qkv_status qkv_pairs_read_table(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                     struct qkv_error *error)
{
    struct qkv_lines lines;
    struct table table = {0};
    if (qkv_lines_open(&lines, request->path, error)) return QKV_INVALID;
    pairs->path[0] = strdup(lines.path);
    pairs->path[1] = strdup(lines.path);
    enum qkv_status status = pairs->path[0] && pairs->path[1] ? QKV_OK : no_memory(lines.path, error);
    if (!status) status = read_lines(&table, pairs, &lines, error);
    qkv_lines_close(&lines);
    if (!status) {
        pairs->joined = join_cells(table.text, table.size);
        count_fields(&table);
        status = choose_columns(&table, pairs, request, error);
    }
    if (!status) status = take_pairs(&table, pairs, error);
    if (!status) name_languages(&table, pairs);
    free(table.text);
    return status;
}
