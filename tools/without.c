#include "without.h"

#include "qkv/heads.h"

#include <stdio.h>
#include <string.h>

/* Silences the heads of a comma-separated list. */
static enum qkv_status silence_list(struct qkv_model *model, const char *names, struct qkv_error *error)
{
    for (const char *next = names; next; next = strchr(next, ',') ? strchr(next, ',') + 1 : NULL) {
        char name[128];
        struct qkv_error inner;
        struct qkv_head head;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(next, ","), next);
        if (qkv_head_find(model, name, &head, &inner))
            return qkv_error_set(error, "--without: %s", inner.message);
        qkv_model_ablate(model, head, true);
    }
    return QKV_OK;
}

enum qkv_status silence_heads(struct qkv_model *model, const struct option_list *without,
                              struct qkv_error *error)
{
    for (int i = 0; i < without->count; i++)
        if (silence_list(model, without->value[i], error)) return QKV_INVALID;
    return QKV_OK;
}

const char *list_silent_heads(const struct qkv_model *model, char *text, size_t size)
{
    size_t used = 0;
    char name[64];
    *text = '\0';
    for (int64_t i = 0; i < qkv_model_head_count(model) && used < size; i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        if (!qkv_model_is_ablated(model, head)) continue;
        qkv_head_name(head, name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
    }
    return text;
}
