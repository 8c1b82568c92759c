/* qkv generate copy, reverse, sort and induction: what is made is solved, and its links say where each number went. */
#include "support.h"

enum { CAPACITY = 64 };

static int read_numbers(const char *text, long *numbers)
{
    int count = 0;
    char *end = NULL;
    for (; count < CAPACITY; count++, text = end) {
        numbers[count] = strtol(text, &end, 10);
        if (end == text) break;
    }
    cr_assert_eq(*end, '\0', "'%s' are not all numbers", text);
    return count;
}

/* Where each number of the target comes from; of equal numbers, the first in the source comes first. */
static void solve(const char *task, const long *source, int count, int *from)
{
    for (int i = 0; i < count; i++) {
        int at = i;
        from[i] = *task == 'r' ? count - 1 - i : i;
        for (; *task == 's' && at && source[from[at - 1]] > source[i]; at--) from[at] = from[at - 1];
        if (*task == 's') from[at] = i;
    }
}

/* Checks each line of a data file and of its links, if there are any. Returns what was  */
static const char *check(const char *folder, const char *task, const char *split)
{
    char *text = read_file(format("%s/%s.tsv", folder, split), NULL), *save = NULL, *save_links = NULL;
    char *links = read_file(format("%s/%s.align", folder, split), NULL);
    int lines = 0, shortest = CAPACITY, longest = 0;
    long smallest = 1000000, largest = -1;
    cr_assert(text && !links == !strcmp(split, "train"), "%s/%s", folder, split);
    for (char *row = strtok_r(text, "\n", &save); row; row = strtok_r(NULL, "\n", &save), lines++) {
        long source[CAPACITY], target[CAPACITY];
        int from[CAPACITY];
        char *tab = strchr(row, '\t'), expected[CAPACITY * 8] = "", *end = expected;
        cr_assert_not_null(tab);
        *tab = '\0';
        int count = read_numbers(row, source);
        cr_assert_eq(read_numbers(tab + 1, target), count);
        solve(task, source, count, from);
        for (int i = 0; i < count; i++) {
            cr_assert_eq(target[i], source[from[i]], "%s", row);
            end += sprintf(end, "%s%d-%d", i ? " " : "", from[i], i);
            if (source[i] < smallest) smallest = source[i];
            if (source[i] > largest) largest = source[i];
        }
        if (links) cr_assert_str_eq(strtok_r(lines ? NULL : links, "\n", &save_links), expected);
        if (count < shortest) shortest = count;
        if (count > longest) longest = count;
    }
    if (links) cr_assert_null(strtok_r(NULL, "\n", &save_links));
    return format("%d lines of %d to %d numbers from %ld to %ld", lines, shortest, longest, smallest,
                  largest);
}

static const char *generate(const char *arguments, const char *folder)
{
    struct outcome outcome = run("qkv generate %s -o '%s'", arguments, folder);
    cr_assert(outcome.exit_code == 0 && !*outcome.error, "%s", outcome.error);
    return outcome.output;
}

Test(sequences, reverse_without_options_is_the_task_of_joey_nmt)
{
    const char *folder = scratch("joey");
    generate("reverse", folder);
    cr_expect_str_eq(check(folder, "reverse", "train"), "50000 lines of 1 to 25 numbers from 0 to 49");
    cr_expect_str_eq(check(folder, "reverse", "dev"), "1000 lines of 1 to 30 numbers from 0 to 49");
    cr_expect_str_eq(check(folder, "reverse", "test"), "1000 lines of 1 to 30 numbers from 0 to 49");
}

