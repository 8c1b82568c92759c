/* qkv attention, through the command line, on a tiny run. */
#include "json.h"
#include "tiny_run.h"

TestSuite(attention, .init = enter_tiny);

static struct outcome attention(const char *arguments)
{
    return run("qkv attention run %s", arguments);
}

static const cJSON *report_of(const char *arguments)
{
    return json_by("qkv attention run %s -f json", arguments);
}

Test(attention, json_holds_every_head_of_every_layer)
{
    static const char *const names[] = {"encoder.1.1", "encoder.1.2", "encoder.2.1", "encoder.2.2",
                                        "decoder.1.1", "decoder.1.2", "cross.1.1",   "cross.1.2"};
    static const char *const searches[] = {"", "--beam 3", "--target 'uno tres dos'"};
    for (int s = 0; s < 3; s++) {
        const cJSON *report = report_of(format("'one two three' %s", searches[s]));
        cr_assert_eq(json_size(report, "maps"), 8);
        cr_expect_str_eq(json_text(report, "model"), "tiny");
        for (int i = 0; i < 8; i++) cr_expect_str_eq(json_text(report, format("maps.%d.name", i)), names[i]);
    }
}

Test(attention, a_given_target_that_equals_the_translation_gives_the_same_maps)
{
    struct outcome translated = attention("'four two one' -f json");
    translated.error[strcspn(translated.error, "\n")] = '\0'; /* the translation */
    cr_assert_str_not_empty(translated.error);
    struct outcome given = attention(format("'four two one' -f json --target '%s'", translated.error));
    cr_expect_str_empty(given.error);
    cr_expect_str_eq(given.output, translated.output);
    cr_expect(shows(translated.output, format("four two one → %s", translated.error)));
    cr_expect_str_neq(attention("'four two one' -f json --target 'dos dos'").output, translated.output);
}

