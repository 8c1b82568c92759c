/* What the page shows of one sentence, or of a text that a language model writes: translations, the probabilities of words, and
 * all attention maps. */
#include "page/module/module.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "data/tokenizer.h"
#include "graph/attention_rule.h"
#include "models/network.h"
#include "qkv/layers.h"
#include "report/collect.h"
#include "run/packed_run.h"

#include <stdlib.h>
#include <string.h>

struct page_translation page_translation;

static struct page_translation *const t = &page_translation;
static struct qkv_model *model;
static const int32_t *silent; /* numbers of silent tokens, from 0; some may be beyond the sentence */
static int64_t silent_count;

static struct qkv_sampling_options sampling = {.temperature = 1, .top_p = 1};

enum { NEXT_WORDS = 5 }; /* most probable next words that are listed for each step */

enum qkv_status page_translation_begin(void)
{
    model = t->run.model;
    t->decoding = page_sure(qkv_decoding_new(model));
    t->collector = qkv_attention_collector_new(model, &page_error);
    return t->collector ? QKV_OK : QKV_INVALID;
}

void page_translation_end(void)
{
    qkv_attention_collector_free(t->collector);
    qkv_decoding_free(t->decoding);
    qkv_translations_release(&t->translations);
    qkv_sentence_release(&t->source);
    qkv_sentence_release(&t->target);
    qkv_batch_release(&t->batch);
    qkv_arena_release(&t->arena);
    *t = (struct page_translation){.run = t->run};
}

/* The block is a packed run (run/packed_run.h). */
int EXPORT(page_open_model)(size_t size)
{
    if (qkv_run_unpack(&t->run, (const unsigned char *)page_bytes, size, &page_error)) return QKV_INVALID;
    return page_translation_begin();
}

/* What the page says of the model: the words that it reads, the number of words among which it chooses, and its parameters. Those
 * of the sentence that is shown stay. */
int EXPORT(page_facts)(void)
{
    const struct qkv_vocabulary *words = &t->run.source;
    const struct qkv_parameters *parameters = &model->parameters;
    const int64_t count = parameters->count;
    const char **texts = page_sure(malloc((size_t)(words->size + count) * sizeof *texts));
    for (int32_t id = 0; id < words->size; id++) texts[id] = qkv_vocabulary_token(words, id);
    page_texts("vocabulary", words->size, texts);
    *page_integers("choices", 1) = t->run.target.size;
    int32_t *counts = page_integers("parameter_counts", count);
    for (int64_t i = 0; i < count; i++) {
        texts[i] = parameters->list[i]->name;
        counts[i] = (int32_t)parameters->list[i]->count;
    }
    page_texts("parameter_names", count, texts);
    free(texts);
    return QKV_OK;
}

/* ---- the moment of training whose parameters later calls use ---- */

/* Those that qkv_run_pack_parameters packed into the block. Without a block the random ones from which training began, or those
 * of the packed run. */
int EXPORT(page_moment)(size_t size, int is_random)
{
    struct qkv_parameters *parameters = &model->parameters;
    const size_t bytes = (size_t)parameters->elements * sizeof(float);
    if (!t->learned) {
        t->learned = page_sure(malloc(bytes));
        memcpy(t->learned, parameters->values, bytes);
    }
    if (size) return qkv_run_unpack_parameters(&t->run, (const unsigned char *)page_bytes, size, &page_error);
    if (is_random)
        qkv_parameters_initialize(parameters, (uint64_t)t->run.config.training.random_seed);
    else
        memcpy(parameters->values, t->learned, bytes);
    parameters->changes++;
    return QKV_OK;
}

/* ---- sampling and silence ---- */

/* The temperature of the probabilities that later calls show, and the seed with which they draw words; below 0: they search. */
int EXPORT(page_sample)(double temperature, double seed)
{
    sampling = (struct qkv_sampling_options){seed >= 0, temperature, 0, 1, seed >= 0 ? (uint64_t)seed : 0};
    return QKV_OK;
}

/* Silences these heads and tokens of the source, or of a text, in the calls that follow, and no others. The block holds kind,
 * layer and head of each head, then numbers of tokens. What the model or a sentence does not have is left out. */
