/* Paths in YAML files: relative to the folder of the file, of run folders, and how a run folder names them. */
#ifndef _DEFAULT_SOURCE
#    define _DEFAULT_SOURCE /* realpath */
#endif
#include "config/path.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <unistd.h>

/* Splits a path before its last name: returns the folder, "." when there is none, and sets *name. NULL: no memory. */
static char *folder_of(struct qkv_arena *arena, const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    return slash ? qkv_arena_format(arena, "%.*s", slash == path ? 1 : (int)(slash - path), path)
                 : qkv_arena_string(arena, ".");
}

/* Removes the last name of a folder path. False if that is not the same as appending "..": when the last name is ".." itself,
 * or is not a real folder, such as a symbolic link. */
static bool leave(char *folder)
{
    struct stat status;
    char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) return false;
    if (lstat(folder, &status) || !S_ISDIR(status.st_mode)) return false;
    if (!slash)
        strcpy(folder, ".");
    else
        folder[slash == folder ? 1 : slash - folder] = '\0';
    return true;
}

/* Joins `folder` and `path`, which is relative to it, without needless "." and "..". Changes `folder`. */
static const char *join(struct qkv_arena *arena, char *folder, const char *path)
{
    for (;;) {
        size_t up = !strncmp(path, "../", 3) ? 3 : 0, here = !strncmp(path, "./", 2) ? 2 : 0;
        if (!here && (!up || !leave(folder))) break;
        path += up + here;
        path += strspn(path, "/");
    }
    if (!*path || !strcmp(path, ".")) return folder;
    if (!strcmp(folder, ".")) return path;
    return qkv_arena_format(arena, "%s%s%s", folder, strcmp(folder, "/") ? "/" : "", path);
}

const char *qkv_path_of_file(struct qkv_arena *arena, const char *file, const char *path)
{
    if (!*path || *path == '/' || !strcmp(path, "-") || qkv_is_open_file(file)) return path;
    const char *name;
    char *folder = folder_of(arena, file, &name);
    const char *joined = folder ? join(arena, folder, path) : NULL;
    /* In runs of qkv 0.1, paths are relative to the folder where training was started. */
    bool old =
        joined && !qkv_path_is_text(joined) && qkv_path_run_folder(arena, file) && qkv_path_is_text(path);
    return old ? path : joined;
}

const char *qkv_path_run_folder(struct qkv_arena *arena, const char *file)
{
    const char *name;
    char *folder = folder_of(arena, file, &name);
    const char *vocabulary = folder ? qkv_arena_format(arena, "%s/source.vocabulary", folder) : NULL;
    return vocabulary && !strcmp(name, "config.yaml") && qkv_path_exists(vocabulary) ? folder : NULL;
}

bool qkv_path_is_yaml(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

bool qkv_path_is_text(const char *path)
{
    struct qkv_arena arena = {0};
    const char *name, *folder = folder_of(&arena, path, &name);
    bool found = qkv_path_exists(path) || !strcmp(path, "-");
    DIR *entries = folder && !found ? opendir(folder) : NULL;
    size_t length = strlen(name);
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        found = *name && ((!strncmp(entry->d_name, name, length) && entry->d_name[length] == '.') ||
                          !fnmatch(name, entry->d_name, FNM_PERIOD));
    if (entries) closedir(entries);
    qkv_arena_release(&arena);
    return found;
}

const char **qkv_path_files(struct qkv_arena *arena, const char *path, int64_t *count)
{
    struct stat status;
    struct dirent **entries = NULL;
    const char *pattern = "*", *folder = path;
    bool exists = !strcmp(path, "-") || !stat(path, &status),
         is_file = exists && (!strcmp(path, "-") || !S_ISDIR(status.st_mode));
    if (!exists) folder = folder_of(arena, path, &pattern);
    int found = folder && !is_file ? scandir(folder, &entries, NULL, NULL) : 0;
    const char **files = qkv_arena_array(arena, found > 0 ? found + 1 : 1, sizeof *files);
    *count = 0;
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name, *file = NULL;
        if (!fnmatch(pattern, name, FNM_PERIOD)) file = qkv_arena_format(arena, "%s/%s", folder, name);
        if (file && files && (stat(file, &status) || !S_ISDIR(status.st_mode))) files[(*count)++] = file;
        free(entries[i]);
    }
    free(entries);
    if (arena->failed) return NULL;
    if (!*count && (is_file || !exists)) files[(*count)++] = path;
    qsort(files, (size_t)*count, sizeof *files, qkv_by_text);
    return files;
}

/* Whether an errno is permanent: the folder does not exist or is not accessible. After a temporary error, such as too many open
 * files, the same path would be resolved differently next time. */
static bool is_unknown_folder(int code)
{
    return code == ENOENT || code == ENOTDIR || code == EACCES || code == ELOOP || code == ENAMETOOLONG;
}

/* The absolute path without symbolic links in its folders, whether or not the last name exists. NULL, with errno set, when
 * memory runs out or the system fails. */
static const char *absolute_path(struct qkv_arena *arena, const char *path)
{
    char real[PATH_MAX];
    const char *name, *folder = folder_of(arena, path, &name);
    if (!folder) return NULL;
    if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) folder = path, name = "";
    if (realpath(folder, real))
        return qkv_arena_format(arena, "%s%s%s", strcmp(real, "/") ? real : "", *name ? "/" : "", name);
    if (!is_unknown_folder(errno)) return NULL;
    if (*path == '/' || !getcwd(real, sizeof real)) return path;
    return qkv_arena_format(arena, "%s/%s", real, path);
}

bool qkv_path_in_folder(struct qkv_arena *arena, const char *folder, const char *path, const char **relative,
                        const char **absolute)
{
    const char *from = qkv_arena_format(arena, "%s/.", folder);
    from = from ? absolute_path(arena, from) : NULL;
    const char *to = *absolute = from ? absolute_path(arena, path) : NULL;
    if (!to) return false; /* with the errno of the call that failed */
    size_t shared = 0;     /* bytes of the leading folders that both paths have */
    for (size_t i = 0; from[i] == to[i] || !from[i] || !to[i]; i++) {
        bool from_ends = !from[i] || from[i] == '/', to_ends = !to[i] || to[i] == '/';
        if (from_ends && to_ends) shared = i;
        if (!from[i] || !to[i]) break;
    }
    const char *rest = to + shared + (to[shared] == '/'), *up = *rest ? rest : ".";
    for (const char *at = from + shared; up && *at; at++)
        if (*at == '/' && at[1]) up = qkv_arena_format(arena, "../%s", up);
    *relative = up;
    return up != NULL;
}
