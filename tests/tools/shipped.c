/* Every config that ships: it is valid, it trains, and its gradients agree with differences. Where its data
 * does not ship, the generated pairs stand in. */
#include "support.h"

#define PAIRS                                                                                                \
    "-s data.train='" QKV_SOURCE_DIR "/datasets/en_es/dev.tsv' -s data.dev='" QKV_SOURCE_DIR                 \
    "/datasets/en_es/dev.tsv'"

#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* Runs a command with CONFIG replaced for each config of a folder, or for some of them where it is slow; it must exit 0. */
static int for_each_in(const char *place, const char *pattern, const char *folder, bool is_slow)
{
    int count = 0;
    char *rest, *names = run_ok("cd '%s' && ls *.yaml", place);
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest), count++)
        if (!is_slow || !is_left_out(count))
            run_ok(pattern, format("%s/%s", place, name), format("%s/%s", folder, name));
    return count;
}

static int for_each(const char *pattern, const char *folder, bool is_slow)
{
    return for_each_in(QKV_SOURCE_DIR "/configs", pattern, folder, is_slow);
}

#define HISTORY QKV_SOURCE_DIR "/configs/history"
#define SIZES   QKV_SOURCE_DIR "/configs/sizes"
/* The generated pairs are too few for as many merges as a config may want, and data.dev takes the place of a share. */
#define FEW_MERGES "sed 's/num_merges: [0-9]*/num_merges: 20/; /dev_share/d' '%s' | "
#define TWO_UPDATES                                                                                          \
    FEW_MERGES                                                                                               \
    "qkv train - " PAIRS " -s training.model_dir='%s' -s training.updates=2 -s training.batch_size=8 "       \
    "-s training.learning_rate_warmup=1 -s training.validation_freq=1000 -s data.dev='' "                    \
    "-s testing.average=0 -s training.early_stopping_metric=loss --quiet "
/* What a config that extends one of sizes/ adds. */
#define OWN "-s name=own -s data.src.lang=en -s data.trg.lang=es "

Test(shipped, is_valid)
{
    cr_assert_geq(for_each("qkv config '%s' # %s", "", false), 4);
    cr_assert_geq(for_each_in(HISTORY, "qkv config '%s' # %s", "", false), 2);
    cr_assert_geq(for_each_in(SIZES, "qkv config '%s' " PAIRS " " OWN "# %s", "", false), 4);
}

Test(shipped, trains)
{
    /* Two updates of a tenth of a batch: the shapes are those of the config. */
    for_each(TWO_UPDATES, scratch("tools_shipped"), false);
    for_each_in(SIZES, TWO_UPDATES OWN, scratch("tools_shipped_sizes"), false);
    const char *folder = scratch("tools_shipped_history");
    for_each_in(HISTORY, TWO_UPDATES, folder, false);
    const char *longformer = run_ok("qkv inspect '%s/longformer_2020.yaml'", folder);
    cr_expect(shows(longformer, "  attention.window           5            6\n"));
    cr_expect(shows(longformer, "  attention.global_tokens    1            0\n"));
    cr_expect(shows(run_ok("qkv inspect '%s/flash_2022.yaml' --json", folder), "\"flash\""));
}

/* Narrow layers of the kinds that the config has, and one of each stack: more take minutes. */
Test(shipped, gradients_agree_with_differences)
{
    const char *pattern =
        "sed 's/num_merges: [0-9]*/num_merges: 20/; s/\\(hidden_size\\|embedding_dim\\): "
        "[0-9]*/\\1: 16/; s/ff_size: [0-9]*/ff_size: 32/; s/num_layers: [0-9]*/num_layers: 1/; /dev_share/d' "
        "'%s' | qkv gradcheck - " PAIRS " --sample 1 --sentences 1 --quiet # %s";
    for_each(pattern, "", true);
    for_each_in(HISTORY, pattern, "", true);
}
