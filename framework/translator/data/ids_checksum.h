/* The checksum of the sentences of a corpus. */
#ifndef QKV_DATA_IDS_CHECKSUM_H
#define QKV_DATA_IDS_CHECKSUM_H

#include <stdint.h>
#include <zlib.h>

/* Adds a sentence to a CRC-32: its ids as little-endian numbers, then -1. */
static inline uLong qkv_ids_checksum(uLong sum, const int32_t *ids, int64_t count)
{
    for (int64_t i = 0; i <= count; i++) {
        uint32_t id = i < count ? (uint32_t)ids[i] : UINT32_MAX;
        const Bytef bytes[4] = {(Bytef)id, (Bytef)(id >> 8), (Bytef)(id >> 16), (Bytef)(id >> 24)};
        sum = crc32_z(sum, bytes, sizeof bytes);
    }
    return sum;
}

#endif
