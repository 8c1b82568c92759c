/* Pieces of words: the tokens of level word, cut by byte-pair encoding (data/bpe.h). */
#include "core/memory.h"
#include "core/numbers.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

enum { ESCAPE = 0xFE0E /* QKV_ESCAPE */ };

/* ---- merging the pieces of a word ---- */

static bool leaves_out(struct qkv_bpe_draws *draws)
{
    if (!draws->threshold) return false;
    if (draws->used == 4) {
        qkv_random_block(draws->random, draws->index++, draws->block);
        draws->used = 0;
    }
    return draws->block[draws->used++] < draws->threshold;
}

/* The earliest merge that applies somewhere; -1: none does. `draws`, unless NULL, leaves some places out of this step. */
static int32_t next_merge(const int32_t *ranks, int32_t count, struct qkv_bpe_draws *draws)
{
    int32_t first = -1;
    for (int32_t i = 0; i + 1 < count; i++) {
        bool is_kept = ranks[i] >= 0 && !(draws && leaves_out(draws));
        if (draws) draws->kept[i] = is_kept;
        if (is_kept && (first < 0 || ranks[i] < first)) first = ranks[i];
    }
    return first;
}

/* Applies a merge from left to right, at every place where it is kept; returns the number of pieces that remain. */
static int32_t apply_merge(const struct qkv_bpe *bpe, int32_t *pieces, int32_t *ranks, int32_t count,
                           int32_t merge, const bool *kept)
{
    int32_t size = 0;
    bool merged_before = false; /* the piece before this one is new */
    for (int32_t i = 0; i < count; i++, size++) {
        bool merges = i + 1 < count && ranks[i] == merge && (!kept || kept[i]);
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

int32_t qkv_bpe_merge(const struct qkv_bpe *bpe, int32_t *pieces, int32_t *ranks, int32_t count,
                      struct qkv_bpe_draws *draws)
{
    for (int32_t i = 0; i + 1 < count; i++)
        ranks[i] = qkv_symbol_pairs_find(&bpe->pairs, pieces[i], pieces[i + 1]);
    for (int32_t merge; (merge = next_merge(ranks, count, draws)) >= 0;)
        count = apply_merge(bpe, pieces, ranks, count, merge, draws ? draws->kept : NULL);
    return count;
}

/* ---- cutting a word ---- */

/* A word that is cut: points[first .. end-1], with its joiners. */
struct word {
    struct qkv_tokens *tokens;
    const struct qkv_text_config *text;
    int64_t first, end;
    int joins;
};

/* Whether points[first .. end-1] end as a piece does that another one follows, escaped or not. */
static bool looks_continued(const int32_t *points, int64_t first, int64_t end)
{
    while (end > first && points[end - 1] == ESCAPE) end--;
    return end - first > 2 && points[end - 1] == '@' && points[end - 2] == '@';
}

/* Adds the piece points[at .. end-1]. If it is not kept, undoes its merge, and adds both parts. The first and the last piece of
 * a word have its joiners. */
static bool add_piece(const struct word *word, int32_t symbol, int64_t at, int64_t end)
{
    const struct qkv_bpe *bpe = word->text->bpe;
    int32_t merge = symbol < 0 || !bpe->undone ? -1 : bpe->undone[symbol];
    if (merge >= 0) {
        int32_t left = bpe->pairs.left[merge];
        int64_t middle = at + qkv_utf8_count(qkv_types_token(&bpe->symbols, left));
        if (middle < end)
            return add_piece(word, left, at, middle) && add_piece(word, bpe->pairs.right[merge], middle, end);
    }
    bool escapes = !word->text->plain_marks && looks_continued(word->tokens->points, at, end);
    const char *before = at == word->first && (word->joins & QKV_JOINS_LEFT) ? QKV_JOINER : "",
               *after = end < word->end                   ? QKV_BPE_CONTINUES
                        : (word->joins & QKV_JOINS_RIGHT) ? QKV_JOINER
                        : escapes                         ? QKV_ESCAPE
                                                          : "";
    return qkv_tokens_add(word->tokens, before, at, end, after);
}

static bool add_pieces(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                       int64_t end, int joins)
{
    const struct qkv_bpe *bpe = text->bpe;
    const struct word word = {tokens, text, first, end, joins};
    int32_t count = (int32_t)(end - first);
    if (end - first > INT32_MAX || !QKV_RESERVE(tokens->pieces, tokens->pieces_capacity, 2 * (end - first)))
        return false;
    for (int32_t i = 0; i < count; i++) {
        char character[5], symbol[QKV_BPE_CHARACTER_SIZE];
        int size = (int)(qkv_utf8_encode(tokens->points + first + i, 1, character) - character);
        qkv_bpe_character_text(symbol, character, size, i + 1 == count);
        tokens->pieces[i] = qkv_types_find(&bpe->symbols, symbol); /* below 0: no merge has it */
    }
    int32_t size = qkv_bpe_merge(bpe, tokens->pieces, tokens->pieces + count, count, NULL);
    for (int32_t i = 0; i < size; i++) {
        int32_t symbol = tokens->pieces[i];
        int64_t length = symbol < 0 ? 1 : qkv_utf8_count(qkv_types_token(&bpe->symbols, symbol));
        int64_t piece_end = i + 1 == size ? end : first + length;
        if (!add_piece(&word, symbol, first, piece_end)) return false;
        first = piece_end;
    }
    return true;
}

bool qkv_tokens_cut(struct qkv_tokens *tokens, const struct qkv_text_config *text, const char *word)
{
    struct qkv_bare_token bare = {word, strlen(word), 0};
    if (text->split_punctuation && !text->plain_marks) bare = qkv_token_bare(word);
    tokens->count = tokens->text_size = 0;
    if (!QKV_RESERVE(tokens->points, tokens->points_capacity, (int64_t)bare.size)) return false;
    int64_t count = qkv_utf8_decode(bare.text, bare.size, tokens->points);
    return add_pieces(tokens, text, 0, count, bare.joins);
}

static bool split(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    return qkv_tokens_split_words(tokens, text, count, add_pieces);
}

/* ---- joining pieces ---- */

/* A token that is only @@ is a word. */
size_t qkv_length_in_word(const char *token)
{
    size_t length = strlen(token), mark = sizeof QKV_BPE_CONTINUES - 1;
    bool continues = length > mark && !strcmp(token + length - mark, QKV_BPE_CONTINUES);
    return continues ? length - mark : length;
}

/* The length of the text of a last piece, which loses the escape of @@. */
static size_t last_length(const char *token)
{
    const size_t escape = sizeof QKV_ESCAPE - 1;
    size_t length = strlen(token), end = length;
    while (end > escape && qkv_is_escaped(token + end - escape)) end -= escape;
    bool is_escaped = end < length && end > 2 && !memcmp(token + end - 2, QKV_BPE_CONTINUES, 2);
    return is_escaped ? length - escape : length;
}

/* Joins pieces to tokens of level word (`words`), and these to a line. As in struct qkv_tokens, `word` is the number of the
 * word between white space that a piece belongs to. */
static bool join(const struct qkv_text_config *text, int64_t count, const char *const *tokens, char *line,
                 int64_t *word, struct qkv_arena *arena)
{
    if (count <= 0) return true;
    size_t size = 0;
    for (int64_t i = 0; i < count; i++) size += strlen(tokens[i]) + 1;
    const char **words = qkv_arena_allocate(arena, (size_t)count * sizeof *words);
    int64_t *word_of = qkv_arena_allocate(arena, (size_t)count * sizeof *word_of); /* of each of `words` */
    char *end = qkv_arena_allocate(arena, size);
    if (!words || !word_of || !end) return false;
    int64_t word_count = 0;
    bool continues = false;
    for (int64_t i = 0; i < count; i++) {
        if (!continues) words[word_count++] = end;
        word[i] = word_count - 1;
        size_t length = qkv_length_in_word(tokens[i]);
        continues = tokens[i][length];
        if (!continues && !text->plain_marks) length = last_length(tokens[i]);
        memcpy(end, tokens[i], length);
        end += length;
        if (!continues || i + 1 == count) *end++ = '\0';
    }
    if (!qkv_tokenizer_word.join(text, word_count, words, line, word_of, arena)) return false;
    for (int64_t i = 0; i < count; i++) word[i] = word_of[word[i]];
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_bpe = {split, join};
