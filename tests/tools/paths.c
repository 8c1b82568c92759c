/* A path in a config is relative to the folder of the config, a path of the command line to the current folder. */
#include "support.h"

static const char *folder;

/* Enters a folder with `project`, which has a trained run project/run, whose config is project/configs/c.yaml and whose texts
 * are in project/texts. */
static void enter_project(void)
{
    const char *task = tiny_task("task");
    folder = enter(scratch("paths"));
    run_ok("mkdir -p project/configs project/texts && mv '%s'/*.tsv project/texts && sed 's/: "
           "train.tsv/: ..\\/texts\\/train.tsv/; s/: dev.tsv/: ..\\/texts\\/dev.tsv/; s/: run/: ..\\/run/' "
           "'%s/c.yaml' >project/configs/c.yaml && qkv train project/configs/c.yaml -q -s training.updates=4",
           task, task);
}

TestSuite(paths, .init = enter_project);

Test(paths, in_a_config_are_relative_to_its_folder)
{
    run_ok("test -f project/run/last.safetensors");
    cr_expect(shows(run_ok("qkv config project/configs/c.yaml"), "  train: project/texts/train.tsv\n"));
    cr_expect(shows(run_ok("cd project/configs && qkv config c.yaml"), "  train: \"../texts/train.tsv\"\n"));
    /* Through a link to the folder, `..` is the parent of the folder that the link names. */
    run_ok("mkdir other && ln -s ../project/configs other/link && qkv gradcheck other/link/c.yaml");
    cr_expect(shows(run_ok("qkv config - <project/configs/c.yaml"), "\"../texts/train.tsv\"\n"));
    cr_expect(shows(run_ok("qkv config '%s/project/configs/c.yaml'", folder),
                    format("  train: %s/project/texts/train.tsv\n", folder)));
    /* Paths of the command line are relative to the current folder. */
    cr_expect(shows(run_ok("qkv config project/configs/c.yaml -s data.train=x.tsv"), "  train: x.tsv\n"));
    run_ok("cd project/texts && qkv gradcheck ../configs/c.yaml -s data.train=dev.tsv");
}

Test(paths, of_a_list_the_first_that_exists_is_taken)
{
    run_ok("cd project/texts && cut -f1 dev.tsv >two.en && cut -f2 dev.tsv >two.es");
    static const char *const lists[][2] = {
        {"[none.tsv, ../texts/train.tsv, ../texts/dev.tsv]", "project/texts/train.tsv"},
        {"[none, ../texts/two]", "project/texts/two"},
        {"[none.tsv, lost.tsv]", "project/configs/none.tsv"},
    };
    for (int i = 0; i < 3; i++) {
        run_ok("sed 's|train: .*|train: %s|' project/configs/c.yaml >project/configs/list.yaml", lists[i][0]);
        const char *printed = run_ok("qkv config project/configs/list.yaml");
        cr_expect(shows(printed, format("  train: %s\n", lists[i][1])));
    }
    run_ok("sed -i 's|train: .*|train: []|' project/configs/list.yaml");
    cr_expect(shows(run("qkv config project/configs/list.yaml").error,
                    "data.train is a list, but must be a path or a list of paths"));
}

/* The run is copied alone, then with its project, then the project is moved: its texts are found each time. */
Test(paths, of_a_run_survive_copying_and_moving)
{
    run_ok("cp -r project/run alone && cp -r project copied");
    static const char *const runs[] = {"alone", "copied/run", "project/run"};
    for (int i = 0; i < 3; i++) {
        run_ok("qkv gradcheck %s", runs[i]);
        run_ok("qkv train %s/config.yaml --resume -q -s training.updates=6", runs[i]);
        cr_expect(shows(run_ok("qkv inspect %s --checkpoint last.safetensors", runs[i]), "update 6,"));
    }
    run_ok("mv project renamed && cd copied/configs && qkv gradcheck ../../renamed/run && qkv train "
           "../../renamed/run/config.yaml --resume -q -s training.updates=8");
    cr_expect(shows(run_ok("qkv config copied/run/config.yaml"), "  train: copied/texts/train.tsv\n"));
}

Test(paths, of_a_missing_text_say_which_key_to_set)
{
    run_ok("mv project/texts lost");
    static const char *const commands[] = {"gradcheck project/run", "gradcheck project/configs/c.yaml",
                                           "train project/run/config.yaml --resume",
                                           "train project/configs/c.yaml --overwrite"};
    for (int i = 0; i < 4; i++) {
        cr_expect(fails(run("qkv %s", commands[i]), 2,
                        "qkv: project/texts/train.tsv: there is no such text: set data.train to its path\n"),
                  "%s", commands[i]);
        run_ok("qkv %s -s data.train=lost/train.tsv %s", commands[i],
               i < 2 ? "" : "-q -s data.dev=lost/dev.tsv");
    }
}

Test(paths, that_are_not_plain_are_escaped_in_messages_about_configs)
{
    struct outcome outcome = run("cd '%s' && qkv config \"$(printf 'a\\377.yaml')\"", scratch("plain"));
    cr_expect_str_eq(outcome.error, "a\\xFF.yaml: cannot be read: No such file or directory\n");
}

/* A folder may have any name, but the config of a run must be valid UTF-8. */
Test(paths, that_are_not_utf8_are_refused_where_the_run_must_name_them)
{
    run_ok("mv project \"$(printf 'p\\377')\" && cp -r p*/run out && cp out/config.yaml before");
    static const char *const commands[] = {"-s training.model_dir=new",
                                           "-s training.model_dir=out --overwrite"};
    for (int i = 0; i < 2; i++)
        cr_expect(refused(run("qkv train p*/configs/c.yaml %s", commands[i]),
                          "qkv: data.train is p\\xFF/texts/train.tsv, which the config of the run cannot "
                          "name, because it is not valid UTF-8: rename the file or its folder"));
    run_ok("test ! -e new && cmp out/config.yaml before");
    /* Seen from a run in the same folder, the path is valid. */
    run_ok("qkv train p*/configs/c.yaml -q --overwrite -s training.updates=4 && ! grep -q '?' "
           "p*/run/config.yaml && grep -qF 'train: [\"../texts/train.tsv\"]' p*/run/config.yaml && qkv train "
           "p*/run/config.yaml --resume -q -s training.updates=6 && mv p* moved && qkv gradcheck moved/run "
           "&& qkv train moved/run/config.yaml --resume -q -s training.updates=8");
}
