/* Reading pairs in the forms that people have. */
#include "qkv/pairs_file.h"

#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

/* The pairs as "a=b|c=d|", or the message of the failure without the folder; `seen` may be NULL. */
static const char *read_pairs(const char *folder, struct qkv_pairs_request request, struct qkv_pairs *seen)
{
    struct qkv_pairs pairs;
    struct qkv_error error = {""};
    if (qkv_pairs_read(&pairs, request, &error)) {
        char *message = format("%s", error.message), *at;
        while ((at = strstr(message, folder)))
            memmove(at, at + strlen(folder) + 1, strlen(at + strlen(folder)));
        return message;
    }
    const char *text = "";
    for (int64_t i = 0; i < pairs.count; i++)
        text = format("%s%s=%s|", text, qkv_pairs_text(&pairs, i, 0), qkv_pairs_text(&pairs, i, 1));
    if (seen) *seen = pairs; /* its numbers; the memory is gone */
    qkv_pairs_release(&pairs);
    return text;
}

static const char *read_text(const char *folder, const char *name, const char *text, struct qkv_pairs *seen)
{
    return read_pairs(folder, (struct qkv_pairs_request){.path = write_text(folder, name, text)}, seen);
}

Test(pairs_file, takes_the_columns_that_hold_sentences)
{
    static const struct {
        const char *text, *pairs;
        int columns, column[2];
    } cases[] = {
        {"Go.\tVe.\nRun!\tCorre.\n", "Go.=Ve.|Run!=Corre.|", 2, {1, 2}},
        {"Go.\tVe.\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM)\nRun!\tCorre.\tCC-BY 2.0 #2\n",
         "Go.=Ve.|Run!=Corre.|",
         3,
         {1, 2}},
        {"CC-BY 2.0 (France)\tGo.\tVe.\nCC-BY 2.0 #2\tRun!\tCorre.\n", "Go.=Ve.|Run!=Corre.|", 3, {2, 3}},
        {"1276\tLet's try.\t2481\tIntentemos.\n1277\tI sleep.\t2482\tDuermo.\n",
         "Let's try.=Intentemos.|I sleep.=Duermo.|",
         4,
         {2, 4}},
        {"2010-03-04\ta b\t\tc d\n2010-03-05\te f\t\tg h\n", "a b=c d|e f=g h|", 4, {2, 4}},
        {"1 2 3\t3 2 1\n4 5\t5 4\n", "1 2 3=3 2 1|4 5=5 4|", 2, {1, 2}},
        {"yes\tsi\nyes\tsi\n", "yes=si|yes=si|", 2, {1, 2}},
    };
    const char *folder = scratch("columns");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_pairs seen = {0};
        cr_expect_str_eq(read_text(folder, "in.tsv", cases[i].text, &seen), cases[i].pairs);
        cr_expect_eq(seen.columns, cases[i].columns);
        cr_expect_eq(seen.column[0], cases[i].column[0], "%s", cases[i].text);
        cr_expect_eq(seen.column[1], cases[i].column[1], "%s", cases[i].text);
    }
    /* A column that is the same in all lines is a code, but that needs some lines to see. */
    const char *text = "";
    for (int i = 0; i < 12; i++) text = format("%seng\ta%c\tspa\tb%c\n", text, 'a' + i, 'a' + i);
    struct qkv_pairs seen = {0};
    read_text(folder, "codes.tsv", text, &seen);
    cr_expect_eq(seen.column[0], 2);
    cr_expect_eq(seen.column[1], 4);
    struct qkv_pairs_request swapped = {.path = format("%s/codes.tsv", folder), .column = {4, 2}};
    cr_expect_str_eq(format("%.6s", read_pairs(folder, swapped, NULL)), "ba=aa|");
}

