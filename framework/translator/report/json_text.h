/* Private: JSON as text. */
#pragma once

#include "draw/text.h"

struct cJSON;

/* Appends an item in the layout of cJSON_Print, which loses the last digits of numbers and writes invalid JSON for
 * invalid UTF-8. Here numbers read back as the same double (NaN and infinities are null), strings as the same
 * string. Characters that are not plain (core/text.h) are escaped, so that the text is safe to show in a terminal;
 * bytes that are not valid UTF-8 become U+FFFD. */
void qkv_json_append(struct bytes *out, const struct cJSON *item);
