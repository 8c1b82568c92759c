/* The moment of training whose parameters the page uses. */
#include "page/module/translation.h"

#include <stdlib.h>
#include <string.h>

static size_t size_of(const struct qkv_parameters *parameters)
{
    return (size_t)parameters->elements * sizeof(float);
}

/* Keeps the learned parameters before others replace them for the first time. */
static enum qkv_status keep_learned(struct page_translation *t, struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &t->run.model->parameters;
    if (t->learned) return QKV_OK;
    t->learned = malloc(size_of(parameters));
    if (!t->learned) return qkv_error_set(error, "out of memory");
    memcpy(t->learned, parameters->values, size_of(parameters));
    return QKV_OK;
}

enum qkv_status page_use_learned(struct page_translation *t, struct qkv_error *error)
{
    struct qkv_parameters *parameters = &t->run.model->parameters;
    if (keep_learned(t, error)) return QKV_INVALID;
    memcpy(parameters->values, t->learned, size_of(parameters));
    parameters->changes++;
    return QKV_OK;
}

enum qkv_status page_use_random(struct page_translation *t, struct qkv_error *error)
{
    if (keep_learned(t, error)) return QKV_INVALID;
    qkv_parameters_initialize(&t->run.model->parameters, (uint64_t)t->run.config.training.random_seed);
    return QKV_OK;
}

enum qkv_status page_use_packed(struct page_translation *t, const unsigned char *bytes, size_t size,
                                struct qkv_error *error)
{
    if (keep_learned(t, error)) return QKV_INVALID;
    return qkv_run_unpack_parameters(&t->run, bytes, size, error);
}
