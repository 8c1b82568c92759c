/* Fuzz target: a file of merges. One that is accepted reads back as the same file, and the merges cut a text (the lines
 * of the file itself) so that joining the pieces gives the text again. */
#include "harness.h"

#include "framework/translator/data/bpe.h"

static void cut_and_join(const struct qkv_bpe *bpe, const char *line, size_t size)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = bpe};
    const struct qkv_text_config words = {.lang = "en", .level = QKV_LEVEL_WORD};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0}, expected RELEASED(qkv_tokens_release) = {0};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_error error;
    if (!qkv_tokenize(&tokens, &text, line, size, &error)) {
        REQUIRE(!qkv_tokenize(&expected, &words, line, size, &error));
        const char *joined = qkv_detokenize(&text, tokens.count, tokens.token, &arena);
        const char *wanted = qkv_detokenize(&words, expected.count, expected.token, &arena);
        REQUIRE(joined && wanted && tokens.words == expected.words);
        REQUIRE(!strcmp(joined, wanted));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_error error = {""};
    struct qkv_bpe *bpe RELEASED(free_bpe) = qkv_bpe_load(write_file("codes", data, size), &error);
    if (!bpe) {
        require_message(&error);
        return 0;
    }
    REQUIRE(bpe->count > 0);
    const char *path = path_of("again");
    REQUIRE(!qkv_bpe_save(bpe, path, &error));
    struct qkv_bpe *again RELEASED(free_bpe) = qkv_bpe_load(path, &error);
    REQUIRE(again && qkv_bpe_checksum(bpe) == qkv_bpe_checksum(again));
    struct input input = {data, size}, line;
    while (take_part(&input, "\n", &line)) cut_and_join(bpe, (const char *)line.data, line.size);
    cut_and_join(again, (const char *)data, size);
    return 0;
}
