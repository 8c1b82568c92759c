/* qkv score: metrics, options, scores of sentences, and the comparison of systems. tests/metrics/ tests the numbers. */
#include "json.h"
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* A folder with the translations a and b, and the references r, of which the second has two. */
static const char *texts(const char *name)
{
    const char *folder = scratch(name);
    write_text(folder, "a", "the cat sat on a mat\nA dog barks\nno\n");
    write_text(folder, "b", "the cat sat on the mat\nA dog is sleeping\nno\n");
    write_text(folder, "r", "The cat sat on the mat\nthe dog barks\tA dog is barking\nno\n");
    return folder;
}

Test(score, computes_the_metrics_that_are_asked_for)
{
    enter(texts("metrics"));
    cr_expect(lacks(run_ok("qkv score a r"), "TER"));
    char *text = run_ok("qkv score a r -m ter --metrics bleu,chrf --chrf-word-order 2");
    cr_expect(shows(text, "TER                19.05  (nrefs:var|case:lc|tok:tercom|"));
    cr_expect(shows(text, "\nchrF++             "));
    cr_expect(shows(text, "|nw:2|"));
    cJSON *object = json_parsed(run_ok("qkv score a r -m ter,bleu --json --tokenize intl"));
    cr_expect_null(cJSON_GetObjectItem(object, "chrf"));
    const cJSON *ter = cJSON_GetObjectItem(object, "ter_details"),
                *bleu = cJSON_GetObjectItem(object, "bleu_details");
    cr_expect_eq(json_number(ter, "edits"), 2);
    cr_expect_eq(json_number(ter, "reference_length"), 10.5);
    cr_expect_eq(json_number(bleu, "hypothesis_length"), 10);
    cr_expect_eq(json_number(bleu, "reference_length"), 10);
    cr_expect_eq(json_number(bleu, "brevity_penalty"), 1);
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(bleu, "precisions")), 4);
    cr_expect(shows(cJSON_GetObjectItem(object, "bleu_signature")->valuestring, "|tok:intl|"));
    cJSON_Delete(object);
}

/* Every option reaches its metric: the signature says so, and the score changes. */
Test(score, passes_its_options_on)
{
    static const struct {
        const char *options, *plain, *signature;
    } cases[] = {
        {"-m bleu --lowercase", "-m bleu", "|case:lc|"},
        {"-m bleu --tokenize char", "-m bleu", "|tok:char|"},
        {"-m bleu --smooth-method floor", "-m bleu", "|smooth:floor[0.10]|"},
        {"-m bleu --smooth-method add-k --smooth-value 0.4", "-m bleu", "|smooth:add-k[0.40]|"},
        {"-m bleu --smooth-method none", "-m bleu", "|smooth:none|"},
        {"-m chrf --chrf-char-order 3", "-m chrf", "|nc:3|"},
        {"-m chrf --chrf-word-order 1", "-m chrf", "|nw:1|"},
        {"-m chrf --chrf-beta 1", "-m chrf", "|beta:1|"},
        {"-m ter --ter-normalized", "-m ter", "|norm:yes|"},
        {"-m ter --ter-no-punct", "-m ter", "|punct:no|"},
        {"-m ter --ter-case-sensitive", "-m ter", "|case:mixed|"},
    };
    const char *folder = enter(scratch("options"));
    write_text(folder, "a", "The dog, in the sun, sleeps\n");
    write_text(folder, "r", "the dog , sleeps in a sun\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *with = run_ok("qkv score a r %s", cases[i].options);
        char *without = run_ok("qkv score a r %s", cases[i].plain);
        cr_expect(shows(with, cases[i].signature), "%s", cases[i].options);
        cr_expect(lacks(without, cases[i].signature));
        *strchr(with, '(') = *strchr(without, '(') = '\0';
        cr_expect_str_neq(with, without, "%s", cases[i].options);
    }
    write_text(folder, "a", "the dog\n");
    write_text(folder, "r", "the dog\n");
    cr_expect(shows(run_ok("qkv score a r"), "BLEU               0.00  ("));
    cr_expect(shows(run_ok("qkv score a r --effective-order"), "BLEU               100.00  ("));
}

