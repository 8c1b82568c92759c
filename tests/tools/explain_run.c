/* qkv explain with a run of a transformer: the steps are those of the model. */
#include "tiny_run.h"

#include "scene.h"

TestSuite(explain_run, .init = enter_tiny);

static const cJSON *explain(const char *arguments)
{
    return json_by("qkv explain run %s -f json", arguments);
}

#define TWO   "'one two' --target 'uno dos'"
#define THREE "'one two three' --target 'uno dos tres'"

Test(explain_run, has_the_weights_that_attention_reports)
{
    static const char *const layers[][2] = {
        {"encoder", "1"}, {"encoder", "2"}, {"decoder", "1"}, {"cross", "1"}};
    const cJSON *report = json_by("qkv attention run " THREE " -f json");
    for (int i = 0; i < 4; i++)
        expect_maps(explain(format(THREE " --kind %s --layer %s", layers[i][0], layers[i][1])), report,
                    format("%s.%s", layers[i][0], layers[i][1]));
    /* The best head is the same. */
    const char *best = THREE " --kind encoder --layer 1 --head best";
    cr_expect_eq(json_number(explain(best), "walks.0.first_head"),
                 json_number(json_by("qkv attention run %s -f json", best), "maps.0.head"));
}

Test(explain_run, has_every_step_with_its_shape)
{
    const cJSON *walk = explain(THREE);
    expect_steps(
        walk,
        "tokens [1,4], embeddings [4,16], positions [4,16], inputs [4,16], source_tokens [1,4], "
        "source_embeddings [4,16], source_inputs [4,16], layer_inputs [4,16], memory [4,16], query_weights "
        "[2,16,8], query_bias [2,1,8], key_weights [2,16,8], key_bias [2,1,8], value_weights [2,16,8], "
        "value_bias [2,1,8], queries [2,4,8], keys [2,4,8], values [2,4,8], scores [2,4,4], scaled_scores "
        "[2,4,4], weights [2,4,4], context [2,4,8], concatenated [4,16], output_weights [16,16], output_bias "
        "[1,16], output [4,16], residual [4,16], attention_sum [4,16], inner_inputs [4,16], inner_weights "
        "[16,32], inner_bias [1,32], inner [4,32], activated [4,32], outer_weights [32,16], outer_bias "
        "[1,16], outer [4,16], layer_sum [4,16], final_norm [4,16], word_vectors [16,6], word_bias [1,6], "
        "logits [4,6], probabilities [4,6], chosen [1,4]");
    cr_expect_not_null(step_of(explain("one --target uno --kind decoder"), 0, "mask"));
}

Test(explain_run, shows_the_untrained_model_beside_the_trained_one)
{
    const cJSON *walk = explain(TWO " --versus random");
    cr_assert_eq(json_size(walk, "walks"), 2);
    cr_expect_eq(number_of(step_of(walk, 0, "query_bias"), 0, 0, 0), 0.0, "biases start at 0");
    cr_expect_neq(number_of(step_of(walk, 1, "query_bias"), 0, 0, 0), 0.0);
    const char *text = run_ok("qkv explain run " TWO " --versus random --head 1");
    cr_expect(shows(text, "random, head 1") && shows(text, "learned, head 1"));
    /* After one update with a tiny learning rate, the parameters are nearly those before training. */
    run_ok("qkv train tiny.yaml -q --overwrite -s training.updates=1 -s training.learning_rate=1e-9 -s "
           "training.random_seed=7");
    walk = explain(TWO " --versus random");
    double largest = 0;
    for (int c = 0; c < 16; c++) {
        double first = number_of(step_of(walk, 0, "output"), 0, 1, c);
        cr_expect_float_eq(first, number_of(step_of(walk, 1, "output"), 0, 1, c), 1e-5);
        largest = fmax(largest, fabs(first));
    }
    cr_expect_gt(largest, 0.1);
}

/* A scene may take vectors and matrices from a run. */
Test(explain_run, scenes_take_vectors_and_matrices_from_runs)
{
    write_text(".", "learned.yaml",
               "tokens: one two\nrun: {path: run, layer: 2}\nembeddings: {from: learned}\n"
               "weights: {from: learned}\n");
    const cJSON *walk = json_by("qkv explain learned.yaml -f json"),
                *real = explain(TWO " --kind encoder --layer 2");
    expect_shape(walk, "weights", "[2,2,2]");
    expect_same_row(step_of(walk, 0, "embeddings"), 1, step_of(real, 0, "embeddings"), 1);
    for (int d = 0; d < 8; d++)
        cr_expect_eq(number_of(step_of(walk, 0, "query_weights"), 1, 3, d),
                     number_of(step_of(real, 0, "query_weights"), 1, 3, d));
}

