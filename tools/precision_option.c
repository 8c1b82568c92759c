#include "precision_option.h"

const char *precision_name(const void *context, int64_t index)
{
    (void)context;
    return qkv_precision_name((enum qkv_precision)index);
}

enum qkv_status set_precision(struct qkv_model *model, const char *name, struct qkv_error *error)
{
    enum qkv_precision precision;
    if (!name) return QKV_OK;
    if (!qkv_precision_find(name, &precision)) return qkv_error_set(error, "there is no precision %s", name);
    return qkv_parameters_set_precision(&model->parameters, precision, error);
}

const char *narrow_precision(const struct qkv_model *model)
{
    enum qkv_precision precision = model->parameters.products;
    return precision == QKV_PRECISION_FLOAT32 ? NULL : qkv_precision_name(precision);
}
