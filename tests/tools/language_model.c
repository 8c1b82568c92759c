/* Language models: a text in each form, training, and what other commands say to such a run. */
#include "browser.h"

#include <cjson/cJSON.h>

/* Makes a folder with a text of 121 lines, 20 of them blank, and a config, and enters it. */
static void enter_text(const char *name)
{
    static char text[8192];
    size_t size = 0;
    for (int i = 0; i < 100; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "the %s %s on the %s%s\n",
                                 i % 3 ? "cat" : "dog", i % 2 ? "sat" : "lay", i % 7 ? "mat" : "log",
                                 i % 5 ? "" : "\n");
    const char *folder = enter(scratch(name));
    write_text(folder, "text.txt", text);
    write_text(
        folder, "c.yaml",
        "name: lm\n"
        "data: {train: text.txt, text: running, context: 16, dev_share: 0.2, trg: {lang: en, level: char}}\n"
        "model:\n"
        "  decoder: {type: decoder_only, num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32,\n"
        "            positions: {max_length: 64}}\n"
        "training: {model_dir: run, batch_size: 4, updates: 40, validation_freq: 20}\n");
}

static const char *hash(const char *run_name)
{
    size_t size;
    const char *bytes = read_file(format("%s/last.safetensors", run_name), &size);
    cr_assert_not_null(bytes);
    uint64_t header = 0, sum = 14695981039346656037u;
    for (int i = 7; i >= 0; i--) header = header << 8 | (unsigned char)bytes[i];
    for (size_t i = header + 8; i < size; i++) sum = (sum ^ (unsigned char)bytes[i]) * 1099511628211u;
    return format("%llx", (unsigned long long)sum);
}

Test(language_model, the_bits_depend_on_neither_threads_nor_a_break)
{
    enter_text("bits");
    const char *log = run("qkv train c.yaml --threads 1").error;
    cr_assert_not_null(strstr(log, "windows, a vocabulary of "), "%s", log);
    cr_assert_not_null(strstr(log, "bits per character "), "%s", log);
    cr_assert_null(strstr(log, "BLEU"), "%s", log);
    run_ok("qkv train c.yaml -q --threads 3 -s training.model_dir=three");
    run_ok("qkv train c.yaml -q -s training.model_dir=broken -s training.updates=30");
    run_ok("qkv train c.yaml -q -s training.model_dir=broken --resume");
    cr_assert_str_eq(hash("three"), hash("run"));
    cr_assert_str_eq(hash("broken"), hash("run"));
}

/* A fifth of the bytes, in whole lines, is for validation: 20 of 100 lines, 4 of 21 paragraphs. */
Test(language_model, each_form_of_text_trains)
{
    static const struct {
        const char *options, *units;
    } CASES[] = {
        {"-s data.text=lines", " 80 training lines, 20 dev lines, "},
        {"-s data.text=paragraphs", " 17 training paragraphs, 4 dev paragraphs, "},
        {"-s data.text=lines -s data.trg.level=word", "a vocabulary of 11, "},
    };
    enter_text("forms");
    run_ok("sed -i 's/context: 16, //' c.yaml");
    for (int i = 0; i < 3; i++) {
        const char *log = run("qkv train c.yaml --overwrite %s -s training.updates=2 -s "
                              "data.trg.max_length=200 -s model.decoder.positions.max_length=200",
                              CASES[i].options)
                              .error;
        cr_expect_not_null(strstr(log, CASES[i].units), "%s", log);
    }
}

Test(language_model, its_gradients_agree_with_differences)
{
    enter_text("gradients");
    cr_assert_eq(run("qkv gradcheck c.yaml").exit_code, 0);
    run_ok("sed -i 's/context: 16, //' c.yaml");
    cr_assert_eq(run("qkv gradcheck c.yaml -s data.text=lines").exit_code, 0);
}

