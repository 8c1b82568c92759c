/* Single sentences: tokens, ids, and reading them from a text. */
#include "qkv/corpus.h"

#include "core/grow.h"

#include <stdlib.h>
#include <string.h>

static enum qkv_status no_memory(struct qkv_sentence *sentence, struct qkv_error *error)
{
    sentence->tokens.count = 0;
    return qkv_error_set(error, "out of memory");
}

static enum qkv_status encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                              const struct qkv_vocabulary *vocabulary, const char *line, size_t size,
                              struct qkv_error *error)
{
    sentence->unknown = 0;
    if (qkv_tokenize(&sentence->tokens, text, line, size, error)) return QKV_INVALID;
    int64_t count = sentence->tokens.count;
    if (!QKV_RESERVE(sentence->ids, sentence->ids_capacity, count)) return no_memory(sentence, error);
    for (int64_t i = 0; i < count; i++) {
        sentence->ids[i] = qkv_vocabulary_id(vocabulary, sentence->tokens.token[i]);
        sentence->unknown += sentence->ids[i] == QKV_UNKNOWN;
    }
    return QKV_OK;
}

/* Marks that look alike. Word processors and phones replace those of the keyboard, `other`, by typographic ones, and back. */
static const struct mark {
    const char *mark, *other;
} marks[] = {
    {"\u2019", "'"}, {"\u2018", "'"}, {"\u201C", "\""}, {"\u201D", "\""}, {"\u201E", "\""},
    {"\u2010", "-"}, {"\u2011", "-"}, {"\u2013", "-"},  {"\u2014", "-"},  {"'", "\u2019"},
};

static bool is_in_unknown_token(const struct qkv_sentence *sentence, const char *mark)
{
    for (int64_t i = 0; i < sentence->tokens.count; i++)
        if (sentence->ids[i] == QKV_UNKNOWN && strstr(sentence->tokens.token[i], mark)) return true;
    return false;
}

/* Writes `size` bytes with the other mark for each one to `to`; returns the end. */
static char *replace_mark(char *to, const char *at, size_t size, const struct mark *mark)
{
    const size_t length = strlen(mark->mark), other = strlen(mark->other);
    for (const char *end = at + size; at < end;) {
        if ((size_t)(end - at) >= length && !memcmp(at, mark->mark, length)) {
            memcpy(to, mark->other, other);
            to += other;
            at += length;
        } else {
            *to++ = *at++;
        }
    }
    return to;
}

/* Writes a word to `to`, with the other mark for each one if it has fewer unknown tokens then; returns the end, or NULL when
 * memory runs out. `scratch`: any sentence. */
static char *respell_word(char *to, const char *word, size_t size, const struct qkv_text_config *text,
                          const struct qkv_vocabulary *vocabulary, const struct mark *mark,
                          struct qkv_sentence *scratch)
{
    struct qkv_error ignored; /* the line is valid text, so only memory can be missing */
    if (encode(scratch, text, vocabulary, word, size, &ignored)) return NULL;
    int64_t unknown = scratch->unknown;
    if (unknown && is_in_unknown_token(scratch, mark->mark)) {
        char *end = replace_mark(to, word, size, mark);
        if (encode(scratch, text, vocabulary, to, (size_t)(end - to), &ignored)) return NULL;
        if (scratch->unknown < unknown) return end;
    }
    memcpy(to, word, size);
    return to + size;
}

/* Copies a line to the heap, with the other mark in each word that has fewer unknown tokens then. NULL: out of memory. */
static char *respell(const char *line, size_t size, const struct qkv_text_config *text,
                     const struct qkv_vocabulary *vocabulary, const struct mark *mark)
{
    struct qkv_sentence scratch = {0};
    char *copy = malloc(strlen("\u2019") * size + 1), *to = copy;
    for (const char *at = line, *end = line + size; to && at < end;) {
        const char *space = memchr(at, ' ', (size_t)(end - at)), *word_end = space ? space : end;
        to = respell_word(to, at, (size_t)(word_end - at), text, vocabulary, mark, &scratch);
        at = word_end;
        if (to && space) *to++ = *at++;
    }
    if (to) *to = '\0';
    if (!to) free(copy);
    qkv_sentence_release(&scratch);
    return to ? copy : NULL;
}

/* Encodes the line again, with the other mark in words, and keeps that if fewer tokens are then unknown. */
static enum qkv_status try_other_mark(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                      const struct qkv_vocabulary *vocabulary, const char *line, size_t size,
                                      const struct mark *mark, struct qkv_error *error)
{
    int64_t unknown = sentence->unknown;
    char *respelled = respell(line, size, text, vocabulary, mark);
    if (!respelled) return no_memory(sentence, error);
    enum qkv_status status = encode(sentence, text, vocabulary, respelled, strlen(respelled), error);
    if (!status && sentence->unknown < unknown) {
        free(sentence->respelled);
        sentence->respelled = respelled;
        return QKV_OK;
    }
    free(respelled);
    return status ? status : encode(sentence, text, vocabulary, line, size, error);
}

enum qkv_status qkv_sentence_encode(struct qkv_sentence *sentence, const struct qkv_text_config *text,
                                    const struct qkv_vocabulary *vocabulary, const char *line, size_t size,
                                    struct qkv_error *error)
{
    free(sentence->respelled);
    sentence->respelled = NULL;
    enum qkv_status status = encode(sentence, text, vocabulary, line, size, error);
    for (size_t i = 0; i < sizeof marks / sizeof *marks && !status && sentence->unknown; i++) {
        if (sentence->respelled) line = sentence->respelled, size = strlen(line);
        if (is_in_unknown_token(sentence, marks[i].mark))
            status = try_other_mark(sentence, text, vocabulary, line, size, &marks[i], error);
    }
    return status;
}

void qkv_sentence_release(struct qkv_sentence *sentence)
{
    qkv_tokens_release(&sentence->tokens);
    free(sentence->ids);
    free(sentence->respelled);
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
