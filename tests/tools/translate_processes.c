/* `qkv translate` and `qkv evaluate` in several processes, which mpirun starts, print what one process prints, and end together
 * with one sentence. */
#include "mpirun.h"
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

/* More lines than fit into one block of four sentences a batch (fewer in a slow build), of all lengths, some of them empty or
 * with unknown words. */
static const char *make_lines(const char *name)
{
    mpirun();
    const char *folder = learned_run(name);
    run_ok("cd '%s' && for i in $(seq %d); do case $((i %% 6)) in 0) echo ;; 1) echo a b;; 2) echo c;; "
           "3) echo e d;; 4) echo a b c d;; 5) echo b unknown;; esac; done > in.txt && "
           "grep . in.txt | awk '{ print $0 \"\\t\" toupper($0) }' > pairs.tsv",
           folder, is_slow_build() ? 100 : 700);
    return folder;
}

/* Runs a command of qkv in one process and in three, and compares what they print, and the file `out`. */
static void expect_same(const char *folder, const char *arguments)
{
    struct outcome one = run("cd '%s' && rm -f out.tsv && qkv %s -j 2", folder, arguments);
    char *file = read_file(format("%s/out.tsv", folder), NULL);
    cr_assert_eq(one.exit_code, 0, "%s", one.error);
    cr_assert(*one.output);
    struct outcome several =
        run("cd '%s' && rm -f out.tsv && %s -n 3 '%s' %s -j 2", folder, mpirun(), QKV_BINARY, arguments);
    cr_expect_eq(several.exit_code, 0, "%s", several.error);
    cr_expect_str_eq(several.output, one.output, "%s", arguments);
    cr_expect_str_eq(several.error, one.error, "%s", arguments);
    const char *copy = file ? read_file(format("%s/out.tsv", folder), NULL) : NULL;
    cr_expect(!file || (copy && !strcmp(copy, file)), "%s", arguments);
}

Test(translate_processes, translate_in_the_order_of_the_lines)
{
    const char *folder = make_lines("lines");
    expect_same(folder, "translate run in.txt -b 4");
    expect_same(folder, "translate run in.txt --beam 3 --n-best 2 --scores -b 3");
    expect_same(folder, "translate run in.txt --sample --temperature 3 --n-best 2 --scores -b 5");
    expect_same(folder, "translate run --replace-unk -b 1 -q < in.txt");
    run_ok("cd '%s' && awk '{ print $0 (NF == 2 ? \"\\t\" toupper($1) : \"\") }' in.txt > prefix.txt",
           folder);
    expect_same(folder, "translate run prefix.txt --prefix -b 4");
}

Test(translate_processes, evaluate_to_the_same_scores)
{
    const char *folder = make_lines("scores");
    expect_same(folder, "evaluate run pairs.tsv --json --log-probs out.tsv --by-length 1");
    expect_same(folder, "evaluate run pairs.tsv --beam 3 --metrics ter");
    expect_same(folder, "evaluate run pairs.tsv --no-translation --json");
    expect_same(folder, "evaluate run pairs.tsv --with run --json");
}

/* "process 1 on HOST" */
static const char *process(int rank)
{
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    return format("process %d on %s", rank, host);
}

static struct outcome run_two(const char *folder, const char *first, const char *second)
{
    return run("cd '%s' && %s -n 1 '%s' %s : -n 1 '%s' %s", folder, mpirun(), QKV_BINARY, first, QKV_BINARY,
               second);
}

Test(translate_processes, mistakes_are_said_once)
{
    const char *folder = make_lines("mistakes"), *command = format("%s -n 3 '%s'", mpirun(), QKV_BINARY);
    cr_expect(refused(run("cd '%s' && %s translate none in.txt", folder, command),
                      "qkv: none: there is no such run"));
    cr_expect(refused(run("cd '%s' && %s translate run none.txt", folder, command),
                      "qkv: none.txt: cannot be read: No such file or directory"));
    cr_expect(
        refused(run("cd '%s' && %s evaluate run - < pairs.tsv", folder, command),
                "qkv: TSV is standard input, which only one of several processes can read: name a file"));
    cr_expect(refused(run("cd '%s' && %s evaluate run pairs.tsv --beam 2 --no-translation", folder, command),
                      "qkv: --beam needs translations: give it without --no-translation"));
    cr_expect(refused(
        run_two(folder, "translate run in.txt", "translate run in.txt --checkpoint none"),
        format("qkv: %s: run: there is no checkpoint none; it has best, last, update-400", process(1))));
}