Test(language_model, other_commands_refuse_it)
{
    static const char *const COMMANDS[] = {
        "translate run",
        "align run pairs.tsv",
        "page run --pairs pairs.tsv",
    };
    enter_text("refusals");
    run_ok("qkv train c.yaml -q -s training.updates=1 && printf 'a\tb\n' >pairs.tsv");
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        struct outcome outcome = run("echo the cat | qkv %s", COMMANDS[i]);
        cr_expect_eq(outcome.exit_code, 2, "%s", COMMANDS[i]);
        cr_expect_not_null(strstr(outcome.error, "run: is a language model, which "), "%s: %s", COMMANDS[i],
                           outcome.error);
    }
    cr_assert_eq(run("qkv inspect run").exit_code, 0);
    cr_assert_str_eq(run_ok("echo 'the cat' | qkv tokenize run"), "t h e ▁ c a t\n");
}

Test(language_model, wrong_configs_and_texts_are_refused)
{
    static const struct {
        const char *options, *message;
    } CASES[] = {
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
    enter_text("wrong");
    run_ok("printf '\n\n\n' >blank.txt && echo one >one.txt");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct outcome outcome = run("qkv train c.yaml -q %s", CASES[i].options);
        cr_expect_eq(outcome.exit_code, 2, "%s", CASES[i].options);
        cr_expect_not_null(strstr(outcome.error, CASES[i].message), "%s: %s", CASES[i].options,
                           outcome.error);
    }
}

/* ---- complete ---- */

/* A model that has learned its text: after "the cat" come only words of it. */
static void enter_trained(const char *name, const char *options)
{
    enter_text(name);
    run_ok("sed -i 's/context: 16, //' c.yaml && qkv train c.yaml -q -s training.updates=300 -s "
           "training.learning_rate=0.01 -s training.shards=2 %s",
           options);
}

Test(language_model, running_text_goes_on_over_windows)
{
    enter_trained("running", "-s data.context=16");
    /* A window has 16 tokens; 60 need several. */
    const char *text = run_ok("qkv complete run 'the cat' --max-length 60");
    cr_assert_eq(strncmp(text, "the cat ", 8), 0, "%s", text);
    cr_assert_not_null(strstr(text, " on the "), "%s", text);
    cr_assert_not_null(strchr(text + 8, '\n'), "%s", text);
    size_t characters =
        strlen(text) - strlen("the cat") - 1; /* each token is one; a line end may close the text */
    cr_assert(characters == 60 || characters == 59, "%zu: %s", characters, text);
    /* Greedy text does not depend on how it is asked for. */
    cr_assert_str_eq(run_ok("printf 'the cat' | qkv complete run --max-length 60 -j 1"), text);
    cr_assert_str_eq(run_ok("printf 'the cat' >start && qkv complete run --file start --max-length 60 -j 3"),
                     text);
    /* The prompt has several lines. */
    text = run_ok("qkv complete run \"$(printf 'the dog sat\nthe')\" --max-length 5");
    cr_assert_eq(strncmp(text, "the dog sat\nthe ", 16), 0, "%s", text);
}

Test(language_model, samples_depend_on_seed_and_number_alone)
{
    enter_trained("samples", "-s data.context=16");
    const char *three = run_ok("qkv complete run 'the' --sample --n 3 --max-length 40 -j 1");
    cr_assert_str_eq(run_ok("qkv complete run 'the' --sample --n 3 --max-length 40 -j 3"), three);
    const char *one = run_ok("qkv complete run 'the' --sample --max-length 40");
    cr_assert_eq(strncmp(three, one, strlen(one)), 0, "%s%s", three, one);
    cr_assert_not_null(strstr(three, "\n---\n"), "%s", three);
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
    struct outcome outcome = run("qkv complete run \"$(printf 'the\ncat')\"");
    cr_assert_eq(outcome.exit_code, 2);
    cr_assert_not_null(
        strstr(outcome.error, "the text has several lines, but the model was trained on single ones"));
    outcome = run("qkv complete run \"$(for i in $(seq 70); do printf 'the '; done)\"");
    cr_assert_eq(outcome.exit_code, 2);
    cr_assert_not_null(strstr(outcome.error, "the text has 70 tokens, but the model has positions for 62"),
                       "%s", outcome.error);
}

