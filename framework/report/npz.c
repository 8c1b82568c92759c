/* NumPy's npz: a zip archive, here stored without compression, of .npy arrays: one float64 array a map, and
 * the tokens as arrays of Unicode text. All times are 1980-01-01, so equal reports give equal bytes. */
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <zlib.h>

/* The archive so far: members in `out`, and the directory that goes behind them. */
struct archive {
    struct bytes *out, directory;
    int members;
};

/* What the header of a member and its entry in the directory have in common. */
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

static void append_directory(struct archive *archive)
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
}

/* The header of .npy 1.0: magic, version, length, a Python dict padded with spaces to a multiple of 64, a
 * line end. */
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

static void append_weights(struct bytes *content, const struct qkv_attention_map *map)
{
    char shape[64];
    snprintf(shape, sizeof shape, "(%lld, %lld)", (long long)map->rows, (long long)map->columns);
    append_header(content, "<f8", shape);
    for (int64_t i = 0; i < map->rows * map->columns; i++) {
        uint64_t bits;
        memcpy(&bits, &map->weights[i], sizeof bits);
        qkv_bytes_little_endian(content, bits, 8);
    }
}

/* The next code point of a text, and 0 at its end. */
static uint32_t next_point(const char **text)
{
    utf8proc_int32_t point = 0;
    if (!**text) return 0;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)*text, -1, &point);
    *text += size < 1 ? 1 : size;
    return size < 1 ? 0xFFFD : (uint32_t)point;
}

/* Fixed width UTF-32, filled up with zeros. */
static void append_tokens(struct bytes *content, const char *const *tokens, int64_t count)
{
    char type[32], shape[32];
    int longest = 1;
    for (int64_t i = 0; i < count; i++) {
        int length = 0;
        for (const char *rest = tokens[i]; next_point(&rest);) length++;
        if (length > longest) longest = length;
    }
    snprintf(type, sizeof type, "<U%d", longest);
    snprintf(shape, sizeof shape, "(%lld,)", (long long)count);
    append_header(content, type, shape);
    for (int64_t i = 0; i < count; i++) {
        const char *rest = tokens[i];
        for (int at = 0; at < longest; at++) qkv_bytes_little_endian(content, next_point(&rest), 4);
    }
}

enum qkv_status qkv_report_npz(const struct report_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    struct archive archive = {.out = out};
    struct bytes content = {0};
    append_tokens(&content, report->source, report->source_length);
    append_member(&archive, "source.npy", &content);
    append_tokens(&content, report->target_input, report->target_length);
    append_member(&archive, "target_input.npy", &content);
    append_tokens(&content, report->target_output, report->target_length);
    append_member(&archive, "target_output.npy", &content);
    for (int64_t i = 0; i < report->map_count; i++) {
        char name[64];
        qkv_attention_map_name(&report->maps[i], name, sizeof name - 4);
        strcat(name, ".npy");
        append_weights(&content, &report->maps[i]);
        append_member(&archive, name, &content);
    }
    append_directory(&archive);
    if (archive.directory.failed) out->failed = true;
    free(content.data);
    free(archive.directory.data);
    if (archive.members > UINT16_MAX || out->size > UINT32_MAX)
        return qkv_error_set(error,
                             "%d attention maps of %zu bytes are too many for one npz: choose some of them",
                             archive.members - 3, out->size);
    return QKV_OK;
}
