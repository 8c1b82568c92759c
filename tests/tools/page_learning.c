/* The learning strip of qkv page, and what it measures on sentence pairs, the effect of silence and alignment errors, in a
 * real browser, against the numbers of the command line. */
#include "browser.h"
#include "json.h"

TestSuite(page_learning, .init = enter_tiny_task);

/* Trains a tiny run with snapshots of the updates 0, 2, 7 and 20, and opens its page. `options`: of qkv page. */
static void opened(const char *options, const char *fragment)
{
    browser_open_run("-s training.snapshots=4 -s training.logging_freq=10 -s training.label_smoothing=0.2 -s "
                     "training.validation_freq=5",
                     format("--numbers float32 --checkpoint last --sentence 'a b' %s", options), fragment);
}

/* Moves the slider by a key, as a reader would, and waits for the view. */
static void slide(const char *key)
{
    run_script("at('learning').focus()");
    press(key);
}

/* The translation and every weight are those of a checkpoint on the command line. */
static void expect_checkpoint(const char *checkpoint, double tolerance)
{
    if (tolerance < 1e-3)
        expect_printed("target", "echo a b c | qkv translate run -q --checkpoint %s", checkpoint);
    run_script("(change({own: 'A B C'}), ask())");
    expect_attention(tolerance, format("'a b c' --target 'A B C' --checkpoint %s", checkpoint));
    run_script("(change({own: null}), ask())");
}

/* What training logged at an update: the cross entropy, without label smoothing. */
static double logged_cross_entropy(int update)
{
    const cJSON *line = json_by("grep '\"train\",\"update\":%d,' run/metrics.jsonl", update);
    double cross_entropy = json_number(line, "cross_entropy");
    cr_expect_lt(cross_entropy, json_number(line, "loss") - 0.05, "smoothing makes a difference");
    return cross_entropy;
}

PageTest(page_learning, shows_every_snapshot_as_the_command_line_does)
{
    opened("", "s=a+b+c&held=0");
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
}

/* The address opens the same moment; back and forward work; without snapshots there are the two ends. */
PageTest(page_learning, keeps_the_moment_in_the_address)
{
    opened("", "s=a+b&update=7");
    EXPECT_TRUE("at('moment').textContent.startsWith('update 7, ')");
    EXPECT_VALUE("at('learning').value", "2");
    run_script("(location.hash = 's=a+b&update=8')");
    wait_until("isSettled() && state.update === null");
    opened("--snapshots 0", "s=a+b+c&update=0&held=0");
    EXPECT_VALUE("at('learning').max", "1");
    EXPECT_TEXT("moment", "before training: random weights");
    expect_checkpoint("snapshot-0", 2e-3);
    opened("--snapshots 1", "");
    EXPECT_VALUE("learning.moments.map(x => x.update).join()", "0,7,20");
}

/* Keeps the moment of each view that the page shows in `seen`. */
static const char RECORD[] = "window.seen = [], onChange('view', () => { seen.push(state.update); })";

/* Playing goes from the random weights to the learned ones; who wants less motion sees one moment for each press. */
PageTest(page_learning, plays_the_training_and_drops_moments_that_were_passed)
{
    opened("", "s=a+b");
    run_script("%s, window.times = [], onChange('view', () => { times.push(performance.now()); })", RECORD);
    click("play");
    wait_until("seen.length === 4 && playing === null");
    EXPECT_VALUE("JSON.stringify(seen)", "[0,2,7,null]");
    EXPECT_TRUE("times.slice(1).every((time, i) => time - times[i] > 1190)"); /* long enough to look */
    EXPECT_VALUE("[...element('ticks').children].map(textOf).join(' ')", "0, random 2 7 20, learned");
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
}

/* Where everything stands, but for the numbers under the words. */
static const char BOXES[] = "JSON.stringify(all('#sentence > *, #learning-strip > *, #large-view > *, "
                            "#heads, #map td, .word').map(boxOf))";

/* The learned translation stays at every moment, so that playing moves nothing and maps can be compared; the map of the other
 * end stands beside. Without it the model translates. */
