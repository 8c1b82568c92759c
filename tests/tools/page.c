/* qkv page: the file that it writes, and the page in a real browser, against the numbers of the command line. */
#include "browser.h"
#include "json.h"

/* Numbers of the page differ from qkv's by the rounding of products and sums: WebAssembly has no fused multiply-add. The
 * page shows 4 decimals. */
#define TOLERANCE 1e-5
#define SHOWN     5e-5

/* Tokens that would end a script or run one if the page took them for HTML. */
#define HOSTILE "</script><img/onerror=alert(1)/src=x>"

/* Trains a run that translates word by word, with a hostile token on each side. Returns its folder. */
static const char *trained(void)
{
    const char *folder = enter(scratch("page"));
    static const char *const source[] = {"one", "two", "three", "four", HOSTILE};
    static const char *const target[] = {"uno", "dos", "tres", "cuatro", "<b>cinco</b>"};
    write_text(".", "train.tsv", word_pairs(40, source, target));
    write_config("train: train.tsv, dev: train.tsv, src: {lang: en}, trg: {lang: es}",
                 "num_layers: 2, num_heads: 2, hidden_size: 16, ff_size: 32, positions: {max_length: 12}",
                 "num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, positions: {max_length: 12}",
                 "learning_rate: 0.01, batch_size: 20, updates: 150, validation_freq: 150");
    run_ok("qkv train c.yaml --quiet --threads 1");
    return folder;
}

/* A page that holds the parameters of the run exactly. */
#define PAGE "run --numbers float32 --sentence 'two one'"

/* Trains the run and opens its page. */
static void opened(const char *fragment)
{
    skip_without_browser();
    trained();
    browser_open(PAGE, fragment);
}

/* data.test may be the common prefix of two compressed files. The page holds its texts in base64. */
Test(page, opens_with_the_first_sentence_of_compressed_files)
{
    skip_without_page();
    trained();
    run_ok("echo 'two four' >t.en && echo 'dos cuatro' >t.es && gzip t.en t.es && qkv train c.yaml -q "
           "--overwrite -s training.updates=2 -s data.test=t && qkv page run");
    cr_expect(shows(run_ok("sed -n 's/.*id=\"run-data\">//; T; s/<.*//p' page.html | base64 -d"),
                    "\"sentence\":\"two four\""));
}

/* Replaces the sentence by typing, and waits for the answer. */
static void type(const char *sentence)
{
    click("source");
    run_script("document.activeElement.select()");
    type_text(sentence);
}

/* ---- the file ---- */

Test(page, names_what_a_build_without_it_lacks)
{
    struct outcome outcome = run("qkv page nothing");
    cr_expect_eq(outcome.exit_code, 2);
    if (!has_page()) cr_expect(shows(outcome.error, "wasi-libc and libclang-rt-14-dev-wasm32"));
}

Test(page, is_one_file_below_a_megabyte_without_its_model)
{
    skip_without_page();
    const char *folder = trained();
    run_ok("qkv page run -o a.html && qkv page run -o - >b.html && cmp a.html b.html");
    size_t size;
    char *html = read_file("a.html", &size);
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
    cr_expect(lacks(html, "onerror=alert"));
    cr_expect(lacks(html, folder), "the page tells where its run is");
}

