/* The bytes of a text file. */
#include "core/file.h"
#include "core/memory.h"
#include "data/lines.h"

#include <errno.h>
#include <iconv.h>
#include <unistd.h>
#include <zlib.h>

/* gzip makes text 3 to 20 times smaller; deflate can reach 1000. From EXPANSION_FREE bytes of text on, a file that
 * expands by more than EXPANSION_MAX is refused: it would fill the memory. */
enum { EXPANSION_FREE = 1 << 28, EXPANSION_MAX = 200 };

/* Bytes of `pending`, and of these the first ones, which show the encoding. */
enum { PENDING = 1 << 14, SHOW_ENCODING = 512 };

struct qkv_input {
    const char *path; /* in messages */
    int descriptor;
    bool started, ended;      /* the first bytes have been read; the file has no more bytes */
    bool is_gzip, in_member;  /* a gzip file is a sequence of members, each with its own end */
    int64_t raw_total, total; /* bytes read from the file, bytes of text */
    z_stream stream;
    size_t next, used; /* raw[next .. used-1] are bytes of the file that were not used yet */
    unsigned char raw[1 << 16];
    bool encoding_known, is_utf16;
    iconv_t converter;   /* from UTF-16 */
    size_t pending_size; /* bytes of `pending`, which are not converted yet */
    unsigned char pending[PENDING];
};

struct qkv_input *qkv_input_open(const char *path, struct qkv_error *error)
{
    bool standard = !strcmp(path, "-");
    struct qkv_input *input = calloc(1, sizeof *input);
    if (!input) {
        qkv_no_memory(error);
        return NULL;
    }
    input->path = standard ? "<stdin>" : path;
    input->descriptor = standard ? dup(STDIN_FILENO) : qkv_file_open(path, false, error);
    if (input->descriptor >= 0) return input;
    if (standard) qkv_error_set(error, "<stdin>: cannot be read: %s", strerror(errno));
    free(input);
    return NULL;
}

