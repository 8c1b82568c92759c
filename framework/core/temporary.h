/* Temporary files and folders of this process, which qkv_file_remove_temporary (qkv/file.h) removes when a signal ends
 * it. */
#ifndef QKV_CORE_TEMPORARY_H
#define QKV_CORE_TEMPORARY_H

#include <stdbool.h>

/* Remembers a file or folder that is about to be made. The text of `path` must stay as it is until qkv_temporary_forget. Where
 * a process has more than 64 of them, those beyond are not remembered, and a signal leaves them. */
void qkv_temporary_add(const char *path);

/* Forgets it once it is removed or has another name. False: a signal handler is reading the text at this moment, so it must
 * neither change nor be freed; the process ends. */
bool qkv_temporary_forget(const char *path);

#endif
