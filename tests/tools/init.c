/* qkv init: from a file of pairs to a config that trains. */
#include "init_pairs.h"

Test(init, makes_a_config_that_trains_at_once)
{
    enter(scratch("anki"));
    write_pairs("spa.txt", 60, "%s\t%s\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM)\r\n");
    cr_expect_str_eq(run_ok("qkv init spa.txt --updates 6 2>&1"),
                     "spa.txt: 60 pairs in columns 1 and 2 of 3\n"
                     "  source (en): 4.0 words a sentence, at most 4; 27 different characters, Latin\n"
                     "  target (es): 3.0 words a sentence, at most 3; 23 different characters, Latin\n"
                     "  0.0 % of the pairs repeat an earlier one; 0.0 % share a sentence with another\n"
                     "  very few pairs: the model learns them by heart, and gives words without sense for "
                     "other sentences, even for those of dev and test; with some thousand pairs it learns to "
                     "translate sentences like them, and 10,000 to 100,000 are usual\n"
                     "  for example: dk dog number 10. = qw perro 10.\n"
                     "               ci dog number 30. = pu perro 30.\n"
                     "               bg dog number 50. = os perro 50.\n"
                     "split: 54 pairs to train, 3 dev, 3 test; no sentence is in two of these\n"
                     "model: 2 + 2 layers of width 64, dropout 0.3\n"
                     "tokens: words\n"
                     "training: 6 updates\n"
                     "wrote spa.train.tsv, spa.dev.tsv, spa.test.tsv, spa.yaml\n"
                     "next: qkv train spa.yaml\n");
    /* All pairs are in one of the parts, with two columns. */
    run_ok("cat spa.*.tsv | sort >all && cut -f 1,2 spa.txt | sort | cmp - all");
    cr_expect_eq(lines_of("spa.dev.tsv"), 3);
    /* The command that the config names prints defaults, too. */
    cr_expect(shows(run_ok("eval \"$(sed -n 's/.*`\\(qkv config .*\\)`.*/\\1/p' spa.yaml)\""),
                    "\n  repetition_penalty: 1\n"));
    /* What was printed before a mistake comes before it in a pipe, too. */
    const char *piped = run_ok("head -n 3 spa.txt >few.tsv; qkv init few.tsv 2>&1 | cat");
    cr_expect(strstr(piped, "qkv: few.tsv: has 3 pairs") > strstr(piped, "few.tsv: 3 pairs"), "%s", piped);
    cr_expect(shows(run_ok("qkv train spa.yaml 2>&1 && qkv evaluate runs/spa && echo 'a dog' | qkv translate "
                           "runs/spa && qkv film runs/spa 'a dog' -o spa.png"),
                    "54 training pairs, 3 dev pairs"));
}

Test(init, measures_the_training_where_no_length_is_given)
{
    enter(scratch("measure"));
    write_pairs("x.tsv", 200, "%s\t%s\n");
    const char *output = run_ok("mkdir tmp && TMPDIR=$PWD/tmp qkv init x.tsv --minutes 0.25 && ls tmp");
    const char *line = strstr(output, "\ntraining: ");
    cr_assert_not_null(line, "%s", output);
    int parameters, updates;
    double epochs;
    cr_assert_eq(sscanf(line, "\ntraining: %d parameters, %d updates (%lf epochs)\ntime: about ", &parameters,
                        &updates, &epochs),
                 3, "%s", line);
    cr_expect_gt(parameters, 100000);
    cr_expect(updates >= 1 && epochs <= 100.1, "%s", line); /* however fast the machine is */
    cr_expect_str_eq(run_ok("ls -A tmp"), "", "the folder for the measurement remains");
    /* The dev loss of little text rises long before its translations are at their best. */
    run_ok("grep '^  updates: %d ' x.yaml && grep '^  early_stopping_metric: chrf ' x.yaml", updates);
}

Test(init, a_signal_removes_the_folder_of_the_measurement)
{
    enter(scratch("signal"));
    write_pairs("x.tsv", 200, "%s\t%s\n");
    struct outcome outcome =
        run("mkdir tmp && { TMPDIR=$PWD/tmp '%s' init x.tsv & } && pid=$!; until [ -e tmp/*/config.yaml ] || "
            "! kill -0 $pid; do :; done; kill $pid; wait $pid; echo $?; ls -A tmp",
            QKV_BINARY);
    cr_expect(shows(outcome.output, "\n143\n"), "%s%s", outcome.output, outcome.error); /* 128 + SIGTERM */
    cr_expect_str_eq(run_ok("ls -A tmp x.yaml 2>/dev/null || :"), "tmp:\n");
}

