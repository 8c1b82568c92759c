/* qkv tokenize: splits lines of text into the tokens of a run. */
#include "commands.h"
#include "error_messages.h"
#include "terminal.h"

#include "qkv/lines.h"
#include "qkv/run.h"
#include "qkv/tokenizer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *side = "src";

static const char *side_name(const void *context, int64_t index)
{
    static const char *const names[] = {"src", "trg"};
    (void)context;
    return index < 2 ? names[index] : NULL;
}

/* Prints the tokens of each line, separated by spaces. */
static enum qkv_status print_tokens(struct qkv_lines *lines, const struct qkv_text_config *text,
                                    struct qkv_error *error)
{
    struct qkv_tokens tokens = {0};
    enum qkv_status status;
    bool found;
    while (!(status = qkv_lines_next(lines, &found, error)) && found) {
        if ((status = qkv_tokenize(&tokens, text, lines->line, lines->size, error))) break;
        for (int64_t i = 0; i < tokens.count; i++) {
            if (i) putchar(' ');
            print_result(stdout, tokens.token[i]);
        }
        putchar('\n');
    }
    if (!status && (fflush(stdout) || ferror(stdout)))
        status = qkv_error_set(error, "<stdout>: cannot be written: %s", strerror(errno));
    qkv_tokens_release(&tokens);
    return status;
}

static int run(int operands, char **operand)
{
    struct qkv_run opened = {0};
    struct qkv_lines lines = {0};
    struct qkv_error error = {""};
    enum qkv_status status = qkv_run_open(&opened, operand[0], NULL, QKV_FLOAT32, &error);
    const struct qkv_data_config *data = &opened.config.data;
    if (!status) status = qkv_lines_open(&lines, operands > 1 ? operand[1] : "-", &error);
    if (!status) status = print_tokens(&lines, strcmp(side, "trg") ? &data->src : &data->trg, &error);
    qkv_lines_close(&lines);
    qkv_run_release(&opened);
    return conclude(status, &error);
}

const struct command command_tokenize = {
    .name = "tokenize",
    .summary = "show how a run splits lines of text into tokens",
    .description =
        "Prints the tokens of each line of FILE with a space between, as the model of RUN reads them: "
        "words, characters, or pieces of words (data.src.level). A piece that ends in `@@` goes on with "
        "the next one; `▁` stands for white space.\n",
    .examples = "  echo \"the cat is sleeping\" | qkv tokenize runs/toy_en_es\n"
                "  qkv tokenize runs/toy_en_es lines.es --side trg\n",
    .operands =
        (const struct command_operand[]){
            {"RUN", VALUE_RUN, "a run folder"},
            {"FILE", VALUE_FILE, "a text file, one sentence a line; -: standard input (default)",
             .optional = true},
            {0},
        },
    .options =
        (const struct command_option[]){
            {"side", 0, "SIDE", OPTION_CHOICE, &side, "language of the lines: {choices} (default: src)",
             .choices = side_name},
            {0},
        },
    .run = run,
};
