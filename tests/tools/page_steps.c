/* The steps of qkv page, from the words to the chosen word, of a run and of scenes: the numbers of `qkv explain`, and the
 * sums behind them. */
#include "browser.h"
#include "json.h"

/* The page computes in float32 and qkv explain in float64; numbers of scenes are small. */
#define TOLERANCE 2e-5
#define OF_SCENES 2e-6

enum { MAX_NUMBERS = 20000 };

/* Appends the numbers of nested lists; a masked score is null. */
static int flatten(const cJSON *list, double *numbers, int count)
{
    if (cJSON_IsArray(list)) {
        const cJSON *child;
        cJSON_ArrayForEach(child, list) count = flatten(child, numbers, count);
        return count;
    }
    numbers[count] = cJSON_IsNumber(list) ? list->valuedouble : -HUGE_VAL;
    return count + 1;
}

/* Fails the test unless the page's walk has the steps of the first explanation in the JSON of `qkv explain`: the same
 * names, and numbers that differ by less than `tolerance`; numbers beyond 1 by that share. `label` says in messages what is
 * walked through. */
static void expect_steps(const char *text, const char *label, double tolerance)
{
    static double native[MAX_NUMBERS], shown[MAX_NUMBERS];
    cJSON *json RELEASED(free_json) = json_parsed(text);
    const cJSON *steps = json_at(json, "walks.0.steps"), *step;
    cr_expect_str_eq(value_of("state.walk.length"), format("%d", cJSON_GetArraySize(steps)), "%s", label);
    int i = 0;
    cJSON_ArrayForEach(step, steps)
    {
        const char *name = json_text(step, "name");
        cr_assert_str_eq(value_of("state.walk[%d].name", i), name);
        int count = flatten(json_at(step, "values"), native, 0);
        cJSON *values RELEASED(free_json) =
            json_parsed(value_of("JSON.stringify([...state.walk[%d].values])", i++));
        cr_assert_eq(flatten(values, shown, 0), count, "%s: %s", label, name);
        for (int k = 0; k < count; k++) {
            double max = tolerance * fmax(1, fabs(native[k]));
            cr_assert(isinf(native[k]) ? isinf(shown[k]) : fabs(native[k] - shown[k]) < max,
                      "%s: %s, number %d: %.9g in the page, %.9g", label, name, k, shown[k], native[k]);
        }
    }
}

/* ---- of a run ---- */

#define OPTIONS "--sentence 'a b' --numbers float32"

static void opened(const char *fragment)
{
    enter(tiny_task("steps"));
    browser_open_run("", OPTIONS, fragment);
    wait_until("isSettled() && (state.walk || !element('steps').open)");
}

PageTest(page_steps, are_those_of_explain)
{
    static const char *const kinds[] = {"encoder", "decoder", "cross"};
    opened("");
    EXPECT_VALUE("state.walk", "null"); /* a closed section computes nothing */
    run_script("element('steps').open = true");
    wait_until("isSettled() && state.walk"); /* a section tells that it is open a moment later */
    for (int i = 0; i < 3; i++) {
        click("head-%s-1-2", kinds[i]);
        expect_steps(run_ok("qkv explain run 'a b' --kind %s --full --format json", kinds[i]), kinds[i],
                     TOLERANCE);
    }
    cr_expect(shows(value_of("location.hash"), "steps=1"));
    EXPECT_VALUE("first('[data-test=step-chosen] .step-token').textContent",
                 value_of("state.view.target_outputs[0] + ' ' + state.walk.at(-1).values[0]"));
}

/* The page knows all steps of the newer variants of attention, and computes them. */
PageTest(page_steps, of_newer_variants)
{
    char *settings = format("%s", "");
    for (int i = 0; i < 2; i++) {
        static const char *const keys[] = {"ff_gated=true", "attention.output_gate=true",
                                           "attention.qk_norm=true", "attention.soft_cap=2",
                                           "attention.sink=learned"};
        for (int k = 0; k < 5; k++)
            settings = format("%s -s model.%s.%s", settings, i ? "decoder" : "encoder", keys[k]);
    }
    enter(tiny_task("variants"));
    browser_open_run(settings, OPTIONS, "steps=1&head=cross-1-2");
    wait_until("isSettled() && state.walk");
    expect_steps(run_ok("qkv explain run 'a b' --kind cross --full --format json"), "variants", TOLERANCE);
    EXPECT_VALUE("state.walk.filter(step => stepGroup(step) === Object.keys(STEPS).length - 1 && "
                 "groupOf(step.name) < 0 && !LEARNED.test(step.name)).map(step => step.name).join()",
                 "");
}

