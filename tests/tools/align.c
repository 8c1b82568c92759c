/* qkv align, and the links of qkv evaluate --links: against what qkv attention and explain say of the same pairs. */
#include "scene.h"
#include "tiny_run.h"

enum { PAIRS = 3, CAPACITY = 8 };
static const char *const SOURCE[PAIRS] = {"one two three", "five four", "two one four three"};
static const char *const TARGET[PAIRS] = {"uno dos tres", "cinco cuatro", "dos uno cuatro tres"};
static const int WORDS[PAIRS] = {3, 2, 4};

/* Each test has the trained run, pairs.tsv and gold. */
static void enter_pairs(void)
{
    const char *pairs = "";
    enter_tiny();
    run_ok("mv run RUN");
    for (int i = 0; i < PAIRS; i++) pairs = format("%s%s\t%s\n", pairs, SOURCE[i], TARGET[i]);
    write_text(".", "pairs.tsv", pairs);
    write_text(".", "gold", "0-0 1-1 2p2\n0-0 1-1\n0-0 1-1 2-2 3-3\n");
}

TestSuite(align, .init = enter_pairs);

static const char *align(const char *options)
{
    return run_ok("qkv align RUN pairs.tsv %s", options);
}

/* ---- weights, by other commands ---- */

/* The weights of a map, [steps, tokens with </s>]. */
static const cJSON *map_of(int pair, const char *options)
{
    const cJSON *report = json_by("qkv attention RUN '%s' -t '%s' -q -f json --kind cross %s", SOURCE[pair],
                                  TARGET[pair], options);
    cr_assert_eq(json_size(report, "maps"), 1);
    return json_at(report, "maps.0.weights");
}

/* Links of the strongest source words of the rows, or of all words above a threshold. */
static char *strongest(char *links, double weights[CAPACITY][CAPACITY], int words, double threshold)
{
    const char *space = "";
    for (int source = 0; source < words; source++)
        for (int target = 0; target < words; target++) {
            bool linked = threshold > 0 ? weights[target][source] > threshold : true;
            for (int other = 0; other < words && threshold <= 0; other++)
                linked = linked && weights[target][source] >= weights[target][other];
            if (!linked) continue;
            links = format("%s%s%d-%d", links, space, source, target);
            space = " ";
        }
    return format("%s\n", links);
}

Test(align, links_the_strongest_words_of_a_head_in_both_readings)
{
    for (int head = 1; head <= 2; head++)
        for (int shift = 0; shift < 2; shift++)
            for (int above = 0; above < 2; above++) {
                char *expected = format("%s", "");
                double weights[CAPACITY][CAPACITY];
                for (int pair = 0; pair < PAIRS; pair++) {
                    const cJSON *map = map_of(pair, format("--head %d", head));
                    for (int t = 0; t < WORDS[pair]; t++)
                        for (int s = 0; s < WORDS[pair]; s++) weights[t][s] = json_cell(map, t + shift, s);
                    expected = strongest(expected, weights, WORDS[pair], above ? 0.25 : 0);
                }
                const char *options = format("--layer 1 --head %d --reading %s %s", head,
                                             shift ? "read" : "predicted", above ? "--threshold 0.25" : "");
                cr_expect_str_eq(align(options), expected, "%s", options);
            }
}

/* ---- the links of translations ---- */

/* The field of a line of `text` (both from 0). */
static char *field_of(const char *text, int line, int field)
{
    for (; line > 0; line--) text = strchr(text, '\n') + 1;
    for (; field > 0; field--) text += strcspn(text, "\t\n") + 1;
    return format("%.*s", (int)strcspn(text, "\t\n"), text);
}

