/* Names of languages. */
#include "data/pairs.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* The code of ISO 639-1, that of ISO 639-3 (as Tatoeba and Anki name their files), and the names that may be the title of a
 * column of sentences: in English, in the language itself, and as German, French, Spanish, Italian, Portuguese and Dutch files
 * have them. */
static const char *const LANGUAGES[][11] = {
    {"ar", "ara", "Arabic", "العربية"},
    {"be", "bel", "Belarusian", "Беларуская"},
    {"bg", "bul", "Bulgarian", "Български"},
    {"ca", "cat", "Catalan", "Català"},
    {"cs", "ces", "Czech", "Čeština"},
    {"da", "dan", "Danish", "Dansk"},
    {"de", "deu", "German", "Deutsch", "allemand", "alemán", "tedesco", "alemão", "Duits"},
    {"el", "ell", "Greek", "Ελληνικά"},
    {"en", "eng", "English", "Englisch", "anglais", "inglés", "inglese", "inglês", "Engels"},
    {"eo", "epo", "Esperanto"},
    {"es", "spa", "Spanish", "Español", "Spanisch", "espagnol", "spagnolo", "espanhol", "Spaans"},
    {"et", "est", "Estonian", "Eesti"},
    {"eu", "eus", "Basque", "Euskara"},
    {"fa", "pes", "Persian", "فارسی"},
    {"fi", "fin", "Finnish", "Suomi"},
    {"fr", "fra", "French", "Français", "Französisch", "francés", "francese", "francês", "Frans"},
    {"ga", "gle", "Irish", "Gaeilge"},
    {"gl", "glg", "Galician", "Galego"},
    {"he", "heb", "Hebrew", "עברית"},
    {"hi", "hin", "Hindi", "हिन्दी"},
    {"hr", "hrv", "Croatian", "Hrvatski"},
    {"hu", "hun", "Hungarian", "Magyar"},
    {"hy", "hye", "Armenian", "Հայերեն"},
    {"id", "ind", "Indonesian", "Bahasa Indonesia"},
    {"is", "isl", "Icelandic", "Íslenska"},
    {"it", "ita", "Italian", "Italiano", "Italienisch", "italien", "italiaans"},
    {"ja", "jpn", "Japanese", "日本語", "Japanisch", "japonais", "japonés", "giapponese", "japonês",
     "Japans"},
    {"ka", "kat", "Georgian", "ქართული"},
    {"ko", "kor", "Korean", "한국어"},
    {"la", "lat", "Latin", "Latina"},
    {"lt", "lit", "Lithuanian", "Lietuvių"},
    {"lv", "lvs", "Latvian", "Latviešu"},
    {"mk", "mkd", "Macedonian", "Македонски"},
    {"nb", "nob", "Norwegian", "Norsk"},
    {"nl", "nld", "Dutch", "Nederlands", "Niederländisch", "néerlandais", "neerlandés", "olandese",
     "holandês"},
    {"oc", "oci", "Occitan"},
    {"pl", "pol", "Polish", "Polski", "Polnisch", "polonais", "polaco", "polacco", "polonês"},
    {"pt", "por", "Portuguese", "Português", "Portugiesisch", "portugais", "portugués", "portoghese",
     "Portugees"},
    {"ro", "ron", "Romanian", "Română"},
    {"ru", "rus", "Russian", "Русский", "Russisch", "russe", "ruso", "russo"},
    {"sk", "slk", "Slovak", "Slovenčina"},
    {"sl", "slv", "Slovenian", "Slovenščina"},
    {"sq", "sqi", "Albanian", "Shqip"},
    {"sr", "srp", "Serbian", "Српски"},
    {"sv", "swe", "Swedish", "Svenska"},
    {"sw", "swh", "Swahili", "Kiswahili"},
    {"th", "tha", "Thai", "ไทย"},
    {"tl", "tgl", "Tagalog"},
    {"tr", "tur", "Turkish", "Türkçe", "Türkisch", "turc", "turco", "Turks"},
    {"uk", "ukr", "Ukrainian", "Українська"},
    {"ur", "urd", "Urdu", "اردو"},
    {"vi", "vie", "Vietnamese", "Tiếng Việt"},
    {"zh", "cmn", "Chinese", "中文", "Chinesisch", "chinois", "chino", "cinese", "chinês", "Chinees"},
};

