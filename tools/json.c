#include "json.h"

#include "report/json_text.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

static bool memory_is_out;

static void *allocate(size_t size)
{
    void *memory = malloc(size);
    memory_is_out = memory_is_out || !memory;
    return memory;
}

void json_watch_memory(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){allocate, free});
}

bool json_memory_is_out(void)
{
    return memory_is_out;
}

enum qkv_status json_print(struct cJSON *object, struct qkv_error *error)
{
    struct bytes out = {0};
    out.failed = !object || memory_is_out;
    qkv_json_append(&out, object);
    qkv_bytes_text(&out, "\n");
    cJSON_Delete(object);
    if (!out.failed) fwrite(out.data, 1, out.size, stdout);
    free(out.data);
    return out.failed ? qkv_error_set(error, "out of memory for the JSON") : QKV_OK;
}
