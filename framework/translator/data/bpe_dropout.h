/* BPE dropout (Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization"): while
 * a word is cut, each application of a merge is left out with a given probability, so that training sees the same word cut
 * into different pieces in each epoch. */
#ifndef QKV_DATA_BPE_DROPOUT_H
#define QKV_DATA_BPE_DROPOUT_H

#include "data/bpe.h"
#include "qkv/corpus.h"
#include "qkv/random.h"

/* The words of one side of a corpus, which each epoch cuts into different pieces. */
struct qkv_bpe_dropout {
    struct qkv_text_config text; /* a copy, whose max_length the memory was reserved for */
    struct qkv_tokens tokens;    /* of the current sentence, of level word */
    struct qkv_types words;      /* the different words */
    int64_t *start;              /* [sentences + 1] */
    int32_t *word; /* [start[sentences]]: sentence i is word[start[i]] .. word[start[i + 1] - 1] */
    int64_t start_capacity, word_capacity;
    /* From here on set by qkv_bpe_dropout_encode. */
    int64_t *character_start; /* [words + 1] */
    /* The characters of the words as symbols; ~id, which is negative, if no merge has it */
    int32_t *character;
    int32_t *inside_id, *last_id; /* [symbols]: the ids of each symbol inside a word and at its end */
    int32_t *pieces, *ranks;      /* [characters of the longest word]: of the current word */
    bool *kept;                   /* the same: the merge of this piece and the next one is not left out */
};

/* Returns NULL when there is no memory. The caller frees the result with qkv_bpe_dropout_free. Copies `text`,
 * whose merges must outlive it. */
struct qkv_bpe_dropout *qkv_bpe_dropout_new(const struct qkv_text_config *text);

/* Adds the words of sentence `index`, one after another from 0. False when there is no memory. */
bool qkv_bpe_dropout_add(struct qkv_bpe_dropout *dropout, int64_t index, const char *line, size_t size);

/* Adds every piece that merges can make to `types`. One that has not occurred gets the lowest frequency that still enters the
 * vocabulary. False when there is no memory. */
bool qkv_bpe_dropout_add_types(const struct qkv_bpe_dropout *dropout, struct qkv_types *types);

/* Looks up the ids of all symbols and reserves side->ids for the maximal number of pieces of an epoch. False when there is
 * no memory. */
bool qkv_bpe_dropout_encode(struct qkv_bpe_dropout *dropout, struct qkv_corpus_side *side, int64_t count,
                            const struct qkv_vocabulary *vocabulary);

/* Maximal number of tokens of sentence i in any epoch. */
int64_t qkv_bpe_dropout_max_tokens(const struct qkv_bpe_dropout *dropout, int64_t i);

/* Cuts all sentences again, with the random numbers of `random`. Its sub-stream must differ between the sides. */
void qkv_bpe_dropout_draw(struct qkv_bpe_dropout *dropout, struct qkv_corpus_side *side, int64_t count,
                          struct qkv_random random);

/* NULL: does nothing. */
void qkv_bpe_dropout_free(struct qkv_bpe_dropout *dropout);

#endif
