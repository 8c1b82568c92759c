/* qkv attention, through the command line, on a tiny run. */
#include "tiny_run.h"

#include "qkv/format.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

static struct outcome attention(const char *arguments)
{
    return run("cd '%s' && qkv attention run %s", tiny_folder("attention"), arguments);
}

/* The sentence, refused with one sentence. */
static void expect_refusal(const char *arguments, const char *message)
{
    struct outcome outcome = attention(arguments);
    cr_expect_eq(outcome.exit_code, 2, "%s", arguments);
    cr_expect_str_eq(outcome.error, format("qkv: %s\n", message), "%s\ngot    %swanted qkv: %s", arguments,
                     outcome.error, message);
    cr_expect_str_empty(outcome.output);
}

static cJSON *maps_of(const cJSON *report)
{
    return cJSON_GetObjectItem(report, "maps");
}

static const char *text_of(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(object, key));
}

static cJSON *report_of(const char *arguments)
{
    struct outcome outcome = attention(arguments);
    cr_assert_eq(outcome.exit_code, 0, "%s: %s", arguments, outcome.error);
    cJSON *report = cJSON_Parse(outcome.output);
    cr_assert_not_null(report, "%s", outcome.output);
    return report;
}

static double weight(const cJSON *map, int row, int column)
{
    cJSON *line = cJSON_GetArrayItem(cJSON_GetObjectItem(map, "weights"), row);
    return cJSON_GetArrayItem(line, column)->valuedouble;
}

static int count_of(const cJSON *map, const char *key)
{
    return cJSON_GetArraySize(cJSON_GetObjectItem(map, key));
}

/* Rows that are distributions, and no look at what comes later. */
static void check_map(const cJSON *map)
{
    bool decoder = !strcmp(text_of(map, "kind"), "decoder");
    int rows = count_of(map, "weights"), columns = count_of(map, "columns");
    cr_assert(rows > 1 && columns > 1);
    for (int r = 0; r < rows; r++) {
        double sum = 0;
        for (int c = 0; c < columns; c++) {
            sum += weight(map, r, c);
            cr_expect(weight(map, r, c) >= 0);
            if (decoder && c > r) cr_expect_eq(weight(map, r, c), 0.0);
        }
        cr_expect_float_eq(sum, 1, 1e-6);
    }
}

Test(attention, json_holds_every_head_of_every_layer)
{
    static const char *const NAMES[] = {"encoder.1.1", "encoder.1.2", "encoder.2.1", "encoder.2.2",
                                        "decoder.1.1", "decoder.1.2", "cross.1.1",   "cross.1.2"};
    const char *searches[] = {"", "--beam 3", "--target 'uno tres dos'"};
    for (int s = 0; s < 3; s++) {
        cJSON *report = report_of(format("'one two three' --format json %s", searches[s]));
        cr_assert_eq(cJSON_GetArraySize(maps_of(report)), 8);
        cr_expect_str_eq(text_of(report, "model"), "tiny");
        for (int i = 0; i < 8; i++) {
            cJSON *map = cJSON_GetArrayItem(maps_of(report), i);
            cr_expect_str_eq(text_of(map, "name"), NAMES[i]);
            check_map(map);
        }
        cJSON_Delete(report);
    }
}

Test(attention, a_given_target_that_equals_the_translation_gives_the_same_maps)
{
    struct outcome translated = attention("'four two one' -f json");
    cr_assert_eq(translated.exit_code, 0, "%s", translated.error);
    translated.error[strcspn(translated.error, "\n")] = '\0'; /* the translation */
    cr_assert_str_not_empty(translated.error);
    struct outcome given = attention(format("'four two one' -f json --target '%s'", translated.error));
    cr_expect_str_empty(given.error);
    cr_expect_str_eq(given.output, translated.output);
    cr_expect(shows(translated.output, format("four two one → %s", translated.error)), "the title has both");
    struct outcome other = attention("'four two one' -f json --target 'dos dos'");
    cr_expect_str_neq(other.output, translated.output);
}

Test(attention, the_format_chooses_the_maps_unless_options_do)
{
    struct outcome text = attention("'one two'");
    cr_expect(shows(text.output, "cross attention, layer 1, mean of heads"));
    cr_expect(lacks(text.output, "encoder"));
    cr_expect(lacks(text.output, "\033"), "no colours off a terminal");
    struct outcome heads = attention("'one two' --head all --kind cross");
    cr_expect(shows(heads.output, "cross attention, layer 1, head 2"));
    struct outcome picture = attention("'one two' -f svg");
    cr_expect(shows(picture.output, "layer 1, head 2"));
    cr_expect(shows(picture.output, "cross attention · tiny"));
    cr_expect(lacks(picture.output, "encoder"));
}

