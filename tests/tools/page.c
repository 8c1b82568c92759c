/* qkv page: the file that it writes, and the page in a real browser, against the numbers of the command line. */
#include "browser.h"
#include "json.h"
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of the page differ from qkv's by the rounding of products and sums: WebAssembly has no fused multiply-add. The
 * page shows 4 decimals. */
#define TOLERANCE 1e-5
#define SHOWN     5e-5

/* Tokens that would end a script or run one if the page took them for HTML. */
#define HOSTILE "</script><img/onerror=alert(1)/src=x>"

/* Trains a run that translates word by word, with a hostile token on each side. Returns its folder. */
static const char *trained(void)
{
    const char *folder = scratch("page");
    static const char *const source[] = {"one", "two", "three", "four", HOSTILE};
    static const char *const target[] = {"uno", "dos", "tres", "cuatro", "<b>cinco</b>"};
    char *lines = format("%s", "");
    for (int i = 0; i < 40; i++) {
        char *from = format("%s %s", source[i % 5], source[i * i / 3 % 5]);
        char *to = format("%s %s", target[i % 5], target[i * i / 3 % 5]);
        if (i % 3)
            from = format("%s %s", from, source[(i + 2) % 5]), to = format("%s %s", to, target[(i + 2) % 5]);
        lines = format("%s%s\t%s\n", lines, from, to);
    }
    write_text(folder, "train.tsv", lines);
    write_text(folder, "c.yaml",
               "name: page\n"
               "data: {train: train.tsv, dev: train.tsv, src: {lang: en}, trg: {lang: es}}\n"
               "model:\n"
               "  encoder: {num_layers: 2, num_heads: 2, hidden_size: 16, ff_size: 32, positions: "
               "{max_length: 12}}\n"
               "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, positions: "
               "{max_length: 12}}\n"
               "training: {model_dir: run, learning_rate: 0.01, batch_size: 20, updates: 150, "
               "validation_freq: 150}\n");
    run_ok("cd '%s' && qkv train c.yaml --quiet --threads 1", folder);
    return folder;
}

static void skip_without_page(void)
{
    if (!has_page())
        cr_skip_test("this build has no page: it needs clang for WebAssembly and the source of utf8proc");
}

/* Opens a page that holds the parameters of the run exactly. */
static struct browser *opened(const char *folder, const char *fragment)
{
    skip_without_browser();
    run_ok("cd '%s' && qkv page run --numbers float32 --sentence 'two one'", folder);
    struct browser *browser = browser_open_page(folder, fragment);
    return browser;
}

/* data.test may be the common prefix of two compressed files. The page holds its texts in base64. */
Test(page, opens_with_the_first_sentence_of_compressed_files)
{
    skip_without_page();
    const char *folder = trained();
    run_ok("cd '%s' && echo 'two four' >t.en && echo 'dos cuatro' >t.es && gzip t.en t.es && "
           "qkv train c.yaml -q --overwrite -s training.updates=2 -s data.test=t && qkv page run",
           folder);
    cr_expect_not_null(
        strstr(read_file(format("%s/page.html", folder), NULL), "id=\"opening-sentence\">dHdvIGZvdXI=<"));
}

/* Replaces the sentence by typing, and waits for the answer. */
static void type(struct browser *browser, const char *sentence)
{
    browser_click(browser, "source");
    browser_value(browser, "document.activeElement.select()");
    browser_type(browser, sentence);
    browser_wait(browser, "isSettled() && state.view.source_tokens.length");
}

/* ---- the file ---- */

Test(page, names_what_a_build_without_it_lacks)
{
    struct outcome outcome = run("qkv page nothing");
    cr_expect_eq(outcome.exit_code, 2);
    if (!has_page()) cr_expect_not_null(strstr(outcome.error, "wasi-libc and libclang-rt-14-dev-wasm32"));
}

