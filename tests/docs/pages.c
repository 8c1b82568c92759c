/* README.md, CONTRIBUTING.md and docs/: links lead somewhere, no sentence is said twice, and commands do what the
 * pages show.
 *
 * Every block of commands (```sh, or ```console with its output) has a comment in the line before it:
 *
 *     <!-- run -->                      the test runs it, and compares the output of a console block
 *     <!-- recorded with COMMIT -->     output that takes too long to make each time, and the commit that made it; the test
 *                                       runs the commands of the pages that QKV_RECORDED names (QKV_RECORDED=README.md,
 *                                       which trains for a minute or two)
 *     <!-- not run: REASON -->          commands that no test should run
 *
 * A page is run from top to bottom in one scratch folder that sees configs/ and datasets/. Two more comments prepare it:
 *
 *     <!-- setup: COMMAND -->                          runs a command that readers do not need
 *     <!-- file: NAME; in the test "A" is "B" -->      writes the next block to a file, with A replaced by B
 *
 * A block of C has the comment <!-- from: FILE -->, and stands in that file as it is, or <!-- not run: REASON -->.
 */
#include "support.h"

#include <ctype.h>
#include <glob.h>
#include <libgen.h>

#include <criterion/parameterized.h>

enum { MAX_PAGES = 32 };

/* Paths relative to the root of the sources. */
static char *pages[MAX_PAGES];
static int page_count;

static void list_pages(void)
{
    glob_t found = {0};
    cr_assert_eq(glob(QKV_SOURCE_DIR "/*.md", 0, NULL, &found), 0);
    cr_assert_eq(glob(QKV_SOURCE_DIR "/docs/*.md", GLOB_APPEND, NULL, &found), 0);
    cr_assert_leq(found.gl_pathc, MAX_PAGES);
    for (page_count = 0; page_count < (int)found.gl_pathc; page_count++)
        pages[page_count] = format("%s", found.gl_pathv[page_count] + strlen(QKV_SOURCE_DIR "/"));
    globfree(&found);
}

TestSuite(pages, .init = list_pages);

static char *read_page(const char *page)
{
    char *text = read_file(format("%s/%s", QKV_SOURCE_DIR, page), NULL);
    cr_assert_not_null(text, "%s cannot be read", page);
    return text;
}

static bool starts_with(const char *line, const char *prefix)
{
    return !strncmp(line, prefix, strlen(prefix));
}

/* Cuts the first line off `text`; NULL at the end. */
static char *next_line(char **text)
{
    char *line = *text;
    if (!line || !*line) return NULL;
    char *end = strchr(line, '\n');
    if (end) *end = '\0';
    *text = end ? end + 1 : NULL;
    return line;
}

/* ---- links ---- */

/* Whether a page has the heading that GitHub names `anchor`. */
static bool has_heading(const char *page, const char *anchor)
{
    char *text = read_page(page);
    for (char *line; (line = next_line(&text));) {
        if (line[0] != '#') continue;
        char slug[256];
        size_t length = 0;
        for (const char *at = line + strspn(line, "# "); *at && length < sizeof slug - 1; at++)
            if (isalnum((unsigned char)*at) || *at == '_' || *at == '-')
                slug[length++] = (char)tolower((unsigned char)*at);
            else if (*at == ' ')
                slug[length++] = '-';
        slug[length] = '\0';
        if (!strcmp(slug, anchor)) return true;
    }
    return false;
}

static void check_link(const char *page, const char *target)
{
    if (starts_with(target, "http")) return;
    char *path = format("%s", target), *anchor = strchr(path, '#');
    if (anchor) *anchor++ = '\0';
    char *linked = *path ? format("%s/%s", dirname(format("%s", page)), path) : format("%s", page);
    cr_expect_eq(access(format("%s/%s", QKV_SOURCE_DIR, linked), R_OK), 0, "%s: no file for the link %s",
                 page, target);
    if (anchor) cr_expect(has_heading(linked, anchor), "%s: no heading for the link %s", page, target);
}

Test(pages, links_lead_somewhere)
{
    int links = 0;
    for (int i = 0; i < page_count; i++) {
        bool in_code = false;
        char *text = read_page(pages[i]);
        for (char *line; (line = next_line(&text));) {
            if (starts_with(line, "```")) in_code = !in_code;
            for (char *at = line; !in_code && (at = strstr(at, "](")); links++) {
                at += 2;
                size_t length = strcspn(at, ")");
                check_link(pages[i], format("%.*s", (int)length, at));
            }
        }
    }
    cr_assert_gt(links, 20);
}

