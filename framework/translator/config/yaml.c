#include "config/yaml.h"

#include "core/plain_text.h"
#include "qkv/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <yaml.h>

struct reader {
    const char *path;
    struct qkv_arena *arena;
    struct qkv_collector *collector;
    struct qkv_yaml_node *root, *parent; /* parent: the innermost open sequence or mapping */
    struct qkv_yaml_node *key;           /* the key of `parent` whose value comes next; or NULL */
    int depth, documents;
    bool broken; /* stop reading */
};

static struct qkv_place place_of(const struct reader *reader, yaml_mark_t mark)
{
    return (struct qkv_place){reader->path, (int)mark.line + 1, (int)mark.column + 1};
}

static struct qkv_yaml_node *node_new(struct reader *reader, enum qkv_yaml_kind kind, yaml_mark_t mark)
{
    struct qkv_yaml_node *node = qkv_arena_zeroed(reader->arena, sizeof *node);
    if (!node) {
        qkv_collect_no_memory(reader->collector, reader->path);
        reader->broken = true;
        return NULL;
    }
    node->kind = kind;
    node->line = (int)mark.line + 1;
    node->column = (int)mark.column + 1;
    return node;
}

static const struct qkv_yaml_node *find_value(const struct qkv_yaml_node *mapping, const char *name)
{
    for (const struct qkv_yaml_node *value = mapping->first; value; value = value->next)
        if (!strcmp(value->key->text, name)) return value;
    return NULL;
}

/* Makes `node` the next key of the open mapping. */
static void set_key(struct reader *reader, struct qkv_yaml_node *node)
{
    struct qkv_place place = {reader->path, node->line, node->column};
    reader->key = node;
    if (node->kind == QKV_YAML_SEQUENCE || node->kind == QKV_YAML_MAPPING) {
        qkv_collect(reader->collector, place, "a key must be a text, not a %s",
                    node->kind == QKV_YAML_SEQUENCE ? "list" : "mapping");
        reader->broken = true;
        return;
    }
    if (node->kind != QKV_YAML_SCALAR) return;
    const struct qkv_yaml_node *earlier = find_value(reader->parent, node->text);
    if (earlier) {
        qkv_collect(reader->collector, place, "duplicate key %s, already given in line %d",
                    qkv_printable(reader->arena, node->text), earlier->key->line);
        node->kind = QKV_YAML_REFUSED;
    }
}

/* Adds a node to the tree: as root, item, key or value. */
static void attach(struct reader *reader, struct qkv_yaml_node *node)
{
    struct qkv_yaml_node *parent = reader->parent;
    node->parent = parent;
    if (!parent) {
        reader->root = node;
        return;
    }
    if (parent->kind == QKV_YAML_MAPPING) {
        if (!reader->key) {
            set_key(reader, node);
            return;
        }
        node->key = reader->key;
        reader->key = NULL;
        if (node->key->kind == QKV_YAML_REFUSED) return;
        if (parent->count == QKV_YAML_MAX_KEYS) {
            qkv_collect(reader->collector, (struct qkv_place){reader->path, node->line, node->column},
                        "a mapping has more than %d keys", QKV_YAML_MAX_KEYS);
            reader->broken = true;
            return;
        }
    }
    node->previous = parent->last;
    if (parent->last)
        parent->last->next = node;
    else
        parent->first = node;
    parent->last = node;
    parent->count++;
}

static void refuse_anchor_and_tag(struct reader *reader, yaml_mark_t mark, const yaml_char_t *anchor,
                                  const yaml_char_t *tag)
{
    struct qkv_place place = place_of(reader, mark);
    if (anchor)
        qkv_collect(reader->collector, place,
                    "anchors are refused (&%s); write the value out where it is used",
                    qkv_printable(reader->arena, (const char *)anchor));
    if (tag)
        qkv_collect(reader->collector, place, "tags are refused (%s)",
                    qkv_printable(reader->arena, (const char *)tag));
}

