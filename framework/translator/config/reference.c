/* Writes the reference: a table of all keys. */
#include "config/value.h"

#include <math.h>

/* "integer, tokens" */
static void write_type(const struct qkv_key *key, FILE *file)
{
    static const char *const names[] = {
        [QKV_KEY_TEXT] = "text",       [QKV_KEY_INTEGER] = "integer", [QKV_KEY_NUMBER] = "number",
        [QKV_KEY_BOOLEAN] = "boolean", [QKV_KEY_CHOICE] = "choice",   [QKV_KEY_PAIR] = "two numbers",
        [QKV_KEY_TEXTS] = "texts",     [QKV_KEY_MATRIX] = "matrix",
    };
    fprintf(file, "%s%s%s", key->is_path ? "path" : names[key->kind], *key->unit ? ", " : "", key->unit);
}

static void write_range(const struct qkv_key *key, FILE *file)
{
    char choices[QKV_CHOICES_SIZE], range[QKV_RANGE_SIZE];
    if (key->kind == QKV_KEY_BOOLEAN) fputs("`true`, `false`", file);
    if (key->choices) fputs(qkv_choices_text(choices, key->choices, UINT32_MAX, "`", ", "), file);
    if (isinf(key->range.lowest)) return;
    qkv_range_text(range, &key->range);
    fputs(range, file);
}

/* Lists the choices that read the key, if there are choices that ignore it. */
static void write_readers(const struct qkv_schema *schema, const struct qkv_key *key, FILE *file)
{
    /* A free key, such as training.updates, always has an effect, even if only some choices read it. */
    if (key->role != QKV_ROLE_TRAJECTORY) return;
    uint32_t values;
    char readers[QKV_CHOICES_SIZE];
    const struct qkv_key *reader = qkv_key_used_by_choice(schema, key, &values);
    if (reader) fprintf(file, "; read by %s", qkv_choices_text(readers, reader->choices, values, "`", ", "));
}

/* Writes the help of the key and of its choices, and the values of another key without which it has no effect. */
static void write_meaning(const struct qkv_schema *schema, const struct qkv_key *key, FILE *file)
{
    fputs(key->help, file);
    for (int i = 0; key->choices && i < key->choices->count; i++) {
        const struct qkv_choice *choice = &key->choices->list[i];
        if (choice->help && *choice->help) fprintf(file, "; `%s`: %s", choice->name, choice->help);
        for (const char *const *path = choice->needs; path && *path && **path; path++)
            fprintf(file, ", needs `%s`", *path);
    }
    write_readers(schema, key, file);
    if (key->read_with) fprintf(file, "; read only with `%s` above 0", key->read_with);
    if (!key->used_by) return;
    char values[QKV_CHOICES_SIZE];
    const struct qkv_choices *choices = qkv_schema_find(schema, key->used_by)->choices;
    fprintf(file, "; has an effect only with `%s` %s", key->used_by,
            qkv_choices_text(values, choices, key->used_values, "`", " or "));
}

enum qkv_status qkv_schema_write_reference(const struct qkv_schema *schema, FILE *file)
{
    fputs("| Key | Type | Values | Default | Meaning |\n|---|---|---|---|---|\n", file);
    for (int i = 0; i < schema->count; i++) {
        const struct qkv_key *key = &schema->keys[i];
        fprintf(file, "| `%s` | ", key->path);
        write_type(key, file);
        fputs(" | ", file);
        write_range(key, file);
        if (!key->fallback)
            fputs(" | required | ", file);
        else
            fprintf(file, " | `%s` | ", *key->fallback ? key->fallback : "\"\"");
        write_meaning(schema, key, file);
        fputs(" |\n", file);
    }
    return ferror(file) ? QKV_INVALID : QKV_OK;
}
