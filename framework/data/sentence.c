/* Single sentences: tokens, ids, and reading them from a stream. */
#include "core/grow.h"
#include "data/unicode.h"
#include "qkv/corpus.h"

#include <errno.h>
#include <string.h>

enum qkv_status qkv_sentence_encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                    const struct qkv_vocabulary *vocabulary, const char *line, size_t size,
                                    struct qkv_error *error)
{
    sentence->unknown = 0;
    if (qkv_tokenize(&sentence->tokens, text, line, size, error)) return QKV_INVALID;
    int64_t count = sentence->tokens.count;
    if (!QKV_RESERVE(sentence->ids, sentence->ids_capacity, count)) {
        sentence->tokens.count = 0;
        return qkv_error_set(error, "out of memory");
    }
    for (int64_t i = 0; i < count; i++) {
        sentence->ids[i] = qkv_vocabulary_id(vocabulary, sentence->tokens.token[i]);
        sentence->unknown += sentence->ids[i] == QKV_UNKNOWN;
    }
    return QKV_OK;
}

void qkv_sentence_release(struct qkv_sentence *sentence)
{
    qkv_tokens_release(&sentence->tokens);
    free(sentence->ids);
    *sentence = (struct qkv_sentence){0};
}

enum qkv_status qkv_sentence_reader_next(struct qkv_sentence_reader *reader, bool *found,
                                         struct qkv_error *error)
{
    *found = false;
    errno = 0;
    ssize_t got = getline(&reader->buffer, &reader->buffer_size, reader->file);
    if (got < 0) {
        reader->raw = NULL;
        if (ferror(reader->file) || errno == ENOMEM)
            return qkv_error_set(error, "%s: %s", reader->name, strerror(errno));
        return QKV_OK;
    }
    reader->line++;
    char *line = reader->buffer;
    size_t size = (size_t)got;
    if (size && line[size - 1] == '\n') {
        size--;
        if (size && line[size - 1] == '\r') size--;
        line[size] = '\0';
    }
    if (reader->line == 1 && size >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3)) {
        line += 3;
        size -= 3;
    }
    size_t valid = qkv_text_valid_size(line, size);
    if (valid < size) {
        char place[768];
        snprintf(place, sizeof place, "%s:%lld:", reader->name, (long long)reader->line);
        return qkv_text_refuse(place, line, valid, error);
    }
    reader->raw = line;
    if (qkv_sentence_encode(&reader->sentence, reader->text, reader->vocabulary, line, size, error))
        return QKV_INVALID;
    *found = true;
    return QKV_OK;
}

void qkv_sentence_reader_release(struct qkv_sentence_reader *reader)
{
    qkv_sentence_release(&reader->sentence);
    free(reader->buffer);
    reader->buffer = NULL;
    reader->buffer_size = 0;
    reader->raw = NULL;
}
