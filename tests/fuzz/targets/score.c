/* Fuzz target: `qkv score` of a file of translations and one of references, the two parts of the input. */
#include "harness.h"

#include <cjson/cJSON.h>

enum { LOWERCASE = 1, JSON = 2, TOKENIZER = 4, TER = 16, SENTENCES = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char tokenizers[][18] = {"--tokenize=13a", "--tokenize=none", "--tokenize=char",
                                    "--tokenize=intl"};
    static char lowercase[] = "--lowercase", json[] = "--json", sentences[] = "--sentence-level",
                normalized[] = "--ter-normalized", metrics[] = "--metrics=bleu,chrf,ter";
    struct input input = {data, size}, translations = {0}, references = {0};
    unsigned switches = take_switches(&input);
    take_part(&input, PART_END, &translations);
    take_part(&input, PART_END, &references);
    char *arguments[8] = {(char *)(uintptr_t)write_file("translations", translations.data, translations.size),
                          (char *)(uintptr_t)write_file("references", references.data, references.size)};
    int count = 2;
    arguments[count++] = tokenizers[switches / TOKENIZER % 4];
    if (switches & LOWERCASE) arguments[count++] = lowercase;
    if (switches & JSON) arguments[count++] = json;
    if (switches & SENTENCES) arguments[count++] = sentences;
    if (switches & TER) {
        arguments[count++] = metrics;
        arguments[count++] = normalized;
    }
    struct outcome outcome = run_command("score", count, arguments, false);
    require_text(outcome.error, outcome.error_size, TEXT_LINES);
    if (!outcome.code && switches & JSON) {
        cJSON *object = cJSON_Parse(outcome.output);
        REQUIRE(object);
        cJSON_Delete(object);
    }
    outcome_release(&outcome);
    return 0;
}
