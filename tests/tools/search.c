/* The options of searching in qkv translate and qkv evaluate: samples, constraints, prefixes, unknown words, ensembles. */
#include "support.h"

/* Translates what printf makes of `text`. */
static struct outcome translate(const char *text, const char *options)
{
    return run("printf '%s' | qkv translate run -q %s", text, options);
}

static char *translated(const char *text, const char *options)
{
    struct outcome outcome = translate(text, options);
    cr_assert_eq(outcome.exit_code, 0, "%s: %s", options, outcome.error);
    cr_expect_str_empty(outcome.error, "%s", options);
    return outcome.output;
}

/* in.txt: many lines of all lengths, some empty. */
static char *search(const char *options)
{
    return run_ok(
        "test -e in.txt || for i in $(seq 60); do case $((i %% 5)) in 0) echo ;; 1) echo a b;; "
        "2) echo c;; 3) echo e d a b c;; 4) echo a b;; esac; done >in.txt; qkv translate run in.txt %s",
        options);
}

/* ---- samples ---- */

#define SAMPLE "--sample --temperature 2 --n-best 3 --scores "

Test(search, samples_are_the_same_for_all_threads_and_batches)
{
    static const char *const others[] = {"-j 3 -b 32", "-j 1 -b 1", "-j 3 -b 1", "-j 2 -b 7", "--seed 42"};
    enter(tiny_run("samples", 60));
    char *expected = search(SAMPLE "-j 1 -b 32");
    cr_expect_gt(strlen(expected), 60 * 3);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_str_eq(search(format(SAMPLE "%s", others[i])), expected, "%s", others[i]);
    cr_expect_str_neq(search(SAMPLE "--seed 43"), expected);
    /* The sample of a line depends on its number, not on the other lines. */
    char *alone = translated("x\\n\\ne d a b c\\n", SAMPLE), *third = strstr(expected, "\n3\t");
    cr_assert_not_null(third);
    *strstr(third, "\n4\t") = '\0';
    cr_expect_str_eq(strstr(alone, "\n3\t"), format("%s\n", third));
    /* Samples of one token are greedy search. */
    char *greedy = search("");
    cr_expect_str_eq(search("--sample --top-k 1"), greedy);
    cr_expect_str_eq(search("--sample --top-p 1e-6"), greedy);
    cr_expect_str_neq(search("--sample"), greedy);
}

/* ---- what is refused ---- */

Test(search, contradictions_are_refused)
{
    static const char *const cases[][2] = {
        {"--sample --beam 3", "qkv: --sample and --beam exclude each other: --n-best N draws N samples"},
        {"--temperature 2", "qkv: --temperature is for sampling: add --sample"},
        {"--top-k 2", "qkv: --top-k is for sampling: add --sample"},
        {"--top-p 0.5", "qkv: --top-p is for sampling: add --sample"},
        {"--seed 0", "qkv: --seed is for sampling: add --sample"},
        {"--sample --top-p 0", "qkv: --top-p is 0, but must lie between 1e-6 and 1"},
        {"--sample --temperature 0", "qkv: --temperature is 0, but must lie between 1e-6 and 1000000"},
        {"--min-length 5 --max-length 4", "qkv: the shortest translation is 5 tokens, but the longest is 4: "
                                          "change --min-length or --max-length"},
        {"--beam-alpha 1 --length-penalty average",
         "qkv: --beam-alpha is the exponent of the length penalty wu, but the length penalty is average: use "
         "--length-penalty wu"},
        {"--length-penalty mean", "qkv: --length-penalty is 'mean', but must be one of wu, average, none"},
        {"--repetition-penalty 0.5", "qkv: --repetition-penalty is 0.5, but must lie between 1 and 1000"},
        {"--with nowhere", "qkv: nowhere: there is no such run"},
    };
    enter(tiny_run("refused", 1));
    EXPECT_REFUSALS("echo a | qkv translate run -q", cases);
}

/* ---- constraints ---- */

static int tokens_of(const char *line)
{
    int count = *line && *line != '\n';
    for (; *line && *line != '\n'; line++) count += *line == ' ';
    return count;
}

