#include "crafted.h"

#include <float.h>
#include <sys/stat.h>

/* ---- a small model and its optimizer ---- */

struct model {
    struct qkv_parameters parameters;
    struct qkv_optimizer optimizer;
};

static struct model finish(struct qkv_parameters parameters, enum qkv_dtype dtype,
                           enum qkv_optimizer_kind kind, uint64_t seed)
{
    struct model model = {.parameters = parameters};
    struct qkv_optimizer_options config = {.optimizer = kind, .adam_epsilon = 1e-8};
    make_parameters(&model.parameters, dtype, seed);
    cr_assert_eq(qkv_optimizer_init(&model.optimizer, &config, &model.parameters, NULL), QKV_OK);
    return model;
}

/* Sizes such that tensors of float64 would not lie aligned behind one another's gaps. */
static struct qkv_parameters declared(void)
{
    struct qkv_parameters parameters = {0};
    qkv_parameters_add(&parameters, QKV_SHAPE(3, 5), NORMAL, "query.weight");
    qkv_parameters_add(&parameters, QKV_SHAPE(7), NORMAL, "query.bias");
    qkv_parameters_add(&parameters, QKV_SHAPE(2, 1, 3, 2), NORMAL, "four.axes");
    return parameters;
}

static struct model model_of(enum qkv_dtype dtype, enum qkv_optimizer_kind kind, uint64_t seed)
{
    return finish(declared(), dtype, kind, seed);
}

static size_t size_of(const struct model *model)
{
    return (size_t)model->parameters.elements * qkv_dtype_size(model->parameters.dtype);
}

/* Gives the moments of each parameter numbers that nothing else has. */
static void fill_moments(struct model *model)
{
    struct qkv_optimizer_state *state = &model->optimizer.state;
    for (int64_t p = 0; p < model->parameters.count; p++) {
        const struct qkv_parameter *parameter = model->parameters.list[p];
        for (int64_t i = parameter->offset; i < parameter->offset + parameter->count; i++)
            for (int k = 0; k < 2 && state->moments[k]; k++)
                qkv_dtype_set(state->dtype, state->moments[k], i, (double)i / (k ? 11 : 7));
    }
    state->updates = 123456789012;
}

static void release_model(struct model *model)
{
    qkv_optimizer_release(&model->optimizer);
    qkv_parameters_release(&model->parameters);
}

static void save(const char *path, struct model *model, bool moments, const struct qkv_state *state)
{
    expect_done(qkv_checkpoint_save(path, &model->parameters, moments ? &model->optimizer.state : NULL, state,
                                    &error));
}

static void load(const char *path, struct model *model, bool moments, struct qkv_state *state)
{
    expect_done(qkv_checkpoint_load(path, &model->parameters, moments ? &model->optimizer.state : NULL, state,
                                    &error));
}

static void refuse(const char *path, struct model *model, bool moments, const char *sentence)
{
    expect_not_loaded(path, &model->parameters, moments ? &model->optimizer.state : NULL, sentence);
}

/* ---- round trips ---- */

Test(checkpoint, comes_back_bit_by_bit)
{
    const char *folder = scratch("round_trip");
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++)
        for (int kind = 0; kind < QKV_OPTIMIZER_COUNT; kind++) {
            struct model out RELEASED(release_model) =
                model_of((enum qkv_dtype)dtype, (enum qkv_optimizer_kind)kind, 1);
            struct model in RELEASED(release_model) =
                model_of((enum qkv_dtype)dtype, (enum qkv_optimizer_kind)kind, 2);
            const double odd[] = {-0.0, (double)INFINITY, (double)NAN, DBL_MIN / 3, FLT_MAX, FLT_MIN / 3};
            for (int i = 0; i < 6; i++) qkv_parameter_set(&out.parameters, out.parameters.list[1], i, odd[i]);
            fill_moments(&out);
            const char *path = format("%s/%d_%d.safetensors", folder, dtype, kind);
            save(path, &out, true, NULL);
            uint64_t changes = in.parameters.changes;
            load(path, &in, true, NULL);
            cr_expect_gt(in.parameters.changes, changes);
            cr_assert_eq(memcmp(in.parameters.values, out.parameters.values, size_of(&in)), 0);
            for (int i = 0; i < in.optimizer.state.moment_count; i++)
                cr_assert_eq(
                    memcmp(in.optimizer.state.moments[i], out.optimizer.state.moments[i], size_of(&in)), 0);
            cr_assert_eq(in.optimizer.state.updates, 123456789012);
        }
}

