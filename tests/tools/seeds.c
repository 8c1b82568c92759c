/* The scenes of configs/seeds/ against the numbers that the tutorials print, or that their code computes. */
#include "scene.h"

static const cJSON *walk_of_seed(const char *name, const char *arguments)
{
    return walk_of(format("'" SEEDS "/%s.yaml' %s", name, arguments));
}

/* Rows of matrices, rounded as the tutorial prints them. */
Test(seeds, have_the_figures_of_the_tutorials)
{
    static const struct {
        const char *scene, *step;
        int row, digits, count;
        double numbers[12];
    } cases[] = {
        {"general_attention", "query_weights", 0, 0, 9, {2, 0, 2, 2, 0, 0, 2, 1, 2}},
        {"general_attention", "key_weights", 0, 0, 9, {2, 2, 2, 0, 2, 1, 0, 1, 1}},
        {"general_attention", "value_weights", 0, 0, 9, {1, 1, 0, 0, 1, 1, 0, 0, 0}},
        {"general_attention", "weights", 0, 8, 4, {0.23608986, 0.00738988, 0.74913039, 0.00738988}},
        {"general_attention", "context", 0, 8, 12,
         LIST(0.98522025, 1.74174051, 0.75652026, 0.90965265, 1.40965265, 0.5, 0.99851226, 1.75849334,
              0.75998108, 0.99560386, 1.90407309, 0.90846923)},
        {"attention_from_scratch", "embeddings", 1, 0, 3, {0, 1, 1}},
        {"attention_from_scratch", "positions", 0, 8, 6, {0, 1, 0, 0.84147098, 0.54030231, 0}},
        {"attention_from_scratch", "positions", 9, 8, 3, {0.41211849, -0.91113026, 0}},
        {"attention_explained_softmax", "weights", 0, 8, 3, {0.65900114, 0.24243297, 0.09856589}},
        {"attention_explained_words", "source_embeddings", 0, 0, 10, {1, 23, 1, 18, 5, 14, 5, 19, 19, 0}},
        {"attention_explained_words", "source_embeddings", 9, 0, 10, {5, 22, 5, 18, 25, 23, 8, 5, 18, 5}},
        {"attention_explained_words", "weights", 0, 3, 6, {0.180, 0.040, 0.100, 0.040, 0.020, 0.100}},
        {"attention_explained_words", "sum", 0, 1, 1, {10.1}},
        /* All words and components: the second "is" adds 0.04 times 9 to the first. */
        {"attention_explained_words", "context", 0, 12, 1, {10.46}},
        {"simple_attention", "queries", 0, 8, 4, {0.49671415, -0.1382643, 0.64768854, 1.52302986}},
        {"simple_attention", "weights", 0, 8, 6,
         LIST(0.44503374, 0.38860296, 0.1663633, 0.50701047, 0.22131809, 0.27167143)},
        {"simple_attention", "context", 0, 8, 4, {0.20273819, -0.13044498, -0.06651636, -0.95051764}},
        {"simple_attention_translation", "weights", 0, 8, 3, {0.25680937, 0.05380411, 0.26065088}},
        {"simple_attention_translation", "weights", 3, 8, 3, {0.19493452, 0.04171712, 0.48257504}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_row(walk_of_seed(cases[i].scene, ""), cases[i].step, cases[i].row, cases[i].count,
                   cases[i].numbers, cases[i].digits);
}

Test(seeds, have_the_steps_and_shapes_of_the_tutorials)
{
    static const char *const cases[][2] = {
        {"attention_from_scratch",
         "tokens [1,4], embeddings [4,3], positions [10,3], inputs [4,3], query_weights [3,6], key_weights "
         "[3,6], value_weights [3,8], queries [4,6], keys [4,6], values [4,8], scores [4,4], scaled_scores "
         "[4,4], weights [4,4], context [4,8]"},
        {"attention_from_scratch_heads",
         "tokens [1,4], embeddings [4,3], query_weights [5,3,6], key_weights [5,3,6], value_weights "
         "[5,3,8], queries [5,4,6], keys [5,4,6], values [5,4,8], scores [5,4,4], scaled_scores [5,4,4], "
         "weights [5,4,4], context [5,4,8], concatenated [4,40]"},
        {"attention_explained_scaled",
         "tokens [1,10], embeddings [10,16], query_weights [16,16], key_weights [16,16], value_weights "
         "[16,16], queries [10,16], keys [10,16], values [10,16], scores [10,10], scaled_scores [10,10], "
         "weights [10,10], context [10,16]"},
        {"simple_attention", "tokens [1,2], source_tokens [1,3], queries [2,4], keys [3,4], values [3,6], "
                             "scores [2,3], scaled_scores [2,3], weights [2,3], context [2,6]"},
        {"simple_attention_one_head",
         "tokens [1,7], source_tokens [1,7], embeddings [7,5], source_embeddings [7,5], query_weights "
         "[5,5], query_bias [1,5], key_weights [5,5], key_bias [1,5], value_weights [5,5], value_bias "
         "[1,5], queries [7,5], keys [7,5], values [7,5], scores [7,7], scaled_scores [7,7], weights "
         "[7,7], context [7,5], output_weights [5,5], output_bias [1,5], output [7,5]"},
        {"simple_attention_two_heads",
         "tokens [1,7], source_tokens [1,7], embeddings [7,10], source_embeddings [7,10], query_weights "
         "[2,10,5], query_bias [2,1,5], key_weights [2,10,5], key_bias [2,1,5], value_weights [2,10,5], "
         "value_bias [2,1,5], queries [2,7,5], keys [2,7,5], values [2,7,5], scores [2,7,7], "
         "scaled_scores [2,7,7], weights [2,7,7], context [2,7,5], concatenated [7,10], output_weights "
         "[10,10], output_bias [1,10], output [7,10]"},
        /* tests/tools/explain.c computes such scores. */
        {"general_attention_bahdanau",
         "tokens [1,1], source_tokens [1,4], queries [1,3], keys [4,3], values [4,3], score_query [3,5], "
         "score_key [3,5], score_vector [1,5], scores [1,4], weights [1,4], context [1,3]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_steps(walk_of_seed(cases[i][0], ""), cases[i][1]);
}

/* The context of one query alone equals its row in the walk with all queries. */
Test(seeds, have_the_same_numbers_for_one_query_alone)
{
    static const char *const scenes[] = {"general_attention", "attention_from_scratch",
                                         "attention_from_scratch_heads"};
    for (int i = 0; i < 3; i++) {
        const cJSON *all = walk_of_seed(scenes[i], "");
        for (int word = 0; word < 4; word++) {
            const cJSON *one = walk_of_seed(scenes[i], format("--follow %d", word + 1));
            for (int h = 0; h < (i == 2 ? 5 : 1); h++)
                for (int c = 0; c < 3; c++)
                    cr_expect_eq(number_of(step_of(one, 0, "context"), h, 0, c),
                                 number_of(step_of(all, 0, "context"), h, word, c), "%s: word %d", scenes[i],
                                 word);
        }
    }
}

/* The sum over keys of a step times the values, row 0 of head 0, column 0. */
static double mixed(const cJSON *walk, const char *step)
{
    double sum = 0;
    for (int j = 0; j < 4; j++)
        sum += number_of(step_of(walk, 0, step), 0, 0, j) * number_of(step_of(walk, 0, "values"), 0, j, 0);
    return sum;
}

Test(attention_from_scratch, multiplies_the_weights_and_not_the_scores)
{
    const cJSON *walk = walk_of_seed("attention_from_scratch", "");
    double context = number_of(step_of(walk, 0, "context"), 0, 0, 0);
    cr_expect_float_eq(context, mixed(walk, "weights"), 1e-12);
    cr_expect(fabs(context - mixed(walk, "scaled_scores")) > 0.1, "the scores give another result");
    cr_expect(shows(run_ok("qkv explain '" SEEDS "/attention_from_scratch.yaml'"),
                    "The context is the weights times the values"));
}

Test(attention_explained, has_rows_that_are_nearly_one_hot)
{
    const cJSON *walk = walk_of_seed("attention_explained_scaled", "");
    for (int i = 0; i < 10; i++) {
        double largest = 0;
        for (int j = 0; j < 10; j++) largest = fmax(largest, number_of(step_of(walk, 0, "weights"), 0, i, j));
        cr_expect_gt(largest, 0.99);
    }
}

Test(simple_attention, hides_what_the_mask_says)
{
    const cJSON *masked = walk_of_seed("simple_attention_masked", ""),
                *open = walk_of_seed("simple_attention_translation", "");
    for (int i = 0; i < 7; i++) {
        cr_expect_eq(number_of(step_of(masked, 0, "weights"), 0, i, 6), 0.0);
        double hidden = number_of(step_of(open, 0, "weights"), 0, i, 6);
        for (int j = 0; j < 6; j++) /* the others share what it had, each by its part */
            cr_expect_float_eq(number_of(step_of(masked, 0, "weights"), 0, i, j),
                               number_of(step_of(open, 0, "weights"), 0, i, j) / (1 - hidden), 1e-12);
    }
}

Test(attention_explained, sees_neighbours_alone_in_a_window)
{
    const cJSON *both = walk_of_seed("attention_explained_window", ""),
                *causal = walk_of_seed("attention_explained_window", "-s mask.type=causal");
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++) {
            cr_expect_eq(number_of(step_of(both, 0, "weights"), 0, i, j) > 0, abs(i - j) <= 2);
            cr_expect_eq(number_of(step_of(causal, 0, "weights"), 0, i, j) > 0, i - j <= 2 && j <= i);
        }
}

Test(seeds, name_their_tutorials)
{
    cr_expect_str_empty(
        run_ok("cd '" SEEDS
               "' && for f in *.yaml; do head -1 $f | grep -q '^# From the tutorial' || echo $f; done"));
}
