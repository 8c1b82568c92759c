/* Prepared corpora: a training text as ids in a file x.prepared, which is mapped into memory instead of being read, so that
 * it may be larger than memory. qkv_corpus_prepare writes it, qkv_corpus_read opens it.
 *
 * The file is a header and then the sections, each of which starts at a multiple of 8 bytes, with zeros between. Numbers are in
 * the byte order of the machine that wrote them. The header has the CRC-32 of itself and of each section. */
#pragma once

#include "qkv/corpus.h"

#include <string.h>

#define QKV_PREPARED_SUFFIX ".prepared"

/* The format that this version writes and reads. */
#define QKV_PREPARED_MAGIC "qkv prepared 1\n"

/* A number that reads differently in each byte order. */
#define QKV_PREPARED_BYTE_ORDER 0x0102030405060708u

/* The sections in their order. A section of each side is there twice: source, then target. */
enum qkv_prepared_section_name {
    QKV_PREPARED_SETTINGS, /* text: `key=value` of each key of data, except paths; and joiners=true, if tokens have them */
    QKV_PREPARED_VOCABULARY, /* text: as qkv_vocabulary_save writes it */
    QKV_PREPARED_MERGES =
        QKV_PREPARED_VOCABULARY + 2,               /* text: as qkv_bpe_save; empty: the level is not bpe */
    QKV_PREPARED_PIECES = QKV_PREPARED_MERGES + 2, /* text: as qkv_bpe_save_pieces; empty: all are kept */
    QKV_PREPARED_LINES = QKV_PREPARED_PIECES + 2,  /* int64 [count]: as `line` of struct qkv_corpus */
    QKV_PREPARED_STARTS,                           /* int64 [count + 1]: as `start` of its sides */
    QKV_PREPARED_IDS = QKV_PREPARED_STARTS + 2,    /* int32 [tokens]: as `ids` of its sides */
    QKV_PREPARED_SECTIONS = QKV_PREPARED_IDS + 2,
};

struct qkv_prepared_section {
    uint64_t offset, size; /* in bytes */
    uint64_t checksum;
};

struct qkv_prepared_header {
    char magic[16];
    uint64_t byte_order;
    uint64_t checksum;                               /* of the header, with 0 here */
    int64_t count, read, long_sources, long_targets; /* as in struct qkv_corpus */
    uint64_t corpus_checksum;                        /* qkv_corpus_checksum */
    struct {
        int64_t tokens, longest, unknown;
        int64_t vocabulary_size;
        uint64_t merges_checksum; /* qkv_bpe_checksum; 0: the level is not bpe */
    } side[2];
    struct qkv_prepared_section section[QKV_PREPARED_SECTIONS];
};

/* Whether a path is named like a prepared corpus. */
static inline bool qkv_is_prepared(const char *path)
{
    size_t size = strlen(path), suffix = sizeof QKV_PREPARED_SUFFIX - 1;
    return size > suffix && !strcmp(path + size - suffix, QKV_PREPARED_SUFFIX);
}

/* Says that a prepared corpus stands in the place of a text. */
static inline enum qkv_status qkv_prepared_refuse(const char *path, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: is a prepared corpus, which only data.train can be: give the text",
                         path);
}

/* The CRC-32 of a header with 0 in place of its checksum. */
uint32_t qkv_prepared_checksum(const struct qkv_prepared_header *header);

/* Sets where the sections are, and the sizes of those that follow from counts. Returns the size of the file. */
uint64_t qkv_prepared_lay_out(struct qkv_prepared_header *header);

/* The settings as text, in memory that the caller frees; NULL: no memory. */
char *qkv_prepared_settings(const struct qkv_data_config *data);

/* Refuses BPE dropout: a prepared corpus has the same pieces in each epoch. */
enum qkv_status qkv_prepared_check_dropout(const char *path, const struct qkv_data_config *data,
                                           struct qkv_error *error);

/* ---- for qkv_corpus_read and the functions that follow it ---- */

/* Maps the file, checks all of its contents, and makes the corpus point into it. Fails with `path: ...` when the file is not a
 * complete prepared corpus, when it was prepared with other settings than `data` or with other merges, and when the
 * options need the text. The caller releases the corpus even after a failure. */
enum qkv_status qkv_prepared_open(struct qkv_corpus *corpus, const char *path,
                                  const struct qkv_data_config *data, struct qkv_corpus_options options,
                                  struct qkv_error *error);

/* Sets the merges of the sides whose level is bpe, as qkv_corpus_merges does. */
enum qkv_status qkv_prepared_merges(const char *path, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                                    struct qkv_error *error);

/* Reads the vocabularies of an open corpus. */
enum qkv_status qkv_prepared_vocabularies(const struct qkv_corpus *corpus, struct qkv_vocabulary *source,
                                          struct qkv_vocabulary *target, struct qkv_error *error);

/* Marks the corpus as encoded. Refuses vocabularies other than those that the ids were made with. */
enum qkv_status qkv_prepared_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                    const struct qkv_vocabulary *target, struct qkv_error *error);

/* Unmaps the file; the corpus is then empty. */
void qkv_prepared_close(struct qkv_corpus *corpus);

/* ---- texts that are larger than memory ---- */

/* Writes the training text at `path` to `file`, x.prepared: the ids of the pairs that drop_long keeps, the vocabularies and
 * merges that produced the ids, and the values of `data` on which they depend. The text is read twice, for byte-pair
 * encoding up to four times; memory grows only with the number of types.
 *
 * `vocabularies`: the vocabularies of source and target, for example of a run; the merges are then `bpe` of both sides of
 * `data`. NULL: builds vocabularies and merges from the text, as qkv_corpus_vocabularies and qkv_corpus_merges do.
 *
 * When `file` is then passed to qkv_corpus_merges and qkv_corpus_read as the path, the result is the same corpus as from
 * `path`, but its arrays are read-only views of the mapped file: the system reads a page when it is used, and drops it when
 * memory is short. Do not change the file while a corpus is open: if it became shorter, a signal would end the process.
 * Replacing it by a new file, as this function does, is safe. qkv_corpus_read checks the complete file, and fails with
 * `file: ...` when it is damaged or was written by another version of qkv, when `data` has another value or other merges,
 * and with options.keep_raw or without options.drop_long; qkv_corpus_encode fails for other vocabularies.
 *
 * Fails, and writes no file, as qkv_corpus_merges and qkv_corpus_read do, if the name of `file` does not end in .prepared,
 * if it cannot be written, and with bpe_dropout, which cuts words differently in each epoch. *header: that of the file. */
enum qkv_status qkv_corpus_prepare(const char *file, const char *path, const struct qkv_data_config *data,
                                   const struct qkv_vocabulary *const vocabularies[2],
                                   struct qkv_prepared_header *header, struct qkv_error *error);
