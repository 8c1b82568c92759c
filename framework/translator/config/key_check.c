#include "config/key_check.h"

#include <stdarg.h>
#include <string.h>

const struct qkv_key *qkv_key_at(const struct qkv_schema *schema, const char *path)
{
    const struct qkv_key *key = qkv_schema_find(schema, path);
    QKV_BUG(!key, "there is no key %s", path);
    return key;
}

const struct qkv_key_source *qkv_key_source_of(const struct qkv_key_check *check, const char *path)
{
    return &check->sources[qkv_key_at(check->schema, path) - check->schema->keys];
}

static bool is_reported(const struct qkv_collector *collector, struct qkv_place place, const char *sentence)
{
    for (int i = 0; i < collector->count; i++)
        if (!strcmp(collector->finding[i].name, place.name) && collector->finding[i].line == place.line &&
            collector->finding[i].column == place.column && strstr(collector->finding[i].text, sentence))
            return true;
    return false;
}

void qkv_key_report(const struct qkv_key_check *check, const char *path, const char *other,
                    const char *format, ...)
{
    const struct qkv_key_source *source = qkv_key_source_of(check, path),
                                *second = qkv_key_source_of(check, other);
    struct qkv_error error;
    va_list arguments;
    if (source->bad || second->bad) return;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    /* A file that is extended counts as correct by itself: the mistake is in the file that extends it. */
    bool changed_later = second->given && second->extended < source->extended;
    struct qkv_place place = source->given && !changed_later ? source->place : second->place;
    if (!is_reported(check->collector, place, error.message))
        qkv_collect(check->collector, place, "%s", error.message);
}
