/* Half precision: every number of it, and the rounding of float32. */
#include "framework/engine/core/numbers.h"

#include <criterion/criterion.h>
#include <math.h>

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
