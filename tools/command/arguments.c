#include "config/config_keys.h"
#include "config/path.h"
#include "help.h"
#include "processes/processes.h"

#include <limits.h>
#include <stdarg.h>

enum { MAX_OPTIONS = 48 };

static bool is_given[MAX_OPTIONS]; /* of each row of the options: whether the arguments have it */

/* ---- values ---- */

/* Checks that a value is one of the choices; `choices` NULL accepts all. */
static int check_choice(const char *what, qkv_name_lister *choices, const char *value)
{
    const char *choice;
    for (int64_t i = 0; choices && (choice = choices(NULL, i)); i++)
        if (!strcmp(choice, value)) return QKV_OK;
    return choices ? print_unknown_name(what, value, choices, NULL) : QKV_OK;
}

/* Adds a value to a list. If there are choices, splits it at commas first. */
static int store_in_list(const struct command_option *option, const char *what, char *value)
{
    struct option_list *list = option->destination;
    int capacity = (int)(sizeof list->value / sizeof list->value[0]);
    for (char *next; value; value = next) {
        next = option->choices ? strchr(value, ',') : NULL;
        if (next) *next++ = '\0';
        if (list->count == capacity) return print_error("%s is given more than %d times", what, capacity);
        if (check_choice(what, option->choices, value)) return QKV_INVALID;
        list->value[list->count++] = value;
    }
    return QKV_OK;
}

static int store_number(const struct command_option *option, const char *value)
{
    const bool is_whole = option->type == OPTION_INTEGER;
    char *end;
    errno = 0;
    long long whole = is_whole ? strtoll(value, &end, 10) : 0;
    bool overflows = errno;
    double number = is_whole ? (double)whole : strtod(value, &end);
    if (end == value || *end || isnan(number))
        return print_error("--%s needs a %snumber, but got '%s'", option->name, is_whole ? "whole " : "",
                           value);
    bool is_bounded = option->lowest < 0 || option->highest > 0;
    if (overflows || isinf(number) ||
        (is_bounded && !(number >= option->lowest && number <= option->highest))) {
        char lowest[QKV_NUMBER_SIZE], highest[QKV_NUMBER_SIZE];
        qkv_number_format(lowest, option->lowest);
        qkv_number_format(highest, option->highest);
        return print_error("--%s is %s, but must lie between %s and %s", option->name, value, lowest,
                           highest);
    }
    if (is_whole)
        *(int64_t *)option->destination = whole;
    else
        *(double *)option->destination = number;
    return QKV_OK;
}

/* Stores one value; returns QKV_OK, or the exit code after an error message. */
static int store(const struct command_option *option, char *value)
{
    char what[TITLE_SIZE];
    snprintf(what, sizeof what, "--%s", option->name);
    bool is_path = option->value && (!strcmp(option->value, "FILE") || !strcmp(option->value, "FOLDER") ||
                                     !strcmp(option->value, "RUN"));
    if (is_path && !*value) return print_error("%s is empty, but needs a %s", what, option->value);
    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)option->destination = true;
        return QKV_OK;
    case OPTION_CHOICE:
        if (check_choice(what, option->choices, value)) return QKV_INVALID;
        *(const char **)option->destination = value;
        return QKV_OK;
    case OPTION_TEXT:
        *(const char **)option->destination = value;
        return QKV_OK;
    case OPTION_LIST:
        return store_in_list(option, what, value);
    case OPTION_INTEGER:
    case OPTION_NUMBER:
        return store_number(option, value);
    }
    return QKV_INVALID;
}

/* ---- options ---- */

const struct command_option HELP_OPTION = {"help", 'h', NULL, OPTION_FLAG, NULL, "print the help page"};

const struct command_option *find_option(const struct command *command, char letter, const char *name,
                                         size_t length)
{
    const struct command_option *o = options_of(command);
    for (;; o++) {
        bool is_last = !o->name;
        if (is_last) o = &HELP_OPTION;
        if (letter ? o->letter == letter : strlen(o->name) == length && !strncmp(o->name, name, length))
            return o;
        if (is_last) return NULL;
    }
}

static const char *option_name(const void *context, int64_t index)
{
    return ((const struct command_option *)context)[index].name;
}

/* The option of this name; NULL: none. */
static const struct command_option *option_named(const struct command *command, const char *name)
{
    return find_option(command, 0, name, strlen(name));
}

/* What to do instead of giving -o or --output to a command without that option; "" for other options. */
static const char *hint_of_output(const struct command *command, char letter, const char *name)
{
    bool is_output = letter == 'o' || !strcmp(name, "output");
    return !is_output || command->writes_run || option_named(command, "output")
               ? ""
               : "; results go to standard output: append >FILE";
}

/* Whether a name is one of the choices of --format, as is json in `--json`. */
static bool is_format(const struct command *command, const char *name)
{
    const struct command_option *o = option_named(command, "format");
    for (int64_t i = 0; o && o->choices && o->choices(NULL, i); i++)
        if (!strcmp(o->choices(NULL, i), name)) return true;
    return false;
}

