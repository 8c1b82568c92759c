/* The messages about files: collected, sorted, and with hints for those who mistype a key or know it by another name. */
#include "config/schema.h"

#include "core/memory.h"
#include "core/text.h"

#include <stdarg.h>
#include <strings.h>

/* ---- collecting ---- */

bool qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
{
    struct qkv_arena *arena = collector->arena;
    if (arena->failed) return false; /* errors may only be consequences */
    if (collector->count == QKV_MESSAGES_MAX) {
        collector->left_out++;
        return false;
    }
    struct qkv_error sentence;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence.message, sizeof sentence.message, format, arguments);
    va_end(arguments);
    const char *text = place.line ? qkv_arena_format(arena, "%s:%d:%d: %s", place.name, place.line,
                                                     place.column, sentence.message)
                                  : qkv_arena_format(arena, "%s: %s", place.name, sentence.message);
    if (text) text = qkv_arena_plain(arena, text);
    if (!text) return false;
    int file = 0; /* its number is that of its first error */
    while (file < collector->count && strcmp(collector->finding[file].place.name, place.name) != 0) file++;
    collector->finding[collector->count++] = (struct qkv_finding){text, place, file};
    return false;
}

bool qkv_collector_failed(const struct qkv_collector *collector)
{
    return collector->count || collector->arena->failed;
}

/* True when `a` belongs after `b`. Findings without a line are last. */
static bool is_after(const struct qkv_finding *a, const struct qkv_finding *b)
{
    if (!a->place.line || !b->place.line) return !a->place.line && b->place.line;
    if (a->file != b->file) return a->file > b->file;
    return a->place.line != b->place.line ? a->place.line > b->place.line : a->place.column > b->place.column;
}

enum qkv_status qkv_collector_finish(struct qkv_collector *collector, const char *name,
                                     struct qkv_messages *messages)
{
    static const char NO_MEMORY[] = "out of memory";
    /* Insertion sort, because it is stable; the list has at most a hundred entries. */
    for (int i = 1; i < collector->count; i++) {
        struct qkv_finding moving = collector->finding[i];
        int to = i;
        for (; to > 0 && is_after(&collector->finding[to - 1], &moving); to--)
            collector->finding[to] = collector->finding[to - 1];
        collector->finding[to] = moving;
    }
    messages->count = collector->count;
    for (int i = 0; i < collector->count; i++) messages->text[i] = collector->finding[i].text;
    if (!collector->left_out && !collector->arena->failed) return messages->count ? QKV_INVALID : QKV_OK;
    if (messages->count < QKV_MESSAGES_MAX) messages->count++;
    /* This message may replace the last one, which is then not shown either: hence + 1. */
    const char *last = collector->arena->failed
                           ? qkv_arena_format(collector->arena, "%s: %s", name, NO_MEMORY)
                           : qkv_arena_format(collector->arena, "%s: %d more errors are not shown", name,
                                              collector->left_out + 1);
    messages->text[messages->count - 1] = last ? last : NO_MEMORY;
    return QKV_INVALID;
}

const char *qkv_printable(struct qkv_arena *arena, const char *text)
{
    enum { LONGEST = 60 };
    const char *end = text;
    while (*end) {
        const char *next = end;
        qkv_utf8_next(&next);
        if (next > text + LONGEST) break;
        end = next;
    }
    const char *cut = qkv_arena_format(arena, "%.*s%s", (int)(end - text), text, *end ? "..." : "");
    const char *plain = cut ? qkv_arena_plain(arena, cut) : NULL;
    return plain ? plain : "?";
}

/* ---- errors about keys ---- */

const struct qkv_key_source *qkv_key_source_of(const struct qkv_key_check *check, const char *path)
{
    return &check->sources[qkv_key_at(check->schema, path) - check->schema->keys];
}

static bool is_reported(const struct qkv_collector *collector, struct qkv_place place, const char *sentence)
{
    for (int i = 0; i < collector->count; i++) {
        const struct qkv_place *earlier = &collector->finding[i].place;
        if (!strcmp(earlier->name, place.name) && earlier->line == place.line &&
            earlier->column == place.column && strstr(collector->finding[i].text, sentence))
            return true;
    }
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
    for (; *a && plain_letter(*a) == plain_letter(*b); a++) b++;
    return plain_letter(*a) == plain_letter(*b);
}