Test(page, says_what_is_wrong_and_writes_nothing)
{
    static const char *const cases[][2] = {
        {"nothing", "qkv: nothing: there is no such run, and no such scene\n"},
        {"none.yaml", "qkv: none.yaml: there is no such run, and no such scene\n"},
        {"c.yaml",
         "qkv: c.yaml is a config of training, not a scene as in configs/seeds; its run is runs/c\n"},
        {"run -o run", "qkv: -o run: a page is HTML: name it .html\n"},
        {"run -o page.pdf", "qkv: -o page.pdf: a page is HTML: name it .html\n"},
        {"run -o none/page.html", "none/page.html"},
        {"run --numbers half >/dev/full -o -", "No space left on device"},
        /* A run, or scenes. */
        {"run 'a b'",
         "qkv: a page holds one run, or scenes; --sentence gives the sentence that it opens with\n"},
        {"run run", "qkv: a page holds one run, or scenes\n"},
        {"run bad.yaml", "qkv: a page holds one run, or scenes\n"},
        {"bad.yaml", "bad.yaml:2:1: unknown key embedings; did you mean embeddings"},
        {"learned.yaml", "learned.yaml:3:7: trained numbers cannot be in a page of scenes"},
        {"--sentence a", "qkv: --sentence is for runs: give a run folder\n"},
        {"--lesson", "qkv: --lesson is for runs: give a run folder\n"},
        {"bad.yaml --snapshots 2", "qkv: --snapshots is for runs, but bad.yaml is not a run folder\n"},
        /* Pairs and their links. */
        {"run --links links", "qkv: --links needs --pairs\n"},
        {"run --pairs train.tsv --links-from 0", "qkv: --links-from needs --links\n"},
        {"run --pairs nothing.tsv", "nothing.tsv"},
        {"run --pairs train.tsv --max-pairs 0", "--max-pairs is 0"},
        {"run --pairs train.tsv --links far", "far:3:"},
        {"run --pairs train.tsv --links few", "few"},
    };
    skip_without_page();
    trained();
    write_text(".", "c.yaml",
               "name: c\ndata: {train: t.tsv, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n");
    write_text(".", "bad.yaml", "tokens: [x]\nembedings: {from: random}\n");
    write_text(".", "learned.yaml", "tokens: [a]\nembeddings: {from: learned}\nrun: {path: run}\n");
    write_links("train.tsv", "links");
    run_ok("head -n 12 links >few && sed '3s/$/ 7-0/' links >far");
    EXPECT_FAILURES("qkv page", cases);
    run_ok("mv run/metrics.jsonl kept && ln -s /dev/null run/metrics.jsonl");
    cr_expect(
        refused(run("qkv page run"), "qkv: run/metrics.jsonl: cannot be read: it is not a regular file"));
    run_ok("mv kept run/metrics.jsonl && printf 'a\\377\\tA\\n' >train.tsv");
    static const char wrong[] = "qkv: train.tsv:1:2: byte 0xFF is not valid UTF-8; the page takes its "
                                "examples from this text: mend or move it";
    cr_expect(refused(run("qkv page run"), wrong) && refused(run("qkv page run --sentence one"), wrong));
    cr_expect_eq(run("ls *.html").exit_code, 2);
}

/* ---- in the browser ---- */

/* The policy of a server; a browser writes to its console that a worker was refused, which browser_close would not allow. */
Test(page, says_what_a_policy_must_allow)
{
    opened("");
    run_script(
        "document.head.append(Object.assign(document.createElement('meta'), {httpEquiv: "
        "'Content-Security-Policy', content: \"worker-src 'none'\"})), startWorker(() => {}, failed, {})");
    wait_until("at('message').textContent.includes('Content-Security-Policy must allow “worker-src blob:”')");
}

