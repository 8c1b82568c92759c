/* Reads YAML with libyaml into a tree of nodes with line and column, and refuses what people overlook. */
#include "config/schema.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"

#include <errno.h>
#include <yaml.h>

struct reader {
    const char *path;
    struct qkv_collector *collector;
    yaml_parser_t parser;
    const char *bytes; /* the contents of the file */
    size_t size;
    int depth;   /* number of open sequences and mappings */
    bool broken; /* stop reading */
};

static struct qkv_place place_of(const struct reader *reader, yaml_mark_t mark)
{
    return (struct qkv_place){reader->path, (int)mark.line + 1, (int)mark.column + 1};
}

/* The place of the byte at offset `at`. As in libyaml, LF, CR and CRLF end a line, and columns count characters. */
static struct qkv_place place_of_byte(const struct reader *reader, size_t at)
{
    struct qkv_place place = {reader->path, 1, 1};
    for (size_t i = 0; i < at; i++) {
        unsigned char byte = (unsigned char)reader->bytes[i];
        if (byte == '\n' || (byte == '\r' && reader->bytes[i + 1] != '\n')) {
            place.line++;
            place.column = 1;
        } else if ((byte & 0xC0) != 0x80 && byte != '\r')
            place.column++;
    }
    return place;
}

static const char *printable(const struct reader *reader, const void *text)
{
    return qkv_printable(reader->collector->arena, text);
}

/* ---- from events to nodes ---- */

/* The byte where character number `index` begins, in UTF-8. */
static char qkv_utf8_at(const char *text, size_t index)
{
    for (; *text && ((text[1] & 0xC0) == 0x80 || index--); text++) continue;
    return *text;
}

static void collect_syntax_error(const struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    const char *problem = parser->problem ? parser->problem : "out of memory";
    size_t at = parser->problem_offset < reader->size ? parser->problem_offset : reader->size;
    struct qkv_place place = parser->error == YAML_READER_ERROR ? place_of_byte(reader, at)
                                                                : place_of(reader, parser->problem_mark);
    if (parser->error == YAML_MEMORY_ERROR)
        reader->collector->arena->failed = true;
    else if (parser->error == YAML_SCANNER_ERROR && parser->problem_mark.index < reader->size &&
             qkv_utf8_at(reader->bytes, parser->problem_mark.index) == '\t')
        qkv_collect(reader->collector, place, "not valid YAML: a tab; indent with spaces");
    else if (parser->context && parser->error != YAML_READER_ERROR)
        qkv_collect(reader->collector, place, "not valid YAML: %s %s that starts in line %d", problem,
                    parser->context, (int)parser->context_mark.line + 1);
    else
        qkv_collect(reader->collector, place, "not valid YAML: %s", problem);
}

/* The next event, which the caller deletes; false when reading has stopped. */
static bool next_event(struct reader *reader, yaml_event_t *event)
{
    if (reader->broken) return false;
    if (yaml_parser_parse(&reader->parser, event)) return true;
    collect_syntax_error(reader);
    reader->broken = true;
    return false;
}

static void refuse_anchor_and_tag(const struct reader *reader, yaml_mark_t mark, const yaml_char_t *anchor,
                                  const yaml_char_t *tag)
{
    struct qkv_place place = place_of(reader, mark);
    if (anchor)
        qkv_collect(reader->collector, place,
                    "anchors are refused (&%s); write the value out where it is used",
                    printable(reader, anchor));
    if (tag) qkv_collect(reader->collector, place, "tags are refused (%s)", printable(reader, tag));
}

static void read_scalar(struct reader *reader, const yaml_event_t *event, struct qkv_yaml_node *node)
{
    const char *text = (const char *)event->data.scalar.value;
    refuse_anchor_and_tag(reader, event->start_mark, event->data.scalar.anchor, event->data.scalar.tag);
    if (memchr(text, '\0', event->data.scalar.length)) {
        qkv_collect(reader->collector, place_of(reader, event->start_mark), "a text holds a NUL character");
        node->kind = QKV_YAML_REFUSED;
    }
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = qkv_kept(qkv_arena_string(reader->collector->arena, text));
}

static struct qkv_yaml_node *read_node(struct reader *reader, const yaml_event_t *event);

