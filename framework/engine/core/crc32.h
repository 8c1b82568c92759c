/* The CRC-32 of zip, gzip and PNG (polynomial 0x04C11DB7, reflected), as zlib's crc32. */
#ifndef QKV_CORE_CRC32_H
#define QKV_CORE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues the sum of earlier bytes, which is 0 at first. */
uint32_t qkv_crc32(uint32_t sum, const void *bytes, size_t size);

#endif