PageTest(page, translates_while_one_types)
{
    opened("");
    /* Examples are sentences of the text, and known words are added by a click. */
    char *example = value_of("run.examples[1]");
    choose("examples", example);
    run_script("element('lexicon').open = true");
    EXPECT_VALUE("element('known-words').textContent", "fouronethreetwo");
    run_script("element('known-words').firstChild.click()");
    expect_printed("target", "echo '%s four' | qkv translate run -q --beam 1", example);
    type("two one");
    EXPECT_TEXT("name", "tiny");
    char *model = text_of("model");
    cr_expect(begins(model, "encoder of 2 layers with 2 heads, decoder of 1 layer with 2 heads; "));
    cr_expect(shows(model, " parameters in float32, trained for 150 updates"));
    EXPECT_VALUE("at('source').value", "two one");
    static const char *const sentences[] = {"one two three", "four", HOSTILE " two", "three three one four",
                                            "zebra one"};
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) {
        type(sentences[i]);
        expect_printed("target", "echo '%s' | qkv translate run --quiet --beam 1", sentences[i]);
    }
    EXPECT_VALUE("first('.word.unknown').textContent", "zebra");
    EXPECT_TEXT(
        "unknown",
        "The model does not know “zebra”: it reads every unknown word as the same <unk>. It knows 4 words:");
    run_script("element('lexicon').open = false");
    click("show-known");
    EXPECT_TRUE("element('lexicon').open && document.activeElement.textContent === 'four'");
    type("   ");
    EXPECT_TEXT("target", "");
    EXPECT_TEXT("unknown", "");
    /* Read as the training text was written, as at the prompt; what stays unknown is named without its marks. */
    EXPECT_TEXT("read-as", "");
    type("Two one.");
    expect_printed("target", "echo 'two one' | qkv translate run -q --beam 1");
    EXPECT_TEXT("read-as", "Read as: two one");
    EXPECT_TRUE("!at('unknown').textContent && at('show-known').hidden");
    type("Two (Zebras).");
    EXPECT_TEXT("read-as", "Read as: two (Zebras).");
    cr_expect(shows(text_of("unknown"), "does not know “Zebras”: "));
    type("two one");
    EXPECT_TEXT("read-as", "");
    type("one one one one one one one one one one one one one");
    cr_expect(shows(text_of("message"), "positions"));
    type("one");
    EXPECT_TEXT("message", "");
}

/* The translation of a sentence with two hypotheses and its score are those of the command line. */
static void expect_scored(const char *sentence, const char *options)
{
    char *line = run_ok("echo '%s' | qkv translate run -q --beam 2 --scores %s", sentence, options);
    cr_expect_str_eq(format("%s\n", text_of("target")), strchr(line, '\t') + 1, "%s", line);
    cr_expect_float_eq(number_of("state.view.scores[0]"), atof(line), TOLERANCE, "%s", line);
}

/* Other networks, levels of text and attentions: the words and the first score of the command line; the steps of their
 * attention end with the probabilities of the translation. */
PageTest(page, translates_with_every_kind_of_model)
{
    static const char *const kinds[][2] = {
        {"", "type: recurrent, num_layers: 1, hidden_size: 16"},
        {", level: char", "num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 0"},
        {", level: bpe, num_merges: 6", "num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 16"},
        {"",
         "num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 16, attention: {window: 1, kernel: flash}"},
    };
    skip_without_browser();
    trained();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *level = kinds[i][0], *stack = kinds[i][1];
        write_config(format("train: train.tsv, src: {lang: en%s}, trg: {lang: es%s}", level, level), stack,
                     NULL, "learning_rate: 0.01, batch_size: 20, updates: 40");
        run_ok("qkv train c.yaml --quiet --overwrite --threads 1");
        browser_open(PAGE, "s=one+two+three&beam=2&steps=1");
        expect_scored("one two three", "");
        wait_until("state.walk && isSettled()");
        cr_expect_float_eq(number_of("(step => valueAt(step, 1, "
                                     "step.columnNames.indexOf(step.rowNames[1])))(stepOf('probabilities'))"),
                           number_of("state.view.probabilities[1]"), TOLERANCE, "%s %s", level, stack);
    }
}

/* Three sentences at once: the old view stays until the last one is there; the others are never shown. A view that stays longer
 * is dimmed. */
