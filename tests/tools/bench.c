/* qkv-bench: the form of its output, and its counts. Times are read but not judged. */

#include "json.h"

#define BENCH "'" QKV_BENCH "' "

static cJSON *json_of(struct outcome outcome)
{
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_empty(outcome.error);
    return json_parsed(outcome.output);
}

static const char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    cr_assert(cJSON_IsString(item), "%s is no text", name);
    return item->valuestring;
}

/* Returns the result of the measurement `what`. */
static const cJSON *result_of(const cJSON *json, const char *what)
{
    const cJSON *result;
    cJSON_ArrayForEach(result, cJSON_GetObjectItemCaseSensitive(json, "results"))
    {
        if (!strcmp(text_of(result, "what"), what)) return result;
    }
    cr_assert_fail("no result '%s'", what);
    return NULL;
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
    cJSON *json RELEASED(free_json) = json_of(run(BENCH "toy -m train -t 2 --steps 3 --json"));
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "results")), 1);
    const cJSON *result = result_of(json, "train");
    cr_expect_str_eq(text_of(result, "workload"), "toy");
    cr_expect_eq(json_number(result, "threads"), 2);
    cr_expect_eq(json_number(result, "steps"), 3);
    double ms = json_number(result, "ms"), operations = json_number(result, "gflops") * ms * 1e6;
    cr_expect(ms > 0 && json_number(result, "ms_p10") <= ms && ms <= json_number(result, "ms_p90"));
    cr_expect(json_number(result, "cpu_ms") > 0);
    cr_expect_float_eq(json_number(result, "tokens_per_second") * ms, 640e3, 1e-6);
    cr_expect_float_eq(operations / toy_operations(), 1, 1e-12, "%.17g of %.17g", operations,
                       toy_operations());
    cr_expect(json_number(result, "peak_mb") > 1);
    const cJSON *mallocs = cJSON_GetObjectItem(result, "mallocs_per_step");
    cr_expect(cJSON_IsNull(mallocs) || mallocs->valuedouble == 0.0, "training calls malloc");
}

Test(bench, decoding)
{
    cJSON *json RELEASED(free_json) = json_of(run(BENCH "toy -m decode -t 2 --steps 1 --json"));
    static const struct {
        const char *what;
        double threads, tokens;
    } expected[] = {{"greedy 1", 2, 10}, {"greedy 64", 2, 640}, {"beam 1", 2, 10}, {"beam 64", 2, 640}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const cJSON *result = result_of(json, expected[i].what);
        cr_expect_eq(json_number(result, "threads"), expected[i].threads);
        cr_expect_float_eq(json_number(result, "tokens_per_second") * json_number(result, "ms") / 1e3,
                           expected[i].tokens, 1e-9);
        cr_expect(cJSON_IsNull(cJSON_GetObjectItem(result, "gflops")));
    }
}

/* Fails unless the shares of a profile add up to 1; returns its ops. */
static const cJSON *check_shares(const cJSON *json, const char *workload)
{
    const cJSON *profile = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "profiles"), 0), *row;
    cr_assert_not_null(profile);
    cr_expect_str_eq(text_of(profile, "workload"), workload);
    const cJSON *ops = cJSON_GetObjectItem(profile, "ops");
    double share = 0, ms = 0, last = INFINITY;
    cJSON_ArrayForEach(row, ops)
    {
        double op_ms = 0;
        for (int pass = 0; pass < 2; pass++) {
            const cJSON *half = cJSON_GetObjectItem(row, pass ? "backward" : "forward");
            share += json_number(half, "share");
            op_ms += json_number(half, "ms");
        }
        cr_expect(op_ms <= last, "%s is not in order", text_of(row, "op"));
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
    cJSON_ArrayForEach(row, ops)
    {
        if (!strcmp(text_of(row, "op"), name)) return row;
    }
    return NULL;
}

Test(bench, profile)
{
    cJSON *json RELEASED(free_json) =
        json_of(run(BENCH "toy -m profile --shards 2 --steps 2 --seconds 0 --json"));
    const cJSON *ops = check_shares(json, "toy");
    const cJSON *attention = op_of(ops, "attention");
    cr_assert_not_null(attention);
    cr_expect_eq(json_number(attention, "calls"), 12, "6 layers of attention in 2 shards");
    cr_expect_not_null(op_of(ops, "linear"));
    cr_expect_not_null(op_of(ops, "(optimizer)"));
    cr_expect_null(op_of(ops, "matmul"), "this model has no matmul");
    const cJSON *forward = cJSON_GetObjectItem(attention, "forward");
    cr_expect_float_eq(json_number(forward, "gflops") * json_number(forward, "ms") * 1e6,
                       6 * 2 * 2 * 32 * 10 * 10 * 64, 1e-3);
}

