#include "checkpoint/safetensors.h"

#include "qkv/file.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "safetensors are little-endian; this machine needs code that swaps bytes"
#endif

static bool add_metadata(cJSON *header, int64_t count, const struct qkv_state_entry *metadata)
{
    cJSON *object = cJSON_AddObjectToObject(header, "__metadata__");
    bool done = cJSON_AddStringToObject(object, QKV_CHECKSUM_KEY, QKV_CHECKSUM_NONE) != NULL;
    for (int64_t i = 0; i < count && done; i++)
        done = cJSON_AddStringToObject(object, metadata[i].key, metadata[i].text) != NULL;
    return done;
}

static bool add_number(cJSON *array, double number)
{
    return cJSON_AddItemToArray(array, cJSON_CreateNumber(number));
}

static bool add_tensor(cJSON *header, const struct qkv_safetensor *tensor, size_t begin)
{
    cJSON *object = cJSON_AddObjectToObject(header, tensor->name);
    bool done = cJSON_AddStringToObject(object, "dtype", qkv_stored_type_name(tensor->type)) != NULL;
    cJSON *shape = cJSON_AddArrayToObject(object, "shape");
    for (int i = 0; i < tensor->shape.rank; i++)
        done = add_number(shape, (double)tensor->shape.size[i]) && done;
    cJSON *offsets = cJSON_AddArrayToObject(object, "data_offsets");
    return done && add_number(offsets, (double)begin) &&
           add_number(offsets, (double)(begin + qkv_safetensor_size(tensor)));
}

/* The header as text, with zeros for the checksum; NULL when memory runs out. The caller frees it with
 * cJSON_free. */
static char *make_header(int64_t count, const struct qkv_safetensor *tensors, int64_t metadata_count,
                         const struct qkv_state_entry *metadata)
{
    cJSON *header = cJSON_CreateObject();
    bool done = add_metadata(header, metadata_count, metadata);
    size_t begin = 0;
    for (int64_t i = 0; i < count && done; i++) {
        done = add_tensor(header, &tensors[i], begin);
        begin += qkv_safetensor_size(&tensors[i]);
    }
    char *text = done ? cJSON_PrintUnformatted(header) : NULL;
    cJSON_Delete(header);
    return text;
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
    uLong sum = crc32_z(0, preamble, size);
    for (int64_t i = 0; i < count; i++) sum = crc32_z(sum, tensors[i].data, qkv_safetensor_size(&tensors[i]));
    const char *place = strstr(header, QKV_CHECKSUM_BEGIN);
    QKV_BUG(!place, "a header was made without a checksum");
    char digits[QKV_CHECKSUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%08lx", sum & 0xFFFFFFFFu);
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
    cJSON_free(header);
    return status;
}
