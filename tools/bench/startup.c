/* From starting the program to its first word. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct start {
    const char *qkv, *run, *source; /* source: a file with one sentence */
};

/* Starts `qkv translate RUN` and waits for its first byte, then for its end. */
static enum qkv_status startup_step(void *context, int64_t i, struct qkv_error *error)
{
    const struct start *start = context;
    char *const arguments[] = {(char *)(uintptr_t)start->qkv, (char *)(uintptr_t) "translate",
                               (char *)(uintptr_t)start->run, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], result;
    pid_t child;
    char byte;
    (void)i;
    if (pipe(ends)) return qkv_error_set(error, "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, start->source, O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    int failure = posix_spawn(&child, start->qkv, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ssize_t got = failure ? 0 : read(ends[0], &byte, 1);
    close(ends[0]);
    if (failure) return qkv_error_set(error, "%s: cannot be started: %s", start->qkv, strerror(failure));
    /* The time counts to the first byte; what the process does to end is in it too, and is little. */
    while (waitpid(child, &result, 0) < 0 && errno == EINTR) continue;
    if (got == 1) return QKV_OK;
    return qkv_error_set(error, "%s translate %s: says nothing", start->qkv, start->run);
}

enum qkv_status bench_startup(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    struct bench_result result = {.name = "startup", .threads = 1};
    char path[] = "/tmp/qkv-bench-XXXXXX";
    static const char sentence[] = "a b c\n";
    (void)work;
    if (!options->run) return qkv_error_set(error, "startup needs a run folder: give --run");
    int file = mkstemp(path);
    if (file < 0 || write(file, sentence, sizeof sentence - 1) != (ssize_t)sizeof sentence - 1) {
        if (file >= 0) close(file);
        return qkv_error_set(error, "%s: cannot be written: %s", path, strerror(errno));
    }
    close(file);
    struct start start = {options->qkv, options->run, path};
    enum qkv_status status = bench_time(options, &result, startup_step, &start, error);
    unlink(path);
    if (!status) sink->result(sink->context, &result);
    return status;
}
