/* What qkv init reads, and what it prints about the pairs. tests/data/pairs_file.c tests the reader. */
#include "init_pairs.h"

/* Makes files from plain.tsv, runs qkv init, and says what its output must show, and must not. */
struct report {
    const char *make, *arguments, *shown, *also, *lacking;
};

static void expect_reports(const struct report *reports, size_t count)
{
    enter(scratch("reports"));
    write_pairs("plain.tsv", 40, "%s\t%s\n");
    for (size_t i = 0; i < count; i++) {
        const char *output =
            run_ok("{ %s; } && qkv init --updates 5 --overwrite %s", reports[i].make, reports[i].arguments);
        cr_expect(!reports[i].shown || shows(output, reports[i].shown), "%zu: %s", i, reports[i].make);
        cr_expect(!reports[i].also || shows(output, reports[i].also), "%zu: %s", i, reports[i].make);
        cr_expect(!reports[i].lacking || lacks(output, reports[i].lacking), "%zu: %s", i, reports[i].make);
    }
}
#define EXPECT_REPORTS(reports) expect_reports(reports, sizeof reports / sizeof *reports)

/* ---- columns ---- */

/* A first line of words that name columns is no pair; one of words that are also codes of languages is, and so are two names of
 * one language. A header of languages exchanges the columns where the other direction is asked for. */
#define TITLED(line, header, languages)                                                                      \
    LIST("{ printf '" line "\\n'; cat plain.tsv; } >x.tsv", "x.tsv --src es-MX",                             \
         header ? "below a header" : NULL,                                                                   \
         languages ? "x.tsv: 40 pairs in columns 2 and 1 of 2, below a header\n  source (es-MX): 3.0 words"  \
                   : "in columns 1 and 2 of 2",                                                              \
         header ? NULL : "header")

Test(init_report, knows_titles_of_columns)
{
    static const struct report reports[] = {
        TITLED("en-US\\tes-ES", true, true),
        TITLED("en_US\\tes_MX", true, true),
        TITLED("English (US)\\tSpanish (Spain)", true, true),
        TITLED("Source text\\tTarget text", true, false),
        TITLED("English sentence\\tSpanish translation", true, true),
        TITLED("text_en\\ttext_es", true, true),
        TITLED("it is\\tes so", false, false),
        TITLED("My answer\\tMi respuesta", false, false),
        TITLED("French\\tFrancés", false, false),
        TITLED("English\\tEnglish", true, false),
    };
    EXPECT_REPORTS(reports);
}

#define LABELS(print) "awk -F '\t' '{print " print "}' plain.tsv >x.tsv"

Test(init_report, says_which_columns_it_takes)
{
    static const struct report reports[] = {
        /* The sounds of Anki are no sentences, and no parts of sentences. */
        {"sed 's/\t/\t[sound:a.mp3]\t/' plain.tsv >x.tsv", "x.tsv", "40 pairs in columns 1 and 3 of 3"},
        {"sed 's/\t/ [sound:a.mp3]\t/' plain.tsv >x.tsv", "x.tsv --clean -q && cat x.train.tsv",
         .lacking = "sound:"},
        /* A column of labels is taken only where there are not two others. */
        {LABELS("\"noun-\" NR \"\\t\" $0"), "x.tsv", "40 pairs in columns 2 and 3 of 3"},
        {LABELS("(NR % 3 ? \"easy\" : \"hard\") \"\\t\" $0"), "x.tsv", "40 pairs in columns 2 and 3 of 3"},
        {LABELS("(NR % 7 ? $1 : \"word\") \"\\t\" $2 \"\\ttatoeba\" NR % 3"), "x.tsv",
         "40 pairs in columns 1 and 2 of 3"},
        {LABELS("\"noun-\" NR \"\\t\" $2"), "x.tsv", "40 pairs in columns 1 and 2 of 2"},
        {"{ printf '#separator:tab\n#html:true\n#guid column:1\n#deck column:2\n'; awk '{print \"id\" NR "
         "\"x\\tdeck\" NR % 5 \"\\t\" $0}' plain.tsv; } >anki.txt",
         "anki.txt",
         "anki.txt: 40 pairs in columns 3 and 4 of 4\n  skipped 4 header lines of Anki, and the columns that "
         "they name: guid (1), deck (2)\n  source"},
        {":", "anki.txt --columns 4,3", "\n  skipped 4 header lines of Anki\n  source"},
        {"{ cat plain.tsv; printf 'two\t\"first line\nsecond line\"\n'; } >x.tsv", "x.tsv && cat x.[dt]*.tsv",
         "\n  joined the lines of 1 cell with line breaks\n    the first is in: two = first line second "
         "line\n",
         "\ntwo\tfirst line second line\n"},
    };
    EXPECT_REPORTS(reports);
}

/* ---- languages ---- */

