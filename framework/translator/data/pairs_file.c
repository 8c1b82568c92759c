#include "qkv/pairs_file.h"

#include "core/grow.h"
#include "data/languages.h"
#include "data/pairs_anki.h"
#include "data/pairs_columns.h"
#include "data/pairs_paths.h"
#include "data/pairs_quotes.h"
#include "data/prepared.h"
#include "qkv/lines.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static enum qkv_status no_memory(const char *path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: out of memory", path);
}

static void leave_out(struct qkv_skipped_lines *lines, int64_t number)
{
    if (!lines->count++) lines->first = number;
}

static void set_language(char lang[16], const char *code)
{
    if (code && !*lang) snprintf(lang, sizeof((struct qkv_pairs){0}.lang[0]), "%s", code);
}

/* ---- adding a pair ---- */

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

/* Adds the pair of a line, unless the line is the header or a side is empty. False when there is no memory. */
static bool add_pair(struct qkv_pairs *pairs, int64_t line, const struct pairs_field sentence[2])
{
    if (!pairs->count && !pairs->has_header &&
        qkv_is_title_pair(sentence[0].text, sentence[0].size, sentence[1].text, sentence[1].size)) {
        pairs->has_header = true;
        for (int side = 0; side < 2; side++)
            set_language(pairs->lang[side], qkv_language_of_title(sentence[side].text, sentence[side].size));
        return true;
    }
    if (!sentence[0].size || !sentence[1].size) {
        leave_out(sentence[0].size || sentence[1].size ? &pairs->empty : &pairs->blank, line);
        return true;
    }
    if (!add_sentence(pairs, 0, sentence[0]) || !add_sentence(pairs, 1, sentence[1])) return false;
    pairs->count++;
    return true;
}

/* ---- tables ---- */

