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
#include "qkv/optimizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ======== tokenizers ========
 * Text to tokens and back, by the tokenizer that the config's `level` names (qkv/tokenizers.def).
 *
 * Example:
 *     const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_WORD, .split_punctuation = true};
 *     struct qkv_tokens tokens = {0};
 *     struct qkv_error error;
 *     if (!qkv_tokenize(&tokens, &text, "I don't know.", 13, &error)) // I, don't, know, ￭.
 *         for (int64_t i = 0; i < tokens.count; i++) puts(tokens.token[i]);
 *     qkv_tokens_release(&tokens);
 *
 * Text is UTF-8. It is first converted to normal form C, so that a composed and a decomposed accent give the same token.
 * With `lowercase`, every code point is then mapped to its simple lower case: ß stays ß, ẞ becomes ß, Σ becomes σ, also at
 * the end of a word. White space is every character with the Unicode property White_Space: tab, space, no-break space,
 * ideographic space and others.
 *
 * Joining the tokens of a text gives the text again, in normal form C (with `lowercase`, in lower case), with one space for
 * each run of white space and none at its ends.
 *
 * Level word: white space separates tokens. With `split_punctuation`, each word is split further:
 * - letters, combining marks, digits and format characters such as the zero-width non-joiner stay together;
 * - every punctuation mark or symbol is a token, together with the rest of its user-perceived character (Unicode Standard
 *   Annex 29): an emoji with its joiners and skin tone, or a flag, is one token;
 * - between two characters of a word, these marks stay inside the word, as in Annex 29 and similar to the tokenizer of
 *   Moses: apostrophes (' and ’: don't), full stops (3.14, p.m, EE.UU) and the middle dot (col·lega); between two digits
 *   also comma and colon (1,000, 10:30);
 * - a hyphen (-, U+2010, U+2011) stays with the word on its left: peut-être, Vor- und Nachteile;
 * - in languages with elision (`lang` is fr, it, ca or oc, alone or followed by - or _), a token ends after the
 *   apostrophe: l'homme is l' and homme.
 * The characters ' and ’ stay different. Where no space was between two tokens, one of them has a joiner ￭ (U+FFED) on that
 * side, as with the tokenizer of OpenNMT: the mark that follows a word (Qué ￭?), a mark before the first word (¿￭ Qué) or
 * before a later one (and ￭/￭ or), an elided word (l'￭ homme), or the later of two marks (? ￭!). A ￭ of the text itself is
 * escaped: U+FE0E, a variation selector, follows it.
 *
 * Level char: every user-perceived character is a token, so that no picture shows a combining mark without its letter.
 * White space between words is one token ▁ (U+2581); white space at the ends of the line is dropped. A ▁ of the text itself is
 * escaped as above. `split_punctuation` has no effect.
 *
 * Level bpe: the tokens of level word are cut into pieces by the merges that `bpe` of the config points to;
 * without them, tokenizing fails. Every piece but the last of a word ends in @@: "low@@ er". A last piece that ends in @@
 * itself is escaped. Joiners are on the first and the last piece of a mark or word, and have no effect on where it is cut. */

/* The tokens of one line; the next line reuses the memory. Caller's storage; all zero is valid and empty. */
struct qkv_tokens {
    int64_t count;
    /* [count], NUL-terminated, never empty, without white space; valid until the next line. */
    const char **token;
    /* [count]: the word that the token is part of, from 0; words are separated by white space of ASCII. -1 for ▁. */
    int64_t *word;
    int64_t words; /* number of words of the line */
    /* private */
    char *text;      /* all tokens, each with its NUL; `token` points into it */
    int32_t *points; /* code points of the normalised line */
    int64_t token_capacity, word_capacity, text_capacity, text_size, points_capacity;
    int32_t *pieces; /* of the current word, and the merges of neighbours */
    int64_t pieces_capacity;
};

/* Splits `size` bytes of `line` into tokens; a line of white space has none. Invalid UTF-8 and NUL bytes fail with
 * `column 5: byte 0xFF is not valid UTF-8`, where columns count bytes from 1; `tokens` is then empty. */
QKV_API enum qkv_status qkv_tokenize(struct qkv_tokens *tokens, const struct qkv_text_config *text,
                                     const char *line, size_t size, struct qkv_error *error);

QKV_API void qkv_tokens_release(struct qkv_tokens *tokens);

/* Joins tokens to a line of text in `arena`; NULL when memory runs out or the level is unknown. `tokens` come from
 * qkv_tokenize or from a vocabulary.
 *
 * Level char: tokens are written without space, and ▁ as a space. Level word: a space between tokens; with
 * `split_punctuation`, none where either of two neighbours has a joiner on that side. Two joiners at one place are one, and a
 * joiner at an end of the line has no effect. Level bpe: pieces are first joined to words: a token that ends in @@, but is
 * longer, is joined with the next one. Escapes are taken away.
 *
 * Tokens of runs of format 1 have no joiners; they are joined by rules for Latin and East Asian marks. */
QKV_API char *qkv_detokenize(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                             struct qkv_arena *arena);

/* The index of the word that each token is part of, in the line that qkv_detokenize makes, as in qkv_tokens.word: [count],
 * in the arena. NULL when qkv_detokenize returns NULL. */
QKV_API const int64_t *qkv_token_words(const struct qkv_text_config *text, int64_t count,
                                       const char *const *tokens, struct qkv_arena *arena);

/* ======== vocabularies ========
 * Vocabularies: the tokens that a model knows, with an id each; built from the token types of a text.
 *
 * Example:
 *     struct qkv_vocabulary vocabulary = {0};
 *     struct qkv_error error;
 *     if (!qkv_vocabulary_load(&vocabulary, "runs/x/source.vocabulary", &error)) {
 *         int32_t id = qkv_vocabulary_id(&vocabulary, "house"); // QKV_UNKNOWN if the model does not know it
 *         puts(qkv_vocabulary_token(&vocabulary, id));
 *     }
 *     qkv_vocabulary_release(&vocabulary);
 */

/* The ids of the special tokens, the same in every vocabulary. */
enum {
    QKV_UNKNOWN = 0,  /* <unk>: every token that the vocabulary lacks */
    QKV_BEGIN = 1,    /* <s>: the first input of the decoder */
    QKV_END = 2,      /* </s>: the end of every source sentence and every target sentence */
    QKV_SPECIALS = 3, /* the number of special tokens and the id of the first ordinary one */
};

/* Caller's storage. Once built or loaded, it does not change and may be shared between threads. */
struct qkv_vocabulary {
    int32_t size; /* special tokens included: ids are 0 .. size-1 */
    /* The tokens, by id; frequencies are 0 for special tokens, and for all after a load */
    struct qkv_types types;
};

/* The id of a token of a text; QKV_UNKNOWN when the vocabulary does not have the token or it is spelled like a special
 * token. A punctuation mark that the vocabulary has only with other joiners (qkv_tokenize) is that one. */
QKV_API int32_t qkv_vocabulary_id(const struct qkv_vocabulary *vocabulary, const char *token);

/* The token of an id, 0 <= id < size, else NULL; lives as long as the vocabulary. */
QKV_API const char *qkv_vocabulary_token(const struct qkv_vocabulary *vocabulary, int32_t id);

/* The tokens of the ids of a sentence, as qkv_vocabulary_token: [count], in the arena; NULL when there is no memory. */
QKV_API const char **qkv_vocabulary_tokens(const struct qkv_vocabulary *vocabulary, int64_t count,
                                           const int32_t *ids, struct qkv_arena *arena);

/* Writes one token per line, in the order of the ids. Fails for a token that qkv_vocabulary_load would refuse: one that is
 * empty, contains white space, or is not valid UTF-8. On failure the file is left as it was. */
QKV_API enum qkv_status qkv_vocabulary_save(const struct qkv_vocabulary *vocabulary, const char *path,
                                            struct qkv_error *error);

/* Reads a file of qkv_vocabulary_save. Fails with `path:line: ...` for a file that does not begin with the special tokens,
 * an empty line, white space in a token, a repeated token, invalid UTF-8, a NUL byte, and a last line without a newline,
 * as in a truncated file. After a failure the vocabulary is empty. */
QKV_API enum qkv_status qkv_vocabulary_load(struct qkv_vocabulary *vocabulary, const char *path,
                                            struct qkv_error *error);

QKV_API void qkv_vocabulary_release(struct qkv_vocabulary *vocabulary);

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
    /* Those of the texts. Without pairs, all sources are empty. Of running text, sentences are windows once the corpus is
     * encoded, and `target` has </s> before the first and after each line. */
    struct qkv_sides sides;
    int64_t context;           /* tokens of a window */
    int64_t characters, words; /* of all targets; each line end, or end of a sentence, is a character */
    /* private */
    struct qkv_prepared *prepared; /* the mapped file that the arrays are in; NULL: they are in memory */
    int64_t tokens;                /* of running text, without the first </s> */
    bool types_only;
    int64_t resampled; /* how often training has cut the words again */
    int64_t line_capacity;
    uint32_t checksum;
};

