/* Names of files that are open already. */
#ifndef QKV_CORE_FILE_H
#define QKV_CORE_FILE_H

#include <stdbool.h>
#include <string.h>

/* True of standard input and of the pipes of a shell, `<(command)`: reading them does not wait for someone to open them. */
static inline bool qkv_is_open_file(const char *path)
{
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) ||
           !strncmp(path, "/proc/self/fd/", 14);
}

#endif
