/* Language models: a text in each form, training, and what other commands say to such a run. */
#include "browser.h"
#include "json.h"

/* Makes a folder with a text of 121 lines, 20 of them blank, and a config, and enters it. A model of running text has a
 * context. */
#define RUNNING "context: 16, "
static void enter_text(const char *name, const char *context)
{
    static char text[8192];
    size_t size = 0;
    for (int i = 0; i < 100; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "the %s %s on the %s%s\n",
                                 i % 3 ? "cat" : "dog", i % 2 ? "sat" : "lay", i % 7 ? "mat" : "log",
                                 i % 5 ? "" : "\n");
    enter(scratch(name));
    write_text(".", "text.txt", text);
    write_config(
        format("train: text.txt, text: running, %sdev_share: 0.2, trg: {lang: en, level: char}", context), "",
        "type: decoder_only, num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, positions: "
        "{max_length: 64}",
        "batch_size: 4, updates: 40, validation_freq: 20");
}

Test(language_model, the_bits_depend_on_neither_threads_nor_a_break)
{
    enter_text("bits", RUNNING);
    const char *log = run("qkv train c.yaml --threads 1").error;
    cr_expect(shows(log, "windows, a vocabulary of ") && shows(log, "bits per character "));
    cr_expect(lacks(log, "BLEU"));
    expect_equal_bits("c.yaml", "", 40);
}

/* A fifth of the bytes, in whole lines, is for validation: 20 of 100 lines, 4 of 21 paragraphs. */
Test(language_model, each_form_of_text_trains)
{
    static const char *const CASES[][2] = {
        {"-s data.text=lines", " 80 training lines, 20 dev lines, "},
        {"-s data.text=paragraphs", " 17 training paragraphs, 4 dev paragraphs, "},
        {"-s data.text=lines -s data.trg.level=word", "a vocabulary of 11, "},
    };
    enter_text("forms", "");
    for (int i = 0; i < 3; i++)
        cr_expect(shows(run_ok("qkv train c.yaml --overwrite %s -s training.updates=2 -s "
                               "data.trg.max_length=200 -s model.decoder.positions.max_length=200 2>&1",
                               CASES[i][0]),
                        CASES[i][1]));
}

Test(language_model, its_gradients_agree_with_differences)
{
    enter_text("gradients", "");
    run_ok("qkv gradcheck c.yaml -s data.context=16 && qkv gradcheck c.yaml -s data.text=lines");
}

Test(language_model, other_commands_refuse_it)
{
#define REFUSED "run: is a language model, which "
    static const char *const CASES[][2] = {{"translate run", REFUSED},
                                           {"align run pairs.tsv", REFUSED},
                                           {"page run --pairs pairs.tsv", REFUSED}};
    enter_text("refusals", RUNNING);
    run_ok("qkv train c.yaml -q -s training.updates=1 && printf 'a\tb\n' >pairs.tsv");
    EXPECT_FAILURES("echo the cat | qkv", CASES);
    cr_assert_eq(run("qkv inspect run").exit_code, 0);
    cr_assert_str_eq(run_ok("echo 'the cat' | qkv tokenize run"), "t h e ▁ c a t\n");
}