/* They are the strongest source words of the mean over all heads, which qkv attention gives for the same words. */
Test(align, translations_have_the_links_of_their_words)
{
    write_text(".", "lines", "one two three\n\nfive four\n");
    const char *plain = run_ok("qkv translate RUN lines"),
               *linked = run_ok("qkv translate RUN lines --alignment");
    for (int line = 0; line < 3; line++) {
        char *target = field_of(linked, line, 0), *source = field_of(read_file("lines", NULL), line, 0);
        cr_expect_str_eq(target, field_of(plain, line, 0));
        cr_expect_eq(!*target, line == 1, "%s", linked);
        if (line == 1) continue;
        const cJSON *map =
            json_at(json_by("qkv attention RUN '%s' -t '%s' -q -f json --kind cross --layer mean --head mean",
                            source, target),
                    "maps.0.weights");
        char *expected = format("%s", ""), *links = field_of(linked, line, 1);
        for (int s = 0; s < json_size(map, "0") - 1; s++)
            for (int t = 0; t < json_size(map, "") - 1; t++) {
                bool strongest = true;
                for (int other = 0; other < json_size(map, "0") - 1; other++)
                    strongest = strongest && json_cell(map, t, s) >= json_cell(map, t, other);
                if (strongest) expected = format("%s%s%d-%d", expected, *expected ? " " : "", s, t);
            }
        cr_expect_str_eq(links, expected, "%s", linked);
    }
    cr_expect_str_eq(field_of(linked, 1, 1), "");
}

/* Each of several translations has its own links, those of qkv align; so has the text of a line that begins with a prefix. */
Test(align, all_translations_of_a_line_have_links)
{
    static const char *const options[] = {"--beam 3 --n-best 3 --scores", "--sample --n-best 3 --scores",
                                          "--prefix -b 1"};
    for (int i = 0; i < 3; i++) {
        bool prefix = i == 2;
        int count = prefix ? 1 : 3, first = prefix ? 0 : 2;
        write_text(".", "lines", prefix ? "one two four\tcinco\n" : "one two four\n");
        const char *linked = run_ok("qkv translate RUN lines --alignment %s", options[i]), *pairs = "",
                   *links = "";
        for (int k = 0; k < count; k++) {
            pairs = format("%sone two four\t%s\n", pairs, field_of(linked, k, first));
            links = format("%s%s\n", links, field_of(linked, k, first + 1));
        }
        write_text(".", "pairs.tsv", pairs);
        cr_expect_str_eq(links, align(""), "%s: %s", options[i], linked);
    }
}

/* --as-trained: the words that the model read are linked, and counted in the line. */
Test(align, translations_of_a_line_read_as_trained_have_the_links_of_its_words)
{
    const char *linked = run_ok("printf 'ONE Two.\\n' | qkv translate RUN --alignment --as-trained");
    cr_expect_str_eq(linked, run_ok("printf 'one two\\n' | qkv translate RUN --alignment"));
    /* A word that reading leaves out counts. */
    const char *left_out = run_ok("printf 'one - two\\n' | qkv translate RUN --alignment --as-trained -q");
    cr_expect_str_eq(field_of(left_out, 0, 0), field_of(linked, 0, 0));
    write_text(".", "pairs.tsv", format("one - two\t%s\n", field_of(left_out, 0, 0)));
    cr_expect_str_eq(format("%s\n", field_of(left_out, 0, 1)), align(""));
}

/* ---- norms ---- */

static const cJSON *step(const cJSON *explanation, const char *name)
{
    return json_at(step_of(explanation, 0, name), "values");
}

/* The norm of value `key` of a head, transformed by its rows of the output weights. */
static double norm_of(const cJSON *explanation, int head, int key)
{
    const cJSON *values = cJSON_GetArrayItem(step(explanation, "values"), head),
                *output = step(explanation, "output_weights");
    int width = json_size(values, "0"), outputs = json_size(output, "0");
    double square = 0;
    for (int o = 0; o < outputs; o++) {
        double sum = 0;
        for (int v = 0; v < width; v++)
            sum += json_cell(values, key, v) * json_cell(output, head * width + v, o);
        square += sum * sum;
    }
    return sqrt(square);
}

