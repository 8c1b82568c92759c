/* English-Spanish sentences of joined and relative clauses, of the lengths that are asked for. */
#include "pairs.h"

#define DATA QKV_SOURCE_DIR "/datasets/en_es"

enum { TRAIN, DEV, TEST, SPLITS };
static const char *const NAMES[SPLITS] = {"train", "dev", "test"};
static struct pair pairs[SPLITS][MAX_PAIRS], links[SPLITS][MAX_PAIRS];
static int counts[SPLITS];

/* Makes a set from the shipped lexicon, and reads it. */
static const char *generate(const char *name, const char *options)
{
    const char *folder = scratch(name);
    run_ok("cd '%s' && qkv generate en_es %s -o '%s'", QKV_SOURCE_DIR, options, folder);
    for (int i = 0; i < SPLITS; i++) {
        counts[i] = read_pairs(format("%s/%s.tsv", folder, NAMES[i]), pairs[i]);
        if (i == TRAIN) continue;
        cr_assert_eq(read_pairs(format("%s/%s.align", folder, NAMES[i]), links[i]), counts[i]);
    }
    return folder;
}

/* How many sentences of a split have how many English words; and all numbers are within bounds. */
static void count_lengths(int split_index, int shortest, int longest, int sentences[MAX_WORDS])
{
    char *words[MAX_WORDS + 1];
    memset(sentences, 0, sizeof *sentences * MAX_WORDS);
    for (int j = 0; j < counts[split_index]; j++) {
        const struct pair *pair = &pairs[split_index][j];
        int target = split(pair->target, words), source = split(pair->source, words);
        cr_assert(source >= shortest && source <= longest, "%d words: %s", source, pair->source);
        cr_assert(target >= shortest && target <= longest, "%d words: %s", target, pair->target);
        sentences[source]++;
    }
}

Test(long_sentences, have_all_lengths_equally_often)
{
    int sentences[MAX_WORDS];
    generate("lengths", "--shortest 15 --longest 24 --longest-test 34 --train 2000 --dev 400 --test 400");
    count_lengths(TRAIN, 15, 24, sentences);
    for (int i = 15; i <= 24; i++) cr_expect(sentences[i] > 150 && sentences[i] < 250, "%d", sentences[i]);
    for (int i = DEV; i < SPLITS; i++) {
        count_lengths(i, 15, 34, sentences);
        for (int j = 15; j <= 34; j++) cr_expect(sentences[j] > 5 && sentences[j] < 40, "%d", sentences[j]);
    }
}

Test(long_sentences, are_written_and_linked_as_the_short_ones_are)
{
    generate("written", "--shortest 15 --longest 60 --train 500 --dev 200 --test 200");
    for (int i = 0; i < SPLITS; i++) {
        for (int j = 0; j < counts[i]; j++) {
            check_writing(pairs[i][j].source, true);
            check_writing(pairs[i][j].target, false);
            if (i != TRAIN) check_links(&pairs[i][j], links[i][j].source);
        }
    }
}

Test(long_sentences, are_the_same_for_the_same_seed_only)
{
    const char *options = "--longest 25 --train 50 --dev 20 --test 20";
    const char *first = generate("first", options), *again = generate("again", options),
               *other = generate("other", format("%s --seed 43", options));
    cr_assert_eq(run("diff -r '%s' '%s'", first, again).exit_code, 0);
    cr_assert_eq(run("sort '%s/test.tsv' '%s/test.tsv' | uniq -d | grep -q .", first, other).exit_code, 1);
}

/* Not in its own training set, nor are the committed dev and test, though short ones are among them. */
Test(long_sentences, of_test_are_never_in_train)
{
    static struct table known;
    static struct pair committed[MAX_PAIRS];
    generate("apart", "--longest 9 --train 5000 --dev 500 --test 500");
    for (int j = 0; j < counts[TRAIN]; j++) put(&known, pairs[TRAIN][j].source, "");
    sort(&known);
    cr_assert_eq(distinct(&known), known.count);
    int sentences[MAX_WORDS];
    count_lengths(TRAIN, 3, 9, sentences);
    cr_assert_gt(sentences[4], 500, "few short ones: %d", sentences[4]);
    for (int i = DEV; i < SPLITS; i++) {
        for (int j = 0; j < counts[i]; j++)
            cr_assert_null(get(&known, pairs[i][j].source), "%s", pairs[i][j].source);
        int count = read_pairs(format("%s/%s.tsv", DATA, NAMES[i]), committed);
        for (int j = 0; j < count; j++)
            cr_assert_null(get(&known, committed[j].source), "%s", committed[j].source);
    }
}

/* In train, no adjective stands before a noun that it is held out with; in test it does. */
Test(long_sentences, hold_out_the_same_combinations)
{
    static struct pair held_out[MAX_PAIRS];
    static struct table combinations;
    const char *folder = generate("held", "--longest 25 --train 4000 --dev 500 --test 500");
    cr_assert_eq(run("cmp '%s/held_out.tsv' '%s/held_out.tsv'", folder, DATA).exit_code, 0);
    int count = read_pairs(DATA "/held_out.tsv", held_out);
    for (int i = 0; i < count; i++) {
        char *tab = strchr(held_out[i].target, '\t');
        if (strcmp(held_out[i].source, "adjective") != 0) continue;
        put(&combinations, format("%.*s %s", (int)(tab - held_out[i].target), held_out[i].target, tab + 1),
            "");
    }
    sort(&combinations);
    int found[SPLITS] = {0};
    for (int i = 0; i < SPLITS; i++) {
        for (int j = 0; j < counts[i]; j++) {
            char *word[MAX_WORDS + 1];
            int words = split(pairs[i][j].source, word);
            for (int k = 0; k + 1 < words; k++) {
                char both[128];
                snprintf(both, sizeof both, "%s %s", word[k], word[k + 1]);
                found[i] += get(&combinations, both) != NULL;
            }
        }
    }
    cr_assert_eq(found[TRAIN], 0);
    cr_assert_geq(found[DEV], 50);
    cr_assert_geq(found[TEST], 50);
}

