/* Parallel text: from files to ids.
 *
 * A corpus is read in two steps, so that the training text is tokenised once and yet makes its own
 * vocabularies: qkv_corpus_read (ids are then numbers of types), qkv_corpus_vocabularies or vocabularies
 * loaded from a run, and qkv_corpus_encode (ids are then ids of the vocabulary). */
#ifndef QKV_CORPUS_H
#define QKV_CORPUS_H

#include "qkv/config.h"
#include "qkv/error.h"
#include "qkv/tokenizer.h"
#include "qkv/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Parallel corpus ---- */

/* One side of a corpus: its sentences one behind the other. */
struct qkv_corpus_side {
    int64_t *start; /* [count + 1]: sentence i is ids[start[i]] .. ids[start[i + 1] - 1], without <s>, </s> */
    int32_t *ids;   /* [start[count]]: types until qkv_corpus_encode, then ids of the vocabulary */
    struct qkv_types types; /* of the sentences kept; empty after qkv_corpus_encode */
    int64_t longest;        /* tokens of the longest sentence kept */
    int64_t unknown;        /* tokens that are QKV_UNKNOWN, after qkv_corpus_encode */
    /* private */
    char *raw;
    int64_t *raw_start;
    int64_t start_capacity, ids_capacity, raw_capacity, raw_start_capacity;
};

/* Caller's storage; qkv_corpus_release gives the memory back. Memory is linear in the text. */
struct qkv_corpus {
    int64_t count;        /* pairs kept */
    int64_t *line;        /* [count]: line of the file, from 1 */
    int64_t read;         /* pairs in the file; read - count were dropped */
    int64_t long_sources; /* pairs dropped because the source side is longer than its max_length */
    int64_t long_targets; /* pairs dropped because the target side is; a pair can be in both numbers */
    bool encoded;
    struct qkv_corpus_side source, target;
    /* private */
    int64_t line_capacity;
};

struct qkv_corpus_options {
    bool drop_long; /* drop, and count, pairs of which a side is longer than max_length: for training */
    bool keep_raw;  /* keep the lines as they stood, for qkv_corpus_source and qkv_corpus_target */
};

/* Reads and tokenises parallel text. `path` is one file x.tsv or x.tsv.gz, or `-` for standard input, with
 * lines `source<TAB>target`, or the common prefix of two files that belong together line by line:
 * path.<data.src.lang> and path.<data.trg.lang>, or the same with .gz. Lines may end in CRLF; a byte order
 * mark at the start is skipped.
 *
 * Fails at the first problem with `path:line:column: ...`, columns counted in bytes from 1: a line without a
 * tab or with two, an empty side (white space counts as empty), invalid UTF-8, a NUL byte, two files of
 * different length; and with `path: ...`: a file that is missing, a directory, empty, cut off or damaged
 * (gz), or of which all pairs were dropped. After a failure the corpus is empty. */
QKV_API enum qkv_status qkv_corpus_read(struct qkv_corpus *corpus, const char *path,
                                        const struct qkv_data_config *data, struct qkv_corpus_options options,
                                        struct qkv_error *error);

/* Builds the vocabularies of a corpus that is not yet encoded, by voc_limit and voc_min_freq of each side.
 * With data.joint_vocabulary both are the same, over both sides; their limits must then agree. */
QKV_API enum qkv_status qkv_corpus_vocabularies(const struct qkv_corpus *corpus,
                                                const struct qkv_data_config *data,
                                                struct qkv_vocabulary *source, struct qkv_vocabulary *target,
                                                struct qkv_error *error);

/* Turns types into ids, once. Tokens that the vocabulary lacks become QKV_UNKNOWN. Fails when there is no
 * memory. */
QKV_API enum qkv_status qkv_corpus_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                          const struct qkv_vocabulary *target, struct qkv_error *error);

/* The i-th line as it stood in the file, without its line end; needs options.keep_raw. */
QKV_API const char *qkv_corpus_source(const struct qkv_corpus *corpus, int64_t i);
QKV_API const char *qkv_corpus_target(const struct qkv_corpus *corpus, int64_t i);

/* A CRC-32 of what training sees of an encoded corpus, its ids, and of the lines where they are kept: tells
 * whether a text is still the one that it was. */
QKV_API uint32_t qkv_corpus_checksum(const struct qkv_corpus *corpus);

QKV_API void qkv_corpus_release(struct qkv_corpus *corpus);

/* ---- Single sentences ---- */

/* One tokenised sentence in storage that the next one reuses. All zero is valid and empty. */
struct qkv_sentence {
    struct qkv_tokens tokens; /* the text of the tokens: what an attention map shows, unknown words too */
    int32_t *ids;             /* [tokens.count], without <s> and </s> */
    int64_t unknown;          /* how many are QKV_UNKNOWN */
    /* private */
    int64_t ids_capacity;
};

/* Tokenises and looks up; fails like qkv_tokenize. */
QKV_API enum qkv_status qkv_sentence_encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                            const struct qkv_vocabulary *vocabulary, const char *line,
                                            size_t size, struct qkv_error *error);

QKV_API void qkv_sentence_release(struct qkv_sentence *sentence);

/* Reads sentences from a stream, line by line, as they come. Set the first four fields, the rest zero. */
struct qkv_sentence_reader {
    FILE *file;
    const char *name; /* of the stream in messages: "<stdin>" */
    const struct qkv_text_config *text;
    const struct qkv_vocabulary *vocabulary;
    int64_t line;    /* of the current sentence, from 1 */
    const char *raw; /* the line without its line end */
    /* tokens.count is 0 for an empty line; may be longer than text->max_length */
    struct qkv_sentence sentence;
    /* private */
    char *buffer;
    size_t buffer_size;
};

/* Reads the next sentence; `*found` becomes false at the end. Fails with `name:line:column: ...` on invalid
 * UTF-8 or a NUL byte, and with `name: ...` when reading fails. */
QKV_API enum qkv_status qkv_sentence_reader_next(struct qkv_sentence_reader *reader, bool *found,
                                                 struct qkv_error *error);

/* Gives the memory back; does not close the file. */
QKV_API void qkv_sentence_reader_release(struct qkv_sentence_reader *reader);

#endif