/* The part of a text that data.dev_share divides. */
enum qkv_corpus_part { QKV_PART_ALL, QKV_PART_TRAIN, QKV_PART_DEV };

struct qkv_corpus_options {
    enum qkv_corpus_part part;
    bool drop_long; /* for training: drop, and count, pairs with a side longer than its max_length */
    /* For training: keep the words of each side with bpe_dropout, which is cut anew in each epoch; needs drop_long. */
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
 * which may end in .gz; or it is a file x.prepared of `qkv prepare`. If data->text is not pairs, `path` is a text file, or `-`.
 * Lines may end in CRLF; a byte order mark at the start is skipped.
 *
 * Fails at the first error. With `path:line:column: ...`, where columns count bytes from 1: a line without a tab or with
 * two (unless options.third_column), a side that is empty or white space, two files of different length, and what is not
 * text: invalid UTF-8, a NUL byte, a far too long line. With `path: ...`: a file that is missing, a folder, empty,
 * truncated or damaged (gz), or whose pairs were all dropped. After a failure the corpus is empty. */
QKV_API enum qkv_status qkv_corpus_read(struct qkv_corpus *corpus, const char *path,
                                        const struct qkv_data_config *data, struct qkv_corpus_options options,
                                        struct qkv_error *error);

/* Merges in the order in which they were learned, by byte-pair encoding (Sennrich, Haddow and Birch 2016): those of the
 * authors' program subword-nmt 0.3.8, bit for bit. They do not change and may be shared between threads. */
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

/* The source or target side of pair i, 0 <= i < count, exactly as in the file, without tab and line end. i counts only the
 * kept pairs; the line number in the file is corpus->line[i]. Lives as long as the corpus. NULL without options.keep_raw,
 * and when there is no such pair. */
QKV_API const char *qkv_corpus_source(const struct qkv_corpus *corpus, int64_t i);
QKV_API const char *qkv_corpus_target(const struct qkv_corpus *corpus, int64_t i);

QKV_API void qkv_corpus_release(struct qkv_corpus *corpus);

/* ---- single pairs and sentences ---- */

/* The two sides of a sentence pair as text, each with a NUL. */
struct qkv_pair_texts {
    const char *source, *target;
};

/* One tokenised sentence; the next one reuses its memory. All zero is valid and empty. */
struct qkv_sentence {
    struct qkv_tokens tokens; /* the tokens as text, unknown words included, for attention maps */
    int32_t *ids;             /* [tokens.count], without <s> and </s> */
    int64_t unknown;          /* tokens that are QKV_UNKNOWN */
    /* The line in another spelling, whose tokens these are, or NULL; the next sentence frees it. */
    char *respelled;
    /* Set by the caller: spell also the case and the marks around a word as the vocabulary has them. */
    bool as_trained;
    /* private */
    int64_t ids_capacity;
};

/* Tokenises a line and looks up the ids of its tokens. If fewer tokens are then unknown, the line is read with ' for the
 * typographic apostrophe (U+2019), or the reverse, and likewise with ASCII quotation marks and hyphens for typographic
 * quotation marks and dashes: isn't instead of the unknown isn\u2019t. With as_trained, an unknown word is also read in
 * another case, without the punctuation marks around it or, if it is the last one, with another final mark, whichever leaves
 * the fewest unknown tokens: `The cat sleeps.` becomes `the cat sleeps`. The text of training and evaluation (struct
 * qkv_corpus) stays as it is. Fails as qkv_tokenize does. */
QKV_API enum qkv_status qkv_sentence_encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                            const struct qkv_vocabulary *vocabulary, const char *line,
                                            size_t size, struct qkv_error *error);