/* docs/README.md lists every page of docs/, and README.md leads there. */
Test(pages, are_all_in_the_list)
{
    int listed = 0;
    const char *list = read_page("docs/README.md"), *folder = "docs/";
    for (int i = 0; i < page_count; i++) {
        if (!starts_with(pages[i], folder) || !strcmp(pages[i], "docs/README.md")) continue;
        const char *link = format("](%s)", pages[i] + strlen(folder));
        cr_expect(shows(list, link), "docs/README.md does not list %s", pages[i]);
        listed++;
    }
    cr_expect_gt(listed, 15);
    cr_expect(shows(read_page("README.md"), "](docs/README.md)"));
}

Test(pages, readme_takes_a_minute)
{
    cr_assert_leq(occurrences(read_page("README.md"), "\n"), 200);
}

/* ---- sentences ---- */

struct sentence {
    const char *page, *text;
};

static int compare_sentences(const void *a, const void *b)
{
    return strcmp(((const struct sentence *)a)->text, ((const struct sentence *)b)->text);
}

/* Collects the sentences of a page that are long enough to be no idiom; tables and code do not count. */
static size_t collect_sentences(const char *page, struct sentence *sentences, size_t count, size_t max)
{
    enum { LONG = 60 };
    bool in_code = false;
    char *text = read_page(page), *prose = remember(calloc(1, strlen(text) + 2));
    cr_assert_not_null(prose);
    for (char *line; (line = next_line(&text));) {
        if (starts_with(line, "```")) in_code = !in_code;
        bool is_prose = !in_code && !strchr("`|#<!", line[0]) && !starts_with(line, "    ");
        strcat(strcat(prose, is_prose ? line : "."), is_prose && *line ? " " : ". ");
    }
    for (char *at = prose; *at;) {
        size_t length = strcspn(at, ".");
        if (length > LONG && count < max)
            sentences[count++] = (struct sentence){page, format("%.*s", (int)length, at)};
        at += length + (at[length] == '.');
        at += strspn(at, " ");
    }
    return count;
}

Test(pages, say_nothing_twice)
{
    enum { CAPACITY = 4000 };
    static struct sentence sentences[CAPACITY];
    size_t count = 0;
    for (int i = 0; i < page_count; i++) count = collect_sentences(pages[i], sentences, count, CAPACITY);
    cr_assert_gt(count, 50);
    cr_assert_lt(count, CAPACITY);
    qsort(sentences, count, sizeof sentences[0], compare_sentences);
    for (size_t i = 1; i < count; i++)
        cr_expect_str_neq(sentences[i].text, sentences[i - 1].text, "%s and %s: %s", sentences[i - 1].page,
                          sentences[i].page, sentences[i].text);
}

/* ---- commands ---- */

/* Whether `output` is `expected`, where a line `...` stands for any lines. */
static bool matches(const char *expected, const char *output)
{
    if (!*expected) return !*output;
    if (starts_with(expected, "...\n")) {
        for (const char *rest = output; rest; rest = strchr(rest, '\n') ? strchr(rest, '\n') + 1 : NULL) {
            if (matches(expected + 4, rest)) return true;
            if (!*rest) return false;
        }
        return false;
    }
    size_t length = strcspn(expected, "\n") + 1;
    return !strncmp(expected, output, length) && matches(expected + length, output + length);
}

/* Replaces each number before or after `word` by N: what differs between two runs of the same training. */
static void hide_number(char *text, const char *word, bool is_before)
{
    for (char *at = text; (at = strstr(at, word)); at++) {
        char *from = at + (is_before ? 0 : strlen(word)), *to = from;
        if (is_before)
            while (from > text && isdigit((unsigned char)from[-1])) from--;
        else
            to += strspn(to, "0123456789hms");
        if (from == to) continue;
        *from = 'N';
        memmove(from + 1, to, strlen(to) + 1);
        at = from;
    }
}

static char *without_times(const char *text)
{
    char *copy = format("%s", text);
    hide_number(copy, " tokens/s", true);
    hide_number(copy, " threads", true);
    hide_number(copy, "  left ", false);
    hide_number(copy, " will take about ", false);
    hide_number(copy, " MB of memory so far", true);
    return copy;
}

static void run_commands(const char *page, const char *folder, const char *commands, const char *expected)
{
    write_text(folder, "block.sh", commands);
    if (expected) {
        struct outcome outcome = run("cd '%s' && . ./block.sh 2>&1", folder);
        cr_expect(matches(without_times(expected), without_times(outcome.output)),
                  "%s: %sprints\n%s\nnot\n%s", page, commands, outcome.output, expected);
        return;
    }
    struct outcome outcome = run("cd '%s' && set -e && . ./block.sh", folder);
    cr_expect_eq(outcome.exit_code, 0, "%s: %s\n%s", page, commands, outcome.error);
}

