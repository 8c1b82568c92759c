/* qkv page without a run: the scenes of the tutorials, with the numbers of `qkv explain`, and scenes of one's own. */
#include "browser_steps.h"
#include "support.h"

#include <criterion/criterion.h>

/* The page computes in float32 and qkv explain in float64. */
#define TOLERANCE 2e-6

/* Waits until the page shows the scene of that file. */
static void wait_for(const char *file)
{
    wait_until("isSettled() && state.walk && scenes[state.scene].file === '%s'", file);
}

static void go_to(const char *file)
{
    run_script("goToScene(scenes.findIndex(scene => scene.file === '%s'), null)", file);
    wait_for(file);
}

/* The steps of a shipped scene, with these settings, are those of `qkv explain`. */
static void expect_scene(const char *file, const char *settings)
{
    expect_steps(
        run_ok("qkv explain '%s/configs/seeds/%s' %s --full --format json", QKV_SOURCE_DIR, file, settings),
        format("%s %s", file, settings), TOLERANCE);
}

Test(page_scenes, are_all_in_the_page_with_the_numbers_of_explain)
{
    enter(scratch("scenes"));
    browser_open("", "");
    int count = (int)number_of("scenes.length");
    cr_expect_str_eq(run_ok("ls '%s'/configs/seeds/*.yaml | wc -l", QKV_SOURCE_DIR), format("%d\n", count));
    for (int i = 0; i < count; i++) {
        char *file = value_of("scenes[%d].file", i);
        choose("scene-choice", format("%d", i));
        wait_for(file);
        expect_scene(file, "");
    }
    EXPECT_VALUE("new Set(scenes.map(scene => scene.tutorial)).size",
                 "4"); /* two of the five tutorials compute the same */
    browser_close();
}

Test(page_scenes, draw_new_random_numbers)
{
    enter(scratch("scenes"));
    browser_open("", "scene=simple_attention_two_heads.yaml&seed=7&head=cross-1-2");
    wait_for("simple_attention_two_heads.yaml");
    expect_scene("simple_attention_two_heads.yaml", "-s random.seed=7");
    EXPECT_TEXT("map-title", "Attention weights, head 2");
    cr_expect(shows(text_of("numbers"), "seed 7: nothing was learned"));
    click("draw");
    wait_until("isSettled() && state.seed !== null && state.seed !== 7");
    char *seed = value_of("state.seed");
    cr_expect(shows(value_of("location.hash"), format("seed=%s", seed)));
    expect_scene("simple_attention_two_heads.yaml", format("-s random.seed=%s", seed));
    click("own-numbers");
    wait_until("isSettled() && state.seed === null");
    cr_expect(shows(text_of("numbers"), "drawn with seed 456"));
    cr_expect(lacks(value_of("location.hash"), "seed="));
    browser_close();
}

Test(page_scenes, show_sums_masks_and_numbers)
{
    enter(scratch("scenes"));
    browser_open("", "scene=general_attention.yaml");
    wait_for("general_attention.yaml");
    EXPECT_VALUE("element('learning-strip').offsetParent === null && element('source').offsetParent === null "
                 "? 'no' : 'yes'",
                 "no"); /* nothing of a run is shown */
    /* queries [0, 2] is the first word's vector, 1 0 0, times the last column of W_Q. */
    EXPECT_VALUE("[...document.querySelectorAll('[data-test=cells-queries] .step-numbers span')].slice(0, "
                 "3).map(cell => cell.textContent).join()",
                 "2,0,2");
    run_script("at('cells-queries').focus()");
    press("ArrowRight ArrowRight Enter");
    wait_until("isSettled() && state.terms?.of.name === 'queries'");
    EXPECT_VALUE("JSON.stringify(state.terms.terms)", "[[\"1\",1,2,2],[\"2\",0,0,0],[\"3\",0,2,0]]");
    go_to("attention_explained_window.yaml");
    EXPECT_VALUE("state.terms", "null"); /* the sum of another scene is gone */
    EXPECT_VALUE("['cell-0-3', 'cell-0-2'].map(name => "
                 "at(name).classList.contains('hidden-cell')).join()",
                 "true,false");
    go_to("attention_explained_softmax.yaml");
    EXPECT_TEXT("numbers", "nothing in this scene is random");
    EXPECT_TRUE("element('draw').disabled");
    browser_close();
}

Test(page_scenes, of_ones_own_may_hold_any_text)
{
    enter(scratch("own"));
    write_text(".", "a.yaml",
               "name: </script><img src=x onerror=alert(1)>\n"
               "about: <b>bold</b>\n"
               "tokens: [\"</script><img/onerror=alert(1)/src=x>\", \"&amp;\"]\n"
               "embeddings: {from: random, width: 4}\n"
               "follow: [\"&amp;\"]\n");
    write_text(".", "b.yaml", "tokens: [x]\nembeddings: {from: random, width: 2}\n");
    browser_open("a.yaml b.yaml", "scene=none&seed=-1&head=nothing");
    wait_for("a.yaml");
    EXPECT_VALUE("state.seed === null ? element('scene-name').textContent : 'seed'",
                 "</script><img src=x onerror=alert(1)>");
    EXPECT_VALUE("state.view.target_outputs.join()", "&amp;");
    EXPECT_VALUE("state.view.source_tokens[0]", "</script><img/onerror=alert(1)/src=x>");
    expect_steps(run_ok("qkv explain a.yaml --full --format json"), "a.yaml", TOLERANCE);
    EXPECT_VALUE("scenes[1].name + (scenes[1].tutorial ?? '')", "b.yaml");
    browser_close();
}

Test(page_scenes, say_what_is_wrong_and_write_nothing)
{
    if (!has_page()) cr_skip_test("this build has no page");
    enter(tiny_task("refused"));
    run_ok("qkv train c.yaml --quiet --threads 1");
    write_text(".", "bad.yaml", "tokens: [x]\nembedings: {from: random}\n");
    write_text(".", "learned.yaml", "tokens: [a]\nembeddings: {from: learned}\nrun: {path: run}\n");
    static const char *const cases[][2] = {
        {"none.yaml", "qkv: none.yaml: there is no such run, and no such scene"},
        {"bad.yaml", "bad.yaml:2:1: unknown key embedings; did you mean embeddings"},
        {"learned.yaml", "learned.yaml:3:7: trained numbers cannot be in a page of scenes"},
        {"run bad.yaml", "qkv: a page holds one run, or scenes"},
        {"--sentence a", "qkv: --sentence is for runs: give a run folder"},
        {"bad.yaml --snapshots 2", "qkv: --snapshots is for runs, but bad.yaml is not a run folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect(fails(run("qkv page %s", cases[i][0]), 2, cases[i][1]), "%s", cases[i][0]);
    }
    cr_expect_eq(run("ls page.html").exit_code, 2);
}
