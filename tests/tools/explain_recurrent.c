/* qkv explain with a run of a recurrent network: the steps are those of the decoder, for every score. tests/tools/recurrent.c
 * has the network without attention. */
#include "scene.h"

/* Enters a folder with a small network with these stacks, trained for a few updates. */
static void enter_trained(const char *name, const char *encoder, const char *decoder)
{
    enter(scratch(name));
    write_text(".", "train.tsv", "one two\tuno dos\ntwo three one\tdos tres uno\nthree one\ttres uno\n");
    write_config("train: train.tsv, src: {lang: en}, trg: {lang: es}",
                 format("type: recurrent, num_layers: 1, hidden_size: 6, %s", encoder),
                 format("type: recurrent, hidden_size: 12, %s", decoder),
                 "updates: 8, learning_rate: 0.05, batch_size: 3");
    run_ok("qkv train c.yaml --threads 1 --quiet");
}

#define SENTENCE "run 'one two three one two' --target 'uno dos tres'"
enum { ROWS = 4, COLUMNS = 6, STATE = 12 };

/* The weights equal those of qkv attention, and the output of each step, which the walk computes, equals the input feeding of
 * the next step, which the model computed. */
static const cJSON *expect_walk_of(const char *name, const char *encoder, const char *decoder)
{
    enter_trained(name, encoder, decoder);
    const cJSON *walk = json_by("qkv explain " SENTENCE " -f json"),
                *report = json_by("qkv attention " SENTENCE " -f json"),
                *fed = step_of(walk, 0, "previous_attentional");
    cr_expect_gt(expect_maps(walk, report, "cross.1"), 1e-3, "%s: the weights are uniform", name);
    for (int d = 0; fed && d < STATE; d++) cr_expect_eq(number_of(fed, 0, 0, d), 0.0);
    for (int t = 1; fed && t < ROWS; t++) expect_same_row(fed, t, step_of(walk, 0, "output"), t - 1);
    return walk;
}

#define FED "input_feeding: true"

Test(explain_recurrent, explains_additive_scores)
{
    const cJSON *walk = expect_walk_of("additive", "bidirectional: true",
                                       FED ", num_layers: 1, attention: {score: additive, key_width: 5}");
    expect_steps(walk,
                 "source_tokens [1,6], source_embeddings [6,6], memory [6,12], tokens [1,4], embeddings "
                 "[4,12], previous_attentional [4,12], decoder_states [4,12], queries [4,12], keys [6,12], "
                 "values [6,12], score_query [12,5], score_key [12,5], score_vector [1,5], scores [4,6], "
                 "weights [4,6], context [4,12], concatenated [4,24], output_weights [24,12], output_bias "
                 "[1,12], pre_activation [4,12], output [4,12], word_vectors [12,4], word_bias [1,4], logits "
                 "[4,4], probabilities [4,4], chosen [1,4]");
    const cJSON *rows = json_at(step_of(walk, 0, "weights"), "rows");
    cr_expect_str_eq(remember(cJSON_PrintUnformatted(rows)), "[\"uno\",\"dos\",\"tres\",\"</s>\"]");
}

/* s = h W m, with the matrix W of the step score_weights. */
static void expect_general(const cJSON *walk)
{
    const cJSON *states = step_of(walk, 0, "decoder_states"), *memory = step_of(walk, 0, "memory"),
                *weights = step_of(walk, 0, "score_weights"), *scores = step_of(walk, 0, "scores");
    int width = json_size(weights, "values.0"); /* of the memory */
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int a = 0; a < STATE; a++)
                for (int b = 0; b < width; b++)
                    sum +=
                        number_of(states, 0, i, a) * number_of(weights, 0, a, b) * number_of(memory, 0, j, b);
            cr_expect_float_eq(number_of(scores, 0, i, j), sum, 1e-12, "[%d, %d]", i, j);
        }
}

