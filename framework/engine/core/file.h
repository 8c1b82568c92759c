/* Recognises the names of files that are already open, and two names of one file. */
#ifndef QKV_CORE_FILE_H
#define QKV_CORE_FILE_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* True for standard input and for pipes of a shell, `<(command)`: opening them does not wait for a writer. */
static inline bool qkv_is_open_file(const char *path)
{
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) ||
           !strncmp(path, "/proc/self/fd/", 14);
}

/* True when both paths lead to the same file or folder, which exists. */
static inline bool qkv_is_same_file(const char *a, const char *b)
{
    struct stat one, other;
    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

#endif