Test(page, is_one_file_below_a_megabyte_without_its_model)
{
    skip_without_page();
    const char *folder = trained();
    run_ok("cd '%s' && qkv page run -o a.html && qkv page run -o - >b.html && cmp a.html b.html", folder);
    size_t size;
    char *html = read_file(format("%s/a.html", folder), &size);
    cr_assert_not_null(html);
    cr_expect_lt(size, 1000000u);
    static const char *const links[] = {"http://", "https://", "src=\"", "@import", "url("};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        const char *link = strstr(html, links[i]);
        cr_expect(!link || !strncmp(link, "http://www.w3.org/2000/svg", 26) || !strncmp(link, "url(#", 5),
                  "%.60s", link);
    }
    cr_assert_not_null(read_file(QKV_BUILD_DIR "/tools/page/engine.wasm", &size));
    cr_expect_lt(size, 1000000u, "the browser compiles %zu bytes", size);
    cr_expect_null(strstr(html, "onerror=alert"));
    cr_expect_null(strstr(html, folder), "the page tells where its run is");
}

Test(page, says_what_is_wrong_and_writes_nothing)
{
    skip_without_page();
    const char *folder = trained();
    cr_expect(refused(run("cd '%s' && qkv page nothing", folder),
                      "qkv: nothing: there is no such run, and no such scene"));
    write_text(folder, "c.yaml",
               "name: c\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n");
    cr_expect(
        refused(run("cd '%s' && qkv page c.yaml", folder),
                "qkv: c.yaml is a config of training, not a scene as in configs/seeds; its run is runs/c"));
    cr_expect_eq(run("cd '%s' && qkv page run -o none/page.html", folder).exit_code, 2);
    cr_expect(
        refused(run("cd '%s' && qkv page run -o run", folder), "qkv: -o run: a page is HTML: name it .html"));
    cr_expect(refused(run("cd '%s' && qkv page run -o page.pdf", folder),
                      "qkv: -o page.pdf: a page is HTML: name it .html"));
    cr_expect_eq(run("cd '%s' && qkv page run --numbers half >/dev/full -o -", folder).exit_code, 2);
    run_ok("cd '%s' && mv run/metrics.jsonl kept && ln -s /dev/null run/metrics.jsonl", folder);
    cr_expect(refused(run("cd '%s' && qkv page run", folder),
                      "qkv: run/metrics.jsonl: cannot be read: it is not a regular file"));
    run_ok("cd '%s' && mv kept run/metrics.jsonl && printf 'a\\377\\tA\\n' >train.tsv", folder);
    cr_expect(
        refused(run("cd '%s' && qkv page run", folder),
                "qkv: train.tsv:1:2: byte 0xFF is not valid UTF-8; --sentence gives the page another first "
                "sentence"));
    cr_expect_eq(run("cd '%s' && ls *.html", folder).exit_code, 2);
}

/* ---- in the browser ---- */

Test(page, translates_while_one_types)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "");
    cr_expect_str_eq(browser_text(browser, "name"), "page");
    char *model = browser_text(browser, "model");
    cr_expect_eq(strncmp(model, "encoder of 2 layers with 2 heads, decoder of 1 layer with 2 heads; ", 67), 0,
                 "%s", model);
    cr_expect_not_null(strstr(model, " parameters in float32, trained for 150 updates"), "%s", model);
    cr_expect_str_eq(browser_value(browser, "document.querySelector('[data-test=source]').value"), "two one");
    static const char *const sentences[] = {"one two three", "four", HOSTILE " two", "three three one four",
                                            "zebra one"};
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        type(browser, sentences[i]);
        char *printed =
            run_ok("cd '%s' && echo '%s' | qkv translate run --quiet --beam 1", folder, sentences[i]);
        cr_expect_str_eq(format("%s\n", browser_text(browser, "target")), printed, "%s", sentences[i]);
    }
    cr_expect_str_eq(browser_value(browser, "document.querySelector('.word.unknown').textContent"), "zebra");
    cr_expect_str_eq(browser_value(browser, "String(element('unknown-key').hidden)"), "false");
    type(browser, "   ");
    cr_expect_str_empty(browser_text(browser, "target"));
    cr_expect_str_eq(browser_value(browser, "String(element('unknown-key').hidden)"), "true");
    type(browser, "one one one one one one one one one one one one one");
    cr_expect_not_null(strstr(browser_text(browser, "message"), "positions"));
    type(browser, "one");
    cr_expect_str_empty(browser_text(browser, "message"));
    browser_close(browser);
}

