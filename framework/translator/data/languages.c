#include "data/languages.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *code, *three, *english, *native;
} LANGUAGES[] = {
#define LANGUAGE(code, three, english, native) {code, three, english, native},
#define LANGUAGE_NAME(code, name)              {code, code, name, name},
#include "data/languages.def"
#undef LANGUAGE
#undef LANGUAGE_NAME
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
        if (is_same(name, size, LANGUAGES[i].code) || is_same(name, size, LANGUAGES[i].three) ||
            is_same(name, size, LANGUAGES[i].english) || is_same(name, size, LANGUAGES[i].native))
            return LANGUAGES[i].code;
    return NULL;
}

/* Whether a word of a title is one: short codes of languages are words of many languages, so that they count only where they are
 * joined to other words, as in en_text or en-US. */
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
