/* Checkpoints that others made, or that someone spoiled on purpose. */
#include "framework/engine/checkpoint/safetensors.h"

#include "crafted.h"

/* A model of one parameter, a [2, 3]. */
static struct qkv_parameters small_model(void)
{
    struct qkv_parameters parameters = {0};
    last_parameter(&parameters, QKV_FLOAT32, QKV_SHAPE(2, 3), NORMAL, "a");
    return parameters;
}

#define META  "'__metadata__':{'qkv.crc32':'00000000','qkv.format':'1'}"
#define A(at) "'a':{'dtype':'F32','shape':[2,3],'data_offsets':" at "}"

static const struct {
    const char *header;
    size_t data;
    const char *sentence;
} REFUSED[] = {
    {"", 0, "byte 8: the header is not a JSON object: the file is damaged, or is not a safetensors file"},
    {"[1, 2]", 0, NULL},
    {"{'a':", 0,
     "byte 13: the header is not a JSON object: the file is damaged, or is not a safetensors file"},
    {"{}", 0, "is not a checkpoint of qkv: its header has no qkv.crc32"},
    {"{" A("[0,24]") "}", 24, "is not a checkpoint of qkv: its header has no qkv.crc32"},
    {"{'__metadata__':{'qkv.crc32':'", 0, NULL},
    {"{'__metadata__':{'qkv.crc32':'00000000'}}", 0,
     "is not a checkpoint of qkv: its metadata has no qkv.format"},
    {"{'__metadata__':{'qkv.crc32':'00000000','qkv.format':'2'}}", 0,
     "has format 2, but this qkv reads formats up to 1: use a newer qkv"},
    {"{'__metadata__':{'qkv.crc32':'00000000','x':1}}", 0, "__metadata__ holds x, which is not a text"},
    {"{'__metadata__':[{'qkv.crc32':'00000000'}]}", 0, "__metadata__ must be an object of texts"},
    {"{'__metadata__':['a'],'qkv.crc32':'00000000'}", 0, "__metadata__ must be an object of texts"},
    {"{'__metadata__':'qkv','qkv.crc32':'00000000'}", 0, "__metadata__ must be an object of texts"},
    {"{'__metadata__':{'qkv.crc32':'00000000','x':'1','x':'2'}}", 0, "holds the metadata key x twice"},
    {"{" META "," META "}", 0, "holds the tensor __metadata__ twice"},
    {"\uFEFF{" META "," A("[0,24]") "}", 24,
     "byte 8: the header is not a JSON object: the file is damaged, or is not a safetensors file"},
    {"{" META "," A("[0,24]") "} {}", 24,
     "byte 123: the header goes on after its JSON, where only spaces may follow"},
    {"{" META "," A("[0,24]") ",'b\xFF':1}", 24, "byte 124: the header is not valid UTF-8 there"},
    {"{'__metadata__':{'qkv.crc32':'00000000','x\\u0000y':'1'}}", 0,
     "byte 50: a text of the header holds a NUL character"},
    {"{" META "}", 0, "has no a, which the model needs"},
    {"{" META "," A("[0,24]") ",'b':{'dtype':'F32','shape':[1],'data_offsets':[24,28]}}", 28,
     "holds b, which the model does not have"},
    {"{" META "," A("[0,24]") ",'b':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}", 24,
     "byte 175: two tensors share the data of b"},
    {"{" META "," A("[0,24]") ",'b':{'dtype':'F32','shape':[1],'data_offsets':[20,24]}}", 24,
     "byte 197: two tensors share the data of b"},
    {"{" META "," A("[0,24]") ",'b':{'dtype':'F32','shape':[1],'data_offsets':[28,32]}}", 32,
     "byte 205: no tensor has the bytes before b"},
    {"{" META "," A("[4,28]") "}", 28, "byte 126: no tensor has the bytes before a"},
    {"{" META "," A("[0,24]") "," A("[24,48]") "}", 48, "holds the tensor a twice"},
    {"{" META ",'a':['F32']}", 0, "a is of type none, but must be F32, F64, F16, BF16 or I8"},
    {"{" META ",'a':{'dtype':'F32','dtype':'F64','shape':[2,3],'data_offsets':[0,24]}}", 24,
     "holds the field dtype of a twice"},
    {"{" META ",'a':{'dtype':'F32','shape':[3,2],'data_offsets':[0,24]}}", 24,
     "a is [3, 2], but the model has [2, 3]"},
    {"{" META ",'a':{'dtype':'F32','shape':[6],'data_offsets':[0,24]}}", 24,
     "a is [6], but the model has [2, 3]"},
    {"{" META ",'a':{'dtype':'I16','shape':[2,3],'data_offsets':[0,12]}}", 12,
     "a is of type I16, but must be F32, F64, F16, BF16 or I8"},
    {"{" META ",'a':{'dtype':'F16','shape':[2,3],'data_offsets':[0,24]}}", 24, NULL},
    {"{" META ",'a':{'dtype':7,'shape':[2,3],'data_offsets':[0,24]}}", 24,
     "a is of type none, but must be F32, F64, F16, BF16 or I8"},
    {"{" META "," A("[0]") "}", 0, "the data_offsets of a do not lie in the data"},
    {"{" META "," A("[24,0]") ",'b':{'data_offsets':[0,24]}}", 24,
     "the data_offsets of a do not lie in the data"},
    {"{" META "," A("[-24,0]") "}", 0, "the data_offsets of a do not lie in the data"},
    {"{" META "," A("[0.5,24.5]") "}", 0, "the data_offsets of a do not lie in the data"},
    {"{" META "," A("[1e300,1e301]") "}", 0, "the data_offsets of a do not lie in the data"},
    {"{" META "," A("['0','24']") "}", 0, "the data_offsets of a do not lie in the data"},
    {"{" META "," A("[0,23]") "}", 23, NULL},
    {"{" META "," A("[0,28]") "}", 28, NULL},
    {"{" META ",'a':{'dtype':'F32','shape':[],'data_offsets':[0,4]}}", 4, NULL},
    {"{" META ",'a':{'dtype':'F32','shape':[1,1,1,2,3],'data_offsets':[0,24]}}", 24, NULL},
    {"{" META ",'a':{'dtype':'F32','shape':[0,3],'data_offsets':[0,0]}}", 0, NULL},
    {"{" META ",'a':{'dtype':'F32','shape':[4294967296,4294967296],'data_offsets':[0,0]}}", 0, NULL},
    {"{" META ",'a':{'dtype':'F32','shape':[-2,-3],'data_offsets':[0,24]}}", 24, NULL},
    {"{" META ",'a':[]}", 0, "a is of type none, but must be F32, F64, F16, BF16 or I8"},
    {"{" META ",'a':{'dtype':'I8','shape':[2,3],'data_offsets':[0,6]}}", 6,
     "a is of type I8, but there is no a.scale"},
    {"{" META "," A("[0,24]") ",'a.scale':{'dtype':'F32','shape':[3],'data_offsets':[24,36]}}", 36,
     "a is of type F32, but there is a.scale"},
    {"{" META ",'a':{'dtype':'I8','shape':[2,3],'data_offsets':[0,6]},'a.scale':{'dtype':'F32','shape':[2],"
     "'data_offsets':[6,14]}}",
     14, "a.scale is [2] of type F32, but must be [3] of type F32"},
    {"{" META ",'a':{'dtype':'I8','shape':[2,3],'data_offsets':[0,6]},'a.scale':{'dtype':'F16','shape':[3],"
     "'data_offsets':[6,12]}}",
     12, "a.scale is [3] of type F16, but must be [3] of type F32"},
    {"{" META ",'a.scale':{'dtype':'F32','shape':[3],'data_offsets':[0,12]}}", 12,
     "has no a, which the model needs"},
    {"{" META ",'a':null}", 0, "a is of type none, but must be F32, F64, F16, BF16 or I8"},
};

