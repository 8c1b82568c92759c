/* --words of qkv attention and qkv explain, with byte-pair encoding: the maps of tokens, merged by hand. */
#include "scene.h"
#include "tiny_run.h"

enum { CAPACITY = 32 };

/* Trains a run whose words are cut into pieces. */
static void enter_pieces(void)
{
    enter_tiny();
    run_ok("qkv train tiny.yaml -q --overwrite -s data.src.level=bpe -s data.src.num_merges=3 -s "
           "data.trg.level=bpe -s training.snapshots=2 -s data.trg.num_merges=2 -s "
           "model.encoder.positions.max_length=50 -s model.decoder.positions.max_length=50 -s "
           "data.src.max_length=40 -s data.trg.max_length=40");
}

static bool continues(const char *token)
{
    size_t length = strlen(token);
    return length > 2 && !strcmp(token + length - 2, "@@");
}

/* Words from pieces: the word of each token, and the names of the words. Returns how many. */
static int group(const cJSON *tokens, int word[CAPACITY], char *name[CAPACITY])
{
    int count = 0;
    bool goes_on = false;
    for (int i = 0; i < cJSON_GetArraySize(tokens); i++) {
        const char *token = json_text(tokens, format("%d", i));
        if (!goes_on) name[count++] = format("%s", "");
        word[i] = count - 1;
        goes_on = continues(token) && i + 1 < cJSON_GetArraySize(tokens);
        name[count - 1] = format("%s%.*s", name[count - 1], (int)strlen(token) - 2 * goes_on, token);
    }
    return count;
}

/* Expects a matrix between words, at this path, to be that between tokens, merged by the names of rows and columns. */
static void expect_merged(const cJSON *tokens, const cJSON *words, const char *path)
{
    const char *const axes[] = {cJSON_IsArray(json_at(tokens, "rows")) ? "rows" : "rows.output", "columns"};
    const cJSON *pieces = json_at(tokens, path), *merged = json_at(words, path);
    int word[2][CAPACITY], count[2];
    for (int axis = 0; axis < 2; axis++) {
        char *name[CAPACITY];
        count[axis] = group(json_at(tokens, axes[axis]), word[axis], name);
        cr_assert_eq(json_size(words, axes[axis]), count[axis]);
        for (int i = 0; i < count[axis]; i++)
            cr_expect_str_eq(json_text(words, format("%s.%d", axes[axis], i)), name[i]);
    }
    for (int i = 0; i < count[0]; i++) {
        double row_sum = 0;
        for (int j = 0; j < count[1]; j++) {
            double sum = 0;
            int parts = 0;
            for (int r = 0; r < json_size(pieces, ""); r++) {
                parts += word[0][r] == i;
                for (int c = 0; c < json_size(pieces, "0"); c++)
                    if (word[0][r] == i && word[1][c] == j) sum += json_cell(pieces, r, c);
            }
            cr_expect_float_eq(json_cell(merged, i, j), sum / parts, 1e-12);
            row_sum += json_cell(merged, i, j);
        }
        cr_expect_float_eq(row_sum, 1, 1e-6, "a row sums to 1");
    }
}

static void expect_words(const char *command)
{
    const cJSON *tokens = json_by("qkv %s -f json", command),
                *merged = json_by("qkv %s --words -f json", command);
    cr_assert_lt(json_size(merged, "source"), json_size(tokens, "source"), "some words have several pieces");
    cr_assert_lt(json_size(merged, "target_output"), json_size(tokens, "target_output"));
    cr_assert_eq(json_size(tokens, "maps"), 2 * 2 + 2 + 2);
    for (int i = 0; i < json_size(tokens, "maps"); i++) {
        const cJSON *words = json_at(merged, format("maps.%d", i));
        const char *input = strcmp(json_text(words, "kind"), "decoder") ? "source" : "target_input";
        expect_merged(json_at(tokens, format("maps.%d", i)), words, "weights");
        cr_expect(cJSON_Compare(json_at(words, "columns"), json_at(merged, input), true));
    }
    cr_expect(cJSON_Compare(json_at(merged, "maps.7.rows.output"), json_at(merged, "target_output"), true));
}

#define FOUR "run 'one four' -t 'uno cuatro' "

static void expect_word_weights(const char *options)
{
    const cJSON *explanation = json_by("qkv explain " FOUR "--words %s -f json", options);
    for (int head = 0; head < 2; head++)
        expect_merged(step_of(explanation, 0, "weights"), step_of(explanation, 0, "word_weights"),
                      format("values.%d", head));
}

static int width_of_png(const char *path)
{
    const unsigned char *header = (const unsigned char *)read_file(path, NULL);
    cr_assert_not_null(header);
    return header[16] << 24 | header[17] << 16 | header[18] << 8 | header[19];
}

Test(words, merge_the_pieces_of_words)
{
    static const char *const options[] = {"", "--kind encoder --layer 1", "--kind decoder",
                                          "--follow 2 --follow 4 --follow 5", "--follow cuatro"};
    enter_pieces();
    expect_words("attention " FOUR);
    expect_words("attention run 'one two four three'"); /* the run's own translation */
    /* Each piece of a word counts alike, however large its norms are. */
    expect_words("attention " FOUR "--measure norms");
    for (int i = 0; i < 5; i++) expect_word_weights(options[i]);
    cr_expect(shows(run_ok("qkv attention " FOUR "-f json"), "@@"));
    /* One of its pieces follows the complete word, too. */
    const cJSON *rows = json_at(
        step_of(json_by("qkv explain " FOUR "--words --follow 4 -f json"), 0, "word_weights"), "rows");
    cr_expect_str_eq(remember(cJSON_PrintUnformatted(rows)), "[\"cuatro\"]");
    const cJSON *all = step_of(json_by("qkv explain " FOUR "--words -f json"), 0, "word_weights"),
                *one = step_of(json_by("qkv explain " FOUR "--words --follow cuatro -f json"), 0,
                               "word_weights");
    cr_expect(cJSON_Compare(json_at(all, "values.0.1"), json_at(one, "values.0.0"), true));
    cr_expect_null(step_of(json_by("qkv explain " FOUR "-f json"), 0, "word_weights"));
    cr_expect(shows(run_ok("qkv explain " FOUR "--words -f svg"), ">cuatro<")); /* a picture shows words */
    cr_expect(shows(run_ok("qkv explain " FOUR "--words --head best"), "weights between words"));
    run_ok("qkv film " FOUR "-q -o tokens.png && qkv film " FOUR "-q --words -o words.png");
    cr_expect_lt(width_of_png("words.png"), width_of_png("tokens.png"));
}
