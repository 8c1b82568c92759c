/* `qkv translate` and `qkv evaluate` in several processes, which mpirun starts, print what one process prints, and end together
 * with one sentence. */
#include "mpirun.h"

/* More lines than fit into one block of four sentences a batch (fewer in a slow build), of all lengths, some of them empty or
 * with unknown words. */
static void make_lines(void)
{
    mpirun();
    enter(learned_run("lines"));
    run_ok("for i in $(seq %d); do case $((i %% 6)) in 0) echo ;; 1) echo a b;; 2) echo c;; "
           "3) echo e d;; 4) echo a b c d;; 5) echo b unknown;; esac; done > in.txt && "
           "grep . in.txt | awk '{ print $0 \"\\t\" toupper($0) }' > pairs.tsv",
           is_slow_build() ? 100 : 700);
}

TestSuite(translate_processes, .init = make_lines);

/* Runs commands of qkv in one process and in three, and compares what they print, and the file `out.tsv`. */
static void expect_same(size_t count, const char *const commands[])
{
    for (size_t i = 0; i < count; i++) {
        const char *arguments = format("%s -j 2", commands[i]);
        run_ok("rm -f out.tsv");
        struct outcome one = run("qkv %s", arguments);
        cr_assert(one.exit_code == 0 && *one.output, "%s: %s", arguments, one.error);
        char *file = read_file("out.tsv", NULL);
        run_ok("rm -f out.tsv");
        struct outcome several = run_several(3, arguments);
        cr_expect_eq(several.exit_code, 0, "%s", several.error);
        cr_expect_str_eq(several.output, one.output, "%s", arguments);
        cr_expect_str_eq(several.error, one.error, "%s", arguments);
        const char *copy = file ? read_file("out.tsv", NULL) : NULL;
        cr_expect(!file || (copy && !strcmp(copy, file)), "%s", arguments);
    }
}

Test(translate_processes, translate_in_the_order_of_the_lines)
{
    static const char *const commands[] = {
        "translate run in.txt -b 4",
        "translate run in.txt --beam 3 --n-best 2 --scores -b 3",
        "translate run in.txt --sample --temperature 3 --n-best 2 --scores -b 5",
        "translate run --replace-unk -b 1 -q < in.txt",
        "translate run prefix.txt --prefix -b 4",
        "translate run in.txt --alignment --beam 2 --n-best 2 -b 4",
    };
    run_ok("awk '{ print $0 (NF == 2 ? \"\\t\" toupper($1) : \"\") }' in.txt > prefix.txt");
    expect_same(sizeof commands / sizeof *commands, commands);
}

Test(translate_processes, evaluate_to_the_same_scores)
{
    static const char *const commands[] = {
        "evaluate run pairs.tsv --json --log-probs out.tsv --by-length 1",
        "evaluate run pairs.tsv --beam 3 --metrics ter",
        "evaluate run pairs.tsv --no-translation --json",
        "evaluate run pairs.tsv --with run --json",
    };
    expect_same(sizeof commands / sizeof *commands, commands);
}

