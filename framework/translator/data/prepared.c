/* Functions shared by writing and opening a prepared corpus. */
#include "data/prepared.h"

#include "config/config_keys.h"
#include "config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

uint32_t qkv_prepared_checksum(const struct qkv_prepared_header *header)
{
    struct qkv_prepared_header copy = *header;
    copy.checksum = 0;
    return (uint32_t)crc32_z(0, (const Bytef *)&copy, sizeof copy);
}

char *qkv_prepared_settings(const struct qkv_data_config *data)
{
    const struct qkv_config config = {.data = *data};
    struct qkv_arena arena = {0};
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    bool good = stream;
    for (int i = 0; good && i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (key->is_path || strncmp(key->path, "data.", 5) != 0) continue;
        const char *value = qkv_value_text(key, &config, &arena);
        good = value && fprintf(stream, "%s=%s\n", key->path, value) >= 0;
    }
    good = stream && !fclose(stream) && good;
    qkv_arena_release(&arena);
    if (good) return text;
    free(text);
    return NULL;
}

enum qkv_status qkv_prepared_check_dropout(const char *path, const struct qkv_data_config *data,
                                           struct qkv_error *error)
{
    bool source = data->src.bpe_dropout > 0;
    if (!source && !(data->trg.bpe_dropout > 0)) return QKV_OK;
    return qkv_error_set(
        error,
        "%s: a prepared corpus has the same pieces in each epoch, so that data.%s.bpe_dropout "
        "(%g) must be 0: leave it out, or train from the text",
        path, source ? "src" : "trg", source ? data->src.bpe_dropout : data->trg.bpe_dropout);
}