static void add_scalar(struct reader *reader, const yaml_event_t *event)
{
    refuse_anchor_and_tag(reader, event->start_mark, event->data.scalar.anchor, event->data.scalar.tag);
    struct qkv_yaml_node *node = node_new(reader, QKV_YAML_SCALAR, event->start_mark);
    if (!node) return;
    const char *text = (const char *)event->data.scalar.value;
    if (memchr(text, '\0', event->data.scalar.length)) {
        qkv_collect(reader->collector, place_of(reader, event->start_mark), "a text holds a NUL character");
        node->kind = QKV_YAML_REFUSED;
    }
    node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = qkv_arena_string(reader->arena, text);
    if (!node->text) {
        qkv_collect_no_memory(reader->collector, reader->path);
        reader->broken = true;
        return;
    }
    attach(reader, node);
}

static void open_collection(struct reader *reader, enum qkv_yaml_kind kind, yaml_mark_t mark)
{
    if (++reader->depth > QKV_YAML_DEEPEST) {
        qkv_collect(reader->collector, place_of(reader, mark), "nested deeper than %d levels",
                    QKV_YAML_DEEPEST);
        reader->broken = true;
        return;
    }
    struct qkv_yaml_node *node = node_new(reader, kind, mark);
    if (!node) return;
    attach(reader, node);
    reader->parent = node;
}

static void handle_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (reader->documents++) {
            qkv_collect(reader->collector, place_of(reader, event->start_mark),
                        "a second document starts here, but a file holds one");
            reader->broken = true;
        }
        break;
    case YAML_ALIAS_EVENT: {
        qkv_collect(reader->collector, place_of(reader, event->start_mark),
                    "aliases are refused (*%s); write the value out",
                    qkv_printable(reader->arena, (const char *)event->data.alias.anchor));
        struct qkv_yaml_node *node = node_new(reader, QKV_YAML_REFUSED, event->start_mark);
        if (node) attach(reader, node);
        break;
    }
    case YAML_SCALAR_EVENT:
        add_scalar(reader, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        refuse_anchor_and_tag(reader, event->start_mark, event->data.sequence_start.anchor,
                              event->data.sequence_start.tag);
        open_collection(reader, QKV_YAML_SEQUENCE, event->start_mark);
        break;
    case YAML_MAPPING_START_EVENT:
        refuse_anchor_and_tag(reader, event->start_mark, event->data.mapping_start.anchor,
                              event->data.mapping_start.tag);
        open_collection(reader, QKV_YAML_MAPPING, event->start_mark);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        reader->parent = reader->parent->parent;
        reader->depth--;
        break;
    default:
        break;
    }
}

/* The place of the byte at offset `at`. As in libyaml, LF, CR and CRLF end a line, and columns count characters. */
static struct qkv_place place_of_byte(const char *path, const char *bytes, size_t at)
{
    struct qkv_place place = {path, 1, 1};
    for (size_t i = 0; i < at; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '\n' || (byte == '\r' && bytes[i + 1] != '\n')) {
            place.line++;
            place.column = 1;
        } else if ((byte & 0xC0) != 0x80 && byte != '\r')
            place.column++;
    }
    return place;
}

static void collect_syntax_error(struct reader *reader, const yaml_parser_t *parser, const char *bytes,
                                 size_t size)
{
    const char *problem = parser->problem ? parser->problem : "out of memory";
    if (parser->error == YAML_MEMORY_ERROR) {
        qkv_collect_no_memory(reader->collector, reader->path);
    } else if (parser->error == YAML_READER_ERROR) {
        size_t at = parser->problem_offset < size ? parser->problem_offset : size;
        qkv_collect(reader->collector, place_of_byte(reader->path, bytes, at), "not valid YAML: %s", problem);
    } else if (parser->context) {
        qkv_collect(reader->collector, place_of(reader, parser->problem_mark),
                    "not valid YAML: %s %s that starts in line %d", problem, parser->context,
                    (int)parser->context_mark.line + 1);
    } else {
        qkv_collect(reader->collector, place_of(reader, parser->problem_mark), "not valid YAML: %s", problem);
    }
}

