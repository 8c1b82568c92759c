/* NumPy archives: zip files of .npy arrays, without compression. */
#include "report/archive.h"

#include "core/plain_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Appends what the header of a member and its entry in the directory have in common. */
static void append_entry(struct bytes *bytes, const char *name, const struct bytes *content)
{
    uint32_t checksum = (uint32_t)crc32(0, (const unsigned char *)content->data, (uInt)content->size);
    qkv_bytes_little_endian(bytes, 20, 2);         /* version 2.0 to extract */
    qkv_bytes_little_endian(bytes, 0x0800, 2);     /* names are UTF-8 */
    qkv_bytes_little_endian(bytes, 0, 2);          /* stored */
    qkv_bytes_little_endian(bytes, 0, 2);          /* 00:00:00 */
    qkv_bytes_little_endian(bytes, 1 << 5 | 1, 2); /* 1980-01-01 */
    qkv_bytes_little_endian(bytes, checksum, 4);
    qkv_bytes_little_endian(bytes, content->size, 4); /* compressed */
    qkv_bytes_little_endian(bytes, content->size, 4); /* uncompressed */
    qkv_bytes_little_endian(bytes, strlen(name), 2);
    qkv_bytes_little_endian(bytes, 0, 2); /* no extra field */
}

static void append_member(struct archive *archive, const char *name, struct bytes *content)
{
    uint64_t offset = archive->out->size;
    if (content->failed) archive->out->failed = true;
    qkv_bytes_little_endian(archive->out, 0x04034B50, 4);
    append_entry(archive->out, name, content);
    qkv_bytes_text(archive->out, name);
    qkv_bytes_append(archive->out, content->data, content->size);

    qkv_bytes_little_endian(&archive->directory, 0x02014B50, 4);
    qkv_bytes_little_endian(&archive->directory, 20, 2); /* made by version 2.0 */
    append_entry(&archive->directory, name, content);
    qkv_bytes_little_endian(&archive->directory, 0, 2); /* no comment */
    qkv_bytes_little_endian(&archive->directory, 0, 2); /* disk */
    qkv_bytes_little_endian(&archive->directory, 0, 2); /* internal attributes */
    qkv_bytes_little_endian(&archive->directory, 0, 4); /* external attributes */
    qkv_bytes_little_endian(&archive->directory, offset, 4);
    qkv_bytes_text(&archive->directory, name);
    archive->members++;
    content->size = 0;
}

/* Appends the header of .npy 1.0: magic, version, length, and a Python dict that is padded with spaces and a
 * line end so that the data starts at a multiple of 64. */
static void append_header(struct bytes *content, const char *type, const char *shape)
{
    enum { PREFIX = 10 };
    qkv_bytes_append(content, "\x93NUMPY\x01\x00", 8);
    char dictionary[192];
    int length = snprintf(dictionary, sizeof dictionary,
                          "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    int padded = (PREFIX + length + 1 + 63) / 64 * 64;
    qkv_bytes_little_endian(content, (uint64_t)(padded - PREFIX), 2);
    qkv_bytes_format(content, "%-*s\n", padded - PREFIX - 1, dictionary);
}

void qkv_npz_append_numbers(struct archive *archive, const char *name, const int64_t *shape, int rank,
                            const double *values)
{
    struct bytes content = {0};
    char text[96] = "";
    int64_t count = 1;
    for (int i = 0; i < rank; i++) {
        count *= shape[i];
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
    }
    char tuple[104];
    snprintf(tuple, sizeof tuple, rank == 1 ? "(%s,)" : "(%s)", text);
    append_header(&content, "<f8", tuple);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        qkv_bytes_little_endian(&content, bits, 8);
    }
    append_member(archive, name, &content);
    free(content.data);
}

/* UTF-32 of fixed width, padded with zeros. */
void qkv_npz_append_tokens(struct archive *archive, const char *name, const char *const *tokens,
                           int64_t count)
{
    struct bytes content = {0};
    char type[32], shape[32];
    int longest = 1;
    for (int64_t i = 0; i < count; i++) {
        int length = 0;
        for (const char *rest = tokens[i]; qkv_utf8_next(&rest);) length++;
        if (length > longest) longest = length;
    }
    snprintf(type, sizeof type, "<U%d", longest);
    snprintf(shape, sizeof shape, "(%lld,)", (long long)count);
    append_header(&content, type, shape);
    for (int64_t i = 0; i < count; i++) {
        const char *rest = tokens[i];
        for (int at = 0; at < longest; at++) qkv_bytes_little_endian(&content, qkv_utf8_next(&rest), 4);
    }
    append_member(archive, name, &content);
    free(content.data);
}

enum qkv_status qkv_npz_finish(struct archive *archive, struct qkv_error *error)
{
    uint64_t offset = archive->out->size;
    qkv_bytes_append(archive->out, archive->directory.data, archive->directory.size);
    qkv_bytes_little_endian(archive->out, 0x06054B50, 4);
    qkv_bytes_little_endian(archive->out, 0, 4); /* disks */
    qkv_bytes_little_endian(archive->out, (uint64_t)archive->members, 2);
    qkv_bytes_little_endian(archive->out, (uint64_t)archive->members, 2);
    qkv_bytes_little_endian(archive->out, archive->directory.size, 4);
    qkv_bytes_little_endian(archive->out, offset, 4);
    qkv_bytes_little_endian(archive->out, 0, 2); /* no comment */
    if (archive->directory.failed) archive->out->failed = true;
    free(archive->directory.data);
    if (archive->members <= UINT16_MAX && archive->out->size <= UINT32_MAX) return QKV_OK;
    return qkv_error_set(error, "%d arrays of %zu bytes are too many for one npz: choose some of them",
                         archive->members, archive->out->size);
}