Test(score, scores_each_sentence)
{
    enter(texts("sentences"));
    char *table = run_ok("qkv score a r -m bleu,ter --sentence-level");
    cr_expect_str_eq(table,
                     "line\tbleu\tter\n1\t34.3295\t16.6667\n2\t79.3701\t28.5714\n3\t100.0000\t0.0000\n");
    cJSON *object = json_parsed(run_ok("qkv score a r -m bleu,ter --sentence-level --json"));
    const cJSON *list = cJSON_GetObjectItem(object, "sentences");
    cr_assert_eq(cJSON_GetArraySize(list), 3);
    cr_expect_float_eq(json_number(cJSON_GetArrayItem(list, 1), "ter"), 100 / 3.5, 1e-12);
    cr_expect(shows(cJSON_GetObjectItem(object, "bleu_signature")->valuestring, "|eff:yes|"));
    cr_expect_gt(json_number(object, "bleu"), 10);
    cJSON_Delete(object);
}

Test(score, compares_systems)
{
    enter(texts("systems"));
    char *text = run_ok("qkv score a r --against b --against a -m ter");
    cr_expect(shows(text, "TER  (nrefs:var|bs:1000|seed:12345|case:lc|"));
    cr_expect(shows(text, "   score      mean +- 95 %        p  system\n   19.05 "));
    cr_expect(shows(text, "  a\n    9.52 "));
    cr_expect(shows(text, "   same  a\n"));
    cJSON *object = json_parsed(run_ok("qkv score a r --against b --samples 50 --seed 7 --json"));
    cr_expect_eq(json_number(object, "samples"), 50);
    cr_expect_eq(json_number(object, "seed"), 7);
    const cJSON *list = cJSON_GetObjectItem(object, "systems");
    cr_assert_eq(cJSON_GetArraySize(list), 2);
    const cJSON *first = cJSON_GetArrayItem(list, 0), *second = cJSON_GetArrayItem(list, 1);
    cr_expect_str_eq(cJSON_GetObjectItem(second, "system")->valuestring, "b");
    cr_expect_null(cJSON_GetObjectItem(cJSON_GetObjectItem(first, "bleu_bootstrap"), "p_value"));
    double p = json_number(cJSON_GetObjectItem(second, "chrf_bootstrap"), "p_value");
    cr_expect(p >= 1. / 51 && p <= 1);
    cJSON *alone = json_parsed(run_ok("qkv score b r --json"));
    cr_expect_eq(json_number(alone, "bleu"), json_number(second, "bleu"));
    cJSON_Delete(alone);
    cJSON_Delete(object);
}

/* A file of sentence pairs, whose sources count as references, gets one note; several references get none. */
Test(score, says_that_columns_are_references)
{
    const char *folder = enter(texts("columns"));
    write_text(folder, "de", "die Katze saß auf der Matte\nder Hund bellt\nnein\n");
    run_ok("cut -f1 r >one.tsv && paste de one.tsv >pairs && gzip <pairs >pairs.gz && paste b one.tsv >two");
    static const char note[] = "shares hardly any words with the translations, but each of the 2 columns "
                               "counts as a reference: is it the source (cut -f2 takes one column)\n";
    cr_expect_str_eq(run("qkv score a pairs").error, format("qkv: note: column 1 of pairs %s", note));
    cr_expect_str_eq(run("qkv score a pairs.gz --against b").error,
                     format("qkv: note: column 1 of pairs.gz %s", note));
    cr_expect_str_empty(run("qkv score a two").error);
    cr_expect_str_empty(run("qkv score a r").error, "not all lines have two columns");
    cr_expect_str_empty(run("qkv score a one.tsv").error);
    cr_expect_str_eq(run("qkv score pairs one.tsv --against a").error,
                     "qkv: note: 3 of 3 lines of pairs have a tab, which counts as white space: are they "
                     "sentence pairs (cut -f2 takes one column)\n");
}

