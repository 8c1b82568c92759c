#include "support.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void need(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "test support: %s: %s\n", what, strerror(errno));
    abort();
}

static char *vformat(const char *pattern, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, pattern, arguments);
    need(length >= 0, "format");
    char *text = malloc((size_t)length + 1);
    need(text != NULL, "malloc");
    vsnprintf(text, (size_t)length + 1, pattern, again);
    va_end(again);
    return text;
}

char *format(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *text = vformat(pattern, arguments);
    va_end(arguments);
    return text;
}

char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    size_t used = 0, room = 1 << 16;
    char *bytes = malloc(room);
    need(bytes != NULL, "malloc");
    for (size_t got; (got = fread(bytes + used, 1, room - used - 1, file)) > 0;) {
        used += got;
        if (room - used > 1) continue;
        bytes = realloc(bytes, room *= 2);
        need(bytes != NULL, "realloc");
    }
    fclose(file);
    bytes[used] = '\0';
    if (size) *size = used;
    return bytes;
}

/* The file name of the running test program; Criterion renames its worker processes, so argv[0] will not do. */
static const char *program(void)
{
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    need(length > 0, "/proc/self/exe");
    return strrchr(path, '/') + 1;
}

const char *scratch(const char *name)
{
    char *folder = format("%s/scratch/%s.%s", QKV_BUILD_DIR, program(), name);
    char *command = format("rm -rf '%s' && mkdir -p '%s'", folder, folder);
    need(system(command) == 0, command);
    free(command);
    return folder;
}

const char *write_bytes(const char *folder, const char *name, const void *bytes, size_t size)
{
    char *path = format("%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    need(file != NULL, path);
    need(fwrite(bytes, 1, size, file) == size, path);
    need(fclose(file) == 0, path);
    return path;
}

const char *write_text(const char *folder, const char *name, const char *text)
{
    return write_bytes(folder, name, text, strlen(text));
}

struct outcome run(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *command = vformat(pattern, arguments);
    va_end(arguments);
    static int runs;
    const char *folder = format("%s/scratch", QKV_BUILD_DIR);
    char *base = format("%s/%s.%ld.%d", folder, program(), (long)getpid(), runs++);
    char *whole = format("mkdir -p '%s'; qkv() { '%s' \"$@\"; }; exec </dev/null >'%s.out' 2>'%s.err'; %s", folder,
                         QKV_BINARY, base, base, command);
    int status = system(whole);
    need(status != -1, "system");
    struct outcome outcome = {
        .exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
        .output = read_file(format("%s.out", base), NULL),
        .error = read_file(format("%s.err", base), NULL),
    };
    need(outcome.output && outcome.error, base);
    remove(format("%s.out", base));
    remove(format("%s.err", base));
    free(whole);
    free(command);
    return outcome;
}
