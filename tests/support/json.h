/* Reads the JSON that commands print. Each fails the test where the text is not what it should be. */
#ifndef QKV_TESTS_JSON_H
#define QKV_TESTS_JSON_H

#include <cjson/cJSON.h>

/* Parses a text. The caller deletes the object. */
cJSON *json_parsed(const char *text);

/* Returns the number that `key` of an object holds. */
double json_number(const cJSON *object, const char *key);

#endif