QKV_API void qkv_sentence_release(struct qkv_sentence *sentence);

/* ======== batches ========
 * Batches of sentence pairs, packed without padding, and their order in each epoch.
 *
 * Example:
 *     const int32_t hello[] = {5, 7}, world[] = {6};
 *     const struct qkv_ids source[] = {{2, hello}, {1, world}};
 *     struct qkv_batch batch = {0};
 *     struct qkv_error error;
 *     if (!qkv_batch_make(&batch, 2, source, NULL, &error)) // 5 7 </s> 6 </s>
 *         printf("%lld source tokens\n", (long long)batch.source_tokens);
 *     qkv_batch_release(&batch);
 *
 * Training makes batches of a corpus: qkv_batches_init, then for each epoch qkv_batches_epoch and qkv_batches_get. */

/* ---- one batch ---- */

/* B sentence pairs, one after another:
 * - source: the source sentences, each with </s> at its end;
 * - target_input: the input of the decoder, <s> y1 .. yn for each sentence;
 * - target_output: what the decoder must predict, y1 .. yn </s>, at the same offsets as target_input.
 * Caller's storage; all zero is valid and empty. Filling a batch again reuses its memory. */
struct qkv_batch {
    int64_t count;          /* B */
    int64_t source_tokens;  /* Ns */
    int64_t target_tokens;  /* Nt */
    int64_t *index;         /* [B]: position of each pair in its corpus */
    int32_t *source;        /* [Ns] */
    int64_t *source_start;  /* [B + 1]: offset of each sentence in `source`; [B] is Ns */
    int64_t *source_length; /* [B] */
    int32_t *target_input;  /* [Nt] */
    int32_t *target_output; /* [Nt] */
    int64_t *target_start;  /* [B + 1]: offsets in target_input and target_output; [B] is Nt */
    int64_t *target_length; /* [B] */
    /* [Ns]: true for source tokens that attention must ignore, in the caller's memory; NULL: none. Filling the batch sets
     * it to NULL */
    const bool *source_masked;
    /* Likewise for self-attention of the decoder, [Nt] tokens of target_input. For decoding, which has no target side: the
     * tokens of each hypothesis, as many as it may have */
    const bool *target_masked;
    /* private */
    /* [B]: offset of each sentence from the first token of its shard; views point into it */
    int64_t *view_source_start, *view_target_start;
    int64_t sentence_capacity, source_capacity, target_capacity;
};

