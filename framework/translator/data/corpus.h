/* Parallel text, read pair by pair, for a corpus and for what is made from one. */
#ifndef QKV_DATA_CORPUS_H
#define QKV_DATA_CORPUS_H

#include "data/lines.h"
#include "qkv/corpus.h"

/* ---- pairs as text ---- */

/* Sentence pairs that are read one by one. Caller's storage; all zero is valid and closed. */
struct qkv_pair_lines {
    /* The table and its current line, or the file of the source sides. Its line number is the number of the pair, from
     * 1. */
    struct qkv_lines source;
    struct qkv_lines target; /* the file of the target sides, of two files */
    bool is_table, third_column;
};

struct qkv_pair_lines_options {
    bool third_column; /* lines of a table may have a second tab; it and the rest are left out */
    bool any_name;     /* an existing file is read as a table, whatever its name */
};

/* Opens x.tsv or x.tsv.gz, `-` for standard input, or the two line-aligned files that begin with `path`, a dot and the
 * language of source and target, as qkv_corpus_read does. Fails, with `path: ...`, for a file that cannot be read; nothing
 * needs to be closed then. */
enum qkv_status qkv_pair_lines_open(struct qkv_pair_lines *pairs, const char *path,
                                    const char *const language[2], struct qkv_pair_lines_options options,
                                    struct qkv_error *error);

/* Reads the next pair, whose texts live until the next call; *found becomes false at the end. A side may be empty. Fails
 * with path:line:column for a line without a tab or, without options.third_column, with two, and for a line that the other
 * file lacks; with `path: the file is empty`; and as qkv_lines_next does. */
enum qkv_status qkv_pair_lines_next(struct qkv_pair_lines *pairs, struct qkv_pair_texts *texts, bool *found,
                                    struct qkv_error *error);

void qkv_pair_lines_close(struct qkv_pair_lines *pairs);

/* ---- pairs as tokens ---- */

/* Set path, options, and `config` of both sides, and the rest to zero. */
struct qkv_parallel_text {
    const char *path;
    struct qkv_corpus_options options;
    const struct qkv_text_config *config[2];
    struct qkv_pair_lines pairs;
    /* Of the current pair */
    const char *raw[2]; /* each with a NUL */
    size_t size[2];     /* bytes, without the NUL */
    struct qkv_tokens tokens[2];
    int64_t read, kept, long_one[2]; /* pairs; as in struct qkv_corpus */
};

/* Reads and tokenises the next pair that options.drop_long does not drop; the first call opens the text. *found becomes false
 * at the end. Fails as qkv_corpus_read does. The caller releases the text. */
enum qkv_status qkv_parallel_text_next(struct qkv_parallel_text *text, bool *found, struct qkv_error *error);

void qkv_parallel_text_release(struct qkv_parallel_text *text);

/* Adds a sentence to a CRC-32: its ids as little-endian numbers, then -1. */
unsigned long qkv_ids_checksum(unsigned long sum, const int32_t *ids, int64_t count);

#endif
