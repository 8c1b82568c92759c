#include "wrong_config.h"

void expect_wrong_config(const char *text, const char *arguments, const char *messages)
{
    write_text(".", "x.yaml", text);
    struct outcome outcome = run("qkv config x.yaml %s", arguments);
    cr_expect_str_eq(outcome.error, messages, "%s%s\ngot\n%swanted\n%s", text, arguments, outcome.error,
                     messages);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_empty(outcome.output);
}

void expect_wrong(const char *text, const char *const cases[][2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *is = cases[i][0], *message = cases[i][1];
        if (!strncmp(is, "-s ", 3))
            expect_wrong_config(text, is, format("%s\n", message));
        else
            expect_wrong_config(format("%s%s\n", text, is), "", format("x.yaml:%s\n", message));
    }
}
