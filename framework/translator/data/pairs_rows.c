/* The rows of a table: text with tabs, CSV (RFC 4180), JSON lines. */
#include "core/memory.h"
#include "data/pairs.h"
#include "data/unicode.h"

#include <cjson/cJSON.h>
#include <strings.h>

/* ---- making rows ---- */

void qkv_pairs_leave_out(struct qkv_skipped_lines *lines, int64_t number)
{
    if (!lines->count++) lines->first = number;
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

/* Adds a cell to the row that the next end_row ends, without outer white space. */
static bool add_cell(struct pairs_rows *rows, struct pairs_field cell)
{
    if (!QKV_RESERVE(rows->cell, rows->cell_capacity, rows->cells + 1)) return false;
    rows->cell[rows->cells++] = qkv_pairs_trim(cell);
    return true;
}

/* Ends a row, which begins in line `number` of the file. */
static bool end_row(struct pairs_rows *rows, int64_t number)
{
    if (!QKV_RESERVE(rows->row, rows->row_capacity, rows->count + 1)) return false;
    const struct pairs_row *last = rows->count ? &rows->row[rows->count - 1] : NULL;
    int64_t first = last ? last->first + last->count : 0;
    rows->row[rows->count++] = (struct pairs_row){number, first, (int)(rows->cells - first)};
    return true;
}

void qkv_pairs_rows_release(struct pairs_rows *rows)
{
    free(rows->text);
    free(rows->row);
    free(rows->cell);
    cJSON_Delete(rows->names);
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

/* Reads a header line. If it names a column, stores its number. Fails when it names a separator that is not read. */
static enum qkv_status read_anki_line(const struct qkv_lines *lines, struct pairs_rows *rows,
                                      int column[QKV_ANKI_COLUMNS], struct qkv_error *error)
{
    static const char *const keys[QKV_ANKI_COLUMNS] = {[QKV_ANKI_GUID] = "guid column",
                                                       [QKV_ANKI_NOTETYPE] = "notetype column",
                                                       [QKV_ANKI_DECK] = "deck column",
                                                       [QKV_ANKI_TAGS] = "tags column"};
    static const char *const separators[] = {"\ttab", ";semicolon", ",comma"};
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) {
        const char *number = value_of(lines->line, keys[k]);
        long value = number ? strtol(number, NULL, 10) : 0;
        if (value >= 1 && value <= QKV_PAIRS_COLUMNS) column[k] = (int)value;
    }
    const char *separator = value_of(lines->line, "separator");
    if (!separator) return QKV_OK;
    for (size_t s = 0; s < sizeof separators / sizeof *separators; s++)
        if (!strcasecmp(separator, separators[s] + 1)) rows->separator = *separators[s];
    if (rows->separator) return QKV_OK;
    return qkv_error_set(error,
                         "%s:%lld: the columns are separated by %s; export the notes with tabs between them",
                         lines->path, (long long)lines->number, separator);
}

/* Reads all lines into rows->text. */
static enum qkv_status read_lines(struct pairs_rows *rows, struct qkv_pairs *pairs, struct qkv_lines *lines,
                                  struct qkv_error *error)
{
    enum qkv_status status;
    bool found;
    int64_t returns = 0; /* CR within lines */
    /* So that the text is never NULL, even if the header of Anki is all there is. */
    if (!QKV_RESERVE(rows->text, rows->text_capacity, 1)) return qkv_no_memory(error);
    while (!(status = qkv_lines_next(lines, &found, error)) && found) {
        pairs->read++;
        for (const char *at = lines->line; (at = strchr(at, '\r')); at++) returns++;
        if (pairs->anki_lines == lines->number - 1 && is_anki_line(lines->line)) {
            if (read_anki_line(lines, rows, pairs->anki_column, error)) return QKV_INVALID;
            pairs->anki_lines++;
            continue;
        }
        int64_t end = rows->text_size + (int64_t)lines->size + 1;
        if (!QKV_RESERVE(rows->text, rows->text_capacity, end + 1)) return qkv_no_memory(error);
        memcpy(rows->text + rows->text_size, lines->line, lines->size);
        rows->text[end - 1] = '\n';
        rows->text_size = end;
        rows->lines += lines->size > 0;
        rows->tabbed += strchr(lines->line, '\t') != NULL;
    }
    rows->text[rows->text_size] = '\0';
    if (!status && returns > pairs->read)
        return qkv_error_set(
            error,
            "%s: its lines end in CR alone, as on old Macs; convert them, as in: tr '\\r' '\\n' <OLD >NEW",
            lines->path);
    return status ? status : qkv_lines_check_read(lines, error);
}

/* ---- formats that other programs convert ---- */

static enum qkv_status refuse_foreign(const char *path, const char *text, struct qkv_error *error)
{
    static const char tmx[] =
        "is TMX, the XML of translation memories: convert it, here to pairs of en and es: "
        "xmlstarlet sel -T -t -m //tu -v 'normalize-space(tuv[lang(\"en\")]/seg)' -o \"$(printf '\\t')\" -v "
        "'normalize-space(tuv[lang(\"es\")]/seg)' -n FILE >pairs.tsv",
                      xliff[] = "is XLIFF: convert it: xmlstarlet sel -T -t -m "
                                "'//*[local-name()=\"target\"]' -v "
                                "'normalize-space(../*[local-name()=\"source\"])' -o \"$(printf '\\t')\" -v "
                                "'normalize-space()' -n FILE >pairs.tsv",
                      po[] = "is a catalogue of gettext (.po): convert it with the Translate Toolkit: po2csv "
                             "FILE pairs.csv",
                      xml[] = "is XML, which is not read: write a table with a tab between the columns";
    const char *what = NULL;
    text += strspn(text, " \t\n");
    if (*text == '<' && (strchr("?!", text[1]) || strstr(text, "</tmx>") || strstr(text, "</xliff>")))
        what = strstr(text, "<tmx") ? tmx : strstr(text, "<xliff") ? xliff : xml;
    else if ((!strncmp(text, "msgid \"", 7) || strstr(text, "\nmsgid \"")) && strstr(text, "\nmsgstr \""))
        what = po;
    return what ? qkv_error_set(error, "%s: %s", path, what) : QKV_OK;
}

/* ---- JSON lines ---- */

/* Moves the fields of an object or array to `flat`, which has `count`, also those of objects within: "translation_en" for
 * {"translation": {"en": "..."}}. Of equal names, the first one counts. Returns the number of fields, QKV_PAIRS_COLUMNS at
 * most. */
static int flatten(cJSON *json, const char *prefix, int count, cJSON *flat)
{
    char name[64];
    for (int number = 1; json->child && count < QKV_PAIRS_COLUMNS; number++) {
        cJSON *item = cJSON_DetachItemViaPointer(json, json->child);
        if (item->string)
            snprintf(name, sizeof name, "%s%.60s", prefix, item->string);
        else
            snprintf(name, sizeof name, "%s%d", prefix, number);
        bool is_list = cJSON_IsObject(item) || cJSON_IsArray(item);
        if (is_list && strlen(name) + 1 < sizeof name) strcat(name, "_");
        if (is_list) count = flatten(item, name, count, flat);
        if (!is_list && !cJSON_GetObjectItemCaseSensitive(flat, name) &&
            cJSON_AddItemToObject(flat, name, item))
            count++;
        else
            cJSON_Delete(item);
    }
    return count;
}

/* The fields of a line; NULL unless it is an object, or an array of texts: an array of objects is a complete file. */
static cJSON *fields_of(char *line)
{
    char *end = line + strcspn(line, "\n");
    *end = '\0';
    cJSON *json = cJSON_ParseWithOpts(line, NULL, true);
    *end = '\n';
    bool is_list = cJSON_IsArray(json) && !cJSON_IsObject(json->child) && !cJSON_IsArray(json->child);
    cJSON *flat = cJSON_IsObject(json) || is_list ? cJSON_CreateObject() : NULL;
    if (flat) flatten(json, "", 0, flat);
    cJSON_Delete(json);
    return flat;
}

/* Adds a row: for each name, the text of the field that has it. The texts replace the line, which is longer. */
static bool add_fields(struct pairs_rows *rows, const cJSON *fields, char *line, int64_t number)
{
    const cJSON *name = rows->names->child;
    for (int c = 0; c < rows->columns; c++, name = name->next) {
        const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(fields, name->string));
        struct pairs_field cell = {line, text ? strlen(text) : 0};
        for (const char *at = text; at && *at; at++) *line++ = *at == '\n' || *at == '\r' ? ' ' : *at;
        if (!add_cell(rows, cell)) return false;
    }
    return end_row(rows, number);
}

