/* The programs of examples/: built as a user builds them against the installed library, run, and
 * their output checked. / */
#include "support.h"

/* Compiles an example, as the command `filter` changes its source, with the command in its opening comment. Programs that
 * link a sanitized library must be sanitized themselves: QKV_INSTRUMENTATION holds those flags. Returns a command that runs
 * it. */
static const char *compiled_with(const char *name, const char *filter)
{
    const char *folder = installed(name);
    run_ok("PKG_CONFIG_PATH=$(dirname \"$(find '%s/prefix' -name qkv.pc)\") && export PKG_CONFIG_PATH && %s "
           "<'%s/examples/%s.c' >'%s/%s.c' && '%s' -std=c11 -Wall -Wextra -Wpedantic -Werror %s '%s/%s.c' "
           "$(pkg-config --cflags --libs qkv) -o '%s/%s' && pkg-config --variable=libdir qkv >'%s/libdir'",
           folder, filter, QKV_SOURCE_DIR, name, folder, name, QKV_COMPILER, QKV_INSTRUMENTATION, folder,
           name, folder, name, folder);
    return format("LD_LIBRARY_PATH=$(cat '%s/libdir') %s '%s/%s'", folder, QKV_EMULATOR, folder, name);
}

static const char *compiled(const char *name)
{
    return compiled_with(name, "cat");
}

/* Fails where the output lacks any of the texts, which must follow each other in this order. */
static void expect_in_order(const char *output, int count, const char *const *texts)
{
    const char *rest = output;
    for (int i = 0; i < count; i++) {
        const char *found = strstr(rest, texts[i]);
        cr_assert_not_null(found, "no \"%s\" (or it comes too early) in\n%s", texts[i], output);
        rest = found + strlen(texts[i]);
    }
}
#define EXPECT_IN_ORDER(output, ...)                                                                         \
    expect_in_order(output, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)),                   \
                    (const char *[]){__VA_ARGS__})

Test(examples, are_built_by_cmake)
{
    const char *folder = installed("cmake");
    run_ok("'%s' -S '%s/examples' -B '%s/build' -DCMAKE_PREFIX_PATH='%s/prefix' -DCMAKE_C_COMPILER='%s' "
           "-DCMAKE_C_FLAGS='%s' && '%s' --build '%s/build'",
           QKV_CMAKE, QKV_SOURCE_DIR, folder, folder, QKV_COMPILER, QKV_INSTRUMENTATION, QKV_CMAKE, folder);
    run_ok("cd '%s/examples' && for example in *.c; do test -x '%s/build/'\"${example%%.c}\" || exit 1; done",
           QKV_SOURCE_DIR, folder);
}

Test(examples, xor_learns_the_truth_table)
{
    const char *output = run_ok("%s", compiled("xor"));
    EXPECT_IN_ORDER(output, "gradients agree\n", "update   0  loss 0.2", "update 500  loss 0.000",
                    "0 xor 0 = 0.0", "0 xor 1 = 0.9", "1 xor 0 = 0.9", "1 xor 1 = 0.0");
}

/* The first query is (1, 0) in head 1; its scores are 4, 0, 2 and 1 over sqrt(2). */
Test(examples, attention_gradcheck_prints_weights)
{
    const char *output = run_ok("%s", compiled("attention_gradcheck"));
    EXPECT_IN_ORDER(output, "weights of head 1\n  0.7032  0.0416  0.1710  0.0843\n",
                    "weights of head 2\n  0.0522  0.0127  0.8829  0.0522\n",
                    "result\n  0.7032  0.0416  0.8829  0.0522\n", "query ", " ok\n", "key ", " ok\n",
                    "value ", " ok\n", "gradients agree\n");
}

Test(examples, draw_map_draws_a_translation)
{
    /* The run knows its training text by heart: letters as source, the same letters as capitals as
     * target. */
    const char *draw_map = compiled("draw_map"), *folder = learned_run("run");
    const char *sentence =
        run_ok("cut -f 1 '%s/train.tsv' | grep '^. . .$' | head -n 1 | tr -d '\\n'", folder);
    const char *translation = run_ok("printf '%s' | tr a-z A-Z", sentence);
    const char *output = run_ok("%s '%s/run' '%s' '%s/cross.svg'", draw_map, folder, sentence, folder);
    EXPECT_IN_ORDER(output, format("%s -> %s\n\n", sentence, translation),
                    "cross attention, layer 1, mean of heads\n", format("\n%c ", translation[0]),
                    format("\n%c ", translation[2]), format("\n%c ", translation[4]), "\n</s>");
    const char *picture = read_file(format("%s/cross.svg", folder), NULL);
    cr_assert_not_null(picture);
    EXPECT_IN_ORDER(picture, "<svg ", format(">%c</text>", sentence[0]), format(">%c</text>", sentence[2]),
                    format(">%c</text>", sentence[4]), "</svg>");

    struct outcome outcome = run("%s '%s/nothing' 'a' '%s/cross.svg'", draw_map, folder, folder);
    cr_expect(refused(outcome, format("draw_map: %s/nothing: there is no such run", folder)));
    outcome = run("%s '%s/run' 'a' '%s/cross.tiff'", draw_map, folder, folder);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect(shows(outcome.error, "cross.tiff: the extension names no format"));
}

