/* Fuzz target: `qkv translate` with a tiny run; the input is the text. Each line gives one line, or several with --n-best. */
#include "harness.h"

#include <string.h>

enum { BEAM = 1, N_BEST = 2, SCORES = 4, ONE_BY_ONE = 8, QUIET = 16 };

static int64_t count_lines(const char *text, size_t size)
{
    int64_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n' || i + 1 == size;
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char beam[] = "--beam=3", n_best[] = "--n-best=2", scores[] = "--scores", batch[] = "--batch=1",
                quiet[] = "-q", threads[] = "-j1";
    struct input input = {data, size};
    unsigned switches = take_switches(&input);
    trained_config();
    char *arguments[8] = {(char *)(uintptr_t)path_of("run"),
                          (char *)(uintptr_t)write_file("lines", input.data, input.size), threads};
    int count = 3;
    if (switches & (BEAM | N_BEST)) arguments[count++] = beam;
    if (switches & N_BEST) arguments[count++] = n_best;
    if (switches & SCORES) arguments[count++] = scores;
    if (switches & ONE_BY_ONE) arguments[count++] = batch;
    if (switches & QUIET) arguments[count++] = quiet;
    struct outcome outcome = run_command("translate", count, arguments, false);
    require_text(outcome.error, outcome.error_size, TEXT_LINES);
    if (!outcome.code && !(switches & N_BEST))
        REQUIRE(count_lines(outcome.output, outcome.output_size) ==
                count_lines((const char *)input.data, input.size));
    outcome_release(&outcome);
    return 0;
}
