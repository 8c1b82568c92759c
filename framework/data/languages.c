#include "data/languages.h"

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

/* Whether the words of a title are titles or languages; a word in parentheses, or in capitals behind a hyphen, may be a region. */
static bool is_compound_title(const char *name, size_t size)
{
    enum { MAX_WORDS = 3 };
    int words = 0;
    for (size_t at = 0, length; at < size; at += length + 1) {
        for (length = 0; at + length < size && !memchr(" _-()", name[at + length], 5);) length++;
        if (!length) continue;
        char before = at ? name[at - 1] : ' ', after = at + length < size ? name[at + length] : ' ';
        bool is_joined = before == '_' || before == '-' || after == '_' || after == '-';
        bool is_region = words && (before == '(' || (before == '-' && length == 2));
        if (!is_region && !is_title_word(name + at, length, is_joined)) return false;
        words++;
    }
    return words > 1 && words <= MAX_WORDS;
}

bool qkv_is_column_title(const char *name, size_t size)
{
    return qkv_language_code(name, size) || is_title_word(name, size, true) || is_compound_title(name, size);
}

void qkv_languages_of_path(const char *path, const char *code[2])
{
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path;
    int count = 0;
    code[0] = code[1] = NULL;
    while (*at && count < 2) {
        size_t size = strcspn(at, "._-");
        const char *found = qkv_language_code(at, size);
        if (found) code[count++] = found;
        at += size + (at[size] != '\0');
    }
}
