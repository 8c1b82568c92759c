#include "page/page_files.h"

#ifdef QKV_PAGE_HTML
#    define FILE_BYTES(name, path)                                                                           \
        __asm__(".section .rodata\n" #name "_begin: .incbin \"" path "\"\n" #name "_end:\n.previous\n");     \
        extern const unsigned char name##_begin[], name##_end[];
#    define FILE_OF(name) ((struct page_file){name##_begin, (size_t)(name##_end - name##_begin)})
FILE_BYTES(qkv_page_html, QKV_PAGE_HTML)
FILE_BYTES(qkv_page_engine, QKV_PAGE_ENGINE)
#else
#    define FILE_OF(name) ((struct page_file){NULL, 0})
#endif

struct page_file page_html(void)
{
    return FILE_OF(qkv_page_html);
}

struct page_file page_engine(void)
{
    return FILE_OF(qkv_page_engine);
}
