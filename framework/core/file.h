/* Recognises the names of files that are already open. */
#ifndef QKV_CORE_FILE_H
#define QKV_CORE_FILE_H

#include <stdbool.h>
#include <string.h>

/* True for standard input and for pipes of a shell, `<(command)`: opening them does not wait for a writer. */
static inline bool qkv_is_open_file(const char *path)
{
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) ||
           !strncmp(path, "/proc/self/fd/", 14);
}

#endif
