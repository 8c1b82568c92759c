#include "config/config_keys.h"

#include "config_text.h"

#include <float.h>
#include <locale.h>

/* Keys of all types, in the order in which they are written. */
static const char RICH[] = "name: rich-1.0\n"
                           "data:\n"
                           "  train: /datasets/x.tsv.gz\n"
                           "  test: \"/a \\\"b\\\" \\\\ #\"\n"
                           "  joint_vocabulary: true\n"
                           "  src:\n    lang: \"no\"\n    level: char\n    voc_limit: 4000\n"
                           "  trg:\n    lang: en\n    level: char\n    voc_limit: 4000\n"
                           "model:\n"
                           "  embed_initializer: xavier_normal\n"
                           "  encoder: {positions: {type: relative}}\n"
                           "  decoder:\n"
                           "    attention:\n"
                           "      value_width: 8 # a comment\n"
                           "      bias: false\n"
                           "    positions: {type: 'rotary'}\n"
                           "training:\n"
                           "  model_dir: /out/here\n"
                           "  random_seed: 9007199254740993\n"
                           "  learning_rate: 7e-4\n"
                           "  adam_betas: [0.9, 0.98]\n"
                           "  updates: 10000\n"
                           "  early_stopping_metric: chrf\n"
                           "testing: {max_output_length: 80}\n";

static const char SMALLEST[] =
    "name: x\ndata: {train: /t, src: {lang: a}, trg: {lang: b}}\ntraining: {updates: 1}\n";

static enum qkv_status read_text(struct qkv_config *config, struct qkv_arena *arena, const char *folder,
                                 const char *text, size_t size, struct qkv_messages *messages)
{
    return qkv_config_read(config, arena, write_bytes(folder, "x.yaml", text, size), NULL, 0, messages);
}

static void read_good(struct qkv_config *config, struct qkv_arena *arena, const char *folder,
                      const char *text)
{
    struct qkv_messages messages;
    enum qkv_status status = read_text(config, arena, folder, text, strlen(text), &messages);
    cr_assert_eq(status, QKV_OK, "%s", messages.count ? messages.text[0] : "no message");
    cr_assert_eq(messages.count, 0);
}

/* The next line, without its newline; NULL at the end. */
static char *next_line(char **rest)
{
    char *line = *rest, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = '\0';
    *rest = end + 1;
    return line;
}

/* What is written of a config reads back as the same config. */
static void expect_same_after_writing(const struct qkv_config *config, struct qkv_arena *arena,
                                      const char *folder)
{
    struct qkv_config again;
    for (int full = 0; full < 2; full++) {
        read_good(&again, arena, folder, config_text(config, full));
        cr_assert_str_eq(config_text(&again, true), config_text(config, true));
    }
}

Test(config, keys_of_all_types_are_read_and_written)
{
    const char *folder = scratch("config_rich");
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    read_good(&config, &arena, folder, RICH);
    cr_assert_str_eq(config.data.test, "/a \"b\" \\ #");
    cr_assert_str_eq(config.data.src.lang, "no");
    cr_assert_eq(config.model.decoder.positions.type, QKV_POSITION_ROTARY);
    cr_assert_eq(config.model.decoder.attention.bias, false);
    cr_assert_eq(config.model.encoder.attention.window, 0);
    cr_assert(shows(config_text(&config, true), "window: 1000000\n"), "the same in files and checkpoints");
    cr_assert_eq(config.training.random_seed, 9007199254740993);
    cr_assert_eq(config.training.adam_betas[1], 0.98);
    cr_assert_eq(config.training.learning_rate, 7e-4);
    expect_same_after_writing(&config, &arena, folder);
}

/* ---- every row of the table, as the reference lists them ---- */

struct row {
    char path[80], twin[80], type[40], values[400]; /* twin "": the row has one key */
};

/* The next key of the reference, which may be the second of a row; false at its end. */
static bool next_row(char **rest, struct row *row)
{
    if (*row->twin) {
        strcpy(row->path, row->twin);
        *row->twin = '\0';
        return true;
    }
    *row->values = '\0'; /* a row may have none */
    for (char *line; (line = next_line(rest));)
        if (sscanf(line, "| `%79[^`]`, `%79[^`]` | %39[^|]| %399[^|]", row->path, row->twin, row->type,
                   row->values) >= 3 ||
            sscanf(line, "| `%79[^`]` | %39[^|]| %399[^|]", row->path, row->type, row->values) >= 2)
            return true;
    return false;
}

/* Reads SMALLEST with one override. A value may contradict other keys, but its error must then name the key. A 0 may be
 * replaced by the value that it stands for. */
