/* qkv explain with scenes: steps, formats and messages. */
#include "scene.h"

Test(explain, refuses_bad_scenes_with_line_and_column)
{
    static const char *const cases[][2] = {
        {"tokens: [a, b]\nembeddings:\n  values: [[1, 0], [0, 2, 3]]\n",
         "3:20: embeddings.values: row 2 has 3 numbers, but row 1 has 2"},
        {"tokens: [a, b]\nembeddings:\n  values: [[1, 0, 1]]\n",
         "3:3: embeddings.values is [1, 3], but must be 2 rows: a row for each word"},
        {"tokens: [a]\nembeddings: {values: [[1, 0, 1]]}\n"
         "weights:\n  from: given\n  query: [[1], [1], [1], [1]]\n  key: [[1], [1], [1]]\n"
         "  value: [[1], [1], [1]]\n",
         "5:3: weights.query is [4, 1], but must be 3 rows: the vectors are 3 wide"},
        {"tokens: [a]\nembeddings: {values: [[1]]}\nattention:\n  window: 0\n",
         "4:11: attention.window is 0, but must be between 1 and 1000000"},
        {"tokens: [a]\nembeddings: {values: [[1]]}\nattnetion: {heads: 1}\n",
         "3:1: unknown key attnetion; did you mean attention"},
        {"tokens: []\n", "1:9: tokens must hold at least one word"},
        {"tokens: [a, [b]]\n", "1:13: tokens is a list, but must be made of texts"},
        {"tokens: a b\nembeddings: {from: random, width: 4}\nattention: {heads: 3}\n",
         "3:13: attention.heads is 3, but must divide 4, the width of the vectors"},
        {"tokens: a\nembeddings: {from: random}\n",
         "2:14: embeddings.width must be given when vectors are random"},
        {"tokens: a\nembeddings: {from: learned}\n",
         "2:14: learned vectors and weights come from a run: set run.path to its folder"},
        {"tokens: a\nembeddings: {values: [[]]}\n", "2:23: embeddings.values: row 1 is empty"},
        {"tokens: a\nembeddings: {values: [[-.inf]]}\n",
         "2:14: embeddings.values contains -.inf, which only mask.values may contain"},
        {"tokens: a\nembeddings: {values: [[1]], from: random, width: 1}\n",
         "2:14: embeddings.values is given but not used: set embeddings.from to given"},
        {"tokens: a\nembeddings: {values: [[1]]}\nweights: {query: [[1]]}\n",
         "3:11: weights.query is given but not used: set weights.from to given"},
        {"tokens: a\nsource: b\nembeddings: {values: [[1]]}\n",
         "1:1: source_embeddings.values is missing: give a row for each word, or set source_embeddings.from "
         "to random"},
        {"tokens: a\nqueries: {from: given, values: [[1, 2]]}\nkeys: {from: given, values: [[1, 2, 3]]}\n"
         "values: {from: given, values: [[1]]}\n",
         "3:21: keys are 3 wide, but queries are 2 wide: their product needs the same width"},
        {"tokens: a b\nembeddings: {values: [[1], [2]]}\nmask: {type: boolean, values: [[1, 0.5], [0, 1]]}\n",
         "3:23: mask.values contains 0.5, but a boolean mask consists of 0 and 1"},
        {"tokens: a\nsource: b\nembeddings: {values: [[1]]}\nsource_embeddings: {values: [[1]]}\n"
         "mask: {type: causal}\n",
         "5:8: mask.type is causal, which is for self-attention, but there is a source"},
        {"tokens: a\nfollow: b\nembeddings: {values: [[1]]}\n",
         "2:1: follow is 'b', but must be one of the tokens, or a number from 1 to 1"},
        {"tokens: a\nembeddings: {values: [[1]]}\nsum: {components: 2}\n",
         "3:7: sum.components is 2, but the context has 1"},
        {"tokens: a\nembeddings: {values: &x [[1]]}\n",
         "2:22: anchors are refused (&x); write the value out where it is used"},
        {"tokens: a\ntokens: b\n", "2:1: duplicate key tokens, already given in line 1"},
    };
    enter(scratch("refusals"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(".", "s.yaml", cases[i][0]);
        cr_expect(refused(run("qkv explain s.yaml"), format("s.yaml:%s", cases[i][1])), "%s", cases[i][0]);
    }
}

/* ---- scenes ---- */

static const char *scene_of(const char *text)
{
    static int number;
    return write_text(scratch("scenes"), format("%d.yaml", number++), text);
}

#define WORDS "tokens: a b c\nembeddings: {values: [[1, 0], [0, 2], [1, 1]]}\nweights: {from: none}\n"

#define GIVEN                                                                                                \
    "tokens: a\nsource: x y\nqueries: {from: given, values: [[1, 2]]}\n"                                     \
    "keys: {from: given, values: [[1, 0], [3, 1]]}\nvalues: {from: given, values: [[1], [2]]}\n"             \
    "weights:\n  from: given\n"
#define CAUSAL  WORDS "mask: {type: causal}\n"
#define BOOLEAN WORDS "mask: {type: boolean, values: [[1, 0, 1], [0, 0, 0], [1, 1, 1]]}\n"
#define LETTERS                                                                                              \
    "tokens: [a]\nsource: [niño, gato]\nsource_embeddings: {from: letters}\nweights: {from: none}\n"        \
    "attention: {score: length}\n"
#define ADDITIVE                                                                                             \
    GIVEN "  score_query: [[1], [1]]\n  score_key: [[1], [1]]\n  score_vector: [[2]]\n"                      \
          "attention: {score: additive}\n"

Test(explain, computes_masks_and_scores)
{
    const struct {
        const char *scene, *step;
        int row, count;
        double numbers[8];
    } cases[] = {
        {CAUSAL, "mask", 0, 6, {1, 0, 0, 1, 1, 0}},
        {CAUSAL, "weights", 0, 3, {1, 0, 0}},
        {CAUSAL "attention: {window: 1}\n", "mask", 2, 3, {0, 1, 1}},
        {WORDS "attention: {window: 1}\n", "mask", 0, 3, {1, 1, 0}},
        {"tokens: [a, b, <pad>]\nembeddings: {values: [[1, 0], [0, 2], [1, 1]]}\nweights: {from: none}\n"
         "mask: {type: padding}\n",
         "mask", 0, 3, LIST(1, 1, 0)},
        {WORDS "mask: {type: added, values: [[0, 1, -.inf], [0, 0, 0], [5, 0, 0]]}\n", "weights", 0, 3,
         LIST(1 / (1 + exp(1 - 1 / sqrt(2))), 1 / (1 + exp(1 / sqrt(2) - 1)), 0)},
        /* A row without visible words is zero. */
        {BOOLEAN, "weights", 0, 6, {0.5, 0, 0.5, 0, 0, 0}},
        {BOOLEAN, "context", 1, 2, {0, 0}},
        /* A letter is a character, however many bytes it takes. */
        {LETTERS, "weights", 0, 2, {0.5, 0.5}},
        {LETTERS, "source_embeddings", 0, 8, {14, 9, 0, 15, 7, 1, 20, 15}},
        {GIVEN "attention: {score: dot}\n", "scores", 0, 2, {1, 5}},
        {GIVEN, "scaled_scores", 0, 2, {1 / sqrt(2), 5 / sqrt(2)}},
        /* q W = [1, 2] [[0, 1], [1, 0]] = [2, 1] */
        {GIVEN "  score: [[0, 1], [1, 0]]\nattention: {score: general}\n", "scores", 0, 2, {2, 7}},
        /* v tanh(q W + k U), A = 1: q W = 3, k U = 1 and 4, v = 2 */
        {ADDITIVE, "scores", 0, 2, {2 * tanh(4), 2 * tanh(7)}},
        {ADDITIVE, "weights", 0, 2,
         LIST(1 / (1 + exp(2 * tanh(7) - 2 * tanh(4))), 1 / (1 + exp(2 * tanh(4) - 2 * tanh(7))))},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_row(walk_of(scene_of(cases[i].scene)), cases[i].step, cases[i].row, cases[i].count,
                   cases[i].numbers, 12);
    const cJSON *walk = walk_of(scene_of(BOOLEAN));
    cr_expect(isnan(number_of(step_of(walk, 0, "masked_scores"), 0, 0, 1)), "hidden scores are null");
    cr_expect_not_null(json_at(step_of(walk, 0, "weights"), "note"), "a note on the empty row");
    cr_expect_null(step_of(walk_of(scene_of(GIVEN "attention: {score: dot}\n")), 0, "scaled_scores"));
}

Test(explain, gives_each_head_its_own_scores)
{
    static const char HEADS[] =
        "tokens: a b\nsource: x y z\nrandom: {seed: 7}\n"
        "embeddings: {from: random, width: 3}\nsource_embeddings: {from: random, width: 5}\n"
        "weights: {from: random, draw: normal, bias: random}\n"
        "attention: {score: %s, heads: 2, key_width: 4, value_width: 3, output: true}\n";
    for (int additive = 0; additive < 2; additive++) {
        const cJSON *walk = walk_of(scene_of(format(HEADS, additive ? "additive" : "general")));
        const cJSON *queries = step_of(walk, 0, "queries"), *keys = step_of(walk, 0, "keys");
        expect_shape(walk, "scores", "[2,2,3]");
        expect_shape(walk, "output", "[2,3]");
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++) {
                    double score = 0;
                    for (int a = 0; a < 4; a++) {
                        double inside = 0;
                        for (int d = 0; d < 4; d++) {
                            if (additive)
                                inside += number_of(queries, h, i, d) *
                                              number_of(step_of(walk, 0, "score_query"), h, d, a) +
                                          number_of(keys, h, j, d) *
                                              number_of(step_of(walk, 0, "score_key"), h, d, a);
                            else
                                inside += number_of(queries, h, i, d) *
                                          number_of(step_of(walk, 0, "score_weights"), h, d, a);
                        }
                        score += additive
                                     ? number_of(step_of(walk, 0, "score_vector"), h, 0, a) * tanh(inside)
                                     : inside * number_of(keys, h, j, a);
                    }
                    cr_expect_float_eq(number_of(step_of(walk, 0, "scores"), h, i, j), score, 1e-12);
                }
    }
}

Test(explain, draws_the_same_vector_for_the_same_word)
{
    const cJSON *walk =
        walk_of(scene_of("tokens: a b a\nembeddings: {from: random, width: 4}\nweights: {from: none}\n"));
    const cJSON *x = step_of(walk, 0, "embeddings");
    for (int d = 0; d < 4; d++) {
        cr_expect_eq(number_of(x, 0, 0, d), number_of(x, 0, 2, d));
        cr_expect_neq(number_of(x, 0, 0, d), number_of(x, 0, 1, d));
    }
}

/* The matrices of two heads, below each other, are the matrix of one head with twice the inputs. */
Test(explain, draws_matrices_head_by_head)
{
    static const char *const SCENE =
        "tokens: a\nembeddings: {values: [[%s]]}\nweights: {from: random, draw: uniform}\n"
        "attention: {heads: %d, key_width: 2, value_width: 1}\n";
    const cJSON *two = step_of(walk_of(scene_of(format(SCENE, "1, 2", 2))), 0, "query_weights"),
                *one = step_of(walk_of(scene_of(format(SCENE, "1, 2, 3, 4", 1))), 0, "query_weights");
    for (int i = 0; i < 4; i++)
        for (int d = 0; d < 2; d++) cr_expect_eq(number_of(two, i / 2, i % 2, d), number_of(one, 0, i, d));
}

/* ---- formats ---- */

static size_t characters_of(const char *line)
{
    size_t characters = 0;
    for (const char *c = line; *c; c++) characters += (*c & 0xC0) != 0x80;
    return characters;
}

/* All 40 columns of the values, in blocks with headings. */
static void expect_blocks(const char *text)
{
    int next = 1;
    const char *step = strstr(text, "  values   V = ");
    cr_assert_not_null(step);
    char *copy = strdup(step), *end = strstr(copy, "\n\n"), *line;
    if (end) *end = 0;
    strtok(copy, "\n");
    while ((line = strtok(NULL, "\n"))) {
        char *at = line + strspn(line, " ");
        if (line[4] != ' ') continue; /* a row begins with its word */
        for (int number, used; sscanf(at, "%d%n", &number, &used) == 1; at += used)
            cr_expect_eq(number, next++, "%s", line);
    }
    cr_expect_eq(next, 41);
    free(copy);
}

Test(explain, shortens_large_matrices_except_with_full_and_hides_no_columns)
{
    const char *scene = scene_of("name: large\ntokens: a b\nembeddings: {from: random, width: 40}\n"
                                 "weights: {from: random}\nattention: {key_width: 3, value_width: 40}\n");
    struct outcome elided = run("qkv explain '%s'", scene), full = run("qkv explain '%s' --full", scene);
    cr_expect(shows(elided.output, "⋮"));
    cr_expect(lacks(full.output, "⋮"));
    for (int i = 0; i < 2; i++) {
        char *text = i ? full.output : elided.output;
        cr_expect(lacks(text, "…"));
        expect_blocks(text);
        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            cr_expect_leq(characters_of(line), 80, "%s", line);
    }
}

/* A formula that would move the shape out of its column is in the next line. */
Test(explain, has_all_shapes_in_one_column)
{
    char *output = run_ok("cd '%s' && qkv explain configs/seeds/attention_from_scratch.yaml", QKV_SOURCE_DIR);
    int shapes = 0;
    cr_expect(shows(output, "\n    P[p, 2i] = sin(p / base^(2i/D)), P[p, 2i+1] = cos of the same\n"));
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        bool is_title = line[0] == ' ' && line[1] != ' ' && !strncmp(line + 2, "  ", 2) && line[4] != ' ';
        shapes += is_title;
        if (is_title) cr_expect_eq(characters_of(line), 80, "%s", line);
    }
    cr_expect_gt(shapes, 5);
}

