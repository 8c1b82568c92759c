#include "arguments.h"

#include "terminal.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 48, FIRST_LONG_ONLY = 256 };

int complain(const char *format, ...)
{
    char message[2 * sizeof(struct qkv_error)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fputs("qkv: ", stderr);
    print_plain(stderr, message, strlen(message));
    fputc('\n', stderr);
    return QKV_INVALID;
}

const char *list_names(char *text, size_t size, qkv_naming *name, const void *context)
{
    const char *one;
    size_t used = 0;
    for (int64_t i = 0; (one = name(context, i)) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", one);
    return text;
}

int complain_of_name(const char *what, const char *given, qkv_naming *name, const void *context)
{
    char names[1024];
    if (*qkv_names_near(names, sizeof names, given, "", name, context))
        return complain("%s is '%s'; did you mean %s", what, given, names);
    return complain("%s is '%s', but must be one of %s", what, given,
                    list_names(names, sizeof names, name, context));
}

int conclude(enum qkv_status status, const struct qkv_error *error)
{
    if (status) complain("%s", error->message);
    return (int)status;
}

static const char *program_of(const struct usage *usage)
{
    return usage->program ? usage->program : "qkv";
}

/* What to call for the help page: "qkv train". */
static const char *called(const struct usage *usage, const char *command)
{
    static char text[64];
    if (usage->program) return usage->program;
    snprintf(text, sizeof text, "qkv %s", command);
    return text;
}

static void print_help(const struct usage *usage)
{
    printf("Usage: %s %s\n\n%s\nOptions:\n", program_of(usage), usage->synopsis, usage->description);
    for (const struct argument *a = usage->arguments; a->name; a++) {
        char left[64];
        int length = a->letter ? snprintf(left, sizeof left, "-%c, --%s", a->letter, a->name)
                               : snprintf(left, sizeof left, "    --%s", a->name);
        if (a->value) snprintf(left + length, sizeof left - (size_t)length, " %s", a->value);
        printf("  %-28s %s\n", left, a->help);
    }
    printf("  %-28s %s\n", "-h, --help", "print this page");
    if (usage->examples) printf("\nExamples:\n%s", usage->examples);
}

/* Shows an option as the user knows it. */
static const char *shown(const struct argument *argument)
{
    static char text[64];
    snprintf(text, sizeof text, "--%s", argument->name);
    return text;
}

static bool out_of_range(const struct argument *argument, double number)
{
    bool bounded =
        argument->lowest < 0 || argument->lowest > 0 || argument->highest < 0 || argument->highest > 0;
    return bounded && !(number >= argument->lowest && number <= argument->highest);
}

/* Stores one value; false after complaining. */
static bool store(const struct argument *argument, const char *value)
{
    char *end = NULL;
    errno = 0;
    switch (argument->kind) {
    case ARGUMENT_FLAG:
        *(bool *)argument->destination = true;
        return true;
    case ARGUMENT_TEXT:
        *(const char **)argument->destination = value;
        return true;
    case ARGUMENT_LIST: {
        struct argument_list *list = argument->destination;
        if (list->count == (int)(sizeof list->value / sizeof list->value[0])) {
            complain("%s is given more than %d times", shown(argument), list->count);
            return false;
        }
        list->value[list->count++] = value;
        return true;
    }
    case ARGUMENT_INTEGER: {
        long long number = strtoll(value, &end, 10);
        if (end == value || *end) {
            complain("%s takes a whole number, but got '%s'", shown(argument), value);
            return false;
        }
        if (errno || out_of_range(argument, (double)number)) break;
        *(int64_t *)argument->destination = number;
        return true;
    }
    case ARGUMENT_NUMBER: {
        double number = strtod(value, &end);
        if (end == value || *end || isnan(number)) {
            complain("%s takes a number, but got '%s'", shown(argument), value);
            return false;
        }
        if (isinf(number) || out_of_range(argument, number)) break;
        *(double *)argument->destination = number;
        return true;
    }
    }
    complain("%s is %s, but must lie between %.17g and %.17g", shown(argument), value, argument->lowest,
             argument->highest);
    return false;
}

/* The row that getopt's answer `code` stands for: a letter, or FIRST_LONG_ONLY + row. */
static const struct argument *find(const struct argument *arguments, int code)
{
    if (code >= FIRST_LONG_ONLY) return &arguments[code - FIRST_LONG_ONLY];
    const struct argument *a = arguments;
    while (a->letter != code) a++;
    return a;
}

static const char *option_name(const void *context, int64_t index)
{
    return ((const struct argument *)context)[index].name;
}

/* Says what is wrong with a word that getopt does not take for an option. */
static void complain_of_option(const struct usage *usage, const char *word, const char *command)
{
    if (optopt > 0 && optopt < FIRST_LONG_ONLY && optopt != 'h') {
        complain("unknown option '-%c' (see `%s --help`)", optopt, called(usage, command));
        return;
    }
    if (optopt) {
        complain("option '%.*s' takes no value", (int)strcspn(word, "="), word);
        return;
    }
    const char *name = word + 2; /* behind the dashes */
    size_t length = strcspn(name, "=");
    char candidates[512] = "";
    int count = 0;
    for (const struct argument *a = usage->arguments; a->name; a++) {
        if (strncmp(a->name, name, length) != 0) continue;
        size_t used = strlen(candidates);
        snprintf(candidates + used, sizeof candidates - used, "%s--%s", count++ ? ", " : "", a->name);
    }
    if (count > 1) {
        complain("option '--%.*s' is ambiguous: %s", (int)length, name, candidates);
        return;
    }
    char given[64] = "";
    if (length < sizeof given) memcpy(given, name, length);
    qkv_names_near(candidates, sizeof candidates, given, "--", option_name, usage->arguments);
    complain("unknown option '--%.*s'%s%s (see `%s --help`)", (int)length, name,
             *candidates ? "; did you mean " : "", candidates, called(usage, command));
}

int arguments_parse(const struct usage *usage, int argc, char **argv, int *operands)
{
    struct option options[MOST_ARGUMENTS + 2] = {0};
    char letters[2 * MOST_ARGUMENTS + 4] = ":h";
    size_t used = strlen(letters);
    int count = 0;
    for (const struct argument *a = usage->arguments; a->name; a++, count++) {
        QKV_BUG(count == MOST_ARGUMENTS, "too many options in '%s'", usage->synopsis);
        int takes = a->kind == ARGUMENT_FLAG ? no_argument : required_argument;
        options[count] = (struct option){a->name, takes, NULL, FIRST_LONG_ONLY + count};
        if (!a->letter) continue;
        letters[used++] = a->letter;
        if (takes == required_argument) letters[used++] = ':';
    }
    options[count] = (struct option){"help", no_argument, NULL, 'h'};

    opterr = 0;
    optind = 1;
    for (int code; (code = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        if (code == 'h') {
            print_help(usage);
            return QKV_OK;
        }
        if (code == ':')
            return complain("option '%s' needs a value (see `%s --help`)", argv[optind - 1],
                            called(usage, argv[0]));
        if (code == '?') {
            complain_of_option(usage, argv[optind - 1], argv[0]);
            return QKV_INVALID;
        }
        if (!store(find(usage->arguments, code), optarg)) return QKV_INVALID;
    }
    *operands = argc - optind;
    if (*operands < usage->fewest) {
        complain("missing operand (usage: %s %s)", program_of(usage), usage->synopsis);
        return QKV_INVALID;
    }
    if (*operands > usage->most) {
        complain("unexpected operand '%s' (usage: %s %s)", argv[optind + usage->most], program_of(usage),
                 usage->synopsis);
        return QKV_INVALID;
    }
    for (int i = 0; i < *operands; i++) {
        if (!*argv[optind + i])
            return complain("operand %d is empty (usage: qkv %s)", i + 1, usage->synopsis);
        argv[1 + i] = argv[optind + i];
    }
    return ARGUMENTS_GOOD;
}