/* As in sacreBLEU: an empty column is no reference, unless there is no other. */
Test(score, leaves_out_empty_columns)
{
    enter(texts("empty"));
    run_ok("cut -f1 r >one && sed 's/$/\t/' one >right && sed 's/^/\t\t/' one >left");
    char *one = run_ok("qkv score a one -m bleu,chrf,ter");
    cr_expect_str_eq(run_ok("qkv score a right -m bleu,chrf,ter"), one);
    cr_expect_str_eq(run_ok("qkv score a left -m bleu,chrf,ter"), one);
    cr_expect_str_empty(run("qkv score a left").error, "an empty column is no source");
    run_ok("printf 'a\n\n' >two && printf 'a\n\t\n' >tab");
    cr_expect_str_eq(run_ok("qkv score two tab"), run_ok("qkv score two two"));
}

Test(score, refuses_options_without_effect)
{
    static const char *const cases[][2] = {
        {"a r -m x", "qkv: --metrics is 'x', but must be one of bleu, chrf, ter"},
        {"a r --tokenize into", "qkv: --tokenize is 'into'; did you mean intl"},
        {"a r --smooth-method add", "qkv: --smooth-method is 'add'; did you mean add-k"},
        {"a r --smooth-value 1",
         "qkv: --smooth-value has no effect with --smooth-method exp: choose floor or add-k"},
        {"a r --ter-normalized", "qkv: --ter-normalized has no effect without ter: add it to --metrics"},
        {"a r -m ter --lowercase",
         "qkv: --lowercase has no effect without bleu or chrf: add it to --metrics"},
        {"a r -m ter --chrf-beta 3", "qkv: --chrf-beta has no effect without chrf: add it to --metrics"},
        {"a r -m ter --tokenize none", "qkv: --tokenize has no effect without bleu: add it to --metrics"},
        {"a r --chrf-char-order 11", "qkv: --chrf-char-order is 11, but must lie between 1 and 10"},
        {"a r --samples 10", "qkv: --samples has no effect without --against"},
        {"a r --seed 1", "qkv: --seed has no effect without --against"},
        {"a r --against b --sentence-level",
         "qkv: --sentence-level scores one system: give it without --against"},
        {"a r --against -", "qkv: r: has more lines than <stdin>, which ends after line 0"},
        {"- r --against -", "qkv: standard input can hold only one of the texts"},
        {"a r --against none", "qkv: none: cannot be read: No such file or directory"},
        {"a r --against short", "qkv: r: has more lines than short, which ends after line 1"},
        {"a r --against long", "qkv: long: has more lines than r, which ends after line 3"},
    };
    const char *folder = enter(texts("refused"));
    write_text(folder, "short", "a\n");
    write_text(folder, "long", "a\nb\nc\nd\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = run("qkv score %s </dev/null", cases[i][0]);
        cr_expect(refused(outcome, cases[i][1]), "%s: %s", cases[i][0], outcome.error);
    }
}

/* Text of the tokenizer of Moses is scored as it is, and BLEU that tokenizes it again says so. */
Test(score, notes_that_references_are_tokenized)
{
    const char *folder = enter(scratch("tokenized")),
               *note = "qkv: note: 3 of 4 references look tokenized. BLEU with the tokenizer";
    write_text(folder, "r", "it &apos;s a well @-@ known dog .\nI see , he said .\n\" Hi &quot; .\nyes\n");
    write_text(folder, "plain", "It's a well-known dog.\nI see, he said.\nA B. C .\nyes ?\n");
    struct outcome outcome = run("qkv score r r");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_eq(strncmp(outcome.error, note, strlen(note)), 0, "%s", outcome.error);
    cr_expect(shows(outcome.output, "BLEU               100.00  (nrefs:1|case:mixed|eff:no|tok:13a|"));
    cr_expect(shows(run("qkv score r r --tokenize intl --against r").error, note));
    cr_expect_str_empty(run("qkv score plain plain").error);
    cr_expect_str_empty(run("qkv score r r -m chrf").error);
    write_text(folder, "columns",
               "Hi.\tHi there.\tHi .\nA dog.\tThe dog.\tA dog .\nNo.\tNot.\tNo .\nYes.\tYeah.\tYes .\n");
    cr_expect_str_empty(run("qkv score plain columns").error, "4 of 12 look tokenized");
    outcome = run("qkv score r r --tokenize none --json");
    cr_expect_str_empty(outcome.error);
    cJSON *object = json_parsed(outcome.output);
    cr_expect_eq(json_number(cJSON_GetObjectItem(object, "bleu_details"), "hypothesis_length"), 8 + 6 + 4 + 1,
                 "&apos;s and @-@ are words");
    cJSON_Delete(object);
}

