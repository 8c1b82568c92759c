/* Files of safetensors that a test writes byte by byte, and loads that must fail. */
#pragma once

#include "parameters.h"

#include <zlib.h>

/* A file with this header (its quotes written as ') and `size` bytes of data (NULL: all zero). A checksum of 00000000 becomes
 * the right one. */
static inline const char *crafted(const char *header, size_t size, const void *data)
{
    size_t length = strlen(header), all = 8 + length + size;
    char *bytes RELEASED(free_memory) = calloc(1, all + 1), digits[9];
    for (unsigned i = 0; i < 8; i++) bytes[i] = (char)(length >> (8 * i) & 0xFF);
    for (size_t i = 0; i < length; i++) bytes[8 + i] = header[i] == '\'' ? '"' : header[i];
    char *place = strstr(bytes + 8, "\"qkv.crc32\":\"00000000\"");
    if (data) memcpy(bytes + 8 + length, data, size);
    snprintf(digits, sizeof digits, "%08lx", crc32(0, (const Bytef *)bytes, (uInt)all) & 0xFFFFFFFFu);
    if (place) memcpy(place + 13, digits, 8);
    return write_bytes(scratch("crafted"), "x.safetensors", bytes, all);
}

/* Loading must fail with `path: sentence`, or with any sentence about the path if it is NULL, and change nothing. `optimizer`
 * may be NULL. */
static inline void expect_not_loaded(const char *path, struct qkv_parameters *parameters,
                                     struct qkv_optimizer_state *optimizer, const char *sentence)
{
    static struct qkv_state state;
    const size_t size = (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
    const int64_t updates = optimizer ? optimizer->updates : 0;
    void *before RELEASED(free_memory) = malloc(size);
    memcpy(before, parameters->values, size);
    const char *message = sentence ? format("%s: %s", path, sentence) : path;
    cr_expect(qkv_checkpoint_load(path, parameters, optimizer, &state, &error) == QKV_INVALID &&
                  !strncmp(error.message, message, sentence ? sizeof error.message : strlen(path)),
              "%s, but wanted %s", error.message, message);
    cr_assert_eq(memcmp(before, parameters->values, size), 0);
    cr_assert_eq(optimizer ? optimizer->updates : 0, updates);
    cr_assert_eq(state.count, 0);
}
