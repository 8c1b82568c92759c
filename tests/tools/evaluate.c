/* qkv evaluate and qkv score: what they print, and what they refuse. */
#include "json.h"
#include "qkv/run.h"
#include "support.h"

#include "qkv/metrics.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

Test(evaluate, scores_a_learned_run_as_text_and_as_json)
{
    enter(learned_run("learned"));
    struct outcome text = run("qkv evaluate run train.tsv -j 1");
    cr_assert_eq(text.exit_code, 0, "%s", text.error);
    cr_expect_str_empty(text.error);
    static const char BEGIN[] = "checkpoint         run/best.safetensors\n"
                                "test               train.tsv\n"
                                "sentences          80\n";
    cr_expect_eq(strncmp(text.output, BEGIN, strlen(BEGIN)), 0, "%s", text.output);
    cr_expect(shows(text.output, " nats per token\n"));
    struct outcome json = run("qkv evaluate --json run train.tsv -j 2");
    cJSON *object = cJSON_Parse(json.output);
    cr_assert_not_null(object, "%s", json.output);
    cr_expect_eq(json_number(object, "sentences"), 80);
    cr_expect_gt(json_number(object, "token_accuracy"), 0.9);
    cr_expect_gt(json_number(object, "sequence_accuracy"), 0.8);
    cr_expect_lt(json_number(object, "loss"), 0.4);
    cr_expect_gt(json_number(object, "chrf"), 80);
    cr_expect(shows(text.output, format("loss               %.4f nats", json_number(object, "loss"))));
    cr_expect(shows(text.output, format("chrF               %.2f  (", json_number(object, "chrf"))));
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        if (info->on_request) continue;
        cr_expect(isfinite(json_number(object, info->key)), "%s", info->key);
        cr_expect(shows(text.output, format("\n%s  ", info->title)), "%s", info->title);
    }
    cJSON_Delete(object);
    /* The numbers do not depend on where the text comes from, or on the number of threads. */
    cr_expect_str_eq(without_paths(run("qkv evaluate run - -j 3 <train.tsv").output),
                     without_paths(text.output));
    run("gzip -k train.tsv && cut -f1 train.tsv >both.a && cut -f2 train.tsv >both.b");
    cr_expect_str_eq(without_paths(run("qkv evaluate run train.tsv.gz").output), without_paths(text.output));
    cr_expect_str_eq(without_paths(run("qkv evaluate run both").output), without_paths(text.output));
}

/* The path is relative to the run, as those of all texts in its config are. */
Test(evaluate, scores_data_test_of_the_run_where_no_text_is_named)
{
    enter(tiny_task("data_test"));
    run_ok("qkv train c.yaml -q -s training.updates=2 -s data.test=train.tsv");
    cr_expect_str_eq(without_paths(run_ok("qkv evaluate run")),
                     without_paths(run_ok("qkv evaluate run train.tsv")));
    cr_expect_str_eq(without_paths(run_ok("cd run && qkv evaluate . --beam 2")),
                     without_paths(run_ok("qkv evaluate run train.tsv --beam 2")));
    cr_expect(shows(run_ok("qkv evaluate run dev.tsv"), "sentences          8\n"));
    cr_expect(refused(run("mv train.tsv gone.tsv && qkv evaluate run"),
                      "qkv: train.tsv: there is no such text: set data.test to its path"));
}

/* The tensors of a checkpoint say how many numbers the model has learned. */
Test(evaluate, counts_the_parameters_without_the_gaps_between_them)
{
    enter(tiny_run("count", 2));
    struct qkv_run trained;
    cr_assert_eq(qkv_run_open(&trained, "run", NULL, QKV_FLOAT32, NULL), QKV_OK);
    double learned = 0;
    for (int64_t p = 0; p < trained.model->parameters.count; p++)
        learned += (double)trained.model->parameters.list[p]->count;
    cr_expect_lt(learned, (double)trained.model->parameters.elements, "some tensors end in a gap");
    cJSON *object = cJSON_Parse(run_ok("qkv evaluate run train.tsv --json"));
    cJSON *inspected = cJSON_Parse(run_ok("qkv inspect run --json"));
    cr_expect_eq(json_number(object, "parameters"), learned);
    cr_expect_eq(json_number(inspected, "total"), learned);
    cJSON_Delete(object);
    cJSON_Delete(inspected);
    qkv_run_release(&trained);
}

