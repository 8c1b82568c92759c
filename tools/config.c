/* qkv config: checks a config and prints its complete form. */
#include "config.h"
#include "config/config_keys.h"

#include "config/path.h"
#include "data/lines.h"
#include "data/prepared.h"

#include <glob.h>
#include <limits.h>

/* ---- files that are not configs ---- */

/* Whether a line has columns: it has a tab that does not follow the colon of a key. */
static bool has_columns(const char *line)
{
    const char *tab = strchr(line + strspn(line, " \t"), '\t');
    return tab && tab[-1] != ':' && tab[1 + strspn(tab + 1, " \t")] && tab[1 + strspn(tab + 1, " \t")] != '#';
}

/* Whether the first line of a file is that of a text, a table of sentence pairs or a sentence, and not of
 * YAML, which has keys with colons. */
static bool holds_text(const char *path)
{
    struct stat status;
    struct qkv_lines lines;
    struct qkv_error error;
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return false;
    const char *line, *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".gz")) return true; /* no config is zipped */
    if (qkv_lines_open(&lines, path, &error)) return false;
    bool found;
    do
        line =
            !qkv_lines_next(&lines, &found, &error) && found ? lines.line + strspn(lines.line, " \t") : NULL;
    while (line && (!*line || *line == '#' || !strncmp(line, "---", 3)));
    bool is_text = line && (has_columns(line) || (!strchr(line, ':') && !qkv_path_is_yaml(path)));
    qkv_lines_close(&lines);
    return is_text;
}

/* Finds two files of text `path`.X and `path`.Y, as the common prefix `path` of two line-aligned files names them; returns
 * whether there are such. globfree() frees `files` in any case. */
static bool find_aligned_files(const char *path, glob_t *files)
{
    char pattern[PATH_MAX];
    if (access(path, F_OK) == 0 || snprintf(pattern, sizeof pattern, "%s.*", path) >= (int)sizeof pattern)
        return false;
    return !glob(pattern, 0, NULL, files) && files->gl_pathc == 2 && !qkv_path_is_yaml(files->gl_pathv[0]) &&
           !qkv_path_is_yaml(files->gl_pathv[1]);
}

/* Refuses sentences in the place of a config, and says what makes a config of them. */
static enum qkv_status refuse_text(const char *path)
{
    glob_t files = {0};
    enum qkv_status status = QKV_OK;
    if (qkv_is_prepared(path))
        status = (enum qkv_status)print_error(
            "%s: is a prepared corpus, not a config: name the config, and -s data.train=%s", path, path);
    else if (holds_text(path))
        status = (enum qkv_status)print_error(
            "%s: holds text, but a config is a YAML file; to train on sentence pairs, make "
            "a config with `qkv init %s`",
            path, path);
    else if (find_aligned_files(path, &files))
        status = (enum qkv_status)print_error(
            "%s: there is no such config; to train on the lines of two files, make one with `qkv init %s %s`",
            path, files.gl_pathv[0], files.gl_pathv[1]);
    globfree(&files);
    return status;
}

/* ---- reading ---- */

/* Prints an error. If it is in one of the settings that -g gave, names -g in place of -s. */
static void print_config_error(const char *text, const struct option_list *settings, int first, int count)
{
    char swept[2 * sizeof(struct qkv_error)];
    for (int i = first; i < first + count; i++) {
        size_t size = strlen(settings->value[i]);
        if (strncmp(text, "-s ", 3) != 0 || strncmp(text + 3, settings->value[i], size) != 0) continue;
        if (text[3 + size] != ':') continue;
        snprintf(swept, sizeof swept, "-g %s", text + 3);
        text = swept;
        break;
    }
    print_located_error(text);
}

enum qkv_status read_swept_config(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                  const struct option_list *settings, int first, int count)
{
    struct qkv_messages messages;
    char inside[PATH_MAX];
    snprintf(inside, sizeof inside, "%s/" QKV_RUN_CONFIG, path);
    if (access(inside, F_OK) == 0)
        return (enum qkv_status)print_error("%s: is a run, but a config is a YAML file, such as the run's %s",
                                            path, inside);
    if (refuse_text(path)) return QKV_INVALID;
    if (!strcmp(path, "-")) path = "/dev/stdin";
    enum qkv_status status = qkv_config_read(config, arena, path, settings ? settings->value : NULL,
                                             settings ? settings->count : 0, &messages);
    for (int i = 0; i < messages.count; i++) print_config_error(messages.text[i], settings, first, count);
    return status;
}

enum qkv_status read_config(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                            const struct option_list *settings)
{
    return read_swept_config(config, arena, path, settings, 0, 0);
}

enum qkv_status refuse_scene(const char *path, const struct qkv_messages *messages, struct qkv_arena *arena,
                             struct qkv_error *error)
{
    struct qkv_config config;
    struct qkv_messages others;
    if (!qkv_config_read(&config, arena, path, NULL, 0, &others))
        return qkv_error_set(error,
                             "%s is a config of training, not a scene as in configs/seeds; its run is %s",
                             path, config.training.model_dir);
    for (int i = 0; i < messages->count; i++) print_located_error(messages->text[i]);
    return qkv_error_set(error, "%s", "");
}

int find_run_folder(const char *path, bool *is_run)
{
    struct stat status;
    int reason = stat(path, &status) ? errno : 0;
    *is_run = !reason && S_ISDIR(status.st_mode);
    if (!reason || reason == ENOENT || reason == ENOTDIR) return QKV_OK;
    return print_error("%s: %s", path, strerror(reason));
}

enum qkv_status refuse_input_as_output(const char *output, const char *const *inputs, int count,
                                       struct qkv_error *error)
{
    for (int i = 0; output && i < count; i++)
        if (inputs[i] && qkv_is_same_file(output, inputs[i]))
            return qkv_error_set(error, "%s: is an input, too: write to another file", output);
    return QKV_OK;
}

/* A failed write is reported when the program ends, so any other failure here is a lack of memory. */
static int finish(enum qkv_status status)
{
    return status && !ferror(stdout) ? print_error("out of memory") : QKV_OK;
}

static struct option_list settings;
static bool full, reference;

static int run_config(int operands, char **operand)
{
    if (reference && operands) return print_error("--reference takes no CONFIG");
    if (reference) return finish(qkv_schema_write_reference(&qkv_config_schema, stdout));
    if (!operands) return print_usage_error(&command_config, "CONFIG is missing");
    struct qkv_arena arena = {0};
    struct qkv_config config;
    enum qkv_status status = read_config(&config, &arena, operand[0], &settings);
    int code = status ? (int)status : finish(qkv_config_write(&config, stdout, full));
    qkv_arena_release(&arena);
    return code;
}

const struct command command_config = {
    .name = "config",
    .summary = "check a config and print what it means",
    .synopsis = "config CONFIG [options]",
    .description = "Checks a config and prints it as YAML, with overrides applied and derived values filled "
                   "in. All errors are reported at once, with line and column.\n",
    .examples = "  qkv config configs/reverse.yaml --full\n"
                "  qkv config configs/reverse.yaml -s training.learning_rate=5e-4\n"
                "  qkv config --reference\n",
    .operands = OPERANDS({"CONFIG", VALUE_CONFIG, "a YAML file; -: standard input", .optional = true}),
    .options = OPTIONS(COMMAND_OPTION_SETTINGS(&settings),
                       {"full", 'f', NULL, OPTION_FLAG, &full,
                        "print every key, not only those that differ from their defaults"},
                       {"reference", 'r', NULL, OPTION_FLAG, &reference,
                        "print tables of all keys, in Markdown; no CONFIG"}),
    .run = run_config,
};
