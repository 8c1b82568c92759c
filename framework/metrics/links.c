#include "qkv/alignment.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Where the reader is in the file. Messages name it. */
struct place {
    const char *file;
    int64_t line;
    const char *start; /* of the line */
    const char *at;    /* the link that is read */
};

static enum qkv_status refuse(const struct place *place, struct qkv_error *error)
{
    return qkv_error_set(
        error,
        "%s:%lld:%lld: %.*s is not a link between words: write 0-2 for a sure link from the first "
        "source word to the third target word, 0p2 for a possible one",
        place->file, (long long)place->line, (long long)(place->at - place->start + 1),
        (int)strcspn(place->at, " \t\r\n"), place->at);
}

/* A number of up to nine digits; NULL when there is none. */
static const char *read_number(const char *text, int64_t *number)
{
    const char *start = text;
    for (*number = 0; isdigit((unsigned char)*text) && text - start < 9; text++)
        *number = 10 * *number + (*text - '0');
    return text == start ? NULL : text;
}

static enum qkv_status read_link(const struct place *place, struct qkv_alignment_link *link,
                                 struct qkv_error *error)
{
    const char *text = read_number(place->at, &link->source);
    if (!text || !*text || !strchr("-p?", *text)) return refuse(place, error);
    link->sure = *text == '-';
    text = read_number(text + 1, &link->target);
    if (!text || (*text && !isspace((unsigned char)*text))) return refuse(place, error);
    link->column = place->at - place->start + 1;
    return QKV_OK;
}

/* Appends a link. If the list has the same link already, it becomes sure when the new one is sure. */
static void add_link(struct qkv_alignment_link *links, int64_t *count, struct qkv_alignment_link link)
{
    for (int64_t i = 0; i < *count; i++) {
        if (links[i].source != link.source || links[i].target != link.target) continue;
        links[i].sure = links[i].sure || link.sure;
        return;
    }
    links[(*count)++] = link;
}

static enum qkv_status no_memory(const char *file, struct qkv_error *error)
{
    return qkv_error_set(error, "%s: no memory to read it", file);
}

static enum qkv_status read_line(const char *line, int64_t number, const char *file, struct qkv_arena *arena,
                                 struct qkv_alignment *alignment, struct qkv_error *error)
{
    /* A link has at least three characters and one space behind it. */
    struct qkv_alignment_link *links = qkv_arena_allocate(arena, (strlen(line) / 4 + 1) * sizeof *links);
    if (!links) return no_memory(file, error);
    struct place place = {.file = file, .line = number, .start = line, .at = line};
    *alignment = (struct qkv_alignment){.links = links, .file = file, .line = number};
    while (*(place.at += strspn(place.at, " \t\r\n"))) {
        struct qkv_alignment_link link = {0};
        enum qkv_status status = read_link(&place, &link, error);
        if (status != QKV_OK) return status;
        add_link(links, &alignment->count, link);
        place.at += strcspn(place.at, " \t\r\n");
    }
    return QKV_OK;
}

static enum qkv_status read_stream(struct qkv_alignments *alignments, FILE *stream, const char *path,
                                   struct qkv_error *error)
{
    struct qkv_alignment *sentences = NULL; /* grows by doubling, in the arena */
    const char *file = qkv_arena_string(&alignments->arena, path);
    enum qkv_status status = file ? QKV_OK : no_memory(path, error);
    int64_t capacity = 0;
    char *line = NULL;
    size_t line_size = 0;
    ssize_t length;
    while (status == QKV_OK && (length = getline(&line, &line_size, stream)) >= 0) {
        if (strlen(line) != (size_t)length) {
            status = qkv_error_set(error, "%s:%lld:%zu: a byte is zero: this is not a text file", path,
                                   (long long)alignments->count + 1, strlen(line) + 1);
            break;
        }
        if (alignments->count == capacity) {
            capacity = 2 * capacity + 256;
            struct qkv_alignment *more =
                qkv_arena_allocate(&alignments->arena, (size_t)capacity * sizeof *more);
            if (!more) {
                status = no_memory(path, error);
                break;
            }
            if (alignments->count) memcpy(more, sentences, (size_t)alignments->count * sizeof *more);
            alignments->sentences = sentences = more;
        }
        status = read_line(line, alignments->count + 1, file, &alignments->arena,
                           &sentences[alignments->count], error);
        alignments->count++;
    }
    free(line);
    if (status == QKV_OK && ferror(stream))
        status = qkv_error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    return status;
}

enum qkv_status qkv_alignments_read(struct qkv_alignments *alignments, const char *path,
                                    struct qkv_error *error)
{
    *alignments = (struct qkv_alignments){0};
    FILE *stream = fopen(path, "rb");
    if (!stream) return qkv_error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    enum qkv_status status = read_stream(alignments, stream, path, error);
    fclose(stream);
    if (status != QKV_OK) qkv_alignments_release(alignments);
    return status;
}

void qkv_alignments_release(struct qkv_alignments *alignments)
{
    qkv_arena_release(&alignments->arena);
    *alignments = (struct qkv_alignments){0};
}
