/* Training in the page, against the numbers of `qkv train`. */
#include "browser.h"
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The loss of an update differs by rounding alone: WebAssembly has no fused multiply-add. After 40 updates the greatest
 * difference was 2.2e-7 nats per word. */
#define TOLERANCE 1e-5
enum { UPDATES = 40 };

/* A page of any run: training does not depend on its model. */
static struct browser *opened(const char **folder)
{
    skip_without_browser();
    *folder = scratch("page_training");
    run_ok("cd '%s' && qkv generate reverse -o data --symbols 10 --shortest 3 --longest 8 --longest-test 8 "
           "--train 2000 --dev 1 --test 1",
           *folder);
    write_text(
        *folder, "c.yaml",
        "name: page\n"
        "data: {train: data/train.tsv, src: {lang: source}, trg: {lang: target}}\n"
        "model:\n"
        "  encoder: {num_layers: 1, num_heads: 2, hidden_size: 32, ff_size: 64, dropout: 0, attention: "
        "{dropout: 0}, embeddings: {dropout: 0}}\n"
        "  decoder: {num_layers: 1, num_heads: 1, hidden_size: 32, ff_size: 64, dropout: 0, attention: "
        "{dropout: 0}, embeddings: {dropout: 0}}\n"
        "training: {model_dir: run, random_seed: 5, learning_rate: 0.005, batch_size: 32, shards: 1, "
        "logging_freq: 1}\n");
    run_ok("cd '%s' && qkv train c.yaml --quiet --threads 1 -s training.updates=%d", *folder, UPDATES);
    run_ok("cd '%s' && qkv page run --sentence '1 2'", *folder);
    struct browser *browser = browser_open_page(*folder, "");
    browser_value(browser, "document.querySelector('[data-test=train]').scrollIntoView()");
    browser_wait(browser, "training.view !== null && training.isDrawn");
    return browser;
}

/* Sets a field and tells the page, as its user would by leaving it. */
static void set(struct browser *browser, const char *name, const char *value)
{
    browser_value(browser, format("(field => { field.value = `%s`; for (const type of ['input', 'change']) "
                                  "field.dispatchEvent(new Event(type)); return ''; })"
                                  "(document.querySelector('[data-test=%s]'))",
                                  value, name));
}

static void train_until(struct browser *browser, int updates)
{
    browser_click(browser, "train-go");
    browser_wait(browser, format("training.losses.length >= %d", updates));
    browser_click(browser, "train-go");
    cr_expect_str_eq(browser_text(browser, "train-go"), "go on");
}

/* Asks for the maps of another sentence and waits for them. The worker answers in order: what was asked before is done. */
static char *updates_after_answer(struct browser *browser, const char *sentence)
{
    set(browser, "train-sentence", sentence);
    browser_wait(browser,
                 format("training.view.source_tokens.join(' ').replace(' </s>', '') === '%s'", sentence));
    return browser_value(browser, "training.losses.length");
}

Test(page_training, has_the_losses_of_qkv_train)
{
    const char *folder;
    struct browser *browser = opened(&folder);
    set(browser, "train-seed", "5");
    set(browser, "train-rate", "-2.3");
    browser_wait(browser, "training.view !== null");
    cr_expect_str_eq(browser_value(browser, "rateOfTraining()"), "0.005");
    train_until(browser, UPDATES);
    char *line = strtok(read_file(format("%s/run/metrics.jsonl", folder), NULL), "\n");
    for (int i = 0; i < UPDATES; i++, line = strtok(NULL, "\n")) {
        cJSON *object = cJSON_Parse(line);
        double expected = cJSON_GetObjectItem(object, "loss")->valuedouble,
               loss = atof(browser_value(browser, format("training.losses[%d]", i)));
        cr_expect_float_eq(loss, expected, TOLERANCE, "update %d: %.9f, but %.9f", i + 1, loss, expected);
        cJSON_Delete(object);
    }
    browser_close(browser);
}

Test(page_training, stops_goes_on_and_begins_again_from_another_seed)
{
    const char *folder;
    struct browser *browser = opened(&folder);
    char *random = browser_value(browser, "training.view.heads.at(-1).weights.join()");
    cr_expect_str_eq(browser_text(browser, "train-update"), "update 0: random");
    train_until(browser, 10);
    browser_wait(browser, "!training.running && training.isDrawn");
    cr_expect_str_neq(browser_value(browser, "training.view.heads.at(-1).weights.join()"), random);
    char *stopped_at = updates_after_answer(browser, "1 2");
    cr_expect_str_eq(updates_after_answer(browser, "2 1"), stopped_at, "stopped");
    int stopped = atoi(stopped_at);
    char *first = browser_value(browser, "training.losses[0]");
    set(browser, "train-rate", "-3");
    train_until(browser, stopped + 5);
    cr_expect_str_eq(browser_value(browser, "training.losses[0]"), first, "the curve goes on");
    browser_click(browser, "train-again");
    browser_wait(browser, "training.view !== null && training.losses.length === 0");
    cr_expect_str_neq(browser_value(browser, "training.view.heads.at(-1).weights.join()"), random);
    train_until(browser, 5);
    cr_expect_str_neq(browser_value(browser, "training.losses[0]"), first);
    cr_expect_str_eq(browser_value(browser, "training.earlier[0]"), first, "the curve before stays");
    set(browser, "train-seed", "1");
    browser_wait(browser, "training.view !== null && training.losses.length === 0");
    cr_expect_str_eq(browser_value(browser, "training.view.heads.at(-1).weights.join()"), random);
    train_until(browser, 1);
    cr_expect_str_eq(browser_value(browser, "training.losses[0]"), first, "a seed is a model");
    browser_close(browser);
}

