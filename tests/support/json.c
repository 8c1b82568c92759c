#include "json.h"

cJSON *json_parsed(const char *text)
{
    cJSON *object = cJSON_Parse(text);
    cr_assert_not_null(object, "%s", text);
    return object;
}

const cJSON *json_by(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *command = vformat(pattern, arguments);
    va_end(arguments);
    return remember(json_parsed(run_ok("%s", command)));
}

const cJSON *json_at(const cJSON *json, const char *path)
{
    for (char *key = strtok(format("%s", path), "."); json && key; key = strtok(NULL, "."))
        json = cJSON_IsArray(json) ? cJSON_GetArrayItem(json, atoi(key))
                                   : cJSON_GetObjectItemCaseSensitive(json, key);
    return json;
}

double json_number(const cJSON *json, const char *path)
{
    const cJSON *item = json_at(json, path);
    cr_assert(cJSON_IsNumber(item), "%s", path);
    return item->valuedouble;
}

const char *json_text(const cJSON *json, const char *path)
{
    const cJSON *item = json_at(json, path);
    cr_assert(cJSON_IsString(item), "%s", path);
    return item->valuestring;
}

int json_size(const cJSON *json, const char *path)
{
    const cJSON *item = json_at(json, path);
    cr_assert_not_null(item, "%s", path);
    return cJSON_GetArraySize(item);
}

double json_cell(const cJSON *matrix, int row, int column)
{
    const cJSON *cell = cJSON_GetArrayItem(cJSON_GetArrayItem(matrix, row), column);
    cr_assert(cJSON_IsNumber(cell), "no [%d, %d]", row, column);
    return cell->valuedouble;
}