/* Every command that reads a run says so, and fails as a check does. */
Test(run, is_refused_when_a_parameter_is_not_finite)
{
    static const char *const commands[] = {
        "translate run dev.tsv",
        "evaluate run dev.tsv",
        "attention run 'a b' -o map.json",
        "explain run 'a b'",
        "inspect run",
        "gradcheck run",
        "translate run --beam 3",
        "explain scene.yaml",
        "align run dev.tsv",
        "align whole dev.tsv --reverse run",
        "translate whole dev.tsv --with run",
        "tokenize run dev.tsv",
        "heads run dev.tsv -o heads.json",
        "film run 'a b' -o film.png",
        "quantize run -o int8",
        "compare run",
        "prepare c.yaml --from run -o new.prepared",
        "train c.yaml --from run -s training.model_dir=new",
    };
    static const double values[] = {(double)NAN, (double)INFINITY};
    const char *folder = enter(tiny_run("not_finite", 2));
    run_ok("cp -r run whole");
    write_text(folder, "scene.yaml",
               "name: learned\ntokens: a b\nrun: {path: run}\nembeddings: {from: learned}\n"
               "weights: {from: learned}\n");
    for (int i = 0; i < 2; i++) {
        struct qkv_run trained;
        struct qkv_error error = {""};
        cr_assert_eq(qkv_run_open(&trained, "run", "last.safetensors", QKV_FLOAT32, &error), QKV_OK, "%s",
                     error.message);
        struct qkv_parameters *parameters = &trained.model->parameters;
        const struct qkv_parameter *last = parameters->list[parameters->count - 1];
        qkv_parameter_set(parameters, last, last->count - 1, values[i]);
        cr_assert_eq(qkv_checkpoint_save("run/best.safetensors", parameters, NULL, &trained.state, &error),
                     QKV_OK, "%s", error.message);
        for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
            struct outcome outcome = run("qkv %s", commands[c]);
            cr_expect_eq(outcome.exit_code, 1, "%s: %s", commands[c], outcome.error);
            cr_expect_str_empty(outcome.output);
            cr_expect(strstr(outcome.error, format("run/best.safetensors: %s holds infinity or NaN, so the "
                                                   "model computes nothing: choose another checkpoint",
                                                   last->name)) &&
                          strchr(outcome.error, '\n')[1] == '\0',
                      "%s: %s", commands[c], outcome.error);
        }
        qkv_run_release(&trained);
    }
    run_ok("qkv translate run --checkpoint last.safetensors dev.tsv -q");
}

/* Finite weights whose products are not: nothing may look like an answer. */
Test(run, whose_attention_is_not_finite_is_refused)
{
    static const char *const commands[] = {
        "align run dev.tsv",
        "align run dev.tsv --head best -o out.links",
        "attention run 'a b' -t 'A B'",
        "attention run 'a b' -q -t 'A B' -f csv",
        "attention run 'a b' -t 'A B' -o map.svg",
        "film run 'a b' -t 'A B' -o film.png",
        "heads run dev.tsv --no-translation -o heads.json",
        "evaluate run dev.tsv --links dev.links",
    };
    const char *folder = enter(tiny_task("overflowing"));
    run_ok("sed 's/.*/0-0/' dev.tsv >dev.links && qkv train c.yaml -q -s training.updates=2 -s "
           "training.validation_freq=2 -s training.snapshots=2");
    struct qkv_run trained;
    struct qkv_error error = {""};
    cr_assert_eq(qkv_run_open(&trained, "run", NULL, QKV_FLOAT32, &error), QKV_OK, "%s", error.message);
    struct qkv_parameters *parameters = &trained.model->parameters;
    const struct qkv_parameter *key = qkv_parameters_find(parameters, "encoder.1.self.key.weight");
    for (int64_t i = 0; i < key->count; i++) qkv_parameter_set(parameters, key, i, 3e38);
    cr_assert_eq(qkv_checkpoint_save("run/best.safetensors", parameters, NULL, &trained.state, &error),
                 QKV_OK, "%s", error.message);
    qkv_run_release(&trained);
    char *before = fingerprint(folder);
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        struct outcome outcome = run("qkv %s", commands[c]);
        cr_expect_eq(outcome.exit_code, 1, "%s: %s", commands[c], outcome.error);
        cr_expect_str_empty(outcome.output);
        cr_expect(strstr(outcome.error, " not finite: ") &&
                      strstr(outcome.error, "the model's weights are too large, or infinity or NaN\n"),
                  "%s: %s", commands[c], outcome.error);
    }
    cr_expect_str_eq(fingerprint(folder), before);
}

