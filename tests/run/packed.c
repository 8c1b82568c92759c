/* A run as one block of bytes, as a page holds it. */
#include "data/corpus.h"
#include "framework/translator/config/config_keys.h"
#include "framework/translator/data/bpe.h"
#include "framework/translator/run/packed_run.h"

#include "support.h"

/* Trains a run with merges on one side, a few updates long, and opens it. */
static struct qkv_run trained(const char *name)
{
    const char *folder = scratch(name);
    write_text(folder, "train.tsv",
               "lower lowest low\tbajo\nnewer newest new\tnuevo\nwider widest wide\tancho\nlower wider\tbajo "
               "ancho\n");
    write_text(
        folder, "c.yaml",
        "name: packed\n"
        "data: {train: train.tsv, src: {lang: en, level: bpe, num_merges: 8, bpe_min_freq: 2}, trg: {lang: "
        "es}}\n"
        "model:\n"
        "  encoder: {num_layers: 1, num_heads: 2, hidden_size: 8, ff_size: 8, attention: {window: 2}}\n"
        "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 8, ff_size: 8}\n"
        "training: {model_dir: run, batch_size: 4, updates: 20}\n");
    run_ok("cd '%s' && qkv train c.yaml --quiet --threads 1", folder);
    struct qkv_run run;
    expect_done(qkv_run_open(&run, format("%s/run", folder), NULL, QKV_FLOAT32, &error));
    return run;
}

static struct qkv_run packed_and_unpacked(const struct qkv_run *run, enum qkv_packed_numbers numbers,
                                          size_t *size)
{
    unsigned char *bytes;
    struct qkv_run copy;
    expect_done(qkv_run_pack(run, numbers, &bytes, size, &error));
    expect_done(qkv_run_unpack(&copy, bytes, *size, &error));
    free(bytes);
    return copy;
}

/* Every key but the paths, which tell where the run was trained. */
static bool same_key(void *context, const char *path, const char *value)
{
    char *all = *(char **)context;
    if (!strstr("data.train data.dev data.test training.model_dir data.src.bpe_codes data.trg.bpe_codes",
                path))
        all = format("%s%s=%s\n", all, path, value);
    *(char **)context = all;
    return true;
}

static char *keys_of(const struct qkv_run *run)
{
    char *all = format("%s", "");
    cr_assert_eq(qkv_config_each(&run->config, QKV_KEYS_FIXED_ON_RESUME, same_key, &all), QKV_OK);
    return all;
}

static void expect_same_texts(const struct qkv_run *run, const struct qkv_run *copy)
{
    cr_expect_str_eq(keys_of(copy), keys_of(run));
    cr_expect_str_eq(copy->config.name, "packed");
    cr_expect_eq(copy->config.model.encoder.attention.window, 2);
    cr_expect_str_empty(copy->config.data.train);
    cr_expect_eq(qkv_vocabulary_checksum(&copy->source), qkv_vocabulary_checksum(&run->source));
    cr_expect_eq(qkv_vocabulary_checksum(&copy->target), qkv_vocabulary_checksum(&run->target));
    cr_expect_eq(qkv_bpe_checksum(copy->bpe[0]), qkv_bpe_checksum(run->bpe[0]));
    cr_expect_null(copy->bpe[1]);
}

Test(packed, holds_the_run_exactly_in_float32)
{
    size_t size;
    struct qkv_run run RELEASED(qkv_run_release) = trained("run"),
                       copy RELEASED(qkv_run_release) = packed_and_unpacked(&run, QKV_PACKED_FLOAT32, &size);
    expect_same_texts(&run, &copy);
    size_t elements = (size_t)run.model->parameters.elements;
    cr_assert_eq(copy.model->parameters.elements, run.model->parameters.elements);
    cr_expect_arr_eq(copy.model->parameters.values, run.model->parameters.values, elements * sizeof(float));
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0}; /* the merges reach the tokenizer */
    expect_done(qkv_tokenize(&tokens, &copy.config.data.src, "lowest", 6, &error));
    cr_expect_gt(tokens.count, 0);
}

Test(packed, rounds_parameters_to_half_precision)
{
    size_t size, exact;
    struct qkv_run run RELEASED(qkv_run_release) = trained("run"),
                       copy RELEASED(qkv_run_release) = packed_and_unpacked(&run, QKV_PACKED_HALF, &size),
                       other RELEASED(qkv_run_release) =
                           packed_and_unpacked(&run, QKV_PACKED_FLOAT32, &exact);
    expect_same_texts(&run, &copy);
    const struct qkv_parameters *parameters = &run.model->parameters;
    cr_expect_eq(exact - size, 2 * (size_t)qkv_parameters_total(parameters));
    const float *before = parameters->values, *after = copy.model->parameters.values;
    bool changed = false;
    for (int64_t i = 0; i < parameters->elements; i++) {
        cr_assert_leq(fabsf(after[i] - before[i]), fabsf(before[i]) / 2048 + 0x1p-25f, "%lld", (long long)i);
        changed |= after[i] != before[i];
    }
    cr_expect(changed);
    ((float *)parameters->values)[parameters->list[1]->offset] = 7e4f; /* beyond half precision */
    unsigned char *bytes = NULL;
    expect_refusal(
        qkv_run_pack(&run, QKV_PACKED_HALF, &bytes, &size, &error),
        format("%s holds a number beyond 65504, the greatest of half precision", parameters->list[1]->name));
}

/* A block that is cut, longer, or changed in one place is refused or read as another run, never more. */
Test(packed, refuses_what_is_no_packed_run)
{
    struct qkv_run run RELEASED(qkv_run_release) = trained("run"), copy RELEASED(qkv_run_release);
    unsigned char *bytes RELEASED(free_memory);
    size_t size;
    cr_assert_eq(qkv_run_pack(&run, QKV_PACKED_HALF, &bytes, &size, &error), QKV_OK);
    for (size_t cut = 0; cut < size; cut += cut < 4000 ? 1 : 97) {
        unsigned char *part =
            malloc(cut ? cut : 1); /* its own memory, so that sanitizers see a read behind it */
        memcpy(part, bytes, cut);
        cr_assert_eq(qkv_run_unpack(&copy, part, cut, &error), QKV_INVALID, "the first %zu bytes", cut);
        free(part);
    }
    for (size_t at = 0; at < size; at += at < 4000 ? 7 : 997) {
        unsigned char byte = bytes[at];
        bytes[at] = (unsigned char)(byte ^ 0x55);
        if (!qkv_run_unpack(&copy, bytes, size, &error)) qkv_run_release(&copy);
        bytes[at] = byte;
    }
    expect_done(qkv_run_unpack(&copy, bytes, size, &error));
}
