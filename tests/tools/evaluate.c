/* qkv evaluate: what it prints, also of single sentences, and what it refuses. */
#include "json.h"

Test(evaluate, scores_a_learned_run_as_text_and_as_json)
{
    enter(learned_run("learned"));
    const char *text = run_ok("qkv evaluate run train.tsv -j 1 2>&1");
    const cJSON *object = json_by("qkv evaluate --json run train.tsv -j 2");
    const char *begin = "checkpoint         run/best.safetensors\n"
                        "test               train.tsv\n"
                        "sentences          80\n";
    cr_expect(begins(text, begin));
    cr_expect_eq(json_number(object, "sentences"), 80);
    cr_expect_gt(json_number(object, "token_accuracy"), 0.9);
    cr_expect_gt(json_number(object, "sequence_accuracy"), 0.8);
    cr_expect_lt(json_number(object, "loss"), 0.4);
    cr_expect_gt(json_number(object, "chrf"), 80);
    cr_expect(shows(text, format("loss               %.4f nats per token\n", json_number(object, "loss"))));
    cr_expect(shows(text, format("chrF               %.2f  (", json_number(object, "chrf"))));
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        if (info->on_request) continue;
        cr_expect(isfinite(json_number(object, info->key)), "%s", info->key);
        cr_expect(shows(text, format("\n%s  ", info->title)));
    }
    /* The numbers do not depend on where the text comes from, or on the number of threads. */
    static const char *const same[] = {"- -j 3 <train.tsv", "train.tsv.gz", "both"};
    run_ok("gzip -k train.tsv && cut -f1 train.tsv >both.a && cut -f2 train.tsv >both.b");
    for (int i = 0; i < 3; i++)
        cr_expect_str_eq(without_paths(run_ok("qkv evaluate run %s", same[i])), without_paths(text), "%s",
                         same[i]);
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
    struct qkv_run trained RELEASED(qkv_run_release);
    cr_assert_eq(qkv_run_open(&trained, "run", NULL, QKV_FLOAT32, NULL), QKV_OK);
    double learned = 0;
    for (int64_t p = 0; p < trained.model->parameters.count; p++)
        learned += (double)trained.model->parameters.list[p]->count;
    cr_expect_lt(learned, (double)trained.model->parameters.elements, "some tensors end in a gap");
    cr_expect_eq(json_number(json_by("qkv evaluate run train.tsv --json"), "parameters"), learned);
    cr_expect_eq(json_number(json_by("qkv inspect run --json"), "total"), learned);
}

