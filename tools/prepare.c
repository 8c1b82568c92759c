/* qkv prepare: writes the training text of a config as ids, so that it can be larger than memory in training. */
#include "config.h"
#include "train/training.h"

static struct option_list settings;
static const char *output, *from;
static bool overwrite;

static void print_counts(struct qkv_prepared_header *header)
{
    static const char *const SIDES[2] = {"source", "target"};
    printf("%lld pairs, of which %lld are left out because a side is longer than its max_length\n",
           (long long)header->read, (long long)(header->read - header->count));
    for (int side = 0; side < 2; side++)
        printf("%s: %lld tokens, %.2f%% of them <unk>; a vocabulary of %lld\n", SIDES[side],
               (long long)header->side[side].tokens,
               100 * (double)header->side[side].unknown / (double)header->side[side].tokens,
               (long long)header->side[side].vocabulary_size);
    say(stdout, "%s: %.1f MB; train from it with ", output, (double)qkv_prepared_lay_out(header) / 1e6);
    print_command(stdout, "-s data.train=%s\n", output);
}

/* Prints an error message and returns false if a file would be replaced. */
static bool may_write(void)
{
    struct stat there;
    bool exists = !lstat(output, &there);
    if (overwrite || (!exists && errno == ENOENT)) return true;
    if (exists)
        print_error("%s: exists already; --overwrite replaces it", output);
    else
        print_error("%s: cannot be written: %s", output, strerror(errno));
    return false;
}

static int run_prepare(int operands, char **operand)
{
    (void)operands;
    if (!output) return print_usage_error(&command_prepare, "-o FILE is missing");
    if (!may_write()) return QKV_INVALID;
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_error error = {""};
    enum qkv_status status = read_config(&config, &arena, operand[0], &settings);
    if (!status && from) config.training.from = from;
    if (!status) {
        struct qkv_prepared_header header;
        status = qkv_train_prepare(&config, output, &header, &error);
        if (status)
            print_error("%s", error.message);
        else
            print_counts(&header);
    }
    qkv_arena_release(&arena);
    return (int)status;
}

const struct command command_prepare = {
    .name = "prepare",
    .summary = "write a training text as ids, for texts larger than memory",
    .synopsis = "prepare CONFIG -o FILE.prepared [options]",
    .description =
        "Writes the training text of CONFIG (data.train) as one file of ids, with its vocabularies and "
        "merges. `qkv train` maps this file into memory where data.train names it: the system reads the "
        "parts that a batch needs and drops them when memory is short. Training gives the same bits as from "
        "the text.\n\n"
        "The text is read twice, and takes memory for its different tokens alone. The file is complete or "
        "not there. It depends on all keys of data.src and data.trg, and on data.joint_vocabulary: training "
        "refuses it when one of them has another value. BPE dropout needs the text.\n\n"
        "With --from, the ids are those of the vocabularies and merges of another run, for new text that "
        "`qkv train --from` goes on with. It must be cut into the same kind of tokens.\n",
    .examples = "  qkv prepare configs/toy_en_es.yaml -o runs/toy.prepared\n"
                "  qkv train configs/toy_en_es.yaml -s data.train=runs/toy.prepared\n"
                "  qkv prepare configs/toy_en_es.yaml --from runs/toy_en_es -o runs/more.prepared\n",
    .operands = OPERANDS({"CONFIG", VALUE_CONFIG, "a YAML file; -: standard input"}),
    .options =
        OPTIONS({"output", 'o', "FILE", OPTION_TEXT, &output,
                 "the file to write, whose name ends in .prepared", .completes = VALUE_FILE},
                {"from", 0, "RUN", OPTION_TEXT, &from,
                 "use the vocabularies and merges of another run, as `train --from` does (training.from)"},
                {"overwrite", 0, NULL, OPTION_FLAG, &overwrite, "replace an existing file"},
                COMMAND_OPTION_SETTINGS(&settings)),
    .run = run_prepare,
};
