/* The learning strip of qkv page, in a real browser, against the numbers of the command line. */
#include "browser.h"
#include "json.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>

/* Trains a tiny run with snapshots of the updates 0, 2, 7 and 20, and opens its page. `options`: of qkv page. */
static void opened(const char *options, const char *fragment)
{
    browser_open_run("-s training.snapshots=4 -s training.logging_freq=10 -s training.label_smoothing=0.2 "
                     "-s training.validation_freq=5",
                     format("--numbers float32 --checkpoint last --sentence 'a b' %s", options), fragment);
}

/* Moves the slider by a key, as a reader would, and waits for the view. */
static void slide(const char *key)
{
    run_script("at('learning').focus()");
    press(key);
    wait_until("isSettled()");
}

/* The translation and every weight are those of a checkpoint on the command line. */
static void expect_checkpoint(const char *checkpoint, double tolerance)
{
    char *words = run_ok("echo a b c | qkv translate run --quiet --checkpoint %s", checkpoint);
    if (tolerance < 1e-3)
        cr_expect_str_eq(format("%s\n", value_of("at('target').textContent")), words, "%s", checkpoint);
    const cJSON *map, *line, *number,
        *report = json_by(
            "qkv attention run 'a b c' --target 'A B C' --checkpoint %s --kind all --format json 2>/dev/null",
            checkpoint);
    run_script("(change({own: 'A B C'}), ask())");
    wait_until("isSettled()");
    int compared = 0;
    double greatest = 0;
    cJSON_ArrayForEach(map, json_at(report, "maps"))
    {
        int cell = 0;
        cJSON_ArrayForEach(line, cJSON_GetObjectItem(map, "weights")) cJSON_ArrayForEach(number, line)
        {
            double shown = number_of("state.view.heads[%d].weights[%d]", compared, cell++);
            greatest = fmax(greatest, shown < 0 ? number->valuedouble : fabs(shown - number->valuedouble));
        }
        compared++;
    }
    cr_expect_geq(compared, 3);
    cr_expect_lt(greatest, tolerance, "%s differs by %g", checkpoint, greatest);
    run_script("(change({own: null}), ask())");
    wait_until("isSettled()");
}

/* What training logged at an update: the cross entropy, without label smoothing. */
static double logged_cross_entropy(int update)
{
    const cJSON *line = json_by("grep '\"train\",\"update\":%d,' run/metrics.jsonl", update);
    double cross_entropy = json_number(line, "cross_entropy");
    cr_expect_lt(cross_entropy, json_number(line, "loss") - 0.05, "smoothing makes a difference");
    return cross_entropy;
}

Test(page_learning, shows_every_snapshot_as_the_command_line_does)
{
    enter(tiny_task("slide"));
    opened("", "s=a+b+c");
    EXPECT_VALUE("count('.snapshot-data')", "0");
    expect_checkpoint("last", 1e-5);
    EXPECT_TEXT("moment", format("update 20, training loss %.4f", logged_cross_entropy(20)));
    slide("Home");
    EXPECT_TEXT("moment", "before training: random weights");
    /* The engine makes the random weights in float32; the snapshot of them has half precision. */
    expect_checkpoint("snapshot-0", 2e-3);
    slide("ArrowRight");
    cr_expect(shows(value_of("location.hash"), "update=2"));
    EXPECT_TEXT("moment", format("update 2, training loss %.4f up to update 10", logged_cross_entropy(10)));
    expect_checkpoint("snapshot-2", 1e-5);
    slide("ArrowRight");
    expect_checkpoint("snapshot-7", 1e-5);
    slide("End");
    EXPECT_VALUE("state.update", "null");
    expect_checkpoint("last", 1e-5);
    EXPECT_VALUE("first('#curve .dev').points.length", "4");
    EXPECT_VALUE("first('#curve .training').points.length", "2");
    browser_close();
}

/* The address opens the same moment; back and forward work; without snapshots there are the two ends. */
Test(page_learning, keeps_the_moment_in_the_address)
{
    enter(tiny_task("address"));
    opened("", "s=a+b&update=7");
    EXPECT_TRUE("at('moment').textContent.startsWith('update 7, ')");
    EXPECT_VALUE("at('learning').value", "2");
    run_script("(location.hash = 's=a+b&update=8')");
    wait_until("isSettled() && state.update === null");
    opened("--snapshots 0", "s=a+b+c&update=0");
    EXPECT_VALUE("at('learning').max", "1");
    EXPECT_TEXT("moment", "before training: random weights");
    expect_checkpoint("snapshot-0", 2e-3);
    opened("--snapshots 1", "");
    EXPECT_VALUE("learning.moments.map(x => x.update).join()", "0,7,20");
    browser_close();
}

/* Keeps the moment of each view that the page shows in `seen`. */
static const char RECORD[] = "window.seen = [], onChange('view', () => { seen.push(state.update); })";

/* Playing goes from the random weights to the learned ones; who wants less motion sees one moment for each press. */
Test(page_learning, plays_the_training_and_drops_moments_that_were_passed)
{
    enter(tiny_task("play"));
    opened("", "s=a+b");
    run_script("%s", RECORD);
    click("play");
    wait_until("seen.length === 4 && playing === null");
    EXPECT_VALUE("JSON.stringify(seen)", "[0,2,7,null]");
    run_script("window.matchMedia = () => ({ matches: true }), seen.length = 0");
    click("play");
    wait_until("isSettled() && seen.length === 1");
    EXPECT_VALUE("playing", "null");
    EXPECT_VALUE("state.update", "0");
    /* Sliding quickly: the strip never waits for the engine, and only the last moment is shown. */
    opened("", "s=a+b");
    run_script("%s", RECORD);
    EXPECT_VALUE("[2, 1, 0, 1].map(i => (goToMoment(i), element('learning').value)).join()", "2,1,0,1");
    wait_until("isSettled()");
    EXPECT_VALUE("JSON.stringify(seen)", "[2]");
    browser_close();
}
