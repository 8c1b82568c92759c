/* qkv inspect, through the command line, on a tiny run. */
#include "tiny_run.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

static struct outcome inspect(const char *arguments)
{
    return run("cd '%s' && qkv inspect run %s", tiny_folder("inspect"), arguments);
}

static cJSON *object_of(const char *arguments)
{
    struct outcome outcome = inspect(arguments);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cJSON *object = cJSON_Parse(outcome.output);
    cr_assert_not_null(object, "%s", outcome.output);
    return object;
}

/* A number at a path "a.b.c" of an object. */
static double number(const cJSON *object, const char *path)
{
    for (char *key = strtok(format("%s", path), "."); key; key = strtok(NULL, ".")) {
        object = cJSON_GetObjectItem(object, key);
        cr_assert_not_null(object, "%s: no %s", path, key);
    }
    return object->valuedouble;
}

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

Test(inspect, counts_every_parameter)
{
    cJSON *object = object_of("--json");
    cr_expect_eq(number(object, "total"), ENCODER + DECODER + OUTPUT);
    cr_expect_eq(number(object, "parts.encoder"), ENCODER);
    cr_expect_eq(number(object, "parts.decoder"), DECODER);
    cr_expect_eq(number(object, "parts.output"), OUTPUT);
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(object, "parts")), 3, "each part once");
    cr_expect_eq(number(object, "vocabulary.source"), TYPES);
    double sum = 0;
    const cJSON *parameter;
    cJSON_ArrayForEach(parameter, cJSON_GetObjectItem(object, "parameters"))
    {
        double product = 1;
        const cJSON *size;
        cJSON_ArrayForEach(size, cJSON_GetObjectItem(parameter, "shape")) product *= size->valuedouble;
        cr_expect_eq(product, number(parameter, "count"));
        cr_expect(isfinite(number(parameter, "rms")) && number(parameter, "rms") > 0);
        sum += product;
    }
    cr_expect_eq(sum, number(object, "total"));
    cJSON_Delete(object);
}

Test(inspect, prints_configuration_and_progress)
{
    cJSON *object = object_of("--json");
    cr_expect_eq(number(object, "training.update"), 60);
    cr_expect_eq(number(object, "training.epoch"), 60, "a batch an epoch");
    cr_expect_eq(number(object, "training.best.update"), 60);
    cr_expect_str_eq(cJSON_GetObjectItem(object, "name")->valuestring, "tiny");
    cr_expect_eq(number(object, "model.encoder.num_layers"), 2);
    cr_expect_eq(number(object, "model.decoder.num_layers"), 1);
    cr_expect_eq(number(object, "model.decoder.attention.key_value_heads"), 2);
    const cJSON *encoder = cJSON_GetObjectItem(cJSON_GetObjectItem(object, "model"), "encoder");
    cr_expect_str_eq(cJSON_GetObjectItem(encoder, "type")->valuestring, "transformer");
    cr_expect_null(cJSON_GetObjectItem(encoder, "rnn_type"), "a transformer has no cells");
    cJSON_Delete(object);
}

Test(inspect, lists_the_checkpoint_files)
{
    cJSON *object = object_of("--json --checkpoint last.safetensors"),
          *files = cJSON_GetObjectItem(object, "checkpoints");
    static const char *const NAMES[] = {"best.safetensors", "last.safetensors", "update-60.safetensors"};
    cr_assert_geq(cJSON_GetArraySize(files), 3);
    for (int i = 0, found = 0; i < cJSON_GetArraySize(files); i++) {
        const cJSON *file = cJSON_GetArrayItem(files, i);
        size_t size = 0;
        const char *name = cJSON_GetObjectItem(file, "name")->valuestring;
        read_file(format("%s/run/%s", tiny_folder("inspect"), name), &size);
        cr_expect_eq(number(file, "bytes"), (double)size);
        if (found < 3 && !strcmp(name, NAMES[found])) found++;
        if (i + 1 == cJSON_GetArraySize(files)) cr_expect_eq(found, 3);
    }
    cr_expect(shows(cJSON_GetObjectItem(object, "checkpoint")->valuestring, "last.safetensors"));
    cJSON_Delete(object);
}

Test(inspect, prints_text)
{
    struct outcome outcome = inspect("");
    cr_assert_eq(outcome.exit_code, 0);
    cr_expect_str_empty(outcome.error);
    static const char *const PARTS[] = {"tiny (run, loaded from run/best.safetensors)",
                                        "num_layers                 2            1\n",
                                        "hidden_size                16           16\n",
                                        "attention.window           unlimited    unlimited\n",
                                        "update 60",
                                        "encoder.2.self.query.weight",
                                        "decoder.1.cross.output.bias",
                                        "[16, 16]",
                                        "last.safetensors"};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        cr_expect(shows(outcome.output, PARTS[i]), "no %s in\n%s", PARTS[i], outcome.output);
    cr_expect(shows(outcome.output, format("%d\n", ENCODER + DECODER + OUTPUT)));
}

Test(inspect, refuses_a_folder_that_is_not_a_run)
{
    struct outcome outcome = run("qkv inspect no/such/run");
    cr_expect(refused(outcome, "qkv: no/such/run: there is no such run"));
    const char *folder = scratch("empty");
    outcome = run("qkv inspect '%s'", folder);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(outcome.error,
                     format("qkv: %s: not a run: it holds no config.yaml; `qkv train` makes runs\n", folder));
    cr_expect(fails(inspect("--checkpoint none.safetensors"), 2, "there is no checkpoint none.safetensors"));
    cr_expect(
        refused(inspect("--json >/dev/full"), "qkv: <stdout>: cannot be written: No space left on device"));
    outcome = run("qkv inspect");
    cr_expect_eq(outcome.exit_code, 2);
}
