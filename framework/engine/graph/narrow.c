#include "core/choices.h"
#include "core/numbers.h"
#include "graph/internal.h"

#include "graph/int8_layout.h"

static void round_to_int8(const struct qkv_parameter *parameter, float *values)
{
    struct qkv_int8_layout layout = qkv_int8_layout_of(parameter);
    for (int64_t i = 0; i < layout.scales; i++) {
        float *first = values + i * layout.scale_step;
        float scale = qkv_int8_scale(layout.count, first, layout.step);
        for (int64_t j = 0; j < layout.count; j++) {
            float *x = first + j * layout.step;
            *x = (float)qkv_int8_of(*x, scale) * scale;
        }
    }
}

enum qkv_status qkv_parameters_set_precision(struct qkv_parameters *parameters, enum qkv_precision precision,
                                             struct qkv_error *error)
{
    if (!qkv_precision_name(precision))
        return qkv_error_set(error, "there is no precision %d", (int)precision);
    if (!parameters->values) return qkv_error_set(error, "the parameters are not allocated");
    if (precision != QKV_PRECISION_FLOAT32 && parameters->dtype != QKV_FLOAT32)
        return qkv_error_set(error, "products in %s need parameters in float32",
                             qkv_precision_name(precision));
    const struct qkv_parameter *broken = precision == QKV_PRECISION_INT8
                                             ? qkv_parameters_find_not_finite(parameters, parameters->values)
                                             : NULL;
    if (broken) return qkv_error_set(error, "%s has numbers that are not finite", broken->name);
    parameters->products = precision;
    parameters->changes++;
    if (precision != QKV_PRECISION_INT8) return QKV_OK;
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_parameter *parameter = parameters->list[i];
        if (parameter->shape.rank == 2)
            round_to_int8(parameter, (float *)parameters->values + parameter->offset);
    }
    return QKV_OK;
}