/* The lines of a table below the header of Anki: one text, in which each line ends in a NUL. */
struct table {
    char *text;
    int64_t capacity, size, returns; /* returns: CR within lines */
    struct pairs_columns columns;
    struct pairs_quotes quotes;
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
        if (pairs->anki_lines == lines->number - 1 && qkv_pairs_is_anki_line(lines->line)) {
            if (qkv_pairs_read_anki_line(lines, pairs->anki_column, error)) return QKV_INVALID;
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
        int count = qkv_pairs_fields(at, size, field);
        at += size + 1;
        if (count > 1 || field[0].size) qkv_pairs_columns_add(&table->columns, field, count);
        for (int c = 0; c < count && c < QKV_PAIRS_COLUMNS; c++)
            qkv_pairs_quotes_add(&table->quotes, field[c]);
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
    int count = qkv_pairs_fields(table->text, strlen(table->text), field), titled[2] = {0, 0};
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
        int count = qkv_pairs_columns_find(&table->columns, pairs->column);
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
        field.size = qkv_pairs_unquote(table->text + (field.text - table->text), field.size);
    return qkv_pairs_trim(field);
}

/* Adds the pairs of all lines. */
static enum qkv_status take_pairs(const struct table *table, struct qkv_pairs *pairs, struct qkv_error *error)
{
    struct pairs_field field[QKV_PAIRS_COLUMNS];
    int64_t next = pairs->anki_lines + 1;
    pairs->is_quoted = qkv_pairs_quotes_found(&table->quotes);
    for (const char *at = table->text, *end = at + table->size; at < end;) {
        size_t size = strlen(at);
        int count = qkv_pairs_fields(at, size, field);
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
            if (!add_pair(pairs, number, pair)) return no_memory(pairs->path[0], error);
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
        set_language(pairs->lang[side], code[is_exchanged ? !side : side]);
}

static enum qkv_status read_table(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
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
        pairs->joined = qkv_pairs_join_cells(table.text, table.size);
        count_fields(&table);
        status = choose_columns(&table, pairs, request, error);
    }
    if (!status) status = take_pairs(&table, pairs, error);
    if (!status) name_languages(&table, pairs);
    free(table.text);
    return status;
}

/* What a regular file is that must be unpacked or exported first, by its first bytes, and how; NULL: it is no such file. A pipe
 * is not checked, because bytes that are read from it would be lost. */
static const char *packed_form(const char *path)
{
    enum { BYTES = 4 };
    static const char *const forms[][2] = {
        {"PK\3\4",
         "is an archive: take the text out of it with unzip; or, if it is a deck (.apkg) or a spreadsheet "
         "(.xlsx, .ods), export it as text with tabs between the columns"},
        {"BZh", "is compressed with bzip2: unpack it with bunzip2"},
        {"\xFD\67zX", "is compressed with xz: unpack it with unxz"},
        {"\x28\xB5\x2F\xFD", "is compressed with zstd: unpack it with unzstd"},
    };
    char begin[BYTES] = "";
    struct stat status;
    bool is_regular = strcmp(path, "-") != 0 && !stat(path, &status) && S_ISREG(status.st_mode);
    FILE *file = is_regular ? fopen(path, "rb") : NULL;
    bool complete = file && fread(begin, 1, BYTES, file) == BYTES;
    if (file) fclose(file);
    for (size_t i = 0; complete && i < sizeof forms / sizeof *forms; i++)
        if (!memcmp(begin, forms[i][0], strlen(forms[i][0]))) return forms[i][1];
    return NULL;
}

static enum qkv_status read_table_file(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                       struct qkv_error *error)
{
    if (qkv_is_prepared(request->path)) return qkv_prepared_refuse(request->path, error);
    const char *packed = packed_form(request->path);
    if (packed) return qkv_error_set(error, "%s: %s", request->path, packed);
    return read_table(pairs, request, error);
}

/* ---- two files ---- */

static enum qkv_status different_lengths(struct qkv_lines lines[2], int longer, struct qkv_error *error)
{
    int64_t count = lines[!longer].number;
    bool found = true;
    while (found)
        if (qkv_lines_next(&lines[longer], &found, error)) return QKV_INVALID;
    return qkv_error_set(
        error,
        "%s has %lld lines, but %s has %lld: line n of one file must be the translation of line n "
        "of the other",
        lines[longer].path, (long long)lines[longer].number, lines[!longer].path, (long long)count);
}

/* Fails when most lines of both files have a tab: these are two tables of pairs, not two sides. */
static enum qkv_status check_tabs(const struct qkv_lines lines[2], int64_t count, const int64_t tabs[2],
                                  struct qkv_error *error)
{
    if (tabs[0] * 2 <= count || tabs[1] * 2 <= count) return QKV_OK;
    return qkv_error_set(error,
                         "%s and %s: both have columns (tabs), so each is a table of pairs and not one side; "
                         "join them: cat %s %s >all.txt",
                         lines[0].path, lines[1].path, lines[0].path, lines[1].path);
}

static enum qkv_status read_aligned(struct qkv_pairs *pairs, struct qkv_lines lines[2],
                                    struct qkv_error *error)
{
    for (int64_t tabs[2] = {0, 0};;) {
        bool found[2];
        struct pairs_field sentence[2];
        for (int side = 0; side < 2; side++) {
            if (qkv_lines_next(&lines[side], &found[side], error)) return QKV_INVALID;
            if (!found[side] && qkv_lines_check_read(&lines[side], error)) return QKV_INVALID;
            if (found[side])
                sentence[side] = qkv_pairs_trim((struct pairs_field){lines[side].line, lines[side].size});
        }
        if (!found[0] || !found[1]) {
            if (check_tabs(lines, pairs->read, tabs, error)) return QKV_INVALID;
            if (!found[0] && !found[1]) return QKV_OK;
            return different_lengths(lines, found[0] ? 0 : 1, error);
        }
        pairs->read++;
        for (int side = 0; side < 2; side++) tabs[side] += strchr(lines[side].line, '\t') != NULL;
        if (!add_pair(pairs, lines[0].number, sentence)) return no_memory(lines[0].path, error);
    }
}

static enum qkv_status read_two_files(struct qkv_pairs *pairs, struct qkv_error *error)
{
    struct qkv_lines lines[2] = {0};
    enum qkv_status status = QKV_OK;
    for (int side = 0; side < 2 && !status; side++)
        status = qkv_lines_open(&lines[side], pairs->path[side], error);
    if (!status) status = read_aligned(pairs, lines, error);
    for (int side = 0; side < 2; side++) {
        const char *code[2];
        qkv_languages_of_path(pairs->path[side], code);
        set_language(pairs->lang[side], code[1] ? code[1] : code[0]);
        qkv_lines_close(&lines[side]);
    }
    return status;
}

/* ---- which side is which ---- */

/* Whether the languages that are asked for are those of the opposite sides, according to the names of files or columns. */
static bool is_reversed(const struct qkv_pairs *pairs, const char *const lang[2])
{
    bool reversed = false;
    for (int side = 0; side < 2; side++) {
        if (!lang[side]) continue;
        if (qkv_is_same_language(lang[side], pairs->lang[side]) ||
            !qkv_is_same_language(lang[side], pairs->lang[!side]))
            return false;
        reversed = true;
    }
    return reversed;
}

static void swap(void *a, void *b, size_t size)
{
    char kept[sizeof((struct qkv_pairs){0}.lang[0])];
    memcpy(kept, a, size);
    memcpy(a, b, size);
    memcpy(b, kept, size);
}

static void swap_sides(struct qkv_pairs *pairs)
{
    swap(&pairs->column[0], &pairs->column[1], sizeof pairs->column[0]);
    swap(&pairs->path[0], &pairs->path[1], sizeof pairs->path[0]);
    swap(pairs->lang[0], pairs->lang[1], sizeof pairs->lang[0]);
    swap(&pairs->start[0], &pairs->start[1], sizeof pairs->start[0]);
    swap(&pairs->capacity[0], &pairs->capacity[1], sizeof pairs->capacity[0]);
}

/* Refuses, for a table with further columns, a language that contradicts the title of its column. A region, as in pt-BR, does
 * not. */
static enum qkv_status check_titles(const struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                    struct qkv_error *error)
{
    for (int side = 0; side < 2; side++) {
        const char *lang = request->lang[side], *title = pairs->lang[side];
        if (!lang || !pairs->has_header || pairs->columns < 3 || request->column[0] || !*title ||
            !strncmp(lang, title, strlen(title)))
            continue;
        return qkv_error_set(
            error,
            "%s: no column is titled %s: the title of column %d is that of %s; name the columns "
            "with --columns, as in --columns %d,%d",
            pairs->path[0], lang, pairs->column[side], title, pairs->column[0], pairs->column[1]);
    }
    return QKV_OK;
}

/* Sets the languages that are asked for, and swaps the sides if that is needed. */
static enum qkv_status apply_languages(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                       struct qkv_error *error)
{
    bool is_swapped = !request->column[0] && is_reversed(pairs, request->lang);
    if (is_swapped) swap_sides(pairs);
    if (check_titles(pairs, request, error)) return QKV_INVALID;
    /* Languages that are asked for, and agree with the name of the file without a swap, do not follow from the name. */
    if (!is_swapped && request->lang[0] && request->lang[1]) pairs->has_named_order = false;
    for (int side = 0; side < 2; side++) {
        const char *lang = request->lang[side];
        if (!lang) continue;
        if (strcmp(lang, pairs->lang[side]) != 0) pairs->has_named_order = false;
        snprintf(pairs->lang[side], sizeof pairs->lang[side], "%s", lang);
    }
    return QKV_OK;
}

/* ---- public functions ---- */

enum qkv_status qkv_pairs_read(struct qkv_pairs *pairs, struct qkv_pairs_request request,
                               struct qkv_error *error)
{
    *pairs = (struct qkv_pairs){0};
    enum qkv_status status;
    if (!request.target && qkv_pairs_is_table(request.path)) {
        status = read_table_file(pairs, &request, error);
    } else {
        status = qkv_pairs_find_files(&request, pairs->path, error);
        if (!status) status = read_two_files(pairs, error);
    }
    if (!status && !pairs->count)
        status = qkv_error_set(error, "%s: has %lld lines, but no pair of sentences", pairs->path[0],
                               (long long)pairs->read);
    if (!status) status = apply_languages(pairs, &request, error);
    if (status) qkv_pairs_release(pairs);
    return status;
}

const char *qkv_pairs_text(const struct qkv_pairs *pairs, int64_t i, int side)
{
    bool exists = i >= 0 && i < pairs->count && (side == 0 || side == 1);
    return exists ? pairs->text + pairs->start[side][i] : NULL;
}

void qkv_pairs_filter(struct qkv_pairs *pairs, const bool *keep)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < pairs->count; i++) {
        if (!keep[i]) continue;
        for (int side = 0; side < 2; side++) pairs->start[side][kept] = pairs->start[side][i];
        kept++;
    }
    pairs->count = kept;
}

void qkv_pairs_release(struct qkv_pairs *pairs)
{
    for (int side = 0; side < 2; side++) {
        free(pairs->path[side]);
        free(pairs->start[side]);
    }
    free(pairs->text);
    *pairs = (struct qkv_pairs){0};
}
