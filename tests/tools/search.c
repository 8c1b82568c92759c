/* The options of searching in qkv translate and qkv evaluate: samples, constraints, prefixes, unknown words, ensembles. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Translates what printf makes of `text`. */
static struct outcome translate(const char *folder, const char *text, const char *options)
{
    return run("cd '%s' && printf '%s' | qkv translate run -q %s", folder, text, options);
}

static char *translated(const char *folder, const char *text, const char *options)
{
    struct outcome outcome = translate(folder, text, options);
    cr_assert_eq(outcome.exit_code, 0, "%s: %s", options, outcome.error);
    cr_expect_str_empty(outcome.error, "%s", options);
    return outcome.output;
}

/* Many lines of all lengths, some empty. */
static const char *many_lines(const char *folder)
{
    run_ok("cd '%s' && for i in $(seq 60); do case $((i %% 5)) in 0) echo ;; 1) echo a b;; 2) echo c;; 3) "
           "echo e d a b c;; 4) echo a b;; esac; done >in.txt",
           folder);
    return folder;
}

/* Trains a recurrent network on the text of a tiny task. */
static void train_recurrent(const char *folder, const char *name, const char *score)
{
    write_text(
        folder, "recurrent.yaml",
        format("name: recurrent\ndata:\n  train: train.tsv\n  src: {lang: a}\n  trg: {lang: b}\nmodel:\n"
               "  encoder: {type: recurrent, hidden_size: 16}\n"
               "  decoder: {type: recurrent, hidden_size: 16, attention: {score: %s}}\n"
               "training: {model_dir: %s, updates: 40, learning_rate: 0.01}\n",
               score, name));
    run_ok("cd '%s' && qkv train recurrent.yaml -q 2>&1", folder);
}

/* ---- samples ---- */

Test(search, samples_are_the_same_for_all_threads_and_batches)
{
    const char *folder = many_lines(tiny_run("samples", 60));
    const char *command =
        "cd '%s' && qkv translate run in.txt --sample --temperature 2 --n-best 3 --scores %s";
    char *expected = run_ok(command, folder, "-j 1 -b 32");
    cr_expect_gt(strlen(expected), 60 * 3);
    static const char *const OTHERS[] = {"-j 3 -b 32", "-j 1 -b 1", "-j 3 -b 1", "-j 2 -b 7", "--seed 42"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++)
        cr_expect_str_eq(run_ok(command, folder, OTHERS[i]), expected, "%s", OTHERS[i]);
    cr_expect_str_neq(run_ok(command, folder, "--seed 43"), expected);
    /* The sample of a line depends on its number, not on the other lines. */
    char *alone = translated(folder, "x\\n\\ne d a b c\\n", "--sample --temperature 2 --n-best 3 --scores");
    char *third = strstr(expected, "\n3\t");
    cr_assert_not_null(third);
    *strstr(third, "\n4\t") = '\0';
    cr_expect_str_eq(strstr(alone, "\n3\t"), format("%s\n", third));
}

Test(search, samples_of_one_token_are_greedy_search)
{
    enter(many_lines(tiny_run("greedy", 60)));
    char *greedy = run_ok("qkv translate run in.txt");
    cr_expect_str_eq(run_ok("qkv translate run in.txt --sample --top-k 1"), greedy);
    cr_expect_str_eq(run_ok("qkv translate run in.txt --sample --top-p 1e-6"), greedy);
    cr_expect_str_neq(run_ok("qkv translate run in.txt --sample"), greedy);
}

/* ---- what is refused ---- */