PageTest(page, drops_answers_that_are_out_of_date)
{
    opened("");
    char *waits =
        value_of("(() => { window.shown = []; onChange('view', () => { "
                 "shown.push(state.view.source_tokens[0]); }); for (const source of ['one', 'two', 'three']) "
                 "{ change({source}); ask(); } return document.body.classList.contains('waiting'); })()");
    cr_expect_str_eq(waits, "true");
    wait_until("isSettled()");
    EXPECT_VALUE("shown.join()", "three");
    EXPECT_VALUE("document.body.className.match(/waiting|dimmed/)", "null");
    EXPECT_VALUE("(underWay = true, ask())", "undefined"); /* as if the engine were at work */
    wait_until("getComputedStyle(element('map')).opacity < 1");
    run_script("(underWay = false, sendNext())");
    wait_until("isSettled() && getComputedStyle(element('map')).opacity === '1'");
}

/* Compares every cell of the large map with a map of `qkv attention`. */
static void compare_map(const cJSON *map)

{
    const cJSON *weights = json_at(map, "weights");
    int rows = json_size(map, "weights"), columns = json_size(map, "weights.0");
    for (int i = 0; i < rows * columns; i++) {
        double weight = json_cell(weights, i / columns, i % columns);
        char *label = value_of("at('cell-%d-%d').getAttribute('aria-label')", i / columns, i % columns);
        const char *shown = strrchr(label, ',') + 2;
        if (!strcmp(shown, "masked"))
            cr_expect_eq(weight, 0, "%s", label);
        else
            cr_expect_float_eq(atof(shown), weight, SHOWN + TOLERANCE, "%s", label);
    }
    EXPECT_VALUE("`${count('tbody tr')} ${count('tbody tr > *')}`",
                 format("%d %d", rows, rows * (columns + 1)));
}

PageTest(page, shows_the_maps_of_qkv_attention)
{
    opened("s=four+two+one");
    const cJSON *map,
        *maps =
            json_at(json_by("qkv attention run 'four two one' --beam 1 --kind all --format json 2>/dev/null"),
                    "maps");
    cr_assert_eq(cJSON_GetArraySize(maps), 8);
    cJSON_ArrayForEach(map, maps)
    {
        char *name =
            format("%s-%g-%g", json_text(map, "kind"), json_number(map, "layer"), json_number(map, "head"));
        click("head-%s", name);
        compare_map(map);
    }
    EXPECT_VALUE("count('.hidden-cell')", "0");
    click("head-decoder-1-2");
    EXPECT_VALUE("count('.hidden-cell')", "6");
    cr_expect(shows(value_of("location.hash"), "head=decoder-1-2"));
}

static void expect_caption(const char *beginning)
{
    cr_expect(begins(text_of("caption"), beginning));
}

/* The words of the sentence pair that are lit up. */
static char *lit_words(void)
{
    return value_of("all('.word.lit').map(x => x.firstChild.data).join(' ')");
}

/* "row,column" of the marks of the small maps of a kind. */
static char *lit_place(const char *kind)
{
    return value_of("(box => ['row', 'column'].map(axis => box.classList.contains(`${axis}-lit`) ? "
                    "parseFloat(box.querySelector(`.${axis}-mark`).style.transform.slice(11)) / 100 : "
                    "-1).join())(first('.kind[data-kind=%s]'))",
                    kind);
}

