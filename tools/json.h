/* Prints JSON to standard output, completely or not at all. */
#ifndef QKV_TOOLS_JSON_H
#define QKV_TOOLS_JSON_H

#include "qkv/error.h"

#include <stdbool.h>

struct cJSON;

/* Makes json_memory_is_out notice when memory runs out in cJSON, whose functions then add nothing. Call it before any other
 * function of cJSON. */
void json_watch_memory(void);

/* True once memory has run out: objects may be incomplete, and texts may not have been read as JSON for that reason. */
bool json_memory_is_out(void);

/* Prints an object and frees it, even on failure. Fails when memory runs out; a failed write is reported when the program
 * ends. */
enum qkv_status json_print(struct cJSON *object, struct qkv_error *error);

#endif
