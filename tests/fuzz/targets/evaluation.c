/* Fuzz target: evaluations in JSON, one a part of the input, which `qkv compare` writes in every format. */
#include "harness.h"

static const char *const OUTPUTS[] = {"table.md",   "table.tsv", "table.txt",
                                      "table.json", "chart.svg", "chart.png"};
enum { MAX_EVALUATIONS = 8, FORMATS = sizeof OUTPUTS / sizeof *OUTPUTS };

static void require_output(const char *name)
{
    size_t size;
    char *text RELEASED(free_memory) = read_whole(path_of(name), &size);
    if (strstr(name, ".svg")) require_text(text, size, TEXT_XML);
    if (strstr(name, ".md") || strstr(name, ".txt")) require_text(text, size, TEXT_LINES);
    if (strstr(name, ".json")) {
        cJSON *json RELEASED(free_json) = cJSON_Parse(text);
        REQUIRE(json);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size}, part;
    unsigned switches = take_switches(&input);
    const char *arguments[MAX_EVALUATIONS + 2 * FORMATS];
    char name[32];
    int count = 0;
    while (count < MAX_EVALUATIONS && take_part(&input, PART_END, &part)) {
        snprintf(name, sizeof name, "evaluation_%d.json", count);
        arguments[count++] = write_file(name, part.data, part.size);
    }
    for (int i = 0; i < FORMATS; i++) {
        if (!(switches >> i & 1)) continue;
        arguments[count++] = "-o";
        arguments[count++] = path_of(OUTPUTS[i]);
    }
    struct outcome outcome RELEASED(outcome_release) = run_readable("compare", count, arguments);
    for (int i = 0; i < FORMATS && !outcome.code; i++)
        if (switches >> i & 1) require_output(OUTPUTS[i]);
    return 0;
}
