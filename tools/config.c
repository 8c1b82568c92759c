/* qkv config: validates a config and prints what it means. */
#include "config.h"

#include "commands.h"

#include <stdio.h>
#include <string.h>

enum qkv_status read_config(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                            const struct argument_list *settings)
{
    struct qkv_messages messages;
    if (!strcmp(path, "-")) path = "/dev/stdin";
    enum qkv_status status = qkv_config_read(config, arena, path, settings ? settings->value : NULL,
                                             settings ? settings->count : 0, &messages);
    for (int i = 0; i < messages.count; i++) fprintf(stderr, "%s\n", messages.text[i]);
    return status;
}

/* A failed write shows when the program ends; what else can fail here is memory. */
static int finish(enum qkv_status status)
{
    return status && !ferror(stdout) ? complain("out of memory") : QKV_OK;
}

int command_config(int argc, char **argv)
{
    struct argument_list settings = {0};
    bool full = false, reference = false;
    const struct argument arguments[] = {
        ARGUMENT_SETTINGS(&settings),
        {"full", 'f', NULL, ARGUMENT_FLAG, &full, 0, 0,
         "print every key, not only those that differ from defaults"},
        {"reference", 'r', NULL, ARGUMENT_FLAG, &reference, 0, 0,
         "print the table of all keys, in Markdown; no CONFIG"},
        {0},
    };
    const struct usage usage = {
        .synopsis = "config CONFIG [options]",
        .description =
            "Checks a config and prints it as YAML, with what its overrides and derived values mean.\n"
            "All errors are reported at once, with line and column.\n",
        .arguments = arguments,
        .examples = "  qkv config configs/reverse.yaml --full\n"
                    "  qkv config configs/reverse.yaml -s training.learning_rate=5e-4\n"
                    "  qkv config --reference\n",
        .most = 1,
    };
    int operands;
    int code = arguments_parse(&usage, argc, argv, &operands);
    if (code != ARGUMENTS_GOOD) return code;
    if (reference == (operands == 1))
        return complain(reference ? "--reference takes no CONFIG" : "missing operand (usage: qkv %s)",
                        usage.synopsis);
    if (reference) return finish(qkv_config_write_reference(stdout));

    struct qkv_arena arena = {0};
    struct qkv_config config;
    enum qkv_status status = read_config(&config, &arena, argv[1], &settings);
    code = status ? (int)status : finish(qkv_config_write(&config, stdout, full));
    qkv_arena_release(&arena);
    return code;
}