/* Reads the key of a mapping; refuses one that the mapping has already. NULL: reading has stopped. */
static struct qkv_yaml_node *read_key(struct reader *reader, const yaml_event_t *event,
                                      const struct qkv_yaml_node *mapping)
{
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    if (list || event->type == YAML_MAPPING_START_EVENT) {
        qkv_collect(reader->collector, place_of(reader, event->start_mark), "a key must be a text, not a %s",
                    list ? "list" : "mapping");
        reader->broken = true;
        return NULL;
    }
    struct qkv_yaml_node *key = read_node(reader, event);
    const struct qkv_yaml_node *value = mapping->first;
    if (!key || key->kind != QKV_YAML_SCALAR) return key;
    while (value && strcmp(value->key->text, key->text) != 0) value = value->next;
    if (value) {
        qkv_collect(reader->collector, (struct qkv_place){reader->path, key->line, key->column},
                    "duplicate key %s, already given in line %d", printable(reader, key->text),
                    value->key->line);
        key->kind = QKV_YAML_REFUSED;
    }
    return key;
}

/* Reads the items of a sequence or the values of a mapping. If reading stops before its end, a sequence is refused, because it
 * is incomplete; the keys of a mapping are complete and stay. */
static void read_children(struct reader *reader, struct qkv_yaml_node *node)
{
    struct qkv_yaml_node **to = &node->first, *key = NULL;
    bool is_mapping = node->kind == QKV_YAML_MAPPING;
    yaml_event_t event;
    for (; next_event(reader, &event); yaml_event_delete(&event)) {
        if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
            yaml_event_delete(&event);
            return;
        }
        if (is_mapping && !key) {
            key = read_key(reader, &event, node);
            continue;
        }
        bool is_kept = !is_mapping || key->kind != QKV_YAML_REFUSED;
        if (is_kept && is_mapping && node->count == QKV_YAML_MAX_KEYS) {
            qkv_collect(reader->collector, place_of(reader, event.start_mark),
                        "a mapping has more than %d keys", QKV_YAML_MAX_KEYS);
            reader->broken = true;
            continue;
        }
        struct qkv_yaml_node *child = read_node(reader, &event);
        if (child && is_kept) {
            child->key = key;
            *to = child;
            to = &child->next;
            node->count++;
        }
        key = NULL;
    }
    if (!is_mapping) node->kind = QKV_YAML_REFUSED;
}

/* Reads the node that begins with this event. NULL: reading has stopped. */
static struct qkv_yaml_node *read_node(struct reader *reader, const yaml_event_t *event)
{
    struct qkv_yaml_node *node = qkv_arena_zeroed(reader->collector->arena, sizeof *node);
    struct qkv_place place = place_of(reader, event->start_mark);
    if (!node) {
        reader->broken = true;
        return NULL;
    }
    node->line = place.line;
    node->column = place.column;
    if (event->type == YAML_SCALAR_EVENT) {
        read_scalar(reader, event, node);
        return node;
    }
    if (event->type == YAML_ALIAS_EVENT) {
        qkv_collect(reader->collector, place, "aliases are refused (*%s); write the value out",
                    printable(reader, event->data.alias.anchor));
        node->kind = QKV_YAML_REFUSED;
        return node;
    }
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    node->kind = list ? QKV_YAML_SEQUENCE : QKV_YAML_MAPPING;
    refuse_anchor_and_tag(reader, event->start_mark,
                          list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
                          list ? event->data.sequence_start.tag : event->data.mapping_start.tag);
    if (reader->depth == QKV_YAML_DEEPEST) {
        qkv_collect(reader->collector, place, "nested deeper than %d levels", QKV_YAML_DEEPEST);
        reader->broken = true;
        return NULL;
    }
    reader->depth++;
    read_children(reader, node);
    reader->depth--;
    return node;
}

/* Reads the one document of a file. */
static struct qkv_yaml_node *read_document(struct reader *reader)
{
    struct qkv_yaml_node *root = NULL;
    int documents = 0;
    yaml_event_t event;
    for (bool ended = false; !ended && next_event(reader, &event); yaml_event_delete(&event)) {
        ended = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT && documents++) {
            qkv_collect(reader->collector, place_of(reader, event.start_mark),
                        "a second document starts here, but a file holds one");
            reader->broken = true;
        }
        bool is_around = ended || event.type == YAML_STREAM_START_EVENT ||
                         event.type == YAML_DOCUMENT_START_EVENT || event.type == YAML_DOCUMENT_END_EVENT;
        if (!is_around) root = read_node(reader, &event);
    }
    return root;
}

