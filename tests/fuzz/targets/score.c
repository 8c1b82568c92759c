/* Fuzz target: `qkv score` of a file of translations and one of references, the two parts of the input. */
#include "harness.h"

enum { LOWERCASE = 1, JSON = 2, TOKENIZER = 4, TER = 16, SENTENCES = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const tokenizers[] = {"--tokenize=13a", "--tokenize=none", "--tokenize=char",
                                             "--tokenize=intl"};
    struct input input = {data, size}, translations = {0}, references = {0};
    unsigned switches = take_switches(&input);
    take_part(&input, PART_END, &translations);
    take_part(&input, PART_END, &references);
    const char *arguments[8] = {write_file("translations", translations.data, translations.size),
                                write_file("references", references.data, references.size),
                                tokenizers[switches / TOKENIZER % 4]};
    int count = 3;
    if (switches & LOWERCASE) arguments[count++] = "--lowercase";
    if (switches & JSON) arguments[count++] = "--json";
    if (switches & SENTENCES) arguments[count++] = "--sentence-level";
    if (switches & TER)
        arguments[count++] = "--metrics=bleu,chrf,ter", arguments[count++] = "--ter-normalized";
    struct outcome outcome RELEASED(outcome_release) = run_readable("score", count, arguments);
    if (!outcome.code && switches & JSON) {
        cJSON *object RELEASED(free_json) = cJSON_Parse(outcome.output);
        REQUIRE(object);
    }
    return 0;
}
