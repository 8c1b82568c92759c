/* BPE dropout (Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization"): while
 * a word is cut, each application of a merge is left out with a given probability, so that training sees the same word cut
 * into different pieces in each epoch. */
#include "core/memory.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

/* The words of one side of a corpus, which each epoch cuts into different pieces. */
struct qkv_bpe_dropout {
    struct qkv_text_config text; /* a copy, whose max_length the memory was reserved for */
    struct qkv_tokens tokens;    /* of the current sentence, of level word */
    struct qkv_types words;      /* the different words */
    int64_t *start;              /* [sentences + 1] */
    int32_t *word; /* [start[sentences]]: sentence i is word[start[i]] .. word[start[i + 1] - 1] */
    int64_t start_capacity, word_capacity;
    /* From here on set by qkv_bpe_dropout_encode, in the arena. */
    struct qkv_arena arena;
    int64_t *character_start; /* [words + 1] */
    /* The characters of the words as symbols; ~id, which is negative, if no merge has it */
    int32_t *character;
    int32_t *inside_id, *last_id; /* [symbols]: the ids of each symbol inside a word and at its end */
    int32_t *pieces, *ranks;      /* [characters of the longest word]: of the current word */
    bool *kept;                   /* the same: the merge of this piece and the next one is not left out */
};

struct qkv_bpe_dropout *qkv_bpe_dropout_new(const struct qkv_text_config *text)
{
    struct qkv_bpe_dropout *dropout = calloc(1, sizeof *dropout);
    if (dropout) dropout->text = *text;
    return dropout;
}

bool qkv_bpe_dropout_add(struct qkv_bpe_dropout *dropout, int64_t index, const char *line, size_t size)
{
    struct qkv_text_config words = dropout->text;
    words.level = QKV_LEVEL_WORD;
    if (qkv_tokenize(&dropout->tokens, &words, line, size, NULL)) return false;
    int64_t begin = index ? dropout->start[index] : 0, count = dropout->tokens.count;
    if (!QKV_RESERVE(dropout->start, dropout->start_capacity, index + 2) ||
        !QKV_RESERVE(dropout->word, dropout->word_capacity, begin + count))
        return false;
    dropout->start[index] = begin;
    dropout->start[index + 1] = begin + count;
    return qkv_tokens_count(&dropout->tokens, &dropout->words, dropout->word + begin);
}

/* ---- symbols and the pieces that they become ---- */

bool qkv_bpe_dropout_add_types(const struct qkv_bpe_dropout *dropout, struct qkv_types *types)
{
    const struct qkv_types *symbols = &dropout->text.bpe->symbols;
    char *token = malloc(qkv_bpe_longest_piece(symbols));
    bool added = token;
    for (int64_t i = 0; added && i < symbols->size; i++) {
        const char *symbol = qkv_types_token(symbols, i);
        qkv_bpe_piece_of(symbol, qkv_bpe_ends_word(symbol), token);
        if (qkv_types_find(types, token) < 0)
            added = qkv_types_add(types, token, dropout->text.voc_min_freq) >= 0;
    }
    free(token);
    return added;
}

/* Whether the pieces of a word differ from its symbols: it has joiners, or contains what would be escaped. */
static bool has_marks(const struct qkv_text_config *text, const char *word)
{
    if (text->plain_marks) return false;
    return (text->split_punctuation && qkv_token_bare(word).joins) || strstr(word, QKV_BPE_CONTINUES);
}

/* Writes the ids of the pieces of a word, cut without dropout, as characters that no merge has. Returns their number; -1 when
 * there is no memory. */
static int64_t encode_pieces(struct qkv_bpe_dropout *dropout, const struct qkv_vocabulary *vocabulary,
                             const char *word, int32_t *characters)
{
    struct qkv_tokens *pieces = &dropout->tokens;
    if (!qkv_tokens_cut(pieces, &dropout->text, word)) return -1;
    const char *piece = pieces->text;
    for (int64_t i = 0; i < pieces->count; i++, piece += strlen(piece) + 1)
        characters[i] = ~qkv_vocabulary_id(vocabulary, piece);
    return pieces->count;
}

/* Looks up the symbols of the characters of all words. Sets *longest to the characters of the longest word. */
static bool encode_words(struct qkv_bpe_dropout *dropout, const struct qkv_vocabulary *vocabulary,
                         int64_t *longest)
{
    const struct qkv_types *words = &dropout->words, *symbols = &dropout->text.bpe->symbols;
    int64_t bytes = 0;
    for (int64_t i = 0; i < words->size; i++) bytes += (int64_t)strlen(qkv_types_token(words, i));
    dropout->character_start =
        qkv_arena_array(&dropout->arena, words->size + 1, sizeof *dropout->character_start);
    dropout->character = qkv_arena_array(&dropout->arena, bytes, sizeof *dropout->character);
    if (!dropout->character_start || !dropout->character) return false;
    *longest = dropout->character_start[0] = 0;
    for (int64_t i = 0; i < words->size; i++) {
        int64_t count = dropout->character_start[i];
        const char *text = qkv_types_token(words, i);
        if (has_marks(&dropout->text, text)) {
            int64_t pieces = encode_pieces(dropout, vocabulary, text, dropout->character + count);
            if (pieces < 0) return false;
            count += pieces;
            text = "";
        }
        while (*text) {
            char symbol[QKV_BPE_CHARACTER_SIZE], token[QKV_BPE_CHARACTER_SIZE + sizeof QKV_BPE_CONTINUES];
            int32_t point;
            int size = qkv_point(text, &point);
            bool is_last = !text[size];
            int32_t number = qkv_types_find(symbols, qkv_bpe_character_text(symbol, text, size, is_last));
            if (number < 0) number = ~qkv_vocabulary_id(vocabulary, qkv_bpe_piece_of(symbol, is_last, token));
            dropout->character[count++] = number;
            text += size;
        }
        dropout->character_start[i + 1] = count;
        if (count - dropout->character_start[i] > *longest) *longest = count - dropout->character_start[i];
    }
    return true;
}

