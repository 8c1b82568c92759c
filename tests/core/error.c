/* Messages: what they quote, and where they are cut; and the handler of bugs. */
#include "support.h"

#include <setjmp.h>
#include <signal.h>

Test(message, escapes_what_steers_a_terminal_or_is_no_text)
{
    static const char *const cases[][2] = {
        {"a b ä 狗 😀", "a b ä 狗 😀"},
        {"\033[2J\r\n\t\x7F", "\\x1B[2J\\x0D\\x0A\\x09\\x7F"},
        {"\xC2\x85\xC2\x9B", "\\x85\\x9B"},
        {"\u202Eabc\u2066\u2028", "\\u202Eabc\\u2066\\u2028"},
        {"\xFF\xC3\xE4z\xF0\x9F\x98", "\\xFF\\xC3\\xE4z\\xF0\\x9F\\x98"},
        {"\xEF\xBF\xBE\xF0\x9F\xBF\xBE", "\\uFFFE\\U0001FFFE"},
        {"\\x1B", "\\x1B"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *message = format("%s: 7", cases[i][1]);
        expect_refusal(qkv_error_set(&error, "%s: %d", cases[i][0], 7), message);
        expect_refusal(qkv_error_set(&error, "%s", message), message); /* it stays the same in another one */
    }
}

Test(message, is_cut_between_two_characters)
{
    char text[4000];
    for (int first = 0; first < 4; first++) {
        memset(text, 'x', (size_t)first);
        for (size_t i = (size_t)first; i < sizeof text - 4; i += 3) memcpy(text + i, "狗", 4);
        qkv_error_set(&error, "%s", text);
        size_t length = strlen(error.message);
        cr_expect(length >= sizeof error.message - 4 && length < sizeof error.message);
        cr_expect_str_eq(error.message + length - 6, "狗...");
        cr_expect_eq(strncmp(error.message, text, length - 3), 0);
    }
    memset(text, '\033', sizeof text - 1);
    text[sizeof text - 1] = 0;
    qkv_error_set(&error, "%s", text);
    size_t length = strlen(error.message);
    cr_expect_str_eq(error.message + length - 7, "\\x1B...");
    cr_expect_lt(length, sizeof error.message);
}

Test(message, needs_no_format)
{
    const char *volatile no_format = NULL;
    expect_refusal(qkv_error_set(&error, no_format, 0), "");
}

static jmp_buf before_bug;
static char last_bug[1024];

static void leave(void *context, const char *message)
{
    strcpy(context, message);
    longjmp(before_bug, 1);
}

Test(bug, a_program_can_handle_bugs)
{
    volatile int number = 3;
    qkv_set_bug_handler(leave, last_bug);
    if (!setjmp(before_bug)) QKV_BUG(number == 3, "the number is %d", number);
    cr_expect(shows(last_bug, "error.c") && shows(last_bug, "(number == 3): the number is 3"));
    last_bug[0] = '\0';
    if (!setjmp(before_bug)) QKV_BUG(number == 4, "not reached");
    cr_expect_str_eq(last_bug, "");
    qkv_set_bug_handler(NULL, NULL);
}

static void note(void *context, const char *message)
{
    (void)context;
    (void)message;
}

Test(bug, the_program_aborts_when_the_handler_returns, .signal = SIGABRT)
{
    qkv_set_bug_handler(note, NULL);
    QKV_BUG(1, "a fault");
}

Test(bug, the_program_aborts_without_a_handler, .signal = SIGABRT)
{
    QKV_BUG(1, "a fault");
}