/* Consecutive sentences of a batch, in the batch's memory. Every array begins at the first sentence of the view, and every
 * start counts from the view's first token, so that source_start and source_length can be used as segments (struct
 * qkv_segments) of a graph of the view's tokens. Passes and decodings refuse a view whose sentences do not follow one
 * another without gaps. */
struct qkv_batch_view {
    int64_t count, source_tokens, target_tokens;
    int64_t first; /* position of the view's first sentence in the batch */
    const int64_t *index;
    const int32_t *source;
    const int64_t *source_start, *source_length; /* [count] */
    const int32_t *target_input, *target_output;
    const int64_t *target_start, *target_length; /* [count] */
    const bool *source_masked;                   /* [source_tokens]; NULL: nothing is masked */
    const bool *target_masked;                   /* [target_tokens], see above; NULL: nothing is masked */
};

/* A sentence given by its ids, without <s> and </s>. */
struct qkv_ids {
    int64_t length;
    const int32_t *ids;
};

/* Makes a batch of `count` given sentences and adds <s> and </s>. `target` NULL: no target side, for translation
 * (target_tokens and all target lengths are 0). `source` NULL: no source side, for a language model. index is 0 .. count-1.
 * Fails, and leaves the batch as it was, when a count or length is negative; when memory runs out, the batch is empty. */
