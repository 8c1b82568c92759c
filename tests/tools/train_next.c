/* The commands that `qkv train` names at its end: what to do with the run. */
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* Returns the commands that training names at its end, as a script. */
static const char *next_commands(const char *text)
{
    const char *line = strstr(text, "\nnext: ");
    cr_assert_not_null(line, "%s", text);
    return format("%s", line + strlen("\nnext: "));
}

Test(train_next, names_commands_that_use_the_run)
{
    enter(tiny_task("next"));
    struct outcome outcome = run("qkv train c.yaml -s training.model_dir=\"my run\"");
    const char *commands = next_commands(outcome.error);
    /* The sentence is a sample of the dev set, so that no word of it is unknown. */
    cr_expect(lacks(commands, "a sentence"));
    outcome = run("%s", commands);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(lacks(outcome.error, "not in the vocabulary"));
    cr_expect(shows(outcome.output, "\ncross attention, layer 1"));
    /* A finished run has no sample; commands in the shell need quotation marks around these sentences. */
    outcome = run("qkv train c.yaml -s training.model_dir=\"my run\" --resume");
    const char *wanted = "echo 'a sentence' | qkv translate 'my run'\n"
                         "      qkv attention 'my run' 'a sentence'\n";
    cr_expect_str_eq(next_commands(outcome.error), wanted);
    static const char *const unfit[] = {"a '\\''b", "- a b", "a \\\\n b"};
    for (int i = 0; i < 3; i++) {
        run_ok("printf '%%s\\tA B\\n' '%s' >dev.tsv", unfit[i]);
        outcome = run("qkv train c.yaml -s training.model_dir=\"my run\" --overwrite");
        cr_expect_str_eq(next_commands(outcome.error), wanted, "%s", unfit[i]);
    }
}

Test(train_next, names_no_attention_of_a_run_that_has_none)
{
    enter(tiny_task("no_attention"));
    train_recurrent("run", "", ", attention: {score: none}", 1);
    const char *commands = next_commands(run_ok("qkv train recurrent.yaml --overwrite 2>&1"));
    cr_expect(shows(commands, "| qkv translate run\n") && lacks(commands, "qkv attention"));
}