/* tests/report/attention_map.c tests the selection. The format chooses the maps unless options do. */
Test(attention, selects_kinds_layers_heads_and_means)
{
    static const struct {
        const char *options;
        int count;
        const char *first;
    } cases[] = {
        {"--kind encoder", 4, "encoder.1.1"},
        {"--kind encoder,cross --mean", 3, "encoder.1.mean"},
        {"--kind cross --kind decoder --head 2", 2, "decoder.1.2"},
        {"--kind encoder --layer mean --head 1", 1, "encoder.mean.1"},
        {"--kind all --layer mean --mean", 3, "encoder.mean.mean"},
        {"--layer 1", 6, "encoder.1.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cJSON *report = report_of(format("'one two' %s", cases[i].options));
        cr_expect_eq(json_size(report, "maps"), cases[i].count, "%s", cases[i].options);
        cr_expect_str_eq(json_text(report, "maps.0.name"), cases[i].first);
    }
    const char *text = attention("'one two'").output, *picture = attention("'one two' -f svg").output;
    cr_expect(shows(text, "cross attention, layer 1, mean of heads"));
    cr_expect(lacks(text, "encoder") && lacks(text, "\033")); /* no colours off a terminal */
    cr_expect(
        shows(attention("'one two' --head all --kind cross").output, "cross attention, layer 1, head 2"));
    cr_expect(shows(picture, "layer 1, head 2") && shows(picture, "cross attention · tiny"));
    cr_expect(lacks(picture, "encoder"));
}

Test(attention, the_extension_of_the_file_chooses_the_format)
{
    static const char *const files[][2] = {
        {"a.json", "{"},          {"a.csv", "kind,layer,head"}, {"a.npz", "PK\003\004"}, {"a.svg", "<svg"},
        {"a.png", "\211PNG\r\n"}, {"a.html", "<!DOCTYPE"},      {"a.txt", "one two → "}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cr_expect_str_empty(run_ok("qkv attention run 'one two' -q -o %s 2>&1", files[i][0]));
        const char *bytes = read_file(files[i][0], NULL), *found = strstr(bytes, files[i][1]);
        cr_expect(found && found - bytes < 60, "%s", files[i][0]);
    }
    /* Pages say what rows and columns are, and what the darkest cell of each map is. */
    const char *page = read_file("a.html", NULL);
    cr_expect(shows(page, "rows: target (output), columns: source") && shows(page, "; colours from 0 to 0."));
    /* --format wins over the name; `-` is standard output, binary or not. */
    attention("'one two' -f csv -o a.json");
    cr_expect(begins(read_file("a.json", NULL), "kind"));
    cr_expect_str_eq(attention("'one two' -f png -o - | head -c 4").output, "\211PNG");
}

Test(attention, annotate_and_colormap_change_the_picture)
{
    const char *plain = run_ok("qkv attention run 'one two' -f svg --mean"),
               *other = run_ok("qkv attention run 'one two' -f svg --mean --colormap gray"),
               *numbers = run_ok("qkv attention run 'one two' -f svg --mean --annotate");
    cr_expect_str_neq(plain, other);
    cr_expect_gt(strlen(numbers), strlen(plain));
}

/* ---- several kinds in a picture ---- */

struct box {
    double left, top, right, bottom;
};

static bool overlap(const struct box *a, const struct box *b)
{
    return a->left < b->right && b->left < a->right && a->top < b->bottom && b->top < a->bottom;
}

/* Reads the frames of the panels and the colour bar from a svg, and returns their number. */
static int read_frames(const char *svg, struct box frames[], int most)
{
    int count = 0;
    double x, y, width, height;
    for (const char *at = svg; (at = strstr(at, "<rect x=")); at++) {
        int end = 0;
        sscanf(at, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\" fill=\"#cccccc\"/>%n", &x, &y,
               &width, &height, &end);
        if (!end) continue;
        cr_assert_lt(count, most);
        frames[count++] = (struct box){x, y, x + width, y + height};
    }
    return count;
}

/* Expects that no level text, which is at least 0.3 of its height wide for each byte, is across a frame. */
static void expect_texts_beside(const char *svg, const struct box *frames, int count)
{
    double x, y, size;
    for (const char *at = svg; (at = strstr(at, "<text x=")); at++) {
        cr_assert_eq(sscanf(at, "<text x=\"%lf\" y=\"%lf\" font-size=\"%lf\"", &x, &y, &size), 3);
        const char *text = strchr(at, '>') + 1, *end = strstr(at, "text-anchor=\"end\"");
        double width = 0.3 * size * (double)strcspn(text, "<");
        if (end && end < text) x -= width;
        const struct box box = {x, y - 0.7 * size, x + width, y};
        for (int i = 0; i < count; i++)
            cr_expect(!overlap(&box, &frames[i]), "%.*s is across panel %d", (int)strcspn(text, "<"), text,
                      i);
    }
}

/* The picture of all kinds fits a slide of 16:9, as well as a few squares can. Models differ in shape, and sentences in length. */
Test(attention, all_kinds_fill_a_slide)
{
#define SHAPE(layers, heads, decoder_layers, decoder_heads)                                                  \
    "-s model.encoder.num_layers=" #layers " -s model.encoder.num_heads=" #heads                             \
    " -s model.decoder.num_layers=" #decoder_layers " -s model.decoder.num_heads=" #decoder_heads
    enum { MOST = 160 };
    static const struct {
        const char *shape; /* NULL: that of the case before */
        int maps, words;
    } cases[] = {{SHAPE(6, 8, 6, 8), 144, 3}, {NULL, 144, 30}, {SHAPE(1, 1, 1, 1), 3, 7},
                 {SHAPE(2, 4, 2, 1), 12, 3},  {NULL, 12, 30},  {NULL, 12, 7}};
    static struct box frames[MOST];
    int width = 0, height = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = format("%s", "one");
        for (int word = 1; word < cases[i].words; word++) text = format("%s three", text);
        if (cases[i].shape)
            run_ok("qkv train tiny.yaml -q --overwrite -s training.updates=1 -s training.model_dir=all -s "
                   "model.encoder.positions.max_length=40 -s model.decoder.positions.max_length=40 %s",
                   cases[i].shape);
        const char *svg = run_ok("qkv attention all '%s' -t '%s' --kind all -q -f svg", text, text);
        cr_assert_eq(sscanf(strstr(svg, " width="), " width=\"%d\" height=\"%d\"", &width, &height), 2);
        double ratio = (double)width / height;
        cr_expect(ratio > 1.2 && ratio < 2.6, "case %zu: %g to 1", i, ratio);
        int count = read_frames(svg, frames, MOST);
        cr_expect_eq(count, cases[i].maps + 1, "panels and a bar");
        for (int f = 0; f < count; f++) {
            cr_expect(frames[f].left >= 0 && frames[f].top >= 0 && frames[f].right <= width &&
                      frames[f].bottom <= height);
            for (int g = 0; g < f; g++)
                cr_expect(!overlap(&frames[f], &frames[g]), "case %zu: panels %d and %d overlap", i, g, f);
        }
        expect_texts_beside(svg, frames, count);
        cr_expect(shows(svg, ">encoder attention</text>") && shows(svg, ">cross attention</text>"));
    }
    run_ok("for f in png pdf; do qkv attention all 'one three three three three three three' -t "
           "'one three three three three three three' --kind all -q -o all.$f; done");
    const char *png = read_file("all.png", NULL);
    cr_expect_eq((unsigned char)png[18] << 8 | (unsigned char)png[19], 2 * width);
    cr_expect_eq((unsigned char)png[22] << 8 | (unsigned char)png[23], 2 * height);
    run_ok("grep -aq 'MediaBox . 0 0 %g %g ' all.pdf", 0.75 * width, 0.75 * height);
}

