/* QKV_KERNELS=blas on a processor that OpenBLAS does not know: commands execute themselves anew with the kernels that
 * fit. tests/tools/preload/old_core.c stands for such an OpenBLAS. */
#include "support.h"

#include "framework/engine/kernels/registry.h"

/* Runs qkv with that OpenBLAS and the environment variables, which are VARIABLE=VALUE with a space behind each. */
static struct outcome run_with(const char *variables, const char *arguments)
{
    if (!*QKV_OLD_CORE) cr_skip("sanitizers and emulators must be loaded first");
    return run("unset OPENBLAS_CORETYPE; LD_PRELOAD='%s' %s qkv %s", QKV_OLD_CORE, variables, arguments);
}

/* The core that qkv must choose here; one that OpenBLAS has "chosen" where no other fits the kernels of qkv. */
static const char *fitting_core(void)
{
    struct qkv_kernel_names names;
    expect_done(qkv_kernels_in_use(&names, &error));
    return !strcmp(names.float32, "avx512") ? "SkylakeX"
           : !strcmp(names.float32, "avx2") ? "Haswell"
                                            : "Prescott";
}

static void expect_core(const char *variables, const char *core)
{
    struct outcome outcome = run_with(variables, "--version");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect(shows(outcome.output, format("\nOpenBLAS: kernels for %s, for large products in ", core)), "%s",
              variables);
    cr_expect_str_empty(outcome.error);
}

Test(blas_core, is_chosen_only_with_blas_and_where_the_user_has_not)
{
    expect_core("QKV_KERNELS=blas", fitting_core());
    expect_core("QKV_KERNELS=blas OPENBLAS_CORETYPE=", fitting_core());
    expect_core("QKV_KERNELS=blas OPENBLAS_CORETYPE=Nehalem", "Nehalem");
    expect_core("", "Prescott");
    expect_core("QKV_KERNELS=portable", "Prescott");
}

/* An argument is not parsed again by a shell, and standard input is not read before. */
Test(blas_core, the_command_is_the_same)
{
    struct outcome outcome = run_with("QKV_KERNELS=blas", "'no  such' command");
    cr_expect(fails(outcome, 2, "'no  such'"));
    outcome =
        run_with("QKV_KERNELS=blas", "score - '" QKV_SOURCE_DIR "/LICENSE' <'" QKV_SOURCE_DIR "/LICENSE'");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(blas_core, a_command_that_cannot_be_executed_anew_says_so_and_goes_on)
{
    if (!strcmp(fitting_core(), "Prescott")) cr_skip("there is nothing to choose on this processor");
    struct outcome outcome = run_with("QKV_KERNELS=blas QKV_CANNOT_EXECUTE=1", "--version");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect(shows(outcome.output, "\nOpenBLAS: kernels for "));
    cr_expect_str_eq(outcome.error,
                     format("qkv: OpenBLAS computes with kernels for Prescott, which are slow on this "
                            "processor, because this program cannot be executed anew (Permission denied): "
                            "set the environment variable OPENBLAS_CORETYPE to %s\n",
                            fitting_core()));
}