Test(crafted, is_refused_with_a_sentence)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = small_model();
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++)
        expect_not_loaded(crafted(REFUSED[i].header, REFUSED[i].data, NULL), &parameters, NULL,
                          REFUSED[i].sentence);
}

Test(crafted, is_read_when_it_is_right)
{
    static const struct {
        const char *header;
        size_t data;
    } cases[] = {
        /* Data that is aligned to nothing is read all the same. */
        {"{" META "," A("[0,24]") "}", 24},
        {"{" META "," A("[0,24]") "} ", 24},
        {"{" META ",'a':{'dtype':'F64','shape':[2,3],'data_offsets':[0,48]}}", 48},
        {"{" META "," A("[4,28]") ",'optimizer.first.a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]}}",
         28},
    };
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = small_model();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qkv_parameters_initialize(&parameters, 1);
        const char *path = crafted(cases[i].header, cases[i].data, NULL);
        expect_done(qkv_checkpoint_load(path, &parameters, NULL, NULL, &error));
        cr_expect_eq(qkv_parameter_get(&parameters, parameters.list[0], 3), 0);
    }
}

Test(crafted, refuses_counts_with_which_training_cannot_go_on)
{
    static const char *const texts[] = {"-1", "1000000000000001", "9223372036854775807",
                                        "9223372036854775808"};
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    int64_t count = 7;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        qkv_state_set(&state, "train.epoch", texts[i]);
        expect_refusal_with(qkv_state_get_count(&state, "train.epoch", &count, &error), texts[i]);
        cr_expect_eq(count, 7);
    }
    qkv_state_set(&state, "train.epoch", "1000000000000000");
    cr_expect_eq(qkv_state_get_count(&state, "train.epoch", &count, &error), QKV_OK);
    cr_expect_eq(count, QKV_COUNT_MAX);
}

