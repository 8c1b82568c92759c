/* Fuzz target: a vocabulary. One that is accepted reads back as the same file, and every token has its own id. */
#include "data/corpus.h"
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = {0},
                                     again RELEASED(qkv_vocabulary_release) = {0};
    struct qkv_error error = {""};
    if (qkv_vocabulary_load(&vocabulary, write_file("vocabulary", data, size), &error)) {
        require_message(&error);
        REQUIRE(vocabulary.size == 0);
        return 0;
    }
    REQUIRE(vocabulary.size >= QKV_SPECIALS);
    for (int32_t id = QKV_SPECIALS; id < vocabulary.size; id++)
        REQUIRE(qkv_vocabulary_id(&vocabulary, qkv_vocabulary_token(&vocabulary, id)) == id);
    const char *path = path_of("again");
    REQUIRE(!qkv_vocabulary_save(&vocabulary, path, &error) && !qkv_vocabulary_load(&again, path, &error));
    REQUIRE(qkv_vocabulary_checksum(&vocabulary) == qkv_vocabulary_checksum(&again));
    return 0;
}