/* ---- standard input ---- */

static struct outcome piped(const char *lines, const char *arguments)
{
    return run("printf '%s' | qkv attention run - %s", lines, arguments);
}

Test(attention, treats_every_line_of_standard_input)
{
    static const char *const sentences[] = {"two five", "one zap", "four"};
    const char *lines = "two five\\n\\none zap\\r\\nfour";
    struct outcome text = piped(lines, "");
    cr_expect_str_eq(text.output, format("%s\n%s\n%s", attention("'two five'").output,
                                         attention("'one zap'").output, attention("four").output));
    cr_expect(shows(text.error, "qkv: <stdin>:3: the sentence: not in the vocabulary: zap\n"));
    char *json = piped(lines, "-q -f json").output;
    for (int i = 0; i < 3; i++, json += strcspn(json, "\n") + 1) {
        const cJSON *line = remember(cJSON_ParseWithLength(json, strcspn(json, "\n")));
        cr_expect(cJSON_Compare(report_of(format("'%s' -q", sentences[i])), line, true), "%s", sentences[i]);
    }
    cr_expect_str_empty(json);
    cr_expect_str_eq(piped("\\n two\\tfive\\r\\n\\n", "-f csv").output,
                     attention("'two five' -f csv").output);
    cr_expect(refused(piped(" \\n", ""), "qkv: <stdin>: the input is empty: a sentence is missing"));
    cr_expect(refused(piped("two \\0five\\n", ""), "qkv: <stdin>:1:5: a NUL byte is not allowed in text"));
    cr_expect(refused(piped(lines, "-q -f csv"),
                      "qkv: standard input has several sentences, but standard output takes only one as csv: "
                      "name a file with -o, or choose one of text, json"));
    cr_expect(refused(piped(lines, "-q -t uno"),
                      "qkv: --target is the translation of one sentence, but <stdin> has several"));
    struct outcome broken = piped("one\\ntwo \\377\\nthree", "-q -f json");
    cr_expect_eq(broken.exit_code, 2);
    cr_expect_str_eq(broken.error, "qkv: <stdin>:2:5: byte 0xFF is not valid UTF-8\n");
    cr_expect_str_eq(format("%.1s", broken.output), "{", "the line before it is shown");
    /* The untrained model is shown beside every line. */
    const char *both = piped("two five\\nfour\\n", "-q --versus random").output,
               *last = attention("four -q --versus random").output;
    cr_assert_gt(strlen(both), strlen(last));
    cr_expect_str_eq(both + strlen(both) - strlen(last), last);
}

