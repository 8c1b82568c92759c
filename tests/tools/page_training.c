/* Training in the page, against the numbers of `qkv train`. */
#include "browser.h"
#include "json.h"

/* The loss of an update differs by rounding alone: WebAssembly has no fused multiply-add. After 40 updates the greatest
 * difference was 2.2e-7 nats per word. */
#define TOLERANCE 1e-5
enum { UPDATES = 40 };

/* A page of any run: training does not depend on its model. */
static void opened(void)
{
    skip_without_browser();
    enter(scratch("page_training"));
    run_ok("qkv generate reverse -o data --symbols 10 --shortest 3 --longest 8 --longest-test 8 --train 2000 "
           "--dev 1 --test 1");
    write_config("train: data/train.tsv, src: {lang: source}, trg: {lang: target}",
                 "num_layers: 1, num_heads: 2, hidden_size: 32, ff_size: 64, " NO_DROPOUT,
                 "num_layers: 1, num_heads: 1, hidden_size: 32, ff_size: 64, " NO_DROPOUT,
                 "random_seed: 5, learning_rate: 0.005, batch_size: 32, shards: 1, logging_freq: 1");
    browser_open_run(format("-s training.updates=%d", UPDATES), "--sentence '1 2'", "");
    run_script("at('train').open = true");
    wait_until("training.view !== null && training.isDrawn");
}

static void train_until(int updates)
{
    click("train-go");
    wait_until("training.losses.length >= %d", updates);
    click("train-go");
    EXPECT_TEXT("train-go", "go on");
}

/* Asks for the maps of another sentence and waits for them. The worker answers in order: what was asked before is done. */
static char *updates_after_answer(const char *sentence)
{
    choose("train-sentence", sentence);
    wait_until("training.view.source_tokens.join(' ').replace(' </s>', '') === '%s'", sentence);
    return value_of("training.losses.length");
}

/* Returns the number of updates, which grows no longer. */
static int expect_stopped(void)
{
    char *updates = updates_after_answer("1 2");
    cr_expect_str_eq(updates_after_answer("2 1"), updates, "stopped");
    return atoi(updates);
}

static const char WEIGHTS[] = "training.view.heads.at(-1).weights.join()";

PageTest(page_training, has_the_losses_of_qkv_train)
{
    opened();
    choose("train-seed", "5");
    choose("train-rate", "-2.3");
    wait_until("training.view !== null");
    EXPECT_VALUE("rateOfTraining()", "0.005");
    train_until(UPDATES);
    char *rest, *line = strtok_r(read_file("run/metrics.jsonl", NULL), "\n", &rest);
    for (int i = 0; i < UPDATES; i++, line = strtok_r(NULL, "\n", &rest)) {
        const cJSON *object = remember(json_parsed(line));
        double expected = json_number(object, "loss"), loss = number_of("training.losses[%d]", i);
        cr_expect_float_eq(loss, expected, TOLERANCE, "update %d: %.9f, but %.9f", i + 1, loss, expected);
    }
}

PageTest(page_training, stops_goes_on_and_begins_again_from_another_seed)
{
    opened();
    char *random = value_of("%s", WEIGHTS);
    EXPECT_TEXT("train-update", "update 0: random");
    train_until(10);
    wait_until("!training.running && training.isDrawn");
    cr_expect_str_neq(value_of("%s", WEIGHTS), random);
    int stopped = expect_stopped();
    char *first = value_of("training.losses[0]");
    choose("train-rate", "-3");
    train_until(stopped + 5);
    EXPECT_VALUE("training.losses[0]", first); /* the curve goes on */
    click("train-again");
    wait_until("training.view !== null && training.losses.length === 0");
    cr_expect_str_neq(value_of("%s", WEIGHTS), random);
    /* The button for another seed neither starts a training nor stops one that runs, in which the model of the page
     * translates. */
    click("train-go");
    wait_until("training.losses.length > 5 && training.losses[0] !== %s", first);
    EXPECT_VALUE("training.earlier[0]", first); /* the curve before stays */
    char *second = value_of("training.losses[0]");
    click("train-again");
    EXPECT_TEXT("train-go", "stop");
    wait_until("training.losses.length > 5 && training.losses[0] !== %s", second);
    run_script("(change({source: '3 4 5'}), ask())");
    wait_until("isSettled() && state.view.source_tokens[0] === '3'");
    EXPECT_TRUE("training.running");
    /* However fast one stops and goes on, one slice of updates follows another: of two timers each would start a row of
     * slices. */
    run_script("train(false), train(true), train(false)");
    EXPECT_TEXT("train-go", "go on");
    expect_stopped();
    choose("train-seed", "1");
    wait_until("training.view !== null && training.losses.length === 0");
    EXPECT_VALUE(WEIGHTS, random);
    train_until(1);
    EXPECT_VALUE("training.losses[0]", first); /* a seed is a model */
    EXPECT_VALUE("lossText([0.25, 0.75])", "0.500");
    EXPECT_VALUE("lossText([0.0001])", "<0.001");
}

PageTest(page_training, names_the_line_of_a_bad_pair_and_trains_on_pasted_ones)
{
    opened();
    choose("train-pairs", "one\\tuno\\ntwo dos\\nthree\\ttres");
    wait_until("first('.wrong')");
    EXPECT_TEXT("train-message", "pairs.tsv:2:8: the line has no tab; a line is source<TAB>target");
    EXPECT_TRUE("element('train-go').disabled");
    choose("train-pairs", "one\\tuno\\n\\ttres");
    wait_until("element('train-message').textContent.startsWith('pairs.tsv:2:1')");
    choose("train-pairs", "");
    wait_until("element('train-message').textContent.includes('empty')");
    choose("train-pairs", "<b>one</b>\\t<i>uno</i>\\ntwo <img/src=x>\\tdos <img/src=x>");
    wait_until("training.view !== null");
    EXPECT_TEXT("train-message", "");
    click("train-go"); /* next to nothing is left to learn: it ends by itself */
    wait_until("!training.running && training.losses.length >= 100");
    EXPECT_TEXT("train-message", "learned: the training has ended");
    EXPECT_TEXT("train-go", "go on");
    updates_after_answer("two <img/src=x>");
    updates_after_answer("<b>one</b>");
    wait_until("training.isDrawn");
    EXPECT_TEXT("train-translation", "<i>uno</i>");
    choose("train-sentence", "");
    choose("train-sentence", "unknown <img/src=x>");
    wait_until("training.view.source_tokens[0] === 'unknown'");
    EXPECT_VALUE("count('b, i, img')", "0");
}