Test(score, notes_that_references_have_no_spaces)
{
    const char *folder = enter(scratch("no_spaces")),
               *note = "qkv: note: 2 of 3 references have no spaces between words";
    write_text(folder, "zh", "他是我的好老师。\n我很喜欢你的书。\n好\n");
    write_text(folder, "de", "Straßenübergänge\nÄÄÄÄÄÄÄÄ\n안녕 하세요 여러분\n");
    struct outcome outcome = run("qkv score zh zh");
    cr_expect_eq(strncmp(outcome.error, note, strlen(note)), 0, "%s", outcome.error);
    cr_expect_str_empty(run("qkv score zh zh --tokenize char").error);
    cr_expect_str_empty(run("qkv score zh zh -m chrf").error);
    cr_expect_str_empty(run("qkv score de de").error);
}

/* At least half of the references have capitals, and no translation has. */
Test(score, notes_that_translations_have_no_capitals)
{
    const char *folder = enter(scratch("capitals")),
               *note = "qkv: note: the translations have no capital letters, but 6 of 12 references do: BLEU "
                       "and chrF count each as an error; --lowercase ignores case\n";
    write_text(folder, "r.4", "A dog\n\303\211t\303\251\nno\nyes\n");
    write_text(folder, "lower.4", "a dog\n\303\251t\303\251\nno\nyes\n");
    write_text(folder, "few.4", "a dog\n\303\251t\303\251\nno\nYes\n");
    run_ok("for name in r lower few; do cat $name.4 $name.4 $name.4 >$name; done");
    cr_expect_str_empty(run("qkv score lower.4 r.4").error, "few sentences");
    cr_expect_str_eq(run("qkv score lower r").error, note);
    cr_expect_str_eq(run("qkv score lower r --against lower").error, note);
    cr_expect_str_empty(run("qkv score lower r --lowercase").error);
    cr_expect_str_empty(run("qkv score lower r -m ter").error);
    cr_expect_str_empty(run("qkv score few r").error);
    cr_expect_str_empty(run("qkv score lower few").error, "3 of 12 references have capitals");
    tiny_task("capitals");
    run_ok("qkv train c.yaml -q -s training.updates=60 -s data.dev= -s data.trg.lowercase=true");
    struct outcome outcome = run("for i in 1 2 3 4 5 6; do printf 'a\tA\nb\tB\n'; done | qkv evaluate run -");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(shows(outcome.error, "have no capital letters, but 12 of 12 references do"));
}

/* A run that joins its translations to plain text cannot be compared with tokenized references in every metric. */
Test(score, notes_that_translations_are_joined_and_references_tokenized)
{
    static const char *const notes[] = {
        "note: 2 of 2 references look tokenized. BLEU with the tokenizer 13a",
        "note: 2 of 2 references look tokenized, but translations are joined"};
    const char *folder = enter(tiny_task("joined"));
    write_text(folder, "moses.tsv", "a b\tit &apos;s a dog .\nc d\tyes , a well @-@ known dog .\n");
    for (int joined = 0; joined < 2; joined++) {
        run_ok("qkv train c.yaml -q --overwrite -s training.updates=2 -s data.train=moses.tsv -s data.dev= "
               "-s data.trg.split_punctuation=%s",
               joined ? "true" : "false");
        struct outcome outcome = run("qkv evaluate run moses.tsv --metrics bleu,ter");
        cr_expect_eq(outcome.exit_code, 0);
        cr_expect(shows(outcome.error, notes[joined]));
        cr_expect(lacks(outcome.error, notes[!joined]));
        outcome = run("qkv evaluate run moses.tsv --tokenize none");
        cr_expect_eq(!!strstr(outcome.error, notes[1]), joined, "%s", outcome.error);
        cr_expect(lacks(outcome.error, notes[0]));
    }
}
