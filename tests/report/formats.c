/* The table of formats, and every byte or number of small maps in the formats that hold numbers. */
#include "maps.h"

#include <cjson/cJSON.h>
#include <zlib.h>

static const char *const source[] = {"perro", "a,\"b\"", "</s>"};
static const char *const input[] = {"<s>", "狗"};
static const char *const output[] = {"狗", "</s>"};
static const double cross[] = {0.75, 0.25, 0, 0.1, 0.2, 0.7}, causal[] = {1, 0, 0.5, 0.5};
static const struct qkv_attention_map maps[] = {
    {QKV_ATTENTION_CROSS, 2, 3, 2, 3, cross},
    {QKV_ATTENTION_DECODER, 1, 0, 2, 2, causal},
};
static const struct qkv_attention_report report =
    REPORT_OF(source, input, output, maps, .title = "perro → 狗", .model = "tiny");

static const char *const step_names[] = {"perro", "</s>"};
static const struct qkv_step steps[] = {STEP_OF("weights", 2, 2, causal, .content = QKV_STEP_WEIGHTS,
                                                .heads = 1, .row_names = step_names,
                                                .column_names = step_names)};
static const struct qkv_explanation two_words = EXPLANATION_OF(steps, .title = "two words");

Test(formats, each_row_is_found_and_writes_maps_and_explanations)
{
    cr_assert_not_null(qkv_format(0));
    for (int64_t i = 0; qkv_format(i); i++) {
        const struct qkv_format *row = qkv_format(i);
        size_t size[2];
        cr_expect_eq(qkv_format_find(row->name), row);
        cr_expect_eq(qkv_format_find(row->extension), row);
        cr_expect_eq(qkv_format_of_path(format("maps.of.%s", row->extension)), row);
        cr_expect_str_neq(row->help, "");
        rendered(&report, row->name, NULL, &size[0]);
        explained(&two_words, 1, row->name, NULL, &size[1]);
        cr_expect(size[0] && size[1], "%s", row->name);
    }
    cr_expect_str_eq(qkv_format_of_path("runs/a.b/cross.txt")->name, "text");
    cr_expect_null(qkv_format_find("gif"));
    cr_expect_null(qkv_format_of_path("cross.gif"));
    cr_expect_null(qkv_format_of_path("cross"));
}

/* Writes maps (`explains` false) or an explanation. */
static char *colored(const struct qkv_format *format, bool explains, const char *colormap, size_t *size)
{
    const struct qkv_format_options options = {.colormap = colormap, .colors = QKV_COLORS_TRUE};
    return explains ? explained(&two_words, 1, format->name, &options, size)
                    : rendered(&report, format->name, &options, size);
}

Test(formats, have_the_same_colours_unless_others_are_asked_for)
{
    for (int64_t i = 0; qkv_format(i); i++)
        for (int explains = 0; explains < 2; explains++) {
            const struct qkv_format *row = qkv_format(i);
            size_t size, same_size, other_size;
            char *bytes = colored(row, explains, NULL, &size),
                 *same = colored(row, explains, "YlOrRd", &same_size),
                 *other = colored(row, explains, "viridis", &other_size);
            bool is_same = size == same_size && !memcmp(bytes, same, size),
                 is_other = size == other_size && !memcmp(bytes, other, size);
            cr_expect(is_same, "%s", row->name);
            cr_expect_eq(is_other, row->use == QKV_FORMAT_DATA, "%s", row->name);
        }
}

Test(formats, csv_of_an_explanation_has_one_line_per_number)
{
    static const double hidden[] = {1, -1.0 / 0.0};
    static const char *const names[] = {"a,b", "c"};
    const struct qkv_step two[] = {STEP_OF("scores", 1, 2, hidden, .heads = 1),
                                   STEP_OF("mask", 2, 1, causal, .row_names = names)};
    const struct qkv_explanation explanation = {
        .label = "learned", .first_head = 3, .heads = 1, .layer_heads = 4, .step_count = 2, .steps = two};
    cr_expect_str_eq(explained(&explanation, 1, "csv", NULL, NULL),
                     "label,step,head,row,row_name,column,column_name,value\n"
                     "learned,scores,3,0,,0,,1\n"
                     "learned,scores,3,0,,1,,-inf\n"
                     "learned,mask,,0,\"a,b\",0,,1\n"
                     "learned,mask,,1,c,0,,0\n");
}