/* Saves the last checkpoint of the run again with another value of a counter; `key` NULL: the updates of the optimizer. */
static void set_counter(const char *folder, const char *key, const char *value)
{
    struct qkv_run trained RELEASED(qkv_run_release);
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = {0};
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    const char *path = format("%s/run/last.safetensors", folder);
    expect_done(qkv_run_open(&trained, format("%s/run", folder), "last", QKV_FLOAT32, &error));
    struct qkv_parameters *parameters = &trained.model->parameters;
    const struct qkv_optimizer_options options = qkv_optimizer_options_from_config(&trained.config.training);
    cr_assert_eq(qkv_optimizer_init(&optimizer, &options, parameters, &error), QKV_OK);
    cr_assert_eq(qkv_checkpoint_load(path, parameters, &optimizer.state, &state, &error), QKV_OK);
    if (key)
        qkv_state_set(&state, key, value);
    else
        optimizer.state.updates = strtoll(value, NULL, 10);
    cr_assert_eq(qkv_checkpoint_save(path, parameters, &optimizer.state, &state, &error), QKV_OK);
}

Test(crafted, counters_of_a_run_are_checked_when_it_is_resumed)
{
#define GREATEST "9223372036854775807"
#define BEYOND   " is " GREATEST ", but must be from 0 to 1000000000000000"
    static const char *const cases[][3] = {
        {NULL, GREATEST, "qkv.optimizer.updates must be a whole number from 0 to 1000000000000000"},
        {"train.update", GREATEST, "train.update" BEYOND},
        {"train.epoch", GREATEST, "train.epoch" BEYOND},
        {"train.epoch", "4294967295", "train.epoch is 4294967295, but must be below 2^32 - 1"},
        {"train.tokens", GREATEST, "train.tokens" BEYOND},
    };
    const char *folder = tiny_run("counters", 2);
    run_ok("cd '%s/run' && cp last.safetensors kept", folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_counter(folder, cases[i][0], cases[i][1]);
        cr_expect(refused(run("cd '%s' && qkv train c.yaml --resume -q -s training.updates=3", folder),
                          format("qkv: run/last.safetensors: %s", cases[i][2])));
        cr_expect_eq(run("cd '%s' && qkv inspect run --checkpoint last", folder).exit_code, 0);
        run_ok("cd '%s/run' && cp kept last.safetensors", folder);
    }
    run_ok("cd '%s' && qkv train c.yaml --resume -q -s training.updates=3", folder);
}

/* Each key is found without looking at all others. The limit only ends a program that does look at all others: that takes
 * minutes, and the right one a second. */
Test(crafted, holds_many_keys, .timeout = 30)
{
    enum { COUNT = 200000 };
    const char *path = format("%s/a", scratch("keys"));
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = small_model();
    struct qkv_state out RELEASED(qkv_state_release) = {0}, in RELEASED(qkv_state_release) = {0};
    char key[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(key, sizeof key, "key.%d", i);
        qkv_state_set_integer(&out, key, i);
    }
    cr_assert_eq(qkv_checkpoint_save(path, &parameters, NULL, &out, NULL), QKV_OK);
    cr_assert_eq(qkv_checkpoint_load(path, &parameters, NULL, &in, NULL), QKV_OK);
    cr_assert_eq(in.count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        int64_t value;
        snprintf(key, sizeof key, "key.%d", i);
        cr_assert_eq(qkv_state_get_count(&in, key, &value, NULL), QKV_OK);
        cr_assert_eq(value, i);
    }
}

Test(crafted, is_not_what_was_saved_of_odd_texts)
{
    const char *path = format("%s/a", scratch("texts"));
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = small_model(), none = {0};
    struct qkv_state out RELEASED(qkv_state_release) = {0}, in RELEASED(qkv_state_release) = {0};
    qkv_state_set(&out, "file",
                  "a\xFF"
                  "b\xE2\x82");
    qkv_state_set(&out, "quotes", "\"qkv.crc32\":\"00000000\" \x01\n");
    cr_expect_eq(qkv_checkpoint_save(path, &none, NULL, &out, &error), QKV_INVALID);
    cr_expect_eq(qkv_checkpoint_save(path, &parameters, NULL, &out, &error), QKV_OK);
    cr_expect_eq(qkv_checkpoint_load(path, &none, NULL, NULL, &error), QKV_INVALID);
    expect_done(qkv_checkpoint_load(path, &parameters, NULL, &in, &error));
    cr_expect_str_eq(qkv_state_get(&in, "file"), "a?b??");
    cr_expect_str_eq(qkv_state_get(&in, "quotes"), "\"qkv.crc32\":\"00000000\" \x01\n");
}
