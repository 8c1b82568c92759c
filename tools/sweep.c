/* qkv sweep: trains several configs, or every combination of some values, and compares the runs. */
#include "config.h"
#include "program.h"
#include "run/checkpoints.h"

#include "compare/run_set.h"
#include "core/system.h"
#include "train/view.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

enum sweep_state { SWEEP_WAITS, SWEEP_TRAINS, SWEEP_DONE, SWEEP_FAILED };

struct sweep_run {
    const char *file;                /* of its config */
    const char *name, *folder, *log; /* log: file of what `qkv train` prints */
    struct option_list settings;     /* of its config */
    struct qkv_config config;
    enum sweep_state state;
    pid_t process; /* while it trains */
    double started;
    long log_start; /* bytes of the log that earlier trainings have printed */
};

struct sweep {
    const char *folder;
    struct sweep_run *run; /* [runs] */
    int runs;
    int at_once, threads; /* runs at the same time, and threads of each */
    bool quiet;
    bool is_interrupted; /* the sweep has passed on a signal, so runs that end by a signal have not failed */
    struct qkv_arena arena;
};

static int count_state(const struct sweep *sweep, enum sweep_state state)
{
    int count = 0;
    for (int i = 0; i < sweep->runs; i++) count += sweep->run[i].state == state;
    return count;
}

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
    double share = 0, now = qkv_clock_seconds();
    for (int i = 0; i < sweep->runs; i++) share += share_of(&sweep->run[i]) / sweep->runs;
    if (progress->started <= 0) {
        progress->started = now;
        progress->share_first = share;
    }
    char text[96], left[16] = "";
    double gained = share - progress->share_first;
    if (gained > 0) format_duration((now - progress->started) / gained * (1 - share), left);
    snprintf(text, sizeof text, "%d of %d runs done, %d in training%s%s", count_state(sweep, SWEEP_DONE),
             sweep->runs, count_state(sweep, SWEEP_TRAINS), *left ? ", left " : "", left);
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

/* Marks runs as done that an earlier sweep has finished with the same config. */
static enum qkv_status sweep_find_finished(struct sweep *sweep, struct qkv_error *error)
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
    return write_output(path, &out, error);
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
    train_keeps_rate = true;
    int code = parse_and_run(&command_train, count, arguments);
    fflush(NULL);
    _exit(code);
}

static enum qkv_status start(struct sweep *sweep, struct sweep_run *run, const sigset_t *mask,
                             struct qkv_error *error)
{
    struct stat log;
    run->log_start = stat(run->log, &log) ? 0 : (long)log.st_size;
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
    char *text = NULL, *reason = NULL;
    size_t capacity = 0;
    bool has_message = false;
    if (file && !fseek(file, run->log_start, SEEK_SET) && getdelim(&text, &capacity, '\0', file) > 0)
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
            bool is_message = !strncmp(line, "qkv: ", 5);
            if (is_message || !has_message) reason = line;
            has_message = has_message || is_message;
        }
    print_plain(stderr, reason ? reason : run->log);
    if (!reason) fputs(" has no reason", stderr);
    free(text);
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
        say(stderr, "%s: %s after %s", run->name, done ? "done" : stopped ? "stopped" : "failed", duration);
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

/* Trains the waiting runs, and resumes those that have a checkpoint. Whenever a run ends, the next one starts. The first signal
 * (SIGINT, SIGTERM, SIGHUP; not one that is ignored when the command starts) is passed on to all runs, which then save a
 * checkpoint and end; no more runs are started. Sets *interrupted to that signal; 0: none. */
static enum qkv_status sweep_train(struct sweep *sweep, int *interrupted, struct qkv_error *error)
{
    sigset_t waited, mask;
    struct sigaction action = {.sa_handler = on_child}, before;
    sigemptyset(&action.sa_mask);
    sigaction(SIGCHLD, &action, &before);
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    for (int i = 0; i < 3; i++)
        if (!sigaction(numbers[i], NULL, &now) && now.sa_handler != SIG_IGN) sigaddset(&waited, numbers[i]);
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
        for (int i = 0; i < sweep->runs; i++)
            if (sweep->run[i].process > 0) kill(sweep->run[i].process, number);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGCHLD, &before, NULL);
    return status;
}

