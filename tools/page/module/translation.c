#include "page/module/translation.h"

#include "qkv/layers.h"
#include "qkv/scalar_math.h"

#include <stdlib.h>
#include <string.h>

enum qkv_status page_open(struct page_translation *t, const unsigned char *bytes, size_t size,
                          struct qkv_error *error)
{
    if (qkv_run_unpack(&t->run, bytes, size, error)) return QKV_INVALID;
    t->decoding = qkv_decoding_new(t->run.model);
    if (!t->decoding) return qkv_error_set(error, "out of memory");
    t->collector = qkv_attention_collector_new(t->run.model, error);
    return t->collector ? QKV_OK : QKV_INVALID;
}

void page_silence(struct page_translation *t, const int32_t *heads, int64_t count)
{
    struct qkv_model *model = t->run.model;
    for (int64_t i = 0; i < qkv_model_head_count(model); i++)
        qkv_model_ablate(model, qkv_model_head(model, i), false);
    for (int64_t i = 0; i < count; i++, heads += 3)
        qkv_model_ablate(model, (struct qkv_head){(enum qkv_attention_kind)heads[0], heads[1], heads[2]},
                         true);
}

/* ---- silent words ---- */

/* Makes room for `count` tokens; the new ones are not silent. */
static enum qkv_status reserve_words(struct page_translation *t, int64_t count, struct qkv_error *error)
{
    if (count <= t->silent_capacity) return QKV_OK;
    bool *words = realloc(t->silent_words, (size_t)count * sizeof *words);
    if (!words) return qkv_error_set(error, "out of memory");
    for (int64_t i = t->silent_capacity; i < count; i++) words[i] = false;
    t->silent_words = words;
    t->silent_capacity = count;
    return QKV_OK;
}

enum qkv_status page_silence_words(struct page_translation *t, const int32_t *words, int64_t count,
                                   struct qkv_error *error)
{
    for (int64_t i = 0; i < t->silent_capacity; i++) t->silent_words[i] = false;
    for (int64_t i = 0; i < count; i++) {
        if (words[i] < 0 || words[i] >= qkv_model_max_length(t->run.model)) continue;
        if (reserve_words(t, words[i] + 1, error)) return QKV_INVALID;
        t->silent_words[words[i]] = true;
    }
    return QKV_OK;
}

/* Whether the attention to the source takes a mask. */
static bool can_silence_words(const struct qkv_model *model)
{
    const struct qkv_attention_layers cross = qkv_model_attention(model, QKV_ATTENTION_CROSS, 1);
    return cross.multi_head || (cross.single_head && cross.single_head->score != QKV_ATTENTION_SCORE_LOCAL_P);
}

/* The mask of the sentence; NULL: none of its tokens is silent. */
static const bool *mask_of(const struct page_translation *t)
{
    bool is_any = false;
    for (int64_t i = 0; i <= t->source.tokens.count; i++) is_any = is_any || t->silent_words[i];
    return is_any && can_silence_words(t->run.model) ? t->silent_words : NULL;
}

const char *page_list(struct qkv_arena *arena, int64_t count, const char *const *texts)
{
    size_t size = 1;
    for (int64_t i = 0; i < count; i++) size += strlen(texts[i]) + 1;
    char *all = qkv_arena_allocate(arena, size), *end = all;
    for (int64_t i = 0; all && i < count; i++) {
        size_t length = strlen(texts[i]);
        memcpy(end, texts[i], length);
        end[length] = '\n';
        end += length + 1;
    }
    if (all) *end = '\0';
    return all;
}

/* ---- the attention maps ---- */

/* Copies the weights of a map; cells that its rule hides, or `masked` [columns] where it is not NULL, become PAGE_HIDDEN_CELL.
 * Returns the mean entropy of its rows. */
static double copy_map(const struct qkv_attention_map *map, const bool *masked, float *weights)
{
    double entropy = 0;
    for (int64_t row = 0; row < map->rows; row++) {
        struct qkv_visible_keys visible = {0, 0, map->columns};
        if (map->rule) visible = qkv_attention_visible(map->rule, row, map->columns);
        for (int64_t key = 0; key < map->columns; key++) {
            double weight = map->weights[row * map->columns + key];
            bool is_seen = qkv_is_visible(visible, key) && !(masked && masked[key]);
            *weights++ = is_seen ? (float)weight : PAGE_HIDDEN_CELL;
            if (weight > 0) entropy -= weight * qkv_scalar_log(weight);
        }
    }
    return map->rows ? entropy / (double)map->rows : 0;
}

