/* Fuzz target: `qkv translate` with a tiny run; the input is the text. Each line gives one line, or several with --n-best. */
#include "harness.h"

enum { BEAM = 1, N_BEST = 2, SCORES = 4, ONE_BY_ONE = 8, QUIET = 16 };

/* A byte order mark at the start is no text: a file with nothing else has no line. */
static int64_t count_lines(const char *text, size_t size)
{
    int64_t lines = 0;
    size_t start = size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    for (size_t i = start; i < size; i++) lines += text[i] == '\n' || i + 1 == size;
    return lines;
}

/* UTF-16 and gzip: their bytes are not those of the lines. */
static bool is_converted(const struct input *input)
{
    static const char *const marks[] = {"\xFF\xFE", "\xFE\xFF", "\x1F\x8B"};
    for (int i = 0; i < 3; i++)
        if (input->size >= 2 && !memcmp(input->data, marks[i], 2)) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    unsigned switches = take_switches(&input);
    trained_config();
    const char *arguments[8] = {path_of("run"), write_file("lines", input.data, input.size), "-j1"};
    int count = 3;
    if (switches & (BEAM | N_BEST)) arguments[count++] = "--beam=3";
    if (switches & N_BEST) arguments[count++] = "--n-best=2";
    if (switches & SCORES) arguments[count++] = "--scores";
    if (switches & ONE_BY_ONE) arguments[count++] = "--batch=1";
    if (switches & QUIET) arguments[count++] = "-q";
    struct outcome outcome RELEASED(outcome_release) = run_readable("translate", count, arguments);
    if (!outcome.code && !(switches & N_BEST) && !is_converted(&input))
        REQUIRE(count_lines(outcome.output, outcome.output_size) ==
                count_lines((const char *)input.data, input.size));
    return 0;
}
