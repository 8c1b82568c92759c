/* Converts attention between tokens to attention between words. */
#include "report/words.h"

#include "qkv/bpe.h"
#include "report/writer.h"

#include <string.h>

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

/* The length of a piece of byte-pair encoding without the @@, which marks that the word continues. */
static size_t length_in_word(const char *token)
{
    size_t length = strlen(token), mark = sizeof QKV_BPE_CONTINUES - 1;
    bool continues = length > mark && !strcmp(token + length - mark, QKV_BPE_CONTINUES);
    return continues ? length - mark : length;
}

/* The texts of tokens without spaces between, and without their marks if `is_piece`; NULL when memory runs out. */
static const char *join(const char *const *tokens, int64_t count, bool is_piece, struct qkv_arena *arena)
{
    size_t size = 1;
    if (!is_piece) return tokens[0];
    for (int64_t i = 0; i < count; i++) size += strlen(tokens[i]);
    char *text = qkv_arena_allocate(arena, size), *end = text;
    for (int64_t i = 0; text && i < count; i++) {
        size_t length = length_in_word(tokens[i]);
        memcpy(end, tokens[i], length);
        end += length;
    }
    if (text) *end = '\0';
    return text;
}

bool qkv_group_words(const char *const *tokens, const int64_t *word, int64_t count, struct qkv_arena *arena,
                     struct named_words *grouped)
{
    int64_t *labels = qkv_arena_allocate(arena, (size_t)count * sizeof *labels), words = 0;
    const char **names = qkv_arena_allocate(arena, (size_t)count * sizeof *names);
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

/* Groups tokens into words. Tokens first .. first + known - 1 belong to word[0 .. known - 1]; each other token is a word of its
 * own. word NULL: each token is a word of its own. */
static bool group(const char *const *tokens, int64_t count, const int64_t *word, int64_t first, int64_t known,
                  struct qkv_arena *arena, struct named_words *grouped)
{
    int64_t *all = qkv_arena_allocate(arena, (size_t)count * sizeof *all);
    if (!all) return false;
    for (int64_t i = 0; i < count; i++) {
        bool inside = word && i >= first && i - first < known;
        all[i] = inside ? word[i - first] : -1;
    }
    return qkv_group_words(tokens, all, count, arena, grouped);
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

static bool merge_map(struct qkv_attention_map *map, const struct word_labels *rows,
                      const struct word_labels *columns, struct qkv_arena *arena)
{
    double *weights = qkv_arena_allocate(arena, (size_t)(rows->words * columns->words) * sizeof *weights);
    if (!weights) return false;
    qkv_merge_weights(map->weights, rows, columns, weights);
    /* Words follow each other as their tokens do, but a window counts tokens. */
    if (map->rule && map->rule->window && (map->rows != rows->words || map->columns != columns->words))
        map->rule = NULL;
    map->weights = weights;
    map->rows = rows->words;
    map->columns = columns->words;
    return true;
}

static bool merge(const struct qkv_attention_report *report, struct qkv_attention_words words,
                  struct qkv_arena *arena, struct qkv_attention_report *merged)
{
    struct named_words source, input, output;
    struct qkv_attention_map *maps = qkv_arena_allocate(arena, (size_t)report->map_count * sizeof *maps);
    if (!maps || !qkv_report_column_words(report, words, QKV_ATTENTION_ENCODER, arena, &source) ||
        !qkv_report_column_words(report, words, QKV_ATTENTION_DECODER, arena, &input) ||
        !qkv_report_row_words(report, words, QKV_ATTENTION_CROSS, arena, &output))
        return false;
    for (int64_t i = 0; i < report->map_count; i++) {
        enum qkv_attention_kind kind = report->maps[i].kind;
        const struct named_words *rows = kind == QKV_ATTENTION_ENCODER   ? &source
                                         : kind == QKV_ATTENTION_DECODER ? &input
                                                                         : &output,
                                 *columns = kind == QKV_ATTENTION_DECODER ? &input : &source;
        maps[i] = report->maps[i];
        if (!merge_map(&maps[i], &rows->labels, &columns->labels, arena)) return false;
    }
    *merged = *report; /* `merged` may be the same struct as `report` */
    merged->source = source.names;
    merged->source_length = source.labels.words;
    merged->target_input = input.names;
    merged->target_output = output.names;
    merged->target_length = output.labels.words;
    merged->maps = maps;
    return true;
}

enum qkv_status qkv_attention_merge_words(const struct qkv_attention_report *report,
                                          struct qkv_attention_words words, struct qkv_arena *arena,
                                          struct qkv_attention_report *merged, struct qkv_error *error)
{
    if (qkv_report_check_tokens(report, error)) return QKV_INVALID;
    if (merge(report, words, arena, merged)) return QKV_OK;
    return qkv_error_set(error, "out of memory for attention between words");
}