/* Spreadsheets and Anki quote some cells; sentences have quotation marks of their own. */
Test(pairs_file, takes_the_quotation_marks_of_cells_off)
{
    static const struct {
        const char *text, *pairs;
        bool is_quoted;
    } cases[] = {
        {"\"Yes, I do.\"\tSi.\nNo.\t\"No, no.\"\n", "Yes, I do.=Si.|No.=No, no.|", true},
        {"English\t\"Spanish\"\n\"Say \"\"no\"\".\"\tDi, no.\n\"\"\"No.\"\"\"\tNo.\n",
         "Say \"no\".=Di, no.|\"No.\"=No.|", true},
        {"\" a, b \"\tc\nd\te\n\"\"\tf\n", "a, b=c|d=e|", true},
        {"\"Yes.\"\tSi.\nNo, no.\tNo.\n", "\"Yes.\"=Si.|No, no.=No.|", false},
        {"\"Yes, yes.\"\tSi.\nYes, no.\tNo.\n", "\"Yes, yes.\"=Si.|Yes, no.=No.|", false},
        {"\"Go, go.\" \"No.\"\tSi.\n\"So, so.\"\tAsi.\n", "\"Go, go.\" \"No.\"=Si.|\"So, so.\"=Asi.|", false},
        {"\"\"\"a\tb\n\"c, d\"\te\n", "\"\"\"a=b|\"c, d\"=e|", false},
    };
    const char *folder = scratch("quotes");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_pairs seen = {0};
        cr_expect_str_eq(read_text(folder, "in.tsv", cases[i].text, &seen), cases[i].pairs);
        cr_expect_eq(seen.is_quoted, cases[i].is_quoted, "%s", cases[i].text);
    }
}

/* A cell with line breaks is quoted, and goes on in the next line. */
Test(pairs_file, joins_the_lines_of_a_cell)
{
    static const struct {
        const char *text, *pairs;
        int joined;
    } cases[] = {
        {"Go.\t\"first line\nsecond line\"\nNo.\tNo.\n", "Go.=first line second line|No.=No.|", 1},
        {"\"a\r\n\r\nb\"\t\"c\r\nd\"\r\ne\tf\r\n", "a  b=c d|e=f|", 2},
        {"\"say \"\"no\n\"\"\"\tb\nc\td\n", "say \"no \"=b|c=d|", 1},
        {"a\t\"b\n\"\nc\t\"d\ne\"", "a=b|c=d e|", 2},
        /* Sentences that begin with a quotation mark of their own. */
        {"a\t\"b\nc\td\"\ne\tf\n", "a=\"b|c=d\"|e=f|", 0},
        {"a\t\"b\n\"c\"\td\ne\tf\n", "a=\"b|\"c\"=d|e=f|", 0},
        {"a\t\"b\nc\td\ne\t\"f", "a=\"b|c=d|e=\"f|", 0},
        {"a\t\"b\" c\nd\"\te\n", "a=\"b\" c|d\"=e|", 0},
    };
    const char *folder = scratch("joined");
    struct qkv_pairs seen = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_str_eq(read_text(folder, "in.tsv", cases[i].text, &seen), cases[i].pairs);
        cr_expect_eq(seen.joined, cases[i].joined, "%s", cases[i].text);
    }
    /* Lines are still counted as in the file. */
    read_text(folder, "in.tsv", "#html:false\n\"a\nb\"\tc\nd\te\n\n", &seen);
    cr_expect_eq(seen.blank.first, 5);
    cr_expect_eq(seen.read, 5);
}

