/* A translator without an encoder: what the commands do with it. */
#include "scene.h"

/* Pairs of two to four words, translated word by word, and a run that translates them. */
static void enter_run(void)
{
    enter(scratch("run"));
    write_text(".", "train.tsv", word_pairs(20, ONE_TO_FIVE[0], ONE_TO_FIVE[1]));
    write_links("train.tsv", "gold");
    write_config("train: train.tsv, dev: train.tsv, src: {lang: en}, trg: {lang: es}", "",
                 "type: decoder_only, num_layers: 2, num_heads: 2, hidden_size: 16, ff_size: 32, dropout: 0, "
                 "embeddings: {dropout: 0}, positions: {type: rotary, max_length: 12}",
                 "learning_rate: 0.01, batch_size: 20, updates: 80, snapshots: 2, validation_freq: 80");
    run_ok("qkv train c.yaml -q --threads 1");
}

TestSuite(prefix, .init = enter_run);

Test(prefix, a_decoder_alone_translates)
{
    cr_assert_str_eq(run_ok("echo 'two one four' | qkv translate run"), "dos uno cuatro\n");
    cr_assert_str_eq(run_ok("echo 'two one four' | qkv translate run --beam 4 --with run"),
                     "dos uno cuatro\n");
    run_ok("qkv quantize run -o small");
    cr_assert_str_eq(run_ok("echo 'two one four' | qkv translate small"), "dos uno cuatro\n");
    const cJSON *scores = json_by("qkv evaluate run train.tsv --links gold --json");
    cr_assert_eq(json_number(scores, "sequence_accuracy"), 1);
    run_ok("qkv train c.yaml -q --threads 3 -s training.model_dir=three && cmp run/last.safetensors "
           "three/last.safetensors");
    run_ok("qkv average run --best 1 && qkv evaluate run train.tsv --checkpoint average");
    /* Where attention sees source and target at once, the shares of both sum to 1. */
    static const char *const METHODS[] = {"attention", "rollout", "flow", "zeroing", "integrated", "erasure"};
    for (int m = 0; m < 6; m++) {
        const cJSON *report =
            json_by("qkv attribute run 'two one four' -m %s -f json -q 2>/dev/null", METHODS[m]);
        cr_assert_eq(json_size(report, "maps"), 2);
        double sum = 0;
        for (int m2 = 0; m2 < 2; m2++)
            for (int c = 0; c < json_size(report, format("maps.%d.columns", m2)); c++)
                sum += json_cell(json_at(report, format("maps.%d.weights", m2)), 2, c);
        if (m < 4 && m != 2) cr_expect_float_eq(sum, 1, 1e-5, "%s", METHODS[m]);
    }
    run_ok("qkv attribute run 'two one four' --lens && qkv attribute run 'two four' --patch-from 'one four'");
    cr_assert_eq(run("qkv complete run one").exit_code, 2);
}

Test(prefix, its_gradients_agree_with_differences)
{
    static const char *const MORE[] = {"", "-s model.decoder.prefix=bidirectional",
                                       "-s model.decoder.positions.restart=true"};
    for (int i = 0; i < 3; i++) run_ok("qkv gradcheck c.yaml --sentences 2 %s", MORE[i]);
}

/* The rows of a target word in the maps to the source and to the target sum to 1, and explain shows both side by side. */
Test(prefix, a_row_of_weights_goes_over_source_and_target)
{
    static const char *const KINDS[] = {"cross", "decoder"};
    enum { WORDS = 4 }; /* of each side, with </s> or <s> */
    const cJSON *maps = json_by("qkv attention run 'two one four' -q -f json");
    cr_assert_eq(json_size(maps, "maps"), 3 * 4);
    for (int k = 0; k < 2; k++) {
        const cJSON *walk = walk_of(format("run 'two one four' --kind %s --layer 2 --full", KINDS[k]));
        const cJSON *weights = step_of(walk, 0, "weights");
        expect_shape(walk, "weights", "[2,4,8]");
        for (int head = 0; head < 2; head++)
            for (int row = 0; row < WORDS; row++) {
                double sum = 0;
                for (int column = 0; column < 2 * WORDS; column++) {
                    const char *name = format("%s.2.%d", KINDS[column >= WORDS], head + 1);
                    double weight =
                        json_cell(json_at(named(maps, "maps", name), "weights"), row, column % WORDS);
                    cr_assert_float_eq(number_of(weights, head, row, column), weight, 2e-6, "%s", name);
                    sum += weight;
                }
                cr_assert_float_eq(sum, 1, 1e-5);
            }
    }
}

Test(prefix, other_commands_take_it_for_a_translator)
{
    cr_assert(shows(run_ok("qkv align run train.tsv"), "0-0"));
    cr_assert(shows(run_ok("qkv heads run train.tsv --links gold"), "cross.2.2"));
    run_ok("qkv attention run 'two four' -o map.svg && qkv page run -o page.html && qkv inspect run");
    run_ok("qkv film run 'two four' -o film.png");
    run_ok("qkv prepare c.yaml -o ready.prepared && qkv train c.yaml -q -s data.train=ready.prepared "
           "-s training.model_dir=other");
    run_ok("qkv sweep c.yaml -o sweep --seeds 2 -s training.updates=4 -s training.validation_freq=4 -q");
}