PageTest(page, lights_up_what_the_pointer_and_the_keys_are_on)
{
    opened("s=four+two+one&head=cross-1-1");
    point_at("target-word-1");
    wait_until("first('.kind[data-kind=cross]').classList.contains('row-lit')");
    EXPECT_VALUE("count('#map tbody td.lit')", "4");
    expect_caption("“dos” takes ");
    cr_expect(shows(text_of("next-words"), "Word 2, given the sentence and “cuatro”"));
    point_at("source-word-0");
    expect_caption("“four” gets ");
    point_at("cell-0-0");
    char *by_pointer = text_of("caption");
    expect_caption("“cuatro” takes ");
    cr_expect_str_eq(lit_words(), "four cuatro");
    cr_expect_str_eq(lit_place("cross"), "0,0");
    run_script("at('cell-0-1').focus()");
    press("ArrowLeft");
    EXPECT_FOCUS("cell-0-0");
    EXPECT_TEXT("caption", by_pointer);
    press("ArrowDown");
    EXPECT_FOCUS("cell-1-0");
    press("Escape");
    expect_caption("This head");
    /* In the decoder's own attention a word is the row of the step that chooses it and the column of the step that reads it. */
    click("head-decoder-1-1");
    EXPECT_VALUE("all('tbody th').map(textOf).join()", "<s> → cuatro,cuatro → dos,dos → uno,uno → </s>");
    EXPECT_VALUE("element('masked').hidden", "false");
    point_at("target-word-1");
    cr_expect_str_eq(lit_place("decoder"), "1,2");
    cr_expect_str_eq(lit_place("cross"), "1,-1");
    expect_caption("“dos” takes ");
    point_at("target-word-3");
    cr_expect_str_eq(lit_place("decoder"), "3,-1");
    click("target-word-0");
    point_at("name");
    cr_expect_str_eq(lit_words(), "cuatro", "a click keeps a word lit");
    press("Escape");
    cr_expect_str_empty(lit_words());
    point_at("source-word-1");
    point_at("name");
    cr_expect_str_empty(lit_words(), "the word is kept no longer");
    click("head-encoder-1-1");
    EXPECT_TRUE("element('masked').hidden");
}

/* The translation and the first probability of the command line without these heads. */
static void expect_silent(const char *heads)
{
    const char *without = *heads ? format("--without %s", heads) : "";
    expect_scored("four two one", without);
    compare_map(
        json_at(json_by("qkv attention run 'four two one' --beam 2 -q --kind cross --head 2 --format json %s",
                        without),
                "maps.0"));
}

/* A click or the key S silences a head; translation, scores and maps are those of --without, and the address holds it. */
PageTest(page, silences_heads)
{
    opened("s=four+two+one&beam=2&head=cross-1-2");
    expect_silent("");
    char *before = value_of("state.view.scores[0]");
    EXPECT_TRUE("element('speak').hidden");
    click("silence-encoder-2-1");
    expect_silent("encoder.2.1");
    cr_expect_str_neq(value_of("state.view.scores[0]"), before);
    EXPECT_TEXT("silent", "silent: encoder attention, layer 2, head 1");
    run_script("at('head-cross-1-2').focus()");
    press("s");
    expect_silent("encoder.2.1,cross.1.2");
    EXPECT_FOCUS("head-cross-1-2");
    EXPECT_TEXT("map-title", "Cross attention, layer 1, head 2, silent");
    expect_caption("This head is silent: it looks, but passes on nothing. ");
    EXPECT_TEXT("silent", "2 heads are silent");
    cr_expect(shows(value_of("decodeURIComponent(location.hash)"), "silent=encoder-2-1,cross-1-2"));
    run_script("history.back()");
    wait_until("isSettled() && state.silent === 'encoder-2-1'");
    expect_silent("encoder.2.1");
    click("silence-encoder-2-1");
    expect_silent("");
    EXPECT_VALUE("state.view.scores[0]", before);
    EXPECT_TEXT("silent", "");
    /* All heads of a kind, with the translation from before. */
    EXPECT_TRUE("element('unsilenced').hidden");
    char *with_all = text_of("target");
    click("silence-all-cross");
    expect_silent("cross.1.1,cross.1.2");
    EXPECT_TEXT("unsilenced", format("With nothing silent: %s", with_all));
    /* An address may name heads that do not exist. */
    browser_open(PAGE, "s=four+two+one&beam=2&head=cross-1-2&silent=cross-9-1,x,cross-1-2,decoder--1-1,");
    expect_silent("cross.1.2");
    EXPECT_VALUE("state.silent", "cross-1-2");
    click("speak");
    expect_silent("");
}

