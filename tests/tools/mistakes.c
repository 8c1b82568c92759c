/* Mistakes of first-time users, and messages that say what to do instead. */
#include "support.h"

/* What the parser of options says is tested here for all commands. */
Test(mistakes, arguments_that_no_command_takes)
{
    static const char *const cases[][2] = {
        {"train", "qkv: CONFIG is missing (usage: qkv train CONFIG [options])"},
        {"evaluate", "qkv: RUN is missing (usage: qkv evaluate RUN [TSV] [options])"},
        {"score", "qkv: TRANSLATIONS is missing (usage: qkv score TRANSLATIONS REFERENCES [options])"},
        {"explain", "qkv: SCENE or RUN is missing (usage: qkv explain SCENE | RUN SENTENCE [options])"},
        {"train c.yaml run", "qkv: unexpected operand 'run' (usage: qkv train CONFIG [options])"},
        {"train a -- --quiet", "qkv: unexpected operand '--quiet' (usage: qkv train CONFIG [options])"},
        {"evaluate run dev.tsv x", "qkv: unexpected operand 'x' (usage: qkv evaluate RUN [TSV] [options])"},
        {"train a -s training.updates 5", "qkv: unexpected operand '5'; -s takes KEY=VALUE, such as -s "
                                          "training.updates=5 (usage: qkv train CONFIG [options])"},
        {"train a -s name=x b=2",
         "qkv: unexpected operand 'b=2'; write -s before each KEY=VALUE (usage: qkv train CONFIG [options])"},
        {"train -s name=x b=2 a",
         "qkv: unexpected operand 'b=2'; write -s before each KEY=VALUE (usage: qkv train CONFIG [options])"},
        {"train --bogus a", "qkv: unknown option '--bogus'; keys of the config are set by -s KEY=VALUE (see "
                            "`qkv train --help`)"},
        {"train a --bogus=3", "qkv: unknown option '--bogus'; keys of the config are set by -s KEY=VALUE "
                              "(see `qkv train --help`)"},
        {"train a --epochs 3", "qkv: unknown option '--epochs'; it is a key of the config: -s "
                               "training.epochs=3 (see `qkv train --help`)"},
        {"train a --beam-size=2", "qkv: unknown option '--beam-size'; it is a key of the config: -s "
                                  "testing.beam_size=2 (see `qkv train --help`)"},
        {"gradcheck --threads 2",
         "qkv: unknown option '--threads'; it computes on one thread (see `qkv gradcheck --help`)"},
        {"train a -qx", "qkv: unknown option '-x' (see `qkv train --help`)"},
        {"translate a --frobnicate", "qkv: unknown option '--frobnicate' (see `qkv translate --help`)"},
        {"translate a --beem 3",
         "qkv: unknown option '--beem'; did you mean --beam (see `qkv translate --help`)"},
        {"translate a --b 2", "qkv: unknown option '--b'; did you mean --beam, --beam-alpha, --batch (see "
                              "`qkv translate --help`)"},
        {"evaluate run dev.tsv --l x",
         "qkv: unknown option '--l'; did you mean --length-penalty, --lowercase, --links, --links-from, "
         "--log-probs (see `qkv evaluate --help`)"},
        {"train a --threads", "qkv: option '--threads' needs a value (see `qkv train --help`)"},
        {"translate a -k", "qkv: option '-k' needs a value (see `qkv translate --help`)"},
        {"train a --quiet=yes", "qkv: option '--quiet' takes no value"},
        {"train a --help=1", "qkv: option '--help' takes no value"},
        {"train a --threads two", "qkv: --threads needs a whole number, but got 'two'"},
        {"train a --threads 2.5", "qkv: --threads needs a whole number, but got '2.5'"},
        {"train a --threads ''", "qkv: --threads needs a whole number, but got ''"},
        {"translate a -k1e3", "qkv: --beam needs a whole number, but got '1e3'"},
        {"train a -j 1025", "qkv: --threads is 1025, but must lie between 1 and 1024"},
        {"train a --threads=99999999999999999999",
         "qkv: --threads is 99999999999999999999, but must lie between 1 and 1024"},
        {"translate a --beam=-99999999999999999999",
         "qkv: --beam is -99999999999999999999, but must lie between 1 and 1000"},
        {"evaluate run dev.tsv --by-length 0", "qkv: --by-length is 0, but must lie between 1 and 1000000"},
        {"translate a --beam-alpha nan", "qkv: --beam-alpha needs a number, but got 'nan'"},
        {"translate a --beam-alpha 1,5", "qkv: --beam-alpha needs a number, but got '1,5'"},
        {"translate a --beam-alpha 1e999", "qkv: --beam-alpha is 1e999, but must lie between 0 and 10"},
        {"translate a --beam-alpha=-1", "qkv: --beam-alpha is -1, but must lie between 0 and 10"},
        {"evaluate run dev.tsv --tokenize ja",
         "qkv: --tokenize is 'ja', but must be one of 13a, intl, none, char, zh"},
        {"transalte", "qkv: unknown command 'transalte'; did you mean translate (see `qkv --help`)"},
        {"version", "qkv: unknown command 'version'; did you mean --version (see `qkv --help`)"},
        {"help transalte", "qkv: COMMAND is 'transalte'; did you mean translate"},
        {"--frobnicate", "qkv: unknown option '--frobnicate' (see `qkv --help`)"},
    };
    EXPECT_REFUSALS("qkv", cases);
    cr_expect_eq(run("qkv").exit_code, 2);
    run_ok("qkv --help && qkv -h && qkv --version && qkv translate -h && qkv translate x --help");
}

