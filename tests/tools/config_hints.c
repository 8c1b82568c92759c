/* Hints for those who come from other programs, or with a file that is no config. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define COMPLETE "name: x\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\n"

/* The message of `qkv config x.yaml`, with these lines after a config that lacks nothing but the length of training. */
static char *message_of(const char *folder, const char *lines, const char *arguments)
{
    write_text(folder, "x.yaml", format(COMPLETE "%s", lines));
    struct outcome outcome = run("cd '%s' && qkv config x.yaml %s", folder, arguments);
    cr_expect_eq(outcome.exit_code, 2);
    return outcome.error;
}

Test(config_hints, names_what_other_programs_call_a_key)
{
    static const struct {
        const char *lines, *arguments, *message;
    } cases[] = {
        {"training: {updates: 1, lr: 3}\n", "",
         "x.yaml:3:24: unknown key training.lr; did you mean training.learning_rate\n"},
        {"training: {updates: 1}\nLearn-Rate: 3\n", "",
         "x.yaml:4:1: unknown key Learn-Rate; did you mean training.learning_rate\n"},
        {"training: {updates: 1}\nbeam-size: 3\n", "",
         "x.yaml:4:1: unknown key beam-size; did you mean testing.beam_size\n"},
        {"training: {updates: 1}\nlabel-smoothing: 3\n", "",
         "x.yaml:4:1: unknown key label-smoothing; did you mean training.label_smoothing\n"},
        {"training: {updates: 1}\ntransformer-heads: 3\n", "",
         "x.yaml:4:1: unknown key transformer-heads; did you mean model.encoder.num_heads or "
         "model.decoder.num_heads\n"},
        {"training: {updates: 1}\nmodel: {decoder: {nhead: 3}}\n", "",
         "x.yaml:4:19: unknown key model.decoder.nhead; did you mean model.decoder.num_heads\n"},
        {"training: {updates: 1}\nmodel: {encoder: {attention_dropout: 3}}\n", "",
         "x.yaml:4:19: unknown key model.encoder.attention_dropout; did you mean "
         "model.encoder.attention.dropout\n"},
        {"training: {updates: 1}\n", "-s data.trg.bpe_threshold=50",
         "-s data.trg.bpe_threshold=50: unknown key data.trg.bpe_threshold; did you mean "
         "data.trg.bpe_min_freq\n"},
        {"training: {updates: 1}\n", "-s testing.ema=1",
         "-s testing.ema=1: unknown key testing.ema; did you mean training.ema\n"},
        {"training: {updates: 1}\n", "-s training.num_workers=2",
         "-s training.num_workers=2: unknown key training.num_workers; did you mean the option --threads of "
         "qkv train\n"},
        {"training: {updates: 1}\n", "-s testing.max_length=5",
         "-s testing.max_length=5: unknown key testing.max_length; did you mean testing.max_output_length\n"},
        /* Of six letters, "name" differs in three. */
        {"training: {updates: 1}\n", "-s testing.ramble=1",
         "-s testing.ramble=1: unknown key testing.ramble\n"},
        {"training: {updates: 1}\n", "-s testing.lerning_rate=3",
         "-s testing.lerning_rate=3: unknown key testing.lerning_rate; did you mean "
         "training.learning_rate\n"},
    };
    const char *folder = scratch("others");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(message_of(folder, cases[i].lines, cases[i].arguments), cases[i].message);
}

Test(config_hints, names_the_keys_of_a_section)
{
    const char *folder = scratch("section"), *updates = "training: {updates: 1}\n";
    const char *keys = "model.encoder.positions.type, model.encoder.positions.base, "
                       "model.encoder.positions.max_length, model.encoder.positions.buckets, "
                       "model.encoder.positions.max_distance\n";
    cr_expect_str_eq(message_of(folder, format("%smodel: {encoder: {positions: 3}}\n", updates), ""),
                     format("x.yaml:4:19: model.encoder.positions must be a section of keys: %s", keys));
    cr_expect_str_eq(message_of(folder, updates, "-s model.encoder.positions=3"),
                     format("-s model.encoder.positions=3: model.encoder.positions is a section; set one of "
                            "its keys: %s",
                            keys));
    cr_expect_str_eq(message_of(folder, updates, "-s testing=3"),
                     "-s testing=3: testing is a section; set one of its keys: testing.batch_size, "
                     "testing.beam_size, testing.length_penalty, testing.beam_alpha, testing.n_best, "
                     "testing.max_output_length, testing.min_output_length, testing.no_repeat_ngram and 2 "
                     "more\n");
}

static const struct {
    const char *name, *key;
} OTHER_NAMES[] = {
#define OTHER_NAME(name, key) {name, key},
#include "../../framework/translator/config/other_names.def"
#undef OTHER_NAME
};
enum { NAME_COUNT = sizeof OTHER_NAMES / sizeof *OTHER_NAMES };

/* "the option --NAME of qkv COMMAND": whether the help of the command has it. */
static bool is_option_of_command(const char *text)
{
    char option[64], command[64];
    return sscanf(text, "the option %63s of qkv %63s", option, command) == 2 &&
           strstr(run_ok("qkv %s --help", command), option);
}

