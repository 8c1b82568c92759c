#include "input_lines.h"

#include "complain.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_SHOWN = 8, WORD_SHOWN = 60 /* bytes */ };

enum qkv_status input_lines_open(struct input_lines *input, const struct qkv_run *run, const char *path,
                                 bool quiet, struct qkv_error *error)
{
    *input = (struct input_lines){
        .reader = {.text = &run->config.data.src, .vocabulary = &run->source},
        .interactive = !strcmp(path, "-") && isatty(STDIN_FILENO),
        .longest = qkv_stack_longest(&run->model->config.encoder) - 1,
        .quiet = quiet,
    };
    return qkv_lines_open(&input->reader.lines, path, error);
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
    fputs("qkv: ", stderr);
    print_plain(stderr, place);
    fputs(": not in the vocabulary: ", stderr);
    for (int64_t i = 0; i < unknown.size && i < WORDS_SHOWN; i++) {
        const char *word = qkv_types_token(&unknown, i);
        size_t length = shown_length(word);
        char shown[WORD_SHOWN + 4];
        snprintf(shown, sizeof shown, "%.*s%s", (int)length, word, word[length] ? "..." : "");
        fputs(i ? ", " : "", stderr);
        print_plain(stderr, shown);
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
    snprintf(place, sizeof place, "%.250s:%lld", reader->lines.path, (long long)reader->lines.number);
    if (!input->quiet) warn_of_unknown_words(place, sentence);
    if (length > input->longest) {
        complain("%s: has %lld tokens, but the model has positions for %lld; the rest of the line is ignored",
                 place, (long long)length, (long long)input->longest);
        length = input->longest;
    }
    int32_t *ids = qkv_arena_allocate(arena, (size_t)length * sizeof *ids);
    if (!ids) return qkv_error_set(error, "%s: out of memory", place);
    if (length) memcpy(ids, sentence->ids, (size_t)length * sizeof *ids);
    *line = (struct input_line){reader->lines.number, {length, ids}};
    return QKV_OK;
}

void input_lines_close(struct input_lines *input)
{
    qkv_sentence_reader_release(&input->reader);
}
