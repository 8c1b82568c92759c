/* qkv explain with a run of a transformer: the steps are those of the model. */
#include "tiny_run.h"

#include "scene.h"

/* The JSON output of a command with these arguments after the run. */
static cJSON *run_json(const char *command, const char *arguments)
{
    struct outcome outcome =
        run("cd '%s' && qkv %s run %s -f json", tiny_folder("explain_run"), command, arguments);
    cr_assert_eq(outcome.exit_code, 0, "%s %s: %s", command, arguments, outcome.error);
    cJSON *json = parsed(outcome.output);
    cr_assert_not_null(json);
    return json;
}

/* The weights equal those of qkv attention for the same layer and head. */
static void expect_same_weights(const char *kind, int layer)
{
    const char *sentence = "'one two three' --target 'uno dos tres'";
    cJSON *walk = run_json("explain", format("%s --kind %s --layer %d", sentence, kind, layer));
    cJSON *report = run_json("attention", sentence), *weights = step_of(walk, 0, "weights");
    for (int head = 1; head <= 2; head++) {
        cJSON *rows = cJSON_GetObjectItem(map_of(report, format("%s.%d.%d", kind, layer, head)), "weights"),
              *row;
        int i = 0;
        cJSON_ArrayForEach(row, rows)
        {
            cJSON *weight;
            int j = 0;
            cJSON_ArrayForEach(weight, row)
            {
                cr_expect_float_eq(number_of(weights, head - 1, i, j), weight->valuedouble, 2e-6,
                                   "%s.%d.%d [%d, %d]", kind, layer, head, i, j);
                j++;
            }
            i++;
        }
        cr_expect_eq(i, 4);
    }
}

Test(explain_run, has_the_weights_that_attention_reports)
{
    expect_same_weights("encoder", 1);
    expect_same_weights("encoder", 2);
    expect_same_weights("decoder", 1);
    expect_same_weights("cross", 1);
}

Test(explain_run, has_every_step_with_its_shape)
{
    cJSON *walk = run_json("explain", "'one two three' --target 'uno dos tres'");
    expect_shape(walk, "tokens", "[1,4]");
    expect_shape(walk, "source_tokens", "[1,4]");
    expect_shape(walk, "embeddings", "[4,16]");
    expect_shape(walk, "positions", "[4,16]");
    expect_shape(walk, "inputs", "[4,16]");
    expect_shape(walk, "layer_inputs", "[4,16]");
    expect_shape(walk, "memory", "[4,16]");
    expect_shape(walk, "query_weights", "[2,16,8]");
    expect_shape(walk, "query_bias", "[2,1,8]");
    expect_shape(walk, "queries", "[2,4,8]");
    expect_shape(walk, "scaled_scores", "[2,4,4]");
    expect_shape(walk, "context", "[2,4,8]");
    expect_shape(walk, "concatenated", "[4,16]");
    expect_shape(walk, "output_weights", "[16,16]");
    expect_shape(walk, "output", "[4,16]");
    cr_expect_not_null(step_of(run_json("explain", "one --target uno --kind decoder"), 0, "mask"));
}

Test(explain_run, shows_the_untrained_model_beside_the_trained_one)
{
    cJSON *walk = run_json("explain", "'one two' --target 'uno dos' --versus random");
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(walk, "walks")), 2);
    cJSON *random = step_of(walk, 0, "query_bias"), *learned = step_of(walk, 1, "query_bias");
    bool moved = false;
    for (int d = 0; d < 8; d++) {
        cr_expect_eq(number_of(random, 0, 0, d), 0.0, "biases start at 0");
        moved = moved || fabs(number_of(learned, 0, 0, d)) > 0;
    }
    cr_expect(moved);
    struct outcome text =
        run("cd '%s' && qkv explain run 'one two' --target 'uno dos' --versus random --head 1",
            tiny_folder("explain_run"));
    cr_expect(shows(text.output, "random, head 1"));
    cr_expect(shows(text.output, "learned, head 1"));
}

