/* The walk through one attention layer, of a scene or for the sentence that the page shows: an explanation
 * (explain/explain.h) as results. */
#include "page/module/module.h"

#include "core/memory.h"
#include "explain/scene.h"
#include "models/network.h"
#include "qkv/layers.h"
#include "report/attribution.h"
#include "report/explanation.h"

#include <math.h>
#include <string.h>

/* Integers that describe a step: heads, rows, columns; whether it holds attention weights or probabilities (1), token ids
 * (2) or other numbers (0); whether its rows and columns have names; the rule by which its numbers follow from those of steps X,
 * Y and Z, and the indices of these, -1: none. */
enum { STEP_INTEGERS = 10 };

static struct qkv_arena arena; /* of the walk */
static struct qkv_explanation explanation;

/* ---- the steps ---- */

static int64_t count_of(const struct qkv_step *step)
{
    return (step->heads ? step->heads : 1) * step->rows * step->columns;
}

static int content_of(const struct qkv_step *step)
{
    if (step->content == QKV_STEP_WEIGHTS || !strcmp(step->name, "probabilities")) return 1;
    return step->content == QKV_STEP_TOKENS ? 2 : 0;
}

/* The index of a step of that name; -1: none. */
static int32_t index_of(const char *name)
{
    const struct qkv_step *step = name ? qkv_explanation_step(&explanation, name) : NULL;
    return step ? (int32_t)(step - explanation.steps) : -1;
}

/* Appends names to a list of texts. */
static void append(const char **texts, int64_t *count, const char *const *names, int64_t length)
{
    for (int64_t i = 0; names && i < length; i++) texts[(*count)++] = names[i];
}

/* The names of rows, then of columns, step by step; only those of steps that have names. */
static void give_words(void)
{
    int64_t words = 0, most = 0;
    for (int64_t i = 0; i < explanation.step_count; i++)
        most += explanation.steps[i].rows + explanation.steps[i].columns;
    const char **texts = page_sure(qkv_arena_allocate(&arena, (size_t)most * sizeof *texts));
    for (int64_t i = 0; i < explanation.step_count; i++) {
        const struct qkv_step *step = &explanation.steps[i];
        append(texts, &words, step->row_names, step->rows);
        append(texts, &words, step->column_names, step->columns);
    }
    page_texts("step_words", words, texts);
}

/* Gives the explanation. The numbers of all steps stand one after another, head after head; -infinity: masked. */
static void give_steps(void)
{
    const int64_t count = explanation.step_count;
    const char **texts = page_sure(qkv_arena_allocate(&arena, (size_t)(4 * count) * sizeof *texts));
    int32_t *integers = page_integers("steps", count * STEP_INTEGERS);
    double *factors = page_doubles("step_factors", count);
    int64_t values = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_step *step = &explanation.steps[i];
        const int32_t of[STEP_INTEGERS] = {(int32_t)step->heads,    (int32_t)step->rows,
                                           (int32_t)step->columns,  content_of(step),
                                           step->row_names != NULL, step->column_names != NULL,
                                           (int32_t)step->rule,     index_of(step->from[0]),
                                           index_of(step->from[1]), index_of(step->from[2])};
        memcpy(integers + i * STEP_INTEGERS, of, sizeof of);
        factors[i] = step->factor;
        texts[i] = step->name;
        texts[count + i] = step->title;
        texts[2 * count + i] = step->formula;
        texts[3 * count + i] = step->note ? step->note : "";
        values += count_of(step);
    }
    page_texts("step_names", count, texts);
    page_texts("step_titles", count, texts + count);
    page_texts("step_formulas", count, texts + 2 * count);
    page_texts("step_notes", count, texts + 3 * count);
    give_words();
    float *value = page_floats("step_values", values);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < count_of(&explanation.steps[i]); k++)
            *value++ = (float)explanation.steps[i].values[k];
}

