/* Configs that extend others by the key `extends`. */

#include "support.h"

#include <sys/stat.h>

static const char BASE[] = "name: base\n"
                           "data:\n"
                           "  train: data/train.tsv\n"
                           "  dev: data/dev.tsv\n"
                           "  src: {lang: en}\n"
                           "  trg: {lang: es}\n"
                           "model:\n"
                           "  encoder: {num_layers: 1, hidden_size: 16}\n"
                           "  decoder: {num_layers: 1, hidden_size: 16}\n"
                           "training:\n"
                           "  updates: 5\n"
                           "  adam_betas: [0.8, 0.9]\n";

/* A folder with base.yaml, sub/middle.yaml, which extends it, and sub/deep/top.yaml, which extends that. */
static const char *family(const char *name)
{
    const char *folder = scratch(name);
    mkdir(format("%s/sub", folder), 0777);
    mkdir(format("%s/sub/deep", folder), 0777);
    write_text(folder, "base.yaml", BASE);
    write_text(folder, "sub/middle.yaml",
               "extends: ../base.yaml\n"
               "name: middle\n"
               "data: {dev: own.tsv}\n"
               "model: {encoder: {num_heads: 2}}\n"
               "training: {learning_rate: 0.01}\n");
    write_text(folder, "sub/deep/top.yaml",
               "name: top\n"
               "model: {encoder: {num_layers: 3}}\n"
               "training:\n"
               "  adam_betas: [0.5, 0.6]\n"
               "  learning_rate: 0.02\n"
               "extends: ../middle.yaml\n");
    return folder;
}

static struct qkv_arena arena;

static void release(void)
{
    qkv_arena_release(&arena);
}

TestSuite(extends, .fini = release);

static struct qkv_config read_config(const char *path, const char *override)
{
    struct qkv_config config;
    struct qkv_messages messages;
    const char *overrides[] = {override};
    cr_assert_eq(qkv_config_read(&config, &arena, path, overrides, override ? 1 : 0, &messages), QKV_OK, "%s",
                 messages.count ? messages.text[0] : "");
    return config;
}

Test(extends, merges_key_by_key)
{
    const char *folder = family("merge");
    /* Of the top, the middle, the base, and the default; the top replaces the middle, wherever `extends` stands. */
    struct qkv_config c = read_config(format("%s/sub/deep/top.yaml", folder), NULL);
    cr_expect_str_eq(format("%s %d %d %d %d %g %d", c.name, (int)c.model.encoder.num_layers,
                            (int)c.model.encoder.num_heads, (int)c.model.encoder.hidden_size,
                            (int)c.model.decoder.num_heads, c.training.learning_rate,
                            (int)c.training.updates),
                     "top 3 2 16 4 0.02 5");
    cr_expect(c.training.adam_betas[0] == 0.5 && c.training.adam_betas[1] == 0.6, "a list is replaced");
    cr_expect_str_eq(c.training.model_dir, "runs/top", "derived from the name of the top");
    c = read_config(format("%s/sub/deep/top.yaml", folder), "training.learning_rate=3");
    cr_expect_eq(c.training.learning_rate, 3, "an override replaces all");
    c = read_config(format("%s/base.yaml", folder), NULL);
    cr_expect_eq(c.model.encoder.num_layers, 1);
}

Test(extends, each_path_is_relative_to_its_own_file)
{
    const char *folder = family("paths");
    struct qkv_config c = read_config(format("%s/sub/deep/top.yaml", folder), NULL);
    cr_expect_str_eq(c.data.train, format("%s/data/train.tsv", folder));
    cr_expect_str_eq(c.data.dev, format("%s/sub/own.tsv", folder));
    const char *list = format("%s/list.yaml", folder);
    write_text(folder, "sub/there.tsv", "");
    write_text(folder, "list.yaml", "extends: sub/lists.yaml\nname: list\n");
    write_text(folder, "sub/lists.yaml", "extends: ../base.yaml\ndata: {train: [not.tsv, there.tsv]}\n");
    c = read_config(list, NULL);
    cr_expect_str_eq(c.data.train, format("%s/sub/there.tsv", folder));
    write_text(folder, "absolute.yaml", format("extends: %s/base.yaml\nname: absolute\n", folder));
    c = read_config(format("%s/absolute.yaml", folder), NULL);
    cr_expect_str_eq(c.data.train, format("%s/data/train.tsv", folder));
}

