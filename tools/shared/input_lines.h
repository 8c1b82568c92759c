/* Source sentences for a run, read from a file or standard input and encoded as token ids. */
#pragma once

#include "text_notes.h"

#include "data/lines.h"

/* Tokens of a line. */
struct input_tokens {
    struct qkv_ids ids;
    const char *const *texts; /* [ids.length]: as the line has them, unknown words included */
    /* [ids.length]: of each token its word, as the line spells it: `Ana` of the tokens `a@@` and `na`. The pieces of a word
     * have the same pointer. Level char: texts. NULL without input_lines.needs_words, and of a prefix. */
    const char *const *words;
};

struct input_line {
    int64_t number;   /* counted from 1 */
    const char *text; /* of the source, as it was read if it still has as many words as in the line */
    struct input_tokens source; /* length 0: an empty line */
    struct input_tokens prefix; /* what the translation begins with; length 0: anything */
    const char *prefix_text;    /* as the line has it, without space around it; NULL: none */
};

struct input_lines {
    const struct qkv_run *run;
    struct qkv_lines lines;
    struct qkv_sentence sentence; /* of the current line */
    bool interactive;             /* the input is a terminal: each line is answered, and warned of, at once */
    struct unknown_words unknown_words;
    bool has_unknown;     /* a warning about unknown words was printed */
    int64_t count;        /* lines so far */
    bool has_told_of_tab; /* the warning about a tab that does not start a prefix was printed */
    /* Set by the caller after opening. */
    bool quiet, has_prefixes;        /* has_prefixes: a line may be a source, a tab and a prefix */
    bool as_trained;                 /* read the sources with qkv_sentence.as_trained */
    bool needs_words;                /* input_tokens.words of the source */
    int64_t longest, longest_prefix; /* maximal numbers of tokens of source and prefix, without </s> */
    const char *prefix_limit;        /* what sets longest_prefix; for the message */
    const char *limited_by;          /* path of the run that limits the source; NULL: `run` */
};

/* Opens a file, or standard input for "-". */
enum qkv_status input_lines_open(struct input_lines *input, const struct qkv_run *run, const char *path,
                                 struct qkv_error *error);

/* Reads the next line; its tokens live in the arena. Sets *found to false at the end. Warns on stderr about unknown words,
 * unless quiet (text_notes.h), and about a line that is cut because the model has no more positions. Fails on a prefix
 * that is too long or has no source, and on further columns. */
enum qkv_status input_lines_next(struct input_lines *input, struct qkv_arena *arena, struct input_line *line,
                                 bool *found, struct qkv_error *error);

/* Encodes a line that the caller has read, valid UTF-8 without a line end, in the same way. Messages call it `place`. `input`
 * need not be open. */
enum qkv_status input_lines_encode(struct input_lines *input, const char *place, const char *text,
                                   struct qkv_arena *arena, struct input_line *line, struct qkv_error *error);

/* Also prints how many warnings about unknown words were left out. */
void input_lines_close(struct input_lines *input);