Test(language_model, wrong_configs_and_texts_are_refused)
{
    static const char *const CASES[][2] = {
        {"-s model.decoder.prefix=bidirectional -s model.decoder.positions.type=relative",
         "model.decoder.prefix is bidirectional, but needs model.decoder.positions.type other than relative"},
        {"-s model.decoder.positions.type=relative -s model.decoder.positions.restart=true",
         "model.decoder.positions.restart is true, but has an effect only when model.decoder.positions.type "
         "is "},
        {"-s model.decoder.type=transformer -s model.encoder.hidden_size=16 -s data.text=pairs -s "
         "data.src.lang=en -s data.dev_share=0 -s data.context=256 -s model.decoder.positions.restart=true",
         "model.decoder.positions.restart is true, but needs model.decoder.type decoder_only"},
        {"-s model.decoder.type=transformer -s model.encoder.type=transformer -s "
         "model.encoder.hidden_size=16",
         "data.text is running, but needs model.decoder.type decoder_only: there is no source to encode"},
        {"-s data.dev=text.txt", "data.dev_share is 0.2, but needs data.dev to be empty"},
        {"-s data.context=65",
         "data.context is 65, but must not exceed model.decoder.positions.max_length (64)"},
        {"-s training.early_stopping_metric=bleu", "training.early_stopping_metric is bleu, but a language "
                                                   "model has only loss, ppl and token_accuracy"},
        {"-s model.encoder.num_layers=3", "model.encoder.num_layers is 3, but has an effect only when "},
        {"-s data.src.level=char", "data.src.level is char, but has an effect only when data.text is pairs"},
        {"-s data.train=blank.txt", "blank.txt: "},
        {"-s data.train=one.txt", "one.txt: data.dev_share, 0.2, leaves no line for validation"},
        {"-s data.train=x.tsv", "x.tsv: there is no such text: set data.train to its path"},
    };
    enter_text("wrong", RUNNING);
    run_ok("printf '\n\n\n' >blank.txt && echo one >one.txt");
    EXPECT_FAILURES("qkv train c.yaml -q", CASES);
}

/* ---- complete ---- */

/* A model that has learned its text: after "the cat" come only words of it. */
static void enter_trained(const char *name, const char *options)
{
    enter_text(name, "");
    run_ok(
        "qkv train c.yaml -q -s training.updates=300 -s training.learning_rate=0.01 -s training.shards=2 %s",
        options);
}

Test(language_model, running_text_goes_on_over_windows)
{
    enter_trained("running", "-s data.context=16");
    /* A window has 16 tokens; 60 need several. */
    const char *text = run_ok("qkv complete run 'the cat' --max-length 60");
    cr_assert(begins(text, "the cat ") && shows(text, " on the ") && shows(text + 8, "\n"));
    size_t characters =
        strlen(text + strlen("the cat")) - 1; /* each token is one; a line end may close the text */
    cr_assert(characters == 60 || characters == 59, "%zu: %s", characters, text);
    /* Greedy text does not depend on how it is asked for. */
    cr_assert_str_eq(run_ok("printf 'the cat' | qkv complete run --max-length 60 -j 1"), text);
    cr_assert_str_eq(run_ok("printf 'the cat' >start && qkv complete run --file start --max-length 60 -j 3"),
                     text);
    /* The prompt has several lines. */
    cr_assert(begins(run_ok("qkv complete run \"$(printf 'the dog sat\nthe')\" --max-length 5"),
                     "the dog sat\nthe "));
}

Test(language_model, samples_depend_on_seed_and_number_alone)
{
    enter_trained("samples", "-s data.context=16");
    const char *three = run_ok("qkv complete run 'the' --sample --n 3 --max-length 40 -j 1");
    cr_assert_str_eq(run_ok("qkv complete run 'the' --sample --n 3 --max-length 40 -j 3"), three);
    const char *one = run_ok("qkv complete run 'the' --sample --max-length 40");
    cr_assert(begins(three, one) && shows(three, "\n---\n"));
    cr_assert_str_neq(run_ok("qkv complete run 'the' --sample --max-length 40 --seed 7"), one);
    cr_assert_str_eq(run_ok("qkv complete run 'the' --sample --top-k 1 --max-length 40"),
                     run_ok("qkv complete run 'the' --max-length 40"));
}

Test(language_model, a_model_of_lines_ends_them_itself)
{
    enter_trained("lines", "-s data.text=lines -s data.trg.level=word");
    const char *text = run_ok("qkv complete run 'the cat'");
    cr_assert(!strcmp(text, "the cat sat on the mat\n") || !strcmp(text, "the cat lay on the mat\n"), "%s",
              text);
    static const char *const CASES[][2] = {
        {"\"$(printf 'the\ncat')\"", "the text has several lines, but the model was trained on single ones"},
        {"\"$(for i in $(seq 70); do printf 'the '; done)\" >/dev/null",
         "the text has 70 tokens, but the model has positions for 62"}};
    EXPECT_FAILURES("qkv complete run", CASES);
}

