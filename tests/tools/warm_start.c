/* qkv train --from: training that starts from the parameters of another run. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* One update that changes next to nothing. */
#define STILL                                                                                                \
    "-q --overwrite -s training.updates=1 -s training.learning_rate=1e-30 -s training.validation_freq=1 "

/* Sentences of the training text, and what a run makes of them. */
static const char *translations(const char *folder, const char *run_name)
{
    return run_ok("cd '%s' && cut -f 1 train.tsv | head -n 20 | qkv translate -q --scores %s", folder,
                  run_name);
}

Test(warm_start, begins_where_the_other_run_ended)
{
    const char *folder = enter(learned_run("from"));
    const char *before = translations(folder, "run");
    static const char *const FROM[] = {"run", "run/best.safetensors", "./run/", "copy.safetensors"};
    run_ok("cp run/best.safetensors copy.safetensors");
    for (int i = 0; i < 4; i++) {
        run_ok("qkv train c.yaml --from %s " STILL "-s training.model_dir=new", FROM[i]);
        cr_expect_str_eq(translations(folder, "new"), before, "from %s", FROM[i]);
    }
    run_ok("qkv train c.yaml " STILL "-s training.model_dir=new");
    cr_expect_str_neq(translations(folder, "new"), before, "without --from");
    run_ok("qkv train c.yaml -s training.from=run " STILL "-s training.ema=0.9 -s training.model_dir=new");
    cr_expect_str_eq(translations(folder, "new"), before, "with a moving average");
    cr_expect(shows(run_ok("cat 'new/config.yaml'"), "from: "));
    struct outcome outcome =
        run("qkv train c.yaml --from run -s training.model_dir=new --overwrite -s training.updates=1");
    cr_expect(shows(outcome.error, "\nstarting from run/best.safetensors\n"));
}

/* Other text with other words: those of the old vocabulary by default; with a new one, what the old model knows of
 * each word that both have. */
Test(warm_start, takes_over_words)
{
    enter(learned_run("words"));
    const char *before = run_ok("cut -f 1 train.tsv | head -n 20 | qkv translate -q run");
    /* The same sentences in another order, some words often, and a word that no one knows: other ids. */
    run_ok("{ for i in 1 2 3; do tail -n 3 train.tsv; done; tac train.tsv; printf 'zz a\\tZZ A\\n'; } "
           ">other.tsv");
    run_ok("qkv train c.yaml --from run " STILL
           "-s training.model_dir=old -s data.train=other.tsv -s data.dev=");
    cr_expect_str_eq(run_ok("cmp run/source.vocabulary old/source.vocabulary && cut -f 1 train.tsv | head -n "
                            "20 | qkv translate -q old"),
                     before);
    struct outcome outcome =
        run("qkv train c.yaml --from run --overwrite -s training.updates=1 -s training.learning_rate=1e-30 "
            "-s training.model_dir=new -s data.train=other.tsv -s data.dev= -s training.from_vocabulary=new");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    int known = atoi(run_ok("tail -n +4 run/source.vocabulary | wc -l"));
    cr_expect(shows(outcome.error, format("which knows %d of %d source words and %d of %d target words\n",
                                          known, known + 1, known, known + 1)));
    cr_expect_neq(run("cmp -s run/source.vocabulary new/source.vocabulary").exit_code, 0);
    cr_expect_str_eq(run_ok("cut -f 1 train.tsv | head -n 20 | qkv translate -q new"), before);
}