/* Weights times norms of a head (from 0), or the mean of both heads (-1), divided by the sum of the row. */
static void weigh(int pair, int head, double weights[CAPACITY][CAPACITY])
{
    const cJSON *explanation =
        json_by("qkv explain RUN '%s' -t '%s' -f json --full", SOURCE[pair], TARGET[pair]);
    for (int t = 0; t < WORDS[pair]; t++) {
        double sum = 0;
        for (int s = 0; s <= WORDS[pair]; s++) {
            weights[t][s] = 0;
            for (int h = 0; h < 2; h++)
                if (head == h || head < 0)
                    weights[t][s] += norm_of(explanation, h, s) *
                                     json_cell(cJSON_GetArrayItem(step(explanation, "weights"), h), t, s);
            sum += weights[t][s];
        }
        for (int s = 0; s <= WORDS[pair]; s++) weights[t][s] /= sum;
    }
}

/* qkv attention measures the same, and the mean over heads of norms, not of shares. */
Test(align, multiplies_weights_by_the_norms_of_transformed_values)
{
    static const char *const heads[] = {"mean", "1", "2"};
    for (int head = -1; head < 2; head++) {
        char *expected[2] = {"", ""};
        double weights[CAPACITY][CAPACITY];
        for (int pair = 0; pair < PAIRS; pair++) {
            weigh(pair, head, weights);
            for (int above = 0; above < 2; above++)
                expected[above] = strongest(expected[above], weights, WORDS[pair], above ? 0.3 : 0);
            const cJSON *map = map_of(pair, format("--head %s --measure norms", heads[head + 1]));
            for (int t = 0; t < WORDS[pair]; t++)
                for (int s = 0; s <= WORDS[pair]; s++)
                    cr_expect_float_eq(json_cell(map, t, s), weights[t][s], 1e-5);
        }
        for (int above = 0; above < 2; above++) {
            const char *options = format("--measure norms --layer 1 --head %s %s", heads[head + 1],
                                         above ? "--threshold 0.3" : "");
            cr_expect_str_eq(align(options), expected[above], "%s", options);
        }
    }
    static const char *const formats[] = {"json", "svg --versus random"};
    for (int i = 0; i < 2; i++)
        cr_expect(
            shows(run_ok("qkv attention RUN one -q --measure norms -f %s", formats[i]), "share of norms"));
}

/* ---- scores ---- */

static const cJSON *results_of_evaluate(void)
{
    return json_at(json_by("qkv evaluate RUN pairs.tsv --links gold --json"), "alignment.results");
}

Test(align, scores_as_evaluate_does)
{
    static const char *const keys[] = {"aer",  "precision",  "recall",        "links",
                                       "sure", "found_sure", "found_possible"};
    const cJSON *result;
    int compared = 0;
    cJSON_ArrayForEach(result, results_of_evaluate())
    {
        const cJSON *score = json_by(
            "qkv align RUN pairs.tsv --links gold --json -o links --layer %s --head %s --drawing %s "
            "--reading %s",
            cJSON_IsNumber(json_at(result, "layer")) ? "1" : "mean",
            cJSON_IsNumber(json_at(result, "head")) ? format("%.0f", json_number(result, "head")) : "mean",
            json_text(result, "drawing"), json_text(result, "reading"));
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            cr_expect_eq(json_number(score, keys[i]), json_number(result, keys[i]), "%s", keys[i]);
        compared++;
    }
    cr_expect_eq(compared, 2 * 2 * 4,
                 "two heads, the means of the layer and of all, two drawings, two readings");
    const char *text = run_ok("qkv evaluate RUN pairs.tsv --links gold");
    cr_expect(shows(text, "layer 1, mean of heads") && shows(text, "\nbest: "));
    struct outcome outcome = run("qkv align RUN pairs.tsv --links gold -o links");
    cr_expect_str_empty(outcome.output);
    cr_expect(begins(outcome.error, "AER "));
    cr_expect(shows(outcome.error, "(3 sentence pairs)\n"));
    write_text(".", "itself", align(""));
    cr_expect_str_eq(run("qkv align RUN pairs.tsv --links itself").error,
                     "AER 0.00 %, precision 100.00 %, recall 100.00 % (3 sentence pairs)\n");
}