Test(pairs_file, exchanges_sides_that_are_named_the_other_way_round)
{
    const char *folder = scratch("exchanged");
    const char *path = write_text(folder, "in.tsv", "English\tSpanish\nGo.\tVe.\nRun!\tCorre.\n");
    const char *given = "Go.=Ve.|Run!=Corre.|", *exchanged = "Ve.=Go.|Corre.=Run!|";
    static const struct {
        const char *lang[2];
        int64_t column[2];
        bool is_exchanged;
    } cases[] = {
        {{NULL, NULL}, {0}, false}, {{"es", "en"}, {0}, true},  {{"es", NULL}, {0}, true},
        {{NULL, "en"}, {0}, true},  {{"en", "es"}, {0}, false}, {{"es", "fr"}, {0}, false},
        {{"es", "es"}, {0}, false}, {{"de", "en"}, {0}, false}, {{"es", "en"}, {1, 2}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_pairs seen = {0};
        const struct qkv_pairs_request request = {.path = path,
                                                  .lang = {cases[i].lang[0], cases[i].lang[1]},
                                                  .column = {cases[i].column[0], cases[i].column[1]}};
        cr_expect_str_eq(read_pairs(folder, request, &seen), cases[i].is_exchanged ? exchanged : given, "%zu",
                         i);
        cr_expect_eq(seen.column[0], cases[i].is_exchanged ? 2 : 1);
        for (int side = 0; side < 2; side++)
            cr_expect_str_eq(seen.lang[side], cases[i].lang[side]                    ? cases[i].lang[side]
                                              : (side == 1) != cases[i].is_exchanged ? "es"
                                                                                     : "en");
    }
    /* Two files say by their names which side they are. */
    const char *english = write_text(folder, "x.en", "Go.\nRun!\n"),
               *spanish = write_text(folder, "x.es", "Ve.\nCorre.\n");
    struct qkv_pairs_request files = {.path = english, .target = spanish, .lang = {"es", "en"}};
    cr_expect_str_eq(read_pairs(folder, files, NULL), exchanged);
}

Test(pairs_file, leaves_out_lines_without_a_pair_and_counts_them)
{
    struct qkv_pairs seen = {0};
    const char *folder = scratch("left_out");
    const char *pairs =
        read_text(folder, "in.tsv",
                  "\uFEFFa\tb\r\n\r\n \t \n  c  c \t\u00a0d\u3000\r\nlonely\ne\t \n\tf\ng\th\n", &seen);
    cr_expect_str_eq(pairs, "a=b|c  c=d|g=h|");
    cr_expect_eq(seen.read, 8);
    cr_expect_eq(seen.blank.count, 2);
    cr_expect_eq(seen.blank.first, 2);
    cr_expect_eq(seen.incomplete.count, 1);
    cr_expect_eq(seen.incomplete.first, 5);
    cr_expect_eq(seen.empty.count, 2);
    cr_expect_eq(seen.empty.first, 6);
    cr_expect_not(seen.has_header);
}

Test(pairs_file, knows_languages_by_headers_and_names_of_files)
{
    static const struct {
        const char *name, *text, *lang[2];
        bool has_header;
    } cases[] = {
        {"in.tsv", "English\tDeutsch\na\tb\n", {"en", "de"}, true},
        {"in.tsv", "Source\ttarget\na\tb\n", {"", ""}, true},
        {"in.tsv", "eng\tspa\na\tb\n", {"en", "es"}, true},
        {"in.tsv", "English\tInglesh\na\tb\n", {"", ""}, false},
        {"in.tsv", "Englisch\tFranz\u00f6sisch\na\tb\n", {"en", "fr"}, true},
        {"in.tsv", "ingl\u00e9s\tFrase\na\tb\n", {"en", ""}, true},
        {"in.tsv", "Satz\t\u00dcbersetzung\na\tb\n", {"", ""}, true},
        {"x.eng-fra.txt", "a\tb\n", {"en", "fr"}, false},
        {"Sentence pairs in English-Spanish - 2024.tsv", "a\tb\n", {"en", "es"}, false},
        {"is it no.tsv", "a\tb\n", {"", ""}, false},
        {"de_pt.tsv", "a\tb\n", {"de", "pt"}, false},
        {"fra.txt", "a\tb\tCC-BY 2.0\n", {"en", "fr"}, false},
        {"fra.txt", "a\tb\n", {"", ""}, false},
    };
    const char *folder = scratch("languages");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_pairs seen = {0};
        const char *pairs = read_text(folder, cases[i].name, cases[i].text, &seen);
        cr_expect_eq(seen.has_header, cases[i].has_header, "%s", cases[i].text);
        if (seen.has_header) cr_expect_str_eq(pairs, "a=b|");
        cr_expect_str_eq(seen.lang[0], cases[i].lang[0], "%s", cases[i].name);
        cr_expect_str_eq(seen.lang[1], cases[i].lang[1], "%s", cases[i].name);
    }
    /* Columns that are taken in another order bring their languages along. */
    struct qkv_pairs swapped = {0};
    struct qkv_pairs_request second_first = {.path = write_text(folder, "fra.txt", "a\tb\tCC-BY 2.0\n"),
                                             .column = {2, 1}};
    cr_expect_str_eq(read_pairs(folder, second_first, &swapped), "b=a|");
    cr_expect_str_eq(swapped.lang[0], "fr");
    cr_expect_str_eq(swapped.lang[1], "en");
    struct qkv_pairs seen = {0};
    struct qkv_pairs_request given = {.path = write_text(folder, "en-de.tsv", "a\tb\n"),
                                      .lang = {"nl", NULL}};
    read_pairs(folder, given, &seen);
    cr_expect_str_eq(seen.lang[0], "nl");
    cr_expect_str_eq(seen.lang[1], "de");
}

