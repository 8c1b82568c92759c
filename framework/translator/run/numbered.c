#include "run/numbered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *qkv_numbered_name(char name[NUMBERED_NAME_SIZE], const char *prefix, int64_t update)
{
    snprintf(name, NUMBERED_NAME_SIZE, "%s%lld.safetensors", prefix, (long long)update);
    return name;
}

int64_t qkv_numbered_update(const char *name, const char *prefix)
{
    char written[NUMBERED_NAME_SIZE];
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0) return -1;
    int64_t update = strtoll(name + length, NULL, 10);
    return update >= 0 && !strcmp(name, qkv_numbered_name(written, prefix, update)) ? update : -1;
}

bool qkv_numbered_is_reserved(const char *name)
{
    return !strncmp(name, NUMBERED_UPDATE, strlen(NUMBERED_UPDATE)) ||
           !strncmp(name, NUMBERED_SNAPSHOT, strlen(NUMBERED_SNAPSHOT));
}
