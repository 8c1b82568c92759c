/* Random shapes and options of every op: the kernels of every instruction set against each other and against float64,
 * shared memory against memory of its own, gradients against differences, and NaN against other numbers. QKV_RANDOM_CASES sets
 * how many cases of every op are tried, and QKV_RANDOM_SEED where they start; a failure names the seed that repeats it. */
#include "numbers.h"
#include "op_cases.h"

#include "framework/engine/graph/internal.h"

enum { LARGEST = 130, LARGEST_OF_CHECK = 5 };

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* Makes case number i of the op, and returns its name in `name`. */
static void make_case(struct op_case *test, int op, uint64_t i, int64_t largest, char name[96])
{
    uint64_t seed = setting("QKV_RANDOM_SEED", 1) + i;
    draw_from((uint64_t)op << 32 ^ seed);
    make_op_case(test, (enum qkv_op_id)op, largest);
    snprintf(name, 96, "op %s, QKV_RANDOM_SEED=%llu", qkv_op_name((enum qkv_op_id)op),
             (unsigned long long)seed);
}

struct built {
    struct qkv_graph *graph;
    struct qkv_tensor *input[QKV_MAX_INPUTS], *y; /* y: NULL if the op has refused */
};

/* One number of an input, or of the cotangent if `input` is COTANGENT, that is replaced. */
enum { COTANGENT = QKV_MAX_INPUTS, NOTHING };
static struct {
    int input;
    int64_t at;
    double value;
} replaced = {NOTHING, 0, 0};

static void replace_number(struct qkv_tensor *x)
{
    double *values RELEASED(free_memory) = malloc((size_t)qkv_tensor_count(x) * sizeof *values);
    qkv_tensor_read(x, values);
    values[replaced.at] = replaced.value;
    qkv_tensor_write(x, values);
}

/* between: another op between each variable and the op, and after the op, so that their memory can be shared. */
static struct built build(const struct op_case *test, enum qkv_dtype dtype, bool between, bool share)
{
    struct built built = {.graph = qkv_graph_new(dtype)};
    const struct qkv_random random = {.seed = 11, .step = 2};
    if (share) qkv_graph_share_memory(built.graph, true);
    if (test->drops) qkv_graph_set_dropout(built.graph, &random);
    make_case_inputs(built.graph, test, built.input);
    if (replaced.input < QKV_MAX_INPUTS) replace_number(built.input[replaced.input]);
    struct qkv_tensor *inputs[QKV_MAX_INPUTS];
    memcpy(inputs, built.input, sizeof inputs);
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        if (between && inputs[k] && !(test->constant >> k & 1))
            inputs[k] = qkv_scale(built.graph, inputs[k], 1);
    built.y = qkv_node(built.graph, test->op, inputs, &test->options);
    if (between) built.y = qkv_scale(built.graph, built.y, 2);
    if (share) qkv_graph_plan(built.graph, built.y);
    return built;
}

static struct computed compute(const char *name, const struct op_case *test, enum qkv_dtype dtype,
                               bool between, bool share)
{
    struct built built = build(test, dtype, between, share);
    double *cotangent RELEASED(free_memory) = NULL;
    if (replaced.input == COTANGENT) {
        cotangent = malloc((size_t)qkv_tensor_count(built.y) * sizeof *cotangent);
        for (int64_t i = 0; i < qkv_tensor_count(built.y); i++) cotangent[i] = number(9, i);
        cotangent[replaced.at] = replaced.value;
    }
    struct computed computed = compute_in(built.graph, built.y, QKV_MAX_INPUTS, built.input, cotangent, name);
    qkv_graph_free(built.graph);
    return computed;
}

/* float32 against float64. Instruction sets agree to the bit. */
static const double FLOAT32_BOUND = 2e-5;

/* The least size to which a difference is compared: 0.3, because numbers near 1 may cancel, or more where the formula of
 * a gradient explains more rounding errors (tests/support/op_cases.c). */
static double min_size(const struct op_case *test, int k)
{
    return k ? fmax(0.3, test->noise[k - 1] / FLOAT32_BOUND) : 0.3;
}

/* bound: of the difference, relative to the largest number of a tensor, or to least_size where that is less. */
static void expect_near(const char *name, const char *what, const struct op_case *test,
                        const struct computed *a, const struct computed *b, double bound)
{
    for (int k = 0; k <= QKV_MAX_INPUTS; k++) {
        double difference = 0, size = min_size(test, k);
        bool finite = true;
        for (int64_t i = 0; i < a->count[k]; i++) {
            double x = a->part[k][i], y = b->part[k][i];
            finite = finite && isfinite(x) && isfinite(y);
            difference = fmax(difference, fabs(x - y));
            size = fmax(size, fabs(y));
        }
        cr_expect(finite, "%s, %s: %s %d is not finite", name, what, k ? "the gradient of input" : "result",
                  k);
        cr_expect_leq(difference, bound * size, "%s, %s: %s %d differs by %g, the largest number is %g", name,
                      what, k ? "the gradient of input" : "result", k, difference, size);
    }
}