Test(formats, a_picture_of_an_explanation_needs_weights)
{
    const struct qkv_step scores[] = {STEP_OF("scores", 2, 2, causal, )};
    const struct qkv_explanation explanation = EXPLANATION_OF(scores, );
    char *bytes;
    size_t size;
    expect_refusal(
        qkv_explanation_render(&explanation, 1, qkv_format_find("svg"), NULL, &bytes, &size, &error),
        "svg holds attention weights, but the explanation has none");
}

/* Exact numbers: tests/report/hostile.c. */
Test(formats, json_holds_tokens_and_weights)
{
    cJSON *json RELEASED(free_json) = cJSON_Parse(rendered(&report, "json", NULL, NULL));
    cJSON *expected RELEASED(free_json) = cJSON_Parse(
        "{\"format\": \"qkv attention 1\", \"about\": \"weights[row][column] is the number that `value` "
        "names, of the row's token (query) for the column's token (key); rows of attention weights sum to 1, "
        "with a sink to less; layers and heads count from 1\", \"title\": \"perro → 狗\", \"model\": "
        "\"tiny\", \"value\": \"attention weight\",\"source\": [\"perro\", \"a,\\\"b\\\"\", "
        "\"</s>\"],\"target_input\": [\"<s>\", \"狗\"], \"target_output\": [\"狗\", \"</s>\"],\"maps\": "
        "[{\"name\": \"cross.2.3\", \"kind\": \"cross\", \"layer\": 2, \"head\": 3,\"rows\": {\"input\": "
        "[\"<s>\", \"狗\"], \"output\": [\"狗\", \"</s>\"]},\"columns\": [\"perro\", \"a,\\\"b\\\"\", "
        "\"</s>\"],\"weights\": [[0.75, 0.25, 0], [0.1, 0.2, 0.7]]},{\"name\": \"decoder.1.mean\", \"kind\": "
        "\"decoder\", \"layer\": 1, \"head\": \"mean\",\"rows\": [\"<s>\", \"狗\"], \"columns\": [\"<s>\", "
        "\"狗\"], \"weights\": [[1, 0], [0.5, 0.5]]}]}");
    cr_expect(expected && cJSON_Compare(json, expected, true));
}

Test(formats, csv_of_maps_has_one_line_per_weight)
{
    cr_assert_str_eq(rendered(&report, "csv", NULL, NULL),
                     "kind,layer,head,row,row_token,column,column_token,weight\n"
                     "cross,2,3,0,狗,0,perro,0.75\n"
                     "cross,2,3,0,狗,1,\"a,\"\"b\"\"\",0.25\n"
                     "cross,2,3,0,狗,2,</s>,0\n"
                     "cross,2,3,1,</s>,0,perro,0.1\n"
                     "cross,2,3,1,</s>,1,\"a,\"\"b\"\"\",0.2\n"
                     "cross,2,3,1,</s>,2,</s>,0.7\n"
                     "decoder,1,mean,0,<s>,0,<s>,1\n"
                     "decoder,1,mean,0,<s>,1,狗,0\n"
                     "decoder,1,mean,1,狗,0,<s>,0.5\n"
                     "decoder,1,mean,1,狗,1,狗,0.5\n");
}

static uint32_t little(const char *bytes, int size)
{
    uint32_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | (unsigned char)bytes[i];
    return value;
}

