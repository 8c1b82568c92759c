/* int8 numbers with a scale. */
#include "framework/engine/core/numbers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

Test(int8, numbers_times_a_scale_are_exact_and_have_that_scale_again)
{
    for (int i = 1; i <= 5000; i++) {
        float x[3] = {0.1f * (float)i, -sqrtf((float)i), (float)i / 7};
        float scale = qkv_int8_scale(3, x, 1), kept[3];
        int max = 0;
        for (int j = 0; j < 3; j++) {
            int8_t number = qkv_int8_of(x[j], scale);
            kept[j] = (float)number * scale;
            cr_assert_eq((double)kept[j], (double)number * (double)scale, "%d times %g is rounded", number,
                         (double)scale);
            cr_assert_leq(fabsf(kept[j] - x[j]), scale * 0.5001f, "%g", (double)x[j]);
            if (abs(number) > max) max = abs(number);
        }
        cr_assert_eq(max, QKV_INT8_MAX, "%g of %g", (double)scale, (double)x[0]);
        cr_assert_eq(qkv_int8_scale(3, kept, 1), scale, "%g", (double)x[0]);
    }
}

Test(int8, steps_over_other_numbers)
{
    const float x[] = {1, 100, -2, 100, 0.5f, 100};
    cr_expect_float_eq((double)qkv_int8_scale(3, x, 2), 2.0 / 127, 5e-7);
    cr_expect_eq(qkv_int8_of(-2, qkv_int8_scale(3, x, 2)), -QKV_INT8_MAX);
}

Test(int8, numbers_near_0_have_no_scale)
{
    const float zeros[] = {0, -0.0f, 1e-35f};
    cr_expect_eq(qkv_int8_scale(3, zeros, 1), 0);
    cr_expect_eq(qkv_int8_of(1, 0), 0);
}