/* However fast one stops and goes on, one slice of updates follows another: of two timers each would start a row of slices. */
Test(page_training, has_one_timer)
{
    const char *folder;
    struct browser *browser = opened(&folder);
    cr_expect_str_eq(
        browser_value(browser,
                      "(() => { const timers = new Set(), code = element('train-worker').textContent; "
                      "let made = 0; const calls = new Function('setTimeout', 'clearTimeout', 'onmessage', "
                      "`${code}\nreturn TRAINING_CALLS`)(() => (timers.add(++made), made), "
                      "timer => timers.delete(timer)); "
                      "for (const call of ['go', 'stop', 'go']) calls[call]({ rate: 1 }); "
                      "return String(timers.size) })()"),
        "1");
    browser_close(browser);
}

/* The button for another seed neither stops a training that runs nor starts one that does not. */
Test(page_training, goes_on_from_another_seed)
{
    const char *folder;
    struct browser *browser = opened(&folder);
    browser_click(browser, "train-go");
    browser_wait(browser, "training.losses.length > 20");
    char *first = browser_value(browser, "training.losses[0]");
    browser_click(browser, "train-again");
    cr_expect_str_eq(browser_text(browser, "train-go"), "stop");
    browser_wait(browser, format("training.losses.length > 20 && training.losses[0] !== %s", first));
    browser_click(browser, "train-go");
    cr_expect_str_eq(browser_text(browser, "train-go"), "go on");
    char *stopped_at = updates_after_answer(browser, "1 2");
    cr_expect_str_eq(updates_after_answer(browser, "2 1"), stopped_at, "stopped");
    cr_expect_str_eq(browser_value(browser, "lossText([0.25, 0.75])"), "0.500");
    cr_expect_str_eq(browser_value(browser, "lossText([0.0001])"), "<0.001");
    browser_close(browser);
}

Test(page_training, names_the_line_of_a_bad_pair_and_trains_on_pasted_ones)
{
    const char *folder;
    struct browser *browser = opened(&folder);
    set(browser, "train-pairs", "one\\tuno\\ntwo dos\\nthree\\ttres");
    browser_wait(browser, "document.querySelector('.wrong')");
    cr_expect_str_eq(browser_text(browser, "train-message"),
                     "pairs.tsv:2:8: the line has no tab; a line is source<TAB>target");
    cr_expect_str_eq(browser_value(browser, "document.getElementById('train-go').disabled"), "true");
    set(browser, "train-pairs", "one\\tuno\\n\\ttres");
    browser_wait(browser, "document.getElementById('train-message').textContent.startsWith('pairs.tsv:2:1')");
    set(browser, "train-pairs", "");
    browser_wait(browser, "document.getElementById('train-message').textContent.includes('empty')");
    set(browser, "train-pairs", "<b>one</b>\\t<i>uno</i>\\ntwo <img/src=x>\\tdos <img/src=x>");
    browser_wait(browser, "training.view !== null");
    cr_expect_str_empty(browser_text(browser, "train-message"));
    train_until(browser, 60);
    updates_after_answer(browser, "two <img/src=x>");
    updates_after_answer(browser, "<b>one</b>");
    browser_wait(browser, "training.isDrawn");
    cr_expect_str_eq(browser_text(browser, "train-translation"), "<i>uno</i>");
    set(browser, "train-sentence", "");
    set(browser, "train-sentence", "unknown <img/src=x>");
    browser_wait(browser, "training.view.source_tokens[0] === 'unknown'");
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('b, i, img').length"), "0");
    browser_close(browser);
}

/* The model of the page translates while the other is trained. */
Test(page_training, leaves_the_page_usable)
{
    const char *folder;
    struct browser *browser = opened(&folder);
    browser_click(browser, "train-go");
    browser_wait(browser, "training.losses.length > 3");
    browser_value(browser, "(change({source: '3 4 5'}), ask(), '')");
    browser_wait(browser, "isSettled() && state.view.source_tokens[0] === '3'");
    cr_expect_str_eq(browser_value(browser, "training.running"), "true");
    browser_close(browser);
}