Test(search, contradictions_are_refused)
{
    const char *folder = enter(tiny_run("refused", 1));
    static const struct {
        const char *options, *message;
    } CASES[] = {
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
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        cr_expect(refused(translate(folder, "a\\n", CASES[i].options), CASES[i].message), "%s",
                  CASES[i].options);
    cr_expect(refused(run("qkv evaluate run dev.tsv --min-length 5 --max-length 4"),
                      "qkv: the shortest translation is 5 tokens, but the longest is 4: change --min-length "
                      "or --max-length"));
    cr_expect(refused(run("qkv config c.yaml -s testing.min_output_length=9 -s testing.max_output_length=8"),
                      "-s testing.min_output_length=9: testing.min_output_length is 9, but must not exceed "
                      "testing.max_output_length (8)"));
    cr_expect(refused(run("qkv config c.yaml -s testing.length_penalty=none -s testing.beam_alpha=1"),
                      "-s testing.beam_alpha=1: testing.beam_alpha is 1, but has an effect only when "
                      "testing.length_penalty is wu (it is none)"));
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
    const char *folder = enter(learned_run("constraints"));
    cr_expect_str_eq(translated(folder, "a b\\nc\\n", ""), "A B\nC\n");
    static const char *const SEARCHES[] = {"", "--beam 4", "--sample"};
    for (int i = 0; i < 3; i++) {
        char *longer = translated(folder, "a b\\n", format("%s --min-length 4", SEARCHES[i]));
        cr_expect_geq(tokens_of(longer), 4, "%s", longer);
        cr_expect_leq(tokens_of(translated(folder, "a b\\n", format("%s --max-length 1", SEARCHES[i]))), 1);
        char *line = translated(folder, "a b a\\n",
                                format("%s --no-repeat-ngram 1 --min-length 4 --max-length 6", SEARCHES[i]));
        cr_expect_geq(tokens_of(line), 4, "%s", line);
        line[strcspn(line, "\n")] = '\0';
        for (const char *c = line; *c; c++)
            cr_expect(*c == ' ' || !strchr(c + 1, *c), "%s repeats %c", line, *c);
    }
    cr_expect_geq(tokens_of(translated(folder, "a\\n", "--min-length 30")), 30,
                  "twice the source and 10 are less");
    char *once = translated(folder, "a a a\\n", "--repetition-penalty 50");
    cr_expect_str_neq(once, translated(folder, "a a a\\n", ""));
    char *by_option =
        translated(folder, "a b\\n", "--beam 3 --min-length 4 --length-penalty average --scores");
    run_ok("sed -i 's/min_output_length: 0/min_output_length: 4/; s/length_penalty: wu/length_penalty: "
           "average/; s/beam_size: 1/beam_size: 3/' run/config.yaml");
    cr_expect_str_eq(translated(folder, "a b\\n", "--scores"), by_option);
    cr_expect_str_neq(translated(folder, "a b\\n", "--scores --length-penalty none"), by_option);
    cr_expect(refused(translate(folder, "a b\\n", "--beam-alpha 1"),
                      "qkv: --beam-alpha is the exponent of the length penalty wu, but the length penalty is "
                      "average: use --length-penalty wu"));
}

Test(search, translations_begin_with_the_prefix)
{
    const char *folder = enter(learned_run("prefix"));
    const char *lines = "a b\\tD\\nc\\n\\na b\\t\\n";
    cr_expect_str_eq(translated(folder, "a b\\nc\\n\\n", "--prefix"), "A B\nC\n\n");
    static const char *const SEARCHES[] = {"--prefix", "--prefix --beam 4", "--prefix --sample --top-k 1"};
    for (int i = 0; i < 3; i++) {
        char *found = translated(folder, lines, SEARCHES[i]);
        cr_expect(!strncmp(found, "D", 1), "%s", found);
        cr_expect(shows(found, "\nC\n\nA B\n"));
    }
    /* A word that the vocabulary lacks is printed as it is, and warned about. */
    struct outcome unknown = run("printf 'a b\\tA yak\\n' | qkv translate run --prefix");
    cr_expect(!strncmp(unknown.output, "A yak", 5), "%s", unknown.output);
    cr_expect_str_eq(unknown.error, "qkv: <stdin>:1: not in the target vocabulary: yak\n");
    cr_expect(
        refused(translate(folder, "\\tA\\n", "--prefix"), "qkv: <stdin>:1: has a prefix, but no source"));
    cr_expect(refused(translate(folder, "a\\tA\\tA\\n", "--prefix"),
                      "qkv: <stdin>:1: has more than two columns, but must be a source, a tab and a prefix"));
    cr_expect(
        refused(translate(folder, "a\\tA B C\\n", "--prefix --max-length 2"),
                "qkv: <stdin>:1: the prefix has 3 tokens, but a translation has at most 2 (--max-length)"));
    struct outcome late = translate(folder, "a\\nb\\tB\\nc\\tA B C\\n", "--prefix --max-length 2");
    cr_expect_eq(late.exit_code, 2);
    cr_expect_str_eq(late.output, "A\nB\n", "the lines before the bad one are translated");
    /* Without --prefix, a tab is a space. */
    cr_expect_str_eq(translated(folder, "a\\tb\\n", ""), "A B\n");
}

/* However the tokens of a translation are joined to a line. */
Test(search, prefixes_are_printed_as_the_line_has_them)
{
    const char *folder = enter(tiny_task("spelled"));
    run_ok("qkv train c.yaml -q -s training.updates=20 -s data.trg.split_punctuation=true -s "
           "data.trg.lowercase=true");
    const char *lines = "a b\\t 20 %% of (AT&T)  A \\na\\t\"\\na\\tA\\n";
    const char *text = translated(folder, lines, "--prefix"), *line = strchr(text, '\n');
    cr_expect_eq(strncmp(text, "20 % of (AT&T)  A", 17), 0, "%s", text);
    cr_assert_not_null(line, "%s", text);
    cr_expect_eq(line[1], '"', "%s", text);
    line = strchr(line + 1, '\n');
    cr_assert_not_null(line, "%s", text);
    cr_expect_eq(line[1], 'A', "%s", text);
}

/* ---- unknown words ---- */

/* Trains a run on letters, of which capitals are the translations, with a name in each pair that stays as it is. A name
 * occurs once: it is <unk> on both sides. */
static const char *run_with_names(const char *name, const char *options)
{
    const char *folder = tiny_task(name);
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
    write_text(folder, "train.tsv", lines);
    run_ok("cd '%s' && qkv train c.yaml -q -s training.updates=400 -s training.validation_freq=400 -s "
           "training.scheduling=cosine -s data.src.voc_min_freq=2 -s data.trg.voc_min_freq=2 %s 2>&1",
           folder, options);
    return folder;
}

/* As the line spells them, also where the model reads lower case or pieces of words: here the digits of a name. */
Test(search, unknown_words_are_replaced_by_words_as_they_are_spelled)
{
    const char *lower = run_with_names("lower", "-s data.src.lowercase=true");
    cr_expect_str_eq(translated(lower, "a b Zoe\\nZoe c d\\n", "--replace-unk"), "A B Zoe\nZoe C D\n");
    const char *pieces =
        run_with_names("pieces", "-s data.src.level=bpe -s data.src.num_merges=1 -s training.updates=1200");
    cr_expect_str_eq(translated(pieces, "a b n57\\nn168 c d\\n", "--replace-unk"), "A B n57\nn168 C D\n");
}

/* Also where the first subwords of the unknown word are known, and several of its subwords are not. */
Test(search, unknown_words_of_subwords_are_replaced_as_a_whole)
{
    const char *folder =
        run_with_names("subwords", "-s data.trg.level=bpe -s data.trg.num_merges=1 -s data.src.level=bpe -s "
                                   "data.src.num_merges=1 -s data.trg.voc_limit=9");
    char *text = translated(folder, "a b n57\\n", "--replace-unk --sample --n-best 64 --temperature 3");
    int replaced = 0;
    for (char *word = strtok(text, " \t\n"); word; word = strtok(NULL, " \t\n")) {
        if (!strstr(word, "n57")) continue;
        cr_expect_str_eq(word, "n57");
        replaced++;
    }
    cr_expect_gt(replaced, 9);
}

/* The dash makes three tokens of c\u2013c, the hyphen that the model knows makes one. */
Test(search, unknown_words_are_found_in_a_line_that_is_read_with_other_marks)
{
    const char *folder = enter(run_with_names("marks", "-s training.updates=1"));
    run_ok("sed -i 's/\\bc\\b/c-c/' train.tsv && qkv train c.yaml -q --overwrite -s training.updates=400 -s "
           "training.validation_freq=400 -s training.scheduling=cosine -s data.src.voc_min_freq=2 -s "
           "data.trg.voc_min_freq=2 -s data.src.split_punctuation=true");
    cr_expect_str_eq(translated(folder, "b c\u2013c n9\\n", "--replace-unk"), "B C n9\n");
}

Test(search, unknown_words_are_replaced_by_what_they_are_aligned_with)
{
    const char *folder = enter(run_with_names("names", ""));
    const char *lines = "a b zoe\\nzoe c d\\n";
    cr_expect_str_eq(translated(folder, lines, "--replace-unk"), "A B zoe\nzoe C D\n");
    cr_expect_str_eq(translated(folder, lines, "--replace-unk --beam 3"), "A B zoe\nzoe C D\n");
    cr_expect_str_eq(translated(folder, lines, "--replace-unk --with run"), "A B zoe\nzoe C D\n");
    cr_expect(lacks(translated(folder, lines, ""), "<unk>"));
    /* The model of run_with_names has read <unk> in training, that of tiny_run has not. */
    const char *note = "note: --replace-unk replaced nothing, because the model has written no <unk>";
    struct outcome replaced = run("printf '%s' | qkv translate run --replace-unk", lines),
                   silent =
                       run("cd '%s' && echo zoe | qkv translate run --replace-unk", tiny_run("no_unk", 1));
    cr_expect(lacks(replaced.error, note));
    cr_expect(shows(silent.error, note));
    /* A word of the prefix is not replaced. */
    cr_expect_str_eq(translated(folder, "zoe c d\\tyak\\n", "--replace-unk --prefix"), "yak C D\n");
    train_recurrent(folder, "plain", "none");
    cr_expect(refused(
        run("echo a | qkv translate plain --replace-unk"),
        "qkv: plain: --replace-unk needs cross attention, which the model of this run does not have"));
}

/* ---- ensembles ---- */

Test(search, ensembles_of_runs)
{
    const char *folder = enter(many_lines(tiny_run("ensembles", 60)));
    static const char *const SEARCHES[] = {"--scores", "--beam 3 --n-best 2 --scores",
                                           "--sample --n-best 2 --scores",
                                           "--beam 3 --repetition-penalty 1.3 --scores"};
    train_recurrent(folder, "other", "additive");
    for (int i = 0; i < 4; i++) {
        const char *command = "cd '%s' && qkv translate run in.txt %s %s";
        char *alone = run_ok(command, folder, SEARCHES[i], "");
        cr_expect_str_eq(run_ok(command, folder, SEARCHES[i], "--with run"), alone);
        char *mixed = run_ok(command, folder, SEARCHES[i], "--with other --with run");
        cr_expect_str_neq(mixed, alone);
        cr_expect_str_eq(run_ok(command, folder, SEARCHES[i], "--with other --with run -j 3 -b 5"), mixed);
    }
    const char *command = "cd '%s' && qkv evaluate run dev.tsv %s";
    char *alone = run_ok(command, folder, "");
    cr_expect_str_eq(without_paths(run_ok(command, folder, "--with run")), without_paths(alone));
    cr_expect_str_neq(without_paths(run_ok(command, folder, "--with other")), without_paths(alone));
    cr_expect(shows(run_ok("qkv evaluate run dev.tsv --with other"),
                    "\nwith               other/last.safetensors\n"));
    cr_expect(shows(run_ok("qkv evaluate run dev.tsv --with other --json"),
                    "\t\"with\":\t[\"other/last.safetensors\"],\n"));
    cr_expect_str_eq(run_ok(command, folder, "--with other -j 1"),
                     run_ok(command, folder, "--with other -j 3"));
}

Test(search, ensembles_name_the_run_with_the_fewest_positions)
{
    enter(tiny_run("positions", 2));
    run_ok("qkv train c.yaml -q -s training.model_dir=short -s training.updates=2 -s "
           "model.encoder.positions.max_length=9 -s model.decoder.positions.max_length=9 2>&1");
    struct outcome outcome = run("echo a b c d e a b c d | qkv translate run --with short");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error, "qkv: <stdin>:1: has 9 tokens, but the model has positions for 8, a "
                                    "limit of short; the rest of the line is ignored\n");
    outcome = run("echo a b c d e a b c d | qkv translate short --with run");
    cr_expect_str_eq(
        outcome.error,
        "qkv: <stdin>:1: has 9 tokens, but the model has positions for 8; the rest of the line is ignored\n");
    outcome = run("printf 'a b c d e a b c d\tA\n' | qkv evaluate run - --with short");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(strncmp(outcome.error, "qkv: short: <stdin>:1: ", 23), 0, "%s", outcome.error);
}

