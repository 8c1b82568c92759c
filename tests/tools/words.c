/* --words of qkv attention and qkv explain, with byte-pair encoding: the maps of tokens, merged by hand. */
#include "tiny_run.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum { CAPACITY = 32 };

/* A folder with a run whose words are cut into pieces. */
static const char *pieces(void)
{
    const char *folder = scratch("pieces");
    run_ok("cp '%s/train.tsv' '%s/tiny.yaml' '%s'", tiny_folder("words"), tiny_folder("words"), folder);
    run_ok("cd '%s' && qkv train tiny.yaml -q -s data.src.level=bpe -s data.src.num_merges=3 -s "
           "data.trg.level=bpe -s training.snapshots=2 -s data.trg.num_merges=2 -s "
           "model.encoder.positions.max_length=50 -s model.decoder.positions.max_length=50 -s "
           "data.src.max_length=40 -s data.trg.max_length=40",
           folder);
    return folder;
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
        const char *token = cJSON_GetArrayItem(tokens, i)->valuestring;
        if (!goes_on) name[count++] = format("%s", "");
        word[i] = count - 1;
        goes_on = continues(token) && i + 1 < cJSON_GetArraySize(tokens);
        name[count - 1] = format("%s%.*s", name[count - 1], (int)strlen(token) - 2 * goes_on, token);
    }
    return count;
}

static double cell(const cJSON *matrix, int row, int column)
{
    return cJSON_GetArrayItem(cJSON_GetArrayItem(matrix, row), column)->valuedouble;
}

static void expect_merged(const cJSON *tokens, const cJSON *words, const int *row_word, int rows,
                          const int *column_word, int columns)
{
    cr_assert_eq(cJSON_GetArraySize(words), rows);
    int token_rows = cJSON_GetArraySize(tokens),
        token_columns = cJSON_GetArraySize(cJSON_GetArrayItem(tokens, 0));
    for (int i = 0; i < rows; i++) {
        double row_sum = 0;
        cr_assert_eq(cJSON_GetArraySize(cJSON_GetArrayItem(words, i)), columns);
        for (int j = 0; j < columns; j++) {
            double sum = 0;
            int parts = 0;
            for (int r = 0; r < token_rows; r++) {
                parts += row_word[r] == i;
                for (int c = 0; c < token_columns; c++)
                    if (row_word[r] == i && column_word[c] == j) sum += cell(tokens, r, c);
            }
            cr_expect_float_eq(cell(words, i, j), sum / parts, 1e-12);
            row_sum += cell(words, i, j);
        }
        cr_expect_float_eq(row_sum, 1, 1e-6, "a row sums to 1");
    }
}

static cJSON *shown(const char *folder, const char *command)
{
    char *output = run_ok("cd '%s' && qkv %s -f json", folder, command);
    return remember(cJSON_Parse(output));
}

/* The names of the tokens of a report, which must be those of `tokens`, merged. */
static int expect_tokens(const cJSON *tokens, const cJSON *merged, const char *key, int word[CAPACITY])
{
    char *name[CAPACITY];
    int count = group(cJSON_GetObjectItem(tokens, key), word, name);
    const cJSON *names = cJSON_GetObjectItem(merged, key);
    cr_assert_eq(cJSON_GetArraySize(names), count, "%s", key);
    for (int i = 0; i < count; i++) cr_expect_str_eq(cJSON_GetArrayItem(names, i)->valuestring, name[i]);
    return count;
}

static void expect_words(const char *folder, const char *command)
{
    const cJSON *tokens = shown(folder, command), *merged = shown(folder, format("%s --words", command));
    int source_word[CAPACITY], input_word[CAPACITY], output_word[CAPACITY];
    int sources = expect_tokens(tokens, merged, "source", source_word),
        inputs = expect_tokens(tokens, merged, "target_input", input_word),
        outputs = expect_tokens(tokens, merged, "target_output", output_word);
    cr_assert_lt(sources, cJSON_GetArraySize(cJSON_GetObjectItem(tokens, "source")),
                 "some words have several pieces");
    cr_assert_lt(outputs, cJSON_GetArraySize(cJSON_GetObjectItem(tokens, "target_output")));
    const cJSON *maps = cJSON_GetObjectItem(tokens, "maps"), *word_maps = cJSON_GetObjectItem(merged, "maps");
    cr_assert_eq(cJSON_GetArraySize(maps), 2 * 2 + 2 + 2);
    for (int i = 0; i < cJSON_GetArraySize(maps); i++) {
        const cJSON *map = cJSON_GetArrayItem(maps, i), *words = cJSON_GetArrayItem(word_maps, i);
        const char *kind = cJSON_GetObjectItem(map, "kind")->valuestring;
        bool decoder = !strcmp(kind, "decoder"), encoder = !strcmp(kind, "encoder");
        expect_merged(cJSON_GetObjectItem(map, "weights"), cJSON_GetObjectItem(words, "weights"),
                      encoder   ? source_word
                      : decoder ? input_word
                                : output_word,
                      encoder   ? sources
                      : decoder ? inputs
                                : outputs,
                      decoder ? input_word : source_word, decoder ? inputs : sources);
    }
}