/* Other networks, levels of text and attentions: the words and the first score of the command line; the steps of their
 * attention end with the probabilities of the translation. */
Test(page, translates_with_every_kind_of_model)
{
    static const char *const kinds[][2] = {
        {"", "{type: recurrent, num_layers: 1, hidden_size: 16}"},
        {", level: char", "{num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 16}"},
        {", level: bpe, num_merges: 6", "{num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 16}"},
        {"", "{num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 16, attention: {window: 1, kernel: "
             "flash}}"},
    };
    const char *folder = trained();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *level = kinds[i][0], *stack = kinds[i][1];
        write_text(folder, "kind.yaml",
                   format("name: kind\ndata: {train: train.tsv, src: {lang: en%s}, trg: {lang: es%s}}\n"
                          "model: {encoder: %s, decoder: %s}\n"
                          "training: {model_dir: run, learning_rate: 0.01, batch_size: 20, updates: 40}\n",
                          level, level, stack, stack));
        run_ok("cd '%s' && qkv train kind.yaml --quiet --overwrite --threads 1", folder);
        struct browser *browser = opened(folder, "s=one+two+three&beam=2&steps=1");
        char *line =
            run_ok("cd '%s' && echo one two three | qkv translate run --quiet --beam 2 --scores", folder);
        cr_expect_str_eq(format("%s\n", browser_text(browser, "target")), strchr(line, '\t') + 1, "%s %s",
                         level, stack);
        cr_expect_float_eq(atof(browser_value(browser, "state.view.scores[0]")), atof(line), TOLERANCE,
                           "%s %s", level, stack);
        browser_wait(browser, "state.walk && isSettled()");
        cr_expect_float_eq(
            atof(browser_value(
                browser, "(() => { const step = state.walk.find(({ name }) => name === 'probabilities'); "
                         "return valueAt(step, 1, step.columnNames.indexOf(step.rowNames[1])) })()")),
            atof(browser_value(browser, "state.view.probabilities[1]")), TOLERANCE, "%s %s", level, stack);
        browser_close(browser);
    }
}

/* Three sentences at once: the old view stays, dimmed, until the last one is there; the others are never shown. */
Test(page, drops_answers_that_are_out_of_date)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "");
    char *dimmed =
        browser_value(browser, "(() => { window.shown = []; listen(changed => { if (changed.has('view')) "
                               "shown.push(state.view.source_tokens[0]); }); "
                               "for (const source of ['one', 'two', 'three']) { change({source}); ask(); } "
                               "return document.body.classList.contains('waiting'); })()");
    cr_expect_str_eq(dimmed, "true");
    browser_wait(browser, "isSettled()");
    cr_expect_str_eq(browser_value(browser, "shown.join()"), "three");
    cr_expect_str_eq(browser_value(browser, "document.body.classList.contains('waiting')"), "false");
    browser_close(browser);
}

/* Compares every cell of the large map with a map of `qkv attention`. */
static void compare_map(struct browser *browser, const cJSON *map)
{
    const cJSON *weights = cJSON_GetObjectItem(map, "weights"), *line, *number;
    int row = 0;
    cJSON_ArrayForEach(line, weights)
    {
        int column = 0;
        cJSON_ArrayForEach(number, line)
        {
            char *cell = format("document.querySelector('[data-test=cell-%d-%d]')", row, column);
            char *label = browser_value(browser, format("%s.getAttribute('aria-label')", cell));
            const char *shown = strrchr(label, ',') + 2;
            if (!strcmp(shown, "masked"))
                cr_expect_eq(number->valuedouble, 0, "%s", label);
            else
                cr_expect_float_eq(atof(shown), number->valuedouble, SHOWN + TOLERANCE, "%s", label);
            column++;
        }
        cr_expect_str_eq(
            browser_value(browser, format("document.querySelectorAll('tbody tr')[%d].children.length", row)),
            format("%d", column + 1));
        row++;
    }
}