static void parse(struct reader *reader, const char *bytes, size_t size)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        qkv_collect_no_memory(reader->collector, reader->path);
        reader->broken = true;
        return;
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
    for (bool ended = false; !ended && !reader->broken;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            collect_syntax_error(reader, &parser, bytes, size);
            reader->broken = true;
            break;
        }
        handle_event(reader, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    /* Parsing stopped early: refuses each sequence that is still open, because it is incomplete.
     * The keys of an open mapping are complete and stay. */
    for (struct qkv_yaml_node *open = reader->parent; open; open = open->parent)
        if (open->kind == QKV_YAML_SEQUENCE) open->kind = QKV_YAML_REFUSED;
}

/* Collects an error for the first byte that is NUL or invalid UTF-8; true when there is none. */
static bool check_bytes(struct reader *reader, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t length =
            utf8proc_iterate((const utf8proc_uint8_t *)bytes + at, (utf8proc_ssize_t)(size - at), &code);
        if (length <= 0 || code == 0) {
            struct qkv_place place = place_of_byte(reader->path, bytes, at);
            if (length > 0)
                qkv_collect(reader->collector, place, "NUL byte");
            else
                qkv_collect(reader->collector, place, "not valid UTF-8 (byte 0x%02X)",
                            (unsigned char)bytes[at]);
            return false;
        }
        at += (size_t)length;
    }
    return true;
}

/* The file x.yaml if the user has named x or x.yml; NULL if it does not exist. */
static const char *suggest_config(struct reader *reader)
{
    size_t size = strlen(reader->path);
    if (size > 4 && !strcmp(reader->path + size - 4, ".yml")) size -= 4;
    const char *meant = qkv_arena_format(reader->arena, "%.*s.yaml", (int)size, reader->path);
    return meant && qkv_path_exists(meant) ? meant : NULL;
}

/* The bytes of a file, followed by a NUL, on the heap; NULL after collecting an error. */
static char *load(struct reader *reader, size_t *size)
{
    struct qkv_place place = {.name = reader->path};
    struct qkv_error error = {""};
    FILE *file = qkv_file_stream(reader->path, false, &error);
    if (!file) {
        const char *shown =
            qkv_arena_plain(reader->arena, reader->path); /* the error begins with the path and ": " */
        size_t skipped = shown ? strlen(shown) + 2 : sizeof error.message;
        const char *meant = qkv_path_exists(reader->path) ? NULL : suggest_config(reader);
        qkv_collect(reader->collector, place, meant ? "%s; did you mean %s" : "%s",
                    skipped < strlen(error.message) ? error.message + skipped : "cannot be read", meant);
        return NULL;
    }
    char *bytes = NULL;
    size_t used = 0;
    for (size_t capacity = 1 << 14; used <= QKV_YAML_LARGEST; capacity *= 2) {
        char *grown = realloc(bytes, capacity + 1);
        if (!grown) {
            qkv_collect_no_memory(reader->collector, reader->path);
            goto fail;
        }
        bytes = grown;
        used += fread(bytes + used, 1, capacity - used, file);
        if (used < capacity) break;
    }
    if (ferror(file)) {
        qkv_collect(reader->collector, place, "cannot be read: %s", strerror(errno));
        goto fail;
    }
    if (used > QKV_YAML_LARGEST) {
        qkv_collect(reader->collector, place, "larger than %d MiB", QKV_YAML_LARGEST >> 20);
        goto fail;
    }
    fclose(file);
    bytes[used] = '\0';
    *size = used;
    return bytes;
fail:
    fclose(file);
    free(bytes);
    return NULL;
}

struct qkv_yaml_node *qkv_yaml_read(const char *path, const char *text, struct qkv_arena *arena,
                                    struct qkv_collector *collector, bool *complete)
{
    struct reader reader = {.path = path, .arena = arena, .collector = collector};
    size_t size = text ? strlen(text) : 0;
    char *loaded = text ? NULL : load(&reader, &size);
    const char *bytes = text ? text : loaded;
    if (!bytes || !check_bytes(&reader, bytes, size)) {
        reader.broken = true;
    } else {
        size_t byte_order_mark = size >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3) ? 3 : 0;
        parse(&reader, bytes + byte_order_mark, size - byte_order_mark);
        if (!reader.root && !reader.broken)
            qkv_collect(collector, (struct qkv_place){.name = path}, "the file is empty");
    }
    free(loaded);
    *complete = reader.root && !reader.broken;
    return reader.root;
}
