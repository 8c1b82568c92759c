/* qkv-bench: the form of its output, and its counts. Times are read but not judged. */

#include "json.h"

#define BENCH "'" QKV_BENCH "' "

static const cJSON *bench(const char *arguments)
{
    struct outcome outcome = run(BENCH "%s --json", arguments);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_empty(outcome.error);
    return remember(json_parsed(outcome.output));
}

/* Returns the result of the measurement `what`. */
static const cJSON *result_of(const cJSON *json, const char *what)
{
    const cJSON *result;
    cJSON_ArrayForEach(result,
                       json_at(json, "results")) if (!strcmp(json_text(result, "what"), what)) return result;
    cr_assert_fail("no result '%s'", what);
    return NULL;
}

static void expect_no_malloc(const cJSON *training)
{
    const cJSON *mallocs = json_at(training, "mallocs_per_step");
    cr_expect(cJSON_IsNull(mallocs) || mallocs->valuedouble == 0.0, "training calls malloc");
}

/* Operations in the matrix products of a toy step, computed by hand: d 64, 4 heads, inner 256, 2 +
 * 2 layers, 200 words, 320 rows on each side. A dense layer has 3 products of 2 rows inputs
 * outputs, attention 6 of 2 B T T d. */
static double toy_operations(void)
{
    double rows = 320, d = 64, inner = 256, words = 200, layers = 2;
    double square = rows * d * d, attention = 32 * 10 * 10 * d;
    double encoder = 4 * square + 2 * rows * d * inner, decoder = 8 * square + 2 * rows * d * inner;
    double dense = layers * (encoder + decoder) + rows * d * words;
    return 2 * (3 * dense + 3 * layers * 3 * 2 * attention);
}

Test(bench, training)
{
    const cJSON *json = bench("toy -m train -t 2 --steps 3");
    cr_expect_eq(json_size(json, "results"), 1);
    const cJSON *result = result_of(json, "train");
    cr_expect_str_eq(json_text(result, "workload"), "toy");
    cr_expect_eq(json_number(result, "threads"), 2);
    cr_expect_eq(json_number(result, "steps"), 3);
    double ms = json_number(result, "ms"), operations = json_number(result, "gflops") * ms * 1e6;
    cr_expect(ms > 0 && json_number(result, "ms_p10") <= ms && ms <= json_number(result, "ms_p90"));
    cr_expect(json_number(result, "cpu_ms") > 0);
    cr_expect_float_eq(json_number(result, "tokens_per_second") * ms, 640e3, 1e-6);
    cr_expect_float_eq(operations / toy_operations(), 1, 1e-12, "%.17g of %.17g", operations,
                       toy_operations());
    cr_expect(json_number(result, "peak_mb") > 1);
    expect_no_malloc(result);
}

Test(bench, decoding)
{
    const cJSON *json = bench("toy -m decode -t 2 --steps 1");
    static const struct {
        const char *what;
        double threads, tokens;
    } expected[] = {{"greedy 1", 2, 10}, {"greedy 64", 2, 640}, {"beam 1", 2, 10}, {"beam 64", 2, 640}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const cJSON *result = result_of(json, expected[i].what);
        cr_expect_eq(json_number(result, "threads"), expected[i].threads);
        cr_expect_float_eq(json_number(result, "tokens_per_second") * json_number(result, "ms") / 1e3,
                           expected[i].tokens, 1e-9);
        cr_expect(cJSON_IsNull(json_at(result, "gflops")));
    }
}

/* Fails unless the shares of a profile add up to 1; returns its ops. */
static const cJSON *check_shares(const cJSON *json, const char *workload)
{
    const cJSON *profile = json_at(json, "profiles.0"), *ops = json_at(profile, "ops"), *row;
    cr_expect_str_eq(json_text(profile, "workload"), workload);
    double share = 0, ms = 0, last = INFINITY;
    cJSON_ArrayForEach(row, ops)
    {
        double op_ms = 0;
        for (int pass = 0; pass < 2; pass++) {
            const cJSON *half = json_at(row, pass ? "backward" : "forward");
            share += json_number(half, "share");
            op_ms += json_number(half, "ms");
        }
        cr_expect(op_ms <= last, "%s is not in order", json_text(row, "op"));
        last = op_ms;
        ms += op_ms;
    }
    cr_expect_float_eq(share, 1, 1e-9);
    cr_expect_float_eq(ms / json_number(profile, "ms"), 1, 1e-9);
    return ops;
}

static const cJSON *op_of(const cJSON *ops, const char *name)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, ops) if (!strcmp(json_text(row, "op"), name)) return row;
    return NULL;
}

