/* qkv train: from a YAML config to a run folder. */
#include "commands.h"
#include "complain.h"
#include "config.h"
#include "score_options.h"
#include "terminal.h"

#include "framework/core/clock.h"

#include "qkv/run.h"
#include "qkv/trainer.h"
#include "qkv/vocabulary.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted; /* the number of the signal; 0: none */
static volatile sig_atomic_t quiet_when_interrupted;

static void on_signal(int number)
{
    static const char message[] =
        "\nqkv: interrupted: saving a checkpoint after this update; interrupt again to stop without saving\n";
    interrupted = number;
    if (!quiet_when_interrupted && write(STDERR_FILENO, message, sizeof message - 1) < 0) return;
}

/* The first signal ends training after a checkpoint; SA_RESETHAND removes the handler, so a second signal kills.
 * The process then ends by the signal (end_by_signal).
 * SIGHUP stays ignored under nohup, which lets training outlive the terminal. SIGPIPE is ignored because a closed
 * stderr is no reason to lose the training. */
static void handle_signals(bool quiet)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, before;
    quiet_when_interrupted = quiet;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* Ends the process by the signal that it handled, as if it had not handled it: a shell then sees 128 + number, and
 * ends the loop or the `&&` list that the command is part of. */
static void end_by_signal(int number)
{
    signal(number, SIG_DFL);
    raise(number);
}

/* What the command shows of training, and what it needs to know for that. */
struct view {
    const char *config; /* operand */
    const struct option_list *settings;
    bool quiet;
    bool resume;     /* --resume is given */
    bool started;    /* the run folder exists and updates begin: errors say how to continue */
    int64_t resumed; /* updates of the checkpoint that training continues; 0: none */
    bool may_stop_early;
    bool has_other_objective; /* than cross-entropy: label smoothing or R-Drop */
    bool has_estimated;       /* the estimate of time and memory is printed */
    double started_at;        /* qkv_clock_seconds */
    struct progress_bar bar;
};

static bool stop(void *context)
{
    (void)context;
    return interrupted != 0;
}

/* Says where the first parameters come from, unless they are random. */
static void show_warm_start(const struct qkv_train_start *start)
{
    if (!start->from) return;
    fputs("starting from ", stderr);
    print_plain(stderr, start->from);
    if (start->has_new_vocabulary)
        fprintf(stderr, ", which knows %lld of %d source words and %lld of %d target words",
                (long long)start->known_source, (int)start->source_types - QKV_SPECIALS,
                (long long)start->known_target, (int)start->target_types - QKV_SPECIALS);
    fputc('\n', stderr);
}

static void show_start(void *context, const struct qkv_train_start *start)
{
    struct view *view = context;
    view->started = true;
    view->resumed = start->resumed;
    view->started_at = qkv_clock_seconds();
    if (view->quiet) return;
    print_plain(stderr, start->folder);
    fprintf(
        stderr,
        ": %lld parameters, %lld training pairs, %lld dev pairs, vocabularies of %d and %d, %d thread%s\n",
        (long long)start->parameters, (long long)start->pairs, (long long)start->dev_pairs,
        (int)start->source_types, (int)start->target_types, start->threads, start->threads == 1 ? "" : "s");
    if (start->pairs < start->read)
        fprintf(
            stderr,
            "dropped %lld of %lld training pairs: %lld sources and %lld targets are longer than max_length\n",
            (long long)(start->read - start->pairs), (long long)start->read, (long long)start->long_sources,
            (long long)start->long_targets);
    if (start->resumed) fprintf(stderr, "resuming after update %lld\n", (long long)start->resumed);
    show_warm_start(start);
}

/* Once: says how long training will take, by its first updates, and how much memory it uses. */
static void show_estimate(struct view *view, const struct qkv_train_progress *p)
{
    const double wait = 3; /* seconds of updates to measure, unless a log line comes earlier */
    bool is_time =
        p->logged || (p->update - view->resumed > 2 && qkv_clock_seconds() - view->started_at > wait);
    struct rusage usage;
    if (view->has_estimated || !is_time || !isfinite(p->seconds_left) || getrusage(RUSAGE_SELF, &usage))
        return;
    int64_t updates = p->updates - view->resumed;
    char duration[16];
    format_duration(p->seconds_left / (double)(p->updates - p->update) * (double)updates, duration);
    progress_bar_clear(&view->bar);
    fprintf(stderr, "%s%lld update%s will take about %s, without validations; %.0f MB of memory in use\n",
            view->may_stop_early ? "at most " : "", (long long)updates, updates == 1 ? "" : "s", duration,
            (double)usage.ru_maxrss / 1024);
    view->has_estimated = true;
}

