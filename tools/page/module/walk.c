#include "page/module/walk.h"

#include "explain/walk.h"

#include <string.h>

static bool is_share(const struct qkv_step *step)
{
    return step->content == QKV_STEP_WEIGHTS || !strcmp(step->name, "probabilities");
}

static int64_t count_of(const struct qkv_step *step)
{
    return (step->heads ? step->heads : 1) * step->rows * step->columns;
}

/* Appends names to a list of texts. */
static void append(const char **texts, int64_t *count, const char *const *names, int64_t length)
{
    for (int64_t i = 0; names && i < length; i++) texts[(*count)++] = names[i];
}

static bool list_texts(struct page_walk *walk)
{
    const struct qkv_explanation *explanation = &walk->explanation;
    int64_t count = explanation->step_count, words = 0, max_words = 1;
    for (int64_t i = 0; i < count; i++)
        max_words += explanation->steps[i].rows + explanation->steps[i].columns;
    const char **texts = qkv_arena_allocate(
        &walk->arena, (size_t)(max_words > 4 * count ? max_words : 4 * count) * sizeof *texts);
    if (!texts) return false;
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_step *step = &explanation->steps[i];
        texts[i] = step->name;
        texts[count + i] = step->title;
        texts[2 * count + i] = step->formula;
        texts[3 * count + i] = step->note ? step->note : "";
    }
    walk->names = page_list(&walk->arena, count, texts);
    walk->titles = page_list(&walk->arena, count, texts + count);
    walk->formulas = page_list(&walk->arena, count, texts + 2 * count);
    walk->notes = page_list(&walk->arena, count, texts + 3 * count);
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_step *step = &explanation->steps[i];
        append(texts, &words, step->row_names, step->rows);
        append(texts, &words, step->column_names, step->columns);
    }
    walk->words = page_list(&walk->arena, words, texts);
    return walk->names && walk->titles && walk->formulas && walk->notes && walk->words;
}

static bool list_numbers(struct page_walk *walk)
{
    const struct qkv_explanation *explanation = &walk->explanation;
    walk->step_count = explanation->step_count;
    for (int64_t i = 0; i < explanation->step_count; i++)
        walk->value_count += count_of(&explanation->steps[i]);
    walk->steps =
        qkv_arena_allocate(&walk->arena, (size_t)walk->step_count * PAGE_STEP_INTEGERS * sizeof *walk->steps);
    walk->values = qkv_arena_allocate(&walk->arena, (size_t)walk->value_count * sizeof *walk->values);
    if (!walk->steps || !walk->values) return false;
    float *values = walk->values;
    for (int64_t i = 0; i < explanation->step_count; i++) {
        const struct qkv_step *step = &explanation->steps[i];
        const int32_t integers[PAGE_STEP_INTEGERS] = {(int32_t)step->heads,
                                                      (int32_t)step->rows,
                                                      (int32_t)step->columns,
                                                      is_share(step)                     ? 1
                                                      : step->content == QKV_STEP_TOKENS ? 2
                                                                                         : 0,
                                                      step->rule != QKV_STEP_RULE_NONE,
                                                      step->row_names != NULL,
                                                      step->column_names != NULL};
        memcpy(walk->steps + i * PAGE_STEP_INTEGERS, integers, sizeof integers);
        for (int64_t k = 0; k < count_of(step); k++) *values++ = (float)step->values[k];
    }
    return true;
}

static void begin(struct page_walk *walk)
{
    qkv_arena_release(&walk->arena);
    qkv_arena_release(&walk->term_arena);
    *walk = (struct page_walk){0};
}

/* Makes flat arrays of the explanation. */
static enum qkv_status list(struct page_walk *walk, struct qkv_error *error)
{
    if (list_texts(walk) && list_numbers(walk)) return QKV_OK;
    *walk = (struct page_walk){.arena = walk->arena};
    return qkv_error_set(error, "out of memory");
}

enum qkv_status page_walk_layer(struct page_walk *walk, const struct page_translation *t,
                                enum qkv_attention_kind kind, int layer, struct qkv_error *error)
{
    const struct qkv_explain_options options = {
        .kind = kind, .layer = layer, .target_vocabulary = &t->run.target};
    begin(walk);
    if (qkv_explain_model(t->run.model, &t->pair, &options, &walk->arena, &walk->explanation, error))
        return QKV_INVALID;
    return list(walk, error);
}

enum qkv_status page_walk_scene(struct page_walk *walk, const struct qkv_scene *scene,
                                struct qkv_error *error)
{
    begin(walk);
    if (qkv_walk_scene(QKV_FLOAT32, scene, &walk->arena, &walk->explanation, error)) return QKV_INVALID;
    return list(walk, error);
}

enum qkv_status page_walk_number(struct page_walk *walk, int step, int head, int row, int column,
                                 struct qkv_error *error)
{
    struct qkv_terms terms;
    qkv_arena_reset(&walk->term_arena);
    walk->term_count = 0;
    walk->term_names = NULL;
    if (step < 0 || step >= walk->step_count) return qkv_error_set(error, "there is no step %d", step);
    const struct qkv_number number = {&walk->explanation.steps[step], head, row, column};
    if (qkv_explanation_terms(&walk->explanation, &number, &walk->term_arena, &terms, error))
        return QKV_INVALID;
    const char **names = qkv_arena_allocate(&walk->term_arena, (size_t)(terms.count + 1) * sizeof *names);
    walk->terms = qkv_arena_allocate(&walk->term_arena, (size_t)(3 * terms.count + 1) * sizeof *walk->terms);
    if (!names || !walk->terms) return qkv_error_set(error, "out of memory");
    for (int64_t i = 0; i < terms.count; i++) {
        const struct qkv_term *term = &terms.terms[i];
        names[i] = term->name;
        walk->terms[3 * i] = term->x;
        walk->terms[3 * i + 1] = term->y;
        walk->terms[3 * i + 2] = term->value;
    }
    walk->term_names = page_list(&walk->term_arena, terms.count, names);
    if (!walk->term_names) return qkv_error_set(error, "out of memory");
    walk->term_count = terms.count;
    walk->result[0] = terms.value;
    walk->result[1] = terms.sum;
    return QKV_OK;
}
