/* What qkv page measures on sentence pairs: the effect of silence and the alignment errors, in a real browser, against qkv
 * heads. */
#include "browser.h"
#include "json.h"
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Trains a tiny run with snapshots of the updates 0, 3, 14 and 60, and writes gold links, word by word, of all its pairs: the
 * file `pairs.tsv` and its links `pairs.align`. */
static const char *trained(const char *name)
{
    const char *folder = tiny_task(name);
    run_ok("cd '%s' && qkv train c.yaml --quiet --threads 1 -s training.snapshots=4 -s training.updates=60 "
           "-s training.validation_freq=20 && cat dev.tsv train.tsv >pairs.tsv && "
           "awk -F'\\t' '{ n = split($1, w, \" \"); for (i = 0; i < n; i++) printf \"%%d-%%d \", i, i; "
           "print \"\" }' pairs.tsv >pairs.align && head -n 12 pairs.tsv >first.tsv && "
           "head -n 12 pairs.align >first.align",
           folder);
    return folder;
}

static struct browser *opened(const char *folder, const char *options, const char *fragment)
{
    skip_without_browser();
    run_ok("cd '%s' && qkv page run --numbers float32 --checkpoint last --sentence 'a b c' %s", folder,
           options);
    return browser_open_page(folder, fragment);
}

/* What `qkv heads` measures on the first pairs with a checkpoint. The caller deletes it. */
static cJSON *measured(const char *folder, const char *checkpoint, const char *options)
{
    return json_parsed(run_ok("cd '%s' && qkv heads run first.tsv --links first.align --format json --quiet "
                              "--checkpoint %s %s",
                              folder, checkpoint, options));
}

/* The name of a head as the page has it. */
static char *page_name(const cJSON *head)
{
    return format("%s-%d-%d", cJSON_GetStringValue(cJSON_GetObjectItem(head, "kind")),
                  (int)json_number(head, "layer"), (int)json_number(head, "head"));
}

static char *cell(struct browser *browser, const char *name, int column)
{
    return browser_value(
        browser,
        format("document.querySelector('[data-test=effect-%s]').cells[%d].textContent.replace('−', '-')",
               name, column));
}

static int class_count(struct browser *browser, const char *selector)
{
    return atoi(browser_value(browser, format("document.querySelectorAll('%s').length", selector)));
}

Test(page_measured, shows_what_silencing_each_head_changes)
{
    const char *folder = trained("effects");
    struct browser *browser = opened(folder, "--pairs pairs.tsv --max-pairs 12", "s=a+b+c&silent=cross-1-2");
    cJSON *report = measured(folder, "last", ""), *head;
    double before = INFINITY;
    int heads = 0;
    cJSON_ArrayForEach(head, cJSON_GetObjectItem(report, "heads"))
    {
        const char *name = page_name(head);
        cr_expect_str_eq(cell(browser, name, 1), format("%+.4f", json_number(head, "loss")), "%s", name);
        cr_expect_str_eq(cell(browser, name, 2), format("%+.2f", json_number(head, "bleu")), "%s", name);
        double loss = atof(browser_value(
            browser, format("document.querySelectorAll('#effects-rows td:nth-child(2)')[%d].textContent"
                            ".replace('−', '-')",
                            heads++)));
        cr_expect_leq(loss, before, "the greatest change comes first");
        before = loss;
    }
    cr_expect_eq(heads, 6);
    cr_expect_eq(class_count(browser, "#effects-rows tr"), 6);
    cr_expect_not_null(
        strstr(browser_value(browser, "element('effects-note').textContent"),
               format("12 pairs of pairs.tsv with the learned weights: loss %.4f nats a token, BLEU %.2f",
                      json_number(report, "loss"), json_number(report, "bleu"))));
    cr_expect_eq(class_count(browser, "#effects .silenced"), 1);
    cr_expect_eq(class_count(browser, ".silenced[data-test=effect-cross-1-2]"), 1);
    cr_expect_str_eq(browser_value(browser, "document.querySelector('.silenced th').textContent"),
                     "cross, layer 1, head 2, silent", "for those who hear it");
    /* Silence moves no column. */
    static const char columns[] =
        "[...document.querySelectorAll('#effects thead th')].map(cell => cell.offsetWidth).join()";
    char *with_silence = browser_value(browser, columns);
    browser_value(browser, "document.querySelector('.silenced').classList.remove('silenced'), ''");
    cr_expect_str_eq(browser_value(browser, columns), with_silence);
    browser_value(browser, "(toggleSilence('cross-1-2'), toggleSilence('encoder-1-1'), '')");
    browser_wait(browser, "isSettled()");
    cr_expect_eq(class_count(browser, "#effects .silenced"), 1);
    cr_expect_eq(class_count(browser, ".silenced[data-test=effect-encoder-1-1]"), 1);
    browser_value(browser, "(document.querySelector('[data-test=effect-decoder-1-2] button').click(), '')");
    cr_expect_str_eq(browser_value(browser, "state.head"), "decoder-1-2");
    cr_expect_eq(class_count(browser, "#effects [aria-pressed=true]"), 1);
    cr_expect_eq(class_count(browser, "#order [value=error]"), 0, "there are no links");
    cr_expect_str_eq(browser_value(browser,
                                   "[...element('curve-key').children].filter(key => key.checkVisibility())"
                                   ".map(key => key.textContent.trim()).join()"),
                     "loss on the dev text,loss in training");
    cJSON_Delete(report);
    browser_close(browser);
}