/* Options and the keys of a config do the same. */
Test(search, constraints_hold)
{
    enter(learned_run("constraints"));
    cr_expect_str_eq(translated("a b\\nc\\n", ""), "A B\nC\n");
    static const char *const SEARCHES[] = {"", "--beam 4", "--sample"};
    for (int i = 0; i < 3; i++) {
        char *longer = translated("a b\\n", format("%s --min-length 4", SEARCHES[i]));
        cr_expect_geq(tokens_of(longer), 4, "%s", longer);
        cr_expect_leq(tokens_of(translated("a b\\n", format("%s --max-length 1", SEARCHES[i]))), 1);
        char *line = translated("a b a\\n",
                                format("%s --no-repeat-ngram 1 --min-length 4 --max-length 6", SEARCHES[i]));
        cr_expect_geq(tokens_of(line), 4, "%s", line);
        line[strcspn(line, "\n")] = '\0';
        for (const char *c = line; *c; c++)
            cr_expect(*c == ' ' || !strchr(c + 1, *c), "%s repeats %c", line, *c);
    }
    cr_expect_geq(tokens_of(translated("a\\n", "--min-length 30")), 30, "twice the source and 10 are less");
    char *once = translated("a a a\\n", "--repetition-penalty 50");
    cr_expect_str_neq(once, translated("a a a\\n", ""));
    char *by_option = translated("a b\\n", "--beam 3 --min-length 4 --length-penalty average --scores");
    run_ok("sed -i 's/min_output_length: 0/min_output_length: 4/; s/length_penalty: wu/length_penalty: "
           "average/; s/beam_size: 1/beam_size: 3/' run/config.yaml");
    cr_expect_str_eq(translated("a b\\n", "--scores"), by_option);
    cr_expect_str_neq(translated("a b\\n", "--scores --length-penalty none"), by_option);
    cr_expect(refused(translate("a b\\n", "--beam-alpha 1"),
                      "qkv: --beam-alpha is the exponent of the length penalty wu, but the length penalty is "
                      "average: use --length-penalty wu"));
}

Test(search, translations_begin_with_the_prefix)
{
    enter(learned_run("prefix"));
    const char *lines = "a b\\tD\\nc\\n\\na b\\t\\n";
    cr_expect_str_eq(translated("a b\\nc\\n\\n", "--prefix"), "A B\nC\n\n");
    static const char *const SEARCHES[] = {"--prefix", "--prefix --beam 4", "--prefix --sample --top-k 1"};
    for (int i = 0; i < 3; i++) {
        char *found = translated(lines, SEARCHES[i]);
        cr_expect(begins(found, "D"));
        cr_expect(shows(found, "\nC\n\nA B\n"));
    }
    /* A word that the vocabulary lacks is printed as it is, and warned about. */
    struct outcome unknown = run("printf 'a b\\tA yak\\n' | qkv translate run --prefix");
    cr_expect(begins(unknown.output, "A yak"));
    cr_expect(begins(unknown.error, "qkv: <stdin>:1: not in the target vocabulary: yak\n"));
    static const char *const refusals[][2] = {
        {"'\\tA\\n'", "qkv: <stdin>:1: has a prefix, but no source"},
        {"'a\\tA\\tA\\n'",
         "qkv: <stdin>:1: has more than two columns, but must be a source, a tab and a prefix"},
        {"'a\\tA B C\\n'",
         "qkv: <stdin>:1: the prefix has 3 tokens, but a translation has at most 2 (--max-length)"}};
    EXPECT_REFUSALS("translate() { printf \"$1\" | qkv translate run --prefix --max-length 2; }; translate",
                    refusals);
    struct outcome late = translate("a\\nb\\tB\\nc\\tA B C\\n", "--prefix --max-length 2");
    cr_expect_eq(late.exit_code, 2);
    cr_expect_str_eq(late.output, "A\nB\n", "the lines before the bad one are translated");
    /* Without --prefix, a tab is a space. */
    cr_expect_str_eq(translated("a\\tb\\n", ""), "A B\n");
}