Test(sequences, of_all_tasks_are_solved_and_linked)
{
    static const char *const tasks[] = {"copy", "reverse", "sort"};
    for (int i = 0; i < 3; i++) {
        const char *folder = scratch(tasks[i]);
        generate(format("%s --symbols 20 --train 900 --dev 50 --test 60 --shortest 2 --longest 7 "
                        "--longest-test 12",
                        tasks[i]),
                 folder);
        cr_expect_str_eq(check(folder, tasks[i], "train"), "900 lines of 2 to 7 numbers from 0 to 19");
        cr_expect_str_eq(check(folder, tasks[i], "dev"), "50 lines of 2 to 12 numbers from 0 to 19");
        cr_expect_str_eq(check(folder, tasks[i], "test"), "60 lines of 2 to 12 numbers from 0 to 19");
    }
}

Test(sequences, depend_only_on_the_seed)
{
    const char *options = "reverse --train 500 --dev 50 --test 50 --seed";
    const char *a = scratch("a"), *b = scratch("b"), *c = scratch("c");
    generate(format("%s 7", options), a);
    generate(format("%s 7", options), b);
    generate(format("%s 8", options), c);
    cr_assert_eq(run("diff -r '%s' '%s'", a, b).exit_code, 0);
    cr_assert_eq(run("cmp -s '%s/train.tsv' '%s/train.tsv'", a, c).exit_code, 1);
    cr_assert_eq(run("cmp -s '%s/dev.tsv' '%s/test.tsv'", a, a).exit_code, 1);
}

/* Sources of length 1 and 2 of two symbols are all in train; those of length 12 need never be. */
Test(sequences, of_dev_and_test_are_in_train_only_when_train_has_all)
{
    const char *folder = scratch("unseen"),
               *count =
                   "cd '%s'; cut -f1 train.tsv | sort -u >seen; cut -f1 dev.tsv test.tsv | grep -cxFf seen";
    generate(
        "copy --symbols 2 --train 3000 --dev 500 --test 500 --shortest 12 --longest 12 --longest-test 12",
        folder);
    cr_assert_str_eq(run(count, folder).output, "0\n");
    folder = scratch("seen");
    const char *output = generate(
        "copy --symbols 2 --train 300 --dev 5 --test 6 --shortest 1 --longest 2 --longest-test 2", folder);
    cr_assert_str_eq(run(count, folder).output, "11\n");
    cr_assert_str_eq(output,
                     "train  300 lines of 1 to 2 numbers\n"
                     "dev    5 lines of 1 to 2 numbers; 5 of them, too short to be new, are in train too\n"
                     "test   6 lines of 1 to 2 numbers; 6 of them, too short to be new, are in train too\n");
}

/* The last numbers of each line, 2 to half of them, are its first ones. */
Test(sequences, of_induction_end_as_they_begin)
{
    const char *folder = scratch("induction");
    char *save = NULL;
    int seen[13] = {0}, lines = 0, different = 0;
    generate("induction --symbols 1000 --train 2000 --dev 50 --test 60 --shortest 4 --longest 12", folder);
    cr_expect_str_eq(run_ok("cd '%s' && wc -l *.txt | tr -s ' '", folder),
                     " 50 dev.txt\n 60 test.txt\n 2000 train.txt\n 2110 total\n");
    cr_assert_eq(run("ls '%s' | wc -l | grep -qx 3", folder).exit_code, 0);
    char *text = read_file(format("%s/train.txt", folder), NULL);
    for (char *row = strtok_r(text, "\n", &save); row; row = strtok_r(NULL, "\n", &save), lines++) {
        long numbers[CAPACITY];
        int count = read_numbers(row, numbers), again = count / 2;
        while (again && memcmp(numbers, numbers + count - again, (size_t)again * sizeof *numbers) != 0)
            again--;
        cr_assert(count >= 4 && count <= 12 && again >= 2, "%s", row);
        seen[count]++;
        different += again < count / 2;
    }
    for (int i = 4; i <= 12; i++) cr_expect(seen[i] > 150 && seen[i] < 300, "%d lines of %d", seen[i], i);
    cr_expect(lines == 2000 && different > 800, "the length of what comes again varies");
    generate("induction --train 5 --dev 3 --test 3 --stream", scratch("streamed"));
}
