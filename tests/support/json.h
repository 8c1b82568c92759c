/* Reads the JSON that commands print. Each fails the test where the text is not what it should be. */
#pragma once

#include "support.h"

#include <cjson/cJSON.h>

/* Parses a text. The caller deletes the object. */
cJSON *json_parsed(const char *text);

/* Runs a command as run_ok does and parses what it printed. The result lives until the test ends. */
const cJSON *json_by(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the item at a path such as "maps.0.rows", of keys and of places in arrays, from 0; NULL if there is none. */
const cJSON *json_at(const cJSON *json, const char *path);

/* Returns the number, the text or the number of elements at a path. */
double json_number(const cJSON *json, const char *path);
const char *json_text(const cJSON *json, const char *path);
int json_size(const cJSON *json, const char *path);

/* Returns a number of a matrix. */
double json_cell(const cJSON *matrix, int row, int column);
