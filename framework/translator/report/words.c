/* Converts attention between tokens to attention between words, and rows of weights to distributions. */
#include "report/words.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "data/bpe.h"
#include "report/writer.h"

/* ---- rows of weights ---- */

double qkv_row_total(const double *row, int64_t count)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++) total += row[i];
    return total;
}

double qkv_row_entropy(const double *row, int64_t count, double total)
{
    double entropy = 0;
    for (int64_t i = 0; i < count; i++) {
        double share = row[i] / total;
        if (share > 0) entropy -= share * qkv_scalar_log(share);
    }
    return entropy;
}

bool qkv_map_normalize(struct qkv_attention_map *map, struct qkv_arena *arena)
{
    double *weights = qkv_arena_array(arena, map->rows * map->columns, sizeof *weights);
    for (int64_t r = 0; weights && r < map->rows; r++) {
        const double *row = map->weights + r * map->columns;
        double sum = qkv_row_total(row, map->columns);
        for (int64_t c = 0; c < map->columns; c++) weights[r * map->columns + c] = sum > 0 ? row[c] / sum : 0;
    }
    map->weights = weights;
    return weights;
}

enum qkv_status qkv_attention_normalize(const struct qkv_attention_report *report, struct qkv_arena *arena,
                                        struct qkv_attention_report *normalized, struct qkv_error *error)
{
    struct qkv_attention_map *maps = qkv_arena_array(arena, report->map_count, sizeof *maps);
    bool complete = maps;
    for (int64_t i = 0; complete && i < report->map_count; i++) {
        maps[i] = report->maps[i];
        complete = qkv_map_normalize(&maps[i], arena);
    }
    if (!complete) return qkv_no_memory(error);
    *normalized = *report;
    normalized->maps = maps;
    return QKV_OK;
}

/* ---- merging ---- */

void qkv_merge_weights(const double *weights, const struct word_labels *rows,
                       const struct word_labels *columns, double *merged)
{
    for (int64_t i = 0; i < rows->words * columns->words; i++) merged[i] = 0;
    for (int64_t r = 0; r < rows->tokens; r++) {
        int64_t word = rows->word[r], parts = 0;
        if (word < 0) continue;
        for (int64_t other = 0; other < rows->tokens; other++) parts += rows->word[other] == word;
        double *sums = merged + word * columns->words;
        for (int64_t c = 0; c < columns->tokens; c++)
            if (columns->word[c] >= 0)
                sums[columns->word[c]] += weights[r * columns->tokens + c] / (double)parts;
    }
}

/* ---- grouping tokens ---- */

/* The texts of tokens without spaces between, and without their marks if `is_piece`; NULL when memory runs out. */
static const char *join(const char *const *tokens, int64_t count, bool is_piece, struct qkv_arena *arena)
{
    size_t size = 1;
    if (!is_piece) return tokens[0];
    for (int64_t i = 0; i < count; i++) size += strlen(tokens[i]);
    char *text = qkv_arena_allocate(arena, size), *end = text;
    for (int64_t i = 0; text && i < count; i++) {
        size_t length = qkv_length_in_word(tokens[i]);
        memcpy(end, tokens[i], length);
        end += length;
    }
    if (text) *end = '\0';
    return text;
}

bool qkv_group_words(const char *const *tokens, const int64_t *word, int64_t count, struct qkv_arena *arena,
                     struct named_words *grouped)
{
    int64_t *labels = qkv_arena_array(arena, count, sizeof *labels), words = 0;
    const char **names = qkv_arena_array(arena, count, sizeof *names);
    bool is_cut = qkv_tokens_without_end(tokens, count) == count;
    if (!labels || !names) return false;
    for (int64_t first = 0, end; first < count; first = end, words++) {
        for (end = first + 1; end < count && word[end] >= 0 && word[end] == word[first]; end++) continue;
        for (int64_t i = first; i < end; i++) labels[i] = words;
        /* The pieces of a word; or what was cut before the word was complete: the last piece, and the one before it, because
         * the last one of the output stays apart. Other tokens may be spelled like pieces. */
        bool is_piece = end - first > 1 || (is_cut && end >= count - 1);
        names[words] = join(tokens + first, end - first, is_piece, arena);
        if (!names[words]) return false;
    }
    *grouped = (struct named_words){{labels, count, words}, names};
    return true;
}

