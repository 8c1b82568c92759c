/* The learning strip of qkv page, in a real browser, against the numbers of the command line. */
#include "browser.h"
#include "json.h"
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Trains a tiny run with snapshots of the updates 0, 2, 7 and 20, and opens its page. `options`: of qkv page. */
static struct browser *opened(const char *folder, const char *options, const char *fragment)
{
    skip_without_browser();
    run_ok("cd '%s' && qkv train c.yaml --quiet --overwrite -s training.snapshots=4 -s "
           "training.logging_freq=10 -s training.label_smoothing=0.2 "
           "-s training.validation_freq=5",
           folder);
    run_ok("cd '%s' && qkv page run --numbers float32 --checkpoint last --sentence 'a b' %s", folder,
           options);
    struct browser *browser = browser_open_page(folder, fragment);
    return browser;
}

static char *said(struct browser *browser)
{
    return browser_value(browser, "document.querySelector('[data-test=moment]').textContent");
}

/* Moves the slider by a key, as a reader would, and waits for the view. */
static void slide(struct browser *browser, const char *key)
{
    browser_value(browser, "document.querySelector('[data-test=learning]').focus()");
    browser_press(browser, key);
    browser_wait(browser, "isSettled()");
}

/* The translation and every weight are those of a checkpoint on the command line. */
static void expect_checkpoint(struct browser *browser, const char *folder, const char *checkpoint,
                              double tolerance)
{
    char *words =
        run_ok("cd '%s' && echo a b c | qkv translate run --quiet --checkpoint %s", folder, checkpoint);
    if (tolerance < 1e-3)
        cr_expect_str_eq(
            format("%s\n",
                   browser_value(browser, "document.querySelector('[data-test=target]').textContent")),
            words, "%s", checkpoint);
    char *json = run_ok(
        "cd '%s' && qkv attention run 'a b c' --target 'A B C' --checkpoint %s --kind all --format json "
        "2>/dev/null",
        folder, checkpoint);
    browser_value(browser, "(change({own: 'A B C'}), ask())");
    browser_wait(browser, "isSettled()");
    cJSON *report = cJSON_Parse(json);
    const cJSON *map, *line, *number, *maps = cJSON_GetObjectItem(report, "maps");
    int compared = 0;
    double greatest = 0;
    cJSON_ArrayForEach(map, maps)
    {
        int cell = 0;
        cJSON_ArrayForEach(line, cJSON_GetObjectItem(map, "weights")) cJSON_ArrayForEach(number, line)
        {
            double shown =
                atof(browser_value(browser, format("state.view.heads[%d].weights[%d]", compared, cell++)));
            greatest = fmax(greatest, shown < 0 ? number->valuedouble : fabs(shown - number->valuedouble));
        }
        compared++;
    }
    cr_expect_geq(compared, 3);
    cr_expect_lt(greatest, tolerance, "%s differs by %g", checkpoint, greatest);
    cJSON_Delete(report);
    browser_value(browser, "(change({own: null}), ask())");
    browser_wait(browser, "isSettled()");
}

/* What training logged at an update: the cross entropy, without label smoothing. */
static double logged_cross_entropy(const char *folder, int update)
{
    cJSON *line =
        json_parsed(run_ok("cd '%s' && grep '\"train\",\"update\":%d,' run/metrics.jsonl", folder, update));
    double cross_entropy = json_number(line, "cross_entropy");
    cr_expect_lt(cross_entropy, json_number(line, "loss") - 0.05, "smoothing makes a difference");
    cJSON_Delete(line);
    return cross_entropy;
}

