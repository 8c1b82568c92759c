/* Attention maps as heat maps: vector graphics and pixels. */
#include "draw/figure.h"
#include "report/writer.h"

static enum qkv_status write_svg(const struct maps_job *job, struct bytes *out, struct qkv_error *error)
{
    (void)error;
    return qkv_svg_draw(qkv_figure_draw, job, out);
}

static enum qkv_status write_png(const struct maps_job *job, struct bytes *out, struct qkv_error *error)
{
    return qkv_png_draw(qkv_figure_draw, job, job->options.scale, out, error);
}

const struct qkv_format_writer qkv_writer_svg = {
    .format = {"svg", "svg", "heat maps that scale, with the weight under the pointer", QKV_FORMAT_PICTURE},
    .write_maps = write_svg,
};

const struct qkv_format_writer qkv_writer_png = {
    .format = {"png", "png", "heat maps as pixels", QKV_FORMAT_PICTURE, .binary = true},
    .write_maps = write_png,
};