/* A run that has learned half: the classes add up to the whole. */
Test(evaluate, scores_by_length)
{
    enter(tiny_run("by_length", 60));
    struct outcome outcome = run("qkv evaluate run train.tsv --by-length 2 --json");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cJSON *object = cJSON_Parse(outcome.output);
    const cJSON *classes = cJSON_GetObjectItemCaseSensitive(object, "by_length"), *class;
    int count = 0;
    double sentences = 0, tokens = 0, correct = 0, right = 0;
    cJSON_ArrayForEach(class, classes)
    {
        cr_expect_eq(json_number(class, "from"), 2 * count + 1);
        cr_expect_eq(json_number(class, "to"), 2 * ++count);
        struct outcome those = run(
            "awk -F'\t' '{n = split($1, w, \" \")} n > %d && n <= %d' train.tsv | qkv evaluate run - --json",
            2 * count - 2, 2 * count);
        cJSON *alone = cJSON_Parse(those.output);
        cr_assert_not_null(alone, "%s", those.error);
        cr_expect_eq(json_number(class, "sentences"), json_number(alone, "sentences"));
        cr_expect_eq(json_number(class, "tokens"), json_number(alone, "tokens"));
        for (int m = 0; m < QKV_METRIC_COUNT; m++) {
            const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
            if (!(info->columns & QKV_COLUMN_BY_LENGTH)) continue;
            /* Metrics of the loss are sums in float32, whose rounding depends on the sentences of a batch. */
            double rounding = info->percent || info->of_texts ? 1e-12 : 1e-5;
            cr_expect_float_eq(json_number(class, info->key), json_number(alone, info->key), rounding, "%s",
                               info->key);
        }
        cJSON_Delete(alone);
        sentences += json_number(class, "sentences");
        tokens += json_number(class, "tokens");
        correct += json_number(class, "tokens") * json_number(class, "token_accuracy");
        right += json_number(class, "sentences") * json_number(class, "sequence_accuracy");
    }
    cr_expect_eq(count, 3);
    cr_expect_eq(sentences, json_number(object, "sentences"));
    cr_expect_eq(tokens, json_number(object, "tokens"));
    cr_expect_float_eq(correct / tokens, json_number(object, "token_accuracy"), 1e-12);
    cr_expect_float_eq(right / sentences, json_number(object, "sequence_accuracy"), 1e-12);
    cr_expect(right > 0 && right < sentences, "%g of %g", right, sentences);
    cr_expect_gt(json_number(object, "training_tokens_per_second"), 0);
    cr_expect_eq(json_number(object, "parameters"), 6171);
    cJSON_Delete(object);

    struct outcome text = run("qkv evaluate run train.tsv --by-length 1");
    cr_expect(shows(text.output, "\n\nsource tokens      sentences  "));
    cr_expect(shows(text.output, "  tokens, %  "));
    cr_expect(refused(run("qkv evaluate run dev.tsv --by-length 0"),
                      "qkv: --by-length is 0, but must lie between 1 and 1000000"));
}