/* Opens the sum behind a number of a step by the keyboard: `down` rows and `right` columns from the first. */
static void open_sum(const char *step, int down, int right)
{
    run_script("at('cells-%s').focus()", step);
    for (int i = 0; i < down; i++) press("ArrowDown");
    for (int i = 0; i < right; i++) press("ArrowRight");
    press("Enter");
    wait_until("isSettled() && state.terms?.of.name === '%s'", step);
}

PageTest(page_steps, show_the_sum_behind_a_number)
{
    opened("steps=1&head=cross-1-2");
    open_sum("queries", 1, 2);
    EXPECT_VALUE("JSON.stringify(state.number)", "{\"name\":\"queries\",\"row\":1,\"column\":2}");
    static const char *const made[] = {"queries", "query_weights"}; /* a parameter is no sum */
    for (int i = 0; i < 2; i++)
        cr_expect_eq(strstr(value_of("at('cells-%s').ariaLabel", made[i]), "Enter shows") != NULL, i == 0);
    /* 16 products and the bias; the second head's columns begin after the 8 of the first. */
    EXPECT_VALUE("state.terms.terms.length", "17");
    EXPECT_VALUE("(() => { const x = stepOf('layer_inputs').values, w = stepOf('query_weights').values, t = "
                 "state.terms.terms; return t[3][0] === '4' && t[3][1] === x[16 + 3] && t[3][2] === w[16 * 8 "
                 "+ 3 * 8 + 2] && t[16][0] === 'query bias' ? 'right' : JSON.stringify(t) })()",
                 "right");
    EXPECT_TRUE("Math.abs(state.terms.sum - valueAt(stepOf('queries'), 1, 2)) < 1e-5");
    EXPECT_VALUE("count('#terms tr')", "17");
    cr_expect(shows(text_of("terms-title"), "is the sum of 17 terms"));
    open_sum("weights", 0, 1);
    cr_expect(shows(text_of("terms-title"), "the sum of these powers"));
    EXPECT_TRUE("Math.abs(state.terms.value - state.terms.terms[1][3] / state.terms.sum) < 1e-6");
    /* Of two words that are the same, each has its own power. */
    run_script("change({ source: 'a b a' }), ask()");
    for (int column = 0; column < 3; column += 2) {
        open_sum("weights", 0, column);
        wait_until("state.terms?.of.column === %d", column);
        double value, power, sum;
        char *title = text_of("terms-title");
        cr_assert_eq(sscanf(strstr(title, "”: ") + strlen("”: "), "%lf = %lf / %lf", &value, &power, &sum), 3,
                     "%s", title);
        cr_expect_float_eq(value, power / sum, 2e-4, "%s", title);
        EXPECT_VALUE("count('#terms .own')", "1");
    }
    /* A shorter sentence may have no such number; the panel closes without a message. */
    open_sum("keys", 2, 0);
    run_script("change({ source: 'a' }), ask()");
    EXPECT_VALUE("String(state.terms) + element('message').textContent", "null");
}

