/* Fuzz target: tokenizers, from text to tokens and back. */
#include "harness.h"

enum { LOWERCASE = 1, SPLIT = 2, CHARACTERS = 4, PLAIN = 8, LANGUAGE = 16 };

static void require_tokens(const struct qkv_tokens *tokens)
{
    for (int64_t i = 0; i < tokens->count; i++) {
        size_t size = strlen(tokens->token[i]);
        REQUIRE(size > 0 && !strpbrk(tokens->token[i], " \t\n\r\v\f"));
        REQUIRE(tokens->word[i] >= -1 && tokens->word[i] < tokens->words);
    }
}

/* Joins tokens to a text. Every text that comes out can be split again. */
static void join_and_split(const struct qkv_text_config *text, const struct qkv_tokens *tokens)
{
    struct qkv_arena arena = {0};
    struct qkv_tokens again RELEASED(qkv_tokens_release) = {0};
    struct qkv_error error;
    const char *joined = qkv_detokenize(text, tokens->count, tokens->token, &arena);
    REQUIRE(joined);
    REQUIRE(!qkv_tokenize(&again, text, joined, strlen(joined), &error));
    require_tokens(&again);
    REQUIRE((again.count == 0) == (tokens->count == 0) || text->level == QKV_LEVEL_CHAR);
    qkv_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const languages[] = {"en", "fr", "ca_ES", "zh"};
    struct input input = {data, size}, line;
    unsigned switches = take_switches(&input);
    const struct qkv_text_config text = {.lang = languages[switches / LANGUAGE],
                                         .level = switches & CHARACTERS ? QKV_LEVEL_CHAR : QKV_LEVEL_WORD,
                                         .lowercase = switches & LOWERCASE,
                                         .split_punctuation = switches & SPLIT,
                                         .plain_marks = switches & PLAIN};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    struct qkv_error error = {""};
    while (take_part(&input, "\n", &line)) {
        char *copy RELEASED(free_memory) =
            malloc(line.size ? line.size : 1); /* a block of its own, so that reading beyond it is found */
        REQUIRE(copy);
        memcpy(copy, line.data, line.size);
        if (qkv_tokenize(&tokens, &text, copy, line.size, &error)) {
            require_message(&error);
            REQUIRE(tokens.count == 0);
        } else {
            require_tokens(&tokens);
            join_and_split(&text, &tokens);
        }
    }
    return 0;
}