enum { GRID_MAX_KEYS = 8, GRID_MAX_VALUES = 32 };

struct grid_key {
    const char *key;        /* "training.learning_rate" */
    const char *short_name; /* "learning_rate": the shortest end of `key` that no other key has */
    const char *value[GRID_MAX_VALUES];
    int values;
};

struct grid {
    struct grid_key key[GRID_MAX_KEYS];
    int keys;
};

/* ---- the grid ---- */

static void shorten(struct grid *grid, struct qkv_arena *arena)
{
    for (int i = 0; i < grid->keys; i++) {
        bool is_alone = false;
        for (int parts = 1; parts <= 8 && !is_alone; parts++) {
            const char *name = grid->key[i].short_name = end_of_name(arena, grid->key[i].key, '.', parts);
            is_alone = true;
            for (int j = 0; j < grid->keys; j++)
                is_alone =
                    is_alone && (i == j || strcmp(end_of_name(arena, grid->key[j].key, '.', parts), name));
        }
    }
}

static enum qkv_status add_value(struct grid_key *key, const char *text, int length, struct qkv_arena *arena,
                                 struct qkv_error *error)
{
    const char *value = TEXT_IN(arena, "%.*s", length, text);
    if (!*value) return qkv_error_set(error, "--grid %s: a value is empty; write KEY=VALUE,VALUE", key->key);
    for (int i = 0; i < key->values; i++)
        if (!strcmp(key->value[i], value))
            return qkv_error_set(error, "--grid %s: the value %s is named twice", key->key, value);
    if (key->values == GRID_MAX_VALUES)
        return qkv_error_set(error, "--grid %s: too many values; at most %d", key->key, GRID_MAX_VALUES);
    key->value[key->values++] = value;
    return QKV_OK;
}

static enum qkv_status add_key(struct grid *grid, const char *option, struct qkv_arena *arena,
                               struct qkv_error *error)
{
    const char *equals = strchr(option, '=');
    if (!equals || equals == option)
        return qkv_error_set(
            error, "--grid %s: must be KEY=VALUE,VALUE, such as training.learning_rate=1e-3,3e-3", option);
    if (grid->keys == GRID_MAX_KEYS)
        return qkv_error_set(error, "--grid: too many keys; at most %d", GRID_MAX_KEYS);
    struct grid_key *key = &grid->key[grid->keys++];
    *key = (struct grid_key){.key = TEXT_IN(arena, "%.*s", (int)(equals - option), option)};
    if (!strcmp(key->key, "training.random_seed"))
        return qkv_error_set(error, "--grid training.random_seed: several seeds are --seeds N");
    if (!strcmp(key->key, "training.model_dir") || !strcmp(key->key, "name"))
        return qkv_error_set(error, "--grid %s: the sweep names its runs itself", key->key);
    for (int i = 0; i + 1 < grid->keys; i++)
        if (!strcmp(grid->key[i].key, key->key))
            return qkv_error_set(error, "--grid %s: the key is named twice; name all its values at once",
                                 key->key);
    int depth = 0;
    for (const char *begin = equals + 1, *at = begin;; at++) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        if (*at && (*at != ',' || depth > 0)) continue;
        if (add_value(key, begin, (int)(at - begin), arena, error)) return QKV_INVALID;
        if (!*at) return QKV_OK;
        begin = at + 1;
    }
}

/* Reads options of the form KEY=VALUE,VALUE. A comma within brackets does not separate values. Texts live in the arena. */
static enum qkv_status grid_read(struct grid *grid, const struct option_list *options,
                                 struct qkv_arena *arena, struct qkv_error *error)
{
    *grid = (struct grid){0};
    for (int i = 0; i < options->count; i++)
        if (add_key(grid, options->value[i], arena, error)) return QKV_INVALID;
    shorten(grid, arena);
    return QKV_OK;
}

