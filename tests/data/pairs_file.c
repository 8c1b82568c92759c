/* Reading pairs in the forms that people have. */

#include "support.h"

#include <zlib.h>

/* Adds " NAME COUNT", and the first line, to a text, unless the count is 0. */
static const char *with_count(const char *text, const char *name, int64_t count, int64_t first)
{
    if (!count) return text;
    text = format("%s, %s %d", text, name, (int)count);
    return first ? format("%s from %d", text, (int)first) : text;
}

/* The pairs and what was seen of the file, as in "a=b|c=d| 1 2 of 3, en es, header"; or the message of the failure without
 * the folder. */
static const char *read_pairs(const char *folder, struct qkv_pairs_request request)
{
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = {0};
    if (qkv_pairs_read(&pairs, request, &error)) {
        char *message = format("%s", error.message), *at;
        while ((at = strstr(message, folder)))
            memmove(at, at + strlen(folder) + 1, strlen(at + strlen(folder)));
        return message;
    }
    const char *text = "";
    for (int64_t i = 0; i < pairs.count; i++)
        text = format("%s%s=%s|", text, qkv_pairs_text(&pairs, i, 0), qkv_pairs_text(&pairs, i, 1));
    text = format("%s %d %d of %d, %s %s%s%s", text, pairs.column[0], pairs.column[1], pairs.columns,
                  pairs.lang[0], pairs.lang[1], pairs.has_header ? ", header" : "",
                  pairs.is_quoted ? ", quoted" : "");
    if (pairs.format) text = format("%s, %s", text, pairs.format);
    text = with_count(text, "joined", pairs.joined, 0);
    if (pairs.joined) text = format("%s in pair %d", text, (int)pairs.joined_pair);
    text = with_count(text, "anki", pairs.anki_lines, 0);
    for (int k = 0; k < QKV_ANKI_COLUMNS; k++) text = with_count(text, "skipped", pairs.anki_column[k], 0);
    text = with_count(text, "blank", pairs.blank.count, pairs.blank.first);
    text = with_count(text, "incomplete", pairs.incomplete.count, pairs.incomplete.first);
    text = with_count(text, "empty", pairs.empty.count, pairs.empty.first);
    text = with_count(text, "others", pairs.other_columns.count, pairs.other_columns.first);
    return text;
}

/* A table, what is asked of it, and what read_pairs says. */
struct row {
    const char *text, *seen, *name; /* name: NULL for in.tsv */
    const char *lang[2];
    int64_t column[2];
    const char *target, *target_name; /* the text of a second file */
};

#define CSV "a,b\nc,d\ne,f\ng,h\ni,j\nk,l\nm,n\no,p\nq,r\ns,t\n"

static const char CODES[] = "eng\ta\tspa\tA\neng\tb\tspa\tB\neng\tc\tspa\tC\neng\td\tspa\tD\n"
                            "eng\te\tspa\tE\neng\tf\tspa\tF\neng\tg\tspa\tG\neng\th\tspa\tH\n"
                            "eng\ti\tspa\tI\neng\tj\tspa\tJ\neng\tk\tspa\tK\neng\tl\tspa\tL\n";
static const char TWO_TITLES[] = "English\tSpanish\nGo.\tVe.\nRun!\tCorre.\n";
static const char THREE_TITLES[] = "English\tGerman\tfr\na\tb\tc\nd\te\tf\n";
static const char ANKI[] =
    "#separator:tab\n#html:true\n#guid column:1\n#notetype column:2\n#deck column:3\n#tags column:6\n"
    "aB(c\tBasic\tSpanish::One\tGo.\tVe.\tverb\nx{Yz\tCloze\tSpanish::Two\tRun!\tCorre.\tverb two\n";