/* Processes that do the same would print it, or write the same file, as often. mpirun may end the others before they say so. */
Test(translate_processes, other_commands_refuse_to_be_several)
{
    const char *folder = make_lines("undivided");
    static const char *const arguments[] = {"prepare c.yaml -o many.prepared", "config c.yaml",
                                            "gradcheck --op softmax", "attention run 'a b' -o map.png"};
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
        struct outcome outcome =
            run("cd '%s' && %s -n 2 '%s' %s", folder, mpirun(), QKV_BINARY, arguments[i]);
        const char *message =
            format("qkv: `qkv %.*s` works in one process, but mpirun has started 2: start it "
                   "without mpirun\n",
                   (int)strcspn(arguments[i], " "), arguments[i]);
        cr_expect_eq(outcome.exit_code, 2);
        cr_expect_str_empty(outcome.output);
        cr_expect_eq(strncmp(outcome.error, message, strlen(message)), 0, "%s", outcome.error);
    }
    run_ok("cd '%s' && test ! -e many.prepared && test ! -e map.png", folder);
    run_ok("cd '%s' && %s -n 1 '%s' prepare c.yaml -o one.prepared && %s -n 2 '%s' train --help", folder,
           mpirun(), QKV_BINARY, mpirun(), QKV_BINARY);
}

/* Commands that begin with other messages would wait for each other, or misread them. */
Test(translate_processes, commands_that_differ_are_refused)
{
    const char *folder = make_lines("differ");
    static const char *const arguments[] = {"translate run in.txt", "evaluate run pairs.tsv", "train c.yaml"};
    for (int i = 0; i < 3; i++) {
        const char *first = arguments[i], *second = arguments[(i + 1) % 3];
        cr_expect(refused(
            run_two(folder, first, second),
            format("qkv: the command: %.*s on %s, but %.*s on %s: it must be the same on all processes",
                   (int)strcspn(first, " "), first, process(0), (int)strcspn(second, " "), second,
                   process(1))));
    }
    cr_expect(refused(
        run_two(folder, "evaluate run pairs.tsv --no-translation", "evaluate run pairs.tsv"),
        format(
            "qkv: --no-translation: given on %s, but not given on %s: it must be the same on all processes",
            process(0), process(1))));
}

/* The translations before a bad line are printed, as by one process. */
Test(translate_processes, a_bad_line_ends_all)
{
    const char *folder = make_lines("bad");
    run_ok("cd '%s' && printf 'a b\\n\\377\\nc\\n' > bad.txt", folder);
    struct outcome outcome =
        run("cd '%s' && %s -n 3 '%s' translate run bad.txt", folder, mpirun(), QKV_BINARY);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.output, "A B\n");
    cr_expect_str_eq(outcome.error, "qkv: bad.txt:2:1: byte 0xFF is not valid UTF-8\n");
}

/* Two processes that would not translate alike are refused. */
static void expect_difference(const char *folder, const char *first, const char *second, const char *what)
{
    struct outcome outcome = run_two(folder, first, second);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_empty(outcome.output);
    cr_expect_eq(strncmp(outcome.error, what, strlen(what)), 0, "%s", outcome.error);
    cr_expect_not_null(strstr(outcome.error, format("on %s, but ", process(0))), "%s", outcome.error);
    cr_expect_not_null(
        strstr(outcome.error, format("on %s: it must be the same on all processes\n", process(1))), "%s",
        outcome.error);
}

Test(translate_processes, differences_are_refused)
{
    const char *folder = make_lines("differences");
    run_ok("cd '%s' && qkv train c.yaml -q -s training.model_dir=other -s training.random_seed=2 -s "
           "training.updates=2 && head -n 9 pairs.tsv > few.tsv",
           folder);
    expect_difference(folder, "translate run in.txt", "translate run in.txt --beam 2",
                      "qkv: options and keys of testing: checksum ");
    expect_difference(folder, "translate run in.txt", "translate other in.txt", "qkv: the model: checksum ");
    expect_difference(folder, "translate run in.txt", "translate run in.txt --without cross.1.1",
                      "qkv: the model: checksum ");
    expect_difference(folder, "evaluate run pairs.tsv", "evaluate run few.tsv", "qkv: the text: ");
}

/* Process 0 answers each line at once; after its first answer another process is killed. Process 0 has its own standard streams,
 * because mpirun forwards nothing while it gives the processes, here, four seconds to end. */
Test(translate_processes, a_killed_process_ends_all)
{
    const char *folder = make_lines("killed");
    struct outcome outcome = run(
        "cd '%s' && mkfifo lines out && { %s --mca odls_base_sigkill_timeout 4 -n 1 sh -c 'exec \"$0\" "
        "translate run -b 1 <lines >out 2>error' '%s' : -n 2 sh -c 'echo $$ >process.$OMPI_COMM_WORLD_RANK; "
        "exec \"$0\" translate run -b 1' '%s' & } && mpirun=$! && exec 3>lines 4<out && echo 'a b' >&3 && "
        "read -r answer <&4 && kill -9 $(cat process.2) && { echo c >&3; wait $mpirun; code=$?; "
        "echo \"$answer\"; cat error; exit $code; }",
        folder, mpirun(), QKV_BINARY, QKV_BINARY);
    cr_expect_neq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.output, format("A B\nqkv: %s has died\n", process(2)));
}
