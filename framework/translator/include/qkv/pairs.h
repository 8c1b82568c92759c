/* Reads sentence pairs from files whose exact form is not known beforehand: tables with more than two columns, as Anki and
 * Tatoeba export them, or two line-aligned files; also with blank lines, a header, or sentences without a translation.
 * qkv_corpus_read (corpus.h) reads only the strict form that training uses.
 *
 * Example:
 *     struct qkv_pairs pairs;
 *     struct qkv_error error;
 *     if (qkv_pairs_read(&pairs, (struct qkv_pairs_request){.path = "spa.txt"}, &error)) {
 *         fprintf(stderr, "%s\n", error.message);
 *     } else {
 *         for (int64_t i = 0; i < pairs.count; i++)
 *             printf("%s = %s\n", qkv_pairs_text(&pairs, i, 0), qkv_pairs_text(&pairs, i, 1));
 *         qkv_pairs_release(&pairs);
 *     }
 *
 * Everywhere, side 0 is the source and side 1 the target. */
#ifndef QKV_PAIRS_H
#define QKV_PAIRS_H

#include "qkv/base.h"

#include <stdbool.h>
#include <stdint.h>

/* What to read. */
struct qkv_pairs_request {
    /* A table with one pair per line and tabs between its columns, "-" for standard input; or, with `target`, the first of
     * two files with one sentence per line; or, if no file has this path, the common prefix of two files: PATH.L1,
     * PATH.L2. */
    const char *path;
    const char *target; /* the second of two files; NULL: there is none */
    /* Language codes; for a prefix also the suffixes of its files; NULL: found by the names of files and columns. If the
     * names show that lang[0] is in the second column or file, the two sides are exchanged, unless `column` is set. */
    const char *lang[2];
    int64_t column[2]; /* of a table, from 1; both 0: found by their contents */
};

/* Lines that were left out. */
struct qkv_skipped_lines {
    int64_t count, first; /* first: its number, from 1; 0: none */
};

enum { QKV_PAIRS_COLUMNS = 32 /* columns of a table that are considered */ };

/* Columns that the header of an export from Anki may name. They hold no sentences. */
enum qkv_anki_column { QKV_ANKI_GUID, QKV_ANKI_NOTETYPE, QKV_ANKI_DECK, QKV_ANKI_TAGS, QKV_ANKI_COLUMNS };

/* Caller's storage; qkv_pairs_release frees the memory, which is proportional to the text. */
struct qkv_pairs {
    int64_t count;
    int64_t read;    /* lines of the file */
    int columns;     /* greatest number of columns in a line; 0: two files */
    int column[2];   /* the columns that were used, from 1 */
    bool has_header; /* the first line names the columns */
    bool is_quoted;  /* quotation marks around cells were removed */
    /* The languages follow from the name of the table's file, whose order may differ from that of its columns. */
    bool has_named_order;
    int64_t joined;     /* quoted cells with line breaks, which became spaces */
    char *path[2];      /* both the same for a table */
    char lang[2][16];   /* language codes; "" if unknown */
    int64_t anki_lines; /* header lines of an export from Anki (#separator:tab), which were skipped */
    /* Columns, from 1, that the header of an export from Anki names and that were therefore skipped; 0: none. */
    int anki_column[QKV_ANKI_COLUMNS];
    struct qkv_skipped_lines blank;      /* lines without any text */
    struct qkv_skipped_lines incomplete; /* lines of a table that end before one of its columns */
    struct qkv_skipped_lines empty;      /* pairs of which one sentence is empty or white space */
    /* private */
    char *text;
    int64_t *start[2]; /* [count]: offsets of the sentences in `text` */
    int64_t text_capacity, text_size, capacity[2];
};

/* Reads pairs. Sentences lose white space at their ends; a tab within one becomes a space. Quotation marks that a
 * spreadsheet put around cells are removed; a quoted cell may have line breaks, which become spaces. Columns of a table
 * without sentences are skipped: empty columns, numbers and dates, the attribution in Anki's files, those that the header of
 * an export from Anki names (#guid column:1), and columns that are the same in all lines, such as a language code; the first
 * two remaining columns are used.
 *
 * Fails with `path: ...` or `path:line: ...` when a file cannot be read or is not text (qkv_lines_next), when a table has
 * fewer than two columns of sentences, when it names another separator than tabs, when two files differ in their number of
 * lines or both have a tab in most lines, when a prefix has other than two files, and when no pair is left. After a failure
 * nothing needs to be released. */
QKV_API enum qkv_status qkv_pairs_read(struct qkv_pairs *pairs, struct qkv_pairs_request request,
                                       struct qkv_error *error);

/* A sentence, 0 <= i < count: UTF-8 without tab and line end, not empty. NULL when there is no such pair or side. */
QKV_API const char *qkv_pairs_text(const struct qkv_pairs *pairs, int64_t i, int side);

QKV_API void qkv_pairs_release(struct qkv_pairs *pairs);

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
QKV_API enum qkv_status qkv_pairs_describe(const struct qkv_pairs *pairs, struct qkv_pairs_statistics *facts,
                                           struct qkv_error *error);

/* Removes tags of HTML and replaces entities, such as &nbsp; or &#39;, by their characters; entities of a side that is
 * tokenized stay, as do unknown ones. Pairs of which a side has nothing else are removed. facts: of these pairs. Returns the
 * number of pairs that had markup. */
QKV_API int64_t qkv_pairs_remove_markup(struct qkv_pairs *pairs, const struct qkv_pairs_statistics *facts);

/* Pairs that qkv_pairs_clean removed. */
struct qkv_pairs_removed {
    int64_t repeated;   /* equal to an earlier pair, in every character */
    int64_t unbalanced; /* one side is far longer than expected from the other */
};

/* Removes repeated and unbalanced pairs. With r the ratio of the characters of both sides in the whole set, a pair of a and b
 * characters is unbalanced when a r > 3 b + 10 or b > 3 a r + 10. Fails when memory runs out. */
QKV_API enum qkv_status qkv_pairs_clean(struct qkv_pairs *pairs, struct qkv_pairs_removed *removed,
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
QKV_API enum qkv_status qkv_pairs_split(const struct qkv_pairs *pairs, struct qkv_pairs_parts wanted,
                                        enum qkv_pairs_part *part, struct qkv_error *error);

#endif