/* Returns the content of a member of a zip archive that starts at `*at`, and moves `*at` past it. */
static const char *member(const char *bytes, size_t *at, const char *name, uint32_t *size)
{
    const char *header = bytes + *at;
    cr_assert_eq(little(header, 4), 0x04034B50u);
    cr_assert_eq(little(header + 8, 2), 0u, "stored");
    *size = little(header + 22, 4);
    cr_assert_eq(little(header + 18, 4), *size);
    cr_assert_eq(little(header + 26, 2), strlen(name));
    cr_assert_eq(little(header + 28, 2), 0u);
    cr_assert_eq(memcmp(header + 30, name, strlen(name)), 0);
    const char *content = header + 30 + strlen(name);
    cr_assert_eq(little(header + 14, 4), (uint32_t)crc32(0, (const unsigned char *)content, *size));
    *at += 30 + strlen(name) + *size;
    return content;
}

/* Returns the data of a .npy array; its header must be this dictionary. */
static const char *array(const char *content, const char *dictionary)
{
    cr_assert_eq(memcmp(content, "\x93NUMPY\x01\x00", 8), 0);
    uint32_t length = little(content + 8, 2);
    cr_assert_eq((10 + length) % 64, 0u);
    cr_assert_eq(memcmp(content + 10, dictionary, strlen(dictionary)), 0, "%.*s", (int)length, content + 10);
    cr_assert_eq(content[10 + length - 1], '\n');
    return content + 10 + length;
}

Test(formats, npz_holds_float64_and_unicode_arrays)
{
    size_t size, at = 0;
    uint32_t length;
    char *bytes = rendered(&report, "npz", NULL, &size);
    const char *data = array(member(bytes, &at, "source.npy", &length),
                             "{'descr': '<U5', 'fortran_order': False, 'shape': (3,), }");
    for (int i = 0; i < 5; i++) cr_assert_eq(little(data + 4 * i, 4), (uint32_t) "perro"[i]);
    cr_assert_eq(little(data + 4 * 9, 4), (uint32_t)'"');
    data = array(member(bytes, &at, "target_input.npy", &length),
                 "{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }");
    cr_assert_eq(little(data + 4 * 3, 4), 0x72D7u);
    cr_assert_eq(little(data + 4 * 4, 4), 0u);
    member(bytes, &at, "target_output.npy", &length);
    array(member(bytes, &at, "value.npy", &length),
          "{'descr': '<U16', 'fortran_order': False, 'shape': (1,), }");
    data = array(member(bytes, &at, "cross.2.3.npy", &length),
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }");
    cr_assert_eq(memcmp(data, cross, sizeof cross), 0);
    data = array(member(bytes, &at, "decoder.1.mean.npy", &length),
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }");
    cr_assert_eq(memcmp(data, causal, sizeof causal), 0);

    const char *end = bytes + size - 22;
    cr_assert_eq(little(end, 4), 0x06054B50u);
    cr_assert_eq(little(end + 10, 2), 6u);
    cr_assert_eq(little(end + 16, 4), at, "the directory follows the last member");
    cr_assert_eq(little(end + 12, 4) + at + 22, size);
    cr_assert_eq(little(bytes + at, 4), 0x02014B50u);
}

Test(formats, every_format_names_another_value_than_the_weight)
{
    struct qkv_attention_report shares = report;
    shares.value_name = "share of norms";
    for (int64_t i = 0; qkv_format(i); i++) {
        const char *name = qkv_format(i)->name;
        size_t size;
        char *plain = rendered(&report, name, NULL, &size), *text = rendered(&shares, name, NULL, &size);
        if (!strcmp(name, "npz")) {
            size_t at = 0;
            uint32_t length;
            static const char *const TOKENS[] = {"source.npy", "target_input.npy", "target_output.npy"};
            for (int j = 0; j < 3; j++) member(text, &at, TOKENS[j], &length);
            const char *letters = array(member(text, &at, "value.npy", &length),
                                        "{'descr': '<U14', 'fortran_order': False, 'shape': (1,), }");
            for (int j = 0; j < 14; j++)
                cr_expect_eq(little(letters + 4 * j, 4), (uint32_t)shares.value_name[j]);
        } else if (strcmp(name, "png") != 0 && strcmp(name, "pdf") != 0) { /* draw what svg does */
            cr_expect(shows(text, "share of norms"), "%s does not name the value (qkv_report_value_name): %s",
                      name, text);
            cr_expect(lacks(plain, "share of norms"), "%s names the value of another report: %s", name,
                      plain);
        }
    }
    char *text = rendered(&shares, "text", NULL, NULL);
    cr_expect(shows(text, "columns: source, cells: share of norms\n"));
    text = rendered(&shares, "csv", NULL, NULL);
    cr_expect(shows(text, ",column_token,share of norms\ncross,"));
}

