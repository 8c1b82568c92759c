/* Private: parallel text, read pair by pair; vocabularies and corpora for the library itself. */
#pragma once

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

/* Set path, data, options, and `config` of both sides, and the rest to zero. A text without pairs (data.text) is read as pairs
 * whose source is empty. */
struct qkv_parallel_text {
    const char *path;
    const struct qkv_data_config *data;
    struct qkv_corpus_options options;
    const struct qkv_text_config *config[2];
    struct qkv_pair_lines pairs;
    /* Of the current pair */
    const char *raw[2]; /* each with a NUL */
    size_t size[2];     /* bytes, without the NUL */
    struct qkv_tokens tokens[2];
    int64_t read, kept, long_one[2]; /* pairs; as in struct qkv_corpus */
    /* Of a text without pairs: bytes before the next line, and those of the part for training; the current paragraph */
    int64_t bytes, train_bytes, paragraph_capacity;
    char *paragraph;
    const char **file; /* [files], of which the first `opened` are open or read */
    int64_t files, opened;
    struct qkv_arena arena;
    bool is_dev, is_in_paragraph; /* of the last line */
};

/* Tokens that sentence i of a side has in a batch: with its </s>, but for windows, whose tokens are those of the text. A source
 * that does not exist has none. */
static inline int64_t qkv_source_rows(const struct qkv_corpus *corpus, int64_t i)
{
    return corpus->source.start[i + 1] - corpus->source.start[i] + (corpus->sides.has_source);
}

static inline int64_t qkv_target_rows(const struct qkv_corpus *corpus, int64_t i)
{
    return corpus->target.start[i + 1] - corpus->target.start[i] + !corpus->sides.runs_on;
}

/* Reads and tokenises the next pair that options.drop_long does not drop; the first call opens the text. *found becomes false
 * at the end. Fails as qkv_corpus_read does. The caller releases the text. */
enum qkv_status qkv_parallel_text_next(struct qkv_parallel_text *text, bool *found, struct qkv_error *error);

void qkv_parallel_text_release(struct qkv_parallel_text *text);

/* Adds a sentence to a CRC-32: its ids as little-endian numbers, then -1. */
unsigned long qkv_ids_checksum(unsigned long sum, const int32_t *ids, int64_t count);

/* ---- vocabularies ---- */

/* Adds to `types` those of a text that occur at least `minimum` times there. False when there is no memory. */
bool qkv_types_add_frequent(struct qkv_types *types, const struct qkv_types *text, int64_t minimum);

/* Builds one vocabulary for `count` texts (two texts: a joint vocabulary): the special tokens, then the types, the most
 * frequent first; types of equal frequency in the order of their bytes, so that the order of the text has no effect. It
 * leaves out types that occur less often than `minimum`, types beyond the first `limit` (special tokens not counted; 0: no
 * limit), and types that are spelled like a special token: "</s>" in a text is an unknown word. Fails when there is no
 * memory. */
enum qkv_status qkv_vocabulary_build(struct qkv_vocabulary *vocabulary, int64_t count,
                                     const struct qkv_types *const *texts, int64_t limit, int64_t minimum,
                                     struct qkv_error *error);

/* The first id whose token differs, or that only one of the vocabularies has; -1: they are the same. */
int32_t qkv_vocabulary_difference(const struct qkv_vocabulary *a, const struct qkv_vocabulary *b);

/* The CRC-32 of the file that qkv_vocabulary_save writes. A checkpoint stores it and refuses another vocabulary. */
uint32_t qkv_vocabulary_checksum(const struct qkv_vocabulary *vocabulary);

/* ---- corpora ---- */

/* Cuts the words of an encoded corpus into other pieces, where bpe_dropout of a side is above 0 and the corpus was read
 * with options.bpe_dropout: a pure function of seed, epoch, side and sentence (Provilkov et al. 2020). At each step of
 * cutting a word, each place where a merge applies is skipped with the probability bpe_dropout; a sentence that would
 * become longer than max_length is cut without dropout. Until the first call, all words are cut without dropout. Afterwards
 * batches must be planned again with qkv_batches_epoch: qkv_batches_get refuses until then. Running text is divided into
 * complete windows of another beginning, from 0 to context - 1; what is left at its ends, less than two windows, is left out.
 * The values of `data` are those that qkv_corpus_read saw; the merges must still exist. Does not call malloc. Does nothing
 * where no side has dropout and the text has pairs, or is shorter than two windows. */
void qkv_corpus_resample(struct qkv_corpus *corpus, uint64_t seed, int64_t epoch);

/* A CRC-32 of the ids of an encoded corpus and, with keep_raw, of its lines, to detect a changed text. 0 before the corpus
 * is encoded. */
uint32_t qkv_corpus_checksum(const struct qkv_corpus *corpus);