/* Four windows of a text of 61 tokens: the loss of evaluate is that of the validation, and log-probabilities sum to it. */
Test(language_model, evaluate_gives_bits)
{
    enter_trained("evaluate", "-s data.context=16");
    const char *scores = run_ok("printf 'the cat sat on the mat\nthe dog lay on the log\n' >test.txt && qkv "
                                "evaluate run test.txt --log-probs p.tsv");
    double loss = number_after(scores, "\nloss "), sum = 0;
    cr_assert(shows(scores, "target tokens      46\n"));
    cr_assert_float_eq(number_after(scores, "bits per character "), loss / log(2), 1e-3);
    cr_assert_float_eq(number_after(scores, "bits per word "), loss * 46 / 12 / log(2), 1e-3);
    char *rows = read_file("p.tsv", &(size_t){0});
    for (char *row = strchr(rows, '\n'); row && row[1]; row = strchr(row + 1, '\n')) {
        double of_window;
        cr_assert_eq(sscanf(row + 1, "%*d\t%*d\t%lf", &of_window), 1);
        sum += of_window;
    }
    cr_assert_float_eq(sum, -46 * loss, 0.01);
    cr_assert_eq(run("qkv evaluate run test.txt --beam 2").exit_code, 2);
    cr_assert_eq(run("qkv evaluate run test.txt --links test.txt").exit_code, 2);
}

/* Runs, their validations and an evaluation, by perplexity and bits per character; the dev part is a test of its own. */
Test(language_model, sweep_and_compare_show_bits)
{
    enter_text("compare", RUNNING);
    run_ok("qkv sweep c.yaml -g model.decoder.num_heads=1,2 -q -o sweep && qkv train c.yaml -q && qkv "
           "evaluate run text.txt --json >a.json");
    const char *table = read_file("sweep/comparison.md", &(size_t){0});
    cr_assert(shows(table, "| text.txt (dev): perplexity | text.txt (dev): bits per character |"));
    cr_assert(lacks(table, "BLEU"));
    table = run_ok("qkv compare 'sweep/num_heads=2,seed=42' run a.json -o t.tsv >/dev/null; cat t.tsv");
    cr_assert(shows(table, "\ttext.txt: bits per character\n"));
    double bits[2], whole;
    cr_assert_eq(sscanf(strchr(table, '\n') + 1, "%*s\t%*f\t%*f\t%*f\t%lf", &bits[0]), 1, "%s", table);
    cr_assert_eq(sscanf(strchr(strchr(table, '\n') + 1, '\n') + 1, "%*s\t%*f\t%*f\t%*f\t%lf\t%*f\t%lf",
                        &bits[1], &whole),
                 2, "%s", table);
    cr_assert_float_eq(bits[0], bits[1], 1e-9, "the same training");
    cr_assert_float_eq(whole, json_number(json_by("cat a.json"), "bits_per_character"), 5e-5);
}

/* ---- init ---- */

Test(language_model, init_recognises_a_text)
{
    enter_text("init", RUNNING);
    run_ok("for i in 1 2 3 4 5 6; do cat text.txt; done >long.txt");
    cr_assert(shows(run_ok("qkv init long.txt --updates 3 -o sub/lm.yaml"), "running text, "));
    cr_assert(shows(run("qkv train sub/lm.yaml").error, "done after 3 updates"));
    cr_assert_eq(run("qkv init long.txt --updates 3 -o sub/lm.yaml").exit_code, 2);
    cr_assert_eq(run("qkv init text.txt --updates 3").exit_code, 2, "too short");
    cr_assert_eq(run("qkv init long.txt --updates 3 --dev 4").exit_code, 2, "pairs are wanted");
    run_ok("for i in $(seq 300); do echo \"the cat $i sleeps on the mat,le chat $i dort ici\"; done "
           ">commas.csv");
    cr_assert(shows(run_ok("qkv init commas.csv --updates 3"),
                    "300 pairs in columns 1 and 2 of 2 (CSV with commas)"));
    run_ok("for i in $(seq 300); do echo a cat, a dog, $(seq -s , $((i %% 9))) and the rest of a line; done "
           ">prose.txt");
    cr_assert(shows(run_ok("qkv init prose.txt --updates 3"), "running text, 300 lines"));
}