int64_t qkv_tokens_without_end(const char *const *tokens, int64_t count)
{
    return count > 0 && !strcmp(tokens[count - 1], "</s>") ? count - 1 : count;
}

/* The words of `count` rows or columns, in the arena: those of first .. first + known - 1 are word[0 .. known - 1], or if
 * `word` is NULL, the numbers from 0 if `numbered`; all others -1. NULL when memory runs out. */
static int64_t *spread_words(const int64_t *word, int64_t first, int64_t known, int64_t count, bool numbered,
                             struct qkv_arena *arena)
{
    int64_t *all = qkv_arena_array(arena, count, sizeof *all);
    for (int64_t i = 0; all && i < count; i++) {
        int64_t token = i - first;
        bool inside = token >= 0 && token < known;
        all[i] = inside && word ? word[token] : inside && numbered ? token : -1;
    }
    return all;
}

/* Groups tokens into words. Tokens first .. first + known - 1 belong to word[0 .. known - 1]; each other token is a word of its
 * own. word NULL: each token is a word of its own. */
static bool group(const char *const *tokens, int64_t count, const int64_t *word, int64_t first, int64_t known,
                  struct qkv_arena *arena, struct named_words *grouped)
{
    const int64_t *all = spread_words(word, first, known, count, false, arena);
    return all && qkv_group_words(tokens, all, count, arena, grouped);
}

bool qkv_report_row_words(const struct qkv_attention_report *report, struct qkv_attention_words words,
                          enum qkv_attention_kind kind, struct qkv_arena *arena, struct named_words *grouped)
{
    if (kind != QKV_ATTENTION_CROSS) return qkv_report_column_words(report, words, kind, arena, grouped);
    int64_t count = report->target_length;
    return group(report->target_output, count, words.target, 0, count - 1, arena, grouped);
}

bool qkv_report_column_words(const struct qkv_attention_report *report, struct qkv_attention_words words,
                             enum qkv_attention_kind kind, struct qkv_arena *arena,
                             struct named_words *grouped)
{
    if (kind == QKV_ATTENTION_DECODER)
        return group(report->target_input, report->target_length, words.target, 1, report->target_length - 1,
                     arena, grouped);
    int64_t known = qkv_tokens_without_end(report->source, report->source_length);
    return group(report->source, report->source_length, words.source, 0, known, arena, grouped);
}

/* ---- reports ---- */

static bool merge(const struct qkv_attention_report *report, struct qkv_attention_words words,
                  struct qkv_arena *arena, struct qkv_attention_report *merged)
{
    struct named_words source, input, output;
    struct qkv_attention_map *maps = qkv_arena_array(arena, report->map_count, sizeof *maps);
    if (!maps || !qkv_report_column_words(report, words, QKV_ATTENTION_ENCODER, arena, &source) ||
        !qkv_report_column_words(report, words, QKV_ATTENTION_DECODER, arena, &input) ||
        !qkv_report_row_words(report, words, QKV_ATTENTION_CROSS, arena, &output))
        return false;
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        const struct word_labels *rows = map->kind == QKV_ATTENTION_ENCODER   ? &source.labels
                                         : map->kind == QKV_ATTENTION_DECODER ? &input.labels
                                                                              : &output.labels,
                                 *columns =
                                     map->kind == QKV_ATTENTION_DECODER ? &input.labels : &source.labels;
        double *weights = qkv_arena_array(arena, rows->words * columns->words, sizeof *weights);
        if (!weights) return false;
        qkv_merge_weights(map->weights, rows, columns, weights);
        maps[i] = *map;
        /* Words follow each other as their tokens do, but a window counts tokens. */
        if (map->rule && map->rule->window && (map->rows != rows->words || map->columns != columns->words))
            maps[i].rule = NULL;
        maps[i].weights = weights;
        maps[i].rows = rows->words;
        maps[i].columns = columns->words;
    }
    *merged = *report; /* `merged` may be the same struct as `report` */
    merged->source = source.names;
    merged->source_length = source.labels.words;
    merged->target_input = input.names;
    merged->target_output = output.names;
    merged->target_length = output.labels.words;
    merged->next_probability = merged->baseline = NULL;
    merged->step_labels = NULL;
    merged->maps = maps;
    return true;
}