/* The mean of one head is that head, and is scored once. */
Test(align, has_no_mean_of_a_single_head)
{
    run_ok("qkv train tiny.yaml -q -s model.encoder.num_heads=1 -s model.decoder.num_heads=1 -s "
           "training.updates=2");
    const char *text = run_ok("qkv evaluate run pairs.tsv --links gold");
    cr_expect(lacks(text, "mean") && shows(text, "\nlayer 1, head 1 ") &&
              shows(text, "best: layer 1, head 1, "));
    cr_expect(shows(run_ok("qkv attention run one --target uno"), "cross attention, layer 1, head 1"));
}

/* ---- the best head ---- */

/* The mean entropy of the rows of a head between words, and its mean agreement with the mean of both heads. */
static void measure(int head, double *entropy, double *agreement)
{
    int rows = 0;
    *entropy = *agreement = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        const cJSON *map = map_of(pair, format("--head %d", head + 1)),
                    *other = map_of(pair, format("--head %d", 2 - head));
        for (int t = 0; t < WORDS[pair]; t++, rows++) {
            double sum = 0;
            for (int s = 0; s < WORDS[pair]; s++) sum += json_cell(map, t, s);
            for (int s = 0; s < WORDS[pair]; s++) {
                double share = json_cell(map, t, s) / sum;
                *entropy -= share * log(share);
                *agreement += json_cell(map, t, s) * (json_cell(map, t, s) + json_cell(other, t, s)) / 2;
            }
        }
    }
    *entropy /= rows;
    *agreement /= rows;
}

static void expect_chosen(const char *rule, int head, const char *why)
{
    struct outcome outcome =
        run("qkv align RUN pairs.tsv --head best --choose %s --links gold -o links", rule);
    const char *line = format("RUN: best head: layer 1, head %d (%s)\n", head, why);
    cr_expect(begins(outcome.error, line), "wanted: %sgot: %s", line, outcome.error);
    cr_expect_str_eq(read_file("links", NULL), align(format("--layer 1 --head %d", head)));
}

Test(align, chooses_the_best_head_by_each_rule)
{
    double entropy[2], agreement[2], aer[2];
    for (int head = 0; head < 2; head++) {
        measure(head, &entropy[head], &agreement[head]);
        aer[head] = json_number(results_of_evaluate(), format("%d.aer", head));
    }
    int best = entropy[1] < entropy[0];
    expect_chosen("entropy", best + 1, format("lowest entropy, %.4f nats per target word", entropy[best]));
    best = agreement[1] > agreement[0];
    expect_chosen("agreement", best + 1,
                  format("greatest agreement with the mean of all heads, %.4f", agreement[best]));
    best = aer[1] < aer[0];
    expect_chosen("gold", best + 1, format("lowest alignment error rate, %.2f %%", 100 * aer[best]));
}

/* ---- two runs ---- */

/* A set of links: linked[line][source][target]. */
struct link_set {
    bool linked[PAIRS][CAPACITY][CAPACITY];
};

static struct link_set read_set(const char *text, bool swapped)
{
    struct link_set set = {0};
    for (int line = 0; line < PAIRS; line++, text = strchr(text, '\n') + 1)
        for (const char *at = text; *at >= '0';) {
            int source, target, size;
            cr_assert_eq(sscanf(at, "%d-%d%n", &source, &target, &size), 2);
            set.linked[line][swapped ? target : source][swapped ? source : target] = true;
            at += size;
            if (*at == ' ') at++;
        }
    return set;
}

