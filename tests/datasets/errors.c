/* What `qkv generate` says when it cannot. */
#include "support.h"

#define LEXICON QKV_SOURCE_DIR "/datasets/en_es/lexicon.txt"

static void expect_error(struct outcome outcome, const char *sentence)
{
    cr_expect(refused(outcome, format("qkv: %s", sentence)));
}

static int names_in(const char *folder)
{
    return (int)strlen(run("ls -A '%s' | tr -dc '\\n'", folder).output);
}

Test(generate_errors, of_usage)
{
    const char *folder = scratch("usage");
    expect_error(run("qkv generate revers -o '%s'", folder), "TASK is 'revers'; did you mean reverse");
    expect_error(run("qkv generate reverse"),
                 "-o FOLDER is missing (usage: qkv generate TASK -o FOLDER [options])");
    expect_error(run("qkv generate -o '%s'", folder),
                 "TASK is missing (usage: qkv generate TASK -o FOLDER [options])");
    expect_error(run("qkv generate sort -o ''"), "--output is empty, but needs a FOLDER");
    expect_error(run("qkv generate sort -o '%s' --shortest 30", folder),
                 "--longest is 25 and --longest-test 30, but must be at least --shortest (30)");
    expect_error(run("qkv generate sort -o '%s' --symbols 0", folder),
                 "--symbols is 0, but must lie between 1 and 1000000000");
    expect_error(run("qkv generate sort -o '%s' --lexicon '%s'", folder, LEXICON),
                 "--lexicon is for en_es only");
    expect_error(run("qkv generate induction -o '%s' --shortest 3", folder),
                 "--shortest is 3, but a line of induction has at least 4 numbers");
    cr_assert_eq(names_in(folder), 0);
    cr_assert_eq(run("qkv generate --help").exit_code, 0);
}

Test(generate_errors, of_files)
{
    const char *folder = scratch("files");
    const char *file = write_text(folder, "dev.tsv", "mine\n");
    expect_error(run("qkv generate copy -o '%s'", folder),
                 format("%s: exists already; --overwrite replaces it", file));
    cr_assert_eq(names_in(folder), 1);
    expect_error(run("qkv generate copy -o '%s/deeper'", file),
                 format("%s/deeper: cannot make this folder: Not a directory", file));
    expect_error(run("trap '' XFSZ; ulimit -f 8; qkv generate copy --overwrite -o '%s'", folder),
                 format("%s/train.tsv: cannot be written: File too large", folder));
    cr_assert_eq(names_in(folder), 1);
    cr_assert_str_eq(read_file(file, NULL), "mine\n");
    cr_assert_eq(run("qkv generate copy --overwrite --train 9 -o '%s'", folder).exit_code, 0);
    cr_assert_eq(names_in(folder), 5, "train, and dev and test with their gold links");
}

Test(generate_errors, of_a_missing_lexicon)
{
    const char *folder = scratch("missing");
    expect_error(run("cd '%s' && qkv generate en_es -o out", folder),
                 "datasets/en_es/lexicon.txt: cannot be read: No such file or directory (--lexicon FILE says "
                 "where the lexicon is)");
    expect_error(run("cd '%s' && qkv generate en_es -o out --lexicon .", folder),
                 ".: cannot be read: it is a folder (--lexicon FILE says where the lexicon is)");
    cr_assert_eq(names_in(folder), 0);
}

