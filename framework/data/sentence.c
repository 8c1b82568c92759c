/* Single sentences: tokens, ids, and reading them from a text. */
#include "qkv/corpus.h"

#include "core/grow.h"

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
    const struct qkv_lines *lines = &reader->lines;
    if (qkv_lines_next(&reader->lines, found, error)) return QKV_INVALID;
    if (!*found) return QKV_OK;
    *found = false;
    /* The line is valid text, so only memory can be missing. */
    if (qkv_sentence_encode(&reader->sentence, reader->text, reader->vocabulary, lines->line, lines->size,
                            NULL))
        return qkv_error_set(error, "%s: out of memory", lines->path);
    *found = true;
    return QKV_OK;
}

void qkv_sentence_reader_release(struct qkv_sentence_reader *reader)
{
    qkv_sentence_release(&reader->sentence);
    qkv_lines_close(&reader->lines);
}