/* Four windows of a text of 61 tokens: the loss of evaluate is that of the validation, and log-probabilities sum to it. */
Test(language_model, evaluate_gives_bits)
{
    enter_trained("evaluate", "-s data.context=16");
    const char *scores = run_ok("printf 'the cat sat on the mat\nthe dog lay on the log\n' >test.txt && "
                                "qkv evaluate run test.txt --log-probs p.tsv");
    double loss, per_character, per_word, sum = 0;
    cr_assert_eq(sscanf(strstr(scores, "\nloss "), " loss %lf", &loss), 1);
    cr_assert_eq(sscanf(strstr(scores, "bits per character "), "bits per character %lf", &per_character), 1);
    cr_assert_eq(sscanf(strstr(scores, "bits per word "), "bits per word %lf", &per_word), 1);
    cr_assert_not_null(strstr(scores, "target tokens      46\n"), "%s", scores);
    cr_assert_float_eq(per_character, loss / log(2), 1e-3);
    cr_assert_float_eq(per_word, loss * 46 / 12 / log(2), 1e-3);
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
    enter_text("compare");
    run_ok("qkv sweep c.yaml -g model.decoder.num_heads=1,2 -q -o sweep && qkv train c.yaml -q && "
           "qkv evaluate run text.txt --json >a.json");
    const char *table = read_file("sweep/comparison.md", &(size_t){0});
    cr_assert_not_null(strstr(table, "| text.txt (dev): perplexity | text.txt (dev): bits per character |"),
                       "%s", table);
    cr_assert_null(strstr(table, "BLEU"), "%s", table);
    table = run_ok("qkv compare 'sweep/num_heads=2,seed=42' run a.json -o t.tsv >/dev/null; cat t.tsv");
    cr_assert_not_null(strstr(table, "\ttext.txt: bits per character\n"), "%s", table);
    double bits[2], whole;
    cr_assert_eq(sscanf(strchr(table, '\n') + 1, "%*s\t%*f\t%*f\t%*f\t%lf", &bits[0]), 1, "%s", table);
    cr_assert_eq(sscanf(strchr(strchr(table, '\n') + 1, '\n') + 1, "%*s\t%*f\t%*f\t%*f\t%lf\t%*f\t%lf",
                        &bits[1], &whole),
                 2, "%s", table);
    cr_assert_float_eq(bits[0], bits[1], 1e-9, "the same training");
    cJSON *evaluation RELEASED(free_json) = cJSON_Parse(read_file("a.json", &(size_t){0}));
    cr_assert_float_eq(whole, cJSON_GetObjectItem(evaluation, "bits_per_character")->valuedouble, 5e-5);
}

/* ---- init ---- */

Test(language_model, init_recognises_a_text)
{
    enter_text("init");
    run_ok("for i in 1 2 3 4 5 6; do cat text.txt; done >long.txt");
    const char *said = run_ok("qkv init long.txt --updates 3 -o sub/lm.yaml");
    cr_assert_not_null(strstr(said, "running text, "), "%s", said);
    const char *log = run("qkv train sub/lm.yaml").error;
    cr_assert_not_null(strstr(log, "done after 3 updates"), "%s", log);
    cr_assert_eq(run("qkv init long.txt --updates 3 -o sub/lm.yaml").exit_code, 2);
    cr_assert_eq(run("qkv init text.txt --updates 3").exit_code, 2, "too short");
    cr_assert_eq(run("qkv init long.txt --updates 3 --dev 4").exit_code, 2, "pairs are wanted");
}

/* ---- attention ---- */

