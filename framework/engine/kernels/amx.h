/* Tiles of AMX: eight of 16 rows of 64 bytes. Only where qkv_has_amx. The instructions are written out: GCC 12 knows neither what
 * its intrinsics read from memory nor that they do. */
#pragma once

#include <stdint.h>

#if defined(__AVX512F__)

enum { AMX_ROWS = 16 };

/* Makes all tiles complete ones, on the thread that calls it. Its state is then larger, until amx_end. */
static inline void amx_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = 64;
        tiles.rows[i] = AMX_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(tiles) : "memory");
}

static inline void amx_end(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

/* Numbers of tiles are literals. bytes: int64_t, from one row in memory to the next. */
#    define AMX_LOAD(tile, from, bytes)                                                                      \
        __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(bytes) : "memory")
#    define AMX_STORE(tile, to, bytes)                                                                       \
        __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(bytes) : "memory")
#    define AMX_CLEAR(tile) __asm__ volatile("tilezero %%tmm" #    tile : :)
/* c += a b */
#    define AMX_MULTIPLY(instruction, c, a, b)                                                               \
        __asm__ volatile(#instruction " %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)
#endif
