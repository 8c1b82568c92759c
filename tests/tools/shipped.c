/* Every config that ships: it is valid, it trains, and its gradients agree with differences. Where its data
 * does not ship, the generated pairs stand in. */
#include "support.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <string.h>

#define PAIRS                                                                                                \
    "-s data.train='" QKV_SOURCE_DIR "/datasets/en_es/dev.tsv' -s data.dev='" QKV_SOURCE_DIR                 \
    "/datasets/en_es/dev.tsv'"

/* Runs a command with CONFIG replaced for each shipped config; it must exit 0. */
static int for_each(const char *pattern, const char *folder)
{
    DIR *configs = opendir(QKV_SOURCE_DIR "/configs");
    int count = 0;
    cr_assert_not_null(configs);
    for (struct dirent *entry; (entry = readdir(configs));) {
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        struct outcome outcome = run(pattern, format(QKV_SOURCE_DIR "/configs/%s", entry->d_name),
                                     format("%s/%s", folder, entry->d_name));
        cr_expect_eq(outcome.exit_code, 0, "%s: %s%s", entry->d_name, outcome.output, outcome.error);
        count++;
    }
    closedir(configs);
    return count;
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

Test(shipped, is_valid)
{
    cr_assert_geq(for_each("qkv config '%s' # %s", ""), 4);
}

Test(shipped, trains)
{
    /* Two updates of a tenth of a batch: the shapes are those of the config. */
    for_each("qkv train '%s' " PAIRS
             " -s training.model_dir='%s' -s training.updates=2 -s training.batch_size=8 "
             "-s training.learning_rate_warmup=1 -s training.validation_freq=1000 -s data.dev='' "
             "-s training.early_stopping_metric=loss --quiet",
             scratch("tools_shipped"));
}

Test(shipped, gradients_agree_with_differences)
{
    for_each("qkv gradcheck '%s' " PAIRS " --sample 1 --sentences 2 --quiet # %s", "");
}