/* The scores of `qkv translate --scores`, and a translation that is given. */
PageTest(page, shows_the_best_translations_and_a_given_one)
{
    opened("s=three+one&beam=3");
    char *line = strtok(run_ok("echo 'three one' | qkv translate run --beam 3 --n-best 3 --scores"), "\n");
    for (int i = 0; i < 3; i++, line = strtok(NULL, "\n")) {
        double score = atof(strchr(line, '\t') + 1);
        char *shown = value_of("all('.score')[%d].textContent.replace('-', 'hyphen').replace('−', '-')", i);
        cr_expect_float_eq(atof(shown), score, SHOWN + 2 * TOLERANCE, "%s, but %s", shown, line);
        EXPECT_VALUE(format("state.view.translations[%d]", i), strrchr(line, '\t') + 1);
    }
    click("translation-1");
    EXPECT_TEXT("target", value_of("state.view.translations[1]"));
    click("use-own");
    run_script("document.activeElement.select()");
    type_text("dos <b>cinco</b> otro");
    EXPECT_VALUE("all('#target-words .word')[1].firstChild.data", "<b>cinco</b>");
    EXPECT_VALUE("count('b, img')", "0");
    static const char own_score[] =
        "log-probability −"; /* with the sign of minus, as all numbers of the page */
    cr_expect(begins(text_of("own-score"), own_score));
    double product = number_of("state.view.probabilities.reduce((all, part) => all * part)");
    cr_expect_float_eq(-atof(text_of("own-score") + strlen(own_score)), log(product), 1e-3);
    point_at("target-word-2");
    EXPECT_VALUE("first('.bar.chosen .bar-word').textContent",
                 "otro"); /* the word that is given is listed, however improbable it is */
    click("use-own");
    wait_until("isSettled() && state.own === null");
    click("use-own");
    EXPECT_VALUE("state.own", "dos <b>cinco</b> otro");
}

/* ---- sampling ---- */

/* The words that are drawn are those of the command line, and p^(1 / temperature) of each is its probability but for a factor. */
PageTest(page, samples_at_a_temperature)
{
    opened("s=one+two+three");
    double ratio = number_of("Math.log(state.view.next_probabilities[0] / state.view.next_probabilities[1])");
    choose("temperature", "2.5");
    cr_expect_float_eq(
        number_of("Math.log(state.view.next_probabilities[0] / state.view.next_probabilities[1])"),
        ratio / 2.5, 1e-9);
    double sum = number_of("state.view.next_probabilities.slice(0, 5).reduce((sum, part) => sum + part)");
    cr_expect(sum > 0.1 && sum < 1, "%g", sum);
    choose("beam", "sample");
    for (int seed = 1; seed < 4; seed++) {
        expect_printed(
            "target", "echo one two three | qkv translate run -q --sample --temperature 2.5 --seed %d", seed);
        click("another");
    }
    choose("beam", "5");
    wait_until("isSettled() && state.seed === null && state.view.translations.length === 5");
}

/* ---- silent words ---- */

/* The page of the run for "c a b", two hypotheses. */
static void open_silence(const char *fragment)
{
    browser_open("run --numbers float32 --sentence 'c a b'",
                 format("s=c+a+b&beam=2&head=encoder-1-1%s", fragment));
}

/* The view has this mask, a digit for each token: no weight on silent tokens, all weight on the others, and translation,
 * scores and probabilities of one model. That the engine is right with a mask, tests/models/masked_source.c tests. */
