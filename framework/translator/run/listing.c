#include "run/listing.h"

#include "qkv/file.h"
#include "qkv/run.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const char END[] = ".safetensors";
enum { SHOWN = 10, END_LENGTH = sizeof END - 1 };

static int is_checkpoint(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > END_LENGTH && !strcmp(entry->d_name + length - END_LENGTH, END);
}

static int is_visible(const struct dirent *entry)
{
    return *entry->d_name != '.';
}

static void free_entries(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

const char *qkv_list_checkpoints(struct qkv_arena *arena, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_checkpoint, alphasort);
    const char *list = NULL;
    for (int i = 0; i < count && i < SHOWN && (list || !i); i++) {
        const char *name = entries[i]->d_name;
        list = qkv_arena_format(arena, "%s%s%.*s", i ? list : "", i ? ", " : "",
                                (int)(strlen(name) - END_LENGTH), name);
    }
    if (list && count > SHOWN) list = qkv_arena_format(arena, "%s and %d more", list, count - SHOWN);
    free_entries(entries, count);
    return list;
}

const char *qkv_find_run_inside(struct qkv_arena *arena, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_visible, alphasort);
    const char *found = NULL;
    for (int i = 0; i < count && !found; i++) {
        const char *run = qkv_run_file(arena, folder, entries[i]->d_name);
        const char *config = run ? qkv_run_file(arena, run, QKV_RUN_CONFIG) : NULL;
        if (config && qkv_path_exists(config)) found = run;
    }
    free_entries(entries, count);
    return found;
}