#define UNKNOWN(whose) "\n  the language of the " whose " is not known: name it, as in --"
#define FROM_NAME                                                                                            \
    "\n  languages from the name of the file: es in column 1, en in column 2; if it is the other way "       \
    "round: --columns 1,2 --src en --trg es\n"

Test(init_report, says_what_it_knows_of_the_languages)
{
    static const struct report reports[] = {
        {"cp plain.tsv x.tsv", "x.tsv",
         "\n  the languages are not known: name them, as in --src en --trg fr\n"},
        {":", "x.tsv --src en", UNKNOWN("target") "trg fr\n"},
        {":", "x.tsv --trg fr", UNKNOWN("source") "src en\n"},
        {":", "x.tsv --src en --trg fr", .lacking = "not known"},
        {"cp plain.tsv spa-eng.txt", "spa-eng.txt", FROM_NAME},
        {":", "spa-eng.txt --src es", FROM_NAME},
        {":", "spa-eng.txt --trg en", FROM_NAME},
        {":", "spa-eng.txt --src en --trg es", FROM_NAME},
        {":", "spa-eng.txt --src en", FROM_NAME},
        {":", "spa-eng.txt --columns 2,1", FROM_NAME},
        {":", "spa-eng.txt --src es --trg en", .lacking = "name of the file"},
        {":", "spa-eng.txt --src de", .lacking = "name of the file"},
        /* The advice corrects both. */
        {":", "spa-eng.txt --columns 1,2 --src en --trg es",
         "in columns 1 and 2 of 2\n  source (en): 4.0 words", .lacking = "name of the file"},
        /* Names and codes of three letters become those of two, which decide about apostrophes and spaces. */
        {":", "x.tsv --src English --trg french && echo $(sed -n 's/^ *lang: //p' x.yaml)", "\nen fr\n"},
        {":", "x.tsv --src eng --trg FRA && echo $(sed -n 's/^ *lang: //p' x.yaml)", "\nen fr\n"},
        {":", "x.tsv --src pt-BR --trg zh_CN && echo $(sed -n 's/^ *lang: //p' x.yaml)", "\npt-BR zh_CN\n"},
        {":", "x.tsv --src haw --trg Fran\u00e7ais && echo $(sed -n 's/^ *lang: //p' x.yaml)", "\nhaw fr\n"},
        /* The files of a prefix may have any names of the languages, or other suffixes. */
        {"for name in p.eng p.fr q.human q.post; do cut -f 1 x.tsv >$name; done", "p --src English",
         "p.eng and p.fr: 40 pairs"},
        {":", "q --src human --trg post", "q.human and q.post: 40 pairs"},
    };
    EXPECT_REPORTS(reports);
}

/* ---- what the pairs are like ---- */

#define FEW                                                                                                  \
    "  few pairs: expect good translations of sentences like these, and poor ones of others; 10,000 to "     \
    "100,000 pairs are usual\n"
#define VERY_FEW                                                                                             \
    "  very few pairs: the model learns them by heart, and gives words without sense for other sentences, "  \
    "even for those of dev and test; with some thousand pairs it learns to translate sentences like them, "  \
    "and 10,000 to 100,000 are usual\n"
#define REPEATED "  repeated pairs teach nothing new: remove them with --clean\n"
#define COPIES   "\n  100.0 % of the pairs have the same text on both sides, from which a model learns to copy"
#define MANY(count)                                                                                          \
    "awk 'BEGIN {for (i = 0; i < " #count                                                                    \
    "; i++) print \"one dog number \" i \".\\tun perro \" i \".\"}' >many.tsv"