/* Takes the names of the columns from the first line, and adds a row of them. */
static bool add_names(struct pairs_rows *rows, cJSON *fields, int64_t number)
{
    rows->names = fields;
    for (const cJSON *name = fields->child; name; name = name->next, rows->columns++)
        if (!add_cell(rows, (struct pairs_field){name->string, strlen(name->string)})) return false;
    return end_row(rows, number);
}

static enum qkv_status read_json(struct pairs_rows *rows, const struct qkv_pairs *pairs,
                                 struct qkv_error *error)
{
    int64_t number = pairs->anki_lines + 1;
    for (char *line = rows->text, *end; *line; line = end + 1, number++) {
        end = line + strcspn(line, "\n");
        bool is_blank = line[strspn(line, " \t\r")] == '\n', is_first = !is_blank && !rows->names;
        cJSON *fields = is_blank ? NULL : fields_of(line);
        if (!fields && !is_blank)
            return qkv_error_set(error, "%s:%lld: is not a JSON object, as the lines before it are",
                                 pairs->path[0], (long long)number);
        bool is_added = (!is_first || add_names(rows, fields, number)) &&
                        (is_blank ? end_row(rows, number) : add_fields(rows, fields, line, number));
        if (!is_first) cJSON_Delete(fields);
        if (!is_added) return qkv_no_memory(error);
    }
    return QKV_OK;
}