#define SCENE SEEDS "/general_attention.yaml"
#define TEN   "aaaaaaaaaa"
#define FIFTY TEN TEN TEN TEN TEN
#define LONG  FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY

Test(explain, takes_settings_and_refuses_options_that_exclude_each_other)
{
    static const char *const cases[][2] = {
        {SCENE " word",
         "qkv: " SCENE " is not a run folder, and a scene takes no SENTENCE: its key tokens has the words"},
        {SCENE " --target x", "qkv: --target is for runs, but " SCENE " is not a run folder"},
        {SCENE " --versus random", "qkv: --versus is for runs, but " SCENE " is not a run folder"},
        {SCENE " --words", "qkv: --words is for runs, but " SCENE " is not a run folder"},
        {LONG, "qkv: " LONG ": File name too long"}, /* what cannot be looked at is neither */
        {SCENE " --head 0", "qkv: --head is '0', but must be a number from 1, all or best"},
        /* --follow is short for a setting, by which messages call it. */
        {"s.yaml --follow c",
         "-s follow=c: follow is 'c', but must be one of the tokens, or a number from 1 to 2"},
        {"s.yaml -s mask=causal",
         "-s mask=causal: mask is a section; set one of its keys: mask.type, mask.values, mask.padding"},
    };
    enter(scratch("settings"));
    write_text(".", "s.yaml", "tokens: [a, b]\nembeddings: {values: [[1], [2]]}\n");
    EXPECT_REFUSALS("qkv explain", cases);
    cr_expect_eq(run("qkv explain s.yaml -s --follow=1").exit_code, 2, "two dashes begin no key");
    /* As many settings as an option may be repeated, and --follow. */
    const char *settings = "";
    for (int i = 0; i < 64; i++) settings = format("%s -s attention.heads=1", settings);
    expect_shape(json_by("qkv explain s.yaml %s --follow b -f json", settings), "weights", "[1,2]");
    cr_expect(refused(run("qkv explain s.yaml %s -s attention.heads=1", settings),
                      "qkv: --set is given more than 64 times"));
    cr_expect(shows(run_ok("qkv explain --reference"), "| `attention.score` | choice | `scaled_dot`, `dot`"));
}
