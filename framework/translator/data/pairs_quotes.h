/* Quotation marks that spreadsheets and Anki put around cells that hold a comma or a quotation mark, as in CSV (RFC 4180):
 * He said "no". becomes "He said ""no"".". Sentences may have quotation marks of their own, so all fields of a table are
 * counted before it is decided whether they are quoted. */
#ifndef QKV_DATA_PAIRS_QUOTES_H
#define QKV_DATA_PAIRS_QUOTES_H

#include "data/pairs_columns.h"

/* The number of fields of a table that ... All zero at first. */
struct pairs_quotes {
    int64_t quoted;       /* ... begin and end with a quotation mark, and double those within */
    int64_t doubled;      /* ... are quoted and have quotation marks within */
    int64_t other;        /* ... have a quotation mark, but are not quoted */
    int64_t quoted_comma; /* ... are quoted and have a comma */
    int64_t plain_comma;  /* ... have a comma and no quotation mark */
    int64_t joined;       /* ... have line breaks (qkv_pairs_join_cells) */
};

/* Counts a field. */
void qkv_pairs_quotes_add(struct pairs_quotes *quotes, struct pairs_field field);

/* Whether a program has quoted the cells of the table: hardly any quotation mark contradicts that, and there are doubled marks
 * or line breaks within fields, or commas occur almost only in quoted fields. */
bool qkv_pairs_quotes_found(const struct pairs_quotes *quotes);

/* Undoes the quoting of a field in place, if it is quoted. Returns its new size. */
size_t qkv_pairs_unquote(char *text, size_t size);

/* Joins the lines of quoted cells that have line breaks: `text` is a sequence of lines that end in a NUL; an LF replaces the
 * NUL between the lines of such a cell. A quotation mark at the beginning of a sentence is taken for that of a cell only if the
 * following lines close it, without a tab before. Returns the number of such cells. */
int64_t qkv_pairs_join_cells(char *text, int64_t size);

#endif
