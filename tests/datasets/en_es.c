/* The committed English-Spanish data: made by the generator as it is, byte for byte, with the links of an annotator.
 * tests/datasets/long.c checks the properties of what the generator makes. */
#include "pairs.h"

#define DATA QKV_SOURCE_DIR "/datasets/en_es"

Test(en_es, is_reproduced_byte_for_byte_by_the_command_of_the_readme)
{
    const char *folder = scratch("again");
    const char *output = run_ok("cd '%s' && qkv generate en_es -o '%s'", QKV_SOURCE_DIR, folder);
    const char *const names[] = {"train.tsv", "dev.tsv",    "test.tsv",
                                 "dev.align", "test.align", "held_out.tsv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        run_ok("cmp '%s/%s' '%s/%s'", folder, names[i], DATA, names[i]);
    const char *readme = read_file(QKV_SOURCE_DIR "/datasets/README.md", NULL);
    cr_assert(shows(readme, output), "README.md does not show\n%s", output);
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
    static struct pair pairs[MAX_PAIRS], links[MAX_PAIRS];
    int count = read_pairs(DATA "/test.tsv", pairs);
    cr_assert_eq(read_pairs(DATA "/test.align", links), count);
    for (int j = 0; j < count; j++) check_links(&pairs[j], links[j].source);
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        int j = 0;
        while (j < count && strcmp(pairs[j].source, sentences[i][0]) != 0) j++;
        cr_assert_lt(j, count, "there is no '%s'", sentences[i][0]);
        cr_expect_str_eq(pairs[j].target, sentences[i][1]);
        cr_expect_str_eq(links[j].source, sentences[i][2]);
    }
}
