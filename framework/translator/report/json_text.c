#include "report/json_text.h"

#include "core/plain_text.h"
#include "draw/text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

static void append_escaped(struct bytes *out, uint32_t point)
{
    if (point == '"' || point == '\\')
        qkv_bytes_format(out, "\\%c", (char)point);
    else if (point == '\n')
        qkv_bytes_text(out, "\\n");
    else if (point == '\t')
        qkv_bytes_text(out, "\\t");
    else if (point < 0x10000)
        qkv_bytes_format(out, "\\u%04x", point);
    else /* beyond U+FFFF: a surrogate pair */
        qkv_bytes_format(out, "\\u%04x\\u%04x", 0xD800 + ((point - 0x10000) >> 10),
                         0xDC00 + (point - 0x10000) % 0x400);
}

static void append_string(struct bytes *out, const char *text)
{
    qkv_bytes_text(out, "\"");
    while (*text) {
        const char *next = text;
        uint32_t point = qkv_utf8_next(&next);
        if (point == '"' || point == '\\' || !qkv_is_plain(point)) {
            append_escaped(out, point);
            text = next;
        } else {
            qkv_text_next(out, &text);
        }
    }
    qkv_bytes_text(out, "\"");
}

static void append_line(struct bytes *out, int indent)
{
    qkv_bytes_text(out, "\n");
    for (int i = 0; i < indent; i++) qkv_bytes_text(out, "\t");
}

static void append_item(struct bytes *out, const cJSON *item, int depth)
{
    const cJSON *child;
    if (cJSON_IsObject(item)) {
        qkv_bytes_text(out, "{");
        cJSON_ArrayForEach(child, item)
        {
            append_line(out, depth + 1);
            append_string(out, child->string);
            qkv_bytes_text(out, ":\t");
            append_item(out, child, depth + 1);
            if (child->next) qkv_bytes_text(out, ",");
        }
        append_line(out, depth);
        qkv_bytes_text(out, "}");
    } else if (cJSON_IsArray(item)) {
        qkv_bytes_text(out, "[");
        cJSON_ArrayForEach(child, item)
        {
            append_item(out, child, depth + 1);
            if (child->next) qkv_bytes_text(out, ", ");
        }
        qkv_bytes_text(out, "]");
    } else if (cJSON_IsString(item)) {
        append_string(out, item->valuestring);
    } else if (cJSON_IsNumber(item) && isfinite(item->valuedouble)) {
        qkv_bytes_number(out, item->valuedouble);
    } else if (cJSON_IsBool(item)) {
        qkv_bytes_text(out, cJSON_IsTrue(item) ? "true" : "false");
    } else {
        qkv_bytes_text(out, "null");
    }
}

void qkv_json_append(struct bytes *out, const cJSON *item)
{
    append_item(out, item, 0);
}
