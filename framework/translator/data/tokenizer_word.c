/* The tokens of a line, and the levels word and char; qkv/corpus.h has the rules. */
#include "core/memory.h"
#include "core/text.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

/* ---- the storage of tokens ---- */

/* Finds the first chunk between white space at or after *end. Sets *first and *end: the chunk is points[*first .. *end-1].
 * False when there is none. */
static bool next_chunk(const struct qkv_tokens *tokens, int64_t count, int64_t *first, int64_t *end)
{
    *first = *end;
    while (*first < count && qkv_is_space(tokens->points[*first])) ++*first;
    for (*end = *first; *end < count && !qkv_is_space(tokens->points[*end]);) ++*end;
    return *end > *first;
}

/* Whether the white space at `end` ends a word, too: as for awk and fast_align, only that of ASCII separates words. */
static bool ends_word(const struct qkv_tokens *tokens, int64_t count, int64_t end)
{
    while (end < count && qkv_is_space(tokens->points[end]))
        if (tokens->points[end++] < 0x80) return true;
    return end == count;
}

/* Appends a text and its NUL at `end`; returns where the NUL is. */
static char *append(char *end, const char *text)
{
    size_t size = strlen(text);
    memcpy(end, text, size + 1);
    return end + size;
}

/* qkv_tokenize sets tokens->token when the line is complete: until then, tokens->text can move. */
bool qkv_tokens_add(struct qkv_tokens *tokens, const char *before, int64_t first, int64_t end,
                    const char *after)
{
    int64_t size = (int64_t)(strlen(before) + strlen(after)) + 4 * (end - first) + 1;
    if (!QKV_RESERVE(tokens->token, tokens->token_capacity, tokens->count + 1) ||
        !QKV_RESERVE(tokens->word, tokens->word_capacity, tokens->count + 1) ||
        !QKV_RESERVE(tokens->text, tokens->text_capacity, tokens->text_size + size))
        return false;
    char *text = append(tokens->text + tokens->text_size, before);
    text = append(qkv_utf8_encode(tokens->points + first, end - first, text), after);
    tokens->text_size = text + 1 - tokens->text;
    tokens->word[tokens->count++] = tokens->words;
    return true;
}

bool qkv_tokens_count(const struct qkv_tokens *tokens, struct qkv_types *types, int32_t *numbers)
{
    for (int64_t i = 0; i < tokens->count; i++) {
        int32_t type = qkv_types_add(types, tokens->token[i], 1);
        if (type < 0) return false;
        if (numbers) numbers[i] = type;
    }
    return true;
}

void qkv_tokens_release(struct qkv_tokens *tokens)
{
    free(tokens->token);
    free(tokens->word);
    free(tokens->text);
    free(tokens->points);
    free(tokens->pieces);
    *tokens = (struct qkv_tokens){0};
}

/* ---- level word: white space separates tokens, and on request punctuation marks are tokens ---- */

static bool is_hyphen(int32_t point)
{
    return point == '-' || point == 0x2010 || point == 0x2011;
}

/* True when the punctuation mark at `i`, which follows a character of a word, stays inside the word. */
static bool stays_inside(const int32_t *points, int64_t i, int64_t end)
{
    bool last = i + 1 == end;
    if (is_hyphen(points[i])) return last || !is_hyphen(points[i + 1]);
    if (last || qkv_is_punctuation(points[i + 1])) return false;
    if (qkv_is_apostrophe(points[i]) || points[i] == '.' || points[i] == 0xB7) return true;
    return (points[i] == ',' || points[i] == ':') && qkv_is_digit(points[i - 1]) &&
           qkv_is_digit(points[i + 1]);
}

/* The end of the mark or word that begins at `first` in a chunk, which ends at `end`. */
static int64_t token_end(const int32_t *points, int64_t first, int64_t end, bool has_elision)
{
    if (qkv_is_punctuation(points[first])) return qkv_character_end(points, first, end);
    int64_t i = first + 1;
    for (; i < end && (!qkv_is_punctuation(points[i]) || stays_inside(points, i, end)); i++)
        if (has_elision && qkv_is_apostrophe(points[i])) return i + 1;
    return i;
}

/* Splits the chunk points[first .. end-1] at its punctuation. Each boundary between two of its tokens is recorded by one
 * joiner: by that of the mark after it, but before the first word of the chunk, and before any other word, by that of the
 * token before it. */
