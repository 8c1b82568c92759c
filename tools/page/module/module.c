/* The calls of the WebAssembly module, which engine.js makes. Bytes go in through a block of memory that page_memory
 * gives; results are read back as arrays of the present view. A call that fails returns 0, and page_message says why.
 *
 * An array is two calls, such as page_weights() and page_weights_count(): the address of the first element, and their
 * number. Texts are UTF-8, counted in bytes. */
#include "page/module/scenes.h"
#include "page/module/training.h"

#include "qkv/colormap.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(#name))) name

static struct page_translation translation;
static struct page_training training;
static struct page_scenes scenes;
static struct page_walk walk; /* of the sentence that `translation` shows, or of the scene */
static const struct page_view *shown = &translation.view; /* the arrays are of this view */
static char *pairs;                                       /* of page_training_generate */
static struct qkv_error error;
static char *input; /* of the caller */

/* Room for `size` bytes, in place of that of the last call; NULL when there is no memory. */
void *EXPORT(page_memory)(size_t size);
int EXPORT(page_open_model)(size_t size);
int EXPORT(page_learned)(void);
int EXPORT(page_random)(void);
int EXPORT(page_snapshot)(size_t size);
int EXPORT(page_translate_text)(size_t size, int beam_size);
int EXPORT(page_choose_translation)(int number);
int EXPORT(page_force_target)(size_t source_size, size_t target_size);
void EXPORT(page_silence_heads)(int count);
int EXPORT(page_silence_source)(int count);

void *page_memory(size_t size)
{
    free(input);
    return input = malloc(size + 1);
}

int page_open_model(size_t size)
{
    enum qkv_status status = page_open(&translation, (const unsigned char *)input, size, &error);
    free(input); /* it may be as large as the parameters */
    input = NULL;
    return !status;
}

/* The parameters that later calls use; those of a snapshot are in the block. */
int page_learned(void)
{
    return !page_use_learned(&translation, &error);
}

int page_random(void)
{
    return !page_use_random(&translation, &error);
}

int page_snapshot(size_t size)
{
    return !page_use_packed(&translation, (const unsigned char *)input, size, &error);
}

int page_translate_text(size_t size, int beam_size)
{
    return !page_translate(&translation, input, size, beam_size, &error);
}

int page_choose_translation(int number)
{
    return !page_choose(&translation, number, &error);
}

/* The target follows the source in the block. */
int page_force_target(size_t source_size, size_t target_size)
{
    return !page_force(&translation, input, source_size, input + source_size, target_size, &error);
}

/* The block holds three integers for each head: kind, layer and head. */
void page_silence_heads(int count)
{
    page_silence(&translation, (const int32_t *)(const void *)input, count);
}

/* The block holds the number of each token. */
int page_silence_source(int count)
{
    return !page_silence_words(&translation, (const int32_t *)(const void *)input, count, &error);
}

/* ---- scenes, in a page without a model ---- */

int EXPORT(page_open_scenes)(size_t size);
int EXPORT(page_show_scene)(int number, double seed);

int page_open_scenes(size_t size)
{
    return !page_scenes_open(&scenes, (const unsigned char *)input, size, &error);
}

/* Also makes the walk that of the scene. seed: of its random numbers; below 0: its own. */
int page_show_scene(int number, double seed)
{
    shown = &scenes.view;
    return !page_scenes_show(&scenes, number, (int64_t)seed, &walk, &error);
}

/* ---- the walk through an attention layer ---- */

int EXPORT(page_walk_through)(int kind, int layer);
int EXPORT(page_walk_to)(int step, int head, int row, int column);

int page_walk_through(int kind, int layer)
{
    return !page_walk_layer(&walk, &translation, (enum qkv_attention_kind)kind, layer, &error);
}

/* The terms of a number of the walk. */
int page_walk_to(int step, int head, int row, int column)
{
    return !page_walk_number(&walk, step, head, row, column, &error);
}

/* ---- training: page_training_show_translation and _show_forced make the view that of the model that is trained ---- */