Test(checkpoint, converts_between_precisions)
{
    const char *folder = scratch("convert");
    struct model wide RELEASED(release_model) = model_of(QKV_FLOAT64, QKV_OPTIMIZER_ADAM, 1);
    struct model narrow RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 2);
    struct model back RELEASED(release_model) = model_of(QKV_FLOAT64, QKV_OPTIMIZER_ADAM, 3);
    fill_moments(&wide);
    const char *path = format("%s/wide", folder);
    save(path, &wide, true, NULL);
    load(path, &narrow, true, NULL);
    path = format("%s/narrow", folder);
    save(path, &narrow, true, NULL);
    load(path, &back, true, NULL);
    for (int64_t p = 0; p < wide.parameters.count; p++) {
        const struct qkv_parameter *parameter = wide.parameters.list[p];
        for (int64_t i = 0; i < parameter->count; i++) {
            float rounded = (float)qkv_parameter_get(&wide.parameters, parameter, i);
            cr_assert_eq(qkv_parameter_get(&narrow.parameters, narrow.parameters.list[p], i),
                         (double)rounded);
            cr_assert_eq(qkv_parameter_get(&back.parameters, back.parameters.list[p], i), (double)rounded);
            int64_t at = parameter->offset + i;
            cr_assert_eq(((float *)narrow.optimizer.state.moments[1])[at],
                         (float)((double *)wide.optimizer.state.moments[1])[at]);
        }
    }
}

Test(checkpoint, loads_values_alone)
{
    const char *path = format("%s/a", scratch("values"));
    struct model out RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1),
                     in RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_SGD, 2);
    fill_moments(&out);
    for (int moments = 0; moments <= 1; moments++) {
        save(path, &out, moments, NULL);
        qkv_parameters_initialize(&in.parameters, 9);
        load(path, &in, false, NULL);
        cr_assert_eq(memcmp(in.parameters.values, out.parameters.values, size_of(&in)), 0);
        cr_assert_eq(in.optimizer.state.updates, 0);
    }
}

/* ---- the state ---- */

Test(checkpoint, keeps_the_state_in_order_and_exactly)
{
    const char *path = format("%s/a", scratch("state"));
    const double numbers[] = {0.1,     -0.0,        1e-320,           DBL_MAX,           1.0 / 3,
                              FLT_MIN, (double)NAN, (double)INFINITY, -(double)INFINITY, 12345678};
    const int64_t integers[] = {0, -1, INT64_MAX, INT64_MIN, 1234567890123};
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1);
    struct qkv_state out RELEASED(qkv_state_release) = {0}, in RELEASED(qkv_state_release) = {0};
    qkv_state_set(&out, "text", "first");
    for (int i = 0; i < 10; i++) qkv_state_set_number(&out, format("number.%d", i), numbers[i]);
    for (int i = 0; i < 5; i++) qkv_state_set_integer(&out, format("integer.%d", i), integers[i]);
    for (int i = 0; i < 60; i++) qkv_state_set_integer(&out, format("many.%d", i), i);
    qkv_state_set(&out, "text", "\"quoted\"\n\t\\ \xC3\xA4 \"qkv.crc32\":\"12345678\"");
    save(path, &model, false, &out);
    load(path, &model, false, &in);
    cr_assert_eq(in.count, out.count);
    for (int64_t i = 0; i < in.count; i++) {
        cr_assert_str_eq(in.list[i].key, out.list[i].key);
        cr_assert_str_eq(in.list[i].text, out.list[i].text);
    }
    for (int i = 0; i < 10; i++) {
        double number = 0;
        cr_assert_eq(qkv_state_get_number(&in, format("number.%d", i), &number, NULL), QKV_OK);
        cr_assert(isnan(number) ? isnan(numbers[i]) : !memcmp(&number, &numbers[i], sizeof number));
    }
    for (int i = 0; i < 5; i++) {
        int64_t integer = 0;
        cr_assert_eq(qkv_state_get_integer(&in, format("integer.%d", i), &integer, NULL), QKV_OK);
        cr_assert_eq(integer, integers[i]);
    }
}

