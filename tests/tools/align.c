/* qkv align: links between words, against what qkv attention, explain and evaluate say of the same pairs. */
#include "json.h"
#include "tiny_run.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { PAIRS = 3, CAPACITY = 8 };
static const char *const SOURCE[PAIRS] = {"one two three", "five four", "two one four three"};
static const char *const TARGET[PAIRS] = {"uno dos tres", "cinco cuatro", "dos uno cuatro tres"};
static const int WORDS[PAIRS] = {3, 2, 4};

static const char *tiny(void)
{
    return tiny_folder("align");
}

/* A scratch folder with pairs.tsv and gold. */
static const char *folder_of(const char *name)
{
    const char *folder = scratch(name);
    char *pairs = format("%s", "");
    for (int i = 0; i < PAIRS; i++) pairs = format("%s%s\t%s\n", pairs, SOURCE[i], TARGET[i]);
    write_text(folder, "pairs.tsv", pairs);
    write_text(folder, "gold", "0-0 1-1 2p2\n0-0 1-1\n0-0 1-1 2-2 3-3\n");
    return folder;
}

/* The output of qkv align on the pairs of a folder, which must succeed. */
static const char *align(const char *folder, const char *options)
{
    char *output = run_ok("cd '%s' && qkv align '%s/run' pairs.tsv %s", folder, tiny(), options);
    return output;
}

/* ---- weights, by other commands ---- */

/* The weights of a map, [steps, tokens with </s>]. */
static cJSON *map_of(int pair, int head)
{
    struct outcome shown = run("cd '%s' && qkv attention run '%s' -t '%s' -f json --kind cross --head %d",
                               tiny(), SOURCE[pair], TARGET[pair], head);
    cJSON *maps = cJSON_GetObjectItem(remember(cJSON_Parse(shown.output)), "maps");
    cr_assert_eq(cJSON_GetArraySize(maps), 1, "%s", shown.error);
    return cJSON_GetObjectItem(cJSON_GetArrayItem(maps, 0), "weights");
}

static double cell(const cJSON *matrix, int row, int column)
{
    return cJSON_GetArrayItem(cJSON_GetArrayItem(matrix, row), column)->valuedouble;
}

/* Links of the strongest source words of the rows shift, shift + 1, ..., or of all words above a threshold. */
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
    const char *folder = folder_of("strongest");
    for (int head = 1; head <= 2; head++)
        for (int shift = 0; shift < 2; shift++)
            for (int above = 0; above < 2; above++) {
                char *expected = format("%s", "");
                double weights[CAPACITY][CAPACITY];
                for (int pair = 0; pair < PAIRS; pair++) {
                    const cJSON *map = map_of(pair, head);
                    for (int t = 0; t < WORDS[pair]; t++)
                        for (int s = 0; s < WORDS[pair]; s++) weights[t][s] = cell(map, t + shift, s);
                    expected = strongest(expected, weights, WORDS[pair], above ? 0.25 : 0);
                }
                const char *options = format("--layer 1 --head %d --reading %s %s", head,
                                             shift ? "read" : "predicted", above ? "--threshold 0.25" : "");
                cr_expect_str_eq(align(folder, options), expected, "%s", options);
            }
}

/* ---- norms ---- */

static const cJSON *step(const cJSON *walk, const char *name)
{
    for (const cJSON *item = cJSON_GetObjectItem(walk, "steps")->child; item; item = item->next)
        if (!strcmp(cJSON_GetObjectItem(item, "name")->valuestring, name))
            return cJSON_GetObjectItem(item, "values");
    cr_assert_fail("no step %s", name);
    return NULL;
}

/* The norm of value `key` of a head, transformed by its rows of the output weights. */
static double norm_of(const cJSON *walk, int head, int key)
{
    const cJSON *values = cJSON_GetArrayItem(step(walk, "values"), head),
                *output = step(walk, "output_weights");
    int width = cJSON_GetArraySize(cJSON_GetArrayItem(values, key)),
        outputs = cJSON_GetArraySize(cJSON_GetArrayItem(output, 0));
    double square = 0;
    for (int o = 0; o < outputs; o++) {
        double sum = 0;
        for (int v = 0; v < width; v++) sum += cell(values, key, v) * cell(output, head * width + v, o);
        square += sum * sum;
    }
    return sqrt(square);
}