PageTest(page_learning, holds_the_learned_translation_and_moves_nothing)
{
    opened("--pairs dev.tsv", "s=a+b+c&beside=1");
    char *boxes = value_of("%s", BOXES), *learned = text_of("target");
    run_script("%s", RECORD);
    click("play");
    wait_until("seen.length === 4 && playing === null");
    cr_expect_str_eq(value_of("%s", BOXES), boxes);
    static const char weights[] = "state.view%s.heads.map(head => [...head.weights]).join()";
    char *own = value_of(weights, "");
    slide("Home");
    cr_expect_str_eq(value_of("%s", BOXES), boxes);
    EXPECT_TEXT("target", learned);
    /* What the model itself says then stands below, in the room that was kept for it. */
    EXPECT_TEXT("itself", "The model itself says now nothing");
    EXPECT_VALUE("state.view.itself.length", "1");
    cr_expect_str_eq(value_of(weights, ".beside"), own);
    cr_expect_str_neq(value_of(weights, ""), own);
    EXPECT_VALUE("['map', 'other'].map(name => at(name).dataset.moment).join()",
                 "random, update 0,learned, update 20");
    click("hold");
    expect_printed("target", "echo a b c | qkv translate run -q --checkpoint snapshot-0");
    EXPECT_TEXT("itself", "");
    click("hold");
    slide("ArrowRight ArrowRight");
    expect_printed(
        "itself",
        "echo \"The model itself says now: “$(echo a b c | qkv translate run -q --checkpoint snapshot-7)”\"");
    /* The line of guessing lies at the loss of equal probabilities. */
    EXPECT_TRUE("element('guess').textContent === `${Math.log(state.facts.choices[0]).toFixed(1)} guessing`");
    EXPECT_VALUE("[state.facts.choices[0], state.facts.vocabulary.length].join()", "11,11");
}

/* ---- measured on sentence pairs ---- */

/* Trains a tiny run with snapshots of the updates 0, 3, 14 and 60, and writes gold links, word by word, of all its pairs: the
 * file `pairs.tsv` and its links `pairs.align`. */
static void train_measured(void)
{
    skip_without_page();
    enter(tiny_task("measured"));
    run_ok(
        "qkv train c.yaml --quiet --threads 1 -s training.snapshots=4 -s training.updates=60 -s "
        "training.validation_freq=20 && cat dev.tsv train.tsv >pairs.tsv && head -n 12 pairs.tsv >first.tsv");
    write_links("pairs.tsv", "pairs.align");
    write_links("first.tsv", "first.align");
}

static void open_measured(const char *options, const char *fragment)
{
    browser_open(format("run --numbers float32 --checkpoint last --sentence 'a b c' %s", options), fragment);
}

/* What `qkv heads` measures on the first pairs with a checkpoint. */
static const cJSON *measured(const char *checkpoint, const char *options)
{
    return json_by("qkv heads run first.tsv --links first.align --format json --quiet --checkpoint %s %s",
                   checkpoint, options);
}

/* The name of a head as the page has it. */
static char *page_name(const cJSON *head)
{
    return format("%s-%g-%g", json_text(head, "kind"), json_number(head, "layer"), json_number(head, "head"));
}

PageTest(page_learning, shows_what_silencing_each_head_changes)
{
    train_measured();
    open_measured("--pairs pairs.tsv --max-pairs 12", "s=a+b+c&silent=cross-1-2");
    const cJSON *report = measured("last", ""), *head;
    double before = INFINITY;
    int heads = 0;
    cJSON_ArrayForEach(head, cJSON_GetObjectItem(report, "heads"))
    {
        const char *name = page_name(head);
        EXPECT_VALUE(format("[...at('effect-%s').cells].slice(1, 3).map(cell => "
                            "cell.textContent.replace('−', '-')).join()",
                            name),
                     format("%+.4f,%+.2f", json_number(head, "loss"), json_number(head, "bleu")));
        double loss =
            number_of("all('#effects-rows td:nth-child(2)')[%d].textContent.replace('−', '-')", heads++);
        cr_expect_leq(loss, before, "the greatest change comes first");
        before = loss;
    }
    cr_expect_eq(heads, 6);
    EXPECT_VALUE("count('#effects-rows tr')", "6");
    cr_expect(
        shows(value_of("element('effects-note').textContent"),
              format("12 pairs of pairs.tsv with the learned weights: loss %.4f nats a token, BLEU %.2f",
                     json_number(report, "loss"), json_number(report, "bleu"))));
    EXPECT_VALUE("count('#effects .silenced')", "1");
    EXPECT_VALUE("count('.silenced[data-test=effect-cross-1-2]')", "1");
    EXPECT_VALUE("first('.silenced th').textContent",
                 "cross, layer 1, head 2, silent"); /* for those who hear it */
    /* Silence moves no column. */
    static const char columns[] = "all('#effects thead th').map(cell => cell.offsetWidth).join()";
    char *with_silence = value_of("%s", columns);
    run_script("first('.silenced').classList.remove('silenced')");
    EXPECT_VALUE(columns, with_silence);
    run_script("(toggleSilence('silent', 'cross-1-2'), toggleSilence('silent', 'encoder-1-1'))");
    EXPECT_VALUE("count('#effects .silenced')", "1");
    EXPECT_VALUE("count('.silenced[data-test=effect-encoder-1-1]')", "1");
    run_script("(first('[data-test=effect-decoder-1-2] button').click())");
    EXPECT_VALUE("state.head", "decoder-1-2");
    EXPECT_VALUE("count('#effects [aria-pressed=true]')", "1");
    EXPECT_VALUE("count('#order [value=error]')", "0"); /* there are no links */
    EXPECT_VALUE(
        "[...element('key-of-curve').children].filter(key => key.checkVisibility()).map(textOf).join()",
        "training loss,dev loss");
    cr_expect(
        shows(text_of("curve-key"),
              "The loss and the alignment error of a moment are means over 12 sentence pairs of pairs.tsv."));
}