/* After one update with a tiny learning rate, the parameters are nearly those before training. */
Test(explain_run, versus_random_shows_the_initial_parameters)
{
    const char *folder = enter(scratch("began"));
    tiny_data(folder);
    write_text(folder, "tiny.yaml", TINY_CONFIG);
    run_ok("qkv train tiny.yaml --threads 1 --quiet -s training.updates=1 -s training.learning_rate=1e-9 -s "
           "training.random_seed=7");
    cJSON *walk = parsed(run("qkv explain run 'one two' --target 'uno dos' --versus random -f json").output);
    cJSON *random = step_of(walk, 0, "output"), *learned = step_of(walk, 1, "output");
    double largest = 0;
    for (int c = 0; c < 16; c++) {
        cr_expect_float_eq(number_of(random, 0, 1, c), number_of(learned, 0, 1, c), 1e-5);
        largest = fmax(largest, fabs(number_of(random, 0, 1, c)));
    }
    cr_expect_gt(largest, 0.1);
}

Test(explain_run, finds_the_best_head_as_attention_does)
{
    const char *sentence = "'one two three' --target 'uno dos tres' --kind encoder --layer 1 --head best";
    cJSON *walk = run_json("explain", sentence), *report = run_json("attention", sentence);
    cJSON *map = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "maps"), 0);
    cr_expect_eq(cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(walk, "walks"), 0), "first_head")
                     ->valueint,
                 cJSON_GetObjectItem(map, "head")->valueint);
}

Test(explain_run, follows_words)
{
    cJSON *all = run_json("explain", "'one two three' --target 'uno dos tres'"),
          *one = run_json("explain", "'one two three' --target 'uno dos tres' --follow dos");
    expect_shape(one, "weights", "[2,1,4]");
    for (int c = 0; c < 16; c++)
        cr_expect_float_eq(number_of(step_of(one, 0, "output"), 0, 0, c),
                           number_of(step_of(all, 0, "output"), 0, 1, c), 1e-12);
    struct outcome none =
        run("cd '%s' && qkv explain run one --target uno --follow zwei", tiny_folder("explain_run"));
    cr_expect_eq(none.exit_code, 2);
    cr_expect_str_eq(
        none.error,
        "qkv: there is no word 'zwei' to follow: give a word of the rows, or a number from 1 to 2\n");
}

Test(explain_run, messages_name_the_layers_and_words_that_exist)
{
    enter(tiny_folder("explain_run"));
    cr_expect(refused(run("qkv explain run one --target uno --layer 3"),
                      "qkv: the cross attention has no layer 3: its layers are 1 to 1"));
    cr_expect(refused(run("qkv explain run"), "qkv: run is a run: give a sentence as well"));
}

Test(explain_run, refuses_folders_that_are_not_runs)
{
    cr_expect(refused(run("cd '%s' && qkv explain nowhere one", tiny_folder("explain_run")),
                      "qkv: nowhere: there is no such run"));
}

/* A scene may take vectors and matrices from a run. */
Test(explain_run, scenes_take_vectors_and_matrices_from_runs)
{
    static const char SCENE[] = "tokens: one two\nrun: {path: run, layer: 2}\nembeddings: {from: learned}\n"
                                "weights: {from: learned}\n";
    const char *folder = enter(tiny_folder("explain_run"));
    write_text(folder, "learned.yaml", SCENE);
    cJSON *walk = parsed(run("qkv explain learned.yaml -f json").output),
          *real = run_json("explain", "'one two' --target 'uno dos' --kind encoder --layer 2");
    cr_assert_not_null(walk);
    expect_shape(walk, "weights", "[2,2,2]");
    for (int d = 0; d < 16; d++)
        cr_expect_float_eq(number_of(step_of(walk, 0, "embeddings"), 0, 1, d),
                           number_of(step_of(real, 0, "embeddings"), 0, 1, d), 1e-12);
    for (int d = 0; d < 8; d++)
        cr_expect_eq(number_of(step_of(walk, 0, "query_weights"), 1, 3, d),
                     number_of(step_of(real, 0, "query_weights"), 1, 3, d));
    write_text(folder, "unknown.yaml",
               "run: {path: run}\ntokens: one blorp\nembeddings: {from: learned}\n"
               "weights: {from: none}\n");
    cr_expect(refused(run("qkv explain unknown.yaml"),
                      "qkv: unknown.yaml:2:1: run does not know the word 'blorp'"));
    write_text(folder, "narrow.yaml",
               "run: {path: run}\ntokens: one\nembeddings: {values: [[1, 2, 3]]}\n"
               "weights: {from: learned}\n");
    struct outcome narrow = run("qkv explain narrow.yaml");
    cr_expect_eq(narrow.exit_code, 2);
    cr_expect_str_eq(narrow.error, "qkv: narrow.yaml:4:11: the matrices of the run need vectors of width 16, "
                                   "but the vectors are 3 wide\n");
}

