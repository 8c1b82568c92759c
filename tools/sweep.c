/* qkv sweep: trains several configs, or every combination of some values, and compares the runs. */
#include "arguments.h"
#include "commands.h"
#include "config.h"
#include "end_by_signal.h"
#include "error_messages.h"
#include "run_set.h"
#include "sweep_grid.h"
#include "sweep_runs.h"
#include "terminal.h"

#include "core/processors.h"
#include "qkv/file.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SWEPT = RUN_SET_MAX };

static struct option_list grid_options, settings;
static int64_t seeds = 1, threads;
static const char *folder;
static bool quiet;

/* ---- the runs ---- */

static bool add_setting(struct option_list *list, const char *setting)
{
    if (!setting || list->count == (int)(sizeof list->value / sizeof list->value[0])) return false;
    list->value[list->count++] = setting;
    return true;
}

/* The setting of the key `name`. A name may have fewer kinds of characters than a folder: "learning_rate-1e-3_seed-42" for
 * "learning_rate=1e-3,seed=42". */
static const char *name_setting(struct qkv_arena *arena, const char *name)
{
    char *setting = qkv_arena_format(arena, "name=%s", name);
    for (char *at = setting ? setting + strlen("name=") : NULL; at && *at; at++)
        *at = *at == '=' ? '-' : *at == ',' || *at == '+' ? '_' : *at;
    return setting;
}

/* Names the run and its folder. combination: its name in the grid, or "". If all runs have the same seed, the name in tables
 * has no seed. */
static bool name_run(struct sweep *sweep, const char *prefix, const char *combination, int64_t seed,
                     struct sweep_run *run)
{
    struct qkv_arena *arena = &sweep->arena;
    const char *comma = *prefix && *combination ? "," : "";
    const char *shown = qkv_arena_format(arena, "%s%s%s", prefix, comma, combination);
    run->name =
        shown ? qkv_arena_format(arena, "%s%sseed=%lld", shown, *shown ? "," : "", (long long)seed) : NULL;
    run->folder = run->name ? qkv_run_file(arena, sweep->folder, run->name) : NULL;
    run->log = run->folder ? qkv_arena_format(arena, "%s.log", run->folder) : NULL;
    if (!run->log) return false;
    if (seeds > 1) shown = run->name;
    return (!*shown || add_setting(&run->settings, name_setting(arena, shown))) &&
           add_setting(&run->settings, qkv_arena_format(arena, "training.model_dir=%s", run->folder)) &&
           add_setting(&run->settings, qkv_arena_format(arena, "training.random_seed=%lld", (long long)seed));
}

/* Fills in a run of the grid, and checks its config. `prefix` begins its name. Errors are printed. */
static enum qkv_status plan_run(struct sweep *sweep, const struct grid *grid, int combination, int64_t seed,
                                const char *prefix, struct sweep_run *run)
{
    const char *chosen[GRID_MAX_KEYS], *name;
    bool complete = grid_combination(grid, combination, &sweep->arena, chosen, &name);
    run->settings = settings;
    for (int i = 0; complete && i < grid->keys; i++) complete = add_setting(&run->settings, chosen[i]);
    if (!complete || !name_run(sweep, prefix, name, seed, run))
        return (enum qkv_status)print_error("out of memory, or too many settings for %s", run->file);
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
        sweep->folder =
            is_alone ? qkv_arena_format(&sweep->arena, "runs/%s-sweep", config.name) : "runs/sweep";
    if (!sweep->folder) return (enum qkv_status)print_error("out of memory");
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
    sweep->run = calloc((size_t)(configs * combinations * (int)seeds), sizeof *sweep->run);
    if (!sweep->run) return (enum qkv_status)print_error("out of memory");
    for (int i = 0; i < configs; i++)
        if (plan_config(sweep, grid, combinations, config[i], configs == 1)) return QKV_INVALID;
    return QKV_OK;
}

/* Divides the threads among the runs that are trained at the same time. */
static void divide_threads(struct sweep *sweep)
{
    int total = threads ? (int)threads : qkv_processors_available(), waiting = 0;
    for (int i = 0; i < sweep->runs; i++) waiting += sweep->run[i].state == SWEEP_WAITS;
    sweep->at_once = waiting < total ? waiting : total;
    sweep->threads = sweep->at_once ? total / sweep->at_once : total;
    if (quiet) return;
    print_plain(stderr, sweep->folder);
    fprintf(stderr, ": %d run%s", sweep->runs, sweep->runs == 1 ? "" : "s");
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
    const char *table = qkv_run_file(&sweep->arena, sweep->folder, "comparison.md");
    const char *curves = qkv_run_file(&sweep->arena, sweep->folder, "curves.svg");
    int failed = 0;
    if (!table || !curves) return print_error("out of memory");
    int code = show(sweep, &command_compare, table);
    if (!code) code = show(sweep, &command_plot, curves);
    for (int i = 0; i < sweep->runs; i++) failed += sweep->run[i].state == SWEEP_FAILED;
    if (!code && !quiet && failed < sweep->runs) {
        fputs("\nthe table: ", stderr);
        print_plain(stderr, table);
        fputs(", the curves: ", stderr);
        print_plain(stderr, curves);
        fputc('\n', stderr);
    }
    if (failed) print_error("%d of %d runs failed; their logs are in %s", failed, sweep->runs, sweep->folder);
    return failed && !code ? QKV_FAILED : code;
}

static void say_interrupted(int number)
{
    fputs("qkv: interrupted; the same command continues the sweep\n", stderr);
    end_by_signal(number);
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
    if (interrupted) say_interrupted(interrupted);
    return status ? conclude(status, error) : finish(sweep);
}

static int run(int operands, char **operand)
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
    .run = run,
};