Test(explain_run, refuses)
{
    static const char *const cases[][2] = {
        {"run one --target uno --follow zwei",
         "qkv: there is no word 'zwei' to follow: give a word of the rows, or a number from 1 to 2"},
        {"run", "qkv: run is a run: give a sentence as well"},
        {"nowhere one", "qkv: nowhere: there is no such run"},
        {"unknown.yaml", "qkv: unknown.yaml:2:1: run does not know the word 'blorp'"},
        {"narrow.yaml", "qkv: narrow.yaml:4:11: the matrices of the run need vectors of width 16, but the "
                        "vectors are 3 wide"},
    };
    write_text(".", "unknown.yaml",
               "run: {path: run}\ntokens: one blorp\nembeddings: {from: learned}\nweights: {from: none}\n");
    write_text(
        ".", "narrow.yaml",
        "run: {path: run}\ntokens: one\nembeddings: {values: [[1, 2, 3]]}\nweights: {from: learned}\n");
    EXPECT_REFUSALS("qkv explain", cases);
}

/* ---- positions, windows and shared heads ---- */

/* With --follow 3 --follow 2, steps with a row per query have rows 3 and 2 of the complete steps;
 * the steps of keys and values are complete. */
static void expect_followed(const char *name, const cJSON *all, const cJSON *two)
{
    static const int ROWS[] = {2, 1};
    const cJSON *step;
    int followed = 0;
    cJSON_ArrayForEach(step, json_at(two, "walks.0.steps"))
    {
        const char *step_name = json_text(step, "name");
        const cJSON *complete = step_of(all, 0, step_name);
        const struct step_size size = size_of(step);
        bool is_followed = size.rows == 2; /* the sentences are longer */
        followed += is_followed;
        for (int h = 0; h < size.heads; h++)
            for (int i = 0; i < size.rows; i++)
                for (int j = 0; j < size.columns; j++) {
                    double one = number_of(step, h, i, j),
                           wanted = number_of(complete, h, is_followed ? ROWS[i] : i, j);
                    cr_expect((isnan(one) && isnan(wanted)) || fabs(one - wanted) <= 1e-12,
                              "%s, %s [%d, %d, %d] is %g, not %g", name, step_name, h, i, j, one, wanted);
                }
    }
    cr_expect_geq(followed, 7, "%s: %d steps", name, followed);
}

/* Trains a model whose stacks have these keys for a few updates. */
static void train(const char *model, int updates)
{
    write_text(".", "train.tsv", "one two\tuno dos\ntwo three one\tdos tres uno\nthree one\ttres uno\n");
    write_text(".", "c.yaml",
               format("name: c\ndata: {train: train.tsv, joint_vocabulary: %s, src: {lang: en}, trg: {lang: "
                      "es}}\nmodel: {%s}\n"
                      "training: {model_dir: run, updates: %d, learning_rate: 0.02, batch_size: 3}\n",
                      strstr(model, "tied") ? "true" : "false", model, updates));
    run_ok("qkv train c.yaml --overwrite -q");
}

/* The numbers of a step in a text: all blocks of one row, joined. */
static int numbers_of(const char *text, const char *step, const char *row, double *numbers)
{
    int count = 0;
    const char *at = strstr(text, format("  %s   ", step));
    cr_assert_not_null(at, "%s: %s", step, text);
    char *copy = strdup(at), *end = strstr(copy, "\n\n");
    if (end) *end = 0;
    for (char *line = strtok(copy, "\n"); line; line = strtok(NULL, "\n")) {
        int used;
        if (strncmp(line, format("    %s ", row), strlen(row) + 5) != 0) continue;
        for (line += strlen(row) + 5; sscanf(line, "%lf%n", &numbers[count], &used) == 1; line += used)
            count++;
    }
    free(copy);
    return count;
}

