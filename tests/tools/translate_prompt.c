/* The prompt of qkv translate: with libedit, and without it, as where TERM is dumb. */
#include "pseudo_terminal.h"

#include <sys/stat.h>

#ifdef QKV_LIBEDIT
static const bool HAS_LIBEDIT = true;
#else
static const bool HAS_LIBEDIT = false;
#endif

static void enter_learned(void)
{
    enter(learned_run("run"));
}

TestSuite(translate_prompt, .init = enter_learned);

static void wait_for_prompt(struct pseudo_terminal *terminal)
{
    pseudo_terminal_wait(terminal, "> ");
}

/* Types a line, and waits for a part of its answer and for the prompt after it. */
static void ask(struct pseudo_terminal *terminal, const char *line, const char *answer)
{
    pseudo_terminal_type(terminal, format("%s\r", line));
    pseudo_terminal_wait(terminal, answer);
    wait_for_prompt(terminal);
}

static struct pseudo_terminal *start(const char *environment, const char *options)
{
    struct pseudo_terminal *terminal =
        pseudo_terminal_start(100, 40, "%s qkv translate run --beam 3 --threads 2 %s", environment, options);
    wait_for_prompt(terminal);
    return terminal;
}

/* What every prompt does. */
static void expect_answers(const char *environment)
{
    struct pseudo_terminal *terminal = start(environment, "");
    ask(terminal, "/map", "\nqkv: there is no translation to draw: type a sentence first\r\n");
    ask(terminal, "a b", "\nA B\r\n");
    ask(terminal, "/map", "\n</s> "); /* its last row */
    ask(terminal, "", "\n\r\n");
    ask(terminal, "/map", "\nqkv: there is no translation to draw: type a sentence first\r\n");
    ask(terminal, "zebra c", "\nqkv: the sentence: not in the vocabulary: zebra\r\n");
    cr_expect(shows(terminal->bytes, "--vocabulary\r\n")); /* once */
    ask(terminal, "A b.",
        "\nqkv: the sentence: read in the case and with the punctuation of the training text: a b\r\n"
        "A B\r\n");
    ask(terminal, "/nbest 2", "\n");
    ask(terminal, "e d", "\n1\tE D\r\n2\t");
    ask(terminal, "/nbest 7", "\n"); /* more than --beam */
    ask(terminal, "e d", "\n7\t");
    ask(terminal, "/nbest  1 ", "\n");
    ask(terminal, " /a b", "\nqkv: the sentence: not in the vocabulary: /a\r\n");
    static const char *const wrong[] = {"/nbest", "/nbest 0", "/nbest 3x"};
    for (int i = 0; i < 3; i++) ask(terminal, wrong[i], "\nqkv: /nbest needs a number from 1 to 1000\r\n");
    ask(terminal, "/quit now", "\nqkv: /quit has no argument, but got 'now'\r\n");
    ask(terminal, "/maps", "\nqkv: there is no command /maps; /help lists the commands\r\n");
    ask(terminal, "/help", "\n/nbest N  print the N best translations of each sentence\r\n");
    ask(terminal, "c", "\nC\r\n");
    cr_expect_eq(pseudo_terminal_leave(terminal, "/quit\r"), 0);
    char *text = pseudo_terminal_text(terminal);
    cr_expect(begins(text, "a to b; /help lists the commands, Ctrl-D ends\n> "));
    cr_expect(shows(text, "\n> e d\n1       E D\n2       "));
    /* The map is what `qkv attention` prints. */
    const char *map = run_ok("qkv attention run 'a b' -q");
    cr_expect(shows(text, format("\n> /map\n%s>", map)), "%s\n%s", text, map);
}

/* Ctrl-D ends with exit code 0. The first Ctrl-C clears the line. */
static void expect_keys(const char *environment)
{
    struct pseudo_terminal *terminal = start(environment, "-q");
    cr_expect_eq(pseudo_terminal_leave(terminal, "\004"), 0);
    cr_expect(!strncmp(terminal->bytes, "> ", 2) || strstr(terminal->bytes, "\r> "), "%s", terminal->bytes);
    terminal = start(environment, "");
    pseudo_terminal_type(terminal, "c e");
    pseudo_terminal_wait(terminal, "e");
    pseudo_terminal_type(terminal, "\003");
    wait_for_prompt(terminal);
    ask(terminal, "a b", "\nA B\r\n"); /* and not "c e a b" */
    if (!HAS_LIBEDIT || !strcmp(environment, "TERM=dumb")) {
        /* The terminal gives qkv what it has of the line, and then an end, which ends the line. */
        pseudo_terminal_type(terminal, "a b\004\004");
        pseudo_terminal_wait(terminal, "A B\r\n");
        wait_for_prompt(terminal);
    }
    pseudo_terminal_type(terminal, "\003");
    if (!HAS_LIBEDIT || !strcmp(environment, "TERM=dumb")) { /* nobody knows whether the line is empty */
        wait_for_prompt(terminal);
        pseudo_terminal_type(terminal, "\003");
    }
    cr_expect_eq(pseudo_terminal_end(terminal), 130);
}