Test(page, shows_the_maps_of_qkv_attention)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "s=four+two+one");
    char *json = run_ok(
        "cd '%s' && qkv attention run 'four two one' --beam 1 --kind all --format json 2>/dev/null", folder);
    cJSON *report = cJSON_Parse(json);
    const cJSON *map, *maps = cJSON_GetObjectItem(report, "maps");
    cr_assert_eq(cJSON_GetArraySize(maps), 8);
    cJSON_ArrayForEach(map, maps)
    {
        const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(map, "kind"));
        int layer = cJSON_GetObjectItem(map, "layer")->valueint,
            head = cJSON_GetObjectItem(map, "head")->valueint;
        browser_click(browser, format("head-%s-%d-%d", kind, layer, head));
        browser_wait(browser, format("state.head === '%s-%d-%d'", kind, layer, head));
        compare_map(browser, map);
    }
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('.hidden-cell').length"), "0");
    browser_click(browser, "head-decoder-1-2");
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('.hidden-cell').length"), "6");
    cr_expect_not_null(strstr(browser_value(browser, "location.hash"), "head=decoder-1-2"));
    cJSON_Delete(report);
    browser_close(browser);
}

static void expect_caption(struct browser *browser, const char *beginning)
{
    char *caption = browser_text(browser, "caption");
    cr_expect_eq(strncmp(caption, beginning, strlen(beginning)), 0, "%s", caption);
}

/* The words of the sentence pair that are lit up. */
static char *lit_words(struct browser *browser)
{
    return browser_value(browser,
                         "[...document.querySelectorAll('.word.lit')].map(x => x.firstChild.data).join(' ')");
}

/* "row,column" of the marks of the small maps of a kind. */
static char *lit_place(struct browser *browser, const char *kind)
{
    return browser_value(
        browser, format("(box => ['row', 'column'].map(axis => box.classList.contains(`${axis}-lit`) ? "
                        "parseFloat(box.querySelector(`.${axis}-mark`).style.transform.slice(11)) / 100 : -1)"
                        ".join())(document.querySelector('.kind[data-kind=%s]'))",
                        kind));
}

Test(page, lights_up_what_the_pointer_and_the_keys_are_on)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "s=four+two+one&head=cross-1-1");
    browser_point(browser, "target-word-1");
    browser_wait(browser, "document.querySelector('.kind[data-kind=cross]').classList.contains('row-lit')");
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('#map tbody td.lit').length"), "4");
    expect_caption(browser, "“dos” takes ");
    cr_expect_not_null(
        strstr(browser_text(browser, "next-words"), "Word 2, given the sentence and “cuatro”"));
    browser_point(browser, "source-word-0");
    expect_caption(browser, "“four” gets ");
    browser_point(browser, "cell-0-0");
    char *by_pointer = browser_text(browser, "caption");
    expect_caption(browser, "“cuatro” takes ");
    cr_expect_str_eq(lit_words(browser), "four cuatro");
    cr_expect_str_eq(lit_place(browser, "cross"), "0,0");
    browser_value(browser, "document.querySelector('[data-test=cell-0-1]').focus()");
    browser_press(browser, "ArrowLeft");
    cr_expect_str_eq(browser_value(browser, "document.activeElement.dataset.test"), "cell-0-0");
    cr_expect_str_eq(browser_text(browser, "caption"), by_pointer);
    browser_press(browser, "ArrowDown");
    cr_expect_str_eq(browser_value(browser, "document.activeElement.dataset.test"), "cell-1-0");
    browser_press(browser, "Escape");
    expect_caption(browser, "This head");
    browser_close(browser);
}