static bool show_maps(struct page_translation *t, const struct qkv_attention_report *report)
{
    struct page_view *view = &t->view;
    for (int64_t i = 0; i < report->map_count; i++)
        view->weight_count += report->maps[i].rows * report->maps[i].columns;
    view->map_count = report->map_count;
    size_t count = (size_t)report->map_count;
    view->maps = qkv_arena_allocate(&t->arena, count * PAGE_MAP_INTEGERS * sizeof *view->maps);
    view->silent = qkv_arena_allocate(&t->arena, count * sizeof *view->silent);
    view->entropies = qkv_arena_allocate(&t->arena, count * sizeof *view->entropies);
    view->weights = qkv_arena_allocate(&t->arena, (size_t)view->weight_count * sizeof *view->weights);
    if (!view->maps || !view->silent || !view->entropies || !view->weights) return false;
    float *weights = view->weights;
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        int32_t *integers = view->maps + i * PAGE_MAP_INTEGERS;
        integers[0] = (int32_t)map->kind;
        integers[1] = map->layer;
        integers[2] = map->head;
        integers[3] = (int32_t)map->rows;
        integers[4] = (int32_t)map->columns;
        const struct qkv_head head = {map->kind, map->layer, map->head};
        view->silent[i] = qkv_model_is_ablated(t->run.model, head);
        view->entropies[i] =
            copy_map(map, map->kind == QKV_ATTENTION_DECODER ? NULL : t->pair.source_masked, weights);
        weights += map->rows * map->columns;
    }
    return true;
}

/* ---- the probabilities of the next words ---- */

/* Finds the most probable next words, of equal ones the one with the lower id; fewer than asked for in a tiny vocabulary. */
static int best_words(const struct qkv_next_scores *next, int32_t ids[static PAGE_NEXT_WORDS],
                      double values[static PAGE_NEXT_WORDS])
{
    int found = 0;
    for (int32_t id = 0; id < next->classes; id++) {
        double value = qkv_next_log_probability(next, 0, id);
        int place = found;
        while (place > 0 && value > values[place - 1]) place--;
        if (place == PAGE_NEXT_WORDS) continue;
        if (found < PAGE_NEXT_WORDS) found++;
        for (int i = found - 1; i > place; i--) {
            ids[i] = ids[i - 1];
            values[i] = values[i - 1];
        }
        ids[place] = id;
        values[place] = value;
    }
    return found;
}

/* Feeds the target token by token and reads the probabilities of what follows. outputs [step_count]: ids. */
static enum qkv_status show_probabilities(struct page_translation *t, const struct qkv_ids *source,
                                          const int32_t *outputs, struct qkv_error *error)
{
    struct page_view *view = &t->view;
    const size_t steps = (size_t)view->step_count;
    const char **words = qkv_arena_zeroed(&t->arena, steps * PAGE_NEXT_WORDS * sizeof *words);
    view->probabilities = qkv_arena_allocate(&t->arena, steps * sizeof *view->probabilities);
    view->next_probabilities =
        qkv_arena_zeroed(&t->arena, steps * PAGE_NEXT_WORDS * sizeof *view->next_probabilities);
    if (!words || !view->probabilities || !view->next_probabilities)
        return qkv_error_set(error, "out of memory");
    struct qkv_batch_view batch;
    if (qkv_batch_make(&t->batch, 1, source, NULL, error)) return QKV_INVALID;
    t->batch.source_masked = t->pair.source_masked;
    qkv_batch_shard(&t->batch, 0, 1, &batch);
    if (qkv_decoding_start(t->decoding, &batch, 1, view->step_count, true, error)) return QKV_INVALID;
    const int64_t sentence = 0;
    int32_t input = QKV_BEGIN;
    for (int64_t step = 0; step < view->step_count; step++) {
        int32_t ids[PAGE_NEXT_WORDS];
        double values[PAGE_NEXT_WORDS];
        const struct qkv_next_scores *next = qkv_decoding_step(t->decoding, 1, &input, &sentence, error);
        if (!next) return QKV_INVALID;
        int count = best_words(next, ids, values);
        double log_probability = qkv_next_log_probability(next, 0, outputs[step]);
        view->log_probability += log_probability;
        view->probabilities[step] = qkv_scalar_exp(log_probability);
        for (int i = 0; i < PAGE_NEXT_WORDS; i++) {
            bool is_word = i < count;
            words[step * PAGE_NEXT_WORDS + i] = is_word ? qkv_vocabulary_token(&t->run.target, ids[i]) : "";
            view->next_probabilities[step * PAGE_NEXT_WORDS + i] = is_word ? qkv_scalar_exp(values[i]) : 0;
        }
        input = outputs[step];
    }
    view->next_words = page_list(&t->arena, view->step_count * PAGE_NEXT_WORDS, words);
    return view->next_words ? QKV_OK : qkv_error_set(error, "out of memory");
}

