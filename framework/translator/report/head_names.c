/* Heads by name. */
#include "qkv/attention_map.h"
#include "qkv/heads.h"

#include <stdio.h>
#include <string.h>

void qkv_head_name(struct qkv_head head, char *text, size_t size)
{
    const struct qkv_attention_map map = {
        .kind = head.attention, .layer = (int)head.layer, .head = (int)head.head};
    qkv_attention_map_name(&map, text, size);
}

/* "the heads of the model are encoder.1.1 to encoder.2.4, cross.1.1": the first and the last of each kind. */
static void list_heads(const struct qkv_model *model, char *text, size_t size)
{
    int64_t count = qkv_model_head_count(model);
    size_t used = 0;
    char name[64];
    snprintf(text, size, "the model has no attention");
    for (int64_t i = 0; i < count && used < size; i++) {
        const struct qkv_head head = qkv_model_head(model, i), before = qkv_model_head(model, i - 1),
                              after = qkv_model_head(model, i + 1);
        bool is_first = i == 0 || before.attention != head.attention,
             is_last = i + 1 == count || after.attention != head.attention;
        qkv_head_name(head, name, sizeof name);
        if (is_first)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     i ? ", " : "the heads of the model are ", name);
        else if (is_last)
            used += (size_t)snprintf(text + used, size - used, " to %s", name);
    }
}

enum qkv_status qkv_head_find(const struct qkv_model *model, const char *name, struct qkv_head *head,
                              struct qkv_error *error)
{
    char existing[64], all[256];
    int64_t count = qkv_model_head_count(model);
    for (int64_t i = 0; i < count; i++) {
        *head = qkv_model_head(model, i);
        qkv_head_name(*head, existing, sizeof existing);
        if (!strcmp(existing, name)) return QKV_OK;
    }
    list_heads(model, all, sizeof all);
    return qkv_error_set(error, "there is no head '%s': %s", name, all);
}