/* The number of combinations, or some number above `max` if there are more than `max`. */
static int grid_count(const struct grid *grid, int max)
{
    int count = 1;
    for (int i = 0; i < grid->keys && count <= max; i++) count *= grid->key[i].values;
    return count;
}

/* Removes brackets and spaces, and replaces all other characters that do not belong in the name of a folder by `_`. */
static const char *folder_name(char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-";
    char *to = name;
    for (const char *at = name; *at; at++)
        if (!strchr("[] ", *at)) *to++ = strchr(plain, *at) ? *at : '_';
    *to = '\0';
    return name;
}

/* Returns the name of a combination, such as "learning_rate=1e-3,num_layers=2"; "" without keys. Sets the settings KEY=VALUE,
 * settings[grid->keys]. */
static const char *grid_combination(const struct grid *grid, int index, struct qkv_arena *arena,
                                    const char *settings[GRID_MAX_KEYS])
{
    char *text = TEXT_IN(arena, "%s", "");
    for (int i = grid->keys - 1; i >= 0; i--) { /* the last key varies fastest */
        const struct grid_key *key = &grid->key[i];
        const char *value = key->value[index % key->values];
        index /= key->values;
        settings[i] = TEXT_IN(arena, "%s=%s", key->key, value);
        text = TEXT_IN(arena, "%s=%s%s%s", key->short_name, value, *text ? "," : "", text);
    }
    return folder_name(text);
}

enum { MAX_SWEPT = RUN_SET_MAX };

static struct option_list grid_options, settings;
static int64_t seeds = 1, threads;
static const char *folder;
static bool quiet;

/* ---- the runs ---- */

static enum qkv_status add_setting(struct sweep_run *run, const char *setting)
{
    struct option_list *list = &run->settings;
    if (list->count == (int)(sizeof list->value / sizeof list->value[0]))
        return (enum qkv_status)print_error("too many settings for %s", run->file);
    list->value[list->count++] = setting;
    return QKV_OK;
}

/* The setting of the key `name`. A name may have fewer kinds of characters than a folder: "learning_rate-1e-3_seed-42" for
 * "learning_rate=1e-3,seed=42". */
static const char *name_setting(struct qkv_arena *arena, const char *name)
{
    char *setting = TEXT_IN(arena, "name=%s", name);
    for (char *at = setting + strlen("name="); *at; at++)
        *at = *at == '=' ? '-' : *at == ',' || *at == '+' ? '_' : *at;
    return setting;
}

/* Names the run and its folder. combination: its name in the grid, or "". If all runs have the same seed, the name in tables
 * has no seed. */
static enum qkv_status name_run(struct sweep *sweep, const char *prefix, const char *combination,
                                int64_t seed, struct sweep_run *run)
{
    struct qkv_arena *arena = &sweep->arena;
    const char *comma = *prefix && *combination ? "," : "";
    const char *shown = TEXT_IN(arena, "%s%s%s", prefix, comma, combination);
    run->name = TEXT_IN(arena, "%s%sseed=%lld", shown, *shown ? "," : "", (long long)seed);
    run->folder = TEXT_IN(arena, "%s/%s", sweep->folder, run->name);
    run->log = TEXT_IN(arena, "%s.log", run->folder);
    if (seeds > 1) shown = run->name;
    return (*shown && add_setting(run, name_setting(arena, shown))) ||
                   add_setting(run, TEXT_IN(arena, "training.model_dir=%s", run->folder)) ||
                   add_setting(run, TEXT_IN(arena, "training.random_seed=%lld", (long long)seed))
               ? QKV_INVALID
               : QKV_OK;
}