Test(pairs_file, takes_the_columns_whose_titles_name_the_languages)
{
    static const struct {
        const char *lang[2], *pairs;
        int column[2];
    } cases[] = {
        {{"de", "fr"}, "b=c|e=f|", {2, 3}},    {{"fr", "en"}, "c=a|f=d|", {3, 1}},
        {{NULL, "fr"}, "a=c|d=f|", {1, 3}},    {{"fr", NULL}, "c=a|f=d|", {3, 1}},
        {{NULL, "en"}, "b=a|e=d|", {2, 1}},    {{NULL, NULL}, "a=b|d=e|", {1, 2}},
        {{"en-GB", "de"}, "a=b|d=e|", {1, 2}},
    };
    const char *folder = scratch("titles");
    struct qkv_pairs_request request = {
        .path = write_text(folder, "in.tsv", "English\tGerman\tfr\na\tb\tc\nd\te\tf\n")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_pairs seen = {0};
        memcpy(request.lang, cases[i].lang, sizeof request.lang);
        cr_expect_str_eq(read_pairs(folder, request, &seen), cases[i].pairs, "%zu", i);
        cr_expect_arr_eq(seen.column, cases[i].column, sizeof seen.column, "%zu", i);
        cr_expect(seen.has_header);
    }
    request.lang[0] = "es";
    cr_expect_str_eq(
        read_pairs(folder, request, NULL),
        "in.tsv: no column is titled es: the title of column 1 is that of en; name the columns with "
        "--columns, as in --columns 1,2");
    request.column[0] = 1;
    request.column[1] = 3;
    cr_expect_str_eq(read_pairs(folder, request, NULL), "a=c|d=f|");
    struct qkv_pairs_request quoted = {
        .path = write_text(folder, "quoted.tsv", "\"en\"\t\"de\"\t\"fr\"\n\"a \"\"b\"\"\"\t\"c\"\t\"d\"\n"),
        .lang = {"fr", "en"}};
    cr_expect_str_eq(read_pairs(folder, quoted, NULL), "d=a \"b\"|");
}

Test(pairs_file, reads_an_export_of_the_program_anki)
{
    struct qkv_pairs seen = {0};
    const char *folder = scratch("anki");
    cr_expect_str_eq(
        read_text(folder, "in.txt", "#separator:tab\n#html:true\n#tags column:3\na b\tc\tx\nd\te\t\n", &seen),
        "a b=c|d=e|");
    cr_expect_eq(seen.anki_lines, 3);
    cr_expect_eq(seen.blank.count, 0);
    cr_expect_eq(seen.anki_column[QKV_ANKI_TAGS], 3);
    cr_expect_eq(seen.anki_column[QKV_ANKI_GUID], 0);
    cr_expect_str_eq(
        read_text(folder, "in.txt", "#separator:Semicolon\na;b\n", NULL),
        "in.txt:1: the columns are separated by Semicolon; export the notes with tabs between them");
    cr_expect_not_null(
        strstr(read_text(folder, "in.txt", "#separator:tab\n", NULL), "its lines have no tab"));
    cr_expect_str_eq(read_text(folder, "in.txt", "#1 is best\tel primero\n", NULL), "#1 is best=el primero|");
}

/* The columns that the header names hold no sentences, unless they are asked for. */
Test(pairs_file, skips_the_columns_that_the_header_of_anki_names)
{
    static const char text[] =
        "#separator:tab\n#html:true\n#guid column:1\n#notetype column:2\n#deck column:3\n#tags column:6\n"
        "aB(c\tBasic\tSpanish::One\tGo.\tVe.\tverb\nx{Yz\tCloze\tSpanish::Two\tRun!\tCorre.\tverb two\n";
    static const int named[QKV_ANKI_COLUMNS] = {1, 2, 3, 6};
    struct qkv_pairs seen = {0};
    const char *folder = scratch("anki_columns");
    cr_expect_str_eq(read_text(folder, "in.txt", text, &seen), "Go.=Ve.|Run!=Corre.|");
    cr_expect_eq(seen.anki_lines, 6);
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) cr_expect_eq(seen.anki_column[k], named[k]);
    struct qkv_pairs_request chosen = {.path = format("%s/in.txt", folder), .column = {6, 5}};
    cr_expect_str_eq(read_pairs(folder, chosen, &seen), "verb=Ve.|verb two=Corre.|");
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) cr_expect_eq(seen.anki_column[k], 0);
    /* A number that no column can have is ignored. */
    cr_expect_str_eq(
        read_text(folder, "in.txt", "#guid column:0\n#deck column:33\n#tags column:x\na\tb\n", &seen),
        "a=b|");
}