/* The alignment error of a head is that of the reading of its map that is better after training, at each moment. */
static void expect_errors(const char *checkpoint)
{
    const cJSON *report = measured(checkpoint, "--no-translation"), *head,
                *learned = measured("last", "--no-translation");
    int index = 0, compared = 0;
    cJSON_ArrayForEach(head, cJSON_GetObjectItem(report, "heads"))
    {
        const cJSON *same = json_at(learned, format("heads.%d", index++));
        if (!cJSON_IsNumber(json_at(head, "error_read"))) continue;
        bool reads = json_number(same, "error_read") < json_number(same, "error_predicted");
        const char *name = page_name(head);
        double of_head = number_of("errorAt(learning.moments[momentNumber()], '%s')", name);
        cr_expect_float_eq(of_head, json_number(head, reads ? "error_read" : "error_predicted"), 1e-12,
                           "%s at %s", name, checkpoint);
        EXPECT_VALUE(format("first('[data-test=head-%s] .number').textContent", name),
                     format("%.1f\u00a0%%", 100 * of_head));
        compared++;
    }
    cr_expect_eq(compared, 2);
}

/* The loss is that of the moment, also of the random weights, not of the training around it. */
static void expect_loss(const char *checkpoint, double tolerance)
{
    const cJSON *report = json_by("qkv evaluate run first.tsv --json --checkpoint %s", checkpoint);
    double expected = json_number(report, "loss"), loss = number_of("learning.moments[momentNumber()].loss");
    cr_expect_float_eq(loss, expected, tolerance, "%s: %g, but %g", checkpoint, loss, expected);
    cr_expect(shows(text_of("moment"), format(", loss %.4f, alignment error ", loss)));
    cr_expect(shows(text_of("curve-key"), "over 12 sentence pairs of pairs.tsv"));
}

PageTest(page_learning, shows_alignment_errors_at_every_moment)
{
    train_measured();
    open_measured("--pairs pairs.tsv --links pairs.align --max-pairs 12 --links-from 0", "s=a+b+c");
    choose("order", "error");
    static const char *const checkpoints[] = {"snapshot-0", "snapshot-3", "snapshot-14", "last"};
    for (int i = 0; i < 4; i++) {
        run_script("(goToMoment(%d))", i);
        expect_errors(checkpoints[i]);
        /* The page's random weights have float32, their snapshot has half precision. */
        expect_loss(checkpoints[i], i ? 1e-5 : 2e-3);
        EXPECT_VALUE("first('#overview [data-kind=cross] .number').textContent",
                     value_of("errorText(Math.min(...learning.moments[momentNumber()].errors.filter(error => "
                              "error !== null)))")); /* the best head comes first */
    }
    EXPECT_VALUE("first('#overview [data-kind=encoder] .number').textContent", "–");
    EXPECT_VALUE("first('#curve .error').points.length", "4");
    static const char *const heads[] = {"cross-1-1", "cross-1-2"};
    for (int i = 0; i < 2; i++) {
        run_script("(change({ head: '%s' }))", heads[i]);
        cr_expect(
            shows(text_of("curve-key"), format("cross, layer 1, head %d, 100\u00a0%% at the top", i + 1)));
        cr_expect(shows(text_of("moment"),
                        format(", alignment error %s",
                               value_of("errorText(errorAt(learning.moments.at(-1), '%s'))", heads[i]))));
    }
    /* A line between two measurements looks like many: the page says that these are all. */
    EXPECT_TRUE("at('curve-key').textContent.includes('it falls most between update ')");
    open_measured("--pairs first.tsv --links first.align --snapshots 0", "");
    EXPECT_TRUE("at('curve-key').textContent.includes('measured only before and after training')");
    EXPECT_VALUE("count('#curve .measured')", "2"); /* a dot at each moment */
    /* Without pairs there is nothing to measure. */
    open_measured("", "s=a+b+c");
    EXPECT_TRUE("element('effects').hidden");
    EXPECT_VALUE("count('#order [value=error], #curve .error')", "0");
    cr_expect(lacks(text_of("moment"), "alignment"));
}
