#include "data/languages.h"

#include <string.h>
#include <strings.h>

static const struct {
    const char *code, *three, *english, *native;
} LANGUAGES[] = {
#define LANGUAGE(code, three, english, native) {code, three, english, native},
#include "data/languages.def"
#undef LANGUAGE
};

static const char *const TITLES[] = {
    "source",          "target",      "src",        "trg",       "tgt",       "sentence",
    "translation",     "original",    "text",       "front",     "back",      "question",
    "answer",          "input",       "output",     "sentence1", "sentence2", "source sentence",
    "target sentence", "source_text", "target_text"};

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

bool qkv_is_column_title(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        if (is_same(name, size, TITLES[i])) return true;
    return qkv_language_code(name, size) != NULL;
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