/* What the first line with text shows. */
enum json_kind { NO_JSON, JSON_LINES, OTHER_JSON };

static enum json_kind json_kind(char *line)
{
    line += strspn(line, " \t\r\n");
    if (!*line || !strchr("{[", *line)) return NO_JSON;
    cJSON *fields = fields_of(line);
    bool has_fields = fields && fields->child;
    cJSON_Delete(fields);
    if (has_fields) return JSON_LINES;
    return strchr("{[\"", line[1 + strspn(line + 1, " \t\r\n")]) ? OTHER_JSON : NO_JSON;
}

/* ---- text with a separator: CSV as in RFC 4180, where programs put quotation marks around cells that hold the separator, a
 * quotation mark or a line break: He said "no". becomes "He said ""no"".". Sentences may have quotation marks of their own,
 * and be tables without any such rule; so all rows are measured before it is decided what the marks mean. ---- */

/* How quotation marks are read: a quoted cell may have line breaks; or not; or the marks are part of the text. */
enum reading { WHOLE, LINE, PLAIN };

/* At most one cell in this many may contradict the rest. */
enum { EXCEPTIONS = 20 };

struct csv {
    char separator;
    const char *end; /* of the text */
    bool is_quoted;  /* quotation marks around cells are those of a program */
    /* Measured: the usual number of columns; the share of the rows that have it; it is so only with quoted cells. */
    int columns;
    double share;
    bool needs_quotes;
};

struct csv_row {
    struct pairs_field cell[QKV_PAIRS_COLUMNS]; /* as they are written */
    uint32_t quoted;                            /* a bit for each cell that is quoted */
    int count;
    int breaks;        /* cells with line breaks */
    bool is_valid;     /* no other cell has a quotation mark */
    bool hides_breaks; /* a cell with line breaks has the separator, too */
    const char *next;  /* the row behind it */
};

/* The end of a quoted cell: what follows its closing quotation mark and spaces. NULL: it is not quoted. Tabs separate even
 * within quotation marks: no sentence needs them. */
static const char *quoted_end(const char *at, const char *limit, char separator)
{
    const char *stops = separator == '\t' ? "\"\t" : "\"";
    at += strspn(at, " ");
    if (at >= limit || *at != '"') return NULL;
    for (at++; (at += strcspn(at, stops)) < limit && *at == '"' && at[1] == '"';)
        at += 2; /* "" is one mark */
    if (at >= limit || *at != '"') return NULL;
    at += 1 + strspn(at + 1, " ");
    return at >= limit || *at == separator || *at == '\n' ? at : NULL;
}