/* Runs a console block: commands behind `$ `, each with its output below it. */
static void run_console(const char *page, const char *folder, char *block)
{
    char *command = NULL, *expected = remember(calloc(1, strlen(block) + 2));
    cr_assert_not_null(expected);
    for (char *line; (line = next_line(&block));) {
        if (!starts_with(line, "$ ")) {
            strcat(strcat(expected, line), "\n");
            continue;
        }
        if (command) run_commands(page, folder, command, expected);
        command = format("%s\n", line + 2);
        *expected = '\0';
    }
    cr_assert_not_null(command, "%s: a console block without a command", page);
    run_commands(page, folder, command, expected);
}

/* Writes the block that a comment `<!-- file: NAME; in the test "A" is "B" -->` stands before. */
static void write_block(const char *page, const char *folder, const char *comment, const char *block)
{
    char name[256], old[256], new[256];
    int fields =
        sscanf(comment, "<!-- file: %255[^; ]; in the test \"%255[^\"]\" is \"%255[^\"]\"", name, old, new);
    cr_assert(fields == 1 || fields == 3, "%s: %s", page, comment);
    const char *at = fields == 3 ? strstr(block, old) : block;
    cr_assert_not_null(at, "%s: %s", page, comment);
    write_text(folder, name,
               fields == 1 ? block : format("%.*s%s%s", (int)(at - block), block, new, at + strlen(old)));
}

/* Expects a block of C to be part of the file that the comment names. */
static void compare_source(const char *page, const char *comment, const char *block)
{
    char name[256];
    if (starts_with(comment, "<!-- not run: ")) return;
    cr_assert_eq(sscanf(comment, "<!-- from: %255s -->", name), 1, "%s: this C has no comment:\n%s", page,
                 block);
    const char *source = read_file(format("%s/%s", QKV_SOURCE_DIR, name), NULL);
    cr_assert_not_null(source, "%s: %s cannot be read", page, name);
    cr_expect(shows(source, block), "%s: this is not in %s:\n%s", page, name, block);
}

static bool is_recorded(const char *comment)
{
    const char *prefix = "<!-- recorded with ";
    return starts_with(comment, prefix) && strspn(comment + strlen(prefix), "0123456789abcdef") >= 7;
}

/* Whether QKV_RECORDED, a list of pages, names this one. */
static bool is_recorded_anew(const char *page)
{
    const char *wanted = getenv("QKV_RECORDED");
    return wanted && strstr(wanted, page);
}

static void run_block(const char *page, const char *folder, const char *comment, const char *language,
                      char *block)
{
    if (starts_with(comment, "<!-- file: ")) write_block(page, folder, comment, block);
    if (!strcmp(language, "c")) compare_source(page, comment, block);
    bool console = !strcmp(language, "console");
    if (!console && strcmp(language, "sh") != 0) return;
    if (!strcmp(comment, "<!-- run -->") || (is_recorded(comment) && is_recorded_anew(page))) {
        if (console)
            run_console(page, folder, block);
        else
            run_commands(page, folder, block, NULL);
        return;
    }
    cr_expect(starts_with(comment, "<!-- not run: ") || is_recorded(comment),
              "%s: these commands have no comment that says whether a test runs them:\n%s", page, block);
}

static void run_page(const char *page, int index)
{
    const char *folder = scratch(format("page%d", index)), *comment = "";
    run_ok("ln -s '" QKV_SOURCE_DIR "/configs' '" QKV_SOURCE_DIR "/datasets' '%s'", folder);
    char *text = read_page(page);
    for (char *line; (line = next_line(&text));) {
        if (starts_with(line, "<!-- setup: ")) {
            char *command = format("%s\n", line + strlen("<!-- setup: "));
            *strstr(command, " -->") = '\0';
            run_commands(page, folder, command, NULL);
        }
        if (starts_with(line, "```")) {
            char *block = format("%s", ""), *at;
            while ((at = next_line(&text)) && !starts_with(at, "```")) block = format("%s%s\n", block, at);
            run_block(page, folder, comment, line + 3, block);
        }
        comment = line;
    }
}

ParameterizedTestParameters(pages, commands_do_what_they_show)
{
    static int indices[MAX_PAGES];
    list_pages();
    for (int i = 0; i < page_count; i++) indices[i] = i;
    return cr_make_param_array(int, indices, (size_t)page_count);
}

ParameterizedTest(int *index, pages, commands_do_what_they_show)
{
    if (is_slow_build()) cr_skip_test("pages train for minutes; other tests run all commands on less text");
    run_page(pages[*index], *index);
}
