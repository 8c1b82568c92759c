/* Opens a trained run, translates a sentence, and shows where the translation looked: as a picture
 * and as text.
 *
 *     cc draw_map.c $(pkg-config --cflags --libs qkv) -o draw_map
 *     ./draw_map runs/toy_en_es "the cat is sleeping" cross.svg
 *
 * The map is the cross attention of the last decoder layer, averaged over its heads. */
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>

/* Keeps the mean over the heads of the last layer. */
static enum qkv_status select_map(const struct qkv_attention_report *all, struct qkv_arena *arena,
                                  struct qkv_attention_report *map, struct qkv_error *error)
{
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    if (!all->map_count) return qkv_error_set(error, "%s has no cross attention", all->model);
    const int last_layer = all->maps[all->map_count - 1].layer;
    return qkv_attention_select(all, cross, last_layer, QKV_ATTENTION_MEAN, arena, map, error);
}

static enum qkv_status draw(const struct qkv_attention_report *map, const char *path, struct qkv_error *error)
{
    const struct qkv_format *format = qkv_format_of_path(path);
    if (!format) return qkv_error_set(error, "%s: the extension names no format", path);
    if (qkv_attention_write(map, format, NULL, path, error)) return QKV_INVALID;
    char *text;
    size_t size;
    if (qkv_attention_render(map, qkv_format_find("text"), NULL, &text, &size, error)) return QKV_INVALID;
    fwrite(text, 1, size, stdout);
    free(text);
    return QKV_OK;
}

static enum qkv_status translate_and_draw(struct qkv_text_translator *translator, const char *text,
                                          const char *path, struct qkv_error *error)
{
    const char *translation = qkv_text_translator_run(translator, text, 1, error);
    if (!translation) return QKV_INVALID;
    printf("%s -> %s\n\n", text, translation);
    const struct qkv_attention_report *all =
        qkv_text_translator_attention(translator, 1u << QKV_ATTENTION_CROSS, error);
    if (!all) return QKV_INVALID;
    struct qkv_attention_report map;
    struct qkv_arena arena = {0};
    enum qkv_status status = select_map(all, &arena, &map, error);
    if (!status) status = draw(&map, path, error);
    qkv_arena_release(&arena);
    return status;
}

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "Usage: draw_map RUN SENTENCE PICTURE\n");
        return 2;
    }
    struct qkv_error error;
    struct qkv_text_translator *translator = qkv_text_translator_open(arguments[1], NULL, &error);
    enum qkv_status status = translator ? QKV_OK : QKV_INVALID;
    if (!status) status = translate_and_draw(translator, arguments[2], arguments[3], &error);
    if (status) fprintf(stderr, "draw_map: %s\n", error.message);
    qkv_text_translator_free(translator);
    return status ? 2 : 0;
}
