/* qkv: dispatches to one subcommand. */
#include "arguments.h"
#include "commands.h"

#include "qkv/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
#define COMMAND(name, summary) {#name, summary, command_##name},
#include "commands.def"
#undef COMMAND
};

enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

static void print_help(FILE *file)
{
    fputs("Usage: qkv <command> [operands] [options]\n\n"
          "Trainable mini-transformers on an ordinary CPU: train a small translator from a YAML\n"
          "config, check its gradients, and look at the attention that it learned.\n\nCommands:\n",
          file);
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(file, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    fputs("\n`qkv <command> --help` explains a command; `qkv --version` prints the version.\n", file);
}

/* The system gives a closed standard descriptor to the next file that is opened, and results would be printed
 * into a checkpoint. What stands there now answers every read or write with an error. */
static void occupy_standard_descriptors(void)
{
    for (int descriptor = 0; descriptor < 3; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", descriptor ? O_RDONLY : O_WRONLY);
}

static const char *command_name(const void *context, int64_t index)
{
    (void)context;
    return index < COMMAND_COUNT ? COMMANDS[index].name : NULL;
}

/* Runs the command argv[0] and gives its exit code. */
static int run_command(int argc, char **argv)
{
    char near[128];
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(argv[0], COMMANDS[i].name)) return COMMANDS[i].run(argc, argv);
    qkv_names_near(near, sizeof near, argv[0], "", command_name, NULL);
    return complain("unknown command '%s'%s%s (see `qkv --help`)", argv[0], *near ? "; did you mean " : "",
                    near);
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_help(stderr);
        return QKV_INVALID;
    }
    if (!strcmp(name, "help") && argc > 2) {
        char help[] = "--help", *page[] = {argv[2], help, NULL};
        return run_command(2, page);
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_help(stdout);
        return QKV_OK;
    }
    if (!strcmp(name, "--version")) {
        puts("qkv " QKV_VERSION);
        return QKV_OK;
    }
    return run_command(argc - 1, argv + 1);
}

/* Why standard output cannot be written, or 0 when all of it has been. */
static int output_failure(void)
{
    errno = 0;
    if (fflush(stdout)) return errno;
    if (!ferror(stdout)) return 0;
    /* An earlier write failed, and its reason is long gone; the next one fails for the same. */
    return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

int main(int argc, char **argv)
{
    occupy_standard_descriptors();
    qkv_end_matrix_threads();
    signal(SIGXFSZ, SIG_IGN); /* a file that grows beyond its limit is a failed write like any other */
    int code = run(argc, argv);
    int failure = output_failure();
    if (!failure || code == QKV_INVALID) return code; /* what is invalid has been said */
    return complain("<stdout>: cannot be written: %s", strerror(failure));
}