static enum qkv_status read_with(const char *folder, const char *path, const char *value, bool refused)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    const char *override = format("%s=%s", path, value);
    const char *file = write_bytes(folder, "x.yaml", SMALLEST, strlen(SMALLEST));
    enum qkv_status status = qkv_config_read(&config, &arena, file, &override, 1, &messages);
    cr_expect(!refused || status, "%s was accepted", override);
    if (status) {
        cr_expect(shows(messages.text[0], path), "%s: %s", override, messages.text[0]);
    } else {
        const char *name = strrchr(path, '.') ? strrchr(path, '.') + 1 : path;
        const char *text = config_text(&config, true);
        bool stands_for_another = !strcmp(value, "0");
        cr_expect(stands_for_another || strstr(text, format("%s: %s\n", name, value)), "%s is not in\n%s",
                  override, text);
        /* The default folder of a run is in the current folder; other paths are in that of the file. */
        if (*config.training.model_dir != '/') config.training.model_dir = "/run";
        expect_same_after_writing(&config, &arena, folder);
    }
    return status;
}

Test(config, every_row_of_the_table_is_read_as_the_reference_says)
{
    const char *folder = scratch("config_rows");
    char *reference;
    size_t size;
    FILE *file = open_memstream(&reference, &size);
    cr_assert_eq(qkv_schema_write_reference(&qkv_config_schema, file), QKV_OK);
    fclose(file);
    char *rest = remember(reference);
    struct row row = {.twin = ""};
    int rows = 0, accepted = 0;
    for (; next_row(&rest, &row); rows++) {
        double low, high;
        int bounds = sscanf(row.values, "between %lf and %lf", &low, &high);
        bool integer = !strncmp(row.type, "integer", 7);
        if (integer && (bounds == 2 || sscanf(row.values, "at least %lf", &low) == 1)) {
            accepted += !read_with(folder, row.path, format("%.0f", low), false);
            read_with(folder, row.path, format("%.0f", low - 1), true);
            if (bounds == 2) accepted += !read_with(folder, row.path, format("%.0f", high), false);
            if (bounds == 2) read_with(folder, row.path, format("%.0f", high + 1), true);
        } else if (!strncmp(row.type, "boolean", 7) || !strncmp(row.type, "choice", 6)) {
            char *values = format("%s", row.values); /* strtok changes them */
            for (char *value = strtok(values, "`, "); value; value = strtok(NULL, "`, "))
                accepted += !read_with(folder, row.path, value, false);
            read_with(folder, row.path, "no_such_value", true);
        } else {
            const char *value = !strncmp(row.type, "number", 6) ? "0.25"
                                : !strncmp(row.type, "two", 3)  ? "[0.25, 0.5]"
                                : !strncmp(row.type, "path", 4) ? "/x.y"
                                                                : "xy";
            accepted += !read_with(folder, row.path, value, false);
        }
    }
    cr_expect_geq(rows, 100);
    cr_expect_geq(accepted, 200);
}

Test(config, the_default_config_equals_that_of_a_file_without_keys)
{
    const char *folder = scratch("config_default");
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config, from_file;
    struct qkv_messages messages;
    cr_assert(!qkv_config_default(&config, &arena, "x") && !*config.data.train);
    config.data.train = "/t";
    config.data.src.lang = "a";
    config.data.trg.lang = "b";
    config.training.updates = 1;
    cr_assert_eq(qkv_config_finish(&config, &arena, &messages), QKV_OK);
    read_good(&from_file, &arena, folder, SMALLEST);
    cr_assert_str_eq(config_text(&config, true), config_text(&from_file, true));
}

Test(config, numbers_survive_bit_by_bit_in_every_locale)
{
    static const char text_of_numbers[] =
        "0.1 0.3333333333333333 123456.789 1e15 1e16 9007199254740993 1e22 1e23 5e-324 "
        "2.2250738585072014e-308 1.7976931348623157e308 1e-4 0.00012345678901234567 9.99e-5 "
        "2.220446049250313e-16 2e-308 100 1e100 0.30000000000000004";
    double numbers[200];
    int count = 0;
    for (char *at = format("%s", text_of_numbers); *at; count++) numbers[count] = strtod(at, &at);
    const char *folder = scratch("config_numbers");
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config, again;
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) setlocale(LC_ALL, "C");
    read_good(&config, &arena, folder, SMALLEST);
    unsigned long long state = 88172645463325252u;
    for (int i = 0; i < 200; i++) {
        double number = 0;
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(&number, &state, sizeof number);
        number = number < 0 ? -number : number;
        if (i < count) number = numbers[i];
        if (!(number <= DBL_MAX)) continue;
        config.training.clip_grad_norm = number;
        char *text RELEASED(free_memory) = config_text(&config, true);
        read_good(&again, &arena, folder, text);
        cr_assert_eq(memcmp(&again.training.clip_grad_norm, &number, sizeof number), 0, "%.17g", number);
    }
}