/* Weights times norms of a head (from 0), or the mean of both heads (-1), divided by the sum of the row. */
static void weigh(const cJSON *walk, int head, int words, double weights[CAPACITY][CAPACITY])
{
    for (int t = 0; t < words; t++) {
        double sum = 0;
        for (int s = 0; s <= words; s++) {
            weights[t][s] = 0;
            for (int h = 0; h < 2; h++)
                if (head == h || head < 0)
                    weights[t][s] +=
                        norm_of(walk, h, s) * cell(cJSON_GetArrayItem(step(walk, "weights"), h), t, s);
            sum += weights[t][s];
        }
        for (int s = 0; s <= words; s++) weights[t][s] /= sum;
    }
}

Test(align, multiplies_weights_by_the_norms_of_transformed_values)
{
    const char *folder = folder_of("norms");
    for (int head = -1; head < 2; head++)
        for (int above = 0; above < 2; above++) {
            char *expected = format("%s", "");
            double weights[CAPACITY][CAPACITY];
            for (int pair = 0; pair < PAIRS; pair++) {
                struct outcome shown = run("cd '%s' && qkv explain run '%s' -t '%s' -f json --full", tiny(),
                                           SOURCE[pair], TARGET[pair]);
                const cJSON *walk =
                    cJSON_GetArrayItem(cJSON_GetObjectItem(remember(cJSON_Parse(shown.output)), "walks"), 0);
                weigh(walk, head, WORDS[pair], weights);
                expected = strongest(expected, weights, WORDS[pair], above ? 0.3 : 0);
            }
            const char *options = format("--measure norms --layer 1 --head %s %s",
                                         head < 0 ? "mean"
                                         : head   ? "2"
                                                  : "1",
                                         above ? "--threshold 0.3" : "");
            cr_expect_str_eq(align(folder, options), expected, "%s", options);
        }
}

/* The maps of qkv attention: those of one head as here, and the mean over heads of norms, not of shares. */
Test(align, attention_measures_the_same_norms)
{
    for (int head = -1; head < 2; head++) {
        double expected[CAPACITY][CAPACITY];
        cJSON
            *walks = json_parsed(run_ok("cd '%s' && qkv explain run '%s' -t '%s' -f json --full", tiny(),
                                        SOURCE[0], TARGET[0])),
            *report = json_parsed(run_ok(
                "cd '%s' && qkv attention run '%s' -t '%s' -q -f json --kind cross --head %s --measure norms",
                tiny(), SOURCE[0], TARGET[0],
                head < 0 ? "mean"
                : head   ? "2"
                         : "1"));
        const cJSON *map = cJSON_GetArrayItem(cJSON_GetObjectItem(report, "maps"), 0);
        weigh(cJSON_GetArrayItem(cJSON_GetObjectItem(walks, "walks"), 0), head, WORDS[0], expected);
        for (int t = 0; t < WORDS[0]; t++)
            for (int s = 0; s <= WORDS[0]; s++)
                cr_expect_float_eq(cell(cJSON_GetObjectItem(map, "weights"), t, s), expected[t][s], 1e-5);
        cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(report, "value")), "share of norms");
        cJSON_Delete(walks);
        cJSON_Delete(report);
    }
    cr_expect(shows(
        run_ok("cd '%s' && qkv attention run 'one two' -q --measure norms --versus random -f svg", tiny()),
        "share of norms"));
}

/* ---- scores ---- */

static const cJSON *results_of_evaluate(const char *folder)
{
    struct outcome outcome =
        run("cd '%s' && qkv evaluate '%s/run' pairs.tsv --links gold --json", folder, tiny());
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    return cJSON_GetObjectItem(cJSON_GetObjectItem(remember(cJSON_Parse(outcome.output)), "alignment"),
                               "results");
}

static void expect_equal_number(const cJSON *a, const cJSON *b, const char *key)
{
    cr_expect_eq(cJSON_GetObjectItem(a, key)->valuedouble, cJSON_GetObjectItem(b, key)->valuedouble, "%s",
                 key);
}

