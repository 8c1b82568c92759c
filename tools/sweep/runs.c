/* Trains the runs of a sweep. */
#include "sweep.h"

#include "command.h"
#include "compare/run_set.h"
#include "print.h"
#include "terminal.h"

#include "draw/text.h"
#include "framework/engine/core/clock.h"

#include "qkv/file.h"
#include "qkv/run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct sweep_progress {
    struct progress_bar bar;
    double started;     /* seconds on the monotonic clock; 0: not yet */
    double share_first; /* share of all updates that were done before that */
};

/* ---- progress ---- */

/* The update of the last record in the log of a run; 0: none yet. While the run trains, the last record may be incomplete. */
static double last_update(const char *path)
{
    enum { TAIL = 4096 /* bytes, longer than a record */ };
    static const char key[] = "\"update\":";
    char text[TAIL + 1];
    double update = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    if (fseek(file, -TAIL, SEEK_END)) rewind(file); /* the file is shorter */
    text[fread(text, 1, TAIL, file)] = '\0';
    fclose(file);
    for (const char *at = text; (at = strstr(at, key)); at++)
        if (at[sizeof key - 1 + strspn(at + sizeof key - 1, "0123456789")] == ',')
            update = strtod(at + sizeof key - 1, NULL);
    return update;
}

/* The share of a run that is done, 0 .. 1. If the length of the run is given in epochs, the share is 0 until it ends. */
static double share_of(const struct sweep_run *run)
{
    double updates = (double)run->config.training.updates;
    if (run->state == SWEEP_DONE || run->state == SWEEP_FAILED) return 1;
    if (updates <= 0) return 0;
    struct qkv_arena arena = {0};
    double share = fmin(last_update(TEXT_IN(&arena, "%s/" QKV_RUN_METRICS, run->folder)) / updates, 1);
    qkv_arena_release(&arena);
    return share;
}

/* Draws the line: how many runs are done, how many are being trained, and the time left. Does nothing if there is no
 * terminal. */
static void sweep_progress_show(struct sweep_progress *progress, const struct sweep *sweep)
{
    if (!progress->bar.live || !is_in_foreground(progress->bar.file)) return;
    int done = 0, trains = 0;
    double share = 0, now = qkv_clock_seconds();
    for (int i = 0; i < sweep->runs; i++) {
        share += share_of(&sweep->run[i]) / sweep->runs;
        done += sweep->run[i].state == SWEEP_DONE;
        trains += sweep->run[i].state == SWEEP_TRAINS;
    }
    if (progress->started <= 0) {
        progress->started = now;
        progress->share_first = share;
    }
    char text[96], left[16] = "";
    double gained = share - progress->share_first;
    if (gained > 0) format_duration((now - progress->started) / gained * (1 - share), left);
    snprintf(text, sizeof text, "%d of %d runs done, %d in training%s%s", done, sweep->runs, trains,
             *left ? ", left " : "", left);
    progress_bar_show(&progress->bar, share, text);
}

/* ---- the list of finished runs ---- */

/* The file in the sweep's folder that lists the runs whose training has ended. A checkpoint does not show that, because
 * training may end before its last update. */
static const char FINISHED[] = "finished.txt";

static bool is_finished(struct sweep *sweep, const struct sweep_run *run)
{
    struct qkv_config config;
    struct qkv_error ignored; /* a run that cannot be read is not finished; training will report why */
    return !qkv_run_read_config(run->folder, &config, &sweep->arena, &ignored) &&
           configs_train_alike(&config, &run->config);
}

enum qkv_status sweep_find_finished(struct sweep *sweep, struct qkv_error *error)
{
    const char *path = TEXT_IN(&sweep->arena, "%s/%s", sweep->folder, FINISHED);
    if (!qkv_path_exists(path)) return QKV_OK;
    FILE *file = qkv_file_stream(path, true, error);
    if (!file) return QKV_INVALID;
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < sweep->runs; i++)
            if (!strcmp(line, sweep->run[i].name) && is_finished(sweep, &sweep->run[i]))
                sweep->run[i].state = SWEEP_DONE;
    }
    free(line);
    fclose(file);
    return QKV_OK;
}

