#include "core/temporary.h"

#include "qkv/file.h"

#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

enum { CAPACITY = 1024 };

/* Lock-free, because a signal handler reads them. */
static _Atomic(const char *) paths[CAPACITY];
static atomic_bool is_removing;

bool qkv_temporary_add(const char *path)
{
    for (int i = 0; i < CAPACITY; i++) {
        const char *nothing = NULL;
        if (atomic_compare_exchange_strong(&paths[i], &nothing, path)) return true;
    }
    return false;
}

/* The order of the two steps matters and is the opposite of that in qkv_file_remove_temporary: either that function finds
 * that the path is gone, or this one finds that the other has begun. */
bool qkv_temporary_forget(const char *path)
{
    for (int i = 0; i < CAPACITY; i++) {
        const char *same = path;
        if (atomic_compare_exchange_strong(&paths[i], &same, NULL)) break;
    }
    return !atomic_load(&is_removing);
}

void qkv_file_remove_temporary(void)
{
    atomic_store(&is_removing, true);
    /* First the files, then the folders that held them. */
    for (int i = 0; i < CAPACITY; i++) {
        const char *path = atomic_load(&paths[i]);
        if (path) unlink(path);
    }
    for (int i = 0; i < CAPACITY; i++) {
        const char *path = atomic_load(&paths[i]);
        if (path) rmdir(path);
    }
}