/* Running text follows the </s> of the line before, a line follows <s>; each row sums to 1 and sees no later token. */
Test(language_model, attention_shows_where_each_token_looks)
{
    static const char *const FORMS[][2] = {{"-s data.context=16", "</s>"}, {"-s data.text=lines", "<s>"}};
    enter_text("attention");
    run_ok("sed -i 's/context: 16, //' c.yaml");
    for (int i = 0; i < 2; i++) {
        run_ok("qkv train c.yaml -q --overwrite -s training.updates=2 %s", FORMS[i][0]);
        cJSON *root RELEASED(free_json) = cJSON_Parse(run_ok("qkv attention run 'a cat' -f json"));
        const cJSON *rows = cJSON_GetObjectItem(root, "target_input"),
                    *maps = cJSON_GetObjectItem(root, "maps");
        cr_assert_eq(cJSON_GetArraySize(rows), 6);
        /* The probabilities are those of evaluate; the last next token is the most probable, or </s>. */
        const cJSON *next = cJSON_GetObjectItem(root, "next_probability"),
                    *tokens = cJSON_GetObjectItem(root, "target_output");
        const char *scores = run_ok("printf 'a cat\n' >one.txt && qkv evaluate run one.txt --log-probs p.tsv "
                                    ">/dev/null && tail -1 p.tsv | cut -f5");
        cr_assert_eq(cJSON_GetArraySize(next), 6);
        for (int t = 0; t < 5 + i; t++) {
            const double expected = exp(strtod(scores, (char **)&scores));
            cr_expect_float_eq(cJSON_GetArrayItem(next, t)->valuedouble, expected, 1e-5, "%d", t);
        }
        const char *last = cJSON_GetArrayItem(tokens, 5)->valuestring,
                   *chosen = run_ok("qkv complete run 'a cat' --max-length 1");
        if (i)
            cr_expect_str_eq(last, "</s>");
        else if (!strcmp(last, "</s>") || !strcmp(last, "▁"))
            cr_expect_str_eq(chosen, "a cat\n");
        else
            cr_expect_str_eq(chosen, format("a cat%s\n", last));
        cr_expect_not_null(strstr(run_ok("qkv attention run 'a cat'"),
                                  format("t→%s:%.2f ", last, cJSON_GetArrayItem(next, 5)->valuedouble)));
        cr_assert_str_eq(rows->child->valuestring, FORMS[i][1]);
        cr_assert_eq(cJSON_GetArraySize(maps), 2, "one layer of two heads");
        for (const cJSON *map = maps->child; map; map = map->next) {
            cr_assert_str_eq(cJSON_GetObjectItem(map, "kind")->valuestring, "decoder");
            int row = 0;
            for (const cJSON *weights = cJSON_GetObjectItem(map, "weights")->child; weights;
                 weights = weights->next, row++) {
                double sum = 0;
                int column = 0;
                for (const cJSON *weight = weights->child; weight; weight = weight->next, column++) {
                    sum += weight->valuedouble;
                    cr_assert(column <= row || weight->valuedouble <= 0, "row %d sees column %d", row,
                              column);
                }
                cr_assert_float_eq(sum, 1, 1e-5);
            }
        }
    }
    run_ok("for m in attention norms rollout flow gradient integrated zeroing erasure; do "
           "qkv attribute run 'a cat' -m $m -o $m.svg || exit 1; done");
    run_ok("qkv attribute run 'a cat' --lens && qkv attribute run 'a cat' --patch-from 'a dog' --word c");
    const char *text = run_ok("qkv attention run 'a cat'");
    cr_assert_not_null(strstr(text, "decoder attention, layer 1, mean of heads"), "%s", text);
    cr_assert_eq(run("qkv attention run 'a cat' --kind cross").exit_code, 2);
    cr_assert_eq(run("qkv attention run 'a cat' --target 'a dog'").exit_code, 2);
    text = run_ok("qkv attention run 'a cat' --words");
    cr_assert_not_null(strstr(text, "\n<s> 1.00"), "%s", text);
    cr_assert_not_null(strstr(text, "\ncat "), "%s", text);
}