/* Of a weight the whole row is shown: each score that went in, its power, and the weight that came out. */
PageTest(page_steps, show_what_softmax_did_in_a_row)
{
    opened("s=a+b+a+c&silent-words=2&steps=1&head=cross-1-2");
    open_sum("weights", 1, 2);
    static const char shown[] =
        "all('#terms tr:not(:first-child)').map(row => [...row.children].map(textOf))";
    EXPECT_VALUE(format("String(%s.length)", shown),
                 "4"); /* four words and the end, of which one is silent */
    EXPECT_VALUE(
        format("(() => { const head = selectedHead(), row = [...head.weights].slice(head.columns, 2 * "
               "head.columns), lines = %s, number = text => Number(text.replace('−', '-')); const expected = "
               "row.map((weight, i) => [head.columnWords[i], numberText(weight)]).filter((_, i) => i !== "
               "1).sort((a, b) => number(b[1]) - number(a[1])); const sum = lines.reduce((sum, line) => sum "
               "+ number(line[2]), 0); const powers = lines.every(line => Math.abs(number(line[2]) - "
               "Math.exp(number(line[1]) - number(lines[0][1]))) < 2e-4 && Math.abs(number(line[3]) - "
               "number(line[2]) / sum) < 2e-4); return JSON.stringify([lines.map(line => [line[0], "
               "line[3]]), powers]) === JSON.stringify([expected, true]) ? 'right' : JSON.stringify([lines, "
               "expected]) })()",
               shown),
        "right");
    EXPECT_VALUE("first('#terms .own').lastChild.textContent",
                 value_of("numberText(selectedHead().weights[selectedHead().columns + 2])"));
    /* Of masked numbers and silent heads the page says so. */
    browser_open_run("", OPTIONS, "steps=1&head=decoder-1-1");
    wait_until("state.walk && isSettled()");
    open_sum("masked_scores", 0, 1);
    cr_expect(shows(text_of("step-number"), ": masked"));
    open_sum("weights", 0, 1);
    cr_expect(shows(text_of("terms-title"), " is masked: weight 0"));
    click("silence-decoder-1-1");
    wait_until("isSettled() && stepOf('concatenated').note");
    EXPECT_TRUE("stepOf('concatenated').values.subarray(0, 8).every(value => value === 0)");
    /* A click on the large map shows the same beside it, while the steps stay closed; another layer closes it. */
    opened("s=a+b+a+c&head=cross-1-2");
    static const char places[] = "JSON.stringify(all('#map :is(th, td)').map(boxOf))";
    run_script("places = %s", places);
    click("cell-1-2");
    /* The map stays where it is, the cell is framed, and what is said is said of it while the pointer is elsewhere. */
    EXPECT_VALUE(format("%s === places", places), "true");
    point_at("cell-0-0");
    EXPECT_VALUE("count('.clicked') + first('.clicked').dataset.test", "1cell-1-2");
    EXPECT_TEXT("caption", value_of("sentenceOfCell(selectedHead(), { row: 1, column: 2 })"));
    EXPECT_TRUE("(([map, panel]) => panel.top >= map.bottom && panel.width > 0.95 * "
                "element('maps').clientWidth)([element('map'), element('terms')].map(boxOf))");
    EXPECT_VALUE("[element('terms').parentElement.id, state.isWalking, element('steps').open].join()",
                 "maps,false,false");
    EXPECT_TRUE(
        "Math.abs(state.terms.value - selectedHead().weights[1 * selectedHead().columns + 2]) < 1e-6");
    run_script("at('cell-0-1').focus()");
    press("Enter");
    wait_until("isSettled() && state.terms.of.row === 0");
    press("Escape");
    EXPECT_TRUE("element('terms').hidden");
    click("cell-1-2");
    wait_until("isSettled() && state.terms");
    click("head-encoder-1-1");
    wait_until("isSettled() && !state.number && element('terms').hidden");
    /* Also where a step of the decoder reads one word and chooses another, both name the chosen one. */
    click("head-decoder-1-1");
    click("cell-1-1");
    EXPECT_TRUE(
        "((row, words) => [row[1], words[1]].every(word => at('caption').textContent.includes(quoted(word)) "
        "&& at('terms-title').textContent.includes(quoted(word))))(selectedHead().rowWords, "
        "selectedHead().columnWords)");
}

