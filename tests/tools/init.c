/* qkv init: from a file of pairs to a config that trains. */
#include "init_pairs.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(init, makes_a_config_that_trains_at_once)
{
    const char *folder = enter(scratch("anki"));
    write_pairs(folder, "spa.txt", 60, "%s\t%s\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM)\r\n");
    struct outcome outcome = run("qkv init spa.txt --updates 6");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_empty(outcome.error);
    cr_expect_eq(strncmp(outcome.output, "spa.txt: 60 pairs in columns 1 and 2 of 3\n", 42), 0, "%s",
                 outcome.output);
    static const char *const parts[] = {
        "  source (en): 4.0 words a sentence, at most 4; 27 different characters, Latin\n",
        "  target (es): 3.0 words a sentence, at most 3; 23 different characters, Latin\n",
        "  0.0 %% of the pairs repeat an earlier one; 0.0 %% share a sentence with another\n",
        "  for example: dk dog number 10. = qw perro 10.\n               c",
        "split: 54 pairs to train, 3 dev, 3 test; no sentence is in two of these\n"
        "model: 2 + 2 layers of width 64, dropout 0.3\n"
        "tokens: words\n"
        "training: 6 updates\n"
        "wrote spa.train.tsv, spa.dev.tsv, spa.test.tsv, spa.yaml\n"
        "next: qkv train spa.yaml\n",
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        cr_expect(shows(outcome.output, format(parts[i], 0)));
    /* All pairs are in one of the parts, with two columns. */
    cr_expect_str_eq(run_ok("cat spa.*.tsv | sort >all && cut -f 1,2 spa.txt | sort | cmp - all"), "");
    cr_expect_eq(lines_of(folder, "spa.dev.tsv"), 3);
    /* The command that the config names prints defaults, too. */
    cr_expect(shows(run_ok("eval \"$(sed -n 's/.*`\\(qkv config .*\\)`.*/\\1/p' spa.yaml)\""),
                    "\n  repetition_penalty: 1\n"));
    outcome = run("qkv train spa.yaml && qkv evaluate runs/spa && echo 'a dog' | qkv translate runs/spa");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(shows(outcome.error, "54 training pairs, 3 dev pairs"));
}

Test(init, measures_the_training_where_no_length_is_given)
{
    const char *folder = enter(scratch("measure"));
    write_pairs(folder, "x.tsv", 200, "%s\t%s\n");
    struct outcome outcome = run("mkdir tmp && TMPDIR=$PWD/tmp qkv init x.tsv --minutes 0.25 && ls tmp");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    const char *line = strstr(outcome.output, "\ntraining: ");
    cr_assert_not_null(line, "%s", outcome.output);
    int parameters, updates;
    double epochs;
    cr_assert_eq(sscanf(line, "\ntraining: %d parameters, %d updates (%lf epochs)\ntime: about ", &parameters,
                        &updates, &epochs),
                 3, "%s", line);
    cr_expect_gt(parameters, 100000);
    cr_expect(updates >= 1 && epochs <= 100.1, "%s", line); /* however fast the machine is */
    cr_expect_str_eq(run_ok("ls -A tmp"), "", "the folder for the measurement remains");
    cr_expect_str_eq(run_ok("grep -c '^  updates: %d ' x.yaml", updates), "1\n");
    /* The dev loss of little text rises long before its translations are at their best. */
    cr_expect_str_eq(run_ok("grep -c '^  early_stopping_metric: chrf ' x.yaml"), "1\n");
}

Test(init, a_signal_removes_the_folder_of_the_measurement)
{
    const char *folder = enter(scratch("signal"));
    write_pairs(folder, "x.tsv", 200, "%s\t%s\n");
    struct outcome outcome =
        run("mkdir tmp && { TMPDIR=$PWD/tmp '%s' init x.tsv & } && pid=$!; until [ -e tmp/*/config.yaml ] || "
            "! kill -0 $pid; do :; done; kill $pid; wait $pid; echo $?; ls -A tmp",
            QKV_BINARY);
    cr_expect(shows(outcome.output, "\n143\n"), "%s%s", outcome.output, outcome.error); /* 128 + SIGTERM */
    cr_expect_str_eq(run_ok("ls -A tmp x.yaml 2>/dev/null || :"), "tmp:\n");
}

Test(init, repeats_itself_and_obeys_the_seed)
{
    const char *folder = enter(scratch("seed"));
    write_pairs(folder, "x.tsv", 100, "%s\t%s\n");
    run_ok("qkv init x.tsv --updates 5 -q -o a/x.yaml && qkv init x.tsv --updates 5 -q -o b/x.yaml && qkv "
           "init x.tsv --updates 5 -q -o c/x.yaml --seed 7 && diff -r a b");
    cr_expect_str_eq(run_ok("cmp -s a/x.dev.tsv c/x.dev.tsv || echo other"), "other\n");
    cr_expect_eq(lines_of(folder, "a/x.dev.tsv"), 5);
    run_ok("qkv init x.tsv --updates 5 -q -o d/x.yaml --dev 20 --test 10");
    cr_expect_eq(lines_of(folder, "d/x.dev.tsv"), 20);
    cr_expect_eq(lines_of(folder, "d/x.test.tsv"), 10);
    cr_expect_eq(lines_of(folder, "d/x.train.tsv"), 70);
}

Test(init, reads_what_people_have)
{
    const char *folder = enter(scratch("forms"));
    write_pairs(folder, "plain.tsv", 40, "%s\t%s\n");
    run_ok(
        "cut -f 1 plain.tsv >x.en && cut -f 2 plain.tsv >x.de && gzip -k x.de && rm x.de && awk '{print NR "
        "\"\\t\" $0}' plain.tsv | awk -F '\\t' '{print $1 \"\\t\" $2 \"\\t\" $1+7 \"\\t\" $3}' >ids.tsv && { "
        "printf 'English\\tGerman\\n\\n'; cat plain.tsv; } >header.txt && gzip -c plain.tsv >packed.tsv.gz");
    bool has_iconv = !run("command -v iconv").exit_code;
    if (has_iconv) run_ok("{ printf '\\377\\376'; iconv -f utf-8 -t utf-16le plain.tsv; } >wide.txt");
    static const struct {
        const char *input, *output;
    } cases[] = {
        {"x.en x.de.gz", "x"},    {"x --src en", "x"},         {"ids.tsv", "ids"},
        {"header.txt", "header"}, {"packed.tsv.gz", "packed"}, {"- <plain.tsv", "pairs"},
        {"wide.txt", "wide"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!has_iconv && !strcmp(cases[i].output, "wide")) continue;
        struct outcome outcome = run("qkv init --updates 5 --overwrite %s", cases[i].input);
        cr_expect_eq(outcome.exit_code, 0, "%s: %s", cases[i].input, outcome.error);
        const char *name = cases[i].output;
        cr_expect_str_eq(run_ok("cat %s.train.tsv %s.dev.tsv %s.test.tsv | sort >all && sort plain.tsv | cmp "
                                "- all && echo same",
                                name, name, name),
                         "same\n", "%s", cases[i].input);
        run_ok("qkv config %s.yaml >/dev/null", name);
    }
    cr_expect_str_eq(
        run_ok("grep lang: x.yaml header.yaml ids.yaml"),
        "x.yaml:    lang: en\nx.yaml:    lang: de\nheader.yaml:    lang: en\nheader.yaml:    lang: de\n"
        "ids.yaml:    lang: src\nids.yaml:    lang: trg\n");
}

/* Asked for the other direction than the header has, it exchanges the columns. */
Test(init, takes_the_columns_of_the_languages)
{
    const char *folder = enter(scratch("languages"));
    write_pairs(folder, "plain.tsv", 40, "%s\t%s\n");
    run_ok("{ printf 'English\\tSpanish\\n'; cat plain.tsv; } >x.tsv");
    const char *output = run_ok("qkv init x.tsv --updates 5 --src es");
    cr_expect(shows(output, "x.tsv: 40 pairs in columns 2 and 1 of 2, below a header\n"));
    cr_expect(shows(output, "  source (es): 3.0 words"));
    cr_expect(shows(output, "  target (en): 4.0 words"));
    cr_expect(shows(output, "  for example: ts perro 6. = gg dog number 6.\n"));
}

/* A first line of words that name columns is no pair; one of words that are also codes of languages is, and so are two names of
 * one language. A header of languages exchanges the columns where the other direction is asked for. */
Test(init, knows_titles_of_columns)
{
    static const struct {
        const char *line;
        bool is_header, has_languages;
    } cases[] = {
        {"en-US\tes-ES", true, true},
        {"en_US\tes_MX", true, true},
        {"English (US)\tSpanish (Spain)", true, true},
        {"Source text\tTarget text", true, false},
        {"English sentence\tSpanish translation", true, true},
        {"text_en\ttext_es", true, true},
        {"it is\tes so", false, false},
        {"My answer\tMi respuesta", false, false},
        {"French\tFrancés", false, false},
        {"English\tEnglish", true, false},
    };
    const char *folder = enter(scratch("titles"));
    write_pairs(folder, "plain.tsv", 40, "%s\t%s\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *output = run_ok(
            "{ printf '%s\n'; cat plain.tsv; } >x.tsv && qkv init x.tsv --updates 5 --src es-MX --overwrite",
            cases[i].line);
        cr_expect_eq(strstr(output, "below a header") != NULL, cases[i].is_header, "%s: %s", cases[i].line,
                     output);
        cr_expect_eq(strstr(output, "columns 2 and 1 of 2") != NULL, cases[i].has_languages, "%s: %s",
                     cases[i].line, output);
        cr_expect_eq(strstr(output, "  target (en): 4.0 words") != NULL, cases[i].has_languages, "%s: %s",
                     cases[i].line, output);
    }
}

