#include "data/pairs_anki.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool qkv_pairs_is_anki_line(const char *line)
{
    return *line == '#' && line[1] >= 'a' && line[1] <= 'z' && strchr(line, ':');
}

/* The value of a header line with this key; NULL if it has another key. */
static const char *value_of(const char *line, const char *key)
{
    size_t size = strlen(key);
    return strncmp(line + 1, key, size) || line[1 + size] != ':' ? NULL : line + size + 2;
}

enum qkv_status qkv_pairs_read_anki_line(const struct qkv_lines *lines, int column[QKV_ANKI_COLUMNS],
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
