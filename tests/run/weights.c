/* Parameters by name, from safetensors files as other programs write them: without the checksum and format of qkv. */

#include "crafted.h"

/* Parameters a [2, 3] and b [2], all 9. */
static struct qkv_parameters two_parameters(enum qkv_dtype dtype)
{
    struct qkv_parameters parameters = {0};
    qkv_parameters_add(&parameters, QKV_SHAPE(2, 3), ZEROS, "a");
    last_parameter(&parameters, dtype, QKV_SHAPE(2), ZEROS, "b");
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < parameters.list[p]->count; i++)
            qkv_parameter_set(&parameters, parameters.list[p], i, 9);
    return parameters;
}

static const float NUMBERS[] = {1, 2, 3, 4, 5, 6, -7, 0.5f}, NINES[] = {9, 9, 9, 9, 9, 9};

#define A "'a':{'dtype':'F32','shape':[2,3],'data_offsets':[0,24]}"
#define B "'b':{'dtype':'F32','shape':[2],'data_offsets':[24,32]}"

static void expect_values(const struct qkv_parameters *parameters, int p, const float *values)
{
    for (int64_t i = 0; i < parameters->list[p]->count; i++)
        cr_expect_eq(qkv_parameter_get(parameters, parameters->list[p], i), (double)values[i]);
}

Test(weights, of_another_program_are_loaded_by_name)
{
    static const char *const HEADERS[] = {"{" A "," B "}", "{" B "," A "}",
                                          "{'__metadata__':{'format':'pt'}," A "," B "}"};
    for (int i = 0; i < 3; i++)
        for (int precision = 0; precision < 2; precision++) {
            struct qkv_parameters parameters RELEASED(qkv_parameters_release) =
                two_parameters(precision ? QKV_FLOAT64 : QKV_FLOAT32);
            struct qkv_load_report report RELEASED(qkv_load_report_release);
            uint64_t changes = parameters.changes;
            const char *path = crafted(HEADERS[i], sizeof NUMBERS, NUMBERS);
            expect_done(qkv_parameters_load(path, &parameters, false, &report, &error));
            expect_values(&parameters, 0, NUMBERS);
            expect_values(&parameters, 1, NUMBERS + 6);
            cr_expect_eq(report.loaded, 2);
            cr_expect_eq(report.missing.count + report.reshaped.count + report.superfluous.count, 0);
            cr_expect_neq(parameters.changes, changes);
        }
}