Test(attention, writes_a_file_for_each_line_of_standard_input)
{
    for (int64_t i = 0; qkv_format(i); i++) {
        const char *end = qkv_format(i)->extension;
        cr_assert_eq(piped("two five\\n\\nfour\\n", format("-q --head 1 -o a.b.%s", end)).exit_code, 0);
        run_ok("qkv attention run four -q --head 1 -o four.%s && cmp a.b.3.%s four.%s && test -s a.b.1.%s",
               end, end, end, end);
    }
}

/* A checkpoint is named by its file, or without .safetensors. */
Test(attention, takes_the_last_and_the_best_checkpoint)
{
    static const char *const names[] = {"last", "best"};
    for (int i = 0; i < 2; i++)
        cr_expect_str_eq(run_ok("qkv attention run one -f json --checkpoint %s", names[i]),
                         run_ok("qkv attention run one -f json --checkpoint %s.safetensors", names[i]));
}

Test(attention, warns_about_unknown_words_and_shows_them)
{
    struct outcome outcome = attention("'one blorp two' -f json --target 'uno dos zap'");
    cr_expect_str_eq(outcome.error, "qkv: the sentence: not in the vocabulary: blorp\n"
                                    "qkv: --target: not in the target vocabulary: zap\n");
    cr_expect(shows(outcome.output, "\"blorp\"") && shows(outcome.output, "\"zap\""));
    cr_expect_str_empty(attention("'one blorp two' -q").error);
}

/* ---- what it refuses ---- */

#define LONG "'one two one two one two one two one two one"
#define KIND "but must be one of encoder, decoder, cross, all"

Test(attention, refuses)
{
    static const char *const cases[][2] = {
        {"one --target ' '", "qkv: --target contains no words"},
        {LONG " two'", "qkv: the sentence has 12 tokens, but the model has positions for 11"},
        {"one --target 'uno uno uno uno uno uno uno uno uno uno uno uno'",
         "qkv: --target has 12 tokens, but the model has positions for 11"},
        {"never-seen --kind encoder --layer 3",
         "qkv: the encoder attention has no layer 3: its layers are 1 to 2"},
        {"one --head 0", "qkv: --head is '0', but must be a number from 1, all, mean or best"},
        {"one --head=-1", "qkv: --head is '-1', but must be a number from 1, all, mean or best"},
        {"one --head 1x", "qkv: --head is '1x', but must be a number from 1, all, mean or best"},
        {"one --layer two", "qkv: --layer is 'two', but must be a number from 1, all or mean"},
        {"one --kind cross,self", "qkv: --kind is 'self', " KIND},
        {"one --kind cross,", "qkv: --kind is '', " KIND},
        {"one --kind cross,decodr", "qkv: --kind is 'decodr'; did you mean decoder"},
        {"one --format jsn", "qkv: --format is 'jsn'; did you mean json"},
        {"one --format gif",
         "qkv: --format is 'gif', but must be one of text, json, csv, npz, html, svg, png, pdf"},
        {"one --colormap virdis", "qkv: --colormap is 'virdis'; did you mean viridis"},
        {"one --colormap jet",
         "qkv: --colormap is 'jet', but must be one of YlOrRd, viridis, plasma, magma, gray"},
        {"one --annotate",
         "qkv: --annotate is for svg, png and pdf, but the format is text: choose one with -o or --format"},
        {"one -f json --colormap gray",
         "qkv: --colormap is for formats with colours, but the format is json"},
        {"one --mean --head 1", "qkv: --mean is the same as --head mean: give one of them"},
        {"one --target uno --beam 2",
         "qkv: --target and --beam exclude each other: a given translation is not searched for"},
        {"one --versus random -f json", "qkv: --versus is for formats that people look at, but json is for "
                                        "programs; `qkv explain` has the numbers of both"},
        {"one --versus learned", "qkv: --versus is 'learned', but must be random"},
        {"one -q -o no/such/folder/a.svg",
         "qkv: no/such/folder/a.svg: cannot be written: there is no folder no/such/folder"},
    };
    EXPECT_REFUSALS("qkv attention run", cases);
    cr_expect(
        fails(attention("one --checkpoint none.safetensors"), 2, "there is no checkpoint none.safetensors"));
    run_ok("qkv attention run " LONG "' -f csv");
}