static struct csv_row read_row(const struct csv *csv, const char *at, enum reading reading)
{
    const char ends[] = {csv->separator, '\n', '\0'}, *limit = reading == WHOLE  ? csv->end
                                                               : reading == LINE ? at + strcspn(at, "\n")
                                                                                 : at;
    struct csv_row row = {.is_valid = true};
    for (const char *end;; at = end + 1) {
        end = quoted_end(at, limit, csv->separator);
        bool is_quoted = end != NULL;
        if (!is_quoted) end = at + strcspn(at, ends);
        size_t size = (size_t)(end - at);
        bool has_break = is_quoted && memchr(at, '\n', size);
        row.breaks += has_break;
        row.hides_breaks |= has_break && memchr(at, csv->separator, size);
        row.is_valid &= is_quoted || !memchr(at, '"', size);
        if (row.count < QKV_PAIRS_COLUMNS) {
            row.quoted |= (uint32_t)is_quoted << row.count;
            row.cell[row.count] = (struct pairs_field){at, size};
        }
        row.count++;
        row.next = end + 1;
        if (*end != csv->separator) return row;
    }
}

static bool is_blank(const struct csv_row *row)
{
    return row->count == 1 && !qkv_pairs_trim(row->cell[0]).size;
}

/* The row at a position. A cell has line breaks only where the row then is like the rest of the table: speech that goes on in
 * the next sentence has quotation marks as well. */
static struct csv_row next_row(const struct csv *csv, const char *at)
{
    struct csv_row row = read_row(csv, at, WHOLE);
    if (row.breaks &&
        (!row.is_valid || row.count != csv->columns || (row.hides_breaks && !csv->needs_quotes)))
        row = read_row(csv, at, LINE);
    if (row.count == csv->columns || csv->separator == '\t') return row;
    struct csv_row plain = read_row(csv, at, PLAIN);
    return plain.count == csv->columns ? plain : row;
}

/* Measures the table with quotation marks around cells, and with those of sentences only. */
static void measure(struct csv *csv, const char *text)
{
    static const enum reading readings[] = {LINE, PLAIN, WHOLE}; /* the first of those that fit equally */
    for (size_t r = 0; r < sizeof readings / sizeof *readings; r++) {
        int64_t rows = 0, fitting[QKV_PAIRS_COLUMNS + 1] = {0};
        int usual = 2;
        struct csv_row row;
        for (const char *at = text; at < csv->end; at = row.next) {
            row = read_row(csv, at, readings[r]);
            if (is_blank(&row)) continue;
            rows++;
            if (row.count <= QKV_PAIRS_COLUMNS && (row.is_valid || readings[r] == PLAIN))
                fitting[row.count]++;
        }
        for (int c = 2; c <= QKV_PAIRS_COLUMNS; c++)
            if (fitting[c] > fitting[usual]) usual = c;
        double share = rows ? (double)fitting[usual] / (double)rows : 0;
        if (share <= csv->share) continue;
        csv->columns = usual;
        csv->share = share;
        csv->needs_quotes = readings[r] != PLAIN;
    }
}

/* Decides whether a program has quoted the cells: hardly any quotation mark contradicts that; and, between tabs, where most
 * sentences have no reason to be quoted, all cells are, or there are doubled marks or line breaks within cells, or commas occur
 * almost only in quoted ones. */
static void find_quotes(struct csv *csv, const char *text)
{
    int64_t quoted = 0, other = 0, plain = 0, proofs = 0, quoted_commas = 0, plain_commas = 0;
    struct csv_row row;
    for (const char *at = text; at < csv->end; at = row.next) {
        row = next_row(csv, at);
        for (int c = 0; c < row.count && c < QKV_PAIRS_COLUMNS; c++) {
            struct pairs_field cell = qkv_pairs_trim(row.cell[c]);
            bool has_comma = memchr(cell.text, ',', cell.size) != NULL;
            if (row.quoted >> c & 1) {
                quoted++;
                quoted_commas += has_comma;
                for (size_t i = 1; i + 1 < cell.size; i++)
                    proofs += cell.text[i] == '"' || cell.text[i] == '\n';
            } else if (memchr(cell.text, '"', cell.size)) {
                other++;
            } else {
                plain += cell.size > 0;
                plain_commas += has_comma;
            }
        }
    }
    bool by_comma = quoted_commas > 0 && plain_commas * EXCEPTIONS <= quoted_commas;
    csv->is_quoted =
        quoted && other * EXCEPTIONS <= quoted && (csv->separator != '\t' || !plain || proofs || by_comma);
}