/* Makes sure that `raw` holds bytes, unless the file has ended. At the start, detects gzip. */
static enum qkv_status prepare(struct qkv_input *input, struct qkv_error *error)
{
    if (input->next == input->used) input->next = input->used = 0;
    while (!input->ended && (!input->used || (!input->started && input->used < 2 && *input->raw == 0x1F))) {
        ssize_t got = read(input->descriptor, input->raw + input->used, sizeof input->raw - input->used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return qkv_error_set(error, "%s: cannot be read: %s", input->path, strerror(errno));
        input->ended = got == 0;
        input->used += (size_t)got;
        input->raw_total += got;
    }
    if (input->started) return QKV_OK;
    input->started = true;
    input->is_gzip = input->used >= 2 && input->raw[0] == 0x1F && input->raw[1] == 0x8B;
    if (!input->is_gzip || inflateInit2(&input->stream, 15 + 16) == Z_OK)
        return QKV_OK; /* 16: gzip, not zlib */
    input->is_gzip = false;
    return qkv_no_memory(error);
}

static enum qkv_status expand(struct qkv_input *input, char *to, size_t size, size_t *got,
                              struct qkv_error *error)
{
    z_stream *stream = &input->stream;
    if (!input->in_member) inflateReset(stream);
    stream->next_in = input->raw + input->next;
    stream->avail_in = (uInt)(input->used - input->next);
    stream->next_out = (Bytef *)to;
    stream->avail_out = (uInt)size;
    int code = inflate(stream, Z_NO_FLUSH);
    input->next = input->used - stream->avail_in;
    input->in_member = code != Z_STREAM_END;
    *got = size - stream->avail_out;
    input->total += (int64_t)*got;
    if (code == Z_MEM_ERROR) return qkv_no_memory(error);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return qkv_error_set(error, "%s: the gzip file is damaged: %s", input->path,
                             stream->msg ? stream->msg : "it needs a dictionary");
    if (input->total > EXPANSION_FREE && input->total / EXPANSION_MAX > input->raw_total)
        return qkv_error_set(error,
                             "%s: the gzip file expands to more than %d times its size, which text does not; "
                             "unpack it if that is right",
                             input->path, EXPANSION_MAX);
    return QKV_OK;
}

/* Reads bytes of a plain file, or the unpacked bytes of a gzip file. */
static enum qkv_status read_bytes(struct qkv_input *input, char *to, size_t size, size_t *got,
                                  struct qkv_error *error)
{
    *got = 0;
    do {
        if (prepare(input, error)) return QKV_INVALID;
        size_t held = input->used - input->next;
        if (!input->is_gzip) {
            *got = held < size ? held : size;
            memcpy(to, input->raw + input->next, *got);
            input->next += *got;
            return QKV_OK;
        }
        if (!held && input->in_member)
            return qkv_error_set(error, "%s: the gzip file is truncated", input->path);
        /* Bytes after the last member that do not start another one are ignored, as by gzip. */
        if (!held || (!input->in_member && input->total && input->raw[input->next] != 0x1F)) return QKV_OK;
        if (expand(input, to, size, got, error)) return QKV_INVALID;
    } while (!*got);
    return QKV_OK;
}

/* Fails if the start of a text looks like UTF-16 without a byte order mark: several bytes are 0, and all of them have even
 * offsets, or all have odd ones. In UTF-16, spaces, tabs, line ends and the letters of English have such a byte. */
static enum qkv_status refuse_unmarked_utf16(const struct qkv_input *input, struct qkv_error *error)
{
    int64_t zeros[2] = {0};
    for (size_t i = 0; i < input->pending_size && i < SHOW_ENCODING; i++) zeros[i % 2] += !input->pending[i];
    bool is_utf16 = (zeros[0] > 1 && !zeros[1]) || (zeros[1] > 1 && !zeros[0]);
    if (!is_utf16) return QKV_OK;
    return qkv_error_set(
        error, "%s: looks like UTF-16 without a byte order mark; convert it: iconv -f UTF-16%s -t UTF-8",
        input->path, zeros[0] ? "BE" : "LE");
}

/* Detects UTF-16 at the start of the text; stores the bytes that it reads for that, `size` at most, in `pending`. */
static enum qkv_status find_encoding(struct qkv_input *input, size_t size, struct qkv_error *error)
{
    size_t got = 1;
    while (got && (!input->pending_size || (input->pending_size == 1 && input->pending[0] >= 0xFE))) {
        if (read_bytes(input, (char *)input->pending + input->pending_size, size - input->pending_size, &got,
                       error))
            return QKV_INVALID;
        input->pending_size += got;
    }
    input->encoding_known = true;
    /* A byte order mark is FF FE, or FE FF for big-endian text. These bytes never occur in UTF-8. */
    input->is_utf16 = input->pending_size >= 2 && input->pending[0] >= 0xFE && input->pending[1] >= 0xFE &&
                      input->pending[0] != input->pending[1];
    if (!input->is_utf16) return refuse_unmarked_utf16(input, error);
    input->converter = iconv_open("UTF-8", input->pending[0] == 0xFE ? "UTF-16BE" : "UTF-16LE");
    input->is_utf16 = input->converter != (iconv_t)-1;
    if (!input->is_utf16)
        return qkv_error_set(error, "%s: cannot be converted from UTF-16: %s", input->path, strerror(errno));
    input->pending_size -= 2; /* without the byte order mark */
    memmove(input->pending, input->pending + 2, input->pending_size);
    return QKV_OK;
}

static enum qkv_status refuse_utf16(const struct qkv_input *input, const char *mistake,
                                    struct qkv_error *error)
{
    return qkv_error_set(error, "%s: is not valid UTF-16 (%s), although it begins like it; save it as UTF-8",
                         input->path, mistake);
}

/* Converts the complete characters of `pending` to UTF-8, as many as fit, and removes them there. */
static enum qkv_status convert_utf16(struct qkv_input *input, char *to, size_t size, size_t *got,
                                     struct qkv_error *error)
{
    char *from = (char *)input->pending;
    size_t left = input->pending_size, room = size;
    if (iconv(input->converter, &from, &left, &to, &room) == (size_t)-1 && errno == EILSEQ)
        return refuse_utf16(input, "half of a pair of surrogates is missing", error);
    *got = size - room;
    input->pending_size = left;
    memmove(input->pending, from, left);
    return QKV_OK;
}

/* Reads UTF-16 and converts it to UTF-8. */
static enum qkv_status read_utf16(struct qkv_input *input, char *to, size_t size, size_t *got,
                                  struct qkv_error *error)
{
    for (size_t loaded;;) {
        if (convert_utf16(input, to, size, got, error)) return QKV_INVALID;
        if (*got) return QKV_OK;
        char *end = (char *)input->pending + input->pending_size;
        if (read_bytes(input, end, PENDING - input->pending_size, &loaded, error)) return QKV_INVALID;
        if (!loaded && !input->pending_size) return QKV_OK;
        if (!loaded) return refuse_utf16(input, "it ends within a character", error);
        input->pending_size += loaded;
    }
}

enum qkv_status qkv_input_read(struct qkv_input *input, char *to, size_t size, size_t *got,
                               struct qkv_error *error)
{
    *got = 0;
    if (!input->encoding_known && find_encoding(input, size < PENDING ? size : PENDING, error))
        return QKV_INVALID;
    if (input->is_utf16) return read_utf16(input, to, size, got, error);
    if (!input->pending_size) return read_bytes(input, to, size, got, error);
    *got = input->pending_size;
    memcpy(to, input->pending, *got);
    input->pending_size = 0;
    return QKV_OK;
}

void qkv_input_close(struct qkv_input *input)
{
    if (!input) return;
    if (input->is_gzip) inflateEnd(&input->stream);
    if (input->is_utf16) iconv_close(input->converter);
    close(input->descriptor);
    free(input);
}