int EXPORT(page_training_generate)(size_t size);
int EXPORT(page_training_start)(size_t size, double seed);
int EXPORT(page_training_update)(int updates, double learning_rate);
int EXPORT(page_training_show_translation)(size_t size);
int EXPORT(page_training_show_forced)(size_t source_size, size_t target_size);

int page_training_generate(size_t size)
{
    input[size] = '\0'; /* page_memory gives one byte more */
    free(pairs);
    pairs = page_generate(input, &error);
    return pairs != NULL;
}

int page_training_start(size_t size, double seed)
{
    shown = &training.sentence.view;
    return !page_training_begin(&training, input, size, (uint64_t)seed, &error);
}

int page_training_update(int updates, double learning_rate)
{
    return !page_train(&training, updates, learning_rate, &error);
}

int page_training_show_translation(size_t size)
{
    return !page_translate(&training.sentence, input, size, 1, &error);
}

/* The target follows the source in the block. */
int page_training_show_forced(size_t source_size, size_t target_size)
{
    return !page_force(&training.sentence, input, source_size, input + source_size, target_size, &error);
}

/* The colours of weights from 0 to 1, as 0xRRGGBB, of each colormap (qkv/colormap.h) that the page offers. */
#define COLORMAP_NAMES "YlOrRd\nviridis\n"
enum { COLORMAPS = 2, COLORS = 256 };

static const uint32_t *colors(void)
{
    static const char *const names[COLORMAPS] = {"YlOrRd", "viridis"};
    static uint32_t color[COLORMAPS][COLORS];
    for (int map = 0; map < COLORMAPS; map++)
        for (int i = 0; i < COLORS; i++)
            qkv_colormap_color(names[map], (double)i / (COLORS - 1), &color[map][i]);
    return color[0];
}

#define ARRAY(name, from, length)                                                                            \
    const void *EXPORT(page_##name)(void);                                                                   \
    int EXPORT(page_##name##_count)(void);                                                                   \
    const void *page_##name(void)                                                                            \
    {                                                                                                        \
        return from;                                                                                         \
    }                                                                                                        \
    int page_##name##_count(void)                                                                            \
    {                                                                                                        \
        return (int)(length);                                                                                \
    }
#define TEXT(name, from)   ARRAY(name, from, (from) ? strlen(from) : 0)
#define VIEW(name, length) ARRAY(name, shown->name, shown->name ? shown->length : 0)
#define VIEW_TEXT(name)    TEXT(name, shown->name)

ARRAY(colors, colors(), COLORMAPS *COLORS)
TEXT(colormaps, COLORMAP_NAMES)
TEXT(message, error.message)
TEXT(pairs, pairs)
ARRAY(losses, training.losses, training.loss_count)
TEXT(name, translation.run.config.name)
TEXT(source_language, translation.run.config.data.src.lang)
TEXT(target_language, translation.run.config.data.trg.lang)
VIEW_TEXT(source_tokens)
VIEW_TEXT(target_inputs)
VIEW_TEXT(target_outputs)
VIEW_TEXT(translations)
VIEW_TEXT(next_words)
VIEW(scores, translation_count)
VIEW(known_sources, source_count)
VIEW(known_targets, step_count)
VIEW(source_words, source_count)
VIEW(target_words, step_count)
VIEW(probabilities, step_count)
ARRAY(log_probability, &shown->log_probability, 1)
VIEW(next_probabilities, step_count *PAGE_NEXT_WORDS)
VIEW(maps, map_count *PAGE_MAP_INTEGERS)
VIEW(silent, map_count)
VIEW(silent_sources, source_count)
VIEW(entropies, map_count)
VIEW(weights, weight_count)
TEXT(step_names, walk.names)
TEXT(step_titles, walk.titles)
TEXT(step_formulas, walk.formulas)
TEXT(step_notes, walk.notes)
TEXT(step_words, walk.words)
ARRAY(steps, walk.steps, walk.step_count *PAGE_STEP_INTEGERS)
ARRAY(step_values, walk.values, walk.value_count)
TEXT(term_names, walk.term_names)
ARRAY(terms, walk.terms, 3 * walk.term_count)
ARRAY(term_result, walk.result, 2)
