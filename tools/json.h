/* JSON on standard output. */
#ifndef QKV_TOOLS_JSON_H
#define QKV_TOOLS_JSON_H

#include "qkv/error.h"

struct cJSON;

/* Prints an object and frees it, also on failure. Fails out of memory; a failed write is reported when the program
 * ends. */
enum qkv_status json_print(struct cJSON *object, struct qkv_error *error);

#endif