QKV_API enum qkv_status qkv_batch_make(struct qkv_batch *batch, int64_t count, const struct qkv_ids *source,
                                       const struct qkv_ids *target, struct qkv_error *error);

/* Makes a view of shard number `shard` when a batch is split into `shards`. Shards are consecutive
 * sentences, split where the sum of source and target tokens is closest to equal parts. Every
 * sentence is in one shard; a shard can be empty. The result depends only on the batch and the two
 * numbers. The view is valid until the batch is filled again or split into another number of
 * shards. Different shards may be requested from different threads. The view is empty when there is
 * no such shard: a negative number, one that is not below `shards`, or more than QKV_SHARDS_MAX shards. */
QKV_API void qkv_batch_shard(struct qkv_batch *batch, int64_t shard, int64_t shards,
                             struct qkv_batch_view *view);

QKV_API void qkv_batch_release(struct qkv_batch *batch);

/* ---- the batches of a corpus ---- */

enum qkv_batch_order {
    QKV_BATCH_ORDER_CORPUS,   /* that of the corpus */
    QKV_BATCH_ORDER_LENGTH,   /* by length, longest last; batch.index has the original positions */
    QKV_BATCH_ORDER_SHUFFLED, /* different in each epoch; a batch holds sentences of similar length */
};

struct qkv_batches_options {
    enum qkv_batch_type type;
    /* Limit of a batch. sentence: number of sentences. token: number of tokens, with </s>, of the side that has more; a
     * longer sentence is a batch of its own */
    int64_t size;
    enum qkv_batch_order order;
    uint64_t seed; /* shuffled only */
};

/* The batches of one epoch. Caller's storage, which qkv_batches_init sets.
 *
 * Shuffled order: position i of an epoch holds the sentence that a keyed bijection of i gives, so
 * that the order of a corpus is a function of seed, epoch and number of sentences. The positions are divided into
 * consecutive pools, each large enough for about 64 batches of average length. Each pool is sorted by length and split into
 * batches, and its batches are shuffled. Only one pool is in memory at a time: 32 bytes for each of its sentences and 8
 * bytes for each pool of the epoch. The other orders take 32 bytes for each sentence of the corpus. */
struct qkv_batches {
    const struct qkv_corpus *corpus;
    struct qkv_batches_options options;
    int64_t epoch;
    int64_t count; /* batches of this epoch; it can differ between epochs when their size is in tokens */
    /* private */
    int64_t pool_size;    /* sentences of a pool; the last one can have fewer */
    int64_t *first_batch; /* [pools + 1]: where the batches of each pool begin in the epoch */
    int64_t pool;         /* the pool that the following arrays describe */
    int64_t pool_batches;
    int64_t *order;    /* [pool_size]: positions in the corpus, batch by batch */
    int64_t *scratch;  /* [pool_size]: for sorting */
    int64_t *start;    /* [pool_batches + 1]: where each batch begins in `order` */
    int64_t *sequence; /* [pool_batches]: the batches, in the order in which they are used */
    int64_t max_sentences, max_source_tokens, max_target_tokens; /* of any batch in any epoch */
    int64_t resampled; /* that of the corpus when the epoch was planned */
};

/* Reserves the memory for every epoch and plans epoch 0. The corpus must be encoded and outlive the batches. options.size
 * must be above 0, and its type and order must exist. Fails otherwise, and when memory runs out. */
QKV_API enum qkv_status qkv_batches_init(struct qkv_batches *batches, const struct qkv_corpus *corpus,
                                         struct qkv_batches_options options, struct qkv_error *error);

/* Plans an epoch (0 .. 2^32-1; others are taken modulo 2^32). The result depends only on corpus, options and epoch, so that
 * a resumed run continues exactly. Every sentence is in one batch. Does not call malloc. */
QKV_API void qkv_batches_epoch(struct qkv_batches *batches, int64_t epoch);

