/* The number types of safetensors files, each number of 16 bits against the formula of its type. */
#include "framework/engine/checkpoint/safetensors.h"
#include "framework/engine/graph/internal.h"

#include "parameters.h"

enum { NUMBERS = 0x10000 };

/* IEEE 754-2019, section 3.4: sign, exponent and fraction of `exponent_bits` and `fraction_bits`, as a number. */
static double by_formula(uint32_t bits, int exponent_bits, int fraction_bits)
{
    int greatest = (1 << exponent_bits) - 1, bias = greatest >> 1;
    int exponent = (int)(bits >> fraction_bits) & greatest;
    double fraction = ldexp((double)(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
    double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
    if (exponent == greatest) return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    return exponent ? sign * ldexp(1 + fraction, exponent - bias) : sign * ldexp(fraction, 1 - bias);
}

/* Stores all numbers of 16 bits in a file and reads them in both precisions. The data starts at an odd byte of memory,
 * as that of a file may. */
static void expect_exact(enum qkv_stored_type type, int exponent_bits, int fraction_bits)
{
    static char memory[1 + NUMBERS * sizeof(uint16_t)];
    static float singles[NUMBERS];
    static double doubles[NUMBERS];
    const struct qkv_safetensor tensor = {"a", type, QKV_SHAPE(NUMBERS), memory + 1};
    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint16_t bits = (uint16_t)i;
        memcpy(memory + 1 + i * sizeof bits, &bits, sizeof bits);
    }
    cr_assert_eq(qkv_safetensor_size(&tensor), NUMBERS * sizeof(uint16_t));
    qkv_safetensor_copy(&tensor, QKV_FLOAT32, singles);
    qkv_safetensor_copy(&tensor, QKV_FLOAT64, doubles);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        double expected = by_formula(i, exponent_bits, fraction_bits);
        cr_assert(isnan(expected) ? isnan(singles[i]) && isnan(doubles[i])
                                  : (double)singles[i] == expected && doubles[i] == expected &&
                                        !signbit(doubles[i]) == !signbit(expected) &&
                                        !signbit(singles[i]) == !signbit(expected),
                  "%04x is %a and %a, not %a", (unsigned)i, (double)singles[i], doubles[i], expected);
    }
}

Test(stored_type, every_half_and_every_bfloat16_is_read_exactly)
{
    expect_exact(QKV_STORED_F16, 5, 10);
    expect_exact(QKV_STORED_BF16, 8, 7);
}

/* Values of one parameter as half precision and as bfloat16, in files that another program could have written. */
Test(stored_type, a_checkpoint_of_16_bits_is_loaded)
{
    static const uint16_t half[] = {0x3C00, 0xC000, 0x0001}, bfloat16[] = {0x3F80, 0xC000, 0x0001};
    static const struct {
        enum qkv_stored_type type;
        const uint16_t *bits;
        double smallest;
    } cases[] = {{QKV_STORED_F16, half, 0x1p-24}, {QKV_STORED_BF16, bfloat16, 0x1p-133}};
    const struct qkv_state_entry metadata = {"qkv.format", "1"};
    for (int i = 0; i < 2; i++) {
        for (int precision = 0; precision < 2; precision++) {
            const char *path = format("%s/%d.safetensors", scratch("stored"), i);
            const struct qkv_safetensor tensor = {"a", cases[i].type, QKV_SHAPE(3), cases[i].bits};
            struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
            cr_assert_eq(qkv_safetensors_write(path, 1, &tensor, 1, &metadata, &error), QKV_OK);
            last_parameter(&parameters, precision ? QKV_FLOAT64 : QKV_FLOAT32, QKV_SHAPE(3), ZEROS, "a");
            expect_done(qkv_checkpoint_load(path, &parameters, NULL, NULL, &error));
            cr_expect_eq(qkv_parameter_get(&parameters, parameters.list[0], 0), 1);
            cr_expect_eq(qkv_parameter_get(&parameters, parameters.list[0], 1), -2);
            cr_expect_eq(qkv_parameter_get(&parameters, parameters.list[0], 2), cases[i].smallest);
        }
    }
}

/* A matrix has a scale for each column, a table for each row. */
Test(stored_type, a_checkpoint_of_int8_is_loaded)
{
    static const int8_t matrix[] = {127, -127, 1, 2, 0, -5}, table[] = {127, 3, -127, -64, 100, 127};
    static const float scales[] = {0.5f, 2, 0.25f};
    const struct qkv_safetensor tensors[] = {{"a", QKV_STORED_I8, QKV_SHAPE(2, 3), matrix},
                                             {"a.scale", QKV_STORED_F32, QKV_SHAPE(3), scales},
                                             {"b", QKV_STORED_I8, QKV_SHAPE(3, 2), table},
                                             {"b.scale", QKV_STORED_F32, QKV_SHAPE(3), scales}};
    static const double expected[][6] = {{63.5, -254, 0.25, 1, 0, -1.25}, {63.5, 1.5, -254, -128, 25, 31.75}};
    const struct qkv_state_entry metadata = {"qkv.format", "1"};
    const char *folder = scratch("int8"), *path = format("%s/x.safetensors", folder),
               *wide = format("%s/wide.safetensors", folder);
    cr_assert_eq(qkv_safetensors_write(path, 4, tensors, 1, &metadata, &error), QKV_OK);
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
        qkv_parameters_add(&parameters, QKV_SHAPE(2, 3), ZEROS, "a");
        qkv_parameters_mark_table(&parameters, qkv_parameters_add(&parameters, QKV_SHAPE(3, 2), ZEROS, "b"));
        make_parameters(&parameters, (enum qkv_dtype)dtype, 1);
        expect_done(qkv_checkpoint_load(path, &parameters, NULL, NULL, &error));
        for (int p = 0; p < 2; p++)
            for (int i = 0; i < 6; i++)
                cr_expect_eq(qkv_parameter_get(&parameters, parameters.list[p], i), expected[p][i], "%d %d",
                             p, i);
        cr_expect_eq(parameters.products, dtype == QKV_FLOAT32 ? QKV_PRECISION_INT8 : QKV_PRECISION_FLOAT32);
        cr_assert_eq(qkv_checkpoint_save(wide, &parameters, NULL, NULL, &error), QKV_OK);
        cr_assert_eq(qkv_checkpoint_load(wide, &parameters, NULL, NULL, &error), QKV_OK);
        cr_expect_eq(parameters.products, QKV_PRECISION_FLOAT32,
                     "of the next checkpoint, which has float numbers");
        expect_refusal(qkv_parameters_load(path, &parameters, true, NULL, &error),
                       format("%s: a is quantised (I8): load the file that it was made of", path));
    }
}

Test(stored_type, a_parameter_with_the_name_of_scales_is_refused)
{
    const char *path = format("%s/x.safetensors", scratch("scales"));
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    qkv_parameters_add(&parameters, QKV_SHAPE(2, 3), ZEROS, "a");
    last_parameter(&parameters, QKV_FLOAT32, QKV_SHAPE(3), ZEROS, "a.scale");
    expect_refusal(qkv_checkpoint_save_int8(path, &parameters, NULL, &error),
                   format("%s: the parameter a.scale has the name of the scales of a: rename it", path));
}