/* ---- positions, windows and shared heads ---- */

/* With --follow 3 --follow 2, steps with a row per query have rows 3 and 2 of the complete steps;
 * the steps of keys and values are complete. */
static void expect_followed(const char *name, const cJSON *all, const cJSON *two)
{
    static const int ROWS[] = {2, 1};
    const cJSON *step,
        *steps = cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(two, "walks"), 0), "steps");
    int followed = 0;
    cJSON_ArrayForEach(step, steps)
    {
        const char *step_name = cJSON_GetStringValue(cJSON_GetObjectItem(step, "name"));
        const cJSON *complete = step_of(all, 0, step_name), *shape = cJSON_GetObjectItem(step, "shape");
        int rank = cJSON_GetArraySize(shape), heads = rank == 3 ? cJSON_GetArrayItem(shape, 0)->valueint : 1,
            rows = cJSON_GetArrayItem(shape, rank - 2)->valueint,
            columns = cJSON_GetArrayItem(shape, rank - 1)->valueint;
        bool is_followed = rows == 2; /* the sentences are longer */
        followed += is_followed;
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < columns; j++) {
                    double one = number_of(step, h, i, j),
                           wanted = number_of(complete, h, is_followed ? ROWS[i] : i, j);
                    cr_expect((isnan(one) && isnan(wanted)) || fabs(one - wanted) <= 1e-12,
                              "%s, %s [%d, %d, %d] is %g, not %g", name, step_name, h, i, j, one, wanted);
                }
    }
    cr_expect_geq(followed, 7, "%s: %d steps", name, followed);
}

/* Trains a model whose stacks have this attention and these positions for a few updates, and
 * compares the weights of all heads with those of qkv attention. */
static void expect_walk_of(const char *name, const char *attention, const char *positions, const char *step)
{
    const char *folder = scratch(name);
    write_text(folder, "train.tsv", "one two\tuno dos\ntwo three one\tdos tres uno\nthree one\ttres uno\n");
    write_text(folder, "c.yaml",
               format("name: c\ndata: {train: train.tsv, src: {lang: en}, trg: {lang: es}}\nmodel:\n"
                      "  encoder: {num_layers: 1, num_heads: 4, hidden_size: 16, ff_size: 16,\n"
                      "    attention: {%s}, positions: {%s}}\n"
                      "  decoder: {num_layers: 1, num_heads: 4, hidden_size: 16, ff_size: 16,\n"
                      "    attention: {%s}, positions: {%s}}\n"
                      "training: {model_dir: run, updates: 8, learning_rate: 0.02, batch_size: 3}\n",
                      attention, positions, attention, positions));
    run_ok("cd '%s' && qkv train c.yaml --threads 1 --quiet", folder);
    static const char SENTENCE[] = "'one two three one two' --target 'uno dos tres uno dos' -f json";
    cJSON *report = parsed(run("cd '%s' && qkv attention run %s", folder, SENTENCE).output);
    static const char *const KIND[] = {"encoder", "decoder"};
    for (int k = 0; k < 2; k++) {
        cJSON *walk =
                  parsed(run("cd '%s' && qkv explain run %s --kind %s", folder, SENTENCE, KIND[k]).output),
              *two = parsed(run("cd '%s' && qkv explain run %s --kind %s --follow 3 --follow 2", folder,
                                SENTENCE, KIND[k])
                                .output);
        cr_assert(walk && report && two, "%s", name);
        cr_expect_not_null(step_of(walk, 0, step), "%s: no step %s", name, step);
        expect_followed(name, walk, two);
        for (int head = 1; head <= 4; head++) {
            cJSON *rows = cJSON_GetObjectItem(map_of(report, format("%s.1.%d", KIND[k], head)), "weights");
            for (int i = 0; i < 6; i++)
                for (int j = 0; j < 6; j++)
                    cr_expect_float_eq(number_of(step_of(walk, 0, "weights"), head - 1, i, j),
                                       cJSON_GetArrayItem(cJSON_GetArrayItem(rows, i), j)->valuedouble, 2e-6,
                                       "%s, %s, head %d [%d, %d]", name, KIND[k], head, i, j);
            struct outcome one =
                run("cd '%s' && qkv explain run %s --kind %s --head %d", folder, SENTENCE, KIND[k], head);
            cr_expect_eq(one.exit_code, 0, "%s", one.error);
        }
    }
}

