#include "qkv/nearest.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum {
    LONGEST = 63,      /* bytes of a name */
    SHORTEST_PART = 3, /* bytes of `given` for which names that contain it are suggested */
    MAX_NAMES = 3,     /* suggestions */
};

static int min(int a, int b)
{
    return a < b ? a : b;
}

static char lower(char letter)
{
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

int qkv_name_distance(const char *a, const char *b)
{
    int rows[3][LONGEST + 1] = {0}, *two_above = rows[0], *above = rows[1], *row = rows[2];
    size_t height = strlen(a), width = strlen(b);
    if (height > LONGEST || width > LONGEST) return INT_MAX;
    for (size_t j = 0; j <= width; j++) above[j] = (int)j;
    for (size_t i = 1; i <= height; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= width; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = min(above[j - 1] + (x != y), min(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                row[j] = min(row[j], two_above[j - 2] + 1);
        }
        int *oldest = two_above;
        two_above = above;
        above = row;
        row = oldest;
    }
    return above[width];
}

bool qkv_names_are_near(const char *a, const char *b, int distance)
{
    size_t length = strlen(a), other = strlen(b), longer = length > other ? length : other;
    return distance <= (longer < 5 ? 1 : 1 + (int)(longer / 4));
}

/* Whether to suggest `name`. `distance` is the smallest distance of a near name to `given`: then `name` must have it;
 * INT_MAX: no name is near, and `name` must contain `given`. */
static bool is_wanted(const char *given, const char *name, int distance)
{
    if (distance == INT_MAX) return strlen(given) >= SHORTEST_PART && strstr(name, given);
    return qkv_name_distance(given, name) == distance;
}

const char *qkv_suggest_names(char *text, size_t size, const char *given, const char *prefix,
                              qkv_name_lister *name, const void *context)
{
    int nearest = INT_MAX, count = 0;
    const char *found[MAX_NAMES], *candidate;
    for (int64_t i = 0; (candidate = name(context, i)); i++) {
        int distance = qkv_name_distance(given, candidate);
        if (distance < nearest && qkv_names_are_near(given, candidate, distance)) nearest = distance;
    }
    for (int64_t i = 0; (candidate = name(context, i)) && count < MAX_NAMES; i++)
        if (is_wanted(given, candidate, nearest)) found[count++] = candidate;
    if (size) *text = '\0';
    for (int i = 0; size && i < count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s%s",
                 !i              ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 prefix, found[i]);
    }
    return text;
}