/* However the tokens of a translation are joined to a line. */
Test(search, prefixes_are_printed_as_the_line_has_them)
{
    enter(tiny_task("spelled"));
    run_ok("qkv train c.yaml -q -s training.updates=20 -s data.trg.split_punctuation=true -s "
           "data.trg.lowercase=true");
    const char *lines = "a b\\t 20 %% of (AT&T)  A \\na\\t\"\\na\\tA\\n";
    const char *text = translated(lines, "--prefix"), *line = strchr(text, '\n');
    cr_expect(begins(text, "20 % of (AT&T)  A"));
    cr_assert_not_null(line, "%s", text);
    cr_expect_eq(line[1], '"', "%s", text);
    line = strchr(line + 1, '\n');
    cr_assert_not_null(line, "%s", text);
    cr_expect_eq(line[1], 'A', "%s", text);
}

/* ---- unknown words ---- */

/* Trains a run on letters, of which capitals are the translations, with a name in each pair that stays as it is. A name
 * occurs once: it is <unk> on both sides. The letter c is written as `letter`. */
static void enter_names(const char *name, const char *letter, const char *options)
{
    char *lines = format("%s", "");
    unsigned state = 1;
    for (int i = 0; i < 200; i++) {
        char source[32] = "", target[32] = "";
        state = state * 1103515245 + 12345;
        for (unsigned k = 0, rest = state >> 8; k <= (state >> 4) % 3; k++, rest /= 7) {
            sprintf(source + strlen(source), "%s%c", k ? " " : "", 'a' + (int)(rest % 5));
            sprintf(target + strlen(target), "%s%c", k ? " " : "", 'A' + (int)(rest % 5));
        }
        lines = i % 2 ? format("%sn%d %s\tn%d %s\n", lines, i, source, i, target)
                      : format("%s%s n%d\t%s n%d\n", lines, source, i, target, i);
    }
    enter(tiny_task(name));
    write_text(".", "train.tsv", lines);
    run_ok("sed -i 's/\\bc\\b/%s/' train.tsv && qkv train c.yaml -q -s training.updates=400 -s "
           "training.validation_freq=400 -s training.scheduling=cosine -s data.src.voc_min_freq=2 -s "
           "data.trg.voc_min_freq=2 %s 2>&1",
           letter, options);
}

/* As the line spells them, also where the model reads lower case, pieces of words (here the digits of a name), or a line
 * with other marks: the dash makes three tokens of c\u2013c, the hyphen that the model knows makes one. */
Test(search, unknown_words_are_replaced_by_words_as_they_are_spelled)
{
    static const struct {
        const char *letter, *options, *lines, *expected;
    } cases[] = {
        {"c", "-s data.src.lowercase=true", "a b Zoe\\nZoe c d\\n", "A B Zoe\nZoe C D\n"},
        {"c", "-s data.src.level=bpe -s data.src.num_merges=1 -s training.updates=1200",
         "a b n57\\nn168 c d\\n", "A B n57\nn168 C D\n"},
        {"c-c", "-s data.src.split_punctuation=true", "b c\u2013c n9\\n", "B C n9\n"},
    };
    for (int i = 0; i < 3; i++) {
        enter_names(format("spelled%d", i), cases[i].letter, cases[i].options);
        cr_expect_str_eq(translated(cases[i].lines, "--replace-unk"), cases[i].expected);
    }
}

/* Also where the first subwords of the unknown word are known, and several of its subwords are not. */
Test(search, unknown_words_of_subwords_are_replaced_as_a_whole)
{
    enter_names("subwords", "c",
                "-s data.trg.level=bpe -s data.trg.num_merges=1 -s data.src.level=bpe -s "
                "data.src.num_merges=1 -s data.trg.voc_limit=9");
    char *text = translated("a b n57\\n", "--replace-unk --sample --n-best 64 --temperature 3");
    int replaced = 0;
    for (char *word = strtok(text, " \t\n"); word; word = strtok(NULL, " \t\n")) {
        if (!strstr(word, "n57")) continue;
        cr_expect_str_eq(word, "n57");
        replaced++;
    }
    cr_expect_gt(replaced, 9);
}

