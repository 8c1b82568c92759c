#include "next_tokens.h"

#include "tiny.h"

struct qkv_model *tiny_model_of_type(enum qkv_network type, int32_t source_size, int32_t target_size,
                                     enum qkv_dtype dtype, uint64_t seed)
{
    struct qkv_model_config config = type == QKV_NETWORK_RECURRENT ? tiny_recurrent_config() : tiny_config();
    config.decoder.input_feeding = type == QKV_NETWORK_RECURRENT;
    return tiny_model(&config, source_size, target_size, dtype, seed);
}

void next_logits(const struct qkv_model *model, struct qkv_ids source, int64_t length, const int32_t *ids,
                 double *logits)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    const int64_t sentence = 0;
    const struct qkv_next_scores *next = NULL;
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    cr_assert_eq(qkv_batch_make(&batch, 1, &source, NULL, &error), QKV_OK);
    const struct qkv_batch_view view = tiny_view(&batch);
    expect_done(qkv_decoding_start(decoding, &view, 1, length + 1, true, &error));
    for (int64_t i = 0; i <= length; i++) {
        const int32_t fed = i ? ids[i - 1] : QKV_BEGIN;
        next = made(qkv_decoding_step(decoding, 1, &fed, &sentence, &error));
    }
    for (int64_t token = 0; token < next->classes; token++)
        logits[token] = qkv_dtype_get(next->dtype, next->logits, token);
}

void log_softmax(int64_t count, double *logits)
{
    double greatest = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < count; i++) greatest = fmax(greatest, logits[i]);
    for (int64_t i = 0; i < count; i++) sum += exp(logits[i] - greatest);
    for (int64_t i = 0; i < count; i++) logits[i] -= greatest + log(sum);
}
