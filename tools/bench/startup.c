/* The measurement of the time from starting `qkv translate` to its first byte of output. */
#include "bench.h"

#include "qkv/run.h"
#include "qkv/vocabulary.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP = 3, MIN_STARTS = 5 };

extern char **environ;

struct start {
    const char *qkv, *run, *source; /* source: a file with one sentence */
};

/* Starts `qkv translate RUN`, stores the seconds until its first byte of output, and waits for its
 * end. */
static enum qkv_status start_once(const struct start *start, double *seconds, struct qkv_error *error)
{
    char *const arguments[] = {(char *)(uintptr_t)start->qkv, (char *)(uintptr_t) "translate",
                               (char *)(uintptr_t)start->run, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], result;
    pid_t child;
    char byte;
    if (pipe(ends)) return qkv_error_set(error, "cannot make a pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, start->source, O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    double began = bench_seconds();
    int failure = posix_spawn(&child, start->qkv, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ssize_t got = failure ? 0 : read(ends[0], &byte, 1);
    *seconds = bench_seconds() - began;
    while (got == 1 && read(ends[0], &byte, 1) > 0) continue;
    close(ends[0]);
    if (failure) return qkv_error_set(error, "%s: cannot be started: %s", start->qkv, strerror(failure));
    while (waitpid(child, &result, 0) < 0 && errno == EINTR) continue;
    if (got == 1) return QKV_OK;
    return qkv_error_set(error, "%s translate %s: prints nothing", start->qkv, start->run);
}

/* Of all children that have ended. */
static double children_used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static enum qkv_status time_starts(const struct start *start, const struct bench_options *options,
                                   struct bench_result *result, struct qkv_error *error)
{
    double *seconds = malloc((size_t)options->steps * sizeof *seconds), sum = 0, used = 0, ends = 0;
    if (!seconds) return qkv_error_set(error, "out of memory for the times of starts");
    int64_t count = 0;
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < WARM_UP && !status; i++) status = start_once(start, seconds, error);
    ends = bench_seconds() + options->seconds;
    used = children_used();
    while (!status && count < options->steps && (count < MIN_STARTS || bench_seconds() < ends)) {
        status = start_once(start, &seconds[count], error);
        sum += seconds[count++];
    }
    if (!status) {
        result->processor = 1e3 * (children_used() - used) / (double)count;
        result->steps = count;
        result->mean = 1e3 * sum / (double)count;
        result->median = 1e3 * bench_median(seconds, count);
        result->low = 1e3 * seconds[count / 10];
        result->high = 1e3 * seconds[(count - 1) * 9 / 10];
        result->mallocs = -1;
    }
    free(seconds);
    return status;
}

/* Writes a sentence of three words of the vocabulary of the run, so that there is no unknown
 * word. */
static enum qkv_status write_sentence(const char *run, int file, struct qkv_error *error)
{
    char path[4096];
    struct qkv_vocabulary words;
    snprintf(path, sizeof path, "%s/" QKV_RUN_SOURCE, run);
    if (qkv_vocabulary_load(&words, path, error)) return QKV_INVALID;
    bool written = true;
    for (int32_t i = QKV_SPECIALS; i < QKV_SPECIALS + 3 && i < words.size; i++)
        written = dprintf(file, "%s%s", i > QKV_SPECIALS ? " " : "", qkv_vocabulary_token(&words, i)) > 0 &&
                  written;
    qkv_vocabulary_release(&words);
    if (write(file, "\n", 1) == 1 && written) return QKV_OK;
    return qkv_error_set(error, "the sentence to translate cannot be written: %s", strerror(errno));
}

enum qkv_status bench_startup(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    struct bench_result result = {.name = "startup", .threads = 1};
    char path[] = "/tmp/qkv-bench-XXXXXX";
    (void)work;
    if (!options->run) return qkv_error_set(error, "startup needs a run folder: give --run");
    int file = mkstemp(path);
    if (file < 0) return qkv_error_set(error, "%s: cannot be written: %s", path, strerror(errno));
    struct start start = {options->qkv, options->run, path};
    enum qkv_status status = write_sentence(options->run, file, error);
    close(file);
    if (!status) status = time_starts(&start, options, &result, error);
    unlink(path);
    if (!status) sink->result(sink->context, &result);
    return status;
}