/* What is not the same in file and parameters: a sentence that names it, or with is_partial a report. */
Test(weights, that_differ_are_named)
{
    static const struct {
        const char *header, *sentence;
        int missing, reshaped, superfluous;
        bool has_a, has_b;
    } CASES[] = {
        {"{" A ",'c':{'dtype':'F32','shape':[2],'data_offsets':[24,32]}}",
         "1 parameter of the model is missing (b); 1 tensor is not in the model (c)", 1, 0, 1, true, false},
        {"{'a':{'dtype':'F32','shape':[3,2],'data_offsets':[0,24]}," B "}",
         "1 parameter has another shape (a): a is [3, 2], but the model has [2, 3]", 0, 1, 0, false, true},
        {"{'optimizer.first.a':{'dtype':'F32','shape':[6],'data_offsets':[0,24]}," B "}",
         "1 parameter of the model is missing (a)", 1, 0, 0, false, true},
        {"{'d':{'dtype':'F32','shape':[1],'data_offsets':[0,4]},'e':{'dtype':'F32','shape':[1],'data_offsets'"
         ":[4,8]},'f':{'dtype':'F32','shape':[1],'data_offsets':[8,12]},'g':{'dtype':'F32','shape':[5],'data_"
         "offsets':[12,32]}}",
         "2 parameters of the model are missing (a, b); 4 tensors are not in the model (d, e, f and 1 more)",
         2, 0, 4, false, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct qkv_parameters parameters RELEASED(qkv_parameters_release) = two_parameters(QKV_FLOAT32);
        const char *path = crafted(CASES[i].header, sizeof NUMBERS, NUMBERS);
        for (int partial = 0; partial < 2; partial++) {
            struct qkv_load_report report RELEASED(qkv_load_report_release);
            cr_expect_eq(qkv_parameters_load(path, &parameters, partial, &report, &error),
                         partial ? QKV_OK : QKV_INVALID);
            cr_expect(report.missing.count == CASES[i].missing &&
                          report.reshaped.count == CASES[i].reshaped &&
                          report.superfluous.count == CASES[i].superfluous &&
                          report.loaded == CASES[i].has_a + CASES[i].has_b,
                      "case %zu", i);
            expect_values(&parameters, 0, partial && CASES[i].has_a ? NUMBERS : NINES);
            expect_values(&parameters, 1, partial && CASES[i].has_b ? NUMBERS + 6 : NINES);
        }
        cr_expect_str_eq(error.message, format("%s: %s", path, CASES[i].sentence));
    }
}

/* Under AddressSanitizer, names of the parameters would end the test. */
Test(weights, names_in_a_report_outlive_the_parameters)
{
    struct qkv_parameters parameters = two_parameters(QKV_FLOAT32);
    struct qkv_load_report report RELEASED(qkv_load_report_release);
    const char *path = crafted("{'a':{'dtype':'F32','shape':[3,2],'data_offsets':[0,24]}}", 24, NUMBERS);
    expect_done(qkv_parameters_load(path, &parameters, true, &report, &error));
    cr_assert(report.missing.count == 1 && report.reshaped.count == 1);
    for (int i = 0; i < 2; i++)
        cr_expect_neq(report.missing.name[0], parameters.list[i]->name, "not the parameter's own");
    qkv_parameters_release(&parameters);
    cr_expect_str_eq(report.missing.name[0], "b");
    cr_expect_str_eq(report.reshaped.name[0], "a");
}

Test(weights, of_a_checkpoint_are_loaded_and_checked)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = two_parameters(QKV_FLOAT32);
    const char *path = format("%s/own.safetensors", scratch("own"));
    size_t size;
    cr_assert_eq(qkv_checkpoint_save(path, &parameters, NULL, NULL, &error), QKV_OK);
    expect_done(qkv_parameters_load(path, &parameters, false, NULL, &error));
    char *bytes = read_file(path, &size);
    bytes[size - 1] ^= 1; /* a checksum that is there must be right */
    path = write_bytes(scratch("own"), "spoilt.safetensors", bytes, size);
    expect_refusal_with(qkv_parameters_load(path, &parameters, false, NULL, &error),
                        "is damaged: its checksum is ");
}

Test(weights, need_a_valid_file_and_parameters)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = two_parameters(QKV_FLOAT32),
                                     none = {0};
    const char *path = crafted("{" A "," B "}", sizeof NUMBERS - 4, NUMBERS);
    expect_refusal_with(qkv_parameters_load(path, &parameters, true, NULL, &error), "it was cut short");
    path =
        crafted("{'a':{'dtype':'I32','shape':[2,3],'data_offsets':[0,24]}," B "}", sizeof NUMBERS, NUMBERS);
    expect_refusal(qkv_parameters_load(path, &parameters, true, NULL, &error),
                   format("%s: a is of type I32, but must be F32, F64, F16, BF16 or I8", path));
    cr_expect_eq(qkv_parameters_load("nowhere", &parameters, true, NULL, &error), QKV_INVALID);
    expect_refusal(qkv_parameters_load(path, &none, true, NULL, &error),
                   format("%s: the parameters are not allocated", path));
    expect_values(&parameters, 0, NINES);
}

/* Values that were loaded are not rounded; those of a file that has none of the parameters still are. */
Test(weights, that_are_loaded_are_not_int8_any_more)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = two_parameters(QKV_FLOAT32);
    expect_done(qkv_parameters_set_precision(&parameters, QKV_PRECISION_INT8, &error));
    const char *path = crafted("{'c':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}", 8, NUMBERS);
    expect_done(qkv_parameters_load(path, &parameters, true, NULL, &error));
    cr_expect_eq(parameters.products, QKV_PRECISION_INT8, "nothing was loaded");
    path = crafted("{" A "," B "}", sizeof NUMBERS, NUMBERS);
    expect_done(qkv_parameters_load(path, &parameters, false, NULL, &error));
    cr_expect_eq(parameters.products, QKV_PRECISION_FLOAT32);
    expect_values(&parameters, 0, NUMBERS);
}