/* These happen to be there, and show what there is to be shown. */
Test(long_sentences, agree_and_link_across_clauses)
{
    static const char *const sentences[][3] = {
        {"the young spiders that live without the aunts are not sick",
         "las arañas jóvenes que viven sin las tías no están enfermas",
         "0-0 1-2 2-1 3-3 4-4 5-5 6-6 7-7 8-9 9-8 10-10"},
        {"our good apple and the hot cookie are cold",
         "nuestra buena manzana y la galleta caliente están frías", "0-0 1-1 2-2 3-3 4-4 5-6 6-5 7-7 8-8"},
        {"the queen's apple and the juice are very cold", "la manzana de la reina y el zumo están muy fríos",
         "0-3 1-2 1-4 2-0 2-1 3-5 4-6 5-7 6-8 7-9 8-10"},
        {"the chairs and the bread are very cheap", "las sillas y el pan son muy baratos",
         "0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7"},
        {"the mothers who are visiting me are not kind", "las madres que me están visitando no son amables",
         "0-0 1-1 2-2 3-4 4-5 5-3 6-7 7-6 8-8"},
        {"his uncle that his strong bear sees is happy", "su tío al que su oso fuerte ve está contento",
         "0-0 1-1 2-2 2-3 3-4 4-6 5-5 6-7 7-8 8-9"},
        {"my friends that i wait for have to open the magazines",
         "mis amigos a los que espero tienen que abrir las revistas",
         "0-0 1-1 2-3 2-4 3-5 4-2 4-5 5-5 6-6 7-7 8-8 9-9 10-10"},
        {"the old girls that we wake up every day see you",
         "las niñas viejas a las que despertamos todos los días te ven",
         "0-0 1-2 2-1 3-4 3-5 4-6 5-3 5-6 6-6 7-7 7-8 8-9 9-11 10-10"},
        {"you are famous and the aunt likes my big oranges",
         "eres famoso y a la tía le gustan mis naranjas grandes",
         "0-0 1-0 2-1 3-2 4-4 5-5 6-3 6-6 6-7 7-8 8-10 9-9"},
        {"you are not kind although you buy tomatoes that are not green",
         "no eres amable aunque compras tomates que no son verdes",
         "0-1 1-1 2-0 3-2 4-3 5-4 6-4 7-5 8-6 9-8 10-7 11-9"},
        {"they dance and the clean hats are very dirty", "bailan y los sombreros limpios están muy sucios",
         "0-0 1-0 2-1 3-2 4-4 5-3 6-5 7-6 8-7"},
    };
    generate("samples", "--shortest 7 --longest 12 --train 1 --dev 1 --test 2000");
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        int j = 0;
        while (j < counts[TEST] && strcmp(pairs[TEST][j].source, sentences[i][0]) != 0) j++;
        cr_assert_lt(j, counts[TEST], "there is no '%s'", sentences[i][0]);
        cr_expect_str_eq(pairs[TEST][j].target, sentences[i][1]);
        cr_expect_str_eq(links[TEST][j].source, sentences[i][2]);
    }
}

/* A lexicon of few words, with a verb that begins with an i. */
static const char SMALL[] =
    "determiner definite 1 | the the | el la los las\n"
    "pronoun 1 | we us | 1p m | nos nos\n"
    "noun | king kings | rey reyes m | person\n"
    "noun | queen queens | reina reinas f | person\n"
    "noun | island islands | isla islas f | place\n"
    "adjective | old | viejo vieja viejos viejas | ser | person place\n"
    "verb | print prints printing | imprimir imprimo imprimes imprime imprimimos imprimen imprimiendo | "
    "person | stative\n"
    "verb | see sees seeing | ver veo ves ve vemos ven viendo | person > person place | stative\n"
    "preposition place | on | en | 0-0 | person > place\n"
    "adverb frequency | always | siempre | 0-0\n"
    "adverb habit | here | aquí | 0-0\n"
    "adverb moment | now | ahora | 0-0\n"
    "state | right | razón | 0-0 | person\n";

Test(long_sentences, have_e_for_y_before_an_i_sound)
{
    const char *file = write_text(scratch("small"), "lexicon.txt", SMALL);
    generate("small_data", format("--lexicon '%s' --longest 9 --train 1000 --dev 1 --test 1", file));
    int before_i = 0, elsewhere = 0;
    for (int j = 0; j < counts[TRAIN]; j++) {
        cr_assert(lacks(pairs[TRAIN][j].target, " y i"));
        before_i += strstr(pairs[TRAIN][j].target, " e imprimimos") != NULL;
        elsewhere += strstr(pairs[TRAIN][j].target, " y ") != NULL;
    }
    cr_assert(before_i > 3 && elsewhere > 50, "%d %d", before_i, elsewhere);
}
