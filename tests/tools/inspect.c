/* qkv inspect, through the command line, on a tiny run. */
#include "json.h"
#include "tiny_run.h"

/* Parameters of a layer of width 16: 4 projections, norm, and feed-forward of width 32 with its norm. */
enum {
    ATTENTION = 4 * (16 * 16 + 16) + 2 * 16,
    FEED_FORWARD = 16 * 32 + 32 + 32 * 16 + 16 + 2 * 16,
    TYPES = 3 + 5,
    EMBEDDING = TYPES * 16,
    FINAL_NORM = 2 * 16,
    ENCODER = EMBEDDING + 2 * (ATTENTION + FEED_FORWARD) + FINAL_NORM,
    DECODER = EMBEDDING + 2 * ATTENTION + FEED_FORWARD + FINAL_NORM,
    OUTPUT = 16 * TYPES + TYPES,
};

TestSuite(inspect, .init = enter_tiny);

Test(inspect, counts_every_parameter)
{
    static const struct {
        const char *path;
        double number;
    } numbers[] = {{"total", ENCODER + DECODER + OUTPUT},
                   {"parts.encoder", ENCODER},
                   {"parts.decoder", DECODER},
                   {"parts.output", OUTPUT},
                   {"vocabulary.source", TYPES},
                   {"training.update", 60},
                   {"training.epoch", 60}, /* a batch an epoch */
                   {"training.best.update", 60},
                   {"model.encoder.num_layers", 2},
                   {"model.decoder.num_layers", 1},
                   {"model.decoder.attention.key_value_heads", 2}};
    const cJSON *object = json_by("qkv inspect run --json"), *parameter, *size;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        cr_expect_eq(json_number(object, numbers[i].path), numbers[i].number, "%s", numbers[i].path);
    cr_expect_eq(json_size(object, "parts"), 3, "each part once");
    cr_expect_str_eq(json_text(object, "name"), "tiny");
    cr_expect_str_eq(json_text(object, "model.encoder.type"), "transformer");
    cr_expect_null(json_at(object, "model.encoder.rnn_type"), "a transformer has no cells");
    double sum = 0;
    cJSON_ArrayForEach(parameter, json_at(object, "parameters"))
    {
        double product = 1, rms = json_number(parameter, "rms");
        cJSON_ArrayForEach(size, json_at(parameter, "shape")) product *= size->valuedouble;
        cr_expect_eq(product, json_number(parameter, "count"));
        cr_expect(isfinite(rms) && rms > 0);
        sum += product;
    }
    cr_expect_eq(sum, json_number(object, "total"));
}

Test(inspect, lists_the_checkpoint_files)
{
    const cJSON *object = json_by("qkv inspect run --json --checkpoint last.safetensors"), *file;
    const char *listed = "";
    cJSON_ArrayForEach(file, json_at(object, "checkpoints")) listed =
        format("%s%.0f run/%s\n", listed, json_number(file, "bytes"), json_text(file, "name"));
    cr_expect_str_eq(listed, run_ok("wc -c run/?*safetensors | sed '$d; s/^ *//'"));
    cr_expect(shows(json_text(object, "checkpoint"), "last.safetensors"));
}

Test(inspect, prints_text)
{
    static const char *const parts[] = {"tiny (run, loaded from run/best.safetensors)",
                                        "num_layers                 2            1\n",
                                        "hidden_size                16           16\n",
                                        "attention.window           unlimited    unlimited\n",
                                        "update 60",
                                        "encoder.2.self.query.weight",
                                        "decoder.1.cross.output.bias",
                                        "[16, 16]",
                                        "last.safetensors"};
    const char *text = run_ok("qkv inspect run 2>&1");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) cr_expect(shows(text, parts[i]));
    cr_expect(shows(text, format("%d\n", ENCODER + DECODER + OUTPUT)));
    cr_expect(refused(run("qkv inspect no/such/run"), "qkv: no/such/run: there is no such run"));
    cr_expect(fails(run("qkv inspect run --checkpoint none.safetensors"), 2,
                    "there is no checkpoint none.safetensors"));
    const char *folder = enter(scratch("empty"));
    cr_expect(refused(run("qkv inspect '%s'", folder),
                      format("qkv: %s: not a run: it holds no config.yaml; `qkv train` makes runs", folder)));
}