Test(page_learning, shows_every_snapshot_as_the_command_line_does)
{
    const char *folder = tiny_task("slide");
    struct browser *browser = opened(folder, "", "s=a+b+c");
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('.snapshot-data').length"), "0");
    expect_checkpoint(browser, folder, "last", 1e-5);
    cr_expect_str_eq(said(browser),
                     format("update 20, training loss %.4f", logged_cross_entropy(folder, 20)));
    slide(browser, "Home");
    cr_expect_str_eq(said(browser), "before training: random weights");
    /* The engine makes the random weights in float32; the snapshot of them has half precision. */
    expect_checkpoint(browser, folder, "snapshot-0", 2e-3);
    slide(browser, "ArrowRight");
    cr_expect_not_null(strstr(browser_value(browser, "location.hash"), "update=2"));
    cr_expect_str_eq(said(browser), format("update 2, training loss %.4f up to update 10",
                                           logged_cross_entropy(folder, 10)));
    expect_checkpoint(browser, folder, "snapshot-2", 1e-5);
    slide(browser, "ArrowRight");
    expect_checkpoint(browser, folder, "snapshot-7", 1e-5);
    slide(browser, "End");
    cr_expect_str_eq(browser_value(browser, "state.update"), "null");
    expect_checkpoint(browser, folder, "last", 1e-5);
    cr_expect_str_eq(browser_value(browser, "document.querySelector('#curve .dev').points.length"), "4");
    cr_expect_str_eq(browser_value(browser, "document.querySelector('#curve .training').points.length"), "2");
    browser_close(browser);
}

/* The address opens the same moment; back and forward work; without snapshots there are the two ends. */
Test(page_learning, keeps_the_moment_in_the_address)
{
    const char *folder = tiny_task("address");
    struct browser *browser = opened(folder, "", "s=a+b&update=7");
    cr_expect_eq(strncmp(said(browser), "update 7, ", 10), 0, "%s", said(browser));
    cr_expect_str_eq(browser_value(browser, "document.querySelector('[data-test=learning]').value"), "2");
    browser_value(browser, "(location.hash = 's=a+b&update=8')");
    browser_wait(browser, "isSettled() && state.update === null");
    browser_close(browser);
    browser = opened(folder, "--snapshots 0", "s=a+b+c&update=0");
    cr_expect_str_eq(browser_value(browser, "document.querySelector('[data-test=learning]').max"), "1");
    cr_expect_str_eq(said(browser), "before training: random weights");
    expect_checkpoint(browser, folder, "snapshot-0", 2e-3);
    browser_close(browser);
    browser = opened(folder, "--snapshots 1", "");
    cr_expect_str_eq(browser_value(browser, "learning.moments.map(x => x.update).join()"), "0,7,20");
    browser_close(browser);
}

/* Playing goes from the random weights to the learned ones; who wants less motion sees one moment for each press. */
Test(page_learning, plays_the_training)
{
    const char *folder = tiny_task("play");
    struct browser *browser = opened(folder, "", "s=a+b");
    browser_value(browser, "(() => { window.seen = []; listen(changed => { if (changed.has('view')) "
                           "seen.push(state.update); }); })()");
    browser_click(browser, "play");
    browser_wait(browser, "seen.length === 4 && playing === null");
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(seen)"), "[0,2,7,null]");
    browser_value(browser, "(() => { window.matchMedia = () => ({ matches: true }); seen.length = 0; })()");
    browser_click(browser, "play");
    browser_wait(browser, "isSettled() && seen.length === 1");
    cr_expect_str_eq(browser_value(browser, "String(playing)"), "null");
    cr_expect_str_eq(browser_value(browser, "String(state.update)"), "0");
    browser_close(browser);
}

/* Sliding quickly: the strip never waits for the engine, and only the last moment is shown. */
Test(page_learning, drops_moments_that_were_passed)
{
    const char *folder = tiny_task("fast");
    struct browser *browser = opened(folder, "", "s=a+b");
    char *shown =
        browser_value(browser, "(() => { window.seen = []; listen(changed => { if (changed.has('view')) "
                               "seen.push(state.update); }); return [2, 1, 0, 1].map(i => { goToMoment(i); "
                               "return element('learning').value; }).join(); })()");
    cr_expect_str_eq(shown, "2,1,0,1");
    browser_wait(browser, "isSettled()");
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(seen)"), "[2]");
    browser_close(browser);
}