Test(align, takes_the_links_per_source_word_from_a_reverse_run)
{
    run_ok("swap() { awk -F'\\t' '{print $2 \"\\t\" $1}' $1; }; swap pairs.tsv >swapped.tsv && "
           "swap train.tsv >back.tsv && qkv train tiny.yaml -q -j 1 -s data.train=back.tsv -s "
           "data.dev=back.tsv -s data.src.lang=es -s data.trg.lang=en");
    const char *back = run_ok("qkv align run swapped.tsv --layer 1 --head 2");
    const char *maps = "--layer 1 --head 1 --reverse run --reverse-head 2 --drawing";
    struct link_set by_target = read_set(align("--layer 1 --head 1"), false),
                    by_source = read_set(back, true),
                    both = read_set(align(format("%s intersection", maps)), false),
                    any = read_set(align(format("%s union", maps)), false),
                    source = read_set(align(format("%s source", maps)), false);
    cr_expect_arr_eq(&source, &by_source, sizeof source);
    int linked = 0;
    for (size_t i = 0; i < sizeof both; i++) {
        const bool *t = &by_target.linked[0][0][0], *s = &by_source.linked[0][0][0];
        cr_expect_eq((&both.linked[0][0][0])[i], t[i] && s[i]);
        cr_expect_eq((&any.linked[0][0][0])[i], t[i] || s[i]);
        linked += t[i] + s[i];
    }
    cr_expect_eq(linked, 9 + 9, "every word has its link");
    /* The product of both maps is the same from either run. */
    back = run_ok("qkv align run swapped.tsv --layer 1 --head 2 --reverse RUN --reverse-head 1 --multiply "
                  "--drawing intersection");
    struct link_set product = read_set(align(format("%s intersection --multiply", maps)), false),
                    product_back = read_set(back, true);
    cr_expect_arr_eq(&product, &product_back, sizeof product);
    cr_expect_arr_neq(&product, &both, sizeof product);
    cr_expect_str_eq(
        align("--layer 1 --head 1 --reverse run"),
        align("--layer 1 --head 1 --reverse run --reverse-layer 1 --reverse-head 1 --drawing grow-diag"));
    cr_expect(shows(
        run("qkv align RUN pairs.tsv --head best --reverse run --choose gold --links gold -o links").error,
        "\nrun: best head: layer 1, head "));
}

/* ---- words, lines, threads ---- */

/* A side cuts punctuation off, or everything: tokens are then not the words that links count. */
Test(align, links_words_for_every_tokenizer)
{
#define LONG                                                                                                 \
    "-s model.encoder.positions.max_length=50 -s model.decoder.positions.max_length=50 "                     \
    "-s data.src.max_length=40 -s data.trg.max_length=40 "
    static const char *const settings[] = {
        "-s data.src.split_punctuation=true",
        "-s data.src.split_punctuation=true -s data.trg.split_punctuation=true",
        LONG "-s data.src.level=bpe -s data.src.num_merges=3 -s data.trg.level=bpe -s data.trg.num_merges=2",
        LONG "-s data.src.level=char -s data.trg.level=char"};
    write_text(".", "train.tsv", "one two\tuno dos\none, two\tuno , dos\n");
    run_ok("tail -n 1 train.tsv >two.tsv && echo '0-0 0-1 1-2' >gold && echo '0-0 2-2' >far");
    for (int i = 0; i < 4; i++) {
        const char *links = run_ok("qkv train tiny.yaml -q --overwrite %s -s training.updates=1 -s "
                                   "training.validation_freq=1 && qkv align run two.tsv",
                                   settings[i]);
        int source, target[3] = {0};
        for (const char *at = links; *at && *at != '\n'; at += strcspn(at, " \n"), at += *at == ' ') {
            int word;
            cr_assert_eq(sscanf(at, "%d-%d", &source, &word), 2, "%s", links);
            cr_assert(source < 2 && word < 3, "%s", links);
            target[word]++;
        }
        cr_expect(target[0] == 1 && target[1] == 1 && target[2] == 1, "a link for each target word: %s",
                  links);
        cr_expect_eq(
            json_number(json_by("qkv evaluate run two.tsv --links gold --json"), "alignment.results.0.links"),
            3);
        cr_expect(refused(run("qkv evaluate run two.tsv --links far"),
                          "qkv: far:1:5: link 2-2 has no source word 2: the sentence has 2, from 0"));
    }
}