Test(evaluate, refuses_unreadable_runs_and_files)
{
    enter(tiny_run("unreadable", 1));
    run("mkdir folder.tsv && : >empty.tsv && cut -f1 dev.tsv >one.a && printf '0-0\\n' >short.align && yes "
        "0-0 | head -7 >long.align && { yes 0-0 | head -7; echo 0-77; } >bad.align");
#define PREFIX " (a data path is x.tsv, x.tsv.gz, or the common prefix of two files)"
    static const char *const cases[][2] = {
        {"none dev.tsv", "qkv: none: there is no such run"},
        {"run none.tsv", "qkv: none.tsv: cannot be read: No such file or directory"},
        {"run none", "qkv: none: there is no such file, and no none.a or none.a.gz" PREFIX},
        {"run one", "qkv: one: there is no such file, and no one.b or one.b.gz" PREFIX},
        {"run folder.tsv", "qkv: folder.tsv: cannot be read: it is a folder"},
        {"run empty.tsv", "qkv: empty.tsv: the file is empty"},
        {"run - </dev/null", "qkv: <stdin>: the file is empty"},
        {"run dev.tsv --links-from 0", "qkv: --links-from needs --links"},
        {"run - --links -", "qkv: standard input can hold the pairs or the links, not both"},
        {"run dev.tsv --links none.align", "qkv: none.align: cannot be read: No such file or directory"},
        {"run dev.tsv --links short.align", "qkv: short.align: has 1 line, but the corpus has 8 pairs"},
        {"run dev.tsv --links long.align", "qkv: long.align: has 7 lines, but the corpus has 8 pairs"},
        {"run dev.tsv --links bad.align",
         "qkv: bad.align:8:1: link 0-77 has no target word 77: the sentence has 4, from 0"},
        {"run dev.tsv --links empty.tsv", "qkv: empty.tsv: has 0 lines, but the corpus has 8 pairs"},
        {"run", "qkv: run/config.yaml: data.test is empty: set it, or name a text after run"},
        {"", "qkv: RUN is missing (usage: qkv evaluate RUN [TSV] [options])"},
        {"run dev.tsv x", "qkv: unexpected operand 'x' (usage: qkv evaluate RUN [TSV] [options])"},
        {"run dev.tsv --tokenize zh", "qkv: --tokenize is 'zh', but must be one of 13a, intl, none, char"},
        {"run dev.tsv --l x", "qkv: unknown option '--l'; did you mean --length-penalty, --lowercase, "
                              "--links, --links-from, --log-probs (see `qkv evaluate --help`)"},
    };
    EXPECT_REFUSALS("qkv evaluate ", cases);
}

Test(evaluate, refuses_a_sentence_with_more_tokens_than_positions)
{
    enter(tiny_run("long", 1));
    run("{ printf 'a\\tA\\n'; yes a | head -100000 | tr '\\n' ' '; printf '\\tA\\n'; } >source.tsv; { printf "
        "'a\\tA\\na\\t'; yes A | head -512 | tr '\\n' ' '; echo; } >target.tsv");
    cr_expect(refused(run("qkv evaluate run source.tsv"),
                      "qkv: source.tsv:2: the source has 100001 tokens with "
                      "</s>, but model.encoder.positions.max_length is 512"));
    cr_expect(refused(run("qkv evaluate run target.tsv"),
                      "qkv: target.tsv:2: the target has 513 tokens with </s>, "
                      "but model.decoder.positions.max_length is 512"));
}

Test(score, gives_the_same_scores_as_evaluate)
{
    enter(tiny_run("score", 100));
    struct outcome outcome = run(
        "cut -f1 dev.tsv | qkv translate run >out.txt && cut -f2 dev.tsv >reference.txt && qkv score out.txt "
        "reference.txt && qkv score - reference.txt <out.txt && qkv score out.txt - <reference.txt");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    const char *evaluated = run("qkv evaluate run dev.tsv").output;
    int lines = 0;
    for (const char *line = strtok(outcome.output, "\n"); line; line = strtok(NULL, "\n"), lines++)
        cr_expect(shows(evaluated, format("\n%s\n", line)), "%s", line);
    int text_metrics = 0;
    for (int m = 0; m < QKV_METRIC_COUNT; m++)
        text_metrics +=
            qkv_metric_info((enum qkv_metric)m)->of_texts && !qkv_metric_info((enum qkv_metric)m)->on_request;
    cr_expect_eq(lines, 3 * text_metrics);
}

Test(score, refuses_unreadable_runs_and_files)
{
    enter(scratch("score_unreadable"));
    run(": >empty && echo a >one && printf 'a\\nb\\n' >two && printf 'a\\n\\000\\n' >nul");
    static const char *const cases[][2] = {
        {"", "qkv: TRANSLATIONS is missing (usage: qkv score TRANSLATIONS REFERENCES [options])"},
        {"none one", "qkv: none: cannot be read: No such file or directory"},
        {"one none", "qkv: none: cannot be read: No such file or directory"},
        {". one", "qkv: .: cannot be read: it is a folder"},
        {"empty empty", "qkv: empty: the file is empty"},
        {"one two", "qkv: two: has more lines than one, which ends after line 1"},
        {"two - <one", "qkv: two: has more lines than <stdin>, which ends after line 1"},
        {"nul two", "qkv: nul:2:1: a NUL byte is not allowed in text"},
        {"- -", "qkv: standard input can hold the translations or the references, not both"},
        {"one one --tokenize x", "qkv: --tokenize is 'x', but must be one of 13a, intl, none, char"},
    };
    EXPECT_REFUSALS("qkv score ", cases);
}
