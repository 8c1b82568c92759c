/* qkv gradcheck: what it prints, what it exits with, and that every planted fault is seen. */
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const FAULTS[] = {"sign", "factor", "missing", "overwrite", "offset"};

static void expect_in(const char *text, const char *part)
{
    cr_expect(strstr(text, part), "'%s' is not in:\n%s", part, text);
}

/* A model of a few hundred numbers and four pairs; returns the path of the config. */
static const char *tiny_config(const char *folder, const char *more)
{
    const char *pairs = write_text(folder, "pairs.tsv",
                                   "one two\teins zwei\n"
                                   "three\tdrei\n"
                                   "two three one\tzwei drei eins\n"
                                   "one\teins\n");
    const char *stack = "{num_layers: 1, num_heads: 2, hidden_size: 4, ff_size: 6, dropout: 0.2}";
    return write_text(folder, "tiny.yaml",
                      format("name: tiny\ndata:\n  train: %s\n  src: {lang: en}\n  trg: {lang: de}\n"
                             "model:\n  encoder: %s\n  decoder: %s\n"
                             "training:\n  updates: 1\n  label_smoothing: 0.1\n%s",
                             pairs, stack, stack, more));
}

Test(gradcheck, an_op_passes)
{
    struct outcome outcome = run("qkv gradcheck --op softmax");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    expect_in(outcome.output, "op softmax (matrix)");
    expect_in(outcome.output, "passed");
}

Test(gradcheck, a_layer_passes)
{
    struct outcome outcome = run("qkv gradcheck --layer norm");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    expect_in(outcome.output, "norm.gain");
    expect_in(outcome.output, "passed");
}

static void expect_80_columns(const char *output)
{
    char *copy = format("%s", output);
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        bool title = !strncmp(line, "op ", 3) || !strncmp(line, "/", 1) || !strncmp(line, "layer ", 6);
        cr_expect(title || strlen(line) <= 80, "%zu columns: %s", strlen(line), line);
    }
}

/* The columns of all rows end where those of the head do, also behind an index that is wider than its title. */
Test(gradcheck, has_columns_that_line_up)
{
    const char *config = tiny_config(scratch("line_up"), "");
    struct outcome outcome = run(
        "qkv gradcheck %s -n 1 --seed 2 -s model.encoder.ff_size=20000 -s model.encoder.hidden_size=20 -s "
        "model.decoder.hidden_size=20",
        config);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    size_t end = 0, longest = 0;
    for (char *line = strtok(outcome.output, "\n"); line; line = strtok(NULL, "\n")) {
        char *index = strstr(line, " [");
        size_t length = strlen(line);
        if (index && strcspn(index + 1, " ") > longest) longest = strcspn(index + 1, " ");
        if (!strncmp(line, "  tensor ", 9)) end = length;
        if (end && length > 3 && !strcmp(line + length - 3, " ok"))
            cr_expect_eq(length, end + 3, "the columns end at %zu: %s", end, line);
    }
    cr_expect_geq(longest, 10);
}

Test(gradcheck, every_fault_in_an_op_is_caught_and_named)
{
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        if (is_left_out((int64_t)i)) continue;
        struct outcome outcome = run("qkv gradcheck --op softmax --plant %s", FAULTS[i]);
        cr_expect_eq(outcome.exit_code, 1, "%s: exit %d", FAULTS[i], outcome.exit_code);
        expect_in(outcome.output, "op softmax (matrix)");
        expect_in(outcome.output, "FAIL");
        expect_in(outcome.output, format("planted fault: %s, in the gradient of softmax", FAULTS[i]));
    }
}

Test(gradcheck, a_wrong_declaration_is_caught_and_named)
{
    struct outcome outcome = run("qkv gradcheck --op softmax --plant reads");
    cr_expect_eq(outcome.exit_code, 1);
    expect_in(outcome.output, "backward reads the result, but backward_reads does not declare it");
    expect_in(outcome.output, "planted fault: reads, in the declarations of softmax");
    outcome = run("qkv gradcheck --op add --plant reads");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "fault reads changes no declaration of op add: choose another fault");
    outcome = run("qkv gradcheck --layer dense -q --plant reads");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "fault reads shows only in the check of an op: use --op NAME");
}