Test(align, scores_as_evaluate_does)
{
    const char *folder = enter(folder_of("scores"));
    const cJSON *result;
    int compared = 0;
    cJSON_ArrayForEach(result, results_of_evaluate(folder))
    {
        const cJSON *layer = cJSON_GetObjectItem(result, "layer"),
                    *head = cJSON_GetObjectItem(result, "head");
        const char *options =
            format("--links gold --json -o links --layer %s --head %s --drawing %s --reading %s",
                   cJSON_IsNumber(layer) ? "1" : "mean",
                   cJSON_IsNumber(head) ? format("%d", head->valueint) : "mean",
                   cJSON_GetObjectItem(result, "drawing")->valuestring,
                   cJSON_GetObjectItem(result, "reading")->valuestring);
        const cJSON *score = remember(cJSON_Parse(align(folder, options)));
        static const char *const keys[] = {"aer",  "precision",  "recall",        "links",
                                           "sure", "found_sure", "found_possible"};
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) expect_equal_number(score, result, keys[i]);
        compared++;
    }
    cr_expect_eq(compared, 2 * 2 * 4);
    struct outcome outcome = run("qkv align '%s/run' pairs.tsv --links gold -o links", tiny());
    cr_expect_str_empty(outcome.output);
    cr_expect_eq(strncmp(outcome.error, "AER ", 4), 0, "%s", outcome.error);
    cr_expect(shows(outcome.error, "(3 sentence pairs)\n"));
    write_text(folder, "itself", align(folder, ""));
    outcome = run("qkv align '%s/run' pairs.tsv --links itself", tiny());
    cr_expect_str_eq(outcome.error, "AER 0.00 %, precision 100.00 %, recall 100.00 % (3 sentence pairs)\n");
}

/* ---- the best head ---- */

/* The mean entropy of the rows of a head between words, and its mean agreement with the mean of both heads. */
static void measure(int head, double *entropy, double *agreement)
{
    int rows = 0;
    *entropy = *agreement = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        const cJSON *map = map_of(pair, head + 1), *other = map_of(pair, 2 - head);
        for (int t = 0; t < WORDS[pair]; t++, rows++) {
            double sum = 0;
            for (int s = 0; s < WORDS[pair]; s++) sum += cell(map, t, s);
            for (int s = 0; s < WORDS[pair]; s++) {
                double share = cell(map, t, s) / sum;
                *entropy -= share * log(share);
                *agreement += cell(map, t, s) * (cell(map, t, s) + cell(other, t, s)) / 2;
            }
        }
    }
    *entropy /= rows;
    *agreement /= rows;
}

static void expect_chosen(const char *folder, const char *rule, int head, const char *why)
{
    struct outcome outcome =
        run("cd '%s' && qkv align '%s/run' pairs.tsv --head best --choose %s --links gold -o links", folder,
            tiny(), rule);
    const char *line = format("%s/run: best head: layer 1, head %d (%s)\n", tiny(), head, why);
    cr_expect_eq(strncmp(outcome.error, line, strlen(line)), 0, "wanted: %sgot: %s", line, outcome.error);
    const char *chosen = read_file(format("%s/links", folder), NULL);
    cr_expect_str_eq(chosen, align(folder, format("--layer 1 --head %d", head)));
}

Test(align, chooses_the_best_head_by_each_rule)
{
    const char *folder = folder_of("best");
    double entropy[2], agreement[2], error[2];
    for (int head = 0; head < 2; head++) {
        measure(head, &entropy[head], &agreement[head]);
        error[head] =
            cJSON_GetObjectItem(cJSON_GetArrayItem(results_of_evaluate(folder), head), "aer")->valuedouble;
    }
    int best = entropy[1] < entropy[0];
    expect_chosen(folder, "entropy", best + 1,
                  format("lowest entropy, %.4f nats per target word", entropy[best]));
    best = agreement[1] > agreement[0];
    expect_chosen(folder, "agreement", best + 1,
                  format("greatest agreement with the mean of all heads, %.4f", agreement[best]));
    best = error[1] < error[0];
    expect_chosen(folder, "gold", best + 1,
                  format("lowest alignment error rate, %.2f %%", 100 * error[best]));
}