/* The loss without a head is that of evaluate --without; the maps of a line are those of `qkv attention`. */
Test(language_model, heads_are_measured_on_a_text)
{
    static const char *const FORMS[] = {"-s data.context=16", "-s data.text=lines"};
    enter_text("heads");
    run_ok("sed -i 's/context: 16, //' c.yaml && head -30 text.txt >part.txt");
    for (int i = 0; i < 2; i++) {
        run_ok("qkv train c.yaml -q --overwrite -s training.updates=200 -s training.learning_rate=0.01 %s",
               FORMS[i]);
        cJSON *root RELEASED(free_json) = cJSON_Parse(run_ok("qkv heads run part.txt -f json -j 2"));
        const cJSON *heads = cJSON_GetObjectItem(root, "heads"), *first = heads->child;
        double all = cJSON_GetObjectItem(root, "loss")->valuedouble, without;
        cr_assert_eq(cJSON_GetArraySize(heads), 2);
        cr_assert_str_eq(cJSON_GetObjectItem(first, "name")->valuestring, "decoder.1.1");
        const char *scores = run_ok("qkv evaluate run part.txt --without decoder.1.1");
        cr_assert_eq(sscanf(strstr(scores, "\nloss "), " loss %lf", &without), 1);
        cr_expect_float_eq(cJSON_GetObjectItem(first, "loss")->valuedouble, without - all, 1e-4);
        cr_expect_gt(cJSON_GetObjectItem(first, "importance")->valuedouble, 0);
        for (const cJSON *head = first; head; head = head->next) {
            double next = cJSON_GetObjectItem(head, "next")->valuedouble,
                   entropy = cJSON_GetObjectItem(head, "entropy")->valuedouble;
            cr_expect(next >= 0 && next <= 0 && entropy > 0, "no token sees a later one");
            cr_expect(cJSON_IsNull(cJSON_GetObjectItem(head, "error_read")));
        }
        cJSON *one RELEASED(free_json) =
            cJSON_Parse(run_ok("echo 'a cat' >one.txt && qkv heads run one.txt -f json"));
        cJSON *maps RELEASED(free_json) = cJSON_Parse(run_ok("qkv attention run 'a cat' -f json"));
        double sum = 0;
        for (int row = 1; row < 6; row++) {
            const cJSON *weights = cJSON_GetArrayItem(
                cJSON_GetObjectItem(cJSON_GetObjectItem(maps, "maps")->child, "weights"), row);
            double largest = 0;
            for (int column = 0; column <= row; column++)
                largest = fmax(largest, cJSON_GetArrayItem(weights, column)->valuedouble);
            sum += largest;
        }
        cr_expect_float_eq(
            cJSON_GetObjectItem(cJSON_GetObjectItem(one, "heads")->child, "sharpness")->valuedouble, sum / 5,
            1e-5);
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
    for (const cJSON *head = cJSON_GetObjectItem(root, "heads")->child; head; head = head->next)
        value = fmax(value, cJSON_GetObjectItem(head, name)->valuedouble);
    return value;
}

Test(language_model, repeats_are_measured_in_heads_and_drawn_over_training)
{
    enter_text("repeats");
    run_ok("sed -i 's/num_layers: 1/num_layers: 2/' c.yaml && head -9 text.txt >part.txt");
    run_ok("qkv train c.yaml -q -s training.snapshots=3");
    cJSON *root RELEASED(free_json) = cJSON_Parse(run_ok("qkv heads run part.txt -f json"));
    cr_expect_eq(cJSON_GetObjectItem(root, "repeat")->valuedouble, 7, "15 characters of context are 7 twice");
    cr_expect_eq(cJSON_GetObjectItem(root, "sequences")->valuedouble, 20);
    double loss = cJSON_GetObjectItem(root, "second_loss")->valuedouble;
    const cJSON *head = cJSON_GetObjectItem(root, "heads")->child;
    cJSON *silent RELEASED(free_json) = cJSON_Parse(run_ok("qkv heads run part.txt -f json --repeat 7"));
    cr_expect_eq(cJSON_GetObjectItem(silent, "second_loss")->valuedouble, loss, "7 is the default");
    cr_expect_neq(cJSON_GetObjectItem(head, "second_loss")->valuedouble, 0);
    cr_expect_neq(cJSON_GetObjectItem(head, "best_matching")->valuedouble, best(root, "prefix_matching"));
    for (; head; head = head->next) {
        double matching = cJSON_GetObjectItem(head, "prefix_matching")->valuedouble;
        cr_expect(matching > 0 && matching < 1);
        if (cJSON_GetObjectItem(head, "layer")->valuedouble > 1) /* no head comes after it */
            cr_expect_float_eq(cJSON_GetObjectItem(head, "best_matching")->valuedouble,
                               best(root, "prefix_matching"), 1e-12);
    }
    const char *text = run_ok("qkv heads run part.txt -q --repeat 5 --sequences 3");
    cr_expect_not_null(strstr(text, "\nOn 3 random sequences of 5 tokens that come twice: loss "), "%s",
                       text);
    cr_expect_not_null(strstr(text, "\nhead         matching previous 2nd loss   best\ndecoder.1.1 "), "%s",
                       text);
    cr_assert(fails(run("qkv heads run part.txt --repeat 32"), 2,
                    "run: a random sequence of 32 tokens cannot come twice: the model has 64 positions"));
    run_ok("qkv plot run --show second_loss,prefix_matching,previous_token -o p.svg && "
           "grep -q 'prefix-matching score of the best head' p.svg");
    text = run_ok("qkv plot run --x time --show second_loss");
    cr_expect_not_null(strstr(text, "loss of the second repetition"), "%s", text);
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
        cJSON *root RELEASED(free_json) = cJSON_Parse(run_ok("qkv heads run test.txt --repeat 8 -f json"));
        const cJSON *first = cJSON_GetObjectItem(root, "heads")->child;
        double matching = best(root, "prefix_matching");
        cr_expect(layers == 2 ? matching > 0.9 : matching < 0.4, "%d layers: %g", layers, matching);
        cr_expect_lt(cJSON_GetObjectItem(first, "best_matching")->valuedouble, 0.4, "layer 2 needs layer 1");
        cr_expect_gt(cJSON_GetObjectItem(first, "second_loss")->valuedouble, 0.5);
    }
}