#define NO_FORMAT(command, format)                                                                           \
    "qkv: unknown option '--" format "'; did you mean -f " format " (see `qkv " command " --help`)"
#define NO_OUTPUT(command, option)                                                                           \
    "qkv: unknown option '" option "'; results go to standard output: append >FILE (see `qkv " command       \
    " --help`)"
#define DASH(sentence)                                                                                       \
    "qkv: '" sentence "' is read as an option; put -- before a sentence that begins with a dash"

Test(mistakes, arguments_of_another_kind)
{
    static const char *const cases[][2] = {
        /* A sentence where a file is expected. */
        {"translate run a b c", "qkv: unexpected operand 'b'; a sentence is read from standard input (usage: "
                                "qkv translate RUN [FILE] [options])"},
        {"translate run 'a sentence.'", "qkv: there is no file 'a sentence.'; a sentence is read from "
                                        "standard input: echo \"a sentence.\" | qkv translate run"},
        {"translate run word", "qkv: there is no file 'word'; a sentence is read from standard input: echo "
                               "\"word\" | qkv translate run"},
        {"film run a b", "qkv: unexpected operand 'b'; put the sentence in quotes (usage: qkv film RUN "
                         "SENTENCE [options])"},
        /* A sentence that begins with a dash. The beginning of a name is none: that of --without would say the contrary. */
        {"attention run '-a b'", DASH("-a b")},
        {"attention '-a b' run", DASH("-a b")},
        {"attention run '- a b'", DASH("- a b")},
        {"attention run '-- a b'", DASH("-- a b")},
        {"attention run '-qa b'", DASH("-qa b")},
        {"attention run a -xy", "qkv: unknown option '-x' (see `qkv attention --help`)"},
        {"attention run a '--bem=a b'",
         "qkv: unknown option '--bem'; did you mean --beam (see `qkv attention --help`)"},
        {"attention run a --with run",
         "qkv: unknown option '--with'; did you mean --without (see `qkv attention --help`)"},
        {"attention run a --bea=2",
         "qkv: unknown option '--bea'; did you mean --beam (see `qkv attention --help`)"},
        {"translate run '-x y'", "qkv: unknown option '-x' (see `qkv translate --help`)"},
        /* An output file of a command that prints, and files without a format. */
        {"translate run dev.tsv -o x", NO_OUTPUT("translate", "-o")},
        {"evaluate run --output=x", NO_OUTPUT("evaluate", "--output")},
        {"tokenize run --output x", NO_OUTPUT("tokenize", "--output")},
        {"train c.yaml -o x", "qkv: unknown option '-o' (see `qkv train --help`)"},
        {"attention run a -o x.y/map",
         "qkv: x.y/map: the name has no extension, which would choose a format; choose one with --format: "
         "text, json, csv, npz, html, svg, png, pdf"},
        {"attention run a -o x.y/map.jpg", "qkv: x.y/map.jpg: .jpg is no known extension (known: txt, json, "
                                           "csv, npz, html, svg, png, pdf); choose "
                                           "a format with --format to keep it"},
        {"attention run a -q -o x.y/map.svg", "qkv: x.y/map.svg: cannot be written: there is no folder x.y"},
        /* A format as an option. */
        {"heads run dev.tsv --json", NO_FORMAT("heads", "json")},
        {"attention run a --json", NO_FORMAT("attention", "json")},
        {"explain run a --json", NO_FORMAT("explain", "json")},
        {"attention run a --svg", NO_FORMAT("attention", "svg")},
        /* A config of training is no scene. */
        {"explain c.yaml",
         "qkv: c.yaml is a config of training, not a scene as in configs/seeds; its run is run"},
    };
    enter(tiny_run("kinds", 2));
    EXPECT_REFUSALS("qkv", cases);
    run_ok("qkv attention run -- '-a b'");
    /* A file where a sentence is expected is only a word that may be meant. */
    cr_expect(shows(run("qkv attention run dev.tsv").error,
                    "qkv: dev.tsv is read as a sentence, but is a file; to read its lines, give - as the "
                    "sentence, and <dev.tsv\n"));
    cr_expect(lacks(run("touch a && qkv attention run a").error, "file"));
    cr_expect(lacks(run("qkv attention run dev.tsv -q").error, "file"));
}

