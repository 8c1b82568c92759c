/* Looks keys up in a table. */
#include "config/schema.h"

#include "qkv/nearest.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

bool qkv_choice_exists(const struct qkv_choices *choices, int value)
{
    return value >= 0 && value < choices->count;
}

const char *qkv_choice_name(const struct qkv_choices *choices, int value)
{
    return qkv_choice_exists(choices, value) ? choices->list[value].name : "unknown";
}

const struct qkv_key *qkv_schema_find(const struct qkv_schema *schema, const char *path)
{
    for (int i = 0; i < schema->count; i++)
        if (!strcmp(schema->keys[i].path, path)) return &schema->keys[i];
    return NULL;
}

bool qkv_schema_is_section(const struct qkv_schema *schema, const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < schema->count; i++)
        if (!strncmp(schema->keys[i].path, path, length) && schema->keys[i].path[length] == '.') return true;
    return false;
}

const char *qkv_schema_keys_of(const struct qkv_schema *schema, const char *path, char separator,
                               char text[static QKV_SECTION_SIZE])
{
    size_t length = strlen(path), used = 0;
    int count = 0;
    *text = '\0';
    for (int i = 0; i < schema->count; i++) {
        const char *key = schema->keys[i].path;
        if (strncmp(key, path, length) != 0 || key[length] != separator) continue;
        if (count++ >= QKV_SECTION_KEYS) continue;
        snprintf(text + used, QKV_SECTION_SIZE - used, "%s%s", used ? ", " : "", key);
        used += strlen(text + used);
    }
    if (count > QKV_SECTION_KEYS)
        snprintf(text + used, QKV_SECTION_SIZE - used, " and %d more", count - QKV_SECTION_KEYS);
    return text;
}

const struct qkv_key *qkv_key_without_effect(const struct qkv_schema *schema, const struct qkv_key *key,
                                             const void *config)
{
    if (!key->used_by) return NULL;
    const struct qkv_key *choice = qkv_schema_find(schema, key->used_by);
    QKV_BUG(!choice || choice->kind != QKV_KEY_CHOICE, "%s: %s is not a choice", key->path, key->used_by);
    const struct qkv_key *earlier = qkv_key_without_effect(schema, choice, config);
    if (earlier) return earlier;
    return qkv_key_is_one_of(choice, config, key->used_values) ? NULL : key;
}

bool qkv_key_is_one_of(const struct qkv_key *choice, const void *config, uint32_t values)
{
    int value;
    memcpy(&value, qkv_key_value(choice, config), sizeof value);
    return value >= 0 && value < choice->choices->count && values >> value & 1;
}

const struct qkv_key *qkv_key_used_by_choice(const struct qkv_schema *schema, const struct qkv_key *key,
                                             uint32_t *values)
{
    for (int i = 0; i < schema->count; i++) {
        const struct qkv_key *choice = &schema->keys[i];
        *values = 0;
        for (int c = 0; choice->choices && c < choice->choices->count; c++)
            if (qkv_paths_hold(choice->choices->list[c].uses, key->path)) *values |= UINT32_C(1) << c;
        if (*values) return choice;
    }
    return NULL;
}

const char *qkv_key_text(const struct qkv_key *key, const void *config)
{
    const char *text = *(const char *const *)qkv_key_value(key, config);
    return text ? text : "";
}

const struct qkv_choice *qkv_key_choice(const struct qkv_key *key, const void *config)
{
    static const struct qkv_choice none;
    int value;
    memcpy(&value, qkv_key_value(key, config), sizeof value);
    return value >= 0 && value < key->choices->count ? &key->choices->list[value] : &none;
}

bool qkv_paths_hold(const char *const *paths, const char *path)
{
    for (; paths && *paths && **paths; paths++)
        if (!strcmp(*paths, path)) return true;
    return false;
}

const char *qkv_choices_text(char text[static QKV_CHOICES_SIZE], const struct qkv_choices *choices,
                             uint32_t values, const char *quote, const char *last_separator)
{
    int used = 0, last = choices->count - 1;
    while (last > 0 && !(choices->list[last].help && values >> last & 1)) last--;
    for (int i = 0; i <= last; i++) {
        if (!choices->list[i].help || !(values >> i & 1)) continue;
        used += snprintf(text + used, QKV_CHOICES_SIZE - (size_t)used, "%s%s%s%s",
                         !used       ? ""
                         : i == last ? last_separator
                                     : ", ",
                         quote, choices->list[i].name, quote);
    }
    return text;
}