static void show_progress(void *context, const struct qkv_train_progress *p)
{
    struct view *view = context;
    if (view->quiet) return;
    show_estimate(view, p);
    char text[160];
    char left[16] = "", cross_entropy[48] = "";
    if (isfinite(p->seconds_left)) format_duration(p->seconds_left, left);
    if (view->has_other_objective && isfinite(p->cross_entropy))
        snprintf(cross_entropy, sizeof cross_entropy, " (cross-entropy %.4f)", p->cross_entropy);
    snprintf(text, sizeof text, "update %lld  epoch %lld  loss %.4f%s  %.0f tokens/s%s%s",
             (long long)p->update, (long long)p->epoch, p->loss, cross_entropy, p->tokens_per_second,
             left[0] ? "  left " : "", left);
    double share = p->updates > 0 ? (double)p->update / (double)p->updates : -1;
    if (view->bar.live)
        progress_bar_show(&view->bar, share, text);
    else if (p->logged)
        fprintf(stderr, "%s\n", text);
}

static void print_line(const char *start, const char *text)
{
    fputs(start, stderr);
    print_plain(stderr, text);
    fputc('\n', stderr);
}

static void print_scores(const struct qkv_scores *scores)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        if (info->on_request) continue;
        fprintf(stderr, "%s%s %.*f%s", m ? "  " : " ", info->label, info->line_digits,
                metric_shown((enum qkv_metric)m, scores->value[m]), info->percent ? " %" : "");
    }
}

static void show_average(void *context, const struct qkv_train_average *average)
{
    struct view *view = context;
    if (view->quiet) return;
    progress_bar_clear(&view->bar);
    fprintf(stderr, "average of updates");
    for (int64_t i = 0; i < average->checkpoints.count; i++)
        fprintf(stderr, "%s %lld", i ? "," : "", (long long)average->checkpoints.update[i]);
    fprintf(stderr, "  dev:");
    print_scores(&average->scores);
    fputc('\n', stderr);
}

static void show_notice(void *context, const char *sentence)
{
    struct view *view = context;
    if (view->quiet) return;
    progress_bar_clear(&view->bar);
    print_line("notice: ", sentence);
}

static void show_validation(void *context, const struct qkv_train_validation *v)
{
    struct view *view = context;
    if (view->quiet) return;
    progress_bar_clear(&view->bar);
    fprintf(stderr, "update %lld  dev:", (long long)v->update);
    print_scores(&v->scores);
    fputs(v->best ? "  (best)\n" : "\n", stderr);
    for (int64_t i = 0; i < v->samples; i++) {
        bool right = !strcmp(v->reference[i], v->translation[i]);
        print_line("    ", v->source[i]);
        print_line("      = ", v->translation[i]);
        if (!right) print_line("      * ", v->reference[i]);
    }
}

/* Prints the command that continues this training. */
static void print_resume(const struct view *view)
{
    fputs("qkv train ", stderr);
    print_shell_word(stderr, view->config);
    for (int i = 0; i < view->settings->count; i++) {
        fputs(" -s ", stderr);
        print_shell_word(stderr, view->settings->value[i]);
    }
    fputs(" --resume\n", stderr);
}

static const char *describe_end(enum qkv_train_end end)
{
    return end == QKV_TRAIN_PATIENCE  ? "stopped early, without progress in training.patience validations,"
           : end == QKV_TRAIN_STOPPED ? "interrupted"
                                      : "done";
}

static void show_end(const struct view *view, const struct qkv_config *config,
                     const struct qkv_train_result *result)
{
    bool stopped = result->end == QKV_TRAIN_STOPPED;
    if (view->resume && !stopped && result->updates == view->resumed) {
        fprintf(
            stderr, "already finished after %lld updates; raise %s to go on\n", (long long)result->updates,
            result->end == QKV_TRAIN_PATIENCE ? "training.patience" : "training.updates or training.epochs");
        return;
    }
    fprintf(stderr, "%s after %lld updates (%lld target tokens)", describe_end(result->end),
            (long long)result->updates, (long long)result->tokens);
    if (result->validated)
        fprintf(stderr, "; best %s %.4f at update %lld",
                qkv_metric_name(config->training.early_stopping_metric), result->best,
                (long long)result->best_update);
    const struct qkv_metric_info *metric = qkv_metric_info(config->training.early_stopping_metric);
    bool worse = metric->lower_is_better ? result->average > result->best : result->average < result->best;
    if (result->averaged)
        fprintf(stderr, "; average of %lld: %s %.4f", (long long)result->averaged,
                qkv_metric_name(config->training.early_stopping_metric), result->average);
    fprintf(stderr, "\n");
    if (result->averaged && worse)
        fputs("the average is worse than the best checkpoint, which --checkpoint best names\n", stderr);
    if (!stopped) return;
    fputs("saved; continue with: ", stderr);
    print_resume(view);
}

