/* Parallel text: from files to ids, a whole corpus or sentence by sentence.
 *
 * Example:
 *     const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_WORD, .max_length = 100, .voc_min_freq = 1};
 *     const struct qkv_data_config data = {.src = text, .trg = text};
 *     struct qkv_corpus corpus = {0};
 *     struct qkv_vocabulary source = {0}, target = {0};
 *     struct qkv_error error;
 *     if (qkv_corpus_read(&corpus, "train.tsv", &data, (struct qkv_corpus_options){.drop_long = true}, &error) ||
 *         qkv_corpus_vocabularies(&corpus, &data, &source, &target, &error) ||
 *         qkv_corpus_encode(&corpus, &source, &target, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     qkv_corpus_release(&corpus);
 *     qkv_vocabulary_release(&source);
 *     qkv_vocabulary_release(&target);
 *
 * A corpus is read in two steps, so that the training text is tokenised only once and its vocabularies can be built from
 * it. After qkv_corpus_read, `ids` holds type numbers: the indices of the tokens in `types`. qkv_corpus_encode replaces
 * them by ids of the vocabularies, which come from qkv_corpus_vocabularies or from a run. */
#ifndef QKV_CORPUS_H
#define QKV_CORPUS_H

#include "qkv/base.h"
#include "qkv/config.h"
#include "qkv/tokenizer.h"
#include "qkv/vocabulary.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- parallel corpus ---- */

/* One side of a corpus: its sentences, one after another. */
struct qkv_corpus_side {
    int64_t *start; /* [count + 1]: sentence i is ids[start[i]] .. ids[start[i + 1] - 1], without <s>, </s> */
    int32_t *ids; /* [start[count]]: numbers in `types` until qkv_corpus_encode, then ids of the vocabulary */
    struct qkv_types types; /* of the kept sentences; empty after qkv_corpus_encode */
    int32_t *
        word; /* [start[count]]: the word of each token, as in qkv_tokens.word; NULL without options.keep_words */
    int64_t longest; /* tokens of the longest sentence that was kept */
    int64_t unknown; /* tokens that are QKV_UNKNOWN, after qkv_corpus_encode */
    /* private */
    struct qkv_bpe_dropout *dropout; /* NULL: the pieces are the same in each epoch */
    char *raw;
    int64_t *raw_start;
    int64_t start_capacity, ids_capacity, word_capacity, raw_capacity, raw_start_capacity;
};

/* Caller's storage; qkv_corpus_release frees the memory, which is proportional to the text. */
struct qkv_corpus {
    int64_t count;        /* pairs that were kept */
    int64_t *line;        /* [count]: line of the file, from 1 */
    int64_t read;         /* pairs in the file; read - count were dropped */
    int64_t long_sources; /* pairs dropped because the source side is longer than its max_length */
    int64_t long_targets; /* the same for the target side; a pair can count in both */
    bool encoded;
    struct qkv_corpus_side source, target;
    /* private */
    struct qkv_prepared *prepared; /* the mapped file that the arrays are in; NULL: they are in memory */
    bool types_only;
    int64_t resampled; /* calls of qkv_corpus_resample that have cut the words again */
    int64_t line_capacity;
    uint32_t checksum;
};

struct qkv_corpus_options {
    bool drop_long; /* for training: drop, and count, pairs with a side longer than its max_length */
    /* For training: keep the words of each side with bpe_dropout, for qkv_corpus_resample; needs drop_long. */
    bool bpe_dropout;
    /* Keep no sentences, only `types`, `longest` and the counts, so that memory grows only with the number of types.
     * Vocabularies can be built from such a corpus, but it cannot be encoded. Without effect: keep_raw and keep_words. */
    bool types_only;
    bool keep_raw; /* keep the original lines for qkv_corpus_source and qkv_corpus_target */
    /* Keep which word each token is part of. Refused for a side that bpe_dropout cuts anew in each epoch. */
    bool keep_words;
    int64_t max_pairs; /* keep only this many pairs and check the rest; 0: all. Not with types_only */
    /* Lines of a .tsv may have a second tab; what follows it, such as links, is not read. */
    bool third_column;
    /* Config key of the path, which the message about a missing text suggests to set; NULL: none */
    const char *key;
};

/* Reads and tokenises parallel text. `path` is one file x.tsv or x.tsv.gz, or `-` for standard input, with lines
 * `source<TAB>target`; or it is the common prefix of two line-aligned files, path.<data.src.lang> and path.<data.trg.lang>,
 * which may end in .gz; or it is a file x.prepared of qkv_corpus_prepare. Lines may end in CRLF; a byte order mark at the
 * start is skipped.
 *
 * Fails at the first error. With `path:line:column: ...`, where columns count bytes from 1: a line without a tab or with
 * two (unless options.third_column), a side that is empty or white space, two files of different length, and what
 * qkv_lines_next refuses. With `path: ...`: a file that is missing, a folder, empty, truncated or damaged (gz), or
 * whose pairs were all dropped. After a failure the corpus is empty. */
QKV_API enum qkv_status qkv_corpus_read(struct qkv_corpus *corpus, const char *path,
                                        const struct qkv_data_config *data, struct qkv_corpus_options options,
                                        struct qkv_error *error);

/* Merges in the order in which they were learned, by byte-pair encoding (Sennrich, Haddow and Birch 2016): those of the authors' program
 * subword-nmt 0.3.8, bit for bit. They do not change and may be shared between threads. */
struct qkv_bpe;