Test(explain_run, explains_rotary_positions)
{
    expect_walk_of("rotary", "window: 1000000", "type: rotary", "rotated_queries");
}

Test(explain_run, explains_alibi_and_relative_positions)
{
    expect_walk_of("alibi", "window: 1000000", "type: alibi", "distance_bias");
    expect_walk_of("relative", "window: 1000000", "type: relative, buckets: 8", "distance_bias");
}

Test(explain_run, explains_shared_key_heads_and_windows)
{
    expect_walk_of("groups", "key_value_heads: 2", "type: sinusoidal", "keys");
    expect_walk_of("window", "window: 1, global_tokens: 1", "type: sinusoidal", "mask");
    expect_walk_of("all", "window: 2, key_value_heads: 1, kernel: flash", "type: rotary", "rotated_keys");
}

/* The note of the mask says all that hides words. */
Test(explain_run, says_what_the_mask_hides)
{
    const char *folder = enter(scratch("masks"));
    write_text(folder, "train.tsv", "one two\tuno dos\ntwo one\tdos uno\n");
    write_text(folder, "c.yaml",
               "name: c\ndata: {train: train.tsv, src: {lang: en}, trg: {lang: es}}\nmodel:\n"
               "  encoder: {attention: {window: 2, global_tokens: 1}}\n"
               "  decoder: {attention: {window: 2}}\ntraining: {model_dir: run, updates: 1}\n");
    run_ok("qkv train c.yaml --threads 1 --quiet");
    static const char *const KIND[] = {"encoder", "decoder"},
                             *const NOTE[] = {"A word sees only words at a distance of at most 2. The first "
                                              "one sees all words, and all words see it.",
                                              "A word sees only words at a distance of at most 2. No word "
                                              "sees a later word: during translation there is none yet."};
    for (int i = 0; i < 2; i++) {
        cJSON *walk = parsed(run("qkv explain run 'one two' --target uno -f json --kind %s", KIND[i]).output);
        cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(step_of(walk, 0, "mask"), "note")),
                         NOTE[i]);
    }
}

/* Encoder and decoder share the embedding table; each still has its own tokens and embeddings. */
Test(explain_run, shows_both_sides_of_tied_embeddings)
{
    const char *folder = enter(scratch("tied"));
    write_text(folder, "train.tsv", "one two\tuno dos\ntwo one\tdos uno\n");
    write_text(folder, "c.yaml",
               "name: c\ndata: {train: train.tsv, joint_vocabulary: true, src: {lang: en}, trg: {lang: es}}\n"
               "model: {tied_embeddings: true}\ntraining: {model_dir: run, updates: 1}\n");
    run_ok("qkv train c.yaml --threads 1 --quiet");
    cJSON *walk = parsed(run("qkv explain run 'one two' --target uno -f json").output);
    expect_shape(walk, "source_embeddings", "[3,64]");
    expect_shape(walk, "embeddings", "[2,64]");
    cr_expect_neq(number_of(step_of(walk, 0, "embeddings"), 0, 1, 0),
                  number_of(step_of(walk, 0, "source_embeddings"), 0, 1, 0));
}