Test(translate_prompt, draws_maps_between_words_and_says_of_which_run)
{
    enter(tiny_task("subwords"));
    run_ok("sed -i 's/c/cc/' train.tsv && qkv train c.yaml -q -s training.updates=5 -s data.src.level=bpe -s "
           "data.src.num_merges=1");
    struct pseudo_terminal *terminal = start("NO_COLOR=1", "-q --beam 1");
    ask(terminal, "acc c", "\n");
    ask(terminal, "/map", "\n</s> ");
    ask(terminal, "/words", "\n</s> ");
    pseudo_terminal_leave(terminal, "\004");
    char *text = pseudo_terminal_text(terminal);
    const char *tokens = run_ok("qkv attention run 'acc c' -q");
    const char *words = run_ok("qkv attention run 'acc c' -q --words");
    cr_expect_str_neq(tokens, words);
    cr_expect(shows(text, format("\n> /map\n%s>", tokens)), "%s\n%s", text, tokens);
    cr_expect(shows(text, format("\n> /words\n%s>", words)), "%s\n%s", text, words);
    terminal = start("NO_COLOR=1", "-q --beam 1 --with run");
    ask(terminal, "acc c", "\n");
    ask(terminal, "/map", "\n</s> "); /* and not the "> " in it */
    pseudo_terminal_leave(terminal, "\004");
    cr_expect(shows(terminal->bytes, ", attention of run\r\n"));
}

Test(translate_prompt, answers_with_libedit_and_without)
{
    expect_answers("NO_COLOR=1");
    expect_answers("TERM=dumb");
    struct pseudo_terminal *terminal = start("TERM=dumb", "");
    pseudo_terminal_leave(terminal, "\004");
    cr_expect_str_eq(terminal->bytes, "a to b; /help lists the commands, Ctrl-D ends\r\n> \r\n");
}

Test(translate_prompt, knows_the_keys_with_libedit_and_without)
{
    expect_keys("");
    expect_keys("TERM=dumb");
}

Test(translate_prompt, edits_lines_and_remembers_them)
{
    if (!HAS_LIBEDIT) cr_skip_test("qkv is built without libedit");
    const char *state = "XDG_STATE_HOME=\"$PWD/state\"";
    struct pseudo_terminal *terminal = start(state, "");
    ask(terminal, "e d", "\nE D\r\n");
    ask(terminal, "a b", "\nA B\r\n");
    ask(terminal, "\033[A\033[A", "\nE D\r\n");     /* up, up */
    ask(terminal, "ac\033[D ", "\nA C\r\n");        /* left */
    ask(terminal, "\303\251\177a b", "\nA B\r\n");  /* one character of two bytes, erased */
    ask(terminal, "x\001e \005\177d", "\nE D\r\n"); /* Ctrl-A, Ctrl-E */
    cr_expect_eq(pseudo_terminal_leave(terminal, "\004"), 0);
    struct stat entry;
    cr_assert_eq(stat("state/qkv/history", &entry), 0);
    cr_expect_eq(entry.st_mode & 0777, 0600);
    /* The next prompt has the lines, also in another locale. */
    terminal = start(format("%s LC_ALL=C", state), "");
    ask(terminal, "\033[A\033[A\033[A", "\nA C\r\n");
    ask(terminal, "\303\251\177\303\261 c", "not in the vocabulary: \303\261\r\n");
    cr_expect_eq(pseudo_terminal_leave(terminal, "\004"), 0);
    pseudo_terminal_text(terminal);
}

/* No file, and no message of it. */
Test(translate_prompt, needs_no_place_for_its_history)
{
    write_text(".", "file", "mine\n");
    static const char *const places[] = {"XDG_STATE_HOME=/dev/null", "XDG_STATE_HOME=relative",
                                         "XDG_STATE_HOME=\"$PWD/file\"", "HOME=/nowhere/at/all"};
    for (int i = 0; i < 4; i++) {
        struct pseudo_terminal *terminal = start(places[i], "");
        ask(terminal, "a b", "\nA B\r\n");
        cr_expect_eq(pseudo_terminal_leave(terminal, "\004"), 0);
        cr_expect(lacks(terminal->bytes, "qkv:"));
    }
    cr_expect_str_eq(run_ok("ls && cat file"), "c.yaml\ndev.tsv\nfile\nrun\ntrain.tsv\nmine\n");
}

Test(translate_prompt, keeps_the_line_when_the_terminal_changes)
{
    if (!HAS_LIBEDIT) cr_skip_test("qkv is built without libedit");
    struct pseudo_terminal *terminal = start("", "");
    pseudo_terminal_type(terminal, "a");
    pseudo_terminal_wait(terminal, "a");
    pseudo_terminal_resize(terminal, 50, 30);
    wait_for_prompt(terminal);
    pseudo_terminal_type(terminal, " b\r");
    pseudo_terminal_wait(terminal, "A B\r\n");
    char *text = pseudo_terminal_text(terminal);
    cr_expect(shows(text, "ends\n> a b\nA B\n"));
    wait_for_prompt(terminal);
    cr_expect_eq(pseudo_terminal_leave(terminal, "\004"), 0);
}

Test(translate_prompt, is_for_people_only)
{
    static const char *const others[] = {"| cat", "-"};
    for (int i = 0; i < 2; i++) {
        struct pseudo_terminal *terminal = pseudo_terminal_start(80, 24, "qkv translate run %s", others[i]);
        pseudo_terminal_type(terminal, "a b\r");
        pseudo_terminal_wait(terminal, "\nA B\r\n");
        pseudo_terminal_leave(terminal, "\004");
        cr_expect_str_eq(terminal->bytes, "a b\r\nA B\r\n");
    }
}
