#include "draw/cairo_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset; /* of the pointer in struct cairo_library */
} FUNCTIONS[] = {
#define FUNCTION(name) {#name, offsetof(struct cairo_library, name)},
#include "draw/cairo_library.def"
#undef FUNCTION
};

enum { COUNT = sizeof FUNCTIONS / sizeof *FUNCTIONS };

static struct cairo_library library;

/* Loading PangoCairo also loads the libraries it is linked with, Pango, Cairo and GObject, and dlsym finds their functions,
 * too. They are never unloaded, because GObject does not support that. */
static enum qkv_status load(struct qkv_error *error)
{
    errno = 0;
    void *handle = dlopen("libpangocairo-1.0.so.0", RTLD_NOW | RTLD_LOCAL);
    bool complete = handle;
    for (int i = 0; complete && i < COUNT; i++) {
        void *function = dlsym(handle, FUNCTIONS[i].name);
        memcpy((char *)&library + FUNCTIONS[i].offset, &function, sizeof function);
        complete = function;
    }
    if (complete) return QKV_OK;
    int code = errno; /* dlerror may change errno, and its text does not always include it */
    const char *reason = dlerror();
    if (!reason) reason = "a function is missing";
    if (code == ENOMEM) return qkv_error_set(error, "out of memory for a png (%s)", reason);
    return qkv_error_set(
        error,
        "a png needs the libraries Pango and Cairo, which cannot be loaded (%s): install them (on "
        "Debian or Ubuntu: apt-get install libpangocairo-1.0-0), or choose svg",
        reason);
}

const struct cairo_library *qkv_cairo_library(struct qkv_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    loaded = loaded || load(error) == QKV_OK;
    bool found = loaded;
    pthread_mutex_unlock(&lock);
    return found ? &library : NULL;
}
