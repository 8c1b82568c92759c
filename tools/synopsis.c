#include "synopsis.h"

#include "error_messages.h"

#include "qkv/config.h"

#include <stdio.h>
#include <string.h>

const char *write_title(const struct command *command, char text[TITLE_SIZE])
{
    snprintf(text, TITLE_SIZE, "%s%s", command->standalone ? "" : "qkv ", command->name);
    return text;
}

const char *write_synopsis(const struct command *command, char text[SYNOPSIS_SIZE])
{
    char title[TITLE_SIZE];
    if (command->synopsis) {
        snprintf(text, SYNOPSIS_SIZE, "%s%s", command->standalone ? "" : "qkv ", command->synopsis);
        return text;
    }
    size_t used = (size_t)snprintf(text, SYNOPSIS_SIZE, "%s", write_title(command, title));
    for (const struct command_operand *o = command->operands; o && o->name && used < SYNOPSIS_SIZE; o++)
        used += (size_t)snprintf(text + used, SYNOPSIS_SIZE - used, " %s%s%s%s", o->optional ? "[" : "",
                                 o->name, o->repeated ? "..." : "", o->optional ? "]" : "");
    if (used < SYNOPSIS_SIZE) snprintf(text + used, SYNOPSIS_SIZE - used, " [options]");
    return text;
}

const char *write_option_help(const struct command_option *option, char text[OPTION_HELP_SIZE])
{
    static const char placeholder[] = "{choices}";
    char choices[OPTION_HELP_SIZE / 2];
    const char *at = strstr(option->help, placeholder);
    if (!at || !option->choices) {
        snprintf(text, OPTION_HELP_SIZE, "%s", option->help);
        return text;
    }
    snprintf(text, OPTION_HELP_SIZE, "%.*s%s%s", (int)(at - option->help), option->help,
             list_names(choices, sizeof choices, option->choices, NULL), at + sizeof placeholder - 1);
    return text;
}

void print_settings(FILE *file)
{
    const char *key;
    for (int64_t i = 0; (key = qkv_config_key(NULL, i)); i++) fprintf(file, "%s%s=", i ? " " : "", key);
}