/* The sum closes, and does not open again with the next translation. */
PageTest(page_steps, close_the_sum)
{
    opened("s=a+b&steps=1&head=cross-1-2");
    for (int i = 0; i < 2; i++) {
        open_sum("queries", 0, 1);
        if (i)
            run_script("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
        else
            click("close-terms");
        EXPECT_TRUE("element('terms').hidden");
        if (!i) EXPECT_FOCUS("cells-queries");
        run_script("(change({ source: '%s' }), ask())", i ? "b a" : "b");
        EXPECT_TRUE("element('terms').hidden");
    }
    /* A second request for the same sentence drops the answer to the first one, which is under way: the page shows all of
     * it. */
    browser_open_run("", OPTIONS, "");
    run_script("element('source').value = 'b c a', element('source').dispatchEvent(new Event('input')), "
               "change({ isWalking: true })");
    wait_until("isSettled()");
    EXPECT_VALUE("state.view.source_tokens.join(' ')", "b c a </s>");
    EXPECT_TRUE("state.walk !== null");
}

/* The parts of the model have areas as their parameters have numbers, and lead to their steps. */
PageTest(page_steps, the_whole_model_leads_to_its_parts)
{
    opened("");
    EXPECT_VALUE("count('#whole .part')", "10");
    EXPECT_VALUE("all('.part .shape').reduce((sum, { textContent }) => sum + "
                 "Number(textContent.replaceAll(',', '')), 0)",
                 value_of("run.summary.match(/([0-9]+) parameters/)[1]"));
    EXPECT_TRUE("(ratios => Math.max(...ratios) < 1.05 * Math.min(...ratios))(all('.part').map(part => "
                "part.firstChild.getBoundingClientRect().width ** 2 / "
                "Number(part.querySelector('.shape').textContent.replaceAll(',', ''))))");
    static const char *const parts[][3] = {{"encoder-1-self", "encoder-1-1", "queries"},
                                           {"decoder-1-feed_forward", "cross-1-1", "activated"},
                                           {"decoder-output", "cross-1-1", "logits"}};
    for (int i = 0; i < 3; i++) {
        click("part-%s", parts[i][0]);
        wait_until("isSettled() && state.walk && state.head === '%s'", parts[i][1]);
        EXPECT_TRUE(format("at('step-%s').checkVisibility()", parts[i][2]));
    }
}

/* ---- what a word rests on ---- */

/* The greatest difference between a list of the page, from `first` on, and a row of a map of `qkv attribute`. */
static double difference(const char *list, int first, const cJSON *row)
{
    double greatest = 0;
    for (int i = 0; i < json_size(row, ""); i++)
        greatest = fmax(greatest,
                        fabs(number_of("%s[%d]", list, first + i) - cJSON_GetArrayItem(row, i)->valuedouble));
    return greatest;
}

static void wait_for_rest(void)
{
    wait_until("isSettled() && (state.rests?.falls || state.rests?.error)");
}

/* Asks about a word, and expects the numbers of `qkv attribute`: those of erasure, and beside them the mean attention. */
static void expect_rest(int word)
{
    static const char shown[] = "partsOfRest()[%d].words.map(({ weight }) => weight)";
    const cJSON *erasure = json_by("qkv attribute run 'c a b' -q -f json"),
                *attention = json_by("qkv attribute run 'c a b' -q -f json --method attention");
    run_script("change({ rests: null })");
    click("rests-word-%d", word);
    wait_for_rest();
    int sources = json_size(erasure, "source");
    for (int side = 0; side < 2; side++) {
        const char *row = format("maps.%d.weights.%d", side, word);
        cr_expect_lt(difference("state.rests.falls", side * sources, json_at(erasure, row)), TOLERANCE);
        row = format("maps.%d.weights.%d", !side, word); /* the decoder comes first */
        cr_expect_lt(difference(format(shown, side), 0, json_at(attention, row)), TOLERANCE);
    }
}

/* Patches from a sentence, by the keyboard. */
static void patch_from(const char *sentence)
{
    run_script("element('rests-other').value = '', element('rests-other').focus()");
    type_text(sentence);
    press("Enter");
    wait_until("isSettled() && state.askedWord[1] === '%s' && state.rests.patch", sentence);
}

PageTest(page_steps, rests_are_those_of_attribute)
{
    skip_without_browser();
    enter(learned_run("rests"));
    browser_open("run --numbers float32 --sentence 'c a b'", "");
    click("target-word-1");
    EXPECT_VALUE("state.askedWord", "null"); /* a closed section computes nothing */
    run_script("element('rests').open = true");
    wait_for_rest();
    EXPECT_VALUE("state.rests.step", "1");
    for (int word = 0; word < 4; word++) expect_rest(word);
    click("target-word-1"); /* as the words of the section do */
    wait_until("isSettled() && state.rests?.step === 1");
    EXPECT_TRUE("(({ word, fall }) => element('rests-say').textContent.includes(`“${word}”: without it, its "
                "log-probability falls by ${fall.toFixed(2)} nats`))(partsOfRest().flatMap(({ words }) => "
                "words).reduce((most, word) => (word.fall > most.fall ? word : most)))");
    EXPECT_TRUE("[...element('rests-falls').querySelectorAll('td:nth-child(2)')].map(cell => "
                "Number(cell.textContent.replace('−', '-'))).every((shown, i) => Math.abs(shown - "
                "state.rests.falls[i]) < 0.0051)");
    /* The suggestion has another word in place of one. */
    EXPECT_VALUE("(words => words.length + ' ' + words.filter((word, i) => word !== 'c a b'.split(' "
                 "')[i]).length)(element('rests-other').value.split(' '))",
                 "3 1");
    click("rests-patch");
    wait_until("isSettled() && state.rests.patch?.tables.length === 5");
    patch_from("b a b");
    const cJSON *patched = json_by("qkv attribute run 'c a b' -q -f json --patch-from 'b a b' --word 2");
    EXPECT_VALUE("state.rests.patch.tables.length", format("%d", json_size(patched, "walks.0.steps")));
    for (int i = 0; i < 5; i++) {
        const char *step = format("walks.0.steps.%d", i), *name = json_text(patched, format("%s.name", step));
        const cJSON *values = json_at(patched, format("%s.values", step));
        EXPECT_VALUE(format("state.rests.patch.tables[%d].name", i), name);
        for (int row = 0; row < json_size(values, ""); row++)
            cr_expect_lt(difference(format("state.rests.patch.tables[%d].values", i),
                                    row * json_size(values, "0"), json_at(values, format("%d", row))),
                         TOLERANCE);
    }
    EXPECT_TEXT("rests-about", json_text(patched, "about"));
    EXPECT_TRUE(
        "state.rests.patch.tables.every(({ name, values }) => [...at(`heat-${name}`).querySelectorAll('tbody "
        "td')].every((cell, i) => cell.textContent === shortText(values[i])))");
    patch_from("zebra a b");
    cr_expect(shows(text_of("rests-about"), "is not in the vocabulary"));
    patch_from("c");
    cr_expect(shows(text_of("rests-about"), "the other sentence has 1 tokens, but the sentence has 3"));
    EXPECT_VALUE("count('.heat') + element('message').textContent", "0");
    /* While one types, nothing of this is computed. */
    run_script("element('source').focus()");
    press("End");
    type_text(" c c");
    EXPECT_VALUE("String(state.rests) + state.askedWord", "nullnull");
    EXPECT_TEXT("rests-say", "Click one of these words.");
}

PageTest(page_steps, rests_refuse_a_recurrent_decoder)
{
    skip_without_browser();
    enter(tiny_task("recurrent"));
    train_recurrent("run", "", "", 2);
    browser_open("run --sentence 'a b'", "");
    run_script("element('rests').open = true");
    wait_for_rest();
    cr_expect(shows(text_of("rests-say"), "choose attention or norms"));
    EXPECT_TRUE("element('rests-found').hidden && !element('message').textContent");
}

/* ---- the lesson ---- */

static void open_lesson(const char *fragment)
{
    enter(learned_run("lesson"));
    browser_open("run --lesson --numbers float32 --sentence 'c a b'", fragment);
}

/* Waits until a step is there: its title has the focus, the page is dimmed but for a part, and all places of its texts are
 * filled in. What it is about begins in the part of the window that the panel leaves free, and frames do not overlap. */
static void wait_for_step(int step, const char *language)
{
    wait_until("isSettled() && at('lesson-title').textContent === lessons.%s.steps[%d].title && "
               "shownStep.startsWith('[%d')",
               language, step - 1, step);
    EXPECT_FOCUS("lesson-title");
    EXPECT_TRUE("count('.spot') > 0");
    EXPECT_VALUE(
        "((boxes, gap) => boxes.filter((box, i) => !box.height || boxes.slice(0, i).some(other => box.top - "
        "other.bottom < gap && other.top - box.bottom < gap && box.left - other.right < gap && other.left - "
        "box.right < gap)).length)(all('.spot:not(.spot .spot)').map(boxOf), 2 * "
        "/(\\d+)px$/.exec(getComputedStyle(document.querySelector('.spot:not(.spot .spot)')).boxShadow)[1])",
        "0");
    EXPECT_TRUE("all('.spot').map(boxOf).some(({ top, bottom }) => top >= 6 && bottom <= "
                "(boxOf(at('lesson')).top || innerHeight))");
    EXPECT_VALUE("/[{}]|undefined|NaN|null/.exec(element('lesson').textContent)", "null");
    cr_expect(shows(value_of("location.hash"), format("#lesson-%d&", step)));
}

/* Chooses an answer, and says whether the page finds it right. */
static bool is_right(int choice)
{
    click("lesson-choice-%d", choice);
    wait_until("isSettled() && at('lesson-answer').textContent.length > 2 && at('lesson-answer').textContent "
               "!== lessons.en.wait");
    return number_of("Number(at('lesson-answer').textContent.startsWith(lessons.en.right))") > 0;
}

/* The right answer is that of the command line, and all others are wrong. */
static void expect_answer(int right)
{
    int choices = (int)number_of("element('lesson-choices').children.length");
    cr_expect_lt(right, choices);
    for (int i = 0; i < choices; i++) cr_expect_eq(is_right(i), i == right, "%d of %d", i, choices);
}

/* The panel's buttons to go on and to leave are seen, and the panel leaves three fifths of a phone's height free. */
static void expect_panel_fits(int width, int height)
{
    resize_to(width, height);
    EXPECT_TRUE("['lesson-next', 'lesson-back', 'lesson-leave'].every(name => (box => "
                "at(name).contains(document.elementFromPoint((box.left + box.right) / 2, (box.top + "
                "box.bottom) / 2)) && box.bottom <= innerHeight)(at(name).getBoundingClientRect()))");
    EXPECT_TRUE(width < 900 ? "at('lesson').offsetHeight <= 0.4 * innerHeight + 1"
                            : "at('lesson').offsetWidth < 0.4 * innerWidth");
}

/* How many words of a sentence another one has. */
static int words_kept(const char *sentence, const char *other)
{
    int kept = 0;
    for (const char *word = sentence; *word; word++) kept += *word != ' ' && strchr(other, *word);
    return kept;
}

/* The questions of steps that try something out: the page then shows what the answer says. */
static void expect_attempt(int step)
{
    char *before = text_of("target"), without[99] = "";
    int words = (int)strlen(before) / 2 + 1, row = step == 8 ? (int)number_of("state.held.index") : 0;
    static const char *const heads[] = {"state.view.heads.filter(({ kind }) => kind === 'cross').map(({ name "
                                        "}) => name.replaceAll('-', '.')).join()",
                                        "state.head.replaceAll('-', '.')"};
    char *without_heads[2] = {0};
    for (int i = 0; step == 9 && i < 2; i++)
        without_heads[i] = strtok(
            run_ok("echo c a b | qkv translate run -q --beam 1 --without %s", value_of("%s", heads[i])),
            "\n");
    snprintf(without, sizeof without, "%.*s%s", 2 * row, before,
             before + 2 * row + (row < words - 1 ? 2 : 1));
    if (row == words - 1) without[strlen(without) - 1] = '\0';
    is_right(0);
    char *after = text_of("target"), *said = text_of("lesson-answer");
    cr_expect(shows(said, format("“%s”", after)));
    bool is_same = !strcmp(before, after);
    if (step == 7) {
        EXPECT_VALUE("[momentNumber(), state.isHeld].join()", "0,false");
        expect_answer(is_same ? 0 : 2 * words_kept(before, after) >= words ? 1 : 2);
    } else if (step == 8) {
        EXPECT_VALUE("state.view.silent_words.reduce((sum, isSilent) => sum + isSilent)", "1");
        expect_answer(is_same ? 0 : strcmp(after, without) ? 2 : 1);
    } else {
        EXPECT_TRUE("state.view.heads.every(({ kind, isSilent }) => isSilent === (kind === 'cross'))");
        cr_expect_str_eq(after, without_heads[0]);
        cr_expect(shows(said, format("“%s”", without_heads[1])));
        expect_answer(is_same ? 0 : *after ? 2 : 1);
    }
}

PageTest(page_steps, lesson_asks_what_the_model_answers)
{
    skip_without_browser();
    open_lesson("s=b+c&silent=encoder-1-1&beam=3");
    static const char fields[] = "JSON.stringify(Object.keys(HELD).map(field => state[field]))";
    char *before = value_of(fields);
    resize_to(390, 844);
    click("lesson-start");
    for (int step = 1; step <= 9; step++) {
        wait_for_step(step, "en");
        expect_panel_fits(390, 844);
        expect_panel_fits(1024, 768);
        if (step == 1) expect_answer(2); /* of rows, words in the vocabulary, and the width, which is 16 */
        /* The table says it: powers of larger scores are powers of powers. */
        if (step == 4) {
            double weight =
                number_of("1 / [...first('.term-list').querySelectorAll('td:nth-child(3)')].reduce((sum, "
                          "cell) => sum + cell.textContent ** Math.sqrt(8), 0)");
            int right = (int)number_of("element('lesson-choices').children.length") - 1;
            cr_expect_float_eq(number_of("Number(at('lesson-choice-%d').textContent)", right), weight, 0.006);
            expect_answer(right);
        }
        if (step == 6) {
            double entropies = number_of("state.view.heads[1].entropy - state.view.heads[0].entropy");
            EXPECT_VALUE("state.view.heads[0].name", "encoder-1-1");
            expect_answer(entropies < 0);
        }
        if (step > 6) expect_attempt(step);
        if (step == 9) break;
        resize_to(390, 844);
        click("lesson-next");
    }
    click("lesson-back");
    wait_for_step(8, "en");
    EXPECT_VALUE("state.silent", "");
    run_script("history.back()");
    wait_for_step(9, "en");
    expect_attempt(9);
    /* What the lesson has moved is back where it was. */
    click("lesson-leave");
    wait_until("isSettled() && !state.lesson && element('lesson').hidden");
    EXPECT_VALUE(fields, before);
    EXPECT_VALUE("count('.spot')", "0");
    EXPECT_FOCUS("lesson-start");
    run_script("goToStep(9)");
    wait_for_step(9, "en");
    click("lesson-next");
    wait_until("isSettled() && !state.lesson && element('train').open");
    EXPECT_TRUE("boxOf(element('train')).top < innerHeight / 2");
}

/* About unknown words the lesson asks nothing: it leads to the list of those that are known, and one of them in their place
 * brings the question back. */
static void expect_no_question_about_unknown_words(void)
{
    choose("lesson-sentence", "C zebra, a.");
    wait_until("isSettled() && element('lesson-choices').children.length === 1");
    cr_expect_eq(strncmp(text_of("lesson-question"), "The model does not know “zebra”", 31), 0);
    EXPECT_TEXT("lesson-choice-0", "show the 8 words that it knows");
    click("lesson-choice-0");
    EXPECT_TRUE("(({ left, top }) => element('known-words').contains(document.elementFromPoint(left + 20, "
                "top + 20)))(boxOf(element('known-words')))");
    run_script("[...element('known-words').children].find(({ textContent }) => textContent === 'b').click()");
    wait_until(
        "isSettled() && state.source === 'C b, a.' && element('lesson-choices').children.length === 4");
    EXPECT_TEXT("read-as", "Read as: c b a");
}

/* A question is about the sentence as it was before the reader tried something out. */
PageTest(page_steps, lesson_keeps_its_question_while_a_word_is_hidden)
{
    skip_without_browser();
    open_lesson("lesson-8");
    wait_until("isSettled() && element('lesson-question').textContent");
    char *question = text_of("lesson-question");
    click("silence-word-0");
    wait_until("isSettled() && state.silentWords === '1' && state.view.silent_words[0]");
    EXPECT_TEXT("lesson-question", question);
    choose("lesson-sentence", "b c");
    wait_until("isSettled() && state.source === 'b c' && !state.silentWords");
    click("silence-encoder-1-1");
    wait_until("isSettled() && state.silent === 'encoder-1-1'");
    choose("source", "c a b"); /* the page's own field */
    wait_until("isSettled() && state.source === 'c a b'");
    EXPECT_VALUE("state.silent", "");
}

/* A link opens a step in a language; what does not exist is the last step. */
PageTest(page_steps, lesson_has_links_and_languages)
{
    skip_without_browser();
    open_lesson("lesson-3");
    wait_for_step(3, "en");
    expect_answer(
        (int)number_of("(row => row.indexOf(Math.min(...row)))(rowOf(stepOf('scores'), state.held.index))"));
    for (int i = 0; i < 4; i++)
        if (!is_right(i))
            cr_expect(shows(text_of("lesson-answer"),
                            format("“%s” has the score", text_of(format("lesson-choice-%d", i)))));
    expect_no_question_about_unknown_words();
    choose("lesson-language", "es");
    wait_until("isSettled() && at('lesson-title').textContent === lessons.es.steps[2].title");
    EXPECT_VALUE("element('lesson').lang", "es");
    cr_expect(shows(value_of("location.hash"), "lang=es"));
    /* A presentation shows what the step needs, and stays. */
    browser_open("run --lesson --numbers float32 --sentence 'c a b'", "lesson-3&present=1");
    wait_for_step(3, "en");
    EXPECT_TRUE("state.isPresenting && all('.spot').every(part => part.checkVisibility()) && "
                "!element('heads').checkVisibility()");
    browser_open("run --lesson --numbers float32 --sentence 'c a b'", "lesson-4&lang=es");
    wait_for_step(4, "es");
    EXPECT_TRUE("!element('terms').hidden && state.terms.of.row === scaledRow(Math.sqrt(8)).row");
    EXPECT_TRUE("(shape => shape(lessons.en) === shape(lessons.es))(texts => JSON.stringify(texts, (_, part) "
                "=> typeof part === 'string' ? '' : part))"); /* the same members */
    EXPECT_VALUE("readStep('99') + readStep('0') + readStep('x')", "9");
    browser_open("run --sentence 'c a b'", "lesson-3");
    EXPECT_VALUE("element('lesson-start').hidden + ' ' + state.lesson", "true 0");
    run_ok("rm -rf run");
    train_recurrent("run", "", "", 2);
    cr_expect(refused(run("qkv page run --lesson"),
                      "qkv: run: --lesson needs a translator whose encoder and decoder are transformers"));
}

/* ---- of scenes ---- */

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
        format("%s %s", file, settings), OF_SCENES);
}