Test(attention, selects_kinds_layers_heads_and_means)
{
    static const struct {
        const char *options;
        int count;
        const char *first;
    } CASES[] = {
        {"--kind encoder", 4, "encoder.1.1"},
        {"--kind encoder,cross --mean", 3, "encoder.1.mean"},
        {"--kind cross --kind decoder --head 2", 2, "decoder.1.2"},
        {"--kind encoder --layer 2", 2, "encoder.2.1"},
        {"--kind encoder --layer mean --head 1", 1, "encoder.mean.1"},
        {"--kind all --layer mean --mean", 3, "encoder.mean.mean"},
        {"--layer 1", 6, "encoder.1.1"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        cJSON *report = report_of(format("'one two' -f json %s", CASES[i].options));
        cr_expect_eq(cJSON_GetArraySize(maps_of(report)), CASES[i].count, "%s", CASES[i].options);
        cr_expect_str_eq(text_of(cJSON_GetArrayItem(maps_of(report), 0), "name"), CASES[i].first);
        cJSON_Delete(report);
    }
}

Test(attention, the_extension_of_the_file_chooses_the_format)
{
    static const struct {
        const char *name, *start;
    } FILES[] = {{"a.json", "{"},        {"a.csv", "kind,layer,head"}, {"a.npz", "PK\003\004"},
                 {"a.svg", "<svg"},      {"a.png", "\211PNG\r\n"},     {"a.html", "<!DOCTYPE"},
                 {"a.txt", "one two → "}};
    enter(scratch("formats"));
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        const char *path = format("%s", FILES[i].name);
        struct outcome outcome = attention(format("'one two' -q -o '%s'", path));
        cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
        cr_expect_str_empty(outcome.output);
        cr_expect_str_empty(outcome.error);
        char *bytes = read_file(path, NULL);
        cr_assert_not_null(bytes);
        const char *found = strstr(bytes, FILES[i].start);
        cr_expect(found && found - bytes < 60, "%s", FILES[i].name);
    }
    /* Pages say what rows and columns are, and what the darkest cell of each map is. */
    const char *page = read_file("a.html", NULL);
    cr_expect(shows(page, "rows: target (output), columns: source"));
    cr_expect(shows(page, "; colours from 0 to 0."));
    /* --format wins over the name; `-` is standard output, binary or not. */
    attention(format("'one two' -f csv -o 'a.json'"));
    cr_expect_eq(strncmp(read_file("a.json", NULL), "kind", 4), 0);
    struct outcome piped = attention("'one two' -f png -o - | head -c 4");
    cr_expect_str_eq(piped.output, "\211PNG");
}

Test(attention, annotate_and_colormap_change_the_picture)
{
    struct outcome plain = attention("'one two' -f svg --mean"),
                   other = attention("'one two' -f svg --mean --colormap gray"),
                   numbers = attention("'one two' -f svg --mean --annotate");
    cr_assert(plain.exit_code == 0 && other.exit_code == 0 && numbers.exit_code == 0);
    cr_expect_str_neq(plain.output, other.output);
    cr_expect_gt(strlen(numbers.output), strlen(plain.output));
    cr_expect(refused(
        attention("'one two' --annotate"),
        "qkv: --annotate is for svg and png, but the format is text: choose one with -o or --format"));
    cr_expect(refused(attention("'one two' -f json --colormap gray"),
                      "qkv: --colormap is for formats with colours, but the format is json"));
}

static struct outcome piped(const char *lines, const char *arguments)
{
    return run("cd '%s' && printf '%s' | qkv attention run - %s", tiny_folder("attention"), lines, arguments);
}

Test(attention, reads_standard_input)
{
    cr_expect_str_eq(piped("\\n two five\\r\\n\\n", "-f csv").output, attention("'two five' -f csv").output);
    cr_expect(refused(piped(" \\n", ""), "qkv: <stdin>: the input is empty: a sentence is missing"));
    cr_expect(refused(piped("two \\0five\\n", ""), "qkv: <stdin>:1:5: a NUL byte is not allowed in text"));
}