/* Learns or reads the merges of the sides whose level is bpe: those of the codes file `bpe_codes`, else
 * `num_merges` merges from the text at `path`, with data->joint_vocabulary from both sides together. If bpe_min_freq of a
 * side is above 0, cutting then keeps only pieces that occur at least that often in the text at `path`, pairs with long
 * sentences included. Sets `bpe` of both sides of `data` (NULL at other levels); the caller frees the merges with
 * qkv_bpe_free, also after a failure. qkv_corpus_read will read the text again, so `path` must be a file, not standard
 * input. Fails as qkv_corpus_read does, and when a codes file is not one of
 * subword-nmt 0.3, or the text has fewer merges. */
QKV_API enum qkv_status qkv_corpus_merges(const char *path, struct qkv_data_config *data,
                                          struct qkv_bpe *bpe[2], struct qkv_corpus_options options,
                                          struct qkv_error *error);

/* NULL is allowed. */
QKV_API void qkv_bpe_free(struct qkv_bpe *bpe);

/* Builds the vocabularies of a corpus that is not yet encoded, with the voc_limit and voc_min_freq of each side. With
 * data.joint_vocabulary, both are the same vocabulary of both sides; their limits must then agree. Fails when they do not,
 * or when there is no memory. */
QKV_API enum qkv_status qkv_corpus_vocabularies(const struct qkv_corpus *corpus,
                                                const struct qkv_data_config *data,
                                                struct qkv_vocabulary *source, struct qkv_vocabulary *target,
                                                struct qkv_error *error);

/* Replaces type numbers by ids. Tokens that the vocabulary lacks become QKV_UNKNOWN. Fails when the corpus is encoded
 * already, and when there is no memory: then the corpus is empty. */
QKV_API enum qkv_status qkv_corpus_encode(struct qkv_corpus *corpus, const struct qkv_vocabulary *source,
                                          const struct qkv_vocabulary *target, struct qkv_error *error);

/* Cuts the words of an encoded corpus into other pieces, where bpe_dropout of a side is above 0 and the corpus was read
 * with options.bpe_dropout: a pure function of seed, epoch, side and sentence (Provilkov et al. 2020). At each step of
 * cutting a word, each place where a merge applies is skipped with the probability bpe_dropout; a sentence that would
 * become longer than max_length is cut without dropout. Until the first call, all words are cut without dropout. Afterwards
 * batches must be planned again with qkv_batches_epoch: qkv_batches_get refuses until then. The values of `data` are those
 * that qkv_corpus_read saw; the merges must still exist. Does not call malloc. Does nothing where no side has dropout. */
QKV_API void qkv_corpus_resample(struct qkv_corpus *corpus, uint64_t seed, int64_t epoch);

/* The source or target side of pair i, 0 <= i < count, exactly as in the file, without tab and line end. i counts only the
 * kept pairs; the line number in the file is corpus->line[i]. Lives as long as the corpus. NULL without options.keep_raw,
 * and when there is no such pair. */
QKV_API const char *qkv_corpus_source(const struct qkv_corpus *corpus, int64_t i);
QKV_API const char *qkv_corpus_target(const struct qkv_corpus *corpus, int64_t i);

/* A CRC-32 of the ids of an encoded corpus and, with keep_raw, of its lines, to detect a changed text. 0 before the corpus
 * is encoded. */
QKV_API uint32_t qkv_corpus_checksum(const struct qkv_corpus *corpus);

QKV_API void qkv_corpus_release(struct qkv_corpus *corpus);

/* ---- texts that are larger than memory ---- */

/* What qkv_corpus_prepare has written. The counts of pairs mean the same as in struct qkv_corpus. */
struct qkv_prepared_counts {
    int64_t read, count, long_sources, long_targets;
    int64_t tokens[2], unknown[2], vocabulary_size[2]; /* of source and target */
    int64_t bytes;                                     /* of the file */
};

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
 * if it cannot be written, and with bpe_dropout, which cuts words differently in each epoch. */
QKV_API enum qkv_status qkv_corpus_prepare(const char *file, const char *path,
                                           const struct qkv_data_config *data,
                                           const struct qkv_vocabulary *const vocabularies[2],
                                           struct qkv_prepared_counts *counts, struct qkv_error *error);

/* ---- single pairs and sentences ---- */

/* The two sides of a sentence pair as text, each with a NUL. */
struct qkv_pair_texts {
    const char *source, *target;
    size_t source_size, target_size; /* bytes, without the NUL */
};

/* One tokenised sentence; the next one reuses its memory. All zero is valid and empty. */
struct qkv_sentence {
    struct qkv_tokens tokens; /* the tokens as text, unknown words included, for attention maps */
    int32_t *ids;             /* [tokens.count], without <s> and </s> */
    int64_t unknown;          /* tokens that are QKV_UNKNOWN */
    /* The line with other punctuation marks, whose tokens these are, or NULL; the next sentence frees it. */
    char *respelled;
    /* private */
    int64_t ids_capacity;
};

/* Tokenises a line and looks up the ids of its tokens. If fewer tokens are then unknown, the line is read with ' for the
 * typographic apostrophe (U+2019), or the reverse, and likewise with ASCII quotation marks and hyphens for typographic
 * quotation marks and dashes: isn't instead of the unknown isn\u2019t. The text of training and evaluation (struct qkv_corpus)
 * stays as it is. Fails as qkv_tokenize does. */
QKV_API enum qkv_status qkv_sentence_encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                            const struct qkv_vocabulary *vocabulary, const char *line,
                                            size_t size, struct qkv_error *error);

QKV_API void qkv_sentence_release(struct qkv_sentence *sentence);

#endif