static const struct row ROWS[] = {
    /* The columns that hold sentences are taken. A column that is the same in all lines is a code, but that needs some lines
     * to see. */
    {"Go.\tVe.\nRun!\tCorre.\n", "Go.=Ve.|Run!=Corre.| 1 2 of 2,  "},
    {"Go.\tVe.\tCC-BY 2.0 (France) Attribution: tatoeba.org #1 (CM)\nRun!\tCorre.\tCC-BY 2.0 #2\n",
     "Go.=Ve.|Run!=Corre.| 1 2 of 3,  "},
    {"CC-BY 2.0 (France)\tGo.\tVe.\nCC-BY 2.0 #2\tRun!\tCorre.\n", "Go.=Ve.|Run!=Corre.| 2 3 of 3,  "},
    {"1276\tLet's try.\t2481\tIntentemos.\n1277\tI sleep.\t2482\tDuermo.\n",
     "Let's try.=Intentemos.|I sleep.=Duermo.| 2 4 of 4,  "},
    {"2010-03-04\ta b\t\tc d\n2010-03-05\te f\t\tg h\n", "a b=c d|e f=g h| 2 4 of 4,  "},
    {"1 2 3\t3 2 1\n4 5\t5 4\n", "1 2 3=3 2 1|4 5=5 4| 1 2 of 2,  "},
    {"yes\tsi\nyes\tsi\n", "yes=si|yes=si| 1 2 of 2,  "},
    {CODES, "a=A|b=B|c=C|d=D|e=E|f=F|g=G|h=H|i=I|j=J|k=K|l=L| 2 4 of 4,  "},
    {CODES, "A=a|B=b|C=c|D=d|E=e|F=f|G=g|H=h|I=i|J=j|K=k|L=l| 4 2 of 4,  ", .column = {4, 2}},
    /* Quotation marks of cells are taken off. Spreadsheets and Anki quote some cells; sentences have quotation marks of
     * their own. A cell with line breaks is quoted, and goes on in the next line; lines are still counted as in the file. */
    {"\"Yes, I do.\"\tSi.\nNo.\t\"No, no.\"\n", "Yes, I do.=Si.|No.=No, no.| 1 2 of 2,  , quoted"},
    {"English\t\"Spanish\"\n\"Say \"\"no\"\".\"\tDi, no.\n\"\"\"No.\"\"\"\tNo.\n",
     "Say \"no\".=Di, no.|\"No.\"=No.| 1 2 of 2, en es, header, quoted"},
    {"\" a, b \"\tc\nd\te\n\"\"\tf\n", "a, b=c|d=e| 1 2 of 2,  , quoted, empty 1 from 3"},
    {"\"Yes.\"\tSi.\nNo, no.\tNo.\n", "\"Yes.\"=Si.|No, no.=No.| 1 2 of 2,  "},
    {"\"Yes, yes.\"\tSi.\nYes, no.\tNo.\n", "\"Yes, yes.\"=Si.|Yes, no.=No.| 1 2 of 2,  "},
    {"\"Go, go.\" \"No.\"\tSi.\n\"So, so.\"\tAsi.\n",
     "\"Go, go.\" \"No.\"=Si.|\"So, so.\"=Asi.| 1 2 of 2,  "},
    {"\"\"\"a\tb\n\"c, d\"\te\n", "\"\"\"a=b|\"c, d\"=e| 1 2 of 2,  "},
    {"Go.\t\"first line\nsecond line\"\nNo.\tNo.\n",
     "Go.=first line second line|No.=No.| 1 2 of 2,  , quoted, joined 1 in pair 1"},
    {"\"a\r\n\r\nb\"\t\"c\r\nd\"\r\ne\tf\r\n", "a  b=c d|e=f| 1 2 of 2,  , quoted, joined 2 in pair 1"},
    {"\"say \"\"no\n\"\"\"\tb\nc\td\n", "say \"no \"=b|c=d| 1 2 of 2,  , quoted, joined 1 in pair 1"},
    {"a\t\"b\n\"\nc\t\"d\ne\"", "a=b|c=d e| 1 2 of 2,  , quoted, joined 2 in pair 2"},
    {"#html:false\n\"a\nb\"\tc\nd\te\n\n",
     "a b=c|d=e| 1 2 of 2,  , quoted, joined 1 in pair 1, anki 1, blank 1 from 5"},
    /* Sentences that begin with a quotation mark of their own. */
    {"a\t\"b\nc\td\"\ne\tf\n", "a=\"b|c=d\"|e=f| 1 2 of 2,  "},
    {"a\t\"b\n\"c\"\td\ne\tf\n", "a=\"b|\"c\"=d|e=f| 1 2 of 2,  "},
    {"a\t\"b\nc\td\ne\t\"f", "a=\"b|c=d|e=\"f| 1 2 of 2,  "},
    {"a\t\"b\" c\nd\"\te\n", "a=\"b\" c|d\"=e| 1 2 of 2,  "},
    /* Speech that goes on in the next lines. */
    {"x\ty\n\"a\t\"b\nc\"\td\"\nx\ty\n", "x=y|\"a=\"b|c\"=d\"|x=y| 1 2 of 2,  "},
    {"x\ty\na\t\"b\nc\"\td\n", "x=y|a=\"b|c\"=d| 1 2 of 2,  "},
    {"\"a\tb\nc\"\td\n\"e\tf\ng\"\th\n", "\"a=b|c\"=d|\"e=f|g\"=h| 1 2 of 2,  "},
    {"a\t\"b\nc\"\td\ne\t\"f\ng\"\th\n", "a=\"b|c\"=d|e=\"f|g\"=h| 1 2 of 2,  "},
    {"\"a;b\nc\";d\ne;f\n", "\"a=b|c\"=d|e=f| 1 2 of 2,  , CSV with semicolons"},
    /* Between tabs, quotation marks around all cells are those of a program. */
    {"\"a\"\t\"b\"\n\"c\"\t\"d\"\n", "a=b|c=d| 1 2 of 2,  , quoted"},
    /* What Python's csv module reads from these texts. */
    {"en,es\r\n\"Hello, Tom.\",\"Hola, Tom.\"\r\n\"Say \"\"no\"\".\",Di no.\r\n\"two\r\nlines\",dos\r\n",
     "Hello, Tom.=Hola, Tom.|Say \"no\".=Di no.|two lines=dos| 1 2 of 2, en es, header, quoted, CSV with "
     "commas, joined 1 in pair 3"},
    {"1;\"a;b\";\"c\td\"\n2;\"e, f\";g\n3;h;i\n",
     "a;b=c d|e, f=g|h=i| 2 3 of 3,  , quoted, CSV with semicolons"},
    {"\"a, b\nc\",d\n\"e, f\",g\n",
     "a, b c=d|e, f=g| 1 2 of 2,  , quoted, CSV with commas, joined 1 in pair 1"},
    {"a, b;c\nd;e, f\n", "a, b=c|d=e, f| 1 2 of 2,  , CSV with semicolons"},
    {"a b,\"c, d\"\ne, \"f, g\"\n", "a b=c, d|e=f, g| 1 2 of 2,  , quoted, CSV with commas"},
    {"\"a\" b,c\nd,e\n", "\"a\" b=c|d=e| 1 2 of 2,  , CSV with commas"},
    {CSV, "b=a|d=c|f=e|h=g|j=i|l=k|n=m|p=o|r=q|t=s| 2 1 of 2,  , CSV with commas", .column = {2, 1}},
    {"#separator:Semicolon\na;b\n", "a=b| 1 2 of 2,  , CSV with semicolons, anki 1"},
    /* A row of another number of columns is left out, not shifted; many of them are no table. */
    {CSV "u,v,w\n",
     "a=b|c=d|e=f|g=h|i=j|k=l|m=n|o=p|q=r|s=t| 1 2 of 2,  , CSV with commas, others 1 from 11"},
    {CSV "u,v,w\nu,v,w\n",
     "in.tsv: its lines have no tab, and ',' makes a different number of columns in many of them: a cell "
     "with ',' in it needs quotation marks, as spreadsheets write them in CSV; or export the table with "
     "tabs"},
    /* What Python's json module reads from these lines. */
    {"{\"translation\": {\"en\": \"Go.\", \"es\": \"Ve.\"}}\n\n"
     "{\"translation\": {\"es\": \"\\u00bfQu\\u00e9?\", \"en\": \"\\\"What,\\n me\\\"?\"}}\n",
     "Go.=Ve.|\"What,  me\"?=\u00bfQu\u00e9?| 1 2 of 2, en es, header, JSON lines, blank 1 from 2"},
    {"{\"id\": 1, \"a\": \"b\", \"n\": null, \"c\": \"d\"}\n{\"id\": 2, \"a\": \"e\"}\n{\"c\": \"f\", "
     "\"a\": \"g\"}",
     "b=d|g=f| 2 4 of 4,  , header, JSON lines, empty 1 from 2"},
    {"{\"en\": \"a\", \"es\": \"b\", \"fr\": \"c\"}\n", "c=a| 3 1 of 3, fr en, header, JSON lines",
     .lang = {"fr", "en"}},
    {"[\"a\\tb\", \"c\"]\n[\"d\", \"e\"]\n", "a b=c|d=e| 1 2 of 2,  , header, JSON lines"},
    {"{\"a\": \"b\", \"c\": \"d\"}\n{\"a\": \"e\", \"c\"}\n",
     "in.tsv:2: is not a JSON object, as the lines before it are"},
    {"[{\"a\": \"b\", \"c\": \"d\"}]", "in.tsv: is JSON, but not JSON lines, which have an object in "
                                       "each line: convert it, as in: jq -c '.[]' FILE >pairs.jsonl"},
    {"{a}\tb\n[c]\td\n", "{a}=b|[c]=d| 1 2 of 2,  "},
    /* Sides that are named the other way round are exchanged. */
    {TWO_TITLES, "Go.=Ve.|Run!=Corre.| 1 2 of 2, en es, header"},
    {TWO_TITLES, "Ve.=Go.|Corre.=Run!| 2 1 of 2, es en, header", .lang = {"es", "en"}},
    {TWO_TITLES, "Ve.=Go.|Corre.=Run!| 2 1 of 2, es en, header", .lang = {"es", NULL}},
    {TWO_TITLES, "Ve.=Go.|Corre.=Run!| 2 1 of 2, es en, header", .lang = {NULL, "en"}},
    {TWO_TITLES, "Go.=Ve.|Run!=Corre.| 1 2 of 2, en es, header", .lang = {"en", "es"}},
    {TWO_TITLES, "Go.=Ve.|Run!=Corre.| 1 2 of 2, es fr, header", .lang = {"es", "fr"}},
    {TWO_TITLES, "Go.=Ve.|Run!=Corre.| 1 2 of 2, es es, header", .lang = {"es", "es"}},
    {TWO_TITLES, "Go.=Ve.|Run!=Corre.| 1 2 of 2, de en, header", .lang = {"de", "en"}},
    {TWO_TITLES, "Go.=Ve.|Run!=Corre.| 1 2 of 2, es en, header", .lang = {"es", "en"}, .column = {1, 2}},
    {"Go.\nRun!\n", "Ve.=Go.|Corre.=Run!| 0 0 of 0, es en", .name = "x.en", .lang = {"es", "en"},
     .target = "Ve.\nCorre.\n", .target_name = "x.es"},
    /* Lines without a pair are left out and counted. */
    {"\uFEFFa\tb\r\n\r\n \t \n  c  c \t\u00a0d\u3000\r\nlonely\ne\t \n\tf\ng\th\n",
     "a=b|c  c=d|g=h| 1 2 of 2,  , blank 2 from 2, incomplete 1 from 5, empty 2 from 6"},
    /* Headers and names of files say the languages. Columns that are taken in another order bring their languages along. */
    {"English\tDeutsch\na\tb\n", "a=b| 1 2 of 2, en de, header"},
    {"Source\ttarget\na\tb\n", "a=b| 1 2 of 2,  , header"},
    {"eng\tspa\na\tb\n", "a=b| 1 2 of 2, en es, header"},
    {"English\tInglesh\na\tb\n", "English=Inglesh|a=b| 1 2 of 2,  "},
    {"Englisch\tFranz\u00f6sisch\na\tb\n", "a=b| 1 2 of 2, en fr, header"},
    {"ingl\u00e9s\tFrase\na\tb\n", "a=b| 1 2 of 2, en , header"},
    {"Satz\t\u00dcbersetzung\na\tb\n", "a=b| 1 2 of 2,  , header"},
    {"a\tb\n", "a=b| 1 2 of 2, en fr", .name = "x.eng-fra.txt"},
    {"a\tb\n", "a=b| 1 2 of 2, en es", .name = "Sentence pairs in English-Spanish - 2024.tsv"},
    {"a\tb\n", "a=b| 1 2 of 2,  ", .name = "is it no.tsv"},
    {"a\tb\n", "a=b| 1 2 of 2, de pt", .name = "de_pt.tsv"},
    {"a\tb\tCC-BY 2.0\n", "a=b| 1 2 of 3, en fr", .name = "fra.txt"},
    {"a\tb\tCC-BY 2.0\n", "b=a| 2 1 of 3, fr en", .name = "fra.txt", .column = {2, 1}},
    {"a\tb\n", "a=b| 1 2 of 2,  ", .name = "fra.txt"},
    {"a\tb\n", "a=b| 1 2 of 2, nl de", .name = "en-de.tsv", .lang = {"nl", NULL}},
    /* Columns whose titles name the languages are taken. */
    {THREE_TITLES, "b=c|e=f| 2 3 of 3, de fr, header", .lang = {"de", "fr"}},
    {THREE_TITLES, "c=a|f=d| 3 1 of 3, fr en, header", .lang = {"fr", "en"}},
    {THREE_TITLES, "a=c|d=f| 1 3 of 3, en fr, header", .lang = {NULL, "fr"}},
    {THREE_TITLES, "c=a|f=d| 3 1 of 3, fr en, header", .lang = {"fr", NULL}},
    {THREE_TITLES, "b=a|e=d| 2 1 of 3, de en, header", .lang = {NULL, "en"}},
    {THREE_TITLES, "a=b|d=e| 1 2 of 3, en de, header"},
    {THREE_TITLES, "a=b|d=e| 1 2 of 3, en-GB de, header", .lang = {"en-GB", "de"}},
    {THREE_TITLES,
     "in.tsv: no column is titled es: the title of column 1 is that of en; name the columns with "
     "--columns, as in --columns 1,2",
     .lang = {"es", "de"}},
    {THREE_TITLES, "a=c|d=f| 1 3 of 3, es de, header", .lang = {"es", "de"}, .column = {1, 3}},
    {"\"en\"\t\"de\"\t\"fr\"\n\"a \"\"b\"\"\"\t\"c\"\t\"d\"\n", "d=a \"b\"| 3 1 of 3, fr en, header, quoted",
     .lang = {"fr", "en"}},
    /* An export of the program Anki. The columns that the header names hold no sentences, unless they are asked for. A
     * number that no column can have is ignored. */
    {"#separator:tab\n#html:true\n#tags column:3\na b\tc\tx\nd\te\t\n",
     "a b=c|d=e| 1 2 of 3,  , anki 3, skipped 3"},
    {"#separator:Pipe\na|b\n",
     "in.tsv:1: the columns are separated by Pipe; export the notes with tabs between them"},
    {"#1 is best\tel primero\n", "#1 is best=el primero| 1 2 of 2,  "},
    {ANKI, "Go.=Ve.|Run!=Corre.| 4 5 of 6,  , anki 6, skipped 1, skipped 2, skipped 3, skipped 6"},
    {ANKI, "verb=Ve.|verb two=Corre.| 6 5 of 6,  , anki 6", .column = {6, 5}},
    {"#guid column:0\n#deck column:33\n#tags column:x\na\tb\n", "a=b| 1 2 of 2,  , anki 3"},
    /* What is wrong is said. */
    {"", "in.tsv: the file is empty"},
    {"\n \n", "in.tsv: has only blank lines"},
    {"one\ntwo\n", "in.tsv: its lines have no tab, but a line needs a sentence, a tab and its "
                   "translation; for two files with a sentence in each line, name both"},
    {"one ||| uno\n", "in.tsv: its lines have no tab; if '|||' separates the two sentences, write a tab "
                      "in its place, or export the table with tabs"},
    {"1\tone\n2\ttwo\n",
     "in.tsv: only one of its 2 columns holds sentences (text in most lines, and not always the same), "
     "but a pair needs two; name them with --columns, as in --columns 1,2"},
    {"a\tb\nc\t\xFF\n", "in.tsv:2:3: byte 0xFF is not valid UTF-8"},
    {"a\tb\rc\td\re\tf\r",
     "in.tsv: its lines end in CR alone, as on old Macs; convert them, as in: tr '\\r' '\\n' <OLD >NEW"},
    {"English\tFrench\n", "in.tsv: has 1 lines, but no pair of sentences"},
    {"a\tb\n", "in.tsv: there is no column 3; the lines have up to 2", .column = {1, 3}},
    {"a\nb\nc\n", "in.tsv:3:1: the line has no counterpart: in.tsv has 3 lines, but y has 2",
     .target = "A\nB\n", .target_name = "y"},
    {"a\tb\nc\td\n",
     "in.tsv and y: both have columns (tabs), so each is a table of pairs and not one side; join them: cat "
     "in.tsv y >all.txt",
     .target = "e\tf\ng\th\n", .target_name = "y"},
    {"a\tb\nc\td\n",
     "in.tsv and y: both have columns (tabs), so each is a table of pairs and not one side; join them: cat "
     "in.tsv y >all.txt",
     .target = "e\tf\ng\th\ni\tj\n", .target_name = "y"},
};