Test(config, texts_survive_byte_by_byte)
{
    static const char all[] =
        " |true|No|null|~|3|- a|a: b|a "
        "#b|'|\"|\\n|a\nb|\t|\x01\x7F|*a|&a|!x|%x|@x|[a]|{a}|a,b|?|---|...|\u00E4|\xC2\x85|"
        "\u00A0|\u2028|\uFEFF|\uFFFE|\U0001F600|1e3|x\r\ny|../a b/c|yes.tsv|/abs|.inf";
    char *rest = NULL;
    const char *folder = scratch("config_texts");
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config, again;
    read_good(&config, &arena, folder, SMALLEST);
    for (char *each = strtok_r(format("%s", all), "|", &rest); each; each = strtok_r(NULL, "|", &rest)) {
        config.data.src.lang = each;
        char *text = config_text(&config, true);
        read_good(&again, &arena, folder, text);
        cr_assert_str_eq(again.data.src.lang, each, "%s", text);
        cr_assert_str_empty(again.data.dev);
        /* Other readers of YAML would drop or refuse these. */
        cr_assert(lacks(text, "\xEF\xBB\xBF"));
        cr_assert_null(strpbrk(text, "\x01\x7F\t\r"));
    }
}

Test(config, names_of_values_are_those_of_configs)
{
    cr_expect_str_eq(qkv_level_name(QKV_LEVEL_CHAR), "char");
    cr_expect_str_eq(qkv_batch_type_name(QKV_BATCH_TOKEN), "token");
    cr_expect_str_eq(qkv_metric_name(QKV_METRIC_PERPLEXITY), "ppl");
    cr_expect_str_eq(qkv_metric_name((enum qkv_metric)99), "unknown");
}

/* Any bytes give a status and, exactly when it is not QKV_OK, messages of one line. */
static void survive(const char *folder, const char *bytes, size_t size)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    enum qkv_status status = read_text(&config, &arena, folder, bytes, size, &messages);
    cr_assert(status == QKV_OK || status == QKV_INVALID);
    cr_assert_eq(status == QKV_OK, messages.count == 0);
    for (int i = 0; i < messages.count; i++) {
        cr_assert_null(strchr(messages.text[i], '\n'));
        cr_assert_neq(messages.text[i][strlen(messages.text[i]) - 1], '.', "%s", messages.text[i]);
    }
}

Test(config, survives_being_cut_and_any_byte_anywhere)
{
    static const char bytes[] = {0,   '\n', '\t', '"', '\'', '[', '{', '}',    '*',
                                 '&', '!',  ':',  '-', '?',  '#', '%', '\x80', '\xFF'};
    const char *folder = scratch("config_byte");
    char *text = format("%s", RICH);
    for (size_t at = 0; at < sizeof RICH - 1; at++) {
        if (is_left_out((int64_t)at)) continue;
        survive(folder, RICH, at);
        text[at] = bytes[at % sizeof bytes];
        survive(folder, text, sizeof RICH - 1);
        text[at] = RICH[at];
    }
}

Test(config, refuses_what_is_too_deep_too_wide_or_too_large)
{
    const char *folder = scratch("config_limits");
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    size_t capacity = (16u << 20) + 2;
    char *text RELEASED(free_memory) = malloc(capacity);
    memset(text, '[', 100000);
    cr_assert_eq(read_text(&config, &arena, folder, text, 100000, &messages), QKV_INVALID);
    cr_assert(shows(messages.text[0], ":1:65: nested deeper than 64 levels"));

    size_t used = 0;
    for (int i = 0; i < 10001; i++) used += (size_t)sprintf(text + used, "k%d: 1\n", i);
    cr_assert_eq(read_text(&config, &arena, folder, text, used, &messages), QKV_INVALID);
    cr_assert_eq(messages.count, QKV_MESSAGES_MAX);

    memset(text, '#', capacity);
    cr_assert_eq(read_text(&config, &arena, folder, text, capacity, &messages), QKV_INVALID);
    cr_assert(shows(messages.text[0], "x.yaml: larger than 16 MiB"));
    cr_assert_eq(messages.count, 1);
}