Test(init, repeats_itself_and_obeys_the_seed)
{
    enter(scratch("seed"));
    write_pairs("x.tsv", 100, "%s\t%s\n");
    run_ok("init() { qkv init x.tsv --updates 5 -q -o \"$@\"; }; init a/x.yaml && init b/x.yaml && diff -r a "
           "b && "
           "init c/x.yaml --seed 7 && ! cmp -s a/x.dev.tsv c/x.dev.tsv && init d/x.yaml --dev 20 --test 10");
    cr_expect_str_eq(
        run_ok("cat a/x.dev.tsv | wc -l && for part in train dev test; do cat d/x.$part.tsv | wc -l; done"),
        "5\n70\n20\n10\n");
}

Test(init, reads_what_people_have)
{
    enter(scratch("forms"));
    write_pairs("plain.tsv", 40, "%s\t%s\n");
    run_ok(
        "cut -f 1 plain.tsv >x.en && cut -f 2 plain.tsv >x.de && gzip -k x.de && rm x.de && awk '{print NR "
        "\"\\t\" $0}' plain.tsv | awk -F '\\t' '{print $1 \"\\t\" $2 \"\\t\" $1+7 \"\\t\" $3}' >ids.tsv && { "
        "printf 'English\\tGerman\\n\\n'; cat plain.tsv; } >header.txt && gzip -c plain.tsv >packed.tsv.gz");
    bool has_iconv = !run("command -v iconv").exit_code;
    if (has_iconv) run_ok("{ printf '\\377\\376'; iconv -f utf-8 -t utf-16le plain.tsv; } >wide.txt");
    static const char *const cases[][2] = {
        {"x.en x.de.gz", "x"},    {"x --src en", "x"},         {"ids.tsv", "ids"},
        {"header.txt", "header"}, {"packed.tsv.gz", "packed"}, {"- <plain.tsv", "pairs"},
        {"wide.txt", "wide"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!has_iconv && !strcmp(cases[i][1], "wide")) continue;
        const char *name = cases[i][1];
        run_ok(
            "qkv init --updates 5 --overwrite %s && cat %s.train.tsv %s.dev.tsv %s.test.tsv | sort >all && "
            "sort plain.tsv | cmp - all && qkv config %s.yaml >/dev/null",
            cases[i][0], name, name, name, name);
    }
    cr_expect_str_eq(
        run_ok("grep lang: x.yaml header.yaml ids.yaml"),
        "x.yaml:    lang: en\nx.yaml:    lang: de\nheader.yaml:    lang: en\nheader.yaml:    lang: de\n"
        "ids.yaml:    lang: src\nids.yaml:    lang: trg\n");
}

