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
    return quotes->other * EXCEPTIONS <= quotes->quoted && (quotes->doubled > 0 || by_comma);
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