/* ---- sentence pairs ---- */

/* Numbers the words of tokens. Tokens 0 .. known - 1 belong to word[0 .. known - 1]; a token of no word (below 0), and each
 * other token, is a word of its own. NULL when there is no memory. */
static int32_t *number_words(struct qkv_arena *arena, const int64_t *word, int64_t known, int64_t count)
{
    int32_t *numbers = qkv_arena_allocate(arena, (size_t)count * sizeof *numbers), next = -1;
    for (int64_t i = 0; numbers && i < count; i++) {
        bool continues = i > 0 && i < known && word[i] >= 0 && word[i] == word[i - 1];
        next += !continues;
        numbers[i] = next;
    }
    return numbers;
}

/* As `qkv attention --words` finds the words; false when there is no memory. */
static bool show_words(struct page_translation *t, const struct qkv_attention_pair *pair)
{
    const int64_t *target = t->target.tokens.word;
    if (t->hypotheses)
        target =
            qkv_token_words(&t->run.config.data.trg, pair->target.length, pair->target_tokens, &t->arena);
    if (!target && pair->target.length) return false;
    t->view.source_words =
        number_words(&t->arena, t->source.tokens.word, pair->source.length, t->view.source_count);
    t->view.target_words = number_words(&t->arena, target, pair->target.length, t->view.step_count);
    return t->view.source_words && t->view.target_words;
}

/* Which tokens the vocabularies know, and the ids that the steps predict; NULL when there is no memory. */
static const int32_t *show_tokens(struct page_translation *t, const struct qkv_attention_pair *pair,
                                  const struct qkv_attention_report *report)
{
    struct page_view *view = &t->view;
    view->source_count = report->source_length;
    view->step_count = report->target_length;
    view->source_tokens = page_list(&t->arena, report->source_length, report->source);
    view->target_inputs = page_list(&t->arena, report->target_length, report->target_input);
    view->target_outputs = page_list(&t->arena, report->target_length, report->target_output);
    view->known_sources =
        qkv_arena_allocate(&t->arena, (size_t)view->source_count * sizeof *view->known_sources);
    view->known_targets =
        qkv_arena_allocate(&t->arena, (size_t)view->step_count * sizeof *view->known_targets);
    int32_t *outputs = qkv_arena_allocate(&t->arena, (size_t)view->step_count * sizeof *outputs);
    if (can_silence_words(t->run.model)) {
        view->silent_sources =
            qkv_arena_allocate(&t->arena, (size_t)view->source_count * sizeof *view->silent_sources);
        if (!view->silent_sources) return NULL;
        for (int64_t i = 0; i < view->source_count; i++)
            view->silent_sources[i] = pair->source_masked && pair->source_masked[i];
    }
    if (!view->source_tokens || !view->target_inputs || !view->target_outputs || !view->known_sources ||
        !view->known_targets || !outputs)
        return NULL;
    for (int64_t i = 0; i < view->source_count; i++)
        view->known_sources[i] = i == pair->source.length || pair->source.ids[i] != QKV_UNKNOWN;
    for (int64_t i = 0; i < view->step_count; i++) {
        outputs[i] = i < pair->target.length ? pair->target.ids[i] : QKV_END;
        view->known_targets[i] = outputs[i] != QKV_UNKNOWN;
    }
    return outputs;
}

static enum qkv_status show(struct page_translation *t, const struct qkv_attention_pair *pair,
                            struct qkv_error *error)
{
    struct qkv_attention_report report;
    if (qkv_attention_collect(t->collector, 1, pair, 0, &report, error)) return QKV_INVALID;
    t->pair = *pair;
    const int32_t *outputs = show_tokens(t, pair, &report);
    if (!outputs || !show_words(t, pair) || !show_maps(t, &report))
        return qkv_error_set(error, "out of memory");
    return show_probabilities(t, &pair->source, outputs, error);
}