Test(generate_errors, of_a_lexicon_with_an_error)
{
    static const char *const cases[][2] = {
        {"nuon | cat cats | gato gatos m | animal", "unknown kind of entry 'nuon'"},
        {"| cat", "unknown kind of entry '|'"},
        {"noun | cat cats | gato m | animal", "noun needs 3 words for its Spanish and gender, but has 2"},
        {"noun | cat cats | gato gatos n | animal", "unknown gender 'n' (known: m, f)"},
        {"noun | cat cats | gato gatos m", "noun needs 1 to 24 words for its tags, but has 0"},
        {"mass | milk milks | leche f | drink", "mass needs 1 word for its English, but has 2"},
        {"determiner definite 1001 | the the | el la los las",
         "weight is 1001, but must be a whole number from 1 to 1000"},
        {"determiner defnite 1 | the the | el la los las",
         "unknown kind of determiner 'defnite' (known: definite, indefinite, each)"},
        {"pronoun 6 | i me | 4s m | me me", "unknown person '4s' (known: 1s, 2s, 3s, 1p, 3p)"},
        {"preposition place | in | en | 0-1 | animal", "'0-1' is no link between its words"},
        {"adverb moment | now | ahora | 0:0", "'0:0' is no link between its words"},
        {"adjective | red | rojo roja rojos rojas | have | animal",
         "unknown copula 'have' (known: -, ser, estar)"},
        {"adjective | red | rojo roja rojos rojas | ser | animal | vrey",
         "unknown option 'vrey' (known: very, before, before=FORM, definite)"},
        {"adjective | red | rojo roja rojos rojas | ser | colour", "no noun has the tag 'colour'"},
        {"verb | eat eats eating | comer como | animal",
         "verb needs 7 to 8 words for its Spanish, but has 2"},
        {"verb | eat eats eating up | a b c d e f g | animal", "an English particle is written +up"},
        {"verb | eat eats eating | a b c d e f g en | animal", "a Spanish preposition is written +en"},
        {"verb | eat eats eating | a b c d e f g | animal >", "verb needs tags on both sides of '>'"},
        {"verb | eat eats eating | a b c d e f g | animal | fast",
         "unknown option 'fast' (known: stative, moves, recipient, separable, dative)"},
        {"example | cat sleep on mat", "'cat sleep on mat' is not a noun, an intransitive verb, a "
                                       "preposition and a noun of the lines above"},
        {"noun | a | b | c | d | e | f", "there are more than 5 '|'"},
    };
    const char *folder = scratch("mistake");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *file =
            write_text(folder, "lexicon.txt",
                       format("# a comment\nnoun | cow cows | vaca vacas f | animal\n%s\n", cases[i][0]));
        expect_error(run("qkv generate en_es -o '%s/out' --lexicon '%s'", folder, file),
                     format("%s:3: %s", file, cases[i][1]));
    }
    cr_assert_eq(names_in(folder), 1);
}

Test(generate_errors, of_lengths_that_no_sentence_has)
{
    const char *folder = scratch("lengths");
    expect_error(run("qkv generate en_es -o '%s/out' --shortest 2", folder),
                 "sentences of 2 to 14 words are not possible: en_es makes 3 to 120 words");
    expect_error(run("qkv generate en_es -o '%s/out' --longest-test 121", folder),
                 "sentences of 3 to 121 words are not possible: en_es makes 3 to 120 words");
    expect_error(run("qkv generate en_es -o '%s/out' --shortest 15", folder),
                 "--longest is 14 and --longest-test 14, but must be at least --shortest (15)");
    expect_error(run("qkv generate en_es -o '%s/out' --symbols 9", folder),
                 "--symbols is for sequences of numbers only");
    cr_assert_eq(names_in(folder), 0);
}

Test(generate_errors, of_a_lexicon_with_too_few_words)
{
    const char *folder = scratch("few");
    const char *file =
        write_text(folder, "lexicon.txt",
                   "determiner definite 1 | the the | el la los las\n"
                   "noun | cow cows | vaca vacas f | animal\n"
                   "verb | eat eats eating | comer como comes come comemos comen comiendo | animal\n");
    expect_error(run("qkv generate en_es -o '%s/out' --lexicon '%s'", folder, file),
                 format("%s: its words make only 24 of the 1000 different test sentences wanted", file));
    cr_assert_eq(names_in(format("%s/out", folder)), 0);
    expect_error(
        run("qkv generate en_es -o '%s/out' --lexicon '%s' --longest 4", folder, file),
        format("%s: its words make only 0 of the 1000 different test sentences of 3 to 4 words wanted",
               file));
    cr_assert_eq(names_in(format("%s/out", folder)), 0);
}