/* The text of a run has five steps of one head, whose numbers are those of the complete walk; wide matrices have all columns. */
Test(explain_run, is_brief_as_text_unless_full)
{
    static const char *const left_out[] = {"embeddings", "values", "scaled scores", "output", "logits"};
    static const char *const shown[] = {"queries", "keys", "scores", "weights", "context"};
    const char *text = run_ok("qkv explain run " THREE), *full = run_ok("qkv explain run " THREE " --full");
    const cJSON *best = explain(THREE " --head best");
    double numbers[64];
    for (int i = 0; i < 5; i++) {
        const cJSON *step = step_of(best, 0, shown[i]);
        int columns = json_size(step, "values.0");
        cr_assert_eq(numbers_of(text, shown[i], i == 1 ? "one" : "uno", numbers), columns, "%s", text);
        for (int c = 0; c < columns; c++)
            cr_expect_float_eq(numbers[c], number_of(step, 0, 0, c), 0.0051, "%s, %d", shown[i], c);
        cr_expect(lacks(text, format("  %s ", left_out[i])), "%s", left_out[i]);
        cr_expect(shows(full, format("  %s ", left_out[i])), "%s", left_out[i]);
    }
    cr_expect(shows(text, format("head %d\n", (int)json_number(best, "walks.0.first_head"))));
    cr_expect(shows(text, format("--full prints all %d steps", json_size(best, "walks.0.steps"))));
    cr_expect(shows(full, "head 1") && shows(full, "head 2") && lacks(full, "--full"));
    /* One head of width 64: its first row, in blocks. */
    train("encoder: {num_heads: 1}, decoder: {num_heads: 1, num_layers: 1}", 1);
    text = run_ok("qkv explain run " THREE);
    cr_expect(shows(text, "1 row of [4, 64]\n") && lacks(text, "…") && lacks(text, "⋮"));
    cr_expect_eq(numbers_of(text, "queries", "uno", numbers), 64);
    cr_expect_eq(numbers_of(text, "queries", "dos", numbers), 0);
    for (int versus = 0; versus < 2; versus++) {
        text = run_ok("qkv explain run " THREE " --follow tres%s", versus ? " --versus random" : "");
        cr_expect(shows(text, "  queries   Q = X W_Q + b_Q") && shows(text, " [1, 64]\n"));
        cr_expect(lacks(text, "1 row of [1"));
    }
    int lines = 0;
    for (const char *c = text = run_ok("qkv explain run " THREE); (c = strchr(c, '\n')); c++) lines++;
    cr_expect_leq(lines, 64, "%s", text);
    full = run_ok("qkv explain run " THREE " --full");
    cr_expect_eq(numbers_of(full, "query weights", "64", numbers), 64);
}

/* Each kind of attention and positions: the weights of all heads are those of qkv attention. */
Test(explain_run, explains_every_attention)
{
    static const struct {
        const char *attention, *positions, *step;
    } cases[] = {
        {"window: 1000000", "type: rotary", "rotated_queries"},
        {"window: 1000000", "type: alibi", "distance_bias"},
        {"window: 1000000", "type: relative, buckets: 8", "distance_bias"},
        {"key_value_heads: 2", "type: sinusoidal", "keys"},
        {"window: 1, global_tokens: 1", "type: sinusoidal", "mask"},
        {"window: 2, key_value_heads: 1, kernel: flash", "type: rotary", "rotated_keys"},
        {"output_gate: true", "type: sinusoidal", "gated_context"},
        {"soft_cap: 0.5, sink: learned", "type: alibi", "capped_scores"},
        {"sink: zero, window: 2", "type: sinusoidal", "sinks"},
        {"qk_norm: true, key_value_heads: 2", "type: rotary", "normed_keys"},
    };
    static const char *const kinds[] = {"encoder", "decoder"};
    static const char sentence[] = "'one two three one two' --target 'uno dos tres uno dos'";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *stack = format(
            "{num_layers: 1, num_heads: 4, hidden_size: 16, ff_size: %d, attention: {%s}, positions: {%s}}",
            i ? 16 : 0, cases[i].attention, cases[i].positions);
        train(format("encoder: %s, decoder: %s", stack, stack), 8);
        const cJSON *report = json_by("qkv attention run %s -f json", sentence);
        for (int k = 0; k < 2; k++) {
            const char *arguments = format("%s --kind %s", sentence, kinds[k]);
            const cJSON *walk = explain(arguments);
            cr_expect_not_null(step_of(walk, 0, cases[i].step), "no step %s", cases[i].step);
            expect_followed(cases[i].step, walk, explain(format("%s --follow 3 --follow 2", arguments)));
            expect_maps(walk, report, format("%s.1", kinds[k]));
            for (int head = 1; head <= 4; head++) run_ok("qkv explain run %s --head %d", arguments, head);
        }
    }
}

/* The note of the mask says all that hides words. */
Test(explain_run, says_what_the_mask_hides)
{
    static const char *const notes[][2] = {
        {"encoder", "A word sees only words at a distance of at most 2. The first one sees all words, and "
                    "all words see it."},
        {"decoder", "A word sees only words at a distance of at most 2. No word sees a later word: during "
                    "translation there is none yet."}};
    train("encoder: {attention: {window: 2, global_tokens: 1}}, decoder: {attention: {window: 2}}", 1);
    for (int i = 0; i < 2; i++)
        cr_expect_str_eq(
            json_text(step_of(explain(format(TWO " --kind %s", notes[i][0])), 0, "mask"), "note"),
            notes[i][1]);
}

/* Encoder and decoder share the embedding table; each still has its own tokens and embeddings. */
Test(explain_run, shows_both_sides_of_tied_embeddings)
{
    train("tied_embeddings: true", 1);
    const cJSON *walk = explain("'one two' --target uno");
    expect_shape(walk, "source_embeddings", "[3,64]");
    expect_shape(walk, "embeddings", "[2,64]");
    cr_expect_neq(number_of(step_of(walk, 0, "embeddings"), 0, 1, 0),
                  number_of(step_of(walk, 0, "source_embeddings"), 0, 1, 0));
}
