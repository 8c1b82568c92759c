/* Every user-perceived character is a token. */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

static const char SPACE[] = "\u2581"; /* ▁, the token of white space */

static bool split(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    (void)text;
    for (int64_t first, end = 0; qkv_tokens_next_word(tokens, count, &first, &end); tokens->words++) {
        if (tokens->count && !qkv_tokens_add_text(tokens, SPACE)) return false;
        for (int64_t i = first, next; i < end; i = next) {
            next = qkv_character_end(tokens->points, i, end);
            if (!qkv_tokens_add(tokens, i, next)) return false;
        }
    }
    return true;
}

static bool join(const struct qkv_text_config *text, int64_t count, const char *const *tokens, char *line,
                 int64_t *word, struct qkv_arena *arena)
{
    (void)text;
    (void)arena;
    int64_t next = 0; /* the word of the next character */
    for (int64_t i = 0; i < count; i++) {
        bool space = !strcmp(tokens[i], SPACE);
        if (space && i && word[i - 1] >= 0) next++;
        word[i] = space ? -1 : next;
        line = qkv_append(line, space ? " " : tokens[i]);
    }
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_char = {split, join};