Test(formats, text_aligns_by_display_width)
{
    cr_assert_str_eq(rendered(&report, "text", NULL, NULL), "perro → 狗\n"
                                                            "\n"
                                                            "cross attention, layer 2, head 3\n"
                                                            "rows: target (output), columns: source\n"
                                                            "\n"
                                                            "     perro a,\"b\" </s>\n"
                                                            "狗    0.75  0.25    ·\n"
                                                            "</s>  0.10  0.20 0.70\n"
                                                            "\n"
                                                            "decoder attention, layer 1, mean of heads\n"
                                                            "rows: queries, columns: keys\n"
                                                            "\n"
                                                            "     <s>   狗\n"
                                                            "<s> 1.00    ·\n"
                                                            "狗  0.50 0.50\n");
}

/* Wide maps in blocks of at least one column; colours of cells; control characters; labels of 12 columns, of which 11 are
 * used, where the next character takes two. */
Test(formats, text_fits_its_place)
{
    static const char *const nasty[] = {"\033[2J", " ", "a\xFFz"};
    static const char *const tokens[] = {"Donaudampfschifffahrtsgesellschaft", "学习学习学习学习学习",
                                         "</s>"};
    static const struct {
        const char *const *tokens;
        struct qkv_format_options options;
        const char *part;
    } rows[] = {
        {source, LIST(.width = 16),
         "     perro a,\"b\"\n狗    0.75  0.25\n</s>  0.10  0.20\n\n     </s>\n狗      ·\n</s> 0.70\n"},
        {source, {.width = 1}, "     perro\n狗    0.75\n</s>  0.10\n\n     a,\"b\"\n"},
        {source, LIST(.colors = QKV_COLORS_TRUE, .colormap = "gray"),
         "\033[48;2;191;191;191;38;5;16m  0.75\033[0m\033[48;2;64;64;64;38;5;231m  0.25\033[0m"
         "\033[48;2;0;0;0;38;5;231m    ·\033[0m\n"},
        {source, LIST(.colors = QKV_COLORS_256, .colormap = "gray"),
         "\033[48;5;145;38;5;16m  0.75\033[0m\033[48;5;59;38;5;231m  0.25\033[0m"},
        {nasty, {0}, "     \uFFFD[2J    ␣  a\uFFFDz\n"},
        {tokens, {0}, "     Donaudampfs…  学习学习学… </s>\n"},
    };
    for (size_t i = 0; i < LENGTH_OF(rows); i++) {
        struct qkv_attention_report one = report;
        one.source = rows[i].tokens;
        char *text = rendered(&one, "text", &rows[i].options, NULL);
        cr_expect(shows(text, rows[i].part), "%s\n lacks %s", text, rows[i].part);
    }
}

Test(formats, files_hold_the_rendered_bytes)
{
    size_t size, file_size;
    char *bytes = rendered(&report, "csv", NULL, &size);
    const char *path = format("%s/map.csv", scratch("files"));
    cr_assert_eq(qkv_attention_write(&report, qkv_format_of_path(path), NULL, path, NULL), QKV_OK);
    char *file = read_file(path, &file_size);
    cr_assert(file && size == file_size && !memcmp(bytes, file, size));
}
