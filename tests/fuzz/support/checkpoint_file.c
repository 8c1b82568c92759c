#define _GNU_SOURCE /* memmem */
#include "checkpoint_file.h"

#include "harness.h"

const char *write_checkpoint(const char *name, const uint8_t *bytes, size_t size)
{
    static const char begin[] = "\"qkv.crc32\":\"";
    enum { DIGITS = 8 };
    char *copy RELEASED(free_memory) = malloc(size + 1), digits[DIGITS + 1];
    REQUIRE(copy);
    if (size) memcpy(copy, bytes, size);
    char *found = memmem(copy, size, begin, sizeof begin - 1);
    if (found && (found += sizeof begin - 1) + DIGITS <= copy + size) {
        memset(found, '0', DIGITS);
        snprintf(digits, sizeof digits, "%08lx", crc32_z(0, (unsigned char *)copy, size) & 0xFFFFFFFFu);
        memcpy(found, digits, DIGITS);
    }
    return write_file(name, copy, size);
}

/* Changes one entry of the header. */
static void change(cJSON *header, char *line)
{
    char *text = strchr(line, '='), *dot;
    if (!text) return;
    *text++ = '\0';
    cJSON *object = cJSON_GetObjectItemCaseSensitive(header, "__metadata__"), *value = NULL;
    if ((dot = strrchr(line, '.')) != NULL) {
        *dot = '\0';
        cJSON *tensor = cJSON_GetObjectItemCaseSensitive(header, line);
        *dot = '.';
        if (tensor && (value = cJSON_Parse(text))) {
            object = tensor;
            line = dot + 1;
        }
    }
    if (!value) value = cJSON_CreateString(text);
    if (cJSON_GetObjectItemCaseSensitive(object, line))
        cJSON_ReplaceItemInObjectCaseSensitive(object, line, value);
    else
        cJSON_AddItemToObject(object, line, value);
}

const char *write_changed_checkpoint(const char *name, const char *file, size_t size, struct input changes)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    size_t length = 0;
    for (unsigned i = 0; i < 8; i++) length |= (size_t)(unsigned char)file[i] << (8 * i);
    cJSON *header RELEASED(free_json) = cJSON_ParseWithLength(file + 8, length);
    for (char *line; (line = take_text(&changes, "\n", &arena));) change(header, line);
    char *text RELEASED(free_memory) = cJSON_PrintUnformatted(header);
    size_t data_size = size - 8 - length, text_size = strlen(text);
    uint8_t *bytes RELEASED(free_memory) = malloc(8 + text_size + data_size);
    REQUIRE(bytes);
    for (unsigned i = 0; i < 8; i++) bytes[i] = (uint8_t)(text_size >> (8 * i));
    memcpy(bytes + 8, text, text_size);
    memcpy(bytes + 8 + text_size, file + 8 + length, data_size);
    return write_checkpoint(name, bytes, 8 + text_size + data_size);
}
