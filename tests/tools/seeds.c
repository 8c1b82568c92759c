/* The scenes of configs/seeds/ against the numbers that the tutorials print, or that their code
 * computes. */
#include "scene.h"

#include <stdlib.h>

/* The context of one query alone equals its row in the walk with all queries. */
static void expect_same_alone(const char *scene, int words, int heads, int columns)
{
    cJSON *all = walk_of(scene);
    for (int word = 0; word < words; word++) {
        cJSON *one = walk_of(format("%s --follow %d", scene, word + 1));
        for (int h = 0; h < heads; h++)
            for (int c = 0; c < columns; c++)
                cr_expect_eq(number_of(step_of(one, 0, "context"), h, 0, c),
                             number_of(step_of(all, 0, "context"), h, word, c), "%s: word %d", scene, word);
    }
}

Test(general_attention, has_the_figures_of_the_tutorials)
{
    cJSON *walk = walk_of(SEEDS "/general_attention.yaml");
    EXPECT_ROW(walk, "query_weights", 0, 0, 0, 2, 0, 2);
    EXPECT_ROW(walk, "query_weights", 0, 1, 0, 2, 0, 0);
    EXPECT_ROW(walk, "query_weights", 0, 2, 0, 2, 1, 2);
    EXPECT_ROW(walk, "key_weights", 0, 0, 0, 2, 2, 2);
    EXPECT_ROW(walk, "key_weights", 0, 1, 0, 0, 2, 1);
    EXPECT_ROW(walk, "key_weights", 0, 2, 0, 0, 1, 1);
    EXPECT_ROW(walk, "value_weights", 0, 0, 0, 1, 1, 0);
    EXPECT_ROW(walk, "value_weights", 0, 1, 0, 0, 1, 1);
    EXPECT_ROW(walk, "value_weights", 0, 2, 0, 0, 0, 0);
    EXPECT_ROW(walk, "weights", 0, 0, 8, 0.23608986, 0.00738988, 0.74913039, 0.00738988);
    EXPECT_ROW(walk, "context", 0, 0, 8, 0.98522025, 1.74174051, 0.75652026);
    EXPECT_ROW(walk, "context", 0, 1, 8, 0.90965265, 1.40965265, 0.5);
    EXPECT_ROW(walk, "context", 0, 2, 8, 0.99851226, 1.75849334, 0.75998108);
    EXPECT_ROW(walk, "context", 0, 3, 8, 0.99560386, 1.90407309, 0.90846923);
    expect_same_alone(SEEDS "/general_attention.yaml", 4, 1, 3);
}

Test(attention_from_scratch, has_positions_and_shapes_of_the_tutorial)
{
    static const double TABLE[10][3] = {
        {0, 1, 0},
        {0.84147098, 0.54030231, 0},
        {0.90929743, -0.41614684, 0},
        {0.14112001, -0.9899925, 0},
        {-0.7568025, -0.65364362, 0},
        {-0.95892427, 0.28366219, 0},
        {-0.2794155, 0.96017029, 0},
        {0.6569866, 0.75390225, 0},
        {0.98935825, -0.14550003, 0},
        {0.41211849, -0.91113026, 0},
    };
    cJSON *walk = walk_of(SEEDS "/attention_from_scratch.yaml");
    EXPECT_ROW(walk, "embeddings", 0, 0, 0, 0, 1, 0);
    EXPECT_ROW(walk, "embeddings", 0, 1, 0, 0, 1, 1);
    EXPECT_ROW(walk, "embeddings", 0, 2, 0, 1, 1, 1);
    EXPECT_ROW(walk, "embeddings", 0, 3, 0, 0, 0, 0);
    for (int row = 0; row < 10; row++) expect_row(walk, "positions", 0, row, 3, TABLE[row], 8);
    expect_steps(walk, "tokens [1,4], embeddings [4,3], positions [10,3], inputs [4,3], query_weights [3,6], "
                       "key_weights [3,6], value_weights [3,8], queries [4,6], keys [4,6], values [4,8], "
                       "scores [4,4], scaled_scores [4,4], weights [4,4], context [4,8]");
    expect_same_alone(SEEDS "/attention_from_scratch.yaml", 4, 1, 8);
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
    cJSON *walk = walk_of(SEEDS "/attention_from_scratch.yaml");
    double context = number_of(step_of(walk, 0, "context"), 0, 0, 0);
    cr_expect_float_eq(context, mixed(walk, "weights"), 1e-12);
    cr_expect(fabs(context - mixed(walk, "scaled_scores")) > 0.1, "the scores give another result");
    struct outcome text = run("qkv explain '" SEEDS "/attention_from_scratch.yaml'");
    cr_expect(shows(text.output, "The context is the weights times the values"));
}

