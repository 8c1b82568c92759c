#include "qkv/alignment.h"

#include "core/grow.h"
#include "qkv/lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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
        (int)strcspn(place->at, " \t\r"), place->at);
}

/* Reads a number of up to nine digits. Returns the end of the digits; NULL when there is none. */
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

/* What reading a file needs. */
struct reading {
    struct qkv_alignments *alignments; /* the result */
    struct qkv_lines lines;
    const char *file;                 /* name of the file, in the arena of the result */
    struct qkv_alignment_link *links; /* [capacity]: the links of a line as it has them */
    int64_t capacity;
    struct qkv_error *error;
};

static enum qkv_status no_memory(const struct reading *reading)
{
    return qkv_error_set(reading->error, "%s: out of memory", reading->lines.path);
}

static int by_column(const void *a, const void *b)
{
    const struct qkv_alignment_link *x = a, *y = b;
    return (x->column > y->column) - (x->column < y->column);
}

static int by_words(const void *a, const void *b)
{
    const struct qkv_alignment_link *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    return by_column(a, b);
}

/* Makes one of equal links, the first of them, and keeps the order of the line. Returns how many are left. */
static int64_t merge(struct qkv_alignment_link *links, int64_t count)
{
    int64_t kept = 0;
    if (count > 1) qsort(links, (size_t)count, sizeof *links, by_words);
    for (int64_t i = 0; i < count; i++) {
        struct qkv_alignment_link *last = kept ? &links[kept - 1] : NULL;
        if (last && last->source == links[i].source && last->target == links[i].target)
            last->sure = last->sure || links[i].sure;
        else
            links[kept++] = links[i];
    }
    if (kept > 1) qsort(links, (size_t)kept, sizeof *links, by_column);
    return kept;
}

static enum qkv_status read_line(struct reading *reading)
{
    struct qkv_alignments *alignments = reading->alignments;
    const char *line = reading->lines.line;
    struct place place = {.file = reading->file, .line = reading->lines.number, .start = line, .at = line};
    int64_t count = 0;
    while (*(place.at += strspn(place.at, " \t\r"))) {
        if (!QKV_RESERVE(reading->links, reading->capacity, count + 1)) return no_memory(reading);
        if (read_link(&place, &reading->links[count++], reading->error)) return QKV_INVALID;
        place.at += strcspn(place.at, " \t\r");
    }
    count = merge(reading->links, count);
    size_t bytes = (size_t)count * sizeof *reading->links;
    struct qkv_alignment_link *links = qkv_arena_allocate(&alignments->arena, bytes);
    if (!links) return no_memory(reading);
    if (bytes) memcpy(links, reading->links, bytes);
    if (!QKV_RESERVE(alignments->sentences, alignments->capacity, alignments->count + 1))
        return no_memory(reading);
    alignments->sentences[alignments->count++] =
        (struct qkv_alignment){.links = links, .count = count, .file = reading->file, .line = place.line};
    return QKV_OK;
}

enum qkv_status qkv_alignments_read(struct qkv_alignments *alignments, const char *path,
                                    struct qkv_error *error)
{
    struct reading reading = {.alignments = alignments, .error = error};
    *alignments = (struct qkv_alignments){0};
    if (qkv_lines_open(&reading.lines, path, error)) return QKV_INVALID;
    reading.file = qkv_arena_string(&alignments->arena, reading.lines.path);
    enum qkv_status status = reading.file ? QKV_OK : no_memory(&reading);
    bool found;
    while (!status && !(status = qkv_lines_next(&reading.lines, &found, error)) && found)
        status = read_line(&reading);
    qkv_lines_close(&reading.lines);
    free(reading.links);
    if (status) qkv_alignments_release(alignments);
    return status;
}

void qkv_alignments_release(struct qkv_alignments *alignments)
{
    free(alignments->sentences);
    qkv_arena_release(&alignments->arena);
    *alignments = (struct qkv_alignments){0};
}