static bool takes_sentence(const struct command *command)
{
    const struct command_operand *o = command->operands;
    while (o && o->name && strcmp(o->name, "SENTENCE") != 0) o++;
    return o && o->name;
}

/* Writes the options whose names begin with `given`. Returns their number. */
static int list_options_that_begin(const struct command *command, const char *given, char *text, size_t size)
{
    size_t length = strlen(given), used = 0;
    int count = 0;
    for (const struct command_option *o = options_of(command); length && o->name; o++) {
        if (strncmp(o->name, given, length) != 0 || used >= size) continue;
        used += (size_t)snprintf(text + used, size - used, "%s--%s", count++ ? ", " : "", o->name);
    }
    return count;
}

/* Writes the key of training or testing that an option names: "-s training.epochs=3". Returns whether there is one. */
static bool hint_of_key(const char *given, const char *value, char *text, size_t size)
{
    static const char *const sections[] = {"training", "testing"};
    for (int i = 0; i < 2; i++) {
        char key[96];
        snprintf(key, sizeof key, "%s.%s", sections[i], given);
        for (char *c = key; *c; c++) *c = *c == '-' ? '_' : *c;
        if (!qkv_schema_find(&qkv_config_schema, key)) continue;
        snprintf(text, size, "; it is a key of the config: -s %s=%.40s", key, value);
        return true;
    }
    return false;
}

/* Reports a word with an option that the command does not have: this letter or, if it is 0, the name in the word. `next` is the
 * word after it; NULL: none. */
static int print_unknown_option(const struct command *command, const char *word, char letter,
                                const char *next)
{
    static const char MEANT[] = "; did you mean ";
    char title[TITLE_SIZE], candidates[512] = "", given[64] = "";
    write_title(command, title);
    if (takes_sentence(command) && word[strcspn(word, " =")] == ' ')
        return print_error("'%s' is read as an option; put -- before a sentence that begins with a dash",
                           word);
    if (letter)
        return print_error("unknown option '-%c'%s (see `%s --help`)", letter,
                           hint_of_output(command, letter, ""), title);
    const char *name = word + 2; /* after the dashes */
    size_t length = strcspn(name, "=");
    if (length < sizeof given) memcpy(given, name, length);
    const char *value = name[length] ? name + length + 1 : next && *next != '-' ? next : "VALUE";
    const char *hint = hint_of_output(command, 0, given);
    bool has_keys = option_named(command, "set");
    if (!strcmp(given, "threads") && !strcmp(command->name, "gradcheck"))
        hint = "; it computes on one thread";
    else if (has_keys && hint_of_key(given, value, candidates, sizeof candidates))
        hint = "";
    else if (!*hint && is_format(command, given))
        snprintf(candidates, sizeof candidates, "-f %s", given), hint = MEANT;
    else if (!*hint && (list_options_that_begin(command, given, candidates, sizeof candidates) ||
                        *qkv_suggest_names(candidates, sizeof candidates, given, "--", option_name,
                                           options_of(command))))
        hint = MEANT;
    else if (!*hint && has_keys)
        hint = "; keys of the config are set by -s KEY=VALUE";
    return print_error("unknown option '--%.*s'%s%s (see `%s --help`)", (int)length, name, hint, candidates,
                       title);
}

const char *translation_option(const struct command *command)
{
    for (int i = 0; options_of(command)[i].name; i++)
        if (is_given[i] && command->options[i].needs_translations) return command->options[i].name;
    return NULL;
}

int print_translation_options_error(const struct command *command)
{
    const char *name = translation_option(command);
    return name ? print_error("--%s needs translations: give it without --no-translation", name) : QKV_OK;
}

/* ---- operands ---- */