/* Walks through an attention layer (from 1) with the sentence pair of the view. */
int EXPORT(page_walk)(int kind, int layer)
{
    const struct qkv_explain_options options = {.kind = (enum qkv_attention_kind)kind,
                                                .layer = layer,
                                                .target_vocabulary = &page_translation.run.target};
    qkv_arena_release(&arena);
    explanation = (struct qkv_explanation){0};
    if (qkv_explain_model(page_translation.run.model, &page_translation.pair, &options, &arena, &explanation,
                          &page_error))
        return QKV_INVALID;
    give_steps();
    return QKV_OK;
}

/* ---- what a word rests on: erasure, and patching ---- */

static struct qkv_sentence other; /* that is patched from */

static enum qkv_status read_other(const char *text)
{
    const struct qkv_run *run = &page_translation.run;
    return qkv_user_sentence_encode(&other, run, !run->sides.has_source, "the other sentence", text,
                                    &page_error);
}

/* The token whose embedding is most like that of `id`, by the cosine. */
static int32_t most_alike(const struct qkv_parameter *table, int32_t id)
{
    const struct qkv_parameters *parameters = &page_translation.run.model->parameters;
    const int64_t width = table->shape.size[1];
    double greatest = -INFINITY;
    int32_t best = id;
    for (int32_t token = QKV_END + 1; token < table->shape.size[0]; token++) {
        double product = 0, square = 0;
        for (int64_t d = 0; d < width; d++) {
            double value = qkv_parameter_get(parameters, table, token * width + d);
            product += value * qkv_parameter_get(parameters, table, id * width + d);
            square += value * value;
        }
        if (token == id || !(product / sqrt(square) > greatest)) continue;
        greatest = product / sqrt(square);
        best = token;
    }
    return best;
}

/* A sentence to patch from: that of the view, with another word in place of the one whose erasure changes the step most; falls: of
 * each token that is read. None, if it would not be read as these tokens. */
static void suggest(const double *falls, int64_t step)
{
    const struct qkv_run *run = &page_translation.run;
    struct qkv_arena *kept = &page_translation.collector->arena;
    const bool is_target = !run->sides.has_source;
    const struct qkv_ids ids = is_target ? page_translation.pair.target : page_translation.pair.source;
    int64_t most = 0, words = is_target && step < ids.length ? step : ids.length;
    if (!words) return;
    falls += is_target; /* before the target stands <s> */
    for (int64_t i = 1; i < words; i++) most = falls[i] > falls[most] ? i : most;
    int32_t *changed = memcpy(page_sure(qkv_arena_array(kept, ids.length, sizeof *changed)), ids.ids,
                              (size_t)ids.length * sizeof *changed);
    changed[most] = most_alike(
        qkv_model_inputs(run->model, is_target ? QKV_STACK_DECODER : QKV_STACK_ENCODER).embedding->table,
        changed[most]);
    const char **tokens =
        page_sure(qkv_vocabulary_tokens(is_target ? &run->target : &run->source, ids.length, changed, kept));
    const char *text = page_sure(
        qkv_detokenize(is_target ? &run->config.data.trg : &run->config.data.src, ids.length, tokens, kept));
    if (!read_other(text) && other.tokens.count == ids.length &&
        !memcmp(other.ids, changed, (size_t)ids.length * sizeof *changed))
        page_texts("suggestion", 1, &text);
}

/* By how much the log-probability of the word of a step falls without each word of the source, and of the target before it. */
int EXPORT(page_erase)(int step)
{
    struct qkv_attention_report report;
    struct attribution a = {.collector = page_translation.collector,
                            .pair = &page_translation.pair,
                            .report = &report,
                            .error = &page_error};
    if (qkv_copies_begin(&a, 1u << QKV_ATTENTION_CROSS) || qkv_copies_erase(&a)) return QKV_INVALID;
    const double *falls = a.result + step * a.columns;
    memcpy(page_doubles("falls", a.columns), falls, (size_t)a.columns * sizeof *falls);
    suggest(falls, step);
    return QKV_OK;
}