Test(extends, standard_input_extends_from_the_current_folder)
{
    const char *folder = family("stdin");
    char *text = run_ok(
        "cd '%s/sub' && printf 'extends: middle.yaml\ntraining: {updates: 9}\n' | qkv config -", folder);
    cr_expect(shows(text, "updates: 9") && shows(text, "train: \"../data/train.tsv\""));
    cr_expect(shows(text, "dev: own.tsv"));
    cr_expect(lacks(text, "extends:"), "the config is resolved: %s", text);
}

/* ---- mistakes ---- */

/* Checks what `qkv config FILE` says of the mistakes in a folder. */
static void expect_errors(const char *folder, const char *file, const char *errors)
{
    struct outcome outcome = run("cd '%s' && qkv config %s", folder, file);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "");
    cr_expect_str_eq(outcome.error, errors);
}

#define A_PATH "extends must be the path of one other config\n"

/* Each mistake is in the file where it arises: a file that is right by itself is not blamed for what another changes. */
Test(extends, mistakes_name_their_file)
{
    static const struct {
        const char *files[3][2]; /* written over those of the cases before; x.yaml is read */
        const char *errors;
    } cases[] = {
        {{{"x.yaml", "extends: [a.yaml, b.yaml]\n"}}, "x.yaml:1:10: " A_PATH},
        {{{"x.yaml", "extends: {a: b}\n"}}, "x.yaml:1:10: " A_PATH},
        {{{"x.yaml", "extends: \n"}}, "x.yaml:1:9: " A_PATH},
        {{{"x.yaml", "extends: ~\n"}}, "x.yaml:1:10: " A_PATH},
        {{{"x.yaml", "extends: \"\"\n"}}, "x.yaml:1:10: " A_PATH},
        {LIST({"x.yaml", "extends: none.yaml\n"}),
         "x.yaml:1:10: extends none.yaml, which cannot be read: No such file or directory\n"},
        {{{"x.yaml", "extends: sub\n"}}, "x.yaml:1:10: extends sub, which is a folder\n"},
        {{{"y.yaml", ""}, {"x.yaml", "extends: y.yaml\n"}}, "y.yaml: the file is empty\n"},
        {{{"y.yaml", "- a\n"}}, "y.yaml:1:1: the file must be a mapping of keys to values\n"},
        {LIST({"x.yaml", "extends: base.yaml\ntraining: {extends: a.yaml}\n"}),
         "x.yaml:2:12: unknown key training.extends\n"},
        /* Circles. */
        {LIST({"x.yaml", "extends: x.yaml\n"}),
         "x.yaml:1:10: files extend each other in a circle: x.yaml extends x.yaml\n"},
        {LIST({"x.yaml", "extends: y.yaml\n"}, {"y.yaml", "name: b\nextends: z.yaml\n"},
              {"z.yaml", "extends: ./y.yaml\n"}),
         "z.yaml:1:10: files extend each other in a circle: y.yaml extends z.yaml extends y.yaml\n"},
        {LIST({"z.yaml", "extends: link.yaml\n"}), "z.yaml:1:10: files extend each other in a circle: x.yaml "
                                                   "extends y.yaml extends z.yaml extends x.yaml\n"},
        /* Mistakes of keys, in each file. */
        {LIST({"y.yaml", "extends: base.yaml\nmodel: {encoder: {num_head: 2}}\ntraining: {batch_size: none, "
                         "updates: -1}\n"},
              {"x.yaml", "extends: y.yaml\ntraining: {batch_size: 3.5}\nnam: top\n"}),
         "y.yaml:2:19: unknown key model.encoder.num_head; did you mean model.encoder.num_heads\n"
         "y.yaml:3:24: training.batch_size is 'none', but must be an integer\n"
         "y.yaml:3:39: training.updates is -1, but must be at least 0\n"
         "x.yaml:2:24: training.batch_size is 3.5, but must be an integer\n"
         "x.yaml:3:1: unknown key nam; did you mean name\n"},
        {LIST({"x.yaml", "extends: base.yaml\nmodel: {encoder: {hidden_size: 32}}\n"}),
         "x.yaml:2:19: model.decoder.hidden_size is 16, but must equal model.encoder.hidden_size (32)\n"},
        {LIST({"x.yaml", "extends: base.yaml\nmodel: {decoder: {hidden_size: 32}}\n"}),
         "x.yaml:2:19: model.decoder.hidden_size is 32, but must equal model.encoder.hidden_size (16)\n"},
        /* A missing key is of the file that is read; what a broken file does not say may stand behind its mistake. */
        {LIST({"y.yaml", "name: few\ndata: {train: t, src: {lang: a}}\n"},
              {"x.yaml", "extends: y.yaml\ntraining: {updates: 1}\n"}),
         "x.yaml: data.trg.lang is missing, but is required\n"},
        {LIST({"x.yaml", "extends: y.yaml\ndata: *x\n]\n"}),
         "x.yaml:2:7: aliases are refused (*x); write the value out\n"
         "x.yaml:3:1: not valid YAML: did not find expected key while parsing a block mapping that starts in "
         "line 1\n"},
    };
    const char *folder = family("mistakes");
    cr_assert_eq(symlink("x.yaml", format("%s/link.yaml", folder)), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int f = 0; f < 3 && cases[i].files[f][0]; f++)
            write_text(folder, cases[i].files[f][0], cases[i].files[f][1]);
        expect_errors(folder, "x.yaml", cases[i].errors);
    }
    cr_expect(refused(run("cd '%s' && qkv config base.yaml -s extends=y.yaml", folder),
                      "-s extends=y.yaml: extends can only be set in a file"));
}