static bool split_chunk(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                        int64_t end, qkv_add_word *add)
{
    const int32_t *points = tokens->points;
    bool has_elision = qkv_has_elision(text->lang);
    int64_t word = first; /* the first one; without words, `first` */
    while (word < end && qkv_is_punctuation(points[word])) word = qkv_character_end(points, word, end);
    if (word == end) word = first;
    for (int64_t token = first, next; token < end; token = next) {
        next = token_end(points, token, end, has_elision);
        bool left = token > first && token >= word && qkv_is_punctuation(points[token]);
        bool right = next < end && (next <= word || !qkv_is_punctuation(points[next]));
        int joins = text->plain_marks ? 0 : (left ? QKV_JOINS_LEFT : 0) | (right ? QKV_JOINS_RIGHT : 0);
        if (!add(tokens, text, token, next, joins)) return false;
    }
    return true;
}

bool qkv_tokens_split_words(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count,
                            qkv_add_word *add)
{
    for (int64_t first, end = 0; next_chunk(tokens, count, &first, &end);
         tokens->words += ends_word(tokens, count, end))
        if (text->split_punctuation ? !split_chunk(tokens, text, first, end, add)
                                    : !add(tokens, text, first, end, 0))
            return false;
    return true;
}

static bool add_word(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                     int64_t end, int joins)
{
    (void)text;
    return qkv_tokens_add(tokens, joins & QKV_JOINS_LEFT ? QKV_JOINER : "", first, end,
                          joins & QKV_JOINS_RIGHT ? QKV_JOINER : "");
}

static bool split_words(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    return qkv_tokens_split_words(tokens, text, count, add_word);
}

struct qkv_bare_token qkv_token_bare(const char *token)
{
    const size_t joiner = sizeof QKV_JOINER - 1;
    struct qkv_bare_token bare = {token, strlen(token), 0};
    if (!strncmp(token, QKV_JOINER, joiner) && !qkv_is_escaped(token + joiner))
        bare = (struct qkv_bare_token){token + joiner, bare.size - joiner, QKV_JOINS_LEFT};
    if (bare.size >= joiner && !memcmp(bare.text + bare.size - joiner, QKV_JOINER, joiner)) {
        bare.size -= joiner;
        bare.joins |= QKV_JOINS_RIGHT;
    }
    return bare;
}

static bool join_words(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                       char *line, int64_t *word, struct qkv_arena *arena)
{
    (void)arena;
    if (text->plain_marks && text->split_punctuation) {
        qkv_join_by_rules(text, count, tokens, line, word);
        return true;
    }
    bool after = true; /* the token before joins this one */
    for (int64_t i = 0; i < count; i++) {
        struct qkv_bare_token token = {tokens[i], strlen(tokens[i]), 0};
        if (text->split_punctuation) token = qkv_token_bare(tokens[i]);
        bool space = !after && !(token.joins & QKV_JOINS_LEFT);
        word[i] = i ? word[i - 1] + space : 0;
        if (space) *line++ = ' ';
        memcpy(line, token.text, token.size);
        line += token.size;
        after = token.joins & QKV_JOINS_RIGHT;
    }
    *line = '\0';
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_word = {split_words, join_words};

/* ---- level char: every user-perceived character is a token ---- */

static bool split_characters(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    (void)text;
    for (int64_t first, end = 0; next_chunk(tokens, count, &first, &end);
         tokens->words += ends_word(tokens, count, end)) {
        if (tokens->count) {
            if (!qkv_tokens_add(tokens, QKV_SPACE, 0, 0, "")) return false;
            tokens->word[tokens->count - 1] = -1;
        }
        for (int64_t i = first, next; i < end; i = next) {
            next = qkv_character_end(tokens->points, i, end);
            if (!qkv_tokens_add(tokens, "", i, next, "")) return false;
        }
    }
    return true;
}

static bool join_characters(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                            char *line, int64_t *word, struct qkv_arena *arena)
{
    (void)text;
    (void)arena;
    int64_t next = 0; /* the word of the next character */
    for (int64_t i = 0; i < count; i++) {
        bool space = !strcmp(tokens[i], QKV_SPACE);
        if (space && i && word[i - 1] >= 0) next++;
        word[i] = space ? -1 : next;
        line = append(line, space ? " " : tokens[i]);
    }
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_char = {split_characters, join_characters};
