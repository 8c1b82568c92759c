#include "datasets/generate/phrase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int phrase_source(struct phrase *phrase, const char *word)
{
    QKV_BUG(phrase->source_count == PHRASE_WORDS, "an English phrase is too long");
    int at = phrase->source_count++;
    phrase->source[at] = word;
    if (at > 0 && !strcmp(phrase->source[at - 1], "a") && strchr("aeiou", word[0]))
        phrase->source[at - 1] = "an";
    return at;
}

/* True of an i sound: "iglesia" and "hijo", but not "hielo". */
static bool begins_with_i(const char *word)
{
    if (word[0] == 'h') return word[1] == 'i' && word[2] != 'e' && word[2] != 'a';
    return word[0] == 'i';
}

int phrase_target(struct phrase *phrase, const char *word)
{
    QKV_BUG(phrase->target_count == PHRASE_WORDS, "a Spanish phrase is too long");
    int last = phrase->target_count - 1;
    if (last >= 0 && !strcmp(word, "el")) {
        bool to = !strcmp(phrase->target[last], "a"), of = !strcmp(phrase->target[last], "de");
        if (to || of) {
            phrase->target[last] = to ? "al" : "del";
            return last;
        }
    }
    if (last >= 0 && !strcmp(phrase->target[last], "y") && begins_with_i(word)) phrase->target[last] = "e";
    phrase->target[phrase->target_count] = word;
    return phrase->target_count++;
}

static int find_link(const struct phrase *phrase, int source, int target)
{
    int i = 0;
    while (i < phrase->link_count && (phrase->link[i].source != source || phrase->link[i].target != target))
        i++;
    return i;
}

void phrase_link(struct phrase *phrase, int source, int target)
{
    if (source < 0 || target < 0 || find_link(phrase, source, target) < phrase->link_count) return;
    QKV_BUG(phrase->link_count == PHRASE_LINKS, "a phrase has too many links");
    phrase->link[phrase->link_count++] = (struct link){source, target};
}

void phrase_place_source(struct phrase *phrase, const struct phrase *part, struct placement *placement)
{
    for (int i = 0; i < part->source_count; i++)
        placement->source[i] = phrase_source(phrase, part->source[i]);
}

void phrase_place_target(struct phrase *phrase, const struct phrase *part, struct placement *placement)
{
    for (int i = 0; i < part->target_count; i++)
        placement->target[i] = phrase_target(phrase, part->target[i]);
}

void phrase_place_links(struct phrase *phrase, const struct phrase *part, const struct placement *placement)
{
    for (int i = 0; i < part->link_count; i++)
        phrase_link(phrase, placement->source[part->link[i].source], placement->target[part->link[i].target]);
}

void phrase_place(struct phrase *phrase, const struct phrase *part)
{
    struct placement placement;
    phrase_place_source(phrase, part, &placement);
    phrase_place_target(phrase, part, &placement);
    phrase_place_links(phrase, part, &placement);
}

static char *join(const char *const *words, int count, struct qkv_arena *arena)
{
    size_t size = 1;
    for (int i = 0; i < count; i++) size += strlen(words[i]) + 1;
    char *text = qkv_arena_allocate(arena, size), *end = text;
    if (!text) return NULL;
    *text = '\0';
    for (int i = 0; i < count; i++) end += sprintf(end, i ? " %s" : "%s", words[i]);
    return text;
}

char *phrase_source_text(const struct phrase *phrase, struct qkv_arena *arena)
{
    return join(phrase->source, phrase->source_count, arena);
}

char *phrase_target_text(const struct phrase *phrase, struct qkv_arena *arena)
{
    return join(phrase->target, phrase->target_count, arena);
}

static int compare_links(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    return x->source != y->source ? x->source - y->source : x->target - y->target;
}

char *phrase_link_text(const struct phrase *phrase, struct qkv_arena *arena)
{
    struct link sorted[PHRASE_LINKS];
    memcpy(sorted, phrase->link, sizeof *sorted * (size_t)phrase->link_count);
    qsort(sorted, (size_t)phrase->link_count, sizeof *sorted, compare_links);
    char *text = qkv_arena_allocate(arena, (size_t)phrase->link_count * 24 + 1), *end = text;
    if (!text) return NULL;
    *text = '\0';
    for (int i = 0; i < phrase->link_count; i++)
        end += sprintf(end, i ? " %d-%d" : "%d-%d", sorted[i].source, sorted[i].target);
    return text;
}
