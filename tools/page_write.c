#include "page_write.h"

#include "page/page_files.h"
#include "terminal.h"

#include "qkv/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The place in page.html where the engine and the model are inserted. */
static const char PLACE[] = "<!-- engine and model -->";

/* The learning data of a page without any. */
static const char ONE_MOMENT[] = "{\"moments\":[{\"update\":-1}],\"curve\":[],\"training\":[]}";

/* Writes bytes in base64 (RFC 4648), which a script element can hold, without line breaks. */
static void write_base64(FILE *file, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t rest = size - i;
        unsigned long bits = (unsigned long)bytes[i] << 16;
        if (rest > 1) bits |= (unsigned long)bytes[i + 1] << 8;
        if (rest > 2) bits |= bytes[i + 2];
        putc(digits[bits >> 18], file);
        putc(digits[bits >> 12 & 63], file);
        putc(rest > 1 ? digits[bits >> 6 & 63] : '=', file);
        putc(rest > 2 ? digits[bits & 63] : '=', file);
    }
}

/* Compresses bytes and writes them as a script element, which browsers do not run, because its type is not that of a script. */
static enum qkv_status write_data(FILE *file, const char *attribute, const unsigned char *bytes, size_t size,
                                  struct qkv_error *error)
{
    uLongf compressed_size = compressBound(size);
    unsigned char *compressed = malloc(compressed_size);
    if (!compressed || compress2(compressed, &compressed_size, bytes, size, Z_BEST_COMPRESSION) != Z_OK) {
        free(compressed);
        return qkv_error_set(error, "out of memory for the page");
    }
    fprintf(file, "<script type=\"application/base64\" %s>", attribute);
    write_base64(file, compressed, compressed_size);
    fputs("</script>\n", file);
    free(compressed);
    return QKV_OK;
}

static void write_text(FILE *file, const char *id, const char *text)
{
    fprintf(file, "<script type=\"application/base64\" id=\"%s\">", id);
    write_base64(file, (const unsigned char *)text, strlen(text));
    fputs("</script>\n", file);
}

static enum qkv_status write_page(FILE *file, const struct page_contents *contents, struct qkv_error *error)
{
    struct page_file html = page_html(), engine = page_engine();
    size_t place = 0;
    while (place + sizeof PLACE <= html.size && memcmp(html.bytes + place, PLACE, sizeof PLACE - 1) != 0)
        place++;
    QKV_BUG(place + sizeof PLACE > html.size, "the page has no %s", PLACE);
    fwrite(html.bytes, 1, place, file);
    if (write_data(file, "id=\"engine-data\"", engine.bytes, engine.size, error) ||
        write_data(file, "id=\"model-data\"", contents->model, contents->model_size, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < contents->learning.snapshot_count; i++) {
        const struct page_snapshot *snapshot = &contents->learning.snapshots[i];
        if (write_data(file, "class=\"snapshot-data\"", snapshot->bytes, snapshot->size, error))
            return QKV_INVALID;
    }
    write_text(file, "opening-sentence", contents->opening_sentence);
    write_text(file, "model-summary", contents->model_summary);
    write_text(file, "scenes-data", contents->scenes ? contents->scenes : "null");
    write_text(file, "heads-data", contents->heads ? contents->heads : "null");
    write_text(file, "learning-data", contents->learning.json ? contents->learning.json : ONE_MOMENT);
    size_t rest = place + sizeof PLACE - 1;
    fwrite(html.bytes + rest, 1, html.size - rest, file);
    return QKV_OK;
}

enum qkv_status page_write(const struct page_contents *contents, const char *output, struct qkv_error *error)
{
    if (!strcmp(output, "-")) return write_page(stdout, contents, error);
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, output, error)) return QKV_INVALID;
    if (write_page(writer.file, contents, error)) {
        qkv_file_abandon(&writer);
        return QKV_INVALID;
    }
    if (qkv_file_commit(&writer, error)) return QKV_INVALID;
    print_plain(stderr, output);
    fputs(" is written: open it in a browser\n", stderr);
    return QKV_OK;
}