/* The sounds of Anki are no sentences, and no parts of sentences. */
Test(init, leaves_out_sounds)
{
    const char *folder = enter(scratch("sounds"));
    write_pairs(folder, "x.tsv", 40, "%s\t[sound:a.mp3]\t%s\n");
    const char *output = run_ok("qkv init x.tsv --updates 5 --overwrite");
    cr_expect(shows(output, "40 pairs in columns 1 and 3 of 3"));
    write_pairs(folder, "x.tsv", 40, "%s [sound:a.mp3]\t%s\n");
    run_ok("qkv init x.tsv --updates 5 --overwrite --clean");
    cr_expect_eq(run("grep sound: x.train.tsv").exit_code, 1);
}

/* A column of labels is taken only where there are not two others. */
Test(init, leaves_out_labels)
{
    static const char *const labels[] = {
        "{print \"noun-\" NR \"\\t\" $0}",
        "{print (NR % 3 ? \"easy\" : \"hard\") \"\\t\" $0}",
        "{print (NR % 7 ? $1 : \"word\") \"\\t\" $2 \"\\ttatoeba\" NR % 3}",
    };
    const char *folder = enter(scratch("labels"));
    write_pairs(folder, "pairs.tsv", 60, "%s\t%s\n");
    for (int i = 0; i < 3; i++) {
        const char *output =
            run_ok("awk -F '\t' '%s' pairs.tsv >x.tsv && qkv init x.tsv --updates 5 --overwrite", labels[i]);
        cr_expect(
            shows(output, i < 2 ? "60 pairs in columns 2 and 3 of 3" : "60 pairs in columns 1 and 2 of 3"),
            "%d: %s", i, output);
    }
    const char *output = run_ok("awk -F '\t' '{print \"noun-\" NR \"\\t\" $2}' pairs.tsv >x.tsv && qkv init "
                                "x.tsv --updates 5 --overwrite");
    cr_expect(shows(output, "60 pairs in columns 1 and 2 of 2"));
}

