#include "mpirun.h"

#include <fnmatch.h>

const char *mpirun(void)
{
#ifndef QKV_MPI
    cr_skip_test("this build has no MPI");
#endif
    skip_without_program("mpirun");
    if (strstr(QKV_INSTRUMENTATION, "-fsanitize=address"))
        cr_skip_test(
            "several processes are tested in a release, and at night with ThreadSanitizer and valgrind");
    return "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to "
           "none -q";
}

const char *train_arguments(const struct training *training)
{
    char *arguments = format("train '%s' -s training.model_dir='%s'", training->config, training->run);
    char *copy = format("%s", training->settings);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        arguments =
            format("%s -s %s%s", arguments, strcspn(word, ".") < strcspn(word, "=") ? "" : "training.", word);
    int threads = training->threads ? training->threads : 1;
    return format("%s -j %d%s", arguments, threads, training->resume ? " --resume" : "");
}

const char *process(int rank)
{
    char host[128] = "";
    gethostname(host, sizeof host - 1);
    return format("process %d on %s", rank, host);
}

struct outcome run_several(int processes, const char *arguments)
{
    return run("%s -n %d '%s' %s", mpirun(), processes, QKV_BINARY, arguments);
}

struct outcome run_two(const char *first, const char *second)
{
    return run_differing("", first, "", second);
}

struct outcome run_differing(const char *first_options, const char *first, const char *second_options,
                             const char *second)
{
    return run("%s -n 1 %s '%s' %s : -n 1 %s '%s' %s", mpirun(), first_options, QKV_BINARY, first,
               second_options, QKV_BINARY, second);
}

bool differ(struct outcome outcome, const char *what, const char *value, const char *other)
{
    const char *pattern = format("qkv: %s: %s on %s, but %s on %s: it must be the same on all processes\n",
                                 what, value, process(0), other, process(1));
    return fails(outcome, 2, "qkv: ") &&
           (!fnmatch(pattern, outcome.error, 0) || shows(outcome.error, pattern));
}

void mpirun_training(int processes, const struct training *training)
{
    struct outcome outcome = run_several(processes, train_arguments(training));
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
}