int EXPORT(page_silence)(size_t heads_size, size_t words_size)
{
    static int32_t *words;
    const int32_t *heads = (const int32_t *)(const void *)page_bytes;
    for (int64_t i = 0; i < qkv_model_head_count(model); i++)
        qkv_model_ablate(model, qkv_model_head(model, i), false);
    for (const int32_t *head = heads; (const char *)head < page_bytes + heads_size; head += 3)
        qkv_model_ablate(model, (struct qkv_head){(enum qkv_attention_kind)head[0], head[1], head[2]}, true);
    free(words);
    silent = words = page_sure(malloc(words_size + 1));
    silent_count = (int64_t)(words_size / sizeof *words);
    memcpy(words, page_bytes + heads_size, words_size);
    return QKV_OK;
}

/* Whether the attention to the source, or to the text, takes a mask. */
static bool can_silence_words(void)
{
    const struct qkv_attention_layers layers =
        qkv_model_attention(model, t->run.sides.has_source ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER, 1);
    return layers.multi_head ||
           (layers.single_head && layers.single_head->score != QKV_ATTENTION_SCORE_LOCAL_P);
}

/* The mask of `before` tokens and `count` words; NULL: none of them is silent. Shows which words are, if they can be. */
static const bool *mask_of(int64_t before, int64_t count)
{
    int32_t *is_silent = page_integers("silent_words", can_silence_words() ? count : 0);
    bool *mask = NULL;
    for (int64_t i = 0; i < silent_count && can_silence_words(); i++) {
        if (silent[i] >= count) continue;
        if (!mask) mask = page_sure(qkv_arena_zeroed(&t->arena, (size_t)(before + count)));
        mask[before + silent[i]] = is_silent[silent[i]] = true;
    }
    return mask;
}

/* ---- the attention maps ---- */

double page_entropy(const double *weights, int64_t rows, int64_t columns)
{
    double entropy = 0;
    for (int64_t i = 0; i < rows * columns; i++)
        if (weights[i] > 0) entropy -= weights[i] * qkv_scalar_log(weights[i]);
    return rows ? entropy / (double)rows : 0;
}

/* Copies the weights of a map; cells that its rule hides, or `masked` [columns] where it is not NULL, become
 * PAGE_HIDDEN_CELL. */
static void copy_map(const struct qkv_attention_map *map, const bool *masked, float *weights)
{
    for (int64_t row = 0; row < map->rows; row++) {
        struct qkv_visible_keys visible = {0, 0, map->columns};
        if (map->rule) visible = qkv_attention_visible(map->rule, row, map->columns);
        for (int64_t key = 0; key < map->columns; key++) {
            bool is_seen = qkv_is_visible(visible, key) && !(masked && masked[key]);
            *weights++ = is_seen ? (float)map->weights[row * map->columns + key] : PAGE_HIDDEN_CELL;
        }
    }
}

static void show_maps(const struct qkv_attention_report *report)
{
    int64_t count = report->map_count, cells = 0;
    for (int64_t i = 0; i < count; i++) cells += report->maps[i].rows * report->maps[i].columns;
    int32_t *maps = page_integers("maps", count * PAGE_MAP_INTEGERS),
            *is_silent = page_integers("silent", count);
    double *entropies = page_doubles("entropies", count);
    float *weights = page_floats("weights", cells);
    for (int64_t i = 0; i < count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        const int32_t integers[PAGE_MAP_INTEGERS] = {(int32_t)map->kind, map->layer, map->head,
                                                     (int32_t)map->rows, (int32_t)map->columns};
        memcpy(maps + i * PAGE_MAP_INTEGERS, integers, sizeof integers);
        is_silent[i] = qkv_model_is_ablated(model, (struct qkv_head){map->kind, map->layer, map->head});
        entropies[i] = page_entropy(map->weights, map->rows, map->columns);
        copy_map(map, map->kind == QKV_ATTENTION_DECODER ? t->pair.target_masked : t->pair.source_masked,
                 weights);
        weights += map->rows * map->columns;
    }
}

/* ---- the probabilities of the next words ---- */

