/* --without: a silent head does what zeros in its rows of the output projection do. */
#include "json.h"
#include "support.h"
#include "zeroed_head.h"

#include <criterion/criterion.h>
#include <string.h>

/* Runs `command` in the folder with --without, and on the checkpoint in which the same heads are zeroed. */
static void expect_zeroed(const char *folder, const char *heads, const char *command)
{
    save_zeroed(folder, heads);
    char *silent = run_ok("cd '%s' && qkv %s --without %s", folder, command, heads);
    cr_expect_str_eq(silent, run_ok("cd '%s' && qkv %s --checkpoint zeroed", folder, command), "%s, %s",
                     command, heads);
    cr_expect_str_neq(silent, run_ok("cd '%s' && qkv %s", folder, command), "%s, %s", command, heads);
}

Test(without, translate_and_attention_see_no_silent_head)
{
    static const char *const HEADS[] = {"cross.1.2", "decoder.1.1", "encoder.1.2,cross.1.1"};
    const char *folder = tiny_run("zeroed", 100);
    write_text(folder, "in.txt", "a b c\ne d a b c\nb\n");
    for (size_t i = 0; i < sizeof HEADS / sizeof *HEADS; i++) {
        expect_zeroed(folder, HEADS[i], "translate run in.txt -q --scores");
        expect_zeroed(folder, HEADS[i], "translate run in.txt -q --scores --beam 3 --n-best 3");
        if (i) /* the only layer of cross attention changes no map */
            expect_zeroed(folder, HEADS[i], "attention run 'a b c' -t 'C C B' -q -f csv");
    }
}

Test(without, evaluate_says_which_heads_are_silent)
{
    const char *folder = enter(tiny_run("evaluate", 100)),
               *command = "cd '%s' && qkv evaluate run dev.tsv --json %s";
    static const char *const KEYS[] = {"loss", "token_accuracy", "bleu"};
    save_zeroed(folder, "cross.1.1,cross.1.2");
    cJSON *silent = json_parsed(run_ok(command, folder, "--without cross.1.2 --without cross.1.1"));
    cJSON *zeroed = json_parsed(run_ok(command, folder, "--checkpoint zeroed"));
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        cr_expect_float_eq(cJSON_GetObjectItem(silent, KEYS[i])->valuedouble,
                           cJSON_GetObjectItem(zeroed, KEYS[i])->valuedouble, 1e-6, "%s", KEYS[i]);
    cJSON *names = cJSON_GetObjectItem(silent, "without");
    cr_assert_eq(cJSON_GetArraySize(names), 2);
    cr_expect_str_eq(cJSON_GetArrayItem(names, 0)->valuestring, "cross.1.1");
    cr_expect_str_eq(cJSON_GetArrayItem(names, 1)->valuestring, "cross.1.2");
    cr_expect_null(cJSON_GetObjectItem(zeroed, "without"));
    cr_expect(shows(run_ok("qkv evaluate run dev.tsv --without cross.1.2,decoder.1.1"),
                    "\nwithout            decoder.1.1, cross.1.2\nsentences "));
    cJSON_Delete(silent);
    cJSON_Delete(zeroed);
}

/* The maps of the untrained model in what --versus random prints. */
static char *random_maps(char *text)
{
    char *from = strstr(text, "random:"), *to = strstr(text, "learned:");
    cr_assert(from && to, "%s", text);
    *to = '\0';
    return from;
}

Test(without, the_title_names_silent_heads_and_both_models_lack_them)
{
    const char *folder = tiny_run("title", 20),
               *command = "cd '%s' && qkv attention run 'a b' -t 'A B' -q --versus random %s";
    char *silent = run_ok(command, folder, "--without encoder.1.2"), *all = run_ok(command, folder, "");
    cr_expect(shows(silent, "a b → A B, without encoder.1.2\n"));
    cr_expect(shows(all, "a b → A B\n"));
    cr_expect_str_neq(random_maps(silent), random_maps(all));
    const char *as_json = "cd '%s' && qkv attention run 'a b' -t 'A B' -q -f json %s";
    cJSON *report = json_parsed(run_ok(as_json, folder, "--without cross.1.2,encoder.1.2"));
    cJSON *names = cJSON_GetObjectItem(report, "without");
    cr_assert_eq(cJSON_GetArraySize(names), 2);
    cr_expect_str_eq(cJSON_GetArrayItem(names, 0)->valuestring, "encoder.1.2");
    cr_expect_str_eq(cJSON_GetArrayItem(names, 1)->valuestring, "cross.1.2");
    cJSON_Delete(report);
    report = json_parsed(run_ok(as_json, folder, ""));
    cr_expect_null(cJSON_GetObjectItem(report, "without"));
    cJSON_Delete(report);
}

Test(without, refuses_a_head_that_does_not_exist)
{
    static const char *const COMMANDS[] = {"translate run", "evaluate run dev.tsv", "attention run 'a b'"};
    static const char *const NAMES[] = {"cross.2.1",  "cross.1.3", "cross.1",  "cross.1.0",
                                        "cross.01.1", "",          "Cross.1.1"};
    enter(tiny_run("refused", 1));
    for (size_t c = 0; c < sizeof COMMANDS / sizeof *COMMANDS; c++)
        for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++)
            cr_expect(refused(
                run("qkv %s --without decoder.1.1,%s", COMMANDS[c], NAMES[n]),
                format("qkv: --without: there is no head '%s': the heads of the model are encoder.1.1 to "
                       "encoder.1.2, decoder.1.1 to decoder.1.2, cross.1.1 to cross.1.2",
                       NAMES[n])));
    cr_expect(
        refused(run("qkv translate run --with run --without cross.1.1"),
                "qkv: --with and --without exclude each other: heads of several runs cannot be told apart"));
}

Test(without, a_recurrent_run_has_one_head)
{
    const char *folder = enter(scratch("recurrent"));
    write_text(folder, "train.tsv", "a b\tB A\nb\tB\na\tA\n");
    for (int with = 0; with < 2; with++) {
        write_text(folder, "c.yaml",
                   format("name: c\ndata: {train: train.tsv, src: {lang: a}, trg: {lang: b}}\nmodel:\n"
                          "  encoder: {type: recurrent, hidden_size: 8}\n"
                          "  decoder: {type: recurrent, hidden_size: 8, attention: {score: %s}}\n"
                          "training: {model_dir: run, updates: 5}\n",
                          with ? "general" : "none"));
        run_ok("qkv train c.yaml -q --overwrite 2>&1");
        struct outcome outcome = run("echo a | qkv translate run --without cross.1.%d", 2 - with);
        cr_expect_eq(outcome.exit_code, with ? 0 : 2, "%s", outcome.error);
        if (!with)
            cr_expect_str_eq(outcome.error,
                             "qkv: --without: there is no head 'cross.1.2': the model has no attention\n");
    }
    cr_expect(refused(run("qkv translate run --without cross.2.1"),
                      "qkv: --without: there is no head 'cross.2.1': the heads of the model are cross.1.1"));
}
