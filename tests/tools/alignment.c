/* qkv evaluate --links: gold alignments against the maps that qkv attention shows. */
#include "tiny_run.h"

#include <cjson/cJSON.h>
#include <string.h>

static struct outcome evaluate(const char *arguments)
{
    return run("cd '%s' && qkv evaluate run %s", tiny_folder("alignment"), arguments);
}

/* Counts the gold links 0-0, 1-1, ... that the strongest source words of a map's rows give; the last row and
 * column are
 * </s>. */
static int hits(const cJSON *map, int words)
{
    int count = 0;
    for (int r = 0; r < words; r++) {
        cJSON *row = cJSON_GetArrayItem(cJSON_GetObjectItem(map, "weights"), r);
        int best = 0;
        for (int c = 1; c < words; c++)
            if (cJSON_GetArrayItem(row, c)->valuedouble > cJSON_GetArrayItem(row, best)->valuedouble)
                best = c;
        count += best == r;
    }
    return count;
}

Test(alignment, agrees_with_the_maps_of_each_sentence)
{
    static const char *const SOURCE[] = {"one two three", "five four", "two one four three"};
    static const char *const TARGET[] = {"uno dos tres", "cinco cuatro", "dos uno cuatro tres"};
    static const int WORDS[] = {3, 2, 4};
    const char *folder = scratch("agrees");
    int expected[2] = {0, 0};
    for (int i = 0; i < 3; i++) {
        struct outcome shown = run("cd '%s' && qkv attention run '%s' --target '%s' -f json --kind cross",
                                   tiny_folder("alignment"), SOURCE[i], TARGET[i]);
        cJSON *maps = cJSON_GetObjectItem(remember(cJSON_Parse(shown.output)), "maps");
        cr_assert_eq(cJSON_GetArraySize(maps), 2, "%s", shown.error);
        for (int head = 0; head < 2; head++) expected[head] += hits(cJSON_GetArrayItem(maps, head), WORDS[i]);
    }
    const char *pairs = write_text(
        folder, "pairs.tsv",
        format("%s\t%s\n%s\t%s\n%s\t%s\n", SOURCE[0], TARGET[0], SOURCE[1], TARGET[1], SOURCE[2], TARGET[2]));
    const char *links = write_text(folder, "gold", "0-0 1-1 2-2\n0-0 1-1\n0-0 1-1 2-2 3-3\n");
    struct outcome outcome = evaluate(format("'%s' --links '%s' --json", pairs, links));
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cJSON *alignment = cJSON_GetObjectItem(remember(cJSON_Parse(outcome.output)), "alignment");
    cJSON *results = cJSON_GetObjectItem(alignment, "results");
    cr_assert_eq(cJSON_GetArraySize(results), 2 * 2 * 4,
                 "two heads, the mean of the layer, the mean of all, in two drawings and two readings");
    cr_expect_eq(cJSON_GetObjectItem(alignment, "sentences")->valueint, 3);
    for (int head = 0; head < 2; head++) {
        cJSON *result = cJSON_GetArrayItem(results, head);
        cr_expect_str_eq(cJSON_GetObjectItem(result, "reading")->valuestring, "predicted");
        cr_expect_eq(cJSON_GetObjectItem(result, "head")->valueint, head + 1);
        cr_expect_eq(cJSON_GetObjectItem(result, "sure")->valueint, 9);
        cr_expect_eq(cJSON_GetObjectItem(result, "found_sure")->valueint, expected[head]);
        cr_expect_float_eq(cJSON_GetObjectItem(result, "aer")->valuedouble, 1 - expected[head] / 9., 1e-12);
    }
    outcome = evaluate(format("'%s' --links '%s'", pairs, links));
    cr_expect(shows(outcome.output, "layer 1, mean of heads"));
    cr_expect(shows(outcome.output, "\nbest: "));
}

/* The mean of one head is that head, and is scored once. */
Test(alignment, has_no_mean_of_a_single_head)
{
    const char *folder = enter(scratch("single"));
    tiny_data(folder);
    write_text(folder, "tiny.yaml", TINY_CONFIG);
    run_ok("qkv train tiny.yaml -q -s model.encoder.num_heads=1 -s model.decoder.num_heads=1 -s "
           "training.updates=2 && printf 'one\\tuno\\n' >pairs.tsv && echo 0-0 >gold");
    struct outcome outcome = run("qkv evaluate run pairs.tsv --links gold");
    cr_expect(lacks(outcome.output, "mean"));
    cr_expect(shows(outcome.output, "\nlayer 1, head 1 "));
    cr_expect(shows(outcome.output, "best: layer 1, head 1, "));
    const char *maps = run("qkv attention run one --target uno").output;
    cr_expect(shows(maps, "cross attention, layer 1, head 1"));
}

/* What a wrong file is told, on two pairs. */
static void expect_refusal(const char *name, const char *links, const char *message)
{
    const char *folder = scratch(name);
    write_text(folder, "pairs.tsv", "one two\tuno dos\nfive\tcinco\n");
    write_text(folder, "gold", links);
    struct outcome outcome =
        run("cd '%s' && qkv evaluate '%s/run' pairs.tsv --links gold", folder, tiny_folder("alignment"));
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_empty(outcome.output);
    cr_expect_str_eq(outcome.error, format("qkv: %s\n", message));
}

