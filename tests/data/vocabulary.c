#include "data/corpus.h"
#include "framework/engine/core/text.h"

#include "support.h"

static struct qkv_types types_of(const char *line)
{
    struct qkv_types types = {0};
    char *copy RELEASED(free_memory) = format("%s", line);
    for (char *token = strtok(copy, " "); token; token = strtok(NULL, " "))
        cr_assert_geq(qkv_types_add(&types, token, 1), 0);
    return types;
}

static struct qkv_vocabulary vocabulary_of(const char *line, int64_t limit, int64_t minimum)
{
    struct qkv_types types RELEASED(qkv_types_release) = types_of(line);
    const struct qkv_types *texts[] = {&types};
    struct qkv_vocabulary vocabulary;
    cr_assert_eq(qkv_vocabulary_build(&vocabulary, 1, texts, limit, minimum, NULL), QKV_OK);
    return vocabulary;
}

static void expect(struct qkv_vocabulary vocabulary, const char *tokens)
{
    char *all RELEASED(free_memory) = calloc(1, 1000), *end = all;
    for (int32_t id = 0; id < vocabulary.size; id++) {
        const char *token = qkv_vocabulary_token(&vocabulary, id);
        end += sprintf(end, "%s%s", id ? " " : "", token);
        cr_expect_eq(qkv_vocabulary_id(&vocabulary, token), id < QKV_SPECIALS ? QKV_UNKNOWN : id);
    }
    cr_expect_str_eq(all, tokens);
    qkv_vocabulary_release(&vocabulary);
}

Test(types, counts_strings)
{
    struct qkv_types types = types_of("b a b c b a");
    cr_assert_eq(types.size, 3);
    cr_assert_str_eq(qkv_types_token(&types, 0), "b");
    cr_assert_eq(types.frequency[0], 3);
    cr_assert_eq(qkv_types_find(&types, "c"), 2);
    cr_assert_eq(qkv_types_find(&types, "d"), -1);
    qkv_types_release(&types);
    cr_assert_eq(qkv_types_find(&types, "c"), -1);
}

Test(vocabulary, puts_the_most_frequent_first_and_ties_in_byte_order)
{
    expect(vocabulary_of("b a c b é z Z b c", 0, 1), "<unk> <s> </s> b c Z a z é");
    expect(vocabulary_of("é c b Z c z b a b", 0, 1), "<unk> <s> </s> b c Z a z é");
}

Test(vocabulary, applies_limit_and_minimum)
{
    expect(vocabulary_of("b a c b z b c", 2, 1), "<unk> <s> </s> b c");
    expect(vocabulary_of("b a c b z b c", 0, 2), "<unk> <s> </s> b c");
    expect(vocabulary_of("b a c b z b c", 1, 2), "<unk> <s> </s> b");
    expect(vocabulary_of("b a", 0, 5), "<unk> <s> </s>");
    expect(vocabulary_of("", 0, 1), "<unk> <s> </s>");
}

Test(vocabulary, treats_special_tokens_in_text_as_unknown)
{
    struct qkv_vocabulary vocabulary = vocabulary_of("</s> </s> <unk> <s> a <S>", 0, 1);
    cr_assert_eq(qkv_vocabulary_id(&vocabulary, "never seen"), QKV_UNKNOWN);
    expect(vocabulary, "<unk> <s> </s> <S> a");
    expect(vocabulary_of("</s> </s> <s> <s> b a a", 2, 1), "<unk> <s> </s> a b");
}

Test(vocabulary, gives_the_tokens_of_a_sentence)
{
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = vocabulary_of("b a b", 0, 1);
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    static const int32_t IDS[] = {4, QKV_UNKNOWN, 3, 5};
    const char **tokens = qkv_vocabulary_tokens(&vocabulary, 4, IDS, &arena);
    cr_assert_not_null(tokens);
    cr_expect(!strcmp(tokens[0], "a") && !strcmp(tokens[1], "<unk>") && !strcmp(tokens[2], "b"));
    cr_expect_null(tokens[3], "no token has id 5");
    cr_expect_not_null(qkv_vocabulary_tokens(&vocabulary, 0, NULL, &arena));
    cr_expect_not_null(qkv_vocabulary_tokens(&vocabulary, -1, NULL, &arena));
}