/* However slow validations are, they and training together keep to the time, unless one alone does not fit. */
Test(init, slow_validations_become_fewer)
{
    const char *folder = enter(scratch("slow"));
    write_pairs(folder, "x.tsv", 3000, "%s\t%s\n");
    char *output = run_ok("qkv init x.tsv --minutes 0.25 --dev 1000 -j 1");
    int updates = atoi(run_ok("sed -n 's/^  updates: \\([0-9]*\\).*/\\1/p' x.yaml"));
    int freq = atoi(run_ok("sed -n 's/^  validation_freq: //p' x.yaml"));
    int seconds;
    char unit;
    const char *line = strstr(output, "\ntime: about ");
    cr_assert(line && sscanf(line, "\ntime: about %d%c", &seconds, &unit) == 2, "%s", output);
    cr_expect(freq >= 1 && updates >= 1 && (updates + freq - 1) / freq <= 20, "%d, %d", updates, freq);
    cr_expect((unit == 's' && seconds <= 15) || strstr(line, ": a smaller dev set, as with --dev 100, "),
              "%s", line);
}

/* A reader must see that the header is no text, and which columns it took away. */
/* The name of a file may have another order than its columns; --src and --trg alone would exchange the columns. */
/* Names and codes of three letters become those of two, which decide about apostrophes and spaces. */
Test(init, takes_names_of_languages)
{
    const char *folder = enter(scratch("language_names"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    static const struct {
        const char *options, *lang;
    } cases[] = {{"--src English --trg french", "en fr"},
                 {"--src eng --trg FRA", "en fr"},
                 {"--src pt-BR --trg zh_CN", "pt-BR zh_CN"},
                 {"--src haw --trg Fran\u00e7ais", "haw fr"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_ok("qkv init x.tsv --updates 5 --overwrite -q %s", cases[i].options);
        cr_expect_str_eq(run_ok("echo $(sed -n 's/^ *lang: //p' x.yaml)"), format("%s\n", cases[i].lang));
    }
    /* The files of a prefix may have any names of the languages, or other suffixes. */
    run_ok("for name in p.eng p.fr q.human q.post; do cut -f 1 x.tsv >$name; done");
    const char *output = run_ok("qkv init p --updates 5 --src English");
    cr_expect(shows(output, "p.eng and p.fr: 40 pairs"));
    output = run_ok("qkv init q --updates 5 --src human --trg post");
    cr_expect(shows(output, "q.human and q.post: 40 pairs"));
}

/* Much text for little time; a machine that is far faster than those of today reads all of it once, and needs no advice. */
/* A script without spaces becomes characters; much text becomes pieces of words, as many as it yields. */
Test(init, chooses_the_tokenizer_by_the_text)
{
    const char *folder = enter(scratch("tokenizer"));
    char *text = remember(calloc(200, 100)), *end = text;
    for (int i = 0; i < 100; i++) end += sprintf(end, "number %d\t\u7b2c%d\u6570\u5b57\u3002\n", i, i);
    write_text(folder, "en-zh.tsv", text);
    const char *output = run_ok("qkv init en-zh.tsv --updates 5");
    cr_expect(shows(output, "target (zh): "));
    cr_expect(shows(output, "\ntokens: words and characters\n"));
    /* 30 words at each of three places, which yield some hundred merges. */
    text = remember(calloc(24000, 64));
    end = text;
    for (int i = 0; i < 24000; i++) {
        int first = i % 30, second = i / 30 % 30, third = i / 900;
        end += sprintf(end, "ha%co%c me%ca%c ti%ce%c\tbu%co%c la%cu%c mo%ci%c\n", 'a' + first % 6,
                       'k' + first / 6, 'a' + second % 6, 'k' + second / 6, 'a' + third % 6, 'k' + third / 6,
                       'b' + first % 6, 'l' + first / 6, 'b' + second % 6, 'l' + second / 6, 'b' + third % 6,
                       'l' + third / 6);
    }
    write_text(folder, "many.tsv", text);
    output = run_ok("qkv init many.tsv --updates 5");
    const char *pieces = strstr(output, "\ntokens: pieces of words (");
    cr_assert_not_null(pieces, "%s", output);
    int merges = atoi(pieces + strlen("\ntokens: pieces of words ("));
    cr_expect(merges >= 100 && merges < 6000, "%s", pieces);
    cr_expect(shows(pieces, " joint merges)\n"));
    output = run_ok("qkv config many.yaml");
    cr_expect(shows(output, "joint_vocabulary: true"));
    cr_expect(shows(output, format("num_merges: %d", merges)));
    /* Training learns so many merges from this text. */
    run_ok("head -n 9 many.dev.tsv >dev.tsv && qkv train many.yaml -q -s training.updates=1 -s "
           "data.dev=dev.tsv");
}

Test(init, never_replaces_a_file_that_it_should_not)
{
    const char *folder = enter(scratch("exists"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    write_pairs(folder, "x.train.tsv", 40, "%s\t%s\n");
    char *before = fingerprint(folder);
    cr_expect(refused(
        run("qkv init x.tsv --updates 5"),
        "qkv: x.train.tsv: exists already; replace it with --overwrite, or name another config with -o"));
    cr_expect(refused(run("qkv init x.train.tsv -o x.yaml --updates 5 --overwrite"),
                      "qkv: x.train.tsv: is the file that the pairs come from and would be replaced; give "
                      "the config another name with -o"));
    cr_expect_str_eq(fingerprint(folder), before);
    run_ok("qkv init x.tsv --updates 5 --overwrite -q");
    cr_expect_eq(lines_of(folder, "x.train.tsv"), 36);
}

/* A file that grows over the limit of its size fails, and then no file is left. */
Test(init, writes_all_files_or_none)
{
    const char *folder = enter(scratch("all"));
    write_pairs(folder, "x.tsv", 4000, "%s\t%s\n");
    char *before = fingerprint(folder);
    cr_expect(
        fails(run("ulimit -f 8 && qkv init x.tsv --updates 5 -q"), 2, "x.train.tsv: cannot be written: "));
    cr_expect_str_eq(fingerprint(folder), before);
    /* The last of the four cannot be put in place: a folder has its name. */
    struct outcome outcome = run("mkdir x.yaml && qkv init x.tsv --updates 5 -q --overwrite");
    cr_expect_eq(outcome.exit_code, 2);
    run_ok("rmdir 'x.yaml'");
    cr_expect_str_eq(fingerprint(folder), before);
}

Test(init, says_what_is_wrong)
{
    const char *folder = enter(scratch("wrong"));
    write_text(folder, "three.tsv", "a\tb\nc\td\ne\tf\n");
    write_text(folder, "one.txt", "a\nb\n");
    write_text(folder, "empty.tsv", "");
    write_text(folder, "blank.tsv", "\n \n\n");
    run_ok("mkdir 'deep' && gzip -c '%s/one.txt' >'%s/deep/one.txt.gz'", folder, folder);
    write_bytes(folder, "binary.tsv",
                "\x7f"
                "ELF\0\1\2",
                7);
    write_text(folder, "old.yaml", "name: old\n");
    write_bytes(folder, "deck.apkg", "PK\3\4\0\1", 6);
    write_bytes(folder, "x.tsv.bz2", "BZh91AY", 7);
    write_bytes(folder, "x.tsv.xz", "\xFD\67zXZ\0", 6);
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    char *before = fingerprint(folder);
    static const char *const cases[][2] = {
        {"deck.apkg",
         "qkv: deck.apkg: is an archive: take the text out of it with unzip; or, if it is a deck (.apkg) or "
         "a spreadsheet (.xlsx, .ods), export it as text with tabs between the columns"},
        {"x.tsv.bz2", "qkv: x.tsv.bz2: is compressed with bzip2: unpack it with bunzip2"},
        {"x.tsv.xz", "qkv: x.tsv.xz: is compressed with xz: unpack it with unxz"},
        {"old.yaml", "qkv: old.yaml: has no sentence pairs; if it is a config, train it: qkv train old.yaml"},
        {"three.tsv", "qkv: three.tsv: has 3 pairs, but training, dev and test need at least 10 together, "
                      "and learning to translate takes thousands"},
        {"one.txt", "qkv: one.txt: its lines have no tab, but a line needs a sentence, a tab and its "
                    "translation; for two files with a sentence in each line, name both"},
        {"empty.tsv", "qkv: empty.tsv: the file is empty"},
        {"blank.tsv", "qkv: blank.tsv: has only blank lines"},
        {"one.txt blank.tsv --columns 2,1", "qkv: --columns names columns of a table, but there are two "
                                            "files: their order says which one is the source"},
        {"blank.tsv --columns 1,2", "qkv: blank.tsv: has only blank lines"},
        {"three", "qkv: three: there is no such file; did you mean three.tsv"},
        {"deep/one", "qkv: deep/one: there is no such file; did you mean deep/one.txt.gz"},
        {"x.tsv -o one.txt/x.yaml", "qkv: one.txt/x.yaml: cannot be written: Not a directory"},
        {"binary.tsv", "qkv: binary.tsv:1:5: a NUL byte is not allowed in text"},
        {"x.tsv --columns 1",
         "qkv: --columns is '1', but must be the numbers of two different columns, such as 1,2"},
        {"x.tsv --columns 1,1",
         "qkv: --columns is '1,1', but must be the numbers of two different columns, such as 1,2"},
        {"x.tsv --columns 1,9", "qkv: x.tsv: there is no column 9; the lines have up to 2"},
        {"x.tsv --src 'e n'", "qkv: --src is 'e n', but must be a language code, such as en or pt-BR, or the "
                              "name of a language that qkv knows, such as English"},
        {"x.tsv --trg Frensh", "qkv: --trg is 'Frensh', but must be a language code, such as en or pt-BR, or "
                               "the name of a language that qkv knows, such as English"},
        {"x.tsv -o mine", "qkv: -o mine: the name of a config must end in .yaml"},
        {"x.tsv -o 'my data.yaml'",
         "qkv: -o my data.yaml: the run takes its name from the config, so the name must be made of letters, "
         "digits, '.', '_' and '-', and not start with '.'"},
        {"x.tsv --dev 39", "qkv: x.tsv: has 40 pairs; dev (39) and test (2) need at least one each and must "
                           "leave one for training"},
        {"x.tsv --minutes 0", "qkv: --minutes is 0, but must lie between 0.25 and 100000"},
    };
    EXPECT_REFUSALS("qkv init -q --updates 5 ", cases);
    cr_expect_str_eq(fingerprint(folder), before);
}

/* The measurement fails because it has no temporary folder. */
Test(init, checks_that_it_can_write_before_it_measures_and_leaves_no_folder_behind)
{
    if (is_emulated()) cr_skip_test("valgrind needs a temporary folder, too");
    const char *folder = enter(scratch("unwritable"));
    write_pairs(folder, "x.tsv", 40, "%s\t%s\n");
    write_text(folder, "file", "");
    struct outcome outcome = run("TMPDIR=/dev/null qkv init x.tsv -o file/x.yaml --minutes 0.25");
    cr_expect(refused(outcome, "qkv: file/x.yaml: cannot be written: Not a directory"));
    outcome = run("TMPDIR=/dev/null qkv init x.tsv -o new/deep/x.yaml --minutes 0.25");
    cr_expect(outcome.exit_code == 2 && strstr(outcome.error, "/dev/null"), "%s", outcome.error);
    cr_expect_eq(run("test -e new").exit_code, 1);
    run_ok("qkv init x.tsv -o new/deep/x.yaml --updates 5 && test -e new/deep/x.train.tsv");
}

/* A name with spaces and quotes is fine for what is read; the run gets a plain one. */
Test(init, makes_a_plain_name_of_an_odd_one)
{
    const char *folder = enter(scratch("name"));
    write_pairs(folder, "my 'pairs' (1).txt", 40, "%s\t%s\n");
    const char *output = run_ok("qkv init \"my 'pairs' (1).txt\" --updates 5");
    cr_expect(shows(output, "next: qkv train my__pairs___1_.yaml\n"));
    output = run_ok("qkv init \"my 'pairs' (1).txt\" --updates 5 -o 'a b/x.yaml'");
    cr_expect(shows(output, "next: qkv train 'a b/x.yaml'\n"));
    run_ok("qkv config 'a b/x.yaml' >/dev/null");
    write_pairs(folder, "S\u00e4tze\u4e2d.txt", 40, "%s\t%s\n");
    run_ok("qkv init S\u00e4tze\u4e2d.txt --updates 5 && test -e S_tze_.yaml");
    /* The case of an extension does not matter. */
    write_pairs(folder, "SPA-ENG.TXT", 40, "%s\t%s\n");
    run_ok("gzip -c SPA-ENG.TXT >Deck.TSV.GZ");
    output = run_ok("qkv init SPA-ENG.TXT --updates 5");
    cr_expect(shows(output, "next: qkv train SPA-ENG.yaml\n"));
    output = run_ok("qkv init Deck.TSV.GZ --updates 5");
    cr_expect(shows(output, "next: qkv train Deck.yaml\n"));
}