/* ---- two runs ---- */

static void reverse_run(const char *folder)
{
    run_ok("cd '%s' && awk -F'\\t' '{print $2 \"\\t\" $1}' '%s/train.tsv' >train.tsv && cp '%s/tiny.yaml' . "
           "&& qkv train tiny.yaml -q -j 1 -s data.src.lang=es -s data.trg.lang=en",
           folder, tiny(), tiny());
}

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
    const char *folder = enter(folder_of("reverse"));
    reverse_run(folder);
    run("awk -F'\\t' '{print $2 \"\\t\" $1}' pairs.tsv >swapped.tsv");
    const char *back = run_ok("qkv align run swapped.tsv --layer 1 --head 2");
    const char *maps = "--layer 1 --head 1 --reverse run --reverse-head 2 --drawing";
    struct link_set by_target = read_set(align(folder, "--layer 1 --head 1"), false),
                    by_source = read_set(back, true),
                    both = read_set(align(folder, format("%s intersection", maps)), false),
                    any = read_set(align(folder, format("%s union", maps)), false),
                    source = read_set(align(folder, format("%s source", maps)), false);
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
    back = run_ok("qkv align run swapped.tsv --layer 1 --head 2 --reverse '%s/run' --reverse-head 1 "
                  "--multiply --drawing intersection",
                  tiny());
    struct link_set product = read_set(align(folder, format("%s intersection --multiply", maps)), false),
                    product_back = read_set(back, true);
    cr_expect_arr_eq(&product, &product_back, sizeof product);
    cr_expect_arr_neq(&product, &both, sizeof product);
    cr_expect_str_eq(
        align(folder, "--layer 1 --head 1 --reverse run"),
        align(folder,
              "--layer 1 --head 1 --reverse run --reverse-layer 1 --reverse-head 1 --drawing grow-diag"));
    struct outcome chosen = run(
        "qkv align '%s/run' pairs.tsv --head best --reverse run --choose gold --links gold -o links", tiny());
    cr_expect_eq(chosen.exit_code, 0);
    cr_expect(shows(chosen.error, "\nrun: best head: layer 1, head "));
}

/* ---- words, lines, threads ---- */

