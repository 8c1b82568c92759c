#include "support.h"

#include <criterion/criterion.h>

static const char SMALLEST[] = "name: reverse\n"
                               "data:\n"
                               "  train: datasets/reverse.tsv\n"
                               "  src:\n"
                               "    lang: src\n"
                               "  trg:\n"
                               "    lang: trg\n"
                               "\n"
                               "training:\n"
                               "  updates: 100\n";

Test(config, prints_only_what_does_not_follow_from_the_rest)
{
    const char *folder = scratch("smallest");
    const char *path = write_text(folder, "x.yaml", SMALLEST);
    struct outcome outcome = run("qkv config %s", path);
    cr_assert_eq(outcome.exit_code, 0);
    cr_assert_str_empty(outcome.error);
    cr_assert_str_eq(outcome.output, "name: reverse\n"
                                     "\n"
                                     "data:\n"
                                     "  train: datasets/reverse.tsv\n"
                                     "  src:\n"
                                     "    lang: src\n"
                                     "  trg:\n"
                                     "    lang: trg\n"
                                     "\n"
                                     "training:\n"
                                     "  updates: 100\n");
}