Test(checkpoint, says_which_number_of_the_state_is_none)
{
    static const char *const texts[] = {"", "x", "1.5", "0x10", " 1", "1 ", "99999999999999999999"};
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    int64_t integer = 42;
    double number = 42;
    expect_refusal(qkv_state_get_integer(&state, "epoch", &integer, &error), "epoch is missing");
    for (int i = 0; i < 7; i++) {
        qkv_state_set(&state, "epoch", texts[i]);
        expect_refusal(qkv_state_get_integer(&state, "epoch", &integer, &error),
                       format("epoch is \"%s\", but must be a whole number", texts[i]));
    }
    qkv_state_set(&state, "best", "1e999");
    expect_refusal(qkv_state_get_number(&state, "best", &number, &error),
                   "best is \"1e999\", but must be a number");
    cr_assert_eq(integer, 42);
    cr_assert_eq(number, 42);
}

Test(checkpoint, keys_of_the_format_are_refused)
{
    const char *path = format("%s/a", scratch("reserved"));
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_SGD, 1);
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    qkv_state_set(&state, "qkv.format", "3");
    expect_refusal_with(qkv_checkpoint_save(path, &model.parameters, NULL, &state, &error),
                        "the key qkv.format of a state is reserved");
    cr_expect_neq(access(path, F_OK), 0);
}

/* ---- the bytes, as another reader of the format sees them ---- */

Test(checkpoint, is_a_safetensors_file)
{
    static const char header[] =
        "{'__metadata__':{'qkv.crc32':'00000000','qkv.format':'1','qkv.optimizer':'sgd','qkv.optimizer."
        "updates':'0','epoch':'3'},'query.weight':{'dtype':'F32','shape':[3,5],'data_offsets':[0,60]},'query."
        "bias':{'dtype':'F32','shape':[7],'data_offsets':[60,88]},'four.axes':{'dtype':'F32','shape':[2,1,3,"
        "2],'data_offsets':[88,136]},'optimizer.first.query.weight':{'dtype':'F32','shape':[3,5],'data_"
        "offsets':[136,196]},'optimizer.first.query.bias':{'dtype':'F32','shape':[7],'data_offsets':[196,224]"
        "},'optimizer.first.four.axes':{'dtype':'F32','shape':[2,1,3,2],'data_offsets':[224,272]}}";
    const char *path = format("%s/a", scratch("format"));
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_SGD, 1);
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    qkv_state_set(&state, "epoch", "3");
    save(path, &model, true, &state);
    size_t size;
    char *bytes = read_file(path, &size), *digits = strstr(bytes + 8, "\"qkv.crc32\":\"");
    uint64_t length;
    memcpy(&length, bytes, 8);
    size_t data = 8 + (size_t)length;
    cr_assert_eq(data % 64, 0);
    cr_assert_not_null(digits);
    memset(digits + 13, '0', 8);
    for (size_t i = 8; i < data; i++) bytes[i] = bytes[i] == '"' ? '\'' : bytes[i];
    cr_expect(begins(bytes + 8, header), "%.*s", (int)length, bytes + 8);
    for (size_t i = 8 + sizeof header - 1; i < data; i++) cr_assert_eq(bytes[i], ' ');
    cr_expect_eq(size, data + 272);
    cr_assert_eq(
        memcmp(bytes + data + 60, (float *)model.parameters.values + model.parameters.list[1]->offset, 28),
        0);
}

/* ---- damage ---- */

Test(checkpoint, finds_every_truncation)
{
    const char *folder = scratch("truncation"), *path = format("%s/whole", folder);
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1);
    save(path, &model, true, NULL);
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t cut = 0; cut < size; cut += 97)
        refuse(write_bytes(folder, "cut", bytes, cut), &model, true, NULL);
    for (size_t cut = size - 9; cut < size; cut++)
        refuse(write_bytes(folder, "cut", bytes, cut), &model, true,
               format("byte %zu: the file ends here, but its data goes on to byte %zu: it was cut short", cut,
                      size));
    refuse(write_bytes(folder, "cut", bytes, 100), &model, true,
           "byte 100: the file ends within its header: it was cut short, or is not a safetensors file");
    bytes[size] = 'x';
    refuse(write_bytes(folder, "cut", bytes, size + 1), &model, true,
           format("byte %zu: the data ends here, but the file goes on", size));
}

/* The checksum covers header and padding, too: no flip goes unseen. */
Test(checkpoint, finds_every_flip)
{
    const char *folder = scratch("flip"), *path = format("%s/whole", folder);
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1);
    struct qkv_state state RELEASED(qkv_state_release) = {0};
    qkv_state_set(&state, "epoch", "3");
    save(path, &model, true, &state);
    size_t size;
    char *bytes = read_file(path, &size);
    for (size_t i = 0; i < size; i++) {
        char kept = bytes[i];
        bytes[i] = (char)(kept ^ (1 << (i % 8)));
        refuse(write_bytes(folder, "flipped", bytes, size), &model, true, NULL);
        bytes[i] = (char)(kept ^ 0x20);
        refuse(write_bytes(folder, "flipped", bytes, size), &model, false, NULL);
        bytes[i] = kept;
    }
    load(write_bytes(folder, "flipped", bytes, size), &model, true, NULL);
}