Test(gradcheck, every_fault_in_a_layer_is_caught_and_named)
{
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        if (is_left_out((int64_t)i)) continue;
        /* Nothing but attention gives a gradient to its query, so overwriting it there is no fault. */
        const char *op = !strcmp(FAULTS[i], "overwrite") ? "linear" : "attention";
        struct outcome outcome = run("qkv gradcheck --layer multi_head --plant %s:%s", FAULTS[i], op);
        cr_expect_eq(outcome.exit_code, 1, "%s: exit %d", FAULTS[i], outcome.exit_code);
        expect_in(outcome.output, format("planted fault: %s, in the gradient of %s", FAULTS[i], op));
    }
}

Test(gradcheck, every_fault_in_a_config_is_caught)
{
    const char *config = tiny_config(scratch("faults"), "");
    for (size_t i = 0; i < sizeof FAULTS / sizeof FAULTS[0]; i++) {
        if (is_left_out((int64_t)i)) continue;
        const char *op = !strcmp(FAULTS[i], "overwrite") ? "linear" : "attention";
        struct outcome outcome = run("qkv gradcheck %s --quiet --plant %s:%s", config, FAULTS[i], op);
        cr_expect_eq(outcome.exit_code, 1, "%s: exit %d, %s", FAULTS[i], outcome.exit_code, outcome.error);
        expect_in(outcome.output, "FAIL");
    }
}

Test(gradcheck, a_config_passes_with_every_element)
{
    const char *config = tiny_config(scratch("config"), "");
    const char *output = run_ok("qkv gradcheck %s --sample %d", config, is_slow_build() ? 2 : 0);
    expect_in(output, "decoder.1");
    expect_in(output, "cross.query.weight");
    expect_in(output, "float32 against float64");
    expect_in(output, "4 sentences of 11 source and 11 target tokens");
    expect_80_columns(output);
}

Test(gradcheck, a_config_takes_overrides_and_sentences)
{
    const char *config = tiny_config(scratch("overrides"), "");
    const char *const settings[] = {
        "-s model.encoder.layer_norm=post -s model.decoder.layer_norm=post",
        "-s model.encoder.norm=rms -s model.decoder.activation=gelu",
        "-s model.tied_softmax=true -s model.encoder.positions.type=learned",
        "-s data.joint_vocabulary=true -s model.tied_embeddings=true -s model.encoder.attention.bias=false",
        "-s model.decoder.attention.key_width=3 -s model.decoder.attention.value_width=5",
        "-s model.encoder.embeddings.word_dropout=0.3 -s model.decoder.activation_dropout=0.4",
        "-s training.r_drop=5 -s model.tied_softmax=true",
        "-s training.simcut=3 -s training.simcut_rate=0.3 -s model.encoder.embeddings.word_dropout=0.1",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (is_left_out((int64_t)i)) continue;
        struct outcome outcome = run("qkv gradcheck %s %s --sentences 2", config, settings[i]);
        cr_expect_eq(outcome.exit_code, 0, "%s: %s%s", settings[i], outcome.output, outcome.error);
        expect_in(outcome.output, "2 sentences of 5 source");
    }
}

/* check_ops takes more elements, and plants every fault in all ops. */
Test(gradcheck, all_gives_a_line_for_each_op_and_layer)
{
    const char *output = run_ok("qkv gradcheck --all --sample 1");
    expect_in(output, "op matmul");
    expect_in(output, "op attention ");
    expect_in(output, "layer residual");
    cr_expect_null(strstr(output, "input 1"), "details only with --verbose");
    expect_80_columns(output);
    output = run_ok("qkv gradcheck --all --verbose --sample 1");
    expect_in(output, "input 1");
    expect_80_columns(output);
}

Test(gradcheck, quiet_prints_failures_and_the_summary)
{
    struct outcome outcome = run("qkv gradcheck --op softmax --quiet");
    cr_expect_null(strstr(outcome.output, "input 1"));
    expect_in(outcome.output, "passed");
    outcome = run("qkv gradcheck --op softmax --quiet --plant sign");
    expect_in(outcome.output, "input 1");
    cr_expect_null(strstr(outcome.output, "repeat, zero cotangent"), "that one passes");
}

Test(gradcheck, json_contains_every_check)
{
    struct outcome outcome = run("qkv gradcheck --op softmax --plant sign --json");
    cr_assert_eq(outcome.exit_code, 1, "%s", outcome.error);
    cJSON *root = cJSON_Parse(outcome.output);
    cr_assert_not_null(root, "%s", outcome.output);
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItem(root, "passed")));
    cr_expect_str_eq(cJSON_GetObjectItem(root, "fault")->valuestring, "sign");
    cr_expect_str_eq(cJSON_GetObjectItem(root, "fault_op")->valuestring, "softmax");
    const cJSON *subject = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "subjects"), 0);
    cr_expect_str_eq(cJSON_GetObjectItem(subject, "name")->valuestring, "softmax");
    const cJSON *row, *rows = cJSON_GetObjectItem(subject, "checks");
    int failures = 0;
    cJSON_ArrayForEach(row, rows)
    {
        cr_expect(cJSON_IsNumber(cJSON_GetObjectItem(row, "analytic")));
        failures += cJSON_IsFalse(cJSON_GetObjectItem(row, "passed"));
    }
    cr_expect_gt(failures, 0);
    cr_expect_eq(failures, cJSON_GetObjectItem(root, "failures")->valueint);
    cJSON_Delete(root);
}

