/* Pieces of words: the tokens of level word, cut by byte-pair encoding (data/bpe.h). */
#include "core/memory.h"
#include "core/text.h"
#include "data/bpe.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

enum {
    UNKNOWN = -1 /* a character that occurs in no merge */,
    MERGED = -2 /* a piece that has become part of its left neighbour */,
    ESCAPE = 0xFE0E /* QKV_ESCAPE */
};

/* A piece of the current word, at the index of its first character. */
struct qkv_piece {
    int32_t symbol;
    int32_t previous, next; /* its neighbours; -1: none */
    int32_t changed_next;   /* the next piece in the list of pieces that the current merge made; -1: none */
};

/* A merge that applied to the piece at `at` and its right neighbour when it was found. */
struct qkv_candidate {
    int32_t rank, at;
};

/* ---- the heap of candidates: the earliest merge first, and from left to right ---- */

static bool is_before(struct qkv_candidate a, struct qkv_candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void push(struct qkv_candidate *heap, int64_t *size, struct qkv_candidate candidate)
{
    int64_t i = (*size)++;
    for (; i > 0 && is_before(candidate, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = candidate;
}

static struct qkv_candidate pop(struct qkv_candidate *heap, int64_t *size)
{
    struct qkv_candidate first = heap[0], moved = heap[--*size];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < *size; i = child) {
        if (child + 1 < *size && is_before(heap[child + 1], heap[child])) child++;
        if (!is_before(heap[child], moved)) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
    return first;
}

/* ---- cutting a word ---- */

/* Adds the candidate of the piece at `at` and its right neighbour, if they have a merge. */
static void add_candidate(struct qkv_tokens *tokens, int64_t *size, const struct qkv_bpe *bpe, int32_t at)
{
    const struct qkv_piece *pieces = tokens->pieces;
    if (at < 0 || pieces[at].next < 0) return;
    int32_t rank = qkv_symbol_pairs_find(&bpe->pairs, pieces[at].symbol, pieces[pieces[at].next].symbol);
    if (rank >= 0) push(tokens->candidates, size, (struct qkv_candidate){rank, at});
}

/* Applies a merge to the piece at `at`, unless it no longer fits there. */
static bool merge(struct qkv_piece *pieces, const struct qkv_bpe *bpe, struct qkv_candidate candidate)
{
    struct qkv_piece *left = &pieces[candidate.at];
    if (left->symbol != bpe->pairs.left[candidate.rank] || left->next < 0 ||
        pieces[left->next].symbol != bpe->pairs.right[candidate.rank])
        return false;
    struct qkv_piece *right = &pieces[left->next];
    left->symbol = bpe->joined[candidate.rank];
    left->next = right->next;
    if (right->next >= 0) pieces[right->next].previous = candidate.at;
    right->symbol = MERGED;
    return true;
}

/* Makes the characters points[first .. first + count - 1] pieces. */
static void set_characters(struct qkv_tokens *tokens, const struct qkv_bpe *bpe, int64_t first, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        char character[5], text[QKV_BPE_CHARACTER_SIZE];
        int size = (int)(qkv_utf8_encode(tokens->points + first + i, 1, character) - character);
        int32_t symbol =
            qkv_types_find(&bpe->symbols, qkv_bpe_character_text(text, character, size, i + 1 == count));
        tokens->pieces[i] =
            (struct qkv_piece){symbol >= 0 ? symbol : UNKNOWN, i - 1, i + 1 < count ? i + 1 : -1, -1};
    }
}

/* Applies the merges to the pieces. A merge is applied at all of its places before the next merge is chosen; until then, the
 * pieces that it makes wait in the list `changed`. Takes n log n steps for n characters. */
static void merge_pieces(struct qkv_tokens *tokens, const struct qkv_bpe *bpe, int32_t count)
{
    struct qkv_piece *pieces = tokens->pieces;
    int64_t size = 0;
    for (int32_t i = 0; i < count; i++) add_candidate(tokens, &size, bpe, i);
    while (size) {
        int32_t rank = tokens->candidates[0].rank, changed = -1;
        while (size && tokens->candidates[0].rank == rank) {
            struct qkv_candidate candidate = pop(tokens->candidates, &size);
            if (!merge(pieces, bpe, candidate)) continue;
            pieces[candidate.at].changed_next = changed;
            changed = candidate.at;
        }
        for (; changed >= 0; changed = pieces[changed].changed_next) {
            /* The pair of two changed pieces is added twice; merge() will skip the second candidate. */
            add_candidate(tokens, &size, bpe, changed);
            add_candidate(tokens, &size, bpe, pieces[changed].previous);
        }
    }
}

static int32_t character_count(const char *text)
{
    int32_t count = 0;
    for (int32_t point; *text; count++) text += qkv_point(text, &point);
    return count;
}

/* Undoes merges until every piece is one that is kept, or a single character. */
static void split_pieces(struct qkv_tokens *tokens, const struct qkv_bpe *bpe, int32_t count)
{
    struct qkv_piece *pieces = tokens->pieces;
    for (int32_t at = 0; bpe->undone && at >= 0;) {
        int32_t symbol = pieces[at].symbol, next = pieces[at].next, end = next < 0 ? count : next;
        int32_t merge = symbol < 0 ? -1 : bpe->undone[symbol];
        int32_t left = merge < 0 ? -1 : bpe->pairs.left[merge];
        int32_t middle = merge < 0 ? end : at + character_count(qkv_types_token(&bpe->symbols, left));
        if (middle < end) {
            pieces[middle] = (struct qkv_piece){bpe->pairs.right[merge], at, next, -1};
            pieces[at].symbol = left;
            pieces[at].next = middle;
        } else {
            at = next;
        }
    }
}

/* Whether points[first .. end-1] end as a piece does that another one follows, escaped or not. */
static bool looks_continued(const int32_t *points, int64_t first, int64_t end)
{
    while (end > first && points[end - 1] == ESCAPE) end--;
    return end - first > 2 && points[end - 1] == '@' && points[end - 2] == '@';
}

/* Adds the pieces of the word points[first .. end-1]. The first and the last one have its joiners. */
static bool add_pieces(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                       int64_t end, int joins)
{
    int32_t count = (int32_t)(end - first);
    /* At most one candidate per character at first, and two more for each merge, which removes a piece. */
    if (end - first > INT32_MAX || !QKV_RESERVE(tokens->pieces, tokens->pieces_capacity, count) ||
        !QKV_RESERVE(tokens->candidates, tokens->candidates_capacity, 3 * (int64_t)count))
        return false;
    set_characters(tokens, text->bpe, first, count);
    merge_pieces(tokens, text->bpe, count);
    split_pieces(tokens, text->bpe, count);
    for (int32_t at = 0, next; at >= 0; at = next) {
        next = tokens->pieces[at].next;
        int64_t piece_end = next < 0 ? end : first + next;
        bool escapes = !text->plain_marks && looks_continued(tokens->points, first + at, piece_end);
        const char *before = !at && (joins & QKV_JOINS_LEFT) ? QKV_JOINER : "",
                   *after = next >= 0                   ? QKV_BPE_CONTINUES
                            : (joins & QKV_JOINS_RIGHT) ? QKV_JOINER
                            : escapes                   ? QKV_ESCAPE
                                                        : "";
        if (!qkv_tokens_add(tokens, before, first + at, piece_end, after)) return false;
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