/* How the probability of the word of a step changes when parts of the pass are those of the sentence in the block. */
int EXPORT(page_patch)(size_t size, int step)
{
    const struct page_translation *t = &page_translation;
    (void)size;
    qkv_arena_release(&arena);
    if (read_other(page_bytes)) return QKV_INVALID;
    if (qkv_patch(t->collector, &t->pair, (struct qkv_ids){other.tokens.count, other.ids}, step, &explanation,
                  &page_error))
        return QKV_INVALID;
    give_steps();
    page_texts("about", 1, &explanation.about);
    *page_integers("unknown", 1) = other.unknown > 0;
    return QKV_OK;
}

/* ---- scenes: what a page shows in place of a trained run ---- */

static struct qkv_scene *scenes;
static int64_t scene_count;
static size_t unread; /* bytes of the block */

static bool take(void *from, void *bytes, size_t size)
{
    const char **rest = from;
    if (size > unread) return false;
    memcpy(bytes, *rest, size);
    *rest += size;
    unread -= size;
    return true;
}

/* The block has scenes that were packed one after another (explain/scene.h). */
int EXPORT(page_open_scenes)(size_t size)
{
    static struct qkv_arena scene_arena;
    const char *rest = page_bytes;
    unread = size;
    bool good =
        take(&rest, &scene_count, sizeof scene_count) && scene_count > 0 && scene_count <= (int64_t)size;
    if (good) scenes = page_sure(qkv_arena_zeroed(&scene_arena, (size_t)scene_count * sizeof *scenes));
    for (int64_t i = 0; good && i < scene_count; i++)
        good = qkv_scene_pass(&scenes[i], take, &rest, &scene_arena);
    if (!good || unread)
        return qkv_error_set(&page_error, "the scenes are damaged, or were packed by another version of qkv");
    return QKV_OK;
}

/* The maps of the weights, as cross-attention: words with keys as source, words with queries as target outputs. Where
 * scores are -infinity, a cell is hidden. */
static void give_maps(void)
{
    const struct qkv_step *weights = qkv_explanation_content(&explanation, QKV_STEP_WEIGHTS),
                          *scores = qkv_explanation_step(&explanation, "masked_scores");
    if (!weights) return;
    const int64_t heads = weights->heads ? weights->heads : 1, cells = weights->rows * weights->columns;
    page_texts("source_tokens", weights->columns, weights->column_names);
    page_texts("target_outputs", weights->rows, weights->row_names);
    int32_t *maps = page_integers("maps", heads * PAGE_MAP_INTEGERS);
    double *entropies = page_doubles("entropies", heads);
    float *weight = page_floats("weights", heads * cells);
    page_integers("silent", heads);
    for (int64_t head = 0; head < heads; head++) {
        const double *values = weights->values + head * cells;
        const int32_t integers[PAGE_MAP_INTEGERS] = {QKV_ATTENTION_CROSS, 1, (int32_t)head + 1,
                                                     (int32_t)weights->rows, (int32_t)weights->columns};
        memcpy(maps + head * PAGE_MAP_INTEGERS, integers, sizeof integers);
        entropies[head] = page_entropy(values, weights->rows, weights->columns);
        for (int64_t i = 0; i < cells; i++) {
            bool hidden = scores && isinf(scores->values[(scores->heads ? head : 0) * cells + i]);
            *weight++ = hidden ? PAGE_HIDDEN_CELL : (float)values[i];
        }
    }
}

/* Shows scene `number`, from 0, and walks through it; seed: of its random numbers; below 0: its own. */
int EXPORT(page_scene)(int number, double seed)
{
    if (number < 0 || number >= scene_count)
        return qkv_error_set(&page_error, "there is no scene %d", number + 1);
    static struct qkv_scene scene; /* the explanation points into it */
    scene = scenes[number];
    if (seed >= 0) scene.random.seed = (int64_t)seed;
    qkv_arena_release(&arena);
    explanation = (struct qkv_explanation){0};
    if (qkv_walk_scene(QKV_FLOAT32, &scene, NULL, &arena, &explanation, &page_error)) return QKV_INVALID;
    give_maps();
    give_steps();
    return QKV_OK;
}
