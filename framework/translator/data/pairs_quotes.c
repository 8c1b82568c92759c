#include "data/pairs_quotes.h"

#include <string.h>

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

void qkv_pairs_quotes_add(struct pairs_quotes *quotes, struct pairs_field field)
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

bool qkv_pairs_quotes_found(const struct pairs_quotes *quotes)
{
    bool by_comma = quotes->quoted_comma > 0 && quotes->plain_comma * EXCEPTIONS <= quotes->quoted_comma;
    return quotes->other * EXCEPTIONS <= quotes->quoted &&
           (quotes->doubled > 0 || quotes->joined > 0 || by_comma);
}

size_t qkv_pairs_unquote(char *text, size_t size)
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

/* ---- line breaks ---- */

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

int64_t qkv_pairs_join_cells(char *text, int64_t size)
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