Test(attention, treats_every_line_of_standard_input)
{
    const char *lines = "two five\\n\\none zap\\r\\nfour";
    struct outcome text = piped(lines, "");
    cr_expect_eq(text.exit_code, 0, "%s", text.error);
    cr_expect_str_eq(text.output, format("%s\n%s\n%s", attention("'two five'").output,
                                         attention("'one zap'").output, attention("four").output));
    cr_expect(shows(text.error, "qkv: <stdin>:3: the sentence: not in the vocabulary: zap\n"));
    char *json = piped(lines, "-q -f json").output;
    static const char *const sentences[] = {"two five", "one zap", "four"};
    for (int i = 0; i < 3; i++, json += strcspn(json, "\n") + 1) {
        cJSON *one = report_of(format("'%s' -q -f json", sentences[i])),
              *line = cJSON_ParseWithLength(json, strcspn(json, "\n"));
        cr_expect(cJSON_Compare(one, line, true), "%s", sentences[i]);
        cJSON_Delete(one);
        cJSON_Delete(line);
    }
    cr_expect_str_empty(json);
    cr_expect(refused(piped(lines, "-q -f csv"),
                      "qkv: standard input has several sentences, but standard output takes only one as csv: "
                      "name a file with -o, or choose one of text, json"));
    cr_expect(refused(piped(lines, "-q -t uno"),
                      "qkv: --target is the translation of one sentence, but <stdin> has several"));
    struct outcome broken = piped("one\\ntwo \\377\\nthree", "-q -f json");
    cr_expect(refused(broken, "qkv: <stdin>:2:5: byte 0xFF is not valid UTF-8"));
    cr_expect_str_eq(format("%.1s", broken.output), "{", "the line before it is shown");
}

Test(attention, writes_a_file_for_each_line_of_standard_input)
{
    enter(scratch("numbered"));
    for (int64_t i = 0; qkv_format(i); i++) {
        const char *end = qkv_format(i)->extension;
        struct outcome outcome = piped("two five\\n\\nfour\\n", format("-q --head 1 -o 'a.b.%s'", end));
        cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
        attention(format("'four' -q --head 1 -o 'four.%s'", end));
        cr_expect_eq(run("cmp a.b.3.%s four.%s && test -s a.b.1.%s", end, end, end).exit_code, 0, "%s", end);
    }
}

Test(attention, shows_the_untrained_model_beside_every_line)
{
    struct outcome both = piped("two five\\nfour\\n", "-q --versus random"),
                   one = attention("four -q --versus random");
    size_t all = strlen(both.output), last = strlen(one.output);
    cr_assert_gt(all, last, "%s", both.error);
    cr_expect_str_eq(both.output + all - last, one.output);
}

/* A checkpoint is named by its file, or without .safetensors. */
Test(attention, takes_the_last_and_the_best_checkpoint)
{
    static const char *const names[] = {"last", "best"};
    for (int i = 0; i < 2; i++) {
        struct outcome name = attention(format("one -f json --checkpoint %s", names[i])),
                       file = attention(format("one -f json --checkpoint %s.safetensors", names[i]));
        cr_expect_eq(name.exit_code, 0, "%s", name.error);
        cr_expect_str_eq(name.output, file.output);
    }
    cr_expect_eq(
        run("cd '%s' && echo one | qkv translate run --checkpoint last", tiny_folder("attention")).exit_code,
        0);
}

Test(attention, warns_about_unknown_words_and_shows_them)
{
    struct outcome outcome = attention("'one blorp two' -f json --target 'uno dos zap'");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error, "qkv: the sentence: not in the vocabulary: blorp\n"
                                    "qkv: --target: not in the target vocabulary: zap\n");
    cr_expect(shows(outcome.output, "\"blorp\""));
    cr_expect(shows(outcome.output, "\"zap\""));
    outcome = attention("'one blorp two' -q");
    cr_expect_str_empty(outcome.error);
}

Test(attention, refuses_empty_and_too_long_sentences)
{
    expect_refusal("' '", "the sentence contains no words");
    expect_refusal("one --target ' '", "--target contains no words");
    expect_refusal("'one two one two one two one two one two one two'",
                   "the sentence has 12 tokens, but the model has positions for 11");
    expect_refusal("one --target 'uno uno uno uno uno uno uno uno uno uno uno uno'",
                   "--target has 12 tokens, but the model has positions for 11");
    expect_refusal("\"$(printf 'one \\377')\"", "the sentence: column 5: byte 0xFF is not valid UTF-8");
    struct outcome longest = attention("'one two one two one two one two one two one' -f csv");
    cr_expect_eq(longest.exit_code, 0, "%s", longest.error);
}