/* However slow validations are, they and training together keep to the time, unless one alone does not fit. */
Test(init, slow_validations_become_fewer)
{
    enter(scratch("slow"));
    write_pairs("x.tsv", 3000, "%s\t%s\n");
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

/* A script without spaces becomes characters; much text becomes pieces of words, as many as it yields. */
Test(init, chooses_the_tokenizer_by_the_text)
{
    enter(scratch("tokenizer"));
    char *text = remember(calloc(200, 100)), *end = text;
    for (int i = 0; i < 100; i++) end += sprintf(end, "number %d\t\u7b2c%d\u6570\u5b57\u3002\n", i, i);
    write_text(".", "en-zh.tsv", text);
    const char *output = run_ok("qkv init en-zh.tsv --updates 5");
    cr_expect(shows(output, "target (zh): ") && shows(output, "\ntokens: words and characters\n"));
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
    write_text(".", "many.tsv", text);
    output = run_ok("qkv init many.tsv --updates 5");
    const char *pieces = strstr(output, "\ntokens: pieces of words (");
    cr_assert_not_null(pieces, "%s", output);
    int merges = atoi(pieces + strlen("\ntokens: pieces of words ("));
    cr_expect(merges >= 100 && merges < 6000, "%s", pieces);
    cr_expect(shows(pieces, " joint merges)\n"));
    output = run_ok("qkv config many.yaml");
    cr_expect(shows(output, "joint_vocabulary: true") && shows(output, format("num_merges: %d", merges)));
    /* Training learns so many merges from this text. */
    run_ok("head -n 9 many.dev.tsv >dev.tsv && qkv train many.yaml -q -s training.updates=1 -s "
           "data.dev=dev.tsv");
}

Test(init, never_replaces_a_file_that_it_should_not)
{
    enter(scratch("exists"));
    write_pairs("x.tsv", 40, "%s\t%s\n");
    write_pairs("x.train.tsv", 40, "%s\t%s\n");
    char *before = fingerprint(".");
    cr_expect(refused(
        run("qkv init x.tsv --updates 5"),
        "qkv: x.train.tsv: exists already; replace it with --overwrite, or name another config with -o"));
    cr_expect(refused(run("qkv init x.train.tsv -o x.yaml --updates 5 --overwrite"),
                      "qkv: x.train.tsv: is the file that the pairs come from and would be replaced; give "
                      "the config another name with -o"));
    cr_expect_str_eq(fingerprint("."), before);
    run_ok("qkv init x.tsv --updates 5 --overwrite -q");
    cr_expect_eq(lines_of("x.train.tsv"), 36);
}

/* A file that grows over the limit of its size fails, and then no file is left. */
Test(init, writes_all_files_or_none)
{
    enter(scratch("all"));
    write_pairs("x.tsv", 4000, "%s\t%s\n");
    char *before = fingerprint(".");
    cr_expect(
        fails(run("ulimit -f 8 && qkv init x.tsv --updates 5 -q"), 2, "x.train.tsv: cannot be written: "));
    cr_expect_str_eq(fingerprint("."), before);
    /* The last of the four cannot be put in place: a folder has its name. */
    struct outcome outcome = run("mkdir x.yaml && qkv init x.tsv --updates 5 -q --overwrite");
    cr_expect_eq(outcome.exit_code, 2);
    run_ok("rmdir 'x.yaml'");
    cr_expect_str_eq(fingerprint("."), before);
}

Test(init, says_what_is_wrong)
{
    enter(scratch("wrong"));
    write_text(".", "three.tsv", "a\tb\nc\td\ne\tf\n");
    write_text(".", "one.txt", "a\nb\n");
    write_text(".", "blank.tsv", "\n \n\n");
    run_ok("mkdir deep && gzip -c one.txt >deep/one.txt.gz && echo 'name: old' >old.yaml && printf BZh91AY "
           ">x.tsv.bz2 && printf 'PK\\3\\4\\0\\1' >deck.apkg && printf '\\3757zXZ\\0' >x.tsv.xz && printf "
           "'\\177ELF\\0\\1\\2' >binary.tsv");
    write_pairs("x.tsv", 40, "%s\t%s\n");
    write_text(".", "x.tmx",
               "<?xml version=\"1.0\"?>\n<!DOCTYPE tmx SYSTEM \"tmx14.dtd\">\n<tmx "
               "version=\"1.4\">\n\t<tu>\ta b\tc d</tu>\n\t<tu>\te f\tg h</tu>\n</tmx>\n");
    write_text(".", "x.xliff",
               "<xliff version=\"1.2\">\n<source>a b</source><target>c d</target>\n</xliff>\n");
    write_text(".", "x.po", "# Spanish\n#: a.c:1\nmsgid \"a, b\"\nmsgstr \"c, d\"\n");
    write_text(".", "x.xml", "<?xml version=\"1.0\"?>\n<a>\n\t<b>c d</b>\te f\n</a>\n");
    static const char *const cases[][2] = {
        {"deck.apkg",
         "qkv: deck.apkg: is an archive: take the text out of it with unzip; or, if it is a deck (.apkg) or "
         "a spreadsheet (.xlsx, .ods), export it as text with tabs between the columns"},
        {"x.tsv.bz2", "qkv: x.tsv.bz2: is compressed with bzip2: unpack it with bunzip2"},
        {"x.tsv.xz", "qkv: x.tsv.xz: is compressed with xz: unpack it with unxz"},
        {"old.yaml", "qkv: old.yaml: has no sentence pairs; if it is a config, train it: qkv train old.yaml"},
        {"three.tsv", "qkv: three.tsv: has 3 pairs, but training, dev and test need at least 10 together, "
                      "and learning to translate takes thousands"},
        {"one.txt blank.tsv --columns 2,1", "qkv: --columns names columns of a table, but there are two "
                                            "files: their order says which one is the source"},
        {"blank.tsv --columns 1,2", "qkv: blank.tsv: has only blank lines"},
        {"three", "qkv: three: there is no such file; did you mean three.tsv"},
        {"deep/one", "qkv: deep/one: there is no such file; did you mean deep/one.txt.gz"},
        {"x.tsv -o one.txt/x.yaml", "qkv: one.txt/x.yaml: cannot be written: Not a directory"},
        {"x.tmx", "qkv: x.tmx: is TMX, the XML of translation memories: convert it, here to pairs of en and "
                  "es: xmlstarlet sel -T -t -m //tu -v 'normalize-space(tuv[lang(\"en\")]/seg)' -o "
                  "\"$(printf '\\t')\" -v 'normalize-space(tuv[lang(\"es\")]/seg)' -n FILE >pairs.tsv"},
        {"x.xliff", "qkv: x.xliff: is XLIFF: convert it: xmlstarlet sel -T -t -m "
                    "'//*[local-name()=\"target\"]' -v 'normalize-space(../*[local-name()=\"source\"])' -o "
                    "\"$(printf '\\t')\" -v 'normalize-space()' -n FILE >pairs.tsv"},
        {"x.po", "qkv: x.po: is a catalogue of gettext (.po): convert it with the Translate Toolkit: po2csv "
                 "FILE pairs.csv"},
        {"x.xml", "qkv: x.xml: is XML, which is not read: write a table with a tab between the columns"},
        {"binary.tsv", "qkv: binary.tsv:1:5: a NUL byte is not allowed in text"},
        {"x.tsv --columns 1",
         "qkv: --columns is '1', but must be the numbers of two different columns, such as 1,2"},
        {"x.tsv --columns 1,1",
         "qkv: --columns is '1,1', but must be the numbers of two different columns, such as 1,2"},
        {"x.tsv --src 'e n'", "qkv: --src is 'e n', but must be a language code, such as en or pt-BR, or the "
                              "name of a language that qkv knows, such as English"},
        {"x.tsv --trg Frensh", "qkv: --trg is 'Frensh', but must be a language code, such as en or pt-BR, or "
                               "the name of a language that qkv knows, such as English"},
        {"x.tsv -o mine", "qkv: -o mine: the name of a config must end in .yaml"},
        {"x.tsv -o 'my data.yaml'",
         "qkv: -o my data.yaml: the run takes its name from the config, so the name must be made of letters, "
         "digits, '.', '_' and '-', and not start with '.'"},
        {"x.tsv --minutes 0", "qkv: --minutes is 0, but must lie between 0.25 and 100000"},
    };
    EXPECT_REFUSALS("qkv init -q --updates 5 ", cases);
}

/* The measurement fails because it has no temporary folder. */
Test(init, checks_that_it_can_write_before_it_measures_and_leaves_no_folder_behind)
{
    if (is_emulated()) cr_skip_test("valgrind needs a temporary folder, too");
    enter(scratch("unwritable"));
    write_pairs("x.tsv", 40, "%s\t%s\n");
    write_text(".", "file", "");
    struct outcome outcome = run("TMPDIR=/dev/null qkv init x.tsv -o file/x.yaml --minutes 0.25");
    cr_expect_str_eq(outcome.error, "qkv: file/x.yaml: cannot be written: Not a directory\n");
    outcome = run("TMPDIR=/dev/null qkv init x.tsv -o new/deep/x.yaml --minutes 0.25");
    cr_expect(outcome.exit_code == 2 && strstr(outcome.error, "/dev/null"), "%s", outcome.error);
    cr_expect_eq(run("test -e new").exit_code, 1);
    run_ok("qkv init x.tsv -o new/deep/x.yaml --updates 5 && test -e new/deep/x.train.tsv");
}

Test(init, makes_a_plain_name_of_an_odd_one)
{
    static const char *const cases[][2] = {
        {"\"my 'pairs' (1).txt\"", "my__pairs___1_.yaml"},
        {"\"my 'pairs' (1).txt\" -o 'a b/x.yaml'", "'a b/x.yaml'"},
        {"S\u00e4tze\u4e2d.txt", "S_tze_.yaml"},
        {"SPA-ENG.TXT", "SPA-ENG.yaml"}, /* the case of an extension does not matter */
        {"Deck.TSV.GZ", "Deck.yaml"},
    };
    enter(scratch("name"));
    write_pairs("SPA-ENG.TXT", 40, "%s\t%s\n");
    run_ok("cp SPA-ENG.TXT \"my 'pairs' (1).txt\" && cp SPA-ENG.TXT S\u00e4tze\u4e2d.txt && gzip -c "
           "SPA-ENG.TXT >Deck.TSV.GZ");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect(shows(run_ok("qkv init --updates 5 %s", cases[i][0]),
                        format("next: qkv train %s\n", cases[i][1])));
        run_ok("qkv config %s >/dev/null", cases[i][1]);
    }
}