Test(vocabulary, can_be_built_from_two_texts)
{
    struct qkv_types a RELEASED(qkv_types_release) = types_of("x y y"),
                       b RELEASED(qkv_types_release) = types_of("x x z");
    const struct qkv_types *texts[] = {&a, &b};
    struct qkv_vocabulary vocabulary;
    cr_assert_eq(qkv_vocabulary_build(&vocabulary, 2, texts, 0, 1, NULL), QKV_OK);
    cr_assert_eq(vocabulary.types.frequency[3], 3);
    expect(vocabulary, "<unk> <s> </s> x y z");
}

Test(vocabulary, is_restored_from_its_file)
{
    const char *folder = scratch("data_vocabulary");
    const char *path = format("%s/src_vocab.txt", folder);
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = vocabulary_of("b a b « é ▁ 今", 0, 1),
                                     loaded;
    expect_done(qkv_vocabulary_save(&vocabulary, path, &error));
    cr_assert_str_eq(read_file(path, NULL), "<unk>\n<s>\n</s>\nb\na\n«\né\n▁\n今\n");
    expect_done(qkv_vocabulary_load(&loaded, path, &error));
    cr_assert_eq(qkv_vocabulary_id(&loaded, "今"), qkv_vocabulary_id(&vocabulary, "今"));
    expect(loaded, "<unk> <s> </s> b a « é ▁ 今");
    cr_assert_eq(qkv_vocabulary_save(&vocabulary, format("%s/none/v", folder), &error), QKV_INVALID);
}

Test(vocabulary, differences_are_found)
{
    static const struct {
        const char *text;
        int32_t difference;
    } rows[] = {{"a\nb\n", -1}, {"a\nc\n", 4}, {"b\na\n", 3}, {"a\n", 4}, {"a\nb\nc\n", 5}, {"", 3}};
    const char *folder = scratch("differences");
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release), other;
    const char *path = write_text(folder, "a", "<unk>\n<s>\n</s>\na\nb\n");
    cr_assert_eq(qkv_vocabulary_load(&vocabulary, path, NULL), QKV_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        path = write_text(folder, "b", format("<unk>\n<s>\n</s>\n%s", rows[i].text));
        cr_assert_eq(qkv_vocabulary_load(&other, path, NULL), QKV_OK);
        cr_expect_eq(qkv_vocabulary_difference(&vocabulary, &other), rows[i].difference);
        cr_expect_eq(qkv_vocabulary_difference(&other, &vocabulary), rows[i].difference);
        qkv_vocabulary_release(&other);
    }
}

Test(vocabulary, reports_errors_of_its_file)
{
    static const char *const rows[][2] = {
        {"<unk>\n<s>\n</s>\na\n\nb\n", ":5: the line is empty"},
        {"<unk>\n<s>\n</s>\na\nb\na\n", ":6: \"a\" repeats line 4"},
        {"<unk>\n<s>\n</s>\n<s>\n", ":4: \"<s>\" repeats line 2"},
        {"<unk>\n<s>\n</s>\na b\n", ":4: \"a b\" contains white space, which no token does"},
        {"<unk>\n<s>\n</s>\na\u00A0\n", ":4: \"a\u00A0\" contains white space, which no token does"},
        {"<unk>\n<s>\n</s>\na\xFFz\n", ":4:2: byte 0xFF is not valid UTF-8"},
        {"<unk>\n<s>\n</s>\na\nbc", ":5: the last line has no newline; the file may be truncated"},
        {"the\n<s>\n</s>\n", ":1: is \"the\", but a vocabulary begins with <unk>, <s>, </s>"},
        {"<unk>\n</s>\n<s>\n", ":2: is \"</s>\", but a vocabulary begins with <unk>, <s>, </s>"},
        {"<unk>\n<s>\n", ": has 2 lines, but a vocabulary begins with <unk>, <s>, </s>"},
        {"", ": the file is empty"},
    };
    const char *folder = scratch("data_broken");
    struct qkv_vocabulary vocabulary;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = write_text(folder, "vocab.txt", rows[i][0]);
        expect_refusal(qkv_vocabulary_load(&vocabulary, path, &error), format("%s%s", path, rows[i][1]));
        cr_expect_eq(vocabulary.size, 0);
    }
    cr_expect_eq(qkv_vocabulary_load(&vocabulary, format("%s/none", folder), &error), QKV_INVALID);
}
