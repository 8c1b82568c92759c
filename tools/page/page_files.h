/* The files of the page that are a part of qkv: made by tools/page/CMakeLists.txt. */
#ifndef QKV_PAGE_FILES_H
#define QKV_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const unsigned char *bytes; /* NULL: qkv was built without the page */
    size_t size;
};

struct page_file page_html(void);   /* the page, but for the engine and the model */
struct page_file page_engine(void); /* the WebAssembly module */

#endif
