/* The storage of the tokens of one line. */
#include "core/grow.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

bool qkv_tokens_next_word(const struct qkv_tokens *tokens, int64_t count, int64_t *first, int64_t *end)
{
    *first = *end;
    while (*first < count && qkv_is_space(tokens->points[*first])) ++*first;
    for (*end = *first; *end < count && !qkv_is_space(tokens->points[*end]);) ++*end;
    return *end > *first;
}

/* Makes room for one more token and `size` bytes of text. */
static bool reserve(struct qkv_tokens *tokens, int64_t size)
{
    return QKV_RESERVE(tokens->token, tokens->token_capacity, tokens->count + 1) &&
           QKV_RESERVE(tokens->word, tokens->word_capacity, tokens->count + 1) &&
           QKV_RESERVE(tokens->text, tokens->text_capacity, tokens->text_size + size);
}

/* qkv_tokenize sets tokens->token when the line is complete: until then, reserve() can move tokens->text. */
bool qkv_tokens_add(struct qkv_tokens *tokens, int64_t first, int64_t end)
{
    if (!reserve(tokens, 4 * (end - first) + 1)) return false;
    char *text = tokens->text + tokens->text_size;
    tokens->text_size += qkv_utf8_encode(tokens->points + first, end - first, text) + 1 - text;
    tokens->word[tokens->count++] = tokens->words;
    return true;
}

bool qkv_tokens_end_with(struct qkv_tokens *tokens, const char *end)
{
    int64_t size = (int64_t)strlen(end);
    if (!reserve(tokens, size)) return false;
    memcpy(tokens->text + tokens->text_size - 1, end, (size_t)size + 1);
    tokens->text_size += size;
    return true;
}

bool qkv_tokens_add_text(struct qkv_tokens *tokens, const char *text)
{
    int64_t size = (int64_t)strlen(text) + 1;
    if (!reserve(tokens, size)) return false;
    memcpy(tokens->text + tokens->text_size, text, (size_t)size);
    tokens->text_size += size;
    tokens->word[tokens->count++] = -1;
    return true;
}

char *qkv_append(char *end, const char *text)
{
    size_t size = strlen(text);
    memcpy(end, text, size + 1);
    return end + size;
}

void qkv_tokens_release(struct qkv_tokens *tokens)
{
    free(tokens->token);
    free(tokens->word);
    free(tokens->text);
    free(tokens->points);
    free(tokens->pieces);
    free(tokens->candidates);
    *tokens = (struct qkv_tokens){0};
}