#define SIDE(language)                                                                                       \
    "; most of them are words of the " language " language: this run translates from a to b"

Test(mistakes, a_sentence_of_the_target)
{
    static const char *const cases[][2] = {
        {"echo A B a | qkv translate run", "<stdin>:1: not in the vocabulary: A, B" SIDE("target")},
        {"qkv attention run 'A B'", "the sentence: not in the vocabulary: A, B" SIDE("target")},
        {"qkv attention run a --target 'a b'", "--target: not in the target vocabulary: a, b" SIDE("source")},
        {"echo a b | qkv tokenize run --side trg",
         "<stdin>:1: not in the target vocabulary: a, b" SIDE("source")},
    };
    enter(tiny_run("side", 2));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(shows(run("%s", cases[i][0]).error, format("qkv: %s\n", cases[i][1])));
    /* Names may be in both languages, and one word is not enough to tell. */
    static const char *const others[] = {"A B a b", "A", "x y", "A x y"};
    for (int i = 0; i < 4; i++)
        cr_expect(lacks(run("echo %s | qkv translate run", others[i]).error, SIDE("target")));
}

Test(mistakes, a_text_with_swapped_columns)
{
    static const char *const commands[] = {"evaluate run %s --no-translation",
                                           "heads run %s --no-translation --quiet", "align run %s"};
    enter(tiny_run("swapped", 2));
    run_ok("awk -F '\t' '{print $2 \"\t\" $1}' dev.tsv >swapped.tsv && cp dev.tsv half.tsv && "
           "head -4 swapped.tsv >>half.tsv");
    for (int i = 0; i < 3; i++) {
        const char *command = format("qkv %s", commands[i]);
        cr_expect_str_eq(run(command, "swapped.tsv").error, /* NOLINT: the formats are listed above */
                         "qkv: swapped.tsv: most of its source words are not in the vocabulary, but most of "
                         "these are words of the target language: this run translates from a to b; are the "
                         "columns swapped?\n",
                         "%s", command);
        cr_expect_str_empty(run(command, "half.tsv").error); /* NOLINT */
    }
    cr_expect(shows(run("qkv evaluate run - <swapped.tsv").error, "qkv: <stdin>: most of its source words"));
}

Test(mistakes, operands_of_another_kind)
{
    static const char *const cases[][2] = {
        {"gradcheck softmax", "qkv: softmax: there is no such CONFIG or RUN; it is an op: give --op softmax"},
        {"gradcheck multi_head",
         "qkv: multi_head: there is no such CONFIG or RUN; it is a layer: give --layer multi_head"},
        {"train toy", "toy: cannot be read: No such file or directory; did you mean configs/toy.yaml"},
        {"train c", "c: cannot be read: No such file or directory; did you mean c.yaml"},
        {"translate 'a b' run",
         "qkv: 'a b' is no run, but run is: RUN comes first (usage: qkv translate RUN [FILE] [options])"},
        {"attention 'a b' run",
         "qkv: 'a b' is no run, but run is: RUN comes first (usage: qkv attention RUN SENTENCE [options])"},
        {"explain 'a b'", "qkv: 'a b' looks like a sentence, but RUN is missing before it (usage: qkv "
                          "explain SCENE | RUN SENTENCE [options])"},
    };
    enter(tiny_run("operands", 1));
    run_ok("mkdir configs && cp c.yaml configs/toy.yaml");
    EXPECT_REFUSALS("qkv", cases);
    cr_expect_str_eq(run("qkv attention run a -t B -o map.svg").error, "wrote map.svg, svg\n");
    cr_expect_str_empty(run("qkv attention run a -t B -o map.svg -q").error);
    const char *words = run_ok("qkv inspect run --vocabulary");
    cr_expect(shows(words, "source\ta\n") && shows(words, "target\tA\n") && lacks(words, "<unk>"));
    cr_expect(
        shows(run_ok("qkv inspect run --vocabulary --json | tr -d '\\n\\t'"), "\"target\":[\"G\", \"C\""));
}
