#include "input_lines.h"

#include "terminal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORDS_SHOWN = 8, WORD_SHOWN = 60 /* bytes */ };

enum qkv_status input_lines_open(struct input_lines *input, const struct qkv_run *run, const char *path,
                                 bool quiet, struct qkv_error *error)
{
    bool standard = !strcmp(path, "-");
    struct stat status;
    *input = (struct input_lines){
        .reader = {.name = standard ? "<stdin>" : path,
                   .text = &run->config.data.src,
                   .vocabulary = &run->source},
        .longest = qkv_stack_longest(&run->model->config.encoder) - 1,
        .quiet = quiet,
    };
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) return qkv_error_set(error, "%s: %s", path, strerror(errno));
    input->reader.file = file;
    if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode))
        return qkv_error_set(error, "%s: is a folder, not a text file", path);
    input->interactive = isatty(fileno(file));
    return QKV_OK;
}

/* Number of bytes of a word to print: a long one is cut between two characters. */
static size_t shown_length(const char *word)
{
    size_t length = strlen(word);
    if (length <= WORD_SHOWN) return length;
    for (length = WORD_SHOWN; ((unsigned char)word[length] & 0xC0) == 0x80;) length--;
    return length;
}

void warn_of_unknown_words(const char *place, const struct qkv_sentence *sentence)
{
    if (!sentence->unknown) return;
    struct qkv_types unknown = {0};
    for (int64_t i = 0; i < sentence->tokens.count; i++)
        if (sentence->ids[i] == QKV_UNKNOWN && qkv_types_add(&unknown, sentence->tokens.token[i], 1) < 0)
            return;
    fprintf(stderr, "qkv: %s: not in the vocabulary: ", place);
    for (int64_t i = 0; i < unknown.size && i < WORDS_SHOWN; i++) {
        const char *word = qkv_types_token(&unknown, i);
        size_t length = shown_length(word);
        fputs(i ? ", " : "", stderr);
        print_plain(stderr, word, length);
        if (word[length]) fputs("...", stderr);
    }
    if (unknown.size > WORDS_SHOWN)
        fprintf(stderr, " and %lld more", (long long)(unknown.size - WORDS_SHOWN));
    fputc('\n', stderr);
    qkv_types_release(&unknown);
}

enum qkv_status input_lines_next(struct input_lines *input, struct qkv_arena *arena, struct input_line *line,
                                 bool *found, struct qkv_error *error)
{
    struct qkv_sentence_reader *reader = &input->reader;
    if (qkv_sentence_reader_next(reader, found, error)) return QKV_INVALID;
    if (!*found) return QKV_OK;
    const struct qkv_sentence *sentence = &reader->sentence;
    int64_t length = sentence->tokens.count;
    char place[300];
    snprintf(place, sizeof place, "%.250s:%lld", reader->name, (long long)reader->line);
    if (!input->quiet) warn_of_unknown_words(place, sentence);
    if (length > input->longest) {
        fprintf(stderr,
                "qkv: %s: has %lld tokens, but the model has positions for %lld; the rest of the line is "
                "ignored\n",
                place, (long long)length, (long long)input->longest);
        length = input->longest;
    }
    int32_t *ids = qkv_arena_allocate(arena, (size_t)length * sizeof *ids);
    if (!ids) return qkv_error_set(error, "%s: out of memory", place);
    if (length) memcpy(ids, sentence->ids, (size_t)length * sizeof *ids);
    *line = (struct input_line){reader->line, {length, ids}};
    return QKV_OK;
}

void input_lines_close(struct input_lines *input)
{
    qkv_sentence_reader_release(&input->reader);
    if (input->reader.file && input->reader.file != stdin) fclose(input->reader.file);
    input->reader.file = NULL;
}