int print_usage_error(const struct command *command, const char *format, ...)
{
    char message[sizeof(struct qkv_error)], usage[SYNOPSIS_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return print_error("%s (usage: %s)", message, write_synopsis(command, usage));
}

/* The value of -s that has no `=`, as of `-s training.updates 5`; NULL: none. */
static const char *setting_without_value(const struct option_list *settings)
{
    for (int i = 0; settings && i < settings->count; i++)
        if (!strchr(settings->value[i], '=')) return settings->value[i];
    return NULL;
}

/* The first operand that looks like a setting, as of `-s a=1 b=2`; NULL: none. A sentence may contain `=`. */
static const char *setting_without_option(const struct option_list *settings, const char *last, int count,
                                          char **operand)
{
    bool is_possible = settings && (settings->count || strcmp(last, "SENTENCE") != 0);
    for (int i = 0; is_possible && i < count; i++)
        if (strchr(operand[i], '=')) return operand[i];
    return NULL;
}

/* last: the name of the last operand of the command, which takes `max` operands and has got more. */
static int print_unexpected(const struct command *command, const char *last, int max, int count,
                            char **operand)
{
    const char *word = operand[max];
    const struct command_option *set = option_named(command, "set");
    const struct option_list *settings = set ? set->destination : NULL;
    const char *setting = setting_without_value(settings),
               *operand_as_setting = setting_without_option(settings, last, count, operand);
    if (setting)
        return print_usage_error(command, "unexpected operand '%s'; -s takes KEY=VALUE, such as -s %s=%s",
                                 word, setting, word);
    if (operand_as_setting)
        return print_usage_error(command, "unexpected operand '%s'; write -s before each KEY=VALUE",
                                 operand_as_setting);
    return print_usage_error(command, "unexpected operand '%s'%s", word,
                             !strcmp(last, "SENTENCE") ? "; put the sentence in quotes"
                             : !strcmp(last, "FILE")   ? "; a sentence is read from standard input"
                             : !strcmp(last, "CONFIG") && !qkv_path_is_yaml(operand[0]) &&
                                     !access(operand[0], F_OK)
                                 ? "; to train on the lines of two files, make a config with `qkv init`"
                                 : "");
}

static bool is_run(const char *folder)
{
    char config[PATH_MAX];
    snprintf(config, sizeof config, "%s/config.yaml", folder);
    return !access(config, F_OK);
}

/* Checks the number of operands, and that none is empty. */
static int check_operands(const struct command *command, int count, char **operand)
{
    int max = 0;
    bool repeated = false;
    const char *last = "";
    for (const struct command_operand *o = command->operands; o && o->name; o++) {
        if (max == count && !o->optional) return print_usage_error(command, "%s is missing", o->name);
        max++;
        repeated = repeated || o->repeated;
        last = o->name;
    }
    if (max > 1 && count > 1 &&
        (command->operands->completes == VALUE_RUN || command->operands->completes == VALUE_CONFIG_OR_RUN) &&
        access(operand[0], F_OK) && is_run(operand[1]))
        return print_usage_error(command, "'%s' is no run, but %s is: RUN comes first", operand[0],
                                 operand[1]);
    if (count > max && !repeated) return print_unexpected(command, last, max, count, operand);
    for (int i = 0; i < count; i++) {
        const struct command_operand *row = &command->operands[i < max ? i : max - 1];
        if (!*operand[i]) return print_usage_error(command, "%s is empty", row->name);
        if (check_choice(row->name, row->choices, operand[i])) return QKV_INVALID;
    }
    return QKV_OK;
}

/* Refuses several processes, because each would write the same files, or print the same. Every process reports the error: it
 * cannot know whether the others run this command, too, and mpirun ends all processes when the first one has ended. */
static int check_processes(const struct command *command)
{
    int processes = qkv_launched_processes();
    char title[TITLE_SIZE];
    if (command->is_divided || command->standalone || processes < 2) return QKV_OK;
    return print_error("`%s` works in one process, but mpirun has started %d: start it without mpirun",
                       write_title(command, title), processes);
}

/* Stores the options of word argv[*at]: one by its name, or some by their letters. Moves *at to the word that is the value of the
 * last one, if there is such a word. */
static int parse_options(const struct command *command, int argc, char **argv, int *at, bool *wants_help)
{
    char *word = argv[*at], title[TITLE_SIZE];
    bool is_long = word[1] == '-';
    size_t length = strcspn(word, "=");
    for (char *letter = word + 1; *letter; letter++) {
        const struct command_option *option =
            find_option(command, is_long ? 0 : *letter, word + 2, is_long ? length - 2 : 0);
        char *value = is_long && word[length] ? word + length + 1 : NULL;
        if (!option)
            return print_unknown_option(command, word, is_long ? 0 : *letter,
                                        *at + 1 < argc ? argv[*at + 1] : NULL);
        if (option->type == OPTION_FLAG && value)
            return print_error("option '%.*s' takes no value", (int)length, word);
        *wants_help = option == &HELP_OPTION;
        if (*wants_help) return QKV_OK;
        if (option->type != OPTION_FLAG && !is_long && letter[1]) value = letter + 1;
        if (option->type != OPTION_FLAG && !value && ++*at < argc) value = argv[*at];
        if (option->type != OPTION_FLAG && !value)
            return print_error("option '%s' needs a value (see `%s --help`)", word,
                               write_title(command, title));
        if (store(option, value)) return QKV_INVALID;
        QKV_BUG(option - command->options >= MAX_OPTIONS, "too many options in '%s'", command->name);
        is_given[option - command->options] = true;
        if (is_long || value) break;
    }
    return QKV_OK;
}

int parse_and_run(const struct command *command, int argc, char **argv)
{
    int count = 0; /* of the operands, which move to the front of argv */
    bool is_behind_options = false, wants_help = false;
    for (int i = 1; i < argc; i++) {
        if (is_behind_options || argv[i][0] != '-' || !argv[i][1])
            argv[1 + count++] = argv[i];
        else if (!strcmp(argv[i], "--"))
            is_behind_options = true;
        else if (parse_options(command, argc, argv, &i, &wants_help))
            return QKV_INVALID;
        if (!wants_help) continue;
        help_text_page(command, stdout);
        return QKV_OK;
    }
    int code = check_processes(command);
    if (!code) code = check_operands(command, count, argv + 1);
    return code ? code : command->run(count, argv + 1);
}