Test(gradcheck, the_same_seed_gives_the_same_bytes)
{
    const char *config = tiny_config(scratch("seed"), "");
    const char *first = run("qkv gradcheck %s --seed 7 --json", config).output;
    cr_expect_str_eq(first, run("qkv gradcheck %s --seed 7 --json", config).output);
    cr_expect_str_neq(first, run("qkv gradcheck %s --seed 8 --json", config).output);
}

Test(gradcheck, the_tolerance_decides)
{
    /* The fault makes the gradient 1.001 times too large. */
    cr_expect_eq(run("qkv gradcheck --op tanh --plant factor --tolerance 0.1").exit_code, 0);
    cr_expect_eq(run("qkv gradcheck --op tanh --plant factor --tolerance 5e-4").exit_code, 1);
}

/* So that a script with an empty variable does not pass without a check. */
Test(gradcheck, needs_something_to_check)
{
    struct outcome outcome = run("qkv gradcheck");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error,
              "qkv: nothing to check: give a CONFIG, a RUN, --op, --layer or --all (usage: qkv gradcheck");
}

/* Trains a model on three pairs until its loss is next to nothing: in the folder `run`. */
static const char *learned_by_heart(const char *name)
{
    const char *folder = scratch(name);
    const char *stack = "{num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, dropout: 0,\n"
                        "    attention: {dropout: 0}, embeddings: {dropout: 0}}";
    write_text(folder, "pairs.tsv", "one two\teins zwei\nthree\tdrei\ntwo three one\tzwei drei eins\n");
    write_text(folder, "c.yaml",
               format("name: heart\ndata: {train: pairs.tsv, src: {lang: en}, trg: {lang: de}}\n"
                      "model:\n  encoder: %s\n  decoder: %s\n"
                      "training: {model_dir: run, updates: 4000, learning_rate: 0.01, shards: 1}\n",
                      stack, stack));
    struct outcome outcome = run("cd '%s' && qkv train c.yaml -q -j1", folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    return folder;
}

/* At an optimum the loss, and all that its gradient is made of, is a difference of numbers a million times as
 * large: rounding says more than differences do, and that must be known; but faults are still larger. */
Test(gradcheck, a_trained_run_passes_at_its_optimum_and_with_a_fault_it_does_not)
{
    if (is_slow_build()) cr_skip_test("a long training, and a check of every element");
    const char *folder = learned_by_heart("heart");
    struct outcome outcome = run("cd '%s' && qkv evaluate run pairs.tsv --json", folder);
    double loss = cJSON_GetObjectItem(remember(cJSON_Parse(outcome.output)), "loss")->valuedouble;
    cr_assert_lt(loss, 1e-5, "%g", loss);
    for (int seed = 1; seed <= 2; seed++) {
        outcome = run("cd '%s' && qkv gradcheck run --sample 0 --seed %d", folder, seed);
        cr_expect_eq(outcome.exit_code, 0, "%s", outcome.output);
        expect_in(outcome.output, "run\n  5926 parameters; 3 sentences of 9 source and 9 target tokens\n");
        expect_in(outcome.output, "\npassed\n");
        expect_in(outcome.output, "\n encoder.1\n  "); /* names stand below their layer, and the path once */
        cr_expect_null(strstr(outcome.output, "\nrun\n"), "%s", outcome.output);
    }
    /* A factor of 1.001 is no larger than the rounding of most of these numbers. */
    static const char *const PLANTED[] = {"sign:attention", "missing:linear", "offset:layer_norm",
                                          "sign:relu",      "factor:linear",  "missing:linear_cross_entropy"};
    for (size_t i = 0; i < sizeof PLANTED / sizeof PLANTED[0]; i++) {
        outcome = run("cd '%s' && qkv gradcheck run -q --plant %s", folder, PLANTED[i]);
        cr_expect_eq(outcome.exit_code, 1, "%s", PLANTED[i]);
    }
}

Test(gradcheck, a_run_is_checked_with_its_trained_values)
{
    const char *folder = tiny_run("stands", 4);
    struct outcome first = run("cd '%s' && qkv gradcheck run --json", folder);
    cr_assert_eq(first.exit_code, 0, "%s", first.error);
    expect_in(first.output, "\"kind\":\t\"run\"");
    struct outcome last = run("cd '%s' && qkv train c.yaml -q --resume -s training.updates=9 -s data.dev= && "
                              "qkv gradcheck run --json --checkpoint last.safetensors",
                              folder);
    cr_assert_eq(last.exit_code, 0, "%s", last.error);
    cr_expect_str_neq(first.output, last.output, "other numbers after five more updates");
    static const char *const cases[][2] = {
        {"--checkpoint none", "qkv: run: there is no checkpoint none; it has best, last, update-4"},
        {"-s model.encoder.ff_size=8",
         "qkv: run: parameter encoder.1.feed_forward.inner.weight is missing or has another size; "
         "the config describes other layers than the run has"},
        {"-s data.train=none.tsv", "qkv: none.tsv: there is no such text: set data.train to its path"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = run("cd '%s' && qkv gradcheck run %s", folder, cases[i][0]);
        cr_expect_eq(outcome.exit_code, 2);
        expect_in(outcome.error, cases[i][1]);
        cr_expect_str_empty(outcome.output);
    }
    cr_expect(refused(run("cd '%s' && mkdir none && qkv gradcheck none", folder),
                      "qkv: none: not a run: it holds no config.yaml; `qkv train` makes runs"));
    cr_expect(refused(run("cd '%s' && qkv gradcheck c.yaml --checkpoint last.safetensors", folder),
                      "qkv: --checkpoint is for a RUN, but c.yaml is not a run folder"));
}

Test(gradcheck, unknown_names_are_refused_with_the_nearest)
{
    struct outcome outcome = run("qkv gradcheck --op softmx");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "qkv: --op is 'softmx'; did you mean softmax\n");
    outcome = run("qkv gradcheck --op cross");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error,
              "--op is 'cross'; did you mean cross_entropy, linear_cross_entropy or paired_cross_entropy\n");
    outcome = run("qkv gradcheck --op zzz");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "--op is 'zzz', but must be one of matmul, linear, ");
    outcome = run("qkv gradcheck --layer norms");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "--layer is 'norms'; did you mean norm\n");
    outcome = run("qkv gradcheck --op softmax --plant sing");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "--plant is 'sing'; did you mean sign\n");
    outcome = run("qkv gradcheck --layer dense --plant sign:linar");
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "the op of --plant is 'linar'; did you mean linear\n");
}

