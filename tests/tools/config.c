#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Three lines that are a whole config; cases add lines from the fourth on. */
#define REST "data: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n"
#define BASE "name: x\n" REST

static const char SMALLEST[] = "name: reverse\n"
                               "\n"
                               "data:\n"
                               "  train: datasets/reverse.tsv\n"
                               "  src:\n"
                               "    lang: src\n"
                               "  trg:\n"
                               "    lang: trg\n"
                               "\n"
                               "training:\n"
                               "  updates: 100\n";

static int lines_with(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

/* Runs `qkv config x.yaml <arguments>` where x.yaml has these bytes. */
static struct outcome config_of(const char *folder, const void *bytes, size_t size, const char *arguments)
{
    write_bytes(folder, "x.yaml", bytes, size);
    return run("cd '%s' && qkv config x.yaml %s", folder, arguments);
}

static struct outcome config(const char *folder, const char *text, const char *arguments)
{
    return config_of(folder, text, strlen(text), arguments);
}

/* What each config must be told, all of it, in this order. */
struct refusal {
    const char *text, *arguments, *messages;
};

static void expect(const char *name, const struct refusal *refusals, size_t count)
{
    const char *folder = scratch(format("tools_config_%s", name));
    for (size_t i = 0; i < count; i++) {
        struct outcome outcome = config(folder, refusals[i].text, refusals[i].arguments);
        cr_expect_str_eq(outcome.error, refusals[i].messages, "%s%s\ngot\n%swanted\n%s", refusals[i].text,
                         refusals[i].arguments, outcome.error, refusals[i].messages);
        cr_expect_eq(outcome.exit_code, 2);
        cr_expect_str_empty(outcome.output);
    }
}

#define EXPECT(name, ...)                                                                                    \
    expect(name, (const struct refusal[]){__VA_ARGS__},                                                      \
           sizeof((const struct refusal[]){__VA_ARGS__}) / sizeof(struct refusal))

Test(config, prints_only_keys_that_differ_from_their_defaults)
{
    struct outcome outcome = config(scratch("tools_config_smallest"), SMALLEST, "");
    cr_assert_eq(outcome.exit_code, 0);
    cr_assert_str_empty(outcome.error);
    cr_assert_str_eq(outcome.output, SMALLEST);
}

Test(config, prints_every_key_with_full)
{
    const char *folder = scratch("tools_config_full");
    struct outcome full = config(folder, SMALLEST, "--full");
    cr_assert_eq(full.exit_code, 0);
    cr_assert_neq(strstr(full.output, "  model_dir: runs/reverse\n"), NULL);
    cr_assert_neq(strstr(full.output, "      key_width: 16\n"), NULL);
    cr_assert_neq(strstr(full.output, "      embedding_dim: 64\n"), NULL);
    cr_assert_neq(strstr(full.output, "  adam_betas: [0.9, 0.999]\n"), NULL);

    struct outcome again = config(folder, full.output, "--full");
    cr_assert_str_eq(again.output, full.output);
    struct outcome shortened = config(folder, full.output, "");
    cr_assert_str_eq(shortened.output, SMALLEST);
}

Test(config, takes_overrides_and_the_last_one_wins)
{
    struct outcome outcome =
        config(scratch("tools_config_overrides"), SMALLEST,
               "-s training.learning_rate=1 -s training.learning_rate=5e-4 -s model.encoder.norm=rms "
               "-s 'data.dev=a: b #c' -s training.adam_betas=0.8,0.9 --set training.patience=3 "
               "-s 'model.tied_softmax=true' -s data.test=");
    cr_assert_eq(outcome.exit_code, 0);
    cr_assert_str_eq(outcome.output, "name: reverse\n\n"
                                     "data:\n  train: datasets/reverse.tsv\n  dev: \"a: b #c\"\n"
                                     "  src:\n    lang: src\n  trg:\n    lang: trg\n\n"
                                     "model:\n  tied_softmax: true\n  encoder:\n    norm: rms\n\n"
                                     "training:\n  learning_rate: 0.0005\n  adam_betas: [0.8, 0.9]\n"
                                     "  updates: 100\n  patience: 3\n");
}

Test(config, an_override_can_set_a_missing_key)
{
    struct outcome outcome =
        config(scratch("tools_config_lacks"), "data: {train: t, src: {lang: a}, trg: {lang: b}}\n",
               "-s name=y -s training.epochs=2");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(config, refuses_unknown_keys_and_names_the_nearest)
{
    EXPECT("unknown", //
           {BASE "model:\n  encoder:\n    num_head: 3\n", "",
            "x.yaml:6:5: unknown key model.encoder.num_head; did you mean model.encoder.num_heads\n"},
           {BASE "trainng: {epochs: 3}\n", "", "x.yaml:4:1: unknown key trainng; did you mean training\n"},
           {BASE "model: {encoder: {heads: 3}}\n", "",
            "x.yaml:4:19: unknown key model.encoder.heads; did you mean model.encoder.num_heads\n"},
           {BASE "testing: {learning_rate: 3}\n", "",
            "x.yaml:4:11: unknown key testing.learning_rate; did you mean training.learning_rate\n"},
           {BASE "model: {decodr: {num_layers: 3}}\n", "",
            "x.yaml:4:9: unknown key model.decodr; did you mean model.decoder\n"},
           {BASE "zzzzzzzzzzzz: 3\n", "", "x.yaml:4:1: unknown key zzzzzzzzzzzz\n"},
           {BASE "testing.beam_size: 3\n", "",
            "x.yaml:4:1: unknown key testing.beam_size; a dot does not open a section here\n"},
           {BASE "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz: 3\n", "",
            "x.yaml:4:1: unknown key abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefgh...\n"},
           {BASE "\"a\\nb\": 3\n", "", "x.yaml:4:1: unknown key a\\x0Ab\n"}, //
           {BASE, "-s num_heads=3",
            "-s num_heads=3: unknown key num_heads; did you mean model.encoder.num_heads\n"});
}

Test(config, refuses_values_of_the_wrong_type)
{
    EXPECT("type", //
           {BASE "testing: {beam_size: many}\n", "",
            "x.yaml:4:22: testing.beam_size is 'many', but must be an integer\n"},
           {BASE "testing: {beam_size: 2.5}\n", "",
            "x.yaml:4:22: testing.beam_size is 2.5, but must be an integer\n"},
           {BASE "testing: {beam_size: 010}\n", "",
            "x.yaml:4:22: testing.beam_size is '010', but must be an integer\n"},
           {BASE "testing: {beam_size: \"2\"}\n", "",
            "x.yaml:4:22: testing.beam_size is the text \"2\", but must be an integer\n"},
           {BASE "testing: {beam_size: [2]}\n", "",
            "x.yaml:4:22: testing.beam_size is a list, but must be an integer\n"},
           {BASE "testing:\n  beam_size:\n", "",
            "x.yaml:5:3: testing.beam_size has no value, but must be an integer\n"},
           {BASE "testing: {beam_size: 99999999999999999999}\n", "",
            "x.yaml:4:22: testing.beam_size is 99999999999999999999, but must be an integer of 64 bits\n"},
           {BASE "testing: {beam_alpha: .inf}\n", "",
            "x.yaml:4:23: testing.beam_alpha is '.inf', but must be a number\n"},
           {BASE "testing: {beam_alpha: 1e999}\n", "",
            "x.yaml:4:23: testing.beam_alpha is 1e999, but must be a number that a double can hold\n"},
           {BASE "testing: {beam_alpha: {a: 1}}\n", "",
            "x.yaml:4:23: testing.beam_alpha is a section, but must be a number\n"},
           {BASE "model: {tied_softmax: yes}\n", "",
            "x.yaml:4:23: model.tied_softmax is 'yes', but must be true or false\n"},
           {BASE "model: {tied_softmax: 1}\n", "",
            "x.yaml:4:23: model.tied_softmax is 1, but must be true or false\n"},
           {"name: [x]\n" REST, "", "x.yaml:1:7: name is a list, but must be a text\n"},
           {"name:\n" REST, "", "x.yaml:1:1: name has no value\n"},
           {"name: \"\"\n" REST, "", "x.yaml:1:7: name must not be empty\n"},
           {BASE, "-s data.train=", "-s data.train=: data.train must not be empty\n"},
           {BASE, "-s training.adam_betas=0.9",
            "-s training.adam_betas=0.9: training.adam_betas is 0.9, but must be a list of two numbers, [a, "
            "b]\n"},
           {BASE, "-s 'training.adam_betas=[0.9, x]'",
            "-s training.adam_betas=[0.9, x]: training.adam_betas is 'x', but must be a number\n"},
           {BASE, "-s training.learning_rate=abc",
            "-s training.learning_rate=abc: training.learning_rate is 'abc', but must be a number\n"});
}

Test(config, refuses_values_out_of_range)
{
    EXPECT("range", //
           {BASE "testing: {beam_size: 0}\n", "",
            "x.yaml:4:22: testing.beam_size is 0, but must be between 1 and 1000\n"},
           {BASE "testing: {beam_alpha: -1e-9}\n", "",
            "x.yaml:4:23: testing.beam_alpha is -1e-9, but must be at least 0\n"},
           {BASE "model: {encoder: {attention: {window: 0}}}\n", "",
            "x.yaml:4:39: model.encoder.attention.window is 0, but must be between 1 and 1000000\n"},
           {BASE "model: {init_gain: 0}\n", "",
            "x.yaml:4:20: model.init_gain is 0, but must be greater than 0\n"},
           {BASE "model: {encoder: {dropout: 1}}\n", "",
            "x.yaml:4:28: model.encoder.dropout is 1, but must be at least 0 and less than 1\n"},
           {BASE, "-s training.decrease_factor=1",
            "-s training.decrease_factor=1: training.decrease_factor is 1, but must be greater than 0 and "
            "less than 1\n"},
           {BASE, "-s 'training.adam_betas=[0.9, 1]'",
            "-s training.adam_betas=[0.9, 1]: training.adam_betas is 1, but must be at least 0 and less than "
            "1\n"});
}

/* ", loss, ppl, ...": the names of all metrics that are computed while a model is trained. */
#define METRIC(NAME, name, choice, ...) ", " choice
#define REQUESTED_METRIC(...)
static const char METRICS[] =
#include "qkv/metrics.def"
    ;

Test(config, refuses_unknown_choices_and_lists_the_known)
{
    EXPECT("choice", //
           {BASE "model: {decoder: {norm: batch}}\n", "",
            "x.yaml:4:25: model.decoder.norm is 'batch', but must be one of layer, rms\n"},
           {BASE "model: {decoder: {attention: {kernel: fast}}}\n", "",
            "x.yaml:4:39: model.decoder.attention.kernel is 'fast', but must be one of auto, exact, flash\n"},
           {BASE "model: {decoder: {type: rnn}}\n", "",
            "x.yaml:4:25: model.decoder.type is 'rnn', but must be one of transformer, recurrent\n"},
           {BASE "model: {initializer: ones}\n", "",
            "x.yaml:4:22: model.initializer is 'ones', but must be one of xavier_uniform, xavier_normal, "
            "uniform, normal, zeros\n"},
           {BASE, "-s training.early_stopping_metric=perplexity",
            format("-s training.early_stopping_metric=perplexity: training.early_stopping_metric is "
                   "'perplexity', but must be one of %s\n",
                   METRICS + strlen(", "))});
}

Test(config, refuses_missing_keys)
{
    EXPECT("missing", //
           {"name: x\n", "",
            "x.yaml: data.train is missing, but is required\n"
            "x.yaml: data.src.lang is missing, but is required\n"
            "x.yaml: data.trg.lang is missing, but is required\n"
            "x.yaml: training.updates or training.epochs must be given, so that training ends\n"},
           {BASE, "-s training.updates=0",
            "-s training.updates=0: training.updates or training.epochs must be given, so that training "
            "ends\n"});
}

Test(config, refuses_keys_that_contradict_each_other)
{
    EXPECT("relations", //
           {BASE "model:\n  encoder:\n    num_heads: 3\n", "",
            "x.yaml:6:5: model.encoder.num_heads is 3, but must divide model.encoder.hidden_size (64)\n"},
           {BASE "model: {encoder: {hidden_size: 66}, decoder: {hidden_size: 66, num_heads: 3}}\n", "",
            "x.yaml:4:19: model.encoder.num_heads is 4, but must divide model.encoder.hidden_size (66)\n"},
           {BASE "model: {encoder: {num_heads: 3, attention: {key_width: 8}}}\n", "",
            "x.yaml:4:19: model.encoder.num_heads is 3, but must divide model.encoder.hidden_size (64)\n"},
           {BASE "model: {encoder: {hidden_size: 32}}\n", "",
            "x.yaml:4:19: model.decoder.hidden_size is 64, but must equal model.encoder.hidden_size (32)\n"},
           {BASE "model: {encoder: {embeddings: {embedding_dim: 32}}}\n", "",
            "x.yaml:4:32: model.encoder.embeddings.embedding_dim is 32, but must be 0 or "
            "model.encoder.hidden_size (64)\n"},
           {BASE "model: {decoder: {positions: {type: learned, max_length: 100}}}\n", "",
            "x.yaml:4:46: model.decoder.positions.max_length is 100, but learned positions must exceed "
            "data.trg.max_length (100)\n"},
           {BASE "model: {tied_embeddings: true}\n", "",
            "x.yaml:4:9: model.tied_embeddings is true, but needs data.joint_vocabulary\n"},
           {BASE, "-s data.joint_vocabulary=true -s data.src.level=char -s data.trg.voc_min_freq=2",
            "-s data.src.level=char: data.trg.level is word, but with a joint vocabulary must equal "
            "data.src.level (char)\n"
            "-s data.trg.voc_min_freq=2: data.trg.voc_min_freq is 2, but with a joint vocabulary must equal "
            "data.src.voc_min_freq (1)\n"},
           {BASE "testing: {n_best: 2}\n", "",
            "x.yaml:4:11: testing.n_best is 2, but must not exceed testing.beam_size (1)\n"},
           {BASE, "-s training.scheduling=noam",
            "-s training.scheduling=noam: training.scheduling is noam, but needs "
            "training.learning_rate_warmup above "
            "0\n"},
           {BASE, "-s training.scheduling=cosine -s training.updates=0 -s training.epochs=1",
            "-s training.scheduling=cosine: training.scheduling is cosine, but needs training.updates "
            "above 0\n"},
           {BASE, "-s training.scheduling=plateau",
            "-s training.scheduling=plateau: training.scheduling is plateau, but needs data.dev\n"},
           {BASE, "-s training.patience=2",
            "-s training.patience=2: training.patience is 2, but needs data.dev\n"},
           {BASE, "-s training.learning_rate_min=0.1",
            "-s training.learning_rate_min=0.1: training.learning_rate_min is 0.1, but must not exceed "
            "training.learning_rate (0.001)\n"},
           {"name: a/b\n" REST, "",
            "x.yaml:1:1: name is 'a/b', but must be made of letters, digits, '.', '_' and '-', and not start "
            "with '.'\n"},
           {BASE, "-s name=..",
            "-s name=..: name is '..', but must be made of letters, digits, '.', '_' and '-', and not start "
            "with '.'\n"});
}

Test(config, refuses_attention_keys_that_contradict_each_other)
{
    EXPECT(
        "attention", //
        {BASE "model: {encoder: {attention: {key_value_heads: 3}}}\n", "",
         "x.yaml:4:31: model.encoder.attention.key_value_heads is 3, but must divide model.encoder.num_heads "
         "(4)\n"},
        {BASE "model: {decoder: {attention: {global_tokens: 2}}}\n", "",
         "x.yaml:4:31: model.decoder.attention.global_tokens is 2, but needs model.decoder.attention.window: "
         "without it every token is global\n"},
        {BASE "model: {decoder: {positions: {type: rotary}, attention: {key_width: 5}}}\n", "",
         "x.yaml:4:31: model.decoder.positions.type is rotary, which rotates pairs of numbers, but the key "
         "width of a head is 5\n"},
        {BASE "model: {encoder: {positions: {buckets: 16}}}\n", "",
         "x.yaml:4:31: model.encoder.positions.buckets is 16, but has an effect only when "
         "model.encoder.positions.type is relative (it is sinusoidal)\n"},
        {BASE "model: {decoder: {positions: {type: rotary, max_distance: 40}}}\n", "",
         "x.yaml:4:45: model.decoder.positions.max_distance is 40, but has an effect only when "
         "model.decoder.positions.type is relative (it is rotary)\n"},
        {BASE "model: {decoder: {positions: {type: alibi, base: 20}}}\n", "",
         "x.yaml:4:44: model.decoder.positions.base is 20, but has an effect only when "
         "model.decoder.positions.type is sinusoidal or rotary (it is alibi)\n"},
        {BASE "model: {encoder: {positions: {type: relative, buckets: 7}}}\n", "",
         "x.yaml:4:47: model.encoder.positions.buckets is 7, but must be even: half of them are for each "
         "direction\n"},
        {BASE "model: {encoder: {positions: {type: relative, max_distance: 8}}}\n", "",
         "x.yaml:4:47: model.encoder.positions.max_distance is 8, but must exceed a quarter of "
         "model.encoder.positions.buckets (32)\n"},
        {BASE "model: {decoder: {positions: {type: relative, max_distance: 16}}}\n", "",
         "x.yaml:4:47: model.decoder.positions.max_distance is 16, but must exceed half of "
         "model.decoder.positions.buckets (32)\n"});
}

Test(config, given_key_and_value_widths_allow_any_number_of_heads)
{
    struct outcome outcome = config(scratch("tools_config_widths"), SMALLEST,
                                    "-s model.encoder.num_heads=3 -s model.encoder.attention.key_width=20 "
                                    "-s model.encoder.attention.value_width=21");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(config, refuses_ambiguous_yaml)
{
    EXPECT("yaml", //
           {"name: x\nname: y\n" REST, "", "x.yaml:2:1: duplicate key name, already given in line 1\n"},
           {"name: &n x\n" REST, "",
            "x.yaml:1:7: anchors are refused (&n); write the value out where it is used\n"},
           {"name: x\ndata: {train: *n, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n", "",
            "x.yaml:2:15: aliases are refused (*n); write the value out\n"},
           {"name: !!str x\n" REST, "", "x.yaml:1:7: tags are refused (tag:yaml.org,2002:str)\n"},
           {BASE "---\nname: y\n", "", "x.yaml:4:1: a second document starts here, but a file holds one\n"},
           {BASE "? [a, b]\n: 3\n", "", "x.yaml:4:3: a key must be a text, not a list\n"},
           {BASE "? {a: b}\n: 3\n", "", "x.yaml:4:3: a key must be a text, not a mapping\n"},
           {"name: \"a\\0b\"\n" REST, "", "x.yaml:1:7: a text holds a NUL character\n"},
           {"- name\n", "", "x.yaml:1:1: the file must be a mapping of keys to values\n"},
           {"just words\n", "", "x.yaml:1:1: the file must be a mapping of keys to values\n"},
           {"", "", "x.yaml: the file is empty\n"}, //
           {"# nothing\n\n", "", "x.yaml: the file is empty\n"},
           {"name: [x\n", "",
            "x.yaml:2:1: not valid YAML: did not find expected ',' or ']' while parsing a flow "
            "sequence that starts in line 1\n"},
           {"name: x\n\tdata: 3\n", "",
            "x.yaml:2:1: not valid YAML: found a tab character that violates indentation while scanning a "
            "plain scalar that starts in line 1\n"},
           {"name: @x\n", "",
            "x.yaml:1:7: not valid YAML: found character that cannot start any token while scanning for the "
            "next token that starts in line 1\n"});
}

Test(config, refuses_invalid_utf8)
{
    const char *folder = scratch("tools_config_bytes");
    static const char nul[] = "name: x\ndata: \0";
    struct outcome outcome = config_of(folder, nul, sizeof nul - 1, "");
    cr_assert_str_eq(outcome.error, "x.yaml:2:7: NUL byte\n");
    cr_assert_eq(outcome.exit_code, 2);

    outcome = config(folder, "name: x\n# \xC3\xA4\xC3\xA4\xFF\n", "");
    cr_assert_str_eq(outcome.error, "x.yaml:2:5: not valid UTF-8 (byte 0xFF)\n");
    outcome = config(folder, "name: x\nb: \x01\n", "");
    cr_assert_str_eq(outcome.error, "x.yaml:2:4: not valid YAML: control characters are not allowed\n");
    cr_assert_eq(outcome.exit_code, 2);
    outcome = config(folder, BASE, "-s \"$(printf 'data.dev=\\377')\"");
    cr_assert_str_eq(outcome.error, "-s: not valid UTF-8\n");
    cr_assert_eq(outcome.exit_code, 2);
}

Test(config, reads_a_file_with_a_byte_order_mark_and_windows_lines)
{
    struct outcome outcome = config(scratch("tools_config_windows"),
                                    "\xEF\xBB\xBFname: x\r\n" REST "model: {init_gian: 1}\r\n", "");
    cr_assert_str_eq(outcome.error,
                     "x.yaml:4:9: unknown key model.init_gian; did you mean model.init_gain\n");
    outcome = config(scratch("tools_config_windows"), "\xEF\xBB\xBFname: x\r\n" REST, "");
    cr_assert_eq(outcome.exit_code, 0);
}

Test(config, refuses_folders_and_missing_files)
{
    const char *folder = scratch("tools_config_paths");
    struct outcome outcome = run("cd '%s' && qkv config missing.yaml", folder);
    cr_assert_str_eq(outcome.error, "missing.yaml: cannot be read: No such file or directory\n");
    cr_assert_eq(outcome.exit_code, 2);
    outcome = run("cd '%s' && qkv config .", folder);
    cr_assert_str_eq(outcome.error, ".: cannot be read: it is a folder\n");
    cr_assert_eq(outcome.exit_code, 2);
    outcome = run("cd '%s' && mkdir run && touch run/config.yaml && qkv config run", folder);
    cr_assert_str_eq(outcome.error, "qkv: run: is a run, but a config is a YAML file, such as the run's "
                                    "run/config.yaml\n");
    cr_assert_eq(outcome.exit_code, 2);
}

Test(config, reads_a_pipe)
{
    struct outcome outcome =
        run("printf 'name: x\\n%s' | qkv config /dev/stdin",
            "data: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\\ntraining: {updates: 1}\\n");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(config, reports_all_errors_in_the_order_of_lines)
{
    EXPECT("several",
           {"name: a b\n"
            "data: {train: t, src: {lang: a, lowercase: bytes}, trg: {lang: b, voc_limt: 3}}\n"
            "training:\n"
            "  updates: -1\n"
            "  batch_size: 2.0\n"
            "  updates: 3\n"
            "model: {tied_embeddings: true}\n"
            "testing: &t {}\n",
            "-s oops -s =3",
            "x.yaml:1:1: name is 'a b', but must be made of letters, digits, '.', '_' and '-', and not start "
            "with '.'\n"
            "x.yaml:2:44: data.src.lowercase is 'bytes', but must be true or false\n"
            "x.yaml:2:67: unknown key data.trg.voc_limt; did you mean data.trg.voc_limit\n"
            "x.yaml:4:12: training.updates is -1, but must be at least 0\n"
            "x.yaml:5:15: training.batch_size is 2.0, but must be an integer\n"
            "x.yaml:6:3: duplicate key updates, already given in line 4\n"
            "x.yaml:7:9: model.tied_embeddings is true, but needs data.joint_vocabulary\n"
            "x.yaml:8:10: anchors are refused (&t); write the value out where it is used\n"
            "-s oops: must have the form key=value\n"
            "-s =3: must have the form key=value\n"},
           /* What stands behind a syntax error is not missing. */
           {"name: 1\nnme: x\ndata: [\n", "",
            "x.yaml:2:1: unknown key nme; did you mean name\n"
            "x.yaml:4:1: not valid YAML: did not find expected node content while parsing a flow node that "
            "starts in line 4\n"});
}

Test(config, counts_the_errors_it_does_not_print)
{
    const char *folder = scratch("tools_config_many");
    char text[4096] = BASE;
    for (int i = 0; i < 150; i++) sprintf(text + strlen(text), "key%d: 1\n", i);
    struct outcome outcome = config(folder, text, "");
    cr_assert_eq(outcome.exit_code, 2);
    cr_assert_eq(lines_with(outcome.error, "\n"), 100);
    cr_assert_neq(strstr(outcome.error, "x.yaml: 51 more errors are not shown\n"), NULL);
}

Test(config, reference_lists_each_key_once)
{
    struct outcome reference = run("qkv config --reference");
    struct outcome full = config(scratch("tools_config_reference"), SMALLEST, "--full");
    cr_assert_eq(reference.exit_code, 0);
    int keys = lines_with(full.output, ": ");
    cr_assert_gt(keys, 90);
    cr_assert_eq(lines_with(reference.output, "\n| `"), keys);
    char *overrides = format(" ");
    for (const char *row = reference.output; (row = strstr(row, "\n| `")); row++) {
        int length = (int)strcspn(row + 4, "`");
        cr_expect_eq(lines_with(reference.output, format("\n| `%.*s` |", length, row + 4)), 1, "%s", row);
        overrides = format("%s -s '%.*s=?'", overrides, length, row + 4);
        if (lines_with(overrides, " -s ") < 60 && strstr(row + 4, "\n| `")) continue;
        /* Each is a key that overrides know, too. */
        cr_expect_null(strstr(config(scratch("tools_config_known"), SMALLEST, overrides).error, "unknown"));
        overrides = format(" ");
    }
}

Test(config, docs_contain_the_reference)
{
    const char *mark = "<!-- reference -->";
    char *page = read_file(QKV_SOURCE_DIR "/docs/config.md", NULL);
    cr_assert_not_null(page, "docs/config.md cannot be read");
    char *start = strstr(page, mark);
    cr_assert_not_null(start, "docs/config.md has no %s", mark);
    start += strlen(mark);
    char *end = strstr(start, mark);
    cr_assert_not_null(end, "docs/config.md has only one %s", mark);
    *end = '\0';
    struct outcome outcome = run("qkv config --reference");
    cr_assert_not_null(strstr(start, outcome.output),
                       "docs/config.md: put the output of `qkv config --reference` between its two %s", mark);
}

Test(config, refuses_bad_arguments)
{
    struct outcome outcome = run("qkv config");
    cr_assert_eq(outcome.exit_code, 2);
    cr_assert_str_eq(outcome.error, "qkv: CONFIG is missing (usage: qkv config CONFIG [options])\n");
    outcome = run("qkv config --reference x.yaml");
    cr_assert_eq(outcome.exit_code, 2);
    cr_assert_str_eq(outcome.error, "qkv: --reference takes no CONFIG\n");
    outcome = run("qkv config --reference >/dev/full");
    cr_assert_eq(outcome.exit_code, 2);
    cr_assert_str_eq(outcome.error, "qkv: <stdout>: cannot be written: No space left on device\n");
    outcome = run("qkv config --help");
    cr_assert_eq(outcome.exit_code, 0);
}
