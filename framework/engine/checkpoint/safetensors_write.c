#include "checkpoint/safetensors.h"

#include "core/crc32.h"
#include "qkv/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors are little-endian; this machine needs code that swaps bytes"
#endif

/* Writes a text as JSON: quoted, with escapes. */
static void write_text(FILE *header, const char *text)
{
    static const char NAMES[] = "\"\\bfnrt", VALUES[] = "\"\\\b\f\n\r\t";
    fputc('"', header);
    for (; *text; text++) {
        const char *escaped = strchr(VALUES, *text);
        if (escaped)
            fprintf(header, "\\%c", NAMES[escaped - VALUES]);
        else if ((unsigned char)*text < ' ')
            fprintf(header, "\\u%04x", *text);
        else
            fputc(*text, header);
    }
    fputc('"', header);
}

static void write_entry(FILE *header, const char *separator, const char *key, const char *text)
{
    fputs(separator, header);
    write_text(header, key);
    fputc(':', header);
    write_text(header, text);
}

static void write_tensor(FILE *header, const struct qkv_safetensor *tensor, size_t begin)
{
    fputc(',', header);
    write_text(header, tensor->name);
    write_entry(header, ":{", "dtype", qkv_stored_type_name(tensor->type));
    fputs(",\"shape\":", header);
    for (int i = 0; i < tensor->shape.rank; i++)
        fprintf(header, "%c%" PRId64, i ? ',' : '[', tensor->shape.size[i]);
    fprintf(header, "],\"data_offsets\":[%zu,%zu]}", begin, begin + qkv_safetensor_size(tensor));
}

/* The header as text, with zeros for the checksum; NULL when memory runs out. The caller frees it. */
static char *make_header(int64_t count, const struct qkv_safetensor *tensors, int64_t metadata_count,
                         const struct qkv_state_entry *metadata)
{
    char *text = NULL;
    size_t size, begin = 0;
    FILE *header = open_memstream(&text, &size);
    if (!header) return NULL;
    write_entry(header, "{\"__metadata__\":{", QKV_CHECKSUM_KEY, QKV_CHECKSUM_NONE);
    for (int64_t i = 0; i < metadata_count; i++) write_entry(header, ",", metadata[i].key, metadata[i].text);
    fputc('}', header);
    for (int64_t i = 0; i < count; i++) {
        write_tensor(header, &tensors[i], begin);
        begin += qkv_safetensor_size(&tensors[i]);
    }
    fputc('}', header);
    bool has_failed = ferror(header);
    if (!fclose(header) && !has_failed) return text;
    free(text);
    return NULL;
}

/* The bytes of the file before the data: length, header, padding. NULL when memory runs out. The caller frees
 * them. */
static unsigned char *make_preamble(const char *header, size_t *size)
{
    size_t length = strlen(header), alignment = QKV_SAFETENSORS_ALIGNMENT;
    *size = (8 + length + alignment - 1) / alignment * alignment;
    unsigned char *preamble = malloc(*size);
    if (!preamble) return NULL;
    for (int i = 0; i < 8; i++) preamble[i] = (unsigned char)((*size - 8) >> (8 * i) & 0xFF);
    memset(preamble + 8, ' ', *size - 8);
    memcpy(preamble + 8, header, length);
    return preamble;
}

/* Computes the checksum of preamble and tensors and writes it over its zeros in the preamble. */
static void write_checksum(unsigned char *preamble, size_t size, const char *header, int64_t count,
                           const struct qkv_safetensor *tensors)
{
    uint32_t sum = qkv_crc32(0, preamble, size);
    for (int64_t i = 0; i < count; i++)
        sum = qkv_crc32(sum, tensors[i].data, qkv_safetensor_size(&tensors[i]));
    const char *place = strstr(header, QKV_CHECKSUM_BEGIN);
    QKV_BUG(!place, "a header was made without a checksum");
    char digits[QKV_CHECKSUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08" PRIx32, sum);
    memcpy(preamble + 8 + (place - header) + strlen(QKV_CHECKSUM_BEGIN), digits, QKV_CHECKSUM_DIGITS);
}

enum qkv_status qkv_safetensors_write(const char *path, int64_t count, const struct qkv_safetensor *tensors,
                                      int64_t metadata_count, const struct qkv_state_entry *metadata,
                                      struct qkv_error *error)
{
    struct qkv_file_writer writer;
    size_t size = 0;
    char *header = make_header(count, tensors, metadata_count, metadata);
    unsigned char *preamble = header ? make_preamble(header, &size) : NULL;
    enum qkv_status status =
        preamble ? qkv_file_begin(&writer, path, error) : qkv_error_set(error, "%s: out of memory", path);
    if (!status) {
        write_checksum(preamble, size, header, count, tensors);
        fwrite(preamble, 1, size, writer.file);
        for (int64_t i = 0; i < count; i++)
            fwrite(tensors[i].data, 1, qkv_safetensor_size(&tensors[i]), writer.file);
        status = qkv_file_commit(&writer, error);
    }
    free(preamble);
    free(header);
    return status;
}