Test(bench, tables)
{
    struct outcome outcome = run(BENCH "toy -m train -m profile -t 1 --steps 1");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    static const char head[] =
        "workload             what       threads  steps        ms      10 %      90 %    cpu ms"
        "  tokens/s  GFLOP/s  peak MB  mallocs\ntoy                  train            1      1 ";
    cr_expect_eq(strncmp(outcome.output, head, sizeof head - 1), 0, "%s", outcome.output);
    cr_expect(shows(outcome.output, "\ntoy: "));
    cr_expect(shows(outcome.output, " ms of processor time on one thread\n\nop "));
    cr_expect(shows(outcome.output, "\nlinear_cross_entropy "));
}

/* Counts the tokens on one side of a batch. Fails unless each sentence ends with </s> and each id
 * is in the vocabulary of toy. */
static double tokens_of(const cJSON *batch, const char *side)
{
    const cJSON *sentence, *id;
    double tokens = 0;
    cJSON_ArrayForEach(sentence, cJSON_GetObjectItem(batch, side))
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
    const char *folder = scratch("tools_bench_text");
    const char *command =
        format(BENCH "toy --text '%s/datasets/en_es/dev.tsv' -m train -t 2 --steps 4 --json --batches",
               QKV_SOURCE_DIR);
    cJSON *json = json_of(run("%s '%s/a.jsonl'", command, folder));
    const cJSON *train = result_of(json, "train");
    const char *text = read_file(format("%s/a.jsonl", folder), NULL), *before = NULL;
    double tokens = 0;
    int lines = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1, lines++) {
        cJSON *batch = cJSON_Parse(line);
        cr_assert_not_null(batch);
        cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(batch, "source")), 32);
        cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(batch, "target")), 32);
        tokens += tokens_of(batch, "source") + tokens_of(batch, "target");
        cJSON_Delete(batch);
        cr_expect(!before || strncmp(before, line, 100) != 0, "two steps have the same batch");
        before = line;
    }
    cr_expect_eq(lines, 7, "three steps to warm up, and four");
    cr_expect_float_eq(json_number(train, "tokens_per_step") * 7, tokens, 1e-6);
    cr_expect_lt(json_number(train, "tokens_per_step"), 640, "random batches of toy have 640");
    const cJSON *mallocs = cJSON_GetObjectItem(train, "mallocs_per_step");
    cr_expect(cJSON_IsNull(mallocs) || mallocs->valuedouble == 0.0, "training calls malloc");
    cJSON_Delete(json);
    cJSON_Delete(json_of(run("%s '%s/b.jsonl'", command, folder)));
    cr_expect_str_eq(read_file(format("%s/b.jsonl", folder), NULL), text);
}

/* A config is measured on its training text. */
Test(bench, a_config)
{
    const char *folder = tiny_task("tools_bench_config");
    cJSON *json RELEASED(free_json) =
        json_of(run("cd '%s' && " BENCH "c.yaml -m train -t 1 --steps 2 --json", folder));
    const cJSON *train = result_of(json, "train");
    cr_expect_str_eq(text_of(train, "workload"), "c.yaml");
    cr_expect_eq(json_number(train, "steps"), 2);
    cr_expect_gt(json_number(train, "tokens_per_step"), 0);
}

Test(bench, refusals)
{
    cr_expect(refused(run(BENCH "toy -m speed"),
                      "qkv: --measure is 'speed', but must be one of train, decode, profile"));
    cr_expect(refused(run(BENCH "toy --fast"), "qkv: unknown option '--fast' (see `qkv-bench --help`)"));
    cr_expect(refused(run(BENCH "/nowhere.yaml -m train --json"),
                      "qkv: /nowhere.yaml: cannot be read: No such file or directory"));
    cr_expect(
        refused(run(BENCH "toy small --batches b.jsonl"),
                "qkv: --batches writes the batches of one training: name one workload, and add -m train"));
    cr_expect(
        refused(run(BENCH "toy -m decode --batches b.jsonl"),
                "qkv: --batches writes the batches of one training: name one workload, and add -m train"));
    struct outcome help = run(BENCH "--help");
    cr_expect_eq(help.exit_code, 0);
    cr_expect_eq(strncmp(help.output, "Usage: qkv-bench [WORKLOAD...] [options]\n", 40), 0, "%s",
                 help.output);
}
