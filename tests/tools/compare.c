/* qkv compare: tables and charts of evaluations, and what it refuses; tools/history.sh, which ends with it.
 */
#include "json.h"
#include "parse.h"
#include "written_runs.h"

/* An evaluation as `qkv evaluate --json` writes it, shortened to what is compared. */
static void write_evaluation(const char *name, const char *run_name, const char *test, double accuracy,
                             const char *more)
{
    write_text(".", name,
               format("{\"run\": \"%s\", \"parameters\": 1234567, \"training_tokens_per_second\": 4321.4, "
                      "\"training_max_length\": 25, \"test\": \"%s\", \"sentences\": 200, "
                      "\"token_accuracy\": 0.9, \"sequence_accuracy\": %g, \"bleu\": 87.654%s}\n",
                      run_name, test, accuracy, more));
}

#define CLASS(from, to, sentences, accuracy)                                                                 \
    "{\"from\": " #from ", \"to\": " #to ", \"sentences\": " #sentences                                      \
    ", \"sequence_accuracy\": " #accuracy "}"

static void enter_evaluations(const char *name)
{
    enter(scratch(name));
    write_evaluation("a1.json", "cho", "x/short/test.tsv", 0.5,
                     ", \"by_length\": [" CLASS(1, 5, 100, 0.9) ", " CLASS(6, 10, 100, 0.1) "]");
    write_evaluation("a2.json", "cho", "x/long/test.tsv", 0.0125,
                     ", \"by_length\": [" CLASS(6, 10, 300, 0.5) ", " CLASS(11, 15, 100, 0) "]");
    write_evaluation("b1.json", "bahdanau", "x/short/test.tsv", 0.985,
                     ", \"alignment\": {\"best\": {\"target\": {\"aer\": 0.2}, \"union\": {\"aer\": "
                     "0.12345}}}, \"by_length\": [" CLASS(1, 5, 9, 1) "]");
}

/* The text between tab `n` and the next tab or end of the line; n = 0: from the start. */
static const char *field(const char *line, int n)
{
    for (; n > 0; n--) {
        line += strcspn(line, "\t\n");
        cr_assert_eq(*line++, '\t', "too few fields");
    }
    return format("%.*s", (int)strcspn(line, "\t\n"), line);
}

/* Of a table with tabs: the cell of a model's row in a column. Other columns, such as those of metrics to come, may
 * stand anywhere. */
static const char *cell(const char *table, const char *model, const char *column)
{
    const char *row = strstr(table, format("\n%s\t", model));
    cr_assert_not_null(row, "no row %s in\n%s", model, table);
    int number = 0;
    while (strcmp(field(table, number), column) != 0) number++;
    return field(row + 1, number);
}