/* Fills in a run of the grid, and checks its config. `prefix` begins its name. Errors are printed. */
static enum qkv_status plan_run(struct sweep *sweep, const struct grid *grid, int combination, int64_t seed,
                                const char *prefix, struct sweep_run *run)
{
    const char *chosen[GRID_MAX_KEYS], *name = grid_combination(grid, combination, &sweep->arena, chosen);
    run->settings = settings;
    for (int i = 0; i < grid->keys; i++)
        if (add_setting(run, chosen[i])) return QKV_INVALID;
    if (name_run(sweep, prefix, name, seed, run)) return QKV_INVALID;
    return read_swept_config(&run->config, &sweep->arena, run->file, &run->settings, settings.count,
                             grid->keys);
}

/* Adds the runs of one config. */
static enum qkv_status plan_config(struct sweep *sweep, const struct grid *grid, int combinations,
                                   const char *file, bool is_alone)
{
    struct qkv_config config;
    if (read_config(&config, &sweep->arena, file, &settings)) return QKV_INVALID;
    const char *prefix = is_alone ? "" : config.name;
    if (!sweep->folder)
        sweep->folder = is_alone ? TEXT_IN(&sweep->arena, "runs/%s-sweep", config.name) : "runs/sweep";
    int64_t first = config.training.random_seed;
    for (int combination = 0; combination < combinations; combination++)
        for (int64_t seed = first; seed < first + seeds; seed++) {
            struct sweep_run *run = &sweep->run[sweep->runs];
            run->file = file;
            if (plan_run(sweep, grid, combination, seed, prefix, run)) return QKV_INVALID;
            for (int i = 0; i < sweep->runs; i++)
                if (!strcmp(sweep->run[i].name, run->name))
                    return (enum qkv_status)print_error("two runs would have the folder %s", run->folder);
            sweep->runs++;
        }
    return QKV_OK;
}

static enum qkv_status plan(struct sweep *sweep, const struct grid *grid, int configs, char **config)
{
    int combinations = grid_count(grid, MAX_SWEPT);
    if ((int64_t)configs * combinations * seeds > MAX_SWEPT)
        return (enum qkv_status)print_error("the sweep has more than %d runs: name fewer values or seeds",
                                            MAX_SWEPT);
    sweep->run = required(calloc((size_t)(configs * combinations * (int)seeds), sizeof *sweep->run));
    for (int i = 0; i < configs; i++)
        if (plan_config(sweep, grid, combinations, config[i], configs == 1)) return QKV_INVALID;
    return QKV_OK;
}

/* Divides the threads among the runs that are trained at the same time. */
static void divide_threads(struct sweep *sweep)
{
    int total = threads ? (int)threads : qkv_processors_available(),
        waiting = count_state(sweep, SWEEP_WAITS);
    sweep->at_once = waiting < total ? waiting : total;
    sweep->threads = sweep->at_once ? total / sweep->at_once : total;
    if (quiet) return;
    say(stderr, "%s: %d run%s", sweep->folder, sweep->runs, sweep->runs == 1 ? "" : "s");
    if (waiting < sweep->runs) fprintf(stderr, ", %d finished before", sweep->runs - waiting);
    if (waiting)
        fprintf(stderr, "; %d at the same time, with %d thread%s each", sweep->at_once, sweep->threads,
                sweep->threads == 1 ? "" : "s");
    fputc('\n', stderr);
}

/* ---- the end ---- */

/* Runs the command compare or plot on the runs that are done, with a single output. */
static int show(const struct sweep *sweep, const struct command *command, const char *output)
{
    char option[] = "-o", *arguments[MAX_SWEPT + 3];
    int count = 0;
    arguments[count++] = (char *)command->name;
    for (int i = 0; i < sweep->runs; i++)
        if (sweep->run[i].state == SWEEP_DONE) arguments[count++] = (char *)sweep->run[i].folder;
    if (count == 1) return QKV_OK;
    arguments[count++] = option;
    arguments[count++] = (char *)output;
    return parse_and_run(command, count, arguments);
}

