/* Numbers of about 106 bits: sums of two doubles, high + low, where high is the sum rounded to double (Dekker 1971).
 * Needs compilation without contraction of a * b + c, which would change the errors that these functions compute. */
#ifndef QKV_CORE_PAIR_H
#define QKV_CORE_PAIR_H

struct pair {
    double high, low;
};

/* a + b exactly, where |a| >= |b| or a = 0 */
static inline struct pair ordered_sum(double a, double b)
{
    double sum = a + b;
    return (struct pair){sum, b - (sum - a)};
}

/* a + b exactly (Knuth 1969) */
static inline struct pair exact_sum(double a, double b)
{
    double sum = a + b, part = sum - a;
    return (struct pair){sum, (a - (sum - part)) + (b - part)};
}

/* a b exactly, unless a part of it overflows or underflows */
static inline struct pair exact_product(double a, double b)
{
    const double split = 134217729.0; /* 2^27 + 1 splits 53 bits into 26 and 26 */
    double scaled_a = split * a, scaled_b = split * b;
    double high_a = scaled_a - (scaled_a - a), high_b = scaled_b - (scaled_b - b);
    double low_a = a - high_a, low_b = b - high_b;
    double product = a * b;
    return (struct pair){product,
                         ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b};
}

static inline struct pair pair_sum(struct pair a, struct pair b)
{
    struct pair sum = exact_sum(a.high, b.high);
    return ordered_sum(sum.high, sum.low + (a.low + b.low));
}

static inline struct pair pair_product(struct pair a, struct pair b)
{
    struct pair product = exact_product(a.high, b.high);
    return ordered_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static inline struct pair pair_quotient(struct pair a, struct pair b)
{
    double quotient = a.high / b.high;
    struct pair product = exact_product(quotient, b.high);
    double rest = ((a.high - product.high) - product.low) + (a.low - quotient * b.low);
    return ordered_sum(quotient, rest / b.high);
}

/* c_0 + c_1 x + ... + c_last x^last (Horner) */
static inline double polynomial(const double *coefficients, int last, double x)
{
    double sum = coefficients[last];
    for (int i = last - 1; i >= 0; i--) sum = coefficients[i] + x * sum;
    return sum;
}

/* The nearest integer, for |x| < 2^51 */
static inline double nearest_integer(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

#endif