/* Files that extend the one before: the last has the number of the chain. */
static const char *chain(const char *folder, int length)
{
    write_text(folder, "0.yaml", BASE);
    for (int i = 1; i <= length; i++)
        write_text(folder, format("%d.yaml", i),
                   format("extends: %d.yaml\ntraining: {batch_size: %d}\n", i - 1, i));
    return format("%d.yaml", length);
}

Test(extends, goes_on_to_any_sensible_depth)
{
    const char *folder = scratch("depth"), *file = chain(folder, 1000);
    char *text = run_ok("cd '%s' && qkv config %s", folder, file);
    cr_expect(shows(text, "batch_size: 1000\n"));
    expect_errors(folder, chain(folder, 1001), "1.yaml:1:10: more than 1000 files extend each other\n");
}

/* ---- commands ---- */

Test(extends, training_and_its_run_need_no_other_file_afterwards)
{
    const char *folder = tiny_task("train");
    mkdir(format("%s/more", folder), 0777);
    write_text(folder, "more/top.yaml",
               "extends: ../c.yaml\nname: top\ntraining: {model_dir: run, updates: 10}\n");
    run_ok("cd '%s' && qkv train more/top.yaml -q", folder);
    run_ok("cd '%s' && qkv train more/top.yaml -q --resume -s training.updates=20", folder);
    run_ok("cd '%s' && qkv gradcheck more/top.yaml >/dev/null", folder);
    char *config = read_file(format("%s/more/run/config.yaml", folder), NULL);
    cr_assert_not_null(config);
    cr_expect(lacks(config, "extends:") && shows(config, "name: top"));
    run_ok("cd '%s' && rm c.yaml more/top.yaml && echo 'a b' | qkv translate more/run", folder);
    run_ok("cd '%s' && qkv train more/run/config.yaml -q --resume -s training.updates=25", folder);
}
