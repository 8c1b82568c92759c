#include "maps.h"
#include "report/words.h"

static const char *const source[] = {"el", "gato", "</s>"};
static const char *const input[] = {"<s>", "cat"};
static const char *const output[] = {"cat", "</s>"};

/* Cross maps of two layers with two heads, and a decoder map. */
static const double weights[][6] = {
    {1, 0, 0, 0, 1, 0}, {0, 1, 0, 0, 0, 1}, {0.5, 0.5, 0, 0.25, 0.25, 0.5}, {0.1, 0.2, 0.7, 0.3, 0.3, 0.4}};
static const double causal[] = {1, 0, 0.25, 0.75};
static const struct qkv_attention_map maps[] = {
    {QKV_ATTENTION_CROSS, 1, 1, 2, 3, weights[0]}, {QKV_ATTENTION_CROSS, 1, 2, 2, 3, weights[1]},
    {QKV_ATTENTION_CROSS, 2, 1, 2, 3, weights[2]}, {QKV_ATTENTION_CROSS, 2, 2, 2, 3, weights[3]},
    {QKV_ATTENTION_DECODER, 1, 1, 2, 2, causal},
};
static const struct qkv_attention_report report = REPORT_OF(source, input, output, maps, );

static struct qkv_arena arena; /* until the test ends */
static struct qkv_attention_report selected;

static enum qkv_status try_select(unsigned kinds, int layer, int head)
{
    return qkv_attention_select(&report, kinds, layer, head, &arena, &selected, &error);
}

static struct qkv_attention_report select_maps(unsigned kinds, int layer, int head)
{
    expect_done(try_select(kinds, layer, head));
    return selected;
}

/* Expects the names of the maps that are selected, joined by spaces. */
static void expect_selected(unsigned kinds, int layer, int head, const char *names)
{
    const char *all = "";
    select_maps(kinds, layer, head);
    for (int64_t i = 0; i < selected.map_count; i++) {
        char name[64];
        qkv_attention_map_name(&selected.maps[i], name, sizeof name);
        all = format("%s%s%s", all, i ? " " : "", name);
    }
    cr_expect_str_eq(all, names);
}

Test(attention_map, selects_by_kind_layer_and_head)
{
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    const int each = QKV_ATTENTION_EACH, mean = QKV_ATTENTION_MEAN;
    expect_selected(0, each, each, "decoder.1.1 cross.1.1 cross.1.2 cross.2.1 cross.2.2");
    expect_selected(cross, 2, each, "cross.2.1 cross.2.2");
    expect_selected(cross, each, 2, "cross.1.2 cross.2.2");
    expect_selected(cross, each, mean, "cross.1.mean cross.2.mean");
    expect_selected(cross, mean, each, "cross.mean.1 cross.mean.2");
    expect_selected(0, mean, mean, "decoder.1.1 cross.mean.mean");
    cr_assert_eq(select_maps(cross, 2, 1).maps[0].weights, weights[2], "a single map is not copied");
}

Test(attention_map, averages_heads_and_layers)
{
    const double heads[] = {0.3, 0.35, 0.35, 0.275, 0.275, 0.45};
    select_maps(1u << QKV_ATTENTION_CROSS, 2, QKV_ATTENTION_MEAN);
    for (int i = 0; i < 6; i++) cr_assert(fabs(selected.maps[0].weights[i] - heads[i]) < 1e-15);
    struct qkv_attention_report all = select_maps(1u << QKV_ATTENTION_CROSS, 0, 0);
    cr_assert(fabs(all.maps[0].weights[0] - 0.4) < 1e-15);
    for (int row = 0; row < 2; row++) {
        const double *cells = all.maps[0].weights + 3 * row;
        cr_assert(fabs(cells[0] + cells[1] + cells[2] - 1) < 1e-15, "rows of a mean sum to 1");
    }
    struct qkv_attention_report again;
    expect_done(qkv_attention_select(&all, 0, 0, 0, &arena, &again, &error));
    cr_assert_eq(again.maps[0].weights, all.maps[0].weights, "a mean can be selected from a report of means");
}

Test(attention_map, averages_single_heads_only)
{
    static const double rows[][2] = {{1, 0}, {0, 1}, {0.9, 0.1}};
    static const struct qkv_attention_map mixed[] = {{QKV_ATTENTION_CROSS, 1, 1, 1, 2, rows[0]},
                                                     {QKV_ATTENTION_CROSS, 1, 2, 1, 2, rows[1]},
                                                     {QKV_ATTENTION_CROSS, 1, 0, 1, 2, rows[2]}};
    struct qkv_attention_report with_mean = report;
    with_mean.maps = mixed;
    with_mean.map_count = 3;
    cr_assert_eq(qkv_attention_select(&with_mean, 0, 1, QKV_ATTENTION_MEAN, &arena, &selected, NULL), QKV_OK);
    cr_assert_eq(selected.maps[0].weights[0], 0.5);
}

Test(attention_map, names_existing_layers_and_heads_in_errors)
{
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    expect_refusal(try_select(cross, 7, 1), "the cross attention has no layer 7: its layers are 1 to 2");
    expect_refusal(try_select(cross, 1, 3), "the cross attention has no head 3: its heads are 1 to 2");
    expect_refusal(try_select(1u << QKV_ATTENTION_ENCODER, 0, 0), "the model has no encoder attention");
}

Test(attention_map, finds_kinds_by_name)
{
    enum qkv_attention_kind kind;
    for (int i = 0; i < QKV_ATTENTION_KINDS; i++) {
        cr_assert(qkv_attention_kind_find(qkv_attention_kind_name((enum qkv_attention_kind)i), &kind));
        cr_assert_eq((int)kind, i);
    }
    cr_assert_not(qkv_attention_kind_find("self", &kind));
}

Test(attention_map, refuses_empty_reports_unknown_colormaps_and_missing_folders)
{
    struct qkv_attention_report empty = report;
    const struct qkv_format_options rainbow = {.colormap = "jet"};
    char *bytes;
    size_t size;
    empty.map_count = 0;
    expect_refusal(qkv_attention_render(&empty, qkv_format(0), NULL, &bytes, &size, &error),
                   "there is no attention map to show");
    expect_refusal(qkv_attention_render(&report, qkv_format(0), &rainbow, &bytes, &size, &error),
                   "no colormap is called jet: choose YlOrRd, viridis, plasma, magma or gray");
    cr_assert_null(bytes);
    const char *folder = scratch("refuses"), *path = format("%s/no/such/folder.json", folder);
    expect_refusal(qkv_attention_write(&report, qkv_format(0), NULL, path, &error),
                   format("%s: cannot be written: there is no folder %s/no/such", path, folder));
}