Test(explain_recurrent, explains_general_and_dot_product_scores)
{
    const cJSON *walk = expect_walk_of("general", "bidirectional: false, rnn_type: lstm, reverse: true",
                                       FED ", num_layers: 2, rnn_type: lstm, attention: {score: general}");
    expect_shape(walk, "memory", "[6,6]");
    expect_shape(walk, "score_weights", "[12,6]");
    expect_general(walk);
    walk = expect_walk_of("dot", "bidirectional: true",
                          FED ", num_layers: 1, rnn_type: tanh, attention: {score: dot}");
    cr_expect_null(step_of(walk, 0, "score_weights"));
    walk = expect_walk_of("scaled", "bidirectional: true",
                          FED ", num_layers: 1, attention: {score: scaled_dot, key_width: 3}");
    expect_shape(walk, "query_weights", "[12,3]");
    cr_expect_float_eq(number_of(step_of(walk, 0, "scaled_scores"), 0, 1, 2),
                       number_of(step_of(walk, 0, "scores"), 0, 1, 2) / sqrt(3), 1e-12);
    /* Without input feeding. */
    walk = expect_walk_of("concat", "bidirectional: true",
                          "input_feeding: false, num_layers: 2, attention: {score: concat, key_width: 5}");
    cr_expect_null(step_of(walk, 0, "previous_attentional"));
    expect_shape(walk, "score_weights", "[24,5]");
    cr_expect_null(step_of(walk, 0, "score_key"));
}

Test(explain_recurrent, explains_predicted_positions)
{
    const cJSON *walk =
        expect_walk_of("local", "bidirectional: true",
                       FED ", num_layers: 1, attention: {score: local_p, local_window: 2, key_width: 5}");
    const cJSON *places = step_of(walk, 0, "predicted_positions"),
                *nearness = step_of(walk, 0, "gaussian_window"), *scores = step_of(walk, 0, "scores");
    expect_general(walk);
    expect_shape(walk, "predictor_weights", "[12,5]");
    expect_shape(walk, "predictor_vector", "[1,5]");
    for (int i = 0; i < ROWS; i++) {
        double place = number_of(places, 0, i, 0), sum = 0;
        cr_expect(place > 0 && place < COLUMNS, "%g", place);
        for (int j = 0; j < COLUMNS; j++)
            if (fabs(j - place) <= 2) sum += exp(number_of(scores, 0, i, j));
        for (int j = 0; j < COLUMNS; j++) {
            double near = exp(-(j - place) * (j - place) / 2);
            cr_expect_float_eq(number_of(nearness, 0, i, j), near, 1e-12);
            cr_expect_float_eq(number_of(step_of(walk, 0, "weights"), 0, i, j),
                               fabs(j - place) <= 2 ? near * exp(number_of(scores, 0, i, j)) / sum : 0,
                               1e-12);
        }
    }
}

Test(explain_recurrent, follows_words_and_compares_with_the_untrained_model)
{
    enter_trained("follow", "bidirectional: true", "attention: {score: additive}");
    const cJSON *all = json_by("qkv explain " SENTENCE " -f json"),
                *one = json_by("qkv explain " SENTENCE " -f json --follow dos --versus random");
    expect_shape(one, "weights", "[1,6]");
    expect_shape(one, "previous_attentional", "[4,12]");
    expect_same_row(step_of(one, 1, "output"), 0, step_of(all, 0, "output"), 1);
    cr_expect_eq(number_of(step_of(one, 0, "output_bias"), 0, 0, 0), 0.0, "biases start at 0");
    cr_expect_neq(number_of(step_of(one, 1, "output_bias"), 0, 0, 0), 0.0);
    /* Queries, keys and values that equal the states are not printed again, except in the text. */
    const char *text = run_ok("qkv explain " SENTENCE);
    cr_expect(shows(text, " 9  keys   K = M ") && lacks(text, "same numbers as step"));
    cr_expect(lacks(run_ok("qkv explain " SENTENCE " --full"), "same numbers as step"));
    cr_expect(shows(run_ok("qkv explain " SENTENCE " -f html"),
                    "same numbers as <a href=\"#decoder_states\">step 7</a>"));
    run_ok("for end in svg png npz; do qkv explain " SENTENCE " -o m.$end || exit; done");
    cr_expect(shows(read_file("m.svg", NULL), "cross attention, layer 1"));
    static const char *const cases[][2] = {
        {SENTENCE " --kind encoder", "qkv: the model has no encoder attention: in a recurrent network only "
                                     "the decoder attends, to the encoder (cross)"},
        {"scene.yaml", "qkv: scene.yaml:4:11: run is a recurrent network, but a scene takes weights only "
                       "from transformers; `qkv explain run SENTENCE` shows the attention of this run"},
    };
    write_text(".", "scene.yaml",
               "tokens: one two\nrun: {path: run}\nembeddings: {from: learned}\nweights: {from: learned}\n");
    EXPECT_REFUSALS("qkv explain", cases);
}