Test(align, gives_the_same_bytes_for_any_number_of_threads)
{
    run_ok("for i in 1 2 3 4 5 6 7 8 9 10 11; do cat train.tsv; done >pairs.tsv");
    const char *one = align("-j 1 --head best");
    cr_expect_str_eq(align("-j 3 --head best"), one);
    cr_expect_str_eq(run_ok("qkv align RUN - -j 2 --head best <pairs.tsv | tee links"), one);
    cr_expect_str_eq(run_ok("wc -l <links"), "220\n");
}

Test(align, leaves_lines_of_pairs_without_links_empty)
{
    write_text(".", "pairs.tsv",
               "one two\tuno dos\n\tuno\none\t \none two one two one two one two one two one two one\tuno\n"
               "one\tuno uno uno uno uno uno uno uno uno uno uno uno uno\nfive\tcinco\n");
    struct outcome outcome = run("qkv align RUN pairs.tsv");
    cr_expect_str_eq(strchr(outcome.output, '\n'), "\n\n\n\n\n0-0\n");
    cr_expect_str_eq(
        outcome.error,
        "pairs.tsv:4: the source side has 13 tokens, but the model has positions for 11: no links\n"
        "pairs.tsv:5: the target side has 13 tokens, but the model has positions for 11: no links\n");
}

/* data.train and data.dev may be two files; so may the pairs, also in gzip. */
Test(align, reads_two_line_aligned_files_as_a_table)
{
    run_ok("cut -f 1 pairs.tsv >two.en && cut -f 2 pairs.tsv | gzip >two.es.gz && cp pairs.tsv pairs && "
           "touch pairs.en pairs.es");
    const char *table = align("");
    cr_expect_str_eq(run_ok("qkv align RUN two"), table);
    cr_expect_str_eq(run_ok("qkv align RUN pairs"), table, "a file that exists is a table");
    write_text(".", "two.en", "one\ntwo\n");
    cr_expect(
        refused(run("qkv align RUN two"),
                "qkv: two.es.gz:3:1: the line has no counterpart: two.es.gz has 3 lines, but two.en has 2"));
}

/* tests/metrics/alignment.c tests the formats; the third column of the pairs may be links, too. */
Test(align, reads_gold_links_of_every_format)
{
    static const char *const same[] = {"pairs.tsv --links from1", "pairs.tsv --links links.wa",
                                       "pairs.tsv --links three.tsv", "three.tsv --links three.tsv",
                                       "three.tsv --links from1 --links-from 1"};
    static const char note[] = "qkv: note: first.wa has no links of 1 of the 2 pairs: every link that is "
                               "drawn there counts as wrong; score only pairs that it has links of\n";
    write_text(".", "pairs.tsv", "one two\tuno dos\nfive four three\tcinco cuatro tres\n");
    write_text(".", "from0", "0-0 1?1\n0-0 2-2\n");
    write_text(".", "from1", "1-1 2:2\n1-1 3-3\n");
    write_text(".", "links.wa", "0001 1 1 S\n0001 2 2 P\n0002 3 3\n0002 1 1 S\n");
    write_text(".", "either", "1-1\n1-1\n");
    write_text(".", "first.wa", "0001 1 1 S\n");
    run_ok("paste pairs.tsv from0 | tr '?' p >three.tsv && printf '0-0\\n\\n' >first.pharaoh");
    const char *expected = run_ok("qkv evaluate RUN pairs.tsv --links from0");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct outcome outcome = run("qkv evaluate RUN %s", same[i]);
        cr_expect_str_empty(outcome.error);
        cr_expect_str_eq(without_paths(outcome.output), without_paths(expected), "%s", same[i]);
    }
    cr_expect_str_eq(run_ok("qkv align RUN three.tsv --links three.tsv -o links 2>&1"),
                     run_ok("qkv align RUN pairs.tsv --links from0 -o links 2>&1"));
    cr_expect_str_eq(run("qkv evaluate RUN pairs.tsv --links first.wa").error, note);
    cr_expect_str_eq(run("qkv heads RUN pairs.tsv -q --no-translation --links first.wa").error, note);
    const char *aligned = run("qkv align RUN pairs.tsv --links first.wa").error;
    cr_expect(begins(aligned, note));
    cr_expect(shows(run("qkv evaluate RUN pairs.tsv --links first.pharaoh").error,
                    "first.pharaoh has no links of 1 of the 2 pairs"));
    static const char *const commands[] = {"evaluate", "align"};
    for (int i = 0; i < 2; i++) {
        cr_expect(fails(run("qkv %s RUN pairs.tsv --links either", commands[i]), 2,
                        "say which with --links-from 0 or --links-from 1"));
        run_ok("qkv %s RUN pairs.tsv --links either --links-from 0", commands[i]);
        cr_expect_eq(run("qkv %s RUN three.tsv", commands[i]).exit_code, 2,
                     "without --links, a third column is wrong");
    }
}