/* A run that has learned half: the classes add up to the whole. */
Test(evaluate, scores_by_length)
{
    enter(tiny_run("by_length", 60));
    const cJSON *object = json_by("qkv evaluate run train.tsv --by-length 2 --json"), *class;
    int count = 0;
    double sentences = 0, tokens = 0, correct = 0, right = 0;
    cJSON_ArrayForEach(class, json_at(object, "by_length"))
    {
        cr_expect_eq(json_number(class, "from"), 2 * count + 1);
        cr_expect_eq(json_number(class, "to"), 2 * ++count);
        const cJSON *alone = json_by(
            "awk -F'\t' '{n = split($1, w, \" \")} n > %d && n <= %d' train.tsv | qkv evaluate run - --json",
            2 * count - 2, 2 * count);
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
    const char *text = run_ok("qkv evaluate run train.tsv --by-length 1");
    cr_expect(shows(text, "\n\nsource tokens      sentences  ") && shows(text, "  tokens, %  "));
}

/* ---- the log-probabilities of single sentences ---- */

/* The columns of line `number`, from 0, of a table; there must be five. */
static void cut(const char *table, int number, char *columns[5])
{
    for (; number; number--) table = strchr(table, '\n') + 1;
    char *line = format("%.*s", (int)strcspn(table, "\n"), table);
    for (int i = 0; i < 5; i++) {
        cr_assert_not_null(line, "column %d is missing", i + 1);
        columns[i] = line;
        line = strchr(line, '\t');
        if (line) *line++ = '\0';
    }
    cr_assert_null(line);
}

Test(evaluate, log_probabilities_add_up_to_the_loss)
{
    enter(tiny_run("sums", 60));
    const cJSON *scores = json_by("qkv evaluate run dev.tsv --json --log-probs p.tsv"), *sentences, *sentence;
    run_ok("for j in 1 2 5; do qkv evaluate run dev.tsv -j $j --no-translation --log-probs $j.tsv >text && "
           "qkv evaluate run dev.tsv -j $j --no-translation --log-probs $j.json >text || exit; done && "
           "cmp 1.tsv p.tsv && cmp 2.tsv p.tsv && cmp 5.tsv p.tsv && cmp 1.json 2.json && cmp 1.json 5.json");
    const char *tokens = run_ok("cut -f2 dev.tsv | qkv tokenize run - --side trg | sed 's,$, </s>,'"),
               *table = read_file("p.tsv", NULL);
    const cJSON *object = json_by("cat 1.json");
    double total = 0, count = 0;
    char *columns[5], *all = format("%s", "");
    cut(table, 0, columns);
    cr_expect(begins(table, "line\ttoken_count\tlog_prob\ttokens\tlog_probs\n"));
    cr_expect_str_eq(json_text(object, "test"), "dev.tsv");
    sentences = json_at(object, "sentences");
    cr_assert_eq(cJSON_GetArraySize(sentences), 8);
    cJSON_ArrayForEach(sentence, sentences)
    {
        int line = (int)json_number(sentence, "line"), length = json_size(sentence, "tokens");
        cut(table, line, columns);
        double sum = 0;
        char *at = columns[4];
        all = format("%s%s\n", all, columns[3]);
        cr_expect_eq(atoi(columns[0]), line);
        cr_expect_eq(atoi(columns[1]), length);
        cr_assert_eq(json_size(sentence, "log_probs"), length);
        for (int t = 0; t < length; t++) {
            double log_prob = strtod(at, &at);
            cr_expect(log_prob < 0 && log_prob > -50);
            cr_expect_eq(json_number(sentence, format("log_probs.%d", t)), log_prob);
            sum += log_prob;
        }
        cr_expect_str_empty(at);
        cr_expect_float_eq(sum, atof(columns[2]), 1e-12);
        cr_expect_eq(json_number(sentence, "log_prob"), atof(columns[2]));
        total += sum;
        count += length;
    }
    cr_expect_str_eq(all, tokens, "every sentence has a row");
    cr_expect_eq(count, json_number(scores, "tokens"));
    cr_expect_eq(count, json_number(object, "tokens"));
    cr_expect_float_eq(-total / count, json_number(scores, "loss"), 1e-6);
    cr_expect_float_eq(json_number(object, "log_prob"), total, 1e-9);
    /* Words that the model does not know are <unk>. */
    run_ok("(cut -f1 dev.tsv | head -n 1 | tr '\\n' '\\t'; echo 'zebra \"quoted\" =1') >pairs.tsv && qkv "
           "evaluate run pairs.tsv --log-probs p.tsv >text");
    cut(read_file("p.tsv", NULL), 1, columns);
    cr_expect(begins(columns[3], "<unk> "));
}

Test(evaluate, needs_no_translations)
{
    enter(tiny_run("references", 20));
    const char *text = run_ok("qkv evaluate run dev.tsv --no-translation"),
               *complete = run_ok("qkv evaluate run dev.tsv");
    cr_expect(shows(text, "token accuracy") && lacks(text, "sequence accuracy") && lacks(text, "BLEU"));
    cr_expect_eq(strncmp(text, complete, strlen(text)), 0, "%s", text);
    const cJSON *object = json_by("qkv evaluate run dev.tsv --no-translation --json");
    cr_expect(json_at(object, "loss") && !json_at(object, "sequence_accuracy") && !json_at(object, "bleu"));
}

/* ---- what it refuses ---- */

#define NEEDS(option) "qkv: " option " needs translations: give it without --no-translation"

Test(evaluate, refuses_and_leaves_no_partial_file)
{
    static const char *const cases[][2] = {
        {"none dev.tsv", "qkv: none: there is no such run"},
        {"run one", "qkv: one: there is no such file, and no one.b or one.b.gz (a data path is x.tsv, "
                    "x.tsv.gz, or the common prefix of two files)"},
        {"run", "qkv: run/config.yaml: data.test is empty: set it, or name a text after run"},
        {"run source.tsv", "qkv: source.tsv:2: the source has 100001 tokens with </s>, but "
                           "model.encoder.positions.max_length is 512"},
        {"run target.tsv", "qkv: target.tsv:2: the target has 513 tokens with </s>, but "
                           "model.decoder.positions.max_length is 512"},
        {"run dev.tsv --links-from 0", "qkv: --links-from needs --links"},
        {"run - --links -", "qkv: standard input can hold the pairs or the links, not both"},
        {"run dev.tsv --links short.align", "qkv: short.align: has 1 line, but the corpus has 8 pairs"},
        {"run dev.tsv --links bad.align",
         "qkv: bad.align:8:1: link 0-77 has no target word 77: the sentence has 4, from 0"},
        {"run dev.tsv --log-probs p.csv",
         "qkv: --log-probs p.csv: must be a file whose name ends in .tsv or .json"},
        {"run dev.tsv --log-probs p", "qkv: --log-probs p: must be a file whose name ends in .tsv or .json"},
        {"run dev.tsv --log-probs no/p.tsv", "qkv: no/p.tsv: cannot be written: there is no folder no"},
        {"run dev.tsv --no-translation --log-probs ./dev.tsv",
         "qkv: ./dev.tsv: is an input, too: write to another file"},
        {"run bad.tsv --log-probs p.tsv",
         "qkv: bad.tsv:2:1: the line has no tab; a line is source<TAB>target"},
        {"run dev.tsv --min-length 5 --max-length 4",
         "qkv: the shortest translation is 5 tokens, but the longest is 4: "
         "change --min-length or --max-length"},
        {"run dev.tsv --no-translation --by-length 3", NEEDS("--by-length")},
        {"run dev.tsv --no-translation --beam 3", NEEDS("--beam")},
        {"run dev.tsv --no-translation -m ter", NEEDS("--metrics")},
        {"run dev.tsv --no-translation --max-length 9", NEEDS("--max-length")},
        {"run dev.tsv --no-translation --min-length 0", NEEDS("--min-length")},
        {"run dev.tsv --no-translation --repetition-penalty 1", NEEDS("--repetition-penalty")},
        {"run dev.tsv --no-translation --length-penalty none", NEEDS("--length-penalty")},
        {"run dev.tsv --no-translation --tokenize 13a", NEEDS("--tokenize")},
        {"run dev.tsv --no-translation --lowercase", NEEDS("--lowercase")},
        {"run dev.tsv --no-translation --ter-no-punct", NEEDS("--ter-no-punct")},
    };
    enter(tiny_run("refused", 2));
    run_ok("cut -f1 dev.tsv >one.a && echo 0-0 >short.align && { yes 0-0 | head -7; echo 0-77; } >bad.align "
           "&& { printf 'a\\tA\\n'; yes a | head -100000 | tr '\\n' ' '; printf '\\tA\\n'; } >source.tsv && "
           "{ printf 'a\\tA\\na\\t'; yes A | head -512 | tr '\\n' ' '; echo; } >target.tsv && echo old "
           ">p.tsv && printf 'a\\tb\\n\\n' >bad.tsv");
    EXPECT_REFUSALS("qkv evaluate", cases);
}