Test(pairs_file, reads_two_line_aligned_files_and_their_prefix)
{
    struct qkv_pairs seen = {0};
    const char *folder = scratch("two");
    const char *english = write_text(folder, "x.en", "a\ta\n\nc\nd\n"),
               *german = write_text(folder, "x.de", "A\n\n\nD\n");
    struct qkv_pairs_request both = {.path = english, .target = german};
    cr_expect_str_eq(read_pairs(folder, both, &seen), "a a=A|d=D|");
    cr_expect_eq(seen.columns, 0);
    cr_expect_eq(seen.blank.count, 1);
    cr_expect_eq(seen.empty.count, 1);
    cr_expect_str_eq(seen.lang[0], "en");
    cr_expect_str_eq(seen.lang[1], "de");
    /* Of a prefix, the first by name is the source, unless a language is given. */
    struct qkv_pairs_request prefix = {.path = format("%s/x", folder)};
    cr_expect_str_eq(read_pairs(folder, prefix, NULL), "A=a a|D=d|");
    prefix.lang[1] = "de";
    cr_expect_str_eq(read_pairs(folder, prefix, NULL), "a a=A|d=D|");
    prefix.lang[0] = "en";
    prefix.lang[1] = NULL;
    cr_expect_str_eq(read_pairs(folder, prefix, NULL), "a a=A|d=D|");
    prefix.lang[1] = "de";
    gzFile packed = gzopen(format("%s/x.fr.gz", folder), "wb");
    gzputs(packed, "1\n\n3\n4\n");
    gzclose(packed);
    prefix.lang[0] = "fr";
    cr_expect_str_eq(read_pairs(folder, prefix, NULL), "1=A|4=D|");
    prefix.lang[0] = prefix.lang[1] = NULL;
    cr_expect_str_eq(read_pairs(folder, prefix, NULL),
                     "x: is the prefix of more than two files: x.de, x.en, x.fr.gz; name "
                     "two languages with --src and --trg");
    prefix.lang[0] = "it";
    cr_expect_str_eq(read_pairs(folder, prefix, NULL), "x.it: there is no such file");
    /* A region does not hide the language. */
    write_text(folder, "k.en-US", "a\n");
    write_text(folder, "k.es-MX", "A\n");
    prefix = (struct qkv_pairs_request){.path = format("%s/k", folder)};
    cr_expect_str_eq(read_pairs(folder, prefix, &seen), "a=A|");
    cr_expect_str_eq(seen.lang[1], "es");
    prefix.lang[0] = "es";
    cr_expect_str_eq(read_pairs(folder, prefix, NULL), "A=a|");
}