Test(align, refuses_bad_input_and_keeps_the_old_file)
{
    static const char *const cases[][2] = {
        {"bad.tsv -o links", "qkv: bad.tsv:2:8: the line has no tab; a line is source<TAB>target"},
        {"none.tsv -o links", "qkv: none.tsv: the file is empty"},
        {"no -o links", "qkv: no: there is no such file, and no no.en or no.en.gz (a data path is x.tsv, "
                        "x.tsv.gz, or the common prefix of two files)"},
        {"pairs.tsv -o links --links short", "qkv: short: has 1 line, but the corpus has 3 pairs"},
        {"pairs.tsv -o no/links", "qkv: no/links: cannot be written: there is no folder no"},
        {"pairs.tsv --layer 2", "qkv: RUN: the cross attention has no layer 2: its layers are 1 to 1"},
        {"pairs.tsv --head 3", "qkv: RUN: the cross attention has no head 3: its heads are 1 to 2"},
        {"pairs.tsv --layer 4 --head best",
         "qkv: RUN: the cross attention has no layer 4: its layers are 1 to 1"},
        {"pairs.tsv --layer all", "qkv: --layer is 'all', but must be a number from 1 or mean"},
        {"pairs.tsv --head all", "qkv: --head is 'all', but must be a number from 1, mean or best"},
        {"pairs.tsv --reverse-head 1", "qkv: --reverse-head is for a second run: give --reverse"},
        {"pairs.tsv --reverse RUN --drawing target", "qkv: --drawing target takes links of the first run "
                                                     "only: leave out --reverse, or choose another drawing"},
        {"pairs.tsv --choose entropy", "qkv: --choose is for the best head: give --head best"},
        {"pairs.tsv --head best --choose gold", "qkv: --choose gold needs gold links: give --links"},
        {"pairs.tsv --links-from 0", "qkv: --links-from needs --links"},
        {"pairs.tsv --json", "qkv: --json prints scores: give --links"},
        {"pairs.tsv --json --links gold",
         "qkv: --json prints scores on standard output, where the links are: give --output"},
        {"- --links gold",
         "qkv: with --links the pairs are read twice: give a file instead of standard input"},
        {"pairs.tsv --multiply", "qkv: --multiply is for a second run: give --reverse"},
        {"pairs.tsv --threshold 0",
         "qkv: --threshold is 0, but must be above it: almost all weights are above 0"},
        {"pairs.tsv --links gold -o ./gold", "qkv: ./gold: is an input, too: write to another file"},
        {"pairs.tsv --reverse RUN", "qkv: RUN translates from en to es and RUN from en to es, but the second "
                                    "run of an alignment must translate in the other direction"},
    };
    write_text(".", "bad.tsv", "one\tuno\none uno\n");
    run_ok(": >none.tsv && echo 0-0 >short && echo old >links");
    EXPECT_REFUSALS("qkv align RUN", cases);
}