/* What one process says of these mistakes is tested in the tests of the commands. */
Test(translate_processes, mistakes_are_said_once)
{
    static const char *const cases[][2] = {
        {"translate none in.txt", "qkv: none: there is no such run"},
        {"translate run none.txt", "qkv: none.txt: cannot be read: No such file or directory"},
        {"evaluate run - < pairs.tsv",
         "qkv: TSV is standard input, which only one of several processes can read: name a file"},
        {"evaluate run pairs.tsv --beam 2 --no-translation",
         "qkv: --beam needs translations: give it without --no-translation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(refused(run_several(3, cases[i][0]), cases[i][1]), "%s", cases[i][0]);
    cr_expect(refused(
        run_two("translate run in.txt", "translate run in.txt --checkpoint none"),
        format("qkv: %s: run: there is no checkpoint none; it has best, last, update-400", process(1))));
}

/* Processes that do the same would print it, or write the same file, as often. mpirun may end the others before they say so. */
Test(translate_processes, other_commands_refuse_to_be_several)
{
    static const char *const arguments[] = {"prepare c.yaml -o many.prepared", "config c.yaml",
                                            "gradcheck --op softmax", "attention run 'a b' -o map.png"};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        struct outcome outcome = run_several(2, arguments[i]);
        const char *message = format(
            "qkv: `qkv %.*s` works in one process, but mpirun has started 2: start it without mpirun\n",
            (int)strcspn(arguments[i], " "), arguments[i]);
        cr_expect(fails(outcome, 2, message), "%s", arguments[i]);
        cr_expect(begins(outcome.error, message));
    }
    run_ok("test ! -e many.prepared && test ! -e map.png");
    cr_expect_eq(run_several(1, "prepare c.yaml -o one.prepared").exit_code, 0);
    cr_expect_eq(run_several(2, "train --help").exit_code, 0);
}

/* The translations before a bad line are printed, as by one process. */
Test(translate_processes, a_bad_line_ends_all)
{
    run_ok("printf 'a b\\n\\377\\nc\\n' > bad.txt");
    struct outcome outcome = run_several(3, "translate run bad.txt");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "A B\n");
    cr_expect_str_eq(outcome.error, "qkv: bad.txt:2:1: byte 0xFF is not valid UTF-8\n");
}

#define SUM "checksum *"

/* Commands that begin with other messages would wait for each other, or misread them. */
Test(translate_processes, differences_are_refused)
{
    static const struct {
        const char *first, *second, *what, *value, *other;
    } cases[] = {
        {"translate run in.txt", "evaluate run pairs.tsv", "the command", "translate", "evaluate"},
        {"evaluate run pairs.tsv", "train c.yaml", "the command", "evaluate", "train"},
        {"train c.yaml", "translate run in.txt", "the command", "train", "translate"},
        {"evaluate run pairs.tsv --no-translation", "evaluate run pairs.tsv", "--no-translation", "given",
         "not given"},
        {"translate run in.txt", "translate run in.txt --beam 2", "options and keys of testing", SUM, SUM},
        {"translate run in.txt", "translate other in.txt", "the model", SUM, SUM},
        {"translate run in.txt", "translate run in.txt --without cross.1.1", "the model", SUM, SUM},
        {"evaluate run pairs.tsv", "evaluate run few.tsv", "the text", "*", "*"},
    };
    run_ok("qkv train c.yaml -q -s training.model_dir=other -s training.random_seed=2 -s "
           "training.updates=2 && head -n 9 pairs.tsv > few.tsv");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(
            differ(run_two(cases[i].first, cases[i].second), cases[i].what, cases[i].value, cases[i].other),
            "%s and %s", cases[i].first, cases[i].second);
}

/* Process 0 answers each line at once; after its first answer another process is killed. Process 0 has its own standard
 * streams, because mpirun forwards nothing while it gives the processes, here, four seconds to end. */
Test(translate_processes, a_killed_process_ends_all)
{
    struct outcome outcome = run(
        "mkfifo lines out && { %s --mca odls_base_sigkill_timeout 4 -n 1 sh -c 'exec \"$0\" "
        "translate run -b 1 <lines >out 2>error' '%s' : -n 2 sh -c 'echo $$ >process.$OMPI_COMM_WORLD_RANK; "
        "exec \"$0\" translate run -b 1' '%s' & } && mpirun=$! && exec 3>lines 4<out && echo 'a b' >&3 && "
        "read -r answer <&4 && kill -9 $(cat process.2) && { echo c >&3; wait $mpirun; code=$?; "
        "echo \"$answer\"; cat error; exit $code; }",
        mpirun(), QKV_BINARY, QKV_BINARY);
    cr_expect_neq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.output, format("A B\nqkv: %s has died\n", process(2)));
}