static bool encode_symbols(struct qkv_bpe_dropout *dropout, const struct qkv_vocabulary *vocabulary)
{
    const struct qkv_types *symbols = &dropout->text.bpe->symbols;
    char *token = qkv_arena_array(&dropout->arena, (int64_t)qkv_bpe_longest_piece(symbols), 1);
    dropout->inside_id = qkv_arena_array(&dropout->arena, symbols->size, sizeof *dropout->inside_id);
    dropout->last_id = qkv_arena_array(&dropout->arena, symbols->size, sizeof *dropout->last_id);
    if (!token || !dropout->inside_id || !dropout->last_id) return false;
    for (int64_t i = 0; i < symbols->size; i++) {
        const char *symbol = qkv_types_token(symbols, i);
        dropout->inside_id[i] = qkv_vocabulary_id(vocabulary, qkv_bpe_piece_of(symbol, false, token));
        dropout->last_id[i] = qkv_vocabulary_id(vocabulary, qkv_bpe_piece_of(symbol, true, token));
    }
    return true;
}

int64_t qkv_bpe_dropout_max_tokens(const struct qkv_bpe_dropout *dropout, int64_t i)
{
    int64_t characters = 0;
    for (int64_t k = dropout->start[i]; k < dropout->start[i + 1]; k++)
        characters +=
            dropout->character_start[dropout->word[k] + 1] - dropout->character_start[dropout->word[k]];
    return characters < dropout->text.max_length ? characters : dropout->text.max_length;
}

bool qkv_bpe_dropout_encode(struct qkv_bpe_dropout *dropout, struct qkv_corpus_side *side, int64_t count,
                            const struct qkv_vocabulary *vocabulary)
{
    int64_t longest, pieces = 0;
    if (!encode_words(dropout, vocabulary, &longest) || !encode_symbols(dropout, vocabulary)) return false;
    qkv_types_release(&dropout->words);
    qkv_tokens_release(&dropout->tokens);
    dropout->pieces = qkv_arena_array(&dropout->arena, longest, sizeof *dropout->pieces);
    dropout->ranks = qkv_arena_array(&dropout->arena, longest, sizeof *dropout->ranks);
    dropout->kept = qkv_arena_array(&dropout->arena, longest, sizeof *dropout->kept);
    if (!dropout->pieces || !dropout->ranks || !dropout->kept) return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t max = qkv_bpe_dropout_max_tokens(dropout, i);
        if (max > side->longest) side->longest = max;
        pieces += max;
    }
    return QKV_RESERVE(side->ids, side->ids_capacity, pieces);
}

/* ---- drawing pieces ---- */

/* Writes the ids of the pieces of a word to `ids`, which has room for `capacity`; returns their number, or -1 when
 * there are more. */
static int64_t cut_word(struct qkv_bpe_dropout *dropout, int32_t word, struct qkv_bpe_draws *draws,
                        int64_t capacity, int32_t *ids)
{
    int64_t begin = dropout->character_start[word];
    int32_t count = (int32_t)(dropout->character_start[word + 1] - begin), *pieces = dropout->pieces;
    memcpy(pieces, dropout->character + begin, (size_t)count * sizeof *pieces);
    count = qkv_bpe_merge(dropout->text.bpe, pieces, dropout->ranks, count, draws);
    if (count > capacity) return -1;
    for (int32_t i = 0; i < count; i++)
        ids[i] =
            pieces[i] < 0 ? ~pieces[i] : (i + 1 < count ? dropout->inside_id : dropout->last_id)[pieces[i]];
    return count;
}

/* Cuts sentence i; returns the number of its pieces, or -1 when there are more than max_length. */
static int64_t cut_sentence(struct qkv_bpe_dropout *dropout, int64_t i, struct qkv_bpe_draws draws,
                            int32_t *ids)
{
    int64_t size = 0;
    for (int64_t k = dropout->start[i]; k < dropout->start[i + 1]; k++) {
        int64_t count =
            cut_word(dropout, dropout->word[k], &draws, dropout->text.max_length - size, ids + size);
        if (count < 0) return -1;
        size += count;
    }
    return size;
}

void qkv_bpe_dropout_draw(struct qkv_bpe_dropout *dropout, struct qkv_corpus_side *side, int64_t count,
                          struct qkv_random random)
{
    uint64_t threshold = (uint64_t)(dropout->text.bpe_dropout * 4294967296.0);
    for (int64_t i = 0; i < count; i++) {
        int32_t *ids = side->ids + side->start[i];
        struct qkv_bpe_draws draws = {.random = random,
                                      .index = (uint64_t)i << 32,
                                      .used = 4,
                                      .threshold = threshold,
                                      .kept = dropout->kept};
        int64_t size = cut_sentence(dropout, i, draws, ids);
        /* Too many pieces: cut without dropout. That fits, because sentences that are too long are dropped on reading. */
        if (size < 0) size = cut_sentence(dropout, i, (struct qkv_bpe_draws){.kept = dropout->kept}, ids);
        side->start[i + 1] = side->start[i] + size;
    }
}

void qkv_bpe_dropout_free(struct qkv_bpe_dropout *dropout)
{
    if (!dropout) return;
    qkv_tokens_release(&dropout->tokens);
    qkv_types_release(&dropout->words);
    free(dropout->start);
    free(dropout->word);
    qkv_arena_release(&dropout->arena);
    free(dropout);
}
