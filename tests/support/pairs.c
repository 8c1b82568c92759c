#include "pairs.h"

#include <ctype.h>

enum { MAX_LINKS = 4 * MAX_WORDS };

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

void put(struct table *table, const char *key, const char *value)
{
    table->entry[table->count++] = (struct entry){key, value};
}

void sort(struct table *table)
{
    qsort(table->entry, table->count, sizeof *table->entry, compare);
}

const char *get(const struct table *table, const char *key)
{
    struct entry wanted = {key, NULL};
    const struct entry *found = bsearch(&wanted, table->entry, table->count, sizeof wanted, compare);
    return found ? found->value : NULL;
}

size_t distinct(const struct table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++)
        count += i == 0 || strcmp(table->entry[i].key, table->entry[i - 1].key) != 0;
    return count;
}

int read_pairs(const char *path, struct pair *pairs)
{
    char *text = read_file(path, NULL), *save = NULL;
    cr_assert_not_null(text, "%s is missing", path);
    int count = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), count++) {
        cr_assert_lt(count, MAX_PAIRS);
        char *tab = strchr(line, '\t');
        pairs[count] = (struct pair){line, tab ? tab + 1 : NULL};
        if (tab) *tab = '\0';
    }
    return count;
}

static int split_at_most(const char *text, char **words, int limit)
{
    char *save = NULL, *copy = format("%s", text);
    int count = 0;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        cr_assert_lt(count, limit, "%s", text);
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

int split(const char *text, char **words)
{
    return split_at_most(text, words, MAX_WORDS);
}

void check_writing(const char *text, bool english)
{
    char *words[MAX_WORDS + 1];
    int count = split(text, words);
    for (const char *c = text; *c; c++)
        cr_assert(islower((unsigned char)*c) || *c == ' ' ||
                      (english ? *c == '\'' : (unsigned char)*c >= 128),
                  "%s", text);
    for (int i = 0; i + 1 < count; i++) {
        bool vowel = strchr("aeiou", words[i + 1][0]) != NULL;
        if (english && !strcmp(words[i], "a")) cr_assert(!vowel, "%s", text);
        if (english && !strcmp(words[i], "an")) cr_assert(vowel, "%s", text);
        bool contracts = !strcmp(words[i], "a") || !strcmp(words[i], "de");
        if (!english && contracts) cr_assert_str_neq(words[i + 1], "el", "%s", text);
    }
}

void check_links(const struct pair *pair, const char *links)
{
    char *words[MAX_WORDS + 1], *link[MAX_LINKS + 1];
    int sources = split(pair->source, words), targets = split(pair->target, words), last = -1;
    bool source_linked[MAX_WORDS] = {false}, target_linked[MAX_WORDS] = {false};
    int count = split_at_most(links, link, MAX_LINKS);
    for (int k = 0; k < count; k++) {
        int from, to, read = 0;
        cr_assert_eq(sscanf(link[k], "%d-%d%n", &from, &to, &read), 2);
        cr_assert_eq(link[k][read], '\0');
        cr_assert(from >= 0 && from < sources && to >= 0 && to < targets, "%s", links);
        cr_assert_gt(from * MAX_WORDS + to, last, "%s", links);
        last = from * MAX_WORDS + to;
        source_linked[from] = target_linked[to] = true;
    }
    for (int k = 0; k < sources; k++) cr_assert(source_linked[k], "%s", pair->source);
    for (int k = 0; k < targets; k++) cr_assert(target_linked[k], "%s", pair->source);
}
