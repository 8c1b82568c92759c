/* qkv config: what it prints, and what it says of wrong configs. */
#include "wrong_config.h"

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

/* Runs `qkv config x.yaml <arguments>` where x.yaml has this text. */
static struct outcome config(const char *text, const char *arguments)
{
    write_text(".", "x.yaml", text);
    return run("qkv config x.yaml %s", arguments);
}

static void enter_scratch(void)
{
    enter(scratch("config"));
}

TestSuite(config, .init = enter_scratch);

Test(config, prints_keys_that_differ_from_their_defaults_or_every_key)
{
    struct outcome outcome = config(SMALLEST, "");
    cr_expect_str_empty(outcome.error);
    cr_expect_str_eq(outcome.output, SMALLEST);
    const char *full = config(SMALLEST, "--full").output;
    cr_expect(shows(full, "  model_dir: runs/reverse\n") && shows(full, "      key_width: 16\n"));
    cr_expect(shows(full, "      embedding_dim: 64\n") && shows(full, "  adam_betas: [0.9, 0.999]\n"));
    cr_expect_str_eq(config(full, "--full").output, full);
    cr_expect_str_eq(config(full, "").output, SMALLEST);
}

Test(config, takes_overrides_and_the_last_one_wins)
{
    struct outcome outcome = config(
        SMALLEST, "-s training.learning_rate=1 -s training.learning_rate=5e-4 -s model.encoder.norm=rms "
                  "-s 'data.dev=a: b #c' -s training.adam_betas=0.8,0.9 --set training.patience=3 "
                  "-s 'model.tied_softmax=true' -s data.test=");
    cr_expect_str_eq(outcome.output, "name: reverse\n\n"
                                     "data:\n  train: datasets/reverse.tsv\n  dev: \"a: b #c\"\n"
                                     "  src:\n    lang: src\n  trg:\n    lang: trg\n\n"
                                     "model:\n  tied_softmax: true\n  encoder:\n    norm: rms\n\n"
                                     "training:\n  learning_rate: 0.0005\n  adam_betas: [0.8, 0.9]\n"
                                     "  updates: 100\n  patience: 3\n");
}