/* The loss of an ensemble is at most the mean of the losses of its members: the logarithm is concave. */
Test(search, the_loss_of_an_ensemble_is_below_the_mean)
{
    const char *folder = enter(tiny_run("loss", 40));
    const char *command = "cd '%s' && qkv evaluate %s dev.tsv %s | sed -n 's/^loss *//p'";
    run_ok("qkv train c.yaml -q -s training.model_dir=other -s training.random_seed=7 -s training.updates=40 "
           "2>&1");
    double first = strtod(run_ok(command, folder, "run", ""), NULL);
    double second = strtod(run_ok(command, folder, "other", ""), NULL);
    double both = strtod(run_ok(command, folder, "run", "--with other"), NULL);
    cr_expect_lt(both, (first + second) / 2, "%g and %g, together %g", first, second, both);
    cr_expect_gt(both, (first < second ? first : second) / 2);
}

Test(search, runs_of_an_ensemble_need_the_same_vocabularies)
{
    const char *folder = enter(tiny_run("vocabularies", 1));
    run_ok("{ cat train.tsv; printf 'zz\\tZZ\\n'; } >more.tsv && qkv train c.yaml -q -s training.updates=1 "
           "-s data.train=more.tsv -s training.model_dir=larger 2>&1 && sed 's/E/X/g' train.tsv >changed.tsv "
           "&& qkv train c.yaml -q -s training.updates=1 -s data.train=changed.tsv -s "
           "training.model_dir=changed 2>&1");
    cr_expect(refused(translate(folder, "a\\n", "--with larger"),
                      "qkv: larger: cannot translate together with run: its source vocabulary has 12 entries "
                      "instead of 11; 'zz' is only in that of larger"));
    cr_expect(refused(run("qkv evaluate larger dev.tsv --with larger --with run"),
                      "qkv: run: cannot translate together with larger: its source vocabulary has 11 entries "
                      "instead of 12; 'zz' is only in that of larger"));
    cr_expect(refused(translate(folder, "a\\n", "--with run --with changed"),
                      "qkv: changed: cannot translate together with run: entry 5 of its target vocabulary is "
                      "'X' instead of 'E'"));
}
