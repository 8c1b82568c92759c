#include "core/crc32.h"

#include <pthread.h>
#include <string.h>

/* TABLE[k][b]: the sum of byte b with k zero bytes behind it. Eight tables take eight bytes at a time (Kounavis and Berry
 * 2008, "slicing by 8"). */
static uint32_t TABLE[8][256];

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
        TABLE[0][byte] = sum;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            TABLE[k][byte] = TABLE[k - 1][byte] >> 8 ^ TABLE[0][TABLE[k - 1][byte] & 0xFF];
}

uint32_t qkv_crc32(uint32_t sum, const void *bytes, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
    const unsigned char *at = bytes;
    sum = ~sum;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + 4, 4);
        low ^= sum;
        sum = TABLE[7][low & 0xFF] ^ TABLE[6][low >> 8 & 0xFF] ^ TABLE[5][low >> 16 & 0xFF] ^
              TABLE[4][low >> 24] ^ TABLE[3][high & 0xFF] ^ TABLE[2][high >> 8 & 0xFF] ^
              TABLE[1][high >> 16 & 0xFF] ^ TABLE[0][high >> 24];
    }
    for (; size; size--, at++) sum = sum >> 8 ^ TABLE[0][(sum ^ *at) & 0xFF];
    return ~sum;
}