Test(pairs_file, reads_what_people_have_and_says_what_is_wrong)
{
    const char *folder = scratch("rows");
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct row *row = &ROWS[i];
        const struct qkv_pairs_request request = {
            .path = write_text(folder, row->name ? row->name : "in.tsv", row->text),
            .target = row->target ? write_text(folder, row->target_name, row->target) : NULL,
            .lang = {row->lang[0], row->lang[1]},
            .column = {row->column[0], row->column[1]}};
        const char *seen = read_pairs(folder, request);
        cr_expect_str_eq(seen, row->seen, "%s\n gives %s\n not   %s", row->text, seen, row->seen);
    }
    const struct qkv_pairs_request none = {.path = format("%s/none.tsv", folder)},
                                   in_a_folder = {.path = folder};
    cr_expect_str_eq(read_pairs(folder, none),
                     "none.tsv: there is no such file, and no two files none.tsv.en and none.tsv.es (or "
                     "other languages) of which it is the common prefix");
    cr_expect_str_eq(read_pairs("no folder", in_a_folder),
                     format("%s: cannot be read: it is a folder", folder));
}

/* Of a prefix, the first by name is the source, unless a language is given. A region does not hide the language. */
Test(pairs_file, reads_two_line_aligned_files_and_their_prefix)
{
    static const struct {
        const char *prefix, *lang[2], *seen;
    } rows[] = {
        {"x", {NULL, NULL}, "A=a a|D=d| 0 0 of 0, de en, blank 1 from 2, empty 1 from 3"},
        {"x", {NULL, "de"}, "a a=A|d=D| 0 0 of 0, en de, blank 1 from 2, empty 1 from 3"},
        {"x", {"en", NULL}, "a a=A|d=D| 0 0 of 0, en de, blank 1 from 2, empty 1 from 3"},
        {"k", {NULL, NULL}, "a=A| 0 0 of 0, en es"},
        {"k", {"es", NULL}, "A=a| 0 0 of 0, es en"},
        {"y", {"fr", "de"}, "1=A|4=D| 0 0 of 0, fr de, blank 1 from 2, empty 1 from 3"},
        {"y", LIST(NULL, NULL),
         "y: is the prefix of more than two files: y.de, y.en, y.fr.gz; name two languages with --src and "
         "--trg"},
        {"y", {"it", NULL}, "y.it: there is no such file"},
    };
    const char *folder = scratch("two"), *source = "a\ta\n\nc\nd\n", *target = "A\n\n\nD\n";
    const struct qkv_pairs_request both = {.path = write_text(folder, "x.en", source),
                                           .target = write_text(folder, "x.de", target)};
    cr_expect_str_eq(read_pairs(folder, both), "a a=A|d=D| 0 0 of 0, en de, blank 1 from 2, empty 1 from 3");
    write_text(folder, "y.en", source);
    write_text(folder, "y.de", target);
    gzFile packed = gzopen(format("%s/y.fr.gz", folder), "wb");
    gzputs(packed, "1\n\n3\n4\n");
    gzclose(packed);
    write_text(folder, "k.en-US", "a\n");
    write_text(folder, "k.es-MX", "A\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct qkv_pairs_request request = {.path = format("%s/%s", folder, rows[i].prefix),
                                                  .lang = {rows[i].lang[0], rows[i].lang[1]}};
        const char *seen = read_pairs(folder, request);
        cr_expect_str_eq(seen, rows[i].seen, "%s, not %s", seen, rows[i].seen);
    }
}

Test(pairs_file, has_no_text_beyond_its_pairs)
{
    static const int64_t wrong[] = {2, -1, INT32_MAX, INT32_MIN};
    struct qkv_pairs pairs;
    const char *path = write_text(scratch("beyond"), "in.tsv", "a\tb\nc\td\n");
    expect_done(qkv_pairs_read(&pairs, (struct qkv_pairs_request){.path = path}, &error));
    for (int i = 0; i < 4; i++) {
        cr_expect_null(qkv_pairs_text(&pairs, wrong[i], 0));
        cr_expect_null(qkv_pairs_text(&pairs, 0, (int)wrong[i]));
    }
    qkv_pairs_release(&pairs);
    cr_expect_null(qkv_pairs_text(&pairs, 0, 0));
}

/* `qkv init <(command)`: what is read from a pipe cannot be read again. */
Test(pairs_file, reads_a_pipe_from_its_beginning)
{
    static const char text[] = "one\tuno\ntwo\tdos\n";
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(ends[1]);
    const struct qkv_pairs_request request = {.path = format("/dev/fd/%d", ends[0])};
    cr_expect_str_eq(read_pairs("no folder", request), "one=uno|two=dos| 1 2 of 2,  ");
    close(ends[0]);
}
