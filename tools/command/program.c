#include "program.h"
#include "command.h"

#include "kernels/registry.h"

#include <limits.h>
#include <signal.h>

/* ---- the kernels of OpenBLAS ---- */

static const char VARIABLE[] = "OPENBLAS_CORETYPE";

/* Executes this program again, by its path and not as /proc/self/exe, because the process would then be named `exe`. Returns
 * only if that fails. */
static void execute_anew(char **argv, const char *core)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0 || setenv(VARIABLE, core, 1)) return;
    path[length] = '\0';
    execv(path, argv);
}

void choose_blas_core(char **argv)
{
    struct qkv_kernel_names kernels;
    struct qkv_error error;
    const char *chosen =
        getenv(VARIABLE); /* set by the user, or by this function, which executes the program only once */
    if (chosen && *chosen) return;
    if (qkv_kernels_in_use(&kernels, &error) || !kernels.is_float32_by_blas || !kernels.better_blas_core)
        return;
    execute_anew(argv, kernels.better_blas_core);
    print_error("OpenBLAS computes with kernels for %s, which are slow on this processor, because this "
                "program cannot be executed anew (%s): set the environment variable %s to %s",
                kernels.blas_core, strerror(errno), VARIABLE, kernels.better_blas_core);
}

/* ---- signals ---- */

void end_by_signal(int number)
{
    sigset_t set;
    qkv_file_remove_temporary();
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* a signal is blocked while its handler runs */
}

void end_by_signal_handle(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction action = {.sa_handler = end_by_signal}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}
