/* The committed English-Spanish data: made by the generator as it is, and what datasets/README.md says about
 * it. */
#include "pairs.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA QKV_SOURCE_DIR "/datasets/en_es"

enum { TRAIN, DEV, TEST, SPLITS };
static const char *const NAMES[SPLITS] = {"train", "dev", "test"};
static struct pair pairs[SPLITS][MAX_PAIRS];
static int counts[SPLITS];

static void read_data(void)
{
    for (int i = 0; i < SPLITS; i++) counts[i] = read_pairs(format("%s/%s.tsv", DATA, NAMES[i]), pairs[i]);
}

TestSuite(en_es, .init = read_data);

Test(en_es, is_reproduced_byte_for_byte_by_the_command_of_the_readme)
{
    const char *folder = scratch("again");
    struct outcome outcome = run("cd '%s' && qkv generate en_es -o '%s'", QKV_SOURCE_DIR, folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    const char *const names[] = {"train.tsv", "dev.tsv",    "test.tsv",
                                 "dev.align", "test.align", "held_out.tsv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_assert_eq(run("cmp '%s/%s' '%s/%s'", folder, names[i], DATA, names[i]).exit_code, 0, "%s",
                     names[i]);
    const char *readme = read_file(QKV_SOURCE_DIR "/datasets/README.md", NULL);
    cr_assert_not_null(strstr(readme, outcome.output), "README.md does not show\n%s", outcome.output);
}

Test(en_es, another_seed_makes_other_sentences)
{
    const char *folder = scratch("seed");
    struct outcome outcome =
        run("cd '%s' && qkv generate en_es --seed 43 --train 50 --dev 50 --test 50 -o '%s'", QKV_SOURCE_DIR,
            folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_assert_eq(run("sort '%s/dev.tsv' '%s/dev.tsv' | uniq -d | grep -q .", folder, DATA).exit_code, 1);
}

Test(en_es, has_distinct_sources_and_enough_of_them)
{
    static struct table sources;
    for (int i = 0; i < SPLITS; i++)
        for (int j = 0; j < counts[i]; j++) put(&sources, pairs[i][j].source, "");
    sort(&sources);
    cr_assert_eq(distinct(&sources), sources.count);
    cr_assert_eq(counts[TRAIN], 24000);
    cr_assert_eq(counts[DEV], 1000);
    cr_assert_eq(counts[TEST], 1000);
}

static void check_sentence(const char *text, bool english)
{
    char *words[MAX_WORDS + 1];
    int count = split(text, words);
    cr_assert(count >= 3 && count <= 14, "'%s' has %d words", text, count);
    check_writing(text, english);
}

Test(en_es, has_sentences_of_3_to_14_words_in_lower_case)
{
    for (int i = 0; i < SPLITS; i++) {
        for (int j = 0; j < counts[i]; j++) {
            cr_assert_not_null(pairs[i][j].target);
            check_sentence(pairs[i][j].source, true);
            check_sentence(pairs[i][j].target, false);
        }
    }
}

/* Each word of dev and test is in train so often. */
enum { MIN_IN_TRAIN = 10 };

Test(en_es, has_at_least_300_words_per_side_that_occur_often_enough)
{
    static struct table words;
    for (int side = 0; side < 2; side++) {
        words.count = 0;
        char *word[MAX_WORDS + 1];
        for (int j = 0; j < counts[TRAIN]; j++) {
            int count = split(side ? pairs[TRAIN][j].target : pairs[TRAIN][j].source, word);
            for (int k = 0; k < count; k++) put(&words, word[k], "");
        }
        sort(&words);
        cr_assert_geq(distinct(&words), 300);
        static struct table common; /* words that are MIN_IN_TRAIN times in a row */
        common.count = 0;
        for (size_t i = 0; i + MIN_IN_TRAIN <= words.count; i++)
            if (!strcmp(words.entry[i].key, words.entry[i + MIN_IN_TRAIN - 1].key))
                put(&common, words.entry[i].key, "");
        for (int i = DEV; i < SPLITS; i++) {
            for (int j = 0; j < counts[i]; j++) {
                int count = split(side ? pairs[i][j].target : pairs[i][j].source, word);
                for (int k = 0; k < count; k++)
                    cr_assert_not_null(get(&common, word[k]), "'%s' is rare", word[k]);
            }
        }
    }
}

/* The links of the sentence with this source, and its translation; NULL when the split has none. */
static const char *links_of(int split_index, const char *source, const char **target)
{
    static struct pair links[MAX_PAIRS];
    int count = read_pairs(format("%s/%s.align", DATA, NAMES[split_index]), links);
    cr_assert_eq(count, counts[split_index]);
    for (int j = 0; j < count; j++) {
        if (strcmp(pairs[split_index][j].source, source) != 0) continue;
        *target = pairs[split_index][j].target;
        return links[j].source;
    }
    return NULL;
}

/* The cat sentence is in test by promise; the others happen to be there, and show each kind of link. */
Test(en_es, has_the_links_of_an_annotator)
{
    static const char *const sentences[][3] = {
        {"the cat is sleeping on the mat", "el gato está durmiendo en la estera",
         "0-0 1-1 2-2 3-3 4-4 5-5 6-6"},
        {"he looks for the farmer", "busca al granjero", "0-0 1-0 2-0 3-1 4-2"},
        {"the very big spider does not like my new basket",
         "a la araña muy grande no le gusta mi cesta nueva",
         "0-1 1-3 2-4 3-2 4-7 5-5 6-0 6-6 6-7 7-8 8-10 9-9"},
        {"i visit his son's angry grandmothers", "visito a las abuelas enfadadas de su hijo",
         "0-0 1-0 1-1 2-6 3-5 3-7 4-4 5-2 5-3"},
        {"this son is playing wooden flutes", "este hijo está tocando flautas de madera",
         "0-0 1-1 2-2 3-3 4-5 4-6 5-4"},
        {"you cannot sleep in your beaches", "no puedes dormir en tus playas", "0-1 1-0 1-1 2-2 3-3 4-4 5-5"},
        {"our teacher plays near the tall tree every day",
         "nuestra maestra juega cerca del árbol alto todos los días",
         "0-0 1-1 2-2 3-3 3-4 4-4 5-6 6-5 7-7 7-8 8-9"},
        {"the baker's park is quiet", "el parque del panadero es tranquilo", "0-2 1-2 1-3 2-0 2-1 3-4 4-5"},
        {"he cannot sing near my big window", "no puede cantar cerca de mi ventana grande",
         "0-1 1-0 1-1 2-2 3-3 3-4 4-5 5-7 6-6"},
        {"i give your magazine to the other grandfathers", "doy tu revista a los otros abuelos",
         "0-0 1-0 2-1 3-2 4-3 5-4 6-5 7-6"},
        {"they bathe next to the dangerous boat", "se bañan al lado del barco peligroso",
         "0-1 1-0 1-1 2-2 2-3 3-4 4-4 5-6 6-5"},
    };
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        const char *target = NULL, *links = links_of(TEST, sentences[i][0], &target);
        cr_assert_not_null(links, "%s", sentences[i][0]);
        cr_expect_str_eq(target, sentences[i][1]);
        cr_expect_str_eq(links, sentences[i][2]);
    }
}

Test(en_es, links_every_word_of_both_sides_within_the_sentence)
{
    static struct pair links[MAX_PAIRS];
    for (int i = DEV; i < SPLITS; i++) {
        cr_assert_eq(read_pairs(format("%s/%s.align", DATA, NAMES[i]), links), counts[i]);
        for (int j = 0; j < counts[i]; j++) check_links(&pairs[i][j], links[j].source);
    }
}

/* The lexicon as this test needs it: what each English form is a form of. */
static struct table nouns, adjectives, verbs, held_out;

static void read_lexicon(void)
{
    static struct pair lines[MAX_PAIRS];
    int count = read_pairs(DATA "/lexicon.txt", lines);
    for (int i = 0; i < count; i++) {
        char *word[MAX_WORDS * 2 + 1];
        if (!strchr("nmav", lines[i].source[0])) continue;
        split(format("%.60s", lines[i].source), word); /* kind | English ... */
        if (!strcmp(word[0], "adjective")) put(&adjectives, word[2], word[2]);
        bool noun = !strcmp(word[0], "noun") || !strcmp(word[0], "mass");
        for (int j = 2; noun && strcmp(word[j], "|") != 0; j++) put(&nouns, word[j], word[2]);
        if (strcmp(word[0], "verb") != 0) continue;
        const char *particle = word[5][0] == '+' ? format(" %s", word[5] + 1) : "";
        for (int j = 2; j < 5; j++)
            put(&verbs, format("%s%s", word[j], particle), format("%s%s", word[2], particle));
    }
    sort(&nouns);
    sort(&adjectives);
    sort(&verbs);
}

static void read_held_out(void)
{
    static struct pair lines[MAX_PAIRS];
    int count = read_pairs(DATA "/held_out.tsv", lines);
    for (int i = 0; i < count; i++) put(&held_out, format("%s\t%s", lines[i].source, lines[i].target), "");
    sort(&held_out);
}

static bool is_held_out(const char *kind, const char *first, const char *second)
{
    char key[128];
    snprintf(key, sizeof key, "%s\t%s\t%s", kind, first, second);
    return get(&held_out, key) != NULL;
}

/* "clean" is a verb in "we clean the room" and "does not clean", but not in "the clean room" and "is not
 * clean". */
static bool is_verb(char **word, int i)
{
    if (!get(&adjectives, word[i])) return true;
    if (i == 0) return false;
    const char *before = word[i - 1];
    if (!strcmp(before, "not")) return i > 1 && word[i - 2][0] == 'd';
    return get(&nouns, before) ||
           strstr(" i you we they to can cannot always never sometimes usually ", format(" %s ", before));
}

/* "the ADJECTIVE (very) (ADJECTIVE) NOUN", "the NOUN is (not) (very) ADJECTIVE" */
static int held_out_adjectives(char **word)
{
    int found = 0;
    for (int i = 0; word[i]; i++) {
        if (!get(&adjectives, word[i]) || (get(&verbs, word[i]) && is_verb(word, i))) continue;
        int j = i + 1;
        while (word[j] && (get(&adjectives, word[j]) || !strcmp(word[j], "very"))) j++;
        const char *noun = word[j] ? get(&nouns, word[j]) : NULL;
        for (j = i - 1; !noun && j > 0 && (!strcmp(word[j], "very") || !strcmp(word[j], "not"));) j--;
        if (!noun && j > 0 && (!strcmp(word[j], "is") || !strcmp(word[j], "are")))
            noun = get(&nouns, word[j - 1]);
        found += noun && is_held_out("adjective", word[i], noun);
    }
    return found;
}

/* The noun behind a verb, before any preposition. */
static const char *object_of(char **word)
{
    static const char *const stops = " in on under behind near next to from with without at for ";
    for (; *word; word++) {
        char padded[64];
        snprintf(padded, sizeof padded, " %s ", *word);
        if (strstr(stops, padded)) return NULL;
        if (get(&nouns, *word)) return get(&nouns, *word);
    }
    return NULL;
}

static int held_out_objects(char **word)
{
    int found = 0;
    for (int i = 0; word[i]; i++) {
        char both[64];
        snprintf(both, sizeof both, "%s %s", word[i], word[i + 1] ? word[i + 1] : "");
        const char *verb = get(&verbs, both);
        int next = verb ? i + 2 : i + 1;
        if (!verb) verb = get(&verbs, word[i]);
        if (verb && !is_verb(word, i)) verb = NULL;
        const char *object = verb ? object_of(&word[next]) : NULL;
        found += object && is_held_out("verb", verb, object);
    }
    return found;
}

/* Found again in the English words alone, without the generator's help. */
Test(en_es, holds_combinations_of_words_out_of_train)
{
    read_lexicon();
    read_held_out();
    const int expected[SPLITS] = {0, 600, 600};
    for (int i = 0; i < SPLITS; i++) {
        int with = 0;
        for (int j = 0; j < counts[i]; j++) {
            char *word[MAX_WORDS + 1];
            split(pairs[i][j].source, word);
            bool has = held_out_adjectives(word) + held_out_objects(word) > 0;
            cr_assert(i != TRAIN || !has, "train has '%s'", pairs[i][j].source);
            with += has;
        }
        cr_assert_eq(with, expected[i], "%s: %d", NAMES[i], with);
    }
}
