/* Private: reading sentence pairs (one by one, tables, names of languages), and sets of pairs for qkv init. */
#pragma once

#include "data/lines.h"

/* ---- pairs ---- */

/* One field of a line, without a terminating NUL. */
struct pairs_field {
    const char *text;
    size_t size;
};

/* Adds the pair of a line, unless the line is the header or a side is empty. Fails when there is no memory. */
enum qkv_status qkv_pairs_add(struct qkv_pairs *pairs, int64_t line, const struct pairs_field sentence[2],
                              struct qkv_error *error);

/* Sets the language of a side that has none; NULL: does nothing. */
void qkv_pairs_set_language(struct qkv_pairs *pairs, int side, const char *code);

/* Counts a line that is left out. */
void qkv_pairs_leave_out(struct qkv_skipped_lines *lines, int64_t number);

/* The field without leading and trailing white space. */
struct pairs_field qkv_pairs_trim(struct pairs_field field);

/* A row of a table: cell[first .. first + count - 1] of the rows. */
struct pairs_row {
    int64_t line; /* of the file, from 1, where the row begins */
    int64_t first;
    int count; /* at most QKV_PAIRS_COLUMNS */
};

/* The rows of a table, whatever the form of the file. Cells have no outer white space; those with line breaks have LF. */
struct pairs_rows {
    struct pairs_row *row;
    struct pairs_field *cell;
    int64_t count, cells; /* rows; cells of all rows */
    int columns;          /* greatest number of cells in a row of the file */
    struct cJSON
        *names; /* the fields of the first one of JSON lines; the first row has their names. NULL: no JSON */
    /* private */
    char *
        text; /* of the file, which the cells are parts of, without the header of Anki: lines, each with an LF, and a NUL */
    int64_t text_size, text_capacity, row_capacity, cell_capacity;
    int64_t lines, tabbed; /* of the text: lines that are not empty; lines with a tab */
    char separator;        /* that the header of Anki names; 0: none */
};

/* Reads all rows of a text: between tabs, CSV (RFC 4180) or JSON lines. Counts the lines, and those that are left out, and sets
 * what the text shows of its form; the path is known. The caller releases the rows even after a failure (pairs_rows.c). */
enum qkv_status qkv_pairs_read_rows(struct pairs_rows *rows, struct qkv_pairs *pairs, struct qkv_lines *lines,
                                    struct qkv_error *error);

void qkv_pairs_rows_release(struct pairs_rows *rows);

/* Reads the table that is requested into pairs that are all zero; sets also its path, columns and languages. */
enum qkv_status qkv_pairs_read_table(struct qkv_pairs *pairs, const struct qkv_pairs_request *request,
                                     struct qkv_error *error);

/* ---- names of languages, as they occur in file names and column titles ---- */

/* Finds the two-letter code of a language, such as "es", by that code, its three-letter code or its name; NULL when `name` is
 * none of these. */
const char *qkv_language_code(const char *name, size_t size);

/* Whether two names of languages mean the same language, as en, eng and en-US do. */
bool qkv_is_same_language(const char *a, const char *b);

/* Whether `name` can be the title of a column of sentences: the name of a language, or a word such as "source". */
bool qkv_is_column_title(const char *name, size_t size);

/* The language that the title of a column names, also beside other words: "en" for "en-US" and "English sentence"; NULL when it
 * names none. */
const char *qkv_language_of_title(const char *name, size_t size);

/* Whether two cells are the titles of columns of sentences. Two names of one language, as "French" and "Francés", are not: they
 * are a word and its translation. */
bool qkv_is_title_pair(const char *source, size_t source_size, const char *target, size_t target_size);

/* The codes of the first two languages that the name of a file mentions, in their order: en and es for "data/eng-spa.tsv.gz".
 * code[i] is NULL if there are fewer. */
void qkv_languages_of_path(const char *path, const char *code[2]);

/* ---- sets of pairs ---- */