static enum qkv_status encode(struct page_translation *t, bool is_target, const char *text, size_t size,
                              struct qkv_error *error)
{
    const struct qkv_data_config *data = &t->run.config.data;
    if (qkv_sentence_encode(is_target ? &t->target : &t->source, is_target ? &data->trg : &data->src,
                            is_target ? &t->run.target : &t->run.source, text, size, error))
        return QKV_INVALID;
    return is_target ? QKV_OK : reserve_words(t, t->source.tokens.count + 1, error);
}

static struct qkv_attention_pair pair_of(const struct page_translation *t)
{
    return (struct qkv_attention_pair){.source = {t->source.tokens.count, t->source.ids},
                                       .source_tokens = t->source.tokens.token,
                                       .source_masked = mask_of(t)};
}

/* The sentences of the translations that were found, and their scores. */
static bool show_translations(struct page_translation *t)
{
    struct page_view *view = &t->view;
    int64_t capacity = t->hypotheses;
    const char **texts = qkv_arena_allocate(&t->arena, (size_t)capacity * sizeof *texts);
    view->scores = qkv_arena_allocate(&t->arena, (size_t)capacity * sizeof *view->scores);
    if (!texts || !view->scores) return false;
    int64_t count = 0;
    for (; count < capacity && t->translations.best[count].ids; count++) {
        const struct qkv_hypothesis *hypothesis = &t->translations.best[count];
        const char **tokens =
            qkv_vocabulary_tokens(&t->run.target, hypothesis->length, hypothesis->ids, &t->arena);
        if (!tokens) return false;
        texts[count] = qkv_detokenize(&t->run.config.data.trg, hypothesis->length, tokens, &t->arena);
        if (!texts[count]) return false;
        view->scores[count] = hypothesis->score;
    }
    view->translation_count = count;
    view->translations = page_list(&t->arena, count, texts);
    return view->translations != NULL;
}

enum qkv_status page_choose(struct page_translation *t, int64_t number, struct qkv_error *error)
{
    if (number < 0 || number >= t->hypotheses || !t->translations.best[number].ids)
        return qkv_error_set(error, "there is no translation %lld", (long long)number + 1);
    const struct qkv_hypothesis *hypothesis = &t->translations.best[number];
    const char **tokens;
    qkv_arena_reset(&t->arena);
    t->view = (struct page_view){0};
    struct qkv_attention_pair pair = pair_of(t);
    if (!show_translations(t) ||
        !(tokens = qkv_vocabulary_tokens(&t->run.target, hypothesis->length, hypothesis->ids, &t->arena)))
        return qkv_error_set(error, "out of memory");
    pair.target = (struct qkv_ids){hypothesis->length, hypothesis->ids};
    pair.target_tokens = tokens;
    pair.unfinished = !hypothesis->finished;
    return show(t, &pair, error);
}

enum qkv_status page_translate(struct page_translation *t, const char *source, size_t size, int64_t beam_size,
                               struct qkv_error *error)
{
    struct qkv_search_options options = qkv_search_options_from_config(&t->run.config.testing);
    options.beam_size = options.n_best = beam_size;
    options.skip_scores = false;
    t->hypotheses = 0;
    if (encode(t, false, source, size, error)) return QKV_INVALID;
    struct qkv_attention_pair pair = pair_of(t);
    struct qkv_batch_view batch;
    if (qkv_batch_make(&t->batch, 1, &pair.source, NULL, error)) return QKV_INVALID;
    t->batch.source_masked = pair.source_masked;
    qkv_batch_shard(&t->batch, 0, 1, &batch);
    enum qkv_status status = qkv_search(t->decoding, &batch, &options, &t->translations, error);
    if (status) return status;
    t->hypotheses = beam_size;
    return page_choose(t, 0, error);
}

enum qkv_status page_force(struct page_translation *t, const char *source, size_t source_size,
                           const char *target, size_t target_size, struct qkv_error *error)
{
    t->hypotheses = 0;
    if (encode(t, false, source, source_size, error) || encode(t, true, target, target_size, error))
        return QKV_INVALID;
    qkv_arena_reset(&t->arena);
    t->view = (struct page_view){0};
    struct qkv_attention_pair pair = pair_of(t);
    pair.target = (struct qkv_ids){t->target.tokens.count, t->target.ids};
    pair.target_tokens = t->target.tokens.token;
    return show(t, &pair, error);
}
