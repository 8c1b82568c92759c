/* Private to the writers of JSON: cJSON passes a failed allocation on as NULL; one flag collects it. */
#ifndef QKV_REPORT_JSON_H
#define QKV_REPORT_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>

static inline void json_add(cJSON *object, const char *name, cJSON *item, bool *complete)
{
    if (item && cJSON_AddItemToObject(object, name, item)) return;
    cJSON_Delete(item);
    *complete = false;
}

static inline void json_push(cJSON *array, cJSON *item, bool *complete)
{
    if (item && cJSON_AddItemToArray(array, item)) return;
    cJSON_Delete(item);
    *complete = false;
}

#endif