Test(align, links_words_for_every_tokenizer)
{
#define LONG                                                                                                 \
    "-s model.encoder.positions.max_length=50 -s model.decoder.positions.max_length=50 "                     \
    "-s data.src.max_length=40 -s data.trg.max_length=40 "
    static const char *const settings[] = {
        "-s data.src.split_punctuation=true -s data.trg.split_punctuation=true",
        LONG "-s data.src.level=bpe -s data.src.num_merges=3 -s data.trg.level=bpe -s data.trg.num_merges=2",
        LONG "-s data.src.level=char -s data.trg.level=char"};
    for (int i = 0; i < 3; i++) {
        const char *folder = enter(scratch(format("words%d", i)));
        write_text(folder, "train.tsv", "one two\tuno dos\none, two\tuno , dos\n");
        write_text(folder, "two.tsv", "one, two\tuno , dos\n");
        write_text(folder, "tiny.yaml", TINY_CONFIG);
        const char *links = run_ok("qkv train tiny.yaml -q %s -s training.updates=1 -s "
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
    }
}

Test(align, gives_the_same_bytes_for_any_number_of_threads)
{
    const char *folder = enter(scratch("threads"));
    run("for i in 1 2 3 4 5 6 7 8 9 10 11; do cat '%s/train.tsv'; done >pairs.tsv", tiny());
    const char *one = align(folder, "-j 1 --head best"), *three = align(folder, "-j 3 --head best");
    cr_expect_str_eq(one, three);
    int lines = 0;
    for (const char *at = one; (at = strchr(at, '\n')); at++) lines++;
    cr_expect_eq(lines, 220);
    cr_expect_str_eq(run("qkv align '%s/run' - -j 2 --head best <pairs.tsv", tiny()).output, one);
}

Test(align, leaves_lines_of_pairs_without_links_empty)
{
    const char *folder = enter(scratch("empty"));
    write_text(folder, "pairs.tsv",
               "one two\tuno dos\n\tuno\none\t \none two one two one two one two one two one two one\tuno\n"
               "one\tuno uno uno uno uno uno uno uno uno uno uno uno uno\nfive\tcinco\n");
    struct outcome outcome = run("qkv align '%s/run' pairs.tsv", tiny());
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_eq(strchr(outcome.output, '\n'), "\n\n\n\n\n0-0\n");
    cr_expect_str_eq(
        outcome.error,
        "pairs.tsv:4: the source side has 13 tokens, but the model has positions for 11: no links\n"
        "pairs.tsv:5: the target side has 13 tokens, but the model has positions for 11: no links\n");
}

/* data.train and data.dev may be two files; so may the pairs, also in gzip and for gold links. */
Test(align, reads_two_line_aligned_files_as_a_table)
{
    const char *folder = enter(folder_of("two_files"));
    run_ok("cut -f 1 pairs.tsv >two.en && cut -f 2 pairs.tsv | gzip >two.es.gz && cp pairs.tsv pairs && "
           "touch pairs.en pairs.es");
    const char *options = "--links gold --json -o", *table = align(folder, "");
    const char *score = align(folder, format("%s table.links", options));
    struct outcome two = run("qkv align '%s/run' two %s two.links", tiny(), options);
    cr_assert_eq(two.exit_code, 0, "%s", two.error);
    cr_expect_str_eq(read_file("two.links", NULL), table);
    cr_expect_str_eq(strstr(two.output, "\"sentences\""), strstr(score, "\"sentences\""));
    cr_expect_str_eq(run_ok("qkv align '%s/run' pairs", tiny()), table, "a file that exists is a table");
    run_ok("paste pairs.tsv gold >three.tsv && qkv align '%s/run' three.tsv --links three.tsv -o three.links "
           "&& cmp three.links two.links",
           tiny());
    write_text(folder, "two.en", "one\ntwo\n");
    two = run("qkv align '%s/run' two", tiny());
    cr_expect(
        refused(two,
                "qkv: two.es.gz:3:1: the line has no counterpart: two.es.gz has 3 lines, but two.en has 2"),
        "%s", two.error);
}

Test(align, refuses_bad_input_and_keeps_the_old_file)
{
    const char *folder = enter(folder_of("refuses"));
    write_text(folder, "bad.tsv", "one\tuno\none uno\n");
    write_text(folder, "three.tsv", "one\tuno\t0-0\n");
    write_text(folder, "none.tsv", "");
    write_text(folder, "short", "0-0\n");
    write_text(folder, "either", "1-1\n1-1\n1-2\n");
    write_text(folder, "links", "old\n");
    static const char *const cases[][2] = {
        {"bad.tsv -o links", "qkv: bad.tsv:2:8: the line has no tab; a line is source<TAB>target"},
        {"three.tsv -o links",
         "qkv: three.tsv:1:8: the line has a second tab; a line is source<TAB>target (cut "
         "-f1,2 takes two columns)"},
        {"none.tsv -o links", "qkv: none.tsv: the file is empty"},
        {"absent.tsv -o links", "qkv: absent.tsv: cannot be read: No such file or directory"},
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
        {"pairs.tsv --reverse RUN --drawing target",
         "qkv: --drawing target takes links of the first run only: "
         "leave out --reverse, or choose another drawing"},
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
        {"pairs.tsv --reverse RUN",
         "qkv: RUN translates from en to es and RUN from en to es, but the second run "
         "of an alignment must translate in the other direction"},
    };
    run("ln -sfn '%s/run' '%s/RUN'", tiny(), folder);
    EXPECT_REFUSALS("qkv align RUN ", cases);
    cr_expect_str_eq(read_file("links", NULL), "old\n");
    cr_expect_str_eq(run("ls '%s' | grep -c tmp", folder).output, "0\n");
    struct outcome either = run("qkv align RUN pairs.tsv --links either");
    cr_expect(shows(either.error, "say which with --links-from 0 or --links-from 1"));
}