/* In the decoder's own attention a word is the row of the step that chooses it and the column of the step that reads it. */
Test(page, lights_up_the_step_that_chooses_a_word)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "s=four+two+one&head=decoder-1-1");
    cr_expect_str_eq(
        browser_value(browser, "[...document.querySelectorAll('tbody th')].map(x => x.textContent).join()"),
        "<s> → cuatro,cuatro → dos,dos → uno,uno → </s>");
    cr_expect_str_eq(browser_value(browser, "document.getElementById('masked').hidden"), "false");
    browser_point(browser, "target-word-1");
    cr_expect_str_eq(lit_place(browser, "decoder"), "1,2");
    cr_expect_str_eq(lit_place(browser, "cross"), "1,-1");
    expect_caption(browser, "“dos” takes ");
    browser_point(browser, "target-word-3");
    cr_expect_str_eq(lit_place(browser, "decoder"), "3,-1");
    browser_click(browser, "target-word-0");
    browser_point(browser, "name");
    cr_expect_str_eq(lit_words(browser), "cuatro", "a click keeps a word lit");
    browser_press(browser, "Escape");
    cr_expect_str_empty(lit_words(browser));
    browser_point(browser, "source-word-1");
    browser_point(browser, "name");
    cr_expect_str_empty(lit_words(browser), "the word is kept no longer");
    browser_click(browser, "head-encoder-1-1");
    cr_expect_str_eq(browser_value(browser, "document.getElementById('masked').hidden"), "true");
    browser_close(browser);
}

/* The translation and the first probability of the command line without these heads. */
static void expect_silent(struct browser *browser, const char *folder, const char *heads)
{
    const char *without = *heads ? format("--without %s", heads) : "";
    char *line =
        run_ok("cd '%s' && echo four two one | qkv translate run -q --beam 2 --scores %s", folder, without);
    cr_expect_str_eq(format("%s\n", browser_text(browser, "target")), strchr(line, '\t') + 1, "%s", heads);
    cr_expect_float_eq(atof(browser_value(browser, "state.view.scores[0]")), atof(line), TOLERANCE, "%s",
                       heads);
    cJSON *report =
        json_parsed(run_ok("cd '%s' && qkv attention run 'four two one' --beam 2 -q --kind cross --head 2 "
                           "--format json %s",
                           folder, without));
    compare_map(browser, cJSON_GetArrayItem(cJSON_GetObjectItem(report, "maps"), 0));
    cJSON_Delete(report);
}

/* A click or the key S silences a head; translation, scores and maps are those of --without, and the address holds it. */
Test(page, silences_heads)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "s=four+two+one&beam=2&head=cross-1-2");
    expect_silent(browser, folder, "");
    char *before = browser_value(browser, "state.view.scores[0]");
    cr_expect_str_eq(browser_value(browser, "document.getElementById('speak').hidden"), "true");
    browser_click(browser, "silence-encoder-2-1");
    browser_wait(browser, "isSettled() && state.silent");
    expect_silent(browser, folder, "encoder.2.1");
    cr_expect_str_neq(browser_value(browser, "state.view.scores[0]"), before);
    cr_expect_str_eq(browser_text(browser, "silent"), "silent: encoder attention, layer 2, head 1");
    browser_value(browser, "document.querySelector('[data-test=head-cross-1-2]').focus()");
    browser_press(browser, "s");
    browser_wait(browser, "isSettled() && state.silent.includes(',')");
    expect_silent(browser, folder, "encoder.2.1,cross.1.2");
    cr_expect_str_eq(browser_value(browser, "document.activeElement.dataset.test"), "head-cross-1-2");
    cr_expect_str_eq(browser_text(browser, "map-title"), "Cross attention, layer 1, head 2, silent");
    expect_caption(browser, "This head is silent: it looks, but passes on nothing. ");
    cr_expect_str_eq(browser_text(browser, "silent"), "2 heads are silent");
    cr_expect_not_null(
        strstr(browser_value(browser, "decodeURIComponent(location.hash)"), "silent=encoder-2-1,cross-1-2"));
    browser_value(browser, "history.back()");
    browser_wait(browser, "isSettled() && state.silent === 'encoder-2-1'");
    expect_silent(browser, folder, "encoder.2.1");
    browser_click(browser, "silence-encoder-2-1");
    browser_wait(browser, "isSettled() && !state.silent");
    expect_silent(browser, folder, "");
    cr_expect_str_eq(browser_value(browser, "state.view.scores[0]"), before);
    cr_expect_str_empty(browser_text(browser, "silent"));
    browser_close(browser);
    /* An address may name heads that do not exist. */
    browser =
        opened(folder, "s=four+two+one&beam=2&head=cross-1-2&silent=cross-9-1,x,cross-1-2,decoder--1-1,");
    expect_silent(browser, folder, "cross.1.2");
    cr_expect_str_eq(browser_value(browser, "state.silent"), "cross-1-2");
    browser_click(browser, "speak");
    browser_wait(browser, "isSettled() && !state.silent");
    expect_silent(browser, folder, "");
    browser_close(browser);
}

