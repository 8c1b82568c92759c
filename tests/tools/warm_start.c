/* qkv train --from: training that starts from the parameters of another run; and training.parameter_rates, which freeze
 * some of them. */
#include "support.h"

/* One update that changes next to nothing. */
#define STILL                                                                                                \
    "-q --overwrite -s training.model_dir=new -s training.updates=1 -s training.learning_rate=1e-30 -s "     \
    "training.validation_freq=1 "

/* Sentences of the training text, and what a run makes of them. */
static const char *translations(const char *run_name)
{
    return run_ok("cut -f 1 train.tsv | head -n 20 | qkv translate -q --scores %s", run_name);
}

Test(warm_start, begins_where_the_other_run_ended)
{
    static const char *const from[] = {"--from run", "--from run/best.safetensors", "--from ./run/",
                                       "--from copy.safetensors", "-s training.from=run -s training.ema=0.9"};
    enter(learned_run("from"));
    const char *before = translations("run");
    run_ok("cp run/best.safetensors copy.safetensors");
    for (int i = 0; i < 5; i++) {
        run_ok("qkv train c.yaml %s " STILL, from[i]);
        cr_expect_str_eq(translations("new"), before, "%s", from[i]);
    }
    cr_expect(shows(read_file("new/config.yaml", NULL), "from: "));
    run_ok("qkv train c.yaml " STILL);
    cr_expect_str_neq(translations("new"), before, "without --from");
    cr_expect(shows(run_ok("qkv train c.yaml --from run -s training.model_dir=new --overwrite -s "
                           "training.updates=1 2>&1"),
                    "\nstarting from run/best.safetensors\n"));
    expect_equal_bits("c.yaml -s training.validation_freq=4", "--from run", 10);
}

/* Other text with other words: those of the old vocabulary by default; with a new one, what the old model knows of
 * each word that both have. */
Test(warm_start, takes_over_words)
{
    enter(learned_run("words"));
    const char *translate = "cut -f 1 train.tsv | head -n 20 | qkv translate -q %s",
               *before = run_ok(translate, "run"); /* NOLINT */
    /* The same sentences in another order, some words often, and a word that no one knows: other ids. */
    run_ok("{ for i in 1 2 3; do tail -n 3 train.tsv; done; tac train.tsv; printf 'zz a\\tZZ A\\n'; } "
           ">other.tsv");
    run_ok("qkv train c.yaml --from run " STILL "-s data.train=other.tsv -s data.dev= && "
           "cmp run/source.vocabulary new/source.vocabulary");
    cr_expect_str_eq(run_ok(translate, "new"), before); /* NOLINT */
    const char *printed = run_ok(
        "qkv train c.yaml --from run --overwrite -s training.updates=1 -s training.learning_rate=1e-30 -s "
        "training.model_dir=new -s data.train=other.tsv -s data.dev= -s training.from_vocabulary=new 2>&1");
    int known = atoi(run_ok("tail -n +4 run/source.vocabulary | wc -l"));
    cr_expect(shows(printed, format("which knows %d of %d source words and %d of %d target words\n", known,
                                    known + 1, known, known + 1)));
    run_ok("! cmp -s run/source.vocabulary new/source.vocabulary");
    cr_expect_str_eq(run_ok(translate, "new"), before); /* NOLINT */
}

/* Pieces, tied tables, and a recurrent network: each kind of parameter with an entry for each token. */
Test(warm_start, takes_over_the_words_of_any_model)
{
    static const char *const models[] = {
        "-s data.joint_vocabulary=true -s model.tied_embeddings=true -s model.tied_softmax=true",
        "-s model.tied_softmax=true",
        "-s data.src.level=char",
        "-s model.encoder.type=recurrent -s model.decoder.type=recurrent",
    };
    enter(tiny_task("models"));
    run_ok("tac train.tsv >other.tsv");
    for (int i = 0; i < 4; i++) {
        if (i == 3) /* keys that a recurrent network does not have go */
            run_ok("sed -i 's/num_heads: 2, //; s/ff_size: 32, //; s/attention: {dropout: 0}, //' c.yaml");
        run_ok(
            "qkv train c.yaml -q --overwrite -s training.updates=200 %s && qkv train c.yaml --from run " STILL
            "-s data.train=other.tsv -s training.from_vocabulary=new %s",
            models[i], models[i]);
        cr_expect_str_eq(without_paths(run_ok("qkv evaluate new train.tsv --no-translation")),
                         without_paths(run_ok("qkv evaluate run train.tsv --no-translation")), "%s",
                         models[i]);
    }
}