/* ---- hints ---- */

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static char plain_letter(char letter)
{
    if (letter == '-') return '_';
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Whether two names differ only in case, or in hyphens and underscores. */
static bool is_same_name(const char *a, const char *b)
{
    while (*a && plain_letter(*a) == plain_letter(*b)) {
        a++;
        b++;
    }
    return plain_letter(*a) == plain_letter(*b);
}

/* Number of leading sections that two paths share. */
static int shared_sections(const char *a, const char *b)
{
    int count = 0;
    for (; *a && *a == *b; a++, b++) count += *a == '.';
    return count;
}

/* Lists the keys for which another program uses `path`, or its last part, as name. If there are several, lists only those that
 * share most leading sections with `path`. */
static void list_other_names(const struct qkv_schema *schema, const char *path,
                             char hint[static QKV_HINT_SIZE])
{
    enum { CAPACITY = 3 };
    const char *found[CAPACITY];
    int most_shared = 0, count = 0;
    for (int i = 0; i < schema->other_name_count; i++) {
        const struct qkv_other_name *other = &schema->other_names[i];
        if (!is_same_name(last_part(path), other->name) && !is_same_name(path, other->name)) continue;
        int shared = shared_sections(path, other->path);
        if (shared > most_shared) {
            most_shared = shared;
            count = 0;
        }
        if (shared == most_shared && count < CAPACITY) found[count++] = other->path;
    }
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(hint + used, QKV_HINT_SIZE - used, "%s%s",
                                 !i              ? ""
                                 : i + 1 < count ? ", "
                                                 : " or ",
                                 found[i]);
}

/* Number of edits between `path` and the path of a key or section. If the last parts are similar, all differences between the
 * sections together count as at most 2 edits. */
static int distance(const char *path, const char *candidate)
{
    enum { OTHER_SECTION = 2 };
    int edits = qkv_name_distance(path, candidate);
    const char *name = last_part(path), *candidate_name = last_part(candidate);
    int name_edits = qkv_name_distance(name, candidate_name);
    if (!qkv_names_are_near(name, candidate_name, name_edits)) return edits;
    return edits < OTHER_SECTION + name_edits ? edits : OTHER_SECTION + name_edits;
}

/* Finds the key or section with the fewest edits. */
static void find_nearest(const struct qkv_schema *schema, const char *path,
                         char nearest[static QKV_HINT_SIZE])
{
    int best = QKV_KEY_LONGEST;
    char candidate[QKV_KEY_LONGEST];
    for (int i = 0; i < schema->count; i++) {
        /* Compare with the sections that contain the key, then with the key itself. */
        const char *start = schema->keys[i].path, *end = start;
        do {
            end += strcspn(end, ".");
            memcpy(candidate, start, (size_t)(end - start));
            candidate[end - start] = '\0';
            int edits = distance(path, candidate);
            if (edits >= best) continue;
            best = edits;
            strcpy(nearest, candidate);
        } while (*end++);
    }
    int edits = distance(last_part(path), last_part(nearest));
    if (edits < best) best = edits;
    if (!qkv_names_are_near(last_part(path), last_part(nearest), best)) *nearest = '\0';
}

/* Copies a path, with our names, which are shorter, for the sections that other programs call source, target or tgt. */
static void rename_sections(const char *path, char renamed[static QKV_KEY_LONGEST])
{
    static const struct {
        const char *name, *ours;
    } sections[] = {{"source", "src"}, {"target", "trg"}, {"tgt", "trg"}};
    for (size_t size; *path; path += size) {
        size = strcspn(path, ".");
        const char *part = path;
        size_t part_size = size;
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
            if (strlen(sections[i].name) == size && !strncasecmp(path, sections[i].name, size)) {
                part = sections[i].ours;
                part_size = strlen(part);
            }
        memcpy(renamed, part, part_size);
        renamed += part_size;
        if (path[size] == '.') *renamed++ = path[size++];
    }
    *renamed = '\0';
}

const char *qkv_schema_hint(const struct qkv_schema *schema, const char *path,
                            char hint[static QKV_HINT_SIZE])
{
    char renamed[QKV_KEY_LONGEST];
    *hint = '\0';
    if (strlen(path) >= QKV_KEY_LONGEST) return hint;
    rename_sections(path, renamed);
    list_other_names(schema, renamed, hint);
    if (!*hint) find_nearest(schema, renamed, hint);
    return hint;
}