Test(compare, writes_tables_and_charts)
{
    enter_evaluations("files");
    const char *text =
        run_ok("qkv compare a1.json b1.json a2.json -o t.md -o t.tsv -o t.json -o t.svg -o t.png -o t.txt");
    cr_expect_str_eq(text,
                     "                                short                        long\n"
                     "model     parameters  tokens/s  sequences, %   BLEU  AER, %  sequences, %   BLEU\n"
                     "cho        1,234,567     4,321         50.00  87.65       –          1.25  87.65\n"
                     "bahdanau   1,234,567     4,321         98.50  87.65   12.35             –      –\n");
    cr_expect_str_eq(read_file("t.txt", NULL), text);
    cr_expect_str_eq(read_file("t.md", NULL),
                     "| model | parameters | tokens/s | short: sequences, % | short: BLEU | short: AER, % | "
                     "long: sequences, % | long: BLEU |\n"
                     "|---|---:|---:|---:|---:|---:|---:|---:|\n"
                     "| cho | 1,234,567 | 4,321 | 50.00 | 87.65 | – | 1.25 | 87.65 |\n"
                     "| bahdanau | 1,234,567 | 4,321 | 98.50 | 87.65 | 12.35 | – | – |\n");
    cr_expect_str_eq(read_file("t.tsv", NULL), "model\tparameters\ttokens/s\tshort: sequences, %\tshort: "
                                               "BLEU\tshort: AER, %\tlong: sequences, %\tlong: BLEU\n"
                                               "cho\t1234567\t4321\t50.00\t87.65\t\t1.25\t87.65\n"
                                               "bahdanau\t1234567\t4321\t98.50\t87.65\t12.35\t\t\n");
    cr_expect_eq(json_size(json_by("cat t.json"), "2.by_length"), 2);
    /* Lengths 3, 8 and 13; at 8 the two tests of cho make (10 + 150) of 400 right: 40 %. */
    double x[3], y[3];
    const char *svg = read_file("t.svg", NULL),
               *points = strstr(svg, "<polyline fill=\"none\" stroke=\"#000000\"");
    cr_expect(shows(svg, ">bahdanau<"));
    cr_assert_not_null(points);
    points = strstr(points, "points=\"");
    cr_assert_eq(sscanf(points, "points=\"%lf,%lf %lf,%lf %lf,%lf\"", x, y, x + 1, y + 1, x + 2, y + 2), 6);
    cr_expect_float_eq(x[1] - x[0], x[2] - x[1], 0.02);
    cr_expect_float_eq((y[2] - y[1]) / (y[2] - y[0]), 40. / 90, 1e-3);
    run_ok("head -c 8 t.png | tail -c 7 | grep -q PNG");
}

