#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 64 };

/* A line: two sequences. */
struct line {
    long source[CAPACITY], target[CAPACITY];
    int sources, targets;
};

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

/* Reads a data file; calls `check` for each line. Returns how many lines there are. */
static int each_line(const char *folder, const char *name, void (*check)(const struct line *line))
{
    char *text = read_file(format("%s/%s", folder, name), NULL), *save = NULL;
    cr_assert_not_null(text, "%s/%s is missing", folder, name);
    int lines = 0;
    for (char *row = strtok_r(text, "\n", &save); row; row = strtok_r(NULL, "\n", &save), lines++) {
        struct line line;
        char *tab = strchr(row, '\t');
        cr_assert_not_null(tab);
        *tab = '\0';
        line.sources = read_numbers(row, line.source);
        line.targets = read_numbers(tab + 1, line.target);
        check(&line);
    }
    return lines;
}

static int shortest, longest;
static long smallest, largest;

/* Every check also keeps what was seen. */
static void note(const struct line *line)
{
    cr_assert_eq(line->sources, line->targets);
    if (line->sources < shortest) shortest = line->sources;
    if (line->sources > longest) longest = line->sources;
    for (int i = 0; i < line->sources; i++) {
        if (line->source[i] < smallest) smallest = line->source[i];
        if (line->source[i] > largest) largest = line->source[i];
    }
}

static void forget(void)
{
    shortest = CAPACITY;
    longest = 0;
    smallest = 1000000;
    largest = -1;
}

static void check_copied(const struct line *line)
{
    note(line);
    cr_assert_eq(memcmp(line->source, line->target, sizeof(long) * (size_t)line->sources), 0);
}

static void check_reversed(const struct line *line)
{
    note(line);
    for (int i = 0; i < line->sources; i++)
        cr_assert_eq(line->source[i], line->target[line->sources - 1 - i]);
}

/* In rising order, and every number as often as before. */
static void check_sorted(const struct line *line)
{
    note(line);
    for (int i = 0; i < line->sources; i++) {
        int before = 0, after = 0;
        for (int j = 0; j < line->sources; j++) {
            before += line->source[j] == line->source[i];
            after += line->target[j] == line->source[i];
        }
        cr_assert_eq(before, after);
        if (i) cr_assert_leq(line->target[i - 1], line->target[i]);
    }
}

static struct outcome generate(const char *arguments, const char *folder)
{
    struct outcome outcome = run("qkv generate %s -o '%s'", arguments, folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_assert_str_empty(outcome.error);
    return outcome;
}

Test(sequences, reverse_without_options_is_the_task_of_joey_nmt)
{
    const char *folder = scratch("joey");
    generate("reverse", folder);
    forget();
    cr_assert_eq(each_line(folder, "train.tsv", check_reversed), 50000);
    cr_assert(shortest == 1 && longest == 25 && smallest == 0 && largest == 49);
    const char *const others[] = {"dev.tsv", "test.tsv"};
    for (int i = 0; i < 2; i++) {
        forget();
        cr_assert_eq(each_line(folder, others[i], check_reversed), 1000);
        cr_assert(shortest == 1 && longest == 30 && smallest == 0 && largest == 49);
    }
}

Test(sequences, copy_and_sort_are_solved)
{
    const char *options =
        "--symbols 120 --train 900 --dev 30 --test 40 --shortest 2 --longest 7 --longest-test 9";
    void (*const checks[])(const struct line *) = {check_copied, check_sorted};
    const char *const tasks[] = {"copy", "sort"};
    for (int task = 0; task < 2; task++) {
        const char *folder = scratch(tasks[task]);
        generate(format("%s %s", tasks[task], options), folder);
        forget();
        cr_assert_eq(each_line(folder, "train.tsv", checks[task]), 900);
        cr_assert(shortest == 2 && longest == 7 && smallest == 0 && largest == 119);
        cr_assert_eq(each_line(folder, "dev.tsv", checks[task]), 30);
        cr_assert_eq(each_line(folder, "test.tsv", checks[task]), 40);
        cr_assert_leq(longest, 9);
    }
}

static char *links; /* the lines of a file of links that are not read yet */

/* The next line of links: each number of the target comes from one of the source, which is equal. */
static void check_links(const struct line *line)
{
    int used = 0;
    char *end = strchr(links, '\n');
    cr_assert_not_null(end);
    for (int i = 0; i < line->targets; i++) {
        long from = strtol(links, &links, 10), to = strtol(links + 1, &links, 10);
        cr_assert(to == i && from >= 0 && from < line->sources);
        cr_assert_eq(line->source[from], line->target[to]);
        cr_assert(!(used >> from & 1));
        used |= 1 << from;
    }
    cr_assert_eq(links, end);
    links++;
}

static void check_links_of_copy(const struct line *line)
{
    for (const char *link = links; link; link = strpbrk(link, " \n") + 1) {
        long from = strtol(link, NULL, 10);
        cr_assert_eq(from, strtol(strchr(link, '-') + 1, NULL, 10));
        if (from == line->targets - 1) break;
    }
    check_links(line);
}

static void check_links_of_reverse(const struct line *line)
{
    cr_assert_eq(strtol(links, NULL, 10), line->sources - 1);
    check_links(line);
}

/* Equal numbers keep their order. */
static void check_links_of_sort(const struct line *line)
{
    char *link = links;
    for (long i = 0, last = -1; i < line->targets; i++) {
        long from = strtol(link, &link, 10);
        strtol(link + 1, &link, 10);
        if (i && line->target[i] == line->target[i - 1]) cr_assert_gt(from, last);
        last = from;
    }
    check_links(line);
}

Test(sequences, have_links_that_say_where_each_number_went)
{
    void (*const checks[])(const struct line *) = {check_links_of_copy, check_links_of_reverse,
                                                   check_links_of_sort};
    const char *const tasks[] = {"copy", "reverse", "sort"}, *const splits[] = {"dev", "test"};
    for (int i = 0; i < 6; i++) {
        const char *folder = scratch("links");
        generate(
            format("%s --overwrite --symbols 6 --train 30 --dev 20 --test 20 --longest 12", tasks[i / 2]),
            folder);
        links = read_file(format("%s/%s.align", folder, splits[i % 2]), NULL);
        cr_assert_not_null(links);
        cr_assert_eq(each_line(folder, format("%s.tsv", splits[i % 2]), checks[i / 2]), 20);
        cr_assert_str_empty(links);
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
               *count = "cut -f1 '%s/train.tsv' | sort -u >'%s/seen'; cut -f1 '%s/dev.tsv' "
                        "'%s/test.tsv' | grep -cxFf '%s/seen'";
    generate(
        "copy --symbols 2 --train 3000 --dev 500 --test 500 --shortest 12 --longest 12 --longest-test 12",
        folder);
    cr_assert_str_eq(run(count, folder, folder, folder, folder, folder).output, "0\n");
    folder = scratch("seen");
    struct outcome outcome = generate(
        "copy --symbols 2 --train 300 --dev 5 --test 6 --shortest 1 --longest 2 --longest-test 2", folder);
    cr_assert_str_eq(run(count, folder, folder, folder, folder, folder).output, "11\n");
    cr_assert_str_eq(outcome.output,
                     "train  300 lines of 1 to 2 numbers\n"
                     "dev    5 lines of 1 to 2 numbers; 5 of them, too short to be new, are in train too\n"
                     "test   6 lines of 1 to 2 numbers; 6 of them, too short to be new, are in train too\n");
}