enum qkv_status qkv_attention_merge_words(const struct qkv_attention_report *report,
                                          struct qkv_attention_words words, struct qkv_arena *arena,
                                          struct qkv_attention_report *merged, struct qkv_error *error)
{
    if (qkv_report_check_tokens(report, error)) return QKV_INVALID;
    if (merge(report, words, arena, merged)) return QKV_OK;
    return qkv_no_memory(error);
}

/* ---- word maps ---- */

/* Counts the words of `tokens` tokens. Returns -1, with an error, if the word of a token is out of range: there are at most as
 * many words as tokens. word NULL: each token is a word. */
static int64_t count_words(const int64_t *word, int64_t tokens, const char *side, struct qkv_error *error)
{
    int64_t words = word ? 0 : tokens;
    for (int64_t i = 0; word && i < tokens; i++) {
        if (word[i] < -1 || word[i] >= tokens) {
            qkv_error_set(error, "%s token %lld belongs to word %lld, but words are 0 to %lld, or -1: none",
                          side, (long long)i, (long long)word[i], (long long)tokens - 1);
            return -1;
        }
        if (word[i] >= words) words = word[i] + 1;
    }
    return words;
}

enum qkv_status qkv_word_map_make(const struct qkv_attention_report *report, struct qkv_attention_words words,
                                  const struct qkv_attention_map *map, enum qkv_alignment_reading reading,
                                  struct qkv_arena *arena, struct qkv_word_map *made, struct qkv_error *error)
{
    int64_t columns = report->source_length, rows = report->target_length,
            source_tokens = qkv_tokens_without_end(report->source, columns),
            target_tokens = qkv_tokens_without_end(report->target_output, rows);
    made->sources = count_words(words.source, source_tokens, "source", error);
    made->targets = made->sources < 0 ? -1 : count_words(words.target, target_tokens, "target", error);
    if (made->targets < 0) return QKV_INVALID;
    /* Step t predicts token t, and reads token t - 1. */
    const int64_t *column = spread_words(words.source, 0, source_tokens, columns, true, arena),
                  *row = spread_words(words.target, reading == QKV_READING_READ, target_tokens, rows, true,
                                      arena);
    made->weights = qkv_arena_array(arena, made->targets * made->sources, sizeof *made->weights);
    if (!column || !row || !made->weights) return qkv_no_memory(error);
    qkv_merge_weights(map->weights, &(struct word_labels){row, rows, made->targets},
                      &(struct word_labels){column, columns, made->sources}, made->weights);
    return QKV_OK;
}

enum qkv_status qkv_count_map_links(const struct qkv_attention_report *report,
                                    struct qkv_attention_words words, const struct qkv_attention_map *map,
                                    const struct qkv_alignment *gold, struct qkv_arena *arena,
                                    struct qkv_alignment_result *result, struct qkv_error *error)
{
    struct qkv_word_map of_words;
    struct qkv_alignment drawn;
    if (qkv_word_map_make(report, words, map, result->reading, arena, &of_words, error) ||
        qkv_alignment_check(gold, (struct qkv_word_counts){of_words.sources, of_words.targets}, error) ||
        qkv_alignment_draw(&of_words, NULL, result->drawing, 0, arena, &drawn, error))
        return QKV_INVALID;
    qkv_alignment_count(result, &drawn, gold);
    return QKV_OK;
}