/* A name from a file must not steer a terminal, end a cell, or break a format. */
Test(compare, shows_any_name_in_every_format)
{
    static const struct {
        const char *json, *name; /* as JSON writes it, and the bytes */
        const char *shown;       /* in formats for people */
    } names[] = {
        {"a\\u001b[2J\\u009b\\u202Eb", "a\033[2J\xC2\x9B\u202Eb", "a\uFFFD[2J\uFFFD\uFFFDb"},
        {"a|b<b>&amp;`x` *y* _z_ a_b \\\\|", "a|b<b>&amp;`x` *y* _z_ a_b \\|",
         "a|b<b>&amp;`x` *y* _z_ a_b \\|"},
        {"=cmd|x", "=cmd|x", "=cmd|x"},
        {"a\\tb\\nc", "a\tb\nc", "a\uFFFDb\uFFFDc"},
        {"a\\uFFFEb\\uFFFF", "a\uFFFEb\uFFFF", "a\uFFFDb\uFFFD"},
        {"x\xFFy\xE4", "x\uFFFDy\uFFFD", "x\uFFFDy\uFFFD"},
        {"\xF0\x9F\x98", "\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enter(scratch(format("names_%zu", i)));
        write_evaluation("a.json", names[i].json, "x\\u001b/t|t.tsv", 0.5,
                         ", \"by_length\": [" CLASS(1, 5, 100, 0.9) "]");
        struct outcome outcome = run("qkv compare a.json -o t.md -o t.tsv -o t.json -o t.svg -o t.png");
        cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
        cr_expect_str_empty(outcome.error);
        cr_expect(shows(outcome.output, format("\n%s ", names[i].shown)));
        cr_expect_null(strpbrk(outcome.output, "\033\t"));
        struct table_text markdown = parse_markdown(read_file("t.md", NULL));
        cr_assert_eq(markdown.rows, 3);
        cr_expect_str_eq(markdown.cell[2 * markdown.columns], names[i].shown);
        cr_expect_str_eq(markdown.cell[markdown.columns - 1], "t|t: BLEU");
        struct table_text tsv = parse_separated(read_file("t.tsv", NULL), '\t');
        cr_assert_eq(tsv.rows, 2);
        cr_expect_str_eq(without_guard(tsv.cell[tsv.columns]), names[i].name);
        cr_expect_neq(*tsv.cell[tsv.columns], '=');
        cr_expect_str_eq(json_text(json_by("cat t.json"), "0.run"), names[i].name);
        bool has_tab = strchr(names[i].name, '\t'); /* which pictures show as a space */
        cr_expect(has_text(parse_markup(read_file("t.svg", NULL)), has_tab ? "a b\uFFFDc" : names[i].shown));
    }
}

Test(compare, refuses_files_that_are_no_evaluations)
{
    enter_evaluations("refused");
    write_evaluation("again.json", "cho", "x/short/test.tsv", 0.5, "");
    write_evaluation("plain.json", "cho", "x/short/test.tsv", 0.5, "");
    write_evaluation("broken.json", "cho", "y", 0.5, ", \"by_length\": [{\"from\": 1}]");
    write_text(".", "other.json", "{\"run\": \"cho\"}");
    run_ok("sed 's/87.654/null/' plain.json >null.json"); /* JSON has no NaN */
    write_text(".", "empty.json", "");
#define NONE ": is not an evaluation; make one with `qkv evaluate --json`"
    static const char *const cases[][2] = {
        {"", "qkv: RUN is missing (usage: qkv compare RUN... [options])"},
        {"none.json", "qkv: none.json: there is no such file"},
        {"none", "qkv: none: there is no such run"},
        {".", "qkv: .: not a run: it holds no config.yaml; `qkv train` makes runs"},
        {"empty.json", "qkv: empty.json: the file is empty"},
        {"other.json", "qkv: other.json" NONE},
        {"broken.json", "qkv: broken.json" NONE},
        {"null.json", "qkv: null.json" NONE},
        {"a1.json again.json", "qkv: again.json: a second evaluation of run cho on x/short/test.tsv by the "
                               "same checkpoint and search: leave one out"},
        {"a1.json -o x.bmp", "qkv: x.bmp: a comparison is written as .md, .tsv, .json, .txt, .svg or .png"},
        {"plain.json -o x.svg", "qkv: x.svg: no evaluation has scores by length; make them with `qkv "
                                "evaluate --by-length 5 --json`"},
        {"a1.json -o none/x.md", "qkv: none/x.md: cannot be written: there is no folder none"},
    };
    EXPECT_REFUSALS("qkv compare ", cases);
    cr_expect_eq(run("ls | grep -q x").exit_code, 1);
}

/* Checkpoints, beam sizes and ensembles of a run are rows of their own; only the same ones of two seeds have a mean. */
Test(compare, tells_the_systems_of_a_run_apart)
{
    enter(tiny_task("systems"));
    run_ok("for seed in 1 2; do qkv train c.yaml -q -s training.model_dir=run-$seed -s "
           "training.random_seed=$seed -s training.updates=20 -s training.validation_freq=10 -s "
           "testing.average=2 -s training.keep_best_ckpts=2; done; json() { name=$1; shift; qkv evaluate "
           "run-\"$@\" --json >$name.json 2>/dev/null; }; json a 1 dev.tsv; json b 2 dev.tsv; json best 1 "
           "dev.tsv --checkpoint best; json beam 1 dev.tsv --beam 3; json both 2 dev.tsv --with run-1");
    static const struct {
        const char *files, *rows[4];
    } cases[] = {
        {"a.json b.json", {"run (mean of 2 seeds)"}},
        {"a.json best.json beam.json b.json",
         LIST("run, average (mean of 2 seeds)", "tiny, best", "tiny, average, beam 3")},
        {"best.json b.json", {"tiny, best", "tiny, average"}},
        {"a.json both.json", {"tiny, average", "tiny, average, with run-1"}},
        {"run-1 both.json", {"run-1", "tiny, average, with run-1"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rows = 0;
        run_ok("qkv compare %s -o t.tsv", cases[i].files);
        const char *table = read_file("t.tsv", NULL);
        for (; cases[i].rows[rows]; rows++)
            cr_expect(shows(table, format("\n%s\t", cases[i].rows[rows])), "%s", cases[i].files);
        cr_expect_eq(atoi(run_ok("wc -l <t.tsv")), rows + 1, "%s", table);
    }
}

/* The mean of 10 and 20 is 15, their deviation 7.07. As many keys as rows differ: a row for each model; what follows from
 * num_heads is left out. */
Test(compare, shows_run_folders_at_their_best_validation_and_seeds_as_one_row)
{
    enter(tiny_task("folders"));
    char *worse = written_validation_line(20, 3, 50);
    written_run("small-1", 1, "", format("%s%s", written_validation_line(10, 2, 10), worse));
    written_run("small-2", 2, "", format("%s%s", written_validation_line(10, 2, 20), worse));
    written_run("wide", 2, "-s training.learning_rate=0.5 -s model.encoder.num_heads=4",
                written_validation_line(10, 1, 40));
    cr_expect_str_eq(
        run_ok("qkv compare small-1 small-2 wide -o t.md -o t.tsv"),
        "                                               dev\n"
        "model                    parameters  tokens/s             loss  sequences, %          BLEU\n"
        "small (mean of 2 seeds)           –         –  2.0000 ± 0.0000             –  15.00 ± 7.07\n"
        "wide                              –         –           1.0000             –         40.00\n"
        "\n"
        "model                    model.encoder.num_heads  training.learning_rate\n"
        "small (mean of 2 seeds)                        2                    0.01\n"
        "wide                                           4                     0.5\n");
    cr_expect(shows(read_file("t.tsv", NULL),
                    "\nsmall (mean of 2 seeds)\t\t\t2.0000\t\t15.00\nwide\t\t\t1.0000\t\t40.00\n"));
    cr_expect(shows(read_file("t.md", NULL),
                    "\n\n| model | model.encoder.num_heads | training.learning_rate |\n|---|---:|---:|\n"));
    /* The seed is shown where it is what distinguishes the rows, and no key where there is one row. */
    cr_expect(lacks(run_ok("qkv compare small-1 small-2"), "\nmodel  training"));
    cr_expect(refused(run("cp -r small-1 copy && qkv compare ."),
                      "qkv: .: not a run, but it holds runs, such as ./copy"));
    cr_expect(
        lacks(run_ok("qkv compare small-1 copy"), "mean of")); /* the same seed twice is no second seed */
    cr_expect(
        refused(run("qkv compare small-1 ./small-1"), "qkv: ./small-1: is named twice; name each run once"));
}

/* Averages are shown as translating and evaluating use them. The first validation of d has no loss, as when early stopping used
 * another metric then. Seeds without another name are called by their folder. */
Test(compare, takes_the_score_and_the_name_of_each_run)
{
    enter(tiny_task("scores"));
    const char *best = written_validation_line(10, 2, 10);
    const char *average = "{\"kind\":\"average\",\"update\":20,\"checkpoints\":2,\"loss\":1.5,\"token_"
                          "accuracy\":0.5,\"bleu\":30}\n";
    written_run("a", 1, "-s testing.average=2", format("%s%s", best, average));
    written_run("b", 1, "", format("%s%s", best, average));
    written_run("c", 1, "-s testing.average=2 -s training.batch_size=3", best); /* has none yet */
    written_run("d", 1, "", format("{\"kind\":\"validation\",\"update\":5,\"bleu\":90}\n%s", best));
    run_ok("qkv compare a b c d -o t.tsv");
    static const char *const scores[][2] = {{"a", "30.00"}, {"b", "10.00"}, {"c", "10.00"}, {"d", "10.00"}};
    for (int i = 0; i < 4; i++)
        cr_expect_str_eq(cell(read_file("t.tsv", NULL), scores[i][0], "dev: BLEU"), scores[i][1]);
    cr_expect_str_eq(cell(read_file("t.tsv", NULL), "a", "dev: loss"), "1.5000");
    for (int seed = 1; seed <= 2; seed++) written_run(format("%d", seed), seed, "", best);
    cr_expect(shows(
        run_ok("mkdir wide && mv 1 wide/seed=1 && mv 2 wide/seed=2 && qkv compare wide/seed=1 wide/seed=2"),
        "\nwide (mean of 2 seeds) "));
}

Test(compare, evaluations_of_seeds_are_one_row_while_their_runs_are_there)
{
    enter(tiny_task("seeds"));
    for (int seed = 1; seed <= 2; seed++) {
        written_run(format("s%d", seed), seed, "", written_validation_line(10, 2, 10 * seed));
        write_evaluation(format("s%d.json", seed), format("s%d", seed), "x/test.tsv", 0.25 * seed,
                         format(", \"checkpoint\": \"s%d/best.safetensors\"", seed));
    }
    const char *text = run_ok("qkv compare s1.json s2.json s2 -o t.tsv");
    const char *table = read_file("t.tsv", NULL);
    cr_expect_str_eq(cell(table, "s (mean of 2 seeds)", "test: sequences, %"), "37.50", "%s", text);
    cr_expect_str_eq(cell(table, "s (mean of 2 seeds)", "dev: BLEU"), "20.00", "of the one that is named");
    run_ok("rm -r s1 s2 && qkv compare s1.json s2.json -o t.tsv");
    cr_expect_str_eq(cell(read_file("t.tsv", NULL), "s2", "test: sequences, %"), "50.00");
}

Test(compare, warns_of_scores_that_do_not_compare)
{
    enter(scratch("signatures"));
    const char *signature = ", \"bleu_signature\": \"nrefs:1|case:mixed|tok:%s|version:%d\"";
    write_evaluation("a.json", "a", "test.tsv", 0.5, format(signature, "13a", 1));
    write_evaluation("b.json", "b", "test.tsv", 0.5, format(signature, "13a", 2));
    write_evaluation("c.json", "c", "test.tsv", 0.5, format(signature, "char", 2));
    write_evaluation("d.json", "d", "other.tsv", 0.5, format(signature, "char", 2));
    cr_expect_str_empty(run("qkv compare a.json b.json d.json").error);
    struct outcome outcome = run("qkv compare a.json b.json c.json");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error,
                     "warning: BLEU on test: that of a is nrefs:1|case:mixed|tok:13a|version:1, but of c is "
                     "nrefs:1|case:mixed|tok:char|version:2; these scores cannot be compared\n");
}

/* Two configs, hardly trained: all files are there, and a second call trains nothing. */
Test(history, compares_configs)
{
    const char *folder = enter(scratch("history"));
    const char *history = format("cd '%s' && QKV='%s' RUNS='%s' UPDATES=2 TESTS=3 THREADS=1 tools/history.sh",
                                 QKV_SOURCE_DIR, QKV_BINARY, folder);
    const char *configs = "configs/history/vaswani_2017.yaml configs/toy_en_es.yaml";
    const char *output = run_ok("%s %s", history, configs), *before = fingerprint(".");
    cr_expect(shows(output, "short") && shows(output, "AER, %"));
    run_ok("ls comparison.md comparison.tsv comparison.json accuracy_by_length.svg accuracy_by_length.png");
    cr_expect(shows(read_file("comparison.md", NULL), "\n| vaswani_2017 | 64"));
    cr_expect_str_eq(cell(read_file("comparison.tsv", NULL), "toy_en_es", "parameters"),
                     format("%.0f", json_number(json_by("qkv inspect 'toy_en_es,seed=42' --json"), "total")),
                     "without the gaps between tensors");
    run_ok("%s %s", history, configs);
    cr_expect_str_eq(fingerprint("."), before);
    cr_expect_eq(run("%s none.yaml", history).exit_code, 2);
}
