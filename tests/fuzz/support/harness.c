#define _GNU_SOURCE /* memmem */
#include "harness.h"
#include "framework/engine/core/memory.h"

#include "command.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <utf8proc.h>

_Noreturn void broken_promise(const char *file, int line, const char *condition)
{
    dprintf(STDERR_FILENO, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

/* ---- the parts of an input ---- */

unsigned take_switches(struct input *input)
{
    if (!input->size) return 0;
    unsigned byte = *input->data++;
    input->size--;
    return (byte ^ '0') & 63;
}

bool take_part(struct input *input, const char *separator, struct input *part)
{
    if (!input->size) return false;
    const uint8_t *end = memmem(input->data, input->size, separator, strlen(separator));
    part->data = input->data;
    part->size = end ? (size_t)(end - input->data) : input->size;
    size_t taken = part->size + (end ? strlen(separator) : 0);
    input->data += taken;
    input->size -= taken;
    return true;
}

char *take_text(struct input *input, const char *separator, struct qkv_arena *arena)
{
    struct input part;
    if (!take_part(input, separator, &part)) return NULL;
    return qkv_arena_format(arena, "%.*s", (int)part.size, (const char *)part.data);
}

int take_lines(struct input *input, int capacity, const char **lines, struct qkv_arena *arena)
{
    int count = 0;
    while (count < capacity && (lines[count] = take_text(input, "\n", arena))) count++;
    return count;
}

/* ---- files ---- */

static char folder[PATH_SIZE - 64];

static void remove_folder(void)
{
    empty_folder(path_of("run"));
    rmdir(path_of("run"));
    empty_folder(folder);
    rmdir(folder);
}

const char *path_of(const char *name)
{
    static char paths[32][PATH_SIZE];
    static unsigned next;
    if (!*folder) {
        const char *base = getenv("TMPDIR");
        if (!base) base = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
        REQUIRE(snprintf(folder, sizeof folder, "%s/qkv-fuzz-XXXXXX", base) < (int)sizeof folder);
        REQUIRE(mkdtemp(folder));
        atexit(remove_folder);
    }
    char *path = paths[next++ % 32];
    REQUIRE(snprintf(path, sizeof paths[0], "%s/%s", folder, name) < (int)sizeof paths[0]);
    return path;
}

const char *write_file(const char *name, const void *bytes, size_t size)
{
    const char *path = path_of(name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(file >= 0 && write(file, bytes, size) == (ssize_t)size && !close(file));
    return path;
}

char *read_whole(const char *path, size_t *size)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(file >= 0 && !fstat(file, &status));
    char *bytes = malloc((size_t)status.st_size + 1);
    REQUIRE(bytes && read(file, bytes, (size_t)status.st_size) == status.st_size && !close(file));
    bytes[status.st_size] = '\0';
    *size = (size_t)status.st_size;
    return bytes;
}

void empty_folder(const char *path)
{
    DIR *files = opendir(path);
    for (struct dirent *entry; files && (entry = readdir(files));)
        unlinkat(dirfd(files), entry->d_name, 0); /* fails for . and .. */
    if (files) closedir(files);
}

const char *trained_config(void)
{
    static const char *config;
    static char path[PATH_SIZE];
    if (config) return config;
    static const char pairs[] = "a b\tu v\nb c\tv w\nc, a.\tw, u.\n";
    const char *train = write_file("train.tsv", pairs, sizeof pairs - 1);
    const char *stack =
        "{num_layers: 1, num_heads: 1, hidden_size: 4, ff_size: 4, positions: {max_length: 16}}";
    char text[4 * PATH_SIZE];
    int size =
        snprintf(text, sizeof text,
                 "name: tiny\n"
                 "data: {train: %s, dev: %s, src: {lang: en}, trg: {lang: es}}\n"
                 "model:\n  encoder: %s\n  decoder: %s\n"
                 "training: {model_dir: %s, updates: 2, validation_freq: 1, batch_size: 2, shards: 1}\n",
                 train, train, stack, stack, path_of("run"));
    struct qkv_config read;
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_messages messages;
    struct qkv_train_result result;
    const struct qkv_train_options options = {.overwrite = true, .threads = 1};
    strcpy(path, write_file("tiny.yaml", text, (size_t)size));
    REQUIRE(!qkv_config_read(&read, &arena, path, NULL, 0, &messages));
    REQUIRE(!qkv_train(&read, &options, &result, NULL));
    return config = path;
}

/* ---- promises ---- */

static bool is_forbidden(utf8proc_int32_t c, enum text_rule rule)
{
    if (c == '\n' || c == '\t') return false;
    if (c < 0x20 || (c >= 0x7F && c < 0xA0)) return true;
    if ((c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069)) return true;
    return rule == TEXT_XML && (c == 0xFFFE || c == 0xFFFF);
}

void require_text(const char *text, size_t size, enum text_rule rule)
{
    utf8proc_int32_t c;
    for (size_t at = 0; at < size;) {
        utf8proc_ssize_t used =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(size - at), &c);
        REQUIRE(used > 0);
        REQUIRE(!is_forbidden(c, rule));
        at += (size_t)used;
    }
}

void require_message(const struct qkv_error *error)
{
    REQUIRE(memchr(error->message, '\0', sizeof error->message) && *error->message);
}

void require_messages(const struct qkv_messages *messages)
{
    REQUIRE(messages->count > 0 && messages->count <= QKV_MESSAGES_MAX);
    for (int i = 0; i < messages->count; i++) REQUIRE(*messages->text[i] && !strchr(messages->text[i], '\n'));
}

/* ---- commands ---- */

static int do_nothing(int operands, char **operand)
{
    (void)operands;
    (void)operand;
    return 0;
}

/* Copies what the options of a command store to `kept`, or back. A command starts once in a process, so that nothing else
 * resets them. */
static void copy_options(const struct command *command, struct option_list *kept, bool back)
{
    static const size_t sizes[] = {
        [OPTION_FLAG] = sizeof(bool),     [OPTION_TEXT] = sizeof(char *),
        [OPTION_CHOICE] = sizeof(char *), [OPTION_INTEGER] = sizeof(int64_t),
        [OPTION_NUMBER] = sizeof(double), [OPTION_LIST] = sizeof *kept,
    };
    for (const struct command_option *o = command->options; o && o->name; o++, kept++) {
        if (back)
            memcpy(o->destination, kept, sizes[o->type]);
        else
            memcpy(kept, o->destination, sizes[o->type]);
    }
}

/* Parses the arguments, and runs the command unless `parse_only`. */
static int run_once(const struct command *command, int count, const char *const *arguments, bool parse_only)
{
    enum { MAX_ARGUMENTS = 100, MAX_OPTIONS = 48 };
    static struct option_list kept[MAX_OPTIONS]; /* large enough for the value of any option */
    char *list[MAX_ARGUMENTS + 2], *copies[MAX_ARGUMENTS], name[] = "qkv";
    struct command copy = *command;
    if (parse_only) copy.run = do_nothing;
    REQUIRE(count <= MAX_ARGUMENTS);
    list[0] = name;
    for (int i = 0; i < count; i++)
        REQUIRE(copies[i] = list[i + 1] = strdup(arguments[i])); /* parsing reorders and cuts them */
    list[count + 1] = NULL;
    copy_options(command, kept, false);
    int code = parse_and_run(&copy, count + 1, list);
    copy_options(command, kept, true);
    for (int i = 0; i < count; i++) free(copies[i]);
    return code;
}

struct outcome run_command(const char *name, int count, const char *const *arguments, bool parse_only)
{
    struct outcome outcome = {0};
    FILE *output = stdout, *error = stderr;
    stdout = open_memstream(&outcome.output, &outcome.output_size);
    stderr = open_memstream(&outcome.error, &outcome.error_size);
    REQUIRE(stdout && stderr);
    const struct command *command = command_find(name);
    outcome.code = command ? run_once(command, count, arguments, parse_only) : QKV_INVALID;
    REQUIRE(!fclose(stdout) && !fclose(stderr));
    stdout = output;
    stderr = error;
    return outcome;
}

void outcome_release(struct outcome *outcome)
{
    free(outcome->output);
    free(outcome->error);
}

struct outcome run_readable(const char *name, int count, const char *const *arguments)
{
    struct outcome outcome = run_command(name, count, arguments, false);
    require_text(outcome.error, outcome.error_size, TEXT_LINES);
    return outcome;
}