Test(config, accepts)
{
    static const char *const cases[][2] = {
        {"data: {train: t, src: {lang: a}, trg: {lang: b}}\n", "-s name=y -s training.epochs=2"},
        /* Given widths of keys and values allow any number of heads. */
        {SMALLEST, "-s model.encoder.num_heads=3 -s model.encoder.attention.key_width=20 -s "
                   "model.encoder.attention.value_width=21"},
        /* A byte order mark and lines of Windows. */
        {"\xEF\xBB\xBFname: x\r\n" CONFIG_REST "model: {init_gain: 1}\r\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(".", "x.yaml", cases[i][0]);
        run_ok("qkv config x.yaml %s", cases[i][1]);
    }
    run_ok("qkv config x.yaml | qkv config /dev/stdin"); /* a pipe */
}

/* ---- what is refused ---- */

/* What follows CONFIG_BASE, or settings, and what is said of them. */
static const char *const WRONG[][2] = {
    /* Unknown keys, and the nearest. */
    {"model:\n  encoder:\n    num_head: 3",
     "6:5: unknown key model.encoder.num_head; did you mean model.encoder.num_heads"},
    {"trainng: {epochs: 3}", "4:1: unknown key trainng; did you mean training"},
    {"model: {encoder: {heads: 3}}",
     "4:19: unknown key model.encoder.heads; did you mean model.encoder.num_heads"},
    {"testing: {learning_rate: 3}",
     "4:11: unknown key testing.learning_rate; did you mean training.learning_rate"},
    {"model: {decodr: {num_layers: 3}}", "4:9: unknown key model.decodr; did you mean model.decoder"},
    {"zzzzzzzzzzzz: 3", "4:1: unknown key zzzzzzzzzzzz"},
    {"testing.beam_size: 3", "4:1: unknown key testing.beam_size; a dot does not open a section here"},
    {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz: 3",
     "4:1: unknown key abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefgh..."},
    {"\"a\\nb\": 3", "4:1: unknown key a\\x0Ab"},
    {"-s num_heads=3", "-s num_heads=3: unknown key num_heads; did you mean model.encoder.num_heads"},
    /* Values of the wrong type. */
    {"testing: {beam_size: many}", "4:22: testing.beam_size is 'many', but must be an integer"},
    {"testing: {beam_size: 2.5}", "4:22: testing.beam_size is 2.5, but must be an integer"},
    {"testing: {beam_size: 010}", "4:22: testing.beam_size is '010', but must be an integer"},
    {"testing: {beam_size: \"2\"}", "4:22: testing.beam_size is the text \"2\", but must be an integer"},
    {"testing: {beam_size: [2]}", "4:22: testing.beam_size is a list, but must be an integer"},
    {"testing:\n  beam_size:", "5:3: testing.beam_size has no value, but must be an integer"},
    {"testing: {beam_size: 99999999999999999999}",
     "4:22: testing.beam_size is 99999999999999999999, but must be an integer of 64 bits"},
    {"testing: {beam_alpha: .inf}", "4:23: testing.beam_alpha is '.inf', but must be a number"},
    {"testing: {beam_alpha: 1e999}",
     "4:23: testing.beam_alpha is 1e999, but must be a number that a double can hold"},
    {"model: {tied_softmax: yes}", "4:23: model.tied_softmax is 'yes', but must be true or false"},
    {"-s data.train=", "-s data.train=: data.train must not be empty"},
    {"-s training.adam_betas=0.9",
     "-s training.adam_betas=0.9: training.adam_betas is 0.9, but must be a list of two numbers, [a, b]"},
    {"-s 'training.adam_betas=[0.9, x]'",
     "-s training.adam_betas=[0.9, x]: training.adam_betas is 'x', but must be a number"},
    /* Values out of their range; tests/config/config.c tests that each key has its range. */
    {"testing: {beam_size: 0}", "4:22: testing.beam_size is 0, but must be between 1 and 1000"},
    {"testing: {beam_alpha: -1e-9}", "4:23: testing.beam_alpha is -1e-9, but must be at least 0"},
    {"model: {encoder: {attention: {window: 0}}}",
     "4:39: model.encoder.attention.window is 0, but must be between 1 and 1000000"},
    {"model: {init_gain: 0}", "4:20: model.init_gain is 0, but must be greater than 0"},
    {"model: {encoder: {dropout: 1}}",
     "4:28: model.encoder.dropout is 1, but must be at least 0 and less than 1"},
    {"-s training.decrease_factor=1", "-s training.decrease_factor=1: training.decrease_factor is 1, but "
                                      "must be greater than 0 and less than 1"},
    {"-s 'training.adam_betas=[0.9, 1]'", "-s training.adam_betas=[0.9, 1]: training.adam_betas is 1, "
                                          "but must be at least 0 and less than 1"},
    /* Unknown choices, and the known. */
    {"model: {decoder: {norm: batch}}", "4:25: model.decoder.norm is 'batch', but must be one of layer, rms"},
    {"model: {decoder: {attention: {kernel: fast}}}",
     "4:39: model.decoder.attention.kernel is 'fast', but must be one of auto, exact, flash"},
    {"model: {decoder: {type: rnn}}",
     "4:25: model.decoder.type is 'rnn', but must be one of transformer, recurrent, decoder_only"},
    {"model: {initializer: ones}", "4:22: model.initializer is 'ones', but must be one of "
                                   "xavier_uniform, xavier_normal, uniform, normal, zeros"},
    /* Keys that contradict each other. */
    {"model:\n  encoder:\n    num_heads: 3",
     "6:5: model.encoder.num_heads is 3, but must divide model.encoder.hidden_size (64)"},
    {"model: {encoder: {hidden_size: 66}, decoder: {hidden_size: 66, num_heads: 3}}",
     "4:19: model.encoder.num_heads is 4, but must divide model.encoder.hidden_size (66)"},
    {"model: {encoder: {hidden_size: 32}}",
     "4:19: model.decoder.hidden_size is 64, but must equal model.encoder.hidden_size (32)"},
    {"model: {encoder: {embeddings: {embedding_dim: 32}}}",
     "4:32: model.encoder.embeddings.embedding_dim is 32, but must be 0 or model.encoder.hidden_size "
     "(64)"},
    {"model: {decoder: {positions: {type: learned, max_length: 100}}}",
     "4:46: model.decoder.positions.max_length is 100, but learned positions must exceed "
     "data.trg.max_length (100)"},
    {"model: {tied_embeddings: true}", "4:9: model.tied_embeddings is true, but needs data.joint_vocabulary"},
    {"-s data.joint_vocabulary=true -s data.src.level=char -s data.trg.voc_min_freq=2",
     "-s data.src.level=char: data.trg.level is word, but with a joint vocabulary must equal "
     "data.src.level (char)\n"
     "-s data.trg.voc_min_freq=2: data.trg.voc_min_freq is 2, but with a joint vocabulary must equal "
     "data.src.voc_min_freq (1)"},
    {"testing: {n_best: 2}", "4:11: testing.n_best is 2, but must not exceed testing.beam_size (1)"},
    {"-s testing.min_output_length=9 -s testing.max_output_length=8",
     "-s testing.min_output_length=9: testing.min_output_length is 9, but must not exceed "
     "testing.max_output_length (8)"},
    {"-s testing.length_penalty=none -s testing.beam_alpha=1",
     "-s testing.beam_alpha=1: testing.beam_alpha is 1, but has an effect only when "
     "testing.length_penalty is wu (it is none)"},
    {"-s testing.average=7 -s data.dev=d",
     "-s testing.average=7: testing.average is 7, but must not exceed training.keep_best_ckpts (3)"},
    {"-s testing.average=2", "-s testing.average=2: testing.average is 2, but needs data.dev"},
    {"-s training.scheduling=noam", "-s training.scheduling=noam: training.scheduling is noam, but needs "
                                    "training.learning_rate_warmup above 0"},
    {"-s training.scheduling=cosine -s training.updates=0 -s training.epochs=1",
     "-s training.scheduling=cosine: training.scheduling is cosine, but needs training.updates above 0"},
    {"-s training.scheduling=plateau",
     "-s training.scheduling=plateau: training.scheduling is plateau, but needs data.dev"},
    {"-s training.patience=2", "-s training.patience=2: training.patience is 2, but needs data.dev"},
    {"-s training.learning_rate_min=0.1", "-s training.learning_rate_min=0.1: training.learning_rate_min "
                                          "is 0.1, but must not exceed training.learning_rate (0.001)"},
    {"-s training.updates=0",
     "-s training.updates=0: training.updates or training.epochs must be given, so that training ends"},
    {"-s name=..", "-s name=..: name is '..', but must be made of letters, digits, '.', '_' and '-', and "
                   "not start with '.'"},
    /* Keys of attention that do. */
    {"model: {decoder: {ff_size: 0, ff_gated: true}}",
     "4:31: model.decoder.ff_gated is true, but needs model.decoder.ff_size above 0"},
    {"model: {decoder: {attention: {soft_cap: -1}}}",
     "4:41: model.decoder.attention.soft_cap is -1, but must be at least 0"},
    {"model: {encoder: {attention: {key_value_heads: 3}}}",
     "4:31: model.encoder.attention.key_value_heads is 3, but must divide model.encoder.num_heads (4)"},
    {"model: {decoder: {attention: {global_tokens: 2}}}",
     "4:31: model.decoder.attention.global_tokens is 2, but needs model.decoder.attention.window: "
     "without it every token is global"},
    {"model: {decoder: {positions: {type: rotary}, attention: {key_width: 5}}}",
     "4:31: model.decoder.positions.type is rotary, which rotates pairs of numbers, but the key width of "
     "a head is 5"},
    {"model: {encoder: {positions: {buckets: 16}}}",
     "4:31: model.encoder.positions.buckets is 16, but has an effect only when "
     "model.encoder.positions.type is relative (it is sinusoidal)"},
    {"model: {decoder: {positions: {type: alibi, base: 20}}}",
     "4:44: model.decoder.positions.base is 20, but has an effect only when model.decoder.positions.type "
     "is sinusoidal or rotary (it is alibi)"},
    {"model: {encoder: {positions: {type: relative, buckets: 7}}}",
     "4:47: model.encoder.positions.buckets is 7, but must be even: half of them are for each direction"},
    {"model: {encoder: {positions: {type: relative, max_distance: 8}}}",
     "4:47: model.encoder.positions.max_distance is 8, but must exceed a quarter of "
     "model.encoder.positions.buckets (32)"},
    {"model: {decoder: {positions: {type: relative, max_distance: 16}}}",
     "4:47: model.decoder.positions.max_distance is 16, but must exceed half of "
     "model.decoder.positions.buckets (32)"},
    /* YAML that could be misread. */
    {"---\nname: y", "4:1: a second document starts here, but a file holds one"},
    {"? [a, b]\n: 3", "4:3: a key must be a text, not a list"},
    {"? {a: b}\n: 3", "4:3: a key must be a text, not a mapping"},
    {"name: y", "4:1: duplicate key name, already given in line 1"},
    {"model: &n {}", "4:8: anchors are refused (&n); write the value out where it is used"},
    {"model: *n", "4:8: aliases are refused (*n); write the value out"},
    {"model: {init_gain: !!str 1}", "4:20: tags are refused (tag:yaml.org,2002:str)"},
    {"model: \"a\\0b\"", "4:8: a text holds a NUL character"},
    {"model: [x", "5:1: not valid YAML: did not find expected ',' or ']' while parsing a flow sequence "
                  "that starts in line 4"},
    {"model: @x", "4:8: not valid YAML: found character that cannot start any token while scanning for "
                  "the next token that starts in line 4"},
    {"# \xC3\xA4\xC3\xA4\xFF", "4:5: not valid UTF-8 (byte 0xFF)"},
    {"b: \x01", "4:4: not valid YAML: control characters are not allowed"},
    {"-s \"$(printf 'data.dev=\\377')\"", "-s: not valid UTF-8"},
};

/* Whole files. */
static const char *const WRONG_FILES[][2] = {
    {"name: [x]\n" CONFIG_REST, "1:7: name is a list, but must be a text"},
    {"name:\n" CONFIG_REST, "1:1: name has no value"},
    {"name: \"\"\n" CONFIG_REST, "1:7: name must not be empty"},
    {"- name", "1:1: the file must be a mapping of keys to values"},
    {"", " the file is empty"},
    {"# nothing\n", " the file is empty"},
    {"name: x\n\tdata: 3", "2:1: not valid YAML: a tab; indent with spaces"},
};

Test(config, refuses_what_is_wrong)
{
    EXPECT_WRONG(CONFIG_BASE, WRONG);
    EXPECT_WRONG("", WRONG_FILES);
    static const char nul[] = "name: x\ndata: \0";
    write_bytes(".", "nul.yaml", nul, sizeof nul - 1);
    cr_expect(refused(run("qkv config nul.yaml"), "nul.yaml:2:7: NUL byte"));
}

Test(config, reports_all_errors_in_the_order_of_lines)
{
    expect_wrong_config("name: a b\n"
                        "data: {train: t, src: {lang: a, lowercase: bytes}, trg: {lang: b, voc_limt: 3}}\n"
                        "training:\n"
                        "  updates: -1\n"
                        "  batch_size: 2.0\n"
                        "  updates: 3\n"
                        "model: {tied_embeddings: true}\n"
                        "testing: &t {}\n",
                        "-s oops -s =3",
                        "x.yaml:1:1: name is 'a b', but must be made of letters, digits, '.', '_' and '-', "
                        "and not start with '.'\n"
                        "x.yaml:2:44: data.src.lowercase is 'bytes', but must be true or false\n"
                        "x.yaml:2:67: unknown key data.trg.voc_limt; did you mean data.trg.voc_limit\n"
                        "x.yaml:4:12: training.updates is -1, but must be at least 0\n"
                        "x.yaml:5:15: training.batch_size is 2.0, but must be an integer\n"
                        "x.yaml:6:3: duplicate key updates, already given in line 4\n"
                        "x.yaml:7:9: model.tied_embeddings is true, but needs data.joint_vocabulary\n"
                        "x.yaml:8:10: anchors are refused (&t); write the value out where it is used\n"
                        "-s oops: must have the form key=value\n"
                        "-s =3: must have the form key=value\n");
    expect_wrong_config("name: x\n", "",
                        "x.yaml: data.train is missing, but is required\n"
                        "x.yaml: data.src.lang is missing, but is required while data.text is pairs\n"
                        "x.yaml: data.trg.lang is missing, but is required\n"
                        "x.yaml: training.updates or training.epochs must be given, so that training ends\n");
    /* What stands behind a syntax error is not missing. */
    expect_wrong_config("name: 1\nnme: x\ndata: [\n", "",
                        "x.yaml:2:1: unknown key nme; did you mean name\n"
                        "x.yaml:4:1: not valid YAML: did not find expected node content while parsing a flow "
                        "node that starts in line 4\n");
}

Test(config, counts_the_errors_it_does_not_print)
{
    char text[4096] = CONFIG_BASE;
    for (int i = 0; i < 150; i++) sprintf(text + strlen(text), "key%d: 1\n", i);
    struct outcome outcome = config(text, "");
    cr_expect(fails(outcome, 2, "x.yaml: 51 more errors are not shown\n"));
    cr_expect_eq(occurrences(outcome.error, "\n"), 100);
}

Test(config, refuses_bad_arguments)
{
    static const char *const cases[][2] = {
        {"", "qkv: CONFIG is missing (usage: qkv config CONFIG [options])"},
        {"--reference x.yaml", "qkv: --reference takes no CONFIG"},
        {"missing.yaml", "missing.yaml: cannot be read: No such file or directory"},
        {".", ".: cannot be read: it is a folder"},
        {"run", "qkv: run: is a run, but a config is a YAML file, such as the run's run/config.yaml"},
    };
    run_ok("mkdir run && touch run/config.yaml");
    EXPECT_REFUSALS("qkv config", cases);
}

/* ---- the reference ---- */

/* tests/config/config.c tests that each row has keys that are read. */
Test(config, reference_lists_each_key_once)
{
    const char *reference = run_ok("qkv config --reference");
    cr_assert_eq(occurrences(reference, "\n| `") + occurrences(reference, "`, `data.trg."),
                 occurrences(config(SMALLEST, "--full").output, ": "));
    for (const char *row = reference; (row = strstr(row, "\n| `")); row++)
        cr_expect_eq(occurrences(reference, format("%.*s", (int)strcspn(row + 4, "`") + 5, row)), 1, "%.80s",
                     row);
    /* Both sides have one section, and the row of a key says where it has an effect on one or both of them. */
    cr_expect_eq(occurrences(reference, "\n### `data.src` and `data.trg`\n"), 1);
    cr_expect_eq(occurrences(reference, "\n| `data.src.level`, `data.trg.level` | choice | "), 1);
    cr_expect_eq(occurrences(reference, "; `data.src.lang` has an effect only with `data.text` `pairs` |"),
                 1);
    cr_expect_eq(occurrences(reference, "; 0: off; has an effect only with `level` `bpe` |"), 2);
    cr_expect(lacks(reference, "\n| `data.trg.") && lacks(reference, "with `data.src.level`"));
}

Test(config, docs_contain_the_reference)
{
    const char *mark = "<!-- reference -->", *page = read_file(QKV_SOURCE_DIR "/docs/config.md", NULL);
    cr_assert_not_null(page, "docs/config.md cannot be read");
    const char *wanted = format("%s\n%s%s", mark, run_ok("qkv config --reference"), mark);
    cr_expect(shows(page, wanted),
              "docs/config.md: put the output of `qkv config --reference` between its two %s", mark);
}
