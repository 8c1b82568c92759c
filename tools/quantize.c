/* qkv quantize: makes a run of a quarter of the size, with matrices in int8. */
#include "command.h"
#include "run/checkpoints.h"

static const char *checkpoint, *output;
static bool overwrite;

static int run_quantize(int operands, char **operand)
{
    (void)operands;
    struct qkv_error error = {""};
    if (!output) return print_usage_error(&command_quantize, "give --output, the folder of the new run");
    enum qkv_status status = overwrite ? qkv_run_remove_quantized(operand[0], output, &error) : QKV_OK;
    if (!status) status = qkv_run_quantize(operand[0], checkpoint, output, &error);
    if (status) return conclude(status, &error);
    say(stdout, "%s: %s in int8\n", output, operand[0]);
    return QKV_OK;
}

const struct command command_quantize = {
    .name = "quantize",
    .summary = "make a run of a quarter of the size, in int8",
    .description =
        "Writes a run whose matrices are int8: whole numbers from -127 to 127, times a scale for each output "
        "of a layer and each row of an embedding table.\n\n"
        "The new run translates exactly as `qkv translate RUN --precision int8` does. All commands that "
        "read runs accept it; training cannot continue from it.\n",
    .examples = "  qkv quantize runs/toy_en_es -o runs/toy_int8\n"
                "  qkv evaluate runs/toy_int8\n",
    .operands = OPERANDS({"RUN", VALUE_RUN, "a run folder"}),
    .options = OPTIONS(
        {"output", 'o', "FOLDER", OPTION_TEXT, &output,
         "the folder of the new run, which must not exist or be empty", .completes = VALUE_FOLDER},
        {"overwrite", 0, NULL, OPTION_FLAG, &overwrite, "replace an existing folder of a quantised run"},
        COMMAND_OPTION_CHECKPOINT(&checkpoint)),
    .run = run_quantize,
};
