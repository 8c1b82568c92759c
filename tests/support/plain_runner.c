/* Runs Criterion's tests without Criterion's runner, for ThreadSanitizer and valgrind: the runner
 * maps memory at addresses that ThreadSanitizer reserves, and crashes. This file defines the few
 * functions that Criterion's macros call, and runs each test in a child process. Declarations and
 * assertions are still Criterion's.
 *
 *     PROGRAM [--filter SUITE/NAME]      the pattern is a shell glob; other options are ignored
 * / */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <criterion/parameterized.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, FAILED = 99 };

/* ---- functions that the macros of a test call, in the child ---- */

static const struct criterion_test *current;
static void *parameter; /* of a parameterized test */
static bool failed;

static const struct criterion_suite *suite_of(const struct criterion_test *test)
{
    extern struct criterion_suite *__start_cr_sts[] __attribute__((weak)),
        *__stop_cr_sts[] __attribute__((weak));
    for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
        if (*suite && !strcmp((*suite)->name, test->category)) return *suite;
    return NULL;
}

static _Noreturn void leave(int status)
{
    fflush(NULL);
    _exit(status);
}

void criterion_internal_test_setup(void)
{
    const struct criterion_suite *suite = suite_of(current);
    if (suite && suite->data && suite->data->init) suite->data->init();
    if (current->data->init) current->data->init();
}

void criterion_internal_test_main(void (*function)(void))
{
    if (current->data->kind_ == CR_TEST_PARAMETERIZED)
        ((void (*)(void *))function)(parameter);
    else
        function();
}

void criterion_internal_test_teardown(void)
{
    const struct criterion_suite *suite = suite_of(current);
    if (current->data->fini) current->data->fini();
    if (suite && suite->data && suite->data->fini) suite->data->fini();
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    if (!stats->passed) fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message);
}

void criterion_abort_test(void)
{
    leave(FAILED);
}

void criterion_continue_test(void)
{
    failed = true;
}

void criterion_skip_test(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    leave(SKIPPED);
}

/* ---- the parent ---- */

/* Calls ReportHook(PRE_ALL), the only hook that the tests use. */
static void call_hooks(void)
{
    extern const f_report_hook __start_cr_pra[] __attribute__((weak)), __stop_cr_pra[] __attribute__((weak));
    struct criterion_test_set none = {0};
    for (const f_report_hook *entry = __start_cr_pra; entry < __stop_cr_pra; entry++) {
        void (*hook)(struct criterion_test_set *) = (void (*)(struct criterion_test_set *)) * entry;
        if (hook) hook(&none);
    }
}

static bool has_passed(const struct criterion_test *test, int status)
{
    if (WIFSIGNALED(status)) return WTERMSIG(status) == test->data->signal;
    if (test->data->signal) return false;
    return WEXITSTATUS(status) == SKIPPED || WEXITSTATUS(status) == test->data->exit_code;
}

/* Runs the current test in a child. */
static bool run(const char *name)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        current->test();
        leave(failed ? FAILED : 0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror(name);
        return false;
    }
    if (has_passed(current, status)) return true;
    fprintf(stderr, "[FAIL] %s (%s %d)\n", name, WIFSIGNALED(status) ? "signal" : "exit code",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

int main(int argc, char **argv)
{
    extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
    const char *filter = argc == 3 && !strcmp(argv[1], "--filter") ? argv[2] : "*";
    int tested = 0, failures = 0;
    call_hooks();
    for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
        char name[256];
        if (!*test || (*test)->data->disabled) continue;
        snprintf(name, sizeof name, "%s/%s", (*test)->category, (*test)->name);
        if (fnmatch(filter, name, 0) != 0) continue;
        current = *test;
        struct criterion_test_params all = {.length = 1};
        if (current->data->kind_ == CR_TEST_PARAMETERIZED) all = current->data->param_();
        for (size_t i = 0; i < all.length; i++, tested++) {
            parameter = (char *)all.params + i * all.size;
            if (!run(name)) failures++;
        }
        if (all.cleanup) all.cleanup(&all);
    }
    fprintf(stderr, "Tested: %d, failing: %d\n", tested, failures);
    return failures || !tested ? EXIT_FAILURE : EXIT_SUCCESS;
}