/* ---- attention ---- */

/* Running text follows the </s> of the line before, a line follows <s>; each row sums to 1 and sees no later token. */
Test(language_model, attention_shows_where_each_token_looks)
{
    static const char *const FORMS[][2] = {{"-s data.context=16", "</s>"}, {"-s data.text=lines", "<s>"}};
    enter_text("attention", "");
    for (int i = 0; i < 2; i++) {
        run_ok("qkv train c.yaml -q --overwrite -s training.updates=2 %s", FORMS[i][0]);
        const cJSON *root = json_by("qkv attention run 'a cat' -f json"), *map;
        cr_assert_eq(json_size(root, "target_input"), 6);
        /* The probabilities are those of evaluate; the last next token is the most probable, or </s>. */
        const char *scores = run_ok("printf 'a cat\n' >one.txt && qkv evaluate run one.txt --log-probs p.tsv "
                                    ">/dev/null && tail -1 p.tsv | cut -f5");
        cr_assert_eq(json_size(root, "next_probability"), 6);
        for (int t = 0; t < 5 + i; t++) {
            const double expected = exp(strtod(scores, (char **)&scores));
            cr_expect_float_eq(json_number(root, format("next_probability.%d", t)), expected, 1e-5, "%d", t);
        }
        const char *last = json_text(root, "target_output.5"),
                   *chosen = run_ok("qkv complete run 'a cat' --max-length 1");
        if (i)
            cr_expect_str_eq(last, "</s>");
        else if (!strcmp(last, "</s>") || !strcmp(last, "▁"))
            cr_expect_str_eq(chosen, "a cat\n");
        else
            cr_expect_str_eq(chosen, format("a cat%s\n", last));
        cr_expect(shows(run_ok("qkv attention run 'a cat'"),
                        format("t→%s:%.2f ", last, json_number(root, "next_probability.5"))));
        cr_assert_str_eq(json_text(root, "target_input.0"), FORMS[i][1]);
        cr_assert_eq(json_size(root, "maps"), 2, "one layer of two heads");
        cJSON_ArrayForEach(map, json_at(root, "maps"))
        {
            cr_assert_str_eq(json_text(map, "kind"), "decoder");
            for (int row = 0; row < 6; row++) {
                double sum = 0;
                for (int column = 0; column < 6; column++) {
                    double weight = json_cell(json_at(map, "weights"), row, column);
                    sum += weight;
                    cr_assert(column <= row || weight <= 0, "row %d sees column %d", row, column);
                }
                cr_assert_float_eq(sum, 1, 1e-5);
            }
        }
    }
    run_ok("for m in attention norms rollout flow gradient integrated zeroing erasure; do qkv attribute run "
           "'a cat' -m $m -o $m.svg || exit 1; done");
    run_ok("qkv attribute run 'a cat' --lens && qkv attribute run 'a cat' --patch-from 'a dog' --word c");
    cr_assert(shows(run_ok("qkv attention run 'a cat'"), "decoder attention, layer 1, mean of heads"));
    cr_assert_eq(run("qkv attention run 'a cat' --kind cross").exit_code, 2);
    cr_assert_eq(run("qkv attention run 'a cat' --target 'a dog'").exit_code, 2);
    const char *text = run_ok("qkv attention run 'a cat' --words");
    cr_assert(shows(text, "\n<s> 1.00") && shows(text, "\ncat "));
}

