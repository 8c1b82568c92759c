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
#include <string.h>

struct program {
    struct qkv_run run;
    struct qkv_sentence source;
    struct qkv_translator *translator;
    struct qkv_attention_collector *collector;
    struct qkv_arena arena; /* memory for everything else, released at once */
};

/* Translates the sentence and fills the pair whose attention is collected. Prints the
 * translation. */
static enum qkv_status translate(struct program *p, const char *text, struct qkv_attention_pair *pair,
                                 struct qkv_error *error)
{
    const struct qkv_data_config *data = &p->run.config.data;
    if (qkv_sentence_encode(&p->source, &data->src, &p->run.source, text, strlen(text), error))
        return QKV_INVALID;
    const struct qkv_ids source = {p->source.tokens.count, p->source.ids};
    p->translator = qkv_translator_new(p->run.model, NULL, error);
    if (!p->translator) return QKV_INVALID;
    const struct qkv_search_options greedy = {.beam_size = 1, .n_best = 1};
    const struct qkv_hypothesis *best;
    enum qkv_status status = qkv_translator_run(p->translator, 1, &source, 1, &greedy, &best, error);
    if (status) return status;

    const char **tokens = qkv_arena_allocate(&p->arena, (size_t)best->length * sizeof *tokens);
    if (!tokens) return qkv_error_set(error, "out of memory");
    for (int64_t i = 0; i < best->length; i++) tokens[i] = qkv_vocabulary_token(&p->run.target, best->ids[i]);
    const char *translation = qkv_detokenize(&data->trg, best->length, tokens, &p->arena);
    if (!translation) return qkv_error_set(error, "out of memory");
    printf("%s -> %s\n\n", text, translation);
    *pair = (struct qkv_attention_pair){
        .source = source,
        .target = {best->length, best->ids},
        .source_tokens = p->source.tokens.token,
        .target_tokens = tokens,
        .unfinished = !best->finished,
    };
    return QKV_OK;
}

/* Collects all cross attention and keeps the mean over the heads of the last layer. */
static enum qkv_status collect(struct program *p, const struct qkv_attention_pair *pair,
                               struct qkv_attention_report *map, struct qkv_error *error)
{
    const unsigned cross = 1u << QKV_ATTENTION_CROSS;
    struct qkv_attention_report all;
    p->collector = qkv_attention_collector_new(p->run.model, error);
    if (!p->collector || qkv_attention_collect(p->collector, 1, pair, cross, &all, error)) return QKV_INVALID;
    if (!all.map_count) return qkv_error_set(error, "%s has no cross attention", p->run.path);
    const int last_layer = all.maps[all.map_count - 1].layer;
    return qkv_attention_select(&all, cross, last_layer, QKV_ATTENTION_MEAN, &p->arena, map, error);
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

int main(int count, char **arguments)
{
    if (count != 4) {
        fprintf(stderr, "Usage: draw_map RUN SENTENCE PICTURE\n");
        return 2;
    }
    struct program program = {0};
    struct qkv_attention_pair pair;
    struct qkv_attention_report map;
    struct qkv_error error;
    if (qkv_run_open(&program.run, arguments[1], NULL, QKV_FLOAT32, &error)) {
        fprintf(stderr, "draw_map: %s\n", error.message);
        return 2;
    }
    enum qkv_status status = translate(&program, arguments[2], &pair, &error);
    if (!status) status = collect(&program, &pair, &map, &error);
    if (!status) status = draw(&map, arguments[3], &error);
    if (status) fprintf(stderr, "draw_map: %s\n", error.message);

    qkv_attention_collector_free(program.collector);
    qkv_translator_free(program.translator);
    qkv_sentence_release(&program.source);
    qkv_run_release(&program.run);
    qkv_arena_release(&program.arena);
    return status ? 2 : 0;
}
