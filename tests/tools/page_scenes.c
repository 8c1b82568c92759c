/* qkv page without a run: the scenes of the tutorials, with the numbers of `qkv explain`, and scenes of one's own. */
#include "browser_steps.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* The page computes in float32 and qkv explain in float64. */
#define TOLERANCE 2e-6

static struct browser *opened(const char *folder, const char *scenes, const char *fragment)
{
    skip_without_browser();
    run_ok("cd '%s' && qkv page %s", folder, scenes);
    return browser_open_page(folder, fragment);
}

/* Waits until the page shows the scene of that file. */
static void wait_for(struct browser *browser, const char *file)
{
    browser_wait(browser, format("isSettled() && state.walk && scenes[state.scene].file === '%s'", file));
}

Test(page_scenes, are_all_in_the_page_with_the_numbers_of_explain)
{
    const char *folder = scratch("scenes");
    struct browser *browser = opened(folder, "", "");
    int count = atoi(browser_value(browser, "String(scenes.length)"));
    cr_expect_str_eq(run_ok("ls '%s'/configs/seeds/*.yaml | wc -l", QKV_SOURCE_DIR), format("%d\n", count));
    for (int i = 0; i < count; i++) {
        char *file = browser_value(browser, format("scenes[%d].file", i));
        browser_value(browser, format("element('scene-choice').value = %d, "
                                      "element('scene-choice').dispatchEvent(new Event('change')), ''",
                                      i));
        wait_for(browser, file);
        browser_expect_steps(
            browser, run_ok("qkv explain '%s/configs/seeds/%s' --full --format json", QKV_SOURCE_DIR, file),
            file, TOLERANCE);
    }
    cr_expect_str_eq(browser_value(browser, "String(new Set(scenes.map(scene => scene.tutorial)).size)"), "4",
                     "two of the five tutorials compute the same");
    browser_close(browser);
}

Test(page_scenes, draw_new_random_numbers)
{
    const char *folder = scratch("random");
    struct browser *browser =
        opened(folder, "", "scene=simple_attention_two_heads.yaml&seed=7&head=cross-1-2");
    wait_for(browser, "simple_attention_two_heads.yaml");
    browser_expect_steps(browser,
                         run_ok("qkv explain '%s/configs/seeds/simple_attention_two_heads.yaml' "
                                "-s random.seed=7 --full --format json",
                                QKV_SOURCE_DIR),
                         "seed 7", TOLERANCE);
    cr_expect_str_eq(browser_text(browser, "map-title"), "Attention weights, head 2");
    cr_expect_not_null(strstr(browser_text(browser, "numbers"), "seed 7: nothing was learned"));
    browser_click(browser, "draw");
    browser_wait(browser, "isSettled() && state.seed !== null && state.seed !== 7");
    char *seed = browser_value(browser, "String(state.seed)");
    cr_expect_not_null(strstr(browser_value(browser, "location.hash"), format("seed=%s", seed)));
    browser_expect_steps(browser,
                         run_ok("qkv explain '%s/configs/seeds/simple_attention_two_heads.yaml' "
                                "-s random.seed=%s --full --format json",
                                QKV_SOURCE_DIR, seed),
                         "another seed", TOLERANCE);
    browser_click(browser, "own-numbers");
    browser_wait(browser, "isSettled() && state.seed === null");
    cr_expect_not_null(strstr(browser_text(browser, "numbers"), "drawn with seed 456"));
    cr_expect_null(strstr(browser_value(browser, "location.hash"), "seed="));
    browser_close(browser);
}

