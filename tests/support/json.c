#include "json.h"

#include <criterion/criterion.h>

cJSON *json_parsed(const char *text)
{
    cJSON *object = cJSON_Parse(text);
    cr_assert_not_null(object, "%s", text);
    return object;
}

double json_number(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    cr_assert(cJSON_IsNumber(item), "%s", key);
    return item->valuedouble;
}
