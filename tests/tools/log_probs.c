/* qkv evaluate --log-probs: the log-probabilities of given pairs. */
#include "json.h"
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a line, which it cuts at the tabs; there must be five. */
static void cut(char *line, char *columns[5])
{
    for (int i = 0; i < 5; i++) {
        cr_assert_not_null(line, "column %d is missing", i + 1);
        columns[i] = line;
        line = strchr(line, '\t');
        if (line) *line++ = '\0';
    }
    cr_assert_null(line);
}

Test(log_probs, add_up_to_the_loss)
{
    enter(tiny_run("sums", 60));
    cJSON *scores = json_parsed(run_ok("qkv evaluate run dev.tsv --json --log-probs p.tsv"));
    double loss = json_number(scores, "loss"), tokens = json_number(scores, "tokens"), total = 0, count = 0;
    char *expected = run_ok("cut -f2 dev.tsv | qkv tokenize run - --side trg");
    char *table = read_file("p.tsv", NULL), *columns[5];
    char *line = table, *next = strchr(line, '\n');
    *next++ = '\0';
    cr_expect_str_eq(line, "line\ttoken_count\tlog_prob\ttokens\tlog_probs");
    for (int number_of_line = 1; *next; number_of_line++) {
        line = next;
        next = strchr(line, '\n');
        *next++ = '\0';
        cut(line, columns);
        cr_expect_eq(atoi(columns[0]), number_of_line);
        char *end = strchr(expected, '\n');
        *end = '\0';
        cr_expect_str_eq(columns[3], format("%s </s>", expected));
        expected = end + 1;
        double sum = 0, in_sentence = 0;
        for (char *at = columns[4]; *at; in_sentence++) {
            double log_prob = strtod(at, &at);
            cr_expect(log_prob < 0 && log_prob > -50);
            sum += log_prob;
        }
        cr_expect_eq(in_sentence, atof(columns[1]));
        cr_expect_float_eq(sum, atof(columns[2]), 1e-12);
        total += atof(columns[2]);
        count += in_sentence;
    }
    cr_expect_str_empty(expected, "every sentence has a row");
    cr_expect_eq(count, tokens);
    cr_expect_float_eq(-total / count, loss, 1e-6);
    cJSON_Delete(scores);
}

Test(log_probs, are_the_same_as_json_and_for_any_number_of_threads)
{
    enter(tiny_run("threads", 20));
    run_ok("for j in 1 2 5; do qkv evaluate run dev.tsv -j $j --no-translation --log-probs $j.tsv >$j.txt && "
           "qkv evaluate run dev.tsv -j $j --no-translation --log-probs $j.json >$j.txt || exit; done && cmp "
           "1.tsv 2.tsv && cmp 1.tsv 5.tsv && cmp 1.json 2.json && cmp 1.json 5.json");
    cJSON *object = json_parsed(read_file("1.json", NULL));
    cr_expect_str_eq(cJSON_GetObjectItem(object, "test")->valuestring, "dev.tsv");
    const cJSON *list = cJSON_GetObjectItem(object, "sentences"), *sentence;
    char *table = read_file("1.tsv", NULL), *line = strtok(table, "\n"), *columns[5];
    double total = 0, count = 0;
    cJSON_ArrayForEach(sentence, list)
    {
        char *rest = strchr(line, '\0') + 1, *end = strchr(rest, '\n');
        *end = '\0';
        cut(line = rest, columns);
        line = end;
        cr_expect_eq(json_number(sentence, "line"), atof(columns[0]));
        cr_expect_eq(json_number(sentence, "log_prob"), atof(columns[2]));
        const cJSON *tokens = cJSON_GetObjectItem(sentence, "tokens"),
                    *log_probs = cJSON_GetObjectItem(sentence, "log_probs");
        cr_assert_eq(cJSON_GetArraySize(tokens), atoi(columns[1]));
        cr_assert_eq(cJSON_GetArraySize(log_probs), atoi(columns[1]));
        char *at = columns[4];
        for (int t = 0; t < atoi(columns[1]); t++)
            cr_expect_eq(cJSON_GetArrayItem(log_probs, t)->valuedouble, strtod(at, &at));
        total += json_number(sentence, "log_prob");
        count += cJSON_GetArraySize(tokens);
    }
    cr_expect_float_eq(json_number(object, "log_prob"), total, 1e-9);
    cr_expect_eq(json_number(object, "tokens"), count);
    cJSON_Delete(object);
}

