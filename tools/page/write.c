#include "command.h"
#include "page/page.h"

#include <zlib.h>

/* ---- files that are a part of qkv: made by CMakeLists.txt, and scenes ---- */

/* Puts a file into this program, with a NUL after it. */
#define FILE_BYTES(name, path)                                                                               \
    __asm__(".section .rodata\n" #name "_begin: .incbin \"" path "\"\n" #name "_end: .byte 0\n.previous\n"); \
    extern const unsigned char name##_begin[], name##_end[];

/* What stands in the page for the engine and the model. */
#define PLACE "<!-- engine and model -->"

#ifdef QKV_PAGE_HTML
FILE_BYTES(qkv_page_html, QKV_PAGE_HTML)
FILE_BYTES(qkv_page_engine, QKV_PAGE_ENGINE) /* the WebAssembly module */
#    define ENGINE_SIZE ((size_t)(qkv_page_engine_end - qkv_page_engine_begin))
#else
static const unsigned char qkv_page_html_begin[] = PLACE, qkv_page_engine_begin[] = "";
#    define ENGINE_SIZE ((size_t)0)
#endif

FILE_BYTES(qkv_page_lesson_en, QKV_PAGE_LESSON "/en.json")
FILE_BYTES(qkv_page_lesson_es, QKV_PAGE_LESSON "/es.json")

bool page_is_built(void)
{
    return ENGINE_SIZE > 0;
}

/* SCENE(file in configs/seeds, tutorial): a page shows the first one when it opens. */
/* clang-format off */
#define SCENES                                                                                               \
    SCENE(general_attention, "The General Attention Mechanism; The Attention Mechanism from Scratch") \
    SCENE(general_attention_bahdanau, "The General Attention Mechanism; The Attention Mechanism from Scratch") \
    SCENE(attention_from_scratch, "Attention from Scratch") \
    SCENE(attention_from_scratch_heads, "Attention from Scratch") \
    SCENE(simple_attention, "Simple Attention Mechanism Explained") \
    SCENE(simple_attention_translation, "Simple Attention Mechanism Explained") \
    SCENE(simple_attention_masked, "Simple Attention Mechanism Explained") \
    SCENE(simple_attention_one_head, "Simple Attention Mechanism Explained") \
    SCENE(simple_attention_two_heads, "Simple Attention Mechanism Explained") \
    SCENE(attention_explained_softmax, "Explained: Attention Mechanism in AI") \
    SCENE(attention_explained_scaled, "Explained: Attention Mechanism in AI") \
    SCENE(attention_explained_window, "Explained: Attention Mechanism in AI") \
    SCENE(attention_explained_words, "Explained: Attention Mechanism in AI")
/* clang-format on */

#define SCENE(name, tutorial) FILE_BYTES(qkv_scene_##name, QKV_PAGE_SCENES "/" #name ".yaml")
SCENES
#undef SCENE

const struct page_scene *page_scene(int64_t index)
{
#define SCENE(name, tutorial) {#name ".yaml", tutorial, (const char *)qkv_scene_##name##_begin},
    static const struct page_scene scenes[] = {SCENES};
#undef SCENE
    return index < (int64_t)(sizeof scenes / sizeof *scenes) ? &scenes[index] : NULL;
}

/* ---- parts ---- */

void page_release(struct page *page)
{
    free(page->html.data);
}

/* Adds a script element of bytes in base64 (RFC 4648), without line breaks. */
static void add_script(struct page *page, const char *attributes, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct bytes *html = &page->html;
    qkv_bytes_format(html, "<script type=\"application/base64\" %s>", attributes);
    for (size_t i = 0; i < size; i += 3) {
        size_t rest = size - i;
        unsigned long bits = (unsigned long)bytes[i] << 16;
        if (rest > 1) bits |= (unsigned long)bytes[i + 1] << 8;
        if (rest > 2) bits |= bytes[i + 2];
        const char letters[] = {digits[bits >> 18], digits[bits >> 12 & 63],
                                rest > 1 ? digits[bits >> 6 & 63] : '=', rest > 2 ? digits[bits & 63] : '='};
        qkv_bytes_append(html, letters, sizeof letters);
    }
    qkv_bytes_text(html, "</script>\n");
}

void page_add_data(struct page *page, const char *attributes, const void *bytes, size_t size)
{
    uLongf compressed_size = compressBound(size);
    unsigned char *compressed = required(malloc(compressed_size));
    if (compress2(compressed, &compressed_size, bytes, size, Z_BEST_COMPRESSION) != Z_OK) required(NULL);
    add_script(page, attributes, compressed, compressed_size);
    free(compressed);
}

void page_add_json(struct page *page, const char *attributes, cJSON *json)
{
    char *text = required(cJSON_PrintUnformatted(json));
    cJSON_Delete(json);
    add_script(page, attributes, (const unsigned char *)text, strlen(text));
    cJSON_free(text);
}

void page_add_lesson(struct page *page)
{
    add_script(page, "id=\"lesson-en\"", qkv_page_lesson_en_begin,
               (size_t)(qkv_page_lesson_en_end - qkv_page_lesson_en_begin));
    add_script(page, "id=\"lesson-es\"", qkv_page_lesson_es_begin,
               (size_t)(qkv_page_lesson_es_end - qkv_page_lesson_es_begin));
}

/* ---- the page ---- */

void page_begin(struct page *page)
{
    const char *html = (const char *)qkv_page_html_begin, *place = strstr(html, PLACE);
    QKV_BUG(!place, "the page has no place for the engine");
    page->rest = place + sizeof PLACE - 1;
    qkv_bytes_append(&page->html, html, (size_t)(place - html));
    page_add_data(page, "id=\"engine-data\"", qkv_page_engine_begin, ENGINE_SIZE);
}

enum qkv_status page_write(struct page *page, const char *output, struct qkv_error *error)
{
    bool is_file = strcmp(output, "-") != 0;
    qkv_bytes_text(&page->html, page->rest);
    enum qkv_status status = write_output(is_file ? output : NULL, &page->html, error);
    page->html = (struct bytes){0};
    if (status || !is_file) return status;
    print_plain(stderr, output);
    fputs(" is written: open it in a browser\n", stderr);
    return QKV_OK;
}