/* The alignment error of a head is that of the reading of its map that is better after training, at each moment. */
static void expect_errors(struct browser *browser, const char *folder, const char *checkpoint)
{
    cJSON *report = measured(folder, checkpoint, "--no-translation"), *head,
          *learned = measured(folder, "last", "--no-translation");
    int index = 0, compared = 0;
    cJSON_ArrayForEach(head, cJSON_GetObjectItem(report, "heads"))
    {
        const cJSON *same = cJSON_GetArrayItem(cJSON_GetObjectItem(learned, "heads"), index++);
        if (!cJSON_IsNumber(cJSON_GetObjectItem(head, "error_read"))) continue;
        bool reads = json_number(same, "error_read") < json_number(same, "error_predicted");
        const char *name = page_name(head);
        double error =
            atof(browser_value(browser, format("errorAt(learning.moments[momentNumber()], '%s')", name)));
        cr_expect_float_eq(error, json_number(head, reads ? "error_read" : "error_predicted"), 1e-12,
                           "%s at %s", name, checkpoint);
        cr_expect_str_eq(browser_value(browser, format("document.querySelector('[data-test=head-%s] .number')"
                                                       ".textContent",
                                                       name)),
                         format("%.1f %%", 100 * error));
        compared++;
    }
    cr_expect_eq(compared, 2);
    cJSON_Delete(report);
    cJSON_Delete(learned);
}

/* The loss is that of the moment, also of the random weights, not of the training around it. */
static void expect_loss(struct browser *browser, const char *folder, const char *checkpoint, double tolerance)
{
    cJSON *report = json_parsed(
        run_ok("cd '%s' && qkv evaluate run first.tsv --json --checkpoint %s", folder, checkpoint));
    double expected = json_number(report, "loss"),
           loss = atof(browser_value(browser, "learning.moments[momentNumber()].loss"));
    cr_expect_float_eq(loss, expected, tolerance, "%s: %g, but %g", checkpoint, loss, expected);
    char *said = browser_value(browser, "element('moment').textContent");
    cr_expect_not_null(strstr(said, format(", loss %.4f, alignment error ", loss)), "%s", said);
    cr_expect_not_null(strstr(said, " on 12 pairs of pairs.tsv"), "%s", said);
    cJSON_Delete(report);
}