Test(alignment, refuses_links_of_another_corpus)
{
    expect_refusal("short", "0-0\n", "gold: has 1 line, but the corpus has 2 pairs");
    expect_refusal("long", "0-0\n\n\n", "gold: has 3 lines, but the corpus has 2 pairs");
    expect_refusal("range", "0-0\n0-0 1-0\n",
                   "gold:2:5: link 1-0 has no source word 1: the sentence has 1, from 0");
}

/* A second run, of which a side cuts punctuation off, or everything: tokens are then not the words that links
 * count. */
static void expect_words(const char *name, const char *settings)
{
    const char *folder = scratch(name);
    write_text(folder, "train.tsv", "one two\tuno dos\none, two\tuno , dos\n");
    write_text(folder, "two.tsv", "one, two\tuno , dos\n");
    write_text(folder, "gold", "0-0 0-1 1-2\n");
    write_text(folder, "far", "0-0 2-2\n");
    write_text(folder, "tiny.yaml", TINY_CONFIG);
    struct outcome outcome =
        run("cd '%s' && qkv train tiny.yaml -q %s -s training.updates=1 -s training.validation_freq=1",
            folder, settings);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    outcome = run("cd '%s' && qkv evaluate run two.tsv --links gold --json", folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cJSON *alignment = cJSON_GetObjectItem(remember(cJSON_Parse(outcome.output)), "alignment");
    const cJSON *result = cJSON_GetArrayItem(cJSON_GetObjectItem(alignment, "results"), 0);
    cr_expect_eq(cJSON_GetObjectItem(result, "links")->valueint, 3, "a link for each target word");
    cr_expect(refused(run("cd '%s' && qkv evaluate run two.tsv --links far", folder),
                      "qkv: far:1:5: link 2-2 has no source word 2: the sentence has 2, from 0"));
}

Test(alignment, links_words_for_every_tokenizer)
{
    expect_words("split", "-s data.src.split_punctuation=true");
    expect_words(
        "char",
        "-s data.src.level=char -s data.trg.level=char -s data.src.max_length=40 -s data.trg.max_length=40 "
        "-s model.encoder.positions.max_length=50 -s model.decoder.positions.max_length=50");
}

/* The same gold links in every format, also as the third column of the text itself, give the same output. */
Test(alignment, reads_gold_links_of_every_format)
{
    const char *folder = enter(scratch("formats"));
    write_text(folder, "pairs.tsv", "one two\tuno dos\nfive four three\tcinco cuatro tres\n");
    write_text(folder, "three.tsv",
               "one two\tuno dos\t0-0 1p1\nfive four three\tcinco cuatro tres\t0-0 2-2\n");
    write_text(folder, "from0", "0-0 1?1\n0-0 2-2\n");
    write_text(folder, "from1", "1-1 2:2\n1-1 3-3\n");
    write_text(folder, "links.wa", "0001 1 1 S\n0001 2 2 P\n0002 3 3\n0002 1 1 S\n");
    write_text(folder, "either", "1-1\n1-1\n");
    const char *in = format("qkv evaluate '%s/run'", tiny_folder("alignment"));
    const char *expected = run("%s pairs.tsv --links from0", in).output;
    cr_assert(shows(expected, "\nbest: "));
    static const char *const same[] = {"pairs.tsv --links from1", "pairs.tsv --links links.wa",
                                       "pairs.tsv --links three.tsv", "three.tsv --links three.tsv",
                                       "three.tsv --links from1 --links-from 1"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        cr_expect_str_eq(without_paths(run("%s %s", in, same[i]).output), without_paths(expected), "%s",
                         same[i]);
    write_text(folder, "first.wa", "0001 1 1 S\n");
    static const char note[] = "qkv: note: first.wa has no links of 1 of the 2 pairs: every link that is "
                               "drawn there counts as wrong; score only pairs that it has links of\n";
    cr_expect_str_empty(run("%s pairs.tsv --links links.wa", in).error);
    cr_expect_str_eq(run("%s pairs.tsv --links first.wa", in).error, note);
    write_text(folder, "first.pharaoh", "0-0\n\n");
    cr_expect(shows(run("%s pairs.tsv --links first.pharaoh", in).error,
                    "first.pharaoh has no links of 1 of the 2 pairs"));
    struct outcome aligned = run("qkv align '%s/run' pairs.tsv --links first.wa", tiny_folder("alignment"));
    cr_expect_eq(strncmp(aligned.error, note, strlen(note)), 0, "%s", aligned.error);
    struct outcome measured =
        run("qkv heads '%s/run' pairs.tsv -q --no-translation --links first.wa", tiny_folder("alignment"));
    cr_expect_str_eq(measured.error, note);
    struct outcome either = run("%s pairs.tsv --links either", in);
    cr_expect(fails(either, 2, "say which with --links-from 0 or --links-from 1"));
    cr_expect_eq(run("%s pairs.tsv --links either --links-from 0", in).exit_code, 0);
    cr_expect_eq(run("%s three.tsv", in).exit_code, 2, "without --links, a third column is a mistake");
}