static void compare_variants(const char *name, const struct op_case *test)
{
    struct computed float64 RELEASED(computed_release) = compute(name, test, QKV_FLOAT64, false, false),
                            first RELEASED(computed_release) = {{0}, {NULL}};
    for (int v = 0; v < VARIANT_COUNT; v++) {
        setenv("QKV_KERNELS", VARIANTS[v], 1);
        struct computed float32 = compute(name, test, QKV_FLOAT32, false, false);
        expect_near(name, VARIANTS[v], test, &float32, &float64, FLOAT32_BOUND);
        if (v == 0)
            first = float32;
        else {
            expect_near(name, "two instruction sets", test, &float32, &first, 0);
            computed_release(&float32);
        }
    }
    unsetenv("QKV_KERNELS");
}

static void compare_shared_memory(const char *name, const struct op_case *test)
{
    for (int dtype = 0; dtype < 2; dtype++) {
        struct computed separate RELEASED(computed_release) =
            compute(name, test, (enum qkv_dtype)dtype, true, false),
                                 shared RELEASED(computed_release) =
                                     compute(name, test, (enum qkv_dtype)dtype, true, true);
        expect_near(name, "shared memory", test, &shared, &separate, 0);
    }
}

static void compare_differences(const char *name, const struct op_case *test)
{
    struct qkv_check_report report RELEASED(qkv_check_release) = {0};
    struct qkv_check_options options = {.sample = 3, .seed = 1};
    struct built built = build(test, QKV_FLOAT64, false, false);
    qkv_forward(built.graph);
    bool varied = false;
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        varied = varied || (test->input[k].rank && !(test->constant >> k & 1));
    if (varied)
        cr_assert_eq(qkv_check_graph(&report, name, built.graph, built.y, &options, &error), QKV_OK, "%s: %s",
                     name, error.message);
    for (int64_t i = 0; i < report.count; i++)
        cr_expect_null(report.rows[i].failure, "%s, %s: %s", name, report.rows[i].tensor,
                       report.rows[i].failure);
    qkv_graph_free(built.graph);
}

/* Ops that choose numbers: which of them gets the gradient, or what the index is, depends on the others. */
static bool chooses(enum qkv_op_id op, int part)
{
    bool always =
        op == QKV_OP_argmin || op == QKV_OP_argmax || op == QKV_OP_top_k_indices || op == QKV_OP_top_k;
    return always || (part && (op == QKV_OP_min || op == QKV_OP_max || op == QKV_OP_group_max));
}

/* Whatever changes if a number is replaced by another number is NaN if it is replaced by NaN. */
static void compare_nan(const char *name, const struct op_case *test)
{
    const char *const variants[] = {"portable", "avx2", "avx512", "float64"};
    for (int v = 0; v < 4; v++) {
        enum qkv_dtype dtype = v < 3 ? QKV_FLOAT32 : QKV_FLOAT64;
        setenv("QKV_KERNELS", variants[v % 3], 1);
        replaced.input = NOTHING;
        struct computed base = compute(name, test, dtype, false, false), other, nan;
        for (int k = 0; k <= COTANGENT; k++) {
            if (k < COTANGENT && (!test->input[k].rank || test->mask >> k & 1)) continue;
            int64_t count = k < COTANGENT ? qkv_shape_count(test->input[k]) : base.count[0];
            double middle = k < COTANGENT ? (test->low + test->high) / 2 : 2;
            replaced.input = k, replaced.at = (int64_t)draw((uint64_t)count), replaced.value = middle;
            other = compute(name, test, dtype, false, false);
            replaced.value = (double)NAN;
            nan = compute(name, test, dtype, false, false);
            for (int part = 0; part <= QKV_MAX_INPUTS; part++)
                for (int64_t i = 0; !chooses(test->op, part) && i < base.count[part]; i++)
                    cr_expect(base.part[part][i] == other.part[part][i] || isnan(nan.part[part][i]),
                              "%s, %s: with NaN as number %d of %d, number %d of %s %d is %g", name,
                              variants[v], (int)replaced.at, k, (int)i, part ? "the gradient of" : "result",
                              part - 1, nan.part[part][i]);
            computed_release(&other);
            computed_release(&nan);
        }
        computed_release(&base);
    }
    replaced.input = NOTHING;
    unsetenv("QKV_KERNELS");
}

static void try_cases(int op, int64_t largest, void (*compare)(const char *name, const struct op_case *test))
{
    static struct op_case test;
    char name[96];
    uint64_t cases = setting("QKV_RANDOM_CASES", 20);
    for (uint64_t i = 0; i < cases; i++) {
        make_case(&test, op, i, largest, name);
        compare(name, &test);
    }
}

Test(random_cases, of_every_op_agree_between_kernels_and_precisions)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) try_cases(op, LARGEST, compare_variants);
}

Test(random_cases, of_every_op_have_the_same_bits_with_shared_memory)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        if (op != QKV_OP_store_rows) try_cases(op, LARGEST / 4, compare_shared_memory);
}

Test(random_cases, of_every_op_have_the_gradients_of_differences)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        try_cases(op, LARGEST_OF_CHECK, compare_differences);
}

Test(random_cases, of_every_op_let_nan_reach_all_that_depends_on_it)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) try_cases(op, LARGEST / 4, compare_nan);
}