/* ---- heads and models ---- */

/* The sum of the products of a map with the mean of all maps. */
static double agreement(const cJSON *report, const cJSON *map)
{
    double sum = 0;
    int maps = json_size(report, "maps");
    for (int r = 0; r < json_size(map, "weights"); r++)
        for (int c = 0; c < json_size(map, "columns"); c++)
            for (int m = 0; m < maps; m++)
                sum += json_cell(json_at(report, format("maps.%d.weights", m)), r, c) / maps *
                       json_cell(json_at(map, "weights"), r, c);
    return sum;
}

Test(attention, best_head_is_the_one_that_agrees_most)
{
    const cJSON *all = report_of("'one two three' --target 'uno dos tres' --kind encoder"),
                *best = report_of("'one two three' --target 'uno dos tres' --kind encoder --head best"), *map,
                *max = NULL;
    cr_assert_eq(json_size(best, "maps"), 1);
    cJSON_ArrayForEach(map, json_at(all, "maps")) if (!max || agreement(all, map) > agreement(all, max)) max =
        map;
    cr_expect(cJSON_Compare(json_at(best, "maps.0"), max, true));
    const cJSON *second = report_of("'one two' --target 'uno dos' --kind encoder --layer 2 --head best");
    cr_expect(begins(json_text(second, "maps.0.name"), "encoder.2."));
}

Test(attention, versus_draws_the_untrained_model_beside_the_trained_one)
{
    const char *both =
        run_ok("qkv attention run one --target uno --head 1 --versus random -f svg --annotate");
    cr_expect(shows(both, ">random: layer 1, head 1</text>"));
    cr_expect(shows(both, ">learned: layer 1, head 1</text>"));
    cr_expect(lacks(run_ok("qkv attention run one --target uno --head 1 -f svg --annotate"), "learned"));
    const char *text = run_ok("qkv attention run one --target uno --versus random");
    const char *random = strstr(text, "random: cross attention, layer 1, mean of heads"),
               *learned = strstr(text, "learned: cross attention, layer 1, mean of heads");
    cr_expect(random && learned && random < learned, "%s", text);
}