Test(gradcheck, contradicting_options_are_refused)
{
    static const struct {
        const char *arguments, *sentence;
    } cases[] = {
        {"--op softmax --layer norm", "--op and --layer exclude each other"},
        {"--all --op softmax", "--all includes every op and layer"},
        {"x.yaml --op softmax", "--op and --layer cannot be combined with a CONFIG or RUN"},
        {"--op softmax -s a=b", "--set overrides keys of a CONFIG, but none is given"},
        {"--all --quiet --verbose", "--quiet and --verbose exclude each other"},
        {"--quiet", "nothing to check"},
        {"--op softmax --sample -1", "--sample is -1, but must lie between 0"},
        {"--op softmax --tolerance 0", "--tolerance is 0"},
        {"--op store_rows --plant sign",
         "op store_rows computes no gradient, so no fault can be planted in it"},
        {"--layer dense --plant sign --quiet",
         "the fault is planted in op attention, which layer dense does not use"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = run("qkv gradcheck %s", cases[i].arguments);
        cr_expect_eq(outcome.exit_code, 2, "%s: exit %d", cases[i].arguments, outcome.exit_code);
        expect_in(outcome.error, cases[i].sentence);
        cr_expect_eq(strcspn(outcome.error, "\n") + 1, strlen(outcome.error), "one line: %s", outcome.error);
    }
}

Test(gradcheck, bad_configs_and_data_are_reported_with_their_place)
{
    const char *folder = scratch("bad");
    const char *config = tiny_config(folder, "");
    struct outcome outcome = run("qkv gradcheck %s/none.yaml", folder);
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "none.yaml");
    outcome = run("qkv gradcheck %s -s model.encoder.num_heads=3", config);
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "num_heads");
    outcome = run("qkv gradcheck %s -s data.train=%s/none.tsv", config, folder);
    cr_expect_eq(outcome.exit_code, 2);
    expect_in(outcome.error, "none.tsv");
}
