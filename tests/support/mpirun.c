#include "mpirun.h"

#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

const char *mpirun(void)
{
#ifndef QKV_MPI
    cr_skip_test("this build has no MPI");
#endif
    if (run("command -v mpirun").exit_code) cr_skip_test("mpirun is not installed");
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

void mpirun_training(int processes, const struct training *training)
{
    run_ok("%s -n %d '%s' %s", mpirun(), processes, QKV_BINARY, train_arguments(training));
}