static const cJSON *step(const cJSON *explanation, const char *name)
{
    const cJSON *item, *walk = cJSON_GetArrayItem(cJSON_GetObjectItem(explanation, "walks"), 0);
    cJSON_ArrayForEach(
        item, cJSON_GetObjectItem(walk, "steps")) if (!strcmp(cJSON_GetObjectItem(item, "name")->valuestring,
                                                              name)) return item;
    return NULL;
}

static void expect_word_weights(const char *folder, const char *options)
{
    const cJSON *explanation =
        shown(folder, format("explain run 'one four' -t 'uno cuatro' --words %s", options));
    const cJSON *weights = step(explanation, "weights"), *words = step(explanation, "word_weights");
    int row_word[CAPACITY], column_word[CAPACITY];
    char *name[CAPACITY];
    cr_assert_not_null(words);
    int rows = group(cJSON_GetObjectItem(weights, "rows"), row_word, name);
    for (int i = 0; i < rows; i++)
        cr_expect_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(words, "rows"), i)->valuestring, name[i]);
    int columns = group(cJSON_GetObjectItem(weights, "columns"), column_word, name);
    for (int i = 0; i < columns; i++)
        cr_expect_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(words, "columns"), i)->valuestring, name[i]);
    for (int head = 0; head < 2; head++)
        expect_merged(cJSON_GetArrayItem(cJSON_GetObjectItem(weights, "values"), head),
                      cJSON_GetArrayItem(cJSON_GetObjectItem(words, "values"), head), row_word, rows,
                      column_word, columns);
}

static int width_of_png(const char *path)
{
    const unsigned char *header = (const unsigned char *)read_file(path, NULL);
    cr_assert_not_null(header);
    return header[16] << 24 | header[17] << 16 | header[18] << 8 | header[19];
}

Test(words, merge_the_pieces_of_words)
{
    const char *folder = enter(pieces());
    expect_words(folder, "attention run 'one four' -t 'uno cuatro'");
    expect_words(folder, "attention run 'one two four three'"); /* the run's own translation */
    /* Each piece of a word counts alike, however large its norms are. */
    expect_words(folder, "attention run 'one four' -t 'uno cuatro' --measure norms");
    static const char *const kinds[] = {"", "--kind encoder --layer 1", "--kind decoder"};
    const char *pieces_of_four = run("qkv attention run 'one four' -t 'uno cuatro' -f json").output;
    for (int i = 0; i < 3; i++) expect_word_weights(folder, kinds[i]);
    cr_assert(shows(pieces_of_four, "@@"));
    expect_word_weights(folder, "--follow 2 --follow 4 --follow 5");
    expect_word_weights(folder, "--follow cuatro");
    /* One of its pieces follows the complete word, too. */
    const cJSON *rows = cJSON_GetObjectItem(
        step(shown(folder, "explain run 'one four' -t 'uno cuatro' --words --follow 4"), "word_weights"),
        "rows");
    cr_assert_eq(cJSON_GetArraySize(rows), 1);
    cr_expect_str_eq(cJSON_GetArrayItem(rows, 0)->valuestring, "cuatro");
    const cJSON *all = step(shown(folder, "explain run 'one four' -t 'uno cuatro' --words"), "word_weights"),
                *one = step(shown(folder, "explain run 'one four' -t 'uno cuatro' --words --follow cuatro"),
                            "word_weights");
    const cJSON *head = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "values"), 0),
                *followed = cJSON_GetArrayItem(cJSON_GetObjectItem(one, "values"), 0);
    cr_expect(cJSON_Compare(cJSON_GetArrayItem(head, 1), cJSON_GetArrayItem(followed, 0), true));
    cr_assert_null(step(shown(folder, "explain run 'one four' -t 'uno cuatro'"), "word_weights"));
    const char *picture = run("qkv explain run 'one four' -t 'uno cuatro' --words -f svg").output;
    cr_expect(shows(picture, ">cuatro<"), "a picture shows words");
    struct outcome text = run("qkv explain run 'one four' -t 'uno cuatro' --words --head best");
    cr_expect(shows(text.output, "weights between words"), "%s", text.error);
    run_ok("qkv film run 'one four' -t 'uno cuatro' -q -o tokens.png && qkv film run 'one four' -t 'uno "
           "cuatro' -q --words -o words.png");
    cr_expect_lt(width_of_png("words.png"), width_of_png("tokens.png"));
    cr_expect(refused(
        run("qkv explain '%s/configs/seeds/general_attention.yaml' --words", QKV_SOURCE_DIR),
        format("qkv: --words is for runs, but %s/configs/seeds/general_attention.yaml is not a run folder",
               QKV_SOURCE_DIR)));
}