Test(attention_from_scratch, has_five_heads_of_the_shapes_of_the_tutorial)
{
    cJSON *walk = walk_of(SEEDS "/attention_from_scratch_heads.yaml");
    expect_steps(walk,
                 "tokens [1,4], embeddings [4,3], query_weights [5,3,6], key_weights [5,3,6], value_weights "
                 "[5,3,8], queries [5,4,6], keys [5,4,6], values [5,4,8], scores [5,4,4], scaled_scores "
                 "[5,4,4], weights [5,4,4], context [5,4,8], concatenated [4,40]");
    for (int h = 0; h < 5; h++)
        for (int i = 0; i < 4; i++) {
            double sum = 0;
            for (int j = 0; j < 4; j++) sum += number_of(step_of(walk, 0, "weights"), h, i, j);
            cr_expect_float_eq(sum, 1, 1e-12);
        }
    expect_same_alone(SEEDS "/attention_from_scratch_heads.yaml", 4, 5, 8);
}

Test(attention_explained, has_the_softmax)
{
    cJSON *walk = walk_of(SEEDS "/attention_explained_softmax.yaml");
    EXPECT_ROW(walk, "weights", 0, 0, 8, 0.65900114, 0.24243297, 0.09856589);
}

Test(attention_explained, weighs_words_by_their_length)
{
    cJSON *walk = walk_of(SEEDS "/attention_explained_words.yaml");
    EXPECT_ROW(walk, "source_embeddings", 0, 0, 0, 1, 23, 1, 18, 5, 14, 5, 19, 19, 0);
    EXPECT_ROW(walk, "source_embeddings", 0, 9, 0, 5, 22, 5, 18, 25, 23, 8, 5, 18, 5);
    EXPECT_ROW(walk, "weights", 0, 0, 3, 0.180, 0.040, 0.100, 0.040, 0.020, 0.100, 0.100, 0.180, 0.040,
               0.200);
    EXPECT_ROW(walk, "sum", 0, 0, 1, 10.1);
    /* All words and components: the second "is" adds 0.04 times 9 to the first. */
    cr_expect_float_eq(number_of(step_of(walk, 0, "context"), 0, 0, 0), 10.46, 1e-12);
    expect_shape(walk, "context", "[1,10]");
    struct outcome text = run("qkv explain '" SEEDS "/attention_explained_words.yaml'");
    cr_expect(shows(text.output, "It keeps one component"));
}

Test(attention_explained, has_rows_that_are_nearly_one_hot)
{
    cJSON *walk = walk_of(SEEDS "/attention_explained_scaled.yaml");
    expect_steps(walk, "tokens [1,10], embeddings [10,16], query_weights [16,16], key_weights [16,16], "
                       "value_weights [16,16], queries [10,16], keys [10,16], values [10,16], scores "
                       "[10,10], scaled_scores [10,10], weights [10,10], context [10,16]");
    for (int i = 0; i < 10; i++) {
        double largest = 0;
        for (int j = 0; j < 10; j++) largest = fmax(largest, number_of(step_of(walk, 0, "weights"), 0, i, j));
        cr_expect_gt(largest, 0.99);
    }
}

Test(simple_attention, has_the_figures_of_the_tutorial)
{
    cJSON *walk = walk_of(SEEDS "/simple_attention.yaml");
    expect_steps(walk, "tokens [1,2], source_tokens [1,3], queries [2,4], keys [3,4], values [3,6], scores "
                       "[2,3], scaled_scores [2,3], weights [2,3], context [2,6]");
    EXPECT_ROW(walk, "queries", 0, 0, 8, 0.49671415, -0.1382643, 0.64768854, 1.52302986);
    EXPECT_ROW(walk, "weights", 0, 0, 8, 0.44503374, 0.38860296, 0.1663633);
    EXPECT_ROW(walk, "weights", 0, 1, 8, 0.50701047, 0.22131809, 0.27167143);
    EXPECT_ROW(walk, "context", 0, 0, 8, 0.20273819, -0.13044498, -0.06651636, -0.95051764, -0.44134642,
               0.44314791);
}