Test(page_measured, shows_alignment_errors_at_every_moment)
{
    const char *folder = trained("errors");
    struct browser *browser =
        opened(folder, "--pairs pairs.tsv --links pairs.align --max-pairs 12 --links-from 0", "s=a+b+c");
    browser_value(browser, "(element('order').value = 'error', "
                           "element('order').dispatchEvent(new Event('change')), '')");
    static const char *const checkpoints[] = {"snapshot-0", "snapshot-3", "snapshot-14", "last"};
    for (int i = 0; i < 4; i++) {
        browser_value(browser, format("(goToMoment(%d), '')", i));
        browser_wait(browser, "isSettled()");
        expect_errors(browser, folder, checkpoints[i]);
        /* The page's random weights have float32, their snapshot has half precision. */
        expect_loss(browser, folder, checkpoints[i], i ? 1e-5 : 2e-3);
        cr_expect_str_eq(
            browser_value(browser,
                          "element('overview').querySelector('[data-kind=cross] .number').textContent"),
            browser_value(browser, "errorText(Math.min(...learning.moments[momentNumber()].errors"
                                   ".filter(error => error !== null)))"),
            "the best head comes first");
    }
    cr_expect_str_eq(
        browser_value(browser,
                      "element('overview').querySelector('[data-kind=encoder] .number').textContent"),
        "–");
    cr_expect_eq(atoi(browser_value(browser, "document.querySelector('#curve .error').points.length")), 4);
    static const char *const heads[] = {"cross-1-1", "cross-1-2"};
    for (int i = 0; i < 2; i++) {
        browser_value(browser, format("(change({ head: '%s' }), '')", heads[i]));
        cr_expect_not_null(strstr(browser_text(browser, "curve-key"),
                                  format("cross, layer 1, head %d, 100 %% at the top", i + 1)));
        char *shown = browser_value(browser, "element('moment').textContent");
        cr_expect_not_null(
            strstr(shown, format(", alignment error %s",
                                 browser_value(browser, format("errorText(errorAt(learning.moments.at(-1), "
                                                               "'%s'))",
                                                               heads[i])))),
            "%s", shown);
    }
    browser_close(browser);
}

/* A line between two measurements looks like many: the page says that these are all. */
Test(page_measured, says_that_there_are_only_the_two_ends)
{
    const char *folder = trained("ends");
    static const char *const snapshots[] = {"2", "0"};
    for (int i = 0; i < 2; i++) {
        struct browser *browser =
            opened(folder, format("--pairs first.tsv --links first.align --snapshots %s", snapshots[i]), "");
        bool is_said = strstr(browser_text(browser, "curve-key"), "measured only before and after training");
        cr_expect_eq(is_said, i == 1, "%s", browser_text(browser, "curve-key"));
        cr_expect_eq(class_count(browser, "#curve .measured"), i ? 2 : 4, "a dot at each moment");
        browser_close(browser);
    }
}

Test(page_measured, is_left_out_without_pairs)
{
    const char *folder = trained("without");
    struct browser *browser = opened(folder, "", "s=a+b+c");
    cr_expect_str_eq(browser_value(browser, "String(element('effects').hidden)"), "true");
    cr_expect_eq(class_count(browser, "#order [value=error]"), 0);
    cr_expect_eq(class_count(browser, "#curve .error"), 0);
    cr_expect_null(strstr(browser_text(browser, "moment"), "alignment"));
    browser_close(browser);
}

Test(page_measured, says_what_is_wrong_with_pairs_and_links)
{
    if (!has_page()) cr_skip_test("this build has no page");
    const char *folder = trained("wrong");
    run_ok("cd '%s' && sed '3s/$/ 7-0/' pairs.align >far.align", folder);
    cr_expect(
        refused(run("cd '%s' && qkv page run --links pairs.align", folder), "qkv: --links needs --pairs"));
    cr_expect(refused(run("cd '%s' && qkv page run --pairs pairs.tsv --links-from 0", folder),
                      "qkv: --links-from needs --links"));
    cr_expect_eq(run("cd '%s' && qkv page run --pairs nothing.tsv", folder).exit_code, 2);
    cr_expect_eq(run("cd '%s' && qkv page run --pairs pairs.tsv --max-pairs 0", folder).exit_code, 2);
    struct outcome far = run("cd '%s' && qkv page run --pairs pairs.tsv --links far.align", folder);
    cr_expect_eq(far.exit_code, 2);
    cr_expect_not_null(strstr(far.error, "far.align:3:"), "%s", far.error);
    struct outcome few = run("cd '%s' && qkv page run --pairs pairs.tsv --links first.align", folder);
    cr_expect_eq(few.exit_code, 2);
    cr_expect_not_null(strstr(few.error, "first.align"), "%s", few.error);
    cr_expect_eq(run("cd '%s' && ls *.html", folder).exit_code, 2);
}