/* Keys with the same name in another program: only those that share most leading sections with the unknown key. */
struct other_keys {
    const char *found[3];
    int count, most_shared;
};

static void add_other_key(struct other_keys *others, const char *path, const char *key)
{
    int shared = 0;
    for (const char *a = path, *b = key; *a && *a == *b; a++, b++) shared += *a == '.';
    if (shared > others->most_shared) {
        others->most_shared = shared;
        others->count = 0;
    }
    if (shared == others->most_shared && others->count < 3) others->found[others->count++] = key;
}

/* Whether a key of other_names.def stands for the key `path`: it has a * in place of one section. */
static bool stands_for(const char *key, const char *path)
{
    size_t before = strcspn(key, "*");
    const char *after = !strncmp(key, path, before) ? strchr(path + before, '.') : NULL;
    return after && !strcmp(after, key + before + 1);
}

/* The sides of which a name of other_names.def, in which % stands for one, is `text`: a bit for each. */
static unsigned sides_of_name(const char *name, const char *text)
{
    static const char *const sides[2][6] = {{"enc", "encoder", "src", "source"},
                                            {"dec", "decoder", "trg", "tgt", "target"}};
    const char *mark = strchr(name, '%');
    if (!mark) return is_same_name(name, text) ? 3 : 0;
    for (unsigned side = 0; side < 2; side++)
        for (const char *const *word = sides[side]; *word; word++) {
            char complete[QKV_KEY_LONGEST];
            snprintf(complete, sizeof complete, "%.*s%s%s", (int)(mark - name), name, *word, mark + 1);
            if (is_same_name(complete, text)) return 1u << side;
        }
    return 0;
}

/* Lists the keys for which another program uses `path`, or its last part, as name. */
static void list_other_names(const struct qkv_schema *schema, const char *path,
                             char hint[static QKV_HINT_SIZE])
{
    struct other_keys others = {0};
    for (int i = 0; i < schema->other_name_count; i++) {
        const struct qkv_other_names *row = &schema->other_names[i];
        unsigned sides = 0;
        for (const char *const *name = row->names; *name; name++)
            sides |= sides_of_name(*name, last_part(path)) | sides_of_name(*name, path);
        if (!sides) continue;
        if (!strchr(row->key, '*')) add_other_key(&others, path, row->key);
        for (int k = 0; strchr(row->key, '*') && k < schema->count; k++) {
            const char *key = schema->keys[k].path;
            unsigned side = strstr(key, ".encoder.") || strstr(key, ".src.") ? 1 : 2;
            if (stands_for(row->key, key) && sides & side) add_other_key(&others, path, key);
        }
    }
    size_t used = 0;
    for (int i = 0; i < others.count; i++) {
        const char *separator = !i ? "" : i + 1 < others.count ? ", " : " or ";
        used += (size_t)snprintf(hint + used, QKV_HINT_SIZE - used, "%s%s", separator, others.found[i]);
    }
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
    static const char *const sections[][2] = {{"source", "src"}, {"target", "trg"}, {"tgt", "trg"}};
    for (size_t size; *path; path += size) {
        size = strcspn(path, ".");
        const char *ours = NULL;
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
            if (strlen(sections[i][0]) == size && !strncasecmp(path, sections[i][0], size))
                ours = sections[i][1];
        renamed += sprintf(renamed, "%.*s", (int)(ours ? strlen(ours) : size), ours ? ours : path);
        if (path[size] == '.') *renamed++ = path[size++];
    }
    *renamed = '\0';
}

void qkv_collect_unknown(struct qkv_collector *collector, const struct qkv_schema *schema,
                         struct qkv_place place, const char *path)
{
    char renamed[QKV_KEY_LONGEST], hint[QKV_HINT_SIZE] = "";
    bool is_shown =
        collector->count < QKV_MESSAGES_MAX; /* otherwise the search for a hint would be in vain */
    if (is_shown && strlen(path) < QKV_KEY_LONGEST) {
        rename_sections(path, renamed);
        list_other_names(schema, renamed, hint);
        if (!*hint) find_nearest(schema, renamed, hint);
    }
    qkv_collect(collector, place,
                !strncmp(hint, "leave it", 8) ? "unknown key %s: %s"
                : *hint                       ? "unknown key %s; did you mean %s"
                                              : "unknown key %s",
                qkv_printable(collector->arena, path), hint);
}
