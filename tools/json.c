#include "json.h"

#include <cjson/cJSON.h>
#include <stdio.h>

enum qkv_status json_print(struct cJSON *object, struct qkv_error *error)
{
    char *text = cJSON_Print(object);
    cJSON_Delete(object);
    if (!text) return qkv_error_set(error, "out of memory for the JSON");
    puts(text);
    cJSON_free(text);
    return QKV_OK;
}
