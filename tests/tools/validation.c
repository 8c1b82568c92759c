/* What validations and `qkv evaluate` take for a right translation, and for the best checkpoint. Pairs are learned by heart. */
#include "json.h"

/* Trains on pairs, which are the dev set, too, in a new folder, which becomes the current one. */
static void learn(const char *name, const char *pairs, const char *settings)
{
    enter(scratch(name));
    write_text(".", "t.tsv", pairs);
    write_config("train: t.tsv, dev: t.tsv, src: {lang: en}, trg: {lang: x}",
                 "num_layers: 1, num_heads: 2, hidden_size: 32, ff_size: 64, " NO_DROPOUT, NULL,
                 "updates: 400, validation_freq: 50, batch_size: 4, learning_rate: 0.01");
    run_ok("qkv train c.yaml -j 1 -q %s", settings);
}

#define CHINESE                                                                                                             \
    "i am a student\t我是一个学生。\nthe weather is good\t今天天气很好。\nthank you\t非常感谢你们。\n" \
    "who\t他是谁？\n"
#define JAPANESE                                                                                             \
    "i am a student\t私は学生です。\nthe weather is good\t今日は天気がいい。\nthank you\tありがとう。\n"
#define SPACED "i am a student\tsoy un estudiante de aqui\nthank you\tmuchas gracias a todos ustedes\n"

Test(validation, chooses_the_tokenizer_of_bleu)
{
    static const char *const cases[][3] = {
        {CHINESE, "", "zh"},
        {JAPANESE, "", "char"},
        {SPACED, "", "13a"},
        {CHINESE, "-s testing.bleu_tokenizer=char", "char"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        learn(format("chooses%zu", i), cases[i][0], format("-s data.trg.level=char %s", cases[i][1]));
        cr_expect(shows(run_ok("cat run/config.yaml"), format("bleu_tokenizer: %s\n", cases[i][2])));
        cr_expect(shows(run_ok("grep validation run/metrics.jsonl | tail -1"), "\"bleu\":100"));
        cr_expect(shows(run_ok("qkv evaluate run t.tsv"), "BLEU               100.00"));
        cr_expect(shows(run_ok("qkv evaluate run t.tsv"), format("|tok:%s|", cases[i][2])));
        cr_expect(shows(run_ok("qkv evaluate run t.tsv --tokenize intl"), "|tok:intl|"));
        run_ok("sed -i '/bleu_tokenizer/d' run/config.yaml"); /* as in a run of an older qkv */
        const char *fits = i == 3 ? "zh" : cases[i][2];
        cr_expect(shows(run_ok("qkv evaluate run t.tsv"), format("|tok:%s|", fits)));
    }
}

/* e and i with U+0301. */
#define DECOMPOSED "coffee\tun cafe\u0301 sin azucar por favor\nhere\taqui\u0301 esta\u0301 el cafe\u0301\n"

Test(validation, compares_decomposed_references)
{
    learn("decomposed", DECOMPOSED, "");
    cr_expect(shows(run_ok("grep validation run/metrics.jsonl | tail -1"), "\"bleu\":100"));
    struct outcome outcome = run("qkv evaluate run t.tsv");
    cr_expect(shows(outcome.output, "BLEU               100.00"));
    cr_expect_str_empty(outcome.error);
    /* `qkv score` uses files as they are. */
    run_ok("cut -f1 t.tsv | qkv translate run >out; cut -f2 t.tsv >references");
    cr_expect(shows(run("qkv score out references").error,
                    "2 of the references are not in Unicode's normal form C, in which a letter and its "
                    "accent are one character, but all translations are"));
    cr_expect(shows(run("qkv score references out").error, "2 of the translations are not in"));
    cr_expect_str_empty(run("qkv score references references").error);
}

Test(validation, prefers_the_lower_loss_of_equal_scores)
{
    learn("ties", SPACED, "-s training.early_stopping_metric=chrf");
    cr_expect(shows(run_ok("grep '\"validation\"' run/metrics.jsonl | tail -1"), "\"chrf\":100,"));
    cr_expect(shows(run_ok("grep '\"validation\"' run/metrics.jsonl | tail -1"), "\"best\":true"));
    /* A resumed training knows the losses of the best ones: it finds the same checkpoints. */
    run_ok("qkv train c.yaml -j 1 -q -s training.early_stopping_metric=chrf -s training.model_dir=stopped -s "
           "training.updates=250");
    run_ok("qkv train c.yaml -j 1 -q -s training.early_stopping_metric=chrf -s training.model_dir=stopped "
           "--resume");
    cr_expect_str_eq(run_ok("cksum <stopped/best.safetensors"), run_ok("cksum <run/best.safetensors"));
    cr_expect_str_eq(run_ok("cd stopped && ls update-*"), run_ok("cd run && ls update-*"));
}