PageTest(page_steps, scenes_are_all_in_the_page_with_the_numbers_of_explain)
{
    enter(scratch("scenes"));
    browser_open("", "");
    cr_expect_leq(atoi(run_ok("wc -c <page.html")), 600000);
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
}

PageTest(page_steps, scenes_draw_new_random_numbers)
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
    cr_expect(shows(text_of("numbers"), "drawn with seed 456"));
    cr_expect(lacks(value_of("location.hash"), "seed="));
}

PageTest(page_steps, scenes_show_sums_masks_and_numbers)
{
    enter(scratch("scenes"));
    browser_open("", "scene=general_attention.yaml");
    wait_for("general_attention.yaml");
    EXPECT_VALUE("element('learning-strip').offsetParent === null && element('source').offsetParent === null "
                 "? 'no' : 'yes'",
                 "no"); /* nothing of a run is shown */
    /* queries [0, 2] is the first word's vector, 1 0 0, times the last column of W_Q. */
    EXPECT_VALUE("all('[data-test=cells-queries] .step-numbers span').slice(0, 3).map(textOf).join()",
                 "2,0,2");
    run_script("at('cells-queries').focus()");
    press("ArrowRight ArrowRight Enter");
    EXPECT_VALUE("JSON.stringify(state.terms.terms)", "[[\"1\",1,2,2],[\"2\",0,0,0],[\"3\",0,2,0]]");
    go_to("attention_explained_window.yaml");
    EXPECT_VALUE("state.terms", "null"); /* the sum of another scene is gone */
    EXPECT_VALUE("['cell-0-3', 'cell-0-2'].map(name => at(name).classList.contains('hidden-cell')).join()",
                 "true,false");
    go_to("attention_explained_softmax.yaml");
    EXPECT_TEXT("numbers", "nothing in this scene is random");
    EXPECT_TRUE("element('draw').disabled");
}

PageTest(page_steps, scenes_of_ones_own_may_hold_any_text)
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
    expect_steps(run_ok("qkv explain a.yaml --full --format json"), "a.yaml", OF_SCENES);
    EXPECT_VALUE("scenes[1].name + (scenes[1].tutorial ?? '')", "b.yaml");
}
