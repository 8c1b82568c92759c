/* Fuzz target: the command line; one argument a line, the first is the subcommand. Arguments are parsed; only `help`,
 * which reads and writes no file, also runs. */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CAPACITY = 80 };
    struct input input = {data, size};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    const char *arguments[CAPACITY];
    const int count = take_lines(&input, CAPACITY, arguments, &arena);
    if (count) {
        bool runs = !strcmp(arguments[0], "help");
        struct outcome outcome RELEASED(outcome_release) =
            run_command(arguments[0], count - 1, arguments + 1, !runs);
        REQUIRE(outcome.code == 0 || outcome.code == 2);
        REQUIRE((outcome.code == 0) == (outcome.error_size == 0));
        require_text(outcome.error, outcome.error_size, TEXT_LINES);
    }
    return 0;
}
