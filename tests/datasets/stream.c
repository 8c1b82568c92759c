/* qkv generate --stream: train is written line by line, and takes no memory. */
#include "support.h"

#include <sys/resource.h>

/* Makes a set in the scratch folder `name`, and returns the folder. */
static const char *generate(const char *name, const char *options)
{
    const char *folder = scratch(name);
    run_ok("cd '%s' && qkv generate %s -o '%s'", QKV_SOURCE_DIR, options, folder);
    return folder;
}

/* Lines of a file in the folder, after a pipe of commands. */
static long lines_of(const char *folder, const char *file, const char *commands)
{
    return strtol(run_ok("cd '%s' && cat %s %s | wc -l", folder, file, commands), NULL, 10);
}

/* Lines of train whose source is in dev or test. */
static long shared(const char *folder)
{
    run_ok("cd '%s' && cut -f 1 dev.tsv test.tsv | sort -u >held", folder);
    return lines_of(folder, "train.tsv", "| cut -f 1 | { grep -cxFf held || :; } | xargs -n 1 seq 1");
}

static const char *const EN_ES[] = {"en_es --train 20000 --dev 300 --test 300",
                                    "en_es --longest 6 --longest-test 9 --train 3000 --dev 100 --test 100"};

Test(stream, en_es_draws_the_same_sentences_and_keeps_those_that_repeat)
{
    static const char *const SAME[] = {"dev.tsv", "test.tsv", "dev.align", "test.align", "held_out.tsv"};
    for (int i = 0; i < 2; i++) {
        const char *kept = generate(format("kept%d", i), EN_ES[i]),
                   *folder = generate(format("streamed%d", i), format("%s --stream", EN_ES[i]));
        for (size_t k = 0; k < sizeof SAME / sizeof *SAME; k++)
            run_ok("cmp '%s/%s' '%s/%s'", kept, SAME[k], folder, SAME[k]);
        long count = lines_of(kept, "train.tsv", ""), different = lines_of(folder, "train.tsv", "| sort -u");
        cr_expect_eq(lines_of(folder, "train.tsv", ""), count);
        cr_expect(different < count && different > count / 4, "%ld of %ld lines are different", different,
                  count);
        cr_expect_eq(shared(folder), 0);
        if (i > 0) continue; /* where a length is wanted, a sentence that repeats leads to another length */
        run_ok("sort -u '%s/train.tsv' >'%s/all'", kept, folder);
        cr_expect_eq(lines_of(folder, "train.tsv", "| sort -u | comm -23 - all"), 0, "a sentence is new");
    }
}

Test(stream, en_es_counts_what_it_has_written)
{
    static const char *const NAMES[] = {"train", "dev", "test"};
    for (int i = 0; i < 2; i++) {
        const char *folder = scratch(format("counts%d", i)), *words[2], *different[2];
        const char *printed =
            run_ok("cd '%s' && qkv generate %s --stream -o '%s'", QKV_SOURCE_DIR, EN_ES[i], folder);
        for (int k = 0; k < 3; k++) {
            for (int side = 0; side < 2; side++) {
                const char *cut =
                    format("cd '%s' && cut -f %d %s.tsv | tr ' ' '\\n'", folder, side + 1, NAMES[k]);
                words[side] = run_ok("%s | wc -l | tr -d '\\n'", cut);
                different[side] = run_ok("%s | sort -u | wc -l | tr -d '\\n'", cut);
            }
            const char *row = format(" %8s (%5s) %8s (%5s) ", words[0], different[0], words[1], different[1]);
            cr_expect(shows(printed, row), "%s%s\n%s", NAMES[k], row, printed);
        }
    }
}

Test(stream, sequences_of_dev_and_test_are_not_in_train)
{
    const char *options = "reverse --symbols 9 --train 5000 --dev 40 --test 40 --longest 4 --longest-test 5";
    const char *folder = generate("kept", options);
    cr_expect_gt(shared(folder), 0, "short sequences are in both");
    folder = generate("streamed", format("%s --stream", options));
    cr_expect_eq(lines_of(folder, "train.tsv", ""), 5000);
    cr_expect_eq(shared(folder), 0);
    cr_expect_eq(lines_of(folder, "train.tsv",
                          "| awk -F '\\t' '{r = \"\"; n = split($1, x, \" \"); for (i = n; i; i--) r = r "
                          "x[i] (i > 1 ? \" \" : \"\"); if (r != $2) print}'"),
                 0, "not reversed");
}

/* With two symbols, dev and test have all sources that train can have. */
Test(stream, sequences_that_cannot_be_new_are_counted)
{
    const char *folder = scratch("all");
    cr_expect_str_eq(
        run_ok("qkv generate copy --stream --symbols 2 --shortest 1 --longest 2 --longest-test 2 --train 50 "
               "--dev 60 --test 60 -o '%s'",
               folder),
        "train  50 lines of 1 to 2 numbers; 50 of them, too short to be new, are in dev or test too\n"
        "dev    60 lines of 1 to 2 numbers\n"
        "test   60 lines of 1 to 2 numbers\n");
    cr_expect_eq(shared(folder), 50);
}

/* Peak memory of the largest command so far, in bytes. */
static long peak(void)
{
    struct rusage usage;
    cr_assert_eq(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return usage.ru_maxrss * 1024;
}

Test(stream, memory_does_not_grow_with_train)
{
    static const char *const TASKS[] = {"copy", "en_es"};
    enum { LINES = 150000, MORE = 5000000 };
    if (is_emulated()) cr_skip_test("emulation takes memory of its own");
    for (int i = 0; i < 2; i++) generate(format("few%d", i), format("%s --stream --train 300", TASKS[i]));
    long few = peak();
    for (int i = 0; i < 2; i++)
        generate(format("many%d", i), format("%s --stream --train %d", TASKS[i], LINES));
    cr_expect_lt(peak(), few + MORE / 4, "%ld bytes more", peak() - few);
    generate("kept", format("copy --train %d", LINES));
    cr_expect_gt(peak(), few + MORE, "%ld bytes more", peak() - few);
}

Test(stream, a_full_disk_ends_it_at_once)
{
    const char *folder = scratch("full");
    for (int i = 0; i < 2; i++)
        cr_expect(refused(run("cd '%s' && trap '' XFSZ; ulimit -f 200; ulimit -t 20; qkv generate %s "
                              "--stream --train 99000000 --dev 10 --test 10 -o '%s'",
                              QKV_SOURCE_DIR, i ? "en_es" : "sort", folder),
                          format("qkv: %s/train.tsv: cannot be written: File too large", folder)));
    cr_expect_str_eq(run_ok("ls -A '%s'", folder), "");
}