static const char *const TITLES[] = {
    "source",          "target",      "src",         "trg",       "tgt",       "sentence",
    "translation",     "original",    "text",        "front",     "back",      "question",
    "answer",          "input",       "output",      "sentence1", "sentence2", "source sentence",
    "target sentence", "source_text", "target_text", "Quelle",    "Ziel",      "Satz",
    "Übersetzung",     "Quelltext",   "Zieltext",    "cible",     "phrase",    "traduction",
    "frase",           "traducción",  "traduzione",  "tradução",  "origen",    "destino",
    "texto",           "testo",       "bron",        "doel",      "zin",       "vertaling"};

static bool is_same(const char *name, size_t size, const char *known)
{
    return strlen(known) == size && !strncasecmp(name, known, size);
}

const char *qkv_language_code(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof LANGUAGES / sizeof *LANGUAGES; i++)
        for (const char *const *known = LANGUAGES[i]; *known; known++)
            if (is_same(name, size, *known)) return *LANGUAGES[i];
    return NULL;
}

/* Whether a word of a title is one: short codes of languages are words of many languages, so that they count only where
 * they are joined to other words, as in en_text or en-US. */
static bool is_title_word(const char *word, size_t size, bool is_joined)
{
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        if (is_same(word, size, TITLES[i])) return true;
    return (is_joined || size > 3) && qkv_language_code(word, size);
}

/* Whether a word of a title is a region, as in "English (US)", pt-BR and pt_BR. */
static bool is_region(const char *word, size_t size, char before)
{
    bool is_short = size == 2 && (before == '-' || before == '_');
    return before == '(' || (is_short && isupper((unsigned char)word[0]) && isupper((unsigned char)word[1]));
}

/* Whether a title has several words, all of which are titles, languages or regions. *code: the first language, or NULL. */
static bool is_compound_title(const char *name, size_t size, const char **code)
{
    enum { MAX_WORDS = 3 };
    int words = 0;
    *code = NULL;
    for (size_t at = 0, length; at < size; at += length + 1) {
        for (length = 0; at + length < size && !memchr(" _-()", name[at + length], 5);) length++;
        if (!length) continue;
        char before = at ? name[at - 1] : ' ', after = at + length < size ? name[at + length] : ' ';
        bool is_joined = before == '_' || before == '-' || after == '_' || after == '-';
        if (!words || !is_region(name + at, length, before)) {
            if (!is_title_word(name + at, length, is_joined)) return false;
            if (!*code) *code = qkv_language_code(name + at, length);
        }
        words++;
    }
    return words > 1 && words <= MAX_WORDS;
}

bool qkv_is_column_title(const char *name, size_t size)
{
    const char *ignored;
    return qkv_language_code(name, size) || is_title_word(name, size, true) ||
           is_compound_title(name, size, &ignored);
}

const char *qkv_language_of_title(const char *name, size_t size)
{
    const char *code = qkv_language_code(name, size), *of_word;
    return code ? code : is_compound_title(name, size, &of_word) ? of_word : NULL;
}

bool qkv_is_title_pair(const char *source, size_t source_size, const char *target, size_t target_size)
{
    if (!qkv_is_column_title(source, source_size) || !qkv_is_column_title(target, target_size)) return false;
    const char *one = qkv_language_code(source, source_size), *other = qkv_language_code(target, target_size);
    bool is_translation = one && one == other && source_size > 3 && target_size > 3 &&
                          (source_size != target_size || strncasecmp(source, target, source_size) != 0);
    return !is_translation;
}

bool qkv_is_same_language(const char *a, const char *b)
{
    const char *code_a = qkv_language_code(a, strcspn(a, "-_")),
               *code_b = qkv_language_code(b, strcspn(b, "-_"));
    return !strcmp(a, b) || (code_a && code_b && !strcmp(code_a, code_b));
}

void qkv_languages_of_path(const char *path, const char *code[2])
{
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path;
    int count = 0;
    code[0] = code[1] = NULL;
    for (char before = '.'; *at && count < 2;) {
        size_t size = strcspn(at, "._- ");
        /* Between spaces, short codes are words: "in", "no". */
        bool is_word = size <= 3 && (before == ' ' || at[size] == ' ');
        const char *found = is_word ? NULL : qkv_language_code(at, size);
        if (found) code[count++] = found;
        before = at[size];
        at += size + (before != '\0');
    }
}
