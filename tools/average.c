/* qkv average: the mean of several checkpoints of a run, as a new checkpoint. */
#include "command.h"
#include "run/checkpoints.h"

static int64_t last, best;
static const char *output;

/* Refuses to replace an average that other commands use by default, and whose scores are in metrics.jsonl. */
static enum qkv_status check_name(const char *run_path, const char *name, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_config config = {0};
    enum qkv_status status = qkv_run_read_config(run_path, &config, &arena, error);
    if (!status && config.testing.average > 0 && !strcmp(name, "average"))
        status =
            qkv_error_set(error,
                          "%s: its average is that of testing.average, which commands use by default; name "
                          "another one with --output",
                          run_path);
    qkv_arena_release(&arena);
    return status;
}

static int run_average(int operands, char **operand)
{
    (void)operands;
    if (!last == !best)
        return print_usage_error(&command_average,
                                 last ? "give --last or --best, not both"
                                      : "give --last or --best, with the number of checkpoints");
    struct qkv_average average;
    struct qkv_error error = {""};
    const char *name = output ? output : "average";
    enum qkv_status status = check_name(operand[0], name, &error);
    if (!status)
        status = qkv_run_average(operand[0], last ? QKV_AVERAGE_LAST : QKV_AVERAGE_BEST, last ? last : best,
                                 name, &average, &error);
    if (status) return conclude(status, &error);
    say(stdout, "%s/%s.safetensors: the mean of", operand[0], name);
    for (int64_t i = 0; i < average.count; i++)
        printf("%s update-%lld", i ? "," : "", (long long)average.update[i]);
    putchar('\n');
    return QKV_OK;
}

const struct command command_average = {
    .name = "average",
    .summary = "average the parameters of several checkpoints of a run",
    .description =
        "Writes a checkpoint whose parameters are the mean of the last or of the best checkpoints of a run, "
        "as in the Transformer paper. Other commands take it by `--checkpoint average`.\n\n"
        "The run must have kept that many: training.keep_best_ckpts, training.keep_last_ckpts. With "
        "testing.average, training averages the best ones itself when it ends.\n",
    .examples = "  qkv train configs/toy_en_es.yaml -s training.keep_best_ckpts=2 \\\n"
                "      -s training.keep_last_ckpts=2 --overwrite\n"
                "  qkv average runs/toy_en_es --best 2\n"
                "  qkv average runs/toy_en_es --last 2 -o last2\n"
                "  qkv evaluate runs/toy_en_es --checkpoint last2\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder"}),
    .options = OPTIONS(
        {"last", 'l', "N", OPTION_INTEGER, &last, "average the last N checkpoints (training.keep_last_ckpts)",
         1, QKV_AVERAGE_MAX},
        {"best", 'b', "N", OPTION_INTEGER, &best, "average the N best checkpoints (training.keep_best_ckpts)",
         1, QKV_AVERAGE_MAX},
        {"output", 'o', "NAME", OPTION_TEXT, &output,
         "name of the checkpoint in the run (default: average, but not in a run with testing.average); "
         "an existing one is replaced"}),
    .run = run_average,
};