Test(simple_attention, maps_spanish_to_english_at_random)
{
    cJSON *walk = walk_of(SEEDS "/simple_attention_translation.yaml");
    EXPECT_ROW(walk, "weights", 0, 0, 8, 0.25680937, 0.05380411, 0.26065088, 0.18497323, 0.04899071,
               0.08254251, 0.11222918);
    EXPECT_ROW(walk, "weights", 0, 3, 8, 0.19493452, 0.04171712, 0.48257504, 0.13917763, 0.00793876,
               0.02526046, 0.10839647);
}

Test(simple_attention, has_one_head_or_two_with_dense_layers)
{
    cJSON *one = walk_of(SEEDS "/simple_attention_one_head.yaml");
    expect_steps(
        one, "tokens [1,7], source_tokens [1,7], embeddings [7,5], source_embeddings [7,5], query_weights "
             "[5,5], query_bias [1,5], key_weights [5,5], key_bias [1,5], value_weights [5,5], value_bias "
             "[1,5], queries [7,5], keys [7,5], values [7,5], scores [7,7], scaled_scores [7,7], weights "
             "[7,7], context [7,5], output_weights [5,5], output_bias [1,5], output [7,5]");
    cJSON *two = walk_of(SEEDS "/simple_attention_two_heads.yaml");
    expect_steps(two, "tokens [1,7], source_tokens [1,7], embeddings [7,10], source_embeddings [7,10], "
                      "query_weights [2,10,5], query_bias [2,1,5], key_weights [2,10,5], key_bias [2,1,5], "
                      "value_weights [2,10,5], value_bias [2,1,5], queries [2,7,5], keys [2,7,5], values "
                      "[2,7,5], scores [2,7,7], scaled_scores [2,7,7], weights [2,7,7], context [2,7,5], "
                      "concatenated [7,10], output_weights [10,10], output_bias [1,10], output [7,10]");
    struct outcome text = run("qkv explain '" SEEDS "/simple_attention_two_heads.yaml'");
    cr_expect(shows(text.output, "head 1"));
    cr_expect(shows(text.output, "head 2"));
}

Test(simple_attention, hides_what_the_mask_says)
{
    cJSON *masked = walk_of(SEEDS "/simple_attention_masked.yaml"),
          *open = walk_of(SEEDS "/simple_attention_translation.yaml");
    for (int i = 0; i < 7; i++) {
        cr_expect_eq(number_of(step_of(masked, 0, "weights"), 0, i, 6), 0.0);
        double hidden = number_of(step_of(open, 0, "weights"), 0, i, 6);
        for (int j = 0; j < 6; j++) /* the others share what it had, each by its part */
            cr_expect_float_eq(number_of(step_of(masked, 0, "weights"), 0, i, j),
                               number_of(step_of(open, 0, "weights"), 0, i, j) / (1 - hidden), 1e-12);
    }
}

/* tests/tools/explain.c computes such scores. */
Test(general_attention, scores_with_a_small_network_as_bahdanau_did)
{
    expect_steps(
        walk_of(SEEDS "/general_attention_bahdanau.yaml"),
        "tokens [1,1], source_tokens [1,4], queries [1,3], keys [4,3], values [4,3], score_query [3,5], "
        "score_key [3,5], score_vector [1,5], scores [1,4], weights [1,4], context [1,3]");
}

Test(attention_explained, sees_neighbours_alone_in_a_window)
{
    cJSON *both = walk_of(SEEDS "/attention_explained_window.yaml"),
          *causal = walk_of(SEEDS "/attention_explained_window.yaml -s mask.type=causal");
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++) {
            cr_expect_eq(number_of(step_of(both, 0, "weights"), 0, i, j) > 0, abs(i - j) <= 2);
            cr_expect_eq(number_of(step_of(causal, 0, "weights"), 0, i, j) > 0, i - j <= 2 && j <= i);
        }
}

Test(seeds, name_their_tutorials)
{
    struct outcome outcome = run(
        "cd '" SEEDS "' && for f in *.yaml; do head -1 $f | grep -q '^# From the tutorial' || echo $f; done");
    cr_expect_str_empty(outcome.output);
}