/* Takes the quotation marks of a program off a cell, whose text it changes. */
static struct pairs_field unquote(struct pairs_field cell)
{
    cell = qkv_pairs_trim(cell);
    char *begin = (char *)(size_t)cell.text + 1, *to = begin;
    for (const char *at = begin, *end = begin + cell.size - 2; at < end; at++) {
        *to++ = *at;
        at += *at == '"';
    }
    return (struct pairs_field){begin, (size_t)(to - begin)};
}

static bool add_row(struct pairs_rows *rows, const struct csv *csv, const struct csv_row *row, int64_t number)
{
    for (int c = 0; c < row->count && c < QKV_PAIRS_COLUMNS; c++) {
        struct pairs_field cell = row->cell[c];
        bool has_break = memchr(cell.text, '\n', cell.size),
             takes_off = csv->is_quoted || has_break || memchr(cell.text, csv->separator, cell.size);
        if (!add_cell(rows, row->quoted >> c & 1 && takes_off ? unquote(cell) : cell)) return false;
    }
    return end_row(rows, number);
}

static enum qkv_status read_csv(struct pairs_rows *rows, struct csv *csv, struct qkv_pairs *pairs,
                                struct qkv_error *error)
{
    int64_t number = pairs->anki_lines + 1, lines;
    struct csv_row row;
    find_quotes(csv, rows->text);
    pairs->is_quoted = csv->is_quoted;
    for (const char *at = rows->text; at < csv->end; at = row.next, number += lines) {
        row = next_row(csv, at);
        lines = 0;
        for (const char *c = at; c < row.next; c++) lines += *c == '\n';
        bool fits = csv->separator == '\t' || row.count == csv->columns || is_blank(&row);
        if (!fits) qkv_pairs_leave_out(&pairs->other_columns, number);
        if (fits && row.count > rows->columns) rows->columns = row.count;
        pairs->joined += row.breaks;
        if (fits && !add_row(rows, csv, &row, number)) return qkv_no_memory(error);
    }
    return QKV_OK;
}

/* The separator of a text that has not named it: tabs, unless few lines have one and there is another that makes a table. */
static struct csv find_separator(const struct pairs_rows *rows)
{
    enum { PERCENT = 90 /* of the rows must have the usual number of columns */ };
    const char *end = rows->text + rows->text_size;
    struct csv best = {.separator = rows->separator ? rows->separator : '\t', .end = end};
    for (const char *s = ";,"; *s && rows->tabbed * 2 < rows->lines && !rows->separator; s++) {
        struct csv csv = {.separator = *s, .end = end};
        measure(&csv, rows->text);
        if (csv.share * 100 >= PERCENT && csv.share > best.share) best = csv;
    }
    bool has_quotes = strchr(rows->text, '"');
    if (!best.columns && (has_quotes || rows->separator)) measure(&best, rows->text);
    return best;
}

/* ---- all formats ---- */

enum qkv_status qkv_pairs_read_rows(struct pairs_rows *rows, struct qkv_pairs *pairs, struct qkv_lines *lines,
                                    struct qkv_error *error)
{
    if (read_lines(rows, pairs, lines, error) || refuse_foreign(lines->path, rows->text, error))
        return QKV_INVALID;
    enum json_kind kind = json_kind(rows->text);
    if (kind == OTHER_JSON)
        return qkv_error_set(
            error,
            "%s: is JSON, but not JSON lines, which have an object in each line: convert it, "
            "as in: jq -c '.[]' FILE >pairs.jsonl",
            lines->path);
    if (kind == JSON_LINES) {
        pairs->format = "JSON lines";
        return read_json(rows, pairs, error);
    }
    struct csv csv = find_separator(rows);
    if (csv.separator != '\t')
        pairs->format = csv.separator == ',' ? "CSV with commas" : "CSV with semicolons";
    return read_csv(rows, &csv, pairs, error);
}