/* Finds the most probable next words, of equal ones the one with the lower id; fewer than asked for in a tiny vocabulary. */
static int best_words(const struct qkv_next_scores *next, int32_t ids[static NEXT_WORDS],
                      double values[static NEXT_WORDS])
{
    int found = 0;
    for (int32_t id = 0; id < next->classes; id++) {
        double value = qkv_next_log_probability(next, 0, id);
        int place = found;
        while (place > 0 && value > values[place - 1]) place--;
        if (place == NEXT_WORDS) continue;
        if (found < NEXT_WORDS) found++;
        for (int i = found - 1; i > place; i--) {
            ids[i] = ids[i - 1];
            values[i] = values[i - 1];
        }
        ids[place] = id;
        values[place] = value;
    }
    return found;
}

static const char *word_of(int32_t id)
{
    return page_sure((char *)qkv_token_shown(qkv_vocabulary_token(&t->run.target, id), &t->arena));
}

/* p^(1 / temperature), which is divided by its sum over all tokens to be a probability again. */
static double tempered(double log_probability)
{
    return qkv_scalar_exp(log_probability / sampling.temperature);
}

/* Begins a decoding of the source, or of a text. */
static enum qkv_status start_batch(struct qkv_batch_view *batch)
{
    if (qkv_batch_make(&t->batch, 1, t->run.sides.has_source ? &t->pair.source : NULL, NULL, &page_error))
        return QKV_INVALID;
    t->batch.source_masked = t->pair.source_masked;
    t->batch.target_masked = t->pair.target_masked;
    qkv_batch_shard(&t->batch, 0, 1, batch);
    return QKV_OK;
}

/* Feeds the target token by token, and reads the probabilities of what follows. outputs [steps]: ids. */
static enum qkv_status show_probabilities(int64_t steps, const int32_t *outputs)
{
    const char **words = page_sure(qkv_arena_zeroed(&t->arena, (size_t)(steps * NEXT_WORDS) * sizeof *words));
    double *probabilities = page_doubles("probabilities", steps),
           *log_probability = page_doubles("log_probability", 1),
           *next_probabilities = page_doubles("next_probabilities", steps * NEXT_WORDS);
    struct qkv_batch_view batch;
    if (start_batch(&batch) || qkv_decoding_start(t->decoding, &batch, 1, steps, true, &page_error))
        return QKV_INVALID;
    const int64_t sentence = 0;
    int32_t input = qkv_pair_first(&t->pair);
    for (int64_t step = 0; step < steps; step++) {
        int32_t ids[NEXT_WORDS];
        double values[NEXT_WORDS];
        const struct qkv_next_scores *next =
            qkv_decoding_step(t->decoding, 1, &input, &sentence, &page_error);
        if (!next) return QKV_INVALID;
        int count = best_words(next, ids, values);
        double value = qkv_next_log_probability(next, 0, outputs[step]), sum = 0;
        for (int32_t id = 0; id < next->classes; id++) sum += tempered(qkv_next_log_probability(next, 0, id));
        *log_probability += value;
        probabilities[step] = tempered(value) / sum;
        for (int i = 0; i < NEXT_WORDS; i++) {
            words[step * NEXT_WORDS + i] = i < count ? word_of(ids[i]) : "";
            if (i < count) next_probabilities[step * NEXT_WORDS + i] = tempered(values[i]) / sum;
        }
        input = outputs[step];
    }
    page_texts("next_words", steps * NEXT_WORDS, words);
    return QKV_OK;
}

/* ---- sentence pairs ---- */

/* Numbers the words of tokens, as `qkv attention --words` finds them. Tokens 0 .. known - 1 belong to word[0 .. known - 1];
 * a token of no word (below 0), and each other token, is a word of its own. */
static void number_words(const char *name, const int64_t *word, int64_t known, int64_t count)
{
    int32_t *numbers = page_integers(name, count), next = -1;
    for (int64_t i = 0; i < count; i++) {
        bool continues = i > 0 && i < known && word[i] >= 0 && word[i] == word[i - 1];
        next += !continues;
        numbers[i] = next;
    }
}

