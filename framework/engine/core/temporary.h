/* Temporary files and folders of this process, which qkv_file_remove_temporary (qkv/file.h) removes when a signal ends
 * it. */
#ifndef QKV_CORE_TEMPORARY_H
#define QKV_CORE_TEMPORARY_H

#include <stdbool.h>

/* Registers a file or folder that is about to be made. The string `path` must not change until qkv_temporary_forget. False
 * for more than 1,024 at a time: a signal would leave such a file behind. */
bool qkv_temporary_add(const char *path);

/* Unregisters a file after it was removed or renamed. False: a signal handler is reading the string at this moment, so it
 * must neither change nor be freed; the process is about to end. */
bool qkv_temporary_forget(const char *path);

#endif