/* Prints the error and, when a failed write ended the training, how to continue. */
static void show_failure(const struct view *view, const struct qkv_config *config, enum qkv_status status,
                         const char *message)
{
    struct qkv_arena arena = {0};
    const char *last = qkv_run_file(&arena, config->training.model_dir, QKV_RUN_LAST);
    complain("%s", message);
    if (status == QKV_INVALID && view->started && last && qkv_path_exists(last)) {
        fputs("the last checkpoint is complete; continue with: ", stderr);
        print_resume(view);
    }
    qkv_arena_release(&arena);
}

static struct option_list settings;
static const char *from;
static struct qkv_train_options options;
static int64_t threads;
static struct view view = {.settings = &settings};

static int run(int operands, char **operand)
{
    (void)operands;
    if (options.resume && options.overwrite) return complain("--resume and --overwrite exclude each other");

    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_error error = {""};
    if (from && options.resume)
        return complain(
            "--from and --resume exclude each other: a resumed run goes on from its own checkpoint");
    enum qkv_status status = read_config(&config, &arena, operand[0], &settings);
    if (!status && from) config.training.from = from;
    if (!status) {
        const struct qkv_train_listener listener = {&view,           stop,         show_start, show_progress,
                                                    show_validation, show_average, show_notice};
        struct qkv_train_result result = {0};
        options.threads = (int)threads;
        options.listener = &listener;
        view.config = operand[0];
        view.resume = options.resume;
        view.may_stop_early = config.training.patience > 0;
        view.has_other_objective = config.training.label_smoothing > 0 || config.training.r_drop > 0;
        view.bar = progress_bar_on(stderr);
        handle_signals(view.quiet);
        status = qkv_train(&config, &options, &result, &error);
        progress_bar_clear(&view.bar);
        if (status)
            show_failure(&view, &config, status, error.message);
        else if (!view.quiet)
            show_end(&view, &config, &result);
    }
    qkv_arena_release(&arena);
    if (!status && interrupted) end_by_signal(interrupted);
    return (int)status;
}

const struct command command_train = {
    .name = "train",
    .summary = "train a model from a YAML config into a run folder",
    .description =
        "Trains the model that CONFIG describes and writes the run folder training.model_dir (default: "
        "`runs/<name>` in the current folder): checkpoints, vocabularies, metrics.jsonl and the complete "
        "config.\n\n"
        "Ctrl-C (or SIGTERM or SIGHUP) saves a checkpoint before the command ends; --resume continues from "
        "it. The exit status is then 128 + the signal number (130 for Ctrl-C), so that a shell ends a loop "
        "or an `&&` list. The results are the same for any number of threads.\n\n"
        "With --from, training starts from the parameters of another run instead of random ones, with a new "
        "optimizer and schedule: for other text (fine-tuning), or a longer schedule. It uses the "
        "vocabularies of "
        "that run, unless training.from_vocabulary is new.\n",
    .examples = "  qkv train configs/toy_en_es.yaml\n"
                "  qkv train configs/toy_en_es.yaml -s training.updates=500 --overwrite\n"
                "  qkv train configs/toy_en_es.yaml --from runs/toy_en_es -s name=more\n",
    .operands =
        (const struct command_operand[]){
            {"CONFIG", VALUE_CONFIG, "a YAML file; -: standard input"},
            {0},
        },
    .options =
        (const struct command_option[]){
            COMMAND_OPTION_SETTINGS(&settings),
            {"resume", 'r', NULL, OPTION_FLAG, &options.resume,
             "continue from the last checkpoint of the run"},
            {"overwrite", 0, NULL, OPTION_FLAG, &options.overwrite, "replace an existing run folder"},
            {"from", 0, "RUN", OPTION_TEXT, &from,
             "start from the parameters of another run (its best checkpoint), of a checkpoint, or of a "
             "safetensors file "
             "(training.from)"},
            COMMAND_OPTION_THREADS(&threads),
            {"quiet", 'q', NULL, OPTION_FLAG, &view.quiet, "print errors only"},
            {0},
        },
    .run = run,
};