Test(page_scenes, show_sums_masks_and_numbers)
{
    const char *folder = scratch("sums");
    struct browser *browser = opened(folder, "", "scene=general_attention.yaml");
    wait_for(browser, "general_attention.yaml");
    cr_expect_str_eq(browser_value(browser, "element('learning-strip').offsetParent === null && "
                                            "element('source').offsetParent === null ? 'no' : 'yes'"),
                     "no", "nothing of a run is shown");
    /* queries [0, 2] is the first word's vector, 1 0 0, times the last column of W_Q. */
    cr_expect_str_eq(browser_value(browser, "[...document.querySelectorAll('[data-test=cells-queries] "
                                            ".step-numbers span')].slice(0, 3).map(cell => cell.textContent)"
                                            ".join()"),
                     "2,0,2");
    browser_value(browser, "document.querySelector('[data-test=cells-queries]').focus(), ''");
    browser_press(browser, "ArrowRight");
    browser_press(browser, "ArrowRight");
    browser_press(browser, "Enter");
    browser_wait(browser, "isSettled() && state.terms?.of.name === 'queries'");
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(state.terms.terms)"),
                     "[[\"1\",1,2,2],[\"2\",0,0,0],[\"3\",0,2,0]]");
    browser_value(browser,
                  "goToScene(scenes.findIndex(({ file }) => file === 'attention_explained_window.yaml'), "
                  "null), ''");
    wait_for(browser, "attention_explained_window.yaml");
    cr_expect_str_eq(browser_value(browser, "String(state.terms)"), "null",
                     "the sum of another scene is gone");
    cr_expect_str_eq(browser_value(browser,
                                   "['cell-0-3', 'cell-0-2'].map(name => document.querySelector("
                                   "`[data-test=${name}]`).classList.contains('hidden-cell')).join()"),
                     "true,false");
    browser_value(browser,
                  "goToScene(scenes.findIndex(({ file }) => file === 'attention_explained_softmax.yaml'), "
                  "null), ''");
    wait_for(browser, "attention_explained_softmax.yaml");
    cr_expect_str_eq(browser_text(browser, "numbers"), "nothing in this scene is random");
    cr_expect_str_eq(browser_value(browser, "String(element('draw').disabled)"), "true");
    browser_close(browser);
}

Test(page_scenes, of_ones_own_may_hold_any_text)
{
    const char *folder = scratch("own");
    write_text(folder, "a.yaml",
               "name: </script><img src=x onerror=alert(1)>\n"
               "about: <b>bold</b>\n"
               "tokens: [\"</script><img/onerror=alert(1)/src=x>\", \"&amp;\"]\n"
               "embeddings: {from: random, width: 4}\n"
               "follow: [\"&amp;\"]\n");
    write_text(folder, "b.yaml", "tokens: [x]\nembeddings: {from: random, width: 2}\n");
    struct browser *browser = opened(folder, "a.yaml b.yaml", "scene=none&seed=-1&head=nothing");
    wait_for(browser, "a.yaml");
    cr_expect_str_eq(
        browser_value(browser, "state.seed === null ? element('scene-name').textContent : 'seed'"),
        "</script><img src=x onerror=alert(1)>");
    cr_expect_str_eq(browser_value(browser, "state.view.target_outputs.join()"), "&amp;");
    cr_expect_str_eq(browser_value(browser, "state.view.source_tokens[0]"),
                     "</script><img/onerror=alert(1)/src=x>");
    browser_expect_steps(browser, run_ok("cd '%s' && qkv explain a.yaml --full --format json", folder),
                         "a.yaml", TOLERANCE);
    cr_expect_str_eq(browser_value(browser, "scenes[1].name + (scenes[1].tutorial ?? '')"), "b.yaml");
    browser_close(browser);
}

Test(page_scenes, say_what_is_wrong_and_write_nothing)
{
    if (!has_page()) cr_skip_test("this build has no page");
    const char *folder = tiny_task("refused");
    run_ok("cd '%s' && qkv train c.yaml --quiet --threads 1", folder);
    write_text(folder, "bad.yaml", "tokens: [x]\nembedings: {from: random}\n");
    write_text(folder, "learned.yaml", "tokens: [a]\nembeddings: {from: learned}\nrun: {path: run}\n");
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"none.yaml", "qkv: none.yaml: there is no such run, and no such scene"},
        {"bad.yaml", "bad.yaml:2:1: unknown key embedings; did you mean embeddings"},
        {"learned.yaml", "learned.yaml:3:7: trained numbers cannot be in a page of scenes"},
        {"run bad.yaml", "qkv: a page holds one run, or scenes"},
        {"--sentence a", "qkv: --sentence is for runs: give a run folder"},
        {"bad.yaml --snapshots 2", "qkv: --snapshots is for runs, but bad.yaml is not a run folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct outcome outcome = run("cd '%s' && qkv page %s", folder, cases[i].arguments);
        cr_expect_eq(outcome.exit_code, 2, "%s", cases[i].arguments);
        cr_expect_not_null(strstr(outcome.error, cases[i].message), "%s: %s", cases[i].arguments,
                           outcome.error);
    }
    cr_expect_eq(run("cd '%s' && ls page.html", folder).exit_code, 2);
}