/* The loss without a head is that of evaluate --without; the maps of a line are those of `qkv attention`. */
Test(language_model, heads_are_measured_on_a_text)
{
    static const char *const FORMS[] = {"-s data.context=16", "-s data.text=lines"};
    enter_text("heads", "");
    run_ok("head -30 text.txt >part.txt");
    for (int i = 0; i < 2; i++) {
        run_ok("qkv train c.yaml -q --overwrite -s training.updates=200 -s training.learning_rate=0.01 %s",
               FORMS[i]);
        const cJSON *root = json_by("qkv heads run part.txt -f json -j 2"), *head;
        double without = number_after(run_ok("qkv evaluate run part.txt --without decoder.1.1"), "\nloss ");
        cr_assert_eq(json_size(root, "heads"), 2);
        cr_assert_str_eq(json_text(root, "heads.0.name"), "decoder.1.1");
        cr_expect_float_eq(json_number(root, "heads.0.loss"), without - json_number(root, "loss"), 1e-4);
        cr_expect_gt(json_number(root, "heads.0.importance"), 0);
        cJSON_ArrayForEach(head, json_at(root, "heads"))
        {
            double next = json_number(head, "next");
            cr_expect(next >= 0 && next <= 0 && json_number(head, "entropy") > 0,
                      "no token sees a later one");
            cr_expect(cJSON_IsNull(json_at(head, "error_read")));
        }
        const cJSON *one = json_by("echo 'a cat' >one.txt && qkv heads run one.txt -f json"),
                    *weights = json_at(json_by("qkv attention run 'a cat' -f json"), "maps.0.weights");
        double sum = 0;
        for (int row = 1; row < 6; row++) {
            double largest = 0;
            for (int column = 0; column <= row; column++)
                largest = fmax(largest, json_cell(weights, row, column));
            sum += largest;
        }
        cr_expect_float_eq(json_number(one, "heads.0.sharpness"), sum / 5, 1e-5);
        cr_assert_str_eq(run_ok("qkv heads run part.txt -f tsv -j 1"),
                         run_ok("qkv heads run part.txt -f tsv -j 3"));
    }
    cr_assert_eq(run("qkv heads run part.txt --links part.txt").exit_code, 2);
    cr_assert_eq(run("qkv heads run part.txt --beam 2").exit_code, 2);
}

/* The greatest value of a measure of all heads. */
static double best(const cJSON *root, const char *name)
{
    double value = 0;
    const cJSON *head;
    cJSON_ArrayForEach(head, json_at(root, "heads")) value = fmax(value, json_number(head, name));
    return value;
}

Test(language_model, repeats_are_measured_in_heads_and_drawn_over_training)
{
    enter_text("repeats", RUNNING);
    run_ok("sed -i 's/num_layers: 1/num_layers: 2/' c.yaml && head -9 text.txt >part.txt");
    run_ok("qkv train c.yaml -q -s training.snapshots=3");
    const cJSON *root = json_by("qkv heads run part.txt -f json"), *head;
    cr_expect_eq(json_number(root, "repeat"), 7, "15 characters of context are 7 twice");
    cr_expect_eq(json_number(root, "sequences"), 20);
    cr_expect_eq(json_number(json_by("qkv heads run part.txt -f json --repeat 7"), "second_loss"),
                 json_number(root, "second_loss"), "7 is the default");
    cr_expect_neq(json_number(root, "heads.0.second_loss"), 0);
    cr_expect_neq(json_number(root, "heads.0.best_matching"), best(root, "prefix_matching"));
    cJSON_ArrayForEach(head, json_at(root, "heads"))
    {
        double matching = json_number(head, "prefix_matching");
        cr_expect(matching > 0 && matching < 1);
        if (json_number(head, "layer") > 1) /* no head comes after it */
            cr_expect_float_eq(json_number(head, "best_matching"), best(root, "prefix_matching"), 1e-12);
    }
    const char *text = run_ok("qkv heads run part.txt -q --repeat 5 --sequences 3");
    cr_expect(shows(text, "\nOn 3 random sequences of 5 tokens that come twice: loss "));
    cr_expect(shows(text, "\nhead         matching previous 2nd loss   best\ndecoder.1.1 "));
    cr_assert(fails(run("qkv heads run part.txt --repeat 32"), 2,
                    "run: a random sequence of 32 tokens cannot come twice: the model has 64 positions"));
    run_ok("qkv plot run --show second_loss,prefix_matching,previous_token -o p.svg && grep -q "
           "'prefix-matching score of the best head' p.svg");
    cr_expect(shows(run_ok("qkv plot run --x time --show second_loss"), "loss of the second repetition"));
    run_ok("rm run/snapshot*");
    cr_assert(fails(run("qkv plot run --show second_loss"), 2, "has no snapshots of its training"));
}

