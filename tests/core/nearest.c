/* Distances of names, and what is offered for a misspelled one. */
#include "support.h"

#include "framework/engine/core/text.h"

#include <limits.h>

Test(nearest, distance_counts_slips)
{
    static const struct {
        const char *a, *b;
        int distance;
    } CASES[] = {
        {"", "", 0},          {"", "abc", 3},      {"beam", "beam", 0},      {"bem", "beam", 1},
        {"beamm", "beam", 1}, {"boam", "beam", 1}, {"baem", "beam", 1},      {"sing", "sign", 1},
        {"BEAM", "beam", 0},  {"ca", "abc", 3},    {"kitten", "sitting", 3}, {"abcd", "badc", 2},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        cr_expect_eq(qkv_name_distance(CASES[i].a, CASES[i].b), CASES[i].distance, "%s %s", CASES[i].a,
                     CASES[i].b);
        cr_expect_eq(qkv_name_distance(CASES[i].b, CASES[i].a), CASES[i].distance, "%s %s", CASES[i].b,
                     CASES[i].a);
    }
    char longest[65];
    memset(longest, 'x', sizeof longest);
    longest[63] = '\0';
    cr_expect_eq(qkv_name_distance(longest, "x"), 62);
    longest[63] = 'x';
    longest[64] = '\0';
    cr_expect_eq(qkv_name_distance(longest, "x"), INT_MAX);
    cr_expect_eq(qkv_name_distance("x", longest), INT_MAX);
}

Test(nearest, near_is_a_share_of_the_letters)
{
    cr_expect(qkv_names_are_near("png", "pgg", 1));
    cr_expect_not(qkv_names_are_near("png", "pdf", 2));
    cr_expect_not(qkv_names_are_near("text", "tx", 2));
    cr_expect(qkv_names_are_near("model", "moedl", 2));
    cr_expect(qkv_names_are_near("viridis", "virids", 2));
    cr_expect_not(qkv_names_are_near("viridis", "virids", 3));
    cr_expect_not(qkv_names_are_near("a", "b", INT_MAX));
}

static const char *name(const void *context, int64_t index)
{
    const char *const *names = context;
    return names[index];
}

static const char *near(const char *given)
{
    static const char *const NAMES[] = {"relu",    "gelu",        "gelu_tanh",       "tanh",
                                        "softmax", "log_softmax", "segment_softmax", "last_softmax",
                                        NULL};
    static char text[64];
    return qkv_suggest_names(text, sizeof text, given, "", name, NAMES);
}

Test(nearest, offers_the_nearest_or_those_that_hold_the_name)
{
    cr_expect_str_eq(near("softmx"), "softmax");
    cr_expect_str_eq(near("elu"), "relu or gelu");
    cr_expect_str_eq(near("Tanh"), "tanh");
    cr_expect_str_eq(near("max"), "softmax, log_softmax or segment_softmax");
    cr_expect_str_eq(near("segment"), "segment_softmax");
    cr_expect_str_eq(near("xy"), "");
    cr_expect_str_eq(near(""), "");
    static const char *const NONE[] = {NULL}, *const OPTIONS[] = {"beam", "bean", NULL};
    char text[64], little[8];
    cr_expect_str_eq(qkv_suggest_names(text, sizeof text, "x", "", name, NONE), "");
    cr_expect_str_eq(qkv_suggest_names(text, sizeof text, "bea", "--", name, OPTIONS), "--beam or --bean");
    cr_expect_str_eq(qkv_suggest_names(little, sizeof little, "bea", "--", name, OPTIONS), "--beam ");
}
