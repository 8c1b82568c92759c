/* The longest translation follows from the lengths in the training text, and what is cut is said. */
#include "support.h"

/* Trains words to characters, four pairs by heart, in the current folder. */
static void train_characters(const char *settings)
{
    write_text(".", "t.tsv",
               "the cat sleeps\tel gato duerme tranquilamente en la cocina\n"
               "rain\tlas lluvias torrenciales comenzaron anoche\n"
               "we walk\tcaminamos despacio por la orilla del lago helado\n"
               "a red house stands here\tuna casa roja se encuentra aqui\n");
    write_config(
        "train: t.tsv, dev: t.tsv, src: {lang: en}, trg: {lang: es, level: char}",
        "num_layers: 1, num_heads: 2, hidden_size: 32, ff_size: 64, " NO_DROPOUT, NULL,
        "updates: 300, batch_size: 4, learning_rate: 0.01, scheduling: cosine, validation_freq: 300");
    run_ok("qkv train c.yaml -j 1 %s 2>training", settings);
}

Test(output_length, fits_the_training_text)
{
    enter(scratch("fits"));
    train_characters("");
    struct outcome outcome = run("cut -f1 t.tsv | qkv translate run");
    cr_expect_str_eq(outcome.output, run_ok("cut -f2 t.tsv"));
    cr_expect_str_eq(outcome.error, "");
    cr_expect(shows(run_ok("qkv evaluate run t.tsv"), "sequence accuracy  100.00 %"));
    /* 1.5 * 163 characters / 11 words is 22.2; the one word of the second pair has 42 characters: 42 - 23 + 10 more. */
    cr_expect(shows(run_ok("grep length_limit run/config.yaml"), "length_limit: [23, 29]"));
    run_ok("qkv train c.yaml -q -s training.model_dir=given -s testing.length_limit=[40,50] -s "
           "training.updates=1");
    cr_expect(shows(run_ok("grep length_limit given/config.yaml"), "length_limit: [40, 50]"));
}

Test(output_length, says_what_it_cuts)
{
    enter(scratch("says"));
    train_characters("-s testing.max_output_length=5");
    cr_expect(shows(run_ok("cat training"), "notice: update 300: 4 of the 4 translations of data.dev ended "
                                            "at the limit of their length: raise testing.max_output_length"));
    const char *note = "qkv: note: 4 of 4 translations ended at the limit of their length, and may be cut: "
                       "--max-length N raises it\n";
    cr_expect_str_eq(run("cut -f1 t.tsv | qkv translate run").error, note);
    cr_expect_str_eq(run("cut -f1 t.tsv | qkv translate run -q").error, "");
    cr_expect_str_eq(run("cut -f1 t.tsv | qkv translate run --max-length 60").error, "");
    cr_expect(shows(run("qkv evaluate run t.tsv").error, "4 of 4 translations ended at the limit"));
}