Test(bench, profile)
{
    const cJSON *json = bench("toy -m profile --shards 2 --steps 2 --seconds 0");
    const cJSON *ops = check_shares(json, "toy");
    const cJSON *attention = op_of(ops, "attention");
    cr_assert_not_null(attention);
    cr_expect_eq(json_number(attention, "calls"), 12, "6 layers of attention in 2 shards");
    cr_expect_not_null(op_of(ops, "linear"));
    cr_expect_not_null(op_of(ops, "(optimizer)"));
    cr_expect_null(op_of(ops, "matmul"), "this model has no matmul");
    const cJSON *forward = json_at(attention, "forward");
    cr_expect_float_eq(json_number(forward, "gflops") * json_number(forward, "ms") * 1e6,
                       6 * 2 * 2 * 32 * 10 * 10 * 64, 1e-3);
}

Test(bench, tables)
{
    const char *output = run_ok(BENCH "toy -m train -m profile -t 1 --steps 1");
    static const char head[] =
        "workload             what       threads  steps        ms      10 %      90 %    cpu ms"
        "  tokens/s  GFLOP/s  peak MB  mallocs\ntoy                  train            1      1 ";
    cr_expect(begins(output, head));
    cr_expect(shows(output, "\ntoy: ") && shows(output, " ms of processor time on one thread\n\nop "));
    cr_expect(shows(output, "\nlinear_cross_entropy "));
}

/* Counts the tokens on one side of a batch. Fails unless each sentence ends with </s> and each id
 * is in the vocabulary of toy. */
static double tokens_of(const cJSON *batch, const char *side)
{
    const cJSON *sentence, *id;
    double tokens = 0;
    cJSON_ArrayForEach(sentence, json_at(batch, side))
    {
        int last = -1;
        cJSON_ArrayForEach(id, sentence)
        {
            last = id->valueint;
            cr_expect(last >= 0 && last < 200, "%d", last);
            tokens++;
        }
        cr_expect_eq(last, 2, "</s>");
    }
    return tokens;
}

/* The file of batches has the tokens that were trained on: the same in each run, and another batch
 * in each step. */
Test(bench, a_text_and_its_batches)
{
#define BATCHES "toy --text '" QKV_SOURCE_DIR "/datasets/en_es/dev.tsv' -m train -t 2 --steps 4 --batches "
    enter(scratch("tools_bench_text"));
    const cJSON *train = result_of(bench(BATCHES "a.jsonl"), "train");
    const char *text = read_file("a.jsonl", NULL), *before = NULL;
    double tokens = 0;
    int lines = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1, lines++) {
        cJSON *batch RELEASED(free_json) = json_parsed(line);
        cr_expect(json_size(batch, "source") == 32 && json_size(batch, "target") == 32);
        tokens += tokens_of(batch, "source") + tokens_of(batch, "target");
        cr_expect(!before || strncmp(before, line, 100) != 0, "two steps have the same batch");
        before = line;
    }
    cr_expect_eq(lines, 7, "three steps to warm up, and four");
    cr_expect_float_eq(json_number(train, "tokens_per_step") * 7, tokens, 1e-6);
    cr_expect_lt(json_number(train, "tokens_per_step"), 640, "random batches of toy have 640");
    expect_no_malloc(train);
    bench(BATCHES "b.jsonl");
    cr_expect_str_eq(read_file("b.jsonl", NULL), text);
}

/* A config is measured on its training text. */
Test(bench, a_config)
{
    enter(tiny_task("tools_bench_config"));
    const cJSON *train = result_of(bench("c.yaml -m train -t 1 --steps 2"), "train");
    cr_expect_str_eq(json_text(train, "workload"), "c.yaml");
    cr_expect_eq(json_number(train, "steps"), 2);
    cr_expect_gt(json_number(train, "tokens_per_step"), 0);
}

Test(bench, refusals)
{
#define ONE "qkv: --batches writes the batches of one training: name one workload, and add -m train"
    static const char *const cases[][2] = {
        {"toy -m speed", "qkv: --measure is 'speed', but must be one of train, decode, profile"},
        {"toy --fast", "qkv: unknown option '--fast' (see `qkv-bench --help`)"},
        {"/nowhere.yaml -m train --json", "qkv: /nowhere.yaml: cannot be read: No such file or directory"},
        {"toy small --batches b.jsonl", ONE},
        {"toy -m decode --batches b.jsonl", ONE},
    };
    EXPECT_REFUSALS(BENCH, cases);
    cr_expect(begins(run_ok(BENCH "--help"), "Usage: qkv-bench [WORKLOAD...] [options]\n"));
}