/* Pieces, tied tables, and a recurrent network: each kind of parameter with an entry for each token. */
Test(warm_start, takes_over_the_words_of_any_model)
{
    static const char *const MODELS[] = {
        "-s data.joint_vocabulary=true -s model.tied_embeddings=true -s model.tied_softmax=true",
        "-s model.tied_softmax=true",
        "-s model.encoder.type=recurrent -s model.decoder.type=recurrent",
        "-s data.src.level=char",
    };
    for (int i = 0; i < 4; i++) {
        enter(tiny_task(format("model%d", i)));
        /* Keys that a recurrent network does not have go. */
        if (strstr(MODELS[i], "recurrent"))
            run_ok("sed -i 's/num_heads: 2, //; s/ff_size: 32, //; s/attention: {dropout: 0}, //' c.yaml");
        run_ok("tac train.tsv >other.tsv && qkv train c.yaml -q -s training.updates=200 %s", MODELS[i]);
        const char *loss = run_ok("qkv evaluate run train.tsv --no-translation");
        run_ok("qkv train c.yaml --from run " STILL
               "-s training.model_dir=new -s data.train=other.tsv -s training.from_vocabulary=new %s",
               MODELS[i]);
        cr_expect_str_eq(without_paths(run_ok("qkv evaluate new train.tsv --no-translation")),
                         without_paths(loss), "%s", MODELS[i]);
    }
}

Test(warm_start, has_the_same_bits_for_any_number_of_threads_and_after_a_resume)
{
    const char *folder = enter(learned_run("bits"));
#define FROM "cd '%s' && qkv train c.yaml -q --from run -s training.validation_freq=4 -s training.model_dir="
    run_ok(FROM "one -j 1 -s training.updates=8", folder);
    run_ok(FROM "two -j 2 -s training.updates=8", folder);
    run_ok(FROM "half -s training.updates=4", folder);
    run_ok("mv run gone && qkv train c.yaml -q --resume -s training.model_dir=half -s training.updates=8 -s "
           "training.validation_freq=4");
    run_ok("cmp one/last.safetensors two/last.safetensors && cmp one/last.safetensors half/last.safetensors");
}

Test(warm_start, is_refused_where_it_cannot_be)
{
    const char *folder = enter(learned_run("refused"));
    const char *before = fingerprint(folder);
    static const char *const CASES[][2] = {
        {"--from nowhere", "training.from: nowhere: there is no such run or file"},
        {"--from .", "training.from: .: not a run, but it holds runs, such as ./run"},
        {"--from c.yaml", NULL},
        {"--from run --resume",
         "--from and --resume exclude each other: a resumed run goes on from its own checkpoint"},
        {"-s training.from_vocabulary=new", "training.from_vocabulary is new, but there is no training.from"},
        {"--from run -s data.src.lowercase=true",
         "data.src.lowercase is true, but in run, whose vocabulary is used, it is false: set it to false, or "
         "training.from_vocabulary to new"},
        {"--from run -s data.trg.voc_limit=9",
         "data.trg.voc_limit is 9, but in run, whose vocabulary is used, it is 0: set it to 0, or "
         "training.from_vocabulary to new"},
        {"--from run -s model.encoder.num_layers=2",
         "training.from: run/best.safetensors: 16 parameters of the model are missing "
         "(encoder.2.self.query.weight, encoder.2.self.query.bias, encoder.2.self.key.weight and 13 more)"},
        {"--from run -s model.encoder.ff_size=8",
         "training.from: run/best.safetensors: 3 parameters have other shapes "
         "(encoder.1.feed_forward.inner.weight, encoder.1.feed_forward.inner.bias, "
         "encoder.1.feed_forward.outer.weight): encoder.1.feed_forward.inner.weight is [16, 32], but the "
         "model has [16, 8]"},
        {"--from run -s model.encoder.hidden_size=32 -s model.decoder.hidden_size=32 -s "
         "training.from_vocabulary=new",
         "training.from: run/best.safetensors: encoder.embeddings.table has 16 numbers for a token, but the "
         "model has 32"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct outcome outcome = run("qkv train c.yaml -s training.model_dir=new %s", CASES[i][0]);
        if (CASES[i][1])
            cr_expect(refused(outcome, format("qkv: %s", CASES[i][1])), "%s", CASES[i][0]);
        else
            cr_expect_eq(outcome.exit_code, 2);
    }
    cr_expect_str_eq(fingerprint(folder), before);
}