Test(examples, classifier_tells_languages_apart)
{
    const char *program = compiled("classifier"), *folder = scratch("classes");
    run_ok("head -n 1000 '%s/datasets/en_es/train.tsv' >'%s/pairs.tsv'", QKV_SOURCE_DIR, folder);
    const char *output = run_ok("%s '%s/pairs.tsv' 'the cat' 'el gato'", program, folder);
    EXPECT_IN_ORDER(output, "update 20  loss ", "200 of 200 are right\n", "the cat  class 1\n",
                    "el gato  class 2\n");
    cr_expect_eq(run("%s '%s/none.tsv'", program, folder).exit_code, 2);
}

Test(examples, assembled_translator_trains_and_searches)
{
    const char *program = compiled("assembled_translator"), *folder = scratch("assembled");
    run_ok("head -n 20 '%s/datasets/en_es/train.tsv' >'%s/pairs.tsv'", QKV_SOURCE_DIR, folder);
    const char *pair = run_ok("tail -n 1 '%s/pairs.tsv' | tr -d '\\n'", folder), *tab = strchr(pair, '\t');
    const char *output = run_ok("%s '%s/pairs.tsv' %d '%.*s'", program, folder, is_slow_build() ? 2 : 200,
                                (int)(tab - pair), pair);
    if (!is_slow_build())
        EXPECT_IN_ORDER(output, "update 100  cross-entropy ", "update 200  cross-entropy 0.1",
                        format("  %s\n-", tab + 1));
    cr_expect(refused(
        run("%s '%s/none.tsv' 1 'a'", program, folder),
        format("assembled_translator: %s/none.tsv: cannot be read: No such file or directory", folder)));
}

/* Trained only a little: the map shows words and both heads, the setting changes their number, and a wrong one is refused. */
Test(examples, own_network_trains_translates_and_draws)
{
    const char *own_network = compiled("own_network"), *folder = scratch("own");
    const char *config = format("'%s/examples/own_network.yaml'", QKV_SOURCE_DIR);
    int updates = is_slow_build() ? 2 : 40;
    const char *settings =
        format("training.updates=%d training.validation_freq=%d training.model_dir='%s/run' "
               "model.encoder.hidden_size=16 model.decoder.hidden_size=16",
               updates, updates, folder);
    const char *output = run_ok("%s %s 'the cat is sleeping' %s", own_network, config, settings);
    EXPECT_IN_ORDER(output, format("%d updates, best BLEU ", updates), "cross attention, layer 1, head 1\n",
                    "the", "cat", "sleeping", "</s>", "cross attention, layer 1, head 2\n", "\n</s>");
    output = run_ok("%s %s 'the cat' %s model.settings=heads=4", own_network, config, settings);
    EXPECT_IN_ORDER(output, "cross attention, layer 1, head 4\n");
    cr_expect(refused(run("%s %s 'the cat' %s model.settings=heads=3", own_network, config, settings),
                      "own_network: network gru_with_heads: 3 heads do not divide a width of 16"));
    cr_expect(refused(run("'%s' translate '%s/run' </dev/null", QKV_BINARY, folder),
                      "qkv: model.network: this program has no network called 'gru_with_heads'; the program "
                      "that has it calls qkv_network_register (qkv/model.h)"));
}

/* Its own decoding gives the numbers of its forced pass, or qkv_train would refuse it, as it does where reorder is wrong. The
 * config is the installed one, which finds its text there. */
Test(examples, own_decoding_trains_and_translates)
{
    const char *program = compiled("own_decoding"), *folder = scratch("decoding");
    const char *config = run_ok("find '%s/prefix' -name own_network.yaml | tr -d '\\n'", installed("config"));
    const char *arguments = format(
        "'%s' 'the cat is sleeping' model.network=reader_and_writer model.settings= training.updates=%d "
        "data.dev= training.learning_rate=0.01 training.model_dir='%s/run' model.encoder.hidden_size=32 "
        "model.decoder.hidden_size=32",
        config, is_slow_build() ? 2 : 200, folder);
    const char *output = run_ok("%s %s", program, arguments);
    if (!is_slow_build()) cr_expect_str_eq(output, "la abuela está esperando\n"); /* grammar, not yet words */
    program = compiled_with("own_decoding", "sed 's/parents.i./(parents ? i : 0)/'");
    struct outcome outcome = run("%s %s", program, arguments);
    cr_expect_eq(outcome.exit_code, 2);
    EXPECT_IN_ORDER(outcome.error, "own_decoding: network reader_and_writer: step ",
                    " of its decoding gives ", "reorder must move more");
}