/* configs/induction.yaml, with 12 numbers and half the width. */
Test(language_model, an_induction_head_appears_in_two_layers_and_not_in_one)
{
    if (is_slow_build()) cr_skip_test("two long trainings");
    enter(scratch("induction"));
    run_ok("qkv generate induction -o . --symbols 12 --longest 16 --train 4000 --dev 50 --test 20");
    for (int layers = 2; layers; layers--) {
        run_ok("qkv train '%s/configs/induction.yaml' -q --overwrite -s data.train=train.txt -s "
               "data.dev=dev.txt -s data.test='' -s training.model_dir=run -s training.updates=1200 -s "
               "training.validation_freq=600 -s model.decoder.hidden_size=32 -s model.decoder.num_heads=1 -s "
               "model.decoder.attention.key_width=32 -s model.decoder.num_layers=%d",
               QKV_SOURCE_DIR, layers);
        const cJSON *root = json_by("qkv heads run test.txt --repeat 8 -f json");
        double matching = best(root, "prefix_matching");
        cr_expect(layers == 2 ? matching > 0.9 : matching < 0.4, "%d layers: %g", layers, matching);
        cr_expect_lt(json_number(root, "heads.0.best_matching"), 0.4, "layer 2 needs layer 1");
        cr_expect_gt(json_number(root, "heads.0.second_loss"), 0.5);
    }
}

Test(language_model, film_and_explain_show_its_own_attention)
{
    enter_text("film", RUNNING);
    run_ok("qkv train c.yaml -q -s training.snapshots=2");
    run_ok("qkv film run 'the cat' -q -o f.png && qkv film run 'the cat' -q --words -o w.png");
    cr_expect_str_eq(run_ok("qkv attention run 'the cat' --kind all -q -f svg"),
                     run_ok("qkv attention run 'the cat' --kind decoder -q -f svg"));
    const char *walk = run_ok("qkv explain run 'the cat' -f json");
    cr_assert(shows(walk, "\"probabilities\"") && shows(walk, "\"kind\":\t\"decoder\""));
    cr_assert(fails(run("qkv explain run 'the cat' --kind cross"), 2, "the model has no cross attention"));
}

static double loss_of_text(const char *options)
{
    return number_after(run_ok("qkv evaluate run text.txt %s", options), "\nloss ");
}

/* Two runs together: the mean of their probabilities, in evaluate and in what they write. */
Test(language_model, several_models_work_together)
{
    enter_trained("with", "-s data.context=16");
    run_ok("qkv train c.yaml -q -s data.context=16 -s training.model_dir=other -s training.updates=20");
    run_ok("qkv train c.yaml -q -s data.text=lines -s training.model_dir=lines -s training.updates=1");
    double alone = loss_of_text("");
    cr_expect_float_eq(loss_of_text("--with run"), alone, 1e-4, "with itself");
    cr_expect_gt(fabs(loss_of_text("--with other") - alone), 1e-3);
    const char *text = run_ok("qkv complete run 'the' --max-length 40");
    cr_expect_str_eq(run_ok("qkv complete run 'the' --max-length 40 --with run"), text);
    cr_expect_str_neq(run_ok("qkv complete other 'the' --max-length 40"), text);
    cr_expect(fails(run("qkv complete run 'the' --with lines"), 2,
                    "lines: data.text is lines, but of run it is running"));
}

/* ---- the page, in a browser ---- */

/* Trains the text of this form, and opens the page of the run. */
static void open_page(const char *name, const char *form, const char *fragment)
{
    skip_without_browser();
    enter_text(name, "");
    run_ok("qkv train c.yaml -q -s training.updates=150 -s training.learning_rate=0.01 %s", form);
    browser_open("run --numbers float32 --sentence 'the cat'", fragment);
}