Test(log_probs, name_unknown_words_and_the_lines_of_the_text)
{
    enter(tiny_run("unknown", 2));
    run_ok("(cut -f1 dev.tsv | head -n 1 | tr '\\n' '\\t'; echo 'zebra \"quoted\" =1') >pairs.tsv && qkv "
           "evaluate run pairs.tsv --log-probs p.tsv >out.txt");
    char *row = strchr(read_file("p.tsv", NULL), '\n') + 1, *columns[5];
    cut(row, columns);
    cr_expect_str_eq(columns[0], "1");
    cr_expect_eq(strncmp(columns[3], "<unk> ", 6), 0, "%s", columns[3]);
}

Test(log_probs, need_no_translations)
{
    enter(tiny_run("references", 20));
    char *text = run_ok("qkv evaluate run dev.tsv --no-translation");
    char *complete = run_ok("qkv evaluate run dev.tsv");
    cr_expect(shows(text, "token accuracy"));
    cr_expect(lacks(text, "sequence accuracy"));
    cr_expect(lacks(text, "BLEU"));
    cr_expect_eq(strncmp(text, complete, strlen(text)), 0, "%s", text);
    cJSON *object = json_parsed(run_ok("qkv evaluate run dev.tsv --no-translation --json"));
    cr_expect_not_null(cJSON_GetObjectItem(object, "loss"));
    cr_expect_null(cJSON_GetObjectItem(object, "sequence_accuracy"));
    cr_expect_null(cJSON_GetObjectItem(object, "bleu"));
    cJSON_Delete(object);
}

Test(log_probs, leave_no_partial_file)
{
    enter(tiny_run("refused", 2));
    static const char *const cases[][2] = {
        {"--log-probs p.csv", "qkv: --log-probs p.csv: must be a file whose name ends in .tsv or .json"},
        {"--no-translation --log-probs ./dev.tsv", "qkv: ./dev.tsv: is an input, too: write to another file"},
        {"--log-probs p", "qkv: --log-probs p: must be a file whose name ends in .tsv or .json"},
        {"--no-translation --by-length 3",
         "qkv: --by-length needs translations: give it without --no-translation"},
        {"--no-translation --beam 3", "qkv: --beam needs translations: give it without --no-translation"},
        {"--no-translation -m ter", "qkv: --metrics needs translations: give it without --no-translation"},
        {"--no-translation --max-length 9",
         "qkv: --max-length needs translations: give it without --no-translation"},
        {"--no-translation --min-length 0",
         "qkv: --min-length needs translations: give it without --no-translation"},
        {"--no-translation --repetition-penalty 1",
         "qkv: --repetition-penalty needs translations: give it without --no-translation"},
        {"--no-translation --length-penalty none",
         "qkv: --length-penalty needs translations: give it without --no-translation"},
        {"--no-translation --tokenize 13a",
         "qkv: --tokenize needs translations: give it without --no-translation"},
        {"--no-translation --lowercase",
         "qkv: --lowercase needs translations: give it without --no-translation"},
        {"--no-translation --ter-no-punct",
         "qkv: --ter-no-punct needs translations: give it without --no-translation"},
    };
    EXPECT_REFUSALS("qkv evaluate run dev.tsv ", cases);
    cr_expect(fails(run("qkv evaluate run dev.tsv --log-probs none/p.tsv"), 2,
                    "qkv: none/p.tsv: cannot be written"));
    run_ok("echo old >p.tsv && printf 'a\\tb\\n\\n' >bad.tsv");
    cr_expect_eq(run("qkv evaluate run bad.tsv --log-probs p.tsv").exit_code, 2);
    cr_expect_str_eq(read_file("p.tsv", NULL), "old\n");
    cr_expect_str_eq(run_ok("ls | grep -c tmp || true"), "0\n");
}