/* Fills `batch` with batch i of the epoch, 0 <= i < count. The first call reserves the memory of the largest batch of any
 * epoch; later calls with the same `batch` do not call malloc. In the shuffled order, plans the pool of batch i if the
 * previous call was for another pool: ask for batches in their order, and from one thread. In the other orders, different
 * batches may be filled from different threads. Fails when there is no such batch or no memory, and when the words
 * of the corpus were cut anew since the epoch was planned. */
QKV_API enum qkv_status qkv_batches_get(struct qkv_batches *batches, int64_t i, struct qkv_batch *batch,
                                        struct qkv_error *error);

QKV_API void qkv_batches_release(struct qkv_batches *batches);

/* ======== sentence pairs from files of any form ========
 * Reads sentence pairs from files whose exact form is not known beforehand: tables with more than two columns, as Anki and
 * Tatoeba export them, or two line-aligned files; also with blank lines, a header, or sentences without a translation.
 * qkv_corpus_read reads only the strict form that training uses.
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

/* What to read. */
struct qkv_pairs_request {
    /* A table with one pair per line and tabs between its columns, CSV, or JSON lines, "-" for standard input; or, with
     * `target`, the first of two files with one sentence per line; or, if no file has this path, the common prefix of two
     * files: PATH.L1, PATH.L2. */
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
    int64_t joined;      /* quoted cells with line breaks, which became spaces */
    int64_t joined_pair; /* the first pair, from 1, with such a cell; 0: none */
    const char *format;  /* of a table: "JSON lines", "CSV with commas", "CSV with semicolons"; NULL: tabs */
    char *path[2];       /* both the same for a table */
    char lang[2][16];    /* language codes; "" if unknown */
    int64_t anki_lines;  /* header lines of an export from Anki (#separator:tab), which were skipped */
    /* Columns, from 1, that the header of an export from Anki names and that were therefore skipped; 0: none. */
    int anki_column[QKV_ANKI_COLUMNS];
    struct qkv_skipped_lines blank;      /* lines without any text */
    struct qkv_skipped_lines incomplete; /* lines of a table that end before one of its columns */
    struct qkv_skipped_lines empty;      /* pairs of which one sentence is empty or white space */
    /* Rows of CSV that do not have the usual number of columns */
    struct qkv_skipped_lines other_columns;
    /* private */
    char *text;
    int64_t *start[2]; /* [count]: offsets of the sentences in `text` */
    int64_t text_capacity, text_size, capacity[2];
};

/* Reads pairs. A table has tabs between its columns; or, if few lines have a tab, commas or semicolons that give the same number
 * of columns in most rows, in which a quoted cell may have them, too (RFC 4180); or each line is a JSON object, whose texts are
 * the columns, those of objects within it included. Sentences lose white space at their ends; a tab within one becomes a space.
 * Quotation marks that a program put around cells are removed; a quoted cell may have line breaks, which become spaces, if the
 * row then has as many columns as the others. Columns of a table
 * without sentences are skipped: empty columns, numbers and dates, the attribution in Anki's files, those that the header of
 * an export from Anki names (#guid column:1), and columns that are the same in all lines, such as a language code; the first
 * two remaining columns are used.
 *
 * Fails with `path: ...` or `path:line: ...` when a file cannot be read or is not text, when a table has
 * fewer than two columns of sentences, when it names another separator, when it is TMX, XLIFF, .po or JSON of another form,
 * when two files differ in their number of lines or both have a tab in most lines, when a prefix has other than two files, and
 * when no pair is left. After a failure nothing needs to be released. */
QKV_API enum qkv_status qkv_pairs_read(struct qkv_pairs *pairs, struct qkv_pairs_request request,
                                       struct qkv_error *error);

/* A sentence, 0 <= i < count: UTF-8 without tab and line end, not empty. NULL when there is no such pair or side. */
QKV_API const char *qkv_pairs_text(const struct qkv_pairs *pairs, int64_t i, int side);

QKV_API void qkv_pairs_release(struct qkv_pairs *pairs);

#endif