/* The scores of `qkv translate --scores`, and a translation that is given. */
Test(page, shows_the_best_translations_and_a_given_one)
{
    const char *folder = trained();
    struct browser *browser = opened(folder, "s=three+one&beam=3");
    char *line = strtok(
        run_ok("cd '%s' && echo 'three one' | qkv translate run --beam 3 --n-best 3 --scores", folder), "\n");
    for (int i = 0; i < 3; i++, line = strtok(NULL, "\n")) {
        double score = atof(strchr(line, '\t') + 1);
        char *shown = browser_value(browser, format("document.querySelectorAll('.score')[%d].textContent."
                                                    "replace('-', 'hyphen').replace('−', '-')",
                                                    i));
        cr_expect_float_eq(atof(shown), score, SHOWN + 2 * TOLERANCE, "%s, but %s", shown, line);
        cr_expect_str_eq(browser_value(browser, format("state.view.translations[%d]", i)),
                         strrchr(line, '\t') + 1);
    }
    browser_click(browser, "translation-1");
    browser_wait(browser, "isSettled() && state.choice === 1");
    cr_expect_str_eq(browser_text(browser, "target"), browser_value(browser, "state.view.translations[1]"));
    browser_click(browser, "use-own");
    browser_wait(browser, "isSettled() && state.own !== null");
    browser_value(browser, "document.activeElement.select()");
    browser_type(browser, "dos <b>cinco</b> otro");
    browser_wait(browser, "isSettled() && state.view.target_outputs.length === 4");
    cr_expect_str_eq(
        browser_value(browser, "document.querySelectorAll('#target-words .word')[1].firstChild.data"),
        "<b>cinco</b>");
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('b, img').length"), "0");
    static const char own_score[] =
        "log-probability −"; /* with the sign of minus, as all numbers of the page */
    cr_expect_eq(strncmp(browser_text(browser, "own-score"), own_score, strlen(own_score)), 0);
    double product =
        atof(browser_value(browser, "state.view.probabilities.reduce((all, part) => all * part)"));
    cr_expect_float_eq(-atof(browser_text(browser, "own-score") + strlen(own_score)), log(product), 1e-3);
    browser_point(browser, "target-word-2");
    cr_expect_str_eq(browser_value(browser, "document.querySelector('.bar.chosen .bar-word').textContent"),
                     "otro", "the word that is given is listed, however improbable it is");
    browser_click(browser, "use-own");
    browser_wait(browser, "isSettled() && state.own === null");
    browser_click(browser, "use-own");
    browser_wait(browser, "isSettled() && state.own !== null");
    cr_expect_str_eq(browser_value(browser, "state.own"), "dos <b>cinco</b> otro");
    browser_close(browser);
}