Test(init_report, says_what_the_pairs_are_like)
{
    static const struct report reports[] = {
        {":", "plain.tsv", VERY_FEW, .lacking = REPEATED},
        {"cat plain.tsv plain.tsv >x.tsv", "x.tsv", VERY_FEW, REPEATED, "expect good translations"},
        {MANY(1999), "many.tsv", VERY_FEW, .lacking = FEW},
        {MANY(2000), "many.tsv", FEW, .lacking = VERY_FEW},
        {MANY(9999), "many.tsv", FEW, .lacking = REPEATED},
        {MANY(10000), "many.tsv", .lacking = FEW},
        {"{ cat plain.tsv; printf 'a<br>\tb\n'; } >x.tsv", "x.tsv",
         "\n  1 pair contains HTML, such as <br> or &nbsp;, which the model would learn to write: remove it "
         "with --clean; Anki leaves it out if you untick \"Include HTML and media references\" when you "
         "export\n"},
        {"printf '<hr>\tb\n' >>x.tsv", "x.tsv --clean && cat x.[dt]*.tsv",
         "\ncleaned: took HTML out of 2 pairs; removed 1 in which a side had nothing else\n", .lacking = "<"},
        {"{ cat plain.tsv plain.tsv; printf 'no\tfar far far far far far far far too long\nempty\t \n'; } "
         ">x.tsv",
         "x.tsv", "  left out 1 pair with an empty side (the first is line 82)\n",
         "49.4 % of the pairs repeat an earlier one; 98.8 % share", .lacking = "cleaned"},
        /* The advice is only for those who have not followed it. */
        {":", "x.tsv --clean && wc -l <x.train.tsv",
         "cleaned: removed 40 repeated pairs and 1 in which one side is far too long for the other; 40 "
         "remain\n",
         "\n36\n", .lacking = "remove them with --clean"},
        /* Tokenized text stays as it is; &apos; is of the tokenizer, <b> is not. */
        {"sed 's/^/it \\&apos;s /; s/\\.\t/ .\t/; s/perro/perro <b>/' plain.tsv >x.tsv",
         "x.tsv --src en --trg es && grep -o 'split_punctuation: [a-z]*' x.yaml",
         "\n  the source is tokenized (spaces before full stops, or marks such as &apos;): ",
         "\nsplit_punctuation: false\nsplit_punctuation: true\n"},
        /* Text that is cut into pieces already has pieces for words. */
        {"sed 's/dog/d@@ og/; s/^/The /' plain.tsv >bpe.tsv",
         "bpe.tsv --src en --trg es && grep '^    level\\|^    split' bpe.yaml && grep -c lowercase: "
         "bpe.yaml || :",
         "\n  the source is cut into pieces already (such as un@@): the config takes each piece as a word; "
         "to let qkv cut words itself, join the pieces first: sed -E 's/(@@ )|(@@ ?$)//g'\n",
         "\n    level: word  # every piece is a token: the text is cut into pieces already\n"
         "    split_punctuation: false  # the text is tokenized already\n"
         "    level: word  # every word is a token\n    split_punctuation: true\n0\n",
         "the target is cut"},
        {":", "x.tsv", "\n  40 pairs contain HTML"},
        {"sed -i 's/<b> //' x.tsv", "x.tsv", .lacking = "HTML"},
        {":", "plain.tsv", .lacking = "same text"},
        {"awk -F'\t' '{ print $1 \"\t\" $1 \"\t\" $2 }' plain.tsv >x.tsv", "x.tsv",
         COPIES ": --columns names the columns to take\n"},
        {"cut -f1,2 x.tsv >two.tsv", "two.tsv", COPIES "\n"},
    };
    EXPECT_REPORTS(reports);
    write_text(".", "few.tsv", "a\tb\nc\td\n");
    const char *examples = run("qkv init few.tsv --src en --trg es").output; /* which are too few */
    cr_expect(shows(examples, "  for example: a = b\n               c = d\n"));
    cr_expect_eq(strlen(strstr(examples, "  for example: ")),
                 strlen("  for example: a = b\n               c = d\n"));
}

Test(init_report, says_that_the_time_is_too_short_for_one_epoch)
{
    enum { PAIRS = 4900, WORDS = 160, SIZE = 2 * WORDS * 4 };
    enter(scratch("short"));
    char *text = remember(calloc(PAIRS, SIZE + 1)), *end = text;
    for (unsigned i = 0, number = 1; i < PAIRS; i++)
        for (unsigned w = 1; w <= 2 * WORDS; w++) {
            number = number * 1103515245 + 12345;
            end += sprintf(end, "%c%c%c%c", 'a' + (number >> 16) % 26, 'a' + (number >> 8) % 2, 'z',
                           w == WORDS       ? '\t'
                           : w == 2 * WORDS ? '\n'
                                            : ' ');
        }
    write_text(".", "x.tsv", text);
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

/* Writes x.tsv with `count` pairs of `words` words a side, which all differ. */
static void write_long_pairs(int count, int words)
{
    run_ok("awk 'BEGIN { for (i = 1; i <= %d; i++) for (side = 0; side < 2; side++) { for (w = 1; "
           "w <= %d; w++) printf \"%%s%%s\", side ? \"b\" i : \"a\" i, w < %d ? \" \" : side ? \"\\n\" : "
           "\"\\t\" } }' >>x.tsv",
           count, words, words);
}

Test(init_report, shows_the_beginning_of_long_examples)
{
    enter(scratch("long_examples"));
    write_long_pairs(40, 70);
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
    enter(scratch("long_pairs"));
    write_pairs("x.tsv", 120, "%s\t%s\n");
    write_long_pairs(40, 251);
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
    enter(scratch("only_long_pairs"));
    write_long_pairs(40, 251);
    cr_expect(
        refused(run("qkv init x.tsv -q"),
                "qkv: x.tsv: all of its training pairs have a side of more than 250 tokens, but qkv learns "
                "from sentences: split the texts, so that each pair is a sentence and its translation"));
    cr_expect_str_eq(run_ok("ls"), "x.tsv\n");
}
