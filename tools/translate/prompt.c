#include "prompt.h"

#include "print.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRANSLATIONS = 1000 };

/* A command. Its argument is the rest of the line, without spaces around it. Returns false to leave the prompt. */
struct prompt_command {
    const char *name, *argument; /* "/nbest", "N"; "" if it has none */
    const char *help;
    bool (*run)(const struct translate_prompt *prompt, const char *argument);
};

static bool run_map(const struct translate_prompt *prompt, const char *argument)
{
    struct qkv_error error;
    (void)argument;
    conclude(prompt->print_map(prompt->context, false, &error), &error);
    return true;
}

static bool run_words(const struct translate_prompt *prompt, const char *argument)
{
    struct qkv_error error;
    (void)argument;
    conclude(prompt->print_map(prompt->context, true, &error), &error);
    return true;
}

static bool run_nbest(const struct translate_prompt *prompt, const char *argument)
{
    struct qkv_error error;
    char *end;
    errno = 0;
    long long n_best = strtoll(argument, &end, 10);
    if (end == argument || *end || errno || n_best < 1 || n_best > MAX_TRANSLATIONS)
        print_error("/nbest needs a number from 1 to %d", MAX_TRANSLATIONS);
    else
        conclude(prompt->set_n_best(prompt->context, n_best, &error), &error);
    return true;
}

static bool run_help(const struct translate_prompt *prompt, const char *argument);

static bool run_quit(const struct translate_prompt *prompt, const char *argument)
{
    (void)prompt;
    (void)argument;
    return false;
}

static const struct prompt_command COMMANDS_OF_PROMPT[] = {
    {"/map", "", "draw the cross attention of the last sentence", run_map},
    {"/words", "", "draw it between words, if the tokens are parts of words", run_words},
    {"/nbest", "N", "print the N best translations of each sentence", run_nbest},
    {"/help", "", "print this list", run_help},
    {"/quit", "", "end, as Ctrl-D does", run_quit},
    {0},
};

static bool run_help(const struct translate_prompt *prompt, const char *argument)
{
    (void)prompt;
    (void)argument;
    enum { HELP_COLUMN = 10 };
    for (const struct prompt_command *command = COMMANDS_OF_PROMPT; command->name; command++) {
        int columns = printf("%s %s", command->name, command->argument);
        printf("%*s%s\n", HELP_COLUMN - columns, "", command->help);
    }
    puts("Other lines are sentences, also those with a space before a slash.");
    return true;
}

/* Cuts off trailing spaces. */
static void trim(char *text)
{
    size_t length = strlen(text);
    while (length && strchr(" \t", text[length - 1])) text[--length] = '\0';
}

/* Runs the command in a line that begins with a slash. Returns false to leave the prompt. */
static bool run_command(const struct translate_prompt *prompt, char *line)
{
    trim(line);
    size_t length = strcspn(line, " \t");
    const char *argument = line + length + strspn(line + length, " \t");
    for (const struct prompt_command *command = COMMANDS_OF_PROMPT; command->name; command++) {
        if (strlen(command->name) != length || strncmp(line, command->name, length) != 0) continue;
        if (*command->argument || !*argument) return command->run(prompt, argument);
        print_error("%s has no argument, but got '%s'", command->name, argument);
        return true;
    }
    print_error("there is no command %.*s; /help lists the commands", (int)length, line);
    return true;
}

bool translate_prompt_run(const struct translate_prompt *prompt)
{
    struct line_editor editor;
    enum line_event event;
    char *line;
    line_editor_open(&editor, "> ");
    while ((event = line_editor_read(&editor, &line)) == LINE_TYPED) {
        struct qkv_error error;
        if (*line != '/')
            conclude(prompt->translate(prompt->context, line, &error), &error);
        else if (!run_command(prompt, line))
            break;
    }
    if (event != LINE_TYPED) putchar('\n');
    line_editor_close(&editor);
    return event != LINE_LEFT;
}
