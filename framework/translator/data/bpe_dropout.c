#include "data/bpe_dropout.h"

#include "core/grow.h"
#include "data/unicode.h"

#include <string.h>

struct qkv_bpe_dropout *qkv_bpe_dropout_new(const struct qkv_text_config *text)
{
    struct qkv_bpe_dropout *dropout = calloc(1, sizeof *dropout);
    if (!dropout) return NULL;
    dropout->text = *text;
    if (QKV_RESERVE(dropout->start, dropout->start_capacity, 1)) {
        dropout->start[0] = 0;
        return dropout;
    }
    free(dropout);
    return NULL;
}

bool qkv_bpe_dropout_add(struct qkv_bpe_dropout *dropout, int64_t index, const char *line, size_t size)
{
    struct qkv_text_config words = dropout->text;
    words.level = QKV_LEVEL_WORD;
    if (qkv_tokenize(&dropout->tokens, &words, line, size, NULL)) return false;
    int64_t begin = dropout->start[index], count = dropout->tokens.count;
    if (!QKV_RESERVE(dropout->start, dropout->start_capacity, index + 2) ||
        !QKV_RESERVE(dropout->word, dropout->word_capacity, begin + count))
        return false;
    for (int64_t i = 0; i < count; i++)
        if ((dropout->word[begin + i] = qkv_types_add(&dropout->words, dropout->tokens.token[i], 1)) < 0)
            return false;
    dropout->start[index + 1] = begin + count;
    return true;
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

/* Looks up the symbols of the characters of all words. Sets *longest to the characters of the longest word. */
static bool encode_words(struct qkv_bpe_dropout *dropout, const struct qkv_vocabulary *vocabulary,
                         int64_t *longest)
{
    const struct qkv_types *words = &dropout->words, *symbols = &dropout->text.bpe->symbols;
    int64_t capacity = 0;
    dropout->character_start = malloc(((size_t)words->size + 1) * sizeof *dropout->character_start);
    if (!dropout->character_start) return false;
    *longest = dropout->character_start[0] = 0;
    for (int64_t i = 0; i < words->size; i++) {
        int64_t count = dropout->character_start[i];
        const char *text = qkv_types_token(words, i), *end = text + strlen(text);
        if (!QKV_RESERVE(dropout->character, capacity, count + (end - text))) return false;
        while (text < end) {
            char symbol[QKV_BPE_CHARACTER_SIZE], token[QKV_BPE_CHARACTER_SIZE + sizeof QKV_BPE_CONTINUES];
            int32_t point;
            int size = qkv_point(text, &point);
            bool is_last = text + size == end;
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
    size_t size = ((size_t)symbols->size + 1) * sizeof(int32_t);
    char *token = malloc(qkv_bpe_longest_piece(symbols));
    dropout->inside_id = malloc(size);
    dropout->last_id = malloc(size);
    bool complete = token && dropout->inside_id && dropout->last_id;
    for (int64_t i = 0; complete && i < symbols->size; i++) {
        const char *symbol = qkv_types_token(symbols, i);
        dropout->inside_id[i] = qkv_vocabulary_id(vocabulary, qkv_bpe_piece_of(symbol, false, token));
        dropout->last_id[i] = qkv_vocabulary_id(vocabulary, qkv_bpe_piece_of(symbol, true, token));
    }
    free(token);
    return complete;
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
    dropout->pieces = malloc(((size_t)longest + 1) * sizeof *dropout->pieces);
    dropout->ranks = malloc(((size_t)longest + 1) * sizeof *dropout->ranks);
    dropout->kept = malloc(((size_t)longest + 1) * sizeof *dropout->kept);
    if (!dropout->pieces || !dropout->ranks || !dropout->kept) return false;
    for (int64_t i = 0; i < count; i++) {
        int64_t max = qkv_bpe_dropout_max_tokens(dropout, i);
        if (max > side->longest) side->longest = max;
        pieces += max;
    }
    return QKV_RESERVE(side->ids, side->ids_capacity, pieces);
}

/* ---- drawing pieces ---- */

/* A sequence of random 32-bit words. */
struct draws {
    struct qkv_random random;
    uint64_t index;
    uint32_t block[4];
    int used;
    uint64_t threshold; /* rate * 2^32: a merge is left out if its word is below this */
};

static bool leaves_out(struct draws *draws)
{
    if (!draws->threshold) return false;
    if (draws->used == 4) {
        qkv_random_block(draws->random, draws->index++, draws->block);
        draws->used = 0;
    }
    return draws->block[draws->used++] < draws->threshold;
}

/* Draws which merges are left out of this step; returns the earliest merge that is kept, or -1 if there is none. */
static int32_t draw_merge(struct qkv_bpe_dropout *dropout, int32_t count, struct draws *draws)
{
    int32_t first = -1;
    for (int32_t i = 0; i + 1 < count; i++) {
        int32_t rank = dropout->ranks[i];
        dropout->kept[i] = rank >= 0 && !leaves_out(draws);
        if (dropout->kept[i] && (first < 0 || rank < first)) first = rank;
    }
    return first;
}

/* Applies a merge from left to right, at every place where it is not left out; returns the number of pieces that remain. */
static int32_t apply_merge(struct qkv_bpe_dropout *dropout, int32_t count, int32_t merge)
{
    const struct qkv_bpe *bpe = dropout->text.bpe;
    int32_t *pieces = dropout->pieces, *ranks = dropout->ranks, size = 0;
    bool merged_before = false; /* the piece before this one is new */
    for (int32_t i = 0; i < count; i++, size++) {
        bool merges = i + 1 < count && dropout->kept[i] && ranks[i] == merge;
        int32_t rank = ranks[i];
        pieces[size] = merges ? bpe->joined[merge] : pieces[i];
        if (size && (merges || merged_before))
            ranks[size - 1] = qkv_symbol_pairs_find(&bpe->pairs, pieces[size - 1], pieces[size]);
        ranks[size] = rank;
        merged_before = merges;
        i += merges;
    }
    return size;
}

/* Writes the ids of the pieces of a word to `ids`, which has room for `capacity`; returns their number, or -1 when
 * there are more. */
static int64_t cut_word(struct qkv_bpe_dropout *dropout, int32_t word, struct draws *draws, int64_t capacity,
                        int32_t *ids)
{
    const struct qkv_bpe *bpe = dropout->text.bpe;
    int64_t begin = dropout->character_start[word];
    int32_t count = (int32_t)(dropout->character_start[word + 1] - begin);
    memcpy(dropout->pieces, dropout->character + begin, (size_t)count * sizeof *dropout->pieces);
    for (int32_t i = 0; i + 1 < count; i++)
        dropout->ranks[i] = qkv_symbol_pairs_find(&bpe->pairs, dropout->pieces[i], dropout->pieces[i + 1]);
    for (int32_t merge; (merge = draw_merge(dropout, count, draws)) >= 0;)
        count = apply_merge(dropout, count, merge);
    if (count > capacity) return -1;
    for (int32_t i = 0; i < count; i++) {
        int32_t symbol = dropout->pieces[i];
        ids[i] = symbol < 0 ? ~symbol : (i + 1 < count ? dropout->inside_id : dropout->last_id)[symbol];
    }
    return count;
}

/* Cuts sentence i; returns the number of its pieces, or -1 when there are more than max_length. */
static int64_t cut_sentence(struct qkv_bpe_dropout *dropout, int64_t i, struct draws draws, int32_t *ids)
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
        struct draws draws = {
            .random = random, .index = (uint64_t)i << 32, .used = 4, .threshold = threshold};
        int64_t size = cut_sentence(dropout, i, draws, ids);
        /* Too many pieces: cut without dropout. That fits, because sentences that are too long are dropped on reading. */
        if (size < 0) size = cut_sentence(dropout, i, (struct draws){.threshold = 0}, ids);
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
    free(dropout->character_start);
    free(dropout->character);
    free(dropout->inside_id);
    free(dropout->last_id);
    free(dropout->pieces);
    free(dropout->ranks);
    free(dropout->kept);
    free(dropout);
}