static enum qkv_status write_finished(struct sweep *sweep, struct qkv_error *error)
{
    struct bytes out = {0};
    const char *path = TEXT_IN(&sweep->arena, "%s/%s", sweep->folder, FINISHED);
    for (int i = 0; i < sweep->runs; i++)
        if (sweep->run[i].state == SWEEP_DONE) qkv_bytes_format(&out, "%s\n", sweep->run[i].name);
    if (out.failed) required(NULL);
    enum qkv_status status = qkv_file_write(path, out.data, out.size, error);
    free(out.data);
    return status;
}

/* ---- one run ---- */

/* Runs in the process of the run: redirects output to the log, and trains. Does not return. */
static void train(const struct sweep *sweep, const struct sweep_run *run, const sigset_t *mask)
{
    enum { CAPACITY = 2 * sizeof run->settings.value / sizeof run->settings.value[0] + 8 };
    static char name[] = "train", threads_option[] = "--threads", set_option[] = "-s";
    static char resume_option[] = "--resume", overwrite_option[] = "--overwrite", threads[16];
    char *arguments[CAPACITY] = {name, (char *)run->file, threads_option, threads};
    int count = 4, log = open(run->log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    setpgid(0, 0); /* so that Ctrl-C is sent only to the sweep, which passes it on */
    if (log < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) _exit(QKV_INVALID);
    close(log);
    snprintf(threads, sizeof threads, "%d", sweep->threads);
    for (int i = 0; i < run->settings.count; i++) {
        arguments[count++] = set_option;
        arguments[count++] = (char *)run->settings.value[i];
    }
    struct qkv_arena arena = {0};
    const char *last = TEXT_IN(&arena, "%s/" QKV_RUN_LAST, run->folder);
    arguments[count++] = qkv_path_exists(last) ? resume_option : overwrite_option;
    qkv_arena_release(&arena);
    sigprocmask(SIG_SETMASK, mask, NULL);
    int code = parse_and_run(&command_train, count, arguments);
    fflush(NULL);
    _exit(code);
}

/* Bytes of a file; 0 if it is not there. */
static long size_of(const char *path)
{
    struct stat status;
    return stat(path, &status) ? 0 : (long)status.st_size;
}

static enum qkv_status start(struct sweep *sweep, struct sweep_run *run, const sigset_t *mask,
                             struct qkv_error *error)
{
    run->log_start = size_of(run->log);
    fflush(NULL); /* otherwise both processes would print the buffered output */
    run->process = fork();
    if (run->process < 0) return qkv_error_set(error, "%s: cannot start: %s", run->name, strerror(errno));
    if (run->process == 0) train(sweep, run, mask);
    run->state = SWEEP_TRAINS;
    run->started = qkv_clock_seconds();
    return QKV_OK;
}

/* Prints why a training failed: the last error message in its log or, if there is none, the last line. */
static void print_reason(const struct sweep_run *run)
{
    FILE *file = fopen(run->log, "rb");
    char *line = NULL, *reason = NULL;
    size_t capacity = 0;
    bool has_message = false;
    if (file && fseek(file, run->log_start, SEEK_SET) == 0)
        while (getline(&line, &capacity, file) > 0) {
            bool is_message = !strncmp(line, "qkv: ", 5);
            if (has_message && !is_message) continue;
            has_message = is_message;
            free(reason);
            reason = line;
            line = NULL;
            capacity = 0;
        }
    if (reason) reason[strcspn(reason, "\n")] = '\0';
    print_plain(stderr, reason ? reason : run->log);
    if (!reason) fputs(" has no reason", stderr);
    free(line);
    free(reason);
    if (file) fclose(file);
}

/* Records how a run has ended. A signal that the sweep has not passed on is a failure, such as the signal of a system that is
 * out of memory. */
static enum qkv_status end(struct sweep *sweep, struct sweep_run *run, int status, struct qkv_error *error)
{
    char duration[16];
    bool by_signal = WIFSIGNALED(status), done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool stopped = by_signal && sweep->is_interrupted;
    run->process = 0;
    run->state = done ? SWEEP_DONE : stopped ? SWEEP_WAITS : SWEEP_FAILED;
    format_duration(qkv_clock_seconds() - run->started, duration);
    if (!sweep->quiet || run->state == SWEEP_FAILED) {
        print_plain(stderr, run->name);
        fprintf(stderr, ": %s after %s", done ? "done" : stopped ? "stopped" : "failed", duration);
        if (run->state == SWEEP_FAILED) fputs(": ", stderr);
        if (run->state == SWEEP_FAILED && by_signal)
            fprintf(stderr, "ended by a signal (%s)", strsignal(WTERMSIG(status)));
        else if (run->state == SWEEP_FAILED)
            print_reason(run);
        fputc('\n', stderr);
    }
    return done ? write_finished(sweep, error) : QKV_OK;
}

/* ---- all runs ---- */

static int count_state(const struct sweep *sweep, enum sweep_state state)
{
    int count = 0;
    for (int i = 0; i < sweep->runs; i++) count += sweep->run[i].state == state;
    return count;
}

/* Starts waiting runs, from *next on, until as many as allowed run at the same time. */
static enum qkv_status start_some(struct sweep *sweep, int *next, const sigset_t *mask,
                                  struct qkv_error *error)
{
    for (; *next < sweep->runs && count_state(sweep, SWEEP_TRAINS) < sweep->at_once; ++*next)
        if (sweep->run[*next].state == SWEEP_WAITS && start(sweep, &sweep->run[*next], mask, error))
            return QKV_INVALID;
    return QKV_OK;
}

static enum qkv_status end_some(struct sweep *sweep, struct qkv_error *error)
{
    int status;
    enum qkv_status result = QKV_OK;
    for (pid_t process; (process = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < sweep->runs; i++)
            if (sweep->run[i].process == process && end(sweep, &sweep->run[i], status, error))
                result = QKV_INVALID;
    return result;
}

static void pass_on(const struct sweep *sweep, int number)
{
    for (int i = 0; i < sweep->runs; i++)
        if (sweep->run[i].process > 0) kill(sweep->run[i].process, number);
}

static void on_child(int number)
{
    (void)number; /* SIGCHLD is blocked and waited for, but without a handler it might be discarded */
}

/* Waits for a signal; on a terminal at most a second, after which the progress has to be drawn. Returns 0 if no signal has
 * come. */
static int wait_for(const sigset_t *signals, const struct sweep_progress *progress)
{
    const struct timespec second = {.tv_sec = 1};
    int number = 0;
    if (progress->bar.live) {
        number = sigtimedwait(signals, NULL, &second);
        return number > 0 ? number : 0;
    }
    sigwait(signals, &number);
    return number;
}

enum qkv_status sweep_train(struct sweep *sweep, int *interrupted, struct qkv_error *error)
{
    sigset_t waited, mask;
    struct sigaction action = {.sa_handler = on_child}, before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGCHLD, &action, &before);
    sigemptyset(&waited);
    sigaddset(&waited, SIGINT);
    sigaddset(&waited, SIGTERM);
    sigaddset(&waited, SIGHUP);
    sigaddset(&waited, SIGCHLD);
    sigprocmask(SIG_BLOCK, &waited, &mask);
    struct sweep_progress progress = {.bar = {.file = stderr}};
    if (!sweep->quiet) progress.bar = progress_bar_on(stderr);
    int next = 0;
    enum qkv_status status = QKV_OK;
    for (*interrupted = 0;;) {
        if (!*interrupted && !status) status = start_some(sweep, &next, &mask, error);
        if (!count_state(sweep, SWEEP_TRAINS)) break;
        sweep_progress_show(&progress, sweep);
        int number = wait_for(&waited, &progress);
        if (!number) continue;
        progress_bar_clear(&progress.bar);
        if (number == SIGCHLD) {
            if (end_some(sweep, error)) status = QKV_INVALID;
            continue;
        }
        if (!*interrupted)
            fputs("\nqkv: interrupted: each run saves a checkpoint; interrupt again to stop without saving\n",
                  stderr);
        *interrupted = number;
        sweep->is_interrupted = true;
        pass_on(sweep, number);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGCHLD, &before, NULL);
    return status;
}