/* ---- files ---- */

/* Collects an error for the first byte that is NUL or invalid UTF-8; true when there is none. */
static bool check_bytes(const struct reader *reader)
{
    size_t valid = qkv_text_valid_size(reader->bytes, reader->size);
    if (valid == reader->size) return true;
    unsigned byte = (unsigned char)reader->bytes[valid];
    qkv_collect(reader->collector, place_of_byte(reader, valid),
                byte ? "not valid UTF-8 (byte 0x%02X)" : "NUL byte", byte);
    return false;
}

/* The file x.yaml if the user has named x or x.yml, or one of that name in the folder configs; NULL if there is none. */
static const char *suggest_config(const struct reader *reader)
{
    size_t size = strlen(reader->path);
    if (size > 4 && !strcmp(reader->path + size - 4, ".yml")) size -= 4;
    static const char *const folders[] = {"", "configs/", "configs/history/"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *meant = QKV_KEPT(reader->collector, "%s%.*s.yaml", folders[i], (int)size, reader->path);
        if (qkv_path_exists(meant)) return meant;
    }
    return NULL;
}

/* Opens the file; NULL after collecting an error. */
static FILE *open_file(const struct reader *reader)
{
    struct qkv_error error = {""};
    FILE *file = qkv_file_stream(reader->path, false, &error);
    if (file) return file;
    /* The error begins with the path and ": ". */
    const char *shown = qkv_arena_plain(reader->collector->arena, reader->path);
    size_t skipped = shown ? strlen(shown) + 2 : sizeof error.message;
    const char *meant = qkv_path_exists(reader->path) ? NULL : suggest_config(reader);
    qkv_collect(reader->collector, (struct qkv_place){.name = reader->path},
                meant ? "%s; did you mean %s" : "%s",
                skipped < strlen(error.message) ? error.message + skipped : "cannot be read", meant);
    return NULL;
}

/* The bytes of the file, followed by a NUL, on the heap; NULL after collecting an error. */
static char *load(struct reader *reader)
{
    struct qkv_place place = {.name = reader->path};
    FILE *file = open_file(reader);
    char *bytes = NULL;
    bool failed = !file;
    /* The block grows with the file: one for the largest file would, once freed, make malloc keep all large blocks. */
    for (size_t capacity = 1 << 14; !failed && reader->size <= QKV_YAML_LARGEST; capacity *= 2) {
        char *grown = realloc(bytes, capacity + 1);
        if (grown) reader->size += fread((bytes = grown) + reader->size, 1, capacity - reader->size, file);
        if (!grown) reader->collector->arena->failed = failed = true;
        if (reader->size < capacity) break;
    }
    failed = failed || ferror(file) || reader->size > QKV_YAML_LARGEST;
    if (bytes && ferror(file))
        qkv_collect(reader->collector, place, "cannot be read: %s", strerror(errno));
    else if (reader->size > QKV_YAML_LARGEST)
        qkv_collect(reader->collector, place, "larger than %d MiB", QKV_YAML_LARGEST >> 20);
    if (file) fclose(file);
    if (failed) {
        free(bytes);
        return NULL;
    }
    bytes[reader->size] = '\0';
    return bytes;
}

struct qkv_yaml_node *qkv_yaml_read(const char *path, const char *text, struct qkv_collector *collector,
                                    bool *complete)
{
    struct reader reader = {.path = path, .collector = collector, .size = text ? strlen(text) : 0};
    char *loaded = text ? NULL : load(&reader);
    struct qkv_yaml_node *root = NULL;
    reader.bytes = text ? text : loaded;
    reader.broken = !reader.bytes || !check_bytes(&reader);
    if (!reader.broken && !yaml_parser_initialize(&reader.parser))
        reader.broken = collector->arena->failed = true;
    if (!reader.broken) {
        size_t mark =
            reader.size >= 3 && !memcmp(reader.bytes, "\xEF\xBB\xBF", 3) ? 3 : 0; /* byte order mark */
        reader.bytes += mark;
        reader.size -= mark;
        yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)reader.bytes, reader.size);
        root = read_document(&reader);
        yaml_parser_delete(&reader.parser);
        if (!root && !reader.broken)
            qkv_collect(collector, (struct qkv_place){.name = path}, "the file is empty");
    }
    free(loaded);
    *complete = root && !reader.broken;
    return root;
}