/* Each name of another program is none of ours, and leads to a key or an option that exists. */
Test(config_hints, other_names_lead_to_keys)
{
    const char *reference = run_ok("qkv config --reference");
    for (int i = 0; i < NAME_COUNT; i++) {
        const char *name = OTHER_NAMES[i].name, *key = OTHER_NAMES[i].key;
        cr_expect(strstr(reference, format("\n| `%s` |", key)) || is_option_of_command(key),
                  "there is no key %s", key);
        cr_expect_null(strstr(reference, format(".%s` |", name)),
                       "%s is a key of ours: remove its rows from other_names.def", name);
        cr_expect_null(strchr(name, '-'), "%s: underscores stand for hyphens, too", name);
        for (int k = 0; k < i; k++)
            cr_expect(strcmp(name, OTHER_NAMES[k].name) != 0 || strcmp(key, OTHER_NAMES[k].key) != 0,
                      "%s is there twice", name);
    }
    const char *folder = scratch("names"),
               *message = message_of(folder, "training: {updates: 1}\n", "-s dim-vocabs=1");
    cr_expect_str_eq(message, "-s dim-vocabs=1: unknown key dim-vocabs; did you mean data.src.voc_limit or "
                              "data.trg.voc_limit\n");
    static const char *const keys[][2] = {{"data.tgt.lang", "data.trg.lang"},
                                          {"data.Target", "data.trg"},
                                          {"data.source.levle", "data.src.level"},
                                          {"data.target.min_freq", "data.trg.voc_min_freq"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        message = message_of(folder, "training: {updates: 1}\n", format("-s %s=1", keys[i][0]));
        cr_expect_str_eq(message, format("-s %s=1: unknown key %s; did you mean %s\n", keys[i][0], keys[i][0],
                                         keys[i][1]));
    }
}

Test(config_hints, finds_configs_and_runs_by_their_names_alone)
{
    const char *folder = scratch("names_alone");
    write_text(folder, "mine.yaml", "name: x\n");
    run_ok("cd '%s' && mkdir -p runs/mine", folder);
    const char *const missing = ": cannot be read: No such file or directory; did you mean mine.yaml";
    cr_expect(refused(run("cd '%s' && qkv train mine", folder), format("mine%s", missing)));
    cr_expect(refused(run("cd '%s' && qkv train mine.yml", folder), format("mine.yml%s", missing)));
    cr_expect(refused(run("cd '%s' && qkv train other", folder),
                      "other: cannot be read: No such file or directory"));
    cr_expect(refused(run("cd '%s' && qkv translate mine", folder),
                      "qkv: mine: there is no such run; did you mean runs/mine"));
    cr_expect(refused(run("cd '%s' && qkv translate other", folder), "qkv: other: there is no such run"));
}

Test(config_hints, says_how_a_prepared_corpus_is_used)
{
    const char *folder = scratch("prepared");
    write_text(folder, "x.prepared", "qkv\n");
    cr_expect(refused(run("cd '%s' && qkv train x.prepared", folder),
                      "qkv: x.prepared: is a prepared corpus, not a config: name the config, and -s "
                      "data.train=x.prepared"));
}

Test(config_hints, keys_are_not_a_section_because_their_names_begin_alike)
{
    const char *folder = scratch("section");
    write_text(folder, "c.yaml", "training: {guided_alignment: {weight: 1, layer: 2}}\n");
    const char *error = run("cd '%s' && qkv config c.yaml", folder).error;
    cr_expect_not_null(
        strstr(error,
               "c.yaml:1:12: training.guided_alignment is one value, not a section; keys beside it are "
               "training.guided_alignment_layer, training.guided_alignment_head, "
               "training.guided_alignment_reading\n"),
        "%s", error);
}

Test(config_hints, says_how_to_get_a_config_from_sentences)
{
    const char *folder = scratch("sentences");
    write_text(folder, "pairs.tsv", "Go: now.\tVe: ahora.\nRun!\tCorre.\n");
    write_text(folder, "anki.txt", "Go.\tVe.\tCC-BY: x\n");
    write_text(folder, "lines.en", "Go.\nRun!\n");
    write_text(folder, "pairs.yaml", "Go.\tVe.\nRun!\tCorre.\n");
    write_text(folder, "colons", "He says: go.\nShe says: run.\n");
    run_ok("cd '%s' && gzip -k pairs.tsv colons", folder);
    static const char *const names[] = {"pairs.tsv",  "anki.txt",     "lines.en",
                                        "pairs.yaml", "pairs.tsv.gz", "colons.gz"};
    for (int i = 0; i < 6; i++) {
        const char *message =
            format("qkv: %s: holds text, but a config is a YAML file; to train on sentence pairs, make a "
                   "config with `qkv init %s`",
                   names[i], names[i]);
        cr_expect(refused(run("cd '%s' && qkv train %s", folder, names[i]), message), "%s", names[i]);
        cr_expect(refused(run("cd '%s' && qkv config %s", folder, names[i]), message), "%s", names[i]);
    }
    write_text(folder, "lines.de", "Geh.\nLauf!\n");
    cr_expect(
        refused(run("cd '%s' && qkv train lines", folder),
                "qkv: lines: there is no such config; to train on the lines of two files, make one with "
                "`qkv init lines.de lines.en`"));
    cr_expect(
        refused(run("cd '%s' && qkv train lines.en lines.de", folder),
                "qkv: unexpected operand 'lines.de'; to train on the lines of two files, make a config with "
                "`qkv init` (usage: qkv train CONFIG [options])"));
    /* Tabs are white space in YAML, and its name does not make a config. */
    write_text(folder, "tabs.txt",
               "# a config\nname:\tx\t# first\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\n"
               "training:\t{updates: 1}\t# last\n");
    run_ok("cd '%s' && qkv config tabs.txt", folder);
    write_text(folder, "all.txt",
               "name:\tx\ndata:\t{train: t.tsv, src: {lang: a}, trg: {lang: b}}\n"
               "training:\t{updates: 1}\n");
    run_ok("cd '%s' && qkv config all.txt", folder);
}
