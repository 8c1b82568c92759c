/* Private: Cairo and Pango, which are loaded when the first PNG is drawn. Programs that draw none start faster, and need
 * neither library. */
#ifndef QKV_CAIRO_LIBRARY_H
#define QKV_CAIRO_LIBRARY_H

#include "qkv/error.h"

#include <pango/pangocairo.h>

/* A pointer to each function, under its own name: call->cairo_fill(cairo). */
struct cairo_library {
#define FUNCTION(name) __typeof__(name) *name;
#include "draw/cairo_library.def"
#undef FUNCTION
};

/* Returns the functions; NULL with an error if the libraries are not installed, or
 * memory runs out. */
const struct cairo_library *qkv_cairo_library(struct qkv_error *error);

#endif
