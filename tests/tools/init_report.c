/* What qkv init prints about the pairs that it has read. */
#include "init_pairs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(init_report, joins_the_lines_of_a_cell)
{
    const char *folder = enter(scratch("joined"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    run_ok("printf 'two\\t\"first line\\nsecond line\"\\n' >>x.tsv");
    const char *output = run_ok("qkv init x.tsv --updates 5");
    cr_expect(shows(output, "x.tsv: 41 pairs in "));
    cr_expect(shows(output, "\n  joined the lines of 1 cell with line breaks\n"));
    cr_expect_eq(atoi(run_ok("cat '%s'/x.*.tsv | grep -c '^two\tfirst line second line$'", folder)), 1);
}

Test(init_report, reports_the_header_of_anki)
{
    const char *folder = enter(scratch("anki_header"));
    write_pairs(folder, "notes.tsv", 40, "%s\t%s\n");
    run_ok("{ printf '#separator:tab\\n#html:true\\n#guid column:1\\n#deck column:2\\n'; awk '{print \"id\" "
           "NR \"x\\tdeck\" NR %% 5 \"\\t\" $0}' notes.tsv; } >anki.txt");
    const char *output = run_ok("qkv init anki.txt --updates 5");
    cr_expect(shows(
        output,
        "anki.txt: 40 pairs in columns 3 and 4 of 4\n"
        "  skipped 4 header lines of Anki, and the columns that they name: guid (1), deck (2)\n  source"));
    output = run_ok("qkv init anki.txt --updates 5 --overwrite --columns 4,3");
    cr_expect(shows(output, "\n  skipped 4 header lines of Anki\n  source"));
}

Test(init_report, says_that_the_name_of_the_file_gave_the_languages)
{
    const char *folder = enter(scratch("named"));
    write_pairs(folder, "spa-eng.txt", 40, "%s\t%s\n");
    static const char advice[] = "\n  languages from the name of the file: es in column 1, en in column 2; "
                                 "if it is the other way round: --columns 1,2 --src en --trg es\n";
    static const char *const advised[] = {"",         "--src es",     "--trg en", "--src en --trg es",
                                          "--src en", "--columns 2,1"};
    for (size_t i = 0; i < sizeof advised / sizeof *advised; i++) {
        const char *output = run_ok("qkv init spa-eng.txt --updates 5 --overwrite %s", advised[i]);
        cr_expect(shows(output, advice), "%s", advised[i]);
    }
    static const char *const silent[] = {"--src es --trg en", "--columns 1,2 --src en --trg es", "--src de"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        const char *output = run_ok("qkv init spa-eng.txt --updates 5 --overwrite %s", silent[i]);
        cr_expect(lacks(output, "name of the file"), "%s", silent[i]);
    }
    /* The advice corrects both. */
    const char *output =
        run_ok("qkv init spa-eng.txt --updates 5 --overwrite --columns 1,2 --src en --trg es");
    cr_expect(shows(output, "in columns 1 and 2 of 2\n  source (en): 4.0 words"));
}

Test(init_report, says_which_language_is_not_known)
{
    const char *folder = enter(scratch("unknown_language"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    static const char *const cases[][2] = {
        {"", "\n  the languages are not known: name them, as in --src en --trg fr\n"},
        {"--src en", "\n  the language of the target is not known: name it, as in --trg fr\n"},
        {"--trg fr", "\n  the language of the source is not known: name it, as in --src en\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *output = run_ok("qkv init x.tsv --updates 5 --overwrite %s", cases[i][0]);
        cr_expect(shows(output, cases[i][1]), "%s", cases[i][0]);
    }
    const char *output = run_ok("qkv init x.tsv --updates 5 --overwrite --src en --trg fr");
    cr_expect(lacks(output, "not known"));
}

Test(init_report, says_that_the_time_is_too_short_for_one_epoch)
{
    enum { PAIRS = 4900, WORDS = 160, SIZE = 2 * WORDS * 4 };
    const char *folder = enter(scratch("short"));
    char *text = remember(calloc(PAIRS, SIZE + 1)), *end = text;
    for (unsigned i = 0, number = 1; i < PAIRS; i++)
        for (unsigned w = 1; w <= 2 * WORDS; w++) {
            number = number * 1103515245 + 12345;
            end += sprintf(end, "%c%c%c%c", 'a' + (number >> 16) % 26, 'a' + (number >> 8) % 2, 'z',
                           w == WORDS       ? '\t'
                           : w == 2 * WORDS ? '\n'
                                            : ' ');
        }
    write_text(folder, "x.tsv", text);
    const char *output = run_ok("qkv init x.tsv --minutes 0.25 -j 1 --dev 500");
    const char *line = strstr(output, " updates ("),
               *advice = strstr(output, "  this is less than one pass ");
    cr_assert_not_null(line, "%s", output);
    double epochs = atof(line + strlen(" updates ("));
    int minutes = 0;
    if (epochs < 1) cr_expect_not_null(advice, "%s", line);
    if (epochs > 1) cr_expect_null(advice, "%s", line);
    if (!advice) return;
    cr_expect_eq(
        sscanf(advice, "  this is less than one pass over the text; --minutes %d would suit it\n", &minutes),
        1, "%s", advice);
    cr_expect_geq(minutes, 1);
}

Test(init_report, warns_of_few_and_of_repeated_pairs)
{
    const char *folder = enter(scratch("few_pairs"));
    write_pairs(folder, "few.tsv", 40, "%s\t%s\n");
    write_pairs(folder, "many.tsv", 10000, "%s\t%s\n");
    run_ok("cat few.tsv few.tsv >twice.tsv && head -9999 many.tsv >some.tsv");
    const char *few = "  few pairs: expect good translations of sentences like these, and poor ones of "
                      "others; 10,000 to 100,000 pairs are usual\n",
               *repeated = "  repeated pairs teach nothing new: remove them with --clean\n";
    const char *output = run_ok("qkv init few.tsv --updates 5");
    cr_expect(strstr(output, few) && !strstr(output, repeated), "%s", output);
    output = run_ok("qkv init some.tsv --updates 5");
    cr_expect(strstr(output, few) && !strstr(output, repeated), "%s", output);
    output = run_ok("qkv init twice.tsv --updates 5");
    cr_expect(strstr(output, few) && strstr(output, repeated), "%s", output);
    output = run_ok("qkv init many.tsv --updates 5");
    cr_expect(!strstr(output, few) && !strstr(output, repeated), "%s", output);
}

Test(init_report, warns_of_markup)
{
    const char *folder = enter(scratch("markup"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    run_ok("printf 'a<br>\\tb\\n' >>x.tsv");
    const char *output = run_ok("qkv init x.tsv --updates 5");
    cr_expect(shows(output, "\n  1 pair contains HTML, such as <br> or &nbsp;, which the model would learn "
                            "to write: remove it with --clean; Anki leaves it out if you untick \"Include "
                            "HTML and media references\" when you export\n"));
    run_ok("printf '<hr>\\tb\\n' >>x.tsv");
    output = run_ok("qkv init x.tsv --updates 5 --overwrite --clean");
    cr_expect(lacks(output, "contain HTML"));
    cr_expect(
        shows(output, "\ncleaned: took HTML out of 2 pairs; removed 1 in which a side had nothing else\n"));
    cr_expect_eq(atoi(run_ok("cat '%s'/x.*.tsv | grep -c '<' || :", folder)), 0);
}

Test(init_report, cleans_on_request)
{
    const char *folder = enter(scratch("clean"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n%1$s\t%2$s\n");
    run_ok("printf 'no\\tfar far far far far far far far far too long\\nempty\\t \\n' >>x.tsv");
    const char *kept = run_ok("qkv init x.tsv --updates 5");
    cr_expect(shows(kept, "x.tsv: 81 pairs in"));
    cr_expect(shows(kept, "  left out 1 pair with an empty side (the first is line 82)\n"));
    cr_expect(shows(kept, "49.4 % of the pairs repeat an earlier one; 98.8 % share"));
    cr_expect(lacks(kept, "cleaned"));
    const char *cleaned = run_ok("qkv init x.tsv --updates 5 --clean --overwrite");
    cr_expect(shows(cleaned, "cleaned: removed 40 repeated pairs and 1 in which one side is far too long for "
                             "the other; 40 remain\n"));
    cr_expect_eq(lines_of(folder, "x.train.tsv"), 36);
    /* The advice is only for those who have not followed it. */
    cr_expect(shows(kept, "remove them with --clean"));
    cr_expect(lacks(cleaned, "remove them with --clean"));
}

Test(init_report, shows_each_example_once)
{
    const char *folder = enter(scratch("few"));
    write_text(folder, "two.tsv", "a\tb\nc\td\n");
    struct outcome outcome = run("qkv init two.tsv --src en --trg es");
    const char *shown = strstr(outcome.output, "  for example: ");
    cr_assert_not_null(shown, "%s", outcome.output);
    cr_expect_str_eq(shown, "  for example: a = b\n               c = d\n");
}

Test(init_report, leaves_tokenized_text_as_it_is)
{
    const char *folder = enter(scratch("tokenized"));
    char *text = remember(calloc(60, 80)), *end = text;
    for (int i = 0; i < 60; i++)
        end += sprintf(end, "it &apos;s %c%c dog %d .\ten %c%c perro <b> %d.\n", 'a' + i % 7, 'a' + i % 11, i,
                       'n' + i % 7, 'm' + i % 11, i);
    write_text(folder, "pairs.tsv", text);
    struct outcome outcome = run("qkv init pairs.tsv --src en --trg es --updates 6");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(shows(outcome.output,
                    "\n  the source is tokenized (spaces before full stops, or marks such as &apos;): "));
    /* &apos; is of the tokenizer, <b> is not. */
    cr_expect(shows(outcome.output, "\n  60 pairs contain HTML"));
    cr_expect_str_eq(run_ok("grep -o 'split_punctuation: [a-z]*' 'pairs.yaml'"),
                     "split_punctuation: false\nsplit_punctuation: true\n");
    run_ok("sed 's/<b> //' pairs.tsv >plain.tsv");
    outcome = run("qkv init plain.tsv --src en --trg es --updates 6");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(lacks(outcome.output, "HTML"));
}

/* Writes x.tsv with `count` pairs of `words` words a side, which all differ. */
static void write_long_pairs(const char *folder, int count, int words)
{
    run_ok("cd '%s' && awk 'BEGIN { for (i = 1; i <= %d; i++) for (side = 0; side < 2; side++) { for (w = 1; "
           "w <= %d; w++) printf \"%%s%%s\", side ? \"b\" i : \"a\" i, w < %d ? \" \" : side ? \"\\n\" : "
           "\"\\t\" } }' >>x.tsv",
           folder, count, words, words);
}

Test(init_report, shows_the_beginning_of_long_examples)
{
    const char *folder = enter(scratch("long_examples"));
    write_long_pairs(folder, 40, 70);
    const char *output = run_ok("qkv init x.tsv --updates 5");
    /* 30 words of a letter and a digit, and as many spaces or full ends, make 120 characters. */
    const char *example = strstr(output, "for example: ");
    cr_assert_not_null(example, "%s", output);
    const char *cut = strstr(example, "...");
    cr_assert_not_null(cut, "%s", output);
    cr_expect_eq(cut - example, (long)strlen("for example: ") + 120, "%s", output);
    cr_expect(lacks(output, "leaves out"));
}

Test(init_report, says_how_many_long_pairs_training_leaves_out)
{
    const char *folder = enter(scratch("long_pairs"));
    write_pairs(folder, "x.tsv", 120, "%s\t%s\n");
    write_long_pairs(folder, 40, 251);
    const char *output = run_ok("qkv init x.tsv --updates 5 && grep max_length x.yaml");
    const char *found = strstr(output, "\n  training leaves out ");
    cr_assert_not_null(found, "%s", output);
    /* A quarter of all pairs; of those to train, about as much. */
    int percent = atoi(found + strlen("\n  training leaves out "));
    cr_expect(percent >= 20 && percent <= 30, "%s", output);
    cr_expect(shows(output, format("drops longer sentences, on either side %d %%", percent)));
    output = run_ok("qkv train x.yaml 2>&1");
    cr_expect(shows(output, "dropped"));
    /* Such pairs of dev and test are left out: only short ones remain. */
    cr_expect(
        shows(output = run_ok("qkv init x.tsv --updates 5 --overwrite"), "\n  left out of dev and test: "),
        "%s", output);
    cr_expect_eq(atoi(run_ok("cat x.dev.tsv x.test.tsv | awk 'length > 1000' | wc -l")), 0);
    folder = enter(scratch("only_long_pairs"));
    write_long_pairs(folder, 40, 251);
    cr_expect(
        refused(run("qkv init x.tsv -q"),
                "qkv: x.tsv: all of its training pairs have a side of more than 250 tokens, but qkv learns "
                "from sentences: split the texts, so that each pair is a sentence and its translation"));
    cr_expect_str_eq(run_ok("ls '%s'", folder), "x.tsv\n");
}

Test(init_report, says_that_both_sides_are_the_same)
{
    const char *folder = enter(scratch("copied"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    const char *output = run_ok("qkv init x.tsv --updates 5");
    cr_expect(lacks(output, "same text"));
    run_ok("awk -F'\t' '{ print $1 \"\t\" $1 \"\t\" $2 }' x.tsv >three.tsv && cut -f1,2 three.tsv >two.tsv");
    output = run_ok("qkv init three.tsv --updates 5");
    cr_expect(shows(output, "\n  100.0 % of the pairs have the same text on both sides, from which a model "
                            "learns to copy: --columns names the columns to take\n"));
    output = run_ok("qkv init two.tsv --updates 5");
    cr_expect(shows(output, "learns to copy\n"));
}