Test(warm_start, is_refused_where_it_cannot_be)
{
    static const char *const cases[][2] = {
        {"--from nowhere", "qkv: training.from: nowhere: there is no such run or file"},
        {"--from .", "qkv: training.from: .: not a run, but it holds runs, such as ./run"},
        {"--from run --resume",
         "qkv: --from and --resume exclude each other: a resumed run goes on from its own checkpoint"},
        {"-s training.from_vocabulary=new",
         "qkv: training.from_vocabulary is new, but there is no training.from"},
        {"--from run -s data.src.lowercase=true", "qkv: data.src.lowercase is true, but in run, whose "
                                                  "vocabulary is used, it is false: set it to false, or "
                                                  "training.from_vocabulary to new"},
        {"--from run -s data.trg.voc_limit=9",
         "qkv: data.trg.voc_limit is 9, but in run, whose vocabulary is used, it is 0: set it to 0, or "
         "training.from_vocabulary to new"},
        {"--from run -s model.encoder.num_layers=2",
         "qkv: training.from: run/best.safetensors: 16 parameters of the model are missing "
         "(encoder.2.self.query.weight, encoder.2.self.query.bias, encoder.2.self.key.weight and 13 more)"},
        {"--from run -s model.encoder.ff_size=8",
         "qkv: training.from: run/best.safetensors: 3 parameters have other shapes "
         "(encoder.1.feed_forward.inner.weight, encoder.1.feed_forward.inner.bias, "
         "encoder.1.feed_forward.outer.weight): encoder.1.feed_forward.inner.weight is [16, 32], but the "
         "model has [16, 8]"},
        {"--from run -s model.encoder.hidden_size=32 -s model.decoder.hidden_size=32 -s "
         "training.from_vocabulary=new",
         "qkv: training.from: run/best.safetensors: encoder.embeddings.table has 16 numbers for a token, but "
         "the model has 32"},
    };
    enter(learned_run("refused"));
    const char *before = fingerprint(".");
    EXPECT_REFUSALS("qkv train c.yaml -s training.model_dir=new", cases);
    cr_expect_eq(run("qkv train c.yaml -s training.model_dir=new --from c.yaml").exit_code, 2);
    cr_expect_str_eq(fingerprint("."), before);
}

/* ---- rates of parameters ---- */

/* What `qkv inspect` prints of the parameters of a part: size and root mean square. */
static const char *inspected(const char *run_name, const char *part)
{
    return run_ok("qkv inspect %s | grep -E '^  %s'", run_name, part);
}

Test(rates, the_encoder_of_another_run_is_frozen_while_the_decoder_learns)
{
    enter(tiny_run("frozen", 20));
    expect_equal_bits("c.yaml -s 'training.parameter_rates=encoder.*=0'", "--from run", 20);
    cr_expect_str_eq(inspected("one", "encoder"), inspected("run", "encoder"));
    cr_expect_str_neq(inspected("one", "decoder"), inspected("run", "decoder"));
    cr_expect(shows(run_ok("qkv train c.yaml --overwrite -s 'training.parameter_rates=encoder.*=0' -s "
                           "training.updates=1 2>&1"),
                    " frozen"));
    cr_expect(
        fails(run("qkv train c.yaml -s training.model_dir=none -s 'training.parameter_rates=encodr.*=0'"), 2,
              "training.parameter_rates: no parameter is named encodr.*"));
    cr_expect(fails(run("qkv train c.yaml --resume"), 2, "training.parameter_rates"));
}

Test(rates, recurrent_networks_freeze_as_well)
{
    static const char *const parts[] = {"encoder", "decoder"};
    enter(tiny_task("recurrent"));
    for (int part = 0; part < 2; part++) {
        for (int updates = 1; updates <= 8; updates += 7) {
            train_recurrent(format("%s%d", parts[part], updates), ", rnn_type: lstm", ", rnn_type: lstm", 1);
            run_ok("qkv train recurrent.yaml -q -j 2 --overwrite -s 'training.parameter_rates=%s.*=0' -s "
                   "training.updates=%d",
                   parts[part], updates);
        }
        const char *one = format("%s1", parts[part]), *eight = format("%s8", parts[part]);
        cr_expect_str_eq(inspected(one, parts[part]), inspected(eight, parts[part]));
        cr_expect_str_neq(inspected(one, parts[!part]), inspected(eight, parts[!part]));
    }
}

Test(rates, nesterov_is_for_sgd)
{
    enter(tiny_task("nesterov"));
    run_ok("for choice in true false; do qkv train c.yaml -q -s training.optimizer=sgd -s training.updates=5 "
           "-s training.nesterov=$choice -s training.model_dir=$choice || exit; done");
    cr_expect_str_neq(checksum_of_run("true"), checksum_of_run("false"));
}