Test(pairs_file, says_what_is_wrong)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "in.tsv: the file is empty"},
        {"\n \n", "in.tsv: has only blank lines"},
        {"one\ntwo\n",
         "in.tsv: its lines have no tab, but a line needs a sentence, a tab and its translation; for two "
         "files with a sentence in each line, name both"},
        {"one;uno\ntwo;dos\n",
         "in.tsv: its lines have no tab; if ';' separates the two sentences, write a tab in its "
         "place, or export the table with tabs"},
        {"one ||| uno\n",
         "in.tsv: its lines have no tab; if '|||' separates the two sentences, write a tab in its place, "
         "or export the table with tabs"},
        {"1\tone\n2\ttwo\n", "in.tsv: only one of its 2 columns holds sentences (text in most lines, and not "
                             "always the same), but a pair needs two; name them with "
                             "--columns, as in --columns 1,2"},
        {"a\tb\nc\t\xFF\n", "in.tsv:2:3: byte 0xFF is not valid UTF-8"},
        {"a\tb\rc\td\re\tf\r",
         "in.tsv: its lines end in CR alone, as on old Macs; convert them, as in: tr '\\r' '\\n' <OLD >NEW"},
        {"English\tFrench\n", "in.tsv: has 1 lines, but no pair of sentences"},
    };
    const char *folder = scratch("wrong");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(read_text(folder, "in.tsv", cases[i].text, NULL), cases[i].message);
    struct qkv_pairs_request request = {.path = write_text(folder, "in.tsv", "a\tb\n"), .column = {1, 3}};
    cr_expect_str_eq(read_pairs(folder, request, NULL),
                     "in.tsv: there is no column 3; the lines have up to 2");
    request = (struct qkv_pairs_request){.path = format("%s/none.tsv", folder)};
    cr_expect_str_eq(read_pairs(folder, request, NULL), "none.tsv: there is no such file, and no two files "
                                                        "none.tsv.en and none.tsv.es (or other languages) of "
                                                        "which it is the common prefix");
    request = (struct qkv_pairs_request){.path = write_text(folder, "x.en", "a\nb\nc\n"),
                                         .target = write_text(folder, "x.de", "A\nB\n")};
    cr_expect_str_eq(read_pairs(folder, request, NULL),
                     "x.en has 3 lines, but x.de has 2: line n of one file must be the "
                     "translation of line n of the other");
    /* Two tables, of different lengths or the same. */
    for (int same = 0; same < 2; same++) {
        request = (struct qkv_pairs_request){
            .path = write_text(folder, "a.tsv", "a\tb\nc\td\n"),
            .target = write_text(folder, "b.tsv", same ? "e\tf\ng\th\n" : "e\tf\ng\th\ni\tj\n")};
        const char *message = read_pairs(format("%s/", folder), request, NULL);
        cr_expect_not_null(strstr(message,
                                  "both have columns (tabs), so each is a table of pairs and not one "
                                  "side; join them: cat "),
                           "%s", message);
    }
    request = (struct qkv_pairs_request){.path = folder};
    cr_expect_str_eq(read_pairs(format("%s/", folder), request, NULL),
                     format("%s: cannot be read: it is a folder", folder));
}

Test(pairs_file, keeps_the_pairs_that_are_wanted)
{
    struct qkv_pairs pairs;
    struct qkv_error error;
    struct qkv_pairs_request request = {.path =
                                            write_text(scratch("filter"), "in.tsv", "a\tb\nc\td\ne\tf\n")};
    cr_assert_eq(qkv_pairs_read(&pairs, request, &error), QKV_OK);
    qkv_pairs_filter(&pairs, (const bool[]){true, false, true});
    cr_expect_eq(pairs.count, 2);
    cr_expect_str_eq(qkv_pairs_text(&pairs, 1, 0), "e");
    cr_expect_str_eq(qkv_pairs_text(&pairs, 1, 1), "f");
    static const int64_t wrong[] = {2, -1, INT64_MAX, INT64_MIN};
    static const int wrong_side[] = {2, -1, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        cr_expect_null(qkv_pairs_text(&pairs, wrong[i], 0));
        cr_expect_null(qkv_pairs_text(&pairs, 0, wrong_side[i]));
    }
    qkv_pairs_release(&pairs);
    cr_expect_null(qkv_pairs_text(&pairs, 0, 0));
}

/* `qkv init <(command)`: what is read from a pipe cannot be read again. */
Test(pairs_file, reads_a_pipe_from_its_beginning)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    for (int i = 0; i < 500; i++) {
        const char *line = format("one %d\tuno %d\n", i, i);
        cr_assert_eq(write(ends[1], line, strlen(line)), (ssize_t)strlen(line));
    }
    close(ends[1]);
    struct qkv_pairs pairs;
    struct qkv_error error = {""};
    struct qkv_pairs_request request = {.path = format("/dev/fd/%d", ends[0])};
    cr_assert_eq(qkv_pairs_read(&pairs, request, &error), QKV_OK, "%s", error.message);
    cr_expect_eq(pairs.count, 500);
    cr_expect_str_eq(qkv_pairs_text(&pairs, 0, 0), "one 0");
    qkv_pairs_release(&pairs);
    close(ends[0]);
}
