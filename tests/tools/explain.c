/* qkv explain: the walk, its formats, and what it refuses. */
#include "scene.h"

static void expect_refusal(const char *scene, const char *message)
{
    static int number;
    const char *path = write_text(scratch("refusals"), format("%d.yaml", number++), scene);
    struct outcome outcome = run("qkv explain '%s'", path);
    cr_expect_eq(outcome.exit_code, 2, "%s", scene);
    cr_expect_str_empty(outcome.output);
    cr_expect_str_eq(outcome.error, format("%s:%s\n", path, message), "%s\n got %s", scene, outcome.error);
}

Test(explain, refuses_bad_scenes_with_line_and_column)
{
    expect_refusal("tokens: [a, b]\nembeddings:\n  values: [[1, 0], [0, 2, 3]]\n",
                   "3:20: embeddings.values: row 2 has 3 numbers, but row 1 has 2");
    expect_refusal("tokens: [a, b]\nembeddings:\n  values: [[1, 0, 1]]\n",
                   "3:3: embeddings.values is [1, 3], but must be 2 rows: a row for each word");
    expect_refusal("tokens: [a]\nembeddings: {values: [[1, 0, 1]]}\n"
                   "weights:\n  from: given\n  query: [[1], [1], [1], [1]]\n  key: [[1], [1], [1]]\n"
                   "  value: [[1], [1], [1]]\n",
                   "5:3: weights.query is [4, 1], but must be 3 rows: the vectors are 3 wide");
    expect_refusal("tokens: [a]\nembeddings: {values: [[1]]}\nattention:\n  window: 0\n",
                   "4:11: attention.window is 0, but must be between 1 and 1000000");
    expect_refusal("tokens: [a]\nembeddings: {values: [[1]]}\nattnetion: {heads: 1}\n",
                   "3:1: unknown key attnetion; did you mean attention");
}