static void expect_masked(const char *mask)
{
    EXPECT_VALUE("[...state.view.silent_words].join('')", mask);
    EXPECT_VALUE(
        "JSON.stringify(state.view.heads.filter(({ kind, weights, columns }) => kind !== 'decoder' && "
        "weights.some((weight, i) => isHidden(weight) !== Boolean(state.view.silent_words[i % columns]))))",
        "[]");
    if (strchr(mask, '0'))
        EXPECT_TRUE("state.view.heads.every(({ weights, rows, columns }) => "
                    "[...Array(rows).keys()].every(row => Math.abs(weights.slice(row * columns, (row + 1) * "
                    "columns).reduce((sum, weight) => sum + Math.max(0, weight), 0) - 1) < 1e-5))");
    EXPECT_TEXT("target", value_of("state.view.target_outputs.filter(word => word !== '</s>').join(' ')"));
    double sum = number_of("state.view.log_probability[0]");
    cr_expect_float_eq(
        number_of("state.view.scores[0] * ((5 + state.view.target_outputs.length) / 6) ** 0.6"), sum,
        10 * TOLERANCE);
    cr_expect_float_eq(sum, number_of("Math.log(state.view.probabilities.reduce((all, part) => all * part))"),
                       TOLERANCE);
}

PageTest(page, silences_words_of_a_transformer)
{
    skip_without_browser();
    enter(learned_run("silent_words"));
    open_silence("&steps=1");
    expect_masked("0000");
    char *before = value_of("state.view.scores[0]");
    EXPECT_VALUE("count('#map td.hidden-cell')", "0");
    point_at("source-word-0"); /* the cross appears */
    click("silence-word-0");
    expect_masked("1000");
    cr_expect_str_neq(value_of("state.view.scores[0]"), before);
    EXPECT_VALUE("count('#map td.hidden-cell')", "4"); /* a column of the encoder's map */
    EXPECT_TEXT("silent-words", "silent: “c”. Nothing attends to a silent word.");
    click("head-cross-1-1");
    point_at("source-word-0");
    EXPECT_TEXT("caption", "“c” is silent: nothing attends to it");
    /* The steps show the mask, and end with the probabilities of the view. */
    EXPECT_VALUE("stepOf('mask').note", "Nothing attends to a silent word.");
    cr_expect_lt(number_of("(step => Math.max(...[...state.view.probabilities].map((probability, row) => "
                           "Math.abs(probability - valueAt(step, row, "
                           "step.columnNames.indexOf(step.rowNames[row]))))))(stepOf('probabilities'))"),
                 TOLERANCE);

    run_script("at('source-word-2').focus()");
    press("s");
    expect_masked("1010");
    EXPECT_FOCUS("source-word-2");
    cr_expect(shows(value_of("decodeURIComponent(location.hash)"), "silent-words=1,3"));
    run_script("history.back()");
    wait_until("isSettled() && state.silentWords === '1'");
    expect_masked("1000");
    click("words-speak");
    EXPECT_VALUE("state.view.scores[0]", before);
    /* An address may name words that do not exist; all words may be silent. */
    open_silence("&silent-words=4,9,x,3,-1,2,1,0");
    EXPECT_VALUE("state.silentWords", "1,2,3,4");
    expect_masked("1111");
    point_at("source-word-0");
    cr_expect(shows(text_of("caption"), " attends to nothing"));
    click("source");
    type_text(" a");
    EXPECT_VALUE("state.silentWords", ""); /* another sentence begins without silent words */
}

/* A recurrent encoder reads the word all the same. With the score local_p no word can be silent. */
PageTest(page, silences_words_of_a_recurrent_decoder)
{
    skip_without_browser();
    enter(tiny_task("silent_recurrent"));
    static const char *const scores[] = {"general", "local_p"};
    for (int i = 0; i < 2; i++) {
        run_ok("rm -rf run");
        train_recurrent("run", "", format(", attention: {score: %s}", scores[i]), 150);
        open_silence("&silent-words=1");
        if (i == 0) expect_masked("1000");
        EXPECT_TEXT("silent-words",
                    i ? "" : "silent: “c”. Nothing attends to a silent word, but the encoder reads it.");
        EXPECT_VALUE("count('.word-box')", i ? "0" : "4");
        EXPECT_VALUE("state.silentWords", i ? "" : "1");
    }
}