/* The forced pass of the steps gives the probabilities of decoding, at temperature 1. */
static void expect_forced(void)
{
    wait_until("isSettled() && state.walk");
    double difference = number_of(
        "(step => Math.max(...state.view.target_outputs.map((word, row) => Math.abs(valueAt(step, row, "
        "step.columnNames.indexOf(word)) - state.view.probabilities[row]))))(stepOf('probabilities'))");
    cr_expect_lt(difference, 1e-5);
}

PageTest(language_model, page_writes_what_complete_writes)
{
    open_page("page", "-s data.context=16", "length=8");
    EXPECT_TEXT("model",
                "decoder of 1 layer with 2 heads; 2,817 parameters in float32, trained for 150 updates");
    expect_printed("target", "qkv complete run 'the cat' --max-length 8");
    EXPECT_VALUE("count('.word.given')", "7");
    cr_expect(shows(text_of("next-words"), "Word 8, given “t h e ▁ c a t”"));
    choose("length", "40");
    expect_printed("target", "qkv complete run 'the cat' --max-length 40");
    choose("beam", "sample");
    expect_printed("target", "qkv complete run 'the cat' --max-length 40 --sample --seed 1");
    choose("temperature", "0.5");
    click("another");
    expect_printed("target",
                   "qkv complete run 'the cat' --max-length 40 --sample --seed 2 --temperature 0.5");
    cr_expect(shows(value_of("location.hash"), "seed=2&temperature=0.5&length=40"));
    EXPECT_VALUE("['own-row', 'train', 'translations'].map(id => element(id).checkVisibility()).join()",
                 "false,false,false");
    open_page("page_lines", "-s data.text=lines", "");
    expect_printed("target", "qkv complete run 'the cat' --max-length 24");
    EXPECT_VALUE("state.view.target_outputs.at(-1)", "</s>");
    choose("source", "");
    expect_printed("target", "qkv complete run --max-length 24 </dev/null");
}

/* The maps are those of the command line. What the model no longer reads is not shown, and its tokens keep their numbers. */
PageTest(language_model, page_shows_where_each_token_looks)
{
    open_page("page_maps", "-s data.context=16", "length=8&head=decoder-1-2&steps=1");
    const cJSON *rows =
        json_at(json_by("qkv attention run '%s' -f json", text_of("target")), "maps.1.weights");
    for (int i = 0; i < 15 * 15; i++)
        cr_expect_float_eq(number_of("selectedHead().weights[%d]", i),
                           i % 15 > i / 15 ? -1 : json_cell(rows, i / 15, i % 15), 1e-5, "%d", i);
    expect_forced();
    choose("length", "30");
    EXPECT_VALUE("`${state.view.before} ${state.view.given} ${state.view.target_outputs.length}`", "24 0 13");
    EXPECT_TEXT("own-score", "of this text, the model reads what follows word 24");
    EXPECT_VALUE("at('silence-word-0').previousSibling.dataset.name", "25");
    expect_forced();
}

/* Nothing attends to a silent token, neither in the maps nor when the model writes. */
PageTest(language_model, page_silences_tokens_and_heads)
{
    open_page("page_silence", "-s data.context=16", "length=8&steps=1");
    char *before = text_of("target");
    run_script("at('target-word-4').focus()");
    press("s");
    EXPECT_TEXT("silent-words", "silent: “c”. Nothing attends to a silent word.");
    EXPECT_VALUE("state.view.heads.every(({ weights, columns }) => weights.every((weight, i) => "
                 "isHidden(weight) === (i % columns > Math.floor(i / columns) || i % columns === 5)))",
                 "true");
    expect_forced();
    click("words-speak");
    wait_until("isSettled() && !state.silentWords");
    EXPECT_TEXT("target", before);
    run_script("at('head-decoder-1-1').focus()");
    press("s");
    wait_until("isSettled() && state.silent");
    expect_forced();
}
