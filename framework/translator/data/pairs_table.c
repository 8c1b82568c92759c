/* Tables of sentence pairs: finding the columns of sentences, adding their pairs. */
#include "core/memory.h"
#include "core/text.h"
#include "data/pairs.h"
#include "data/unicode.h"

#include <zlib.h>

/* ---- adding a pair ---- */

void qkv_pairs_set_language(struct qkv_pairs *pairs, int side, const char *code)
{
    char *lang = pairs->lang[side];
    if (code && !*lang) snprintf(lang, sizeof pairs->lang[side], "%s", code);
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

/* Takes the titles of the columns. */
static void take_header(struct qkv_pairs *pairs, const struct pairs_field title[2])
{
    pairs->has_header = true;
    for (int side = 0; side < 2; side++)
        qkv_pairs_set_language(pairs, side, qkv_language_of_title(title[side].text, title[side].size));
}

enum qkv_status qkv_pairs_add(struct qkv_pairs *pairs, int64_t line, const struct pairs_field sentence[2],
                              struct qkv_error *error)
{
    if (!pairs->count && !pairs->has_header &&
        qkv_is_title_pair(sentence[0].text, sentence[0].size, sentence[1].text, sentence[1].size)) {
        take_header(pairs, sentence);
        return QKV_OK;
    }
    if (!sentence[0].size || !sentence[1].size) {
        qkv_pairs_leave_out(sentence[0].size || sentence[1].size ? &pairs->empty : &pairs->blank, line);
        return QKV_OK;
    }
    if (!add_sentence(pairs, 0, sentence[0]) || !add_sentence(pairs, 1, sentence[1]))
        return qkv_no_memory(error);
    pairs->count++;
    return QKV_OK;
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
    struct column column[QKV_PAIRS_COLUMNS];
    /* Hash of each field of the line before */
    uint32_t before[QKV_PAIRS_COLUMNS];
};

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
    for (int c = 0; c < count; c++) {
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

/* Finds the first two columns of sentences among `max`, numbered from 1; labels such as "noun-12" or "easy" are sentences only
 * where fewer than two other columns are. Returns how many it has found: 0, 1 or 2. */
static int find_columns(const struct columns *columns, int max, int found[2])
{
    int count = 0;
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

/* ---- tables ---- */

struct table {
    struct pairs_rows rows;
    struct columns columns;
};

/* Whether a row has no text. */
static bool is_blank(const struct pairs_rows *rows, const struct pairs_row *row)
{
    return row->count <= 1 && !(row->count && rows->cell[row->first].size);
}

/* Reports why two columns of sentences cannot be found in a table. */
static enum qkv_status too_few_columns(const struct table *table, const struct qkv_pairs *pairs, int count,
                                       struct qkv_error *error)
{
    static const char *const separators[] = {"|||", ";", ","};
    const char *path = pairs->path[0];
    if (pairs->columns > 1)
        return qkv_error_set(error,
                             "%s: %s of its %d columns hold%s sentences (text in most lines, and not always "
                             "the same), but a pair needs two; name them with --columns, as in --columns 1,2",
                             path, count ? "only one" : "none", pairs->columns, count ? "s" : "");
    for (size_t s = 0; s < sizeof separators / sizeof *separators; s++) {
        int64_t lines = 0;
        for (int64_t i = 0; i < table->rows.cells; i++) lines += contains(table->rows.cell[i], separators[s]);
        if (lines * 10 >= pairs->read * 9)
            return qkv_error_set(
                error,
                s ? "%s: its lines have no tab, and '%s' makes a different number of columns in many of "
                    "them: a cell with '%s' in it needs quotation marks, as spreadsheets write them in CSV; "
                    "or export the table with tabs"
                  : "%s: its lines have no tab; if '%s' separates the two sentences, write a tab in its "
                    "place, or export the table with tabs",
                path, separators[s], separators[s]);
    }
    if (qkv_ends_in(path, ".yaml"))
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
    int titled[2] = {0, 0};
    bool is_title[QKV_PAIRS_COLUMNS] = {false};
    for (int c = 0; c < table->rows.row[0].count; c++) {
        struct pairs_field title = table->rows.cell[c];
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
    const int max = pairs->columns < QKV_PAIRS_COLUMNS ? pairs->columns : QKV_PAIRS_COLUMNS;
    if (!table->columns.lines && pairs->read > pairs->anki_lines)
        return qkv_error_set(error, "%s: has only blank lines", pairs->path[0]);
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) {
        if (column[0]) pairs->anki_column[k] = 0;
        if (pairs->anki_column[k]) table->columns.column[pairs->anki_column[k] - 1].is_excluded = true;
    }
    if (!column[0]) {
        int count = find_columns(&table->columns, max, pairs->column);
        if (count < 2) return too_few_columns(table, pairs, count, error);
        if (pairs->columns > 2) choose_by_titles(table, pairs, request->lang);
        return QKV_OK;
    }
    for (int side = 0; side < 2; side++) {
        if (column[side] < 1 || column[side] > max)
            return qkv_error_set(error, "%s: there is no column %lld; the lines have up to %d",
                                 pairs->path[0], (long long)column[side], pairs->columns);
        pairs->column[side] = (int)column[side];
    }
    return QKV_OK;
}

/* Adds the pairs of all rows. */
static enum qkv_status take_pairs(const struct pairs_rows *rows, struct qkv_pairs *pairs,
                                  struct qkv_error *error)
{
    for (int64_t i = 0; i < rows->count; i++) {
        const struct pairs_row *row = &rows->row[i];
        if (is_blank(rows, row)) {
            qkv_pairs_leave_out(&pairs->blank, row->line);
            continue;
        }
        if (row->count < pairs->column[0] || row->count < pairs->column[1]) {
            qkv_pairs_leave_out(&pairs->incomplete, row->line);
            continue;
        }
        const struct pairs_field pair[] = {rows->cell[row->first + pairs->column[0] - 1],
                                           rows->cell[row->first + pairs->column[1] - 1]};
        int64_t before = pairs->count;
        if (rows->names && !i)
            take_header(pairs, pair);
        else if (qkv_pairs_add(pairs, row->line, pair, error))
            return QKV_INVALID;
        bool is_joined = memchr(pair[0].text, '\n', pair[0].size) || memchr(pair[1].text, '\n', pair[1].size);
        if (is_joined && !pairs->joined_pair && pairs->count > before) pairs->joined_pair = pairs->count;
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
    if (code[0] && !code[1] && pairs->columns == 3 &&
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
    enum qkv_status status = pairs->path[0] && pairs->path[1] ? QKV_OK : qkv_no_memory(error);
    if (!status) status = qkv_pairs_read_rows(&table.rows, pairs, &lines, error);
    qkv_lines_close(&lines);
    if (!status) {
        for (int64_t i = 0; i < table.rows.count; i++) {
            const struct pairs_row *row = &table.rows.row[i];
            if (!is_blank(&table.rows, row))
                count_columns(&table.columns, &table.rows.cell[row->first], row->count);
        }
        pairs->columns = table.rows.columns;
        status = choose_columns(&table, pairs, request, error);
    }
    if (!status) status = take_pairs(&table.rows, pairs, error);
    if (!status) name_languages(&table, pairs);
    qkv_pairs_rows_release(&table.rows);
    return status;
}
