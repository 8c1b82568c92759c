/* qkv train: trains the model of a YAML config, and writes a run folder. */
#include "view.h"

#include "config.h"
#include "program.h"
#include "run_processes.h"

static struct option_list settings;
static const char *from;
static struct qkv_train_options options;
static int64_t threads;
static struct train_view view = {.settings = &settings};
bool train_keeps_rate;

/* Whether --set gives the learning rate, or the factor that is used in its place. */
static bool sets_rate(const struct qkv_config *config)
{
    bool is_noam = config->training.scheduling == QKV_SCHEDULE_NOAM;
    const char *key = is_noam ? "training.learning_rate_factor=" : "training.learning_rate=";
    for (int i = 0; i < settings.count; i++)
        if (!strncmp(settings.value[i], key, strlen(key))) return true;
    return false;
}

/* Reads the config. Refuses options that contradict each other. Other processes call it only after process 0 has succeeded, so
 * that an error which all have is reported once. */
static enum qkv_status prepare(struct qkv_config *config, struct qkv_arena *arena, const char *path)
{
    enum qkv_status status = QKV_OK;
    if (options.resume && options.overwrite)
        status = (enum qkv_status)print_error("--resume and --overwrite exclude each other");
    else if (from && options.resume)
        status = (enum qkv_status)print_error(
            "--from and --resume exclude each other: a resumed run goes on from its own checkpoint");
    else if (qkv_processes_count(options.processes) > 1 && !strcmp(path, "-"))
        status = (enum qkv_status)print_error(
            "CONFIG is standard input, which only one of several processes can read: name a file");
    if (!status) status = read_config(config, arena, path, &settings);
    if (!status && from) config->training.from = from;
    options.new_rate = !status && !train_keeps_rate && sets_rate(config);
    return status;
}

static enum qkv_status train(struct qkv_config *config, const char *path)
{
    struct qkv_train_listener listener = train_view_listener(&view);
    struct qkv_train_result result = {0};
    struct qkv_error error = {""};
    bool speaks = qkv_processes_rank(options.processes) == 0;
    options.threads = (int)threads;
    options.listener = &listener;
    view.config = path;
    view.resume = options.resume;
    view.quiet = view.quiet || !speaks;
    view.is_one_of_several = options.processes;
    train_view_begin(&view, config);
    enum qkv_status status = qkv_train(config, &options, &result, &error);
    if (status && (speaks || error.message[0]))
        train_view_failure(&view, config, status, error.message);
    else if (!status)
        train_view_end(&view, config, &result);
    train_view_release(&view);
    return status;
}

static int run_train(int operands, char **operand)
{
    (void)operands;
    struct qkv_arena arena = {0};
    struct qkv_config config;
    if (join_processes(&command_train, &options.processes)) return QKV_INVALID;
    bool speaks = qkv_processes_rank(options.processes) == 0;
    enum qkv_status status = speaks ? prepare(&config, &arena, operand[0]) : QKV_OK;
    status = qkv_processes_share_status(options.processes, status);
    if (!status && !speaks) {
        set_error_process(options.processes->name[options.processes->rank]);
        status = prepare(&config, &arena, operand[0]);
        set_error_process(NULL);
        if (status) qkv_processes_abort(options.processes);
    }
    if (!status) status = train(&config, operand[0]);
    qkv_arena_release(&arena);
    qkv_processes_leave(options.processes);
    if (!status && train_signal_received()) end_by_signal(train_signal_received());
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
        "or an `&&` list. The results are the same for any number of threads, and of processes that "
        "`mpirun -n N qkv train CONFIG` starts.\n\n"
        "With --from, training starts from the parameters of another run instead of random ones, with a new "
        "optimizer and schedule: for other text (fine-tuning), or a longer schedule. It uses the "
        "vocabularies of that run, unless training.from_vocabulary is new.\n",
    .examples = "  qkv train configs/toy_en_es.yaml\n"
                "  qkv train configs/toy_en_es.yaml -s training.updates=500 --overwrite\n"
                "  qkv train configs/toy_en_es.yaml --from runs/toy_en_es -s name=more\n",
    .operands = OPERANDS({"CONFIG", VALUE_CONFIG, "a YAML file; -: standard input"}),
    .options = OPTIONS(
        COMMAND_OPTION_SETTINGS(&settings),
        {"resume", 'r', NULL, OPTION_FLAG, &options.resume,
         "continue from the last checkpoint of the run; -s training.learning_rate=X then changes the "
         "learning rate from here on, and the run records it"},
        {"overwrite", 0, NULL, OPTION_FLAG, &options.overwrite, "replace an existing run folder"},
        {"from", 0, "RUN", OPTION_TEXT, &from,
         "start from the parameters of another run (the checkpoint that qkv translate would use), of a "
         "checkpoint, or of a safetensors file (training.from)"},
        COMMAND_OPTION_THREADS(&threads),
        {"quiet", 'q', NULL, OPTION_FLAG, &view.quiet, "print errors only"}),
    .run = run_train,
    .writes_run = true,
    .is_divided = true,
};