/* Describes a set of sentence pairs, cleans it, and splits it into training, dev and test pairs.
 *
 * Example:
 *     struct qkv_pairs pairs = {0}; // of qkv_pairs_read
 *     struct qkv_error error;
 *     const struct qkv_pairs_parts wanted = {.dev = 100, .test = 100, .seed = 42};
 *     enum qkv_pairs_part *part = malloc(((size_t)pairs.count + 1) * sizeof *part);
 *     if (part && !qkv_pairs_split(&pairs, wanted, part, &error))
 *         for (int64_t i = 0; i < pairs.count; i++)
 *             if (part[i] == QKV_PAIRS_DEV) puts(qkv_pairs_text(&pairs, i, 0));
 *     free(part);
 *     qkv_pairs_release(&pairs);
 *
 * Two sentences count as the same when they differ only in upper and lower case, punctuation and white space: a model that
 * was trained on the translation of "Go!" also knows that of "go". */

/* Description of one side. */
struct qkv_pairs_side {
    int64_t words, longest; /* between white space: of all sentences, of the longest one */
    int64_t characters;     /* code points of all sentences */
    int64_t alphabet;       /* different code points, without white space */
    /* The script of most letters, such as "Latin"; "unknown" if qkv does not know it */
    const char *script;
    double script_share; /* of the letters, 0 .. 1 */
    bool has_spaces;     /* false: that script does not separate words */
    bool is_tokenized;   /* more than half of the sentences look so, for example of the tokenizer of Moses */
    const struct qkv_cut_mark *cut; /* the sentences are cut into pieces with this mark; NULL: they are not */
};

struct qkv_pairs_statistics {
    struct qkv_pairs_side side[2];
    int64_t repeated; /* pairs that are equal to an earlier one, in every character */
    int64_t shared;   /* pairs of which a sentence is also in another pair */
    int64_t copied;   /* pairs whose source and target are the same text */
    /* Pairs with a tag or an entity of HTML, such as <br> or &nbsp;; entities of a side that is tokenized do not count:
     * the tokenizer of Moses writes &apos; and the like */
    int64_t markup;
};

/* Fails when memory runs out. */
enum qkv_status qkv_pairs_describe(const struct qkv_pairs *pairs, struct qkv_pairs_statistics *facts,
                                   struct qkv_error *error);

/* Removes tags of HTML and replaces entities, such as &nbsp; or &#39;, by their characters; entities of a side that is
 * tokenized stay, as do unknown ones. Pairs of which a side has nothing else are removed. facts: of these pairs. Returns the
 * number of pairs that had markup. */
int64_t qkv_pairs_remove_markup(struct qkv_pairs *pairs, const struct qkv_pairs_statistics *facts);

/* Pairs that qkv_pairs_clean removed. */
struct qkv_pairs_removed {
    int64_t repeated;   /* equal to an earlier pair, in every character */
    int64_t unbalanced; /* one side is far longer than expected from the other */
};

/* Removes repeated and unbalanced pairs. With r the ratio of the characters of both sides in the whole set, a pair of a and b
 * characters is unbalanced when a r > 3 b + 10 or b > 3 a r + 10. Fails when memory runs out. */
enum qkv_status qkv_pairs_clean(struct qkv_pairs *pairs, struct qkv_pairs_removed *removed,
                                struct qkv_error *error);

enum qkv_pairs_part { QKV_PAIRS_TRAIN, QKV_PAIRS_DEV, QKV_PAIRS_TEST, QKV_PAIRS_PARTS };

/* The sizes of the dev and test parts that are wanted; what remains is the training part. */
struct qkv_pairs_parts {
    int64_t dev, test; /* each at least 1 */
    uint64_t seed;
};

/* Assigns each pair to a part: part [count]. Pairs are drawn at random. All pairs that share a sentence, directly or
 * through other pairs, go to the same part, so that no sentence of either side is in two parts. Such groups can make dev
 * and test smaller than wanted, but never larger. The same pairs and seed give the same parts on every machine. Fails when
 * a part would be empty, when no pairs were read, and when memory runs out. */
enum qkv_status qkv_pairs_split(const struct qkv_pairs *pairs, struct qkv_pairs_parts wanted,
                                enum qkv_pairs_part *part, struct qkv_error *error);