Test(attention, refuses_unknown_names_and_lists_the_known)
{
    expect_refusal("one --head 9", "the cross attention has no head 9: its heads are 1 to 2");
    expect_refusal("never-seen --kind encoder --layer 3",
                   "the encoder attention has no layer 3: its layers are 1 to 2");
    expect_refusal("one --head 0", "--head is '0', but must be a number from 1, all, mean or best");
    expect_refusal("one --layer two", "--layer is 'two', but must be a number from 1, all or mean");
    expect_refusal("one --kind cross,self",
                   "--kind is 'self', but must be one of encoder, decoder, cross, all");
    expect_refusal("one --kind cross,", "--kind is '', but must be one of encoder, decoder, cross, all");
    expect_refusal("one --kind cross,decodr", "--kind is 'decodr'; did you mean decoder");
    expect_refusal("one --format jsn", "--format is 'jsn'; did you mean json");
    expect_refusal("one --colormap virdis", "--colormap is 'virdis'; did you mean viridis");
    const char *formats = qkv_format(0)->name;
    for (int64_t i = 1; qkv_format(i); i++) formats = format("%s, %s", formats, qkv_format(i)->name);
    expect_refusal("one --format pdf", format("--format is 'pdf', but must be one of %s", formats));
    expect_refusal("one -o cross.pdf", "cross.pdf: .pdf is no known extension (known: txt, json, csv, npz, "
                                       "html, svg, png); choose a format with --format to keep it");
    expect_refusal("one --colormap jet",
                   "--colormap is 'jet', but must be one of YlOrRd, viridis, plasma, magma, gray");
    expect_refusal("one --mean --head 1", "--mean is the same as --head mean: give one of them");
    expect_refusal("one --target uno --beam 2",
                   "--target and --beam exclude each other: a given translation is not searched for");
}

Test(attention, names_the_file_that_cannot_be_written)
{
    struct outcome outcome = run("qkv attention no/such/run one");
    cr_expect(refused(outcome, "qkv: no/such/run: there is no such run"));
    outcome = attention("one -q -o no/such/folder/a.svg");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(strncmp(outcome.error, "qkv: no/such/folder/a.svg", 25), 0, "%s", outcome.error);
    expect_refusal("one -q >/dev/full", "<stdout>: cannot be written: No space left on device");
    cr_expect(
        fails(attention("one --checkpoint none.safetensors"), 2, "there is no checkpoint none.safetensors"));
}

/* Row and column of map `map`. */
static double agreement(const cJSON *report, const cJSON *map)
{
    double sum = 0;
    int maps = cJSON_GetArraySize(maps_of(report));
    for (int r = 0; r < count_of(map, "weights"); r++)
        for (int c = 0; c < count_of(map, "columns"); c++) {
            double mean = 0;
            for (int m = 0; m < maps; m++)
                mean += weight(cJSON_GetArrayItem(maps_of(report), m), r, c) / maps;
            sum += mean * weight(map, r, c);
        }
    return sum;
}

Test(attention, best_head_is_the_one_that_agrees_most)
{
    cJSON *all = report_of("'one two three' --target 'uno dos tres' -f json --kind encoder"),
          *best = report_of("'one two three' --target 'uno dos tres' -f json --kind encoder --head best");
    cr_assert_eq(cJSON_GetArraySize(maps_of(best)), 1);
    const cJSON *chosen = cJSON_GetArrayItem(maps_of(best), 0), *map, *max = NULL;
    cJSON_ArrayForEach(map, maps_of(all)) if (!max || agreement(all, map) > agreement(all, max)) max = map;
    cr_expect_str_eq(text_of(chosen, "name"), text_of(max, "name"));
    cr_expect_eq(weight(chosen, 1, 1), weight(max, 1, 1));
    cJSON *second = report_of("'one two' --target 'uno dos' -f json --kind encoder --layer 2 --head best");
    cr_expect_eq(strncmp(text_of(cJSON_GetArrayItem(maps_of(second), 0), "name"), "encoder.2.", 10), 0);
    cJSON_Delete(all);
    cJSON_Delete(best);
    cJSON_Delete(second);
}

Test(attention, versus_draws_the_untrained_model_beside_the_trained_one)
{
    struct outcome both =
                       attention("'one two' --target 'uno dos' --head 1 --versus random -f svg --annotate"),
                   one = attention("'one two' --target 'uno dos' --head 1 -f svg --annotate");
    cr_assert_eq(both.exit_code, 0, "%s", both.error);
    cr_expect(shows(both.output, ">random: layer 1, head 1</text>"));
    cr_expect(shows(both.output, ">learned: layer 1, head 1</text>"));
    cr_expect(lacks(one.output, "learned"));
    struct outcome text = attention("'one two' --target 'uno dos' --versus random");
    const char *random = strstr(text.output, "random: cross attention, layer 1, mean of heads"),
               *learned = strstr(text.output, "learned: cross attention, layer 1, mean of heads");
    cr_expect(random && learned && random < learned);
    expect_refusal("one --versus random -f json", "--versus is for formats that people look at, but json is "
                                                  "for programs; `qkv explain` has the numbers of both");
    expect_refusal("one --versus learned", "--versus is 'learned', but must be random");
}