Test(search, unknown_words_are_replaced_by_what_they_are_aligned_with)
{
    static const char *const searches[] = {"", "--beam 3", "--with run"};
    enter_names("names", "c", "");
    const char *lines = "a b zoe\\nzoe c d\\n";
    for (int i = 0; i < 3; i++)
        cr_expect_str_eq(translated(lines, format("--replace-unk %s", searches[i])), "A B zoe\nzoe C D\n");
    cr_expect(lacks(translated(lines, ""), "<unk>"));
    /* A word of the prefix is not replaced. */
    cr_expect_str_eq(translated("zoe c d\\tyak\\n", "--replace-unk --prefix"), "yak C D\n");
    /* This model has read <unk> in training, that of tiny_run has not. */
    const char *note = "note: --replace-unk replaced nothing, because the model has written no <unk>";
    cr_expect(lacks(run("echo zoe c d | qkv translate run --replace-unk").error, note));
    enter(tiny_run("no_unk", 1));
    cr_expect(shows(run("echo zoe | qkv translate run --replace-unk").error, note));
}

/* ---- ensembles ---- */

Test(search, ensembles_of_runs)
{
    static const char *const searches[] = {"--scores", "--beam 3 --n-best 2 --scores",
                                           "--sample --n-best 2 --scores",
                                           "--beam 3 --repetition-penalty 1.3 --scores"};
    enter(tiny_run("ensembles", 60));
    train_recurrent("other", "", ", attention: {score: additive}", 40);
    for (int i = 0; i < 4; i++) {
        char *alone = search(searches[i]), *mixed = search(format("%s --with other --with run", searches[i]));
        cr_expect_str_eq(search(format("%s --with run", searches[i])), alone);
        cr_expect_str_neq(mixed, alone);
        cr_expect_str_eq(search(format("%s --with other --with run -j 3 -b 5", searches[i])), mixed);
    }
    const char *command = "qkv evaluate run dev.tsv %s";
    const char *alone = run_ok(command, ""), *mixed = run_ok(command, "--with other -j 1"); /* NOLINT */
    cr_expect_str_eq(without_paths(run_ok(command, "--with run")), without_paths(alone));   /* NOLINT */
    cr_expect_str_neq(without_paths(mixed), without_paths(alone));
    cr_expect_str_eq(run_ok(command, "--with other -j 3"), mixed); /* NOLINT */
    cr_expect(shows(mixed, "\nwith               other/last.safetensors\n"));
    cr_expect(shows(run_ok("qkv evaluate run dev.tsv --with other --json"),
                    "\t\"with\":\t[\"other/last.safetensors\"],\n"));
}

Test(search, ensembles_name_the_run_with_the_fewest_positions)
{
    const char *note = "qkv: <stdin>:1: has 9 tokens, but the model has positions for 8%s; the rest of the "
                       "line is ignored\n";
    enter(tiny_run("positions", 2));
    run_ok("qkv train c.yaml -q -s training.model_dir=short -s training.updates=2 -s "
           "model.encoder.positions.max_length=9 -s model.decoder.positions.max_length=9");
    cr_expect_str_eq(run("echo a b c d e a b c d | qkv translate run --with short").error,
                     format(note, ", a limit of short")); /* NOLINT */
    cr_expect_str_eq(run("echo a b c d e a b c d | qkv translate short --with run").error,
                     format(note, "")); /* NOLINT */
    cr_expect(fails(run("printf 'a b c d e a b c d\tA\n' | qkv evaluate run - --with short"), 2,
                    "qkv: short: <stdin>:1: "));
}

Test(search, runs_of_an_ensemble_need_the_same_vocabularies)
{
    enter(tiny_run("vocabularies", 1));
    run_ok("{ cat train.tsv; printf 'zz\\tZZ\\n'; } >more.tsv && qkv train c.yaml -q -s training.updates=1 "
           "-s data.train=more.tsv -s training.model_dir=larger 2>&1 && sed 's/E/X/g' train.tsv >changed.tsv "
           "&& qkv train c.yaml -q -s training.updates=1 -s data.train=changed.tsv -s "
           "training.model_dir=changed 2>&1");
    cr_expect(refused(translate("a\\n", "--with larger"),
                      "qkv: larger: cannot translate together with run: its source vocabulary has 12 entries "
                      "instead of 11; 'zz' is only in that of larger"));
    cr_expect(refused(run("qkv evaluate larger dev.tsv --with larger --with run"),
                      "qkv: run: cannot translate together with larger: its source vocabulary has 11 entries "
                      "instead of 12; 'zz' is only in that of larger"));
    cr_expect(refused(translate("a\\n", "--with run --with changed"),
                      "qkv: changed: cannot translate together with run: entry 5 of its target vocabulary is "
                      "'X' instead of 'E'"));
}