/* ---- the wrong model, path or version ---- */

Test(checkpoint, refuses_the_wrong_model)
{
    const char *path = format("%s/best.safetensors", scratch("model"));
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1);
    save(path, &model, true, NULL);
    struct qkv_parameters larger = {0}, fewer = {0}, more = declared();
    qkv_parameters_add(&larger, QKV_SHAPE(6, 5), NORMAL, "query.weight");
    qkv_parameters_add(&fewer, QKV_SHAPE(3, 5), NORMAL, "query.weight");
    qkv_parameters_add(&more, QKV_SHAPE(1), NORMAL, "one.more");
    struct model models[] = {finish(larger, QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1),
                             finish(fewer, QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1),
                             finish(more, QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1)};
    static const char *const sentences[] = {"query.weight is [3, 5], but the model has [6, 5]",
                                            "holds query.bias, which the model does not have",
                                            "has no one.more, which the model needs"};
    for (int i = 0; i < 3; i++) {
        refuse(path, &models[i], true, sentences[i]);
        refuse(path, &models[i], false, sentences[i]);
        release_model(&models[i]);
    }
}

Test(checkpoint, refuses_the_wrong_optimizer)
{
    const char *path = format("%s/last.safetensors", scratch("optimizer"));
    struct model adam RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1),
                      sgd RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_SGD, 2);
    save(path, &adam, true, NULL);
    refuse(path, &sgd, true, "holds the state of the optimizer adam, but the config has sgd");
    save(path, &adam, false, NULL);
    refuse(path, &sgd, true,
           "holds values but no state of an optimizer, so training cannot continue from it");
}

/* Its moments would not have the room. */
Test(checkpoint, refuses_an_optimizer_of_other_parameters)
{
    const char *path = format("%s/last.safetensors", scratch("optimizer"));
    static const char *const SENTENCES[] = {
        "the optimizer of the checkpoint is not initialised: call qkv_optimizer_init first",
        "the optimizer was made for other parameters: it has 16 numbers of type F32 for each moment, but the "
        "parameters are 48 of type F32",
        "the optimizer was made for other parameters: it has 48 numbers of type F64 for each moment, but the "
        "parameters are 48 of type F32"};
    struct qkv_parameters few = {0};
    qkv_parameters_add(&few, QKV_SHAPE(3), NORMAL, "few");
    struct model good RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1),
                      small RELEASED(release_model) = finish(few, QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 2),
                      wide RELEASED(release_model) = model_of(QKV_FLOAT64, QKV_OPTIMIZER_ADAM, 3);
    const struct qkv_optimizer fitting = good.optimizer, none = {0};
    const struct qkv_optimizer *const others[] = {&none, &small.optimizer, &wide.optimizer};
    save(path, &good, true, NULL);
    for (int i = 0; i < 3; i++) {
        good.optimizer = *others[i];
        refuse(path, &good, true, SENTENCES[i]);
        const char *new = format("%s.new", path);
        expect_refusal(qkv_checkpoint_save(new, &good.parameters, &good.optimizer.state, NULL, &error),
                       format("%s: %s", new, SENTENCES[i]));
        cr_expect_null(read_file(new, NULL));
    }
    good.optimizer = fitting;
    load(path, &good, true, NULL);
}

Test(checkpoint, refuses_paths_that_are_no_file)
{
    const char *folder = scratch("paths");
    struct model model RELEASED(release_model) = model_of(QKV_FLOAT32, QKV_OPTIMIZER_ADAM, 1);
    refuse(format("%s/none", folder), &model, false, "cannot be read: No such file or directory");
    refuse(folder, &model, false, "cannot be read: it is a folder");
    const char *paths[] = {folder, format("%s/none/a", folder), format("%s/pipe", folder), "/dev/full"};
    cr_assert_eq(mkfifo(paths[2], 0600), 0);
    for (int i = 0; i < 4; i++)
        expect_refusal_with(qkv_checkpoint_save(paths[i], &model.parameters, NULL, NULL, &error),
                            format("%s: cannot be written: ", paths[i]));
}