/* With DejaVu Sans alone, a png has boxes for Han, hangul, Devanagari and pictures, but not for Arabic; a note says so. */
Test(attention, says_which_characters_no_font_has)
{
    const char *fonts = "FONTCONFIG_FILE=$PWD/fonts.conf ";
    run_ok("file=$(fc-match -f '%%{file}' 'DejaVu Sans') && printf '<fontconfig><dir>%%s</dir><cachedir>%%s/c"
           "</cachedir></fontconfig>' \"$(dirname \"$file\")\" \"$PWD\" >fonts.conf");
    static const char *const cases[][2] = {
        {"'one 猫 عين 犬' -t 'uno 猫'", "2 of its characters (U+732B 猫, U+72AC 犬), so boxes with codes "
                                        "stand there: apt-get install fonts-noto-cjk"},
        {"'one 가' -t 'क 🐈 𒀀'",
         "4 of its characters (U+AC00 가, U+0915 क, U+1F408 🐈, U+12000 𒀀), so boxes with codes stand there: "
         "apt-get install fonts-noto-cjk fonts-noto-core fonts-noto-color-emoji"},
        {"'one два عين' -t 'ένα'", NULL},
    };
    static const char *const commands[] = {"attention", "explain"};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const char *wanted = cases[i / 2][1],
                   *line = format("%s qkv %s run %s -o m.png", fonts, commands[i % 2], cases[i / 2][0]);
        struct outcome outcome = run("%s", line);
        cr_expect_eq(outcome.exit_code, 0);
        if (wanted)
            cr_expect(shows(outcome.error, format("qkv: note: m.png: no font has %s\n", wanted)));
        else
            cr_expect(lacks(outcome.error, "no font has"));
        cr_expect(lacks(run("%s -q", line).error, "no font has"));
        cr_expect(lacks(run("%s -f svg", line).error, "no font has"));
    }
    /* Of several pictures, each character is named once. */
    write_text(".", "lines", "one 猫\none 犬 猫\none\n");
    struct outcome outcome = run("%s qkv attention run - -o m.png <lines", fonts);
    cr_expect(shows(outcome.error, "has 1 of its characters (U+732B 猫)") &&
              shows(outcome.error, "has 1 of its characters (U+72AC 犬)"));
    /* Names of runs in charts. */
    run_ok("ln -s run 猫");
    cr_expect(shows(run("%s qkv plot 猫 run -o p.png", fonts).error,
                    "p.png: no font has 1 of its characters (U+732B"));
    cr_expect(lacks(run("%s qkv plot run -o p.png", fonts).error, "no font has"));
}

/* ---- qkv attribute ---- */

static const cJSON *attribution_of(const char *arguments)
{
    return json_by("qkv attribute run 'one two three' -f json %s", arguments);
}

Test(attention, attribute_has_maps_of_source_and_target_for_every_method)
{
    static const char *const METHODS[] = {"",        "rollout",    "flow",    "gradient",
                                          "zeroing", "integrated", "erasure", "norms"};
    for (int i = 0; i < 8; i++) {
        const cJSON *report = attribution_of(i ? format("--method %s", METHODS[i]) : "");
        cr_assert_eq(json_size(report, "maps"), 2);
        for (int m = 0; m < 2; m++) {
            const cJSON *map = json_at(report, format("maps.%d", m));
            bool is_decoder = !strcmp(json_text(map, "kind"), "decoder");
            cr_expect_eq(json_size(map, "weights"), json_size(report, "target_output"));
            cr_expect_eq(json_size(map, "columns"),
                         json_size(report, is_decoder ? "target_input" : "source"));
        }
    }
    /* A map that is not of heads has a name of its own. */
    const cJSON *erased = attribution_of("");
    cr_expect_str_eq(json_text(erased, "maps.1.name"), "erasure.target");
    cr_expect(cJSON_IsNull(json_at(erased, "maps.0.layer")) &&
              !cJSON_HasObjectItem(erased, "baseline_log_probability"));
    run_ok("qkv attribute run 'one two three' -f csv | grep -q '^cross,,,0,'");
    /* A row of integrated gradients is what log p rises by; with too few points, a note says that it is not. */
    const cJSON *integrated = attribution_of("-m integrated");
    for (int t = 0; t < json_size(integrated, "target_output"); t++) {
        double sum = 0, rise = log(json_number(integrated, format("next_probability.%d", t))) -
                               json_number(integrated, format("baseline_log_probability.%d", t));
        for (int m = 0; m < 2; m++)
            for (int c = 0; c < json_size(integrated, format("maps.%d.columns", m)); c++)
                sum += json_cell(json_at(integrated, format("maps.%d.weights", m)), t, c);
        cr_expect_float_eq(sum, rise, 1e-3 * fmax(1, fabs(rise)));
    }
    cr_expect(!cJSON_HasObjectItem(attribution_of("-m integrated --words"), "baseline_log_probability"));
    cr_expect(lacks(run("qkv attribute run 'one two three' -m integrated").error, "note:"));
    cr_expect(shows(run("qkv attribute run 'one two three' -m integrated --steps 1").error,
                    "note: contributions of integrated gradients miss the rise of log p by up to"));
    /* Attention is that of qkv attention. */
    const cJSON *mean = json_by("qkv attention run 'one two three' -f json --kind cross --mean --layer mean"),
                *attribution = attribution_of("-m attention");
    cr_expect(cJSON_Compare(json_at(mean, "maps.0.weights"), json_at(attribution, "maps.1.weights"), true));
    /* By default, words are erased. */
    cr_expect_str_eq(json_text(attribution_of(""), "value"), "fall of log-probability, nats");
}

