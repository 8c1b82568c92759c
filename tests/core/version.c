/* The version, in the header and in the library; and that one header includes all. */
#include "framework/engine/kernels/registry.h"

#include "parameters.h"

Test(version, header_and_library_agree)
{
    cr_expect_str_eq(qkv_version(), QKV_VERSION);
    cr_expect_str_eq(QKV_VERSION,
                     format("%d.%d.%d", QKV_VERSION_MAJOR, QKV_VERSION_MINOR, QKV_VERSION_PATCH));
}

Test(dtype, numbers_are_read_and_written_in_both_precisions)
{
    float single[2] = {0};
    double twice[2] = {0};
    qkv_dtype_set(QKV_FLOAT32, single, 1, 0.1);
    qkv_dtype_set(QKV_FLOAT64, twice, 1, 0.1);
    cr_expect_eq(qkv_dtype_get(QKV_FLOAT32, single, 1), (double)0.1f);
    cr_expect_eq(qkv_dtype_get(QKV_FLOAT64, twice, 1), 0.1);
    cr_expect_eq(single[0], 0);
    cr_expect_eq(twice[0], 0);
    cr_expect_eq(qkv_dtype_size(QKV_FLOAT32), sizeof(float));
    cr_expect_eq(qkv_dtype_size(QKV_FLOAT64), sizeof(double));
}

Test(kernels, a_library_with_unknown_kernels_fails_with_a_sentence)
{
    const char *sentence =
        "the environment variable QKV_KERNELS is 'none', but must be one of avx512, avx2, portable, blas";
    struct qkv_kernel_names names;
    expect_done(qkv_kernels_in_use(&names, &error));
    cr_expect_str_eq(names.float64, "portable");
    cr_expect(names.blas_core && names.blas_config);
    setenv("QKV_KERNELS", "none", 1);
    expect_refusal(qkv_kernels_in_use(NULL, &error), sentence);
    struct qkv_graph *graph RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32);
    for (int i = 0; i < 2; i++) {
        cr_expect_null(qkv_relu(graph, qkv_variable(graph, QKV_SHAPE(3))));
        qkv_forward(graph);
        error.message[0] = '\0';
        expect_refusal(qkv_graph_check(graph, &error), sentence);
        qkv_graph_reset(graph);
    }
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    struct qkv_optimizer optimizer;
    const struct qkv_optimizer_options options = qkv_optimizer_defaults(QKV_OPTIMIZER_ADAM);
    last_parameter(&parameters, QKV_FLOAT32, QKV_SHAPE(3), ZEROS, "x");
    expect_refusal(qkv_optimizer_init(&optimizer, &options, &parameters, &error), sentence);
    unsetenv("QKV_KERNELS");
}

/* The first answer holds: graphs of one process, and weights that are packed for them, agree on who multiplies. */
Test(kernels, whether_blas_multiplies_is_decided_once)
{
    struct qkv_kernel_names names, later;
    setenv("QKV_KERNELS", "blas", 1);
    expect_done(qkv_kernels_in_use(&names, &error));
    cr_expect(names.is_float32_by_blas);
    setenv("QKV_KERNELS", "portable", 1);
    expect_done(qkv_kernels_in_use(&later, &error));
    cr_expect(later.is_float32_by_blas);
    cr_expect_str_eq(later.float32, names.float32);
}

Test(kernels, blas_does_not_replace_the_kernels_of_a_process_that_has_begun)
{
    struct qkv_kernel_names names, later;
    unsetenv("QKV_KERNELS");
    qkv_graph_free(qkv_graph_new(QKV_FLOAT32));
    cr_assert_eq(qkv_kernels_in_use(&names, NULL), QKV_OK);
    setenv("QKV_KERNELS", "blas", 1);
    cr_assert_eq(qkv_kernels_in_use(&later, NULL), QKV_OK);
    cr_expect(!names.is_float32_by_blas && !later.is_float32_by_blas);
    cr_expect_str_eq(later.float32, names.float32);
}
