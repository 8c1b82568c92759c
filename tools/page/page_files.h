/* The files of the page that are a part of qkv: made by tools/page/CMakeLists.txt, and the scenes of scenes.def. */
#ifndef QKV_PAGE_FILES_H
#define QKV_PAGE_FILES_H

#include <stddef.h>
#include <stdint.h>

struct page_file {
    const unsigned char *bytes; /* NULL: qkv was built without the page */
    size_t size;
};

struct page_file page_html(void);   /* the page, but for the engine and the model */
struct page_file page_engine(void); /* the WebAssembly module */

/* A scene of scenes.def. */
struct page_scene {
    const char *file, *tutorial;
    const unsigned char *text; /* YAML, with a NUL after it */
};

const struct page_scene *page_scene(int64_t index); /* from 0; NULL: there are no more */

#endif