Test(language_model, film_and_explain_show_its_own_attention)
{
    enter_text("film");
    run_ok("qkv train c.yaml -q -s training.snapshots=2");
    run_ok("qkv film run 'the cat' -q -o f.png && qkv film run 'the cat' -q --words -o w.png");
    const char *walk = run_ok("qkv explain run 'the cat' -f json");
    cr_assert_not_null(strstr(walk, "\"probabilities\""), "%s", walk);
    cr_assert_not_null(strstr(walk, "\"kind\":\t\"decoder\""), "%s", walk);
    struct outcome outcome = run("qkv explain run 'the cat' --kind cross");
    cr_assert(fails(outcome, 2, "the model has no cross attention"), "%s", outcome.error);
}

/* Two runs together: the mean of their probabilities, in evaluate and in what they write. */
Test(language_model, several_models_work_together)
{
    double loss, alone;
    enter_trained("with", "-s data.context=16");
    run_ok("qkv train c.yaml -q -s data.context=16 -s training.model_dir=other -s training.updates=20");
    run_ok("qkv train c.yaml -q -s data.text=lines -s training.model_dir=lines -s training.updates=1");
    cr_assert_eq(sscanf(strstr(run_ok("qkv evaluate run text.txt"), "\nloss "), " loss %lf", &alone), 1);
    cr_assert_eq(
        sscanf(strstr(run_ok("qkv evaluate run text.txt --with run"), "\nloss "), " loss %lf", &loss), 1);
    cr_expect_float_eq(loss, alone, 1e-4, "with itself");
    cr_assert_eq(
        sscanf(strstr(run_ok("qkv evaluate run text.txt --with other"), "\nloss "), " loss %lf", &loss), 1);
    cr_expect_gt(fabs(loss - alone), 1e-3);
    const char *text = run_ok("qkv complete run 'the' --max-length 40");
    cr_expect_str_eq(run_ok("qkv complete run 'the' --max-length 40 --with run"), text);
    cr_expect_str_neq(run_ok("qkv complete other 'the' --max-length 40"), text);
    struct outcome outcome = run("qkv complete run 'the' --with lines");
    cr_expect(fails(outcome, 2, "lines: data.text is lines, but of run it is running"), "%s", outcome.error);
}