Test(attention, attribute_shows_shares_in_formats_for_people)
{
    const char *text = run_ok("qkv attribute run 'one two three' -q");
    cr_expect(shows(text, "contributions of the source"));
    cr_expect(strstr(text, "share of the row, by erasure") && strstr(text, "    nats"), "%s", text);
    cr_expect(lacks(run_ok("qkv attribute run 'one two three' -q -m flow"), "nats"));
    run_ok("qkv attribute run 'one two three' --versus random -m gradient -o a.html && grep -q 'random: ' "
           "a.html");
    run_ok("qkv attribute run 'one two three' -m integrated --steps 4 -o a.svg && grep -q '<svg' a.svg");
}

Test(attention, attribute_looks_into_layers)
{
    const cJSON *lens = json_by("qkv attribute run 'one two three' --lens -f json"),
                *maps = attribution_of("");
    int steps = json_size(maps, "target_output");
    cr_assert_eq(json_size(lens, "walks.0.steps"), steps);
    for (int t = 0; t < steps; t++) {
        const cJSON *step = json_at(lens, format("walks.0.steps.%d", t)), *values = json_at(step, "values");
        cr_assert(json_size(step, "values") == 1 &&
                  json_size(step, "columns") == json_size(step, "values.0"));
        cr_expect_str_eq(json_text(step, "columns.0"), json_text(maps, format("target_output.%d", t)));
        cr_expect_float_eq(json_cell(values, 0, 0), json_number(maps, format("next_probability.%d", t)),
                           1e-6);
        for (int c = 1; c < json_size(step, "columns"); c++) { /* the others, the most probable first */
            cr_expect(c < 2 || json_cell(values, 0, c - 1) >= json_cell(values, 0, c));
            cr_expect_str_neq(json_text(step, format("columns.%d", c)), json_text(step, "columns.0"));
        }
    }
    cr_expect(shows(run_ok("qkv attribute run 'one two three' --lens -q"), "rows: layers, columns: tokens"));
    run_ok("qkv attribute run 'one two three' --lens -o lens.csv && grep -q token_1,,0,,0, lens.csv");
    const char *text = run_ok("qkv attribute run 'one two three' -t 'uno dos tres' --word dos --patch-from "
                              "'one one three'");
    cr_expect(shows(text, "The probability of dos as token 2 is"));
    const struct outcome warned = run("qkv attribute run 'one two three' --patch-from 'one zwei three'");
    cr_expect(!warned.exit_code && strstr(warned.error, "zwei"), "%s", warned.error);
    const cJSON *by_number =
        json_by("qkv attribute run 'one two three' --word 2 --patch-from 'one one three' -f json");
    cr_expect_eq(json_size(by_number, "walks.0.steps"), 5);
    /* A line that cannot be patched ends the command, as any bad line does, and is named. */
    const struct outcome ended = run("printf 'one two three\\ntwo one\\nthree two one\\n' | "
                                     "qkv attribute run - --patch-from 'one one three' -q");
    cr_expect_eq(ended.exit_code, 2);
    cr_expect(strstr(ended.output, "one two three") && !strstr(ended.output, "three two one"));
    cr_expect(shows(ended.error, "<stdin>:2: the other sentence has 3 tokens"));
}

