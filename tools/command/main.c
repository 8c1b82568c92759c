/* qkv: runs one subcommand. */
#include "help.h"
#include "program.h"

#include "kernels/registry.h"

#include <fcntl.h>
#include <signal.h>

/* Occupies the descriptors of closed standard streams, so that reads and writes there fail. Otherwise the system would give
 * such a descriptor to the next file that is opened, and results might be printed into a checkpoint. */
static void occupy_standard_descriptors(void)
{
    for (int descriptor = 0; descriptor < 3; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", descriptor ? O_RDONLY : O_WRONLY);
}

/* Prints the version in the first line, for scripts, and then the kernels in use. */
static void print_version(const struct qkv_kernel_names *kernels)
{
    printf("qkv " QKV_VERSION "\n"
           "kernels: %s for float32, %s for float64\n"
           "instructions: %s for bfloat16, %s for int8\n"
           "OpenBLAS: kernels for %s, for large products in %s (%s)\n",
           kernels->float32, kernels->float64,
           kernels->bfloat16_instruction ? kernels->bfloat16_instruction : "none",
           kernels->int8_instruction ? kernels->int8_instruction : "none", kernels->blas_core,
           kernels->is_float32_by_blas ? "float32 and float64" : "float64", kernels->blas_config);
}

static int run_command(int argc, char **argv)
{
    char help[] = "help", *help_arguments[] = {help, NULL};
    const char *name = argc > 1 ? argv[1] : NULL;
    struct qkv_kernel_names kernels;
    struct qkv_error error;
    if (!name) {
        help_text_overview(stderr);
        return QKV_INVALID;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        return parse_and_run(&command_help, 1, help_arguments);
    if (!strcmp(name, "--complete")) {
        help_complete(argc - 2, argv + 2);
        return QKV_OK;
    }
    if (qkv_kernels_in_use(&kernels, &error)) return print_error("%s", error.message);
    if (!strcmp(name, "--version")) {
        print_version(&kernels);
        return QKV_OK;
    }
    if (*name == '-') return print_error("unknown option '%s' (see `qkv --help`)", name);
    const struct command *command = command_find(name);
    return command ? parse_and_run(command, argc - 1, argv + 1) : QKV_INVALID;
}

/* Flushes standard output. Returns 0; or the errno of a failed write, or -1 if the reason is not known. */
static int output_failure(void)
{
    errno = 0;
    if (fflush(stdout)) return errno;
    if (!ferror(stdout)) return 0;
    /* An earlier write failed and its reason is lost; another write fails for the same reason. */
    return write(STDOUT_FILENO, "\n", 1) < 0 ? errno : -1;
}

int main(int argc, char **argv)
{
    occupy_standard_descriptors();
    choose_blas_core(argv);
    qkv_end_openblas_threads();
    json_need_memory();
    end_by_signal_handle();
    signal(SIGXFSZ, SIG_IGN); /* writing beyond the file size limit then fails with an error */
    int code = run_command(argc, argv);
    int failure = output_failure();
    if (!failure || code == QKV_INVALID) return code; /* an error message has been printed */
    return print_error("<stdout>: cannot be written: %s", failure > 0 ? strerror(failure) : "a write failed");
}
