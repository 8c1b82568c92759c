/* The gradient check of every layer, with all its samples, and the values of sinusoids. */
#include "qkv/gradcheck.h"

#include <criterion/criterion.h>
#include <math.h>

Test(layers, gradients_agree_with_finite_differences)
{
    for (int layer = 0; layer < QKV_LAYER_COUNT; layer++) {
        struct qkv_check_report report = {0};
        struct qkv_error error = {""};
        struct qkv_check_options options = {.seed = 1};
        cr_assert_eq(qkv_check_layer(&report, (enum qkv_layer_id)layer, &options, &error), QKV_OK, "%s",
                     error.message);
        cr_expect_gt(report.count, 2);
        for (int64_t i = 0; i < report.count; i++)
            cr_expect_null(report.rows[i].failure, "%s, %s: %s", report.rows[i].subject,
                           report.rows[i].tensor, report.rows[i].failure);
        qkv_check_release(&report);
    }
}

Test(layers, sinusoids_follow_vaswani_2017)
{
    cr_assert_float_eq(qkv_sinusoid(3, 0, 4, 10000), sin(3.0), 1e-15);
    cr_assert_float_eq(qkv_sinusoid(3, 1, 4, 10000), cos(3.0), 1e-15);
    cr_assert_float_eq(qkv_sinusoid(3, 2, 4, 10000), sin(0.03), 1e-15);
    cr_assert_float_eq(qkv_sinusoid(3, 3, 4, 10000), cos(0.03), 1e-15);
    cr_assert_eq(qkv_sinusoid(3, 2, 3, 10000), 0.0, "the last column of an odd width has no partner");
}
