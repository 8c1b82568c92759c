/* Animated PNG: the chunks of still pictures in one file.
 *
 *     signature, IHDR, acTL        acTL: number of frames, number of plays (0: for ever)
 *     IDAT ...                     the default image: no frame, because no fcTL precedes it
 *     fcTL, fdAT ... for each frame; fdAT: a sequence number and the data of an IDAT
 *     IEND
 *
 * The default image is what programs without APNG show. It repeats the last frame.
 *
 * fcTL and fdAT share one sequence of numbers from 0. Numbers are big-endian; a chunk is length, type, data, CRC-32 of type
 * and data. */
#include "draw/animation.h"

#include <string.h>
#include <zlib.h>

static const char SIGNATURE[] = "\x89PNG\r\n\x1a\n";

enum {
    SIGNATURE_SIZE = 8,
    CHUNK_FRAME = 12, /* bytes of a chunk without its data */
    IHDR_SIZE = 13,
    FCTL_SIZE = 26,
};

struct chunk {
    const char *type; /* 4 letters, then the data */
    size_t size;      /* of the data */
};

static size_t read_number(const char *at)
{
    size_t value = 0;
    for (int i = 0; i < 4; i++) value = value << 8 | (unsigned char)at[i];
    return value;
}

static char *put_number(char *at, uint32_t value, int size)
{
    for (int i = size - 1; i >= 0; i--) *at++ = (char)(value >> (8 * i) & 0xFF);
    return at;
}

/* Reads the chunk at offset *used, and advances *used; false when the file ends before the chunk does. */
static bool next_chunk(const struct animation_frame *frame, size_t *used, struct chunk *chunk)
{
    if (frame->size - *used < CHUNK_FRAME) return false;
    chunk->size = read_number(frame->png + *used);
    chunk->type = frame->png + *used + 4;
    if (chunk->size > frame->size - *used - CHUNK_FRAME) return false;
    *used += chunk->size + CHUNK_FRAME;
    return true;
}

/* Appends a chunk whose data has two parts. */
static void add_chunk(struct bytes *out, const char type[4], const char *head, size_t head_size,
                      const char *data, size_t size)
{
    char number[4];
    uLong sum = crc32_z(0, (const Bytef *)type, 4);
    sum = crc32_z(sum, (const Bytef *)head, head_size);
    if (size) sum = crc32_z(sum, (const Bytef *)data, size);
    put_number(number, (uint32_t)(head_size + size), 4);
    qkv_bytes_append(out, number, 4);
    qkv_bytes_append(out, type, 4);
    qkv_bytes_append(out, head, head_size);
    if (size) qkv_bytes_append(out, data, size);
    put_number(number, (uint32_t)sum, 4);
    qkv_bytes_append(out, number, 4);
}

/* Whether a frame has the same header as the first one: the same size and type of pixels. */
static bool has_header_of(const struct animation_frame *frame, const struct animation_frame *first)
{
    const size_t size = SIGNATURE_SIZE + CHUNK_FRAME + IHDR_SIZE;
    return frame->size >= size && !memcmp(frame->png, SIGNATURE, SIGNATURE_SIZE) &&
           !memcmp(frame->png, first->png, size);
}

static void add_control(struct bytes *out, uint32_t *sequence, const struct animation_frame *frame)
{
    char data[FCTL_SIZE] = {0}, *at = put_number(data, (*sequence)++, 4);
    memcpy(at, frame->png + SIGNATURE_SIZE + 8, 8); /* width and height; x and y offset stay 0 */
    at = put_number(at + 16, (uint32_t)frame->milliseconds, 2);
    put_number(at, 1000, 2); /* parts of a second; then zeros: leave the frame as it is, and overwrite it */
    add_chunk(out, "fcTL", data, sizeof data, NULL, 0);
}

static void add_default_image(struct bytes *out, const struct animation_frame *frame)
{
    struct chunk chunk;
    for (size_t used = SIGNATURE_SIZE; next_chunk(frame, &used, &chunk);)
        if (!memcmp(chunk.type, "IDAT", 4)) add_chunk(out, "IDAT", chunk.type + 4, chunk.size, NULL, 0);
}

static void add_frame(struct bytes *out, uint32_t *sequence, const struct animation_frame *frame)
{
    struct chunk chunk;
    add_control(out, sequence, frame);
    for (size_t used = SIGNATURE_SIZE; next_chunk(frame, &used, &chunk);) {
        char number[4];
        if (memcmp(chunk.type, "IDAT", 4) != 0) continue;
        put_number(number, (*sequence)++, 4);
        add_chunk(out, "fdAT", number, sizeof number, chunk.type + 4, chunk.size);
    }
}

enum qkv_status qkv_animation_write(const struct animation_frame *frames, int64_t count, struct bytes *out,
                                    struct qkv_error *error)
{
    char control[8];
    uint32_t sequence = 0;
    for (int64_t i = 0; i < count; i++)
        if (!has_header_of(&frames[i], &frames[0]))
            return qkv_error_set(error, "frame %lld has another size than the first, or is no PNG",
                                 (long long)i + 1);
    put_number(put_number(control, (uint32_t)count, 4), 0, 4);
    qkv_bytes_append(out, frames[0].png, SIGNATURE_SIZE + CHUNK_FRAME + IHDR_SIZE);
    add_chunk(out, "acTL", control, sizeof control, NULL, 0);
    add_default_image(out, &frames[count - 1]);
    for (int64_t i = 0; i < count; i++) add_frame(out, &sequence, &frames[i]);
    add_chunk(out, "IEND", "", 0, NULL, 0);
    return QKV_OK;
}
