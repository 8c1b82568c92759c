#include "data/pairs_paths.h"

#include "data/languages.h"
#include "qkv/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool qkv_pairs_is_table(const char *path)
{
    struct stat status;
    return !strcmp(path, "-") || !stat(path, &status) || errno != ENOENT;
}

/* Returns the length of the language in a file name <prefix>.<language> or <prefix>.<language>.gz; 0: the name has another
 * form. */
static size_t language_size(const char *name, const char *prefix, const char *const lang[2])
{
    size_t skipped = strlen(prefix);
    if (strncmp(name, prefix, skipped) || name[skipped] != '.') return 0;
    const char *suffix = name + skipped + 1;
    size_t size = strcspn(suffix, ".");
    if (suffix[size] && strcmp(suffix + size, ".gz")) return 0;
    for (int side = 0; side < 2; side++)
        if (lang[side] && strlen(lang[side]) == size && !strncmp(suffix, lang[side], size)) return size;
    return qkv_language_of_title(suffix, size) ? size : 0;
}

enum { MAX_FILES = 16, NAME_LONGEST = 255 };

/* The names of the files of a prefix. */
struct names {
    int count;
    char name[MAX_FILES][NAME_LONGEST + 1];
    size_t language_size[MAX_FILES];
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Lists the files folder/prefix.<language>, in the order of their names. */
static enum qkv_status list_files(struct names *names, const char *folder, const char *prefix,
                                  const char *const lang[2], struct qkv_error *error)
{
    DIR *listing = opendir(*folder ? folder : ".");
    names->count = 0;
    if (!listing)
        return qkv_error_set(error, "%s: cannot be read: %s", *folder ? folder : ".", strerror(errno));
    for (struct dirent *entry; names->count < MAX_FILES && (errno = 0, entry = readdir(listing));) {
        if (strlen(entry->d_name) > NAME_LONGEST || !language_size(entry->d_name, prefix, lang)) continue;
        strcpy(names->name[names->count++], entry->d_name);
    }
    int code = names->count < MAX_FILES ? errno : 0;
    closedir(listing);
    if (code) return qkv_error_set(error, "%s: cannot be read: %s", *folder ? folder : ".", strerror(code));
    qsort(names->name, (size_t)names->count, sizeof names->name[0], compare_names);
    int different = 0;
    for (int i = 0; i < names->count; i++) {
        size_t size = language_size(names->name[i], prefix, lang);
        /* x.en is sorted before x.en.gz, which holds the same text. */
        if (different && size == names->language_size[different - 1] &&
            !strncmp(names->name[i], names->name[different - 1], strlen(prefix) + 1 + size))
            continue;
        memmove(names->name[different], names->name[i], sizeof names->name[0]);
        names->language_size[different++] = size;
    }
    names->count = different;
    return QKV_OK;
}

/* The index of the file whose suffix is a language, or else is another name of it, as in x.eng and x.en-US for en; -1: there is none. */
static int find_language(const struct names *names, size_t prefix_size, const char *lang)
{
    int found = -1;
    for (int i = 0; i < names->count; i++) {
        const char *suffix = names->name[i] + prefix_size + 1;
        size_t size = names->language_size[i];
        if (strlen(lang) == size && !strncmp(suffix, lang, size)) return i;
        const char *code = qkv_language_of_title(suffix, size);
        if (found < 0 && code && !strcmp(code, lang)) found = i;
    }
    return found;
}

/* The table x.tsv, x.txt or the like, if the user has named x; NULL if there is none. */
static const char *suggest_table(const char *path, char *table, size_t size)
{
    static const char *const ends[] = {".tsv", ".txt", ".csv", ".tsv.gz", ".txt.gz", ".csv.gz"};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        int length = snprintf(table, size, "%s%s", path, ends[e]);
        if ((size_t)length < size && qkv_path_exists(table)) return table;
    }
    return NULL;
}

static enum qkv_status refuse_count(const struct names *names, const char *prefix, struct qkv_error *error)
{
    char list[1024] = "", table[1024];
    if (!names->count && suggest_table(prefix, table, sizeof table))
        return qkv_error_set(error, "%s: there is no such file; did you mean %s", prefix, table);
    if (!names->count)
        return qkv_error_set(
            error,
            "%s: there is no such file, and no two files %s.en and %s.es (or other languages) of which "
            "it is the common prefix",
            prefix, prefix, prefix);
    for (int i = 0; i < names->count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names->name[i]);
    }
    return qkv_error_set(
        error,
        names->count == 1
            ? "%s: two files must begin with this, but only %s does"
            : "%s: is the prefix of more than two files: %s; name two languages with --src and --trg",
        prefix, list);
}

/* Chooses the names of the source and the target file. */
static enum qkv_status choose_files(const struct names *names, const struct qkv_pairs_request *request,
                                    const char *prefix, int chosen[2], struct qkv_error *error)
{
    bool is_named = false;
    for (int side = 0; side < 2; side++) {
        chosen[side] = request->lang[side] ? find_language(names, strlen(prefix), request->lang[side]) : -1;
        if (request->lang[side] && chosen[side] < 0)
            return qkv_error_set(error, "%s.%s: there is no such file", request->path, request->lang[side]);
        is_named = is_named || request->lang[side];
    }
    if (chosen[0] >= 0 && chosen[1] >= 0) return QKV_OK;
    if (names->count != 2) return refuse_count(names, request->path, error);
    if (!is_named) {
        chosen[0] = 0;
        chosen[1] = 1;
    } else if (chosen[0] >= 0) {
        chosen[1] = !chosen[0];
    } else {
        chosen[0] = !chosen[1];
    }
    return QKV_OK;
}

enum qkv_status qkv_pairs_find_files(const struct qkv_pairs_request *request, char *path[2],
                                     struct qkv_error *error)
{
    if (request->target) {
        path[0] = strdup(request->path);
        path[1] = strdup(request->target);
        return path[0] && path[1] ? QKV_OK : qkv_error_set(error, "%s: out of memory", request->path);
    }
    const char *slash = strrchr(request->path, '/'), *prefix = slash ? slash + 1 : request->path;
    size_t folder_size = (size_t)(prefix - request->path);
    char *folder = strndup(request->path, folder_size);
    struct names *names = malloc(sizeof *names);
    int chosen[2];
    enum qkv_status status = QKV_OK;
    if (!folder || !names) {
        status = qkv_error_set(error, "%s: out of memory", request->path);
    } else {
        status = list_files(names, folder, prefix, request->lang, error);
        if (!status) status = choose_files(names, request, prefix, chosen, error);
    }
    for (int side = 0; side < 2 && !status; side++) {
        size_t size = folder_size + strlen(names->name[chosen[side]]) + 1;
        path[side] = malloc(size);
        if (path[side])
            snprintf(path[side], size, "%s%s", folder, names->name[chosen[side]]);
        else
            status = qkv_error_set(error, "%s: out of memory", request->path);
    }
    free(folder);
    free(names);
    return status;
}
