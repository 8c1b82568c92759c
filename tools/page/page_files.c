#include "page/page_files.h"

/* Puts a file into this program, with a NUL after it. */
#define FILE_BYTES(name, path)                                                                               \
    __asm__(".section .rodata\n" #name "_begin: .incbin \"" path "\"\n" #name "_end: .byte 0\n.previous\n"); \
    extern const unsigned char name##_begin[], name##_end[];

#ifdef QKV_PAGE_HTML
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

#define SCENE(name, tutorial) FILE_BYTES(qkv_scene_##name, QKV_PAGE_SCENES "/" #name ".yaml")
#include "page/scenes.def"
#undef SCENE

const struct page_scene *page_scene(int64_t index)
{
    static const struct page_scene scenes[] = {
#define SCENE(name, tutorial) {#name ".yaml", tutorial, qkv_scene_##name##_begin},
#include "page/scenes.def"
    };
    return index < (int64_t)(sizeof scenes / sizeof *scenes) ? &scenes[index] : NULL;
}