/* The number in the row of a method, in this column of the table. */
static double score_of(const cJSON *table, const char *method, const char *score)
{
    const cJSON *step = json_at(table, "walks.0.steps.0");
    for (int r = 0; r < json_size(step, "rows"); r++)
        for (int c = 0; c < json_size(step, "columns"); c++)
            if (!strcmp(json_text(step, format("rows.%d", r)), method) &&
                !strcmp(json_text(step, format("columns.%d", c)), score))
                return json_cell(json_at(step, "values"), r, c);
    cr_assert_fail("no %s of %s", score, method);
    return 0;
}

Test(attention, attribute_compares_methods)
{
    write_text(".", "pairs.tsv", "one two three\tuno dos tres\ntwo one\tdos uno\n");
    write_text(".", "gold", "0-0 1-1 2-2\n0-0 1-1\n");
    const cJSON *table = json_by("qkv attribute run --compare pairs.tsv --links gold --seed run -f json"),
                *scores = json_by("qkv evaluate run pairs.tsv --links gold --json --no-translation");
    cr_assert_eq(json_size(table, "walks.0.steps.0.rows"), 9);
    /* Links by the mean of all heads are those of qkv evaluate. */
    bool found = false;
    for (int i = 0; i < json_size(scores, "alignment.results"); i++) {
        const cJSON *one = json_at(scores, format("alignment.results.%d", i));
        if (strcmp(json_text(one, "drawing"), "target") || strcmp(json_text(one, "reading"), "predicted") ||
            !cJSON_IsString(json_at(one, "head")))
            continue;
        found = true;
        cr_expect_float_eq(score_of(table, "attention", "alignment_error"), json_number(one, "aer"), 1e-12);
    }
    cr_assert(found);
    /* A run agrees with itself, chance does not. */
    cr_expect_eq(score_of(table, "gradient", "agreement"), 1);
    cr_expect_lt(score_of(table, "random", "agreement"), 1);
    /* Of one source word, every rationale is the word. */
    write_text(".", "one.tsv", "one\tuno\n");
    const cJSON *single = json_by("qkv attribute run --compare one.tsv -f json"),
                *fall = json_by("qkv attribute run one -t uno -f json");
    double expected = 0;
    for (int t = 0; t < 2; t++)
        expected += json_number(fall, format("next_probability.%d", t)) *
                    (1 - exp(-json_cell(json_at(fall, "maps.0.weights"), t, 0))) / 2;
    cr_expect_float_eq(score_of(single, "norms", "comprehensiveness"), expected, 1e-6);
    cr_expect_float_eq(score_of(single, "norms", "sufficiency"), 0, 1e-6);
    const char *text = run_ok("qkv attribute run --compare pairs.tsv --limit 1 -q");
    cr_expect(strstr(text, "1 sentence pairs") && !strstr(text, "agreement"), "%s", text);
}

Test(attention, attribute_refuses)
{
    static const char *const cases[][2] = {
        {"-m erasure --layer 1", "--layer and --head are for the methods attention and norms"},
        {"-m attention --layer 9", "has no layer 9"},
        {"-m attractive", "attractive"},
        {"--versus random -f json", "--versus is for formats that people look at"},
        {"-m gradient --precision int8", "int8"},
        {"--lens --patch-from 'two one'", "give one of them"},
        {"--lens -f svg", "--lens, --patch-from and --compare are written as text, json"},
        {"--word dos", "--word is for --patch-from"},
        {"--patch-from 'two one'", "the other sentence has 2 tokens, but the sentence has 3"},
        {"--patch-from 'two one two' --word none", "must be a token of the output"},
        {"--patch-from 'two one two' --word 2nd", "must be a token of the output"},
        {"--patch-from 'two one two' -o p.svg", "not as svg"},
        {"-m erasure --steps 7", "--steps is for --method integrated"},
        {"-m rollout --without cross.1.1", "follows where heads look"},
    };
    EXPECT_FAILURES("qkv attribute run 'one two three'", cases);
}
