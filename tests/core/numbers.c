/* Narrow numbers: every number of half precision, and the rounding of float32; int8 numbers with a scale. */
#include "support.h"

#include "framework/engine/core/numbers.h"

Test(half, keeps_every_number_of_half_precision)
{
    for (uint32_t half = 0; half <= 0xFFFF; half++) {
        float value = qkv_half_value((uint16_t)half);
        if (isnan(value))
            cr_assert(isnan(qkv_half_value(qkv_half_of(value))), "%04x", (unsigned)half);
        else
            cr_assert_eq(qkv_half_of(value), half, "%04x became %04x", (unsigned)half,
                         (unsigned)qkv_half_of(value));
    }
}

/* IEEE 754-2019, table 3.5 and section 3.4: 1, the greatest, the smallest normal and the smallest number. */
Test(half, reads_known_numbers)
{
    cr_expect_eq(qkv_half_value(0x3C00), 1.0f);
    cr_expect_eq(qkv_half_value(0xC000), -2.0f);
    cr_expect_eq(qkv_half_value(0x7BFF), 65504.0f);
    cr_expect_eq(qkv_half_value(0x0400), 0x1p-14f);
    cr_expect_eq(qkv_half_value(0x0001), 0x1p-24f);
    cr_expect_eq(qkv_half_value(0x7C00), INFINITY);
    cr_expect(signbit(qkv_half_value(0x8000)));
}

/* Between every two neighbours: below the middle, the middle (to the even one), above it. */
Test(half, rounds_to_the_nearest_and_ties_to_even)
{
    for (uint32_t half = 0; half < 0x7BFF; half++) {
        float low = qkv_half_value((uint16_t)half), high = qkv_half_value((uint16_t)(half + 1));
        float middle = low + (high - low) / 2;
        uint32_t even = half % 2 ? half + 1 : half;
        cr_assert_eq(qkv_half_of(middle), even, "%04x", (unsigned)half);
        cr_assert_eq(qkv_half_of(-middle), even | 0x8000, "%04x", (unsigned)half);
        cr_assert_eq(qkv_half_of(nextafterf(middle, 0)), half, "%04x", (unsigned)half);
        cr_assert_eq(qkv_half_of(nextafterf(middle, INFINITY)), half + 1, "%04x", (unsigned)half);
    }
    cr_expect_eq(qkv_half_of(65519.0f), 0x7BFF);
    cr_expect_eq(qkv_half_of(65520.0f), 0x7C00);
    cr_expect_eq(qkv_half_of(-1e30f), 0xFC00);
    cr_expect_eq(qkv_half_of(1e-30f), 0);
}

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