/* ---- the page, in a browser ---- */

/* Trains the text of this form, and opens the page of the run. */
static void open_page(const char *name, const char *form, const char *fragment)
{
    skip_without_browser();
    enter_text(name);
    run_ok("sed -i 's/context: 16, //' c.yaml && qkv train c.yaml -q -s training.updates=150 -s "
           "training.learning_rate=0.01 %s",
           form);
    browser_open("run --numbers float32 --sentence 'the cat'", fragment);
}

static void expect_completion(const char *options)
{
    wait_until("isSettled()");
    cr_expect_str_eq(format("%s\n", text_of("target")), run_ok("qkv complete run 'the cat' %s", options));
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
                "decoder of 1 layer with 2 heads; 2817 parameters in float32, trained for 150 updates");
    expect_completion("--max-length 8");
    EXPECT_VALUE("count('.word.given')", "7");
    cr_expect(shows(text_of("next-words"), "Word 8, given “t h e ▁ c a t”"));
    choose("length", "40");
    expect_completion("--max-length 40");
    choose("beam", "sample");
    expect_completion("--max-length 40 --sample --seed 1");
    choose("temperature", "0.5");
    click("another");
    expect_completion("--max-length 40 --sample --seed 2 --temperature 0.5");
    cr_expect(shows(value_of("location.hash"), "seed=2&temperature=0.5&length=40"));
    EXPECT_VALUE("['own-row', 'train', 'translations'].map(id => element(id).checkVisibility()).join()",
                 "false,false,false");
    open_page("page_lines", "-s data.text=lines", "");
    expect_completion("--max-length 24");
    EXPECT_VALUE("state.view.target_outputs.at(-1)", "</s>");
    choose("source", "");
    wait_until("isSettled() && !state.source");
    cr_expect_str_eq(format("%s\n", text_of("target")),
                     run_ok("qkv complete run --max-length 24 </dev/null"));
}

/* The maps are those of the command line. What the model no longer reads is not shown, and its tokens keep their numbers. */
PageTest(language_model, page_shows_where_each_token_looks)
{
    open_page("page_maps", "-s data.context=16", "length=8&head=decoder-1-2&steps=1");
    cJSON *root RELEASED(free_json) =
        cJSON_Parse(run_ok("qkv attention run '%s' -f json", text_of("target")));
    cr_assert_not_null(root, "the text is one line");
    const cJSON *rows =
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(root, "maps"), 1), "weights");
    for (int i = 0; i < 15 * 15; i++) {
        double weight = cJSON_GetArrayItem(cJSON_GetArrayItem(rows, i / 15), i % 15)->valuedouble;
        double shown = number_of("selectedHead().weights[%d]", i);
        cr_expect_float_eq(shown, i % 15 > i / 15 ? -1 : weight, 1e-5, "%d", i);
    }
    expect_forced();
    choose("length", "30");
    wait_until("isSettled()");
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
    wait_until("isSettled() && state.silentWords === '5'");
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