static int finish(struct sweep *sweep)
{
    const char *table = TEXT_IN(&sweep->arena, "%s/comparison.md", sweep->folder);
    const char *curves = TEXT_IN(&sweep->arena, "%s/curves.svg", sweep->folder);
    int failed = count_state(sweep, SWEEP_FAILED), code = show(sweep, &command_compare, table);
    if (!code) code = show(sweep, &command_plot, curves);
    if (!code && !quiet && failed < sweep->runs) {
        fputc('\n', stderr);
        say(stderr, "the table: %s, the curves: %s\n", table, curves);
    }
    if (failed) print_error("%d of %d runs failed; their logs are in %s", failed, sweep->runs, sweep->folder);
    return failed && !code ? QKV_FAILED : code;
}

static int sweep_all(struct sweep *sweep, int configs, char **config, struct qkv_error *error)
{
    struct grid grid;
    int interrupted;
    if (grid_read(&grid, &grid_options, &sweep->arena, error)) return conclude(QKV_INVALID, error);
    if (plan(sweep, &grid, configs, config)) return QKV_INVALID;
    if (qkv_folder_make(sweep->folder, error) || sweep_find_finished(sweep, error))
        return conclude(QKV_INVALID, error);
    divide_threads(sweep);
    enum qkv_status status = sweep_train(sweep, &interrupted, error);
    if (interrupted) {
        fputs("qkv: interrupted; the same command continues the sweep\n", stderr);
        end_by_signal(interrupted);
    }
    return status ? conclude(status, error) : finish(sweep);
}

static int run_sweep(int operands, char **operand)
{
    struct qkv_error error = {""};
    struct sweep sweep = {.folder = folder, .quiet = quiet};
    for (int i = 0; i < operands; i++)
        if (!strcmp(operand[i], "-")) return print_error("-: each run reads the config; write it to a file");
    int code = sweep_all(&sweep, operands, operand, &error);
    free(sweep.run);
    qkv_arena_release(&sweep.arena);
    return code;
}

const struct command command_sweep = {
    .name = "sweep",
    .summary = "train every combination of some values, with several seeds",
    .description =
        "Trains a run for every config and every combination of the values that -g names, each in a folder "
        "of its own below one folder, several at the same time. At the end it prints the table of `qkv "
        "compare` and writes it and the picture of `qkv plot` into that folder: comparison.md, "
        "curves.svg.\n\n"
        "The same command again goes on: finished runs are kept, others continue from their last checkpoint. "
        "More configs, values or seeds may be named, too. Ctrl-C (or SIGTERM or SIGHUP) has each run save a "
        "checkpoint. What a run prints is in FOLDER/NAME.log.\n\n"
        "The seeds are training.random_seed of the config and the numbers after it.\n",
    .examples = "  qkv sweep configs/toy_en_es.yaml -g training.learning_rate=1e-3,3e-3 --seeds 2\n"
                "  qkv sweep configs/toy_en_es.yaml -g model.encoder.num_layers=1,2 -o runs/depth\n"
                "  qkv sweep configs/history/*.yaml -s training.updates=500 -o runs/history\n",
    .operands = OPERANDS({"CONFIG", VALUE_CONFIG, "a YAML file", .repeated = true}),
    .options =
        OPTIONS({"grid", 'g', "KEY=VALUES", OPTION_LIST, &grid_options,
                 "values of a key, with commas between; a value that is a list has brackets; may be repeated",
                 .completes = VALUE_SETTING},
                {"seeds", 0, "N", OPTION_INTEGER, &seeds,
                 "runs of each combination, with seeds of their own (default: 1)", 1, MAX_SWEPT},
                {"output", 'o', "FOLDER", OPTION_TEXT, &folder,
                 "the folder of the runs (default: runs/<name>-sweep; of several configs, runs/sweep)",
                 .completes = VALUE_FOLDER},
                COMMAND_OPTION_SETTINGS(&settings),
                {"threads", 'j', "N", OPTION_INTEGER, &threads,
                 "number of threads of all runs together (default: one per processor)", 1, 1024},
                {"quiet", 'q', NULL, OPTION_FLAG, &quiet, "print errors and the table only"}),
    .run = run_sweep,
};