/* Shows the tokens, and which of them the vocabularies know. Returns the ids that the steps predict. */
static const int32_t *show_tokens(const struct qkv_attention_report *report, const int64_t *target_words)
{
    const struct qkv_attention_pair *pair = &t->pair;
    const int64_t sources = report->source_length, steps = report->target_length;
    page_texts("source_tokens", sources, report->source);
    page_texts("target_inputs", steps, report->target_input);
    page_texts("target_outputs", steps, report->target_output);
    number_words("source_words", t->source.tokens.word, pair->source.length, sources);
    number_words("target_words", target_words, pair->target.length, steps);
    int32_t *known = page_integers("known_sources", sources);
    for (int64_t i = 0; i < sources; i++)
        known[i] = i == pair->source.length || pair->source.ids[i] != QKV_UNKNOWN;
    known = page_integers("known_targets", steps);
    int32_t *outputs = page_sure(qkv_arena_allocate(&t->arena, (size_t)steps * sizeof *outputs));
    for (int64_t i = 0; i < steps; i++) {
        outputs[i] = i < pair->target.length ? pair->target.ids[i] : QKV_END;
        known[i] = outputs[i] != QKV_UNKNOWN;
    }
    return outputs;
}

/* Shows the pair. target_words [target.length]: the word of each token. */
static enum qkv_status show(const int64_t *target_words)
{
    struct qkv_attention_report report;
    if (qkv_attention_collect(t->collector, 1, &t->pair, 0, &report, &page_error)) return QKV_INVALID;
    const int32_t *outputs = show_tokens(&report, target_words);
    show_maps(&report);
    return show_probabilities(report.target_length, outputs);
}

/* The word of each token of a target that the model has chosen. */
static const int64_t *words_of(int64_t count, const char *const *tokens)
{
    return page_sure((int64_t *)qkv_token_words(&t->run.config.data.trg, count, tokens, &t->arena));
}

/* ---- the text of a language model ---- */

/* The text under way, after the token before it: <s>, or the </s> of a line before. Arrays in the arena. */
static struct {
    int64_t count;
    int32_t *ids;
    const char **tokens;
} text;

static void add_token(void *context, int32_t id)
{
    (void)context;
    text.ids[text.count] = id;
    text.tokens[text.count++] = qkv_vocabulary_token(&t->run.target, id);
}

/* Reads the beginning of the text; </s> ends each line of running text but the last. */
static enum qkv_status read_text(const char *line, const char *end, bool has_lines)
{
    const char *stop = has_lines ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    if (qkv_sentence_encode(&t->target, &t->run.config.data.trg, &t->run.target, line,
                            (size_t)((stop ? stop : end) - line), &page_error))
        return QKV_INVALID;
    for (int64_t i = 0; i < t->target.tokens.count; i++) {
        add_token(NULL, t->target.ids[i]);
        text.tokens[text.count - 1] = page_sure(qkv_arena_string(&t->arena, t->target.tokens.token[i]));
    }
    if (!stop) return QKV_OK;
    add_token(NULL, QKV_END);
    return read_text(stop + 1, end, has_lines);
}

/* Continues the text of the block by at most `length` tokens, and shows as much of its end as the model reads (qkv_complete). */
static enum qkv_status write_text(size_t size, int64_t length)
{
    const struct qkv_data_config *data = &t->run.config.data;
    const bool runs_on = t->run.sides.runs_on;
    const int64_t room = (int64_t)size + 2 + length;
    int64_t begin = 0;
    qkv_arena_reset(&t->arena);
    text.count = 0;
    text.ids = page_sure(qkv_arena_allocate(&t->arena, (size_t)room * sizeof *text.ids));
    text.tokens = page_sure(qkv_arena_allocate(&t->arena, (size_t)room * sizeof *text.tokens));
    add_token(NULL, runs_on ? QKV_END : QKV_BEGIN);
    if (read_text(page_bytes, page_bytes + size, runs_on)) return QKV_INVALID;
    const int64_t given = text.count;
    const bool *masked = mask_of(1, given - 1 + length);
    const struct qkv_completion completion = {.model = model,
                                              .runs_on = runs_on,
                                              .window = data->context,
                                              .max_length = length,
                                              .sampling = sampling,
                                              .masked = masked,
                                              .begin = &begin,
                                              .token = add_token};
    if (qkv_complete(&completion, (struct qkv_ids){given - 1, text.ids + 1}, &page_error)) return QKV_INVALID;
    t->pair = (struct qkv_attention_pair){
        .target = {text.count - begin - 1, text.ids + begin + 1},
        .target_tokens = text.tokens + begin + 1,
        .target_masked = masked ? masked + begin : NULL,
        .unfinished = text.count - given == length || text.count >= t->decoding->max_length,
        .before = runs_on ? text.ids + begin : NULL,
        .before_token = runs_on ? text.tokens[begin] : NULL,
    };
    *page_integers("before", 1) = (int32_t)begin;
    *page_integers("given", 1) = (int32_t)(given > begin ? given - begin - 1 : 0);
    page_texts("translations", 1, /* in which </s> ends lines */
               (const char *const[]){
                   page_sure(qkv_detokenize(&data->trg, text.count - 1, text.tokens + 1, &t->arena))});
    return show(words_of(t->pair.target.length, t->pair.target_tokens));
}

