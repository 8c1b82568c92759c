/* The version, in the header and in the library; and that one header includes all. */
#include "qkv/qkv.h"

#include "support.h"

#include <criterion/criterion.h>

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
