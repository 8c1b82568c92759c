/* Fuzz target: the command line; one argument a line, the first is the subcommand. Arguments are parsed; only `help`,
 * which reads and writes no file, also runs. */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CAPACITY = 80 };
    struct input input = {data, size};
    struct qkv_arena arena = {0};
    const char *arguments[CAPACITY];
    int count = 0;
    while (count < CAPACITY && (arguments[count] = take_text(&input, "\n", &arena))) count++;
    if (count) {
        bool runs = !strcmp(arguments[0], "help");
        struct outcome outcome = run_command(arguments[0], count - 1, arguments + 1, !runs);
        REQUIRE(outcome.code == 0 || outcome.code == 2);
        REQUIRE((outcome.code == 0) == (outcome.error_size == 0));
        require_text(outcome.error, outcome.error_size, TEXT_LINES);
        outcome_release(&outcome);
    }
    qkv_arena_release(&arena);
    return 0;
}