/* Begins the pair with a source sentence, whose unknown words are read as the training text was written, as at the prompt of
 * `qkv translate`; shows the sentence as it was read if that is another spelling. */
static enum qkv_status read_source(const char *text, size_t size)
{
    t->source.as_trained = true;
    if (qkv_sentence_encode(&t->source, &t->run.config.data.src, &t->run.source, text, size, &page_error))
        return QKV_INVALID;
    page_texts("read_as", t->source.respelled != NULL, (const char *const[]){t->source.respelled});
    qkv_arena_reset(&t->arena);
    t->pair = (struct qkv_attention_pair){.source = {t->source.tokens.count, t->source.ids},
                                          .source_tokens = t->source.tokens.token,
                                          .source_masked = mask_of(0, t->source.tokens.count + 1)};
    return QKV_OK;
}

static const char **tokens_of(const struct qkv_hypothesis *hypothesis)
{
    return page_sure(qkv_vocabulary_tokens(&t->run.target, hypothesis->length, hypothesis->ids, &t->arena));
}

/* The sentences of the translations that were found, and their scores. Returns their number. */
static int64_t show_translations(int64_t capacity)
{
    const struct qkv_hypothesis *best = t->translations.best;
    int64_t count = 0;
    while (count < capacity && best[count].ids) count++;
    const char **texts = page_sure(qkv_arena_allocate(&t->arena, (size_t)count * sizeof *texts));
    double *scores = page_doubles("scores", count);
    for (int64_t i = 0; i < count; i++) {
        texts[i] = page_sure(
            qkv_detokenize(&t->run.config.data.trg, best[i].length, tokens_of(&best[i]), &t->arena));
        scores[i] = best[i].score;
    }
    page_texts("translations", count, texts);
    return count;
}

/* Translates a sentence by greedy search (`beam_size` 1) or beam search, with as many translations as hypotheses, and shows one
 * of them, from 0: its score is a log-probability / length penalty. A language model writes `length` tokens after the block. */
int EXPORT(page_translate)(size_t size, int beam_size, int number, int length)
{
    struct qkv_search_options options = qkv_search_options_from_config(&t->run.config.testing);
    options.beam_size = options.n_best = sampling.enabled ? 1 : beam_size;
    options.skip_scores = false;
    options.sampling = sampling;
    options.numbers = (const int64_t[]){1}; /* as the first line of `qkv translate` */
    struct qkv_batch_view batch;
    if (!t->run.sides.has_source) return write_text(size, length);
    if (read_source(page_bytes, size) || start_batch(&batch) ||
        qkv_search(t->decoding, &batch, &options, &t->translations, &page_error))
        return QKV_INVALID;
    if (number < 0 || number >= show_translations(options.n_best))
        return qkv_error_set(&page_error, "there is no translation %d", number + 1);
    const struct qkv_hypothesis *hypothesis = &t->translations.best[number];
    t->pair.target = (struct qkv_ids){hypothesis->length, hypothesis->ids};
    t->pair.target_tokens = tokens_of(hypothesis);
    t->pair.unfinished = !hypothesis->finished;
    return show(words_of(hypothesis->length, t->pair.target_tokens));
}

/* Shows a translation that is given, in place of one that is searched for. It follows the source in the block. */
int EXPORT(page_force)(size_t source_size, size_t target_size)
{
    if (read_source(page_bytes, source_size) ||
        qkv_sentence_encode(&t->target, &t->run.config.data.trg, &t->run.target, page_bytes + source_size,
                            target_size, &page_error))
        return QKV_INVALID;
    t->pair.target = (struct qkv_ids){t->target.tokens.count, t->target.ids};
    t->pair.target_tokens = t->target.tokens.token;
    return show(t->target.tokens.word);
}
